//! UCI regression data sets with published splits.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use burn_bayes_data::{Dataset, Split};
use burn_bayes_tabular::{Result, TabularError};

use super::numbers::read_numbers;
use super::source::{present, wrong};

/// A folder with `data.txt`, the column indices of features and target in `index_features.txt` and
/// `index_target.txt`, and the row indices of each split in `index_train_0.txt`, `index_test_0.txt`, …,
/// all from 0. Each file may be compressed with gzip, with `.gz` appended to its name.
#[derive(Debug, Clone)]
pub(crate) struct UciFolder {
    folder: PathBuf,
    dataset: Dataset,
    splits: usize,
}

impl UciFolder {
    /// Reads the data, and the number of splits from `n_splits.txt`.
    pub(crate) fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let numbers = read_numbers(folder.join("data.txt"))?;
        let index = folder.join("index_features.txt");
        let features = read_indices(&index, numbers.columns())?;
        let target = read_one(&folder.join("index_target.txt"), numbers.columns())?;
        if features.contains(&target) {
            let found = format_args!("column {target}, which is also the target");
            return Err(wrong(name(&index), found, "columns other than the target"));
        }
        Ok(Self {
            dataset: numbers.into_dataset(&features, target)?,
            splits: read_one(&folder.join("n_splits.txt"), usize::MAX)?,
            folder,
        })
    }

    /// All rows.
    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The number of splits.
    #[cfg(test)]
    pub(super) fn splits(&self) -> usize {
        self.splits
    }

    /// The published split with this number, from 0.
    pub(crate) fn split(&self, number: usize) -> Result<Split> {
        if number >= self.splits {
            let message = format!(
                "there is no split {number}: use a number below {}",
                self.splits
            );
            return Err(TabularError::Usage(message));
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
            Some(row) => {
                let found = format_args!("row {row}, which is also a training row");
                Err(wrong(
                    name(&path("test")),
                    found,
                    "rows other than training rows",
                ))
            }
        }
    }
}

fn name(path: &Path) -> String {
    present(path).display().to_string()
}

/// Distinct whole numbers below `limit`; some published files write them as decimals.
fn read_indices(path: &Path, limit: usize) -> Result<Vec<usize>> {
    let numbers = read_numbers(path)?;
    let mut seen = HashSet::new();
    let indices = numbers.values().iter().map(|&number| {
        let index = number as usize;
        if index as f64 == number && index < limit && seen.insert(index) {
            return Ok(index);
        }
        let expected = format_args!("distinct whole numbers from 0 and below {limit}");
        Err(wrong(name(path), number, expected))
    });
    indices.collect()
}

fn read_one(path: &Path, limit: usize) -> Result<usize> {
    match read_indices(path, limit)?[..] {
        [number] => Ok(number),
        ref numbers => {
            let found = format_args!("{} numbers", numbers.len());
            Err(wrong(name(path), found, "one"))
        }
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
        std::fs::write(&path, text).unwrap();
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
                matches!(error, TabularError::Data(_)) && error.to_string().contains(name),
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
                matches!(error, TabularError::Data(_)) && error.to_string().contains(name),
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
            matches!(error, TabularError::System(_))
                && error.to_string().contains("index_test_0.txt"),
            "{error}"
        );
    }
}
