//! What several cells need: made by the first of them in a process, while the others there wait.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn_bayes_tabular::error::Result;

/// A value that is made when first asked for. What could not be made is tried again by the next who
/// asks.
pub(crate) struct Shared<T> {
    make: Box<dyn Fn() -> Result<T> + Send + Sync>,
    made: Mutex<Option<Arc<T>>>,
}

impl<T> Shared<T> {
    /// Nothing yet, and how to make it.
    pub(crate) fn new(make: impl Fn() -> Result<T> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            make: Box::new(make),
            made: Mutex::new(None),
        })
    }

    /// The value.
    pub(crate) fn get(&self) -> Result<Arc<T>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = made.as_ref() {
            return Ok(value.clone());
        }
        let value = Arc::new((self.make)()?);
        *made = Some(value.clone());
        Ok(value)
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use burn_bayes_tabular::error::TabularError;

    #[test]
    fn it_is_made_once_and_tried_again_after_a_failure() {
        static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
        let shared = Shared::new(|| match ATTEMPTS.fetch_add(1, Ordering::Relaxed) {
            0 => Err(TabularError::Numerical("first".into())),
            attempt => Ok(attempt),
        });
        assert!(shared.get().is_err());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(*shared.get().unwrap(), 1));
            }
        });
    }
}
