//! The models that a [`Trainer`](super::Trainer) trains.

use std::sync::Arc;

use burn::module::{Module, ModuleDisplay};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use burn::train::{ClassificationOutput, RegressionOutput, TrainStep};

use crate::error::{Error, Result};
use crate::likelihood::{LikelihoodOutput, MixDraws};
use crate::methods::Algorithm;
use crate::train::bayesian::Bayesian;
use crate::train::compiled::{CompiledStep, Recordings, StepGradients};
use crate::train::draws::Outside;
use crate::train::gather::Gather;
use crate::train::gradient_check::first_non_finite;
use crate::train::loss_at_draws::loss_at_draws;
use crate::verdict::Verdict;

/// The output of a training step, with the mean loss of its batch.
pub trait BatchLoss {
    /// The mean loss, `[1]`.
    fn batch_loss(&self) -> Tensor<1>;

    /// The number of rows over which it is the mean. If it is unknown, the default, all batches count alike in the
    /// loss of an epoch.
    fn batch_rows(&self) -> Option<usize> {
        None
    }
}

macro_rules! batch_loss {
    ($($output:ty),+) => {$(
        impl BatchLoss for $output {
            fn batch_loss(&self) -> Tensor<1> {
                self.loss.clone()
            }

            fn batch_rows(&self) -> Option<usize> {
                Some(self.rows())
            }
        }
    )+};
}

batch_loss!(ClassificationOutput, RegressionOutput, LikelihoodOutput);

/// A model that a [`Trainer`](super::Trainer) trains. For a plain model an empty `impl` is enough.
pub trait TrainerModel: Module + TrainStep<Output: BatchLoss> {
    /// The error that the training stopped on, if it did.
    fn fault(&self) -> Option<Arc<Error>> {
        None
    }

    /// The model in a training of this number of steps.
    #[must_use]
    fn with_length(self, steps: u64) -> Self {
        let _ = steps;
        self
    }

    /// N, if the model depends on it: the number of rows that an epoch should have.
    fn train_len(&self) -> Option<usize> {
        None
    }

    /// Whether a [`fault`](Self::fault) is left to the caller, as a trainer does while it runs, instead of a panic.
    #[must_use]
    fn with_faults_returned(self, is_on: bool) -> Self {
        let _ = is_on;
        self
    }

    /// Computes what [`step`](TrainStep::step) does, without its output and faster, until something other than its
    /// optimiser changes the model. `None`, the default, if nothing does.
    ///
    /// A model that implements [`ExampleLoss`](crate::ExampleLoss) has [`Recordings::step_of_losses`]; one that is wrapped
    /// needs nothing.
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        let _ = recordings;
        None
    }

    /// Step number `step` (from 1) of the optimiser. The gradients that it gets are multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// A gradient that is not finite.
    fn optimized(
        self,
        step: u64,
        optimizer: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        mut gradients: GradientsParams,
        factor: f64,
    ) -> Result<Self> {
        if let Some(path) = first_non_finite(&self, &gradients) {
            return Err(Error::non_finite(step, path));
        }
        let mut scaled = GradientsParams::new();
        Outside::add(&self, factor, &mut gradients, &mut scaled);
        Ok(self.optimize(optimizer, rate, scaled))
    }

    /// What is known about the fit at the end of a training, given some of its batches, and by how much the mean loss of the last
    /// epoch is above that of the best one. `None` for a plain model.
    ///
    /// # Errors
    ///
    /// If a draw fails.
    fn verdict(
        &self,
        batches: &mut dyn Iterator<Item = Self::Input>,
        since_best_epoch: f64,
    ) -> Result<Option<Verdict>> {
        let _ = (batches, since_best_epoch);
        Ok(None)
    }
}

impl<M, A> TrainerModel for Bayesian<M, A>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws + BatchLoss> + 'static,
    A: Algorithm<Signal: Gather<M, A>>,
{
    fn fault(&self) -> Option<Arc<Error>> {
        Bayesian::fault(self)
    }

    fn with_length(self, steps: u64) -> Self {
        Bayesian::with_length(self, steps)
    }

    fn train_len(&self) -> Option<usize> {
        Some(self.algorithm().setup().train_len)
    }

    fn with_faults_returned(self, is_on: bool) -> Self {
        Bayesian::with_faults_returned(self, is_on)
    }

    fn compiled(&self, _recordings: &Recordings) -> Option<CompiledStep<Self>> {
        self.validation_check().end();
        self.clock().check_record().ok()?;
        let compute = A::Signal::compiled(self)?;
        Some(Box::new(move |bayesian, item| {
            compute(bayesian, item).or_else(|error| {
                bayesian.stop(error);
                Ok(Some(StepGradients::default()))
            })
        }))
    }

    fn optimized(
        self,
        _step: u64,
        optimizer: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        gradients: GradientsParams,
        factor: f64,
    ) -> Result<Self> {
        Ok(self.optimize_scaled(optimizer, rate, gradients, factor))
    }

    fn verdict(
        &self,
        batches: &mut dyn Iterator<Item = <M as TrainStep>::Input>,
        since_best_epoch: f64,
    ) -> Result<Option<Verdict>> {
        let verdict = Bayesian::verdict(self);
        Ok(Some(
            match loss_at_draws(self, batches, since_best_epoch)? {
                Some(draws) => verdict.with_draws(draws),
                None => verdict,
            },
        ))
    }
}
