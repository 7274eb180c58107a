//! Do the links of the pages lead anywhere?

use std::collections::BTreeMap;
use std::path::Path;

use crate::workspace::TextFile;

/// Every relative link of a page to a file that does not exist, or to a heading that is not there.
pub(crate) fn problems(root: &Path, files: &[TextFile]) -> Vec<String> {
    let is_page = |file: &&TextFile| file.path.ends_with(".md");
    let anchors: BTreeMap<&str, Vec<String>> = files
        .iter()
        .filter(is_page)
        .map(|page| (page.path.as_str(), anchors(&page.text)))
        .collect();
    let mut problems = Vec::new();
    for page in files.iter().filter(is_page) {
        for (line, target) in links(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = joined(&page.path, path);
            let problem = match anchors.get(path.as_str()) {
                Some(anchors) if !anchor.is_empty() && !anchors.iter().any(|one| one == anchor) => {
                    format!("{path} has no heading `#{anchor}`")
                }
                None if !root.join(&path).exists() => format!("`{target}` does not exist"),
                _ => continue,
            };
            problems.push(format!("{}:{line}: {problem}", page.path));
        }
    }
    problems
}

/// The targets of the links in a page's text, each with its line.
pub(crate) fn links(page: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(page).flat_map(|(number, line)| {
        line.split("](")
            .skip(1)
            .filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
    })
}

/// The anchors of a page's headings, as mdBook and the usual hosts make them.
fn anchors(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(page) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let letters = title.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            _ => (letter.is_alphanumeric() || "-_".contains(letter)).then_some(letter),
        });
        let anchor: String = letters.flat_map(char::to_lowercase).collect();
        // A second heading of the same words is numbered.
        let is_taken = |name: &String| anchors.contains(name);
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let mut names = std::iter::once(anchor.clone()).chain(numbered);
        let free = names.find(|name| !is_taken(name));
        anchors.extend(free);
    }
    anchors
}

/// The lines outside fences, with their numbers.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The path of a link on a page, below the root.
fn joined(page: &str, target: &str) -> String {
    if target.is_empty() {
        return page.into();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| TextFile {
            path: path.into(),
            text: text.into(),
        };
        let other = "# One: the `first`\n\n## Two\n\n```sh\n# three\n```\n\n## Two\n";
        let files = [file("book/src/a.md", page), file("book/b.md", other)];
        problems(Path::new("no-such-folder"), &files)
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let page = "# Here\n\n[a](#here), [b](../b.md), [c](../b.md#one-the-first), [d](../b.md#two-1)\n\
            and [e](https://example.org/x.md#y).\n\n```text\n[f](g.md)\n```\n";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for (page, culprit) in [
            ("[a](c.md)\n", "`c.md`"),
            ("[a](../b.md#three)\n", "`#three`"),
            ("[a](../b.md#two-2)\n", "`#two-2`"),
            ("[`a`](#here)\n", "`#here`"),
        ] {
            let problems = found(page);
            assert_eq!(problems.len(), 1, "{page}");
            assert!(problems[0].starts_with("book/src/a.md:1:"), "{problems:?}");
            assert!(problems[0].contains(culprit), "{problems:?}");
        }
    }
}
