//! Readers on files with random damage: no panic, and no more memory than the bytes account for.
//!
//! `BURN_BAYES_FUZZ_CASES` sets the number of cases for each reader.

use std::io::{Cursor, Write};

use burn_bayes_data::{
    CsvOptions, CsvReader, LibsvmOptions, Preprocessor, PreprocessorConfig, Task, read_idx_from,
    read_libsvm_from, read_medmnist_from, read_numbers_from,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::memory::most_held;

fn config() -> ProptestConfig {
    let cases = std::env::var("BURN_BAYES_FUZZ_CASES");
    ProptestConfig {
        cases: cases.map_or(1000, |cases| cases.parse().expect("a number of cases")),
        ..ProptestConfig::default()
    }
}

/// One piece of damage.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Cut(Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = any::<Index>;
    // Bytes that mean something in one of the formats, and any others.
    let byte = || {
        prop_oneof![
            prop::sample::select(b"\0\x01\x08\x7f\x80\xff\"'\n\r,;:|# \t.+-0159eEnNiI()".to_vec()),
            any::<u8>(),
        ]
    };
    let edit = prop_oneof![
        (place(), byte()).prop_map(|(place, byte)| Edit::Set(place, byte)),
        (place(), 0_u8..8).prop_map(|(place, bit)| Edit::Flip(place, bit)),
        (place(), vec(byte(), 1..9)).prop_map(|(place, bytes)| Edit::Insert(place, bytes)),
        (place(), 1_usize..40).prop_map(|(place, length)| Edit::Remove(place, length)),
        (place(), 1_usize..40, 1_usize..20)
            .prop_map(|(place, length, times)| Edit::Repeat(place, length, times)),
        place().prop_map(Edit::Cut),
    ];
    vec(edit, 1..8)
}

fn damaged(file: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        let end = bytes.len();
        match edit {
            Edit::Set(place, byte) => *place.get_mut(&mut bytes) = *byte,
            Edit::Flip(place, bit) => *place.get_mut(&mut bytes) ^= 1 << bit,
            Edit::Insert(place, more) => {
                let place = place.index(end);
                bytes.splice(place..place, more.iter().copied());
            }
            Edit::Remove(place, length) => {
                let place = place.index(end);
                bytes.drain(place..end.min(place + length));
            }
            Edit::Repeat(place, length, times) => {
                let place = place.index(end);
                let more = bytes[place..end.min(place + length)].repeat(*times);
                bytes.splice(place..place, more);
            }
            Edit::Cut(place) => bytes.truncate(place.index(end)),
        }
    }
    bytes
}

/// Fails if `read` takes more memory than buffers and a generous share for each byte.
fn bounded(bytes: &[u8], read: impl FnOnce(&[u8])) -> Result<(), TestCaseError> {
    /// Text buffers, the state of a decoder, and the cells that are allowed to libsvm.
    const BUFFERS: usize = 1 << 20;
    /// A column of one cell of one byte has a name, a place in tables of names, and vectors.
    const FOR_A_BYTE: usize = 1 << 10;
    let ((), most) = most_held(|| read(bytes));
    let allowed = BUFFERS + FOR_A_BYTE * bytes.len();
    prop_assert!(
        most <= allowed,
        "{most} bytes for a file of {}",
        bytes.len()
    );
    Ok(())
}

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
    "1.5 1:1 50:1\n",
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

proptest! {
    #![proptest_config(config())]

    #[test]
    fn delimited_text(file in 0..TABLES.len(), edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(TABLES[file].as_bytes(), &edits), is_packed);
        bounded(&bytes, |bytes| {
            let read = CsvReader::new(bytes, "fuzz", CsvOptions::default());
            let Ok(table) = read.and_then(CsvReader::read_all) else { return };
            let target = table.columns().last().unwrap().name();
            for task in [Task::Regression, Task::Classification] {
                let config = PreprocessorConfig::new(target, task);
                if let Ok(fit) = Preprocessor::fit(&config, &table, 0..table.rows()) {
                    fit.dataset(&table, 0..table.rows()).unwrap();
                }
            }
        })?;
    }

    #[test]
    fn sparse_text(file in 0..SPARSE.len(), edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(SPARSE[file].as_bytes(), &edits), is_packed);
        let options = LibsvmOptions { most_cells: 1 << 14, ..LibsvmOptions::default() };
        bounded(&bytes, |bytes| drop(read_libsvm_from(bytes, "fuzz", &options)))?;
    }

    #[test]
    fn plain_numbers(edits in edits(), is_packed: bool) {
        let bytes = maybe_packed(damaged(b"1 2.5 -3\n4e2 5 6\n", &edits), is_packed);
        bounded(&bytes, |bytes| drop(read_numbers_from(bytes, "fuzz")))?;
    }

    #[test]
    fn damaged_gzip(edits in edits()) {
        let bytes = damaged(&gzip(TABLES[0].as_bytes()), &edits);
        bounded(&bytes, |bytes| drop(read_numbers_from(bytes, "fuzz")))?;
    }

    #[test]
    fn idx(image_edits in edits(), label_edits in edits(), which in 0..3, is_packed: bool) {
        let images = if which == 1 { IMAGES.to_vec() } else { damaged(IMAGES, &image_edits) };
        let labels = if which == 2 { LABELS.to_vec() } else { damaged(LABELS, &label_edits) };
        let images = maybe_packed(images, is_packed);
        bounded(&images, |images| {
            drop(read_idx_from((images, "images"), (&labels[..], "labels")));
        })?;
    }

    #[test]
    fn archives(edits in edits(), is_deflated: bool) {
        let method = if is_deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let bytes = damaged(&npz(method, |images| images), &edits);
        bounded(&bytes, |bytes| drop(read_medmnist_from(Cursor::new(bytes), "fuzz")))?;
    }

    #[test]
    fn arrays_inside_archives(edits in edits()) {
        let bytes = npz(CompressionMethod::Stored, |images| damaged(&images, &edits));
        bounded(&bytes, |bytes| drop(read_medmnist_from(Cursor::new(bytes), "fuzz")))?;
    }
}
