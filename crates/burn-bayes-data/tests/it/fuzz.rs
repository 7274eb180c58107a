//! Readers on files with random damage: no panic, no more memory than the bytes account for, and an
//! error that names the file.

use std::io::{Cursor, Write};
use std::sync::LazyLock;

use burn_bayes_data::{
    CsvOptions, CsvReader, DataError, LibsvmOptions, Preprocessor, PreprocessorConfig, Task,
    read_idx_from, read_libsvm_from, read_medmnist_from, read_numbers_from,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::damage::{bounded, config, damaged, edits};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Packs some of the files, chosen at random.
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

/// An archive in the layout of MedMNIST, with `change` made to its training pictures.
fn npz(method: CompressionMethod, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for part in ["train", "val", "test"] {
        let mut images = npy("(2, 2, 2)", &[9; 8]);
        if part == "train" {
            images = change(images);
        }
        for (what, bytes) in [("images", images), ("labels", npy("(2, 1)", &[0, 1]))] {
            archive
                .start_file(format!("{part}_{what}.npy"), options)
                .unwrap();
            archive.write_all(&bytes).unwrap();
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
        read_medmnist_from(Cursor::new(npz(method, |images| images)), "fuzz").unwrap();
    }
}

/// Saved preparations of every kind of column, one for each task.
static PREPARATIONS: LazyLock<[String; 2]> =
    LazyLock::new(|| [Task::Regression, Task::Classification].map(preparation));

fn preparation(task: Task) -> String {
    let text = "size,town,price,kind\n50,Oslo,10,a\n70,\"Rome, old\",12,b\n90,Oslo,20,a\n";
    let reader = CsvReader::new(text.as_bytes(), "fuzz", CsvOptions::default()).unwrap();
    let table = reader.read_all().unwrap();
    let target = match task {
        Task::Regression => "price",
        Task::Classification => "kind",
    };
    let config = PreprocessorConfig::new(target, task);
    let preparation = Preprocessor::fit(&config, &table, 0..table.rows()).unwrap();
    toml::to_string(&preparation).unwrap()
}

/// What was read is used; an error is one of the data, and names the file.
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
        let bytes = damaged(&npz(method, |images| images), &edits);
        named(bounded(&bytes, |bytes| read_medmnist_from(Cursor::new(bytes), "fuzz"))?, "fuzz")?;
    }

    #[test]
    fn arrays_inside_archives(edits in edits()) {
        let bytes = npz(CompressionMethod::Stored, |images| damaged(&images, &edits));
        named(bounded(&bytes, |bytes| read_medmnist_from(Cursor::new(bytes), "fuzz"))?, "fuzz")?;
    }

    #[test]
    fn preparations(task in 0..PREPARATIONS.len(), edits in edits()) {
        let bytes = damaged(PREPARATIONS[task].as_bytes(), &edits);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let read = bounded(&bytes, |_| {
            let preparation = Preprocessor::load(file.path())?;
            // Whatever it says, rows are prepared or refused.
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
