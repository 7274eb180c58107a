//! Scores of regression predictions: one mixture of Gaussians per row.

use burn_bayes::eval::{
    MemberDisagreement, PredictionIntervals, QuantileCalibration, QuantilePoint,
    SparsificationError, TargetedMixture, ause, crps_losses, log_densities, pit_values,
    referral_scores, winkler_scores,
};
use rayon::prelude::*;
use serde::Serialize;

use super::member_disagreement::MemberScores;
use super::score::mean;
use super::selective::KEPT_FRACTIONS;
use super::spec::{Lines, ScoreLine, scores};
use crate::error::Result;
use crate::order::selected;
use crate::predict::{EPISTEMIC, RealPredictions, members};
use crate::scores::{Intervals, Score, SelectiveScores};
use crate::text::percent;

/// Levels of the prediction intervals.
pub(crate) const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];
/// Number of quantiles whose frequencies are compared: 5 %, 10 %, … 95 %.
pub(super) const QUANTILES: usize = 19;
/// Number of bins of the PIT histogram.
const PIT_BINS: usize = 10;

scores! {
    /// All scores of a regression, in the unit of the target.
    RegressionScores {
        /// Number of rows.
        rows: usize;
        /// Number of draws of the weights.
        draws: usize;
        /// Standard deviation of the observation noise.
        noise_deviation: f64;
        /// Root mean squared error, in the unit of the target.
        rmse: Score = ("RMSE", Lower, compared);
        /// Mean negative log-likelihood per row, in nats; low for accurate, well-calibrated predictions.
        nll: Score = ("NLL", Lower, compared);
        /// Continuous ranked probability score, in the unit of the target; for a point prediction, the absolute error.
        crps: Score = ("CRPS", Lower, compared);
        /// Mean absolute difference between nominal and observed frequencies of the quantiles 5 %, 10 %, … 95 %.
        quantile_calibration_error: Score = ("Calibration error", Lower, compared);
        /// Coverage and width of central intervals.
        intervals: Vec<CoverageScores> = (each);
        /// Nominal and observed frequencies of the quantiles.
        quantiles: Vec<QuantileFrequency>;
        /// Histogram of the probability integral transform, in ten bins; equal counts mean calibration.
        pit_counts: Vec<usize>;
        /// Area under the sparsification error curve: how far keeping the rows with the smallest predicted standard
        /// deviation is from keeping those with the smallest errors, in units of the RMSE; 0 for the best order, and about 0.6
        /// for a random order of normal errors.
        ause: Score = ("AUSE", Lower);
        /// Selective prediction by the disagreement of draws, with the squared error as loss.
        selective: [SelectiveScores<ReferredReals>; 1];
        /// The disagreement within the members of an ensemble and between them; null for a single fit.
        members: Option<MemberScores> = (each);
    }
}

scores! {
    /// Scores of central intervals of numbers or counts.
    CoverageScores {
        /// Nominal probability.
        level: f64;
        /// Fraction of targets in their central interval.
        coverage: Score = ("Coverage", AtLevel);
        /// Mean width of these intervals, in the unit of the target; compare widths only at equal coverage.
        mean_width: Score = ("Width", Lower);
        /// Width of these intervals plus a penalty for targets outside, in the unit of the target; a proper score of
        /// intervals.
        winkler: Score = ("Winkler score", Lower);
        /// For counts, the mean probability of the intervals under their mixtures: the coverage of calibrated predictions,
        /// at least the level.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected: Option<f64>;
    }
}

impl Lines for Vec<CoverageScores> {
    /// The coverages, the widths, and the score of the widest intervals.
    fn lines(&self) -> Vec<ScoreLine> {
        let of_level = |at: &CoverageScores| {
            let level = percent(at.level);
            let mut lines = at.lines();
            for line in &mut lines {
                line.title += &format!(" at {level}");
            }
            let expected = at.expected.map_or_else(String::new, |expected| {
                format!(
                    "; {} are expected, because counts are whole",
                    percent(expected)
                )
            });
            lines[0].meaning =
                format!("Fraction of targets in their central {level} interval{expected}.");
            lines
        };
        let levels: Vec<Vec<ScoreLine>> = self.iter().map(of_level).collect();
        let column = |place: usize| levels.iter().map(move |lines| lines[place].clone());
        column(0)
            .chain(column(1))
            .chain(column(2).next_back())
            .collect()
    }
}

/// Nominal and observed frequency of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantileFrequency {
    /// Nominal probability.
    pub level: f64,
    /// Fraction of targets below the quantile.
    pub observed: f64,
}

/// Scores of the rows with the lowest uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReferredReals {
    /// Fraction of rows kept.
    pub kept_fraction: f64,
    /// Number of rows kept.
    pub kept: usize,
    /// Root mean squared error.
    pub rmse: f64,
}

impl RegressionScores {
    /// Scores predictions against the true values.
    pub(crate) fn of(
        predictions: &RealPredictions,
        targets: &[f64],
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        let mixture = predictions.checked()?;
        let targeted = TargetedMixture::new(&mixture, targets)?;
        let square = |(mean, target): (f64, &f64)| (mean - target) * (mean - target);
        let squares: Vec<f64> = mixture
            .mean()
            .into_iter()
            .zip(targets)
            .map(square)
            .collect();
        let costs: Vec<f64> = log_densities(&targeted).iter().map(|log| -log).collect();
        let pit = pit_values(&targeted);
        let calibration = QuantileCalibration::new(&pit, QUANTILES)?;
        // The most expensive parts: quantiles are found iteratively, and CRPS costs S² per row.
        let (levels, crps) = rayon::join(
            || {
                LEVELS
                    .par_iter()
                    .map(|&level| {
                        let central = PredictionIntervals::central(&mixture, level)?;
                        coverage(level, &central, targets, intervals)
                    })
                    .collect::<Result<_>>()
            },
            || crps_losses(&targeted),
        );
        let means = mixture.mean();
        let variances = mixture.variance();
        let deviations: Vec<f64> = variances.iter().map(|variance| variance.sqrt()).collect();
        let uncertainty = mixture.variance_between_draws();
        let noise_deviation = match predictions.kind.is_of_logarithms {
            true => {
                let noise = variances.iter().zip(&uncertainty);
                let noise: Vec<f64> = noise.map(|(all, between)| all - between).collect();
                mean(&noise).sqrt()
            }
            false => predictions.noise_deviation(),
        };
        let selective = selective(mixture.draws(), &uncertainty, &squares, intervals)?;
        let [mse, nll, crps] = intervals.of_means([&squares, &costs, &crps]);
        let parts = members(&predictions.members)
            .map(|members| MemberDisagreement::of_means(&mixture, &members));
        let parts = parts.transpose()?;
        Ok(Self {
            rows: mixture.rows(),
            draws: mixture.draws(),
            noise_deviation,
            rmse: mse.root(),
            nll,
            crps,
            intervals: levels?,
            quantile_calibration_error: calibration_error(&calibration),
            quantiles: quantile_frequencies(&calibration),
            pit_counts: pit_counts(&pit),
            ause: sparsification(&deviations, &means, targets, intervals),
            selective: [selective],
            members: parts.map(|parts| MemberScores::of(&parts, intervals).root()),
        })
    }
}

/// Coverage and width of these intervals.
pub(super) fn coverage(
    level: f64,
    central: &PredictionIntervals<'_>,
    targets: &[f64],
    intervals: Intervals<'_>,
) -> Result<CoverageScores> {
    let limits = || central.lower().iter().zip(central.upper());
    let held = |((lower, upper), target): ((&f64, &f64), &f64)| {
        f64::from(u8::from(lower <= target && target <= upper))
    };
    let hits: Vec<f64> = limits().zip(targets).map(held).collect();
    let widths: Vec<f64> = limits().map(|(lower, upper)| upper - lower).collect();
    let winkler = winkler_scores(central, targets, level)?;
    let [coverage, mean_width, winkler] = intervals.of_means([&hits, &widths, &winkler]);
    Ok(CoverageScores {
        level,
        coverage: intervals.of_fraction(coverage, &hits),
        mean_width,
        winkler,
        expected: None,
    })
}

/// The area under the sparsification error curve of the root mean squared error.
fn sparsification(
    deviations: &[f64],
    means: &[f64],
    targets: &[f64],
    intervals: Intervals<'_>,
) -> Score {
    let area = |rows: &[usize]| {
        let [deviations, means, targets] =
            [deviations, means, targets].map(|values| selected(values, rows));
        ause(
            &deviations,
            &means,
            &targets,
            SparsificationError::RootMeanSquare,
        )
    };
    let rows = targets.len();
    match area(&(0..rows).collect::<Vec<_>>()) {
        // Two curves are sorted.
        Ok(value) => {
            intervals.of_rows(value, rows, 2 * rows, |rows| area(rows).unwrap_or(f64::NAN))
        }
        Err(error) => Score::absent(error.to_string()),
    }
}

/// Selective prediction by the disagreement of draws.
pub(super) fn selective(
    draws: usize,
    uncertainty: &[f64],
    squares: &[f64],
    intervals: Intervals<'_>,
) -> Result<SelectiveScores<ReferredReals>> {
    if draws == 1 {
        return Ok(SelectiveScores::of_one_draw(EPISTEMIC));
    }
    let referral = referral(uncertainty, squares)?;
    SelectiveScores::of(EPISTEMIC, uncertainty, squares, referral, intervals)
}

pub(super) fn calibration_error(calibration: &QuantileCalibration) -> Score {
    Score::alone(
        calibration.mean_absolute_error(),
        "no interval: duplicate rows in resamples look worse calibrated",
    )
}

pub(super) fn quantile_frequencies(calibration: &QuantileCalibration) -> Vec<QuantileFrequency> {
    let frequency = |point: &QuantilePoint| QuantileFrequency {
        level: point.level,
        observed: point.observed,
    };
    calibration.points().iter().map(frequency).collect()
}

fn referral(uncertainty: &[f64], squares: &[f64]) -> Result<Vec<ReferredReals>> {
    let mut table = Vec::with_capacity(KEPT_FRACTIONS.len());
    for row in referral_scores(uncertainty, &KEPT_FRACTIONS, |kept| kept.mean(squares))? {
        table.push(ReferredReals {
            kept_fraction: row.kept_fraction,
            kept: row.kept,
            rmse: row.score?.sqrt(),
        });
    }
    Ok(table)
}

pub(super) fn pit_counts(pit: &[f64]) -> Vec<usize> {
    let mut counts = vec![0; PIT_BINS];
    for value in pit {
        counts[((value * PIT_BINS as f64) as usize).min(PIT_BINS - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::{ClassPredictions, Predictions};
    use crate::rows::Units;
    use crate::scores::Scores;
    use burn_bayes_data::Targets;

    fn predictions(draws: usize, means: &[f64], noise_deviation: f64) -> RealPredictions {
        RealPredictions::new(noise_deviation, draws, means.to_vec())
    }

    #[test]
    fn two_draws_are_scored_as_by_hand() {
        // The means are 2, 0 and 5; the variances between draws 1, 0 and 4.
        let draws = [1.0, 0.0, 3.0, 3.0, 0.0, 7.0];
        let scores = RegressionScores::of(
            &predictions(2, &draws, 1.0),
            &[2.0, 1.0, 9.0],
            Intervals::Bootstrapped(&Units::rows(3)),
        )
        .unwrap();
        let rmse = scores.rmse.value.unwrap();
        assert!((rmse - (17.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let interval = scores.rmse.interval.unwrap();
        assert!(interval.lower <= rmse && rmse <= interval.upper);
        let half = &scores.selective[0].referral[5];
        assert_eq!((half.kept, half.rmse), (2, 0.5f64.sqrt()));
        assert_eq!(scores.pit_counts.iter().sum::<usize>(), 3);
        // The first target is the median of its mixture; the second is one standard deviation above.
        assert_eq!(scores.pit_counts[5], 1);
        assert_eq!(scores.pit_counts[8], 1);
        let levels: Vec<f64> = scores.intervals.iter().map(|at| at.level).collect();
        assert_eq!(levels, LEVELS);
        assert_eq!(scores.intervals[0].coverage.value, Some(1.0 / 3.0));
    }

    #[test]
    fn one_draw_of_one_row_has_a_score_but_no_epistemic_part() {
        let scores = RegressionScores::of(
            &predictions(1, &[1.0], 2.0),
            &[2.0],
            Intervals::Bootstrapped(&Units::rows(1)),
        )
        .unwrap();
        assert_eq!(scores.rmse.value, Some(1.0));
        assert!(scores.rmse.absent.as_ref().unwrap().contains("no interval"));
        assert_eq!(scores.selective[0].aurc.value, None);
        assert!(scores.selective[0].referral.is_empty());
        let json = serde_json::to_string(&scores).unwrap();
        assert!(!json.contains("NaN"));
        // The same name as the column of predictions.
        assert!(json.contains("\"by\":\"epistemic_std\""), "{json}");
    }

    #[test]
    fn what_cannot_be_scored_is_an_error() {
        let noiseless =
            RegressionScores::of(&predictions(1, &[1.0], 0.0), &[2.0], Intervals::Omitted)
                .unwrap_err();
        assert!(noiseless.to_string().contains("noise precision"));
        let missing = RegressionScores::of(
            &predictions(1, &[1.0, 2.0], 1.0),
            &[2.0],
            Intervals::Omitted,
        )
        .unwrap_err();
        assert!(missing.to_string().contains("targets"));
        let classes = Predictions::Classes(ClassPredictions::new(vec!["a".into()], 1, vec![1.0]));
        let mismatch =
            Scores::of(&classes, &Targets::Real(vec![0.0]), Intervals::Omitted).unwrap_err();
        assert!(mismatch.to_string().contains("predicts classes"));
        let reals = Predictions::Reals(predictions(1, &[1.0], 1.0));
        assert!(Scores::of(&reals, &Targets::Classes(vec![0]), Intervals::Omitted).is_err());
        assert!(Scores::of(&reals, &Targets::Real(vec![0.0]), Intervals::Omitted).is_ok());
    }
}
