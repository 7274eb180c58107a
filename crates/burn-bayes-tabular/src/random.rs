//! Random number generators from noise streams.

use burn_bayes::Noise;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};

/// The generator of a stream. (`Noise::seed` is the same for all streams of a seed.)
pub fn generator(noise: Noise) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(noise.uniform().to_bits())
}

/// A random permutation of the numbers below `count`.
pub fn shuffled(count: usize, noise: Noise) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut generator(noise));
    order
}

/// Initial weights of a layer, uniform on ±1/√inputs. This is Burn's default, but with an explicit
/// generator, because Burn's is shared by all threads.
pub fn first_weights(inputs: usize, count: usize, generator: &mut impl Rng) -> Vec<f32> {
    let bound = (inputs.max(1) as f64).sqrt().recip();
    let values = (0..count).map(|_| generator.random_range(-bound..=bound) as f32);
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_of_a_seed_has_an_order_of_its_own() {
        let order = |seed: u64, epoch: u64| shuffled(20, Noise::new(seed).fold(epoch));
        assert_eq!(order(3, 1), order(3, 1));
        assert_ne!(order(3, 1), order(3, 2));
        assert_ne!(order(3, 1), order(4, 1));
        let mut sorted = order(3, 1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..20));
    }
}
