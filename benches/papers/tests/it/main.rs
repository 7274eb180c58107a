//! The program as people run it: parts that add up, what cannot be measured, processes, interruptions.

#[cfg(feature = "fetch")]
mod fetch;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// The program, started in a folder.
fn papers(folder: &TempDir, arguments: &str) -> Command {
    let mut command = Command::cargo_bin("papers").expect("the binary is built with its tests");
    command.current_dir(folder.path());
    command.args(arguments.split_whitespace());
    command
}

fn read(folder: &TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap()
}

#[test]
fn parts_of_an_experiment_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let reproduced = |seed: usize| -> Value {
        let mut command = papers(&folder, "E1 --quick --out parts --json --only");
        let output = command.arg(format!("rate .1, decay .1, {seed}")).output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    };
    for runs in 1..=2 {
        let outcome = &reproduced(runs - 1)["experiments"][0];
        let rows = outcome["rows"].as_array().unwrap();
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["runs"] == runs),
            "{rows:?}"
        );
        let command = outcome["command"].as_str().unwrap();
        assert!(
            command.contains(" -- E1 ") && command.contains("--quick"),
            "{command}"
        );
        assert!(command.contains("--out=parts"), "{command}");
    }
    let table = read(&folder, "parts/E1/results-quick.csv");
    assert!(
        table.starts_with("data,method,measure,runs,mean,"),
        "{table}"
    );
}

#[test]
fn fits_at_the_defaults_are_measured_without_data() {
    let folder = tempfile::tempdir().unwrap();
    for (experiment, measure) in [
        ("trust-linear", "excess"),
        ("trust-noise", "deviation"),
        ("trust-gap", "gap"),
    ] {
        let arguments = format!("{experiment} --quick --json --only");
        let mut command = papers(&folder, &arguments);
        let output = command.arg("mean-field, 0").output().unwrap();
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = outcome["experiments"][0]["rows"].as_array().unwrap();
        let found = rows.iter().find(|row| row["measure"] == measure).unwrap();
        assert!(found["median"].as_f64().unwrap() > 0.0, "{found}");
        assert!(
            rows.iter().all(|row| row["method"] == "mean-field"),
            "{rows:?}"
        );
    }
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, words) in [
        ("E5 --data nowhere", 3, "nowhere"),
        ("E1 --quick --only nosuch", 2, "nosuch"),
        ("E99", 2, "E99"),
        ("", 2, "EXPERIMENT"),
    ] {
        let output = papers(&folder, arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn sets_are_listed_with_what_is_here() {
    let folder = tempfile::tempdir().unwrap();
    let output = papers(&folder, "fetch --data nowhere").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["energy", "boston"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    assert!(!text.contains(" here "), "{text}");
    let output = papers(&folder, "fetch nosuchset --data nowhere").output();
    let output = output.unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("nosuchset"), "{message}");
}

#[test]
fn experiments_without_data_are_counted_and_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let mut command = papers(
            &folder,
            &format!("{arguments} --quick --data nowhere --out found"),
        );
        let output = command
            .args(["--only", "rate .1, decay .1, 0"])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), message)
    };
    let (code, message) = run("E1");
    assert!(!message.contains("skipped"), "{message}");
    assert!(!folder.path().join("found/skipped.txt").exists());
    let (skipping, message) = run("all --skip-missing");
    assert_eq!(skipping, code, "{message}");
    assert!(
        message.contains(" experiments skipped, because"),
        "{message}"
    );
    let names = read(&folder, "found/skipped.txt");
    assert!(names.lines().any(|name| name == "E6"), "{names}");
    let (failing, message) = run("all");
    assert_eq!(
        failing,
        code.filter(|&code| code != 0).or(Some(3)),
        "{message}"
    );
    assert!(message.contains("--skip-missing"), "{message}");
}

/// The finished cells of an experiment but for their times, in the order of the alphabet.
fn cells(folder: &TempDir, file: &str) -> Vec<String> {
    let text = read(folder, file);
    let lines = text.lines();
    let parts = lines.map(|line| line.rsplit_once(",\"seconds\":").unwrap().0);
    let mut cells: Vec<String> = parts.map(String::from).collect();
    cells.sort();
    cells
}

#[test]
fn experiments_are_the_same_in_processes() {
    let folder = tempfile::tempdir().unwrap();
    let code = |threads: usize| {
        let out = threads.to_string();
        let mut command = papers(&folder, "E1 --quick --threads");
        command.args([&out, "--out", &out, "--only", "rate .1, decay .1,"]);
        command.output().unwrap().status.code()
    };
    assert_eq!(code(1), code(2));
    let one = cells(&folder, "1/E1/cells.jsonl");
    assert_eq!(one.len(), 4);
    assert_eq!(one, cells(&folder, "2/E1/cells.jsonl"));
    let page = read(&folder, "2/E1/results-quick.md");
    assert!(page.contains("decay .1"), "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_experiment_goes_on_by_the_same_command() {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().unwrap();
    let arguments = "E1 --quick --threads 2 --out parts";
    // It hears every signal, also those that this process ignores.
    let child = Command::new("env")
        .arg("--default-signal")
        .arg(assert_cmd::cargo::cargo_bin("papers"))
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let (start, file) = (Instant::now(), folder.path().join("parts/E1/cells.jsonl"));
    while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains('\n')) {
        assert!(
            start.elapsed() < Duration::from_secs(300),
            "nothing happens"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let group = format!("-{}", child.id());
    let status = Command::new("kill")
        .args(["-s", "INT", "--", &group])
        .status();
    assert!(status.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    let expected = format!(
        "error: interrupted; `cargo run --release -p burn-bayes-papers -- {arguments}` continues from here"
    );
    assert_eq!(message.lines().last(), Some(expected.as_str()));
}
