//! A parallel map.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::ThreadPoolBuilder;

use crate::error::{Result, TabularError};

/// The results for the items 0, 1, …, in order.
///
/// The items are not rayon tasks, because a rayon thread that waits within one item would start another
/// one. Each item has its own rayon pool, with more than one thread only if there are fewer items than
/// threads.
///
/// # Errors
/// The first error of an item, after which no further item is started.
pub(crate) fn map<T: Send>(
    threads: usize,
    items: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let at_once = threads.clamp(1, items.max(1));
    let share = (threads / at_once).max(1);
    if at_once == 1 && rayon::current_num_threads() == share {
        return (0..items).map(work).collect();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || {
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
    let pools = (0..at_once)
        .map(|_| ThreadPoolBuilder::new().num_threads(share).build())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TabularError::System(std::io::Error::other(error)))?;
    let mut found = std::thread::scope(|scope| {
        let started = pools.iter().map(|pool| scope.spawn(|| pool.install(take)));
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

    #[test]
    fn results_are_in_the_order_of_items() {
        for threads in [1, 3] {
            let found = map(threads, 20, |item| Ok(item * item)).unwrap();
            assert_eq!(found, (0..20).map(|item| item * item).collect::<Vec<_>>());
        }
        assert!(map(2, 0, Ok).unwrap().is_empty());
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let found = map(2, 10_000, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            match item {
                3 => Err(TabularError::Data("broken".into())),
                _ => Ok(item),
            }
        });
        assert_eq!(found.unwrap_err().to_string(), "broken");
        assert!(begun.into_inner() < 10_000);
    }

    #[test]
    fn items_share_the_threads() {
        for (items, share) in [(1, 3), (2, 1), (3, 1), (4, 1)] {
            let found = map(3, items, |_| Ok(rayon::current_num_threads())).unwrap();
            assert_eq!(found, vec![share; items]);
        }
    }
}
