//! What does not depend on the device. `cargo xtask test --wgpu` leaves it out.

mod bad_input;
mod book;
mod check;
mod conformal;
mod counts;
mod decisions;
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

use crate::burn_bayes;
use crate::workplace::Workplace;

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
    let place = Workplace::new();
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
