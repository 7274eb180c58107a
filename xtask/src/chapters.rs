//! The book's own rules: code comes from files that are compiled, and the summary lists all pages.

use std::path::Path;

use crate::links::links;
use crate::workspace::TextFile;

const FOLDER: &str = "book/src/";

/// What is wrong with the book, one line each.
pub(crate) fn problems(root: &Path, files: &[TextFile]) -> Vec<String> {
    let chapters: Vec<&TextFile> = files
        .iter()
        .filter(|file| file.path.starts_with(FOLDER) && file.path.ends_with(".md"))
        .collect();
    let read = |relative: &str| std::fs::read_to_string(root.join(FOLDER).join(relative)).ok();
    let mut problems = Vec::new();
    for chapter in &chapters {
        for (line, message) in chapter_problems(&chapter.text, read) {
            problems.push(format!("{}:{line}: {message}", chapter.path));
        }
    }
    let summary = chapters
        .iter()
        .find(|file| file.path == "book/src/SUMMARY.md");
    let Some(summary) = summary else {
        return problems;
    };
    for chapter in chapters.iter().filter(|file| file.path != summary.path) {
        let name = &chapter.path[FOLDER.len()..];
        if !links(&summary.text).any(|(_, target)| target == name) {
            problems.push(format!("{}: not listed in SUMMARY.md", chapter.path));
        }
    }
    problems
}

/// The problems of one chapter by line; `read` gives the text of a file named in it.
fn chapter_problems(
    text: &str,
    read: impl Fn(&str) -> Option<String>,
) -> impl Iterator<Item = (usize, String)> {
    let mut problems = loose_code(text);
    for (line, target) in includes(text) {
        if let Some(message) = include_problem(target, &read) {
            problems.push((line, message));
        }
    }
    problems.into_iter()
}

/// Fenced lines that are not included from a compiled file. Blocks marked `text` are no code.
fn loose_code(text: &str) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(marker) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(marker) };
        } else if fence.is_some_and(|marker| marker != "text") && !line.starts_with("{{#") {
            let message = "code that is not included from a compiled file";
            problems.push((index + 1, message.to_string()));
        }
    }
    problems
}

/// The targets of `{{#include …}}` and `{{#rustdoc_include …}}`.
fn includes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(text).flat_map(|(number, line)| {
        line.split("include ")
            .skip(1)
            .filter_map(move |rest| Some((number, rest.split_once("}}")?.0.trim())))
    })
}

/// An include names a file and perhaps an anchor in it, never line numbers, which rot.
fn include_problem(target: &str, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (path, anchor) = match target.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let Some(text) = read(path) else {
        return Some(format!("the included `{path}` does not exist"));
    };
    let anchor = anchor?;
    // In Markdown an anchor is a comment of HTML.
    let line_end = |line: &str| line.trim_end().trim_end_matches("-->").trim_end().len();
    let opens = |line: &str| line[..line_end(line)].ends_with(&format!("ANCHOR: {anchor}"));
    (!text.lines().any(opens)).then(|| format!("`{path}` has no anchor `{anchor}`"))
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let read = |path: &str| match path {
            "a.rs" => Some("// ANCHOR: part\nfn a() {}\n// ANCHOR_END: part\n".to_string()),
            "b.md" => Some("<!-- ANCHOR: table -->\n| a |\n<!-- ANCHOR_END: table -->\n".into()),
            _ => None,
        };
        chapter_problems(text, read).collect()
    }

    #[test]
    fn included_code_and_text_blocks_pass() {
        let chapter = "{{#include b.md:table}}\n\n```rust\n{{#include a.rs:part}}\n```\n\n```text\nψ = 1\n```\n\n```rust\n{{#rustdoc_include a.rs}}\n```\n";
        assert_eq!(found(chapter), []);
    }

    #[test]
    fn loose_code_is_found() {
        let problems = found("one\n\n```rust\nlet a = 1;\n```\n\n```text\nfine\n```\n");
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].0, 4);
    }

    #[test]
    fn what_does_not_exist_is_found() {
        for (chapter, culprit) in [
            ("```rust\n{{#include c.rs}}\n```\n", "c.rs"),
            ("```rust\n{{#include a.rs:whole}}\n```\n", "whole"),
            ("```rust\n{{#include a.rs:1:2}}\n```\n", "1:2"),
        ] {
            let problems = found(chapter);
            assert_eq!(problems.len(), 1, "{chapter}");
            assert!(problems[0].1.contains(culprit), "{problems:?}");
        }
    }
}
