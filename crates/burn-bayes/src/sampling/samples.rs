//! The draws of several chains, and whether they agree.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes_eval::Chains;
use burn_bayes_graph::Layout;

use super::chain::ChainSummary;
use crate::error::{Error, Result};
use crate::laplace::ModelOutputs;
use crate::posterior::{ModelState, Posterior, SamplePosterior};

/// Samples of the weights of a model from several chains.
#[derive(Clone, Debug)]
pub struct Samples {
    pub(super) layout: Arc<Layout>,
    pub(super) state: ModelState,
    pub(super) device: Device,
    /// Of every chain, its draws, of equal number.
    pub(super) chains: Vec<Vec<Vec<f32>>>,
    pub(super) summaries: Vec<ChainSummary>,
}

/// The medians of R̂ up to which draws are samples of the posterior, and approximately.
pub(super) const CONVERGED: f64 = 1.05;
const APPROXIMATE: f64 = 1.2;

/// R̂ of predictions across chains: near 1 if chains that started elsewhere predict the same.
///
/// Up to 1.05 the draws are samples of the posterior, up to 1.2 approximately. Above, they are an ensemble: each chain has
/// found predictions of its own, which are still better than those of one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Agreement {
    /// The median of R̂ over rows and outputs.
    pub median: f64,
    /// Its 95 % quantile.
    pub upper: f64,
}

impl Agreement {
    /// Whether the draws are samples of the posterior.
    pub fn is_converged(&self) -> bool {
        self.median <= CONVERGED
    }

    /// Whether they are so at least approximately.
    pub fn is_approximate(&self) -> bool {
        self.median <= APPROXIMATE
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = if self.is_converged() {
            "converged: the draws are samples of the posterior"
        } else if self.is_approximate() {
            "approximately converged: the draws are about samples of the posterior; for more, sample longer"
        } else {
            "not converged: the draws are an ensemble, in which every chain has predictions of its own; for samples of the \
             posterior, sample longer"
        };
        let Self { median, upper } = self;
        write!(
            f,
            "{words} (R̂ of predictions across chains: median {median:.3}, 95 % below {upper:.3})"
        )
    }
}

impl Samples {
    /// What each of the chains did.
    pub fn chains(&self) -> &[ChainSummary] {
        &self.summaries
    }

    /// The draws of all chains, with equal weights.
    ///
    /// # Errors
    ///
    /// If there are none yet.
    pub fn posterior(&self) -> Result<SamplePosterior> {
        let draws: Vec<f32> = self.chains.iter().flatten().flatten().copied().collect();
        let shape = [draws.len() / self.layout.len(), self.layout.len()];
        if shape[0] == 0 {
            return Err(Error::too_early(
                "the chains have no draws yet; sample longer",
            ));
        }
        let draws = Tensor::from_data(TensorData::new(draws, shape), &self.device);
        let posterior = SamplePosterior::new(self.layout.clone(), draws)?;
        Ok(posterior.with_state(self.state.clone()))
    }

    /// Whether the chains agree about the predictions of these inputs; `None` for a single chain, for fewer than four draws of
    /// each, and if all predictions are equal.
    ///
    /// # Errors
    ///
    /// If the model is another one, or a prediction is not finite.
    pub fn agreement<M: Module + ModelOutputs>(
        &self,
        model: &M,
        inputs: &M::Features,
    ) -> Result<Option<Agreement>> {
        let (chains, draws) = (self.chains.len(), self.chains[0].len());
        if chains < 2 || draws < 4 {
            return Ok(None);
        }
        let (model, likelihood) = (model.valid(), model.likelihood());
        let predictions = self.chains.iter().flatten().map(|weights| {
            let weights = TensorData::new(weights.clone(), [weights.len()]);
            let weights = Tensor::from_data(weights, &self.device);
            let model = self.layout.write(model.clone(), weights)?;
            let outputs = model.outputs(inputs.clone());
            Ok(likelihood.mean(outputs).into_data().iter::<f64>().collect())
        });
        let predictions = predictions.collect::<Result<Vec<Vec<f64>>>>()?;
        let mut found = Vec::new();
        for place in 0..predictions[0].len() {
            let values: Vec<f64> = predictions.iter().map(|values| values[place]).collect();
            let chains = Chains::new(&values, chains, draws);
            let chains = chains.map_err(|error| Error::numerical(error.to_string()))?;
            found.extend(chains.r_hat());
        }
        found.sort_by(f64::total_cmp);
        let at = |share: f64| found.get((share * found.len() as f64) as usize).copied();
        Ok(at(0.5)
            .zip(at(0.95))
            .map(|(median, upper)| Agreement { median, upper }))
    }
}
