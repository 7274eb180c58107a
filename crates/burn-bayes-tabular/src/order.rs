//! Bounds and orders of numbers in which NaN is never the better one.

use std::cmp::Ordering;

/// `max` and `min` of floating-point numbers drop NaN, so that what was not computed looks like a number; these keep it.
pub(crate) trait Bounded {
    /// The larger number; NaN if either is NaN.
    fn at_least(self, least: Self) -> Self;

    /// The smaller number; NaN if either is NaN.
    fn at_most(self, most: Self) -> Self;
}

impl Bounded for f64 {
    fn at_least(self, least: Self) -> Self {
        if self < least || least.is_nan() {
            least
        } else {
            self
        }
    }

    fn at_most(self, most: Self) -> Self {
        if self > most || most.is_nan() {
            most
        } else {
            self
        }
    }
}

/// From the lowest cost to the highest, with NaN last. In `total_cmp`, a NaN with a sign, such as that of 0/0, comes first.
pub(crate) fn by_cost(one: f64, other: f64) -> Ordering {
    let is_nan = one.is_nan().cmp(&other.is_nan());
    is_nan.then(one.total_cmp(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_kept_and_never_the_best() {
        for [a, b] in [[f64::NAN, 1.0], [1.0, f64::NAN], [-f64::NAN, 0.0]] {
            assert!(a.at_least(b).is_nan() && a.at_most(b).is_nan());
        }
        let mut costs = [-f64::NAN, 2.0, f64::INFINITY, f64::NAN, -1.0];
        costs.sort_by(|one, other| by_cost(*one, *other));
        assert_eq!(costs[..3], [-1.0, 2.0, f64::INFINITY]);
    }
}
