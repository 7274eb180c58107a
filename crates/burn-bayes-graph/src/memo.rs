//! A least-recently-used cache of recordings, by model, batch shape and number of draws.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::Module;

use crate::batch::{ExampleBatch, signature_of};
use crate::error::Result;
use crate::fields::fields_of;
use crate::self_check::Extent;

/// The memory limit of a cache in bytes. The batches of a training have few shapes, but batches of text may
/// have as many as there are lengths.
const CAPACITY: usize = 64 << 20;

/// Values with a known memory use.
pub(crate) trait MemoryUse {
    /// The approximate memory use in bytes.
    fn bytes(&self) -> usize;
}

/// Everything that a recording depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The ranks and shapes of the batch's tensors.
    shapes: Vec<usize>,
    /// A hash of the model's fields that are not parameters.
    fields: u64,
    /// The number of draws in one pass.
    draws: usize,
}

impl Key {
    pub(crate) fn new<M: Module, B: ExampleBatch>(model: &M, batch: &B, draws: usize) -> Self {
        Self {
            shapes: signature_of(batch),
            fields: fields_of(model),
            draws,
        }
    }

    /// The number of draws in one pass.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// The key with another number of draws.
    pub(crate) fn with_draws(&self, draws: usize) -> Self {
        Self {
            draws,
            ..self.clone()
        }
    }
}

/// Values by key. The least recently used are evicted. A key may have no value, which is cached as `None`.
#[derive(Debug)]
pub(crate) struct Memo<V>(Mutex<Entries<V>>);

#[derive(Debug)]
struct Entries<V> {
    values: HashMap<Key, CacheEntry<V>>,
    /// The memory use of all values.
    bytes: usize,
    /// The number of look-ups.
    time: u64,
    /// The number of uses of each key, by its hash. These are small and outlive the values.
    uses: HashMap<u64, u64>,
}

#[derive(Debug)]
struct CacheEntry<V> {
    value: Option<Arc<V>>,
    bytes: usize,
    last_used: u64,
}

impl<V> Default for Memo<V> {
    fn default() -> Self {
        Self(Mutex::new(Entries {
            values: HashMap::new(),
            bytes: 0,
            time: 0,
            uses: HashMap::new(),
        }))
    }
}

impl<V: MemoryUse> Memo<V> {
    /// The value of `key`, computed by `make` if it is not cached.
    pub(crate) fn get(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Option<V>>,
    ) -> Result<Option<Arc<V>>> {
        if let Some(value) = self.cached(key) {
            return Ok(value);
        }
        let value = make()?.map(Arc::new);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), value.clone());
        Ok(value)
    }

    fn cached(&self, key: &Key) -> Option<Option<Arc<V>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.time += 1;
        let time = known.time;
        let kept = known.values.get_mut(key)?;
        kept.last_used = time;
        Some(kept.value.clone())
    }

    /// Counts a use of `key`, from 1, and calls `compare` with the count if this use is to be compared. A use
    /// whose comparison fails is not counted, so that it is compared again.
    pub(crate) fn count(
        &self,
        key: &Key,
        compare: impl FnOnce(u64, Extent) -> Result<()>,
    ) -> Result<()> {
        /// The largest number of counters, of 16 bytes each.
        const COUNTED: usize = 1 << 16;
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let time = {
            let uses = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).uses;
            if uses.len() >= COUNTED {
                uses.clear();
            }
            let time = uses.entry(hash).or_default();
            *time += 1;
            *time
        };
        let Some(extent) = Extent::at(time) else {
            return Ok(());
        };
        let compared = compare(time, extent);
        if compared.is_err() {
            let uses = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).uses;
            uses.insert(hash, time - 1);
        }
        compared
    }
}

impl<V: MemoryUse> Entries<V> {
    fn insert(&mut self, key: Key, value: Option<Arc<V>>) {
        let kept = CacheEntry {
            // Keys use memory, too.
            bytes: size_of::<Key>() + value.as_ref().map_or(0, |value| value.bytes()),
            value,
            last_used: self.time,
        };
        self.bytes += kept.bytes;
        if let Some(before) = self.values.insert(key, kept) {
            self.bytes -= before.bytes;
        }
        while self.bytes > CAPACITY && self.values.len() > 1 {
            let oldest = self.values.iter().min_by_key(|(_, kept)| kept.last_used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            if let Some(evicted) = self.values.remove(&oldest) {
                self.bytes -= evicted.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Recording(usize);

    impl MemoryUse for Recording {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn key(len: usize) -> Key {
        Key {
            shapes: vec![2, 10, len],
            fields: 0,
            draws: 1,
        }
    }

    /// The count of a use. The first few uses are all compared.
    fn counted(memo: &Memo<Recording>, len: usize) -> u64 {
        let mut number = 0;
        let compare = |count, _| {
            number = count;
            Ok(())
        };
        memo.count(&key(len), compare).unwrap();
        number
    }

    #[test]
    fn many_shapes_use_bounded_memory() {
        let memo = Memo::default();
        for len in 0..5000 {
            let made = memo.get(&key(len), || Ok(Some(Recording(1 << 20))));
            assert!(made.is_ok_and(|made| made.is_some()));
            assert_eq!(counted(&memo, len), 1);
            // A shape in regular use is kept.
            memo.get(&key(0), || panic!("it was evicted")).unwrap();
        }
        let known = memo.0.lock().unwrap();
        assert!(known.bytes <= CAPACITY);
        assert_eq!(known.values.len(), 63);
        drop(known);
        // An evicted value is computed again, and its counter goes on.
        let mut is_made = false;
        memo.get(&key(1), || {
            is_made = true;
            Ok(Some(Recording(1)))
        })
        .unwrap();
        assert!(is_made);
        assert_eq!(counted(&memo, 1), 2);
    }

    #[test]
    fn a_value_above_the_limit_is_kept_alone() {
        let memo = Memo::default();
        for len in 0..3 {
            memo.get(&key(len), || Ok(Some(Recording(2 * CAPACITY))))
                .unwrap();
        }
        assert_eq!(memo.0.lock().unwrap().values.len(), 1);
    }
}
