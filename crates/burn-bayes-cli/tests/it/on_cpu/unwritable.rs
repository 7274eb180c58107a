//! Read-only folders and full disks: the error names the file, and nothing is half-written.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::workplace::{MOONS, Workplace, last_of_each};

/// The error message of the system.
const SYSTEM: i32 = 1;

#[test]
fn places_that_cannot_be_written() {
    let place = Workplace::with_moons();
    place.write("file", "not a folder");
    place.fails(&format!("{MOONS} --out file"), SYSTEM, &["file"]);
    place.fails(&format!("{MOONS} --out file/run"), SYSTEM, &["file"]);
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    for (arguments, word) in [
        ("predict run moons.csv --output absent/out.csv", "absent"),
        ("predict run moons.csv --output run", "run"),
        ("evaluate run moons.csv --report file/page", "file"),
        ("demo --out file/demo", "file"),
    ] {
        place.fails(arguments, SYSTEM, &[word]);
    }
    let moons = "--data moons.csv --target kind --task classification";
    place.fails(
        &format!("tune {moons} --trials 1 --out file/found"),
        SYSTEM,
        &["file"],
    );
    place.fails(
        &format!("compare {moons} --repeats 1 --folds 2 --out file/both"),
        SYSTEM,
        &["file"],
    );
}

#[test]
fn a_folder_without_permission() {
    let place = Workplace::with_moons();
    let locked = place.path("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    // A superuser can write to every folder except /proc.
    let folder = match File::create(locked.join("open")).is_ok() {
        true => Path::new("/proc").to_path_buf(),
        false => locked,
    };
    if !folder.exists() {
        return;
    }
    let name = folder.display().to_string();
    place.fails(&format!("{MOONS} --out {name}"), SYSTEM, &[&name]);
    place.fails(&format!("{MOONS} --out {name}/run"), SYSTEM, &[&name]);
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.fails(
        &format!("predict run moons.csv --output {name}/new.csv"),
        SYSTEM,
        &[&name],
    );
}

/// A device without free space.
#[cfg(target_os = "linux")]
#[test]
fn a_full_device() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.fails(
        "predict run moons.csv --output /dev/full",
        SYSTEM,
        &["/dev/full", "space"],
    );
    for arguments in [
        "predict run moons.csv",
        "evaluate run moons.csv --json",
        "data list",
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("burn-bayes"));
        command
            .args(arguments.split(' '))
            .current_dir(place.path(""));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(SYSTEM), "{arguments}: {message}");
        assert!(message.contains("space"), "{arguments}: {message}");
    }
}

/// Runs the program with a limit of `blocks` × 512 bytes per file, so that a write ends in the middle as on a full
/// disk.
fn within(place: &Workplace, blocks: u32, arguments: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("burn-bayes");
    let arguments = last_of_each(arguments).join(" ");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {arguments}");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .arg(program)
        .current_dir(place.path(""));
    shell.output().unwrap()
}

/// The error of a fit that runs out of space, if it does. Nothing may be half-written, and with enough space the
/// fit succeeds.
fn without_room(place: &Workplace, blocks: u32, fit: &str) -> Option<String> {
    let output = within(place, blocks, fit);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!message.contains("panicked"), "{blocks} blocks: {message}");
    if output.status.success() {
        return None;
    }
    assert_eq!(
        output.status.code(),
        Some(SYSTEM),
        "{blocks} blocks: {message}"
    );
    let error = message
        .lines()
        .rfind(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        error.contains("run/") && error.contains("large"),
        "{blocks} blocks: {error}"
    );
    let entries = std::fs::read_dir(place.path("run")).unwrap();
    let left: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let is_whole = |name: &String| !name.starts_with('.') && !name.contains(".part");
    assert!(left.iter().all(is_whole), "{blocks} blocks: {left:?}");
    assert!(
        !left.contains(&"model.toml".into()),
        "{blocks} blocks: {left:?}"
    );
    match left.contains(&"checkpoint.bin".into()) {
        true => place.output("fit --resume --out run"),
        false => place.output(fit),
    };
    place.output("predict run moons.csv");
    Some(error.into())
}

#[test]
fn a_disk_that_fills_up() {
    let place = Workplace::with_moons();
    let mut named = Vec::new();
    for checkpoints in [0, 1] {
        let fit = format!("{MOONS} --epochs 3 --lr 0.1 --checkpoint-every {checkpoints} --out run");
        for blocks in [0, 1, 2, 3, 4, 6, 8, 16, 32, 64] {
            let error = without_room(&place, blocks, &fit);
            std::fs::remove_dir_all(place.path("run")).unwrap();
            let Some(error) = error else { break };
            named.push(error);
        }
    }
    for file in [
        "config.toml",
        "posterior.safetensors",
        "checkpoint.bin",
        "report.html",
    ] {
        assert!(
            named.iter().any(|error| error.contains(file)),
            "no {file} among {named:#?}"
        );
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_line() {
    let place = Workplace::with_moons();
    // The metrics of this many epochs need more space than a checkpoint.
    let fit = format!("{MOONS} --epochs 150 --checkpoint-every 1 --out run");
    let output = within(&place, 24, &fit);
    assert_eq!(output.status.code(), Some(SYSTEM));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("metrics.jsonl"), "{message}");
    assert!(!place.read("run/metrics.jsonl").ends_with('\n'));
    place.output("fit --resume --out run");
    assert_eq!(place.read("run/metrics.jsonl").lines().count(), 150);
}
