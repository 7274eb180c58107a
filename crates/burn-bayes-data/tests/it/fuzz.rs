//! Readers on files with random damage: no panic, no excessive use of memory, and errors that name the file.

use std::sync::LazyLock;

use burn_bayes_data::{
    CsvOptions, CsvReader, DataError, Preprocessor, PreprocessorConfig, Table, Task,
};
use burn_bayes_testing::{bounded, config, damaged, edits, most_held};
use proptest::prelude::*;

use crate::formats::{gzip, zstd};

/// Compresses some of the files, chosen at random.
fn maybe_packed(bytes: Vec<u8>, is_packed: bool) -> Vec<u8> {
    if is_packed { gzip(&bytes) } else { bytes }
}

const TABLES: [&str; 5] = [
    "a,b,y\n1,x,0\n2,\"y, z\",1\n3,x,0\n,x,1\n",
    "1;2;3\n4;5;6\n7;8;9\n",
    "name\tvalue\ty\n\"say \"\"hi\"\"\"\t1e5\t-1\n\"two\nlines\"\tNA\t1\n",
    "\u{feff}x y\r\n1 2\r\n\r\n3 4",
    "x|y\n?|0.5\n-1|nan\n",
];

const OBJECTS: &str = concat!(
    "{\"a\": 1, \"b\": \"x, \\\"y\\\"\", \"y\": false}\n",
    "{\"b\":null,\"a\":-2.5e3,\"c\":\"\\u00e9\"}\n\n",
    "{\"a\": 3, \"y\": true, \"c\": [{}, [1]]}\n",
);

#[test]
fn undamaged_files_are_read() {
    for text in TABLES {
        CsvReader::new(text.as_bytes(), "fuzz", CsvOptions::default())
            .unwrap()
            .read_all()
            .unwrap();
    }
}

/// Saved preprocessors with all kinds of columns, one per task.
static PREPARATIONS: LazyLock<[String; 4]> = LazyLock::new(|| {
    let tasks = [
        Task::Regression,
        Task::Counts,
        Task::Classification,
        Task::Multilabel,
    ];
    tasks.map(preparation)
});

fn preparation(task: Task) -> String {
    let text = "size,town,price,kind\n50,Oslo,10,a\n70,\"Rome, old\",12,b\n90,Oslo,20,a\n";
    let reader = CsvReader::new(text.as_bytes(), "fuzz", CsvOptions::default()).unwrap();
    let table = reader.read_all().unwrap();
    let targets = match task {
        Task::Regression | Task::Counts => vec!["price"],
        Task::Classification => vec!["kind"],
        Task::Multilabel => vec!["kind", "town"],
    };
    let targets: Vec<String> = targets.into_iter().map(String::from).collect();
    let config = PreprocessorConfig::new(targets, task);
    let preparation = Preprocessor::fit(&config, &table, 0..table.rows()).unwrap();
    toml::to_string(&preparation).unwrap()
}

/// A text that decompresses to `length` bytes after its first line.
fn bomb(first: &str, byte: u8, length: usize) -> Vec<u8> {
    gzip(&[first.as_bytes(), &vec![byte; length]].concat())
}

#[test]
fn packed_files_that_would_fill_the_memory_are_refused() {
    // Endless rows: one cell, empty cells, an open quote.
    const ROW: usize = (1 << 24) + (1 << 20);
    for (first, byte) in [
        ("x,y\n1,2\n", b'3'),
        ("x,y\n1,2\n", b','),
        ("x,y\n1,2\n\"", b'\n'),
    ] {
        let file = bomb(first, byte, ROW);
        let read = || {
            let reader = CsvReader::new(&file[..], "bomb", CsvOptions::default());
            reader.and_then(CsvReader::read_all)
        };
        is_refused(read, Some(3), 32 * ROW);
    }
}

/// Reading fails because a compressed part is too large, and holds at most `most` bytes.
fn is_refused<T>(read: impl FnOnce() -> Result<T, DataError>, line: Option<u64>, most: usize) {
    let (result, held) = most_held(read);
    let Err(error) = result else {
        panic!("read in spite of its size");
    };
    assert!(error.is_data() && held <= most, "{held}: {error}");
    assert!(
        error.to_string().contains("in a compressed file"),
        "{error}"
    );
    assert_eq!(error.line(), line, "{error}");
}

#[test]
fn files_that_are_not_packed_are_as_large_as_they_are() {
    let text = format!("x,y\n1,{}\n", "0".repeat((1 << 24) + 1));
    let reader = CsvReader::new(text.as_bytes(), "long", CsvOptions::default()).unwrap();
    assert_eq!(reader.read_all().unwrap().rows(), 1);
}

/// The whole file is read, or an error names it.
fn read_or_named(bytes: &[u8]) -> Result<(), TestCaseError> {
    named(bounded(bytes, read_all)?, "fuzz")?;
    Ok(())
}

fn read_all(bytes: &[u8]) -> Result<Table, DataError> {
    CsvReader::new(bytes, "fuzz", CsvOptions::default()).and_then(CsvReader::read_all)
}

/// Uses what was read; an error is a data error and names the file.
fn named<T>(read: Result<T, DataError>, file: &str) -> Result<Option<T>, TestCaseError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            prop_assert!(error.is_data(), "{error}");
            prop_assert!(error.to_string().contains(file), "no {file} in: {error}");
            Ok(None)
        }
    }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn delimited_text(file in 0..TABLES.len(), edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(TABLES[file].as_bytes(), &edits), is_packed);
        let read = bounded(&bytes, |bytes| {
            let read = CsvReader::new(bytes, "fuzz", CsvOptions::default());
            let table = read.and_then(CsvReader::read_all)?;
            let target = table.columns().last().unwrap().name();
            for task in [Task::Regression, Task::Classification] {
                let config = PreprocessorConfig::new(target, task);
                if let Ok(fit) = Preprocessor::fit(&config, &table, 0..table.rows()) {
                    fit.dataset(&table, 0..table.rows()).unwrap();
                }
            }
            Ok(())
        })?;
        named(read, "fuzz")?;
    }

    #[test]
    fn damaged_gzip(edits in edits()) {
        let bytes = damaged(&gzip(TABLES[0].as_bytes()), &edits);
        read_or_named(&bytes)?;
    }

    #[test]
    fn damaged_zstd(edits in edits()) {
        /// A block of four bytes may stand for 128 KiB of one byte, of which buffers and cells hold some copies.
        const FOR_A_BYTE: usize = 8 << 15;
        let bytes = damaged(&zstd(TABLES[0].as_bytes()), &edits);
        let (read, held) = most_held(|| read_all(&bytes));
        let allowed = (1 << 20) + FOR_A_BYTE * bytes.len();
        prop_assert!(held <= allowed, "{held} bytes for {}", bytes.len());
        named(read, "fuzz")?;
    }

    #[test]
    fn json_lines(edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(OBJECTS.as_bytes(), &edits), is_packed);
        read_or_named(&bytes)?;
    }

    #[test]
    fn preparations(task in 0..PREPARATIONS.len(), edits in edits()) {
        let bytes = damaged(PREPARATIONS[task].as_bytes(), &edits);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let read = bounded(&bytes, |_| {
            let preparation = Preprocessor::load(file.path())?;
            // Whatever the file says, rows are prepared or refused.
            let options = preparation.csv_options(CsvOptions::default());
            let rows = "size,town,price,kind\n60,Oslo,11,b\n".as_bytes();
            let table = CsvReader::new(rows, "rows", options).and_then(CsvReader::read_all);
            if let Ok(table) = table {
                drop(preparation.dataset(&table, 0..table.rows()));
            }
            Ok(())
        })?;
        named(read, &file.path().display().to_string())?;
    }
}
