//! Integration tests of `burn-bayes-data`, one binary: bad files in a table, the shared data sets,
//! preparation, and generators.

mod bad_files;
mod csv;
mod generators;
mod preparation;
mod shared_sets;
