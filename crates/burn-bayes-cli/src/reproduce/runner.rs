//! Computes the cells that are not known yet, several at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rayon::ThreadPoolBuilder;

use crate::failure::{Failure, Result};

use super::experiment::Cell;
use super::ledger::{Ledger, Record};

/// The results of all cells, in the cells' order.
///
/// Every thread takes the next cell that nobody has taken. What a cell does in parallel has its share
/// of the threads: one, unless there are fewer cells than threads.
///
/// # Errors
///
/// The first error of a cell; no further cell is begun then.
pub(crate) fn run(
    experiment: &str,
    cells: &[Cell],
    ledger: &Ledger,
    threads: usize,
) -> Result<Vec<Record>> {
    let records = Mutex::new(
        cells
            .iter()
            .map(|cell| ledger.find(cell).cloned())
            .collect::<Vec<_>>(),
    );
    let waiting: Vec<usize> = (0..cells.len())
        .filter(|&index| lock(&records)[index].is_none())
        .collect();
    let (next, begun, stop) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicBool::new(false),
    );
    let failure = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(&index) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            match compute(&cells[index], ledger) {
                Ok(record) => {
                    let done = begun.fetch_add(1, Ordering::Relaxed) + 1;
                    let (key, seconds, all) = (&record.key, record.seconds, waiting.len());
                    eprintln!("{experiment} {done}/{all}: {key}: {seconds:.1} s");
                    lock(&records)[index] = Some(record);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    lock(&failure).get_or_insert(error);
                }
            }
        }
    };
    let at_once = threads.clamp(1, waiting.len().max(1));
    let share = (threads / at_once).max(1);
    let pools = (0..at_once)
        .map(|_| ThreadPoolBuilder::new().num_threads(share).build())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::Usage(format!("--threads {threads}: {error}")))?;
    std::thread::scope(|scope| {
        for pool in &pools {
            scope.spawn(|| pool.install(work));
        }
    });
    match lock(&failure).take() {
        Some(error) => Err(error),
        None => Ok(lock(&records).drain(..).flatten().collect()),
    }
}

fn compute(cell: &Cell, ledger: &Ledger) -> Result<Record> {
    let start = Instant::now();
    let record = Record {
        key: cell.key.clone(),
        settings: cell.settings.clone(),
        measures: cell.compute()?,
        seconds: start.elapsed().as_secs_f64(),
    };
    ledger.append(&record)?;
    Ok(record)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reproduce::experiment::{Key, Measures};

    /// Cells that count how often they are computed; the one at `broken` fails.
    fn cells(count: usize, broken: Option<usize>, computed: &Arc<AtomicUsize>) -> Vec<Cell> {
        let one = |index: usize| {
            let computed = computed.clone();
            let key = Key {
                case: format!("case {}", index / 3),
                method: "method".into(),
                seed: index as u64 % 3,
            };
            Cell::new(key, &"settings", move || {
                computed.fetch_add(1, Ordering::Relaxed);
                match broken == Some(index) {
                    true => Err(Failure::Numerical("broken".into())),
                    false => Ok(Measures::from([("square".into(), (index * index) as f64)])),
                }
            })
            .unwrap()
        };
        (0..count).map(one).collect()
    }

    fn measures(records: Vec<Record>) -> Vec<(Key, Measures)> {
        let parts = |record: Record| (record.key, record.measures);
        records.into_iter().map(parts).collect()
    }

    #[test]
    fn a_run_that_was_stopped_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let computed = Arc::new(AtomicUsize::new(0));
        let open = |name: &str| Ledger::open(&folder.path().join(name)).unwrap();
        let whole = run("E", &cells(9, None, &computed), &open("whole"), 3).unwrap();
        assert_eq!(computed.swap(0, Ordering::Relaxed), 9);

        let error = run("E", &cells(9, Some(4), &computed), &open("parts"), 1).unwrap_err();
        assert!(error.to_string().contains("broken"));
        assert_eq!(computed.swap(0, Ordering::Relaxed), 5);
        let parts = run("E", &cells(9, None, &computed), &open("parts"), 2).unwrap();
        assert_eq!(computed.load(Ordering::Relaxed), 5);
        assert_eq!(measures(whole), measures(parts));
    }

    #[test]
    fn work_within_cells_shares_the_threads() {
        let folder = tempfile::tempdir().unwrap();
        for (count, share) in [(1, 3.0), (2, 1.0), (3, 1.0), (4, 1.0)] {
            let cell = |seed| {
                let key = Key {
                    case: "case".into(),
                    method: "method".into(),
                    seed,
                };
                let threads = || rayon::current_num_threads() as f64;
                let work = move || Ok(Measures::from([("threads".into(), threads())]));
                Cell::new(key, &(), work).unwrap()
            };
            let cells: Vec<Cell> = (0..count).map(cell).collect();
            let ledger = Ledger::open(&folder.path().join(format!("{count} cells"))).unwrap();
            let records = run("E", &cells, &ledger, 3).unwrap();
            let shares = records.iter().map(|record| record.measures["threads"]);
            assert!(shares.into_iter().all(|found| found == share));
        }
    }
}
