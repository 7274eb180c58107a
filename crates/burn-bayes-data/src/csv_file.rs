//! Delimited text into typed columns, read once from front to back.
//!
//! Delimiter, header and the kind of each column are found from the first rows unless they are given:
//!
//! - **Delimiter**: of comma, tab, semicolon, bar and space, the one that cuts the most of the first
//!   rows into the same number of fields, at least two; of equals, the first in this list.
//! - **Header**: a first row in which no cell is a number.
//! - **Kind**: a column holds numbers if at least half of its cells in the first 1000 rows, missing
//!   ones aside, are numbers. Text in a column of numbers is then an error that names its line, not a
//!   silent change of the column into categories.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::delimited::{Found, Row, RowReader};
use crate::error::{DataError, Place, shown};
use crate::source::{self, Plain};
use crate::table::{Column, ColumnKind, GrowingCategories, Origin, Table, listed};

/// Rows from which the kinds of the columns are found.
const SAMPLE_ROWS: usize = 1000;
/// Bytes from which the delimiter is found.
const SAMPLE_BYTES: u64 = 1 << 16;
const DELIMITERS: [u8; 5] = [b',', b'\t', b';', b'|', b' '];

/// Whether the first row of a file names the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// It does if none of its cells is a number.
    #[default]
    Detect,
    /// It does.
    Present,
    /// It does not; columns are called `column_0`, `column_1`, ….
    Absent,
}

/// How a delimited file is to be read.
///
/// ```
/// use burn_bayes_data::{ColumnKind, CsvOptions};
///
/// let options = CsvOptions::default()
///     .with_delimiter(b';')
///     .with_kind("postcode", ColumnKind::Category)
///     .with_missing(["", "unknown"]);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvOptions {
    /// The byte between cells; found from the first rows if `None`.
    pub delimiter: Option<u8>,
    /// Whether the first row names the columns.
    pub header: Header,
    /// Kinds that are known; the other columns' are found from the first rows.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// The columns to keep; all of them if `None`.
    pub only: Option<BTreeSet<String>>,
    /// Columns that the file may lack although `kinds` or `only` name them.
    pub optional: BTreeSet<String>,
    /// What a missing cell says, after spaces around it are taken away.
    pub missing: Vec<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            header: Header::Detect,
            kinds: BTreeMap::new(),
            only: None,
            optional: BTreeSet::new(),
            missing: ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"]
                .map(String::from)
                .into(),
        }
    }
}

impl CsvOptions {
    /// The same with a delimiter.
    #[must_use]
    pub fn with_delimiter(self, delimiter: u8) -> Self {
        Self {
            delimiter: Some(delimiter),
            ..self
        }
    }

    /// The same with another header.
    #[must_use]
    pub fn with_header(self, header: Header) -> Self {
        Self { header, ..self }
    }

    /// The same with a column whose kind is known.
    #[must_use]
    pub fn with_kind(mut self, column: impl Into<String>, kind: ColumnKind) -> Self {
        self.kinds.insert(column.into(), kind);
        self
    }

    /// The same, keeping these columns alone.
    #[must_use]
    pub fn with_only<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            only: Some(columns.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// The same, reading files without these columns too.
    #[must_use]
    pub fn with_optional<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            optional: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// The same with other words for a missing cell.
    #[must_use]
    pub fn with_missing<S: Into<String>>(self, words: impl IntoIterator<Item = S>) -> Self {
        Self {
            missing: words.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Refuses the name of a column that `source` must have and has not.
    fn check_names(&self, source: &str, names: &[String]) -> Result<(), DataError> {
        let known: HashSet<&String> = names.iter().chain(&self.optional).collect();
        let kinds = self.kinds.keys().map(|name| ("kinds", name));
        let only = self.only.iter().flatten().map(|name| ("only", name));
        match kinds.chain(only).find(|(_, name)| !known.contains(name)) {
            None => Ok(()),
            Some((setting, name)) => Err(no_column(setting, name, source, names)),
        }
    }

    /// Whether `cell` says that there is nothing.
    fn is_missing(&self, cell: &str) -> bool {
        self.missing.iter().any(|word| word == cell)
    }
}

/// Reads a whole delimited file, packed with gzip or not.
///
/// # Errors
/// If the file cannot be read, has no rows, or a row or cell is not what the others are.
pub fn read_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Table, DataError> {
    CsvReader::open(path, options.clone())?.read_all()
}

/// A delimited text that is read in pieces of as many rows as wanted.
///
/// Nothing is kept but the rows of the present piece, so a file may be larger than memory; see
/// [`PreprocessorFit`](crate::PreprocessorFit) for a whole preparation in two passes.
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
    /// The rows that the kinds were found from and that no table holds yet.
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

/// A field of every row.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    kind: ColumnKind,
    is_kept: bool,
}

impl CsvReader<'static> {
    /// Opens a file, packed with gzip or not, and reads its first rows.
    ///
    /// # Errors
    /// As for [`CsvReader::new`].
    pub fn open(path: impl AsRef<Path>, options: CsvOptions) -> Result<Self, DataError> {
        let (reader, name) = source::open(path.as_ref())?;
        Self::from_plain(reader, &name, options)
    }
}

impl<'a> CsvReader<'a> {
    /// Reads the first rows of `reader`, which messages call `name`.
    ///
    /// # Errors
    /// If nothing can be read, there is no row, the header is not usable, or the options name a column
    /// that is neither there nor optional.
    pub fn new(reader: impl Read + 'a, name: &str, options: CsvOptions) -> Result<Self, DataError> {
        Self::from_plain(source::plain(reader, name)?, name, options)
    }

    fn from_plain(reader: Plain<'a>, name: &str, options: CsvOptions) -> Result<Self, DataError> {
        let mut records = Records::new(reader, name, options.delimiter)?;
        let first = records.next()?.ok_or_else(|| DataError::no_rows(name))?;
        let first_cells = records.cells(&first)?;
        let has_header = match options.header {
            Header::Present => true,
            Header::Absent => false,
            Header::Detect => !first_cells.iter().any(|cell| cell.parse::<f64>().is_ok()),
        };
        let place = records.place(first.line());
        let names = names(&place, &first_cells, has_header)?;
        options.check_names(name, &names)?;
        let mut sample = Vec::new();
        if !has_header {
            sample.push(first);
        }
        while sample.len() < SAMPLE_ROWS
            && let Some(row) = records.next()?
        {
            sample.push(row);
        }
        if sample.is_empty() {
            return Err(DataError::no_rows(name));
        }
        let columns = names.into_iter().enumerate().map(|(index, name)| Field {
            kind: match options.kinds.get(&name) {
                Some(&kind) => kind,
                None => kind_of(sample.iter().filter_map(|row| row.cell(index)), &options),
            },
            is_kept: options
                .only
                .as_ref()
                .is_none_or(|only| only.contains(&name)),
            name,
        });
        Ok(Self {
            columns: columns.collect(),
            records,
            options,
            sample: sample.into_iter(),
        })
    }

    /// The same, passing over a column from here on.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn without(mut self, column: &str) -> Result<Self, DataError> {
        self.field("without", column)?.is_kept = false;
        Ok(self)
    }

    /// The same with a column whose kind is known better than the first rows tell.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn with_kind(mut self, column: &str, kind: ColumnKind) -> Result<Self, DataError> {
        self.field("kind", column)?.kind = kind;
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

    /// The columns and their kinds, in the order of the file.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ColumnKind)> {
        let kept = self.columns.iter().filter(|field| field.is_kept);
        kept.map(|field| (field.name.as_str(), field.kind))
    }

    /// The next rows, at most `most` of them but at least one; `None` when there are no more.
    ///
    /// # Errors
    /// If a row has another number of cells than the first one, a cell is not UTF-8, or a cell of a
    /// column of numbers is not a finite number.
    pub fn next_table(&mut self, most: usize) -> Result<Option<Table>, DataError> {
        let mut cells: Vec<Growing> = self.columns.iter().map(Growing::new).collect();
        let mut lines = Vec::new();
        let mut row = Row::default();
        while lines.len() < most.max(1) {
            match self.sample.next() {
                Some(sampled) => row = sampled,
                None if self.records.read(&mut row)? => {}
                None => break,
            }
            let line = row.line();
            for ((field, cells), bytes) in self.columns.iter().zip(&mut cells).zip(row.cells()) {
                if field.is_kept {
                    let place = || self.records.place(line).column(&field.name);
                    let cell = text_of(bytes).ok_or_else(|| DataError::not_text(place()))?;
                    cells.push(cell, &self.options, place)?;
                }
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let (mut columns, mut passed_over) = (Vec::new(), Vec::new());
        for (field, cells) in self.columns.iter().zip(cells) {
            if field.is_kept {
                columns.push(cells.into_column(&field.name));
            } else {
                passed_over.push(field.name.clone());
            }
        }
        let origin = Origin {
            source: self.records.name.clone(),
            lines,
            passed_over,
        };
        Ok(Some(Table::of_lines(columns, origin)))
    }

    /// All rows that are left.
    ///
    /// # Errors
    /// As for [`CsvReader::next_table`], and if there are none.
    pub fn read_all(mut self) -> Result<Table, DataError> {
        self.next_table(usize::MAX)?
            .ok_or_else(|| DataError::no_rows(&self.records.name))
    }
}

/// A column while it is read.
enum Growing {
    Numbers(Vec<f64>),
    Categories(GrowingCategories),
}

impl Growing {
    fn new(field: &Field) -> Self {
        match field.kind {
            ColumnKind::Number => Self::Numbers(Vec::new()),
            ColumnKind::Category => Self::Categories(GrowingCategories::default()),
        }
    }

    fn push(
        &mut self,
        cell: &str,
        options: &CsvOptions,
        place: impl Fn() -> Place,
    ) -> Result<(), DataError> {
        let is_missing = options.is_missing(cell);
        match self {
            Self::Categories(cells) => cells.push((!is_missing).then_some(cell)),
            Self::Numbers(cells) if is_missing => cells.push(f64::NAN),
            Self::Numbers(cells) => match cell.parse::<f64>() {
                Ok(value) if value.is_finite() => cells.push(value),
                _ => {
                    return Err(DataError::data(
                        place(),
                        shown(cell),
                        "a finite number in a column of numbers",
                        "correct the cell, list it among the words for a missing cell, or declare \
                         the column to hold categories",
                    ));
                }
            },
        }
        Ok(())
    }

    fn into_column(self, name: &str) -> Column {
        match self {
            Self::Numbers(mut values) => {
                // Half of it may be room for more.
                values.shrink_to_fit();
                Column::numbers(name, values)
            }
            Self::Categories(cells) => cells.into_column(name.into()),
        }
    }
}

/// Rows of equal width.
struct Records<'a> {
    rows: RowReader<Box<dyn BufRead + 'a>>,
    name: String,
    delimiter: u8,
    longest_row: usize,
    /// The cells of the first row.
    width: Option<usize>,
}

impl<'a> Records<'a> {
    fn new(plain: Plain<'a>, name: &str, delimiter: Option<u8>) -> Result<Self, DataError> {
        let Plain { mut bytes, packing } = plain;
        let mut start = Vec::new();
        bytes
            .by_ref()
            .take(SAMPLE_BYTES)
            .read_to_end(&mut start)
            .map_err(|error| DataError::io(name, &error))?;
        let delimiter = delimiter.unwrap_or_else(|| delimiter_of(&start));
        if matches!(delimiter, b'"' | b'\n' | b'\r') {
            return Err(DataError::config(
                "delimiter",
                shown(&char::from(delimiter).to_string()),
                "a byte other than a quote or the end of a line",
            ));
        }
        let whole: Box<dyn BufRead + 'a> = Box::new(Cursor::new(start).chain(bytes));
        let longest_row = packing.longest_line();
        Ok(Self {
            rows: RowReader::new(whole, delimiter, longest_row)
                .map_err(|error| DataError::io(name, &error))?,
            name: name.into(),
            delimiter,
            longest_row,
            width: None,
        })
    }

    /// Whether there was another row to put into `row`.
    fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        let found = self.rows.read(row);
        match found.map_err(|error| DataError::io(&self.name, &error))? {
            Found::Row => {}
            Found::End => return Ok(false),
            Found::OpenQuote(line) => {
                return Err(DataError::data(
                    self.place(line),
                    "a quote that opens here and never closes",
                    "a second quote before the end of the file",
                    "close the quote; one that is part of the text is written twice, inside quotes",
                ));
            }
            Found::LongRow(line) => {
                let most = self.longest_row;
                return Err(source::too_large(self.place(line), "a row", most));
            }
        }
        let width = *self.width.get_or_insert(row.width());
        if row.width() != width {
            return Err(DataError::data(
                self.place(row.line()),
                format_args!("{} cells", row.width()),
                format_args!(
                    "{width}, as in the first row, between delimiters {:?}",
                    char::from(self.delimiter)
                ),
                "look for a missing or additional delimiter or quote, or give the `delimiter`",
            ));
        }
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<Row>, DataError> {
        let mut row = Row::default();
        Ok(self.read(&mut row)?.then_some(row))
    }

    fn cells<'r>(&self, row: &'r Row) -> Result<Vec<&'r str>, DataError> {
        let cells: Option<_> = row.cells().map(text_of).collect();
        cells.ok_or_else(|| DataError::not_text(self.place(row.line())))
    }

    fn place(&self, line: u64) -> Place {
        Place::of(&self.name).line(line)
    }
}

/// A cell without the spaces around it; `None` if it is not text.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(str::trim)
}

/// A setting that names a column which a file lacks.
fn no_column(setting: &str, name: &str, source: &str, names: &[String]) -> DataError {
    let expected = format_args!("a column of {source}: {}", listed(names));
    DataError::config(setting, shown(name), expected)
}

/// The names that the first row gives, or numbered ones.
fn names(place: &Place, first: &[&str], has_header: bool) -> Result<Vec<String>, DataError> {
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
                "rename one of the columns, or say that the file has no header",
            ));
        }
        names.push(name);
    }
    Ok(names)
}

/// What a column without a name is called.
pub(crate) fn column_name(index: usize) -> String {
    format!("column_{index}")
}

/// Numbers if at least half of the cells that are not missing are.
fn kind_of<'r>(cells: impl Iterator<Item = &'r [u8]>, options: &CsvOptions) -> ColumnKind {
    let (mut numbers, mut others) = (0, 0);
    for cell in cells {
        match text_of(cell) {
            Some(cell) if options.is_missing(cell) => {}
            Some(cell) if cell.parse::<f64>().is_ok() => numbers += 1,
            _ => others += 1,
        }
    }
    if numbers >= others {
        ColumnKind::Number
    } else {
        ColumnKind::Category
    }
}

/// The delimiter under which most of the first rows have the same number of cells.
fn delimiter_of(start: &[u8]) -> u8 {
    let mut best = (DELIMITERS[0], 0.0);
    for delimiter in DELIMITERS {
        let share = uniform_share(start, delimiter);
        if share > best.1 {
            best = (delimiter, share);
        }
    }
    best.0
}

/// The share of the rows that have the most frequent number of cells, if that is at least two.
fn uniform_share(start: &[u8], delimiter: u8) -> f64 {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let Ok(mut reader) = RowReader::new(start, delimiter, usize::MAX) else {
        return 0.0;
    };
    let mut row = Row::default();
    let mut rows = 0;
    while rows < SAMPLE_ROWS && reader.read(&mut row).is_ok_and(|found| found != Found::End) {
        // The last row of the sample may be cut short; it counts little among many.
        *counts.entry(row.width()).or_default() += 1;
        rows += 1;
    }
    let most = counts.into_iter().max_by_key(|&(_, rows)| rows);
    match most {
        Some((width, count)) if width >= 2 => count as f64 / rows as f64,
        _ => 0.0,
    }
}
