//! Early stopping: the epoch whose model scores best on the held-out rows.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::metrics::EpochMetrics;
use crate::engine::{EpochRecord, Observer, TrainedModel};
use crate::error::Result;

/// The best epoch so far, by the NLL of the held-out rows. Epochs without a score do not count, nor those before the
/// posterior is learned, whose models are not those of the method.
#[derive(Debug)]
pub(super) struct BestEpoch {
    /// Scored epochs without a better one after which the training stops.
    patience: usize,
    best: Option<Best>,
    /// Scored epochs since the best one.
    waited: usize,
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
            waited: 0,
        };
        for metrics in recorded {
            found.count(metrics);
        }
        found
    }

    /// Takes in an epoch, with the model at its end; `Break` if the training should stop.
    pub(super) fn add(
        &mut self,
        metrics: &EpochMetrics,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> Result<ControlFlow<()>> {
        if let Some(best) = self.count(metrics) {
            best.model = Some(snapshot()?);
        }
        Ok(match self.waited >= self.patience {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// The best epoch and its model, if that is still known.
    pub(super) fn into_best(self) -> Option<(usize, Option<TrainedModel>)> {
        self.best.map(|best| (best.epoch, best.model))
    }

    /// Counts an epoch; the best one without its model, if it is this one.
    fn count(&mut self, metrics: &EpochMetrics) -> Option<&mut Best> {
        let epoch = metrics.record.epoch;
        let score = metrics.validation.filter(|score| !score.before_posterior)?;
        let nll = score.nll;
        let is_worse = |best: &Best| nll.partial_cmp(&best.nll) != Some(Ordering::Less);
        if self.best.as_ref().is_some_and(is_worse) {
            self.waited += 1;
            return None;
        }
        self.waited = 0;
        Some(self.best.insert(Best {
            epoch,
            nll,
            model: None,
        }))
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
                r_hat: None,
            },
            validation: nll.is_finite().then_some(ValidationScore {
                nll,
                error: 0.0,
                before_posterior: false,
            }),
        }
    }

    /// Of these epochs, from the first; NaN for one without a score.
    fn recorded(scores: &[f64]) -> Vec<EpochMetrics> {
        let epochs = (1..).zip(scores);
        epochs.map(|(epoch, &nll)| metrics(epoch, nll)).collect()
    }

    const UNUSED: &dyn Fn() -> Result<TrainedModel> = &|| panic!("the epoch is not the best");

    #[test]
    fn patience_counts_the_epochs_that_were_scored() {
        let nan = f64::NAN;
        let mut best = BestEpoch::new(3, &recorded(&[1.0, nan, nan, nan, nan, 2.0, nan, 3.0]));
        let goes_on = best.add(&metrics(9, nan), UNUSED).unwrap();
        assert_eq!(goes_on, ControlFlow::Continue(()));
        let ends = best.add(&metrics(10, 1.5), UNUSED).unwrap();
        assert_eq!(ends, ControlFlow::Break(()));
        assert!(matches!(best.into_best(), Some((1, None))));
    }

    #[test]
    fn epochs_before_the_posterior_is_learned_do_not_count() {
        let before = |epoch, nll| {
            let mut metrics = metrics(epoch, nll);
            metrics.validation.as_mut().unwrap().before_posterior = true;
            metrics
        };
        let stage = [
            before(1, 0.1),
            before(2, 0.5),
            before(3, 0.6),
            before(4, 0.7),
        ];
        let after = [(5, 2.0), (6, 1.0), (7, 1.5)].map(|(epoch, nll)| metrics(epoch, nll));
        let mut best = BestEpoch::new(2, &[&stage[..], &after].concat());
        let ends = best.add(&metrics(8, 1.2), UNUSED).unwrap();
        assert_eq!(ends, ControlFlow::Break(()));
        assert!(matches!(best.into_best(), Some((6, None))));
        let mut early = BestEpoch::new(1, &stage[..3]);
        let goes_on = early.add(&stage[3], UNUSED).unwrap();
        assert_eq!(goes_on, ControlFlow::Continue(()));
        assert!(early.into_best().is_none());
    }

    #[test]
    fn the_least_nll_is_best() {
        let mut best = BestEpoch::new(5, &recorded(&[3.0, 1.0, 2.0, f64::NAN, 1.5, 1.0]));
        let goes_on = best.add(&metrics(7, 1.2), UNUSED).unwrap();
        assert_eq!(goes_on, ControlFlow::Continue(()));
        let ends = best.add(&metrics(8, 1.1), UNUSED).unwrap();
        assert_eq!(ends, ControlFlow::Break(()));
        assert!(matches!(best.into_best(), Some((2, None))));
    }
}
