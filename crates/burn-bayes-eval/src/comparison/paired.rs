//! Paired significance tests: compare two methods on the same rows.
//!
//! With d_r the difference of the two losses on row r, N of them:
//!
//! | Test | Null hypothesis | Statistic |
//! |---|---|---|
//! | [`paired_t_test`] | the mean of d is 0 | t = √N·d̄/s, Student's distribution with N − 1 degrees of freedom |
//! | [`resampled_t_test`] | the mean of d is 0, over runs that share training rows | t = d̄/(s·√(1/N + ρ)) |
//! | [`wilcoxon_signed_rank`] | d is distributed symmetrically around 0 | W = Σ of the ranks of abs(d_r) over rows with d_r > 0 |
//! | [`mcnemar`] | both methods are equally often the only correct one | rows that only one method predicts correctly |
//! | [`Bootstrap::p_value`](crate::Bootstrap::p_value) | a difference of any score is 0 | the resampled differences |
//!
//! All tests are two-sided. McNemar's test is exact. Wilcoxon's test is exact up to 50 differences,
//! with ties, and uses the normal approximation above. With k comparisons multiply the p-values by
//! k (Bonferroni). A p-value does not measure the size of a difference: also report a confidence
//! interval.
//!
//! Wilcoxon's test uses ranks and not the mean loss: a method that is slightly worse on most rows
//! and much better on a few has a lower mean loss but worse ranks.
//!
//! **Runs of a cross-validation are not independent**: their training rows overlap, and with several repeats the same
//! rows are tested again, so the t-test of N runs finds a difference between equal methods if only N is large enough.
//! The corrected resampled t-test adds ρ, the number of test rows divided by that of training rows, to 1/N: the
//! variance of d̄ for a correlation of ρ/(1 + ρ) between runs. With 5 folds, ρ is ¼, and no number of repeats makes the
//! standard error smaller than s/2.
//!
//! **Ties.** Wilcoxon's test omits rows without a difference and gives equal abs(d_r) the mean of
//! their ranks; its distribution is computed for these ranks.
//!
//! References: F. Wilcoxon, "Individual comparisons by ranking methods" (1945); Q. McNemar, "Note on
//! the sampling error of the difference between correlated proportions or percentages" (1947); C. Nadeau and Y. Bengio,
//! "Inference for the generalization error" (2003).

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::order::{ascending, mean, tie_groups};
use crate::special::beta;
use crate::special::binomial;
use crate::special::normal;

/// The losses of two methods on the same rows.
///
/// ```
/// use burn_bayes_eval::PairedLosses;
///
/// let paired = PairedLosses::new(&[0.5, 0.75, 1.0], &[0.25, 1.0, 0.25])?;
/// assert_eq!(paired.differences(), [0.25, -0.25, 0.75]); // above 0: the second method is better
/// assert_eq!(paired.mean_difference(), 0.25);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PairedLosses {
    differences: Vec<f64>,
}

impl PairedLosses {
    /// Pairs the losses row by row.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows or a loss is not finite.
    pub fn new(first: &[f64], second: &[f64]) -> Result<Self, EvalError> {
        check::not_empty("first losses", first.len())?;
        check::same_length("second losses", second.len(), first.len())?;
        check::finite("first losses", first)?;
        check::finite("second losses", second)?;
        let rows = first.iter().zip(second);
        let differences: Vec<f64> = rows.map(|(first, second)| first - second).collect();
        check::finite("differences of losses", &differences)?;
        Ok(Self { differences })
    }

    /// First minus second loss of each row. For the paired bootstrap, pass them to
    /// [`Bootstrap::of_mean`](crate::Bootstrap::of_mean).
    pub fn differences(&self) -> &[f64] {
        &self.differences
    }

    /// Mean of the differences.
    pub fn mean_difference(&self) -> f64 {
        mean(&self.differences)
    }
}

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedTest {
    /// The test statistic.
    pub statistic: f64,
    /// The p-value: the probability of a difference at least as large under the null hypothesis.
    pub p_value: f64,
}

/// Student's t-test of the differences: `statistic` is t.
///
/// `None` if it is undefined: for a single row, or if all differences are equal.
///
/// ```
/// use burn_bayes_eval::{PairedLosses, paired_t_test};
///
/// let paired = PairedLosses::new(&[1.0, 2.0, 3.0], &[0.0, 0.0, 0.0])?;
/// let test = paired_t_test(&paired).expect("the differences vary");
/// assert!((test.statistic - 12f64.sqrt()).abs() < 1e-14);
/// assert!((test.p_value - (1.0 - (6.0 / 7f64).sqrt())).abs() < 1e-14);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn paired_t_test(paired: &PairedLosses) -> Option<PairedTest> {
    t_test(paired, 0.0)
}

/// The corrected resampled t-test of differences between runs whose training rows overlap, such as those of a
/// (repeated) cross-validation: `statistic` is t. `test_to_train` is ρ, the number of test rows of a run divided by that
/// of its training rows: 1/(k − 1) for k folds.
///
/// `None` as for [`paired_t_test`].
///
/// ```
/// use burn_bayes_eval::{PairedLosses, paired_t_test, resampled_t_test};
///
/// let paired = PairedLosses::new(&[1.0, 2.0, 3.0, 2.0], &[0.0; 4])?;
/// let test = resampled_t_test(&paired, 0.25)?.expect("the differences vary");
/// let plain = paired_t_test(&paired).expect("the differences vary");
/// // 1/4 + 1/4 in the place of 1/4
/// assert!((test.statistic - plain.statistic / 2f64.sqrt()).abs() < 1e-14);
/// assert!(test.p_value > plain.p_value);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if `test_to_train` is not a finite number of at least 0.
pub fn resampled_t_test(
    paired: &PairedLosses,
    test_to_train: f64,
) -> Result<Option<PairedTest>, EvalError> {
    if !(test_to_train >= 0.0 && test_to_train.is_finite()) {
        let expected = "a finite number of at least 0";
        return Err(EvalError::config("test_to_train", test_to_train, expected));
    }
    Ok(t_test(paired, test_to_train))
}

/// The t-test with the variance of the mean s²·(1/N + `shared`).
fn t_test(paired: &PairedLosses, shared: f64) -> Option<PairedTest> {
    let rows = paired.differences.len() as f64;
    let centre = paired.mean_difference();
    let squares = paired
        .differences
        .iter()
        .map(|d| (d - centre) * (d - centre));
    let (spread, freedom) = (squares.sum::<f64>(), rows - 1.0);
    if is_constant(&paired.differences) || spread == 0.0 {
        return None;
    }
    let statistic = centre * (rows / (1.0 + rows * shared) * freedom / spread).sqrt();
    let p_value = beta::regularised(
        0.5 * freedom,
        0.5,
        freedom / (freedom + statistic * statistic),
    );
    Some(PairedTest { statistic, p_value })
}

/// Wilcoxon's signed-rank test: `statistic` is W, the sum of the ranks of positive differences.
///
/// `None` if no row has a difference.
///
/// ```
/// use burn_bayes_eval::{PairedLosses, wilcoxon_signed_rank};
///
/// let paired = PairedLosses::new(&[0.4, 0.3, 0.9, 0.8, 0.7], &[0.3, 0.1, 0.5, 0.3, 0.1])?;
/// let test = wilcoxon_signed_rank(&paired).expect("there are differences");
/// assert_eq!(test.statistic, 15.0);
/// assert_eq!(test.p_value, 0.0625); // two of 32 assignments of signs
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn wilcoxon_signed_rank(paired: &PairedLosses) -> Option<PairedTest> {
    let differences = paired.differences.iter().copied().filter(|d| *d != 0.0);
    let differences: Vec<f64> = differences.collect();
    if differences.is_empty() {
        return None;
    }
    let ranks = doubled_ranks(&differences);
    let positive = differences.iter().zip(&ranks).filter(|(d, _)| **d > 0.0);
    let sum: usize = positive.map(|(_, rank)| rank).sum();
    let p_value = if ranks.len() <= LARGEST_EXACT {
        exact_p_value(&ranks, sum)
    } else {
        normal_p_value(&ranks, sum)
    };
    Some(PairedTest {
        statistic: 0.5 * sum as f64,
        p_value,
    })
}

/// Largest number of differences for which Wilcoxon's test is computed exactly.
const LARGEST_EXACT: usize = 50;

/// Twice the ranks of the magnitudes, so that mean ranks of ties are integers.
fn doubled_ranks(differences: &[f64]) -> Vec<usize> {
    let magnitudes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let order = ascending(&magnitudes);
    let mut ranks = vec![0; magnitudes.len()];
    let mut below = 0;
    for group in tie_groups(&order, &magnitudes) {
        group
            .iter()
            .for_each(|&row| ranks[row] = 2 * below + group.len() + 1);
        below += group.len();
    }
    ranks
}

/// The exact distribution of the rank sum, with independent signs of probability ½, built up rank
/// by rank.
fn exact_p_value(ranks: &[usize], sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let mut distribution = vec![0.0; total + 1];
    distribution[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for value in (0..=reached).rev() {
            let with = if value >= *rank {
                distribution[value - rank]
            } else {
                0.0
            };
            distribution[value] = 0.5 * (distribution[value] + with);
        }
    }
    let at_most: f64 = distribution[..=sum].iter().sum();
    let at_least: f64 = distribution[sum..].iter().sum();
    (2.0 * at_most.at_most(at_least)).at_most(1.0)
}

/// The normal approximation with mean Σ rank/2 and variance Σ rank²/4, without continuity
/// correction.
fn normal_p_value(ranks: &[usize], sum: usize) -> f64 {
    let total: f64 = ranks.iter().map(|&rank| rank as f64).sum();
    let squares: f64 = ranks.iter().map(|&rank| (rank * rank) as f64).sum();
    let z = (sum as f64 - 0.5 * total) / (0.25 * squares).sqrt();
    2.0 * normal::cumulative(-z.abs())
}

/// The result of [`mcnemar`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct McNemarTest {
    /// Number of rows that only the first method predicts correctly.
    pub only_first_right: usize,
    /// Number of rows that only the second method predicts correctly.
    pub only_second_right: usize,
    /// The p-value: the probability of a division of these rows at least as uneven if both methods
    /// are equally good; 1 if there are no such rows.
    pub p_value: f64,
}

/// McNemar's exact test of two methods' predicted classes.
///
/// ```
/// use burn_bayes_eval::mcnemar;
///
/// let labels = [0, 1, 1, 0, 1, 1];
/// let test = mcnemar(&labels, &[0, 1, 1, 0, 1, 0], &[1, 0, 0, 1, 1, 0])?;
/// assert_eq!((test.only_first_right, test.only_second_right), (4, 0));
/// assert!((test.p_value - 0.125).abs() < 1e-15); // four coins with the same side up
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ or there are no rows.
pub fn mcnemar(
    labels: &[usize],
    first_predicted: &[usize],
    second_predicted: &[usize],
) -> Result<McNemarTest, EvalError> {
    check::not_empty("labels", labels.len())?;
    check::same_length(
        "first predicted classes",
        first_predicted.len(),
        labels.len(),
    )?;
    check::same_length(
        "second predicted classes",
        second_predicted.len(),
        labels.len(),
    )?;
    let (mut only_first_right, mut only_second_right) = (0, 0);
    for ((label, first), second) in labels.iter().zip(first_predicted).zip(second_predicted) {
        only_first_right += usize::from(first == label && second != label);
        only_second_right += usize::from(first != label && second == label);
    }
    let fewer = only_first_right.min(only_second_right);
    let tail = binomial::lower_tail(fewer, only_first_right + only_second_right, 0.5);
    Ok(McNemarTest {
        only_first_right,
        only_second_right,
        p_value: (2.0 * tail).at_most(1.0),
    })
}

fn is_constant(values: &[f64]) -> bool {
    values.iter().all(|value| *value == values[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    fn paired(differences: &[f64]) -> PairedLosses {
        PairedLosses::new(differences, &vec![0.0; differences.len()]).unwrap()
    }

    #[test]
    fn equal_methods_have_no_or_certain_outcomes() {
        assert_eq!(paired_t_test(&paired(&[0.0, 0.0])), None);
        assert_eq!(paired_t_test(&paired(&[0.1, 0.1, 0.1])), None);
        assert_eq!(paired_t_test(&paired(&[0.1])), None);
        assert_eq!(wilcoxon_signed_rank(&paired(&[0.0, 0.0])), None);
        let test = mcnemar(&[0, 1], &[0, 0], &[0, 0]).unwrap();
        assert_eq!(
            (test.only_first_right, test.only_second_right, test.p_value),
            (0, 0, 1.0)
        );
        let balanced = wilcoxon_signed_rank(&paired(&[1.0, -1.0])).unwrap();
        assert_eq!((balanced.statistic, balanced.p_value), (1.5, 1.0));
    }

    #[test]
    fn swapping_the_methods_changes_no_p_value() {
        let differences = [0.3, -0.1, 0.4, 0.4, 0.0, -0.2, 0.7];
        let swapped = differences.map(|d| -d);
        let t = [&differences, &swapped].map(|d| paired_t_test(&paired(d)).unwrap());
        assert_eq!(
            (t[0].statistic, t[0].p_value),
            (-t[1].statistic, t[1].p_value)
        );
        let w = [&differences, &swapped].map(|d| wilcoxon_signed_rank(&paired(d)).unwrap());
        assert_eq!(w[0].statistic + w[1].statistic, 21.0); // 1 + … + 6
        assert!((w[0].p_value - w[1].p_value).abs() < 8.0 * f64::EPSILON);
    }

    /// Differences of the runs of a repeated cross-validation of two equal methods: every row has one, the same in every
    /// run, and a run has the mean of its test rows.
    fn equal_methods(repeats: usize, folds: usize, seed: u64) -> PairedLosses {
        let rows = 10 * folds;
        let of_rows = uniforms(rows, seed);
        let of_rows: Vec<f64> = of_rows.iter().map(|number| number - 0.5).collect();
        let mut runs = Vec::new();
        for repeat in 0..repeats {
            let keys = uniforms(rows, seed ^ ((repeat as u64 + 1) << 32));
            let order = ascending(&keys);
            runs.extend(order.chunks(rows / folds).map(|fold| {
                let sum: f64 = fold.iter().map(|&row| of_rows[row]).sum();
                sum / fold.len() as f64
            }));
        }
        paired(&runs)
    }

    /// Differences with the same correlation between any two runs.
    fn correlated(runs: usize, correlation: f64, seed: u64) -> PairedLosses {
        let normal = |pair: &[f64]| {
            (-2.0 * (1.0 - pair[0]).ln()).sqrt() * (std::f64::consts::TAU * pair[1]).cos()
        };
        let numbers = uniforms(2 * runs + 2, seed);
        let mut normals = numbers.chunks(2).map(normal);
        let common = correlation.sqrt() * normals.next().unwrap();
        let own = (1.0 - correlation).sqrt();
        let differences: Vec<f64> = normals.map(|number| common + own * number).collect();
        paired(&differences)
    }

    /// The fraction of experiments in which a test finds a difference at 5 %.
    fn found(p_value: impl Fn(u64) -> f64) -> f64 {
        const EXPERIMENTS: u64 = 2000;
        let found = (0..EXPERIMENTS).filter(|&seed| p_value(seed) <= 0.05);
        found.count() as f64 / EXPERIMENTS as f64
    }

    #[test]
    fn repeats_of_a_comparison_of_equal_methods_find_no_difference() {
        // 5 % and three standard errors of 2000 experiments.
        let most = 0.05 + 3.0 * (0.05f64 * 0.95 / 2000.0).sqrt();
        for (repeats, folds) in [(1, 5), (5, 5), (20, 5), (10, 2), (5, 10)] {
            let ratio = 1.0 / (folds as f64 - 1.0);
            let test = |seed| resampled_t_test(&equal_methods(repeats, folds, seed), ratio);
            let size = found(|seed| test(seed).unwrap().unwrap().p_value);
            assert!(size <= most, "{repeats} × {folds}: {size}");
        }
        let plain = |seed| paired_t_test(&equal_methods(20, 5, seed)).unwrap().p_value;
        assert!(found(plain) > 0.3, "the plain test is misled");
        // With the correlation that the correction assumes, the size is exact.
        let test = |seed| resampled_t_test(&correlated(25, 0.2, seed), 0.25);
        let size = found(|seed| test(seed).unwrap().unwrap().p_value);
        assert!((size - 0.05).abs() <= most - 0.05, "{size}");
        for ratio in [-0.1, f64::NAN, f64::INFINITY] {
            let error = resampled_t_test(&paired(&[0.1, 0.2]), ratio).unwrap_err();
            assert!(error.is_config(), "{error}");
        }
    }

    #[test]
    fn tied_ranks_share_their_mean() {
        assert_eq!(doubled_ranks(&[0.5, -0.1, -0.5, 2.0]), [5, 2, 5, 8]);
    }

    #[test]
    fn rejects_lengths_and_what_is_not_finite() {
        assert!(PairedLosses::new(&[], &[]).unwrap_err().is_data());
        assert!(PairedLosses::new(&[0.0], &[]).unwrap_err().is_data());
        assert_eq!(
            PairedLosses::new(&[0.0, 1.0], &[0.0, f64::NAN])
                .unwrap_err()
                .row(),
            Some(1)
        );
        let overflow = PairedLosses::new(&[f64::MAX], &[f64::MIN]).unwrap_err();
        assert_eq!(overflow.row(), Some(0));
        assert!(mcnemar(&[], &[], &[]).unwrap_err().is_data());
        assert!(mcnemar(&[0], &[0, 1], &[0]).unwrap_err().is_data());
        assert!(mcnemar(&[0], &[0], &[]).unwrap_err().is_data());
    }
}
