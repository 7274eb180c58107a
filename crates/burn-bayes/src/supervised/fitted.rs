//! [`Fitted`]: a model with a posterior, which predicts, and is saved and loaded as one file.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::{CapturedForward, module_device};

use super::fit::PREDICTION_DRAWS;
use super::{Inputs, LOG_VARIANCE, Supervised, caught};
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Prediction, Targets};
use crate::noise::Noise;
use crate::posterior::{AnyPosterior, Posterior};
use crate::predict::Predictor;
use crate::sampling::placed;

/// The first row of outputs `[draws, rows, outputs]` that are not all finite.
fn first_not_finite(outputs: &Tensor<3>) -> Option<usize> {
    if outputs.clone().is_finite().all().into_scalar::<bool>() {
        return None;
    }
    let [_, rows, width] = outputs.dims();
    let values = outputs.clone().into_data();
    let place = values.iter::<f64>().position(|value| !value.is_finite());
    place.map(|place| place / width % rows)
}

/// A [`Supervised`] model and the posterior over its weights, which is of either form where none is named.
#[derive(Clone, Debug)]
pub struct Fitted<M, X = Tensor<2>, Y = Tensor<2>, P = AnyPosterior> {
    predictor: Predictor<Supervised<M, X, Y>, P>,
    forward: Arc<CapturedForward<Supervised<M, X, Y>, X>>,
    draws: usize,
}

impl<M, X, Y, P> Fitted<M, X, Y, P>
where
    M: Module + 'static,
    X: Inputs,
    Y: Targets,
    P: Posterior,
{
    pub(super) fn new(predictor: Predictor<Supervised<M, X, Y>, P>) -> Self {
        let layout = predictor.posterior().layout().clone();
        Self {
            predictor,
            forward: CapturedForward::new(layout, Supervised::forward).into(),
            draws: PREDICTION_DRAWS,
        }
    }

    /// The same with the posterior as one of several forms.
    pub(super) fn with_any_form<Q: From<P>>(self) -> Fitted<M, X, Y, Q> {
        Fitted {
            predictor: self.predictor.with_any_form(),
            forward: self.forward,
            draws: self.draws,
        }
    }

    /// Loads what [`save`](Self::save) wrote. The file has all parameters of the network and its likelihood, so the weights of
    /// `network` do not matter, but its architecture and the settings of its layers are those of the training.
    ///
    /// # Errors
    ///
    /// If the file is damaged, is no posterior of a [`Supervised`] model, or is that of another network.
    pub fn load(
        path: impl AsRef<Path>,
        network: M,
        forward: fn(&M, X) -> Tensor<2>,
    ) -> Result<Self> {
        let device = module_device(&network);
        let posterior = P::load(path.as_ref(), &device.inner())?;
        let state = posterior.state(Noise::new(0))?;
        let likelihood = Supervised::<M, X, Y>::likelihood_of(&state)?;
        let model = Supervised::new(network, forward, likelihood);
        let noise = posterior.layout().entry(LOG_VARIANCE);
        let model = match noise {
            Some(noise) => model.with_noise_weights(vec![0.0; noise.len()]),
            None => model,
        };
        Ok(Self::new(Predictor::restore(model, posterior)?))
    }

    /// Saves the posterior with everything else that predictions depend on: all other parameters, running statistics, the
    /// likelihood and the seed of the draws. Mixtures are folders; for other posteriors the ending `.safetensors` selects
    /// that format instead of Burn's.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; then there is none, or the old one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.posterior().save(path.as_ref())
    }

    /// Writes an ONNX file that predicts as [`predict`](Self::predict) does, for any number of rows, with as many draws of the
    /// weights. [`Predictor::save_onnx`] says which inputs and outputs it has. Only the shapes and types of `example` matter.
    ///
    /// # Errors
    ///
    /// Those of [`Predictor::save_onnx`].
    pub fn save_onnx(&self, path: impl AsRef<Path>, example: &X) -> Result<()> {
        let (predictor, forward) = (&self.predictor, Supervised::forward);
        predictor.save_onnx(path, example, self.draws, self.likelihood(), forward)
    }

    /// Writes the network with the posterior's mean as its weights as an ONNX file, with one output, called `outputs`.
    ///
    /// # Errors
    ///
    /// Those of [`Predictor::save_onnx`].
    pub fn save_onnx_mean(&self, path: impl AsRef<Path>, example: &X) -> Result<()> {
        self.predictor
            .save_onnx_mean(path, example, Supervised::forward)
    }

    /// Sets the number of draws of the weights in a prediction; 100 by default.
    ///
    /// # Panics
    ///
    /// If `draws` is 0.
    #[must_use]
    pub fn with_draws(self, draws: usize) -> Self {
        assert!(draws > 0, "draws is 0; it must be at least 1");
        Self { draws, ..self }
    }

    /// The predictive distribution of the targets of these inputs.
    ///
    /// # Errors
    ///
    /// If the network cannot evaluate the inputs, for example because of their shape, or an output is not finite.
    pub fn predict(&self, inputs: X) -> Result<Prediction> {
        caught(|| self.predicted(inputs))
    }

    fn predicted(&self, inputs: X) -> Result<Prediction> {
        let inputs = placed(inputs, &module_device(self.predictor.model()));
        let predictor = &self.predictor;
        let outputs = match predictor.captured_outputs(&self.forward, &inputs, self.draws)? {
            Some(outputs) => outputs,
            None => {
                let forward = |model: &Supervised<M, X, Y>| model.forward(inputs.clone());
                Tensor::stack(predictor.map_draws(self.draws, forward)?, 0)
            }
        };
        let refused = |row: usize, what: &str| {
            let problem = format!("give no finite {what} in row {row} (from 0); check that row");
            Err(Error::config("inputs", problem))
        };
        if let Some(row) = first_not_finite(&outputs) {
            return refused(row, "outputs");
        }
        let prediction = Prediction::new(self.likelihood().clone(), outputs);
        // A rate is the exponential of an output.
        match first_not_finite(&prediction.deviation().unsqueeze()) {
            None => Ok(prediction),
            Some(row) => refused(
                row,
                "mean and deviation, but outputs far outside of those of the training,",
            ),
        }
    }

    /// The likelihood, with the noise that was learned.
    pub fn likelihood(&self) -> &Likelihood {
        &self.predictor.model().likelihood
    }

    /// The network with the posterior's mean as its weights.
    pub fn mean_network(&self) -> Result<M> {
        Ok(self.predictor.mean_model()?.network)
    }

    /// The posterior over the weights.
    pub fn posterior(&self) -> &P {
        self.predictor.posterior()
    }

    /// The predictor, for draws of the network one by one.
    pub fn predictor(&self) -> &Predictor<Supervised<M, X, Y>, P> {
        &self.predictor
    }
}
