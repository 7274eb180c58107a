//! `tune` and `compare` in several processes: the same numbers, and clear errors.

use serde_json::json;

use crate::workplace::Workplace;

const TUNE: &str = "tune --data gap.csv --target price --task regression --method mean-field \
                    --model mlp:10 --epochs 10 --draws 10 --noise-precision 0.0006 --trials 4 --folds 3";
const COMPARE: &str = "compare --data moons.csv --target kind --task classification \
                       --methods map,vifa --model mlp:10 --epochs 10 --draws 10 --repeats 2 --folds 2";

/// The lines of a file of finished cells without their times, sorted.
fn cells(place: &Workplace, file: &str) -> Vec<String> {
    let text = place.read(file);
    let lines = text.lines();
    let parts = lines.map(|line| line.rsplit_once(",\"seconds\":").unwrap().0);
    let mut cells: Vec<String> = parts.map(String::from).collect();
    cells.sort();
    cells
}

/// The last line of the messages of a command, which must fail, and its exit code.
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

        // Cells that were finished when the run was stopped are unchanged.
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
fn a_cell_that_fails_ends_the_command_as_on_one_thread() {
    let place = Workplace::new();
    let rows: String = (0..12).map(|row| format!("{row},{}\n", row % 5)).collect();
    place.write("few.csv", &format!("x,y\n{rows}"));
    // A fifth of the eight rows of a fit is too small to estimate the noise.
    let failing = "compare --data few.csv --target y --task regression --methods map,vifa --epochs 1 \
                   --batch-size 4 --repeats 1 --folds 3";
    let (code, one) = error(&place, &format!("{failing} --threads 1 --out one"));
    assert!(
        code == 2 && one.contains("cannot be learned from 8 rows"),
        "{one}"
    );
    let (code, two) = error(&place, &format!("{failing} --threads 2 --out two"));
    assert_eq!((code, two), (2, one));
}

#[test]
fn a_worker_whose_command_ended_before_it_had_a_task_says_nothing() {
    let place = Workplace::new();
    for task in ["", "{\"task\":"] {
        let mut worker = place.burn_bayes("worker");
        let output = worker.write_stdin(task).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn a_worker_for_other_cells_refuses_and_writes_nothing() {
    let place = Workplace::with_moons();
    let config = json!({"data": {"path": "moons.csv", "target": "kind", "task": "classification"}});
    let runs = json!({"config": config, "methods": ["map", "vifa"], "repeats": 1, "folds": 2});
    let order = json!({"threads": 1, "checksum": "0123456789abcdef", "task": {"compare": runs}});
    let mut worker = place.burn_bayes("worker");
    let output = worker
        .write_stdin(format!("{order}\n0\n"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("differ from those"), "{message}");
    assert!(output.stdout.is_empty());
}

#[cfg(target_os = "linux")]
mod ends {
    use std::fs;
    use std::process::Child;

    use super::*;
    use crate::signals::{Reach, interrupted, send, wait_for_lines, wait_until};

    /// A search with long fits, once it has two workers.
    fn started(place: &Workplace) -> (Child, Vec<u32>) {
        let search = place.start(&format!("{TUNE} --epochs 1000000 --threads 2 --out found"));
        let mut workers = Vec::new();
        wait_until(|| {
            workers = children(search.id());
            workers.len() == 2 && workers.iter().all(|&id| catches_interruptions(id))
        });
        (search, workers)
    }

    /// The state of a process and its parent; `None` if it has ended.
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

    fn are_gone(ids: &[u32]) -> bool {
        let is_gone = |id: &u32| state(*id).is_none_or(|(state, _)| state == "Z");
        ids.iter().all(is_gone)
    }

    /// Whether a process has installed its signal handler.
    fn catches_interruptions(id: u32) -> bool {
        let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 0b10 != 0)
    }

    fn kill(id: u32) {
        send("KILL", &id.to_string());
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
        wait_until(|| are_gone(&workers));
    }

    #[test]
    fn an_interrupted_search_ends_with_its_workers_and_says_how_to_go_on() {
        for reach in [Reach::Process, Reach::Group] {
            let place = Workplace::with_gap();
            let (search, workers) = started(&place);
            let (code, message) = interrupted(search, reach);
            assert_eq!(code, Some(130), "{reach:?}: {message}");
            let command = TUNE.split_whitespace().collect::<Vec<_>>().join(" ");
            let command =
                format!("burn-bayes {command} --epochs 1000000 --threads 2 --out found --resume");
            let expected = format!("error: interrupted; `{command}` continues from here\n");
            assert_eq!(message, expected, "{reach:?}");
            wait_until(|| are_gone(&workers));
        }
    }

    #[test]
    fn an_interrupted_command_goes_on_by_the_command_that_it_names() {
        let gap = Workplace::with_gap();
        let moons = Workplace::with_moons();
        for (place, command, epochs, file) in [
            (&gap, TUNE, 500, "trials.jsonl"),
            (&moons, COMPARE, 200, "runs.jsonl"),
        ] {
            let command = format!("{command} --epochs {epochs} --threads 2");
            place.output(&format!("{command} --out whole"));
            let child = place.start(&format!("{command} --out parts"));
            wait_for_lines(place, &format!("parts/{file}"), 1);
            let (code, message) = interrupted(child, Reach::Group);
            assert_eq!(code, Some(130), "{message}");
            // The workers print nothing.
            let name = command.split(' ').next().unwrap();
            let is_progress = |line: &&str| line.starts_with(name);
            let errors: Vec<&str> = message.lines().filter(|line| !is_progress(line)).collect();
            assert_eq!(errors.len(), 1, "{message}");
            let named = errors[0].split('`').nth(1).unwrap();
            place.output(named.strip_prefix("burn-bayes ").unwrap());
            let [whole, parts] =
                ["whole", "parts"].map(|out| cells(place, &format!("{out}/{file}")));
            assert_eq!(whole, parts, "{command}");
        }
    }
}
