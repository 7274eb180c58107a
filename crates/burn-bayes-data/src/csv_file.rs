//! Reads delimited text, and the rows of other formats, into typed columns, in one pass.
//!
//! Delimiter, header and column types are detected from the first rows unless they are given:
//!
//! - **Delimiter**: among comma, tab, semicolon, bar and space, the one that splits the most of the first
//!   rows into the same number of cells, at least two; in case of ties, the one with the most numeric
//!   cells, then the first in this list.
//! - **Header**: the first row is a header if none of its cells is a number.
//! - **Type**: a column is numeric if at least half of its non-missing cells in the first 1000 rows are
//!   numbers. Text in a numeric column is then an error that names its line, so that the column does not
//!   silently become categorical. The same holds for dates, which all have one order of year, month and day.
//!   A text column that would be numeric with the other decimal separator is also an error, unless it is
//!   declared as categories.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::Path;

use crate::column_type::ColumnType;
use crate::csv_options::{BadRows, CsvOptions, Header};
use crate::error::{DataError, Place, no_column, shown};
use crate::growing::{Growing, not_in_column};
use crate::records::{Records, SAMPLE_ROWS};
use crate::row::Row;
use crate::shell::quoted_name;
use crate::source::{self, Plain};
use crate::table::{ColumnKind, Origin, Table};

/// Reads a whole delimited file, optionally compressed with gzip, zstd or zip.
///
/// # Errors
/// If the file cannot be read, has no rows, or a row or cell is invalid.
pub fn read_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Table, DataError> {
    CsvReader::open(path, options.clone())?.read_all()
}

/// Reads delimited text in chunks of rows.
///
/// Only the rows of the current chunk are in memory, so a file may be larger than memory; see
/// [`PreprocessorFit`](crate::PreprocessorFit) for preprocessing in two passes.
///
/// ```
/// use burn_bayes_data::{CsvOptions, CsvReader};
///
/// let text = "x,y\n1,a\n2,b\n3,a\n";
/// let mut reader = CsvReader::new(text.as_bytes(), "example", CsvOptions::default())?;
/// let mut rows = Vec::new();
/// while let Some(table) = reader.next_table(2)? {
///     rows.push(table.rows());
/// }
/// assert_eq!(rows, [2, 1]);
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
pub struct CsvReader<'a> {
    records: Records<'a>,
    options: CsvOptions,
    columns: Vec<Field>,
    /// The sampled rows that were not returned yet.
    sample: std::vec::IntoIter<Row>,
}

impl std::fmt::Debug for CsvReader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CsvReader")
            .field("source", &self.records.name)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// A column of the file.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    of_type: ColumnType,
    is_kept: bool,
    keeps_text: bool,
}

impl Field {
    /// An empty column.
    fn growing(&self) -> Growing {
        Growing::new(self.of_type.kind, self.is_kept, self.keeps_text)
    }
}

impl CsvReader<'static> {
    /// Opens a file, optionally compressed with gzip, zstd or zip, and reads its first rows.
    ///
    /// # Errors
    /// As for [`CsvReader::new`].
    pub fn open(path: impl AsRef<Path>, options: CsvOptions) -> Result<Self, DataError> {
        let (reader, name) = source::open(path.as_ref())?;
        Self::from_plain(reader, &name, options)
    }
}

impl<'a> CsvReader<'a> {
    /// Reads the first rows of `reader`; `name` is used in messages.
    ///
    /// # Errors
    /// If nothing can be read, there are no rows, the header is invalid, or the options name a column that
    /// does not exist and is not optional.
    pub fn new(reader: impl Read + 'a, name: &str, options: CsvOptions) -> Result<Self, DataError> {
        Self::from_plain(source::plain(reader, name)?, name, options)
    }

    fn from_plain(reader: Plain<'a>, name: &str, options: CsvOptions) -> Result<Self, DataError> {
        let mut records = Records::new(reader, name, &options)?;
        let mut options = options.with_delimiter(records.delimiter());
        let mut sample = Vec::new();
        let names = match records.names() {
            Some(names) => {
                options = options.with_further_missing([""]);
                let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
                checked_names(&Place::of(name), &names, true)?
            }
            None => {
                let first = records.next()?.ok_or_else(|| DataError::no_rows(name))?;
                let cells = records.cells(&first)?;
                let has_header = has_header(&cells, &options);
                let names = checked_names(&records.place(first.number()), &cells, has_header)?;
                sample.extend((!has_header).then_some(first));
                names
            }
        };
        options.check_names(name, &names)?;
        while sample.len() < SAMPLE_ROWS
            && let Some(row) = records.next()?
        {
            sample.push(row);
        }
        if sample.is_empty() {
            return Err(DataError::no_rows(name));
        }
        let columns = names.into_iter().enumerate().map(|(index, name)| {
            let place = |row| records.place(row).column(&name);
            let of_type = match options.kinds.get(&name) {
                Some(&kind) => ColumnType::declared(kind),
                None => ColumnType::of(&sample, index, &options, place),
            };
            Field {
                of_type,
                is_kept: options
                    .only
                    .as_ref()
                    .is_none_or(|only| only.contains(&name)),
                keeps_text: options.keep.contains(&name),
                name,
            }
        });
        Ok(Self {
            columns: columns.collect(),
            records,
            options,
            sample: sample.into_iter(),
        })
    }

    /// Skips a column from now on.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn without(mut self, column: &str) -> Result<Self, DataError> {
        self.field("without", column)?.is_kept = false;
        Ok(self)
    }

    /// Sets the type of a column.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn with_kind(mut self, column: &str, kind: ColumnKind) -> Result<Self, DataError> {
        self.field("kind", column)?.of_type = ColumnType::declared(kind);
        Ok(self)
    }

    fn field(&mut self, setting: &str, column: &str) -> Result<&mut Field, DataError> {
        let place = self.columns.iter().position(|field| field.name == column);
        match place {
            Some(place) => Ok(&mut self.columns[place]),
            None => {
                let names = self.columns.iter().map(|field| field.name.clone());
                let names: Vec<_> = names.collect();
                Err(no_column(setting, column, &self.records.name, &names))
            }
        }
    }

    /// The columns and their types, in the order of the file.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ColumnKind)> {
        let kept = self.columns.iter().filter(|field| field.is_kept);
        kept.map(|field| {
            (
                &*field.name,
                field.of_type.kind.unwrap_or(ColumnKind::Number),
            )
        })
    }

    /// The next rows, at least one and at most `most`; `None` at the end.
    ///
    /// # Errors
    /// If a row has a different number of cells than the first one, a cell is not UTF-8, or a cell of a
    /// numeric column is not a finite number, unless such rows [are marked](BadRows::Mark). If a column
    /// would be numeric with the other decimal separator.
    pub fn next_table(&mut self, most: usize) -> Result<Option<Table>, DataError> {
        self.check_marks()?;
        let mut cells: Vec<Growing> = self.columns.iter().map(Field::growing).collect();
        let (mut numbers, mut faults) = (Vec::new(), BTreeMap::new());
        let mut row = Row::default();
        while numbers.len() < most.max(1) {
            match self.sample.next() {
                Some(sampled) => row = sampled,
                None if self.records.read(&mut row)? => {}
                None => break,
            }
            match (self.push(&row, &mut cells), self.options.bad_rows) {
                (Ok(()), _) => {}
                (Err(fault), BadRows::Mark) => {
                    faults.insert(numbers.len(), fault);
                }
                (Err(error), BadRows::Refuse) => return Err(error),
            }
            numbers.push(row.number());
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        let (mut columns, mut passed_over, mut texts) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut doubts = Vec::new();
        for (field, Growing { values, written }) in self.columns.iter_mut().zip(cells) {
            match values {
                Some(values) => {
                    field.of_type.kind = values.kind();
                    doubts.extend(field.of_type.doubt.clone());
                    let mut column = values.into_column(&field.name);
                    if let Some(date) = &field.of_type.date {
                        let expected =
                            format!("a date or time, as in other rows, such as {}", shown(date));
                        for (row, text) in column.take_other_texts_than_dates() {
                            let place = self.records.place(numbers[row]).column(&field.name);
                            let fault = not_in_column(&text, &expected, place);
                            faults.entry(row).or_insert(fault);
                        }
                    }
                    columns.push(column);
                }
                None => passed_over.push(field.name.clone()),
            }
            texts.extend(written.map(|written| (field.name.clone(), written)));
        }
        if self.options.bad_rows == BadRows::Refuse
            && let Some((_, error)) = faults.pop_first()
        {
            return Err(error);
        }
        let origin = Origin {
            source: self.records.name.clone(),
            numbers,
            counted: self.records.counted(),
            passed_over,
            texts,
            faults,
            doubts,
        };
        Ok(Some(Table::of_file(columns, origin)))
    }

    /// Adds the cells of a row to their columns. Invalid cells become missing values, and the first error
    /// is returned.
    fn push(&self, row: &Row, cells: &mut [Growing]) -> Result<(), DataError> {
        if let Err(error) = self.records.check(row) {
            cells.iter_mut().for_each(Growing::push_missing);
            return Err(error);
        }
        let mut outcome = Ok(());
        for (index, (field, bytes)) in self.columns.iter().zip(row.cells()).enumerate() {
            let place = || self.records.place(row.number()).column(&field.name);
            let pushed = match row.unreadable(index) {
                Some(found) => cells[index].push_unreadable(found, place),
                None => cells[index].push(bytes, &self.options, place),
            };
            if let Err(error) = pushed {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    /// Refuses a column that is categorical only because of its decimal separator.
    fn check_marks(&self) -> Result<(), DataError> {
        let mut kept = self.columns.iter().filter(|field| field.is_kept);
        let found = kept.find_map(|field| Some((field, field.of_type.other_mark.as_ref()?)));
        let Some((field, (number, cell))) = found else {
            return Ok(());
        };
        let mark = self.options.decimal;
        let (place, name) = (self.records.place(*number), &field.name);
        Err(DataError::data(
            place.column(name),
            shown(cell),
            format_args!(
                "{}, because otherwise the column would be categorical",
                mark.expected()
            ),
            &format!(
                "{}; if the column is categorical, declare it (`--categories {}`)",
                mark.cure(),
                quoted_name(name)
            ),
        ))
    }

    /// All remaining rows.
    ///
    /// # Errors
    /// As for [`CsvReader::next_table`], and if there are none.
    pub fn read_all(mut self) -> Result<Table, DataError> {
        self.next_table(usize::MAX)?
            .ok_or_else(|| DataError::no_rows(&self.records.name))
    }
}

/// Whether the first row is a header.
fn has_header(first: &[&str], options: &CsvOptions) -> bool {
    match options.header {
        Header::Present => true,
        Header::Absent => false,
        Header::Detect => !first.iter().any(|cell| options.reads_as_number(cell)),
    }
}

/// The column names from the header, or numbered names.
fn checked_names(
    place: &Place,
    first: &[&str],
    has_header: bool,
) -> Result<Vec<String>, DataError> {
    let mut names = Vec::with_capacity(first.len());
    let mut seen = HashSet::new();
    for (index, cell) in first.iter().enumerate() {
        let name = if has_header && !cell.is_empty() {
            cell.to_string()
        } else {
            column_name(index)
        };
        if !seen.insert(name.clone()) {
            return Err(DataError::data(
                place.clone().column(&name),
                "the same name twice",
                "names that differ",
                "rename one of the columns, or set the header to absent",
            ));
        }
        names.push(name);
    }
    Ok(names)
}

/// The name of an unnamed column.
pub(crate) fn column_name(index: usize) -> String {
    format!("column_{index}")
}
