//! Integration tests of `burn-bayes-data`, one binary: files good, bad and damaged at random, the shared
//! data sets, downloads, preparation, generators, and memory.

mod bad_files;
mod csv;
mod damage;
mod fetch;
mod fuzz;
mod generated_sets;
mod generators;
mod memory;
mod preparation;
mod shared_sets;
mod splits;
