//! Other programs, run in the repository's root with their output left on the terminal.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// A program about to be run.
pub(crate) struct Step {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
    folder: PathBuf,
}

impl Step {
    /// `program` without arguments, to run in `folder`.
    pub(crate) fn new(program: impl AsRef<OsStr>, folder: &Path) -> Self {
        Self {
            program: program.as_ref().into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: folder.to_path_buf(),
        }
    }

    /// More arguments.
    pub(crate) fn arguments<S: AsRef<str>>(mut self, arguments: &[S]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|word| word.as_ref().into()));
        self
    }

    /// More arguments after a `--`, which an empty list does without.
    pub(crate) fn divided(self, arguments: &[String]) -> Self {
        if arguments.is_empty() {
            return self;
        }
        self.arguments(&["--"]).arguments(arguments)
    }

    /// One more environment variable.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Runs the program to its end; any exit status but success is an error.
    pub(crate) fn run(self) -> Outcome {
        let text = self.text();
        let status = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.environment)
            .current_dir(&self.folder)
            .status()
            .map_err(|error| format!("`{text}` did not start: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("`{text}` failed ({status})"))
        }
    }

    fn text(&self) -> String {
        let name = Path::new(&self.program)
            .file_stem()
            .unwrap_or(&self.program);
        std::iter::once(name)
            .chain(self.arguments.iter().map(OsString::as_os_str))
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// The Cargo that runs this program, so that `cargo +toolchain xtask` keeps its toolchain.
pub(crate) fn cargo(folder: &Path, arguments: &[&str]) -> Step {
    Step::new(cargo_path(), folder).arguments(arguments)
}

/// Does this command exist and succeed? Its output is thrown away.
pub(crate) fn is_available(name: &str, arguments: &[&str]) -> bool {
    let program = if name == "cargo" {
        cargo_path()
    } else {
        name.into()
    };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The standard output of a command that must succeed.
pub(crate) fn output(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let result = Command::new(cargo_path())
        .args(arguments)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !result.status.success() {
        return Err(format!("`cargo {}` failed", arguments.join(" ")));
    }
    String::from_utf8(result.stdout).map_err(|error| format!("cargo wrote odd text: {error}"))
}

fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let here = std::env::temp_dir();
        let message = cargo(&here, &["no-such-command-of-cargo"])
            .run()
            .unwrap_err();
        assert!(
            message.contains("cargo no-such-command-of-cargo"),
            "{message}"
        );
        let message = Step::new("no-such-program", &here).run().unwrap_err();
        assert!(message.contains("did not start"), "{message}");
    }

    #[test]
    fn the_divider_appears_only_before_something() {
        let here = std::env::temp_dir();
        assert_eq!(cargo(&here, &["test"]).divided(&[]).text(), "cargo test");
        let step = cargo(&here, &["test"]).divided(&["one".into()]);
        assert_eq!(step.text(), "cargo test -- one");
    }

    #[test]
    fn availability_is_the_exit_status() {
        assert!(is_available("cargo", &["--version"]));
        assert!(!is_available("cargo", &["no-such-command-of-cargo"]));
        assert!(!is_available("no-such-program", &[]));
    }
}
