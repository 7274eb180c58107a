//! Where things are: the repository's root, its text files, its packages and their manifests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::output;

/// The repository's root: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent()
        .expect("xtask lies in the repository")
        .to_path_buf()
}

/// The folder Cargo builds into, wherever the environment or a configuration file puts it.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf, String> {
    let metadata = output(root, &["metadata", "--no-deps", "--format-version", "1"])?;
    json_string(&metadata, "target_directory")
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target folder".into())
}

/// The first string under `key` in a JSON text.
fn json_string(json: &str, key: &str) -> Option<String> {
    let opening = format!("\"{key}\":\"");
    let start = json.find(&opening)? + opening.len();
    let mut value = String::new();
    let mut letters = json[start..].chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

/// A text file of the repository.
pub(crate) struct TextFile {
    /// Its path below the root, with forward slashes.
    pub(crate) path: String,
    /// What it says.
    pub(crate) text: String,
}

/// Every text file that is written by hand, sorted by path.
pub(crate) fn text_files(root: &Path) -> Result<Vec<TextFile>, String> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

const EXTENSIONS: [&str; 5] = ["rs", "toml", "md", "py", "sh"];

fn collect(folder: &Path, prefix: &str, files: &mut Vec<TextFile>) -> Result<(), String> {
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            let is_hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            let is_built = prefix.is_empty() && name.starts_with("target") || path == "book/book";
            if !is_hidden && !is_built {
                collect(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && is_text(&path) {
            let text = fs::read_to_string(entry.path())
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}

fn is_text(path: &str) -> bool {
    path == ".ci/run"
        || path
            .rsplit_once('.')
            .is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

/// A package of the workspace, as far as the tidy checks need to know it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder below the root.
    pub(crate) folder: String,
    /// The names in its `[features]` table.
    pub(crate) features: Vec<String>,
    /// Is it meant for the registry?
    pub(crate) is_published: bool,
    /// Does it take the workspace's lints?
    pub(crate) has_workspace_lints: bool,
}

/// The packages of the workspace among `files`: every manifest with a `[package]` table that is no workspace of its own.
pub(crate) fn packages(files: &[TextFile]) -> Vec<Package> {
    files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && !file.text.contains("\n[workspace]"))
        .filter_map(|file| package(&file.path, &file.text))
        .collect()
}

fn package(path: &str, manifest: &str) -> Option<Package> {
    let name = value(manifest, "[package]", "name")?;
    Some(Package {
        name,
        folder: path.trim_end_matches("/Cargo.toml").into(),
        features: keys(manifest, "[features]"),
        is_published: value(manifest, "[package]", "publish").is_none_or(|value| value != "false"),
        has_workspace_lints: table(manifest, "[lints]").any(|line| line == "workspace = true"),
    })
}

/// The lines of one table of a TOML text, trimmed, without comments.
fn table<'a>(toml: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    toml.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .skip_while(move |line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

/// The keys of one table of a TOML text.
pub(crate) fn keys(toml: &str, header: &str) -> Vec<String> {
    table(toml, header)
        .filter_map(|line| line.split_once('='))
        .map(|(key, _)| key.trim())
        .filter(|key| !key.starts_with('"'))
        .map(|key| key.split('.').next().unwrap_or(key).to_string())
        .collect()
}

/// The string under `key` in one table of a TOML text.
pub(crate) fn value(toml: &str, header: &str, key: &str) -> Option<String> {
    table(toml, header)
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().trim_matches('"').to_string())
}

/// The names of all packages' examples.
pub(crate) fn examples(root: &Path, packages: &[Package]) -> Vec<String> {
    let folders = packages.iter().map(|package| &package.folder);
    folders
        .flat_map(|folder| stems(&root.join(folder).join("examples"), "rs"))
        .collect()
}

/// The names without extension of the files in `folder` that have this extension, sorted.
/// A folder that does not exist has none.
pub(crate) fn stems(folder: &Path, extension: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut stems: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    stems.sort();
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"one\" # the first\n\n[features]\ndefault = [\n  \
        \"fast\",\n]\nfast = []\n\n[dependencies]\nburn.workspace = true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_is_read() {
        let expected = Package {
            name: "one".into(),
            folder: "crates/one".into(),
            features: vec!["default".into(), "fast".into()],
            is_published: true,
            has_workspace_lints: true,
        };
        assert_eq!(package("crates/one/Cargo.toml", MANIFEST), Some(expected));
        assert_eq!(keys(MANIFEST, "[dependencies]"), ["burn"]);
    }

    #[test]
    fn a_manifest_without_a_package_is_none() {
        assert_eq!(package("x/Cargo.toml", "[workspace]\nmembers = []\n"), None);
    }

    #[test]
    fn a_json_string_is_unescaped() {
        let json = r#"{"a":1,"target_directory":"C:\\some\"where","b":"c"}"#;
        let found = json_string(json, "target_directory");
        assert_eq!(found.as_deref(), Some(r#"C:\some"where"#));
        assert_eq!(json_string(json, "absent"), None);
    }

    #[test]
    fn only_text_written_by_hand_is_read() {
        assert!(is_text("a/b.rs") && is_text(".ci/run"));
        assert!(!is_text("Cargo.lock") && !is_text("figure.svg") && !is_text("run"));
    }
}
