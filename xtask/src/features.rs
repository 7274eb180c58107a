//! Do tests and programs compile every dependency with the same features? Otherwise what is run after the tests
//! compiles Burn once more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::process;

/// The feature sets with which each package is compiled.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The packages that a build with the tests' dependencies compiles with other features than one without.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>, String> {
    let tree = |edges| {
        let arguments = [
            "tree",
            "--workspace",
            "--prefix",
            "none",
            "-f",
            "{p}|{f}",
            "-e",
            edges,
        ];
        process::output(root, &arguments).map(|text| features(&text))
    };
    Ok(differences(
        &tree("normal,build")?,
        &tree("normal,build,dev")?,
    ))
}

/// From lines such as `name v1.0.0|default,std (*)`.
fn features(tree: &str) -> Features {
    let mut features = Features::new();
    for (package, set) in tree.lines().filter_map(|line| line.split_once('|')) {
        let set = set.trim_end_matches("(*)").trim_end();
        features
            .entry(package.into())
            .or_default()
            .insert(set.into());
    }
    features
}

fn differences(programs: &Features, tests: &Features) -> Vec<String> {
    programs
        .iter()
        .filter_map(|(package, sets)| {
            let tested = tests.get(package).filter(|tested| *tested != sets)?;
            let words = |sets: &BTreeSet<String>| -> BTreeSet<String> {
                sets.iter()
                    .flat_map(|set| set.split(','))
                    .map(String::from)
                    .collect()
            };
            let more: Vec<String> = words(tested).difference(&words(sets)).cloned().collect();
            Some(format!(
                "Cargo.toml: tests compile {package} with other features than programs ({}): name them among \
                 the dependencies that are not used",
                more.join(", ")
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_tests_compile_with_more_features_is_found() {
        let programs = features("a v1|std\nb v1|\nc v2|x,y\n");
        let same = features("a v1|std (*)\nb v1|\nc v2|x,y\nonly-in-tests v1|z\n");
        assert_eq!(differences(&programs, &same), Vec::<String>::new());
        let more = features("a v1|std\na v1|search,std\nb v1|\nc v2|x,y\n");
        let found = differences(&programs, &more);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("a v1") && found[0].contains("(search)"),
            "{found:?}"
        );
    }
}
