//! Checks of the user's model for errors that would not show in the results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use burn::module::{Module, ModuleDisplay};
use burn::train::TrainStep;

use super::own_likelihood::{LossTerms, problem};
use super::own_optimize::changes_of_own_optimize;
use crate::error::{Error, Result};

/// Number of steps after which losses are compared again. At the initial weights, a penalty or a
/// saturated loss can have gradient zero.
const AGAIN_AFTER: u64 = 100;
/// The steps whose loss is compared with the likelihood of their outputs: at the first, label smoothing may not show.
const LIKELIHOOD_AT: [u64; 4] = [0, 5, 20, AGAIN_AFTER];

/// The enabled checks and their results, which clones of a wrapped model share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelfCheck {
    is_off: bool,
    /// A change by the model's own `optimize` beyond the optimiser's step, if there is one.
    own_optimize: Arc<OnceLock<Option<String>>>,
    /// The number of gradients computed from recorded losses.
    gathered: Arc<AtomicU64>,
    /// The number of training steps.
    steps: Arc<AtomicU64>,
    /// What the losses of some steps were compared with; at most four.
    losses: Arc<Mutex<Vec<LossTerms>>>,
    /// What is wrong with the optimiser, if it decays a parameter of the posterior.
    decay: Arc<OnceLock<Option<String>>>,
}

impl SelfCheck {
    /// The same for one training; clones from before it begin again.
    pub(crate) fn taken(&self) -> Self {
        let taken = |count: &AtomicU64| Arc::new(count.swap(0, Ordering::Relaxed).into());
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            gathered: taken(&self.gathered),
            steps: taken(&self.steps),
            losses: Arc::new(Mutex::new(std::mem::take(&mut losses))),
            decay: Arc::default(),
            ..self.clone()
        }
    }

    pub(crate) fn off(self) -> Self {
        Self {
            is_off: true,
            ..self
        }
    }

    /// Whether the checks are enabled; a recording is created with this setting.
    pub(crate) fn is_on(&self) -> bool {
        !self.is_off
    }

    /// Fails if the model's own `optimize`, which the wrapper never calls, differs from the
    /// optimiser's step.
    pub(crate) fn optimize<M>(&self, model: &M) -> Result<()>
    where
        M: Module + ModuleDisplay + TrainStep,
    {
        if self.is_off {
            return Ok(());
        }
        let changes = self
            .own_optimize
            .get_or_init(|| changes_of_own_optimize(model));
        match changes {
            None => Ok(()),
            Some(changes) => Err(Error::config(
                "model",
                format!(
                    "its own `TrainStep::optimize` does more than the optimiser's step \
                     ({changes}), but is not called in a wrapped model, because the algorithm owns \
                     the random weights; do this in `step` or in the optimiser, or after \
                     `optimize` in a custom training loop, and remove it from the model; if the \
                     training does not need it, use `without_self_check()`"
                ),
            )),
        }
    }

    /// Warns if the loss of a training step is no mean negative log-likelihood of its outputs and targets.
    pub(crate) fn likelihood<O: 'static>(&self, output: &O) {
        if self.is_likelihood_due() {
            self.likelihood_of(output);
        }
        self.count_step();
    }

    /// The same without counting the step.
    pub(crate) fn likelihood_of<O: 'static>(&self, output: &O) {
        let Some(terms) = LossTerms::of(output) else {
            return;
        };
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses.push(terms);
        if let Some(problem) = problem(&losses) {
            log::warn!("{problem}; to train with this loss anyway, use `without_self_check()`");
            // One warning is enough.
            self.steps.store(AGAIN_AFTER + 1, Ordering::Relaxed);
        }
    }

    /// Counts a training step.
    pub(crate) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the next step has checks that need the model's own step.
    pub(crate) fn is_step_due(&self) -> bool {
        self.is_likelihood_due() || self.is_loss_due()
    }

    /// Whether the loss of the next step is compared with the likelihood of its outputs.
    pub(crate) fn is_likelihood_due(&self) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        self.is_on() && LIKELIHOOD_AT.contains(&steps)
    }

    /// Warns at the first call if `decayed` names a parameter of the posterior that the optimiser decays.
    pub(crate) fn decay(&self, decayed: impl FnOnce() -> Option<String>) {
        if self.is_off {
            return;
        }
        self.decay.get_or_init(|| {
            let problem = format!(
                "the optimiser decays `{}`, a parameter of the posterior, whose gradient contains the prior already: the \
                 deviations are wrong; use an optimiser without weight decay, and `with_prior` for a stronger prior",
                decayed()?
            );
            log::warn!("{problem}");
            Some(problem)
        });
    }

    /// What is wrong with the optimiser, if something is.
    pub(crate) fn problem_of_optimizer(&self) -> Option<String> {
        self.decay.get().cloned().flatten()
    }

    /// Whether this gradient of the recorded losses must be compared with that of the model's own
    /// step.
    pub(crate) fn is_loss_due(&self) -> bool {
        let gathered = self.gathered.load(Ordering::Relaxed);
        self.is_on() && matches!(gathered, 0 | AGAIN_AFTER)
    }

    /// Counts a gradient of the recorded losses, after its comparison if there was one.
    pub(crate) fn gathered(&self) {
        self.gathered.fetch_add(1, Ordering::Relaxed);
    }
}
