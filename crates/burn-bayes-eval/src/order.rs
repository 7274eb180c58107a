//! Sorting by a score, with ties kept together, ranks in the sorted order, and the rows of groups.
//!
//! Rows with equal scores form one group, so a result computed per group does not depend on the
//! order of the rows. `0.0` and `−0.0` are equal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::Bounded;

/// Row indices by ascending score. The scores must not contain NaN.
pub(crate) fn ascending(scores: &[f64]) -> Vec<usize> {
    // Integers are sorted faster than indices by what they point to. The index in the low bits keeps ties in their order.
    let keys = scores.iter().map(|&score| u128::from(ordered(score)) << 64);
    let mut order: Vec<u128> = keys.zip(0..).map(|(key, row)| key | row).collect();
    order.sort_unstable();
    order.into_iter().map(|key| key as u64 as usize).collect()
}

/// An integer in the order of the number.
fn ordered(score: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // −0 becomes 0.
    let bits = (score + 0.0).to_bits();
    match bits & SIGN {
        0 => bits | SIGN,
        _ => !bits,
    }
}

/// The runs of equal scores in an order from [`ascending`].
pub(crate) fn tie_groups<'o>(
    order: &'o [usize],
    scores: &'o [f64],
) -> impl Iterator<Item = &'o [usize]> {
    order.chunk_by(|&a, &b| scores[a] == scores[b])
}

/// The order of numbers that are not NaN.
pub(crate) fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// A power of two near the largest magnitude. A division by it is exact, and leaves no number whose square overflows.
pub(crate) fn magnitude<'v>(values: impl IntoIterator<Item = &'v f64>) -> f64 {
    let values = values.into_iter();
    let largest = values.fold(0.0, |largest: f64, value| largest.at_least(value.abs()));
    2f64.powi((largest.log2().floor() as i32).clamp(-1000, 1023))
}

/// ⌈fraction · rows⌉, between 1 and `rows`. A product within rounding of an integer is that integer:
/// 0.07 · 100 is rank 7.
pub(crate) fn rank(fraction: f64, rows: usize) -> usize {
    let product = fraction * rows as f64;
    let nearest = product.round();
    let exact = (product - nearest).abs() <= 2.0 * f64::EPSILON * product;
    let rank = if exact { nearest } else { product.ceil() };
    (rank as usize).clamp(1, rows)
}

/// The smallest score whose weight, with that of all smaller or equal scores, is at least this fraction of all weights
/// and `further`, the weight of scores that are larger; `None` if no score has it. A fraction within rounding of a sum is
/// that sum, as in [`rank`].
pub(crate) fn weighted_quantile(
    scores: &[f64],
    weights: &[f64],
    further: f64,
    fraction: f64,
) -> Option<f64> {
    let needed = fraction * (further + weights.iter().sum::<f64>());
    let order = ascending(scores);
    let mut sum = 0.0;
    let mut groups = tie_groups(&order, scores);
    let group = groups.find(|rows| {
        sum += rows.iter().map(|&row| weights[row]).sum::<f64>();
        needed - sum <= 2.0 * f64::EPSILON * needed
    })?;
    Some(scores[group[0]])
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The rows of each group, by increasing group.
pub(crate) fn rows_by_group(groups: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, &group) in groups.iter().enumerate() {
        rows.entry(group).or_default().push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_equal_scores_and_both_zeros() {
        let scores = [2.0, 0.0, 1.0, -0.0, f64::NEG_INFINITY, 2.0];
        let order = ascending(&scores);
        let groups: Vec<Vec<usize>> = tie_groups(&order, &scores).map(<[usize]>::to_vec).collect();
        assert_eq!(groups, [vec![4], vec![1, 3], vec![2], vec![0, 5]]);
    }

    #[test]
    fn the_order_is_that_of_a_stable_sort_by_comparison() {
        let mut scores = crate::random::uniforms(500, 3);
        for score in &mut scores {
            *score = ((*score - 0.5) * 20.0).round() / 4.0;
        }
        scores.extend([f64::INFINITY, -0.0, f64::MIN_POSITIVE, -5e-324, 0.0]);
        let mut expected: Vec<usize> = (0..scores.len()).collect();
        expected.sort_by(|&a, &b| compare(scores[a], scores[b]));
        assert_eq!(ascending(&scores), expected);
    }

    #[test]
    fn ranks_round_up_but_not_by_rounding_error() {
        let cases = [
            (0.07, 100, 7),
            (0.9, 10, 9),
            (0.7, 10, 7),
            (0.55, 10, 6),
            (0.001, 10, 1),
        ];
        for (fraction, rows, expected) in cases {
            assert_eq!(rank(fraction, rows), expected, "{fraction} of {rows}");
        }
        assert_eq!(rank(1.0, 3), 3);
    }
}
