//! Integration tests of `burn-bayes-data`, one binary: files good, bad and damaged at random, the shared
//! data sets, downloads, preparation, generators, and memory.

mod bad_files;
mod csv;
mod fuzz;
mod generated_sets;
mod generators;
mod memory;
mod preparation;
mod splits;

/// Tests of the data sets, which `cargo xtask test` skips where their folder is missing.
mod needs_data {
    mod fetch;
    mod shared_sets;
}

#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
