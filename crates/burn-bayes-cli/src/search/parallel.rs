//! The same work for many items, on as many threads as rayon has where it is asked for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::ThreadPoolBuilder;

use crate::failure::{Failure, Result};

/// The results for the items 0, 1, …, in their order.
///
/// Every thread takes the next item that nobody has taken. These are no tasks of rayon's, because a
/// thread of rayon's that waits within one fit would begin another one there; what a fit does in
/// parallel runs on its own thread.
///
/// # Errors
/// The first error of an item; no further item is begun then.
pub(super) fn map<T: Send>(
    items: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = rayon::current_num_threads().min(items);
    if threads <= 1 {
        return (0..items).map(work).collect();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let share = || {
        let mut found = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= items {
                break;
            }
            let result = work(item);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            found.push((item, result));
        }
        found
    };
    let pools = (0..threads)
        .map(|_| ThreadPoolBuilder::new().num_threads(1).build())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::System(std::io::Error::other(error)))?;
    let mut found = std::thread::scope(|scope| {
        let started = pools.iter().map(|pool| scope.spawn(|| pool.install(share)));
        let started: Vec<_> = started.collect();
        let joined = started.into_iter().flat_map(|thread| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<Vec<_>>()
    });
    found.sort_by_key(|(item, _)| *item);
    found.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(work)
    }

    #[test]
    fn results_are_in_the_order_of_items() {
        for threads in [1, 3] {
            let found = with_threads(threads, || map(20, |item| Ok(item * item)));
            assert_eq!(
                found.unwrap(),
                (0..20).map(|item| item * item).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let found = with_threads(2, || {
            map(10_000, |item| {
                begun.fetch_add(1, Ordering::Relaxed);
                match item {
                    3 => Err(Failure::Data("broken".into())),
                    _ => Ok(item),
                }
            })
        });
        assert_eq!(found.unwrap_err().to_string(), "broken");
        assert!(begun.into_inner() < 10_000);
    }

    #[test]
    fn what_an_item_does_in_parallel_stays_on_its_thread() {
        let found = with_threads(2, || map(4, |_| Ok(rayon::current_num_threads())));
        assert_eq!(found.unwrap(), [1; 4]);
    }
}
