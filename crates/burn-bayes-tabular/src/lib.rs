//! Bayesian networks for tabular data: from the rows of a file to predictions with uncertainty, without
//! a command line.
//!
//! [`rows`] reads a file into a training set, [`engine`] fits a network to it by [`settings`], and
//! [`predict`] and [`scores`] have its predictions and their scores. A [`run`] is a fit in a folder, with
//! a [`report`]; [`new_rows`] predicts and scores new files by a run. The [`experiments`] make many
//! fits, as jobs whose results are cached.
//!
//! ```no_run
//! use burn_bayes_tabular::engine::fit;
//! use burn_bayes_tabular::rows::{SplitTable, PreparedRows, read_table};
//! use burn_bayes_tabular::settings::{Config, TaskName};
//!
//! # fn main() -> burn_bayes_tabular::Result<()> {
//! let Config { mut data, fit: settings } = Config::default();
//! data.path = Some("houses.csv".into());
//! data.target = Some("price".into());
//! data.task = Some(TaskName::Regression);
//!
//! let dealt = SplitTable::deal(read_table(&data)?, &data, settings.seed)?;
//! let rows = PreparedRows::prepare(dealt, &data)?;
//! let fitted = fit(&rows.train, &settings, &mut ())?;
//! if let Some(held_out) = &rows.validation {
//!     let predictions = fitted.predict(held_out.features(), settings.draws)?;
//! #   let _ = predictions;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This crate never prints: results are returned, and progress and warnings go to an observer.

pub mod settings;

pub mod rows;

pub mod engine;
pub mod network;

pub mod predict;
pub mod scores;

pub mod assessment;

pub mod report;
pub mod run;

pub mod new_rows;

pub mod experiments;

pub mod distinct;
pub mod error;
pub mod files;
mod forest;
pub mod random;

mod groups;
mod order;
mod parallel;
mod plain_models;
mod relevance;
mod text;
mod trend;

pub use error::{Result, TabularError};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
