//! Monte Carlo dropout: a prediction averages over draws of the dropout masks.
//!
//! A dropout layer with the probability p multiplies each element by a mask that is 0 with the probability p and
//! 1/(1−p) otherwise. A network that was trained with dropout is evaluated with S random masks, as in training, and the
//! predictions are averaged. Batch norm and all other layers behave as in inference.
//!
//! Burn's dropout is active if its flag is on and its input is on an autodiff device. Its masks come from the
//! device's own generator, which is seeded before every draw.
//!
//! Reference: Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation: representing model uncertainty in deep
//! learning" (2016).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Tensor, kind};
use burn_bayes_graph::{ExampleBatch, TensorMapper, module_device};

use super::training_layers::{TrainingFlag, only_dropout, training_flags};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// Dropout in predictions.
#[derive(Clone)]
pub(super) struct PredictionDropout {
    noise: Noise,
    /// [`WithAutodiff`] for the input of the model.
    with_autodiff: Arc<dyn Any + Send + Sync>,
}

/// Moves a batch to the autodiff device.
type WithAutodiff<B> = fn(B) -> B;

impl fmt::Debug for PredictionDropout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredictionDropout")
            .field("noise", &self.noise)
            .finish_non_exhaustive()
    }
}

impl PredictionDropout {
    /// The dropout of a model whose inputs are batches `B`, with masks that are independent of the draws of
    /// `noise`.
    ///
    /// # Errors
    ///
    /// If the model has no dropout.
    pub(super) fn new<M: Module, B: ExampleBatch + 'static>(
        model: &M,
        noise: Noise,
    ) -> Result<Self> {
        if !training_flags(model).iter().any(TrainingFlag::is_dropout) {
            let problem = "has no dropout: no layer has a type name that ends in Dropout; predict with a posterior, \
                           or train a model that has dropout";
            return Err(Error::config("model", problem));
        }
        const MASKS: u64 = 0x6d61_736b;
        let with_autodiff: WithAutodiff<B> = |batch| batch.map_tensors(&mut ToAutodiff);
        Ok(Self {
            noise: noise.fold(MASKS),
            with_autodiff: Arc::new(with_autodiff),
        })
    }

    /// The model on the autodiff device, without gradients, with only its dropout active.
    pub(super) fn activated<M: Module>(model: M) -> M {
        only_dropout(model.train().no_grad())
    }

    /// The batch on the autodiff device, if the model takes such batches.
    pub(super) fn with_autodiff<B: 'static>(&self, batch: B) -> B {
        match self.with_autodiff.downcast_ref::<WithAutodiff<B>>() {
            Some(with_autodiff) => with_autodiff(batch),
            None => batch,
        }
    }

    /// The result of `evaluate`, with the masks of draw `index`.
    pub(super) fn masked<M: Module, T>(
        &self,
        model: &M,
        index: u64,
        evaluate: impl FnOnce(&M) -> T,
    ) -> T {
        let device = module_device(model);
        let noise = self.noise.fold(index);
        noise.seed_generator(&device.inner(), || evaluate(model))
    }
}

struct ToAutodiff;

impl TensorMapper for ToAutodiff {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        tensor.autodiff()
    }
}
