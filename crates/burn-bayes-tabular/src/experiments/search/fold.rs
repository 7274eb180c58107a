//! Training and test rows of a fold, prepared with statistics of the training rows only.

use std::borrow::Cow;
use std::sync::Arc;

use burn_bayes_data::{
    ColumnScale, Dataset, Features, KFold, Preprocessor, PreprocessorConfig, Scaler, Scaling,
    Split, Table, Targets,
};

use serde::{Serialize, Serializer};

use crate::engine::{check, fit, in_effect, is_quickly_solved, likelihoods, weights};
use crate::error::{Result, TabularError};
use crate::experiments::jobs::LeftOut;
use crate::files::hashed;
use crate::order::selected;
use crate::plain_models;
use crate::predict::Predictions;
use crate::rows::{SplitTable, Target, TrainingSet};
use crate::rows::{Units, fingerprint_of, true_targets};
use crate::scores::{Constant, HoldoutScore, Intervals, Scores};
use crate::settings::{DataSettings, FitSettings, LikelihoodName, PlainName};

/// A training and test split.
#[derive(Clone, Debug)]
pub struct Fold {
    source: Source,
    /// Number of features.
    width: usize,
    target: Target,
    /// A hash of the rows.
    fingerprint: u64,
}

/// Where the rows of a fold come from.
#[derive(Clone, Debug)]
enum Source {
    Given(Box<FoldRows>),
    /// They are selected and prepared whenever they are needed, because the folds of many repeats together have as many
    /// copies of the table.
    Table(Arc<FoldTable>, Split),
}

/// The rows of all folds of a table.
#[derive(Clone, Debug)]
struct FoldTable {
    table: Arc<Table>,
    settings: DataSettings,
    preparation: PreprocessorConfig,
    new: Option<NewTable>,
}

/// Prepared rows of a fold.
#[derive(Clone, Debug)]
struct FoldRows {
    train: TrainingSet,
    test: Features,
    /// The targets of the test rows, in their own unit.
    targets: Targets,
    /// Which of the test rows are independent.
    units: Units,
    /// Rows that are neither, and are predicted too.
    new: Option<Features>,
}

/// New rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    pub(crate) table: Arc<Table>,
    /// The usable ones.
    pub(crate) rows: Vec<usize>,
}

/// A fit to the training rows of a fold.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FoldFit {
    #[serde(serialize_with = "FitSettings::as_key")]
    pub(crate) settings: FitSettings,
    /// The plain model in the place of the method, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plain: Option<PlainName>,
    #[serde(serialize_with = "as_hash")]
    pub(crate) fold: Arc<Fold>,
    /// The positive class of F1.
    pub(crate) positive: Option<String>,
}

fn as_hash<S: Serializer>(fold: &Arc<Fold>, serializer: S) -> Result<S::Ok, S::Error> {
    fold.fingerprint.serialize(serializer)
}

/// All scores of a fit on held-out rows.
#[derive(Clone, Debug)]
pub struct Scored {
    /// `None` if the fit has no scores.
    pub scores: Option<Scores>,
    /// For intervals of new rows; `None` without scores or new rows.
    pub(crate) left_out: Option<LeftOut>,
    /// Whether the fit has diverged.
    pub diverged: bool,
    /// The number of test rows divided by that of training rows.
    pub(crate) test_to_train: f64,
}

/// The predictions of the test rows, and of the new ones.
type Found = (Predictions, Option<Predictions>);

/// A fit on the test rows.
struct Judged {
    /// `None` if the fit has no scores.
    predictions: Option<Predictions>,
    /// With the NLL of every test row.
    score: Option<(HoldoutScore, Vec<f64>)>,
    /// The predictions of the new rows.
    of_new: Option<Predictions>,
}

impl Fold {
    /// A split of rows with real targets; features and target are standardised.
    pub fn standardised(dataset: &Dataset, split: &Split) -> Result<Self> {
        let Some(targets) = dataset.targets().as_real() else {
            return Err(TabularError::Data(
                "the targets are classes, not numbers".into(),
            ));
        };
        let scaler = Scaler::fit(dataset.features(), &split.train, Scaling::Standardise)?;
        let scale = ColumnScale::fit(selected(targets, &split.train), Scaling::Standardise)?;
        let scaled = selected(targets, &split.train)
            .into_iter()
            .map(|value| scale.apply(value));
        let train = Dataset::new(
            scaler.apply(dataset.features().select(&split.train)?)?,
            Targets::Real(scaled.collect()),
        )?;
        Ok(Self::of_rows(FoldRows {
            train: TrainingSet::new(&train, Target::Real(scale))?,
            test: scaler.apply(dataset.features().select(&split.test)?)?,
            targets: Targets::Real(selected(targets, &split.test)),
            units: Units::rows(split.test.len()),
            new: None,
        }))
    }

    /// Training and test rows that are prepared already.
    ///
    /// # Errors
    /// If the rows do not have this target.
    pub fn given(train: &Dataset, test: &Dataset, target: Target) -> Result<Self> {
        Ok(Self::of_rows(FoldRows {
            targets: true_targets(test, &target),
            units: Units::rows(test.rows()),
            train: TrainingSet::new(train, target)?,
            test: test.features().clone(),
            new: None,
        }))
    }

    fn of_rows(rows: FoldRows) -> Self {
        Self {
            width: rows.train.width(),
            target: rows.train.target().clone(),
            fingerprint: rows.fingerprint(),
            source: Source::Given(Box::new(rows)),
        }
    }

    /// The folds of the training rows of a table, each with the new rows.
    ///
    /// # Errors
    /// If the rows cannot be divided into folds or prepared, for example because a test row has a new category.
    pub(crate) fn all(
        rows: &SplitTable,
        settings: &DataSettings,
        kept: KFold,
        new: Option<NewTable>,
    ) -> Result<Vec<Arc<Self>>> {
        let table = Arc::new(FoldTable {
            table: rows.table.clone(),
            preparation: settings.preprocessor(&rows.table)?,
            settings: settings.clone(),
            new,
        });
        let splits = rows.divisions(settings, kept)?.into_iter();
        let fold = |split: Split| {
            let rows = table.rows(&split)?;
            Ok(Arc::new(Self {
                source: Source::Table(table.clone(), split),
                ..Self::of_rows(rows)
            }))
        };
        splits.map(fold).collect()
    }

    /// Its rows, prepared with statistics of the training rows only.
    fn rows(&self) -> Result<Cow<'_, FoldRows>> {
        match &self.source {
            Source::Given(rows) => Ok(Cow::Borrowed(rows)),
            Source::Table(table, split) => table.rows(split).map(Cow::Owned),
        }
    }

    /// Checks the settings of fits to these training rows.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn check<'a>(&self, settings: impl IntoIterator<Item = &'a FitSettings>) -> Result<()> {
        let train = &self.rows()?.train;
        let mut settings = settings.into_iter();
        settings.try_for_each(|settings| check(train, settings).map(drop))
    }

    /// The settings in effect for the training rows.
    pub(crate) fn in_effect(&self, settings: FitSettings) -> Result<FitSettings> {
        Ok(in_effect(&self.rows()?.train, settings))
    }

    /// Whether a fit to the training rows is solved directly, within seconds.
    pub(crate) fn is_quickly_solved(&self, settings: &FitSettings) -> Result<bool> {
        let train = &self.rows()?.train;
        Ok(is_quickly_solved(
            train,
            &in_effect(train, settings.clone()),
        ))
    }

    /// D, the number of weights of a network for these rows.
    pub fn weights(&self, settings: &FitSettings) -> Result<usize> {
        weights(settings, self.width, &self.target)
    }

    /// The likelihoods that a search of these settings tries; see [`likelihoods`].
    pub(crate) fn likelihoods(&self, settings: &FitSettings) -> Vec<LikelihoodName> {
        likelihoods(settings, &self.target)
    }

    /// Fits the training rows and scores the test rows; `None` if the fit has no scores.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn judge(&self, settings: &FitSettings) -> Result<Option<HoldoutScore>> {
        let rows = self.rows()?;
        let score = rows.judged(rows.predictions(settings)?)?.score;
        Ok(score.map(|(score, _)| score))
    }

    /// Fits the training rows: the NLL of every test row; `None` if the fit has no scores.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub(crate) fn costs(&self, settings: &FitSettings) -> Result<Option<Vec<f64>>> {
        let rows = self.rows()?;
        let score = rows.judged(rows.predictions(settings)?)?.score;
        Ok(score.map(|(_, costs)| costs))
    }

    /// The positive class of F1; see [`Target::positive`].
    pub fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        self.target.positive(asked)
    }

    /// As [`Fold::judge`], with all scores.
    pub fn score(&self, settings: &FitSettings, positive: Option<&str>) -> Result<Scored> {
        let rows = self.rows()?;
        rows.scored(rows.predictions(settings)?, positive)
    }

    /// The same of a plain model beside a fit with these settings.
    pub(crate) fn score_plain(
        &self,
        model: PlainName,
        settings: &FitSettings,
        positive: Option<&str>,
    ) -> Result<Scored> {
        let rows = self.rows()?;
        let groups: Vec<&Features> = [&rows.test].into_iter().chain(&rows.new).collect();
        let found = plain_models::predictions(model, &rows.train, settings, &groups)?;
        let found = found.and_then(|found| {
            let mut found = found.into_iter();
            Some((found.next()?, found.next()))
        });
        let is_fitted = found.is_some();
        let scored = rows.scored(found, positive)?;
        Ok(Scored {
            // One that is worse than a constant has not diverged, and one that takes too long is not fitted.
            diverged: is_fitted && scored.scores.is_none(),
            ..scored
        })
    }

    /// Scores the constant prediction from the training targets.
    pub fn judge_constant(&self) -> Result<HoldoutScore> {
        let rows = self.rows()?;
        let train = &rows.train;
        let predictions = Constant::of(train)?.predictions(train.target(), &rows.test);
        HoldoutScore::of(&predictions, &rows.targets)
    }
}

impl FoldTable {
    /// The rows of a split.
    fn rows(&self, split: &Split) -> Result<FoldRows> {
        let (table, train) = (&*self.table, split.train.iter().copied());
        let preprocessor = Preprocessor::fit(&self.preparation, table, train)?;
        let train = TrainingSet::prepared(&preprocessor, table, &self.settings, &split.train)?;
        let test = preprocessor.dataset(table, split.test.iter().copied())?;
        let new = self.new.as_ref();
        let new = new.map(|new| preprocessor.features(&new.table, new.rows.iter().copied()));
        Ok(FoldRows {
            targets: true_targets(&test, train.target()),
            units: Units::of_table(table, &self.settings, &split.test)?,
            train,
            test: test.into_parts().0,
            new: new.transpose()?,
        })
    }
}

impl FoldRows {
    fn scored(&self, found: Option<Found>, positive: Option<&str>) -> Result<Scored> {
        let Judged {
            predictions,
            score,
            of_new,
        } = self.judged(found)?;
        let left_out = match (&predictions, &of_new) {
            (Some(predictions), Some(of_new)) => self.left_out(predictions, of_new)?,
            _ => None,
        };
        let scores = |predictions: Predictions| {
            Scores::of_positive(&predictions, &self.targets, Intervals::Omitted, positive)
        };
        Ok(Scored {
            scores: predictions.map(scores).transpose()?,
            left_out,
            diverged: score.is_none_or(|(score, _)| score.diverged),
            test_to_train: self.targets.len() as f64 / self.train.rows() as f64,
        })
    }

    fn judged(&self, found: Option<Found>) -> Result<Judged> {
        let (predictions, of_new) = found.unzip();
        let score = match &predictions {
            Some(predictions) => {
                let (train, targets) = (&self.train, &self.targets);
                HoldoutScore::judged(train, &self.test, predictions, targets, &self.units)?
            }
            None => None,
        };
        let predictions = predictions.filter(|_| score.is_some());
        Ok(Judged {
            predictions,
            score,
            of_new: of_new.flatten(),
        })
    }

    /// Predictions of the test rows and of the new ones, by all members of an ensemble; `None` if a fit stopped at a
    /// non-finite number.
    fn predictions(&self, settings: &FitSettings) -> Result<Option<Found>> {
        let count = settings.members.max(1);
        let draws = settings.draws.div_ceil(count);
        let of_member = |index| {
            let model = fit(&self.train, &settings.of_member(index), &mut ())?;
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

    /// A hash of the rows.
    fn fingerprint(&self) -> u64 {
        let Self {
            train,
            test,
            targets,
            units,
            new,
        } = self;
        let known = fingerprint_of(train.fingerprint(), test.values(), targets);
        let units = units.of_rows().iter().map(|&unit| unit as u64);
        let known = hashed(known, units);
        new.as_ref().map_or(known, |new| {
            fingerprint_of(known, new.values(), &Targets::Real(Vec::new()))
        })
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::gap_regression;
    use burn_bayes_testing::most_held;

    use super::*;
    use crate::predict::RealPredictions;
    use crate::rows::read_table;
    use crate::settings::{Method, NetworkShape, NoisePrecision, OptimizerName, TaskName};

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
        let (fold, other) = (fold.rows().unwrap(), other.rows().unwrap());
        assert_eq!(other.train.targets(), fold.train.targets());
        assert_eq!(other.train.target(), fold.train.target());
        assert_ne!(
            format!("{:?}", other.targets),
            format!("{:?}", fold.targets)
        );
    }

    #[test]
    fn folds_of_many_repeats_hold_one_table() {
        use std::fmt::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut text = String::from("a,b,c,d,e,y\n");
        for row in 0..2000 {
            let number = |column: u32| (f64::from(row * 7 + column) * 0.618).fract();
            let cells: Vec<String> = (0..6).map(|column| number(column).to_string()).collect();
            writeln!(text, "{}", cells.join(",")).unwrap();
        }
        std::fs::write(&path, text).unwrap();
        let data = DataSettings {
            path: Some(path),
            target: Some("y".parse().unwrap()),
            task: Some(TaskName::Regression),
            validation: 0.0,
            ..DataSettings::default()
        };
        let rows = SplitTable::deal(read_table(&data).unwrap(), &data, 0).unwrap();
        let held = |repeats| {
            let kept = KFold::new(5).with_repeats(repeats);
            let (folds, most) = most_held(|| Fold::all(&rows, &data, kept, None).unwrap());
            assert_eq!(folds.len(), 5 * repeats);
            most
        };
        // An index of 8 bytes for each row and fold, and not the 24 to 48 bytes of six numbers as well.
        let (few, many) = (held(1), held(10));
        assert!(many - few < 45 * 2000 * 16, "{few} {many}");
        let fold = &Fold::all(&rows, &data, KFold::new(5), None).unwrap()[0];
        let prepared = fold.rows().unwrap();
        assert_eq!((prepared.train.rows(), prepared.targets.len()), (1600, 400));
        assert_eq!(prepared.fingerprint(), fold.fingerprint);
    }

    #[test]
    fn judgements_are_on_the_targets_own_scale() {
        let (dataset, split, fold) = fold();
        let targets = dataset.targets().as_real().unwrap();
        let means: Vec<f64> = split.test.iter().map(|&row| targets[row] + 0.2).collect();
        let predictions = |means: Vec<f64>| Predictions::Reals(RealPredictions::new(0.2, 1, means));
        let rows = fold.rows().unwrap();
        let judged = |predictions: &Predictions| {
            HoldoutScore::judged(
                &rows.train,
                &rows.test,
                predictions,
                &rows.targets,
                &rows.units,
            )
            .unwrap()
            .map(|(score, _)| score)
        };
        let judgement = judged(&predictions(means)).unwrap();
        assert!((judgement.error - 0.2).abs() < 1e-12);
        let expected = 0.5 * (2.0 * std::f64::consts::PI * 0.04).ln() + 0.5;
        assert!((judgement.cost - expected).abs() < 1e-12);
        let far = predictions(vec![1e3; split.test.len()]);
        assert_eq!(judged(&far), None);
        let means = split.test.iter().map(|&row| targets[row] + 2.0).collect();
        let worse = judged(&predictions(means)).unwrap();
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
        let held_out = fold.rows().unwrap();
        let costs = [0, 1].map(|index| {
            let member = held_out.predictions(&ensemble.of_member(index)).unwrap();
            held_out.judged(member).unwrap().score.unwrap().1
        });
        let rows = costs[0].iter().zip(&costs[1]);
        let expected = rows.map(|(one, other)| -(0.5 * ((-one).exp() + (-other).exp())).ln());
        let expected = expected.sum::<f64>() / costs[0].len() as f64;
        let found = fold.judge(&ensemble).unwrap().unwrap();
        assert_ne!(costs[0], costs[1]);
        assert!((found.cost - expected).abs() < 1e-9, "{found:?} {expected}");
    }

    #[test]
    fn a_fit_that_diverges_is_no_error_but_a_bad_setting_is() {
        let (_, _, fold) = fold();
        let settings = FitSettings {
            method: Method::Map,
            model: Some(NetworkShape { hidden: vec![5] }),
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
        assert!(matches!(
            fold.judge(&unusable),
            Err(TabularError::Setting { .. })
        ));
    }
}
