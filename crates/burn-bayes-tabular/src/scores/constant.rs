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
    /// The class frequencies, with one more row of all classes in equal parts.
    Frequencies(Vec<f64>),
    /// A Poisson distribution with the mean count as rate, or in proportion to exposures.
    Rate(f64),
    /// A negative binomial distribution with this rate and the variance of the counts, where it is above that of Poisson
    /// distributions.
    Dispersed { rate: f64, dispersion: f64 },
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
            Target::Classes(_) => Self::Frequencies(train.smoothed_means()),
            Target::Counts { .. } => Self::counts(train)?,
            Target::Real(_) => Self::gaussian(train.target_scales()?[0]),
            Target::Several(_) => Self::Several(match train.target().scales() {
                Some(_) => train
                    .target_scales()?
                    .into_iter()
                    .map(Self::gaussian)
                    .collect(),
                None => {
                    let positive = train.smoothed_means().into_iter();
                    positive
                        .map(|positive| Self::Frequencies(vec![1.0 - positive, positive]))
                        .collect()
                }
            }),
        })
    }

    /// The variance of a count of mean μ is μ + α μ², with α by the method of moments.
    fn counts(train: &TrainingSet) -> Result<Self> {
        let exposures = train.target().exposures(&train.features()?);
        let rate = train.target_means()[0] / mean(&exposures);
        let counts = train.targets().iter().copied().map(f64::from);
        let (mut excess, mut squares) = (0.0, 0.0);
        for (count, exposure) in counts.zip(exposures) {
            let mean = rate * exposure;
            excess += (count - mean).powi(2) - mean;
            squares += mean * mean;
        }
        let dispersion = excess / squares;
        Ok(match dispersion > 0.0 {
            true => Self::Dispersed { rate, dispersion },
            false => Self::Rate(rate),
        })
    }

    fn gaussian(scale: ColumnScale) -> Self {
        let (mean, deviation) = (scale.centre, scale.spread);
        match scale.is_logarithmic {
            true => Self::LogNormal { mean, deviation },
            false => Self::Gaussian { mean, deviation },
        }
    }

    /// The same of Poisson counts, if these predictions are.
    pub(super) fn beside(self, predictions: &Predictions) -> Self {
        match (self, predictions) {
            (Self::Dispersed { rate, .. }, Predictions::Counts(counts))
                if counts.kind.0.is_empty() =>
            {
                Self::Rate(rate)
            }
            (constant, _) => constant,
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
            Self::Rate(rate) => of_counts(*rate, Dispersions::default(), target, rows),
            Self::Dispersed { rate, dispersion } => {
                of_counts(*rate, Dispersions(vec![*dispersion; count]), target, rows)
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

fn of_counts(rate: f64, dispersions: Dispersions, target: &Target, rows: &Features) -> Predictions {
    let rates = target.exposures(rows).into_iter();
    let rates = rates.map(|exposure| rate * exposure).collect();
    Predictions::Counts(CountPredictions::new(dispersions, 1, rates))
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Dataset, Targets};

    use super::*;
    use crate::forest::Forest;
    use crate::scores::row_costs;

    fn training_set(targets: Targets, target: Target) -> TrainingSet {
        let inputs = (0..targets.len()).map(|row| row as f64).collect();
        let features = Features::new(targets.len(), 1, inputs).unwrap();
        TrainingSet::new(&Dataset::new(features, targets).unwrap(), target).unwrap()
    }

    #[test]
    fn a_class_without_a_training_row_is_possible() {
        let labels: Vec<usize> = (0..29).map(|row| row % 2).collect();
        let target = Target::Classes(["a", "b", "c"].map(String::from).to_vec());
        let train = training_set(Targets::Classes(labels), target);
        let constant = Constant::of(&train).unwrap();
        let Constant::Frequencies(frequencies) = &constant else {
            panic!("{constant:?}");
        };
        let expected = [15.0, 14.0, 0.0].map(|rows| (rows + 1.0 / 3.0) / 30.0);
        for (found, expected) in frequencies.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{frequencies:?}");
        }
        let rows = train.features().unwrap();
        let unseen = Targets::Classes(vec![2; rows.rows()]);
        let forest = Forest::fit(&train, 1).unwrap().predict(&rows).unwrap();
        for predictions in [constant.predictions(train.target(), &rows), forest] {
            let costs = row_costs(&predictions, &unseen).unwrap();
            assert!(costs.iter().all(|cost| cost.is_finite()), "{costs:?}");
        }
    }

    #[test]
    fn the_constant_of_counts_has_their_variance_if_it_is_above_their_mean() {
        let constant = |counts: Vec<f64>| {
            let target = Target::Counts {
                mean: 3.0,
                has_exposure: false,
            };
            let train = training_set(Targets::Real(counts), target);
            let constant = Constant::of(&train).unwrap();
            let rows = train.features().unwrap();
            (constant.predictions(train.target(), &rows), constant)
        };
        let dispersed = [0.0, 0.0, 0.0, 0.0, 3.0, 9.0, 9.0].repeat(4);
        let (predictions, found) = constant([dispersed, vec![3.0; 4]].concat());
        let Constant::Dispersed { rate, dispersion } = found else {
            panic!("{found:?}");
        };
        let variance = 4.0 * (4.0 * 9.0 + 2.0 * 36.0) / 32.0;
        assert!((rate - 3.0).abs() < 1e-12, "{rate}");
        assert!(
            (dispersion - (variance - 3.0) / 9.0).abs() < 1e-12,
            "{dispersion}"
        );
        let moments = predictions.moments().unwrap().unwrap();
        let deviation = moments.deviations()[0];
        assert!((deviation.powi(2) - variance).abs() < 1e-9, "{deviation}");
        let (_, even) = constant([2.0, 4.0].repeat(10));
        assert_eq!(even, Constant::Rate(3.0));
    }
}
