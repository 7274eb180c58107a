//! The recording of a model, kept from the first time that it is asked for.
//!
//! A recording holds no parameters, and is good for all copies of a model.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A recording that was made, if it was, of the one type that is asked for.
#[derive(Clone, Default)]
pub(crate) struct RecordingCache(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl RecordingCache {
    /// This one, from the start.
    pub(crate) fn holding<R: Send + Sync + 'static>(recording: R) -> Self {
        let known: Arc<dyn Any + Send + Sync> = Arc::new(recording);
        Self(Arc::new(OnceLock::from(known)))
    }

    /// The recording, if there is one of this type.
    pub(crate) fn known<R: Send + Sync + 'static>(&self) -> Option<Arc<R>> {
        self.0.get()?.clone().downcast().ok()
    }

    /// The recording, made if there is none.
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
