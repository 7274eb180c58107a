//! `data`: the named data sets, downloaded or generated.

use std::io::Write;
use std::path::{Path, PathBuf};

use burn_bayes_data::{GENERATED_SETS, GeneratedSet, NAMED_SETS, NamedSet, Table};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::{Output, at, csv_of};
use clap::{Args, Subcommand};
use serde_json::json;

use super::OutputFlags;
use crate::console::{print, print_json};

/// What to do with the data sets.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the data sets, and whether they are downloaded
    List {
        #[command(flatten)]
        folder: DataFolder,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Download a data set, and verify its files by SHA-256
    Fetch {
        /// Name of the data set, as `data list` shows it
        set: String,
        #[command(flatten)]
        folder: DataFolder,
        #[command(flatten)]
        mirror: Mirror,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Write a generated data set as CSV; no download is needed
    Generate {
        /// Name of the data set, as `data list` shows it
        set: String,
        /// Number of rows
        #[arg(long, default_value_t = 600)]
        rows: usize,
        /// Random seed; other seeds give other rows from the same distribution
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Output file [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Where the data sets are.
#[derive(Debug, Args)]
struct DataFolder {
    /// Folder of all data sets [default: $BURN_BAYES_DATA, or `data`]
    #[arg(long = "data", value_name = "DIR")]
    chosen: Option<PathBuf>,
}

impl DataFolder {
    fn path(&self) -> PathBuf {
        let chosen = self.chosen.clone();
        chosen
            .or_else(|| std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from))
            .unwrap_or_else(|| "data".into())
    }
}

#[derive(Debug, Args)]
struct Mirror {
    /// Mirror to use instead of the public ones, with the file layout of the data folder
    /// [default: $BURN_BAYES_MIRROR]
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

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::List { folder, output } => match output.json {
            true => list_as_json(&folder.path()),
            false => list(&folder.path()),
        },
        Action::Fetch {
            set,
            folder,
            mirror,
            output,
        } => fetch(NamedSet::find(set)?, &folder.path(), mirror, output.json),
        Action::Generate {
            set,
            rows,
            seed,
            output,
        } => {
            let table = GeneratedSet::find(set)?.table(*rows, *seed)?;
            write_csv(&table, output.as_deref())
        }
    }
}

/// The total size of the files of a data set.
fn bytes(set: &NamedSet) -> u64 {
    set.files().map(|file| file.bytes).sum()
}

fn list_as_json(folder: &Path) -> Result<()> {
    let sets = NAMED_SETS.iter().map(|set| {
        let missing = set.missing(folder);
        json!({
            "name": set.name,
            "about": set.about,
            "terms": set.terms,
            "bytes": bytes(set),
            "is_here": missing.as_ref().is_ok_and(Vec::is_empty),
            "problem": missing.err().map(|error| error.to_string()),
        })
    });
    let generated = GENERATED_SETS.iter().map(|set| {
        json!({
            "name": set.name,
            "about": set.about,
            "target": set.target,
        })
    });
    print_json(&json!({
        "folder": folder,
        "sets": sets.collect::<Vec<_>>(),
        "generated": generated.collect::<Vec<_>>(),
    }))
}

fn list(folder: &Path) -> Result<()> {
    for set in NAMED_SETS {
        let state = match set.missing(folder) {
            Ok(missing) if missing.is_empty() => "here".to_string(),
            Ok(_) => format!("{:.1} MB", bytes(set) as f64 / 1e6),
            Err(error) => error.to_string(),
        };
        print(format_args!(
            "{:<16} {state:>9}  {} ({})",
            set.name, set.about, set.terms
        ))?;
    }
    for set in GENERATED_SETS {
        print(format_args!(
            "{:<16} {:>9}  {} (target: `{}`)",
            set.name, "generated", set.about, set.target
        ))?;
    }
    print(format_args!(
        "\n`burn-bayes data fetch NAME` downloads a data set into {}; `burn-bayes data generate NAME` \
         writes a generated one",
        folder.display()
    ))
}

/// Writes a table to a file or standard output, with missing values as empty cells.
pub(super) fn write_csv(table: &Table, path: Option<&Path>) -> Result<()> {
    let columns = table.columns();
    let bytes = csv_of(|writer| {
        writer.write_record(columns.iter().map(|column| column.name()))?;
        (0..table.rows()).try_for_each(|row| {
            let cells = columns.iter().map(|column| column.label(row));
            writer.write_record(cells.map(Option::unwrap_or_default))
        })
    })?;
    let mut output = Output::new(path)?;
    output.write_all(&bytes).map_err(at(output.path()))?;
    output.finish()
}

#[cfg(feature = "fetch")]
fn fetch(set: &NamedSet, folder: &Path, mirror: &Mirror, json: bool) -> Result<()> {
    use burn_bayes_data::{Fetcher, Transfer};

    use burn_bayes_tabular::files::Entry;

    use crate::console::ByteCounter;

    let mut fetcher = Fetcher::new(folder);
    if let Some(address) = mirror.address() {
        fetcher = fetcher.with_mirror(address);
    }
    let (mut counter, mut entry) = (None, None);
    let fetched = fetcher.fetch(set, |transfer| {
        let Transfer { file, bytes, .. } = transfer;
        match transfer.place {
            None => counter = Some(ByteCounter::new(file.path, file.bytes)),
            // Registered, so that an interruption removes the unfinished file.
            Some(path) if bytes == 0 => entry = Some(Entry::of(path)),
            Some(_) => {}
        }
        if let Some(counter) = &counter {
            counter.set(bytes);
        }
    });
    drop((counter, entry));
    let fetched = fetched?;
    if json {
        return print_json(&json!({
            "folder": fetched.folder,
            "downloaded": fetched.downloaded,
            "present": fetched.present,
        }));
    }
    print(format_args!(
        "{}: {} files downloaded, {} already present",
        fetched.folder.display(),
        fetched.downloaded,
        fetched.present
    ))
}

#[cfg(not(feature = "fetch"))]
fn fetch(set: &NamedSet, folder: &Path, _mirror: &Mirror, _json: bool) -> Result<()> {
    Err(burn_bayes_tabular::error::TabularError::Usage(format!(
        "this program was built without `fetch`; build it with `--features fetch`, or download the {} files \
         of `{}` from {} into {}",
        set.files().count(),
        set.name,
        set.mirrors.join(" or "),
        set.folder(folder).display()
    )))
}
