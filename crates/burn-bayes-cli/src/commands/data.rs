//! `data`: the sets that are known by name, and where to get them.

use std::path::{Path, PathBuf};

use burn_bayes_data::{NAMED_SETS, NamedSet};
use clap::{Args, Subcommand};

use crate::console::{print, tell};
use crate::failure::Result;

/// What to do with sets.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Name the sets, and say which of them are there
    List(Folder),
    /// Bring a set into the folder, its files checked against their SHA-256
    Fetch {
        /// Name of the set, as `data list` has it
        set: String,
        #[command(flatten)]
        folder: Folder,
        #[command(flatten)]
        mirror: Mirror,
    },
}

#[derive(Debug, Args)]
struct Folder {
    /// Folder of all data; $BURN_BAYES_DATA, or `data`, by default
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> PathBuf {
        let chosen = self.to.clone();
        chosen
            .or_else(|| std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from))
            .unwrap_or_else(|| "data".into())
    }
}

#[derive(Debug, Args)]
struct Mirror {
    /// Mirror to ask in the place of the public ones, where files lie as in the folder of all data;
    /// $BURN_BAYES_MIRROR by default
    #[arg(long, value_name = "ADDRESS")]
    mirror: Option<String>,
}

impl Mirror {
    #[cfg(feature = "fetch")]
    fn address(&self) -> Option<String> {
        let set = std::env::var("BURN_BAYES_MIRROR");
        let chosen = self.mirror.clone().or(set.ok());
        chosen.filter(|address| !address.is_empty())
    }
}

/// Lists or fetches.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::List(folder) => list(&folder.path()),
        Action::Fetch {
            set,
            folder,
            mirror,
        } => fetch(NamedSet::find(set)?, &folder.path(), mirror),
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
    print(format_args!(
        "\n`burn-bayes data fetch NAME` brings one into {}",
        folder.display()
    ))?;
    Ok(())
}

#[cfg(feature = "fetch")]
fn fetch(set: &NamedSet, folder: &Path, mirror: &Mirror) -> Result<()> {
    let mut fetcher = burn_bayes_data::Fetcher::new(folder);
    if let Some(address) = mirror.address() {
        fetcher = fetcher.with_mirror(address);
    }
    let fetched = fetcher.fetch(set, |file| {
        tell(format_args!("{} ({} bytes)", file.path, file.bytes))
    })?;
    print(format_args!(
        "{}: {} files downloaded, {} were there",
        fetched.folder.display(),
        fetched.downloaded,
        fetched.present
    ))?;
    Ok(())
}

#[cfg(not(feature = "fetch"))]
fn fetch(set: &NamedSet, folder: &Path, _mirror: &Mirror) -> Result<()> {
    Err(crate::failure::Failure::Usage(format!(
        "this program was built without `fetch`; build it with `--features fetch`, or download the {} files \
         of `{}` from {} and place them in {}",
        set.files().count(),
        set.name,
        set.mirrors.join(" or "),
        set.folder(folder).display()
    )))
}
