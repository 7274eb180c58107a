//! Detection of the delimiter.

use std::collections::BTreeMap;

use crate::decimal::DecimalMark;
use crate::delimited::{Found, RowReader};
use crate::row::Row;

/// The candidates.
const DELIMITERS: [u8; 5] = [b',', b'\t', b';', b'|', b' '];

/// The delimiter with which the most of the first `rows` rows have the same number of cells; in case of
/// ties, the one with the most numeric cells, then the first one.
pub(crate) fn delimiter_of(start: &[u8], rows: usize) -> u8 {
    let mut best = (DELIMITERS[0], (0.0, 0.0));
    for delimiter in DELIMITERS {
        let shares = shares(start, delimiter, rows);
        if shares.0 > 0.0 && shares > best.1 {
            best = (delimiter, shares);
        }
    }
    best.0
}

/// The fraction of rows with the most frequent number of cells, if that is at least two, and the fraction
/// of cells that are numbers with either decimal separator.
fn shares(start: &[u8], delimiter: u8, most: usize) -> (f64, f64) {
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    let Ok(mut reader) = RowReader::new(start, delimiter, usize::MAX) else {
        return (0.0, 0.0);
    };
    let mut row = Row::default();
    let (mut rows, mut cells, mut numbers) = (0, 0, 0);
    while rows < most && reader.read(&mut row).is_ok_and(|found| found != Found::End) {
        // The last row of the sample may be incomplete, which hardly changes the fractions.
        *widths.entry(row.width()).or_default() += 1;
        rows += 1;
        cells += row.width();
        numbers += row.cells().filter(|cell| is_number(cell)).count();
    }
    let most = widths.into_iter().max_by_key(|&(_, rows)| rows);
    match most {
        Some((width, count)) if width >= 2 => (
            count as f64 / rows as f64,
            numbers as f64 / cells.max(1) as f64,
        ),
        _ => (0.0, 0.0),
    }
}

fn is_number(cell: &[u8]) -> bool {
    std::str::from_utf8(cell).is_ok_and(|cell| {
        let cell = cell.trim();
        let marks = [DecimalMark::Point, DecimalMark::Comma];
        marks.iter().any(|mark| mark.plain(cell).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_commas_do_not_delimit() {
        for (text, expected) in [
            ("1,5;2,3;7,1\n2,5;3,3;8,1\n", b';'),
            ("1,5\t2,3\n2,5\t3,3\n", b'\t'),
            ("1,5 2,3\n2,5 3,3\n", b' '),
            ("a;b\n1,5;2,3\n2,5;3,3\n", b';'),
            ("1,2,3\n4,5,6\n", b','),
            ("1, 2, 3\n4, 5, 6\n", b','),
            ("2024-01-01 10:00,5.0\n2024-01-02 10:00,6.0\n", b','),
            ("\"1,5\",\"2,3\"\n\"2,5\",\"3,3\"\n", b','),
            ("only\n1\n2\n", b','),
        ] {
            let found = char::from(delimiter_of(text.as_bytes(), 1000));
            assert_eq!(found, char::from(expected), "{text}");
        }
    }
}
