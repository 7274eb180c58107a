//! What a training checks of the model that it was given, because nothing in its results would show it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use burn::module::{Module, ModuleDisplay};
use burn::train::TrainStep;

use super::own_optimize::changes_of_own_optimize;
use crate::error::{Error, Result};

/// Steps after which losses are compared again: by then the weights have left their start, where a
/// penalty or a saturated loss can have no gradient.
const AGAIN_AFTER: u64 = 100;

/// Which checks are wanted, and what they found; clones of a wrapped model share what was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelfCheck {
    is_off: bool,
    /// What the model's own `optimize` changes beside the optimiser, if it does.
    own_optimize: Arc<OnceLock<Option<String>>>,
    /// Gradients that were gathered from recorded losses.
    gathered: Arc<AtomicU64>,
}

impl SelfCheck {
    pub(crate) fn off(self) -> Self {
        Self {
            is_off: true,
            ..self
        }
    }

    /// Whether anything is checked: what a recording is told when it is made.
    pub(crate) fn is_on(&self) -> bool {
        !self.is_off
    }

    /// Fails if the model's own `optimize`, which the wrapper never calls, is not the optimiser's step.
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
                    "its own `TrainStep::optimize` does more than the optimiser's step ({changes}), and \
                     is not called in a wrapped model, whose random weights are the algorithm's; do the \
                     same to the gradients in `step` or by the optimiser, or in a loop of your own after \
                     `optimize`, and take it out of the model; if the training can do without it, \
                     `without_self_check()`"
                ),
            )),
        }
    }

    /// Whether the gradient of the recorded losses is to be compared with that of the model's own step.
    pub(crate) fn is_loss_due(&self) -> bool {
        let gathered = self.gathered.load(Ordering::Relaxed);
        self.is_on() && matches!(gathered, 0 | AGAIN_AFTER)
    }

    /// A gradient of the recorded losses was gathered, and passed if it was compared.
    pub(crate) fn gathered(&self) {
        self.gathered.fetch_add(1, Ordering::Relaxed);
    }
}
