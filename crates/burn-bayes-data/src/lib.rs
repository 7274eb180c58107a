//! Data sets for Bayesian models: reading, splitting, preprocessing and generating.
//!
//! This crate is independent of tensor libraries. It has plain types: a [`Table`] of raw columns, and a
//! [`Dataset`] of [`Features`] (a dense row-major matrix) and targets.
//!
//! | Task | API |
//! |---|---|
//! | Read a table | [`read_csv`], [`CsvReader`], then a [`Preprocessor`] |
//! | Find identifier columns and wrong cells | [`suspicions`] |
//! | Split into training and test rows | [`KFold`], [`partition`] |
//! | Standardise columns | [`Scaler`], [`ColumnScale`] |
//! | Generate data with a known distribution | [`patients`], [`two_moons`], [`gap_regression`], [`LinearModelConfig`] |
//! | Generate a table by name | [`GeneratedSet`] |
//!
//! Files are delimited text or JSON lines, and may be compressed with gzip, zstd or zip. With the feature
//! `parquet`, they may also be Parquet or Arrow files. The format is detected from the first bytes.
//!
//! An invalid file gives a [`DataError`] that names the file, line
//! and column, what was found and what was expected. Invalid data never causes a panic, and memory use
//! grows with the bytes read, not with sizes in headers. In compressed files, lines are limited to 2²⁴
//! bytes; files with longer ones must be decompressed first. Parquet and Arrow files are decoded by other
//! crates, whose memory use may follow sizes in headers. All randomness comes from seeds, and a
//! seed gives the same numbers on every machine. Nothing here uses the network.
//!
//! # Example
//!
//! ```
//! use burn_bayes_data::{
//!     CsvOptions, CsvReader, Preprocessor, PreprocessorConfig, Split, Targets, Task,
//! };
//!
//! let file = "length;colour;kind\n1.5;red;a\n2.5;blue;b\n1.0;red;a\n3.0;blue;b\n";
//! let table = CsvReader::new(file.as_bytes(), "flowers.csv", CsvOptions::default())?.read_all()?;
//! let split = Split { train: vec![0, 1], test: vec![2, 3] }; // or from `KFold`
//!
//! // Scales, categories and classes are learned from the training rows only …
//! let config = PreprocessorConfig::new("kind", Task::Classification);
//! let preprocessor = Preprocessor::fit(&config, &table, split.train.iter().copied())?;
//! assert_eq!(preprocessor.feature_names(), ["length", "colour=blue", "colour=red"]);
//!
//! // … and applied to all rows.
//! let test = preprocessor.dataset(&table, split.test.iter().copied())?;
//! assert_eq!(test.features().row(0), [-2.0, 0.0, 1.0]);
//! assert_eq!(test.targets(), &Targets::Classes(vec![0, 1]));
//! # Ok::<(), burn_bayes_data::DataError>(())
//! ```

pub mod shell;

mod checks;
mod column_type;
mod columns_file;
mod content;
mod copies;
mod csv_file;
mod csv_options;
mod dataset;
mod dates;
mod decimal;
mod delimited;
mod delimiter;
mod error;
mod far_cells;
mod far_values;
mod generated_rows;
mod generated_sets;
mod generators;
mod growing;
mod json_lines;
mod levels;
mod magnitudes;
mod one_or_several;
mod patients;
mod preprocessor;
mod preprocessor_config;
mod preprocessor_fit;
mod random;
mod records;
mod row;
mod scale;
mod source;
mod split;
mod suspicion;
mod suspicions;
mod table;
mod traps;
mod zip_archive;
mod zstd;

pub use csv_file::{CsvReader, read_csv};
pub use csv_options::{BadRows, CsvOptions, Header};
pub use dataset::{Dataset, Features, Targets};
pub use decimal::DecimalMark;
pub use error::DataError;
pub use far_values::FarValues;
pub use generated_sets::{GENERATED_SETS, GeneratedSet};
pub use generators::{LinearModelConfig, LinearModelData, gap_function, gap_regression, two_moons};
pub use json_lines::has_lost_digits;
pub use levels::Levels;
pub use one_or_several::OneOrSeveral;
pub use patients::patients;
pub use preprocessor::{Preprocessor, TargetPlan, UsableRows};
pub use preprocessor_config::{MissingPolicy, PreprocessorConfig, Task, UnseenPolicy};
pub use preprocessor_fit::PreprocessorFit;
pub use scale::{ColumnScale, Scaler, Scaling};
#[doc(hidden)]
pub use source::{persist, present, temporary_beside};
pub use split::{
    KFold, Split, grouped_partition, latest_partition, partition, stratified_partition,
};
pub use suspicion::Suspicion;
pub use suspicions::suspicions;
pub use table::{Column, ColumnKind, Table};
