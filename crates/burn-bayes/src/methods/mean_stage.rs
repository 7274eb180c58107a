//! The first stage of a training, in which only the mean learns, and the test that ends it.
//!
//! Far from the mode, gradients with respect to a covariance describe the way there and not the posterior.
//! So the mean is trained first, as in an ordinary training with weight decay. It has converged when it
//! fluctuates instead of travelling: with the means a and b of a coordinate over two successive windows of
//! steps, and its variance v within the second, the test statistic is the average over coordinates of
//!
//! * r/(1+r) with r = (a−b)²/v,
//!
//! which is .87 for a constant velocity, about .56 for a random walk, and near 0 for fluctuations that are
//! short compared with a window. Windows double, so the test needs neither the scale of the weights nor the
//! length of the training.
//!
//! The prior grows in the first half of the stage, from nothing. In a deep network without normalisation, the gradients of the
//! first layers are small at the beginning, so that Adam would follow the prior to the origin, where all gradients vanish.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::start::{buffer, updated};
use crate::recorded::{Recorded, RecordedValue};

/// When a training goes on from the mean alone to the whole posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MeanStage {
    /// Everything learns from the first step on.
    None,
    /// After this many steps.
    Steps(u64),
    /// When the mean has converged: it fluctuates more than it travels. The test is made at steps that are
    /// powers of two.
    UntilConverged {
        /// The largest number of steps; by default two passes over the training examples, or 256 steps if
        /// those are fewer; three tenths of a training whose length is known.
        at_most: Option<u64>,
    },
}

/// Passes over the training examples after which the stage ends at the latest, if nothing else is set: a short
/// training must not end with the initial deviations.
const MOST_PASSES: usize = 2;
/// The least value of this limit, in steps: a few passes over few examples get a mean nowhere.
const LEAST_LIMIT: u64 = 256;
/// This limit, as a part of a training whose length is known.
const MOST_OF_TRAINING: f64 = 0.3;

/// The prior grows in this part of the stage, and in at most so many steps.
const WARM_UP: f64 = 0.5;
const LONGEST_WARM_UP: u64 = 1024;

/// The share of the prior that counts in step number `step` (from 1), if it grows in `warm_up` steps.
pub(crate) fn share_of_prior(step: u64, warm_up: u64) -> f64 {
    match step < warm_up {
        true => step as f64 / warm_up as f64,
        false => 1.0,
    }
}

impl MeanStage {
    /// Whether there is no such stage.
    pub(crate) fn is_none(self) -> bool {
        matches!(self, Self::None | Self::Steps(0))
    }

    /// With the default of `at_most` for a training with this number of examples per step, and of this number of
    /// steps if it is known.
    pub(crate) fn resolved(self, train_len: usize, examples: u64, length: Option<u64>) -> Self {
        let passes = (MOST_PASSES * train_len) as u64;
        // The size of mini-batches may be unknown.
        let passes = passes.checked_div(examples).unwrap_or(0);
        let most = match length {
            Some(steps) => ((MOST_OF_TRAINING * steps as f64) as u64).max(1),
            None => passes.max(LEAST_LIMIT),
        };
        match self {
            Self::UntilConverged { at_most } => Self::UntilConverged {
                at_most: Some(at_most.unwrap_or(most)),
            },
            other => other,
        }
    }

    /// The number of steps in which the prior grows in a training of this number of steps, if nothing is set.
    #[doc(hidden)]
    pub fn default_warm_up(steps: u64) -> u64 {
        let stage = Self::UntilConverged { at_most: None };
        stage.resolved(0, 0, Some(steps)).warm_up()
    }

    /// The number of steps in which the prior grows, of a stage that is [resolved](Self::resolved).
    pub(crate) fn warm_up(self) -> u64 {
        match self {
            Self::Steps(most)
            | Self::UntilConverged {
                at_most: Some(most),
            } => ((WARM_UP * most as f64) as u64).min(LONGEST_WARM_UP),
            Self::None | Self::UntilConverged { at_most: None } => 0,
        }
    }
}

/// Steps of the first window.
const FIRST_WINDOW: u64 = 64;
/// The mean has converged below this value of the test statistic.
const CONVERGED_BELOW: f64 = 0.5;

/// What the test remembers, and whether the stage is over.
#[derive(Module, Debug)]
pub(crate) struct MeanProgress {
    /// The mean over the previous window.
    previous: Param<Tensor<1>>,
    /// The mean over the current window so far.
    current: Param<Tensor<1>>,
    /// The sum of squared distances from it.
    scatter: Param<Tensor<1>>,
    /// The step after which the stage ended.
    end: Recorded<Option<u64>>,
}

impl MeanProgress {
    pub(crate) fn new(mean: &Tensor<1>) -> Self {
        Self {
            previous: buffer(mean.clone()),
            current: buffer(mean.clone()),
            scatter: buffer(mean.zeros_like()),
            end: Recorded::new(None, &mean.device()),
        }
    }

    /// The memory for this number of weights.
    pub(crate) fn bytes(weights: usize) -> usize {
        3 * weights * size_of::<f32>()
    }

    /// The step after which the stage ended, if it has.
    pub(crate) fn end(&self) -> Option<u64> {
        *self.end.value()
    }

    /// Takes in the mean after step number `step` (from 1).
    pub(crate) fn after_step(mut self, mean: &Tensor<1>, step: u64, stage: MeanStage) -> Self {
        if self.end().is_some() {
            return self;
        }
        let is_over = match stage {
            MeanStage::None => true,
            MeanStage::Steps(steps) => step >= steps,
            MeanStage::UntilConverged { at_most } => {
                self = self.with(mean, step);
                at_most.is_some_and(|most| step >= most)
                    || (is_test(step) && step >= stage.warm_up() && self.has_converged(step))
            }
        };
        if is_over {
            self.end = self.end.with_value(Some(step));
        } else if is_test(step) {
            self.previous = self.current;
            self.current = buffer(mean.clone());
            self.scatter = buffer(mean.zeros_like());
        }
        self
    }

    /// Welford's update of the current window.
    fn with(self, mean: &Tensor<1>, step: u64) -> Self {
        let share = 1.0 / window_steps(step) as f64;
        let before = self.current.val().without_autodiff();
        let mean = mean.clone().to_device(&before.device());
        let gap = mean.clone() - before;
        let current = updated(self.current, |before| {
            before + gap.clone().mul_scalar(share)
        });
        let left = mean - current.val().without_autodiff();
        let scatter = updated(self.scatter, |scatter| scatter + gap * left);
        Self {
            current,
            scatter,
            ..self
        }
    }

    fn has_converged(&self, step: u64) -> bool {
        let [previous, current, scatter] = [&self.previous, &self.current, &self.scatter]
            .map(|param| param.val().without_autodiff());
        let variance = scatter.div_scalar(window_steps(step) as f64);
        let travelled = (current - previous).square();
        let both = (travelled.clone() + variance).add_scalar(f32::MIN_POSITIVE);
        let statistic: f64 = (travelled / both).mean().into_scalar();
        statistic < CONVERGED_BELOW
    }
}

/// Whether a window ends at this step.
fn is_test(step: u64) -> bool {
    step >= FIRST_WINDOW && step.is_power_of_two()
}

/// The number of steps of the current window, this one included.
fn window_steps(step: u64) -> u64 {
    match step {
        0..=FIRST_WINDOW => step.max(1),
        // Steps since the last power of two.
        _ => step - (1 << (step - 1).ilog2()),
    }
}

impl RecordedValue for Option<u64> {
    fn numbers(&self) -> Vec<u64> {
        vec![self.map_or(0, |step| step + 1)]
    }

    fn restored(self, numbers: &[u64]) -> Self {
        numbers.first().and_then(|number| number.checked_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::noise::Noise;

    const UNTIL: MeanStage = MeanStage::UntilConverged { at_most: None };

    /// The step at which the stage of a path ends, at most `steps`.
    fn end(steps: u64, stage: MeanStage, path: impl Fn(u64) -> Tensor<1>) -> Option<u64> {
        let mut progress = MeanProgress::new(&path(0));
        for step in 1..=steps {
            progress = progress.after_step(&path(step), step, stage);
        }
        progress.end()
    }

    #[test]
    fn travelling_means_have_not_converged() {
        let device = Device::default();
        let line = |step: u64| Tensor::from_data([step as f32, -(step as f32)], &device);
        assert_eq!(end(5000, UNTIL, line), None);
        let most = MeanStage::UntilConverged { at_most: Some(700) };
        assert_eq!(end(5000, most, line), Some(700));
        assert_eq!(end(5000, MeanStage::Steps(33), line), Some(33));
    }

    #[test]
    fn random_walks_have_not_converged() {
        let device = Device::default();
        let mut walk = vec![Tensor::<1>::zeros([200], &device)];
        for step in 0..2048 {
            let last = walk[walk.len() - 1].clone();
            walk.push(last + Noise::new(3).row(step).normal(200, &device));
        }
        assert_eq!(end(2048, UNTIL, |step| walk[step as usize].clone()), None);
    }

    #[test]
    fn fluctuations_around_a_limit_have_converged() {
        let device = Device::default();
        let path = |scale: f32| {
            let device = device.clone();
            move |step: u64| {
                let noise = Noise::new(4).row(step).normal(50, &device);
                noise.mul_scalar(0.1 * scale) + (scale * 20.0 * (-(step as f32) / 100.0).exp())
            }
        };
        let found = end(4096, UNTIL, path(1.0)).expect("it converges");
        assert!((512..=2048).contains(&found), "{found}");
        assert_eq!(end(4096, UNTIL, path(1e-4)), Some(found));
    }

    #[test]
    fn a_record_restores_the_end_and_the_windows() {
        let device = Device::default();
        let at = |step: u64| Noise::new(9).row(step).normal(3, &device);
        let mut progress = MeanProgress::new(&at(0));
        for step in 1..100 {
            progress = progress.after_step(&at(step), step, MeanStage::Steps(40));
        }
        let fresh = MeanProgress::new(&at(0)).load_record(progress.clone().into_record());
        assert_eq!(fresh.end(), Some(40));
        let mut progress = MeanProgress::new(&at(0)).after_step(&at(1), 1, UNTIL);
        progress.end = progress.end.with_value(Some(5 << 40));
        let fresh = MeanProgress::new(&at(0)).load_record(progress.clone().into_record());
        assert_eq!(fresh.end(), progress.end());
        assert_eq!(
            fresh.current.val().into_data(),
            progress.current.val().into_data()
        );
    }

    #[test]
    fn windows_double() {
        let sizes = [1, 64, 65, 128, 129, 256, 257].map(window_steps);
        assert_eq!(sizes, [1, 64, 1, 64, 1, 128, 1]);
    }
}
