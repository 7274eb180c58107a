//! Memory that is used again from step to step.
//!
//! A training step needs a draw and gradients as long as the parameters. Taken from the operating
//! system each time, such memory arrives page by page and zeroed, which costs more than the
//! arithmetic done in it. Buffers lent by a [`Scratch`] return to it when the tensor that holds them
//! is dropped, wherever it has travelled; when the `Scratch` is gone, they are freed. The last few of them are kept.

use std::mem::{MaybeUninit, take};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Buffers that wait for their next use.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    free: Arc<Mutex<Vec<Vec<f32>>>>,
}

#[cfg(feature = "flex")]
mod lending {
    use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

    use super::*;

    /// The number of buffers that wait at most. A step uses a few, but batches may have ever new sizes.
    pub(super) const MOST: usize = 32;

    impl Scratch {
        /// A buffer of this length with any finite contents.
        pub fn take(&self, len: usize) -> Vec<f32> {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            match free.iter().position(|buffer| buffer.len() == len) {
                Some(index) => free.remove(index),
                None => vec![0.0; len],
            }
        }

        /// Storage of a tensor that gives the buffer back when it is dropped.
        pub fn lend(&self, values: Vec<f32>) -> Bytes {
            let len = size_of_val(values.as_slice());
            let controller = Box::new(Lent {
                values,
                home: Arc::downgrade(&self.free),
            });
            // SAFETY: the controller's memory is `len` bytes of initialised numbers.
            unsafe { Bytes::from_controller(controller, len) }
        }
    }

    /// A buffer in use.
    struct Lent {
        values: Vec<f32>,
        home: Weak<Mutex<Vec<Vec<f32>>>>,
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            if let Some(home) = self.home.upgrade() {
                let mut free = home.lock().unwrap_or_else(PoisonError::into_inner);
                if free.len() == MOST {
                    free.remove(0);
                }
                free.push(take(&mut self.values));
            }
        }
    }

    impl AllocationController for Lent {
        fn alloc_align(&self) -> usize {
            align_of::<f32>()
        }

        fn property(&self) -> AllocationProperty {
            AllocationProperty::Native
        }

        unsafe fn memory_mut(
            &mut self,
            _policy: AccessPolicy,
        ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
            let len = size_of_val(self.values.as_slice());
            let start = self.values.as_mut_ptr().cast();
            // SAFETY: these are the vector's own bytes, and the caller writes only initialised ones.
            Ok(unsafe { std::slice::from_raw_parts_mut(start, len) })
        }

        fn memory(&self, _policy: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
            let len = size_of_val(self.values.as_slice());
            let start = self.values.as_ptr().cast();
            // SAFETY: these are the vector's own bytes.
            Ok(unsafe { std::slice::from_raw_parts(start, len) })
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_tensor_is_dropped() {
        let scratch = Scratch::default();
        let mut buffer = scratch.take(5);
        buffer[0] = 7.0;
        let place = buffer.as_ptr();
        let bytes = scratch.lend(buffer);
        assert_eq!(bytes[..4], 7f32.to_le_bytes());
        drop(bytes);
        let (again, another) = (scratch.take(5), scratch.take(5));
        assert_eq!(again.as_ptr(), place);
        assert_ne!(another.as_ptr(), place);
    }

    #[test]
    fn of_buffers_of_ever_new_lengths_the_last_are_kept() {
        let scratch = Scratch::default();
        for len in 1..=2 * lending::MOST {
            drop(scratch.lend(scratch.take(len)));
        }
        let lens: Vec<_> = scratch.free.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(
            lens,
            (lending::MOST + 1..=2 * lending::MOST).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_buffer_outlives_its_scratch() {
        let scratch = Scratch::default();
        let mut bytes = scratch.lend(scratch.take(3));
        drop(scratch);
        bytes[..4].copy_from_slice(&2f32.to_le_bytes());
        assert_eq!(bytes[..4], 2f32.to_le_bytes());
    }
}
