//! Reads rows of delimited bytes with their line numbers.
//!
//! `csv_core` parses quotes, delimiters and ends of rows. It skips blank lines before a row only when it
//! reads that row, so the line on which the row begins would be unknown. So they are skipped here.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr2_iter;

use crate::content::BYTE_ORDER_MARK;
use crate::row::Row;

/// The result of reading a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Row,
    End,
    /// The text ends inside a quote that opens on this line.
    OpenQuote(u64),
    /// The row that begins on this line is too long.
    LongRow(u64),
}

/// Reads rows one by one.
pub(crate) struct RowReader<R> {
    input: R,
    cells: Box<Reader>,
    lines: LineCounter,
    longest: usize,
    /// Whether consecutive delimiters count as one, as for spaces that align columns.
    joins_delimiters: bool,
}

impl<R: BufRead> RowReader<R> {
    /// A reader of rows with at most `longest` bytes. A byte order mark must be in the first buffer of the
    /// input.
    pub(crate) fn new(mut input: R, delimiter: u8, longest: usize) -> io::Result<Self> {
        if input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        Ok(Self {
            input,
            cells: Box::new(ReaderBuilder::new().delimiter(delimiter).build()),
            lines: LineCounter::at(1),
            longest,
            joins_delimiters: delimiter == b' ',
        })
    }

    /// Reads the next row into `row`.
    pub(crate) fn read(&mut self, row: &mut Row) -> io::Result<Found> {
        loop {
            let found = self.read_one(row)?;
            if found != Found::Row || !self.joins_delimiters {
                return Ok(found);
            }
            row.drop_empty_cells();
            if row.width > 0 {
                return Ok(found);
            }
        }
    }

    fn read_one(&mut self, row: &mut Row) -> io::Result<Found> {
        if !self.pass_line_ends()? {
            return Ok(Found::End);
        }
        row.restart(self.lines.line);
        let (mut length, mut filled) = (0, 0);
        loop {
            let input = self.input.fill_buf()?;
            let is_end = input.is_empty();
            // At the end of the input, a line break ends the last row, except inside a quote.
            let input = if is_end { b"\n" } else { input };
            let (result, taken, written, ended) =
                self.cells
                    .read_record(input, &mut row.bytes[filled..], &mut row.ends[row.width..]);
            filled += written;
            row.width += ended;
            if !is_end {
                self.lines.pass(&input[..taken]);
                self.input.consume(taken);
                length += taken;
            }
            match result {
                ReadRecordResult::Record => return Ok(Found::Row),
                _ if length > self.longest => return Ok(Found::LongRow(row.number())),
                ReadRecordResult::OutputFull => row.bytes.resize((2 * filled).max(64), 0),
                ReadRecordResult::OutputEndsFull => row.ends.resize((2 * row.width).max(8), 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {
                    if is_end {
                        return Ok(Found::OpenQuote(line_after(row)));
                    }
                }
            }
        }
    }

    /// Skips line breaks; returns whether anything follows.
    fn pass_line_ends(&mut self) -> io::Result<bool> {
        loop {
            let input = self.input.fill_buf()?;
            let is_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
            let ends = input.iter().take_while(is_end).count();
            if ends == 0 {
                return Ok(!input.is_empty());
            }
            self.lines.pass(&input[..ends]);
            self.input.consume(ends);
        }
    }
}

/// The line on which the cell after the last one begins.
fn line_after(row: &Row) -> u64 {
    let mut lines = LineCounter::at(row.number());
    row.cells().for_each(|cell| lines.pass(cell));
    lines.line
}

/// Counts lines, which end with `\n`, `\r\n` or `\r`.
struct LineCounter {
    line: u64,
    /// Whether the last byte was `\r`, so that a following `\n` belongs to the same line break.
    is_after_return: bool,
}

impl LineCounter {
    fn at(line: u64) -> Self {
        Self {
            line,
            is_after_return: false,
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        for place in memchr2_iter(b'\r', b'\n', bytes) {
            let is_after_return = match place.checked_sub(1) {
                Some(before) => bytes[before] == b'\r',
                None => self.is_after_return,
            };
            self.line += u64::from(bytes[place] == b'\r' || !is_after_return);
        }
        if let Some(&last) = bytes.last() {
            self.is_after_return = last == b'\r';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows with their line numbers, and the final result.
    fn read(mut input: impl BufRead, longest: usize) -> (Vec<(u64, Vec<String>)>, Found) {
        let mut reader = RowReader::new(&mut input, b',', longest).unwrap();
        let (mut row, mut rows) = (Row::default(), Vec::new());
        loop {
            match reader.read(&mut row).unwrap() {
                Found::Row => {
                    let cells = row.cells();
                    let cells = cells.map(|cell| String::from_utf8(cell.to_vec()).unwrap());
                    rows.push((row.number(), cells.collect()));
                }
                other => return (rows, other),
            }
        }
    }

    #[test]
    fn a_row_begins_where_an_editor_shows_it() {
        for (text, expected) in [
            ("a\nb\nc", &[1, 2, 3][..]),
            ("a\r\nb\r\nc\r\n", &[1, 2, 3]),
            ("a\rb\rc\r", &[1, 2, 3]),
            ("\n\r\n\r\r\na\n\n\nb\r\n\r\nc", &[5, 8, 10]),
            ("\"1\n2\"\na\n\"1\r\n2\r3\"\r\nb", &[1, 3, 4, 7]),
            ("\u{feff}a\nb", &[1, 2]),
            ("\u{feff}\r\n\r\na", &[3]),
            ("\n\r\n", &[]),
        ] {
            // For any chunk size, as long as the first chunk contains a byte order mark.
            for size in [3, 5, 1000] {
                let input = io::BufReader::with_capacity(size, text.as_bytes());
                let (rows, end) = read(input, usize::MAX);
                let lines: Vec<u64> = rows.iter().map(|(line, _)| *line).collect();
                assert_eq!(
                    (&lines[..], end),
                    (expected, Found::End),
                    "{text:?}, {size}"
                );
            }
        }
    }

    #[test]
    fn spaces_that_align_columns_are_one_delimiter() {
        let text = " a   b c\n1 22  3 \n   \n\n  4 5     6";
        let mut reader = RowReader::new(text.as_bytes(), b' ', usize::MAX).unwrap();
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while reader.read(&mut row).unwrap() == Found::Row {
            let cells = row
                .cells()
                .map(|cell| String::from_utf8_lossy(cell).into_owned());
            rows.push((row.number(), cells.collect::<Vec<_>>().join("|")));
        }
        let expected = [(1, "a|b|c"), (2, "1|22|3"), (5, "4|5|6")];
        assert_eq!(
            rows,
            expected.map(|(line, cells)| (line, cells.to_string()))
        );
    }

    #[test]
    fn the_end_inside_a_quote_is_found_with_the_line_of_the_quote() {
        for (text, line) in [
            ("a,b\n1,\"x", 2),
            ("a,b\r\n1,\"x\r\n2,y\r\n3,z\r\n", 2),
            ("a,b\n1,\"", 2),
            ("\"", 1),
            ("a,b\n\"1\n\n2\",\"x\n3,y\n", 4),
            ("a,b\n1,\"say \"\"x\n", 2),
            ("a,b\n1,\"x\"\"\n", 2),
        ] {
            let (_, end) = read(text.as_bytes(), usize::MAX);
            assert_eq!(end, Found::OpenQuote(line), "{text:?}");
        }
        for text in [
            "1,5\"",
            "5\" pipe,1",
            "1, \"x",
            "1,\"x\"",
            "1,\"\"",
            "1,\"\"\"\"",
            "1,\"x\n\"",
        ] {
            let (rows, end) = read(text.as_bytes(), usize::MAX);
            assert_eq!((rows.len(), end), (1, Found::End), "{text:?}");
        }
    }

    #[test]
    fn a_long_row_is_found_with_its_line() {
        let row = ["x".repeat(999), "y".repeat(1000)].join(",");
        let long = format!("a,b\n{row}\n");
        assert_eq!(read(long.as_bytes(), 2001).1, Found::End);
        for text in [
            &long,
            &format!("a\n{}", ",".repeat(1001)),
            &format!("a\n\"{row}"),
        ] {
            let (rows, end) = read(text.as_bytes(), 1000);
            assert_eq!((rows.len(), end), (1, Found::LongRow(2)));
        }
    }
}
