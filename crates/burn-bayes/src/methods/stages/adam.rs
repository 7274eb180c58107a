//! Adam, which trains the mean in the first stage of the natural-gradient methods.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::methods::start::{buffer, updated};
use crate::recorded::Recorded;

/// Adam's decay rates and its smallest divisor.
const DECAYS: (f64, f64) = (0.9, 0.999);
const SMALLEST: f64 = 1e-8;

/// Adam's averages.
#[derive(Module, Debug)]
pub(super) struct Adam {
    moment: Param<Tensor<1>>,
    /// That of M ĝ²/N.
    square: Param<Tensor<1>>,
    steps: Recorded<u64>,
}

impl Adam {
    pub(super) fn new(mean: &Tensor<1>) -> Self {
        Self {
            moment: buffer(mean.zeros_like()),
            square: buffer(mean.zeros_like()),
            steps: Recorded::new(0, &mean.device()),
        }
    }

    /// Takes in the gradient of a step with this share of the training examples.
    pub(super) fn with(self, gradient: Tensor<1>, share: f64) -> Self {
        let (first, second) = DECAYS;
        let moment = updated(self.moment, |moment| {
            moment.mul_scalar(first) + gradient.clone().mul_scalar(1.0 - first)
        });
        let square = updated(self.square, |square| {
            square.mul_scalar(second) + gradient.square().mul_scalar((1.0 - second) * share)
        });
        let steps = self.steps.value() + 1;
        Self {
            moment,
            square,
            steps: self.steps.with_value(steps),
        }
    }

    /// The direction of the step, to be multiplied by the learning rate and subtracted, for a usual share of the
    /// training examples.
    pub(super) fn direction(&self, share: f64) -> Tensor<1> {
        let squares = self.curvature().div_scalar(share);
        self.corrected(&self.moment, DECAYS.0) / squares.sqrt().add_scalar(SMALLEST)
    }

    /// The number of gradients taken in.
    pub(super) fn steps(&self) -> u64 {
        *self.steps.value()
    }

    /// The average of M ĝ²/N.
    pub(super) fn curvature(&self) -> Tensor<1> {
        self.corrected(&self.square, DECAYS.1)
    }

    /// An average that began at zero, without its bias towards zero.
    fn corrected(&self, average: &Param<Tensor<1>>, decay: f64) -> Tensor<1> {
        let steps = i32::try_from(*self.steps.value()).unwrap_or(i32::MAX);
        let average = average.val().without_autodiff();
        average.div_scalar(1.0 - decay.powi(steps))
    }
}
