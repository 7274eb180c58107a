//! Integration tests of `burn-bayes-data` in one binary: valid, invalid and damaged files, the shared data sets,
//! downloads, preprocessing, generators, and memory.

mod bad_files;
mod csv;
mod fuzz;
mod generated_sets;
mod generators;
mod memory;
mod preparation;
mod splits;

/// Tests with the data sets, which `cargo xtask test` skips if their folder is missing.
mod needs_data {
    mod fetch;
    mod shared_sets;
}

#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
