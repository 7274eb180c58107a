//! Integration tests of `burn-bayes-data` in one binary: valid, invalid and damaged files, the tables of the
//! shared folder, preprocessing, generators, and memory.

mod bad_files;
#[cfg(feature = "parquet")]
mod columns_file;
mod csv;
mod formats;
mod fuzz;
mod generated_sets;
mod generators;
mod memory;
mod needs_data;
mod preparation;
mod splits;

#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
