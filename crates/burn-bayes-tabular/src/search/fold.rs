//! Training and test rows of a fold, prepared with statistics of the training rows only.

use std::sync::Arc;

use burn_bayes::eval::{
    LabelledProbabilities, TargetedCounts, TargetedMixture, accuracy, log_probabilities,
    mixture_nll, nll, rmse,
};
use burn_bayes_data::{
    ColumnScale, Dataset, Features, KFold, Preprocessor, PreprocessorConfig, Scaler, Scaling,
    Split, Table, Targets,
};
use serde::{Deserialize, Serialize};

use super::divergence::{constant, divergence};
use crate::engine::{Unobserved, check, fit, weights};
use crate::error::{Result, TabularError};
use crate::jobs::{Computed, LeftOut, Measures};
use crate::predict::Predictions;
use crate::rows::{SplitTable, Target, TrainingSet};
use crate::rows::{fingerprint_of, true_targets};
use crate::scores::{Intervals, Scores, mismatched, row_costs};
use crate::settings::{DataSettings, FitSettings};

/// The name of the measure that is 1 if the fit of a job diverged.
pub const DIVERGED: &str = "diverged";
/// The name of the measure of the error.
const ERROR: &str = "error";

/// A training and test split.
#[derive(Clone, Debug)]
pub struct Fold {
    train: TrainingSet,
    test: Features,
    /// The targets of the test rows, in their own unit.
    targets: Targets,
    /// Rows that are neither, and are predicted too.
    new: Option<Features>,
}

/// New rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    pub(crate) table: Table,
    /// The usable ones.
    pub(crate) rows: Vec<usize>,
}

/// The score of a fit on held-out rows; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct HoldoutScore {
    /// Mean negative log-likelihood per row of the average over draws, in nats and in the unit of the
    /// target. A search minimises it.
    pub cost: f64,
    /// Root mean squared error, or the misclassification rate; of several targets in standard deviations of the training
    /// targets, or the Hamming loss.
    pub error: f64,
    /// Whether the fit has diverged although it has scores: it is worse than a constant.
    pub diverged: bool,
}

/// All scores of a fit on held-out rows.
#[derive(Clone, Debug)]
pub struct Scored {
    /// `None` if the fit has no scores.
    pub scores: Option<Scores>,
    /// The negative log-likelihood of each test row; empty without scores, and for more than [`MOST_STORED`] rows.
    pub(crate) row_costs: Vec<f64>,
    /// For intervals of new rows; `None` without scores or new rows.
    pub(crate) left_out: Option<LeftOut>,
    /// Whether the fit has diverged.
    pub diverged: bool,
}

/// A fit on the test rows.
struct Judged {
    /// `None` if the fit has no scores.
    predictions: Option<Predictions>,
    score: Option<HoldoutScore>,
    /// The negative log-likelihood of each test row; empty without scores, and for more than [`MOST_STORED`] rows.
    row_costs: Vec<f64>,
    /// The predictions of the new rows.
    of_new: Option<Predictions>,
}

/// The maximum number of test rows whose costs are kept, so that the file of runs stays small.
const MOST_STORED: usize = 20_000;

impl Fold {
    /// A split of rows with real targets; features and target are standardised.
    pub fn standardised(dataset: &Dataset, split: &Split) -> Result<Self> {
        let Some(targets) = dataset.targets().as_real() else {
            return Err(TabularError::Data(
                "the targets are classes, not numbers".into(),
            ));
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
            train: TrainingSet::new(&train, Target::Real(scale))?,
            test: scaler.apply(dataset.features().select(&split.test)?)?,
            targets: Targets::Real(of(&split.test)),
            new: None,
        })
    }

    /// Training and test rows that are prepared already.
    ///
    /// # Errors
    /// If the rows do not have this target.
    pub fn given(train: &Dataset, test: &Dataset, target: Target) -> Result<Self> {
        Ok(Self {
            targets: true_targets(test, &target),
            train: TrainingSet::new(train, target)?,
            test: test.features().clone(),
            new: None,
        })
    }

    /// A split of the rows of a table, with new rows.
    ///
    /// # Errors
    /// If the rows cannot be prepared, for example because a test row has a new category.
    fn prepared(
        table: &Table,
        config: &PreprocessorConfig,
        split: &Split,
        new: Option<&NewTable>,
    ) -> Result<Self> {
        let preprocessor = Preprocessor::fit(config, table, split.train.iter().copied())?;
        let train = TrainingSet::prepared(&preprocessor, table, &split.train)?;
        let test = preprocessor.dataset(table, split.test.iter().copied())?;
        Ok(Self {
            targets: true_targets(&test, train.target()),
            train,
            test: test.into_parts().0,
            new: new
                .map(|new| preprocessor.features(&new.table, new.rows.iter().copied()))
                .transpose()?,
        })
    }

    /// The folds of the training rows of a table, each with the new rows.
    ///
    /// # Errors
    /// If the rows cannot be divided into folds, or as [`Fold::prepared`].
    pub(crate) fn all(
        rows: &SplitTable,
        settings: &DataSettings,
        kept: KFold,
        new: Option<&NewTable>,
    ) -> Result<Vec<Arc<Self>>> {
        let preparation = settings.preprocessor()?;
        let divisions = rows.divisions(settings, kept)?;
        let folds = divisions.iter();
        folds
            .map(|split| {
                Ok(Arc::new(Self::prepared(
                    &rows.table,
                    &preparation,
                    split,
                    new,
                )?))
            })
            .collect()
    }

    /// Checks the settings for these training rows.
    pub fn check(&self, settings: &FitSettings) -> Result<()> {
        check(&self.train, settings).map(drop)
    }

    /// D, the number of weights of a network for these rows.
    pub fn weights(&self, settings: &FitSettings) -> Result<usize> {
        weights(settings, self.train.width(), self.train.target())
    }

    /// Fits the training rows and scores the test rows; `None` if the fit has no scores.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn judge(&self, settings: &FitSettings) -> Result<Option<HoldoutScore>> {
        Ok(self.judged(settings)?.score)
    }

    /// The positive class of F1; see [`Target::positive`].
    pub fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        self.train.target().positive(asked)
    }

    /// As [`Fold::judge`], with all scores.
    pub fn score(&self, settings: &FitSettings, positive: Option<&str>) -> Result<Scored> {
        let Judged {
            predictions,
            score,
            row_costs,
            of_new,
        } = self.judged(settings)?;
        let left_out = match (&predictions, &of_new) {
            (Some(predictions), Some(of_new)) => self.left_out(predictions, of_new)?,
            _ => None,
        };
        let scores = |predictions: Predictions| {
            Scores::of_positive(&predictions, &self.targets, Intervals::Omitted, positive)
        };
        Ok(Scored {
            scores: predictions.map(scores).transpose()?,
            row_costs,
            left_out,
            diverged: score.is_none_or(|score| score.diverged),
        })
    }

    /// The errors of the test rows and the means of new rows; `None` for classes.
    fn left_out(&self, predictions: &Predictions, of_new: &Predictions) -> Result<Option<LeftOut>> {
        let (Some(moments), Some(targets)) = (predictions.moments()?, self.targets.as_real())
        else {
            return Ok(None);
        };
        let errors = targets.iter().zip(&moments.mean);
        Ok(Some(LeftOut {
            errors: errors.map(|(target, mean)| target - mean).collect(),
            new_means: of_new.moments()?.unwrap_or_default().mean,
        }))
    }

    /// As [`Fold::judge`], as the results of a job: with the cost by its name among the scores, and the costs of rows.
    pub(super) fn computed(&self, settings: &FitSettings, cost_name: &str) -> Result<Computed> {
        let judged = self.judged(settings)?;
        Ok(Computed {
            measures: HoldoutScore::measures(judged.score, cost_name),
            row_costs: judged.row_costs,
            left_out: None,
        })
    }

    fn judged(&self, settings: &FitSettings) -> Result<Judged> {
        let (predictions, of_new) = self.predictions(settings)?.unzip();
        let score = match &predictions {
            Some(predictions) => self.judge_predictions(predictions)?,
            None => None,
        };
        let predictions = predictions.filter(|_| score.is_some());
        let row_costs = match &predictions {
            Some(predictions) if self.targets.len() <= MOST_STORED => {
                row_costs(predictions, &self.targets)?
            }
            _ => Vec::new(),
        };
        Ok(Judged {
            predictions,
            score,
            row_costs,
            of_new: of_new.flatten(),
        })
    }

    /// Predictions of the test rows and of the new ones, by all members of an ensemble; `None` if a fit stopped at a
    /// non-finite number.
    fn predictions(
        &self,
        settings: &FitSettings,
    ) -> Result<Option<(Predictions, Option<Predictions>)>> {
        let count = settings.members.max(1);
        let draws = settings.draws.div_ceil(count);
        let of_member = |index| {
            let model = fit(&self.train, &settings.of_member(index), &mut Unobserved)?;
            let of_new = self.new.as_ref().map(|new| model.predict(new, draws));
            Ok((model.predict(&self.test, draws)?, of_new.transpose()?))
        };
        match (0..count).map(of_member).collect::<Result<Vec<_>>>() {
            Ok(members) => {
                let (test, new): (Vec<_>, Vec<_>) = members.into_iter().unzip();
                let new: Option<Vec<_>> = new.into_iter().collect();
                let of_members = Predictions::of_members;
                Ok(Some((of_members(test), new.map(of_members))))
            }
            Err(TabularError::Numerical(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A hash of the rows.
    pub(crate) fn fingerprint(&self) -> u64 {
        let known = fingerprint_of(self.train.fingerprint(), self.test.values(), &self.targets);
        self.new.as_ref().map_or(known, |new| {
            fingerprint_of(known, new.values(), &Targets::Real(Vec::new()))
        })
    }

    /// Scores predictions of the test rows; `None` if they have no scores.
    fn judge_predictions(&self, predictions: &Predictions) -> Result<Option<HoldoutScore>> {
        let divergence = divergence(&self.train, predictions, &self.targets)?;
        if divergence.is_some_and(|divergence| !divergence.has_scores()) {
            return Ok(None);
        }
        Ok(Some(HoldoutScore {
            diverged: divergence.is_some(),
            ..HoldoutScore::of(predictions, &self.targets)?
        }))
    }

    /// Scores the constant prediction from the training targets.
    pub fn judge_constant(&self) -> Result<HoldoutScore> {
        let predictions = constant(&self.train, self.targets.len())?;
        HoldoutScore::of(&predictions, &self.targets)
    }
}

impl HoldoutScore {
    /// Scores predictions, without a comparison with the constant.
    pub(crate) fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                Ok(Self {
                    cost: mixture_nll(&TargetedMixture::new(&mixture, targets)?),
                    error: rmse(&mixture.mean(), targets)?,
                    diverged: false,
                })
            }
            (Predictions::Counts(predictions), Targets::Real(counts)) => {
                let mixture = predictions.checked()?;
                let targeted = TargetedCounts::new(&mixture, counts)?;
                let total: f64 = log_probabilities(&targeted).iter().sum();
                Ok(Self {
                    cost: -total / counts.len() as f64,
                    error: rmse(&mixture.mean(), counts)?,
                    diverged: false,
                })
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                let labelled = LabelledProbabilities::new(&average, labels)?;
                Ok(Self {
                    cost: nll(&labelled),
                    error: 1.0 - accuracy(&labelled),
                    diverged: false,
                })
            }
            (Predictions::Several(found), Targets::Several(columns)) => {
                let costs = row_costs(predictions, targets)?;
                let mut errors = Vec::new();
                for (target, column) in found.iter().zip(columns) {
                    let error = Self::of(&target.predictions, column)?.error / target.unit;
                    errors.push(match target.predictions {
                        Predictions::Reals(_) => error.powi(2),
                        _ => error,
                    });
                }
                let error = mean(&errors);
                Ok(Self {
                    cost: mean(&costs),
                    error: match found.first().map(|target| &target.predictions) {
                        Some(Predictions::Reals(_)) => error.sqrt(),
                        _ => error,
                    },
                    diverged: false,
                })
            }
            _ => Err(mismatched(predictions)),
        }
    }

    /// The measures that a job stores, with the cost by its name among the scores.
    pub fn measures(judgement: Option<Self>, cost_name: &str) -> Measures {
        let mut measures = Measures::new();
        if judgement.is_none_or(|judgement| judgement.diverged) {
            measures.insert(DIVERGED.into(), 1.0);
        }
        if let Some(Self { cost, error, .. }) = judgement {
            measures.extend([(cost_name.into(), cost), (ERROR.into(), error)]);
        }
        measures
    }

    /// The score from stored measures; `None` if the fit has no scores.
    ///
    /// # Errors
    /// If a measure is missing.
    pub(crate) fn of_measures(measures: &Measures, cost_name: &str) -> Result<Option<Self>> {
        let diverged = measures.contains_key(DIVERGED);
        if diverged && measures.len() == 1 {
            return Ok(None);
        }
        let measure = |name: &str| {
            let problem = format!("a finished fit lacks its `{name}`; search without --resume");
            let found = measures.get(name).copied();
            found.ok_or(TabularError::Data(problem))
        };
        Ok(Some(Self {
            cost: measure(cost_name)?,
            error: measure(ERROR)?,
            diverged,
        }))
    }

    /// The means of cost and error, diverged if one of the scores is; `None` for an empty slice.
    pub(crate) fn mean(judgements: &[Self]) -> Option<Self> {
        let count = judgements.len() as f64;
        let mean = |of: fn(&Self) -> f64| judgements.iter().map(of).sum::<f64>() / count;
        (!judgements.is_empty()).then(|| Self {
            cost: mean(|one| one.cost),
            error: mean(|one| one.error),
            diverged: judgements.iter().any(|one| one.diverged),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::gap_regression;

    use super::*;
    use crate::predict::{NoiseDeviations, RealPredictions};
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
        assert_eq!(other.train.target(), fold.train.target());
        assert_ne!(
            format!("{:?}", other.targets),
            format!("{:?}", fold.targets)
        );
    }

    #[test]
    fn judgements_are_on_the_targets_own_scale() {
        let (dataset, split, fold) = fold();
        let targets = dataset.targets().as_real().unwrap();
        let means: Vec<f64> = split.test.iter().map(|&row| targets[row] + 0.2).collect();
        let predictions = |means: Vec<f64>| {
            Predictions::Reals(RealPredictions {
                draws: 1,
                members: vec![1],
                means,
                noise: NoiseDeviations::PerMember(vec![0.2]),
            })
        };
        let judgement = fold
            .judge_predictions(&predictions(means))
            .unwrap()
            .unwrap();
        assert!((judgement.error - 0.2).abs() < 1e-12);
        let expected = 0.5 * (2.0 * std::f64::consts::PI * 0.04).ln() + 0.5;
        assert!((judgement.cost - expected).abs() < 1e-12);
        let far = predictions(vec![1e3; split.test.len()]);
        assert_eq!(fold.judge_predictions(&far).unwrap(), None);
        let means = split.test.iter().map(|&row| targets[row] + 2.0).collect();
        let worse = fold
            .judge_predictions(&predictions(means))
            .unwrap()
            .unwrap();
        assert!(worse.diverged && !judgement.diverged);
    }

    #[test]
    fn an_ensemble_has_the_mean_density_of_its_members() {
        let (_, _, fold) = fold();
        let ensemble = FitSettings {
            method: Method::Map,
            epochs: Some(5),
            members: 2,
            ..FitSettings::default()
        };
        let costs = [0, 1].map(|index| {
            let member = fold.judged(&ensemble.of_member(index)).unwrap();
            member.row_costs
        });
        let rows = costs[0].iter().zip(&costs[1]);
        let expected = rows.map(|(one, other)| -(0.5 * ((-one).exp() + (-other).exp())).ln());
        let expected = expected.sum::<f64>() / costs[0].len() as f64;
        let found = fold.judge(&ensemble).unwrap().unwrap();
        assert_ne!(costs[0], costs[1]);
        assert!((found.cost - expected).abs() < 1e-9, "{found:?} {expected}");
    }

    #[test]
    fn a_judgement_survives_its_measures_and_a_missing_one_is_no_divergence() {
        let judgement = HoldoutScore {
            cost: 0.5,
            error: 0.25,
            diverged: false,
        };
        let worse = HoldoutScore {
            diverged: true,
            ..judgement
        };
        for judgement in [Some(judgement), Some(worse), None] {
            let measures = HoldoutScore::measures(judgement, "nll");
            assert_eq!(
                HoldoutScore::of_measures(&measures, "nll").unwrap(),
                judgement
            );
        }
        let other = HoldoutScore::measures(Some(judgement), "rmse");
        let failure = HoldoutScore::of_measures(&other, "nll").unwrap_err();
        assert!(failure.to_string().contains("`nll`"), "{failure}");
    }

    #[test]
    fn a_fit_that_diverges_is_no_error_but_a_bad_setting_is() {
        let (_, _, fold) = fold();
        let settings = FitSettings {
            method: Method::Map,
            model: NetworkShape { hidden: vec![5] },
            epochs: Some(20),
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
            batch_size: 0,
            ..settings
        };
        assert!(matches!(fold.judge(&unusable), Err(TabularError::Usage(_))));
    }
}
