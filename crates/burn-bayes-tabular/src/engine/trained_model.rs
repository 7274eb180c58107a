//! The result of a fit: a network with a posterior over its weights.

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

/// Number of rows per forward pass; larger chunks only take more memory.
const CHUNK: usize = 4096;
/// Maximum number of outputs in memory: 128 GiB.
const MOST_NUMBERS: usize = 1 << 34;

/// A trained network with a posterior over its weights.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    network: Network,
    /// `None` if the weights are a point.
    predictor: Option<Predictor<Network>>,
    target: Target,
    /// β on the standardised scale of the network.
    noise_precision: f64,
}

impl TrainedModel {
    /// A network and a posterior over all its weights; without a posterior, its weights are a point
    /// estimate.
    pub(crate) fn new(
        network: &Network,
        posterior: Option<FactorPosterior>,
        target: Target,
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
            target,
            noise_precision,
        })
    }

    /// The same model, predicting with draws in proportion to their weights; see
    /// [`Predictor::with_weighted_draws`].
    pub(crate) fn with_weighted_draws(self, noise: Noise, weights: &[f64]) -> Result<Self> {
        let weighted =
            |predictor: Predictor<Network>| predictor.with_weighted_draws(noise, weights);
        let predictor = self.predictor.map(weighted).transpose()?;
        Ok(Self { predictor, ..self })
    }

    /// The posterior over the weights; `None` for a point estimate.
    pub fn posterior(&self) -> Option<&FactorPosterior> {
        self.predictor.as_ref().map(Predictor::posterior)
    }

    /// The network; its weights are meaningful only for a point estimate.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// The noise precision on the standardised scale of the network.
    pub fn noise_precision(&self) -> f64 {
        self.noise_precision
    }

    /// The noise precision in the unit of the target; `None` for classes.
    pub fn noise_precision_in_target_units(&self) -> Option<f64> {
        match &self.target {
            Target::Real(scale) => Some(self.noise_precision / scale.spread.powi(2)),
            Target::Classes(_) => None,
        }
    }

    /// D, the number of weights.
    pub fn weights(&self) -> usize {
        self.network.num_params()
    }

    /// The type of the target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Predicts rows under `draws` draws of the weights, which depend only on the seed; a point estimate
    /// has one draw.
    ///
    /// # Errors
    /// If the number of features differs from that in training, or a prediction is not finite.
    pub fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        let outputs = self.outputs(rows, draws)?;
        let draws = self.draws(draws);
        Ok(match &self.target {
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

    /// The outputs of the network, `[draws, rows, outputs]`, on the standardised scale.
    pub(super) fn outputs(&self, rows: &Features, draws: usize) -> Result<Vec<f64>> {
        let draws = self.draws(draws);
        let numbers = numbers(draws, rows.rows(), self.target.outputs())?;
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
                "a prediction is not finite; lower `learning_rate`, or check for values far outside \
                 the range of the training rows"
                    .into(),
            )),
        }
    }

    /// A value of the network at `draws` independent draws of its weights, unlike the antithetic pairs of
    /// [`TrainedModel::predict`]; a point estimate has one draw.
    pub(crate) fn map_independent_draws<T>(
        &self,
        draws: usize,
        mut evaluate: impl FnMut(&Network) -> T,
    ) -> Result<Vec<T>> {
        let Some(predictor) = &self.predictor else {
            return Ok(vec![evaluate(&self.network)]);
        };
        // Draws 2i and 2i + 1 are a pair.
        let networks = (0..draws as u64).map(|index| predictor.drawn_model(2 * index));
        networks.map(|network| Ok(evaluate(&network?))).collect()
    }

    /// The number of draws if `draws` are requested: 1 for a point estimate.
    pub fn draws(&self, draws: usize) -> usize {
        match self.predictor {
            Some(_) => draws.max(1),
            None => 1,
        }
    }
}

/// The number of outputs of `draws` draws for all rows.
fn numbers(draws: usize, rows: usize, outputs: usize) -> Result<usize> {
    let numbers = draws.checked_mul(rows);
    let numbers = numbers.and_then(|numbers| numbers.checked_mul(outputs));
    numbers
        .filter(|&numbers| numbers <= MOST_NUMBERS)
        .ok_or_else(|| {
            let problem = format!(
                "is {draws}, which takes too much memory with {rows} rows; make it smaller"
            );
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
