//! Data sets for Bayesian models: reading, splitting, preprocessing, generating and downloading.
//!
//! This crate is independent of tensor libraries. It has plain types: a [`Table`] of raw columns, and a
//! [`Dataset`] of [`Features`] (a dense row-major matrix) and targets.
//!
//! | Task | API |
//! |---|---|
//! | Read a delimited file | [`read_csv`], [`CsvReader`], then a [`Preprocessor`] |
//! | Read the data sets of the papers | [`UciFolder`], [`read_libsvm`], [`read_presplit`], [`read_numbers`] |
//! | Read images | [`read_mnist`], [`read_medmnist`] |
//! | Find identifier columns and wrong cells | [`suspicions`] |
//! | Split into training and test rows | [`KFold`], [`partition`], [`UciFolder::split`] |
//! | Standardise columns | [`Scaler`], [`ColumnScale`] |
//! | Generate data with a known distribution | [`patients`], [`two_moons`], [`gap_regression`], [`LinearModelConfig`], [`FactorModelConfig`] |
//! | Generate a table by name | [`GeneratedSet`] |
//! | Download a data set by name | [`NamedSet`], and `Fetcher` with the feature `fetch` |
//!
//! Text files may be compressed with gzip. An invalid file gives a [`DataError`] that names the file, line
//! and column, what was found and what was expected. Invalid data never causes a panic, and memory use
//! grows with the bytes read, not with sizes in headers. In compressed files, lines are limited to 2²⁴
//! bytes and arrays to 2³⁰; larger ones must be decompressed first. All randomness comes from seeds, and a
//! seed gives the same numbers on every machine. Only `Fetcher` uses the network.
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

mod checks;
mod csv_file;
mod csv_options;
mod dataset;
mod decimal;
mod delimited;
mod delimiter;
mod error;
#[cfg(feature = "fetch")]
mod fetch;
mod generated_sets;
mod generators;
mod growing;
mod idx;
mod images;
mod levels;
mod libsvm;
mod named_sets;
mod npz;
mod numbers;
mod one_or_several;
mod patients;
mod preprocessor;
mod preprocessor_config;
mod preprocessor_fit;
mod presplit;
mod random;
mod records;
mod scale;
mod source;
mod split;
mod suspicion;
mod table;
mod uci;

pub use csv_file::{CsvReader, read_csv};
pub use csv_options::{BadRows, CsvOptions, Header};
pub use dataset::{Dataset, Features, Targets};
pub use decimal::DecimalMark;
pub use error::DataError;
#[cfg(feature = "fetch")]
pub use fetch::{Fetched, Fetcher, Transfer};
pub use generated_sets::{GENERATED_SETS, GeneratedSet};
pub use generators::{
    FactorModel, FactorModelConfig, LinearModelConfig, LinearModelData, gap_function,
    gap_regression, two_moons,
};
pub use idx::{MnistImages, read_idx_from, read_mnist};
pub use images::{ImageShape, LabelledImages};
pub use levels::Levels;
pub use libsvm::{LibsvmOptions, read_libsvm, read_libsvm_from};
pub use named_sets::{NAMED_SETS, NamedFile, NamedSet};
pub use npz::{MedMnistImages, read_medmnist, read_medmnist_from};
pub use numbers::{read_numbers, read_numbers_from};
pub use one_or_several::OneOrSeveral;
pub use patients::patients;
pub use preprocessor::{Preprocessor, TargetPlan, UsableRows};
pub use preprocessor_config::{MissingPolicy, PreprocessorConfig, Task, UnseenPolicy};
pub use preprocessor_fit::PreprocessorFit;
pub use presplit::{Presplit, read_presplit};
pub use scale::{ColumnScale, Scaler, Scaling};
#[doc(hidden)]
pub use source::{persist, present, temporary_beside};
pub use split::{KFold, Split, partition, stratified_partition};
pub use suspicion::{Suspicion, suspicions};
pub use table::{Column, ColumnKind, Table};
pub use uci::UciFolder;
