//! Do the `cargo …` commands that a page shows exist?

use std::path::Path;

use crate::stages::TASKS;
use crate::workspace::{Package, TextFile, examples, keys, stems};

/// What a command may refer to.
pub(crate) struct Known {
    packages: Vec<Package>,
    examples: Vec<String>,
    benches: Vec<String>,
    tests: Vec<String>,
    dependencies: Vec<String>,
}

impl Known {
    /// Reads it from the repository.
    pub(crate) fn read(root: &Path, files: &[TextFile], packages: Vec<Package>) -> Self {
        let manifest = files.iter().find(|file| file.path == "Cargo.toml");
        let dependencies = manifest.map(|file| keys(&file.text, "[workspace.dependencies]"));
        let tests = packages.iter().flat_map(|package| {
            let folder = root.join(&package.folder).join("tests");
            let is_suite = |name: &&str| folder.join(name).join("main.rs").is_file();
            let suites = ["it"].into_iter().filter(is_suite).map(String::from);
            suites.chain(stems(&folder, "rs")).collect::<Vec<_>>()
        });
        Self {
            examples: examples(root, &packages),
            benches: stems(&root.join("benches/benches"), "rs"),
            tests: tests.collect(),
            dependencies: dependencies.unwrap_or_default(),
            packages,
        }
    }
}

/// A command on a page.
#[derive(Debug, PartialEq)]
pub(crate) struct ShownCommand {
    /// The page's line, counted from one.
    pub(crate) line: usize,
    /// Its words, the first of which is `cargo`.
    pub(crate) words: Vec<String>,
}

/// Every `cargo …` in the page's code, fenced or in a line of text.
pub(crate) fn shown_in(markdown: &str) -> Vec<ShownCommand> {
    let mut commands = Vec::new();
    let mut is_fenced = false;
    for (index, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let snippets: Vec<&str> = if is_fenced {
            vec![line]
        } else {
            line.split('`').skip(1).step_by(2).collect()
        };
        for part in snippets.iter().flat_map(|code| code.split("&&")) {
            if let Some(words) = cargo_words(part) {
                let line = index + 1;
                commands.push(ShownCommand { line, words });
            }
        }
    }
    commands
}

/// The words from `cargo` on, if this is a call of it: a prompt and variables may come first.
fn cargo_words(code: &str) -> Option<Vec<String>> {
    let words: Vec<String> = code
        .split_whitespace()
        .take_while(|word| !word.starts_with('#'))
        .map(String::from)
        .collect();
    let is_preamble = |word: &&String| *word == "$" || word.contains('=');
    let start = words.iter().take_while(is_preamble).count();
    let is_call = words.get(start).is_some_and(|word| word == "cargo") && words.len() > start + 1;
    is_call.then(|| words[start..].to_vec())
}

/// What is wrong with a command: `None` when everything that it names exists.
pub(crate) fn problem(words: &[String], known: &Known) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let subcommand = *words.get(1)?;
    let arguments = &words[2..];
    match subcommand {
        "xtask" => task_problem(arguments),
        "add" | "install" => added_problem(subcommand, arguments, known),
        "bench" | "build" | "check" | "clippy" | "doc" | "fmt" | "nextest" | "run" | "test" => {
            target_problem(arguments, known)
        }
        _ => Some(format!("`cargo {subcommand}` is not a command of ours")),
    }
}

fn task_problem(arguments: &[&str]) -> Option<String> {
    let (name, flags) = arguments.split_first()?;
    let Some(task) = TASKS.iter().find(|task| task.name == *name) else {
        return Some(format!("xtask has no task `{name}`"));
    };
    flags
        .iter()
        .take_while(|flag| **flag != "--")
        .find(|flag| !task.flags.contains(flag))
        .map(|flag| format!("`cargo xtask {name}` does not know `{flag}`"))
}

/// `cargo add burn` and the like must name something the workspace has or uses; tools that
/// `cargo install` fetches are outside our knowledge unless they carry our name.
fn added_problem(subcommand: &str, arguments: &[&str], known: &Known) -> Option<String> {
    let name = arguments.iter().find(|word| !word.starts_with('-'))?;
    let name = name.split('@').next().unwrap_or(name);
    let is_ours = known.packages.iter().any(|package| package.name == name);
    let is_used = known.dependencies.iter().any(|used| used == name);
    let is_foreign_tool = subcommand == "install" && !name.starts_with("burn-bayes");
    if !is_ours && !is_used && !is_foreign_tool {
        return Some(format!(
            "`{name}` is neither a package nor a dependency here"
        ));
    }
    match features(arguments) {
        Some(list) if is_ours => feature_problem(list, Some(name), known),
        _ => None,
    }
}

fn target_problem(arguments: &[&str], known: &Known) -> Option<String> {
    let arguments: Vec<&str> = arguments
        .iter()
        .take_while(|word| **word != "--")
        .copied()
        .collect();
    let value = |names: &[&str]| option(&arguments, names);
    let package = value(&["-p", "--package"]);
    let package_names: Vec<String> = known.packages.iter().map(|one| one.name.clone()).collect();
    let checks = [
        ("package", package, &package_names),
        ("example", value(&["--example"]), &known.examples),
        ("bench", value(&["--bench"]), &known.benches),
        ("test suite", value(&["--test"]), &known.tests),
    ];
    for (kind, name, existing) in checks {
        let Some(name) = name.filter(|name| !is_placeholder(name)) else {
            continue;
        };
        if !existing.iter().any(|one| one == name) {
            return Some(format!("there is no {kind} `{name}`"));
        }
    }
    feature_problem(features(&arguments)?, package, known)
}

fn feature_problem(list: &str, package: Option<&str>, known: &Known) -> Option<String> {
    let is_declared = |feature: &str| {
        known
            .packages
            .iter()
            .filter(|one| package.is_none_or(|name| name == one.name))
            .any(|one| one.features.iter().any(|known| known == feature))
    };
    list.split(',')
        .filter(|feature| !is_placeholder(feature))
        .find(|feature| !is_declared(feature))
        .map(|feature| format!("there is no feature `{feature}`"))
}

fn features<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    option(arguments, &["-F", "--features"])
}

/// The value after one of these options, written `--name value` or `--name=value`.
fn option<'a>(arguments: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if names.contains(word) {
            return words.next().copied();
        }
        if let Some((name, value)) = word.split_once('=')
            && names.contains(&name)
        {
            return Some(value);
        }
    }
    None
}

/// A word such as `<name>` stands for whatever the reader puts there.
fn is_placeholder(word: &str) -> bool {
    word.contains(['<', '…'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known {
            packages: vec![Package {
                name: "burn-bayes".into(),
                features: vec!["wgpu".into(), "tui".into()],
                ..Package::default()
            }],
            examples: vec!["mnist".into()],
            benches: vec!["step".into()],
            tests: vec!["it".into()],
            dependencies: vec!["burn".into()],
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn commands_are_found_in_fences_and_in_text() {
        let page = "Run `cargo xtask test`, or `cargo`:\n```console\n$ A=1 cargo run --example x # y\n\
            let a = cargo;\ncargo fmt && cargo doc\n```\nDo not `let cargo run`.\n";
        let found: Vec<_> = shown_in(page)
            .into_iter()
            .map(|command| (command.line, command.words.join(" ")))
            .collect();
        let expected = [
            (1, "cargo xtask test"),
            (3, "cargo run --example x"),
            (5, "cargo fmt"),
            (5, "cargo doc"),
        ]
        .map(|(line, text)| (line, text.to_string()));
        assert_eq!(found, expected);
    }

    #[test]
    fn commands_that_exist_pass() {
        for text in [
            "cargo xtask",
            "cargo xtask ci --skip-tests",
            "cargo xtask test --wgpu -- name",
            "cargo run -p burn-bayes --example mnist --features=wgpu,tui -- --epochs 3",
            "cargo run --example <name>",
            "cargo bench --bench step",
            "cargo test --test it --features wgpu",
            "cargo add burn-bayes --features tui",
            "cargo add burn --features train",
            "cargo install cargo-nextest --locked",
            "cargo fmt",
        ] {
            assert_eq!(problem(&words(text), &known()), None, "{text}");
        }
    }

    #[test]
    fn commands_that_do_not_exist_are_named() {
        for (text, culprit) in [
            ("cargo xtask tset", "tset"),
            ("cargo xtask test --gpu", "--gpu"),
            ("cargo run --example nmist", "nmist"),
            ("cargo run --package other", "other"),
            ("cargo run --package=other", "other"),
            ("cargo bench --bench stride", "stride"),
            ("cargo test --test unit", "unit"),
            ("cargo test --features quantum", "quantum"),
            ("cargo add burn-byes", "burn-byes"),
            ("cargo add burn-bayes -F gpu", "gpu"),
            ("cargo install burn-bayes-clj", "burn-bayes-clj"),
            ("cargo frobnicate", "frobnicate"),
        ] {
            let message = problem(&words(text), &known()).unwrap_or_default();
            assert!(message.contains(culprit), "{text}: {message}");
        }
    }
}
