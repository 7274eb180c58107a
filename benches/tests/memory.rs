//! The bytes that training really holds, counted by an allocator of our own, against
//! [`MemoryPlan`](burn_bayes::MemoryPlan)'s promise.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::tensor::Device;
use burn_bayes::{BayesianConfig, FusedAdamConfig, OptimizerMemory, VifaConfig};
use burn_bayes_benches::{Holder, MlpClassifier, Training, classification_batch};

/// Counts bytes held, and the most that were.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: every call is the system allocator's, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held while `steps` steps are made, above what was held before the model.
fn most_held(config: &VifaConfig, holder: Holder, steps: usize) -> usize {
    let device = Device::default().autodiff();
    device.seed(0);
    let batch = classification_batch(2, 784, 10, &device);
    let before = HELD.load(Relaxed);
    let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
    let bayesian = config.init(model);
    let mut training = Training::new(bayesian, FusedAdamConfig::new().init(), holder);
    training.step(batch.clone());
    MOST.store(HELD.load(Relaxed), Relaxed);
    for _ in 0..steps {
        training.step(batch.clone());
    }
    MOST.load(Relaxed) - before
}

#[test]
fn training_holds_what_the_plan_says() {
    let weights = 784 * 400 + 400 + 400 * 400 + 400 + 400 * 10 + 10;
    // The first use of a backend fills caches that belong to no training.
    most_held(&VifaConfig::new(60_000), Holder::Owner, 1);
    for (rank, draws) in [(0, 1), (1, 1), (4, 1), (8, 1), (4, 2)] {
        for holder in [Holder::Owner, Holder::Learner] {
            let config = VifaConfig::new(60_000).with_rank(rank).with_draws(draws);
            let held = most_held(&config, holder, 4);
            let plan = config.memory(weights, OptimizerMemory::Adam).peak();
            // What is left over: activations of two rows, and blocks of the matrix products.
            let ratio = held as f64 / plan as f64;
            assert!(
                (0.85..=1.15).contains(&ratio),
                "rank {rank}, draws {draws}, {holder:?}: {held} bytes held, {plan} planned"
            );
        }
    }
}
