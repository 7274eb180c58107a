//! The program as its users run it: arguments in, exit code, output and files out.

mod bad_input;
mod book;
mod check;
mod conformal;
mod counts;
mod decisions;
mod device;
mod divergence;
mod ensemble;
mod evaluate;
mod explain;
mod fit;
mod frequency;
mod function_prior;
mod plan;
mod predict;
mod python_reader;
mod recalibrate;
mod search;
mod several_targets;
#[cfg(unix)]
mod signals;
mod tables;
mod target_scale;
mod threads;
mod traps;
#[cfg(unix)]
mod unwritable;
mod workplace;

use assert_cmd::Command;

/// The program, in an environment that prefers a missing device: commands must use only the device of their
/// settings.
fn burn_bayes() -> Command {
    let mut command = Command::cargo_bin("burn-bayes").expect("the binary is built with its tests");
    command.env("BURN_DEVICE", "none");
    command
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = burn_bayes().args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("burn-bayes") && script.contains("completions"));
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let place = workplace::Workplace::new();
    place.output("manual pages");
    for page in [
        "burn-bayes",
        "burn-bayes-fit",
        "burn-bayes-data-generate",
        "burn-bayes-manual",
    ] {
        let text = place.read(&format!("pages/{page}.1"));
        assert!(
            text.contains(".SH SYNOPSIS") && text.contains("quiet"),
            "{page}: {text}"
        );
    }
    assert!(
        place
            .read("pages/burn-bayes-fit.1")
            .contains("Number of passes over the training rows")
    );
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    burn_bayes().arg("fitt").assert().code(2);
}
