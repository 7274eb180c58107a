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

/// The folder of the data sets, `$BURN_BAYES_DATA`.
///
/// # Panics
///
/// If there is none, so that no test passes that has tested nothing.
pub fn data_folder() -> PathBuf {
    let folder = std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from);
    match folder {
        Some(folder) if folder.is_dir() => folder,
        _ => panic!(
            "this test needs the data sets: set BURN_BAYES_DATA to their folder, or leave such tests out \
             with `cargo xtask test` or `--skip needs_data`"
        ),
    }
}
