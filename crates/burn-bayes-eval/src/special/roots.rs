//! The root of a monotone function in a bracketing interval, by bisection or by Newton's method
//! safeguarded by bisection.

use crate::Bounded;

/// The point between `low` and `high` at which `is_below` changes from true to false, to within
/// `resolution` or the spacing of floating-point numbers.
pub(crate) fn bisect(
    mut low: f64,
    mut high: f64,
    resolution: f64,
    is_below: impl Fn(f64) -> bool,
) -> f64 {
    while high - low > resolution {
        let middle = 0.5 * low + 0.5 * high;
        if middle <= low || middle >= high {
            break; // neighbouring numbers
        }
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * low + 0.5 * high
}

/// The root of an increasing function between `low` and `high`. `function` returns its value and
/// its slope. `scale` is the length within which Newton's method converges quadratically: a step
/// squares the error in units of `scale`.
///
/// If `start` is not finite, the midpoint is used. If the function is NaN, the result is NaN.
pub(crate) fn newton(
    mut low: f64,
    mut high: f64,
    start: f64,
    scale: f64,
    function: impl Fn(f64) -> (f64, f64),
) -> f64 {
    let mut at = if start.is_finite() {
        start.clamp(low, high)
    } else {
        0.5 * low + 0.5 * high
    };
    let mut last_step = high - low;
    loop {
        let (value, slope) = function(at);
        if value == 0.0 {
            return at;
        }
        if value.is_nan() {
            return value;
        }
        if value < 0.0 {
            low = at;
        } else {
            high = at;
        }
        let (step, middle) = (-value / slope, 0.5 * low + 0.5 * high);
        let next = at + step;
        if low < next && next < high && 2.0 * step.abs() < last_step {
            if step.abs() <= (SHORT_STEP * scale).at_least(f64::EPSILON * at.abs()) {
                return next;
            }
            (at, last_step) = (next, step.abs());
        } else if middle <= low || middle >= high {
            return middle; // between neighbouring numbers
        } else {
            (at, last_step) = (middle, (middle - at).abs());
        }
    }
}

/// The square root of the precision; the square of such a short step is below rounding.
const SHORT_STEP: f64 = 1e-8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_roots_and_stays_inside() {
        let root = bisect(0.0, 2.0, 0.0, |x| x * x < 2.0);
        assert!((root - 2f64.sqrt()).abs() <= f64::EPSILON * 2.0);
        let coarse = bisect(-1.0, 1.0, 0.25, |x| x < 0.0);
        assert!(coarse.abs() <= 0.25);
        assert!(bisect(1.0, 2.0, 0.0, |_| true) <= 2.0);
        assert!(bisect(1.0, 2.0, 0.0, |_| false) >= 1.0);
    }

    #[test]
    fn newton_finds_what_halving_finds() {
        let cubic = |x: f64| (x.powi(3) - 5.0, 3.0 * x * x);
        let halved = bisect(0.0, 1e6, 0.0, |x| cubic(x).0 < 0.0);
        for start in [0.0, 1.0, 2.0, 1e6, f64::INFINITY] {
            let found = newton(0.0, 1e6, start, 1.0, cubic);
            assert!(
                (found - halved).abs() <= 2.0 * f64::EPSILON * halved,
                "{start}: {found}"
            );
        }
    }

    #[test]
    fn newton_starts_in_the_middle_for_want_of_a_guess_and_ends_where_there_is_no_number() {
        let found = newton(0.0, 4.0, f64::NAN, 1.0, |x| (x * x - 5.0, 2.0 * x));
        assert!((found - 5f64.sqrt()).abs() <= 2.0 * f64::EPSILON * found);
        assert!(newton(0.0, 1.0, 0.5, 1.0, |_| (f64::NAN, 1.0)).is_nan());
        let unbounded = newton(f64::NEG_INFINITY, f64::INFINITY, f64::NAN, 1.0, |x| {
            (x, 1.0)
        });
        assert!(unbounded.is_nan());
    }

    #[test]
    fn newton_takes_flat_and_infinite_stretches() {
        // A step between two plateaus with slope zero, as in the tails of a distribution.
        let step = |x: f64| (if x < 0.3 { f64::NEG_INFINITY } else { 1.0 }, 0.0);
        let found = newton(-1.0, 1.0, 0.9, 1.0, step);
        assert!((found - 0.3).abs() <= f64::EPSILON, "{found}");
        let calls = std::cell::Cell::new(0);
        let smooth = |x: f64| {
            calls.set(calls.get() + 1);
            (x.tanh() - 0.5, 1.0 - x.tanh().powi(2))
        };
        let found = newton(-40.0, 40.0, 0.0, 1.0, smooth);
        assert!((found - 0.5_f64.atanh()).abs() <= 4.0 * f64::EPSILON);
        assert!(calls.get() < 10, "{}", calls.get());
    }
}
