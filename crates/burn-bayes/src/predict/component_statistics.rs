//! Running statistics of batch norm for every component of a mixture.

use burn::module::Module;

use super::predictor::Predictor;
use super::statistics::refresh_running_statistics;
use crate::error::Result;
use crate::noise::Noise;
use crate::posterior::{Mixture, Posterior, picked};

/// The models with the statistics of each component. They share their weights, which are those of no component.
#[derive(Clone, Debug)]
pub(super) struct ComponentStatistics<M> {
    models: Vec<M>,
    /// The weights of the components.
    weights: Vec<f64>,
}

impl<M> ComponentStatistics<M> {
    /// The model for a draw with this noise.
    pub(super) fn model(&self, noise: Noise) -> &M {
        &self.models[picked(&self.weights, noise)]
    }
}

impl<M: Module, P: Posterior> Predictor<M, Mixture<P>> {
    /// Recomputes the running statistics of batch norm for every component, at the component's mean, from these
    /// mini-batches; see [`refresh_running_statistics`]. Every draw is then evaluated with the statistics of its own
    /// component, in a forward pass of its own. Only one component is in memory at a time; the statistics of all are kept.
    ///
    /// # Errors
    ///
    /// Those of [`refresh_running_statistics`]; also if a component cannot be read.
    pub fn with_component_statistics<B, T>(
        self,
        batches: &[B],
        mut forward: impl FnMut(&M, &B) -> T,
    ) -> Result<Self> {
        let mixture = self.posterior();
        let layout = mixture.layout();
        let shared = layout.flatten(self.model())?;
        let count = mixture.weights().len();
        let models = (0..count).map(|index| {
            let model = mixture.component(index)?.write_mean(self.model().clone())?;
            let model = refresh_running_statistics(&model, batches, |model, batch: &&B| {
                forward(model, *batch)
            })?;
            Ok(layout.write(model, shared.clone())?)
        });
        let statistics = ComponentStatistics {
            models: models.collect::<Result<_>>()?,
            weights: mixture.weights().to_vec(),
        };
        Ok(self.with_statistics(statistics))
    }
}
