//! The paired t-test: compares two methods on the same rows, or on the same runs of a cross-validation.
//!
//! With d_r the difference of the two losses on row r, N of them, and the null hypothesis that the mean of d is 0:
//!
//!   t = d̄/(s·√(1/N + ρ)), with Student's distribution with N − 1 degrees of freedom
//!
//! ρ is 0 for independent rows. The test is two-sided. With k comparisons multiply the p-values by k (Bonferroni), or
//! use [`holm`](crate::holm). A p-value does not measure the size of a difference: also report a confidence interval.
//! [`Bootstrap::p_value`](crate::Bootstrap::p_value) tests a difference of any score.
//!
//! **Runs of a cross-validation are not independent**: their training rows overlap, and with several repeats the same
//! rows are tested again, so the t-test of N runs finds a difference between equal methods if only N is large enough.
//! The corrected resampled t-test adds ρ, the number of test rows divided by that of training rows, to 1/N: the
//! variance of d̄ for a correlation of ρ/(1 + ρ) between runs. With 5 folds, ρ is ¼, and no number of repeats makes the
//! standard error smaller than s/2.
//!
//! Reference: C. Nadeau and Y. Bengio, "Inference for the generalization error" (2003).

use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::special::beta;

/// The losses of two methods on the same rows.
///
/// ```
/// use burn_bayes_eval::PairedLosses;
///
/// let paired = PairedLosses::new(&[0.5, 0.75, 1.0], &[0.25, 1.0, 0.25])?;
/// assert_eq!(paired.differences(), [0.25, -0.25, 0.75]); // above 0: the second method is better
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
}

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedTest {
    /// The test statistic.
    pub statistic: f64,
    /// The p-value: the probability of a difference at least as large under the null hypothesis.
    pub p_value: f64,
}

/// The corrected resampled t-test of differences between runs whose training rows overlap, such as those of a
/// (repeated) cross-validation: `statistic` is t. `test_to_train` is ρ, the number of test rows of a run divided by that
/// of its training rows: 1/(k − 1) for k folds, and 0 for differences that are independent.
///
/// `None` if it is undefined: for a single difference, or if all are equal.
///
/// ```
/// use burn_bayes_eval::{PairedLosses, resampled_t_test};
///
/// let paired = PairedLosses::new(&[1.0, 2.0, 3.0, 2.0], &[0.0; 4])?;
/// let test = resampled_t_test(&paired, 0.25)?.expect("the differences vary");
/// let plain = resampled_t_test(&paired, 0.0)?.expect("the differences vary");
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
    let rows = paired.differences.len() as f64;
    let centre = mean(&paired.differences);
    let squares = paired
        .differences
        .iter()
        .map(|d| (d - centre) * (d - centre));
    let (spread, freedom) = (squares.sum::<f64>(), rows - 1.0);
    if is_constant(&paired.differences) || spread == 0.0 {
        return Ok(None);
    }
    let statistic = centre * (rows / (1.0 + rows * test_to_train) * freedom / spread).sqrt();
    let p_value = beta::regularised(
        0.5 * freedom,
        0.5,
        freedom / (freedom + statistic * statistic),
    );
    Ok(Some(PairedTest { statistic, p_value }))
}

fn is_constant(values: &[f64]) -> bool {
    values.iter().all(|value| *value == values[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::ascending;
    use crate::uniforms;

    fn paired(differences: &[f64]) -> PairedLosses {
        PairedLosses::new(differences, &vec![0.0; differences.len()]).unwrap()
    }

    #[test]
    fn equal_differences_have_no_test() {
        for differences in [&[0.0, 0.0][..], &[0.1, 0.1, 0.1], &[0.1]] {
            let test = resampled_t_test(&paired(differences), 0.0);
            assert_eq!(test.unwrap(), None);
        }
    }

    #[test]
    fn student_s_distribution_with_two_degrees_of_freedom() {
        let test = resampled_t_test(&paired(&[1.0, 2.0, 3.0]), 0.0);
        let test = test.unwrap().unwrap();
        assert!((test.statistic - 12f64.sqrt()).abs() < 1e-14);
        assert!((test.p_value - (1.0 - (6.0 / 7f64).sqrt())).abs() < 1e-14);
    }

    #[test]
    fn swapping_the_methods_changes_no_p_value() {
        let differences = [0.3, -0.1, 0.4, 0.4, 0.0, -0.2, 0.7];
        let swapped = differences.map(|d| -d);
        let test = |d: &[f64; 7]| resampled_t_test(&paired(d), 0.0).unwrap().unwrap();
        let t = [&differences, &swapped].map(test);
        assert_eq!(
            (t[0].statistic, t[0].p_value),
            (-t[1].statistic, t[1].p_value)
        );
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
        let plain = |seed| resampled_t_test(&equal_methods(20, 5, seed), 0.0);
        let size = found(|seed| plain(seed).unwrap().unwrap().p_value);
        assert!(size > 0.3, "the plain test is misled");
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
    }
}
