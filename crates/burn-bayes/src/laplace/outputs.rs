//! Models that state their outputs and the likelihood of a target given these outputs.
//!
//! The generalised Gauss–Newton (GGN) matrix of an example's loss ℓ with outputs f, `[C]`, is JᵀΛJ with J = ∂f/∂θ
//! and Λ = E_y ∂²ℓ/∂f². With a root Λ = Σ_r s_r s_rᵀ, it is the sum of outer products of the gradients of the scalars
//! s_rᵀf, in which s_r is a constant. `likelihood/family.rs` has the roots of each likelihood.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::kind;
use burn_bayes_graph::{
    CapturedModel, ExampleBatch, ExampleGradients, ExampleJacobians, Layout, TensorMapper,
};

use crate::error::{Error, Result};
use crate::likelihood::Likelihood;
use crate::train::ExampleLoss;

/// A model that states its outputs, `[M, C]`, and the likelihood of the targets given these.
///
/// # Laws
///
/// * [`example_losses`](ExampleLoss::example_losses) of a batch are the negative log-likelihoods of its targets,
///   given the outputs of its [`features`](Self::features).
/// * The outputs of an example do not depend on the other examples.
///
/// ```
/// # use burn::{module::Module, nn::Linear, tensor::Tensor};
/// # use burn::train::{RegressionOutput, TrainOutput, TrainStep};
/// use burn_bayes::ExampleLoss;
/// use burn_bayes::laplace::ModelOutputs;
/// use burn_bayes::likelihood::Likelihood;
///
/// #[derive(Module, Debug)]
/// struct Line {
///     layer: Linear,
/// }
///
/// impl ModelOutputs for Line {
///     type Features = Tensor<2>;
///
///     fn features((inputs, _targets): Self::Input) -> Tensor<2> {
///         inputs
///     }
///
///     fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
///         self.layer.forward(inputs)
///     }
///
///     fn likelihood(&self) -> Likelihood {
///         Likelihood::Gaussian { noise_precision: 25.0 }
///     }
/// }
///
/// impl ExampleLoss for Line {
///     fn example_losses(&self, (inputs, targets): Self::Input) -> Tensor<1> {
///         self.likelihood().losses(self.outputs(inputs), targets)
///     }
/// }
/// # impl TrainStep for Line {
/// #     type Input = (Tensor<2>, Tensor<2>);
/// #     type Output = RegressionOutput;
/// #     fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
/// #         let outputs = self.outputs(inputs.clone());
/// #         let loss = self.example_losses((inputs, targets.clone())).mean();
/// #         TrainOutput::new(self, loss.backward(), RegressionOutput::new(loss, outputs, targets))
/// #     }
/// # }
/// ```
pub trait ModelOutputs: ExampleLoss {
    /// The inputs of the model, without targets.
    type Features: ExampleBatch + Send + Sync + 'static;

    /// The inputs of a training batch.
    fn features(batch: Self::Input) -> Self::Features;

    /// The outputs, `[M, C]`; [`Likelihood`] says what they are.
    fn outputs(&self, features: Self::Features) -> Tensor<2>;

    /// The likelihood of the targets, given the outputs.
    fn likelihood(&self) -> Likelihood;
}

/// The outputs of a model, and the gradients of every example's weighted sum of outputs.
pub struct OutputGradients<M: ModelOutputs> {
    captured: CapturedModel<M, (M::Features, Tensor<2>)>,
}

impl<M: ModelOutputs> fmt::Debug for OutputGradients<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputGradients")
            .field(&self.captured)
            .finish()
    }
}

impl<M: Module + ModelOutputs + 'static> OutputGradients<M> {
    /// Of the outputs of models with this layout.
    pub fn new(layout: Arc<Layout>) -> Self {
        let sums = |model: &M, (features, weights): (M::Features, Tensor<2>)| {
            let sum = (model.outputs(features) * weights).sum_dim(1);
            sum.squeeze_dim(1)
        };
        Self {
            captured: CapturedModel::new(layout, sums),
        }
    }

    /// The outputs in inference mode, `[M, C]`.
    ///
    /// # Errors
    ///
    /// If one is not finite.
    pub fn outputs(&self, model: &M, features: &M::Features) -> Result<Tensor<2>> {
        let outputs = model.valid().outputs(without_autodiff(features.clone()));
        let outputs = outputs.without_autodiff();
        expect_finite(&outputs)?;
        Ok(outputs)
    }

    /// The gradients of Σ_c wᵢ_c fᵢ_c for every example i and constant weights `[M, C]`.
    pub fn weighted(
        &self,
        model: &M,
        features: &M::Features,
        weights: Tensor<2>,
    ) -> Result<ExampleGradients> {
        let batch = (features.clone(), weights);
        Ok(self.captured.example_gradients(model, &batch)?.gradients)
    }

    /// The outputs, `[M, C]`, and their Jacobians, by a forward and a backward pass for each of the C rows of
    /// `identity`.
    ///
    /// # Errors
    ///
    /// If an output is not finite.
    pub(super) fn jacobians(
        &self,
        model: &M,
        features: &M::Features,
        identity: &Tensor<2>,
    ) -> Result<(Tensor<2>, ExampleJacobians)> {
        let rows = examples(features)?;
        let (mut outputs, mut gradients) = (Vec::new(), Vec::new());
        for weights in identity.clone().split(1, 0) {
            let batch = (features.clone(), weights.repeat_dim(0, rows));
            let found = self.captured.example_gradients(model, &batch)?;
            outputs.push(found.losses);
            gradients.push(found.gradients);
        }
        let outputs = Tensor::stack(outputs, 1);
        expect_finite(&outputs)?;
        Ok((outputs, ExampleJacobians::new(gradients)))
    }

    /// The gradients of output `index` of every example: the rows of its Jacobian.
    pub fn of_output(
        &self,
        model: &M,
        features: &M::Features,
        outputs: &Tensor<2>,
        index: usize,
    ) -> Result<ExampleGradients> {
        let [rows, _] = outputs.dims();
        let ones = Tensor::ones([rows, 1], (&outputs.device(), outputs.dtype()));
        let weights = outputs.zeros_like();
        let weights = weights.slice_assign([0..rows, index..index + 1], ones);
        self.weighted(model, features, weights)
    }
}

fn expect_finite(outputs: &Tensor<2>) -> Result<()> {
    match outputs.clone().is_finite().all().into_scalar() {
        true => Ok(()),
        false => Err(not_finite()),
    }
}

/// The error of outputs that are not finite.
pub fn not_finite() -> Error {
    Error::numerical(
        "an output of the model is not finite; likely causes: training diverged, or the inputs are not finite",
    )
}

/// The batch without autodiff.
pub fn without_autodiff<B: ExampleBatch>(batch: B) -> B {
    struct Plain;
    impl TensorMapper for Plain {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            tensor.without_autodiff()
        }
    }
    batch.map_tensors(&mut Plain)
}

/// The batch in micro-batches of at most `size` consecutive examples; `size` is at least 1.
///
/// # Errors
///
/// If its tensors have different numbers of examples.
pub(super) fn micro_batches<B: ExampleBatch>(
    batch: &B,
    size: usize,
) -> Result<impl Iterator<Item = B> + use<'_, B>> {
    struct Narrow {
        first: usize,
        count: usize,
    }
    impl TensorMapper for Narrow {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            tensor.narrow(0, self.first, self.count)
        }
    }
    let examples = examples(batch)?;
    Ok((0..examples).step_by(size).map(move |first| {
        let count = size.min(examples - first);
        batch.clone().map_tensors(&mut Narrow { first, count })
    }))
}

/// The number of examples: the length of every tensor's first axis.
pub fn examples<B: ExampleBatch>(batch: &B) -> Result<usize> {
    let lengths = burn_bayes_graph::lengths(batch);
    let first = lengths.first().copied().unwrap_or(0);
    match lengths.iter().find(|&&other| other != first) {
        None => Ok(first),
        Some(other) => Err(Error::config(
            "batches",
            format!("have tensors of {first} and of {other} examples; all must have as many"),
        )),
    }
}
