//! The program in the background, and signals to it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::workplace::{Workplace, last_of_each};

impl Workplace {
    /// The program in the background, in its own process group. It receives every signal, also those that this
    /// process ignores, and does not use a proxy of the environment.
    pub(crate) fn start(&self, arguments: &str) -> Child {
        let program = assert_cmd::cargo::cargo_bin("burn-bayes");
        let mut command = match cfg!(target_os = "linux") {
            true => Command::new("env"),
            false => Command::new(&program),
        };
        if cfg!(target_os = "linux") {
            command.arg("--default-signal").arg(&program);
        }
        command
            .args(last_of_each(arguments))
            .current_dir(self.path(""))
            .env("NO_PROXY", "*")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    }
}

/// The receiver of a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// Only the process.
    Process,
    /// The process and its children, as with Ctrl-C.
    Group,
}

/// Interrupts the program. Returns its exit code and its messages once it and its children have ended.
pub(crate) fn interrupted(child: Child, reach: Reach) -> (Option<i32>, String) {
    let id = child.id();
    send(
        "INT",
        &match reach {
            Reach::Process => id.to_string(),
            Reach::Group => format!("-{id}"),
        },
    );
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), message)
}

/// Sends a signal to a process or a process group.
pub(crate) fn send(signal: &str, to: &str) {
    let status = Command::new("kill").args(["-s", signal, "--", to]).status();
    assert!(status.unwrap().success());
}

/// Much longer than any wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a file has this many lines.
pub(crate) fn wait_for_lines(place: &Workplace, name: &str, lines: usize) {
    wait_until(|| {
        let text = std::fs::read_to_string(place.path(name)).unwrap_or_default();
        text.matches('\n').count() >= lines
    });
}
