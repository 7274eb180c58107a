//! `tune` and `compare` on several threads: the same numbers, and clear errors.

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
fn threads_find_what_one_thread_finds() {
    let gap = Workplace::with_gap();
    let moons = Workplace::with_moons();
    for (place, command, file, count) in [
        (&gap, TUNE.into(), "trials.jsonl", 4 * 3),
        (&gap, format!("{TUNE} --survivors 2"), "trials.jsonl", 4 + 4),
        // Two methods and two plain models.
        (&moons, COMPARE.to_string(), "runs.jsonl", 4 * 4),
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

#[cfg(target_os = "linux")]
mod ends {
    use super::*;
    use crate::on_cpu::signals::{Reach, interrupted, wait_for_lines};

    #[test]
    fn an_interrupted_command_goes_on_by_the_command_that_it_names() {
        let gap = Workplace::with_gap();
        let moons = Workplace::with_moons();
        for (place, command, epochs, file, reach) in [
            (&gap, TUNE, 500, "trials.jsonl", Reach::Process),
            (&moons, COMPARE, 200, "runs.jsonl", Reach::Group),
        ] {
            let command = format!("{command} --epochs {epochs} --threads 2");
            place.output(&format!("{command} --out whole"));
            let child = place.start(&format!("{command} --out parts"));
            wait_for_lines(place, &format!("parts/{file}"), 1);
            let (code, message) = interrupted(child, reach);
            assert_eq!(code, Some(130), "{message}");
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
