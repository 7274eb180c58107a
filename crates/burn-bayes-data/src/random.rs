//! The one source of random numbers: a named generator, so that a seed means the same for ever.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// An algorithm of fixed definition, unlike the default generators of `rand`.
pub(crate) type Generator = Xoshiro256PlusPlus;

/// The generator of `seed` for one purpose, so that two uses of one seed share no numbers.
pub(crate) fn generator(seed: u64, purpose: &str) -> Generator {
    // FNV-1a of the purpose's name.
    let name = purpose
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Generator::seed_from_u64(seed ^ name)
}
