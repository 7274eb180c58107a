//! Data sets: a dense matrix of features and a target for each row.

use std::collections::HashSet;

use crate::error::{DataError, Place, check_rows};
use crate::levels::Levels;
use crate::table::number_label;

/// A dense row-major matrix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Features {
    /// A matrix of row-major `values`.
    ///
    /// # Errors
    /// If their number is not rows · columns.
    pub fn new(rows: usize, columns: usize, values: Vec<f64>) -> Result<Self, DataError> {
        if rows.checked_mul(columns) != Some(values.len()) {
            return Err(DataError::config(
                "values",
                format_args!("{} numbers", values.len()),
                format_args!("{rows} rows of {columns}"),
            ));
        }
        Ok(Self {
            rows,
            columns,
            values,
        })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The rows with the given numbers, in the given order.
    ///
    /// # Errors
    /// If there is no row of one of the numbers.
    pub fn select(&self, rows: &[usize]) -> Result<Self, DataError> {
        check_rows(rows, self.rows)?;
        let values = rows.iter().flat_map(|&row| self.row(row));
        Ok(Self {
            rows: rows.len(),
            columns: self.columns,
            values: values.copied().collect(),
        })
    }

    /// All values, row-major, in single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        self.values.iter().map(|&value| value as f32).collect()
    }

    /// A data set with some of the columns as features and another one as target.
    ///
    /// # Errors
    /// If a column does not exist, or is named twice.
    pub fn into_dataset(self, features: &[usize], target: usize) -> Result<Dataset, DataError> {
        let mut named = HashSet::new();
        for &column in [&target].into_iter().chain(features) {
            let found = format_args!("column {column}");
            if column >= self.columns {
                let expected = format_args!("columns below {}", self.columns);
                return Err(DataError::config("columns", found, expected));
            }
            if !named.insert(column) {
                let expected = "each column once, and the target not among the features";
                return Err(DataError::config("columns", found, expected));
            }
        }
        let targets = (0..self.rows).map(|row| self.row(row)[target]).collect();
        let values = (0..self.rows).flat_map(|row| {
            let row = self.row(row);
            features.iter().map(|&column| row[column])
        });
        let values = values.collect();
        let features = Self::new(self.rows, features.len(), values)?;
        Dataset::new(features, Targets::Real(targets))
    }

    /// Changes every row in place.
    pub(crate) fn map_rows(
        &mut self,
        mut change: impl FnMut(usize, &mut [f64]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let rows = self.values.chunks_exact_mut(self.columns.max(1));
        rows.enumerate()
            .try_for_each(|(row, values)| change(row, values))
    }
}

/// The targets, one or several for each row.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// Numbers, or counts.
    Real(Vec<f64>),
    /// Classes, from 0.
    Classes(Vec<usize>),
    /// The columns of several targets, of equal lengths.
    Several(Vec<Self>),
}

impl Targets {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Real(values) => values.len(),
            Self::Classes(classes) => classes.len(),
            Self::Several(columns) => columns.first().map_or(0, Self::len),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers; `None` for classes, and for several targets.
    pub fn as_real(&self) -> Option<&[f64]> {
        match self {
            Self::Real(values) => Some(values),
            Self::Classes(_) | Self::Several(_) => None,
        }
    }

    /// The classes; `None` for numbers, and for several targets.
    pub fn as_classes(&self) -> Option<&[usize]> {
        match self {
            Self::Classes(classes) => Some(classes),
            Self::Real(_) | Self::Several(_) => None,
        }
    }

    /// The targets of these rows, in this order.
    ///
    /// # Panics
    /// If a row is out of range.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Real(values) => Self::Real(rows.iter().map(|&row| values[row]).collect()),
            Self::Classes(classes) => Self::Classes(rows.iter().map(|&row| classes[row]).collect()),
            Self::Several(columns) => {
                Self::Several(columns.iter().map(|column| column.select(rows)).collect())
            }
        }
    }

    /// Whether the number of rows is this one, in every column.
    fn has_rows(&self, rows: usize) -> bool {
        match self {
            Self::Real(_) | Self::Classes(_) => self.len() == rows,
            Self::Several(columns) => {
                !columns.is_empty() && columns.iter().all(|column| column.has_rows(rows))
            }
        }
    }

    /// Whether the other targets are of the same kind.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real(_), Self::Real(_)) | (Self::Classes(_), Self::Classes(_)) => true,
            (Self::Several(columns), Self::Several(others)) => {
                let mut pairs = columns.iter().zip(others);
                columns.len() == others.len() && pairs.all(|(one, other)| one.is_like(other))
            }
            _ => false,
        }
    }

    /// Appends targets of the same kind.
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Real(values), Self::Real(more)) => values.extend(more),
            (Self::Classes(classes), Self::Classes(more)) => classes.extend(more),
            (Self::Several(columns), Self::Several(more)) => {
                let pairs = columns.iter_mut().zip(more);
                pairs.for_each(|(column, more)| column.append(more));
            }
            _ => unreachable!("the caller checks the kind"),
        }
    }
}

/// Features and targets for each row.
///
/// ```
/// use burn_bayes_data::{Dataset, Features, Targets};
///
/// let features = Features::new(3, 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
/// let data = Dataset::new(features, Targets::Real(vec![-1.0, 1.0, -1.0]))?;
///
/// // Numeric labels become classes, in numerical order.
/// let levels = data.target_levels()?;
/// let data = data.with_classes(&levels)?;
/// assert_eq!(data.targets().as_classes(), Some(&[0, 1, 0][..]));
/// assert_eq!(levels.names(), ["-1", "1"]);
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    features: Features,
    targets: Targets,
}

impl Dataset {
    /// Features and targets for each row.
    ///
    /// # Errors
    /// If the numbers of rows differ.
    pub fn new(features: Features, targets: Targets) -> Result<Self, DataError> {
        if !targets.has_rows(features.rows) {
            return Err(DataError::config(
                "targets",
                format_args!("{} targets", targets.len()),
                format_args!("one for each of {} rows, in every column", features.rows),
            ));
        }
        Ok(Self { features, targets })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.features.rows
    }

    /// The features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The features and the targets.
    pub fn into_parts(self) -> (Features, Targets) {
        (self.features, self.targets)
    }

    /// The rows with the given numbers, in the given order.
    ///
    /// # Errors
    /// If there is no row of one of the numbers.
    pub fn select(&self, rows: &[usize]) -> Result<Self, DataError> {
        Ok(Self {
            features: self.features.select(rows)?,
            targets: self.targets.select(rows),
        })
    }

    /// Appends the rows of `other`.
    ///
    /// # Errors
    /// If it has other columns or another kind of target.
    pub fn append(&mut self, other: Self) -> Result<(), DataError> {
        if self.features.columns != other.features.columns {
            return Err(DataError::config(
                "other",
                format_args!("{} columns", other.features.columns),
                self.features.columns,
            ));
        }
        if !self.targets.is_like(&other.targets) {
            let expected = "targets of the same kind";
            return Err(DataError::config(
                "other",
                "targets of another kind",
                expected,
            ));
        }
        self.targets.append(other.targets);
        self.features.rows += other.features.rows;
        self.features.values.extend(other.features.values);
        Ok(())
    }

    /// The distinct targets, as classes.
    ///
    /// # Errors
    /// If the targets are classes already, or there are fewer than two of them.
    pub fn target_levels(&self) -> Result<Levels, DataError> {
        let names = self
            .real_targets()?
            .iter()
            .map(|&value| number_label(value));
        Levels::classes(names, Place::default())
    }

    /// Converts numeric targets to classes.
    ///
    /// # Errors
    /// If the targets are classes already, or a target is not among `levels`.
    pub fn with_classes(self, levels: &Levels) -> Result<Self, DataError> {
        let classes = self
            .real_targets()?
            .iter()
            .enumerate()
            .map(|(row, &value)| levels.class(&number_label(value), || Place::default().row(row)));
        Ok(Self {
            targets: Targets::Classes(classes.collect::<Result<_, _>>()?),
            features: self.features,
        })
    }

    fn real_targets(&self) -> Result<&[f64], DataError> {
        let values = self.targets.as_real();
        values.ok_or_else(|| DataError::config("targets", "classes", "numbers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        Features::new(3, 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()
    }

    #[test]
    fn rows_are_selected_in_order_and_may_repeat() {
        let selected = features().select(&[2, 0, 2]).unwrap();
        assert_eq!(selected.values(), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
        let error = features().select(&[3]).unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("row 3"),
            "{error}"
        );
    }

    #[test]
    fn a_column_becomes_the_target() {
        let data = features().into_dataset(&[1], 0).unwrap();
        assert_eq!(data.features().values(), [1.0, 3.0, 5.0]);
        assert_eq!(data.targets().as_real(), Some(&[0.0, 2.0, 4.0][..]));
        for columns in [&[2][..], &[1, 1], &[0, 1]] {
            let error = features().into_dataset(columns, 0).unwrap_err();
            assert!(error.is_config(), "{columns:?}: {error}");
        }
    }

    #[test]
    fn counts_must_agree() {
        assert!(Features::new(2, 2, vec![0.0; 3]).is_err());
        assert!(Features::new(usize::MAX, 2, Vec::new()).is_err());
        assert!(Dataset::new(features(), Targets::Classes(vec![0; 2])).is_err());
    }

    #[test]
    fn appended_rows_follow() {
        let data = |value| {
            let features = Features::new(1, 1, vec![value]).unwrap();
            Dataset::new(features, Targets::Real(vec![-value])).unwrap()
        };
        let mut all = data(1.0);
        all.append(data(2.0)).unwrap();
        assert_eq!(all.features().row(1), [2.0]);
        assert_eq!(all.targets().as_real(), Some(&[-1.0, -2.0][..]));
        let classes = Dataset::new(
            Features::new(1, 1, vec![0.0]).unwrap(),
            Targets::Classes(vec![0]),
        );
        assert!(all.append(classes.unwrap()).unwrap_err().is_config());
        assert_eq!(all.rows(), 2);
    }

    #[test]
    fn labels_of_another_set_are_refused() {
        let data = |targets: &[f64]| {
            let features = Features::new(targets.len(), 0, Vec::new()).unwrap();
            Dataset::new(features, Targets::Real(targets.to_vec())).unwrap()
        };
        let levels = data(&[10.0, 2.0, 10.0]).target_levels().unwrap();
        assert_eq!(levels.names(), ["2", "10"]);
        let error = data(&[2.0, 3.0]).with_classes(&levels).unwrap_err();
        assert_eq!((error.is_data(), error.row()), (true, Some(1)));
        assert!(error.to_string().contains("one of `2`, `10`"), "{error}");
        assert!(data(&[1.0, 1.0]).target_levels().unwrap_err().is_data());
    }
}
