//! `papers fetch`: the list of the named data sets, and their downloads.

use std::path::Path;

use burn_bayes_tabular::Result;

use super::named_sets::{NAMED_SETS, NamedSet};
use crate::console::print;

/// Downloads the data set with this name into a folder, or lists all of them.
pub(crate) fn run(name: Option<&str>, folder: &Path, mirror: Option<String>) -> Result<()> {
    match name {
        Some(name) => fetch(NamedSet::find(name)?, folder, mirror),
        None => list(folder),
    }
}

fn list(folder: &Path) -> Result<()> {
    for set in NAMED_SETS {
        let state = match set.missing(folder) {
            Ok(missing) if missing.is_empty() => "here".to_string(),
            Ok(_) => {
                let bytes: u64 = set.files().map(|file| file.bytes).sum();
                format!("{:.1} MB", bytes as f64 / 1e6)
            }
            Err(error) => error.to_string(),
        };
        print(format_args!(
            "{:<16} {state:>9}  {} ({})",
            set.name, set.about, set.terms
        ))?;
    }
    Ok(())
}

#[cfg(feature = "fetch")]
fn fetch(set: &NamedSet, folder: &Path, mirror: Option<String>) -> Result<()> {
    use super::fetch::Fetcher;
    use crate::console::{catch_interruptions, tell};

    catch_interruptions()?;
    let mut fetcher = Fetcher::new(folder);
    if let Some(address) = mirror {
        fetcher = fetcher.with_mirror(address);
    }
    let fetched = fetcher.fetch(set, |file| {
        tell(format_args!("{} ({} bytes)", file.path, file.bytes));
    })?;
    print(format_args!(
        "{}: {} files downloaded, {} already present",
        fetched.folder.display(),
        fetched.downloaded,
        fetched.present
    ))
}

#[cfg(not(feature = "fetch"))]
fn fetch(set: &NamedSet, folder: &Path, _mirror: Option<String>) -> Result<()> {
    Err(burn_bayes_tabular::TabularError::Usage(format!(
        "this program was built without `fetch`; build it with `--features fetch`, or download the {} files \
         of `{}` from {} into {}",
        set.files().count(),
        set.name,
        set.mirrors.join(" or "),
        set.folder(folder).display()
    )))
}
