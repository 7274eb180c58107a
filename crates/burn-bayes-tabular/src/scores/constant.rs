//! The constant prediction from the training targets, the simplest plain model.

use burn_bayes_data::{ColumnScale, Features};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::predict::{
    ClassPredictions, CountPredictions, Dispersions, Predictions, RealPredictions,
    TargetPredictions,
};
use crate::rows::{Target, TrainingSet};
use crate::scores::score::mean;

/// The constant prediction from the training targets.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Constant {
    /// The class frequencies.
    Frequencies(Vec<f64>),
    /// A Poisson distribution with the mean count as rate, or in proportion to exposures.
    Rate(f64),
    /// A Gaussian with their mean and standard deviation.
    Gaussian { mean: f64, deviation: f64 },
    /// A log-normal distribution with those of their logarithms.
    LogNormal { mean: f64, deviation: f64 },
    /// Those of several targets.
    Several(Vec<Self>),
}

impl Constant {
    /// The constant of these rows.
    pub(crate) fn of(train: &TrainingSet) -> Result<Self> {
        Ok(match train.target() {
            Target::Classes(_) => Self::Frequencies(train.target_means()),
            Target::Counts { .. } => {
                let exposures = train.target().exposures(&train.features()?);
                Self::Rate(train.target_means()[0] / mean(&exposures))
            }
            Target::Real(_) => Self::gaussian(train.target_scales()?[0]),
            Target::Several(_) => Self::Several(match train.target().scales() {
                Some(_) => train
                    .target_scales()?
                    .into_iter()
                    .map(Self::gaussian)
                    .collect(),
                None => {
                    let positive = train.target_means().into_iter();
                    positive
                        .map(|positive| Self::Frequencies(vec![1.0 - positive, positive]))
                        .collect()
                }
            }),
        })
    }

    fn gaussian(scale: ColumnScale) -> Self {
        let (mean, deviation) = (scale.centre, scale.spread);
        match scale.is_logarithmic {
            true => Self::LogNormal { mean, deviation },
            false => Self::Gaussian { mean, deviation },
        }
    }

    /// The same prediction for these rows.
    pub(crate) fn predictions(&self, target: &Target, rows: &Features) -> Predictions {
        let count = rows.rows();
        match self {
            Self::Gaussian { mean, deviation } => {
                Predictions::Reals(RealPredictions::new(*deviation, 1, vec![*mean; count]))
            }
            Self::LogNormal { mean, deviation } => {
                let logarithms = RealPredictions::new(*deviation, 1, vec![*mean; count]);
                Predictions::Reals(logarithms.of_logarithms())
            }
            Self::Rate(rate) => {
                let rates = target.exposures(rows).into_iter();
                let rates = rates.map(|exposure| rate * exposure).collect();
                Predictions::Counts(CountPredictions::new(Dispersions::default(), 1, rates))
            }
            Self::Frequencies(frequencies) => Predictions::Classes(ClassPredictions::new(
                target.classes(),
                1,
                frequencies.repeat(count),
            )),
            Self::Several(constants) => {
                let targets = match target {
                    Target::Several(targets) => targets.as_slice(),
                    _ => &[],
                };
                let pairs = targets.iter().zip(constants);
                let several = pairs.map(|(one, constant)| {
                    TargetPredictions::of(one, constant.predictions(&one.1, rows))
                });
                Predictions::Several(several.collect())
            }
        }
    }
}
