//! Scores of predicted counts: one mixture of Poisson distributions per row.

use burn_bayes::eval::{
    CountMixture, MemberDisagreement, QuantileCalibration, TargetedCounts, log_probabilities,
    poisson_deviances, randomised_pit_values,
};
use rayon::prelude::*;

use super::member_disagreement::MemberScores;
use super::regression::{
    LEVELS, QUANTILES, calibration_error, coverage, pit_counts, quantile_frequencies, selective,
};
use super::score::mean;
use super::spec::scores;
use crate::error::Result;
use crate::predict::{CountPredictions, members};
use crate::scores::{
    CoverageScores, Intervals, QuantileFrequency, ReferredReals, Score, SelectiveScores,
};

/// The seed of the randomised transforms, fixed so that the same predictions have the same scores.
const SEED: u64 = 1;

scores! {
    /// All scores of counts.
    CountScores {
        /// Number of rows.
        rows: usize;
        /// Number of draws of the weights.
        draws: usize;
        /// Root mean squared error of the mean predicted count.
        rmse: Score = ("RMSE", Lower, compared);
        /// Mean negative log-probability of the counts, in nats; low for accurate, well-calibrated predictions.
        nll: Score = ("NLL", Lower, compared);
        /// Mean Poisson deviance from the mean predicted count; for the true rates about 1, unless most counts are 0.
        deviance: Score = ("Deviance", Lower, compared);
        /// Mean absolute difference between nominal and observed frequencies of the quantiles 5 %, 10 %, … 95 %, by the
        /// randomised probability integral transform.
        quantile_calibration_error: Score = ("Calibration error", Lower, compared);
        /// Coverage and width of central intervals of whole numbers.
        intervals: Vec<CoverageScores> = (each);
        /// Nominal and observed frequencies of the quantiles.
        quantiles: Vec<QuantileFrequency>;
        /// Histogram of the randomised probability integral transform, in ten bins; equal counts mean calibration.
        pit_counts: Vec<usize>;
        /// Selective prediction by the disagreement of draws, with the squared error as loss.
        selective: [SelectiveScores<ReferredReals>; 1];
        /// The disagreement within the members of an ensemble and between them; null for a single fit.
        members: Option<MemberScores> = (each);
    }
}

impl CountScores {
    /// Scores predictions against the counts.
    pub(crate) fn of(
        predictions: &CountPredictions,
        counts: &[f64],
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        let mixture = predictions.checked()?;
        let targeted = TargetedCounts::new(&mixture, counts)?;
        let means = mixture.mean();
        let square = |(mean, count): (&f64, &f64)| (mean - count) * (mean - count);
        let squares: Vec<f64> = means.iter().zip(counts).map(square).collect();
        let costs = log_probabilities(&targeted);
        let costs: Vec<f64> = costs.iter().map(|log| -log).collect();
        let deviances = poisson_deviances(&means, counts)?;
        let pit = randomised_pit_values(&targeted, SEED);
        let calibration = QuantileCalibration::new(&pit, QUANTILES)?;
        let levels = LEVELS
            .par_iter()
            .map(|&level| count_coverage(level, &mixture, counts, intervals))
            .collect::<Result<_>>()?;
        let uncertainty = mixture.variance_between_draws();
        let selective = selective(mixture.draws(), &uncertainty, &squares, intervals)?;
        let [mse, nll, deviance] = intervals.of_means([&squares, &costs, &deviances]);
        let parts = members(&predictions.members)
            .map(|members| MemberDisagreement::of_rates(&mixture, &members));
        let parts = parts.transpose()?;
        Ok(Self {
            rows: mixture.rows(),
            draws: mixture.draws(),
            rmse: mse.root(),
            nll,
            deviance,
            intervals: levels,
            quantile_calibration_error: calibration_error(&calibration),
            quantiles: quantile_frequencies(&calibration),
            pit_counts: pit_counts(&pit),
            selective: [selective],
            members: parts.map(|parts| MemberScores::of(&parts, intervals).root()),
        })
    }
}

fn count_coverage(
    level: f64,
    mixture: &CountMixture<'_>,
    counts: &[f64],
    intervals: Intervals<'_>,
) -> Result<CoverageScores> {
    let central = mixture.central_intervals(level)?;
    let masses = mixture.interval_probabilities(&central)?;
    Ok(CoverageScores {
        expected: Some(mean(&masses)),
        ..coverage(level, &central, counts, intervals)?
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::Targets;

    use super::*;
    use crate::predict::Dispersions;
    use crate::predict::Predictions;
    use crate::scores::Scores;

    #[test]
    fn two_draws_are_scored_as_by_hand() {
        // The mean rates are 2 and 4; the variances between draws 1 and 0.
        let predictions = CountPredictions {
            kind: Dispersions::default(),
            draws: 2,
            members: vec![1, 1],
            values: vec![1.0, 4.0, 3.0, 4.0],
        };
        let scores = CountScores::of(&predictions, &[0.0, 5.0], Intervals::Omitted).unwrap();
        assert_eq!(scores.rmse.value, Some(2.5_f64.sqrt()));
        let first = (0.5 * ((-1.0_f64).exp() + (-3.0_f64).exp())).ln();
        let second = 5.0 * 4.0_f64.ln() - 4.0 - 120.0_f64.ln();
        let nll = scores.nll.value.unwrap();
        assert!((nll + 0.5 * (first + second)).abs() < 1e-14, "{nll}");
        let deviance = 0.5 * (4.0 + 2.0 * (5.0 * 1.25_f64.ln() - 1.0));
        assert!((scores.deviance.value.unwrap() - deviance).abs() < 1e-14);
        assert_eq!(scores.pit_counts.iter().sum::<usize>(), 2);
        for found in &scores.intervals {
            assert!((found.level..1.0).contains(&found.expected.unwrap()));
        }
        let parts = scores.members.unwrap();
        assert_eq!(parts.within.value, Some(0.0));
        assert_eq!(parts.between.value, Some(0.5_f64.sqrt()));
        let json = serde_json::to_value(&scores.intervals[0]).unwrap();
        assert!(json["level"].is_number() && json["expected"].is_number());
    }

    #[test]
    fn what_is_no_count_is_an_error() {
        let predictions =
            Predictions::Counts(CountPredictions::new(Dispersions::default(), 1, vec![1.0]));
        let scored = |targets| Scores::of(&predictions, &targets, Intervals::Omitted);
        assert!(scored(Targets::Real(vec![3.0])).is_ok());
        let message = scored(Targets::Real(vec![0.5])).unwrap_err().to_string();
        assert!(message.contains("whole number"), "{message}");
        let message = scored(Targets::Classes(vec![0])).unwrap_err().to_string();
        assert!(message.contains("predicts counts"), "{message}");
    }
}
