//! Standard normal numbers that are a pure function of (seed, stream, index).
//!
//! Philox4x32-10 keyed by the seed turns the counter (index of a quadruple, stream), each 64 bits,
//! into four 32-bit words; Box–Muller turns words into normals in pairs:
//!
//! ```text
//! z₀ = √(−2 ln u₁) cos(2π u₂),   z₁ = √(−2 ln u₁) sin(2π u₂)
//! ```
//!
//! Elements come in groups of 64 = 16 counters × 4 words: element 64g + 16c + j comes from counter
//! 16g + j. The cosines of words (0, 1) give c = 0, their sines c = 1, words (2, 3) give c = 2, 3.
//! Groups are independent of each other, so that any block can be regenerated instead of stored.
//!
//! u₁ has 31 bits and is never 0, so that |z| ≤ √(64 ln 2) ≈ 6.66 (a normal number exceeds this
//! with probability 2.7e-11). The error against exact arithmetic on the same words is below 5e-7
//! absolute.
//!
//! Salmon, Moraes, Dror, Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3", SC'11.
//! Box, Muller (1958), "A note on the generation of random normal deviates".

use super::elementary::{minus_two_log_uniform, point_on_circle};
use super::parallel::{BLOCK, for_each_block, vectorise};

/// Elements that share one set of counters.
pub(crate) const GROUP: usize = 64;

const COUNTERS: usize = GROUP / 4;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_INCREMENTS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

/// An infinite sequence of independent standard normal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NormalStream {
    /// Key of the generator; different seeds give independent numbers.
    pub(crate) seed: u64,
    /// Which of the seed's 2⁶⁴ independent sequences.
    pub(crate) stream: u64,
}

/// Fills `out` with the elements `0..out.len()` of the stream, on all threads.
pub(crate) fn normal(noise: NormalStream, out: &mut [f32]) {
    let length = out.len();
    for_each_block(out, length, length, &|start, block: &mut [f32]| {
        fill_normal(noise, start, block);
    });
}

/// Fills `out` with the elements `start..start + out.len()` of the stream, on this thread.
///
/// # Panics
///
/// If `start` is not a multiple of [`GROUP`].
pub(crate) fn fill_normal(noise: NormalStream, start: usize, out: &mut [f32]) {
    assert!(
        start.is_multiple_of(GROUP),
        "normals are generated in groups of {GROUP}"
    );
    vectorise(
        #[inline(always)]
        || fill_groups(noise, start, out),
    );
}

/// [`fill_normal`] for callers that are inside [`vectorise`] already.
#[inline(always)]
pub(crate) fn fill_groups(noise: NormalStream, start: usize, out: &mut [f32]) {
    let keys = round_keys(noise.seed);
    let mut first = (start / 4) as u64;
    let (whole, rest) = out.as_chunks_mut::<GROUP>();
    for group in whole {
        fill_group(&keys, noise.stream, first, group);
        first += COUNTERS as u64;
    }
    if !rest.is_empty() {
        let mut group = [0.0; GROUP];
        fill_group(&keys, noise.stream, first, &mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// The key of every round: the seed, raised by a constant each round.
#[inline(always)]
fn round_keys(seed: u64) -> [[u32; 2]; ROUNDS] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut keys = [[0; 2]; ROUNDS];
    for round in &mut keys {
        *round = key;
        key[0] = key[0].wrapping_add(KEY_INCREMENTS[0]);
        key[1] = key[1].wrapping_add(KEY_INCREMENTS[1]);
    }
    keys
}

#[inline(always)]
fn fill_group(keys: &[[u32; 2]; ROUNDS], stream: u64, first: u64, out: &mut [f32; GROUP]) {
    let mut words = [[0u32; COUNTERS]; 4];
    for lane in 0..COUNTERS {
        let block = philox(keys, first + lane as u64, stream);
        words[0][lane] = block[0];
        words[1][lane] = block[1];
        words[2][lane] = block[2];
        words[3][lane] = block[3];
    }
    for pair in 0..2 {
        for lane in 0..COUNTERS {
            let radius = minus_two_log_uniform(words[2 * pair][lane]).sqrt();
            let (cosine, sine) = point_on_circle(words[2 * pair + 1][lane]);
            out[2 * pair * COUNTERS + lane] = radius * cosine;
            out[(2 * pair + 1) * COUNTERS + lane] = radius * sine;
        }
    }
}

/// One block of Philox4x32-10.
///
/// The words live in 64-bit lanes whose upper halves are left dirty: a 32 × 32 → 64 bit vector
/// multiplication reads only the lower ones.
#[inline(always)]
fn philox(keys: &[[u32; 2]; ROUNDS], counter: u64, stream: u64) -> [u32; 4] {
    const LOW: u64 = 0xffff_ffff;
    let mut words = [counter, counter >> 32, stream, stream >> 32];
    for key in keys {
        let first = (words[0] & LOW) * u64::from(MULTIPLIERS[0]);
        let second = (words[2] & LOW) * u64::from(MULTIPLIERS[1]);
        words = [
            (second >> 32) ^ words[1] ^ u64::from(key[0]),
            second,
            (first >> 32) ^ words[3] ^ u64::from(key[1]),
            first,
        ];
    }
    words.map(|word| word as u32)
}
