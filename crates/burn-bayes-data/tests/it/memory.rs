//! What reading takes of memory.

use std::io::{self, BufReader, Read};

use burn_bayes_data::{CsvOptions, CsvReader, PreprocessorConfig, PreprocessorFit, Task};

use crate::damage::most_held;

/// Rows of numbers with many digits, made as they are read.
struct Rows {
    row: u64,
    rows: u64,
    line: io::Cursor<Vec<u8>>,
}

impl Rows {
    const COLUMNS: u64 = 10;

    fn new(rows: u64) -> Self {
        let names: Vec<String> = (0..Self::COLUMNS)
            .map(|column| format!("x{column}"))
            .collect();
        let line = io::Cursor::new(format!("{}\n", names.join(",")).into_bytes());
        Self { row: 0, rows, line }
    }
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.position() == self.line.get_ref().len() as u64 && self.row < self.rows {
            let cells: Vec<String> = (1..=Self::COLUMNS)
                .map(|column| {
                    format!(
                        "{:.17}",
                        (self.row as f64 * 0.618_034 * column as f64).fract()
                    )
                })
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
        let rows = BufReader::new(Rows::new(ROWS));
        CsvReader::new(rows, "rows.csv", CsvOptions::default())
            .unwrap()
            .read_all()
            .unwrap()
    };
    let (table, most) = most_held(read);
    assert_eq!(table.rows() as u64, ROWS);
    // Twenty bytes of text for each cell; numbers take eight, and twice that while they grow.
    assert!(most < (20 * ROWS * Rows::COLUMNS) as usize, "{most}");
}

#[test]
fn a_file_in_pieces_takes_the_memory_of_a_piece() {
    let most = |rows| {
        let fit = || {
            let rows = BufReader::new(Rows::new(rows));
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
