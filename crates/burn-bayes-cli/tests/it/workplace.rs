//! A temporary folder with files to fit.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use burn_bayes_data::{gap_regression, two_moons};
use serde_json::Value;
use tempfile::TempDir;

/// A folder that is removed at the end of the test.
pub(crate) struct Workplace {
    folder: TempDir,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    /// A folder with `moons.csv`, whose classes are words.
    pub(crate) fn with_moons() -> Self {
        let place = Self::new();
        let data = two_moons(200, 0.1, 1).unwrap();
        let mut text = String::from("x,y,kind\n");
        let classes = data.targets().as_classes().unwrap();
        for (row, class) in classes.iter().enumerate() {
            let name = ["lower", "upper"][*class];
            let point = data.features().row(row);
            writeln!(text, "{},{},{name}", point[0], point[1]).unwrap();
        }
        place.write("moons.csv", &text);
        place
    }

    /// A folder with `gap.csv`, whose target has a large mean and scale.
    pub(crate) fn with_gap() -> Self {
        let place = Self::new();
        let data = gap_regression(150, 0.1, 1).unwrap();
        let mut text = String::from("x;price\n");
        for (row, target) in data.targets().as_real().unwrap().iter().enumerate() {
            let price = 1000.0 + 50.0 * target;
            writeln!(text, "{};{price}", data.features().row(row)[0]).unwrap();
        }
        place.write("gap.csv", &text);
        place
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The program, run in the folder.
    pub(crate) fn burn_bayes(&self, arguments: &str) -> Command {
        let mut command = super::burn_bayes();
        command.current_dir(self.folder.path());
        command.args(last_of_each(arguments));
        command
    }

    /// The standard output and error of the program, which must succeed.
    #[track_caller]
    pub(crate) fn said(&self, arguments: &str) -> [String; 2] {
        let output = self.burn_bayes(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments}: {errors}");
        [String::from_utf8(output.stdout).unwrap(), errors]
    }

    /// The output of the program, which must succeed.
    #[track_caller]
    pub(crate) fn output(&self, arguments: &str) -> String {
        let [output, _] = self.said(arguments);
        output
    }

    /// The messages of the program, which must succeed.
    #[track_caller]
    pub(crate) fn warnings(&self, arguments: &str) -> String {
        let [_, errors] = self.said(arguments);
        errors
    }

    /// The output with `--json`.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &str) -> Value {
        json(&self.output(&format!("{arguments} --json")))
    }

    /// The file of scores in the folder of a run.
    #[track_caller]
    pub(crate) fn scores(&self, run: &str) -> Value {
        json(&self.read(&format!("{run}/scores.json")))
    }

    /// The exit code and the error message.
    #[track_caller]
    pub(crate) fn failure(&self, arguments: &str) -> (i32, String) {
        let output = self.burn_bayes(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!errors.contains("panicked"), "{arguments}: {errors}");
        (output.status.code().unwrap_or(-1), errors)
    }

    /// The error message of a command that ends with this exit code. The message must contain all words.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &str, code: i32, words: &[&str]) -> String {
        let (found, message) = self.failure(arguments);
        assert_eq!(found, code, "{arguments}: {message}");
        for word in words {
            let is_said = message.contains(word);
            assert!(is_said, "{arguments}: no `{word}` in: {message}");
        }
        message
    }
}

#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
pub(crate) fn number(value: &Value) -> f64 {
    let number = value.as_f64();
    number.unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The arguments, without options that are given again: those of [`MOONS`] and [`GAP`] may be. Lists add up.
pub(crate) fn last_of_each(arguments: &str) -> Vec<&str> {
    let mut groups: Vec<Vec<&str>> = vec![Vec::new()];
    for word in arguments.split_whitespace() {
        if word.starts_with("--") {
            groups.push(Vec::new());
        }
        groups.last_mut().unwrap().push(word);
    }
    let is_last = |place: usize| {
        let option = groups[place].first();
        let lists = [
            "--by",
            "--ignore",
            "--keep",
            "--row",
            "--similar-to",
            "--variant",
        ];
        let is_list = option.is_some_and(|option| lists.contains(option));
        is_list
            || groups[place + 1..]
                .iter()
                .all(|other| other.first() != option)
    };
    let kept = (0..groups.len()).filter(|&place| is_last(place));
    kept.flat_map(|place| groups[place].clone()).collect()
}

/// The options of a small classification fit.
pub(crate) const MOONS: &str = "fit --data moons.csv --target kind --task classification \
    --model mlp:20 --method mean-field --epochs 30 --draws 20";

/// The options of a small regression fit.
pub(crate) const GAP: &str = "fit --data gap.csv --target price --task regression \
    --target-scale linear --model mlp:20 --method mean-field --epochs 60 --batch-size 10 --draws 20";
