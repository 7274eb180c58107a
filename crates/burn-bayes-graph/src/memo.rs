//! What is made once for every key, and shared.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Result;

/// Values by key; `None` where there is none to be made.
#[derive(Debug)]
pub(crate) struct Memo<K, V>(RwLock<HashMap<K, Option<Arc<V>>>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Eq + Hash, V> Memo<K, V> {
    /// The value of `key`, made now if it is asked for the first time.
    pub(crate) fn get(
        &self,
        key: K,
        make: impl FnOnce() -> Result<Option<V>>,
    ) -> Result<Option<Arc<V>>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.get(&key) {
            return Ok(value.clone());
        }
        drop(known);
        let value = make()?.map(Arc::new);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(key).or_insert(value).clone())
    }
}
