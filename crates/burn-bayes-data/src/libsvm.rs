//! The sparse text format of libsvm: `label index:value index:value …`, without zeros.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Features, Targets};
use crate::error::{DataError, Place, shown};
use crate::numbers::finite;
use crate::source::{self, Lines, Plain};

/// Maximum number of cells per entry, if the number of features is not given.
const CELLS_FOR_AN_ENTRY: usize = 256;
/// Number of cells that is always allowed.
const FEW_CELLS: usize = 1 << 16;

/// Options for reading a libsvm file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LibsvmOptions {
    /// The number of features; `None` for the highest index in the file. Set it for test files, whose
    /// last features may be zero in every row, and for files with more than 256 zeros per entry: without
    /// it, such files of more than 65536 cells are refused, because one wrong index could require any
    /// amount of memory.
    pub features: Option<usize>,
    /// Maximum number of cells of the dense matrix.
    pub most_cells: usize,
}

impl Default for LibsvmOptions {
    fn default() -> Self {
        Self {
            features: None,
            most_cells: 1 << 27,
        }
    }
}

impl LibsvmOptions {
    /// Sets the number of features.
    #[must_use]
    pub fn with_features(self, features: usize) -> Self {
        Self {
            features: Some(features),
            ..self
        }
    }
}

/// Reads a libsvm file, optionally compressed with gzip, into a dense matrix with numeric labels;
/// [`Dataset::with_classes`] converts them to classes.
///
/// # Errors
/// If the file cannot be read or has no rows, a row is not `label index:value …` with increasing indices
/// from 1, or the matrix would have too many cells.
pub fn read_libsvm(path: impl AsRef<Path>, options: &LibsvmOptions) -> Result<Dataset, DataError> {
    let (reader, name) = source::open(path.as_ref())?;
    read_plain(reader, &name, options)
}

/// Reads from any reader; `name` is used in messages.
///
/// ```
/// use burn_bayes_data::{LibsvmOptions, read_libsvm_from};
///
/// let text = "-1 3:0.5\n+1 1:1 # the rest is a remark\n";
/// let data = read_libsvm_from(text.as_bytes(), "example", &LibsvmOptions::default())?;
/// assert_eq!(data.features().values(), [0.0, 0.0, 0.5, 1.0, 0.0, 0.0]);
/// assert_eq!(data.targets().as_real(), Some(&[-1.0, 1.0][..]));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
///
/// # Errors
/// As for [`read_libsvm`].
pub fn read_libsvm_from(
    reader: impl Read,
    name: &str,
    options: &LibsvmOptions,
) -> Result<Dataset, DataError> {
    read_plain(source::plain(reader, name)?, name, options)
}

fn read_plain(
    reader: Plain<'_>,
    name: &str,
    options: &LibsvmOptions,
) -> Result<Dataset, DataError> {
    let mut lines = Lines::new(reader, name);
    let mut sparse = Sparse::default();
    while let Some((line, text)) = lines.next()? {
        sparse.push(text, Place::of(name).line(line), options)?;
    }
    if sparse.labels.is_empty() {
        return Err(DataError::no_rows(name));
    }
    sparse.into_dense(name, options)
}

/// The entries of a file.
#[derive(Default)]
struct Sparse {
    labels: Vec<f64>,
    /// Columns and values of all rows.
    entries: Vec<(usize, f64)>,
    /// Where the entries of each row end.
    ends: Vec<usize>,
    /// The highest index.
    width: usize,
}

impl Sparse {
    fn push(&mut self, text: &str, place: Place, options: &LibsvmOptions) -> Result<(), DataError> {
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let mut words = text.split_ascii_whitespace();
        let Some(label) = words.next() else {
            return Ok(());
        };
        let mut next_column = 0;
        let label = finite(label, || place.clone().column("label"))?;
        for word in words {
            let wrong = |expected: &str| {
                let cure = "correct the file, or check that it is of this format";
                DataError::data(place.clone(), shown(word), expected, cure)
            };
            let (index, value) = word.split_once(':').ok_or_else(|| wrong("index:value"))?;
            let index: usize = index
                .parse()
                .map_err(|_| wrong("a whole number before the colon"))?;
            let column = index
                .checked_sub(1)
                .ok_or_else(|| wrong("an index from 1"))?;
            if column < next_column {
                return Err(wrong("increasing indices within the row"));
            }
            if options.features.is_some_and(|features| column >= features) {
                return Err(wrong("an index up to the given number of features"));
            }
            next_column = index;
            let value = finite(value, || place.clone().column(&index.to_string()))?;
            self.entries.push((column, value));
        }
        self.labels.push(label);
        self.ends.push(self.entries.len());
        self.width = self.width.max(next_column);
        Ok(())
    }

    fn into_dense(self, name: &str, options: &LibsvmOptions) -> Result<Dataset, DataError> {
        let (rows, columns) = (self.labels.len(), options.features.unwrap_or(self.width));
        let most = match options.features {
            Some(_) => options.most_cells,
            None => FEW_CELLS
                .max(CELLS_FOR_AN_ENTRY.saturating_mul(self.entries.len()))
                .min(options.most_cells),
        };
        let cells = rows.checked_mul(columns);
        let Some(cells) = cells.filter(|&cells| cells <= most) else {
            return Err(DataError::data(
                Place::of(name),
                format_args!("{rows} rows and the feature index {columns}"),
                format_args!("at most {most} cells in total"),
                "check for a wrong index, set the number of features, or allow more cells",
            ));
        };
        let mut values = vec![0.0; cells];
        let mut start = 0;
        for (row, &end) in self.ends.iter().enumerate() {
            for &(column, value) in &self.entries[start..end] {
                values[row * columns + column] = value;
            }
            start = end;
        }
        Dataset::new(
            Features::new(rows, columns, values)?,
            Targets::Real(self.labels),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, options: &LibsvmOptions) -> Result<Dataset, DataError> {
        read_libsvm_from(text.as_bytes(), "test", options)
    }

    #[test]
    fn the_number_of_features_is_found_or_given() {
        let text = "1 1:1\n0\n\n# remark\n1 2:5 3:-1e2\n";
        let data = read(text, &LibsvmOptions::default()).unwrap();
        assert_eq!((data.rows(), data.features().columns()), (3, 3));
        assert_eq!(data.features().row(1), [0.0; 3]);
        assert_eq!(data.features().row(2), [0.0, 5.0, -100.0]);
        let wide = read(text, &LibsvmOptions::default().with_features(5)).unwrap();
        assert_eq!(wide.features().row(2), [0.0, 5.0, -100.0, 0.0, 0.0]);
        let error = read(text, &LibsvmOptions::default().with_features(2)).unwrap_err();
        assert_eq!(error.line(), Some(5));
    }

    #[test]
    fn a_wrong_row_is_named_by_its_line() {
        for row in [
            "x 1:1",
            "1 1",
            "1 0:1",
            "1 a:1",
            "1 -1:1",
            "1 1:x",
            "1 1:inf",
            "nan 1:1",
            "1 2:1 2:1",
            "1 2:1 1:1",
            "1 1:",
            "1 :1",
            "1 qid:3 1:1",
            "1,2 1:1",
            "1 1:2:3",
        ] {
            let error = read(&format!("1 1:1\n{row}\n"), &LibsvmOptions::default()).unwrap_err();
            assert_eq!(
                (error.is_data(), error.line()),
                (true, Some(2)),
                "{row}: {error}"
            );
        }
        assert!(
            read("\n#\n", &LibsvmOptions::default())
                .unwrap_err()
                .is_data()
        );
    }

    #[test]
    fn one_wrong_index_does_not_fill_the_memory() {
        for text in [
            "1 18446744073709551615:1\n0 1:1\n",
            "1 99999999999:1\n",
            "1 134217728:1\n",
        ] {
            let error = read(text, &LibsvmOptions::default()).unwrap_err();
            assert!(error.to_string().contains("allow more cells"), "{error}");
        }
    }

    #[test]
    fn few_entries_make_a_wide_matrix_where_its_width_is_given() {
        let columns = |text: &str, options: &LibsvmOptions| {
            read(text, options).map(|data| data.features().columns())
        };
        let options = LibsvmOptions::default();
        assert_eq!(columns("1 65536:1\n", &options).unwrap(), 65536);
        let error = columns("1 65537:1\n", &options).unwrap_err();
        assert!(
            error.to_string().contains("set the number of features"),
            "{error}"
        );
        let stated = options.clone().with_features(65537);
        assert_eq!(columns("1 65537:1\n", &stated).unwrap(), 65537);
        // So do files with many entries.
        let row: Vec<String> = (1..=1000).map(|index| format!("{index}:1")).collect();
        let text = format!("1 {} 256000:1\n", row[..999].join(" "));
        assert_eq!(columns(&text, &options).unwrap(), 256_000);
        let narrow = LibsvmOptions {
            most_cells: 65536,
            ..stated
        };
        assert!(columns("1 65537:1\n", &narrow).unwrap_err().is_data());
    }
}
