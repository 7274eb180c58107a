//! The bootstrap: how far would a score move on other rows of the same kind?
//!
//! B times, as many rows as there are are drawn with replacement and scored, giving θ*₁ … θ*_B around
//! the score θ̂ of the rows themselves. With G the distribution of the θ*, at level ℓ = 1 − 2α:
//!
//!   percentile:  [G⁻¹(α), G⁻¹(1 − α)]
//!   BCa:         [G⁻¹(α₁), G⁻¹(α₂)],  α_i = Φ( z₀ + (z₀ + z_i)/(1 − a(z₀ + z_i)) ),  z_i = Φ⁻¹(α), Φ⁻¹(1 − α)
//!                z₀ = Φ⁻¹( (#{θ* < θ̂} + ½#{θ* = θ̂})/B ),   a = Σ d_i³ / (6 (Σ d_i²)^{3/2}),   d_i = θ̄₍·₎ − θ̂₍ᵢ₎
//!
//! with θ̂₍ᵢ₎ the score without row i and θ̄₍·₎ their mean. BCa corrects for a biased or skewed score
//! and costs one more score per row. G⁻¹ interpolates linearly between the sorted θ*.
//!
//! **Comparing two methods** on the same rows: bootstrap the difference of their scores, so that both
//! see the same resamples.
//!
//! Rows that belong together (images of one patient, steps of one series) are not independent, and
//! the interval is then too narrow: resample the groups instead.
//!
//! References: B. Efron, "Better bootstrap confidence intervals" (1987); B. Efron and R. J. Tibshirani,
//! "An introduction to the bootstrap" (1993), chapters 13 to 15.

use std::fmt;

use rand::RngExt;

use crate::check;
use crate::error::{EvalError, Place};
use crate::normal;
use crate::order::{compare, mean};
use crate::random::resampling_generator;

/// A score together with its values on resampled rows.
///
/// ```
/// use burn_bayes_eval::{
///     Bootstrap, ClassProbabilities, ConfusionMatrix, LabelledProbabilities, log_losses,
/// };
///
/// let labels = [1, 0, 1, 1, 0, 0];
/// let table = ClassProbabilities::binary(&[0.9, 0.2, 0.6, 0.8, 0.3, 0.7])?;
/// let labelled = LabelledProbabilities::new(&table, &labels)?;
///
/// // A mean over rows …
/// let losses = log_losses(&labelled);
/// let nll = Bootstrap::of_mean(&losses, 2000, 7)?;
/// let interval = nll.bca_interval(0.95)?;
/// assert!(interval.lower < nll.estimate() && nll.estimate() < interval.upper);
///
/// // … and any other score of a set of rows.
/// let predicted = table.predicted_classes();
/// let macro_f1 = Bootstrap::of_score(labels.len(), 2000, 7, |rows| {
///     let pick = |of: &[usize]| rows.iter().map(|&row| of[row]).collect::<Vec<_>>();
///     ConfusionMatrix::new(&pick(&predicted), &pick(&labels), 2).map_or(f64::NAN, |m| m.macro_f1())
/// })?;
/// assert!(macro_f1.percentile_interval(0.95)?.upper <= 1.0);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub struct Bootstrap<'a> {
    estimate: f64,
    /// Ascending.
    scores: Vec<f64>,
    /// Computed when asked for: only BCa needs them.
    leave_one_out: Box<dyn Fn() -> Vec<f64> + 'a>,
}

/// A confidence interval of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreInterval {
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
}

impl<'a> Bootstrap<'a> {
    /// Resamples the mean of one value per row: losses, or differences of two methods' losses.
    ///
    /// # Errors
    /// A data error if there are no values or one is not finite; a config error if there are fewer
    /// than two resamples.
    pub fn of_mean(values: &'a [f64], resamples: usize, seed: u64) -> Result<Self, EvalError> {
        check::finite("values", values)?;
        let rows = values.len();
        let score =
            |drawn: &[usize]| drawn.iter().map(|&row| values[row]).sum::<f64>() / rows as f64;
        let (estimate, scores) = resampled(rows, resamples, seed, score)?;
        let leave_one_out = Box::new(move || {
            let sum: f64 = values.iter().sum();
            let others = (values.len() - 1) as f64;
            values.iter().map(|value| (sum - value) / others).collect()
        });
        Ok(Self {
            estimate,
            scores,
            leave_one_out,
        })
    }

    /// Resamples any score of a set of rows, given as indices in which rows may repeat.
    ///
    /// A score that a resample leaves undefined (an AUROC without positive rows, say) is NaN, and an
    /// error: decide beforehand what it should count as.
    ///
    /// # Errors
    /// A data error if there are no rows or a score is not finite; a config error if there are fewer
    /// than two resamples.
    pub fn of_score(
        rows: usize,
        resamples: usize,
        seed: u64,
        score: impl Fn(&[usize]) -> f64 + 'a,
    ) -> Result<Self, EvalError> {
        let (estimate, scores) = resampled(rows, resamples, seed, &score)?;
        let leave_one_out = Box::new(move || {
            let without = |left_out: usize| {
                let others: Vec<usize> = (0..rows).filter(|&row| row != left_out).collect();
                score(&others)
            };
            (0..rows).map(without).collect()
        });
        Ok(Self {
            estimate,
            scores,
            leave_one_out,
        })
    }

    /// The score of the rows themselves.
    pub fn estimate(&self) -> f64 {
        self.estimate
    }

    /// The scores of the resamples, ascending.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Standard deviation of the resampled scores.
    pub fn standard_error(&self) -> f64 {
        let centre = mean(&self.scores);
        let squares = self
            .scores
            .iter()
            .map(|score| (score - centre) * (score - centre));
        (squares.sum::<f64>() / (self.scores.len() - 1) as f64).sqrt()
    }

    /// The interval between two quantiles of the resampled scores.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn percentile_interval(&self, level: f64) -> Result<ScoreInterval, EvalError> {
        check::open_unit("level", level)?;
        let tail = 0.5 * (1.0 - level);
        Ok(ScoreInterval {
            lower: quantile(&self.scores, tail),
            upper: quantile(&self.scores, 1.0 - tail),
        })
    }

    /// The bias-corrected and accelerated interval.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1; a data error if there is only
    /// one row, the score without a row is not finite, or every resampled score lies on one side of
    /// the estimate, which leaves the bias correction undefined.
    pub fn bca_interval(&self, level: f64) -> Result<ScoreInterval, EvalError> {
        check::open_unit("level", level)?;
        let share = self.share_below_estimate();
        if share == 0.0 || share == 1.0 {
            return Err(EvalError::data(
                "resampled scores",
                Place::WHOLE,
                format!("all {} on one side of the estimate", self.scores.len()),
                "some on either side",
                "a score that repeated rows bias, or too few resamples: use the percentile interval",
            ));
        }
        let left_out = (self.leave_one_out)();
        check::finite("scores without one row", &left_out)?;
        let (bias, acceleration) = (normal::quantile(share), acceleration(&left_out));
        let limit = |tail: f64| {
            let shifted = bias + normal::quantile(tail);
            let slope = 1.0 - acceleration * shifted;
            // Beyond the pole of the correction lies the end of the distribution.
            let z = if slope > 0.0 {
                bias + shifted / slope
            } else {
                f64::INFINITY.copysign(shifted)
            };
            quantile(&self.scores, normal::cumulative(z))
        };
        let tail = 0.5 * (1.0 - level);
        Ok(ScoreInterval {
            lower: limit(tail),
            upper: limit(1.0 - tail),
        })
    }

    /// Two-sided p-value of the hypothesis that the true score is `value`: twice the smaller of the
    /// shares of resamples at or below it and at or above it, each counted with one resample more.
    ///
    /// For a difference between two methods `value` is 0. It is the level, from outside, at which
    /// the percentile interval begins to hold the value.
    ///
    /// ```
    /// use burn_bayes_eval::Bootstrap;
    ///
    /// let differences = [0.2, 0.1, 0.3, 0.25, 0.15];
    /// let bootstrap = Bootstrap::of_mean(&differences, 999, 1)?;
    /// assert_eq!(bootstrap.p_value(0.0)?, 0.002); // never at or below zero: 2/1000
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if the value is not finite.
    pub fn p_value(&self, value: f64) -> Result<f64, EvalError> {
        check::finite_setting("value", value)?;
        let at_most = self.scores.partition_point(|&score| score <= value);
        let at_least = self.scores.len() - self.scores.partition_point(|&score| score < value);
        let fewer = at_most.min(at_least) as f64;
        Ok((2.0 * (fewer + 1.0) / (self.scores.len() as f64 + 1.0)).min(1.0))
    }

    fn share_below_estimate(&self) -> f64 {
        let below = self.scores.partition_point(|&score| score < self.estimate);
        let not_above = self.scores.partition_point(|&score| score <= self.estimate);
        (below + not_above) as f64 / (2 * self.scores.len()) as f64
    }
}

impl fmt::Debug for Bootstrap<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Bootstrap")
            .field("estimate", &self.estimate)
            .field("scores", &self.scores)
            .finish_non_exhaustive()
    }
}

/// The score of all rows, and those of the resamples, ascending.
fn resampled(
    rows: usize,
    resamples: usize,
    seed: u64,
    score: impl Fn(&[usize]) -> f64,
) -> Result<(f64, Vec<f64>), EvalError> {
    check::not_empty("rows", rows)?;
    if resamples < 2 {
        return Err(EvalError::config("resamples", resamples, "at least 2"));
    }
    let checked = |what: &str, drawn: &[usize]| {
        let score = score(drawn);
        if score.is_finite() {
            return Ok(score);
        }
        let cause = "a score that these rows leave undefined, for want of a class or by ln 0";
        Err(EvalError::data(
            what,
            Place::WHOLE,
            score,
            "a finite number",
            cause,
        ))
    };
    let mut drawn: Vec<usize> = (0..rows).collect();
    let estimate = checked("score of all rows", &drawn)?;
    let mut generator = resampling_generator(seed);
    let mut scores = Vec::with_capacity(resamples);
    for resample in 0..resamples {
        drawn.fill_with(|| generator.random_range(0..rows));
        scores.push(checked(&format!("score of resample {resample}"), &drawn)?);
    }
    scores.sort_by(|a, b| compare(*a, *b));
    Ok((estimate, scores))
}

/// Interpolated linearly: share 0 is the first value, share 1 the last.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = (place as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let weight = place - below as f64;
    sorted[below] + weight * (sorted[above] - sorted[below])
}

/// Zero where no row makes a difference.
fn acceleration(left_out: &[f64]) -> f64 {
    let centre = mean(left_out);
    let (mut squares, mut cubes) = (0.0, 0.0);
    for score in left_out {
        let d = centre - score;
        squares += d * d;
        cubes += d * d * d;
    }
    if squares == 0.0 {
        return 0.0;
    }
    cubes / (6.0 * squares * squares.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    /// SciPy's bootstrap distribution in place of our own resamples.
    #[test]
    fn intervals_of_a_given_distribution_agree_with_scipy() {
        #[derive(serde::Deserialize)]
        struct Golden {
            bootstrap: Case,
        }
        #[derive(serde::Deserialize)]
        struct Case {
            values: Vec<f64>,
            level: f64,
            scores: Vec<f64>,
            standard_error: f64,
            percentile: [f64; 2],
            bca: [f64; 2],
        }
        let golden = include_str!("../tests/it/golden/eval.json");
        let Case {
            values,
            level,
            mut scores,
            standard_error,
            percentile,
            bca,
        } = serde_json::from_str::<Golden>(golden).unwrap().bootstrap;
        scores.sort_by(f64::total_cmp);
        let bootstrap = Bootstrap {
            scores,
            ..Bootstrap::of_mean(&values, 2, 0).unwrap()
        };
        // Scores of about 2 at places up to 400, which BCa finds through Φ and Φ⁻¹.
        let close = |found: f64, expected: f64| {
            assert!(
                (found - expected).abs() < 400.0 * 8.0 * f64::EPSILON,
                "{found} {expected}"
            );
        };
        close(bootstrap.standard_error(), standard_error);
        for (interval, [lower, upper]) in [
            (bootstrap.percentile_interval(level).unwrap(), percentile),
            (bootstrap.bca_interval(level).unwrap(), bca),
        ] {
            close(interval.lower, lower);
            close(interval.upper, upper);
        }
    }

    #[test]
    fn a_mean_is_a_score_like_any_other() {
        let values = [0.5, 2.0, -1.0, 0.25, 4.0];
        let mean_of =
            |rows: &[usize]| rows.iter().map(|&r| values[r]).sum::<f64>() / rows.len() as f64;
        let direct = Bootstrap::of_mean(&values, 50, 9).unwrap();
        let general = Bootstrap::of_score(5, 50, 9, mean_of).unwrap();
        assert_eq!(direct.scores(), general.scores());
        let [one, other] = [direct, general].map(|bootstrap| bootstrap.bca_interval(0.8).unwrap());
        assert!((one.lower - other.lower).abs() < 64.0 * f64::EPSILON);
        assert!((one.upper - other.upper).abs() < 64.0 * f64::EPSILON);
    }

    #[test]
    fn the_standard_error_of_a_mean_is_known() {
        // σ/√n, itself known to about 1/√(2B).
        let values = uniforms(400, 5);
        let bootstrap = Bootstrap::of_mean(&values, 5000, 6).unwrap();
        let centre = mean(&values);
        let variance = values
            .iter()
            .map(|v| (v - centre) * (v - centre))
            .sum::<f64>()
            / 400.0;
        let expected = (variance / 400.0).sqrt();
        assert!((bootstrap.standard_error() / expected - 1.0).abs() < 5.0 / 1e4_f64.sqrt());
    }

    #[test]
    fn what_never_varies_has_an_interval_of_no_width() {
        let bootstrap = Bootstrap::of_mean(&[2.0; 4], 10, 0).unwrap();
        let point = ScoreInterval {
            lower: 2.0,
            upper: 2.0,
        };
        assert_eq!(bootstrap.percentile_interval(0.9).unwrap(), point);
        assert_eq!(bootstrap.bca_interval(0.9).unwrap(), point);
        assert_eq!(
            (bootstrap.standard_error(), bootstrap.p_value(2.0).unwrap()),
            (0.0, 1.0)
        );
    }

    #[test]
    fn one_row_has_no_acceleration() {
        let bootstrap = Bootstrap::of_mean(&[2.0], 10, 0).unwrap();
        assert_eq!(bootstrap.percentile_interval(0.9).unwrap().upper, 2.0);
        assert!(bootstrap.bca_interval(0.9).unwrap_err().is_data());
    }

    #[test]
    fn resamples_share_no_numbers_with_uniforms_of_the_same_seed() {
        let rows = 4096;
        let drawn = std::cell::RefCell::new(Vec::new());
        let keep = |rows: &[usize]| {
            drawn.borrow_mut().push(rows.to_vec());
            0.0
        };
        Bootstrap::of_score(rows, 2, 3, keep).unwrap();
        let drawn = drawn.into_inner();
        let scaled = uniforms(rows, 3).into_iter().map(|u| u * rows as f64);
        let equal = scaled
            .zip(&drawn[1])
            .filter(|(u, row)| *u as usize == **row);
        // One on average.
        assert!(equal.count() < 10);
    }

    #[test]
    fn a_score_biased_by_repetition_has_no_bca_interval() {
        // The number of different rows never exceeds that of the rows themselves, and with forty
        // rows no resample of these reaches it.
        let distinct = |rows: &[usize]| {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows.dedup();
            rows.len() as f64
        };
        let bootstrap = Bootstrap::of_score(40, 20, 0, distinct).unwrap();
        assert!(bootstrap.bca_interval(0.9).unwrap_err().is_data());
        assert!(bootstrap.percentile_interval(0.9).unwrap().upper < 40.0);
    }

    #[test]
    fn rejects_undefined_scores_and_bad_settings() {
        assert!(Bootstrap::of_mean(&[], 10, 0).unwrap_err().is_data());
        assert_eq!(
            Bootstrap::of_mean(&[0.0, f64::NAN], 10, 0)
                .unwrap_err()
                .row(),
            Some(1)
        );
        assert!(Bootstrap::of_mean(&[0.0], 1, 0).unwrap_err().is_config());
        let undefined = |rows: &[usize]| if rows.contains(&0) { 0.0 } else { f64::NAN };
        assert!(
            Bootstrap::of_score(2, 50, 0, undefined)
                .unwrap_err()
                .is_data()
        );
        let bootstrap = Bootstrap::of_mean(&[0.0, 1.0], 10, 0).unwrap();
        assert!(bootstrap.percentile_interval(1.0).unwrap_err().is_config());
        assert!(bootstrap.bca_interval(0.0).unwrap_err().is_config());
        assert!(bootstrap.p_value(f64::NAN).unwrap_err().is_config());
    }
}
