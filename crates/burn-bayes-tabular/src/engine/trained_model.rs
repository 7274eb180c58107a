//! The result of a fit: a network with a posterior over its weights.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::eval::{Bounded, DrawProbabilities};
use burn_bayes::graph::module_device;
use burn_bayes::laplace::{Linearized, ModelOutputs};
use burn_bayes::likelihood::Likelihood;
use burn_bayes::posterior::{AnyPosterior, Posterior};
use burn_bayes::{FactorPosterior, Noise, Predictor};
use burn_bayes_data::{ColumnScale, Features};

use super::chain_agreement::ChainAgreement;
use super::motion::Motion;
use super::prior::LayerPrecisions;
use crate::error::{Result, TabularError};
use crate::network::Network;
use crate::predict::{
    ClassPredictions, CountPredictions, Dispersions, MixtureWeights, NoiseDeviations, NumberNoise,
    Predictions, RealPredictions, TargetPredictions,
};
use crate::rows::Target;
use crate::settings::refused;

/// Number of rows per forward pass; larger chunks only take more memory.
const CHUNK: usize = 4096;
/// Maximum number of outputs in memory: 128 GiB.
const MOST_NUMBERS: usize = 1 << 34;

/// The largest rate of counts and deviation of numbers, in place of all that are larger: one row far away must not keep a file
/// from its predictions.
const LARGEST: f64 = 1e15;
/// The same of the noise of a row, in standard deviations of the training rows' targets: the targets of all rows differ by
/// less, and far from them the noise is only extrapolated.
const LARGEST_NOISE: f64 = 10.0;
/// And the smallest, below the rounding of what a network computes.
const SMALLEST_NOISE: f64 = 1e-7;

/// Maximum number of weights of networks that are kept in memory: half a GiB.
const MOST_DRAWN: usize = 1 << 27;

/// A trained network with a posterior over its weights.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    network: Network,
    /// `None` if the weights are a point.
    predictor: Option<Predictor<Network, AnyPosterior>>,
    /// The networks of the first draws, if they are kept in memory.
    drawn: Arc<Vec<Network>>,
    /// Predicts with the network linearised at the mean, instead of with its own draws.
    linearized: Option<Arc<Linearized<Network>>>,
    noise: Noise,
    target: Target,
    /// β of every target on the standardised scale of the network.
    noise_precisions: Vec<f64>,
    /// α of all weights or of those of each layer; `None` if it was given, or the model was read from a file.
    pub(crate) learned_prior: Option<LayerPrecisions>,
    /// How far the mean still moved at the end of the training; none, as above.
    pub(crate) motion: Motion,
    /// The learned kernel of the prior over functions, on the standardised scales of inputs and target; `None` without one,
    /// or if the model was read from a file.
    pub(crate) kernel: Option<String>,
    /// Whether chains that started elsewhere predict the same; `None` for other methods, a single chain or few draws of each,
    /// and as above.
    pub(crate) agreement: Option<ChainAgreement>,
    /// Whether the training had not begun to learn the posterior: its first stage trained the mean alone, or no iterates
    /// were collected.
    pub(crate) is_before_posterior: bool,
}

impl TrainedModel {
    /// A network and a posterior over all its weights; without a posterior, its weights are a point
    /// estimate.
    pub(crate) fn new(
        network: &Network,
        posterior: Option<AnyPosterior>,
        target: Target,
        noise_precisions: Vec<f64>,
        seed: u64,
    ) -> Result<Self> {
        let network = network.clone().no_grad();
        let noise = Noise::new(seed).for_prediction();
        let predictor = posterior.map(|posterior| {
            // The run has the noise precisions, so the settings of this network are right, not those of the training.
            let posterior = posterior.with_model_state(&network)?;
            Predictor::new(network.clone(), posterior, noise)
        });
        Ok(Self {
            network,
            predictor: predictor.transpose()?,
            drawn: Arc::default(),
            linearized: None,
            noise,
            target,
            noise_precisions,
            learned_prior: None,
            motion: Motion::default(),
            kernel: None,
            agreement: None,
            is_before_posterior: false,
        })
    }

    /// The same model, predicting with the network linearised at the posterior's mean; a point estimate is
    /// unchanged.
    pub(crate) fn with_linearised_predictions(self) -> Result<Self> {
        let network = self.network.clone();
        let linearized = self.posterior().cloned();
        let linearized = linearized.map(|posterior| Linearized::new(network, posterior));
        Ok(Self {
            linearized: linearized.transpose()?.map(Arc::new),
            ..self
        })
    }

    /// The same model, predicting with the network's own draws in proportion to their weights; see
    /// [`Predictor::with_weighted_draws`].
    pub(crate) fn with_weighted_draws(self, noise: Noise, weights: &[f64]) -> Result<Self> {
        let predictor = self.predictor;
        let weighted = predictor.map(|predictor| predictor.with_weighted_draws(noise, weights));
        Ok(Self {
            predictor: weighted.transpose()?,
            drawn: Arc::default(),
            linearized: None,
            ..self
        })
    }

    /// The same model with the networks of this number of draws in memory, for many predictions of few rows each; unchanged
    /// if they are too large.
    pub(crate) fn with_drawn_networks(self, draws: usize) -> Result<Self> {
        let is_small = draws.saturating_mul(self.weights()) <= MOST_DRAWN;
        let drawn = match &self.predictor {
            Some(predictor) if is_small && self.linearized.is_none() => {
                predictor.map_draws(draws.max(1), Network::clone)?
            }
            _ => Vec::new(),
        };
        Ok(Self {
            drawn: Arc::new(drawn),
            ..self
        })
    }

    /// The Gaussian over the weights; `None` for a point estimate, and for samples.
    pub fn posterior(&self) -> Option<&FactorPosterior> {
        self.predictor.as_ref()?.posterior().as_gaussian()
    }

    /// Whether its weights are a point.
    pub(crate) fn is_point(&self) -> bool {
        self.predictor.is_none()
    }

    /// Saves the posterior, if there is one.
    pub(crate) fn save_posterior(&self, path: &Path) -> Result<()> {
        let saved = self
            .predictor
            .iter()
            .try_for_each(|predictor| predictor.posterior().save(path));
        Ok(saved.map_err(|error| std::io::Error::other(error.to_string()))?)
    }

    /// The network; its weights are meaningful only for a point estimate.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// The noise precision of every target on the standardised scale of the network.
    pub fn noise_precisions(&self) -> &[f64] {
        &self.noise_precisions
    }

    /// The noise precision of every target in its own unit, or of its logarithm; `None` for classes, and if the network
    /// predicts the noise.
    pub fn noise_precisions_in_target_units(&self) -> Option<Vec<f64>> {
        self.network.likelihood().noise_precisions()?;
        in_target_units(&self.noise_precisions, &self.target)
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
            Target::Real(scale) => Predictions::Reals(self.reals(*scale, 0, &outputs, draws)?),
            Target::Counts { .. } => {
                let width = self.network.likelihood().outputs(1);
                let column = |place: usize| outputs.iter().skip(place).step_by(width).copied();
                let dispersions = match width {
                    1 => Vec::new(),
                    _ => column(1).map(f64::exp).collect(),
                };
                let rates = rates(column(0));
                Predictions::Counts(CountPredictions::new(
                    Dispersions(dispersions),
                    draws,
                    rates,
                ))
            }
            Target::Classes(classes) => {
                let (rows, count) = (rows.rows(), classes.len());
                let probabilities = match (rows, self.network.likelihood()) {
                    (0, _) => Vec::new(),
                    (_, Likelihood::Ordinal) => ordinal_probabilities(&outputs, count),
                    _ => {
                        DrawProbabilities::from_logits(&outputs, draws, rows, count)?.into_values()
                    }
                };
                Predictions::Classes(ClassPredictions::new(classes.clone(), draws, probabilities))
            }
            Target::Several(targets) => {
                let logits = |place| outputs.iter().skip(place).step_by(targets.len());
                let of_target = |(place, one): (usize, &(String, Target))| {
                    let predictions = match &one.1 {
                        Target::Real(scale) => {
                            Predictions::Reals(self.reals(*scale, place, &outputs, draws)?)
                        }
                        Target::Classes(classes) => labels(classes.clone(), logits(place), draws),
                        Target::Counts { .. } | Target::Several(_) => {
                            unreachable!("a training set has several numbers or several labels")
                        }
                    };
                    Ok(TargetPredictions::of(one, predictions))
                };
                let predictions = targets.iter().enumerate().map(of_target);
                Predictions::Several(predictions.collect::<Result<_>>()?)
            }
        })
    }

    /// The predictions of the number at a place among the targets.
    fn reals(
        &self,
        scale: ColumnScale,
        place: usize,
        outputs: &[f64],
        draws: usize,
    ) -> Result<RealPredictions> {
        let targets = self.target.columns();
        let likelihood = self.network.likelihood();
        let width = likelihood.outputs(targets);
        let column = |place: usize| outputs.iter().skip(place).step_by(width);
        let mean = |&mean: &f64| scale.unscaled(mean);
        let deviation = |log_variance: &f64| noise_deviation(*log_variance, scale);
        let predictions = match likelihood {
            Likelihood::GaussianMixture { components } => {
                mixture(outputs, components, draws, mean, deviation)?
            }
            Likelihood::HeteroscedasticGaussian => {
                let deviations = column(targets + place).map(deviation).collect();
                let noise = NoiseDeviations::PerPrediction(deviations);
                RealPredictions::new(noise, draws, column(place).map(mean).collect())
            }
            _ => {
                let deviation = scale.spread / self.noise_precisions[place].sqrt();
                let noise = NoiseDeviations::PerMember(vec![deviation]);
                RealPredictions::new(noise, draws, column(place).map(mean).collect())
            }
        };
        Ok(match scale.is_logarithmic {
            true => predictions.of_logarithms(),
            false => predictions,
        })
    }

    /// The outputs of the network, `[draws, rows, outputs]`, on the standardised scale.
    pub(super) fn outputs(&self, rows: &Features, draws: usize) -> Result<Vec<f64>> {
        let draws = self.draws(draws);
        let outputs = self.network.likelihood().outputs(self.target.columns());
        let numbers = numbers(draws, rows.rows(), outputs)?;
        let mut outputs = Vec::with_capacity(numbers);
        let device = module_device(&self.network);
        let mut evaluate = |network: &Network| {
            for inputs in chunks(rows, &device) {
                outputs.extend(network.forward(inputs).into_data().iter::<f64>());
            }
        };
        match (&self.linearized, &self.predictor) {
            (Some(linearized), _) => {
                let chunks = chunks(rows, &device);
                let chunks = chunks.map(|inputs| linearized.draws(&inputs, self.noise, draws));
                let chunks = chunks.collect::<std::result::Result<Vec<_>, _>>()?;
                if !chunks.is_empty() {
                    outputs.extend(Tensor::cat(chunks, 1).into_data().iter::<f64>());
                }
            }
            (None, Some(_)) if draws <= self.drawn.len() => {
                self.drawn[..draws].iter().for_each(evaluate);
            }
            (None, Some(predictor)) => drop(predictor.map_draws(draws, evaluate)?),
            (None, None) => evaluate(&self.network),
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

    /// The number of different draws if `draws` are requested: at most as many as there are samples.
    pub(crate) fn distinct_draws(&self, draws: usize) -> usize {
        let posterior = self.predictor.as_ref().map(Predictor::posterior);
        match posterior {
            Some(AnyPosterior::Samples(samples)) => self.draws(draws).min(samples.count()),
            _ => self.draws(draws),
        }
    }

    /// The number of draws if `draws` are requested: 1 for a point estimate.
    pub fn draws(&self, draws: usize) -> usize {
        match self.predictor {
            Some(_) => draws.max(1),
            None => 1,
        }
    }
}

/// Noise precisions on the standardised scale of a network, in the units of its targets; `None` for targets that are not
/// numbers.
pub(crate) fn in_target_units(precisions: &[f64], target: &Target) -> Option<Vec<f64>> {
    let scales = target.scales()?;
    let pairs = precisions.iter().zip(&scales);
    Some(
        pairs
            .map(|(precision, scale)| precision / scale.spread.powi(2))
            .collect(),
    )
}

/// Mixtures from outputs `[draws, rows, 3 components − 1]`.
fn mixture(
    outputs: &[f64],
    components: usize,
    draws: usize,
    mean: impl Fn(&f64) -> f64,
    deviation: impl Fn(&f64) -> f64,
) -> Result<RealPredictions> {
    let (mut means, mut deviations, mut logits) = (Vec::new(), Vec::new(), Vec::new());
    for row in outputs.chunks_exact(3 * components - 1) {
        means.extend(row[..components].iter().map(&mean));
        deviations.extend(row[components..2 * components].iter().map(&deviation));
        logits.extend(row[2 * components..].iter().copied().chain([0.0]));
    }
    let weights = match logits.len() / (draws * components) {
        0 => logits,
        rows => DrawProbabilities::from_logits(&logits, draws, rows, components)?.into_values(),
    };
    let kind = NumberNoise {
        mixture: Some(MixtureWeights {
            gaussians: components,
            weights,
        }),
        ..NoiseDeviations::PerPrediction(deviations).into()
    };
    Ok(RealPredictions::new(kind, draws, means))
}

/// The predictions of a label, from the logits of its second class.
fn labels<'a>(
    classes: Vec<String>,
    logits: impl Iterator<Item = &'a f64>,
    draws: usize,
) -> Predictions {
    let probability = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    Predictions::Classes(ClassPredictions::new(
        classes,
        draws,
        logits
            .flat_map(|&logit| [probability(-logit), probability(logit)])
            .collect(),
    ))
}

/// The probabilities of ordered classes, from the logits of going on to the next, in double precision.
fn ordinal_probabilities(logits: &[f64], classes: usize) -> Vec<f64> {
    let of_row = |logits: &[f64]| {
        let mut reached = 1.0;
        let mut probabilities: Vec<f64> = Vec::with_capacity(classes);
        for logit in logits {
            let goes_on = 1.0 / (1.0 + (-logit).exp());
            let stops = 1.0 / (1.0 + logit.exp());
            probabilities.push(reached * stops);
            reached *= goes_on;
        }
        probabilities.push(reached);
        probabilities
    };
    logits.chunks_exact(classes - 1).flat_map(of_row).collect()
}

/// The rates of counts, from their logarithms, which a network extrapolates without an end.
fn rates(log_rates: impl Iterator<Item = f64>) -> Vec<f64> {
    log_rates
        .map(|log_rate| log_rate.exp().at_most(LARGEST))
        .collect()
}

/// The deviation of the noise in the unit of a target, from the logarithm of its variance, which a network extrapolates without
/// an end.
fn noise_deviation(log_variance: f64, scale: ColumnScale) -> f64 {
    let [smallest, largest] = match scale == ColumnScale::KEPT {
        true => [LARGEST.recip(), LARGEST],
        false => [SMALLEST_NOISE, LARGEST_NOISE].map(|deviations| deviations * scale.spread),
    };
    let deviation = scale.spread * (0.5 * log_variance).exp();
    deviation.at_most(largest).at_least(smallest)
}

/// The rows as inputs of a network, some at a time.
fn chunks<'a>(rows: &'a Features, device: &'a Device) -> impl Iterator<Item = Tensor<2>> + 'a {
    let columns = rows.columns().max(1);
    rows.values().chunks(CHUNK * columns).map(move |chunk| {
        let values: Vec<f32> = chunk.iter().map(|&value| value as f32).collect();
        let shape = [chunk.len() / columns, rows.columns()];
        Tensor::from_data(TensorData::new(values, shape), device)
    })
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
    fn rates_end_where_counts_do() {
        let found = rates([0.0, 50.0, f64::INFINITY, f64::NAN].into_iter());
        assert_eq!(found[..3], [1.0, LARGEST, LARGEST]);
        assert!(found[3].is_nan());
    }

    #[test]
    fn the_noise_ends_near_the_spread_of_the_targets() {
        let scale = ColumnScale {
            centre: 5.0,
            spread: 2.0,
            is_logarithmic: false,
        };
        assert_eq!(noise_deviation(0.0, scale), 2.0);
        assert_eq!(noise_deviation(50.0, scale), 20.0);
        assert_eq!(noise_deviation(-2000.0, scale), 2e-7);
        assert!(noise_deviation(f64::NAN, scale).is_nan());
        assert!(noise_deviation(50.0, ColumnScale::KEPT) > 1e10);
    }

    #[test]
    fn ordinal_probabilities_are_those_of_the_library() {
        let logits = [0.3, -1.2, 0.8, 2.0, -0.5, 0.1];
        let found = ordinal_probabilities(&logits, 4);
        let device = Device::default();
        let logits: Tensor<2> = Tensor::<1>::from_floats(logits, &device).reshape([2, 3]);
        let expected = Likelihood::Ordinal.mean(logits).into_data();
        assert_eq!(found.len(), 8);
        for (found, expected) in found.iter().zip(expected.iter::<f64>()) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

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
