//! Random numbers from a fixed generator, so that seeds are reproducible across versions.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

/// A named algorithm: the default generators of `rand` may change.
pub(crate) type Generator = Xoshiro256PlusPlus;

/// The generator of `seed` for a purpose, so that different uses of a seed are independent.
pub(crate) fn generator(seed: u64, purpose: &str) -> Generator {
    // FNV-1a of the purpose's name.
    let name = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Generator::seed_from_u64(seed ^ name)
}

/// A standard normal.
pub(crate) fn normal(generator: &mut Generator) -> f64 {
    generator.sample(StandardNormal)
}

/// A uniform number in [0, 1).
pub(crate) fn uniform(generator: &mut Generator) -> f64 {
    generator.random()
}
