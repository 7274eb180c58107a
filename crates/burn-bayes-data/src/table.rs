//! Tables of raw columns: numbers or categories, with missing values.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use crate::dates::{DateOrder, Moment};
use crate::error::{Counted, DataError, Place, check_rows, listed};
use crate::suspicion::Suspicion;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Finite numbers.
    Number,
    /// Categories.
    Category,
}

/// Columns of equal length, with the source of each row.
///
/// ```
/// use burn_bayes_data::{Column, Table};
///
/// let table = Table::new(vec![
///     Column::numbers("age", vec![31.0, f64::NAN]),
///     Column::categories("town", [Some("Oslo"), None]),
/// ])?;
/// assert_eq!(table.rows(), 2);
/// assert_eq!(table.column("town")?.category(0), Some("Oslo"));
/// assert_eq!(table.complete_rows(), [0]);
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: usize,
    origin: Origin,
}

/// The source of a table, and further findings of the reader.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    /// The name of the file or other source.
    pub(crate) source: String,
    /// The number of each row in its file; empty for a table in memory.
    pub(crate) numbers: Vec<u64>,
    /// What these numbers count.
    pub(crate) counted: Counted,
    /// The names of skipped columns.
    pub(crate) passed_over: Vec<String>,
    /// The unchanged text of cells, for columns that keep it.
    pub(crate) texts: BTreeMap<String, Texts>,
    /// The errors of unusable rows.
    pub(crate) faults: BTreeMap<usize, DataError>,
    /// Columns of categories that may be numbers or dates.
    pub(crate) doubts: Vec<Suspicion>,
}

impl Table {
    /// A table in memory.
    ///
    /// # Errors
    /// If columns differ in length or two have the same name.
    pub fn new(columns: Vec<Column>) -> Result<Self, DataError> {
        let rows = columns.first().map_or(0, Column::len);
        let mut names = HashSet::new();
        for column in &columns {
            let place = || Place::default().column(&column.name);
            if column.len() != rows {
                return Err(DataError::data(
                    place(),
                    format_args!("{} cells", column.len()),
                    format_args!("{rows}, as in the first column"),
                    "make all columns equally long",
                ));
            }
            if !names.insert(&column.name) {
                return Err(DataError::data(
                    place(),
                    "the same name twice",
                    "names that differ",
                    "rename one of the columns",
                ));
            }
        }
        let origin = Origin {
            source: "the table".into(),
            ..Origin::default()
        };
        Ok(Self {
            columns,
            rows,
            origin,
        })
    }

    /// A table from a reader, which ensures distinct names and equal lengths.
    pub(crate) fn of_file(columns: Vec<Column>, origin: Origin) -> Self {
        Self {
            columns,
            rows: origin.numbers.len(),
            origin,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All columns, in the order of the file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column with this name.
    ///
    /// # Errors
    /// If there is none; the message lists all names.
    pub fn column(&self, name: &str) -> Result<&Column, DataError> {
        let found = self.columns.iter().find(|column| column.name == name);
        found.ok_or_else(|| {
            DataError::data(
                self.whole().column(name),
                format_args!("no such column among {}", listed(&self.names())),
                "a column with that name",
                "check the spelling, and whether the file has a header line",
            )
        })
    }

    /// The names of all columns, including skipped ones.
    pub(crate) fn names(&self) -> Vec<&str> {
        let passed_over = self.origin.passed_over.iter().map(String::as_str);
        self.columns
            .iter()
            .map(Column::name)
            .chain(passed_over)
            .collect()
    }

    /// Checks that no values are missing.
    ///
    /// # Errors
    /// The first missing value.
    pub fn check_complete(&self) -> Result<(), DataError> {
        for row in 0..self.rows {
            if let Some(column) = self.columns.iter().find(|column| column.is_missing(row)) {
                return Err(DataError::missing(self.place(row).column(column.name())));
            }
        }
        Ok(())
    }

    /// The rows without missing values in any column. Ignored columns count too, unless they are [not
    /// read](crate::CsvOptions::with_only). Rows with a [fault](Self::fault) are included, because their
    /// unreadable cells are not missing values.
    pub fn complete_rows(&self) -> Vec<usize> {
        let is_complete = |row| !self.columns.iter().any(|column| column.is_missing(row));
        (0..self.rows)
            .filter(|&row| self.fault(row).is_some() || is_complete(row))
            .collect()
    }

    /// The error of a row [marked](crate::BadRows::Mark) by a reader; `None` for a valid row.
    pub fn fault(&self, row: usize) -> Option<&DataError> {
        self.origin.faults.get(&row)
    }

    /// The unchanged text of a cell, with surrounding spaces, if [kept](crate::CsvOptions::with_kept);
    /// empty in a row with a wrong number of cells.
    pub fn text(&self, column: &str, row: usize) -> Option<&str> {
        let texts = self.origin.texts.get(column)?;
        (row < self.rows).then(|| texts.get(row as u32))
    }

    /// What the reader doubts about the types of columns.
    pub(crate) fn doubts(&self) -> &[Suspicion] {
        &self.origin.doubts
    }

    /// The table as a whole, for a message.
    pub(crate) fn whole(&self) -> Place {
        Place::of(&self.origin.source)
    }

    /// Checks that a row exists and could be read.
    pub(crate) fn check_row(&self, row: usize) -> Result<(), DataError> {
        check_rows(&[row], self.rows)?;
        self.fault(row).map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// The file of `row` and its place in it, for a message.
    pub fn row_name(&self, row: usize) -> String {
        self.place(row).to_string()
    }

    /// The position of `row`, for a message.
    pub(crate) fn place(&self, row: usize) -> Place {
        let place = self.whole();
        match self.origin.numbers.get(row) {
            Some(&number) => place.at(self.origin.counted, number),
            None => place.row(row),
        }
    }
}

/// One column of a [`Table`].
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    cells: Cells,
}

#[derive(Debug, Clone)]
enum Cells {
    /// NaN for missing values.
    Numbers(Vec<f64>),
    Categories(Categories),
}

impl Column {
    /// A numeric column; NaN is a missing value.
    pub fn numbers(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            cells: Cells::Numbers(values),
        }
    }

    /// A categorical column; `None` is a missing value.
    pub fn categories<'a>(
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<&'a str>>,
    ) -> Self {
        let mut cells = GrowingCategories::default();
        for value in values {
            cells.push(value);
        }
        cells.into_column(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type.
    pub fn kind(&self) -> ColumnKind {
        match self.cells {
            Cells::Numbers(_) => ColumnKind::Number,
            Cells::Categories(_) => ColumnKind::Category,
        }
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::Numbers(values) => values.len(),
            Cells::Categories(cells) => cells.codes.len(),
        }
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cells of these rows, in this order.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let cells = match &self.cells {
            Cells::Numbers(values) => Cells::Numbers(rows.iter().map(|&row| values[row]).collect()),
            Cells::Categories(all) => Cells::Categories(Categories {
                codes: rows.iter().map(|&row| all.codes[row]).collect(),
                levels: all.levels.clone(),
            }),
        };
        Self {
            name: self.name.clone(),
            cells,
        }
    }

    /// The number in `row`; `None` if it is missing or the column is categorical.
    pub fn number(&self, row: usize) -> Option<f64> {
        match &self.cells {
            Cells::Numbers(values) => values.get(row).copied().filter(|value| !value.is_nan()),
            Cells::Categories(_) => None,
        }
    }

    /// The category in `row`; `None` if it is missing or the column is numeric.
    pub fn category(&self, row: usize) -> Option<&str> {
        match &self.cells {
            Cells::Numbers(_) => None,
            Cells::Categories(cells) => cells.get(row),
        }
    }

    /// Whether the cell in `row` is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        self.number(row).is_none() && self.category(row).is_none()
    }

    /// Whether all cells are equal; missing cells are.
    pub fn is_constant(&self) -> bool {
        let first = self.label(0);
        (1..self.len()).all(|row| self.label(row) == first)
    }

    /// The number of cells that are not missing.
    pub fn present_rows(&self) -> usize {
        (0..self.len()).filter(|&row| !self.is_missing(row)).count()
    }

    /// The distinct categories, in order of first appearance; none for a numeric column.
    pub(crate) fn levels(&self) -> Vec<&str> {
        match &self.cells {
            Cells::Numbers(_) => Vec::new(),
            Cells::Categories(cells) => cells.levels.iter().collect(),
        }
    }

    /// The number of rows of the most frequent category; none for numbers and dates, and without any.
    pub fn rows_of_category(&self) -> Option<usize> {
        if DateOrder::of(&self.levels()).is_some() {
            return None;
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let categories = (0..self.len()).filter_map(|row| self.category(row));
        categories.for_each(|category| *counts.entry(category).or_default() += 1);
        counts.into_values().max()
    }

    /// A group index for each row, from 0: equal cells have equal indices, and missing values have their
    /// own. For [`stratified_splits`](crate::KFold::stratified_splits).
    pub fn groups(&self) -> Vec<usize> {
        let mut groups = HashMap::new();
        let rows = 0..self.len();
        rows.map(|row| {
            let next = groups.len();
            *groups.entry(self.label(row)).or_insert(next)
        })
        .collect()
    }

    /// Whether the texts are dates, and not times of day alone.
    pub fn is_of_dates(&self) -> bool {
        let order = DateOrder::of(&self.levels());
        order.is_some_and(|order| order != DateOrder::TimeOfDay)
    }

    /// The cells as times: numbers, or dates as days since 1970 and times of day as parts of one; NaN where they are missing.
    /// `None` if the texts are neither.
    pub fn times(&self) -> Option<Vec<f64>> {
        let rows = 0..self.len();
        if self.kind() == ColumnKind::Number {
            return Some(
                rows.map(|row| self.number(row).unwrap_or(f64::NAN))
                    .collect(),
            );
        }
        let order = DateOrder::of(&self.levels())?;
        let days = |text| order.moment(text).map_or(f64::NAN, Moment::days);
        Some(
            rows.map(|row| self.category(row).map_or(f64::NAN, days))
                .collect(),
        )
    }

    /// The numbers that are not missing, with their rows.
    pub(crate) fn present_numbers(&self) -> Vec<(usize, f64)> {
        let cells = (0..self.len()).filter_map(|row| Some((row, self.number(row)?)));
        cells.collect()
    }

    /// Replaces the texts that are no dates in the order of most others by missing values, and returns them with their rows.
    pub(crate) fn take_other_texts_than_dates(&mut self) -> Vec<(usize, String)> {
        if self.levels().is_empty() || DateOrder::of(&self.levels()).is_some() {
            return Vec::new();
        }
        let cells: Vec<Option<&str>> = (0..self.len()).map(|row| self.category(row)).collect();
        let texts: Vec<&str> = cells.iter().copied().flatten().collect();
        let order = DateOrder::of_most(&texts);
        let is_date = |text: &&str| order.is_some_and(|order| order.moment(text).is_some());
        let dates = cells.iter().map(|cell| cell.filter(is_date));
        let dates = Self::categories(&*self.name, dates);
        let others = cells.iter().enumerate();
        let others =
            others.filter_map(|(row, cell)| Some((row, cell.filter(|cell| !is_date(cell))?)));
        let others = others.map(|(row, text)| (row, text.to_string())).collect();
        *self = dates;
        others
    }

    /// The cell as a label: the category, or the shortest text of the number.
    pub fn label(&self, row: usize) -> Option<String> {
        match &self.cells {
            Cells::Numbers(_) => self.number(row).map(number_label),
            Cells::Categories(cells) => cells.get(row).map(str::to_string),
        }
    }
}

/// The label of a numeric class: `1` for 1, 1.0 and 1e0.
pub(crate) fn number_label(value: f64) -> String {
    // Negative zero is zero.
    (value + 0.0).to_string()
}

/// Categories as indices of distinct texts, in order of first appearance.
#[derive(Debug, Clone, Default)]
struct Categories {
    codes: Vec<u32>,
    levels: Texts,
}

impl Categories {
    /// The code of a missing value.
    const MISSING: u32 = u32::MAX;

    fn get(&self, row: usize) -> Option<&str> {
        let code = *self.codes.get(row)?;
        (code != Self::MISSING).then(|| self.levels.get(code))
    }
}

/// A compact list of texts.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    joined: String,
    /// The start of each text, and the end of the last one.
    bounds: Vec<usize>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            joined: String::new(),
            bounds: vec![0],
        }
    }
}

impl Texts {
    fn range(&self, number: u32) -> Range<usize> {
        let number = number as usize;
        self.bounds[number]..self.bounds[number + 1]
    }

    fn get(&self, number: u32) -> &str {
        &self.joined[self.range(number)]
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.bounds.len() as u32 - 1).map(|number| self.get(number))
    }

    /// A text as bytes, without the cost of a check of character boundaries.
    fn bytes(&self, number: u32) -> &[u8] {
        &self.joined.as_bytes()[self.range(number)]
    }

    /// Adds a text, and returns its index.
    pub(crate) fn push(&mut self, text: &str) -> u32 {
        // A file with 2³² different categories would not fit into memory.
        let number = self.bounds.len() as u32 - 1;
        self.joined.push_str(text);
        self.bounds.push(self.joined.len());
        number
    }
}

/// A categorical column under construction.
#[derive(Default)]
pub(crate) struct GrowingCategories {
    categories: Categories,
    /// The codes by their texts.
    index: HashTable<u32>,
    hasher: RandomState,
}

impl GrowingCategories {
    pub(crate) fn push(&mut self, value: Option<&str>) {
        let code = match value {
            None => Categories::MISSING,
            Some(value) => self.code(value),
        };
        self.categories.codes.push(code);
    }

    fn code(&mut self, value: &str) -> u32 {
        let levels = &mut self.categories.levels;
        let hash = |text: &[u8]| {
            let mut hasher = self.hasher.build_hasher();
            hasher.write(text);
            hasher.finish()
        };
        let entry = self.index.entry(
            hash(value.as_bytes()),
            |&code| levels.bytes(code) == value.as_bytes(),
            |&code| hash(levels.bytes(code)),
        );
        *entry.or_insert_with(|| levels.push(value)).get()
    }

    pub(crate) fn into_column(self, name: String) -> Column {
        Column {
            name,
            cells: Cells::Categories(self.categories),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_cells_keep_their_values() {
        let numbers = Column::numbers("age", vec![31.0, f64::NAN, 4.0]).select(&[2, 1, 2]);
        assert_eq!((numbers.name(), numbers.len()), ("age", 3));
        assert_eq!((numbers.number(0), numbers.number(1)), (Some(4.0), None));
        let towns = Column::categories("town", [Some("Oslo"), None, Some("Rome")]).select(&[2, 1]);
        assert_eq!((towns.category(0), towns.category(1)), (Some("Rome"), None));
    }

    #[test]
    fn missing_cells_are_missing_in_both_kinds() {
        let numbers = Column::numbers("a", vec![1.0, f64::NAN]);
        let names = Column::categories("b", [Some("x"), None]);
        for column in [&numbers, &names] {
            assert!(!column.is_missing(0) && column.is_missing(1) && column.is_missing(2));
        }
        assert_eq!((numbers.number(0), numbers.category(0)), (Some(1.0), None));
        assert_eq!((names.number(0), names.category(0)), (None, Some("x")));
    }

    #[test]
    fn equal_cells_are_in_one_group() {
        let names = Column::categories("a", [Some("x"), None, Some("y"), Some("x"), None]);
        assert_eq!(names.groups(), [0, 1, 2, 0, 1]);
        assert_eq!(
            Column::numbers("b", vec![0.0, -0.0, 0.5, f64::NAN]).groups(),
            [0, 0, 1, 2]
        );
    }

    #[test]
    fn columns_must_agree_in_length_and_differ_in_name() {
        let column = |name: &str, rows| Column::numbers(name, vec![0.0; rows]);
        assert!(
            Table::new(vec![column("a", 2), column("b", 3)])
                .unwrap_err()
                .is_data()
        );
        let error = Table::new(vec![column("a", 2), column("a", 2)]).unwrap_err();
        assert_eq!(error.column(), Some("a"));
        assert_eq!(Table::new(Vec::new()).unwrap().rows(), 0);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let table = Table::new(vec![Column::numbers("price", vec![1.0])]).unwrap();
        let error = table.column("prise").unwrap_err();
        assert!(error.to_string().contains("among `price`"), "{error}");
    }

    #[test]
    fn labels_of_numbers_do_not_depend_on_how_they_are_written() {
        assert_eq!(number_label("1e0".parse().unwrap()), "1");
        assert_eq!(number_label(-0.0), "0");
        assert_eq!(number_label(-1.0), "-1");
    }
}
