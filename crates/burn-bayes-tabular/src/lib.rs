//! From a table to a Bayesian network: everything between the rows of a file and predictions that know
//! their uncertainty, without a command line.
//!
//! [`settings`] say what is wanted, [`rows`] turn a file into a training set, [`engine`] fits it, and
//! [`predict`] and [`scores`] say what the fit knows of other rows. A [`run`] is all of that in a folder,
//! with a [`report`]. [`search`] and [`comparison`] make many fits, as [`cells`] that are computed once.
//!
//! Nothing here prints: what a person should see is returned, or told to an observer.

pub mod settings;

pub mod rows;

pub mod engine;
pub mod network;

pub mod predict;
pub mod scores;

pub mod report;
pub mod run;

pub mod cells;
pub mod comparison;
pub mod fits;
pub mod search;

pub mod error;
pub mod files;
pub mod shell;

pub mod distinct;
mod parallel;
pub mod random;

pub use error::{Result, TabularError};

#[cfg(test)]
#[path = "../../burn-bayes-data/tests/it/damage.rs"]
mod damage;
