//! Delimited text into typed columns, read once from front to back.
//!
//! Delimiter, header and the kind of each column are found from the first rows unless they are given:
//!
//! - **Delimiter**: of comma, tab, semicolon, bar and space, the one that cuts the most of the first
//!   rows into the same number of fields, at least two; of equals, the one that leaves the most cells
//!   that are numbers, and then the first in this list.
//! - **Header**: a first row in which no cell is a number.
//! - **Kind**: a column holds numbers if at least half of its cells in the first 1000 rows, missing
//!   ones aside, are numbers. Text in a column of numbers is then an error that names its line, not a
//!   silent change of the column into categories. So is a column of text that would hold numbers by the
//!   same rule if the decimal mark were the other one, unless it is declared to hold categories.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use crate::csv_options::{BadRows, CsvOptions, Header};
use crate::delimited::{Found, Row, RowReader};
use crate::delimiter::delimiter_of;
use crate::error::{DataError, Place, shown};
use crate::growing::Growing;
use crate::source::{self, Plain};
use crate::table::{ColumnKind, Origin, Table, listed};

/// Rows from which the kinds of the columns are found.
const SAMPLE_ROWS: usize = 1000;
/// Bytes from which the delimiter is found.
const SAMPLE_BYTES: u64 = 1 << 16;

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
    keeps_text: bool,
    /// The line and the text of the first cell that has the other decimal mark, if the column holds
    /// categories for that alone.
    other_mark: Option<(u64, String)>,
}

impl Field {
    /// Its cells, none yet.
    fn growing(&self) -> Growing {
        Growing::new(self.is_kept.then_some(self.kind), self.keeps_text)
    }
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
        let mut records = Records::new(reader, name, &options)?;
        let first = records.next()?.ok_or_else(|| DataError::no_rows(name))?;
        let first_cells = records.cells(&first)?;
        let has_header = match options.header {
            Header::Present => true,
            Header::Absent => false,
            Header::Detect => !first_cells.iter().any(|cell| options.reads_as_number(cell)),
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
        let columns = names.into_iter().enumerate().map(|(index, name)| {
            let (kind, other_mark) = match options.kinds.get(&name) {
                Some(&kind) => (kind, None),
                None => kind_of(&sample, index, &options),
            };
            Field {
                kind,
                is_kept: options
                    .only
                    .as_ref()
                    .is_none_or(|only| only.contains(&name)),
                keeps_text: options.keep.contains(&name),
                other_mark,
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
        let field = self.field("kind", column)?;
        (field.kind, field.other_mark) = (kind, None);
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
    /// column of numbers is not a finite number, unless such rows [are marked](BadRows::Mark); if a
    /// column would hold numbers with the other decimal mark.
    pub fn next_table(&mut self, most: usize) -> Result<Option<Table>, DataError> {
        self.check_marks()?;
        let mut cells: Vec<Growing> = self.columns.iter().map(Field::growing).collect();
        let (mut lines, mut faults) = (Vec::new(), BTreeMap::new());
        let mut row = Row::default();
        while lines.len() < most.max(1) {
            match self.sample.next() {
                Some(sampled) => row = sampled,
                None if self.records.read(&mut row)? => {}
                None => break,
            }
            match (self.push(&row, &mut cells), self.options.bad_rows) {
                (Ok(()), _) => {}
                (Err(fault), BadRows::Mark) => {
                    faults.insert(lines.len(), fault);
                }
                (Err(error), BadRows::Refuse) => return Err(error),
            }
            lines.push(row.line());
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let (mut columns, mut passed_over, mut texts) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (field, Growing { values, written }) in self.columns.iter().zip(cells) {
            match values {
                Some(values) => columns.push(values.into_column(&field.name)),
                None => passed_over.push(field.name.clone()),
            }
            texts.extend(written.map(|written| (field.name.clone(), written)));
        }
        let origin = Origin {
            source: self.records.name.clone(),
            lines,
            passed_over,
            texts,
            faults,
        };
        Ok(Some(Table::of_lines(columns, origin)))
    }

    /// Adds the cells of a row to their columns. What cannot be read is missing there, and the first of
    /// it is the error.
    fn push(&self, row: &Row, cells: &mut [Growing]) -> Result<(), DataError> {
        if let Err(error) = self.records.check_width(row) {
            cells.iter_mut().for_each(Growing::push_missing);
            return Err(error);
        }
        let mut outcome = Ok(());
        for ((field, cells), bytes) in self.columns.iter().zip(cells).zip(row.cells()) {
            let place = || self.records.place(row.line()).column(&field.name);
            if let Err(error) = cells.push(bytes, &self.options, place) {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    /// Refuses a column that holds categories for its decimal mark alone.
    fn check_marks(&self) -> Result<(), DataError> {
        let mut kept = self.columns.iter().filter(|field| field.is_kept);
        let found = kept.find_map(|field| Some((field, field.other_mark.as_ref()?)));
        let Some((field, (line, cell))) = found else {
            return Ok(());
        };
        let mark = self.options.decimal;
        let (place, name) = (self.records.place(*line), &field.name);
        Err(DataError::data(
            place.column(name),
            shown(cell),
            format_args!(
                "{}, without which the column would hold categories",
                mark.expected()
            ),
            &format!(
                "{}; if the column holds categories, declare it so (`--categories {name}`)",
                mark.cure()
            ),
        ))
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

/// Rows of equal width.
struct Records<'a> {
    rows: RowReader<Box<dyn BufRead + 'a>>,
    name: String,
    delimiter: u8,
    longest_row: usize,
    /// The cells of the first row.
    width: Option<usize>,
    bad_rows: BadRows,
}

impl<'a> Records<'a> {
    fn new(plain: Plain<'a>, name: &str, options: &CsvOptions) -> Result<Self, DataError> {
        let Plain { mut bytes, packing } = plain;
        let mut start = Vec::new();
        bytes
            .by_ref()
            .take(SAMPLE_BYTES)
            .read_to_end(&mut start)
            .map_err(|error| DataError::io(name, &error))?;
        let delimiter = options.delimiter;
        let delimiter = delimiter.unwrap_or_else(|| delimiter_of(&start, SAMPLE_ROWS));
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
            bad_rows: options.bad_rows,
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
        self.width.get_or_insert(row.width());
        match self.bad_rows {
            BadRows::Refuse => self.check_width(row)?,
            BadRows::Mark => {}
        }
        Ok(true)
    }

    /// Refuses a row of another width than the first.
    fn check_width(&self, row: &Row) -> Result<(), DataError> {
        let width = self.width.unwrap_or(row.width());
        if row.width() == width {
            return Ok(());
        }
        Err(DataError::data(
            self.place(row.line()),
            format_args!("{} cells", row.width()),
            format_args!(
                "{width}, as in the first row, between delimiters {:?}",
                char::from(self.delimiter)
            ),
            "look for a missing or additional delimiter or quote, or give the `delimiter`",
        ))
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
pub(crate) fn no_column(setting: &str, name: &str, source: &str, names: &[String]) -> DataError {
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

/// Numbers if at least half of the cells that are not missing are; else categories, and the first cell
/// with the other decimal mark if at least half are numbers with one of the marks.
fn kind_of(
    sample: &[Row],
    index: usize,
    options: &CsvOptions,
) -> (ColumnKind, Option<(u64, String)>) {
    let (mut numbers, mut with_other_mark, mut others) = (0, 0, 0);
    let mut first = None;
    for row in sample {
        let Some(bytes) = row.cell(index) else {
            continue;
        };
        match text_of(bytes) {
            Some(cell) if options.is_missing(cell) => {}
            Some(cell) if options.decimal.number(cell).is_some() => numbers += 1,
            Some(cell) if options.decimal.is_number_with_other(cell) => {
                with_other_mark += 1;
                first.get_or_insert_with(|| (row.line(), cell.to_string()));
            }
            _ => others += 1,
        }
    }
    let all = numbers + with_other_mark + others;
    if 2 * numbers >= all {
        (ColumnKind::Number, None)
    } else {
        (ColumnKind::Category, first.filter(|_| 2 * others <= all))
    }
}
