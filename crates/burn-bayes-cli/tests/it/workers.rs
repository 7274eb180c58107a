//! `tune`, `compare` and `reproduce` in several processes: the same numbers, and clear ends.

use crate::workplace::Workplace;

const TUNE: &str = "tune --data gap.csv --target price --task regression --method mean-field \
                    --model mlp:10 --epochs 10 --draws 10 --noise-precision 0.04 --trials 4 --folds 3";
const COMPARE: &str = "compare --data moons.csv --target kind --task classification \
                       --methods map,vifa --model mlp:10 --epochs 10 --draws 10 --seeds 2 --splits 2";

/// The lines of a file of finished cells but for their times, in the order of the alphabet.
fn cells(place: &Workplace, file: &str) -> Vec<String> {
    let text = place.read(file);
    let lines = text.lines();
    let parts = lines.map(|line| line.rsplit_once(",\"seconds\":").unwrap().0);
    let mut cells: Vec<String> = parts.map(String::from).collect();
    cells.sort();
    cells
}

/// The last line that a command writes, which must fail, and its exit code.
fn error(place: &Workplace, arguments: &str) -> (i32, String) {
    let (code, message) = place.failure(arguments);
    (code, message.lines().last().unwrap().into())
}

#[test]
fn processes_find_what_one_thread_finds() {
    let gap = Workplace::with_gap();
    let moons = Workplace::with_moons();
    for (place, command, file, count) in [
        (&gap, TUNE.into(), "trials.jsonl", 4 * 3),
        (&gap, format!("{TUNE} --survivors 2"), "trials.jsonl", 4 + 4),
        (&moons, COMPARE.to_string(), "runs.jsonl", 2 * 4),
    ] {
        for threads in [1, 2, 3] {
            place.output(&format!("{command} --threads {threads} --out {threads}"));
        }
        let [one, two, three] = [1, 2, 3].map(|threads| cells(place, &format!("{threads}/{file}")));
        assert_eq!(one.len(), count, "{command}");
        assert_eq!(one, two, "{command}");
        assert_eq!(one, three, "{command}");

        // What was done when a run was stopped stays as it is.
        let done: Vec<String> = place
            .read(&format!("2/{file}"))
            .lines()
            .take(3)
            .map(String::from)
            .collect();
        let done = done.join("\n");
        place.write(&format!("3/{file}"), &format!("{done}\n{{\"case\":"));
        place.output(&format!("{command} --threads 2 --resume --out 3"));
        assert!(place.read(&format!("3/{file}")).starts_with(&done));
        assert_eq!(one, cells(place, &format!("3/{file}")), "{command}");
        for threads in [1, 2, 3] {
            std::fs::remove_dir_all(place.path(threads.to_string())).unwrap();
        }
    }
}

#[test]
fn experiments_are_the_same_in_processes() {
    let place = Workplace::new();
    let reproduce = |threads: usize| {
        let out = threads.to_string();
        let mut command = place.burn_bayes("reproduce E1 --quick --threads");
        command.args([&out, "--out", &out, "--only", "rate .1, decay .1,"]);
        command.output().unwrap().status.code()
    };
    assert_eq!(reproduce(1), reproduce(2));
    let one = cells(&place, "1/E1/cells.jsonl");
    assert_eq!(one.len(), 4);
    assert_eq!(one, cells(&place, "2/E1/cells.jsonl"));
    let page = place.read("2/E1/results-quick.md");
    assert!(page.contains("decay .1"), "{page}");
}

#[test]
fn a_cell_that_fails_ends_the_command_as_on_one_thread() {
    let place = Workplace::with_moons();
    // One step, where swag needs the iterates of two.
    let failing = COMPARE.replace("--epochs 10", "--epochs 1");
    let failing = format!("{failing} --methods swag --batch-size 100");
    let (code, one) = error(&place, &format!("{failing} --threads 1 --out one"));
    assert!(code == 2 && one.contains("SWAG has taken 1"), "{one}");
    let (code, two) = error(&place, &format!("{failing} --threads 2 --out two"));
    assert_eq!((code, two), (2, one));
    // What was found before it is kept.
    assert!(cells(&place, "two/runs.jsonl")[0].contains("\"map\""));
}

#[test]
fn a_worker_for_other_cells_refuses_and_writes_nothing() {
    let place = Workplace::with_moons();
    place.output(&format!("{COMPARE} --threads 1 --out run"));
    let text = place.read("run/runs.jsonl");
    let half = &text[..text.len() / 2];
    place.write("run/runs.jsonl", half);
    std::fs::remove_file(place.path("run/compare.md")).unwrap();
    let mut worker = place.burn_bayes(&format!("{COMPARE} --out run"));
    let output = worker
        .env("BURN_BAYES_WORKER", "1 0123456789abcdef")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("has other cells"), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(place.read("run/runs.jsonl"), half);
    assert!(!place.path("run/compare.md").exists());
}

#[cfg(target_os = "linux")]
mod ends {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A search whose fits last, once it has two workers.
    fn started(place: &Workplace) -> (Child, Vec<u32>) {
        let arguments = format!("{TUNE} --epochs 1000000 --threads 2 --out found");
        let search = Command::new(assert_cmd::cargo::cargo_bin("burn-bayes"))
            .args(arguments.split_whitespace())
            .current_dir(place.path(""))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut workers = Vec::new();
        wait_until(|| {
            workers = children(search.id());
            workers.len() == 2
        });
        (search, workers)
    }

    fn wait_until(mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The state of a process and who started it; nothing if it is gone.
    fn state(id: u32) -> Option<(String, u32)> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut words = text.rsplit_once(')')?.1.split_whitespace();
        Some((words.next()?.into(), words.next()?.parse().ok()?))
    }

    fn children(parent: u32) -> Vec<u32> {
        let entries = fs::read_dir("/proc").unwrap();
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter(|&id| state(id).is_some_and(|(_, by)| by == parent))
            .collect()
    }

    fn kill(id: u32) {
        let status = Command::new("kill").args(["-9", &id.to_string()]).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn a_worker_that_is_killed_is_an_error_of_its_cell() {
        let place = Workplace::with_gap();
        let (search, workers) = started(&place);
        workers.into_iter().for_each(kill);
        let output = search.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let is_named = message.contains("error: trial 0, mean-field, 0: ");
        assert!(is_named && message.contains("signal: 9"), "{message}");
    }

    #[test]
    fn workers_end_when_nobody_asks_any_more() {
        let place = Workplace::with_gap();
        let (mut search, workers) = started(&place);
        kill(search.id());
        search.wait().unwrap();
        let is_gone = |id: &u32| state(*id).is_none_or(|(state, _)| state == "Z");
        wait_until(|| workers.iter().all(is_gone));
    }
}
