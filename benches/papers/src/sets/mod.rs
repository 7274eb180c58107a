//! The papers' data sets: readers of their files, and the table of sets with their mirrors and checksums.

mod command;
#[cfg(feature = "fetch")]
mod fetch;
mod idx;
mod images;
mod libsvm;
mod named_sets;
#[cfg(test)]
mod needs_data;
mod npz;
mod numbers;
mod presplit;
mod source;
mod uci;

pub(crate) use command::run;
pub(crate) use idx::{MnistImages, read_mnist};
pub(crate) use images::{ImageShape, LabelledImages};
pub(crate) use libsvm::read_libsvm;
pub(crate) use named_sets::{NAMED_SETS, NamedSet, hexadecimal};
pub(crate) use npz::read_medmnist;
pub(crate) use numbers::read_numbers;
pub(crate) use presplit::{Presplit, read_presplit};
pub(crate) use uci::UciFolder;
