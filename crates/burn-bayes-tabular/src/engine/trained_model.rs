//! What a fit ends in: a network and a posterior over its weights, which predict.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use burn_bayes::eval::DrawProbabilities;
use burn_bayes::{FactorPosterior, Noise, Predictor};
use burn_bayes_data::Features;

use crate::error::{Result, TabularError};
use crate::network::Network;
use crate::predict::{ClassPredictions, Predictions, RealPredictions};
use crate::rows::Target;
use crate::settings::refused;

/// Rows that go through a network at once: more of them only take memory.
const CHUNK: usize = 4096;
/// Outputs that are held at once, at most: 128 GiB of them.
const MOST_NUMBERS: usize = 1 << 34;

/// A network whose weights are known as far as the data tell.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    network: Network,
    /// `None` if the weights are a point.
    predictor: Option<Predictor<Network>>,
    meaning: Target,
    /// β on the scale on which the network learns.
    noise_precision: f64,
}

impl TrainedModel {
    /// A network and a posterior over all its weights; without one the network's weights are all that
    /// is known.
    pub(crate) fn new(
        network: &Network,
        posterior: Option<FactorPosterior>,
        meaning: Target,
        noise_precision: f64,
        seed: u64,
    ) -> Result<Self> {
        let network = network.clone().no_grad();
        let noise = Noise::host(seed).for_prediction();
        let predictor =
            posterior.map(|posterior| Predictor::new(network.clone(), posterior, noise));
        Ok(Self {
            network,
            predictor: predictor.transpose()?,
            meaning,
            noise_precision,
        })
    }

    /// The posterior over the weights, unless the weights are a point.
    pub fn posterior(&self) -> Option<&FactorPosterior> {
        self.predictor.as_ref().map(Predictor::posterior)
    }

    /// The network; its weights matter only where there is no posterior.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// The precision of the noise on the scale on which the network learns.
    pub fn noise_precision(&self) -> f64 {
        self.noise_precision
    }

    /// The same in the target's own unit; none for classes.
    pub fn noise_precision_in_target_units(&self) -> Option<f64> {
        match &self.meaning {
            Target::Real(scale) => Some(self.noise_precision / scale.spread.powi(2)),
            Target::Classes(_) => None,
        }
    }

    /// D, the number of weights.
    pub fn weights(&self) -> usize {
        self.network.num_params()
    }

    /// What the outputs stand for.
    pub fn meaning(&self) -> &Target {
        &self.meaning
    }

    /// What is predicted of rows under `draws` draws of the weights, the same for equal seeds; under
    /// the one point if there is no posterior.
    ///
    /// # Errors
    /// If the rows have another number of features than those in training, or a prediction is not
    /// finite.
    pub fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        let outputs = self.outputs(rows, draws)?;
        let draws = self.draws(draws);
        Ok(match &self.meaning {
            Target::Real(scale) => Predictions::Reals(RealPredictions {
                draws,
                means: outputs
                    .into_iter()
                    .map(|output| scale.undo(output))
                    .collect(),
                noise_deviation: scale.spread / self.noise_precision.sqrt(),
            }),
            Target::Classes(classes) => {
                let (rows, count) = (rows.rows(), classes.len());
                let probabilities = match rows {
                    0 => Vec::new(),
                    _ => {
                        DrawProbabilities::from_logits(&outputs, draws, rows, count)?.into_values()
                    }
                };
                Predictions::Classes(ClassPredictions {
                    classes: classes.clone(),
                    draws,
                    probabilities,
                })
            }
        })
    }

    /// The network's outputs, `[draws, rows, outputs]`, on the scale on which it learns.
    pub(super) fn outputs(&self, rows: &Features, draws: usize) -> Result<Vec<f64>> {
        let draws = self.draws(draws);
        let numbers = numbers(draws, rows.rows(), self.meaning.outputs())?;
        let mut outputs = Vec::with_capacity(numbers);
        let mut evaluate = |network: &Network| {
            let device = network.devices().into_iter().next().unwrap_or_default();
            for chunk in rows.values().chunks(CHUNK * rows.columns().max(1)) {
                let values: Vec<f32> = chunk.iter().map(|&value| value as f32).collect();
                let shape = [chunk.len() / rows.columns().max(1), rows.columns()];
                let inputs = Tensor::from_data(TensorData::new(values, shape), &device);
                outputs.extend(network.forward(inputs).into_data().iter::<f64>());
            }
        };
        match &self.predictor {
            Some(predictor) => drop(predictor.map_draws(draws, evaluate)?),
            None => evaluate(&self.network),
        }
        match outputs.iter().all(|output| output.is_finite()) {
            true => Ok(outputs),
            false => Err(TabularError::Numerical(
                "a prediction is not finite; lower `learning_rate`, or look for values far outside \
                 those of the training rows"
                    .into(),
            )),
        }
    }

    /// How many draws there are if `draws` are asked for.
    pub fn draws(&self, draws: usize) -> usize {
        match self.predictor {
            Some(_) => draws.max(1),
            None => 1,
        }
    }
}

/// How many numbers the outputs of `draws` draws for all rows are.
fn numbers(draws: usize, rows: usize, outputs: usize) -> Result<usize> {
    let numbers = draws.checked_mul(rows);
    let numbers = numbers.and_then(|numbers| numbers.checked_mul(outputs));
    numbers
        .filter(|&numbers| numbers <= MOST_NUMBERS)
        .ok_or_else(|| {
            let problem =
                format!("is {draws}, for which no memory would do at {rows} rows; make it smaller");
            refused("draws", problem)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_numbers_than_memory_could_hold_are_refused() {
        assert_eq!(numbers(100, 1000, 3).unwrap(), 300_000);
        for (draws, rows) in [(100_000, 1_000_000), (usize::MAX, 2)] {
            let message = numbers(draws, rows, 1).unwrap_err().to_string();
            assert!(
                message.contains("`draws`") && message.contains("memory"),
                "{message}"
            );
        }
    }
}
