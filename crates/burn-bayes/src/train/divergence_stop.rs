//! Stops training when a gradient is not finite, and keeps the last good state.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use burn::module::Module;
use burn::train::Interrupter;

use crate::error::Error;

/// How training stops on an error, and the error that stopped it.
#[derive(Clone, Default)]
pub(crate) struct DivergenceStop {
    interrupter: Option<Interrupter>,
    /// Whether the caller of every step looks at the fault.
    is_returned: bool,
    rescue: Option<PathBuf>,
    fault: Arc<OnceLock<Arc<Error>>>,
    saving: Arc<Mutex<()>>,
}

impl std::fmt::Debug for DivergenceStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DivergenceStop")
            .field("interrupter", &self.interrupter.is_some())
            .field("rescue", &self.rescue)
            .field("fault", &self.fault.get())
            .finish()
    }
}

impl DivergenceStop {
    /// A new interrupter means a new training run: an earlier error is cleared.
    pub(crate) fn with_interrupter(self, interrupter: Interrupter) -> Self {
        Self {
            interrupter: Some(interrupter),
            fault: Arc::default(),
            ..self
        }
    }

    /// Leaves errors to the caller of every step, if there is no interrupter. An earlier error is cleared.
    pub(crate) fn returned(self, is_on: bool) -> Self {
        match self.interrupter {
            Some(_) => self,
            None => Self {
                is_returned: is_on,
                fault: Arc::default(),
                ..self
            },
        }
    }

    pub(crate) fn with_rescue(self, path: PathBuf) -> Self {
        Self {
            rescue: Some(path),
            ..self
        }
    }

    /// The error that stopped the training.
    pub(crate) fn fault(&self) -> Option<Arc<Error>> {
        self.fault.get().cloned()
    }

    /// Whether an error stopped the training, and it has not been resumed.
    pub(crate) fn has_stopped(&self) -> bool {
        let stopped = match &self.interrupter {
            Some(interrupter) => interrupter.should_stop(),
            None => self.is_returned,
        };
        stopped && self.fault.get().is_some()
    }

    /// Saves `state`, the last good one, and stops the training.
    ///
    /// # Panics
    ///
    /// If there is no interrupter and errors are not returned: a training step cannot stop the training in another way.
    pub(crate) fn stop<M: Module>(&self, error: Error, state: &M) {
        let first = self.fault.get().is_none();
        let error = self.fault.get_or_init(|| Arc::new(error));
        let mut message = error.to_string();
        if let (true, Some(path)) = (first, &self.rescue) {
            // Replicas may fail at the same time; one file is enough.
            let _one = self.saving.lock();
            let shown = path.display();
            message += &match state.clone().into_record().save(path) {
                Ok(()) => format!("; the last good state is saved in {shown}"),
                Err(problem) => {
                    format!("; the last good state could not be saved in {shown}: {problem}")
                }
            };
        }
        match &self.interrupter {
            Some(interrupter) => {
                if first {
                    log::error!("{message}");
                }
                interrupter.stop(Some(&message));
            }
            None if self.is_returned => {
                if first {
                    log::error!("{message}");
                }
            }
            None => panic!("{message}"),
        }
    }
}
