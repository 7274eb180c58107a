//! A row of cells, as texts, with its place in the file.

use crate::error::DataError;

/// The cells of a row.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The concatenated cells, followed by spare capacity.
    pub(crate) bytes: Vec<u8>,
    /// The end of each cell, followed by spare capacity.
    pub(crate) ends: Vec<usize>,
    pub(crate) width: usize,
    number: u64,
    /// The cells that are neither a number nor a text, and what they are.
    unreadable: Vec<(usize, String)>,
    /// Why the whole row cannot be read.
    fault: Option<DataError>,
}

impl Row {
    /// Removes all cells, for the row with this number.
    pub(crate) fn restart(&mut self, number: u64) {
        (self.width, self.number, self.fault) = (0, number, None);
        self.unreadable.clear();
    }

    /// Adds a cell with the text that `write` appends. What it returns says that the cell is neither a number nor a text;
    /// then its text is not used.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), String>) {
        let start = self.width.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.bytes.truncate(start);
        if let Err(found) = write(&mut self.bytes) {
            self.unreadable.push((self.width, found));
            self.bytes.truncate(start);
        }
        self.ends.truncate(self.width);
        self.ends.push(self.bytes.len());
        self.width += 1;
    }

    /// Replaces all cells by an error.
    pub(crate) fn spoil(&mut self, fault: DataError) {
        self.restart(self.number);
        self.fault = Some(fault);
    }

    /// Why the whole row cannot be read.
    pub(crate) fn fault(&self) -> Option<&DataError> {
        self.fault.as_ref()
    }

    /// What a cell is, if it is neither a number nor a text.
    pub(crate) fn unreadable(&self, index: usize) -> Option<&str> {
        let mut cells = self.unreadable.iter();
        let (_, found) = cells.find(|(place, _)| *place == index)?;
        Some(found)
    }

    /// The number of cells.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The line on which the row begins, from 1, or the number of the row, from 0, in a file without lines.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The cells, in order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends[..self.width].iter().map(move |&end| {
            let cell = &self.bytes[start..end];
            start = end;
            cell
        })
    }

    /// The cell with this index.
    pub(crate) fn cell(&self, index: usize) -> Option<&[u8]> {
        let ends = &self.ends[..self.width];
        let end = *ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        Some(&self.bytes[start..end])
    }

    /// Removes empty cells.
    pub(crate) fn drop_empty_cells(&mut self) {
        let (mut kept, mut start) = (0, 0);
        for place in 0..self.width {
            let end = self.ends[place];
            if end > start {
                self.ends[kept] = end;
                kept += 1;
            }
            start = end;
        }
        self.width = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;

    #[test]
    fn a_row_is_used_again() {
        let mut row = Row::default();
        row.restart(3);
        for cell in ["long text", "", "x"] {
            row.push_with(|bytes| {
                bytes.extend(cell.bytes());
                Ok(())
            });
        }
        row.push_with(|bytes| {
            bytes.extend(b"half of a");
            Err("a list".into())
        });
        let cells: Vec<&[u8]> = row.cells().collect();
        assert_eq!(cells, [&b"long text"[..], b"", b"x", b""]);
        assert_eq!(
            (row.unreadable(3), row.unreadable(2)),
            (Some("a list"), None)
        );
        row.spoil(DataError::data(Place::default(), 1, 2, "correct it"));
        assert_eq!((row.width(), row.number()), (0, 3));
        assert!(row.fault().is_some() && row.unreadable(3).is_none());
        row.restart(4);
        row.push_with(|_| Ok(()));
        assert_eq!((row.cell(0), row.cell(1)), (Some(&b""[..]), None));
        assert!(row.fault().is_none());
    }
}
