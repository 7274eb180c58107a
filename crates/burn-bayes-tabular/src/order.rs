//! Orders and choices of rows: an order in which NaN is never the better one, places that are spread over one, quantiles, and
//! the values of some rows.

use std::cmp::Ordering;

/// From the lowest cost to the highest, with NaN last. In `total_cmp`, a NaN with a sign, such as that of 0/0, comes first.
pub(crate) fn by_cost(one: f64, other: f64) -> Ordering {
    let is_nan = one.is_nan().cmp(&other.is_nan());
    is_nan.then(one.total_cmp(&other))
}

/// At most `count` evenly spaced indices below `length`, including both ends.
pub(crate) fn spread(length: usize, count: usize) -> Vec<usize> {
    if length <= count {
        return (0..length).collect();
    }
    (0..count)
        .map(|index| index * (length - 1) / (count - 1))
        .collect()
}

/// A quantile of sorted values, by linear interpolation.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

/// The values of these rows.
pub(crate) fn selected<T: Clone>(values: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|&row| values[row].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_never_the_best() {
        let mut costs = [-f64::NAN, 2.0, f64::INFINITY, f64::NAN, -1.0];
        costs.sort_by(|one, other| by_cost(*one, *other));
        assert_eq!(costs[..3], [-1.0, 2.0, f64::INFINITY]);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let sorted = [1.0, 2.0, 4.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 1.5), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)] {
            assert_eq!(quantile(&sorted, share), expected);
        }
    }

    #[test]
    fn spread_indices_keep_both_ends() {
        assert_eq!(spread(3, 5), [0, 1, 2]);
        assert_eq!(spread(101, 5), [0, 25, 50, 75, 100]);
    }
}
