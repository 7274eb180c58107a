//! The memory of reading.

use std::io::{self, BufReader, Read};

use burn_bayes_data::{CsvOptions, CsvReader, PreprocessorConfig, PreprocessorFit, Task};
use burn_bayes_testing::most_held;

/// Rows of text, generated while they are read.
struct Rows<F> {
    row: u64,
    rows: u64,
    line: io::Cursor<Vec<u8>>,
    /// The cell in a row and a column, counted from 1.
    cell: F,
}

const COLUMNS: u64 = 10;

impl<F: Fn(u64, u64) -> String> Rows<F> {
    fn new(rows: u64, cell: F) -> Self {
        let names: Vec<String> = (0..COLUMNS).map(|column| format!("x{column}")).collect();
        let line = io::Cursor::new(format!("{}\n", names.join(",")).into_bytes());
        Self {
            row: 0,
            rows,
            line,
            cell,
        }
    }
}

/// Numbers with many digits.
fn number(row: u64, column: u64) -> String {
    format!("{:.17}", (row as f64 * 0.618_034 * column as f64).fract())
}

impl<F: Fn(u64, u64) -> String> Read for Rows<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.position() == self.line.get_ref().len() as u64 && self.row < self.rows {
            let cells: Vec<String> = (1..=COLUMNS)
                .map(|column| (self.cell)(self.row, column))
                .collect();
            self.line = io::Cursor::new(format!("{}\n", cells.join(",")).into_bytes());
            self.row += 1;
        }
        self.line.read(buffer)
    }
}

#[test]
fn the_counter_counts() {
    let (kept, most) = most_held(|| {
        drop(vec![0_u8; 1 << 20]);
        vec![0_u8; 1 << 10]
    });
    assert!((1 << 20..1 << 21).contains(&most), "{most}");
    drop(kept);
}

#[test]
fn a_whole_file_is_held_as_numbers_and_not_as_text() {
    const ROWS: u64 = 50_000;
    let read = || {
        let rows = BufReader::new(Rows::new(ROWS, number));
        CsvReader::new(rows, "rows.csv", CsvOptions::default())
            .unwrap()
            .read_all()
            .unwrap()
    };
    let (table, most) = most_held(read);
    assert_eq!(table.rows() as u64, ROWS);
    // Twenty bytes of text per cell; numbers take eight, and twice that while they grow.
    assert!(most < (20 * ROWS * COLUMNS) as usize, "{most}");
}

#[test]
fn each_different_text_is_held_once() {
    const ROWS: u64 = 50_000;
    /// Bytes per cell.
    const LENGTH: usize = 40;
    let most = |levels| {
        let cell = |row, column| format!("{:x>LENGTH$}", row % levels * COLUMNS + column);
        let read = || {
            let rows = BufReader::new(Rows::new(ROWS, cell));
            let reader = CsvReader::new(rows, "rows.csv", CsvOptions::default());
            reader.unwrap().read_all().unwrap()
        };
        let (table, most) = most_held(read);
        assert_eq!(table.columns()[0].category(7), Some(&*cell(7, 1)));
        most / (ROWS * COLUMNS) as usize
    };
    // The text, its offset, its code, and an entry of a hash table while the file is read.
    let of_different = most(ROWS);
    assert!(
        (LENGTH..2 * LENGTH).contains(&of_different),
        "{of_different}"
    );
    // Codes of four bytes, and twice that while they grow.
    let of_few = most(5);
    assert!((4..12).contains(&of_few), "{of_few}");
}

#[test]
fn a_file_in_pieces_takes_the_memory_of_a_piece() {
    let most = |rows| {
        let fit = || {
            let rows = BufReader::new(Rows::new(rows, number));
            let mut reader = CsvReader::new(rows, "rows.csv", CsvOptions::default()).unwrap();
            let mut fit = PreprocessorFit::new(PreprocessorConfig::new("x0", Task::Regression));
            while let Some(piece) = reader.next_table(1000).unwrap() {
                fit.observe(&piece, 0..piece.rows()).unwrap();
            }
            fit.finish().unwrap()
        };
        most_held(fit).1
    };
    assert_eq!(most(5_000), most(20_000));
}
