//! Predictions as ONNX files: the model at several draws of its weights, and what follows from their outputs.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleBatch, OnnxModel};

use super::Predictor;
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Prediction};
use crate::posterior::{Posterior, write_whole};

impl<M: Module, P: Posterior> Predictor<M, P> {
    /// Writes an ONNX file that predicts as this predictor does, from `draws` draws of the weights and for any number of rows:
    /// other programs, such as ONNX Runtime, evaluate it. The likelihood says what `forward` returns, and so what the file does:
    ///
    /// | likelihood | outputs of the file |
    /// |---|---|
    /// | classes | `probabilities`, `[rows, classes]`; `entropy` and `mutual_information`, `[rows]`, in nats |
    /// | labels | `probabilities` and `epistemic_deviation`, `[rows, labels]` |
    /// | numbers and counts | `mean`, `deviation` (with the noise) and `epistemic_deviation`, `[rows, targets]` |
    ///
    /// They are those of [`Prediction`]. The draws are those of [`map_draws`](Self::map_draws). What they share is computed once,
    /// so that a posterior over the last layer costs little more than the network.
    ///
    /// `example` is any batch of inputs; only its shapes and types matter. The inputs of the file are called `input`, or `input_0`,
    /// `input_1`, … if there are several tensors. It needs the operators of ONNX version 17.
    ///
    /// ```
    /// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
    /// use burn_bayes::likelihood::Likelihood;
    /// use burn_bayes::posterior::PointPosterior;
    /// use burn_bayes::{Noise, Predictor};
    ///
    /// # let folder = std::env::temp_dir().join(format!("burn-bayes-onnx-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let device = Device::default();
    /// let model = LinearConfig::new(3, 2).init(&device);
    /// let posterior = PointPosterior::of(&model, &ParamGroup::all())?;
    /// let predictor = Predictor::new(model, posterior, Noise::new(0))?;
    /// let example = Tensor::<2>::zeros([1, 3], &device);
    /// let file = folder.join("model.onnx");
    /// predictor.save_onnx(&file, &example, 10, &Likelihood::Categorical, Linear::forward)?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `draws` is 0; if the model has an operation that the file cannot have, which the message names; if the predictor has
    /// dropout; or if the file cannot be written. Then there is no file, or the old one.
    pub fn save_onnx<B: ExampleBatch>(
        &self,
        path: impl AsRef<Path>,
        example: &B,
        draws: usize,
        likelihood: &Likelihood,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<()> {
        let model = self.onnx(example, draws, forward)?;
        let of = |outputs| Prediction::new(likelihood.clone(), outputs);
        let epistemic = |outputs| of(outputs).epistemic_variance().sqrt();
        let model = match likelihood {
            Likelihood::Categorical | Likelihood::Ordinal => model
                .with_output("probabilities", |outputs| of(outputs).mean())?
                .with_output("entropy", |outputs| of(outputs).class_entropy())?
                .with_output("mutual_information", |outputs| {
                    of(outputs).class_information()
                })?,
            Likelihood::Bernoulli => model
                .with_output("probabilities", |outputs| of(outputs).mean())?
                .with_output("epistemic_deviation", epistemic)?,
            _ => model
                .with_output("mean", |outputs| of(outputs).mean())?
                .with_output("deviation", |outputs| of(outputs).deviation())?
                .with_output("epistemic_deviation", epistemic)?,
        };
        self.write_onnx(path.as_ref(), model, draws, Some(likelihood))
    }

    /// The same with one output, called `outputs`: that of `forward` at every draw, `[draws, rows, outputs]`.
    ///
    /// # Errors
    ///
    /// Those of [`save_onnx`](Self::save_onnx).
    pub fn save_onnx_draws<B: ExampleBatch>(
        &self,
        path: impl AsRef<Path>,
        example: &B,
        draws: usize,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<()> {
        let model = self.onnx(example, draws, forward)?;
        let model = model.with_output("outputs", |outputs| outputs)?;
        self.write_onnx(path.as_ref(), model, draws, None)
    }

    /// Writes the model at the posterior's mean as an ONNX file, with one output, called `outputs`, of shape `[rows, outputs]`.
    ///
    /// # Errors
    ///
    /// Those of [`save_onnx`](Self::save_onnx).
    pub fn save_onnx_mean<B: ExampleBatch>(
        &self,
        path: impl AsRef<Path>,
        example: &B,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<()> {
        let mean = |_| self.mean_model();
        let layout = self.posterior().layout().clone();
        let model = OnnxModel::of_draws(1, mean, layout, example, forward)?;
        let model = model.with_output("outputs", |outputs| outputs.squeeze_dim::<2>(0))?;
        self.write_onnx(path.as_ref(), model, 0, None)
    }

    /// The model at the draws of the weights.
    fn onnx<B: ExampleBatch>(
        &self,
        example: &B,
        draws: usize,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<OnnxModel<M>> {
        if self.has_dropout() {
            return Err(Error::config(
                "dropout",
                "draws random masks, which an ONNX file cannot; save a predictor without dropout",
            ));
        }
        let draw = |index: usize| self.drawn_model(index as u64);
        let layout = self.posterior().layout().clone();
        OnnxModel::of_draws(draws, draw, layout, example, forward)
    }

    fn write_onnx(
        &self,
        path: &Path,
        model: OnnxModel<M>,
        draws: usize,
        likelihood: Option<&Likelihood>,
    ) -> Result<()> {
        let unwritable = |error: serde_json::Error| {
            Error::storage(format!("{} cannot be written: {error}", path.display()))
        };
        let noise = self.noise();
        let mut metadata = vec![
            ("draws", draws.to_string()),
            ("posterior", posterior_name::<P>()),
            ("seed", noise.seed().to_string()),
            ("noise", serde_json::to_string(&noise).map_err(unwritable)?),
        ];
        if let Some(likelihood) = likelihood {
            let text = serde_json::to_string(likelihood).map_err(unwritable)?;
            metadata.push(("likelihood", text));
        }
        write_whole(path, &model.into_bytes(&metadata)?)
    }
}

/// The type of the posterior, without the path of its module.
fn posterior_name<P>() -> String {
    let name = std::any::type_name::<P>();
    let short = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    let parts: Vec<_> = name.split('<').map(short).collect();
    parts.join("<")
}
