//! Compares the average over draws with the mean's own prediction while a model is validated, and warns.
//!
//! A Learner calls the inference step of a wrapped model with the batches of an epoch, and says neither where the epoch
//! begins nor where it ends. The comparison belongs to a number of optimiser steps: the first batch after a training step
//! begins a new one, and the first training step after it ends it. After the last epoch no such step follows, so a
//! difference of many standard errors is said as soon as it is found.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleDisplay};
use burn::train::InferenceStep;

use super::bayesian::Bayesian;
use crate::error::Result;
use crate::likelihood::MixDraws;
use crate::methods::Algorithm;
use crate::posterior::FactorPosterior;
use crate::verdict::{Reference, ValidationComparison, Verdict};

/// Standard errors, and rows, from which a difference is said before the end of an epoch: it is tested after every batch.
const AT_ONCE: f64 = 5.0;
const ROWS_AT_ONCE: u64 = 30;

/// The comparison of the last validation, which clones of a wrapped model share.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValidationCheck(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    comparison: Option<ValidationComparison>,
    /// Whether this comparison has ended, or its problem was said.
    is_said: bool,
}

impl ValidationCheck {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last validation found.
    pub(crate) fn comparison(&self) -> Option<ValidationComparison> {
        self.state().comparison.clone()
    }

    /// Ends the comparison, and warns if it found a problem.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_said, true) {
            warn(&state.comparison);
        }
    }

    /// Adds a batch to the comparison at this number of optimiser steps.
    fn add(&self, step: u64, reference: Reference, add: impl FnOnce(&mut ValidationComparison)) {
        if self.comparison().is_some_and(|before| before.step != step) {
            self.end();
        }
        let mut state = self.state();
        let begins = state
            .comparison
            .as_ref()
            .is_none_or(|before| before.step != step);
        if begins {
            *state = State {
                comparison: Some(ValidationComparison::new(step, reference)),
                is_said: false,
            };
        }
        let State {
            comparison,
            is_said,
        } = &mut *state;
        let Some(found) = comparison else { return };
        add(found);
        let difference = &found.difference;
        let is_certain = difference.rows() >= ROWS_AT_ONCE && difference.is_above(AT_ONCE);
        if is_certain && !std::mem::replace(is_said, true) {
            warn(comparison);
        }
    }
}

fn warn(comparison: &Option<ValidationComparison>) {
    let verdict = Verdict {
        validation: comparison.clone(),
        ..Verdict::default()
    };
    verdict.warn();
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + InferenceStep<Input: Clone, Output: MixDraws> + 'static,
    A: Algorithm,
{
    /// Predicts a batch of validation rows, and compares the average with the mean's own prediction.
    pub(crate) fn validate(
        &self,
        item: <M as InferenceStep>::Input,
    ) -> Result<<<M as InferenceStep>::Output as MixDraws>::Mixture> {
        let mixture = self.predict(item.clone(), self.prediction_draws())?;
        if self.has_posterior() {
            self.compare(item, &mixture)?;
        }
        Ok(mixture)
    }

    fn compare(
        &self,
        item: <M as InferenceStep>::Input,
        mixture: &<<M as InferenceStep>::Output as MixDraws>::Mixture,
    ) -> Result<()> {
        // Whether the output has a likelihood is known before the reference is evaluated.
        if <<M as InferenceStep>::Output as MixDraws>::row_losses([mixture, mixture]).is_none() {
            return Ok(());
        }
        let predictor = match self.predictor() {
            // The prediction was that of the model's own weights.
            Err(error) if error.is_too_early() => return Ok(()),
            predictor => predictor?,
        };
        let is_gaussian = (predictor.posterior() as &dyn Any).is::<FactorPosterior>();
        let (reference, model) = match is_gaussian {
            true => (Reference::Mean, predictor.mean_model()?),
            false => (Reference::FirstDraw, predictor.drawn_model(0)?),
        };
        let alone = InferenceStep::step(&model, item);
        self.validation_check()
            .add(self.steps(), reference, |found| {
                found.add_outputs(mixture, alone);
            });
        Ok(())
    }
}
