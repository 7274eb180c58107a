//! The rows of delimited text, with their numbers of cells checked.

use std::io::{BufRead, Cursor, Read};

use crate::csv_options::{BadRows, CsvOptions};
use crate::delimited::{Found, Row, RowReader};
use crate::delimiter::delimiter_of;
use crate::error::{DataError, Place, shown};
use crate::source::{self, Plain};

/// Number of rows from which column types and the delimiter are detected.
pub(crate) const SAMPLE_ROWS: usize = 1000;
/// Number of bytes from which the delimiter is detected.
const SAMPLE_BYTES: u64 = 1 << 16;

/// Reads rows, and checks that their numbers of cells are equal.
pub(crate) struct Records<'a> {
    rows: RowReader<Box<dyn BufRead + 'a>>,
    pub(crate) name: String,
    delimiter: u8,
    longest_row: usize,
    /// The number of cells of the first row.
    width: Option<usize>,
    bad_rows: BadRows,
}

impl<'a> Records<'a> {
    pub(crate) fn new(
        plain: Plain<'a>,
        name: &str,
        options: &CsvOptions,
    ) -> Result<Self, DataError> {
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
                "a byte other than a quote or a line break",
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

    /// The delimiter.
    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Reads the next row into `row`; false at the end.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        let found = self.rows.read(row);
        match found.map_err(|error| DataError::io(&self.name, &error))? {
            Found::Row => {}
            Found::End => return Ok(false),
            Found::OpenQuote(line) => {
                return Err(DataError::data(
                    self.place(line),
                    "an opening quote without a closing one",
                    "a closing quote before the end of the file",
                    "close the quote; inside quotes, write a quote character twice",
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

    /// Refuses a row with a different number of cells than the first one.
    pub(crate) fn check_width(&self, row: &Row) -> Result<(), DataError> {
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
            "check for a missing or additional delimiter or quote, or set the `delimiter`",
        ))
    }

    pub(crate) fn next(&mut self) -> Result<Option<Row>, DataError> {
        let mut row = Row::default();
        Ok(self.read(&mut row)?.then_some(row))
    }

    pub(crate) fn cells<'r>(&self, row: &'r Row) -> Result<Vec<&'r str>, DataError> {
        let cells: Option<_> = row.cells().map(text_of).collect();
        cells.ok_or_else(|| DataError::not_text(self.place(row.line())))
    }

    pub(crate) fn place(&self, line: u64) -> Place {
        Place::of(&self.name).line(line)
    }
}

/// A cell without surrounding spaces; `None` if it is not UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().map(str::trim)
}
