//! The rows of a file of any format, with their numbers of cells checked.

use std::io::{BufRead, Cursor, Read};

use crate::columns_file::{self, ColumnsFile};
use crate::content::Content;
use crate::csv_options::{BadRows, CsvOptions};
use crate::delimited::{Found, RowReader};
use crate::delimiter::delimiter_of;
use crate::error::{Counted, DataError, Place, shown};
use crate::json_lines::JsonLines;
use crate::row::Row;
use crate::source::{self, Plain};

/// Number of rows from which column types and the delimiter are detected.
pub(crate) const SAMPLE_ROWS: usize = 1000;
/// Number of bytes from which the delimiter is detected.
const SAMPLE_BYTES: u64 = 1 << 16;

/// Reads rows, and checks that their numbers of cells are equal.
pub(crate) struct Records<'a> {
    rows: Rows<'a>,
    pub(crate) name: String,
    delimiter: u8,
    longest_row: usize,
    /// The number of cells of the first row.
    width: Option<usize>,
    bad_rows: BadRows,
}

/// The rows by the format of the file.
enum Rows<'a> {
    Delimited(RowReader<Box<dyn BufRead + 'a>>),
    JsonLines(Box<JsonLines<'a>>),
    Columns(Box<ColumnsFile>),
}

/// The delimiter of cells that were not delimited: in a text, a comma separates thousands.
const NO_DELIMITER: u8 = b',';

impl<'a> Records<'a> {
    pub(crate) fn new(
        plain: Plain<'a>,
        name: &str,
        options: &CsvOptions,
    ) -> Result<Self, DataError> {
        let longest_row = plain.packing.longest_line();
        let (rows, delimiter) = match plain.content {
            Content::Text => {
                let (rows, delimiter) = delimited(plain.bytes, name, options, longest_row)?;
                (Rows::Delimited(rows), delimiter)
            }
            Content::JsonLines => {
                let lines = JsonLines::new(plain, name, options, SAMPLE_ROWS)?;
                (Rows::JsonLines(Box::new(lines)), NO_DELIMITER)
            }
            Content::Columns(format) => {
                let file = columns_file::open(plain, format, name, options)?;
                (Rows::Columns(Box::new(file)), NO_DELIMITER)
            }
        };
        Ok(Self {
            rows,
            name: name.into(),
            delimiter,
            longest_row,
            width: None,
            bad_rows: options.bad_rows,
        })
    }

    /// The names of the columns, if the format has them apart from the rows.
    pub(crate) fn names(&self) -> Option<&[String]> {
        match &self.rows {
            Rows::Delimited(_) => None,
            Rows::JsonLines(lines) => Some(lines.names()),
            Rows::Columns(file) => Some(file.names()),
        }
    }

    /// What the number of a row counts.
    pub(crate) fn counted(&self) -> Counted {
        match &self.rows {
            Rows::Delimited(_) | Rows::JsonLines(_) => Counted::Lines,
            Rows::Columns(_) => Counted::Rows,
        }
    }

    /// The delimiter.
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Reads the next row into `row`; false at the end.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        let is_row = match &mut self.rows {
            Rows::Delimited(rows) => {
                let found = rows.read(row);
                self.checked(found.map_err(|error| DataError::io(&self.name, &error))?)?
            }
            Rows::JsonLines(lines) => lines.read(row)?,
            Rows::Columns(file) => file.read(row)?,
        };
        if !is_row {
            return Ok(false);
        }
        if self.width.is_none() {
            self.width = self.names().map(<[String]>::len).or(Some(row.width()));
        }
        match self.bad_rows {
            BadRows::Refuse => self.check(row)?,
            BadRows::Mark => {}
        }
        Ok(true)
    }

    /// Whether a row of delimited text was found.
    fn checked(&self, found: Found) -> Result<bool, DataError> {
        match found {
            Found::Row => Ok(true),
            Found::End => Ok(false),
            Found::OpenQuote(line) => Err(DataError::data(
                self.place(line),
                "an opening quote without a closing one",
                "a closing quote before the end of the file",
                "close the quote; inside quotes, write a quote character twice",
            )),
            Found::LongRow(line) => {
                let most = self.longest_row;
                Err(source::too_large(self.place(line), "a row", most))
            }
        }
    }

    /// Refuses a row that cannot be read, or has a different number of cells than the first one.
    pub(crate) fn check(&self, row: &Row) -> Result<(), DataError> {
        if let Some(fault) = row.fault() {
            return Err(fault.clone());
        }
        let width = self.width.unwrap_or(row.width());
        if row.width() == width {
            return Ok(());
        }
        Err(DataError::data(
            self.place(row.number()),
            format_args!("{} cells", row.width()),
            format_args!(
                "{width}, as in the first row, between delimiters {:?}",
                char::from(self.delimiter)
            ),
            "check for a missing or additional delimiter or quote, or set the `delimiter`",
        ))
    }

    pub(crate) fn next(&mut self) -> Result<Option<Row>, DataError> {
        let mut row = Row::default();
        Ok(self.read(&mut row)?.then_some(row))
    }

    pub(crate) fn cells<'r>(&self, row: &'r Row) -> Result<Vec<&'r str>, DataError> {
        let cells: Option<_> = row.cells().map(text_of).collect();
        cells.ok_or_else(|| DataError::not_text(self.place(row.number())))
    }

    /// The place of the row with this number.
    pub(crate) fn place(&self, number: u64) -> Place {
        Place::of(&self.name).at(self.counted(), number)
    }
}

/// A reader of delimited text, and its delimiter.
fn delimited<'a>(
    mut bytes: Box<dyn BufRead + 'a>,
    name: &str,
    options: &CsvOptions,
    longest_row: usize,
) -> Result<(RowReader<Box<dyn BufRead + 'a>>, u8), DataError> {
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
            "a byte other than a quote or a line break",
        ));
    }
    let whole: Box<dyn BufRead + 'a> = Box::new(Cursor::new(start).chain(bytes));
    let rows = RowReader::new(whole, delimiter, longest_row)
        .map_err(|error| DataError::io(name, &error))?;
    Ok((rows, delimiter))
}

/// A cell without surrounding spaces; `None` if it is not UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(str::trim)
}
