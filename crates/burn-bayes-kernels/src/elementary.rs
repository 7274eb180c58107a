//! Elementary functions as short branch-free polynomials, so that loops over them vectorise and
//! give identical results on every CPU.
//!
//! The coefficients are minimax (Remez exchange in 40 digits, then rounded to `f32`), except those
//! of the exponential, for which the Taylor coefficients are accurate enough on the reduced
//! interval.

/// Adding this constant rounds a small number to an integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts; the first has few digits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// √½: mantissas are taken from [√½, √2), so that numbers just below 1 keep their accuracy.
pub const HALF_ROOT: u32 = 0x3f35_04f3;

/// Largest magnitude of the argument of [`exponential_pair`] for which both results are normal
/// numbers.
pub(crate) const EXPONENT_LIMIT: f32 = 87.0;

/// `(exp(x), exp(−x))` at the cost of one exponential.
///
/// With n = round(x / ln 2) and r = x − n ln 2, exp(±r) = E(r²) ± r O(r²). Within 1.5 units in
/// the last place; arguments beyond ±[`EXPONENT_LIMIT`] give the value at the limit and NaN gives
/// NaN.
#[inline(always)]
pub(crate) fn exponential_pair(x: f32) -> (f32, f32) {
    // `clamp` compiles to a branch, and `min` drops NaN.
    let x = if x > EXPONENT_LIMIT {
        EXPONENT_LIMIT
    } else {
        x
    };
    let x = if x < -EXPONENT_LIMIT {
        -EXPONENT_LIMIT
    } else {
        x
    };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_HIGH, x);
    let r = n.mul_add(-LN_2_LOW, r);
    let square = r * r;
    let even = square.mul_add(1.0 / 720.0, 1.0 / 24.0);
    let even = square.mul_add(square.mul_add(even, 0.5), 1.0);
    let odd = square.mul_add(1.0 / 5040.0, 1.0 / 120.0);
    let odd = square.mul_add(square.mul_add(odd, 1.0 / 6.0), 1.0);
    let exponent = shifted.to_bits() << 23;
    let one = 1.0f32.to_bits();
    (
        r.mul_add(odd, even) * f32::from_bits(one.wrapping_add(exponent)),
        (-r).mul_add(odd, even) * f32::from_bits(one.wrapping_sub(exponent)),
    )
}

/// exp(x), within two units in the last place.
///
/// Like [`exponential_pair`], with the power of two in two factors, so that results overflow to infinity and
/// underflow to zero.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Beyond these, results are infinite or zero.
    const LIMITS: [f32; 2] = [-105.0, 90.0];
    let x = if x < LIMITS[0] { LIMITS[0] } else { x };
    let x = if x > LIMITS[1] { LIMITS[1] } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_HIGH, x);
    let r = n.mul_add(-LN_2_LOW, r);
    let p = r.mul_add(1.0 / 5040.0, 1.0 / 720.0);
    let p = r.mul_add(p, 1.0 / 120.0);
    let p = r.mul_add(p, 1.0 / 24.0);
    let p = r.mul_add(p, 1.0 / 6.0);
    let p = r.mul_add(p, 0.5);
    let p = (r * r).mul_add(p, r) + 1.0;
    // A conversion to an integer, or a check of its overflow, would keep loops from being vectorised. Of NaN it is any
    // number, and the result is NaN.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    p * power(half) * power(n.wrapping_sub(half))
}

/// ln(x), within two units in the last place.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    const SCALE: f32 = 8_388_608.0;
    let is_small = x < f32::MIN_POSITIVE;
    let scaled = if is_small { x * SCALE } else { x };
    let exponent = (scaled.to_bits().wrapping_sub(HALF_ROOT) as i32) >> 23;
    let r = f32::from_bits(scaled.to_bits().wrapping_sub((exponent << 23) as u32)) - 1.0;
    let exponent = exponent as f32 - if is_small { 23.0 } else { 0.0 };
    // ln(1 + r) = r − r² q(r) / 2
    let tail = (-0.5 * r * r).mul_add(logarithm_tail(r), exponent * LN_2_LOW);
    let value = exponent.mul_add(LN_2_HIGH, tail + r);
    if x > 0.0 {
        if x == f32::INFINITY { x } else { value }
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else {
        f32::NAN
    }
}

/// ln(1 + x), within four units in the last place.
///
/// With u the rounded 1 + x, ln(1 + x) is ln(u) x / (u − 1) up to rounding: the error of u has the same share of both.
#[inline(always)]
pub(crate) fn ln_1p(x: f32) -> f32 {
    let u = 1.0 + x;
    let rounded = u - 1.0;
    let value = ln(u) * (x / rounded);
    if rounded == 0.0 {
        x
    } else if u == f32::INFINITY {
        u
    } else {
        value
    }
}

/// 1 / (1 + exp(−x))
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// tanh(x), within three units in the last place.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0);
    // The Taylor series up to x¹⁵.
    let s = x * x;
    let p = s.mul_add(-929_569.0 / 638_512_875.0, 21_844.0 / 6_081_075.0);
    let p = s.mul_add(p, -1382.0 / 155_925.0);
    let p = s.mul_add(p, 62.0 / 2835.0);
    let p = s.mul_add(p, -17.0 / 315.0);
    let p = s.mul_add(p, 2.0 / 15.0);
    let p = s.mul_add(p, -1.0 / 3.0);
    let near = (x * s).mul_add(p, x);
    if size < 0.5 { near } else { far.copysign(x) }
}

/// The coefficients of q(r) of ln(1 + r) = r − r² q(r) / 2, for 1 + r in [√½, √2).
pub const LOGARITHM_TAIL: [f32; 8] = [
    0.999_999_8,
    -0.666_679,
    0.500_035_1,
    -0.399_241_57,
    0.331_410_1,
    -0.298_358_23,
    0.286_150_43,
    -0.174_700_22,
];

#[inline(always)]
fn logarithm_tail(r: f32) -> f32 {
    use LOGARITHM_TAIL as Q;
    let q = r.mul_add(Q[7], Q[6]);
    let q = r.mul_add(q, Q[5]);
    let q = r.mul_add(q, Q[4]);
    let q = r.mul_add(q, Q[3]);
    let q = r.mul_add(q, Q[2]);
    let q = r.mul_add(q, Q[1]);
    r.mul_add(q, Q[0])
}

/// −2 ln(u) for u = (⌊bits / 2⌋ + ½) / 2³¹, in [0, 64 ln 2].
#[inline(always)]
pub(crate) fn minus_two_log_uniform(bits: u32) -> f32 {
    let value = ((bits >> 1) as i32) as f32 + 0.5;
    let exponent = (value.to_bits().wrapping_sub(HALF_ROOT) as i32) >> 23;
    let r = f32::from_bits(value.to_bits().wrapping_sub((exponent << 23) as u32)) - 1.0;
    let q = logarithm_tail(r);
    let halvings = (31 - exponent) as f32;
    halvings.mul_add(2.0 * std::f32::consts::LN_2, r * r.mul_add(q, -2.0))
}

/// The unit of an angle that is an integer, in quarters of a turn.
pub const QUARTERS: f32 = 1.0 / 4_294_967_296.0;
/// The coefficients of sin(πt/2) = t · S(t²), for |t| ≤ ½.
pub const SINE: [f32; 4] = [1.570_796_4, -0.645_963_5, 7.968_003e-2, -4.601_658e-3];
/// The coefficients of cos(πt/2) = C(t²), for |t| ≤ ½.
pub const COSINE: [f32; 5] = [
    1.0,
    -1.233_700_5,
    0.253_669_26,
    -2.086_030_9e-2,
    9.040_605_7e-4,
];

/// `(cos, sin)` of an angle uniform on the circle, equivalent in distribution to 2π · bits / 2³².
///
/// The low 30 bits select an angle in the quarter around 0, in which both polynomials are short;
/// the top bit mirrors the quarter and the next bit swaps the axes, which covers the circle once.
#[inline(always)]
pub(crate) fn point_on_circle(bits: u32) -> (f32, f32) {
    let t = ((bits << 2) as i32) as f32 * QUARTERS;
    let square = t * t;
    let sine = square.mul_add(SINE[3], SINE[2]);
    let sine = t * square.mul_add(square.mul_add(sine, SINE[1]), SINE[0]);
    let cosine = square.mul_add(COSINE[4], COSINE[3]);
    let cosine = square.mul_add(square.mul_add(cosine, COSINE[2]), COSINE[1]);
    let cosine = square.mul_add(cosine, COSINE[0]);
    let cosine = f32::from_bits(cosine.to_bits() ^ (bits & 0x8000_0000));
    let swap = bits & 0x4000_0000 != 0;
    if swap { (sine, cosine) } else { (cosine, sine) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_accurate_to_two_units() {
        let mut worst = 0.0f64;
        for step in -870_000..=870_000 {
            let x = step as f32 * 1e-4;
            let (plus, minus) = exponential_pair(x);
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(plus) / exact - 1.0).abs());
            worst = worst.max((f64::from(minus) * exact - 1.0).abs());
        }
        assert!(worst <= 1.5 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn logarithms_of_numbers_near_one_are_accurate_to_four_units() {
        let mut worst = 0.0f64;
        for step in -4_000..=4_000 {
            let size = (f64::from(step) * 0.01).exp() as f32;
            for x in [size, -size] {
                if x > -1.0 {
                    let exact = f64::from(x).ln_1p();
                    let off = (f64::from(ln_1p(x)) / exact - 1.0).abs();
                    worst = worst.max(off);
                }
            }
        }
        assert!(worst <= 2.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!(ln_1p(0.0), 0.0);
        assert_eq!(ln_1p(-1.0), f32::NEG_INFINITY);
        assert_eq!(ln_1p(f32::INFINITY), f32::INFINITY);
        assert!(ln_1p(-1.5).is_nan() && ln_1p(f32::NAN).is_nan());
    }

    #[test]
    fn exponentials_saturate_and_keep_nan() {
        assert_eq!(exponential_pair(0.0), (1.0, 1.0));
        assert_eq!(exponential_pair(1e30), exponential_pair(EXPONENT_LIMIT));
        assert_eq!(
            exponential_pair(f32::NEG_INFINITY),
            exponential_pair(-EXPONENT_LIMIT)
        );
        assert!(exponential_pair(EXPONENT_LIMIT).0.is_normal());
        assert!(exponential_pair(EXPONENT_LIMIT).1.is_normal());
        let (plus, minus) = exponential_pair(f32::NAN);
        assert!(plus.is_nan() && minus.is_nan());
    }

    /// The largest error of `function` in units in the last place, at an even sample of all numbers.
    fn worst_units(function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
        let numbers = (0..=u32::MAX).step_by(4093).map(f32::from_bits);
        numbers.fold(0.0, |worst: f64, x| {
            let (value, exact) = (function(x), exact(f64::from(x)));
            let nearest = exact as f32;
            if value.to_bits() == nearest.to_bits() || (value.is_nan() && nearest.is_nan()) {
                return worst;
            }
            let unit = exact.abs().max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
            let error = (f64::from(value) - exact).abs() / unit;
            assert!(error.is_finite(), "{value} at {x}, not {exact}");
            worst.max(error)
        })
    }

    #[test]
    fn functions_of_any_number_are_accurate() {
        assert!(worst_units(exp, f64::exp) <= 2.0);
        assert!(worst_units(ln, f64::ln) <= 2.0);
        assert!(worst_units(tanh, f64::tanh) <= 3.0);
        // Below, results are no normal numbers.
        let from = |x: f64| x.max(-87.0);
        let exact = |x: f64| 1.0 / (1.0 + (-from(x)).exp());
        assert!(worst_units(|x| sigmoid(from(x.into()) as f32), exact) <= 3.0);
    }

    /// All bit patterns within 2¹² of both ends, and an even sample between.
    fn patterns() -> impl Iterator<Item = u32> {
        (0..4096)
            .chain((0..4096).map(|low| u32::MAX - low))
            .chain((0..=u32::MAX).step_by(4093))
    }

    #[test]
    fn logarithm_is_accurate() {
        let mut worst = 0.0f64;
        for bits in patterns() {
            // The rounding of u itself to f32 is part of the definition, not an error.
            let uniform = f64::from((bits >> 1) as f32 + 0.5) / (1u64 << 31) as f64;
            let exact = -2.0 * uniform.ln();
            let value = f64::from(minus_two_log_uniform(bits));
            assert!((0.0..=44.4).contains(&value));
            worst = worst.max((value - exact).abs() / exact.max(f64::from(f32::MIN_POSITIVE)));
        }
        assert!(worst <= 2.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!(minus_two_log_uniform(u32::MAX), 0.0);
    }

    #[test]
    fn circle_is_accurate() {
        let mut worst = 0.0f64;
        for bits in patterns() {
            let angle =
                f64::from((bits << 2) as i32) / 4_294_967_296.0 * std::f64::consts::FRAC_PI_2;
            let (mut x, mut y) = (angle.cos(), angle.sin());
            if bits >> 31 == 1 {
                x = -x;
            }
            if bits >> 30 & 1 == 1 {
                (x, y) = (y, x);
            }
            let (cosine, sine) = point_on_circle(bits);
            worst = worst
                .max((f64::from(cosine) - x).abs())
                .max((f64::from(sine) - y).abs());
        }
        assert!(worst <= f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn circle_is_covered_evenly() {
        const SECTORS: usize = 64;
        let mut counts = [0usize; SECTORS];
        for bits in (0..1u32 << 16).map(|high| high << 16 | 0x8000) {
            let (x, y) = point_on_circle(bits);
            let turn = f64::from(y).atan2(f64::from(x)) / std::f64::consts::TAU + 0.5;
            counts[(turn * SECTORS as f64) as usize % SECTORS] += 1;
        }
        assert!(
            counts.iter().all(|count| *count == (1 << 16) / SECTORS),
            "{counts:?}"
        );
    }
}
