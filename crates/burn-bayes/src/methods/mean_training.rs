//! Adam, which trains the mean in the first stage of the natural-gradient methods.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::mean_stage::{MeanProgress, MeanStage};
use super::start::{InitialDeviation, buffer, updated};

/// The deviation of the posterior in the first stage.
pub(crate) const FIRST_DEVIATION: InitialDeviation = InitialDeviation::FanInScaled(0.03);

/// Adam's decay rates and its smallest divisor.
const DECAYS: (f64, f64) = (0.9, 0.999);
const SMALLEST: f64 = 1e-8;

/// Adam's averages, and the test of arrival.
#[derive(Module, Debug)]
pub(crate) struct MeanTraining {
    moment: Param<Tensor<1>>,
    square: Param<Tensor<1>>,
    progress: MeanProgress,
}

impl MeanTraining {
    pub(crate) fn new(mean: &Tensor<1>) -> Self {
        Self {
            moment: buffer(mean.zeros_like()),
            square: buffer(mean.zeros_like()),
            progress: MeanProgress::new(mean),
        }
    }

    /// The memory for this number of weights.
    pub(crate) fn bytes(weights: usize) -> usize {
        MeanProgress::bytes(weights) + 2 * weights * size_of::<f32>()
    }

    /// The step after which the stage ended, if it has.
    pub(crate) fn end(&self) -> Option<u64> {
        self.progress.end()
    }

    /// Makes step number `step` (from 1) of the stage with this gradient and learning rate, and returns the next mean.
    pub(crate) fn step(
        self,
        mean: Param<Tensor<1>>,
        gradient: Tensor<1>,
        step: u64,
        learning_rate: f64,
        stage: MeanStage,
    ) -> (Self, Param<Tensor<1>>) {
        let training = self.with(gradient);
        let change = training.direction(step).mul_scalar(learning_rate);
        let mean = updated(mean, |mean| mean - change);
        let progress = training
            .progress
            .after_step(&mean.val().without_autodiff(), step, stage);
        (
            Self {
                progress,
                ..training
            },
            mean,
        )
    }

    /// Takes in the gradient of a step.
    fn with(self, gradient: Tensor<1>) -> Self {
        let (first, second) = DECAYS;
        let moment = updated(self.moment, |moment| {
            moment.mul_scalar(first) + gradient.clone().mul_scalar(1.0 - first)
        });
        let square = updated(self.square, |square| {
            square.mul_scalar(second) + gradient.square().mul_scalar(1.0 - second)
        });
        Self {
            moment,
            square,
            ..self
        }
    }

    /// The direction of step number `step` (from 1), to be multiplied by the learning rate and subtracted.
    fn direction(&self, step: u64) -> Tensor<1> {
        let moment = corrected(&self.moment, DECAYS.0, step);
        moment / self.squares(step).sqrt().add_scalar(SMALLEST)
    }

    /// The average of the squared gradients after `step` steps.
    pub(crate) fn squares(&self, step: u64) -> Tensor<1> {
        corrected(&self.square, DECAYS.1, step)
    }
}

/// An average over `step` steps that began at zero, without its bias towards zero.
fn corrected(average: &Param<Tensor<1>>, decay: f64, step: u64) -> Tensor<1> {
    let steps = i32::try_from(step).unwrap_or(i32::MAX);
    let average = average.val().without_autodiff();
    average.div_scalar(1.0 - decay.powi(steps))
}
