//! A test of whether held-out rows come as predicted.

use burn_bayes::eval::{
    LabelledProbabilities, PitUniformity, TargetedCounts, TargetedMixture, pit_values,
    randomised_pit_values, subgroup_calibration,
};
use burn_bayes_data::Targets;
use serde::Serialize;

use super::Verdict;
use super::divergence::FEWEST_ROWS;
use crate::error::Result;
use crate::predict::{Predictions, mismatched};
use crate::text::number;

/// The level of the test: one of a hundred calibrated fits does not pass it.
const LEVEL: f64 = 0.01;
/// The seed of the randomised PIT of counts.
const SEED: u64 = 0;

/// Whether held-out rows come as predicted: for numbers, whether their probability integral transforms (PIT) are uniform;
/// for classes, whether the accuracy is the mean confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationTest {
    /// The p-value; of several targets the least, times their number.
    pub p_value: f64,
    #[serde(skip)]
    is_of_classes: bool,
}

impl CalibrationTest {
    /// The test of predictions; `None` for too few rows.
    ///
    /// # Errors
    /// If predictions and targets do not match, or a prediction is not finite.
    pub(crate) fn of(predictions: &Predictions, targets: &Targets) -> Result<Option<Self>> {
        if targets.len() < FEWEST_ROWS {
            return Ok(None);
        }
        let of_pit = |pit: &[f64]| -> Result<Self> {
            Ok(Self {
                p_value: PitUniformity::new(pit)?.simultaneous_p_value,
                is_of_classes: false,
            })
        };
        Ok(Some(match (predictions, targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                of_pit(&pit_values(&TargetedMixture::new(&mixture, targets)?))?
            }
            (Predictions::Counts(predictions), Targets::Real(counts)) => {
                let mixture = predictions.checked()?;
                let targeted = TargetedCounts::new(&mixture, counts)?;
                of_pit(&randomised_pit_values(&targeted, SEED))?
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                let labelled = LabelledProbabilities::new(&average, labels)?;
                let groups = subgroup_calibration(&labelled, &vec![0; labels.len()])?;
                Self {
                    p_value: groups.first().map_or(1.0, |group| group.p_value),
                    is_of_classes: true,
                }
            }
            (Predictions::Several(predictions), Targets::Several(targets)) => {
                let count = targets.len() as f64;
                let tests = predictions.iter().zip(targets);
                let tests = tests.map(|(one, targets)| Self::of(&one.predictions, targets));
                let tests = tests.collect::<Result<Vec<_>>>()?;
                let least = tests
                    .into_iter()
                    .flatten()
                    .min_by(|a, b| a.p_value.total_cmp(&b.p_value));
                return Ok(least.map(|least| Self {
                    p_value: (count * least.p_value).min(1.0),
                    ..least
                }));
            }
            _ => return Err(mismatched(predictions)),
        }))
    }

    /// What the test says against a fit, if anything.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        (self.p_value < LEVEL).then_some(Verdict::LookCloser)
    }

    /// What was found, without a capital letter and a full stop.
    pub(crate) fn finding(&self) -> String {
        let p_value = number(self.p_value);
        match (self.verdict(), self.is_of_classes) {
            (None, _) => format!("the held-out rows come as predicted (p-value {p_value})"),
            (Some(_), true) => format!(
                "the accuracy on the held-out rows is not the mean confidence (p-value {p_value}); `--recalibrate \
                 temperature` corrects it"
            ),
            (Some(_), false) => format!(
                "the held-out rows do not come as predicted (PIT test, p-value {p_value}); its histogram in the report shows \
                 how, and another `--likelihood` may suit them"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;

    use super::*;
    use crate::predict::{ClassPredictions, CountPredictions, NoiseDeviations, RealPredictions};

    const ROWS: usize = 400;

    fn normals() -> Vec<f64> {
        let normals = Noise::new(1).latent(ROWS).into_iter();
        normals.map(f64::from).collect()
    }

    fn verdict(predictions: Predictions, targets: Targets) -> Option<Verdict> {
        let test = CalibrationTest::of(&predictions, &targets).unwrap();
        test.unwrap().verdict()
    }

    #[test]
    fn numbers_pass_with_the_right_noise_alone() {
        let of_noise = |deviation: f64| {
            let noise = NoiseDeviations::PerMember(vec![deviation]);
            let predictions = RealPredictions::new(noise, 1, vec![0.0; ROWS]);
            verdict(Predictions::Reals(predictions), Targets::Real(normals()))
        };
        assert_eq!(of_noise(1.0), None);
        for wrong in [0.7, 1.4] {
            assert_eq!(of_noise(wrong), Some(Verdict::LookCloser), "{wrong}");
        }
    }

    #[test]
    fn counts_pass_with_the_right_rate_alone() {
        // As often as under a Poisson distribution of rate 1.
        let counts = [(0.0, 147), (1.0, 147), (2.0, 74), (3.0, 25), (4.0, 7)];
        let counts = counts.iter().flat_map(|&(count, times)| vec![count; times]);
        let counts: Vec<f64> = counts.collect();
        let of_rate = |rate: f64| {
            let predictions = CountPredictions::new((), 1, vec![rate; ROWS]);
            verdict(
                Predictions::Counts(predictions),
                Targets::Real(counts.clone()),
            )
        };
        assert_eq!(of_rate(1.0), None);
        assert_eq!(of_rate(1.5), Some(Verdict::LookCloser));
    }

    #[test]
    fn classes_pass_if_the_confidence_is_the_accuracy() {
        let labels: Vec<usize> = (0..ROWS).map(|row| usize::from(row % 10 == 0)).collect();
        let of_confidence = |confidence: f64| {
            let values = [confidence, 1.0 - confidence].repeat(ROWS);
            let names = ["a", "b"].map(String::from).to_vec();
            let predictions = ClassPredictions::new(names, 1, values);
            verdict(
                Predictions::Classes(predictions),
                Targets::Classes(labels.clone()),
            )
        };
        assert_eq!(of_confidence(0.9), None);
        for wrong in [0.8, 0.97] {
            assert_eq!(of_confidence(wrong), Some(Verdict::LookCloser), "{wrong}");
        }
    }

    #[test]
    fn a_few_rows_are_not_tested() {
        let noise = NoiseDeviations::PerMember(vec![1.0]);
        let predictions = RealPredictions::new(noise, 1, vec![9.0; 3]);
        let targets = Targets::Real(vec![0.0; 3]);
        let test = CalibrationTest::of(&Predictions::Reals(predictions), &targets);
        assert_eq!(test.unwrap(), None);
    }
}
