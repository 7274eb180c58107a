//! The program as its users run it: arguments in, exit code, output and files out.

mod device;
mod on_cpu;
mod workplace;

use assert_cmd::Command;

/// The program, in an environment that prefers a missing device: commands must use only the device of their
/// settings.
fn burn_bayes() -> Command {
    let mut command = Command::cargo_bin("burn-bayes").expect("the binary is built with its tests");
    command.env("BURN_DEVICE", "none");
    command
}
