//! The memory of a thread, counted by the allocator, so that tests can bound a reader's use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use proptest::prelude::*;

/// Fails if `read` takes more memory than buffers and a generous amount per byte.
pub fn bounded<T>(bytes: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<T, TestCaseError> {
    /// Text buffers and the state of a decoder.
    const BUFFERS: usize = 1 << 20;
    /// A column with one cell of one byte has a name, an entry in tables of names, and vectors.
    const FOR_A_BYTE: usize = 1 << 10;
    let (result, most) = most_held(|| read(bytes));
    let allowed = BUFFERS + FOR_A_BYTE * bytes.len();
    prop_assert!(
        most <= allowed,
        "{most} bytes for a file of {}",
        bytes.len()
    );
    Ok(result)
}

/// The maximum size of an allocation in bytes.
const LARGEST: usize = 1 << 32;

/// The system's allocator, with a count of the bytes that each thread holds.
///
/// A test program that calls [`most_held`] or [`bounded`] declares it as its `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    MOST.set(MOST.get().max(HELD.get()));
}

// SAFETY: all calls are passed unchanged to the system's allocator; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // No test needs as much at once, so the test fails here instead of exhausting the machine.
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The result of `work`, and the peak of the bytes that this thread held during it, above those before.
///
/// # Panics
///
/// If the program has another allocator than [`CountingAllocator`].
pub fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = held();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before) as usize)
}

/// The result of `work`, and the bytes that this thread holds after it, above those before.
///
/// # Panics
///
/// As [`most_held`].
pub fn held_after<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = held();
    let result = work();
    (result, HELD.get() - before)
}

/// The bytes that this thread holds. Fails if they are not counted.
fn held() -> isize {
    let before = HELD.get();
    let probe = black_box(Box::new(0_u8));
    assert!(
        HELD.get() > before,
        "the test program does not declare CountingAllocator"
    );
    drop(probe);
    before
}
