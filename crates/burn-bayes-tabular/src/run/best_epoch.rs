//! Early stopping: the epoch whose model scores best on the held-out rows.

use std::ops::ControlFlow;

use super::metrics::EpochMetrics;
use crate::engine::{EpochRecord, Observer, TrainedModel};
use crate::error::Result;

/// The best epoch so far, by the NLL of the held-out rows.
#[derive(Debug)]
pub(super) struct BestEpoch {
    /// Epochs without a better one after which the training stops.
    patience: usize,
    best: Option<Best>,
}

#[derive(Debug)]
struct Best {
    /// From 1.
    epoch: usize,
    nll: f64,
    /// `None` if the training was interrupted since.
    model: Option<TrainedModel>,
}

impl BestEpoch {
    /// Of a training that goes on after these epochs.
    pub(super) fn new(patience: usize, recorded: &[EpochMetrics]) -> Self {
        let mut found = Self {
            patience,
            best: None,
        };
        for metrics in recorded {
            if found.is_best(metrics) {
                found.best = Best::of(metrics, None);
            }
        }
        found
    }

    /// Takes in an epoch, with the model at its end; `Break` if the training should stop.
    pub(super) fn add(
        &mut self,
        metrics: &EpochMetrics,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> Result<ControlFlow<()>> {
        if self.is_best(metrics) {
            self.best = Best::of(metrics, Some(snapshot()?));
        }
        let waited = self.best.as_ref();
        let waited = waited.map_or(0, |best| metrics.record.epoch - best.epoch);
        Ok(match waited >= self.patience {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// The best epoch and its model, if that is still known.
    pub(super) fn into_best(self) -> Option<(usize, Option<TrainedModel>)> {
        self.best.map(|best| (best.epoch, best.model))
    }

    fn is_best(&self, metrics: &EpochMetrics) -> bool {
        let known = self.best.as_ref().map_or(f64::INFINITY, |best| best.nll);
        metrics.validation.is_some_and(|score| score.nll < known)
    }
}

impl Best {
    fn of(metrics: &EpochMetrics, model: Option<TrainedModel>) -> Option<Self> {
        metrics.validation.map(|score| Self {
            epoch: metrics.record.epoch,
            nll: score.nll,
            model,
        })
    }
}

/// Ends a training after an epoch, and forwards all calls but checkpoints.
pub(super) struct StopAfter<'a> {
    /// From 1.
    pub(super) epoch: usize,
    pub(super) observer: &'a mut dyn Observer,
}

impl Observer for StopAfter<'_> {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        match self.observer.epoch(record, snapshot) {
            ControlFlow::Continue(()) if record.epoch < self.epoch => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn learns_noise(&mut self, training: usize, trainings: usize) {
        self.observer.learns_noise(training, trainings);
    }

    fn interrupts(&self) -> bool {
        self.observer.interrupts()
    }

    fn warn(&mut self, warning: &str) {
        self.observer.warn(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::progress::ValidationScore;

    fn metrics(epoch: usize, nll: f64) -> EpochMetrics {
        EpochMetrics {
            record: EpochRecord {
                epoch,
                epochs: 100,
                loss: 1.0,
            },
            validation: nll
                .is_finite()
                .then_some(ValidationScore { nll, error: 0.0 }),
        }
    }

    #[test]
    fn the_least_nll_is_best_and_patience_counts_epochs() {
        let scores = [3.0, 1.0, 2.0, f64::NAN, 1.5, 1.0];
        let epochs = (1..).zip(scores);
        let recorded: Vec<_> = epochs.map(|(epoch, nll)| metrics(epoch, nll)).collect();
        let mut best = BestEpoch::new(5, &recorded);
        let unused: &dyn Fn() -> Result<TrainedModel> = &|| panic!("the epoch is not the best");
        let goes_on = best.add(&metrics(6, 1.2), unused).unwrap();
        assert_eq!(goes_on, ControlFlow::Continue(()));
        let ends = best.add(&metrics(7, f64::NAN), unused).unwrap();
        assert_eq!(ends, ControlFlow::Break(()));
        assert!(matches!(best.into_best(), Some((2, None))));
    }
}
