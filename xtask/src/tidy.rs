//! The house rules that no other tool knows, as searches over the repository's text.

use std::path::Path;

use syn::{Item, UseTree, Visibility};

use crate::commands::{self, Known};
use crate::source::{Source, has_word};
use crate::workspace::{self, Package, TextFile};
use crate::{Outcome, chapters, features, links, tables};

/// Lines of code in a file, tests and comments aside.
const LONGEST_FILE: usize = 600;
/// The same for a file that holds one algorithm.
const LONGEST_ALGORITHM: usize = 300;
/// The folders whose files hold one algorithm each.
const ALGORITHMS: [&str; 2] = [
    "crates/burn-bayes/src/methods/",
    "crates/burn-bayes-contrib/src/methods/",
];
/// Names a user gets from `use burn_bayes::prelude::*`.
const LARGEST_PRELUDE: usize = 15;

/// The crate of scores, and the page of the book that lists them.
const SCORES: [&str; 2] = ["crates/burn-bayes-eval/src/lib.rs", "book/src/scores.md"];
const FACADE: &str = "crates/burn-bayes/src/lib.rs";
const PRELUDE: &str = "crates/burn-bayes/src/prelude.rs";
/// How the facade takes the README as its documentation: through a link beside its manifest, which is what a published
/// package can hold.
const QUICK_START: &str = "#![cfg_attr(any(doc, doctest), doc = include_str!(\"../README.md\"))]";

/// Prints every breach of a house rule and fails if there is one.
pub(crate) fn check(root: &Path) -> Outcome {
    let files = workspace::text_files(root)?;
    let packages = workspace::packages(&files);
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(spaces(file));
        if file.path.ends_with(".rs") {
            problems.extend(head(file));
            problems.extend(rust(file));
        }
    }
    problems.extend(lints(&packages));
    problems.extend(features::problems(root)?);
    problems.extend(facade(&files));
    problems.extend(scores(&files));
    problems.extend(readme_link(root));
    problems.extend(changelog(&files));
    problems.extend(pages(root, &files, packages));
    problems.extend(chapters::problems(root, &files));
    problems.extend(links::problems(root, &files));
    problems.extend(tables::problems(&files));
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
    let starts = ["//!", "#![doc = include_str!(", QUICK_START];
    let is_described = starts.iter().any(|start| file.text.starts_with(start));
    (!is_described).then(|| format!("{}:1: the file does not open with `//!`", file.path))
}

/// What is wrong with the Rust in a file.
fn rust(file: &TextFile) -> Vec<String> {
    let path = &file.path;
    let source = match Source::read(&file.text) {
        Ok(source) => source,
        Err(error) => return vec![format!("{path}:{}: {error}", error.span().start().line)],
    };
    let mut problems = unfinished(path, &source);
    if !is_test_file(path) {
        problems.extend(length(path, &source));
        problems.extend(backends(path, &source));
        problems.extend(renames(path, &source));
        problems.extend(imports(path, &source));
    }
    problems
}

fn length(path: &str, source: &Source<'_>) -> Option<String> {
    let is_algorithm = ALGORITHMS.iter().any(|folder| path.starts_with(folder));
    let limit = if is_algorithm {
        LONGEST_ALGORITHM
    } else {
        LONGEST_FILE
    };
    let lines = source.lines_of_code();
    (lines > limit).then(|| format!("{path}: {lines} lines of code, {limit} allowed"))
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/testing.rs")
}

/// Unfinished or switched-off code. Strings may say such words; code and comments may not.
fn unfinished(path: &str, source: &Source<'_>) -> Vec<String> {
    let text = source.without_literals();
    ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"]
        .into_iter()
        .flat_map(|word| {
            let message = format!("`{word}`");
            wrong_lines(path, &text, &message, |line| line.contains(word))
        })
        .collect()
}

/// Renames outside the functions that first wait until the bytes are on the disk.
fn renames(path: &str, source: &Source<'_>) -> Vec<String> {
    const PLACES: [&str; 3] = [
        "crates/burn-bayes-data/src/source.rs",
        "crates/burn-bayes/src/posterior/storage.rs",
        // Of a folder, whose files were written by the one before.
        "crates/burn-bayes/src/posterior/mixture.rs",
    ];
    if PLACES.contains(&path) {
        return Vec::new();
    }
    let message = "a file is renamed without `sync_all`; write it with `write_whole`";
    wrong_lines(path, &source.without_literals(), message, |line| {
        line.contains("fs::rename(") || line.contains(".persist(")
    })
}

/// Code that names a backend, or that computes where the features of the build decide, outside the
/// places that may.
fn backends(path: &str, source: &Source<'_>) -> Vec<String> {
    const PLACES: [&str; 6] = [
        "benches/",
        "examples/",
        "several-machines/",
        "crates/burn-bayes-tabular/src/settings/device.rs",
        "crates/burn-bayes-graph/src/cpu/",
        "crates/burn-bayes/src/kernels/",
    ];
    if PLACES.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let code = source.code();
    let names = ["Device::flex", "Device::wgpu", "Flex", "Wgpu", "Cuda"];
    let mut messages = names.map(|name| (name, "names a backend")).to_vec();
    messages.push(("Device::default", "is another device in another build"));
    messages
        .into_iter()
        .flat_map(|(name, what)| {
            let message = format!("`{name}` {what}");
            wrong_lines(path, &code, &message, |line| has_word(line, name))
        })
        .collect()
}

/// The modules of crates from the bottom up: each imports only from those before it.
const ORDERS: &[(&str, &[&str])] = &[(
    "crates/burn-bayes-tabular/src/",
    &[
        "error",
        "distinct",
        "order",
        "text",
        "random",
        "parallel",
        "files",
        "settings",
        "network",
        "groups",
        "relevance",
        "rows",
        "predict",
        "scores",
        "report",
        "engine",
        "trend",
        "forest",
        "plain_models",
        "assessment",
        "run",
        "new_rows",
        "experiments",
    ],
)];

/// Imports from modules above, and modules without a place in the order.
fn imports(path: &str, source: &Source<'_>) -> Vec<String> {
    let Some((inside, order)) = ORDERS
        .iter()
        .find_map(|(folder, order)| Some((path.strip_prefix(folder)?, order)))
    else {
        return Vec::new();
    };
    let module = inside.split(['/', '.']).next().unwrap_or_default();
    if module == "lib" {
        return Vec::new();
    }
    let place = |name: &str| order.iter().position(|known| *known == name);
    let Some(own) = place(module) else {
        return vec![format!(
            "{path}: `{module}` has no place in the order of modules"
        )];
    };
    let code = source.code();
    order[own + 1..]
        .iter()
        .flat_map(|above| {
            let import = format!("crate::{above}");
            let message = format!("imports from `{above}`, which is above `{module}`");
            wrong_lines(path, &code, &message, |line| has_word(line, &import))
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
    if !source.lines().any(|line| line.trim() == QUICK_START) {
        problems.push(format!(
            "{FACADE}: the crate's documentation is not the README: {QUICK_START}"
        ));
    }
    let items = |text| Source::read(text).map_or_else(|_| Vec::new(), |source| source.items);
    let (path, prelude) = match text_of(files, PRELUDE) {
        Some(text) => (PRELUDE, Some(items(text))),
        None => (FACADE, items(source).into_iter().find_map(prelude)),
    };
    let Some(prelude) = prelude else {
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
    if names.iter().any(|name| name == "*") {
        problems.push(format!("{path}: a glob in the prelude"));
    }
    problems
}

/// The page of all scores has every name that the crate of scores exports.
fn scores(files: &[TextFile]) -> Vec<String> {
    let [source, page] = SCORES;
    let Some(Ok(exported)) = text_of(files, source).map(Source::read) else {
        return vec![format!("{source} is missing")];
    };
    let text = text_of(files, page).unwrap_or_default();
    let is_listed = |name: &String| text.lines().any(|line| has_word(line, name));
    let exported = reexported(&exported.items).into_iter();
    let missing = exported.filter(|name| !is_listed(name));
    missing
        .map(|name| format!("{page}: `{name}` of {source} is not listed"))
        .collect()
}

/// A README beside the facade's manifest says what the root's says.
fn readme_link(root: &Path) -> Option<String> {
    let path = "crates/burn-bayes/README.md";
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    let is_same = std::fs::read_to_string(root.join("README.md")).is_ok_and(|main| main == text);
    (!is_same).then(|| format!("{path}: differs from README.md: make it a link"))
}

/// The items of `pub mod prelude { … }`, if the item is that.
fn prelude(item: Item) -> Option<Vec<Item>> {
    match item {
        Item::Mod(module) if module.ident == "prelude" && is_public(&module.vis) => {
            Some(module.content?.1)
        }
        _ => None,
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The names that `pub use` items bring into scope, `*` for a glob.
fn reexported(items: &[Item]) -> Vec<String> {
    let trees = items.iter().filter_map(|item| match item {
        Item::Use(item) if is_public(&item.vis) => Some(&item.tree),
        _ => None,
    });
    trees.flat_map(names).collect()
}

fn names(tree: &UseTree) -> Vec<String> {
    match tree {
        UseTree::Path(path) => names(&path.tree),
        UseTree::Group(group) => group.items.iter().flat_map(names).collect(),
        UseTree::Name(name) => vec![name.ident.to_string()],
        UseTree::Rename(name) => vec![name.rename.to_string()],
        UseTree::Glob(_) => vec!["*".into()],
    }
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
        assert_eq!(head(&file("a.rs", QUICK_START)), None);
        assert!(head(&file("a.rs", "\n//! A.\n")).is_some());
        assert!(head(&file("a.rs", "use b;\n")).is_some());
    }

    #[test]
    fn length_counts_everything_but_tests() {
        let is_long = |path: &str, text: &str| !rust(&file(path, text)).is_empty();
        let long = "use x;\n".repeat(LONGEST_ALGORITHM + 1);
        assert!(is_long("crates/burn-bayes/src/methods/a.rs", &long));
        assert!(!is_long("crates/burn-bayes/src/a.rs", &long));
        let longer = "use x;\n".repeat(LONGEST_FILE + 1);
        assert!(is_long("crates/burn-bayes/src/a.rs", &longer));
        assert!(!is_long("suite/tests/it/a.rs", &longer));
        let tested = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{longer}}}\n");
        assert!(!is_long("crates/burn-bayes/src/methods/a.rs", &tested));
    }

    #[test]
    fn unfinished_code_is_found_and_strings_are_not() {
        let source = "fn a() { todo!() }\n// dbg!(x)\nconst B: C = \"todo!()\";\n\
            #[ignore = \"slow\"]\nfn d() {}\n";
        let problems = rust(&file("a.rs", source));
        assert_eq!(problems.len(), 3, "{problems:?}");
        for line in ["a.rs:1:", "a.rs:2:", "a.rs:4:"] {
            assert!(problems.iter().any(|problem| problem.starts_with(line)));
        }
    }

    #[test]
    fn files_are_renamed_only_where_they_are_on_the_disk() {
        let source = "//! Writes.\nfn a() { std::fs::rename(a, b); }\n// .persist(c)\nfn b() { file.persist(c); }\n";
        let found = |path: &str| rust(&file(path, source));
        let of_renames = |path| {
            let problems = found(path).into_iter();
            problems
                .filter(|problem| problem.contains("sync_all"))
                .count()
        };
        assert_eq!(of_renames("crates/a/src/b.rs"), 3);
        assert_eq!(of_renames("crates/burn-bayes-data/src/source.rs"), 0);
        assert_eq!(of_renames("crates/a/tests/it/b.rs"), 0);
    }

    #[test]
    fn backends_are_named_only_where_allowed() {
        let source = "//! On Flex.\nfn a() { Device::flex() }\nstruct Flexible;\n\
            fn b() { Device::default() }\n\
            #[cfg(test)]\nmod tests {\n    use b::Wgpu;\n}\n";
        let problems = rust(&file("crates/a/src/lib.rs", source));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/a/src/lib.rs:2:"));
        assert!(problems[1].starts_with("crates/a/src/lib.rs:4:"));
        for path in [
            "crates/a/tests/it/main.rs",
            "benches/src/lib.rs",
            "examples/examples/a.rs",
            "crates/burn-bayes/src/kernels/fused.rs",
        ] {
            assert!(rust(&file(path, source)).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_module_imports_only_from_those_below() {
        let source = "//! A.\nuse crate::rows::A;\n// use crate::run::B;\nuse crate::report::C;\n\
            #[cfg(test)]\nmod tests {\n    use crate::run::D;\n}\n";
        let found = |path: &str| {
            let problems = rust(&file(
                &format!("crates/burn-bayes-tabular/src/{path}"),
                source,
            ));
            problems.join(";")
        };
        assert_eq!(found("run/fit.rs"), "");
        let upwards = found("scores/mod.rs");
        assert!(
            upwards.contains(":4: ") && upwards.contains("`report`"),
            "{upwards}"
        );
        assert!(found("predict.rs").contains("above `predict`"));
        assert!(found("elsewhere/a.rs").contains("no place"));
    }

    #[test]
    fn what_is_no_rust_is_a_problem() {
        let problems = rust(&file("a.rs", "//! A.\nfn a() {\n"));
        assert_eq!(problems.len(), 1, "{problems:?}");
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
        let source = Source::read(code).unwrap();
        assert_eq!(reexported(&source.items), ["B", "D", "F", "G", "I"]);
    }

    #[test]
    fn a_facade_is_checked() {
        let start = QUICK_START;
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
    fn a_score_that_the_book_does_not_list_is_found() {
        let [source, page] = SCORES;
        let exports = "//! A.\nmod a;\npub use a::{B, c};\n";
        let check = |text: &str| scores(&[file(source, exports), file(page, text)]);
        assert_eq!(check("| `B`, `c` |\n"), [""; 0]);
        let missing = check("| `B` | of cc |\n");
        assert!(
            missing.len() == 1 && missing[0].contains("`c`"),
            "{missing:?}"
        );
        assert_eq!(scores(&[]).len(), 1);
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
