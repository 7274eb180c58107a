//! Models that return the loss of every example.

use std::cell::Cell;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::{TrainOutput, TrainStep};

/// A model that returns the loss of every example of a mini-batch, for algorithms that use
/// per-example gradients.
///
/// # Laws
///
/// The mean of the losses is the loss whose gradients [`TrainStep::step`] returns, and the loss of
/// an example does not depend on the other examples. Training compares the two gradients at the
/// first step and after a hundred steps, and stops if they differ by more than one per cent; see
/// [`Bayesian::without_self_check`](crate::Bayesian::without_self_check).
///
/// A model without a step of its own has [`mean_loss_step`](Self::mean_loss_step), whose loss is that mean:
///
/// ```
/// use burn::module::Module;
/// use burn::nn::Linear;
/// use burn::tensor::Tensor;
/// use burn::train::{RegressionOutput, TrainOutput, TrainStep};
/// use burn_bayes::ExampleLoss;
/// use burn_bayes::graph::losses;
///
/// #[derive(Module, Debug)]
/// struct Line {
///     layer: Linear,
/// }
///
/// impl ExampleLoss for Line {
///     fn example_losses(&self, (inputs, targets): Self::Input) -> Tensor<1> {
///         losses::gaussian(self.layer.forward(inputs), targets, 1.0)
///     }
///
///     fn example_outputs(&self, batch: Self::Input, losses: Tensor<1>) -> RegressionOutput {
///         let (inputs, targets) = batch;
///         let outputs = self.clone().no_grad().layer.forward(inputs);
///         RegressionOutput::new(losses.mean(), outputs, targets)
///     }
/// }
///
/// impl TrainStep for Line {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = RegressionOutput;
///
///     fn step(&self, batch: Self::Input) -> TrainOutput<Self::Output> {
///         self.mean_loss_step(batch)
///     }
/// }
/// ```
pub trait ExampleLoss: TrainStep {
    /// −log p(y | x, θ) of every example, `[rows]`, in nats.
    fn example_losses(&self, batch: Self::Input) -> Tensor<1>;

    /// The output for metrics, given the losses of the examples, `[rows]`. The default is the
    /// output of `step`, which computes an unnecessary backward pass. An implementation with the
    /// mean loss and a forward pass of `self.clone().no_grad()` is faster, and one without a
    /// forward pass is faster still. If the model has batch norm in training mode and this method
    /// makes no forward pass in training mode, the library makes a pass of
    /// [`example_losses`](Self::example_losses) without gradients to update the running statistics.
    fn example_outputs(
        &self,
        batch: Self::Input,
        losses: Tensor<1>,
    ) -> <Self as TrainStep>::Output {
        let _ = losses;
        TrainStep::step(self, batch).item
    }

    /// What [`TrainStep::step`] can return: the gradients of the mean of
    /// [`example_losses`](Self::example_losses), with [`example_outputs`](Self::example_outputs).
    ///
    /// # Panics
    ///
    /// If `example_outputs` is not implemented, because its default calls `step`.
    fn mean_loss_step(&self, batch: Self::Input) -> TrainOutput<<Self as TrainStep>::Output>
    where
        Self: Module,
        Self::Input: Clone,
    {
        let losses = self.example_losses(batch.clone());
        let item = MakingOutputs::during(|| self.example_outputs(batch, losses.clone()));
        TrainOutput::new(self, losses.mean().backward(), item)
    }
}

/// That `mean_loss_step` is asking for outputs on this thread, which must not ask for a step.
struct MakingOutputs;

thread_local! {
    static MAKING_OUTPUTS: Cell<bool> = const { Cell::new(false) };
}

impl MakingOutputs {
    fn during<T>(make: impl FnOnce() -> T) -> T {
        assert!(
            !MAKING_OUTPUTS.replace(true),
            "`ExampleLoss::example_outputs` must be implemented where `step` is `mean_loss_step`: its \
             default calls `step`"
        );
        let _ends = Self;
        make()
    }
}

impl Drop for MakingOutputs {
    fn drop(&mut self) {
        MAKING_OUTPUTS.set(false);
    }
}
