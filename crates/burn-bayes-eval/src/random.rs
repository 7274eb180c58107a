//! Random numbers from an explicit seed: the same seed gives the same numbers on every machine. The
//! generator is xoshiro256++, seeded through SplitMix64.
//!
//! Reference: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators" (2021).

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// The generator for resampling, independent of [`uniforms`] with the same seed.
pub(crate) fn resampling_generator(seed: u64) -> Xoshiro256PlusPlus {
    generator(seed ^ u64::from_be_bytes(*b"resample"))
}

/// `rows` independent numbers, uniform on [0, 1), for methods that randomise each row.
///
/// ```
/// use burn_bayes_eval::uniforms;
///
/// assert_eq!(uniforms(3, 7), uniforms(3, 7));
/// assert_ne!(uniforms(3, 7), uniforms(3, 8));
/// ```
pub fn uniforms(rows: usize, seed: u64) -> Vec<f64> {
    let mut generator = generator(seed);
    (0..rows).map(|_| generator.random()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_the_unit_interval_evenly() {
        let numbers = uniforms(10_000, 1);
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1e4;
        // Five standard errors of 1/√(12 · 10⁴).
        assert!((mean - 0.5).abs() < 5.0 / 12f64.sqrt() / 100.0, "{mean}");
    }
}
