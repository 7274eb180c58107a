//! A test of whether held-out rows come as predicted.

use burn_bayes::eval::{
    Bounded, LabelledProbabilities, PitUniformity, TargetedCounts, TargetedMixture, pit_values,
    randomised_pit_values, subgroup_calibration,
};
use burn_bayes_data::{Column, Targets};
use serde::Serialize;

use super::Verdict;
use super::divergence::FEWEST_ROWS;
use crate::error::Result;
use crate::groups::{OTHERS, shown};
use crate::predict::{Predictions, mismatched};
use crate::relevance::{by_relevance, groups};
use crate::text::number;

/// The level of each test: one of a hundred calibrated fits does not pass it.
const LEVEL: f64 = 0.01;
/// Inputs whose groups are tested, those that explain most of the variation of the predictions.
const INPUTS: usize = 3;
/// Fewer rows of a group say too little.
const FEWEST_OF_GROUP: usize = 20;
/// More rows find differences that do not matter. The test of so many finds probabilities that are off by five points.
const MOST_ROWS: usize = 1000;
/// The seed of the randomised PIT of counts.
const SEED: u64 = 0;

/// Whether held-out rows come as predicted: for numbers, whether their probability integral transforms (PIT) are uniform;
/// for classes, whether the accuracy is the mean confidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationTest {
    /// The p-value; of several targets the least, times their number.
    pub p_value: f64,
    /// The group of rows that come least as predicted, by the quartiles or categories of the most relevant inputs; null
    /// without groups of at least 20 rows.
    pub by_input: Option<GroupTest>,
    #[serde(skip)]
    is_of_classes: bool,
}

/// The test of a group of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTest {
    /// The input.
    pub input: String,
    /// Its quartile or category.
    pub group: String,
    /// The least p-value of all groups, times their number.
    pub p_value: f64,
}

impl CalibrationTest {
    /// The test of predictions of rows with these inputs; `None` for too few rows.
    ///
    /// # Errors
    /// If predictions and targets do not match, or a prediction is not finite.
    pub(crate) fn of(
        predictions: &Predictions,
        targets: &Targets,
        inputs: &[Column],
    ) -> Result<Option<Self>> {
        let Some((p_value, is_of_classes)) = tested(predictions, targets)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            p_value,
            by_input: by_input(predictions, targets, inputs)?,
            is_of_classes,
        }))
    }

    /// What the test says against a fit, if anything.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let of_groups = self.by_input.as_ref().map(|found| found.p_value);
        let least = of_groups.map_or(self.p_value, |of_groups| of_groups.at_most(self.p_value));
        (least < LEVEL).then_some(Verdict::LookCloser)
    }

    /// What was found, without a capital letter and a full stop.
    pub(crate) fn finding(&self) -> String {
        let p_value = number(self.p_value);
        let worst = self.by_input.as_ref();
        let worst = worst.filter(|found| found.p_value < LEVEL && found.p_value < self.p_value);
        match (self.verdict(), worst, self.is_of_classes) {
            (None, ..) => format!("the held-out rows come as predicted (p-value {p_value})"),
            (
                Some(_),
                Some(GroupTest {
                    input,
                    group,
                    p_value,
                }),
                is_of_classes,
            ) => {
                let (test, cure) = match is_of_classes {
                    true => (
                        "accuracy and confidence differ",
                        "the report has the calibration of every class",
                    ),
                    false => ("PIT test", "the report has the coverage of every group"),
                };
                let group = match group.ends_with(OTHERS) {
                    true => format!("one of {group}"),
                    false => group.clone(),
                };
                format!(
                    "the held-out rows whose `{input}` is {group} do not come as predicted ({test}, p-value {}); {cure}",
                    number(*p_value)
                )
            }
            (Some(_), None, true) => format!(
                "the accuracy on the held-out rows is not the mean confidence (p-value {p_value}); `--recalibrate \
                 temperature` corrects it"
            ),
            (Some(_), None, false) => format!(
                "the held-out rows do not come as predicted (PIT test, p-value {p_value}); its histogram in the report shows \
                 how, and another `--likelihood` may suit them"
            ),
        }
    }
}

/// The least p-value of the groups by the most relevant inputs.
fn by_input(
    predictions: &Predictions,
    targets: &Targets,
    inputs: &[Column],
) -> Result<Option<GroupTest>> {
    let all: Vec<usize> = (0..targets.len()).collect();
    let relevant = match predictions {
        Predictions::Several(_) => Vec::new(),
        Predictions::Classes(found) => by_relevance(inputs, found.checked()?.average().values())?,
        _ => by_relevance(inputs, &predictions.numbers()?.mean())?,
    };
    let (mut least, mut tests): (Option<GroupTest>, f64) = (None, 0.0);
    for input in relevant.into_iter().take(INPUTS) {
        let groups = groups(&inputs[input], &all)?;
        for (group, name) in groups.names.iter().enumerate() {
            let rows: Vec<usize> = all
                .iter()
                .copied()
                .filter(|&row| groups.of_rows[row] == group)
                .collect();
            if rows.len() < FEWEST_OF_GROUP {
                continue;
            }
            let found = tested(&predictions.of_rows(&rows), &targets.select(&rows))?;
            let Some((p_value, _)) = found else { continue };
            tests += 1.0;
            if least.as_ref().is_none_or(|least| p_value < least.p_value) {
                least = Some(GroupTest {
                    input: groups.by.clone(),
                    group: shown(name.as_deref()).to_string(),
                    p_value,
                });
            }
        }
    }
    Ok(least.map(|least| GroupTest {
        p_value: (tests * least.p_value).at_most(1.0),
        ..least
    }))
}

/// The p-value of predictions, and whether they are of classes; `None` for too few rows.
fn tested(predictions: &Predictions, targets: &Targets) -> Result<Option<(f64, bool)>> {
    let count = targets.len();
    if count < FEWEST_ROWS {
        return Ok(None);
    }
    if count > MOST_ROWS {
        let spread = (0..MOST_ROWS).map(|place| place * count / MOST_ROWS);
        let rows: Vec<usize> = spread.collect();
        return tested(&predictions.of_rows(&rows), &targets.select(&rows));
    }
    let of_pit = |pit: &[f64]| -> Result<(f64, bool)> {
        Ok((PitUniformity::new(pit)?.simultaneous_p_value, false))
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
            (groups.first().map_or(1.0, |group| group.p_value), true)
        }
        (Predictions::Several(predictions), Targets::Several(targets)) => {
            let count = targets.len() as f64;
            let tests = predictions.iter().zip(targets);
            let tests = tests.map(|(one, targets)| tested(&one.predictions, targets));
            let tests = tests.collect::<Result<Vec<_>>>()?;
            let least = tests
                .into_iter()
                .flatten()
                .min_by(|a, b| a.0.total_cmp(&b.0));
            return Ok(least
                .map(|(p_value, is_of_classes)| ((count * p_value).at_most(1.0), is_of_classes)));
        }
        _ => return Err(mismatched(predictions)),
    }))
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;

    use super::*;
    use crate::predict::{
        ClassPredictions, CountPredictions, Dispersions, NoiseDeviations, RealPredictions,
    };

    const ROWS: usize = 400;

    fn normals() -> Vec<f64> {
        let normals = Noise::new(1).latent(ROWS).into_iter();
        normals.map(f64::from).collect()
    }

    fn verdict(predictions: Predictions, targets: Targets) -> Option<Verdict> {
        let test = CalibrationTest::of(&predictions, &targets, &[]).unwrap();
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
    fn many_rows_do_not_find_what_does_not_matter() {
        let normals = Noise::new(2).latent(50_000).into_iter();
        let targets = Targets::Real(normals.map(f64::from).collect());
        let of_noise = |deviation: f64| {
            let noise = NoiseDeviations::PerMember(vec![deviation]);
            let predictions = RealPredictions::new(noise, 1, vec![0.0; 50_000]);
            verdict(Predictions::Reals(predictions), targets.clone())
        };
        assert_eq!(of_noise(1.04), None);
        assert_eq!(of_noise(1.4), Some(Verdict::LookCloser));
    }

    #[test]
    fn counts_pass_with_the_right_rate_alone() {
        // As often as under a Poisson distribution of rate 1.
        let counts = [(0.0, 147), (1.0, 147), (2.0, 74), (3.0, 25), (4.0, 7)];
        let counts = counts.iter().flat_map(|&(count, times)| vec![count; times]);
        let counts: Vec<f64> = counts.collect();
        let of_rate = |rate: f64| {
            let predictions = CountPredictions::new(Dispersions::default(), 1, vec![rate; ROWS]);
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

    /// Targets are too low where x is negative, and too high elsewhere: together they come as predicted.
    #[test]
    fn rows_of_one_quarter_of_an_input_are_tested_on_their_own() {
        let x: Vec<f64> = (0..ROWS).map(|row| (row % 40) as f64 - 19.5).collect();
        let targets = x.iter().zip(normals());
        let targets = targets
            .map(|(x, normal)| 0.5 * x.signum() + normal)
            .collect();
        let means = x.iter().map(|x| 1e-3 * x).collect();
        let noise = NoiseDeviations::PerMember(vec![1.25_f64.sqrt()]);
        let predictions = Predictions::Reals(RealPredictions::new(noise, 1, means));
        let inputs = [Column::numbers("x", x)];
        let test = CalibrationTest::of(&predictions, &Targets::Real(targets), &inputs);
        let test = test.unwrap().unwrap();
        assert!(test.p_value > 0.05, "{test:?}");
        assert_eq!(test.verdict(), Some(Verdict::LookCloser), "{test:?}");
        assert!(
            test.finding().contains("whose `x` is"),
            "{}",
            test.finding()
        );
        let calibrated = |seed: u64| {
            let x: Vec<f64> = (0..ROWS).map(|row| (row % 40) as f64).collect();
            let means: Vec<f64> = x.iter().map(|x| 0.3 * x).collect();
            let normals = Noise::new(seed).latent(ROWS).into_iter().map(f64::from);
            let targets = means
                .iter()
                .zip(normals)
                .map(|(mean, normal)| mean + normal);
            let targets = Targets::Real(targets.collect());
            let predictions = Predictions::Reals(RealPredictions::new(1.0, 1, means));
            let test = CalibrationTest::of(&predictions, &targets, &[Column::numbers("x", x)]);
            test.unwrap().unwrap().verdict().is_some()
        };
        // At most two of a hundred do not pass.
        assert!((10..60).filter(|&seed| calibrated(seed)).count() <= 4);
    }

    #[test]
    fn a_few_rows_are_not_tested() {
        let noise = NoiseDeviations::PerMember(vec![1.0]);
        let predictions = RealPredictions::new(noise, 1, vec![9.0; 3]);
        let targets = Targets::Real(vec![0.0; 3]);
        let test = CalibrationTest::of(&Predictions::Reals(predictions), &targets, &[]);
        assert_eq!(test.unwrap(), None);
    }
}
