//! The lengths of the stages.

use crate::methods::average::Averaging;
use crate::methods::mean_stage::{MeanProgress, MeanStage};

/// The number of steps of the second stage, and the largest part of a training whose length is known.
pub(super) const SCALE_STEPS: u64 = 64;
pub(super) const SCALE_PART: f64 = 0.1;
/// Fewer steps have no time for first stages.
pub(super) const FEWEST_STEPS: u64 = 16;

/// What does not change in a training.
#[derive(Clone, Debug)]
pub(crate) struct StageSettings {
    pub(crate) train_len: usize,
    pub(crate) mean_stage: MeanStage,
    /// The learning rate of Adam; `None` if the user's optimiser trains the mean.
    pub(crate) mean_rate: Option<f64>,
    /// The largest number of steps of the second stage, in which the start of the covariance is found; 0 without it.
    pub(crate) scale_steps: u64,
    pub(crate) averaging: Averaging,
}

impl StageSettings {
    /// Whose mean the user's optimiser trains.
    pub(crate) fn new(train_len: usize, mean_stage: MeanStage, averaging: Averaging) -> Self {
        Self {
            train_len,
            mean_stage,
            mean_rate: None,
            scale_steps: SCALE_STEPS,
            averaging,
        }
    }

    /// With Adam, and a search for the scale unless a start is set.
    pub(crate) fn with_adam(self, rate: f64, has_start: bool) -> Self {
        Self {
            mean_rate: Some(rate),
            scale_steps: if has_start { 0 } else { SCALE_STEPS },
            ..self
        }
    }

    /// With first stages that are over after three quarters of this number of steps, and none if they are fewer than
    /// [`FEWEST_STEPS`].
    pub(crate) fn within(self, steps: u64) -> Self {
        let mean_stage = match self.mean_stage {
            MeanStage::UntilConverged { at_most: None } if steps < FEWEST_STEPS => MeanStage::None,
            MeanStage::UntilConverged { at_most: None } => MeanStage::UntilConverged {
                at_most: Some(steps / 2),
            },
            set => set,
        };
        Self {
            mean_stage,
            scale_steps: self.scale_steps.min(steps / 4),
            ..self
        }
    }

    /// The memory of the stages for this number of weights, with an average of so many numbers.
    pub(crate) fn bytes(&self, weights: usize, averaged: usize) -> usize {
        let adam = usize::from(self.mean_rate.is_some()) * 2 * weights * size_of::<f32>();
        let first = match self.mean_stage.is_none() {
            true => 0,
            false => MeanProgress::bytes(weights) + adam,
        };
        let average = usize::from(self.averaging != Averaging::None);
        first + average * averaged * size_of::<f32>()
    }
}
