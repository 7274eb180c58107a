//! What the tests of several crates share: files with random damage, bounds on the memory that a reader
//! takes, and the folder of the data sets.
//!
//! A test that needs the data sets stands in a module called `needs_data`, and takes their folder from
//! [`data_folder`]. `cargo xtask test` leaves these modules out where there is no such folder.

mod damage;
mod memory;

use std::path::PathBuf;

pub use damage::{Edit, config, damaged, edits};
pub use memory::{CountingAllocator, bounded, most_held};

/// The folder of the data sets: `$BURN_BAYES_DATA`, or `../shared/data` beside the repository.
///
/// # Panics
///
/// If there is no such folder, so that no test passes without having tested anything.
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
