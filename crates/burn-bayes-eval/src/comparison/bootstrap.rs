//! The bootstrap: the sampling uncertainty of a score.
//!
//! B resamples, each with as many rows as the data, drawn with replacement, give the scores θ*₁ …
//! θ*_B; the score of the data is θ̂. With G the distribution of the θ*, at level ℓ = 1 − 2α:
//!
//!   percentile:  [G⁻¹(α), G⁻¹(1 − α)]
//!   BCa:         [G⁻¹(α₁), G⁻¹(α₂)],  α_i = Φ( z₀ + (z₀ + z_i)/(1 − a(z₀ + z_i)) ),  z_i = Φ⁻¹(α), Φ⁻¹(1 − α)
//!                z₀ = Φ⁻¹( (#{θ* < θ̂} + ½#{θ* = θ̂})/B ),   a = Σ d_i³ / (6 (Σ d_i²)^{3/2}),   d_i = θ̄₍·₎ − θ̂₍ᵢ₎
//!
//! with θ̂₍ᵢ₎ the score without row i and θ̄₍·₎ their mean. BCa corrects for a biased or skewed score
//! and costs one more score per row. G⁻¹ interpolates linearly between the sorted θ*.
//!
//! **Strata.** If a class is rare, some resamples do not contain it, and an AUROC is undefined for
//! them. [`Bootstrap::of_score_within`] draws from each stratum (for example each class) as many
//! rows as it has. Then θ̄₍·₎ is the mean of the row's stratum, and
//!
//!   d_i = (θ̄₍·₎ − θ̂₍ᵢ₎) (n_s − 1)/n_s,   0 in a stratum of n_s = 1 row.
//!
//! The interval is conditional on the sizes of the strata. This is no restriction for scores that
//! do not depend on the sizes, such as AUROC and balanced accuracy.
//!
//! **Comparing two methods** on the same rows: bootstrap the difference of their scores, so that
//! both use the same resamples.
//!
//! If rows are not independent (images of one patient, steps of one series), the interval is too
//! narrow: resample the groups instead.
//!
//! References: B. Efron, "Better bootstrap confidence intervals" (1987); B. Efron and R. J. Tibshirani,
//! "An introduction to the bootstrap" (1993), chapters 13 to 15; A. C. Davison and D. V. Hinkley,
//! "Bootstrap methods and their application" (1997), section 5.3, for strata.

use std::collections::BTreeMap;
use std::fmt;

use rand::RngExt;

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{compare, magnitude, mean};
use crate::random::resampling_generator;
use crate::special::normal;

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
    /// The rows of each stratum.
    strata: Vec<Vec<usize>>,
    /// The score without one row, for at least two rows. Only BCa needs it.
    score_without: Box<dyn Fn(usize) -> f64 + 'a>,
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
    /// than two resamples or more than ten million.
    pub fn of_mean(values: &'a [f64], resamples: usize, seed: u64) -> Result<Self, EvalError> {
        let [mean] = Self::of_means([values], resamples, seed)?;
        Ok(mean)
    }

    /// Resamples several means over the same rows. The results equal those of
    /// [`of_mean`](Self::of_mean) with this seed, but the rows, which take most of the time, are
    /// drawn only once.
    ///
    /// ```
    /// use burn_bayes_eval::Bootstrap;
    ///
    /// let (squares, costs) = ([0.1, 0.4, 0.9, 0.2], [1.1, 1.3, 1.9, 1.2]);
    /// let [mse, nll] = Bootstrap::of_means([&squares, &costs], 2000, 7)?;
    /// assert_eq!(mse.scores(), Bootstrap::of_mean(&squares, 2000, 7)?.scores());
    /// assert!(nll.estimate() > mse.estimate());
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of_mean`](Self::of_mean), and a data error if the numbers of rows differ.
    pub fn of_means<const N: usize>(
        columns: [&'a [f64]; N],
        resamples: usize,
        seed: u64,
    ) -> Result<[Self; N], EvalError> {
        let rows = columns.first().map_or(0, |values| values.len());
        for values in columns {
            check::same_length("values", values.len(), rows)?;
            check::finite("values", values)?;
        }
        // Row-major, so that the values of a row are adjacent in memory.
        let by_row: Vec<[f64; N]> = (0..rows)
            .map(|row| columns.map(|values| values[row]))
            .collect();
        let means = |drawn: &[usize]| {
            let mut sums = [0.0; N];
            for &row in drawn {
                for (sum, value) in sums.iter_mut().zip(by_row[row]) {
                    *sum += value;
                }
            }
            sums.map(|sum| sum / rows as f64)
        };
        let strata = vec![(0..rows).collect()];
        let (estimates, mut scores) = resampled(&strata, resamples, seed, means)?;
        Ok(std::array::from_fn(|place| {
            let values = columns[place];
            let sum: f64 = values.iter().sum();
            Self {
                estimate: estimates[place],
                scores: std::mem::take(&mut scores[place]),
                strata: strata.clone(),
                score_without: Box::new(move |row| (sum - values[row]) / (rows - 1) as f64),
            }
        }))
    }

    /// Resamples any score of a set of rows, given as indices with repetitions.
    ///
    /// If the score of a resample is undefined (for example an AUROC without positive rows) it is
    /// NaN, which is an error: return a defined value in this case, or use
    /// [`of_score_within`](Self::of_score_within).
    ///
    /// # Errors
    /// A data error if there are no rows or a score is not finite; a config error if there are fewer
    /// than two resamples or more than ten million.
    pub fn of_score(
        rows: usize,
        resamples: usize,
        seed: u64,
        score: impl Fn(&[usize]) -> f64 + 'a,
    ) -> Result<Self, EvalError> {
        Self::of_strata(vec![(0..rows).collect()], resamples, seed, score)
    }

    /// Resamples any score within strata: each resample has as many rows of each stratum as the
    /// data.
    ///
    /// `strata` has one number per row, usually its true class, so that every resample contains
    /// every class.
    ///
    /// ```
    /// use burn_bayes_eval::{BinaryScores, Bootstrap, auroc};
    ///
    /// let scores = [0.1, 0.3, 0.2, 0.6, 0.4, 0.5, 0.8];
    /// let labels = [0, 0, 0, 0, 0, 1, 1];
    /// let area = Bootstrap::of_score_within(&labels, 2000, 7, |rows| {
    ///     let scores: Vec<f64> = rows.iter().map(|&row| scores[row]).collect();
    ///     let positive: Vec<bool> = rows.iter().map(|&row| labels[row] == 1).collect();
    ///     BinaryScores::new(&scores, &positive).map_or(f64::NAN, |scores| auroc(&scores))
    /// })?;
    /// assert_eq!(area.estimate(), 0.9);
    /// assert!(area.percentile_interval(0.95)?.lower < 0.9);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`of_score`](Self::of_score).
    pub fn of_score_within(
        strata: &[usize],
        resamples: usize,
        seed: u64,
        score: impl Fn(&[usize]) -> f64 + 'a,
    ) -> Result<Self, EvalError> {
        let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (row, &stratum) in strata.iter().enumerate() {
            rows.entry(stratum).or_default().push(row);
        }
        Self::of_strata(rows.into_values().collect(), resamples, seed, score)
    }

    fn of_strata(
        strata: Vec<Vec<usize>>,
        resamples: usize,
        seed: u64,
        score: impl Fn(&[usize]) -> f64 + 'a,
    ) -> Result<Self, EvalError> {
        let ([estimate], [scores]) = resampled(&strata, resamples, seed, |rows| [score(rows)])?;
        let rows = count(&strata);
        let score_without = move |left_out: usize| {
            let others: Vec<usize> = (0..rows).filter(|&row| row != left_out).collect();
            score(&others)
        };
        Ok(Self {
            estimate,
            scores,
            strata,
            score_without: Box::new(score_without),
        })
    }

    /// The score of the data.
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
    /// A config error if the level is not strictly between 0 and 1; a data error if no stratum has
    /// two rows, the score without a row is not finite, or all resampled scores lie on one side of
    /// the estimate, so that the bias correction is undefined.
    pub fn bca_interval(&self, level: f64) -> Result<ScoreInterval, EvalError> {
        check::open_unit("level", level)?;
        let share = self.share_below_estimate();
        if share == 0.0 || share == 1.0 {
            return Err(EvalError::data(
                "resampled scores",
                Place::WHOLE,
                format!("all {} on one side of the estimate", self.scores.len()),
                "some on either side",
                "a score with bias on repeated rows, or too few resamples: use the percentile \
                 interval",
            ));
        }
        let (bias, acceleration) = (normal::quantile(share), self.acceleration()?);
        let limit = |tail: f64| {
            let shifted = bias + normal::quantile(tail);
            let slope = 1.0 - acceleration * shifted;
            // Beyond the pole of the correction the quantile is an end of the distribution.
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
    /// fractions of resamples at or below it and at or above it, each with one resample added.
    ///
    /// For a difference between two methods `value` is 0. The percentile interval at level 1 − p,
    /// with p the p-value, just contains the value, up to the added resample.
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
        Ok((2.0 * (fewer + 1.0) / (self.scores.len() as f64 + 1.0)).at_most(1.0))
    }

    /// Zero if no row has an influence.
    fn acceleration(&self) -> Result<f64, EvalError> {
        let (mut squares, mut cubes) = (0.0, 0.0);
        let influences = self.influences()?;
        // The ratio does not depend on the unit.
        let unit = magnitude(&influences);
        for d in influences.iter().map(|influence| influence / unit) {
            squares += d * d;
            cubes += d * d * d;
        }
        if squares == 0.0 {
            return Ok(0.0);
        }
        Ok(cubes / (6.0 * squares * squares.sqrt()))
    }

    /// d_i of the rows in strata with at least two rows.
    fn influences(&self) -> Result<Vec<f64>, EvalError> {
        let mut influences = Vec::new();
        for stratum in self.strata.iter().filter(|stratum| stratum.len() > 1) {
            let without = |&row: &usize| {
                defined(
                    "score without a row",
                    Place::row(row),
                    (self.score_without)(row),
                )
            };
            let left_out: Vec<f64> = stratum.iter().map(without).collect::<Result<_, _>>()?;
            let (centre, rows) = (mean(&left_out), stratum.len() as f64);
            influences.extend(
                left_out
                    .iter()
                    .map(|score| (centre - score) * (rows - 1.0) / rows),
            );
        }
        if influences.is_empty() {
            return Err(EvalError::data(
                "rows of a stratum",
                Place::WHOLE,
                1,
                "at least 2",
                "strata of single rows, which every resample repeats, so that the score does not \
                 vary",
            ));
        }
        Ok(influences)
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

/// More resamples add no precision, and these need 80 MB for the scores.
const MOST_RESAMPLES: usize = 10_000_000;

/// Several scores of the data, and the scores of the resamples, each ascending.
fn resampled<const N: usize>(
    strata: &[Vec<usize>],
    resamples: usize,
    seed: u64,
    score: impl Fn(&[usize]) -> [f64; N],
) -> Result<([f64; N], [Vec<f64>; N]), EvalError> {
    let rows = count(strata);
    check::not_empty("rows", rows)?;
    check::count("resamples", resamples, 2..=MOST_RESAMPLES)?;
    let mut drawn: Vec<usize> = (0..rows).collect();
    let estimates = score(&drawn);
    for estimate in estimates {
        defined("score of all rows", Place::WHOLE, estimate)?;
    }
    let mut generator = resampling_generator(seed);
    let mut scores = [const { Vec::new() }; N];
    for resample in 0..resamples {
        drawn.clear();
        for stratum in strata {
            let draw = |_| stratum[generator.random_range(0..stratum.len())];
            drawn.extend((0..stratum.len()).map(draw));
        }
        let what = format!("score of resample {resample}");
        for (scores, score) in scores.iter_mut().zip(score(&drawn)) {
            scores.push(defined(&what, Place::WHOLE, score)?);
        }
    }
    for scores in &mut scores {
        scores.sort_by(|a, b| compare(*a, *b));
    }
    Ok((estimates, scores))
}

fn count(strata: &[Vec<usize>]) -> usize {
    strata.iter().map(Vec::len).sum()
}

fn defined(what: &str, place: Place, score: f64) -> Result<f64, EvalError> {
    if score.is_finite() {
        return Ok(score);
    }
    let cause = "a score that is undefined for these rows, because a class is missing or by ln 0";
    Err(EvalError::data(
        what,
        place,
        score,
        "a finite number",
        cause,
    ))
}

/// The quantile by linear interpolation: share 0 is the first value, share 1 the last.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = (place as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let weight = place - below as f64;
    sorted[below] + weight * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BinaryScores, auroc, uniforms};

    /// Uses SciPy's bootstrap distribution instead of our own resamples.
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
        let golden = include_str!("../../tests/it/golden/eval.json");
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
        // Scores of about 2 at positions up to 400, which BCa computes through Φ and Φ⁻¹.
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
    fn several_means_are_those_of_each() {
        let [first, second] = [uniforms(50, 3), uniforms(50, 4)];
        let together = Bootstrap::of_means([&first, &second], 100, 5).unwrap();
        for (joint, values) in together.iter().zip([&first, &second]) {
            let alone = Bootstrap::of_mean(values, 100, 5).unwrap();
            assert_eq!(joint.estimate(), alone.estimate());
            assert_eq!(joint.scores(), alone.scores());
            assert_eq!(joint.bca_interval(0.9), alone.bca_interval(0.9));
        }
        let shorter = Bootstrap::of_means([&first, &second[1..]], 100, 5);
        assert!(shorter.unwrap_err().is_data());
        let none: [&[f64]; 0] = [];
        assert!(Bootstrap::of_means(none, 100, 5).unwrap_err().is_data());
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

    /// AUROC of the first 3 of 100 rows against the others.
    fn area_of_a_rare_class(rows: &[usize]) -> f64 {
        // Numbers below 101, to which the class adds 60.
        let scores: Vec<f64> = rows
            .iter()
            .map(|row| (row * 37 % 101) as f64 + 60.0 * f64::from(*row < 3))
            .collect();
        let positive: Vec<bool> = rows.iter().map(|&row| row < 3).collect();
        BinaryScores::new(&scores, &positive).map_or(f64::NAN, |scores| auroc(&scores))
    }

    #[test]
    fn a_rare_class_has_an_interval_within_strata() {
        let plain = Bootstrap::of_score(100, 1000, 4, area_of_a_rare_class);
        assert!(plain.unwrap_err().is_data(), "a resample without the class");
        let labels: Vec<usize> = (0..100).map(|row| usize::from(row < 3)).collect();
        let within = Bootstrap::of_score_within(&labels, 1000, 4, area_of_a_rare_class).unwrap();
        assert_eq!(
            within.estimate(),
            area_of_a_rare_class(&Vec::from_iter(0..100))
        );
        for interval in [
            within.percentile_interval(0.95).unwrap(),
            within.bca_interval(0.95).unwrap(),
        ] {
            let inside = interval.lower < within.estimate() && within.estimate() < interval.upper;
            assert!(inside, "{interval:?}");
        }
    }

    #[test]
    fn every_resample_has_as_many_rows_of_each_stratum() {
        let strata = [7, 2, 7, 7, usize::MAX, 2];
        let counted = |rows: &[usize]| {
            let of = |stratum| rows.iter().filter(|&&row| strata[row] == stratum).count();
            let counts = [of(7), of(2), of(usize::MAX)];
            assert_eq!((rows.len(), counts), (6, [3, 2, 1]));
            rows.iter().map(|&row| row as f64).sum()
        };
        let bootstrap = Bootstrap::of_score_within(&strata, 500, 1, counted).unwrap();
        // So many resamples include those of only the first and of only the last row of every
        // stratum.
        let (scores, count) = (bootstrap.scores(), bootstrap.scores().len());
        assert_eq!(
            (scores[0], scores[count - 1]),
            (3.0 * 0.0 + 2.0 * 1.0 + 4.0, 3.0 * 3.0 + 2.0 * 5.0 + 4.0)
        );
    }

    #[test]
    fn one_stratum_is_no_stratum() {
        let values = [0.5, 2.0, -1.0, 0.25, 4.0];
        let mean_of =
            |rows: &[usize]| rows.iter().map(|&r| values[r]).sum::<f64>() / rows.len() as f64;
        let plain = Bootstrap::of_score(5, 50, 9, mean_of).unwrap();
        let within = Bootstrap::of_score_within(&[3; 5], 50, 9, mean_of).unwrap();
        assert_eq!(within.scores(), plain.scores());
        assert_eq!(within.bca_interval(0.8), plain.bca_interval(0.8));
    }

    #[test]
    fn a_difference_of_stratum_means_has_a_known_error_and_acceleration() {
        // With c the distance of a value from its stratum's mean: a variance of Σ_s Σ c²/n_s² and
        // an acceleration of Σ_s ± Σ c³/n_s³ over six times its power 3/2.
        let values: Vec<f64> = uniforms(120, 8).iter().map(|u| u.exp()).collect();
        let strata: Vec<usize> = (0..120).map(|row| usize::from(row < 30)).collect();
        let mean_of = |rows: &[usize], stratum| {
            let values = rows
                .iter()
                .filter(|&&row| strata[row] == stratum)
                .map(|&row| values[row]);
            mean(&values.collect::<Vec<f64>>())
        };
        let difference = |rows: &[usize]| mean_of(rows, 1) - mean_of(rows, 0);
        let bootstrap = Bootstrap::of_score_within(&strata, 5000, 6, difference).unwrap();
        let all: Vec<usize> = (0..120).collect();
        let (mut variance, mut third) = (0.0, 0.0);
        for (row, value) in values.iter().enumerate() {
            let stratum = strata[row];
            let (size, sign) = if stratum == 1 {
                (30.0, 1.0)
            } else {
                (90.0, -1.0)
            };
            let c = sign * (value - mean_of(&all, stratum)) / size;
            variance += c * c;
            third += c * c * c;
        }
        // The error itself is known to about 1/√(2B).
        let ratio = bootstrap.standard_error() / variance.sqrt();
        assert!((ratio - 1.0).abs() < 5.0 / 1e4_f64.sqrt(), "{ratio}");
        let expected = third / (6.0 * variance * variance.sqrt());
        let found = bootstrap.acceleration().unwrap();
        // Differences of means of 120 numbers of about one, to the third power of 1/120.
        assert!(
            (found - expected).abs() < 120.0 * 120.0 * f64::EPSILON,
            "{found} {expected}"
        );
    }

    #[test]
    fn the_interval_has_the_unit_of_the_score() {
        let losses: Vec<f64> = uniforms(60, 9).iter().map(|u| u.exp()).collect();
        let interval = |unit: f64| {
            let losses: Vec<f64> = losses.iter().map(|loss| unit * loss).collect();
            let bootstrap = Bootstrap::of_mean(&losses, 999, 4).unwrap();
            bootstrap.bca_interval(0.9).unwrap()
        };
        let expected = interval(1.0);
        for unit in [2f64.powi(600), 2f64.powi(-600)] {
            let found = interval(unit);
            for (found, expected) in [(found.lower, expected.lower), (found.upper, expected.upper)]
            {
                assert!((found / unit / expected - 1.0).abs() < 1e-12, "{found}");
            }
        }
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
        let lowest = |rows: &[usize]| *rows.iter().min().expect("a score sees rows") as f64;
        let one_row = Bootstrap::of_score(1, 10, 0, lowest).unwrap();
        let rows_alone = Bootstrap::of_score_within(&[5, 6], 10, 0, lowest).unwrap();
        for bootstrap in [one_row, rows_alone] {
            assert!(bootstrap.bca_interval(0.9).unwrap_err().is_data());
        }
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
        // A resample has at most as many distinct rows as the data, and with forty rows no resample
        // here has all of them.
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
        let none = Bootstrap::of_score_within(&[], 10, 0, |_| 0.0);
        assert!(none.unwrap_err().is_data());
        assert_eq!(
            Bootstrap::of_mean(&[0.0, f64::NAN], 10, 0)
                .unwrap_err()
                .row(),
            Some(1)
        );
        for resamples in [1, usize::MAX] {
            let error = Bootstrap::of_mean(&[0.0], resamples, 0).unwrap_err();
            assert!(error.is_config());
        }
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
