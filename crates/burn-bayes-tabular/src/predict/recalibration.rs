//! Recalibration of predictions: one number, fitted on held-out rows, that acts on every draw.
//!
//! The recalibrated predictions are again mixtures of draws, so scores, intervals and the split of the uncertainty mean
//! the same as before. `DrawTemperature` and `VarianceScaling` of the library have the equations.

use burn_bayes::eval::{
    DrawTemperature, HeldOut, LabelledDraws, RowView, TargetedMixture, Temperature, VarianceScaling,
};
use burn_bayes_data::{Split, Targets};
use serde::{Deserialize, Serialize};

use super::{
    ClassPredictions, NoiseDeviations, NumberNoise, Predictions, RealPredictions, mismatched,
};
use crate::error::Result;

/// A fitted recalibration.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Recalibration {
    /// The class probabilities of every draw at a temperature.
    Temperature {
        /// T, above 1 if the fit is overconfident.
        temperature: f64,
    },
    /// The mixture of every row, of logarithms if these are predicted, scaled around its mean.
    Variance {
        /// The factor of the standard deviations, above 1 if the fit is overconfident.
        deviation_factor: f64,
    },
}

impl Recalibration {
    /// The recalibration with the lowest NLL of these rows. If its number is at a limit of the search, the rows do not
    /// determine it, for example because all are classified correctly: it is then 1, and changes nothing. `split` has
    /// the numbers of these rows as its training rows, and those of the rows to score; `None` for rows that do not exist
    /// yet.
    ///
    /// # Errors
    /// If the targets are of another task, the class of a row has probability 0 under all draws, or a row is scored too.
    pub(crate) fn fit(
        predictions: &Predictions,
        targets: &Targets,
        split: Option<&Split>,
    ) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let draws = predictions.checked()?;
                let labelled = LabelledDraws::new(&draws, labels)?;
                let found = DrawTemperature::fit(&held_out(labelled, split)?)?;
                Ok(Self::Temperature {
                    temperature: determined(found.value()),
                })
            }
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                let targeted = TargetedMixture::new(&mixture, targets)?;
                let found = VarianceScaling::most_likely(&held_out(targeted, split)?);
                Ok(Self::Variance {
                    deviation_factor: determined(found.factor().sqrt()),
                })
            }
            _ => Err(mismatched(predictions)),
        }
    }

    /// The recalibrated predictions of rows.
    ///
    /// # Errors
    /// If the predictions are of another task, or a recalibrated number is not finite.
    pub(crate) fn apply(&self, predictions: Predictions) -> Result<Predictions> {
        match (*self, predictions) {
            (_, predictions) if predictions.rows() == 0 => Ok(predictions),
            (Self::Temperature { temperature }, Predictions::Classes(predictions)) => {
                let scaled = DrawTemperature::new(temperature)?.apply(&predictions.checked()?);
                Ok(Predictions::Classes(ClassPredictions {
                    values: scaled.into_values(),
                    ..predictions
                }))
            }
            (Self::Variance { deviation_factor }, Predictions::Reals(predictions)) => {
                let scaling = VarianceScaling::new(deviation_factor.powi(2))?;
                let scaled_mixture = scaling.apply(&predictions.checked()?)?;
                let means = scaled_mixture.means().to_vec();
                let scaled = |deviations: Vec<f64>| {
                    let deviations = deviations.into_iter();
                    deviations
                        .map(|deviation| deviation_factor * deviation)
                        .collect()
                };
                let predictions = predictions.with_means(&means);
                Ok(Predictions::Reals(RealPredictions {
                    kind: NumberNoise {
                        deviations: match predictions.kind.deviations {
                            NoiseDeviations::PerMember(deviations) => {
                                NoiseDeviations::PerMember(scaled(deviations))
                            }
                            NoiseDeviations::PerPrediction(deviations) => {
                                NoiseDeviations::PerPrediction(scaled(deviations))
                            }
                        },
                        ..predictions.kind
                    },
                    ..predictions
                }))
            }
            (_, predictions) => Err(mismatched(&predictions)),
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_identity(&self) -> bool {
        let (Self::Temperature { temperature: scale }
        | Self::Variance {
            deviation_factor: scale,
        }) = *self;
        scale == 1.0
    }
}

/// The rows of a view, which are not among the scored rows.
fn held_out<T: RowView>(view: T, split: Option<&Split>) -> Result<HeldOut<T>> {
    Ok(match split {
        Some(split) => HeldOut::new(view, &split.train, &split.test)?,
        None => HeldOut::for_new_rows(view),
    })
}

/// The scale, or 1 if it is at a limit of the search.
fn determined(scale: f64) -> f64 {
    // Both scales are searched in the same interval, whose ends are reached within rounding.
    match scale.ln().abs() < Temperature::HIGHEST.ln() * (1.0 - 1e-9) {
        true => scale,
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::row_costs;

    fn classes(probabilities: Vec<f64>) -> Predictions {
        Predictions::Classes(ClassPredictions::new(
            ["a", "b"].map(String::from).to_vec(),
            2,
            probabilities,
        ))
    }

    fn reals(noise: NoiseDeviations) -> Predictions {
        Predictions::Reals(RealPredictions {
            kind: noise.into(),
            draws: 2,
            members: vec![1, 1],
            values: vec![1.0, 4.0, 3.0, 4.0],
        })
    }

    #[test]
    fn a_temperature_acts_on_every_draw() {
        let map = Recalibration::Temperature { temperature: 0.5 };
        let Predictions::Classes(found) = map.apply(classes(vec![0.75, 0.25, 0.5, 0.5])).unwrap()
        else {
            panic!("classes");
        };
        for (found, expected) in found.values.iter().zip([0.9, 0.1, 0.5, 0.5]) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }

    #[test]
    fn a_factor_moves_draws_and_noise_apart() {
        let map = Recalibration::Variance {
            deviation_factor: 2.0,
        };
        let noise = NoiseDeviations::PerMember(vec![1.0, 3.0]);
        let Predictions::Reals(found) = map.apply(reals(noise)).unwrap() else {
            panic!("numbers");
        };
        assert_eq!(found.values, [0.0, 4.0, 4.0, 4.0]);
        assert_eq!(
            found.kind.deviations,
            NoiseDeviations::PerMember(vec![2.0, 6.0])
        );
        let noise = NoiseDeviations::PerPrediction(vec![1.0, 2.0, 3.0, 4.0]);
        let (before, after) = (reals(noise.clone()), map.apply(reals(noise)).unwrap());
        let (Predictions::Reals(before), Predictions::Reals(after)) = (before, after) else {
            panic!("numbers");
        };
        let variances = |predictions: &RealPredictions| predictions.checked().unwrap().variance();
        for (before, after) in variances(&before).iter().zip(variances(&after)) {
            assert!(
                (4.0 * before - after).abs() < 1e-12 * after,
                "{before} {after}"
            );
        }
    }

    #[test]
    fn a_fit_does_not_raise_the_nll_of_its_own_rows() {
        let noise = NoiseDeviations::PerMember(vec![0.1, 0.3]);
        let pairs = [
            (
                classes(vec![0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.1, 0.9]),
                Targets::Classes(vec![1, 1]),
            ),
            (reals(noise), Targets::Real(vec![0.0, 5.0])),
        ];
        for (predictions, targets) in pairs {
            let nll = |of: &Predictions| row_costs(of, &targets).unwrap().iter().sum::<f64>();
            let before = nll(&predictions);
            let map = Recalibration::fit(&predictions, &targets, None).unwrap();
            assert!(
                nll(&map.apply(predictions.clone()).unwrap()) < before,
                "{map:?}"
            );
            let text = toml::to_string(&map).unwrap();
            assert_eq!(toml::from_str::<Recalibration>(&text).unwrap(), map);
            let other = match targets {
                Targets::Classes(_) => Targets::Real(vec![0.0, 1.0]),
                Targets::Real(_) | Targets::Several(_) => Targets::Classes(vec![0, 1]),
            };
            assert!(Recalibration::fit(&predictions, &other, None).is_err());
        }
    }

    #[test]
    fn rows_that_do_not_determine_the_number_change_nothing() {
        let sure = classes(vec![0.9, 0.1, 0.2, 0.8, 0.6, 0.4, 0.1, 0.9]);
        let exact = Predictions::Reals(RealPredictions::new(1.0, 1, vec![1.0, 4.0]));
        for (predictions, targets) in [
            (sure, Targets::Classes(vec![0, 1])),
            (exact, Targets::Real(vec![1.0, 4.0])),
        ] {
            let map = Recalibration::fit(&predictions, &targets, None).unwrap();
            assert!(map.is_identity(), "{map:?}");
        }
    }
}
