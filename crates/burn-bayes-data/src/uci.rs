//! UCI regression data sets with published splits.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::dataset::Dataset;
use crate::error::{DataError, Place};
use crate::numbers::read_numbers;
use crate::source;
use crate::split::Split;

/// A folder with `data.txt`, the column indices of features and target in `index_features.txt` and
/// `index_target.txt`, and the row indices of each split in `index_train_0.txt`, `index_test_0.txt`, …,
/// all from 0. Each file may be compressed with gzip, with `.gz` appended to its name.
///
/// ```no_run
/// use burn_bayes_data::{Scaler, Scaling, UciFolder};
///
/// let folder = UciFolder::open("data/uci_regression/energy")?;
/// for number in 0..folder.splits() {
///     let split = folder.split(number)?;
///     let scaler = Scaler::fit(folder.dataset().features(), &split.train, Scaling::Standardise)?;
///     let train = folder.dataset().select(&split.train)?;
/// }
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct UciFolder {
    folder: PathBuf,
    dataset: Dataset,
    splits: usize,
}

impl UciFolder {
    /// Reads the data, and the number of splits from `n_splits.txt`.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, DataError> {
        let folder = folder.into();
        let numbers = read_numbers(folder.join("data.txt"))?;
        let index = folder.join("index_features.txt");
        let features = read_indices(&index, numbers.columns())?;
        let target = read_one(&folder.join("index_target.txt"), numbers.columns())?;
        if features.contains(&target) {
            return Err(DataError::data(
                place(&index),
                format_args!("column {target}, which is also the target"),
                "columns other than the target",
                "check that the index files belong together",
            ));
        }
        Ok(Self {
            dataset: numbers.into_dataset(&features, target)?,
            splits: read_one(&folder.join("n_splits.txt"), usize::MAX)?,
            folder,
        })
    }

    /// All rows.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The number of splits.
    pub fn splits(&self) -> usize {
        self.splits
    }

    /// The published split with this number, from 0.
    ///
    /// # Errors
    /// If the split does not exist, or its files are missing or invalid.
    pub fn split(&self, number: usize) -> Result<Split, DataError> {
        if number >= self.splits {
            let expected = format_args!("a number below {}", self.splits);
            return Err(DataError::config("split", number, expected));
        }
        let path = |part: &str| self.folder.join(format!("index_{part}_{number}.txt"));
        let read = |part: &str| read_indices(&path(part), self.dataset.rows());
        let split = Split {
            train: read("train")?,
            test: read("test")?,
        };
        let train: HashSet<_> = split.train.iter().collect();
        match split.test.iter().find(|row| train.contains(row)) {
            None => Ok(split),
            Some(row) => Err(DataError::data(
                place(&path("test")),
                format_args!("row {row}, which is also a training row"),
                "rows other than training rows",
                "copy or fetch the files of the split again",
            )),
        }
    }
}

fn place(path: &Path) -> Place {
    Place::of(&source::present(path).display().to_string())
}

/// Distinct whole numbers below `limit`; some published files write them as decimals.
fn read_indices(path: &Path, limit: usize) -> Result<Vec<usize>, DataError> {
    let numbers = read_numbers(path)?;
    let mut seen = HashSet::new();
    let indices = numbers.values().iter().map(|&number| {
        let index = number as usize;
        if index as f64 == number && index < limit && seen.insert(index) {
            return Ok(index);
        }
        Err(DataError::data(
            place(path),
            number,
            format_args!("distinct whole numbers from 0 and below {limit}"),
            "check that the index files belong to the data",
        ))
    });
    indices.collect()
}

fn read_one(path: &Path, limit: usize) -> Result<usize, DataError> {
    match read_indices(path, limit)?[..] {
        [number] => Ok(number),
        ref numbers => Err(DataError::data(
            place(path),
            format_args!("{} numbers", numbers.len()),
            "one",
            "copy or fetch the file again",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with three rows and one split.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("data", "1 10 100\n2 20 200\n3 30 300\n"),
            ("index_features", "0\n2\n"),
            ("index_target", "1\n"),
            ("n_splits", "1\n"),
            ("index_train_0", "2.0\n0.0\n"),
            ("index_test_0", "1\n"),
        ] {
            write(&folder, name, text);
        }
        folder
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) {
        let path = folder.path().join(format!("{name}.txt"));
        source::write_whole(&path, text.as_bytes()).unwrap();
    }

    #[test]
    fn columns_and_rows_are_those_of_the_index_files() {
        let folder = folder();
        let uci = UciFolder::open(folder.path()).unwrap();
        assert_eq!(uci.dataset().features().row(2), [3.0, 300.0]);
        assert_eq!(
            uci.dataset().targets().as_real(),
            Some(&[10.0, 20.0, 30.0][..])
        );
        let split = uci.split(0).unwrap();
        assert_eq!((split.train, split.test), (vec![2, 0], vec![1]));
    }

    #[test]
    fn index_files_of_another_set_are_refused() {
        for (name, text) in [
            ("index_features", "0\n3\n"),
            ("index_features", "-1\n"),
            ("index_features", "0\n1\n"),
            ("index_features", "0\n0\n"),
            ("index_target", "0\n1\n"),
            ("n_splits", "1.5\n"),
            ("data", "1 10 100\n2 20\n"),
        ] {
            let folder = folder();
            write(&folder, name, text);
            let error = UciFolder::open(folder.path()).unwrap_err();
            assert!(
                error.is_data() && error.to_string().contains(name),
                "{error}"
            );
        }
        for (name, text) in [
            ("index_test_0", "2\n"),
            ("index_test_0", "1\n1\n"),
            ("index_train_0", "3\n"),
        ] {
            let folder = folder();
            write(&folder, name, text);
            let error = UciFolder::open(folder.path())
                .unwrap()
                .split(0)
                .unwrap_err();
            assert!(
                error.is_data() && error.to_string().contains(name),
                "{error}"
            );
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = folder();
        std::fs::remove_file(folder.path().join("index_test_0.txt")).unwrap();
        let error = UciFolder::open(folder.path())
            .unwrap()
            .split(0)
            .unwrap_err();
        assert!(
            error.is_io() && error.to_string().contains("index_test_0.txt"),
            "{error}"
        );
    }
}
