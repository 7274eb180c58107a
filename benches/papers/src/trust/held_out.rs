//! Rows to fit and rows to predict, scaled as the program scales them.

use burn_bayes::eval::{LabelledProbabilities, TargetedMixture, log_densities, log_losses};
use burn_bayes_data::{ColumnScale, Dataset, Features, Scaler, Scaling, Split, Targets};

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::predict::Predictions;
use burn_bayes_tabular::rows::{Target, TrainingSet};

const KEPT: ColumnScale = ColumnScale::KEPT;

/// Training rows, and held-out rows with their targets.
#[derive(Debug)]
pub(crate) struct HeldOut {
    pub(crate) train: TrainingSet,
    /// The same as numbers.
    pub(super) train_rows: Dataset,
    pub(crate) test: Features,
    /// In their own unit.
    pub(super) targets: Targets,
    /// Of real targets; classes have none, and keep theirs.
    pub(super) target_scale: ColumnScale,
}

impl HeldOut {
    /// A split, with features and real targets scaled by the training rows.
    pub(crate) fn new(dataset: &Dataset, split: &Split, scaling: Scaling) -> Result<Self> {
        let features = dataset.features();
        let scaler = Scaler::fit(features, &split.train, scaling)?;
        let train = dataset.select(&split.train)?;
        let (train, targets) = train.into_parts();
        let (target, targets) = match targets {
            Targets::Real(values) => {
                let scale = ColumnScale::fit(values.iter().copied(), scaling)?;
                let scaled = values.into_iter().map(|value| scale.apply(value));
                (Target::Real(scale), Targets::Real(scaled.collect()))
            }
            Targets::Classes(classes) => {
                let all = dataset.targets().as_classes().unwrap_or_default();
                let count = all.iter().max().map_or(0, |last| last + 1);
                let names = (0..count).map(|class| class.to_string());
                (Target::Classes(names.collect()), Targets::Classes(classes))
            }
            Targets::Several(_) => {
                return Err(TabularError::Data("the rows have several targets".into()));
            }
        };
        let train_rows = Dataset::new(scaler.apply(train)?, targets)?;
        let (test, targets) = dataset.select(&split.test)?.into_parts();
        let target_scale = match target {
            Target::Real(scale) => scale,
            Target::Counts { .. } | Target::Classes(_) | Target::Several(_) => KEPT,
        };
        Ok(Self {
            target_scale,
            train: TrainingSet::new(&train_rows, target)?,
            train_rows,
            test: scaler.apply(test)?,
            targets,
        })
    }

    /// −log p(target) of every held-out row, nats.
    pub(super) fn losses(&self, predictions: &Predictions) -> Result<Vec<f64>> {
        match (predictions, &self.targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                let densities = log_densities(&TargetedMixture::new(&mixture, targets)?);
                Ok(densities.into_iter().map(|density| -density).collect())
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                Ok(log_losses(&LabelledProbabilities::new(&average, labels)?))
            }
            _ => Err(TabularError::Data(
                "predictions and targets are of different tasks".into(),
            )),
        }
    }
}

/// The rows of a training set as a linear network sees them: features in single precision, and a 1 for
/// the bias.
pub(super) fn with_bias(features: &Features) -> Vec<f64> {
    let rows = features.to_f32();
    let rows = rows.chunks_exact(features.columns());
    rows.flat_map(|row| row.iter().copied().map(f64::from).chain([1.0]))
        .collect()
}
