//! A least-recently-used cache of recordings, by model, batch shape and number of draws.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::batch::{ExampleBatch, Signature};
use crate::error::Result;
use crate::memory_use::{ALLOCATION, MemoryUse, vec_bytes};
use crate::self_check::{Extent, Largest, Use};

/// The memory limit of all recordings of a model in bytes. The batches of a training have few shapes, but batches of
/// text may have as many as there are lengths.
pub(crate) const CAPACITY: usize = 64 << 20;

/// As many values are kept, whatever they need: an epoch has batches of two shapes, of which the last is the smaller one,
/// and a large network would otherwise be recorded twice in each.
const FEWEST: usize = 2;

/// Everything that a recording depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    batch: Signature,
    /// A hash of the model's fields that are not parameters.
    fields: u64,
    /// The number of draws in one pass.
    draws: usize,
}

impl Key {
    /// For a model with this hash of its fields.
    pub(crate) fn new<B: ExampleBatch>(fields: u64, batch: &B, draws: usize) -> Self {
        Self {
            batch: Signature::of(batch),
            fields,
            draws,
        }
    }

    /// The number of draws in one pass.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// Whether the batch has values that the key does not show, and that may differ at every use.
    pub(crate) fn has_hidden(&self) -> bool {
        self.batch.has_hidden
    }

    /// The memory use in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + vec_bytes(&self.batch.shapes) + vec_bytes(&self.batch.types)
    }

    /// The key of a recording that depends on something besides, with this hash.
    pub(crate) fn with_mode(&self, mode: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (self.fields, mode).hash(&mut hasher);
        Self {
            fields: hasher.finish(),
            ..self.clone()
        }
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
    /// The limit of the memory use.
    capacity: usize,
    /// The memory use of all values.
    bytes: usize,
    /// The number of look-ups.
    time: u64,
    /// The counters of all keys, by the key's hash. These are small and outlive the values.
    uses: HashMap<u64, Arc<AtomicU64>>,
    largest: Arc<LargestSeen>,
}

#[derive(Debug)]
struct CacheEntry<V> {
    value: Option<Cached<V>>,
    bytes: usize,
    last_used: u64,
}

/// A cached value.
#[derive(Debug)]
pub(crate) struct Cached<V> {
    value: Arc<V>,
    /// The number of uses.
    uses: Arc<AtomicU64>,
    largest: Arc<LargestSeen>,
}

/// The largest numbers in the comparisons of all keys, as bits. Those of positive numbers are ordered as the numbers
/// are.
#[derive(Debug, Default)]
struct LargestSeen {
    gradient: AtomicU64,
    value: AtomicU64,
}

impl LargestSeen {
    fn get(&self) -> Largest {
        let of = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        Largest {
            gradient: of(&self.gradient),
            value: of(&self.value),
        }
    }

    fn include(&self, largest: Largest) {
        let include = |bits: &AtomicU64, number: f64| {
            if number.is_finite() {
                bits.fetch_max(number.to_bits(), Ordering::Relaxed);
            }
        };
        include(&self.gradient, largest.gradient);
        include(&self.value, largest.value);
    }
}

impl<V> Clone for Cached<V> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            uses: self.uses.clone(),
            largest: self.largest.clone(),
        }
    }
}

impl<V> Deref for Cached<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

impl<V> Cached<V> {
    /// Counts a use of `key`, and calls `compare` if this use is to be compared. It returns the largest numbers that it
    /// compared. A use whose comparison fails is not counted, so that it is compared again.
    pub(crate) fn count_use(
        &self,
        key: &Key,
        compare: impl FnOnce(Use) -> Result<Largest>,
    ) -> Result<()> {
        let time = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
        let always = key.has_hidden().then_some(Extent::Losses);
        let Some(extent) = Extent::at(time).or(always) else {
            return Ok(());
        };
        let compared = compare(Use {
            time,
            extent,
            largest: self.largest.get(),
        });
        match compared {
            Ok(largest) => self.largest.include(largest),
            Err(_) => {
                self.uses.fetch_sub(1, Ordering::Relaxed);
            }
        }
        compared.map(|_| ())
    }
}

impl<V> Memo<V> {
    /// A cache that uses at most `capacity` bytes, or holds [`FEWEST`] values.
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Mutex::new(Entries {
            values: HashMap::new(),
            capacity,
            bytes: 0,
            time: 0,
            uses: HashMap::new(),
            largest: Arc::default(),
        }))
    }
}

impl<V: MemoryUse> Memo<V> {
    /// The value of `key`, computed by `make` if it is not cached.
    pub(crate) fn get(
        &self,
        key: &Key,
        make: impl FnOnce() -> Result<Option<V>>,
    ) -> Result<Option<Cached<V>>> {
        if let Some(value) = self.cached(key) {
            return Ok(value);
        }
        let value = make()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = value.map(|value| Cached {
            value: Arc::new(value),
            uses: known.uses_of(key),
            largest: known.largest.clone(),
        });
        known.insert(key.clone(), value.clone());
        Ok(value)
    }

    fn cached(&self, key: &Key) -> Option<Option<Cached<V>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.time += 1;
        let time = known.time;
        let kept = known.values.get_mut(key)?;
        kept.last_used = time;
        Some(kept.value.clone())
    }
}

impl<V: MemoryUse> Entries<V> {
    /// The counter of `key`, which an evicted value may have left.
    fn uses_of(&mut self, key: &Key) -> Arc<AtomicU64> {
        /// The largest number of counters, whose memory is below a megabyte.
        const COUNTED: usize = 1 << 13;
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        if self.uses.len() >= COUNTED {
            self.uses.clear();
        }
        self.uses.entry(hasher.finish()).or_default().clone()
    }

    fn insert(&mut self, key: Key, value: Option<Cached<V>>) {
        /// The most that a table grows beyond its entries, with a byte for each of their places.
        const SPARE: usize = 3;
        let table = SPARE * (size_of::<Key>() + size_of::<CacheEntry<V>>() + 1);
        let shared = value.as_ref().map_or(0, |value| {
            // The counts of an `Arc`.
            value.bytes() + 2 * size_of::<usize>() + ALLOCATION
        });
        let kept = CacheEntry {
            bytes: table + key.bytes() + shared,
            value,
            last_used: self.time,
        };
        self.bytes += kept.bytes;
        if let Some(before) = self.values.insert(key, kept) {
            self.bytes -= before.bytes;
        }
        while self.bytes > self.capacity && self.values.len() > FEWEST {
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
            batch: Signature {
                shapes: vec![2, 10, len],
                types: Vec::new(),
                shared: 0,
                has_hidden: false,
            },
            fields: 0,
            draws: 1,
        }
    }

    /// The count of a use. The first few uses are all compared.
    fn counted(cached: Option<Cached<Recording>>) -> u64 {
        let mut number = 0;
        let compare = |of: Use| {
            number = of.time;
            Ok(Largest::default())
        };
        cached.unwrap().count_use(&key(0), compare).unwrap();
        number
    }

    #[test]
    fn many_shapes_use_bounded_memory() {
        let memo = Memo::new(CAPACITY);
        for len in 0..5000 {
            let made = memo.get(&key(len), || Ok(Some(Recording(1 << 20))));
            assert_eq!(counted(made.unwrap()), 1);
            // A shape in regular use is kept.
            memo.get(&key(0), || panic!("it was evicted")).unwrap();
        }
        let known = memo.0.lock().unwrap();
        assert!(known.bytes <= CAPACITY);
        assert_eq!(known.values.len(), 63);
        drop(known);
        // An evicted value is computed again, and its counter goes on.
        let mut is_made = false;
        let made = memo.get(&key(1), || {
            is_made = true;
            Ok(Some(Recording(1)))
        });
        assert_eq!(counted(made.unwrap()), 2);
        assert!(is_made);
    }

    #[test]
    fn a_comparison_knows_the_largest_gradient_of_earlier_ones_of_any_key() {
        let memo = Memo::new(CAPACITY);
        let of = |gradient: f64| Largest {
            gradient,
            value: 2.0 * gradient,
        };
        let norms = [(0.5, 0.0), (2.0, 0.5), (1e-9, 2.0), (f64::NAN, 2.0)];
        for (len, (norm, known)) in norms.into_iter().enumerate() {
            let cached = memo.get(&key(len), || Ok(Some(Recording(1))));
            let cached = cached.unwrap().unwrap();
            let compare = |a: Use| {
                assert_eq!(a.largest, of(known));
                Ok(of(norm))
            };
            cached.count_use(&key(len), compare).unwrap();
        }
    }

    #[test]
    fn values_that_a_key_does_not_show_are_compared_at_every_use() {
        let memo = Memo::new(CAPACITY);
        let hidden = Key {
            batch: Signature {
                has_hidden: true,
                ..key(1).batch
            },
            ..key(1)
        };
        let mut compared = [0, 0];
        for (count, key) in compared.iter_mut().zip([key(1), hidden]) {
            for _ in 0..32 {
                let cached = memo.get(&key, || Ok(Some(Recording(1)))).unwrap();
                let compare = |_| {
                    *count += 1;
                    Ok(Largest::default())
                };
                cached.unwrap().count_use(&key, compare).unwrap();
            }
        }
        // The first four, the eighth, and every sixteenth.
        assert_eq!(compared, [7, 32]);
    }

    #[test]
    fn of_values_above_the_limit_the_last_two_are_kept() {
        let memo = Memo::new(CAPACITY);
        for len in 0..5 {
            memo.get(&key(len), || Ok(Some(Recording(2 * CAPACITY))))
                .unwrap();
        }
        assert_eq!(memo.0.lock().unwrap().values.len(), FEWEST);
        let kept = |len| memo.get(&key(len), || panic!("it was evicted"));
        assert!(kept(3).unwrap().is_some() && kept(4).unwrap().is_some());
    }
}
