//! What watches a training: its epochs, its checkpoints and its end.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// Watches a training, and may end it.
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

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl<L> TrainingObserver<L> for Unobserved {
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

/// The state of a training between two steps, without the batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Optimiser steps made.
    pub step: u64,
    /// The sum of the losses of the epoch's rows so far.
    pub loss_sum: f32,
    /// The number of these rows, or of the batches if their rows are unknown.
    pub rows: u64,
    /// The mean loss of the best epoch so far.
    pub in_best_epoch: Option<f64>,
    /// The record of the model.
    pub model: Vec<u8>,
    /// The record of the optimiser.
    pub optimizer: Vec<u8>,
}
