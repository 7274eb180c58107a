//! Classification data sets with published train and test halves, in four files of numbers.

use std::path::Path;

use burn_bayes_data::{Dataset, Targets};
use burn_bayes_tabular::Result;

use super::numbers::read_numbers;
use super::source::wrong;

/// The halves of a data set.
#[derive(Debug)]
pub(crate) struct Presplit {
    /// Training rows.
    pub(crate) train: Dataset,
    /// Test rows.
    pub(crate) test: Dataset,
}

/// Reads `{name}_X_tr.csv`, `{name}_y_tr.csv`, `{name}_X_te.csv` and `{name}_y_te.csv`, which contain
/// numbers separated by spaces, despite their names. Labels become classes, in numerical order.
pub(crate) fn read_presplit(folder: impl AsRef<Path>, name: &str) -> Result<Presplit> {
    let folder = folder.as_ref();
    let path = |what: &str, part: &str| folder.join(format!("{name}_{what}_{part}.csv"));
    let half = |part: &str| {
        let features = read_numbers(path("X", part))?;
        let targets = read_numbers(path("y", part))?;
        if (targets.rows(), targets.columns()) != (features.rows(), 1) {
            return Err(wrong(
                path("y", part).display(),
                format_args!("{} rows of {} numbers", targets.rows(), targets.columns()),
                format_args!("one label for each of {} rows", features.rows()),
            ));
        }
        let targets = Targets::Real(targets.values().to_vec());
        Ok(Dataset::new(features, targets)?)
    };
    let (train, test) = (half("tr")?, half("te")?);
    let labels = |part: &str| path("y", part);
    let levels = train.target_levels();
    let levels = levels.map_err(|error| error.in_file(labels("tr")))?;
    let test = test.with_classes(&levels);
    Ok(Presplit {
        train: train.with_classes(&levels)?,
        test: test.map_err(|error| error.in_file(labels("te")))?,
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes_tabular::TabularError;

    use super::*;

    fn read(y_tr: &str, y_te: &str) -> Result<Presplit> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("X_tr", "1 2\n3 4\n"),
            ("y_tr", y_tr),
            ("X_te", "5 6\n"),
            ("y_te", y_te),
        ] {
            let path = folder.path().join(format!("set_{name}.csv"));
            std::fs::write(&path, text).unwrap();
        }
        read_presplit(folder.path(), "set")
    }

    #[test]
    fn labels_of_both_halves_are_the_same_classes() {
        let set = read("1.0\n-1.0\n", "1\n").unwrap();
        assert_eq!(set.train.targets().as_classes(), Some(&[1, 0][..]));
        assert_eq!(set.test.targets().as_classes(), Some(&[1][..]));
        assert_eq!(set.test.features().row(0), [5.0, 6.0]);
    }

    #[test]
    fn halves_that_do_not_belong_together_are_refused() {
        for (y_tr, y_te) in [
            ("1\n", "1\n"),
            ("1\n0\n", "2\n"),
            ("1\n1\n", "1\n"),
            ("1 0\n0 1\n", "1\n"),
        ] {
            let error = read(y_tr, y_te).unwrap_err();
            assert!(matches!(error, TabularError::Data(_)), "{error}");
            assert!(error.to_string().contains("set_y_t"), "{error}");
        }
        let error = read("1\n0\n", "2\n").unwrap_err().to_string();
        assert!(error.contains("set_y_te.csv, row 0"), "{error}");
    }
}
