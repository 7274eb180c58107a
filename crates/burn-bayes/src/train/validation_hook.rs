//! What a wrapped model does at the first validation of every posterior.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A function of the model and its posterior; clones of a wrapped model share it. The type of the model is erased,
/// because a module cannot skip a field that has it.
pub(crate) struct ValidationHook<P>(Option<Arc<Function<P>>>);

type Function<P> = dyn Fn(&dyn Any, &P) + Send + Sync;

impl<P> ValidationHook<P> {
    pub(crate) fn new<M: 'static>(function: impl Fn(&M, &P) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(move |model: &dyn Any, posterior: &P| {
            let model = model.downcast_ref();
            function(model.expect("the hook is of this model"), posterior);
        })))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn call<M: 'static>(&self, model: &M, posterior: &P) {
        if let Some(function) = &self.0 {
            function(model, posterior);
        }
    }
}

impl<P> Clone for ValidationHook<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> Default for ValidationHook<P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P> fmt::Debug for ValidationHook<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.is_set() { "set" } else { "none" };
        write!(f, "ValidationHook({shown})")
    }
}
