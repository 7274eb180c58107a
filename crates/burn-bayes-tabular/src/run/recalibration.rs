//! The recalibration of a fit on its held-out rows, and honest scores of the same rows.
//!
//! The rows that are scored are never those that fitted the map. The held-out rows are divided into folds, and each fold
//! is predicted with the map of the others (cross-fitting); from these predictions come all scores of the run. The map
//! that `predict` and `evaluate` apply to new rows is fitted to all held-out rows.

use std::fmt;

use burn_bayes_data::{KFold, Split, Targets};
use serde::Serialize;

use crate::error::Result;
use crate::predict::{Predictions, Recalibration};
use crate::rows::{PreparedRows, Target, Units};
use crate::scores::{Summary, diverged_by, mean, row_costs};
use crate::settings::{FitSettings, RecalibrationName, refused};
use crate::text::number;

/// Number of folds of the held-out rows.
const FOLDS: usize = 5;
/// Fewest held-out rows: a scale that is fitted to 40 of them has a relative standard error of about 0.1.
const FEWEST_ROWS: usize = 50;

/// A recalibration with the scores of the held-out rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecalibrationScores {
    /// The map for new rows, fitted to all held-out rows.
    #[serde(flatten)]
    pub map: Recalibration,
    /// Number of folds of the cross-fitting.
    pub folds: usize,
    /// Mean NLL of the held-out rows before the recalibration.
    pub nll_before: f64,
    /// That of the cross-fitted predictions.
    pub nll_after: f64,
    /// The change of the NLL; negative if the recalibration helps.
    pub difference: f64,
    /// Its standard error, paired by row.
    pub standard_error: f64,
}

/// Predictions of held-out rows, each recalibrated without its own target.
#[derive(Debug)]
pub(super) struct CrossFitted {
    pub(super) predictions: Predictions,
    pub(super) scores: RecalibrationScores,
}

/// Checks the setting `recalibrate` for these rows, before the training.
///
/// # Errors
/// If the kind does not suit the target, the rows are too few, or another setting excludes it.
pub(super) fn check(settings: &FitSettings, rows: &PreparedRows) -> Result<()> {
    let Some(name) = settings.recalibrate else {
        return Ok(());
    };
    let target = rows.train.target();
    let cure = "its one number is that of one target; leave it out, or fit each target alone";
    target.expect_one("recalibrate", cure)?;
    let (suitable, what) = match target {
        Target::Classes(_) => (RecalibrationName::Temperature, "a class"),
        Target::Real(_) | Target::Several(_) => (RecalibrationName::Variance, "a number"),
        Target::Counts { .. } => {
            let problem = "is for numbers and classes, but the target is a count, whose dispersion is learned with \
                           `--likelihood negative-binomial`; leave it out";
            return Err(refused("recalibrate", problem));
        }
    };
    if name != suitable {
        let problem = format!("is {name}, but the target is {what}; use {suitable}");
        return Err(refused("recalibrate", problem));
    }
    if settings.refit {
        let problem = "is not possible with `refit`: the recalibration of the first fit does not suit the second, \
                       whose rows include the held-out ones; leave out one of them";
        return Err(refused("recalibrate", problem));
    }
    let held_out = rows.validation.as_ref().map_or(0, |rows| rows.rows());
    let groups = rows.validation_inputs.units.count();
    if held_out > 0 && groups < FOLDS {
        let problem = format!(
            "needs held-out rows of at least {FOLDS} groups or times, but there are {groups}; hold out more with \
             `--validation`, or leave it out"
        );
        return Err(refused("recalibrate", problem));
    }
    match held_out {
        0 => Err(refused(
            "recalibrate",
            "needs held-out rows, but there are none; hold some out with `--validation 0.2`",
        )),
        FEWEST_ROWS.. => Ok(()),
        _ => {
            let problem = format!(
                "needs at least {FEWEST_ROWS} held-out rows, but there are {held_out}; hold out more with `--validation`, \
                 or leave it out"
            );
            Err(refused("recalibrate", problem))
        }
    }
}

impl CrossFitted {
    /// Cross-fits the predictions of held-out rows.
    ///
    /// # Errors
    /// If the target of a row has density 0, or a recalibrated number is not finite.
    pub(super) fn of(
        predictions: &Predictions,
        targets: &Targets,
        units: &Units,
        settings: &FitSettings,
    ) -> Result<Self> {
        let before = row_costs(predictions, targets)?;
        if let Some(row) = before.iter().position(|cost| !cost.is_finite()) {
            let reason = format!(
                "the NLL of held-out row {row} (from 0) is {}, which no recalibration repairs",
                before[row]
            );
            return Err(diverged_by(&reason, settings));
        }
        let part = |split: Split| {
            let others = predictions.of_rows(&split.train);
            let known = targets.select(&split.train);
            let map = Recalibration::fit(&others, &known, Some(&split))?;
            let scored = map.apply(predictions.of_rows(&split.test))?;
            Ok((split.test, scored))
        };
        let parts = folds(targets, units, settings.seed)?.into_iter().map(part);
        let cross_fitted = Predictions::of_parts(parts.collect::<Result<_>>()?);
        let after = row_costs(&cross_fitted, targets)?;
        let difference = Summary::of_differences(&after, &before, units);
        Ok(Self {
            predictions: cross_fitted,
            scores: RecalibrationScores {
                map: Recalibration::fit(predictions, targets, None)?,
                folds: FOLDS,
                nll_before: mean(&before),
                nll_after: mean(&after),
                difference: difference.map_or(f64::NAN, |summary| summary.mean),
                standard_error: difference
                    .and_then(|summary| summary.standard_error)
                    .unwrap_or(f64::NAN),
            },
        })
    }
}

/// The folds: of whole groups or periods, or stratified by class if every class has a row for each.
fn folds(targets: &Targets, units: &Units, seed: u64) -> Result<Vec<Split>> {
    if let Some(folds) = units.folds(FOLDS, seed) {
        return Ok(folds);
    }
    let folds = KFold::new(FOLDS).with_seed(seed);
    let stratified = targets
        .as_classes()
        .and_then(|classes| folds.stratified_splits(classes).ok());
    Ok(match stratified {
        Some(splits) => splits,
        None => folds.splits(targets.len())?,
    })
}

impl RecalibrationScores {
    /// Whether the NLL is lower by more than its standard error.
    pub fn helps(&self) -> bool {
        self.difference < -self.standard_error
    }
}

impl fmt::Display for RecalibrationScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.helps() {
            true => "recalibration: ",
            false => "recalibration did not help: ",
        })?;
        match self.map {
            Recalibration::Temperature { temperature } => {
                write!(f, "temperature {}", number(temperature))?;
            }
            Recalibration::Variance { deviation_factor } => {
                write!(f, "standard deviations times {}", number(deviation_factor))?;
            }
        }
        if self.map.is_identity() {
            f.write_str(", because the held-out rows do not determine another")?;
        }
        write!(
            f,
            "; NLL {} before and {} after, difference {} ± {}, by {}-fold cross-fitting",
            number(self.nll_before),
            number(self.nll_after),
            number(self.difference),
            number(self.standard_error),
            self.folds
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn_bayes_data::gap_regression;

    use super::*;
    use crate::predict::{ClassPredictions, NoiseDeviations, NumberNoise, RealPredictions};
    use crate::random::generator;
    use crate::rows::{SplitTable, read_table};
    use crate::run::{FolderFit, Run, RunFolder, Start};
    use crate::settings::Config;
    use burn_bayes::Noise;
    use rand::RngExt;

    const ROWS: usize = 60;
    const DRAWS: usize = 3;

    /// Every row for itself.
    fn alone(targets: &Targets) -> Units {
        Units::rows(targets.len())
    }

    /// Standard deviations that are a half of those of the targets.
    fn reals() -> (Predictions, Vec<f64>) {
        let mut random = generator(Noise::new(5));
        let mut uniform = || 2.0 * random.random::<f64>() - 1.0;
        let means = (0..DRAWS * ROWS).map(|_| uniform()).collect();
        let targets = (0..ROWS).map(|_| 4.0 * uniform()).collect();
        let predictions = Predictions::Reals(RealPredictions::new(1.0, DRAWS, means));
        (predictions, targets)
    }

    fn cross_fitted(predictions: &Predictions, targets: &[f64]) -> CrossFitted {
        let targets = Targets::Real(targets.to_vec());
        CrossFitted::of(
            predictions,
            &targets,
            &alone(&targets),
            &FitSettings::default(),
        )
        .unwrap()
    }

    fn noise(found: &CrossFitted) -> &[f64] {
        match &found.predictions {
            Predictions::Reals(RealPredictions {
                kind:
                    NumberNoise {
                        deviations: NoiseDeviations::PerPrediction(noise),
                        ..
                    },
                ..
            }) => noise,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_map_of_a_row_is_fitted_without_it() {
        let (predictions, mut targets) = reals();
        let before = cross_fitted(&predictions, &targets);
        let planted = 17;
        targets[planted] = 1e3;
        let after = cross_fitted(&predictions, &targets);
        let splits = folds(
            &Targets::Real(targets.clone()),
            &Units::rows(targets.len()),
            0,
        )
        .unwrap();
        assert_eq!(splits.len(), FOLDS);
        for split in splits {
            let is_of_planted = split.test.contains(&planted);
            for row in split.test {
                let same = noise(&before)[row] == noise(&after)[row];
                assert_eq!(same, is_of_planted, "row {row}");
            }
        }
        // The map for new rows uses every row.
        assert_ne!(before.scores.map, after.scores.map);
    }

    #[test]
    fn every_fold_has_the_map_of_the_others() {
        let (_, targets) = reals();
        let labels: Vec<usize> = targets
            .iter()
            .map(|target| usize::from(*target > 1.0))
            .collect();
        let mut random = generator(Noise::new(6));
        let positive: Vec<f64> = (0..DRAWS * ROWS).map(|_| random.random()).collect();
        let predictions = Predictions::Classes(ClassPredictions::new(
            ["a", "b"].map(String::from).to_vec(),
            DRAWS,
            positive.iter().flat_map(|p| [1.0 - p, *p]).collect(),
        ));
        let targets = Targets::Classes(labels.clone());
        let settings = FitSettings::default();
        let found = CrossFitted::of(&predictions, &targets, &alone(&targets), &settings).unwrap();
        let mut seen = vec![0; ROWS];
        for Split { train, test } in folds(&targets, &alone(&targets), settings.seed).unwrap() {
            let map =
                Recalibration::fit(&predictions.of_rows(&train), &targets.select(&train), None);
            let expected = map.unwrap().apply(predictions.of_rows(&test)).unwrap();
            match (found.predictions.of_rows(&test), expected) {
                (Predictions::Classes(found), Predictions::Classes(expected)) => {
                    assert_eq!(found.values, expected.values);
                }
                _ => panic!("classes"),
            }
            // Stratified: the folds differ by one row of a class at most.
            let ones = test.iter().filter(|&&row| labels[row] == 1).count();
            let all = labels.iter().sum::<usize>();
            assert!(ones.abs_diff(all / FOLDS) <= 1, "{ones} of {all}");
            test.iter().for_each(|&row| seen[row] += 1);
        }
        assert_eq!(seen, vec![1; ROWS]);
    }

    #[test]
    fn scores_are_those_of_the_predictions_and_say_whether_it_helps() {
        let (predictions, targets) = reals();
        let found = cross_fitted(&predictions, &targets);
        let CrossFitted {
            predictions: after,
            scores,
        } = &found;
        let nll = |of: &Predictions| {
            let costs = row_costs(of, &Targets::Real(targets.clone())).unwrap();
            costs.iter().sum::<f64>() / ROWS as f64
        };
        assert!((scores.nll_before - nll(&predictions)).abs() < 1e-12);
        assert!((scores.nll_after - nll(after)).abs() < 1e-12);
        assert!((scores.difference - (nll(after) - nll(&predictions))).abs() < 1e-12);
        assert!(scores.helps() && scores.to_string().starts_with("recalibration: standard"));
        // Again, on what is calibrated: there is nothing to gain.
        let recalibrated = scores.map.apply(predictions).unwrap();
        let again = cross_fitted(&recalibrated, &targets).scores;
        let Recalibration::Variance { deviation_factor } = again.map else {
            panic!("a factor");
        };
        assert!((deviation_factor - 1.0).abs() < 1e-9, "{again:?}");
        assert!(
            !again.helps() && again.to_string().contains("did not help"),
            "{again}"
        );
    }

    #[test]
    fn a_class_of_probability_zero_is_a_diverged_fit() {
        let predictions = Predictions::Classes(ClassPredictions::new(
            ["a", "b"].map(String::from).to_vec(),
            1,
            [1.0, 0.0].repeat(ROWS),
        ));
        let targets = Targets::Classes([vec![0; ROWS - 1], vec![1]].concat());
        let error = CrossFitted::of(
            &predictions,
            &targets,
            &alone(&targets),
            &FitSettings::default(),
        )
        .unwrap_err();
        assert_eq!(error.code(), 4);
        assert!(error.to_string().contains("held-out row 59"), "{error}");
    }

    fn fit(folder: &Path, name: &str, start: Start<'_>) -> FolderFit {
        let mut config: Config = toml::from_str(
            "data.target = 'price'\ndata.task = 'regression'\ndata.validation = 0.5\nfit.model = 'mlp:3'\n\
             fit.epochs = 4\nfit.checkpoint_every = 1\nfit.draws = 4\nfit.recalibrate = 'variance'",
        )
        .unwrap();
        config.data.path = Some(folder.join("rows.csv"));
        let dealt = SplitTable::deal(read_table(&config.data).unwrap(), &config.data, 0).unwrap();
        let rows = PreparedRows::prepare(dealt, &config.data).unwrap();
        FolderFit::new(&folder.join(name), config, rows, start).unwrap()
    }

    #[test]
    fn a_fit_that_stopped_after_its_training_ends_with_the_same_files() {
        let place = tempfile::tempdir().unwrap();
        let data = gap_regression(120, 0.1, 1).unwrap();
        let lines = data.targets().as_real().unwrap().iter().enumerate();
        let lines = lines.map(|(row, price)| format!("{},{price}\n", data.features().row(row)[0]));
        let text = format!("x,price\n{}", lines.collect::<String>());
        std::fs::write(place.path().join("rows.csv"), text).unwrap();

        let mut whole = fit(place.path(), "whole", Start::New("burn-bayes fit"));
        let trained = whole.train(&mut ()).unwrap();
        let finished = whole.finish(&trained).unwrap();
        let mut stopped = fit(place.path(), "stopped", Start::New("burn-bayes fit"));
        drop(stopped.train(&mut ()).unwrap());
        drop(stopped);
        let mut resumed = fit(place.path(), "stopped", Start::Resumed);
        let trained = resumed.train(&mut ()).unwrap();
        resumed.finish(&trained).unwrap();
        for file in ["model.toml", "scores.json", "validation.csv", "config.toml"] {
            let read = |run: &str| std::fs::read(place.path().join(run).join(file)).unwrap();
            assert!(read("whole") == read("stopped"), "{file}");
        }

        // The run has the map of the scores to the last bit, and predicts with it.
        let run = Run::load(&RunFolder::open(&place.path().join("whole")).unwrap(), None).unwrap();
        let map = run.file.recalibration.unwrap();
        let scores = finished
            .scores
            .and_then(|scores| scores.recalibration)
            .unwrap();
        assert_eq!(map, scores.map);
        let held_out = data.features();
        let (raw, found) = (
            run.model.predict(held_out, 4).unwrap(),
            run.predict(held_out, 4).unwrap(),
        );
        match (map.apply(raw).unwrap(), found) {
            (Predictions::Reals(expected), Predictions::Reals(found)) => {
                assert_eq!((expected.values, expected.kind), (found.values, found.kind));
            }
            _ => panic!("numbers"),
        }
    }
}
