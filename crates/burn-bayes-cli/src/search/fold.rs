//! Rows to learn from and rows to be judged by, prepared as the former alone teach.

use burn_bayes::eval::{LabelledProbabilities, TargetedMixture, accuracy, nll, nmll, rmse};
use burn_bayes_data::{
    ColumnScale, Dataset, Features, Preprocessor, PreprocessorConfig, Scaler, Scaling, Split,
    Table, Targets,
};
use serde::{Deserialize, Serialize};

use crate::cells::Measures;
use crate::engine::{Unobserved, check, fit, weights};
use crate::failure::{Failure, Result};
use crate::predictions::Predictions;
use crate::problem::{Problem, TargetMeaning};
use crate::rows::{fingerprint_of, true_targets};
use crate::scores::{Intervals, Scores};
use crate::settings::FitSettings;

/// A fit has diverged if its error is so many deviations of the training rows' targets.
const FARTHEST: f64 = 10.0;

/// The measure, 1, of a cell whose fit diverged.
pub(crate) const DIVERGED: &str = "diverged";
/// The measure of a judgement's error.
const ERROR: &str = "error";

/// One division of some rows.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    train: Problem,
    test: Features,
    /// Of the test rows, on their own scale.
    targets: Targets,
}

/// What a fit is worth on rows that it has not seen; less is better in both.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Judgement {
    /// Mean negative log-likelihood of a row under the average over draws, in nats, of the target on
    /// its own scale: what a search minimises.
    pub(crate) cost: f64,
    /// Root mean squared error; of classes, the share of wrong ones.
    pub(crate) error: f64,
}

impl Fold {
    /// A division of rows with real targets; features and target are standardised.
    pub(crate) fn standardised(dataset: &Dataset, split: &Split) -> Result<Self> {
        let Some(targets) = dataset.targets().as_real() else {
            return Err(Failure::Data("the targets are classes, not numbers".into()));
        };
        let of = |rows: &[usize]| rows.iter().map(|&row| targets[row]).collect::<Vec<_>>();
        let scaler = Scaler::fit(dataset.features(), &split.train, Scaling::Standardise)?;
        let scale = ColumnScale::fit(of(&split.train), Scaling::Standardise)?;
        let scaled = of(&split.train).into_iter().map(|value| scale.apply(value));
        let train = Dataset::new(
            scaler.apply(dataset.features().select(&split.train)?)?,
            Targets::Real(scaled.collect()),
        )?;
        Ok(Self {
            train: Problem::new(&train, TargetMeaning::Real(scale))?,
            test: scaler.apply(dataset.features().select(&split.test)?)?,
            targets: Targets::Real(of(&split.test)),
        })
    }

    /// A division of the rows of a table.
    ///
    /// # Errors
    /// If the training rows cannot be prepared, or the others have something that these have not.
    pub(crate) fn prepared(
        table: &Table,
        config: &PreprocessorConfig,
        split: &Split,
    ) -> Result<Self> {
        let preprocessor = Preprocessor::fit(config, table, split.train.iter().copied())?;
        let train = Problem::prepared(&preprocessor, table, &split.train)?;
        let test = preprocessor.dataset(table, split.test.iter().copied())?;
        Ok(Self {
            targets: true_targets(&test, train.meaning()),
            train,
            test: test.into_parts().0,
        })
    }

    /// Refuses settings that cannot be used for the training rows.
    pub(crate) fn check(&self, settings: &FitSettings) -> Result<()> {
        check(&self.train, settings).map(drop)
    }

    /// D, the number of weights of a network for these rows.
    pub(crate) fn weights(&self, settings: &FitSettings) -> Result<usize> {
        weights(settings, self.train.width(), self.train.meaning())
    }

    /// Fits the training rows and judges by the others; nothing if the fit diverged.
    ///
    /// # Errors
    /// If a setting cannot be used.
    pub(crate) fn judge(&self, settings: &FitSettings) -> Result<Option<Judgement>> {
        match self.predictions(settings)? {
            Some(predictions) => self.judge_predictions(&predictions),
            None => Ok(None),
        }
    }

    /// The class of which F1 is told; see [`TargetMeaning::positive`].
    pub(crate) fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        self.train.meaning().positive(asked)
    }

    /// As [`Fold::judge`], with every score there is.
    pub(crate) fn score(
        &self,
        settings: &FitSettings,
        positive: Option<&str>,
    ) -> Result<Option<Scores>> {
        let Some(predictions) = self.predictions(settings)? else {
            return Ok(None);
        };
        match self.judge_predictions(&predictions)? {
            Some(_) => {
                let (targets, intervals) = (&self.targets, Intervals::Omitted);
                let scores = Scores::of_positive(&predictions, targets, intervals, positive)?;
                Ok(Some(scores))
            }
            None => Ok(None),
        }
    }

    /// Predictions of the test rows; nothing if the fit left the finite numbers.
    fn predictions(&self, settings: &FitSettings) -> Result<Option<Predictions>> {
        let predictions = fit(&self.train, settings, &mut Unobserved)
            .and_then(|fitted| fitted.predict(&self.test, settings.draws));
        match predictions {
            Ok(predictions) => Ok(Some(predictions)),
            Err(Failure::Numerical(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A number that tells these rows from others.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint_of(self.train.fingerprint(), self.test.values(), &self.targets)
    }

    /// Judges predictions of the test rows; nothing if they are far off.
    pub(crate) fn judge_predictions(&self, predictions: &Predictions) -> Result<Option<Judgement>> {
        let judgement = Judgement::of(predictions, &self.targets)?;
        let most = most_error(&self.train)?;
        let is_sound = judgement.cost.is_finite() && judgement.error <= most;
        Ok(is_sound.then_some(judgement))
    }
}

/// The largest error of a fit to these rows that has not diverged.
pub(crate) fn most_error(train: &Problem) -> Result<f64> {
    match train.meaning() {
        TargetMeaning::Real(scale) => Ok(FARTHEST * scale.spread * train.target_deviation()?),
        TargetMeaning::Classes(_) => Ok(f64::INFINITY),
    }
}

impl Judgement {
    /// Judges predictions by what was true.
    pub(crate) fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                Ok(Self {
                    cost: nmll(&TargetedMixture::new(&mixture, targets)?),
                    error: rmse(&mixture.mean(), targets)?,
                })
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                let labelled = LabelledProbabilities::new(&average, labels)?;
                Ok(Self {
                    cost: nll(&labelled),
                    error: 1.0 - accuracy(&labelled),
                })
            }
            _ => {
                let problem = "the targets are not of the kind that was predicted";
                Err(Failure::Data(problem.into()))
            }
        }
    }

    /// What a cell writes down of a fit, the cost by its name in the scores.
    pub(crate) fn measures(judgement: Option<Self>, cost_name: &str) -> Measures {
        match judgement {
            None => Measures::from([(DIVERGED.into(), 1.0)]),
            Some(Self { cost, error }) => {
                Measures::from([(cost_name.into(), cost), (ERROR.into(), error)])
            }
        }
    }

    /// What a cell has written down; nothing if the fit diverged.
    ///
    /// # Errors
    /// If a measure is missing.
    pub(crate) fn of_measures(measures: &Measures, cost_name: &str) -> Result<Option<Self>> {
        if measures.contains_key(DIVERGED) {
            return Ok(None);
        }
        let measure = |name: &str| {
            let problem = format!("a finished fit lacks its `{name}`; search without --resume");
            let found = measures.get(name).copied();
            found.ok_or(Failure::Data(problem))
        };
        Ok(Some(Self {
            cost: measure(cost_name)?,
            error: measure(ERROR)?,
        }))
    }

    /// The mean of both; nothing of none.
    pub(crate) fn mean(judgements: &[Self]) -> Option<Self> {
        let count = judgements.len() as f64;
        let mean = |of: fn(&Self) -> f64| judgements.iter().map(of).sum::<f64>() / count;
        (!judgements.is_empty()).then(|| Self {
            cost: mean(|one| one.cost),
            error: mean(|one| one.error),
        })
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::gap_regression;

    use super::*;
    use crate::predictions::RealPredictions;
    use crate::settings::{Method, NetworkShape, NoisePrecision, OptimizerName};

    fn fold() -> (Dataset, Split, Fold) {
        let dataset = gap_regression(60, 0.1, 1).unwrap();
        let split = Split {
            train: (0..40).collect(),
            test: (40..60).collect(),
        };
        let fold = Fold::standardised(&dataset, &split).unwrap();
        (dataset, split, fold)
    }

    #[test]
    fn test_rows_teach_nothing() {
        let (dataset, split, fold) = fold();
        let mut targets = dataset.targets().as_real().unwrap().to_vec();
        targets[50] = 1e3;
        let features = dataset.features().clone();
        let changed = Dataset::new(features, Targets::Real(targets)).unwrap();
        let other = Fold::standardised(&changed, &split).unwrap();
        assert_eq!(other.train.targets(), fold.train.targets());
        assert_eq!(other.train.meaning(), fold.train.meaning());
        assert_ne!(
            format!("{:?}", other.targets),
            format!("{:?}", fold.targets)
        );
    }

    #[test]
    fn judgements_are_on_the_targets_own_scale() {
        let (dataset, split, fold) = fold();
        let targets = dataset.targets().as_real().unwrap();
        let means: Vec<f64> = split.test.iter().map(|&row| targets[row] + 2.0).collect();
        let predictions = |means: Vec<f64>| {
            Predictions::Reals(RealPredictions {
                draws: 1,
                means,
                noise_deviation: 2.0,
            })
        };
        let judgement = fold
            .judge_predictions(&predictions(means))
            .unwrap()
            .unwrap();
        assert!((judgement.error - 2.0).abs() < 1e-12);
        let expected = 0.5 * (2.0 * std::f64::consts::PI * 4.0).ln() + 0.5;
        assert!((judgement.cost - expected).abs() < 1e-12);
        let far = predictions(vec![1e3; split.test.len()]);
        assert_eq!(fold.judge_predictions(&far).unwrap(), None);
    }

    #[test]
    fn what_is_far_is_measured_by_the_targets_as_they_were() {
        let (dataset, split, standardised) = fold();
        assert_eq!(standardised.train.target_deviation().unwrap(), 1.0);
        let targets = dataset.targets().as_real().unwrap();
        let large = targets.iter().map(|target| 1e5 * target).collect();
        let large = Dataset::new(dataset.features().clone(), Targets::Real(large)).unwrap();
        let kept = ColumnScale {
            centre: 0.0,
            spread: 1.0,
        };
        let rows = |rows: &[usize]| large.select(rows).unwrap();
        let fold = Fold {
            train: Problem::new(&rows(&split.train), TargetMeaning::Real(kept)).unwrap(),
            test: rows(&split.test).features().clone(),
            targets: rows(&split.test).targets().clone(),
        };
        let of = |values: &[f64]| ColumnScale::fit(values.iter().copied(), Scaling::Standardise);
        let train: Vec<f64> = split.train.iter().map(|&row| 1e5 * targets[row]).collect();
        let deviation = of(&train).unwrap().spread;
        let judged = |deviations: f64| {
            let away = deviations * deviation;
            let means = split.test.iter().map(|&row| 1e5 * targets[row] + away);
            let predictions = Predictions::Reals(RealPredictions {
                draws: 1,
                means: means.collect(),
                noise_deviation: deviation,
            });
            fold.judge_predictions(&predictions).unwrap()
        };
        assert!(judged(9.9).is_some());
        assert_eq!(judged(10.1), None);
    }

    #[test]
    fn a_judgement_survives_its_measures_and_a_missing_one_is_no_divergence() {
        let judgement = Judgement {
            cost: 0.5,
            error: 0.25,
        };
        for judgement in [Some(judgement), None] {
            let measures = Judgement::measures(judgement, "nll");
            assert_eq!(Judgement::of_measures(&measures, "nll").unwrap(), judgement);
        }
        let other = Judgement::measures(Some(judgement), "nmll");
        let failure = Judgement::of_measures(&other, "nll").unwrap_err();
        assert!(failure.to_string().contains("`nll`"), "{failure}");
    }

    #[test]
    fn a_fit_that_diverges_is_no_error_but_a_bad_setting_is() {
        let (_, _, fold) = fold();
        let settings = FitSettings {
            method: Method::Map,
            model: NetworkShape { hidden: vec![5] },
            epochs: 20,
            batch_size: 10,
            noise_precision: NoisePrecision::Given(10.0),
            ..FitSettings::default()
        };
        let sound = fold.judge(&settings).unwrap().unwrap();
        assert_eq!(fold.judge(&settings).unwrap(), Some(sound));
        let wild = FitSettings {
            optimizer: OptimizerName::Sgd,
            learning_rate: Some(1e6),
            ..settings.clone()
        };
        assert_eq!(fold.judge(&wild).unwrap(), None);
        let unusable = FitSettings {
            batch_size: 41,
            ..settings
        };
        assert!(matches!(fold.judge(&unusable), Err(Failure::Usage(_))));
    }
}
