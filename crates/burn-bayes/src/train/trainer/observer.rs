//! What watches a training: its epochs, its checkpoints and its end.

use std::ops::ControlFlow;

use burn_bayes_eval::Bounded;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Watches a training, and may end it; `()` does neither.
pub trait TrainingObserver<L> {
    /// The error of the observer's own actions.
    type Error: From<Error>;

    /// Called after every epoch with the model as it is; `Break` ends the training.
    fn epoch(&mut self, summary: &EpochSummary, model: &L) -> Result<ControlFlow<()>, Self::Error> {
        let _ = (summary, model);
        Ok(ControlFlow::Continue(()))
    }

    /// Called after every epoch that does not end the training: the model to go on with, which is part of the
    /// checkpoint of this epoch.
    fn adjusted(&mut self, summary: &EpochSummary, model: L) -> Result<L, Self::Error> {
        let _ = summary;
        Ok(model)
    }

    /// Asked before every step whether to interrupt the training.
    fn interrupts(&self) -> bool {
        false
    }

    /// Called when a checkpoint can be saved; `checkpoint` makes one.
    fn checkpoint(
        &mut self,
        when: CheckpointTime,
        checkpoint: &dyn Fn() -> Result<Checkpoint>,
    ) -> Result<(), Self::Error> {
        let _ = (when, checkpoint);
        Ok(())
    }
}

impl<L> TrainingObserver<L> for () {
    type Error = Error;
}

/// When a checkpoint can be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointTime {
    /// After this many epochs.
    Epoch(usize),
    /// The training is interrupted.
    Interruption,
}

/// The result of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EpochSummary {
    /// The epoch, from 1.
    pub epoch: usize,
    /// The mean loss over the rows of all batches.
    pub loss: f64,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingEnd {
    /// All epochs were made.
    Finished,
    /// The observer ended it after an epoch.
    Stopped,
    /// The observer interrupted it.
    Interrupted,
}

/// The losses of the epochs of a training, of which one alone has the noise of its draws and mini-batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochLosses {
    /// A moving average: the share of the t-th epoch is 1/√t, and at least a tenth.
    pub recent: f64,
    /// The least of these averages.
    pub least: f64,
}

impl EpochLosses {
    /// With one more epoch, of this number from 1.
    pub(super) fn after(before: Option<Self>, epoch: usize, loss: f64) -> Self {
        let Some(Self { recent, least }) = before else {
            return Self {
                recent: loss,
                least: loss,
            };
        };
        let share = (epoch as f64).sqrt().recip().at_least(0.1);
        let recent = recent + share * (loss - recent);
        Self {
            recent,
            least: least.at_most(recent),
        }
    }
}

/// The state of a training between two steps, without the batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Optimiser steps made.
    pub step: u64,
    /// The sum of the losses of the epoch's rows so far.
    pub loss_sum: f32,
    /// The number of these rows, or of the batches if their rows are unknown.
    pub rows: u64,
    /// The losses of the epochs so far.
    pub losses: Option<EpochLosses>,
    /// The record of the model.
    pub model: Vec<u8>,
    /// The record of the optimiser.
    pub optimizer: Vec<u8>,
}
