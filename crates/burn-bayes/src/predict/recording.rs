//! A cache of the recording of a model, created on first use.
//!
//! A recording holds no parameters, so all copies of a model can share it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The cached recording, if it has been made.
#[derive(Clone, Default)]
pub(crate) struct RecordingCache(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl RecordingCache {
    /// A cache that holds this recording.
    pub(crate) fn holding<R: Send + Sync + 'static>(recording: R) -> Self {
        let known: Arc<dyn Any + Send + Sync> = Arc::new(recording);
        Self(Arc::new(OnceLock::from(known)))
    }

    /// The recording, if it exists and has this type.
    pub(crate) fn known<R: Send + Sync + 'static>(&self) -> Option<Arc<R>> {
        self.0.get()?.clone().downcast().ok()
    }

    /// The recording, created if there is none.
    pub(crate) fn get<R: Send + Sync + 'static>(&self, make: impl Fn() -> R) -> Arc<R> {
        let known = self.0.get_or_init(|| Arc::new(make())).clone();
        known.downcast().unwrap_or_else(|_| Arc::new(make()))
    }
}

impl fmt::Debug for RecordingCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingCache")
            .field(&self.0.get().is_some())
            .finish()
    }
}
