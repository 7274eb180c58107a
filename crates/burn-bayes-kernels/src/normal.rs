//! Standard normal numbers as a pure function of (seed, stream, index).
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
//! Groups are independent, so that any block can be regenerated instead of stored.
//!
//! u₁ has 31 bits and is never 0, so that |z| ≤ √(64 ln 2) ≈ 6.66 (a standard normal exceeds this
//! with probability 2.7e-11). The absolute error relative to exact arithmetic on the same words is
//! below 5e-7.
//!
//! Salmon, Moraes, Dror, Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3", SC'11.
//! Box, Muller (1958), "A note on the generation of random normal deviates".

use crate::elementary::{minus_two_log_uniform, point_on_circle};
use crate::parallel::{for_each_block, vectorise};

/// Number of elements that share one set of counters.
pub const GROUP: usize = 64;

/// Number of counters of a group, and of places between two elements of one counter.
pub const COUNTERS: usize = GROUP / 4;
/// The factors of a round of Philox.
pub const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What is added to the key after a round.
pub const KEY_INCREMENTS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// The rounds of Philox.
pub const ROUNDS: usize = 10;

/// An infinite sequence of independent standard normal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormalStream {
    /// Key of the generator; different seeds give independent numbers.
    pub seed: u64,
    /// The index of one of the seed's 2⁶⁴ independent sequences.
    pub stream: u64,
}

/// Fills `out` with the elements `0..out.len()` of the stream, on all threads.
pub fn normal(noise: NormalStream, out: &mut [f32]) {
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

/// [`fill_normal`] for callers that are already inside [`vectorise`].
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

/// The key of every round: the seed plus a constant per round.
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
    for (lane, counter) in (0..COUNTERS).zip(first..) {
        let block = philox(keys, counter, stream);
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
/// The words are in 64-bit lanes whose upper halves are not cleared: a 32 × 32 → 64 bit vector
/// multiplication reads only the lower halves.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::BLOCK;
    use crate::parallel::tests::{LENGTHS, on_any_thread_count};

    const NOISE: NormalStream = NormalStream {
        seed: 0x0123_4567_89ab_cdef,
        stream: 1 << 40,
    };

    fn normals(seed: u64, stream: u64, length: usize) -> Vec<f64> {
        let mut out = vec![0.0; length];
        normal(NormalStream { seed, stream }, &mut out);
        out.into_iter().map(f64::from).collect()
    }

    /// Philox as in the paper, on plain words; it shares only the constants with the kernel.
    fn philox_of_the_paper(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
        for _ in 0..10 {
            let product = |word: u32, multiplier: u32| {
                let wide = u64::from(word) * u64::from(multiplier);
                ((wide >> 32) as u32, wide as u32)
            };
            let (high_0, low_0) = product(counter[0], MULTIPLIERS[0]);
            let (high_1, low_1) = product(counter[2], MULTIPLIERS[1]);
            counter = [
                high_1 ^ counter[1] ^ key[0],
                low_1,
                high_0 ^ counter[3] ^ key[1],
                low_0,
            ];
            key = [
                key[0].wrapping_add(0x9e37_79b9),
                key[1].wrapping_add(0xbb67_ae85),
            ];
        }
        counter
    }

    /// Element `index` in `f64`, with the library's functions.
    fn oracle(noise: NormalStream, index: usize) -> f64 {
        let (group, within) = (index / GROUP, index % GROUP);
        let (column, lane) = (within / COUNTERS, within % COUNTERS);
        let counter = (group * COUNTERS + lane) as u64;
        let words = philox_of_the_paper(
            [
                counter as u32,
                (counter >> 32) as u32,
                noise.stream as u32,
                (noise.stream >> 32) as u32,
            ],
            [noise.seed as u32, (noise.seed >> 32) as u32],
        );
        let (first, second) = (words[column / 2 * 2], words[column / 2 * 2 + 1]);
        let uniform = f64::from((first >> 1) as f32 + 0.5) / (1u64 << 31) as f64;
        let radius = (-2.0 * uniform.ln()).sqrt();
        let quarters = f64::from((second << 2) as i32) / 4_294_967_296.0;
        let angle = quarters * std::f64::consts::FRAC_PI_2;
        let (mut x, mut y) = (angle.cos(), angle.sin());
        if second >> 31 == 1 {
            x = -x;
        }
        if second >> 30 & 1 == 1 {
            (x, y) = (y, x);
        }
        radius * if column % 2 == 0 { x } else { y }
    }

    /// The standard normal distribution function, within 7.5e-8 (Abramowitz, Stegun 26.2.17).
    fn distribution(x: f64) -> f64 {
        let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
        let polynomial = [
            1.330_274_429,
            -1.821_255_978,
            1.781_477_937,
            -0.356_563_782,
            0.319_381_53,
        ]
        .into_iter()
        .fold(0.0, |sum, coefficient| sum * t + coefficient)
            * t;
        let upper = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * polynomial;
        if x >= 0.0 { 1.0 - upper } else { upper }
    }

    #[test]
    fn philox_gives_the_published_words() {
        // The known answers for philox4x32-10 in Random123's `kat_vectors`.
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in cases {
            let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let keys = round_keys(wide(key[0], key[1]));
            let (index, stream) = (wide(counter[0], counter[1]), wide(counter[2], counter[3]));
            assert_eq!(philox(&keys, index, stream), answer);
            assert_eq!(philox_of_the_paper(counter, key), answer);
        }
    }

    #[test]
    fn elements_are_those_of_the_oracle() {
        for length in LENGTHS {
            let result = on_any_thread_count(|| {
                let mut out = vec![f32::NAN; length];
                normal(NOISE, &mut out);
                out
            });
            for (index, value) in result.iter().enumerate() {
                let error = (f64::from(*value) - oracle(NOISE, index)).abs();
                assert!(error < 5e-7, "element {index}: {error:e}");
            }
        }
    }

    #[test]
    fn blocks_may_start_at_any_group() {
        let mut all = vec![0.0; 2 * BLOCK];
        normal(NOISE, &mut all);
        for start in (0..BLOCK).step_by(GROUP) {
            for length in [1, 63, 64, 100] {
                let mut part = vec![0.0; length];
                fill_normal(NOISE, start, &mut part);
                assert_eq!(part, all[start..start + length]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "groups of 64")]
    fn blocks_may_not_start_within_a_group() {
        fill_normal(NOISE, 1, &mut [0.0]);
    }

    #[test]
    fn moments_are_those_of_a_normal() {
        let values = normals(11, 7, 1 << 20);
        let count = values.len() as f64;
        let moment = |power| {
            values
                .iter()
                .map(|value: &f64| value.powi(power))
                .sum::<f64>()
                / count
        };
        // Five standard errors of each raw moment: Var z^p = (2p − 1)!! − ((p − 1)!! or 0)².
        for (power, exact, variance) in [
            (1, 0.0, 1.0),
            (2, 1.0, 2.0),
            (3, 0.0, 15.0),
            (4, 3.0, 96.0),
            (6, 15.0, 10170.0),
        ] {
            let error = (moment(power) - exact).abs();
            assert!(
                error < 5.0 * f64::sqrt(variance / count),
                "moment {power}: {error}"
            );
        }
    }

    #[test]
    fn distribution_is_normal() {
        let mut values = normals(5, 0, 1 << 20);
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let largest = values
            .iter()
            .enumerate()
            .map(|(rank, value)| (distribution(*value) - (rank as f64 + 0.5) / count).abs())
            .fold(0.0, f64::max);
        // Kolmogorov–Smirnov at the level 1e-6: √(ln(2e6) / 2) = 2.69.
        assert!(largest * count.sqrt() < 2.69, "{}", largest * count.sqrt());
    }

    #[test]
    fn tails_are_normal() {
        let values = normals(6, 0, 1 << 22);
        // P(|z| > 4) = 6.334e-5, P(|z| > 5) = 5.733e-7; five standard deviations of the count.
        for (limit, probability) in [(4.0, 6.334_248e-5), (5.0, 5.733_031e-7)] {
            let expected = probability * values.len() as f64;
            let count = values.iter().filter(|value| value.abs() > limit).count() as f64;
            assert!(
                (count - expected).abs() < 5.0 * expected.sqrt(),
                "{count} for {expected}"
            );
        }
        assert!(values.iter().all(|value| value.abs() <= 6.661));
    }

    #[test]
    fn seeds_streams_and_neighbours_are_uncorrelated() {
        const COUNT: usize = 1 << 18;
        let base = normals(1, 1, COUNT + GROUP);
        let correlation = |other: &[f64]| {
            base.iter()
                .zip(other)
                .take(COUNT)
                .map(|(a, b)| a * b)
                .sum::<f64>()
                / COUNT as f64
        };
        let square = |values: &[f64]| -> Vec<f64> {
            values
                .iter()
                .map(|value| (value * value - 1.0) / std::f64::consts::SQRT_2)
                .collect()
        };
        // The products have variance 1; five standard errors.
        let limit = 5.0 / (COUNT as f64).sqrt();
        for (seed, stream) in [(1, 2), (2, 1), (1, 1 << 32), (1 << 32, 1), (0, 1), (1, 0)] {
            assert!(correlation(&normals(seed, stream, COUNT)).abs() < limit);
        }
        for lag in [1, 2, 3, 4, 15, 16, 17, 32, 48, 63, 64] {
            assert!(correlation(&base[lag..]).abs() < limit, "lag {lag}");
            let (left, right) = (square(&base[..COUNT]), square(&base[lag..]));
            let product: f64 = left.iter().zip(&right).map(|(a, b)| a * b).sum();
            // The two normals of a pair share a radius, so squares could be correlated.
            assert!(
                product.abs() / (COUNT as f64) < limit,
                "squares at lag {lag}"
            );
        }
    }
}
