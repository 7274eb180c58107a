//! The root of a monotone function, by halving an interval that holds it: slow, and never wrong.

/// Where `is_below` turns from true to false between `low` and `high`, to within `resolution` or the
/// spacing of the numbers there.
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
}
