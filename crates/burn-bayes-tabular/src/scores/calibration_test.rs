//! A test of whether held-out rows come as predicted.
//!
//! **Numbers.** If the targets come from their predicted distributions, their probability integral transforms u are
//! uniform, and the means of the first four normalised Legendre polynomials of u, each with variance 1, are 0. The first is
//! positive if predictions are too low, and the second if intervals are too narrow; the others are about the shape. The sum of
//! the squares of N independent rows, times N, is χ² with four degrees of freedom (Neyman's smooth test); of groups, each
//! mean is tested alone.
//!
//! **Classes.** If the probabilities are right, the accuracy is the mean confidence.
//!
//! The means of rows that are in groups, or follow each other in time, have a standard error of their own, and others that of
//! the hypothesis. With m a mean and σ the standard deviation of a row under the hypothesis, m²/(2σ²) is about how many nats
//! per row the difference costs, so that a small one of many rows is no objection.

use burn_bayes::eval::{
    Bounded, ClassProbabilities, ClusteredMean, LabelledProbabilities, TargetedCounts,
    TargetedMixture, max_probability, pit_values, randomised_pit_values, subgroup_calibration,
};
use burn_bayes_data::{Column, Targets};
use serde::Serialize;

use super::Verdict;
use super::score::mean;
use crate::error::Result;
use crate::groups::{OTHERS, shown};
use crate::order::selected;
use crate::predict::{Predictions, mismatched};
use crate::relevance::{by_relevance, groups};
use crate::rows::{RowInputs, Units};
use crate::text::number;

/// The level of each test: one of a hundred calibrated fits does not pass it.
const LEVEL: f64 = 0.01;
/// Differences that cost less, in nats per row, matter to nobody.
const NEGLIGIBLE: f64 = 0.01;
/// Inputs whose groups are tested, those that explain most of the variation of the predictions.
const INPUTS: usize = 3;
/// Fewer rows of a group say too little.
const FEWEST_OF_GROUP: usize = 20;
/// The seed of the randomised PIT of counts.
const SEED: u64 = 0;
/// The number of polynomials.
const COMPONENTS: usize = 4;

/// Whether held-out rows come as predicted: numbers from their predicted distributions, and classes as often as their
/// probabilities say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationTest {
    /// The p-value, times the number of targets and of tests.
    pub p_value: f64,
    /// How the rows come, if not as predicted.
    pub difference: Option<Difference>,
    /// The group of rows that come least as predicted, by the quartiles or categories of the most relevant inputs; null
    /// without groups of at least 20 rows.
    pub by_input: Option<GroupTest>,
    /// What is predicted, which decides what helps.
    #[serde(skip)]
    predicted: Predicted,
}

/// What is predicted, by likelihoods that others may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Predicted {
    Counts,
    /// One number, by a Gaussian for each draw.
    Number,
    Other,
}

impl Predicted {
    fn of(predictions: &Predictions) -> Self {
        match predictions {
            Predictions::Counts(_) => Self::Counts,
            Predictions::Reals(numbers) if numbers.kind.mixture.is_none() => Self::Number,
            _ => Self::Other,
        }
    }
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
    /// How the rows come, if not as predicted.
    pub difference: Option<Difference>,
}

/// How rows come that do not come as predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The targets are higher than predicted.
    TooLow,
    /// The targets are lower than predicted.
    TooHigh,
    /// The targets vary more than predicted.
    TooNarrow,
    /// The targets vary less than predicted.
    TooWide,
    /// The distribution of the targets has other tails, or is skewed in another way.
    OtherShape,
    /// The accuracy is below the mean confidence.
    Overconfident,
    /// The accuracy is above the mean confidence.
    Underconfident,
}

impl CalibrationTest {
    /// The test of predictions of rows with these inputs; `None` for too few rows, or too few independent ones.
    ///
    /// # Errors
    /// If predictions and targets do not match, or a prediction is not finite.
    pub(crate) fn of(
        predictions: &Predictions,
        targets: &Targets,
        inputs: &RowInputs,
    ) -> Result<Option<Self>> {
        let (units, all) = (&inputs.units, (0..targets.len()).collect());
        let residuals = Residuals::of_targets(predictions, targets)?;
        let (found, tests) = worst(&residuals, &[all], units, 0)?;
        let Some((_, found)) = found else {
            return Ok(None);
        };
        let found = found.times(tests);
        Ok(Some(Self {
            p_value: found.p_value,
            difference: found.significant(),
            by_input: by_input(&residuals, predictions, &inputs.columns, units)?,
            predicted: Predicted::of(predictions),
        }))
    }

    /// What the test says against a fit, if anything.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.worst().map(|_| Verdict::LookCloser)
    }

    /// What was found about these rows, without a capital letter and a full stop.
    pub fn finding(&self, rows: &str) -> String {
        let Some((difference, p_value)) = self.worst() else {
            let p_value = number(self.p_value);
            return format!("the {rows} rows come as predicted (p-value {p_value})");
        };
        let whose = self.worst_group().map_or_else(String::new, |found| {
            let group = match found.group.ends_with(OTHERS) {
                true => format!("one of {}", found.group),
                false => found.group.clone(),
            };
            format!(" whose `{}` is {group}", found.input)
        });
        let what = match difference {
            Difference::TooLow => "the predictions are too low",
            Difference::TooHigh => "the predictions are too high",
            Difference::TooNarrow => "the intervals are too narrow",
            Difference::TooWide => "the intervals are too wide",
            Difference::OtherShape => "the targets have another distribution",
            Difference::Overconfident => "the accuracy is below the mean confidence",
            Difference::Underconfident => "the accuracy is above the mean confidence",
        };
        let p_value = number(p_value);
        format!("the {rows} rows{whose} do not come as predicted: {what} (p-value {p_value})")
    }

    /// The same of held-out rows, with what helps.
    pub(crate) fn advice(&self) -> String {
        use Difference::{OtherShape, Overconfident, TooNarrow, TooWide, Underconfident};
        let finding = self.finding("held-out");
        let Some((difference, _)) = self.worst() else {
            return finding;
        };
        let cure = match (self.worst_group().is_some(), difference) {
            (true, Overconfident | Underconfident) => {
                "the report has the calibration of every class"
            }
            (true, OtherShape) if self.predicted == Predicted::Number => {
                "the report has the coverage of every group, and `--likelihood mixture` may suit them"
            }
            (true, _) => "the report has the coverage of every group",
            (false, Overconfident | Underconfident) => "`--recalibrate temperature` corrects it",
            (false, TooWide) if self.predicted == Predicted::Counts => {
                "`--task regression` has distributions that vary less than counts do"
            }
            (false, TooNarrow | TooWide | OtherShape) if self.predicted == Predicted::Number => {
                "their histogram is in the report, and `--likelihood mixture` may suit them"
            }
            (false, TooNarrow | TooWide | OtherShape) => {
                "their histogram is in the report, and another `--likelihood` may suit them"
            }
            (false, _) => "their histogram is in the report",
        };
        format!("{finding}; {cure}")
    }

    /// The group that comes less as predicted than all rows together, if one does not.
    fn worst_group(&self) -> Option<&GroupTest> {
        let found = self.by_input.as_ref()?;
        let is_worst = self.difference.is_none() || found.p_value < self.p_value;
        (is_worst && found.difference.is_some()).then_some(found)
    }

    /// How rows come that do not come as predicted, and the p-value.
    fn worst(&self) -> Option<(Difference, f64)> {
        match self.worst_group() {
            Some(found) => Some((found.difference?, found.p_value)),
            None => Some((self.difference?, self.p_value)),
        }
    }
}

/// What rows differ by from what was predicted, of one target.
enum Residuals {
    /// The polynomials of the transform of every row.
    Numbers([Vec<f64>; COMPONENTS]),
    Classes(ClassProbabilities<'static>, Vec<usize>),
}

/// The result of a test.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// 1 if the difference is negligible.
    p_value: f64,
    difference: Difference,
}

impl Residuals {
    fn of_targets(predictions: &Predictions, targets: &Targets) -> Result<Vec<Self>> {
        let pairs = predictions.beside(targets);
        pairs
            .map(|(_, one, targets)| Self::of(one, targets))
            .collect()
    }

    fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        let pit = match (predictions, targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                pit_values(&TargetedMixture::new(&mixture, targets)?)
            }
            (Predictions::Counts(predictions), Targets::Real(counts)) => {
                let mixture = predictions.checked()?;
                randomised_pit_values(&TargetedCounts::new(&mixture, counts)?, SEED)
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                return Ok(Self::Classes(average, labels.clone()));
            }
            _ => return Err(mismatched(predictions)),
        };
        let rows: Vec<[f64; COMPONENTS]> = pit.iter().map(|&u| polynomials(u)).collect();
        let of_rows = |place: usize| rows.iter().map(|row| row[place]).collect();
        Ok(Self::Numbers(std::array::from_fn(of_rows)))
    }

    /// The test of these rows, which are in these units.
    fn test(&self, rows: &[usize], units: &Units) -> Result<Found> {
        match self {
            Self::Numbers(columns) => {
                let columns = columns.each_ref().map(|values| selected(values, rows));
                let means = columns.each_ref().map(|values| mean(values));
                let p_value = match units.clusters() {
                    None => {
                        let squares = means.iter().map(|mean| mean * mean).sum::<f64>();
                        match is_negligible(squares.sqrt(), 1.0) {
                            true => 1.0,
                            false => chi_squared(rows.len() as f64 * squares),
                        }
                    }
                    Some(clusters) => {
                        let each = columns
                            .iter()
                            .map(|values| clustered_p_value(values, clusters));
                        let each = each.collect::<Result<Vec<_>>>()?;
                        COMPONENTS as f64 * each.into_iter().fold(1.0, f64::at_most)
                    }
                };
                let size = |place: &usize| means[*place].abs();
                let largest =
                    (0..COMPONENTS).max_by(|one, other| size(one).total_cmp(&size(other)));
                let largest = largest.unwrap_or_default();
                Ok(Found {
                    p_value: p_value.at_most(1.0),
                    difference: match (largest, means[largest] > 0.0) {
                        (0, true) => Difference::TooLow,
                        (0, false) => Difference::TooHigh,
                        (1, true) => Difference::TooNarrow,
                        (1, false) => Difference::TooWide,
                        _ => Difference::OtherShape,
                    },
                })
            }
            Self::Classes(average, labels) => {
                let (table, labels) = (average.select(rows)?, selected(labels, rows));
                let labelled = LabelledProbabilities::new(&table, &labels)?;
                let all = vec![0; rows.len()];
                let all = subgroup_calibration(&labelled, &all, units.clusters())?[0];
                let variances = max_probability(&table).into_iter().map(|p| p * (1.0 - p));
                let variance = variances.sum::<f64>() / rows.len() as f64;
                Ok(Found {
                    p_value: match is_negligible(all.gap(), variance) {
                        true => 1.0,
                        false => all.p_value,
                    },
                    difference: match all.gap() > 0.0 {
                        true => Difference::Underconfident,
                        false => Difference::Overconfident,
                    },
                })
            }
        }
    }
}

impl Found {
    /// The least p-value of this many tests.
    fn times(self, tests: usize) -> Self {
        Self {
            p_value: (tests as f64 * self.p_value).at_most(1.0),
            ..self
        }
    }

    fn significant(self) -> Option<Difference> {
        (self.p_value < LEVEL).then_some(self.difference)
    }
}

/// The p-value of the hypothesis that the mean of a polynomial over clusters of rows is 0; 1 if the difference is negligible.
fn clustered_p_value(values: &[f64], clusters: &[usize]) -> Result<f64> {
    let found = ClusteredMean::of(values, clusters)?.with_variance(1.0, values.len());
    let p_value = found
        .p_value(0.0)
        .filter(|_| !is_negligible(found.mean, 1.0));
    Ok(p_value.unwrap_or(1.0))
}

/// Whether a mean that should be 0, of values of this variance, costs nothing that matters.
fn is_negligible(mean: f64, variance: f64) -> bool {
    mean * mean <= 2.0 * NEGLIGIBLE * variance
}

/// The probability of a larger sum of four squared standard normal numbers.
fn chi_squared(sum: f64) -> f64 {
    (1.0 + 0.5 * sum) * (-0.5 * sum).exp()
}

/// The first normalised Legendre polynomials on [0, 1] but the constant.
fn polynomials(u: f64) -> [f64; COMPONENTS] {
    let x = 2.0 * u - 1.0;
    let squared = x * x;
    [
        3_f64.sqrt() * x,
        5_f64.sqrt() * (1.5 * squared - 0.5),
        7_f64.sqrt() * x * (2.5 * squared - 1.5),
        3.0 * (4.375 * squared * squared - 3.75 * squared + 0.375),
    ]
}

/// The group with the least p-value of all targets, and the number of tests: of the groups with enough rows, and enough
/// independent ones.
fn worst(
    residuals: &[Residuals],
    groups: &[Vec<usize>],
    units: &Units,
    fewest: usize,
) -> Result<(Option<(usize, Found)>, usize)> {
    let (mut worst, mut tests): (Option<(usize, Found)>, usize) = (None, 0);
    for (group, rows) in groups.iter().enumerate() {
        let units = units.select(rows);
        if rows.len() < fewest || !units.are_enough() {
            continue;
        }
        for one in residuals {
            let found = one.test(rows, &units)?;
            tests += 1;
            if worst.is_none_or(|(_, worst)| found.p_value < worst.p_value) {
                worst = Some((group, found));
            }
        }
    }
    Ok((worst, tests))
}

/// The least p-value of the groups by the most relevant inputs.
fn by_input(
    residuals: &[Residuals],
    predictions: &Predictions,
    inputs: &[Column],
    units: &Units,
) -> Result<Option<GroupTest>> {
    let all: Vec<usize> = (0..units.of_rows().len()).collect();
    let relevant = match predictions {
        Predictions::Several(_) => Vec::new(),
        Predictions::Classes(found) => by_relevance(inputs, found.checked()?.average().values())?,
        _ => by_relevance(inputs, &predictions.numbers()?.mean())?,
    };
    let (mut least, mut tests): (Option<(String, String, Found)>, usize) = (None, 0);
    for input in relevant.into_iter().take(INPUTS) {
        let groups = groups(&inputs[input], &all)?;
        let (found, count) = worst(residuals, &groups.members(), units, FEWEST_OF_GROUP)?;
        tests += count;
        let Some((group, found)) = found else {
            continue;
        };
        let known = least.as_ref().map(|(.., least)| least.p_value);
        if known.is_none_or(|known| found.p_value < known) {
            let name = shown(groups.names[group].as_deref()).to_string();
            least = Some((groups.by, name, found));
        }
    }
    Ok(least.map(|(input, group, found)| {
        let found = found.times(tests);
        GroupTest {
            input,
            group,
            p_value: found.p_value,
            difference: found.significant(),
        }
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

    fn normals(seed: u64) -> Vec<f64> {
        let normals = Noise::new(seed).latent(ROWS).into_iter();
        normals.map(f64::from).collect()
    }

    /// Independent rows without inputs.
    fn alone(rows: usize) -> RowInputs {
        RowInputs {
            columns: Vec::new(),
            ..RowInputs::of_columns(vec![Column::numbers("x", vec![0.0; rows])])
        }
    }

    fn verdict(predictions: Predictions, targets: Targets) -> Option<Verdict> {
        let test = CalibrationTest::of(&predictions, &targets, &alone(targets.len())).unwrap();
        test.unwrap().verdict()
    }

    #[test]
    fn numbers_pass_with_the_right_noise_alone() {
        let of_noise = |deviation: f64| {
            let noise = NoiseDeviations::PerMember(vec![deviation]);
            let predictions = RealPredictions::new(noise, 1, vec![0.0; ROWS]);
            verdict(Predictions::Reals(predictions), Targets::Real(normals(1)))
        };
        assert_eq!(of_noise(1.0), None);
        for wrong in [0.7, 1.4] {
            assert_eq!(of_noise(wrong), Some(Verdict::LookCloser), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let of = |mean: f64, deviation: f64| {
            let noise = NoiseDeviations::PerMember(vec![deviation]);
            let predictions = RealPredictions::new(noise, 1, vec![mean; ROWS]);
            let predictions = Predictions::Reals(predictions);
            let targets = Targets::Real(normals(4));
            let test = CalibrationTest::of(&predictions, &targets, &alone(ROWS)).unwrap();
            test.unwrap().advice()
        };
        for (mean, deviation, word, is_of_shape) in [
            (0.0, 1.0, "come as predicted", false),
            (-0.4, 1.0, "too low", false),
            (0.4, 1.0, "too high", false),
            (0.0, 0.6, "too narrow", true),
            (0.0, 1.6, "too wide", true),
        ] {
            let found = of(mean, deviation);
            assert!(found.contains(word), "{mean} ± {deviation}: {found}");
            let advises = found.contains("`--likelihood mixture` may suit");
            assert_eq!(advises, is_of_shape, "{found}");
        }
    }

    /// The rows of a group have most of their error in common.
    #[test]
    fn alike_rows_are_counted_as_one() {
        let failed = |is_grouped: bool| {
            let tests = (0..40).filter(|&seed| {
                let (groups, own) = (
                    Noise::new(seed).latent(20),
                    Noise::new(99 + seed).latent(ROWS),
                );
                let target = |row: usize| {
                    let sum = 0.9 * f64::from(groups[row / 20]) + 0.43 * f64::from(own[row]);
                    sum / (0.9_f64.powi(2) + 0.43_f64.powi(2)).sqrt()
                };
                let targets = Targets::Real((0..ROWS).map(target).collect());
                let predictions = RealPredictions::new(1.0, 1, vec![0.0; ROWS]);
                let labels: Vec<usize> = (0..ROWS).map(|row| row / 20).collect();
                let inputs = RowInputs {
                    units: match is_grouped {
                        true => Units::of(&labels),
                        false => Units::rows(ROWS),
                    },
                    ..alone(ROWS)
                };
                let predictions = Predictions::Reals(predictions);
                let test = CalibrationTest::of(&predictions, &targets, &inputs).unwrap();
                test.unwrap().verdict().is_some()
            });
            tests.count()
        };
        let (rows, groups) = (failed(false), failed(true));
        assert!(rows > 20 && groups <= 4, "{rows} {groups}");
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
        let targets = x.iter().zip(normals(3));
        let targets = targets
            .map(|(x, normal)| 0.5 * x.signum() + normal)
            .collect();
        let means = x.iter().map(|x| 1e-3 * x).collect();
        let noise = NoiseDeviations::PerMember(vec![1.25_f64.sqrt()]);
        let predictions = Predictions::Reals(RealPredictions::new(noise, 1, means));
        let inputs = RowInputs::of_columns(vec![Column::numbers("x", x)]);
        let test = CalibrationTest::of(&predictions, &Targets::Real(targets), &inputs);
        let test = test.unwrap().unwrap();
        assert!(test.p_value > 0.05, "{test:?}");
        assert_eq!(test.verdict(), Some(Verdict::LookCloser), "{test:?}");
        assert!(test.advice().contains("whose `x` is"), "{}", test.advice());
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
            let inputs = RowInputs::of_columns(vec![Column::numbers("x", x)]);
            let test = CalibrationTest::of(&predictions, &targets, &inputs);
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
        let test = CalibrationTest::of(&Predictions::Reals(predictions), &targets, &alone(3));
        assert_eq!(test.unwrap(), None);
    }
}
