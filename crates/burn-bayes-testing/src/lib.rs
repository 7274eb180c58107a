//! Shared by the tests of several crates: files with random damage, bounds on a reader's memory, and the folder of
//! the data sets.
//!
//! A test that needs the data sets is in a module called `needs_data`, and gets their folder from [`data_folder`].
//! `cargo xtask test` skips these modules if the folder is missing.

mod damage;
mod memory;

use std::path::PathBuf;

pub use damage::{Edit, config, damaged, edits};
pub use memory::{CountingAllocator, bounded, held_after, most_held};

/// The folder of the data sets: `$BURN_BAYES_DATA`, by default `../shared/data` beside the repository.
///
/// # Panics
///
/// If the folder is missing, so that no test passes without testing anything.
pub fn data_folder() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("BURN_BAYES_DATA").unwrap_or_else(|| default.into());
    let folder = PathBuf::from(folder);
    assert!(
        folder.is_dir(),
        "this test needs the data sets, and there is no folder {}: set BURN_BAYES_DATA, or skip such tests \
         with `cargo xtask test` or `--skip needs_data`",
        folder.display()
    );
    folder
}
