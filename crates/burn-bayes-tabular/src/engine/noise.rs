//! The noise precision β of a regression, learned while the weights are.
//!
//! The residuals of training rows underestimate the noise of a network. So a fifth of the rows is held out
//! during the first half of the training, and β is the one under which the predictive mixture of the weights'
//! draws is most likely there. Then the training goes on with all rows. Several targets have a β each, under which the
//! mixture of that target is most likely.
//!
//! A fifth of few rows says little about the noise. So with few rows, each fifth is held out in turn, by a training of half the
//! length, and 1/β is the mean of their five. The fit is then a training with all rows and this β. Where rows come in groups or
//! periods, whole ones are held out, and counted.

use burn_bayes::Noise;
use burn_bayes::eval::{
    GaussianMixture, NoisePrecision as MixtureNoise, TargetedMixture, most_likely_noise_precision,
};
use burn_bayes_data::Split;

use super::TrainedModel;
use super::likelihood::{has_noise_precision, is_simple};
use crate::error::Result;
use crate::random::shuffled;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, NoisePrecision, refused};

/// A fifth of the rows is held out.
const FOLDS: usize = 5;
/// The fraction of the epochs in which rows are held out.
const LEARNING: f64 = 0.5;
/// The number of estimates in these epochs.
const ESTIMATES: usize = 10;
/// With fewer rows, groups or periods, every fifth is held out in turn.
const FEW_UNITS: usize = 100;
/// Draws of a prediction for an estimate.
const DRAWS: usize = 32;
/// Minimum number of rows.
const FEWEST_ROWS: usize = 10;
/// In units of 1/variance of the targets, as are the bounds.
const FIRST_GUESS: f64 = 10.0;
/// Bounds of the estimate: outside of them, the network has learned nothing, or fits exactly.
pub(super) const BOUNDS: (f64, f64) = (0.5, 1e6);
/// The least deviation of the noise that a network predicts, and the difference up to which two targets are the same up to
/// rounding to single precision, in deviations of the target.
const LEAST_DEVIATION: f64 = 1e-3;
const SAME: f64 = 1e-5;
/// The random stream of the split.
const PARTING: u64 = 0x7061_7274;

/// β of every target at the start of a training, on the standardised scale of the network; where the network predicts it,
/// the largest; 1 for classes, labels and counts, which have none.
pub(super) fn initial(training_set: &TrainingSet, settings: &FitSettings) -> Result<Vec<f64>> {
    let target = training_set.target();
    if target.scales().is_some() && !is_simple(settings, target) {
        return largest(training_set);
    }
    Ok(match (target.scales(), settings.noise_precision) {
        (None, _) => vec![1.0],
        (Some(scales), NoisePrecision::Given(precision)) => {
            let own = scales
                .iter()
                .map(|scale| precision * scale.spread * scale.spread);
            own.collect()
        }
        (Some(_), NoisePrecision::Learned(_)) => {
            let units = units(training_set)?.into_iter();
            units.map(|unit| FIRST_GUESS * unit).collect()
        }
    })
}

/// The largest β that a network may predict for every target. Of targets that were rounded, its deviation is that of the
/// rounding: the density at a value that comes often would otherwise grow without bound. Where logarithms are predicted, it
/// is that at their mean.
fn largest(training_set: &TrainingSet) -> Result<Vec<f64>> {
    let deviations = training_set.target_deviations()?;
    let count = deviations.len();
    let scales = training_set.target_scales()?;
    let of_target = |(target, deviation): (usize, &f64)| {
        let scale = scales[target];
        let values = training_set.targets().iter().skip(target).step_by(count);
        let values = values.copied().map(f64::from);
        let mut values: Vec<f64> = match scale.is_logarithmic {
            // In units of the value at the mean and of the deviation of logarithms.
            true => values
                .map(|value| (scale.spread * value).exp() / scale.spread)
                .collect(),
            false => values.collect(),
        };
        values.sort_by(f64::total_cmp);
        let gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
        let gaps = gaps.filter(|gap| *gap > SAME * deviation);
        let rounding = gaps.reduce(f64::min).unwrap_or(0.0) / 12f64.sqrt();
        rounding.max(LEAST_DEVIATION * deviation).powi(-2)
    };
    Ok(deviations.iter().enumerate().map(of_target).collect())
}

/// 1/variance of the stored values of every target.
fn units(training_set: &TrainingSet) -> Result<Vec<f64>> {
    let deviations = training_set.target_deviations()?.into_iter();
    Ok(deviations.map(|deviation| deviation.powi(-2)).collect())
}

/// The rows that are held out while β is learned.
#[derive(Clone, Debug)]
pub(super) struct LearnedNoise {
    /// The rows that train in the first epochs.
    seen: Vec<usize>,
    held_out: TrainingSet,
    /// Those of each target.
    bounds: Vec<(f64, f64)>,
    /// The last epoch (from 1) in which rows are held out.
    last: usize,
    /// Epochs between two estimates.
    every: usize,
}

impl LearnedNoise {
    /// The splits from which β is learned: none if it is given, one with many rows, groups or periods, and with few of them
    /// one for each fifth.
    pub(super) fn splits(training_set: &TrainingSet, settings: &FitSettings) -> Result<Vec<Self>> {
        let target = training_set.target();
        let is_learned = has_noise_precision(settings, target)
            && settings.noise_precision == NoisePrecision::LEARNED;
        if !is_learned {
            return Ok(Vec::new());
        }
        let rows = training_set.rows();
        if rows < FEWEST_ROWS {
            let problem = format!(
                "cannot be learned from {rows} rows; give a number, 1/variance of the noise of the target"
            );
            return Err(refused("noise_precision", problem));
        }
        let mut folds = folds(training_set, settings.seed);
        if training_set.units().count() >= FEW_UNITS {
            folds.truncate(1);
        }
        let units = units(training_set)?.into_iter();
        let bounds: Vec<(f64, f64)> = units
            .map(|unit| (BOUNDS.0 * unit, BOUNDS.1 * unit))
            .collect();
        let last = ((LEARNING * settings.epochs(rows) as f64) as usize).max(1);
        let split = |fold: Split| Self {
            held_out: training_set.select(&fold.test),
            seen: fold.train,
            bounds: bounds.clone(),
            last,
            every: last.div_ceil(ESTIMATES),
        };
        Ok(folds.into_iter().map(split).collect())
    }

    /// The last epoch (from 1) in which rows are held out.
    pub(super) fn last(&self) -> usize {
        self.last
    }

    /// The rows that train in an epoch (from 0); `None` for all.
    pub(super) fn seen(&self, epoch: usize) -> Option<&[usize]> {
        (epoch < self.last).then_some(&self.seen)
    }

    /// Whether β is estimated after an epoch (from 1).
    pub(super) fn is_due(&self, epoch: usize) -> bool {
        epoch == self.last || (epoch < self.last && epoch.is_multiple_of(self.every))
    }

    /// β of every target of a model, from its predictions of the held-out rows.
    pub(super) fn estimate(&self, model: &TrainedModel) -> Result<Vec<f64>> {
        let outputs = model.outputs(&self.held_out.features()?, DRAWS)?;
        let count = self.bounds.len();
        let precisions = model
            .noise_precisions()
            .iter()
            .zip(&self.bounds)
            .enumerate();
        let precisions = precisions.map(|(target, (&precision, &(least, most)))| {
            let means: Vec<f64> = outputs
                .iter()
                .skip(target)
                .step_by(count)
                .copied()
                .collect();
            let targets = self.held_out.targets().iter().skip(target).step_by(count);
            let targets: Vec<f64> = targets.copied().map(f64::from).collect();
            let noise = MixtureNoise::Shared(precision);
            let mixture = GaussianMixture::new(means, model.draws(DRAWS), targets.len(), noise)?;
            let held_out = TargetedMixture::new(&mixture, &targets)?;
            Ok(most_likely_noise_precision(&held_out, least..=most)?)
        });
        precisions.collect()
    }
}

/// The folds of whole groups or periods, or of rows at random.
fn folds(training_set: &TrainingSet, seed: u64) -> Vec<Split> {
    training_set.units().folds(FOLDS, seed).unwrap_or_else(|| {
        let rows = training_set.rows();
        let order = shuffled(rows, Noise::new(seed).fold(PARTING));
        let fold = |at: usize| {
            let (start, end) = (at * rows / FOLDS, (at + 1) * rows / FOLDS);
            Split {
                train: [&order[..start], &order[end..]].concat(),
                test: order[start..end].to_vec(),
            }
        };
        (0..FOLDS).map(fold).collect()
    })
}

/// The length of all trainings of a fit, relative to that of one.
pub(super) fn relative_length(training_set: &TrainingSet, settings: &FitSettings) -> Result<f64> {
    let splits = LearnedNoise::splits(training_set, settings)?.len();
    Ok(match splits {
        0 | 1 => 1.0,
        _ => 1.0 + LEARNING * splits as f64,
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Column, ColumnScale, Dataset, Features, Table, Targets, gap_regression};

    use super::*;
    use crate::engine::fit;
    use crate::predict::{NoiseDeviations, Predictions};
    use crate::rows::{PreparedRows, SplitTable, Target};
    use crate::settings::{DataSettings, LikelihoodName, Method, TaskName};

    #[test]
    fn the_largest_precision_is_that_of_rounding_or_a_thousandth_of_the_deviation() {
        let largest = |values: Vec<f64>| {
            let features = Features::new(values.len(), 1, vec![0.0; values.len()]).unwrap();
            let data = Dataset::new(features, Targets::Real(values)).unwrap();
            let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
            largest(&training_set).unwrap()[0]
        };
        // Whole numbers: deviation 1/√12.
        let whole: Vec<f64> = (0..40).map(|row| f64::from(row % 7)).collect();
        assert!((largest(whole) - 12.0).abs() < 1e-4);
        // Their deviation is 1.87.
        let fine = (0..40).map(|row| f64::from(row % 7) + 1e-4 * f64::from(row));
        let deviation = largest(fine.collect()).powf(-0.5);
        assert!((0.0018..0.002).contains(&deviation), "{deviation}");
        assert!(largest(vec![1.0; 5]).is_finite());
    }

    /// Half of the targets are the same number, whose density has no bound.
    #[test]
    fn a_target_that_comes_often_has_no_spike() {
        let rows = 200;
        let inputs: Vec<f64> = (0..rows).map(|row| f64::from(row) / 100.0 - 1.0).collect();
        let rounded = |input: &f64| (2.0 * input).max(0.0).round();
        let targets = Targets::Real(inputs.iter().map(rounded).collect());
        let features = Features::new(rows as usize, 1, inputs).unwrap();
        let data = Dataset::new(features, targets).unwrap();
        let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
        let settings = FitSettings {
            likelihood: Some(LikelihoodName::Heteroscedastic),
            method: Method::Map,
            model: Some("mlp:10".parse().unwrap()),
            epochs: Some(100),
            ..FitSettings::default()
        };
        let model = fit(&training_set, &settings, &mut ()).unwrap();
        let rows = Features::new(1, 1, vec![-0.9]).unwrap();
        let Predictions::Reals(found) = model.predict(&rows, 1).unwrap() else {
            panic!("numbers were fitted");
        };
        let NoiseDeviations::PerPrediction(deviations) = &found.kind.deviations else {
            panic!("the noise is that of each row");
        };
        let least = 12f64.sqrt().recip();
        assert!(
            (0.99 * least..1.1 * least).contains(&deviations[0]),
            "{deviations:?}"
        );
    }

    #[test]
    fn every_one_of_few_rows_is_held_out_once_and_a_fifth_of_many() {
        let settings = FitSettings::default();
        let splits = |rows: usize| {
            let data = gap_regression(rows, 0.1, 3).unwrap();
            let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
            LearnedNoise::splits(&training_set, &settings).unwrap()
        };
        for rows in [10, 42, 99] {
            let splits = splits(rows);
            assert_eq!(splits.len(), 5);
            let mut held_out = vec![0; rows];
            for split in splits {
                assert_eq!(split.seen.len() + split.held_out.rows(), rows);
                let unseen = |row: &usize| !split.seen.contains(row);
                (0..rows).filter(unseen).for_each(|row| held_out[row] += 1);
            }
            assert_eq!(held_out, vec![1; rows]);
        }
        let splits = splits(100);
        assert_eq!((splits.len(), splits[0].held_out.rows()), (1, 20));
    }

    #[test]
    fn whole_groups_and_periods_are_held_out_and_counted() {
        let by_group = DataSettings {
            target: "y".parse().ok(),
            task: Some(TaskName::Regression),
            group_by: Some("place".into()),
            ..DataSettings::default()
        };
        let by_time = DataSettings {
            group_by: None,
            time: Some("place".into()),
            ..by_group.clone()
        };
        // 200 times are 14 periods.
        for (settings, places, expected) in [
            (&by_group, 8, 5),
            (&by_group, 3, 3),
            (&by_group, 100, 1),
            (&by_time, 200, 5),
        ] {
            let column = |name: &str, value: &dyn Fn(usize) -> f64| {
                Column::numbers(name, (0..400).map(value).collect())
            };
            let table = Table::new(vec![
                column("y", &|row| (row as f64).sin()),
                column("x", &|row| (3.0 * row as f64).sin()),
                column("place", &|row| (row % places) as f64),
            ]);
            let dealt = SplitTable::of(table.unwrap(), (0..400).collect(), Vec::new());
            let training_set = PreparedRows::prepare(dealt, settings).unwrap().train;
            let splits = LearnedNoise::splits(&training_set, &FitSettings::default()).unwrap();
            assert_eq!(splits.len(), expected);
            for split in splits {
                assert_eq!(split.seen.len() + split.held_out.rows(), 400);
                for rows in training_set.units().members() {
                    let is_seen = |row: &usize| split.seen.contains(row);
                    assert_eq!(rows.iter().any(is_seen), rows.iter().all(is_seen));
                }
            }
        }
    }
}
