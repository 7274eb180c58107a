//! Limits of intervals that rounding does not move inwards.
//!
//! An interval has the answers whose score is at most a threshold. Its limits follow from the threshold by arithmetic
//! that rounds otherwise than the score: with the prediction 1.3 and the deviation 0.7, the score of 3 times 0.7, plus
//! 1.3, may be the number before 3. If scores have ties, as those of counts do, many answers lie exactly on a limit, and
//! such intervals would cover less than they promise.

/// `end`, or the greatest number above it that `is_inside`. `error` bounds the rounding error of `end`, and `is_inside`
/// must not become true again for larger numbers.
pub(super) fn outward(end: f64, error: f64, is_inside: impl Fn(f64) -> bool) -> f64 {
    let (mut inside, mut step) = (end.next_up(), error);
    if !end.is_finite() || !is_inside(inside) {
        return end;
    }
    let mut outside = end + step;
    while outside.is_finite() && is_inside(outside) {
        (inside, step) = (outside, 2.0 * step);
        outside += step;
    }
    loop {
        let middle = inside + 0.5 * (outside - inside);
        if !(inside < middle && middle < outside) {
            return inside;
        }
        match is_inside(middle) {
            true => inside = middle,
            false => outside = middle,
        }
    }
}

/// Bounds the rounding error of a sum of numbers of this size.
pub(super) fn rounding(size: f64) -> f64 {
    4.0 * f64::EPSILON * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_greatest_number_inside() {
        for (centre, spread, answer) in [(1.3, 0.7, 3.0), (0.1, 0.3, 1.0), (-1.0, 0.1, 1e-17)] {
            let score = |y: f64| (y - centre) / spread;
            let threshold = score(answer);
            let end = centre + threshold * spread;
            let found = outward(end, rounding(2.0), |y| score(y) <= threshold);
            assert!(found >= answer, "{found} {answer}");
            assert!(score(found) <= threshold || found == end);
            assert!(score(found.next_up()) > threshold);
        }
        assert_eq!(outward(2.5, rounding(2.5), |y| y <= 2.5), 2.5);
        assert_eq!(
            outward(f64::INFINITY, f64::INFINITY, |_| true),
            f64::INFINITY
        );
    }
}
