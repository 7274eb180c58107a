//! Readers on files with random damage: no panic, no excessive use of memory, and errors that name the file.

use std::io::{Cursor, Write};
use std::sync::LazyLock;

use burn_bayes_data::{
    CsvOptions, CsvReader, DataError, LibsvmOptions, Preprocessor, PreprocessorConfig, Task,
    read_idx_from, read_libsvm_from, read_medmnist_from, read_numbers_from,
};
use burn_bayes_testing::{bounded, config, damaged, edits, most_held};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

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

const SPARSE: [&str; 3] = [
    "+1 1:0.5 3:-2 10:1e3\n-1 2:1\n",
    "0\n2 1:1 2:2 3:3 4:4 # remark\n\n1 7:0.25\n",
    "1.5 1:1 50000:1\n",
];

const IMAGES: &[u8] = &[
    0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
];
const LABELS: &[u8] = &[0, 0, 8, 1, 0, 0, 0, 2, 0, 1];

fn npy(shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), values].concat()
}

/// An archive in the layout of MedMNIST, with arrays modified by `change`.
fn npz(method: CompressionMethod, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for part in ["train", "val", "test"] {
        let arrays = [
            ("images", npy("(2, 2, 2)", &[9; 8])),
            ("labels", npy("(2, 1)", &[0, 1])),
        ];
        for (what, bytes) in arrays {
            let array = format!("{part}_{what}");
            archive.start_file(format!("{array}.npy"), options).unwrap();
            archive.write_all(&change(&array, bytes)).unwrap();
        }
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn undamaged_files_are_read() {
    for text in TABLES {
        CsvReader::new(text.as_bytes(), "fuzz", CsvOptions::default())
            .unwrap()
            .read_all()
            .unwrap();
    }
    for text in SPARSE {
        read_libsvm_from(text.as_bytes(), "fuzz", &LibsvmOptions::default()).unwrap();
    }
    read_idx_from((IMAGES, "images"), (LABELS, "labels")).unwrap();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        read_medmnist_from(Cursor::new(npz(method, |_, bytes| bytes)), "fuzz").unwrap();
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

#[test]
fn a_picture_of_a_class_without_training_pictures_is_refused() {
    for part in ["val", "test"] {
        let archive = npz(CompressionMethod::Stored, |array, bytes| {
            if array == format!("{part}_labels") {
                npy("(2, 1)", &[1, 2])
            } else {
                bytes
            }
        });
        let error = read_medmnist_from(Cursor::new(&archive), "set.npz").unwrap_err();
        let place = format!(
            "set.npz, array {part}_labels, row 1 (counted from 0): found the label `2`, expected one of"
        );
        assert!(error.to_string().starts_with(&place), "{error}");
    }
    let unchanged = npz(CompressionMethod::Stored, |_, bytes| bytes);
    let set = read_medmnist_from(Cursor::new(&unchanged), "set.npz").unwrap();
    assert_eq!(set.train.class_count(), 2);
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
    let file = bomb("1 2\n", b'3', ROW);
    is_refused(|| read_numbers_from(&file[..], "bomb"), Some(2), 3 * ROW);
    let file = bomb("1 1:2\n1 1:", b'3', ROW);
    let options = LibsvmOptions::default();
    is_refused(
        || read_libsvm_from(&file[..], "bomb", &options),
        Some(2),
        3 * ROW,
    );
    // Arrays with headers that announce more than 2³⁰ bytes.
    let mut images = IMAGES.to_vec();
    images[4..8].copy_from_slice(&(1_u32 << 28).to_be_bytes());
    let file = gzip(&images);
    let read = || read_idx_from((&file[..], "bomb"), (LABELS, "labels"));
    is_refused(read, None, 1 << 20);
    let shape = |_: &str, _| npy("(268435456, 2, 3)", &[9; 8]);
    let file = npz(CompressionMethod::Deflated, shape);
    is_refused(
        || read_medmnist_from(Cursor::new(&file), "bomb"),
        None,
        1 << 20,
    );
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
    let mut text = "1 1:".to_string();
    text.push_str(&"0".repeat((1 << 24) + 1));
    read_libsvm_from(text.as_bytes(), "long", &LibsvmOptions::default()).unwrap();
    read_numbers_from(&text.as_bytes()[4..], "long").unwrap();
    let text = format!("x,y\n1,{}\n", &text[4..]);
    let reader = CsvReader::new(text.as_bytes(), "long", CsvOptions::default()).unwrap();
    assert_eq!(reader.read_all().unwrap().rows(), 1);
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
    fn sparse_text(
        file in 0..SPARSE.len(),
        edits in edits(),
        is_packed: bool,
        features in prop::option::of(1..60_usize),
    ) {
        let bytes = maybe_packed(damaged(SPARSE[file].as_bytes(), &edits), is_packed);
        let options = LibsvmOptions { features, ..LibsvmOptions::default() };
        named(bounded(&bytes, |bytes| read_libsvm_from(bytes, "fuzz", &options))?, "fuzz")?;
    }

    #[test]
    fn plain_numbers(edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(b"1 2.5 -3\n4e2 5 6\n", &edits), is_packed);
        named(bounded(&bytes, |bytes| read_numbers_from(bytes, "fuzz"))?, "fuzz")?;
    }

    #[test]
    fn damaged_gzip(edits in edits()) {
        let bytes = damaged(&gzip(TABLES[0].as_bytes()), &edits);
        named(bounded(&bytes, |bytes| read_numbers_from(bytes, "fuzz"))?, "fuzz")?;
    }

    #[test]
    fn idx(image_edits in edits(), label_edits in edits(), which in 0..3, is_packed: bool) {
        let images = if which == 1 { IMAGES.to_vec() } else { damaged(IMAGES, &image_edits) };
        let labels = if which == 2 { LABELS.to_vec() } else { damaged(LABELS, &label_edits) };
        let images = maybe_packed(images, is_packed);
        let read = bounded(&images, |images| {
            read_idx_from((images, "fuzz images"), (&labels[..], "fuzz labels"))
        })?;
        named(read, "fuzz")?;
    }

    #[test]
    fn archives(edits in edits(), is_deflated: bool) {
        let method = if is_deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let bytes = damaged(&npz(method, |_, bytes| bytes), &edits);
        named(bounded(&bytes, |bytes| read_medmnist_from(Cursor::new(bytes), "fuzz"))?, "fuzz")?;
    }

    #[test]
    fn arrays_inside_archives(edits in edits()) {
        let bytes = npz(CompressionMethod::Stored, |array, bytes| match array {
            "train_images" => damaged(&bytes, &edits),
            _ => bytes,
        });
        named(bounded(&bytes, |bytes| read_medmnist_from(Cursor::new(bytes), "fuzz"))?, "fuzz")?;
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
