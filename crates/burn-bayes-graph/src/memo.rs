//! What is made once for every kind of batch, and kept for the kinds that were used last.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::Module;

use crate::batch::{ExampleBatch, signature_of};
use crate::error::Result;
use crate::fields::fields_of;
use crate::self_check::Extent;

/// The memory of what is kept. The batches of a training have a few shapes, and those of texts as many as
/// there are lengths.
const CAPACITY: usize = 64 << 20;

/// What takes memory.
pub(crate) trait Weighed {
    /// About how much.
    fn bytes(&self) -> usize;
}

/// What a recording depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The shapes of the batch's tensors.
    shapes: Vec<usize>,
    /// The fields of the model that are no parameters.
    fields: u64,
    /// Draws in one pass.
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

    /// Draws in one pass.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// The same for another number of draws.
    pub(crate) fn with_draws(&self, draws: usize) -> Self {
        Self {
            draws,
            ..self.clone()
        }
    }
}

/// Values by key, of which the least recently used are forgotten; `None` where there is none to be made.
#[derive(Debug)]
pub(crate) struct Memo<V>(Mutex<Known<V>>);

#[derive(Debug)]
struct Known<V> {
    values: HashMap<Key, Kept<V>>,
    /// The memory of all values.
    bytes: usize,
    /// Counts the questions.
    time: u64,
    /// How often each key was asked for, by its hash: less than its value, and so kept for longer.
    uses: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Kept<V> {
    value: Option<Arc<V>>,
    bytes: usize,
    last_used: u64,
}

impl<V> Default for Memo<V> {
    fn default() -> Self {
        Self(Mutex::new(Known {
            values: HashMap::new(),
            bytes: 0,
            time: 0,
            uses: HashMap::new(),
        }))
    }
}

impl<V: Weighed> Memo<V> {
    /// The value of `key`, made now if it is not known.
    pub(crate) fn get(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Option<V>>,
    ) -> Result<Option<Arc<V>>> {
        if let Some(value) = self.known(key) {
            return Ok(value);
        }
        let value = make()?.map(Arc::new);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), value.clone());
        Ok(value)
    }

    fn known(&self, key: &Key) -> Option<Option<Arc<V>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.time += 1;
        let time = known.time;
        let kept = known.values.get_mut(key)?;
        kept.last_used = time;
        Some(kept.value.clone())
    }

    /// Counts a use of `key`, from 1, and calls `compare` with the number of it where something is to be
    /// compared. What fails is not counted, and so is compared again.
    pub(crate) fn count(
        &self,
        key: &Key,
        compare: impl FnOnce(u64, Extent) -> Result<()>,
    ) -> Result<()> {
        /// Numbers of 16 bytes each.
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

impl<V: Weighed> Known<V> {
    fn insert(&mut self, key: Key, value: Option<Arc<V>>) {
        let kept = Kept {
            // A key takes memory, too.
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
            if let Some(forgotten) = self.values.remove(&oldest) {
                self.bytes -= forgotten.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Recording(usize);

    impl Weighed for Recording {
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

    /// The number of a use, for the first few, which are all compared.
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
    fn ever_new_shapes_do_not_take_ever_more_memory() {
        let memo = Memo::default();
        for len in 0..5000 {
            let made = memo.get(&key(len), || Ok(Some(Recording(1 << 20))));
            assert!(made.is_ok_and(|made| made.is_some()));
            assert_eq!(counted(&memo, len), 1);
            // A shape that keeps coming is kept.
            memo.get(&key(0), || panic!("it was forgotten")).unwrap();
        }
        let known = memo.0.lock().unwrap();
        assert!(known.bytes <= CAPACITY);
        assert_eq!(known.values.len(), 63);
        drop(known);
        // What was forgotten is made again, and not counted anew.
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
    fn what_is_larger_than_all_memory_is_kept_alone() {
        let memo = Memo::default();
        for len in 0..3 {
            memo.get(&key(len), || Ok(Some(Recording(2 * CAPACITY))))
                .unwrap();
        }
        assert_eq!(memo.0.lock().unwrap().values.len(), 1);
    }
}
