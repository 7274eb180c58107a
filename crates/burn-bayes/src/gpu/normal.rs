//! The standard normals of [`burn_bayes_kernels::normal`] on the device.
//!
//! Words are equal, bit for bit; the polynomials are the same, so that normals are equal up to how a device rounds a
//! multiplication that is followed by an addition.

use burn::cubecl;
use burn_bayes_kernels::generator::{
    COSINE, COUNTERS, GROUP, HALF_ROOT, KEY_INCREMENTS, LOGARITHM_TAIL, MULTIPLIERS, QUARTERS,
    ROUNDS, SINE,
};
use cubecl::prelude::*;

/// A stream of normals as a device gets it.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Stream {
    pub(super) seed_low: u32,
    pub(super) seed_high: u32,
    pub(super) stream_low: u32,
    pub(super) stream_high: u32,
    /// 1 or −1.
    pub(super) sign: f32,
}

/// The four normals of a counter.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Normals {
    pub(super) first: f32,
    pub(super) second: f32,
    pub(super) third: f32,
    pub(super) fourth: f32,
}

#[cube]
impl Normals {
    pub(super) fn at(&self, which: u32) -> f32 {
        let low = select(which == 0, self.first, self.second);
        let high = select(which == 2, self.third, self.fourth);
        select(which < 2, low, high)
    }
}

/// The place in the stream of one of the four normals of a counter.
#[cube]
pub(super) fn place_of(counter: u32, which: u32) -> u32 {
    let counters = comptime!(COUNTERS as u32);
    counter / counters * comptime!(GROUP as u32) + which * counters + counter % counters
}

/// The counters of the first `len` normals.
#[cube]
pub(super) fn counters_of(len: u32) -> u32 {
    len.div_ceil(comptime!(GROUP as u32)) * comptime!(COUNTERS as u32)
}

/// The normals of a counter, with the stream's sign.
#[cube]
pub(super) fn normals(stream: &Stream, counter: u32) -> Normals {
    let mut word_0 = counter;
    let mut word_1 = 0u32;
    let mut word_2 = stream.stream_low;
    let mut word_3 = stream.stream_high;
    let mut key_0 = stream.seed_low;
    let mut key_1 = stream.seed_high;
    #[unroll]
    for _ in 0..ROUNDS {
        let high_0 = u32::mul_hi(word_0, comptime!(MULTIPLIERS[0]));
        let low_0 = word_0 * comptime!(MULTIPLIERS[0]);
        let high_2 = u32::mul_hi(word_2, comptime!(MULTIPLIERS[1]));
        let low_2 = word_2 * comptime!(MULTIPLIERS[1]);
        word_0 = high_2 ^ word_1 ^ key_0;
        word_2 = high_0 ^ word_3 ^ key_1;
        word_1 = low_2;
        word_3 = low_0;
        key_0 += comptime!(KEY_INCREMENTS[0]);
        key_1 += comptime!(KEY_INCREMENTS[1]);
    }
    let radius_0 = minus_two_log_uniform(word_0).sqrt() * stream.sign;
    let radius_2 = minus_two_log_uniform(word_2).sqrt() * stream.sign;
    let point_0 = point_on_circle(word_1);
    let point_2 = point_on_circle(word_3);
    Normals {
        first: radius_0 * point_0.cosine,
        second: radius_0 * point_0.sine,
        third: radius_2 * point_2.cosine,
        fourth: radius_2 * point_2.sine,
    }
}

/// −2 ln(u) for u = (⌊bits / 2⌋ + ½) / 2³¹.
#[cube]
fn minus_two_log_uniform(bits: u32) -> f32 {
    let value = f32::cast_from(bits >> 1) + 0.5f32;
    let value_bits = value.to_bits();
    // The exponent of the number that has a mantissa in [√½, √2), plus one: never negative.
    let exponent = (value_bits - comptime!(HALF_ROOT - (1 << 23))) >> 23;
    let mantissa = f32::from_bits(value_bits + comptime!(1u32 << 23) - (exponent << 23));
    let r = mantissa - 1.0f32;
    let mut q = f32::new(comptime!(LOGARITHM_TAIL[7]));
    #[unroll]
    for power in 0..7usize {
        q = fma(r, q, f32::new(comptime!(LOGARITHM_TAIL[6 - power])));
    }
    let halvings = f32::cast_from(32u32 - exponent);
    fma(
        halvings,
        f32::new(comptime!(2.0 * std::f32::consts::LN_2)),
        r * fma(r, q, -2.0f32),
    )
}

#[derive(CubeType, Clone, Copy)]
struct Point {
    cosine: f32,
    sine: f32,
}

/// A point at an angle uniform on the circle.
#[cube]
fn point_on_circle(bits: u32) -> Point {
    let t = f32::cast_from(i32::reinterpret(bits << 2)) * f32::new(comptime!(QUARTERS));
    let square = t * t;
    let sine = fma(
        square,
        f32::new(comptime!(SINE[3])),
        f32::new(comptime!(SINE[2])),
    );
    let sine = fma(square, sine, f32::new(comptime!(SINE[1])));
    let sine = t * fma(square, sine, f32::new(comptime!(SINE[0])));
    let cosine = fma(
        square,
        f32::new(comptime!(COSINE[4])),
        f32::new(comptime!(COSINE[3])),
    );
    let cosine = fma(square, cosine, f32::new(comptime!(COSINE[2])));
    let cosine = fma(square, cosine, f32::new(comptime!(COSINE[1])));
    let cosine = fma(square, cosine, f32::new(comptime!(COSINE[0])));
    let cosine = select(bits >> 31 == 1, -cosine, cosine);
    let is_swapped = (bits >> 30) & 1 == 1;
    Point {
        cosine: select(is_swapped, sine, cosine),
        sine: select(is_swapped, cosine, sine),
    }
}

/// Writes the first `len` normals of a stream.
#[cube(launch)]
pub(super) fn normal_kernel(out: &mut [f32], stream: Stream, len: u32) {
    let counters = counters_of(len);
    let mut counter = ABSOLUTE_POS as u32;
    while counter < counters {
        let four = normals(&stream, counter);
        for which in 0..4u32 {
            let place = place_of(counter, which);
            if place < len {
                out[place as usize] = four.at(which);
            }
        }
        counter += (CUBE_COUNT * (CUBE_DIM as usize)) as u32;
    }
}
