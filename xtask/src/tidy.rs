//! The house rules that no other tool knows, as searches over the repository's text.

use std::path::Path;

use crate::commands::{self, Known};
use crate::source::{Comments, blank, has_word, lines_of_code, without_tests};
use crate::workspace::{self, Package, TextFile};
use crate::{Outcome, chapters};

/// Lines of code in a file, tests and comments aside.
const LONGEST_FILE: usize = 600;
/// The same for a file that holds one algorithm.
const LONGEST_ALGORITHM: usize = 300;
/// Names a user gets from `use burn_bayes::prelude::*`.
const LARGEST_PRELUDE: usize = 14;

const FACADE: &str = "crates/burn-bayes/src/lib.rs";
const PRELUDE: &str = "crates/burn-bayes/src/prelude.rs";
/// How the facade takes the README as its documentation: from the root, or through a link beside
/// its manifest, which is what a published package can hold.
const QUICK_STARTS: [&str; 2] = [
    "#![doc = include_str!(\"../../../README.md\")]",
    "#![doc = include_str!(\"../README.md\")]",
];

/// Prints every breach of a house rule and fails if there is one.
pub(crate) fn check(root: &Path) -> Outcome {
    let files = workspace::text_files(root)?;
    let packages = workspace::packages(&files);
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(spaces(file));
        if file.path.ends_with(".rs") {
            problems.extend(head(file));
            problems.extend(length(file));
            problems.extend(unfinished(file));
            problems.extend(backends(file));
        }
    }
    problems.extend(lints(&packages));
    problems.extend(facade(&files));
    problems.extend(readme_link(root));
    problems.extend(changelog(&files));
    problems.extend(pages(root, &files, packages));
    problems.extend(chapters::problems(root, &files));
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(format!("tidy found {count} problems")),
    }
}

fn text_of<'a>(files: &'a [TextFile], path: &str) -> Option<&'a str> {
    let file = files.iter().find(|file| file.path == path)?;
    Some(&file.text)
}

/// The lines for which `is_wrong`, as problems that carry `message`.
fn wrong_lines(
    path: &str,
    text: &str,
    message: &str,
    is_wrong: impl Fn(&str) -> bool,
) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| is_wrong(line))
        .map(|(index, _)| format!("{path}:{}: {message}", index + 1))
        .collect()
}

fn spaces(file: &TextFile) -> Vec<String> {
    let mut problems = wrong_lines(&file.path, &file.text, "tab", |line| line.contains('\t'));
    let ends_in_space = |line: &str| line.ends_with([' ', '\r']);
    let message = "space at the end of the line";
    problems.extend(wrong_lines(&file.path, &file.text, message, ends_in_space));
    problems
}

fn head(file: &TextFile) -> Option<String> {
    let includes = |line: &&str| file.text.starts_with(*line);
    let is_described = file.text.starts_with("//!") || QUICK_STARTS.iter().any(includes);
    (!is_described).then(|| format!("{}:1: the file does not open with `//!`", file.path))
}

fn length(file: &TextFile) -> Option<String> {
    if is_test_file(&file.path) {
        return None;
    }
    let is_algorithm = file.path.starts_with("crates/burn-bayes/src/methods/");
    let limit = if is_algorithm {
        LONGEST_ALGORITHM
    } else {
        LONGEST_FILE
    };
    let lines = lines_of_code(&file.text);
    let path = &file.path;
    (lines > limit).then(|| format!("{path}: {lines} lines of code, {limit} allowed"))
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/testing.rs")
}

/// Unfinished or switched-off code. Strings may say such words; code and comments may not.
fn unfinished(file: &TextFile) -> Vec<String> {
    let text = blank(&file.text, Comments::Kept);
    ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"]
        .into_iter()
        .flat_map(|word| {
            let message = format!("`{word}`");
            wrong_lines(&file.path, &text, &message, |line| line.contains(word))
        })
        .collect()
}

/// Code that names a backend, or that computes where the features of the build decide, outside the
/// places that may.
fn backends(file: &TextFile) -> Vec<String> {
    const PLACES: [&str; 5] = [
        "benches/",
        "examples/",
        "crates/burn-bayes-tabular/src/settings/device.rs",
        "crates/burn-bayes-graph/src/cpu/",
        "crates/burn-bayes/src/kernels/",
    ];
    if is_test_file(&file.path) || PLACES.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let code = without_tests(&blank(&file.text, Comments::Blanked));
    let names = ["Device::flex", "Device::wgpu", "Flex", "Wgpu", "Cuda"];
    let mut messages = names.map(|name| (name, "names a backend")).to_vec();
    messages.push(("Device::default", "is another device in another build"));
    messages
        .into_iter()
        .flat_map(|(name, what)| {
            let message = format!("`{name}` {what}");
            wrong_lines(&file.path, &code, &message, |line| has_word(line, name))
        })
        .collect()
}

fn lints(packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .filter(|package| !package.has_workspace_lints)
        .map(|package| {
            format!(
                "{}/Cargo.toml: no `[lints] workspace = true`",
                package.folder
            )
        })
        .collect()
}

/// The facade's documentation is the README, and its prelude is short.
fn facade(files: &[TextFile]) -> Vec<String> {
    let Some(source) = text_of(files, FACADE) else {
        return vec![format!("{FACADE} is missing")];
    };
    let mut problems = Vec::new();
    if !source
        .lines()
        .any(|line| QUICK_STARTS.contains(&line.trim()))
    {
        let wanted = QUICK_STARTS[0];
        problems.push(format!(
            "{FACADE}: the crate's documentation is not the README: {wanted}"
        ));
    }
    let prelude = match text_of(files, PRELUDE) {
        Some(text) => Some((PRELUDE, blank(text, Comments::Blanked))),
        None => module(&blank(source, Comments::Blanked), "prelude").map(|text| (FACADE, text)),
    };
    let Some((path, prelude)) = prelude else {
        problems.push(format!("{FACADE}: there is no `pub mod prelude`"));
        return problems;
    };
    let names = reexported(&prelude);
    if names.len() > LARGEST_PRELUDE {
        let count = names.len();
        problems.push(format!(
            "{path}: {count} names in the prelude, {LARGEST_PRELUDE} allowed"
        ));
    }
    if names.iter().any(|name| name.ends_with('*')) {
        problems.push(format!("{path}: a glob in the prelude"));
    }
    problems
}

/// A README beside the facade's manifest says what the root's says.
fn readme_link(root: &Path) -> Option<String> {
    let path = "crates/burn-bayes/README.md";
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    let is_same = std::fs::read_to_string(root.join("README.md")).is_ok_and(|main| main == text);
    (!is_same).then(|| format!("{path}: differs from README.md: make it a link"))
}

/// The body of `pub mod name { … }` in blanked code.
fn module(code: &str, name: &str) -> Option<String> {
    let body = code.split_once(&format!("pub mod {name} {{"))?.1;
    let mut depth = 1;
    for (place, letter) in body.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(body[..place].to_string());
        }
    }
    None
}

/// The names that the `pub use` items of blanked code bring into scope.
fn reexported(code: &str) -> Vec<String> {
    code.split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split_once(';'))
        .flat_map(|(item, _)| item.split(['{', '}', ',']))
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.ends_with("::"))
        .map(|part| part.rsplit([':', ' ']).next().unwrap_or(part).to_string())
        .collect()
}

fn changelog(files: &[TextFile]) -> Option<String> {
    let Some(text) = text_of(files, "CHANGELOG.md") else {
        return Some("CHANGELOG.md is missing".into());
    };
    let manifest = text_of(files, "Cargo.toml").unwrap_or_default();
    let version = workspace::value(manifest, "[workspace.package]", "version").unwrap_or_default();
    let is_current = text.lines().any(|line| {
        line.starts_with("## [Unreleased]") || line.starts_with(&format!("## [{version}]"))
    });
    (!is_current).then(|| format!("CHANGELOG.md: no section [Unreleased] or [{version}]"))
}

/// Every command on a page exists.
fn pages(root: &Path, files: &[TextFile], packages: Vec<Package>) -> Vec<String> {
    let mut problems = Vec::new();
    if text_of(files, "README.md").is_none() {
        problems.push("README.md is missing".into());
    }
    let known = Known::read(root, files, packages);
    for page in files.iter().filter(|file| file.path.ends_with(".md")) {
        for command in commands::shown_in(&page.text) {
            if let Some(problem) = commands::problem(&command.words, &known) {
                problems.push(format!("{}:{}: {problem}", page.path, command.line));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn tabs_and_trailing_spaces_are_found_by_line() {
        let problems = spaces(&file("a.md", "one\n\ttwo\nthree \nfour\n"));
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("a.md:2:") && problems[1].starts_with("a.md:3:"));
    }

    #[test]
    fn a_file_opens_with_its_description() {
        assert_eq!(head(&file("a.rs", "//! A.\n")), None);
        for line in QUICK_STARTS {
            assert_eq!(head(&file("a.rs", line)), None);
        }
        assert!(head(&file("a.rs", "\n//! A.\n")).is_some());
        assert!(head(&file("a.rs", "use b;\n")).is_some());
    }

    #[test]
    fn length_counts_everything_but_tests() {
        let long = "x\n".repeat(LONGEST_ALGORITHM + 1);
        assert!(length(&file("crates/burn-bayes/src/methods/a.rs", &long)).is_some());
        assert!(length(&file("crates/burn-bayes/src/a.rs", &long)).is_none());
        let longer = "x\n".repeat(LONGEST_FILE + 1);
        assert!(length(&file("crates/burn-bayes/src/a.rs", &longer)).is_some());
        assert!(length(&file("crates/burn-bayes/tests/it/a.rs", &longer)).is_none());
        let tested = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{longer}}}\n");
        assert!(length(&file("crates/burn-bayes/src/methods/a.rs", &tested)).is_none());
    }

    #[test]
    fn unfinished_code_is_found_and_strings_are_not() {
        let source = "fn a() { todo!() }\n// dbg!(x)\nlet b = \"todo!()\";\n#[ignore = \"slow\"]\n";
        let problems = unfinished(&file("a.rs", source));
        assert_eq!(problems.len(), 3, "{problems:?}");
        for line in ["a.rs:1:", "a.rs:2:", "a.rs:4:"] {
            assert!(problems.iter().any(|problem| problem.starts_with(line)));
        }
    }

    #[test]
    fn backends_are_named_only_where_allowed() {
        let source = "//! On Flex.\nfn a() { Device::flex() }\nstruct Flexible;\n\
            fn b() { Device::default() }\n\
            #[cfg(test)]\nmod tests {\n    use b::Wgpu;\n}\n";
        let problems = backends(&file("crates/a/src/lib.rs", source));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/a/src/lib.rs:2:"));
        assert!(problems[1].starts_with("crates/a/src/lib.rs:4:"));
        for path in [
            "crates/a/tests/it/main.rs",
            "benches/src/lib.rs",
            "examples/examples/a.rs",
            "crates/burn-bayes/src/kernels/fused.rs",
        ] {
            assert!(backends(&file(path, source)).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let package = |has_workspace_lints| Package {
            folder: "crates/a".into(),
            has_workspace_lints,
            ..Package::default()
        };
        assert_eq!(lints(&[package(true)]).len(), 0);
        assert_eq!(lints(&[package(true), package(false)]).len(), 1);
    }

    #[test]
    fn the_names_of_a_prelude_are_counted() {
        let code = "pub use a::{B, C as D, e::{F, G},};\n#[cfg(x)]\npub use h::I;\nuse j::K;\n";
        assert_eq!(reexported(code), ["B", "D", "F", "G", "I"]);
    }

    #[test]
    fn a_facade_is_checked() {
        let start = QUICK_STARTS[1];
        let names: Vec<String> = (0..LARGEST_PRELUDE)
            .map(|index| format!("A{index}"))
            .collect();
        let source =
            |names: &str| format!("{start}\npub mod prelude {{ pub use a::{{{names}}}; }}\n");
        let good = source(&names.join(", "));
        assert_eq!(facade(&[file(FACADE, &good)]), [""; 0]);
        let crowded = source(&format!("{}, B", names.join(", ")));
        let glob = source("*");
        let plain = good.replace(start, "//! A facade.");
        let bare = format!("{start}\n");
        for bad in [&crowded, &glob, &plain, &bare] {
            assert_eq!(facade(&[file(FACADE, bad)]).len(), 1, "{bad}");
        }
        let moved = [
            file(FACADE, &bare),
            file(PRELUDE, "//! P.\npub use a::B;\n"),
        ];
        assert_eq!(facade(&moved), [""; 0]);
    }

    #[test]
    fn the_changelog_knows_the_version() {
        let manifest = file("Cargo.toml", "[workspace.package]\nversion = \"0.2.0\"\n");
        let check = |text: &str| {
            let manifest = file(&manifest.path, &manifest.text);
            changelog(&[manifest, file("CHANGELOG.md", text)])
        };
        assert_eq!(check("# Changelog\n\n## [Unreleased]\n"), None);
        assert_eq!(check("## [0.2.0] - a day\n"), None);
        assert!(check("## [0.1.0]\n").is_some());
        assert!(changelog(&[manifest]).is_some());
    }
}
