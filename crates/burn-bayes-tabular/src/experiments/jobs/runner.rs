//! Computes the jobs that are not in the cache, in parallel.

use crate::error::Result;
use crate::parallel;

use super::{Job, Record, ResultCache};

/// Receives the progress of a list of jobs, from any thread.
pub trait Progress: Sync {
    /// Called first, with the number of jobs to compute; the others are in the cache.
    fn begin(&self, waiting: usize) {
        let _ = waiting;
    }

    /// Called when the result of a job was stored.
    fn done(&self, record: &Record) {
        let _ = record;
    }
}

/// Ignores all progress.
impl Progress for () {}

/// The results of all jobs, in order; `threads` are computed at the same time.
///
/// # Errors
///
/// The first error of a job, after which no further job is started.
pub fn run(
    jobs: &[Job],
    cache: &ResultCache,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<Record>> {
    let known: Vec<_> = jobs.iter().map(|job| cache.find(job)).collect();
    let places = 0..jobs.len();
    let waiting: Vec<usize> = places.filter(|&place| known[place].is_none()).collect();
    progress.begin(waiting.len());
    let threads = threads.min(waiting.len().max(1));
    let computed = parallel::map(threads, waiting.len(), |index| {
        let record = cache.append(&jobs[waiting[index]].compute()?)?;
        progress.done(&record);
        Ok(record)
    })?;
    let mut computed = computed.into_iter();
    let records = known.into_iter();
    Ok(records
        .filter_map(|record| record.cloned().or_else(|| computed.next()))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::TabularError;
    use crate::experiments::jobs::{Key, Measures};

    /// Jobs that count how often they are computed; the one at `broken` fails.
    fn jobs(count: usize, broken: Option<usize>, computed: &Arc<AtomicUsize>) -> Vec<Job> {
        let one = |index: usize| {
            let computed = computed.clone();
            let key = Key::new(format!("case {}", index / 3), "method", index as u64 % 3);
            Job::new(key, &"settings", move || {
                computed.fetch_add(1, Ordering::Relaxed);
                match broken == Some(index) {
                    true => Err(TabularError::Numerical("broken".into())),
                    false => Ok(Measures::from([("square".into(), (index * index) as f64)])),
                }
            })
            .unwrap()
        };
        (0..count).map(one).collect()
    }

    fn measures(records: Vec<Record>) -> Vec<(Key, Measures)> {
        let parts = |record: Record| (record.key, record.computed.measures);
        records.into_iter().map(parts).collect()
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let computed = Arc::new(AtomicUsize::new(0));
        let open = |name: &str| ResultCache::open(&folder.path().join(name)).unwrap();
        let whole = run(&jobs(9, None, &computed), &open("whole"), 3, &()).unwrap();
        assert_eq!(computed.swap(0, Ordering::Relaxed), 9);

        let error = run(&jobs(9, Some(4), &computed), &open("parts"), 1, &()).unwrap_err();
        assert!(error.to_string().contains("broken"));
        assert_eq!(computed.swap(0, Ordering::Relaxed), 5);
        let parts = run(&jobs(9, None, &computed), &open("parts"), 2, &()).unwrap();
        assert_eq!(computed.load(Ordering::Relaxed), 5);
        assert_eq!(measures(whole), measures(parts));
    }
}
