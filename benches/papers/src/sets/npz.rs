//! NPZ archives of byte arrays, in the layout of MedMNIST.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::at;
use zip::ZipArchive;

use super::images::{ByteArray, LabelledImages};
use super::source::wrong;

/// The images of a MedMNIST data set with its published parts.
#[derive(Debug, Clone)]
pub(crate) struct MedMnistImages {
    /// Training images.
    pub(crate) train: LabelledImages,
    /// Validation images.
    pub(crate) validation: LabelledImages,
    /// Test images.
    pub(crate) test: LabelledImages,
}

/// Reads a `.npz` archive with the arrays `{train,val,test}_images` and `{train,val,test}_labels`, all
/// of unsigned bytes, with one label for each image.
pub(crate) fn read_medmnist(path: impl AsRef<Path>) -> Result<MedMnistImages> {
    let path = path.as_ref();
    let file = File::open(path).map_err(at(path))?;
    read_archive(BufReader::new(file), &path.display().to_string())
}

fn read_archive(reader: impl Read + Seek, name: &str) -> Result<MedMnistImages> {
    let expected = "an .npz archive in the layout of MedMNIST";
    let mut archive = ZipArchive::new(reader).map_err(|error| wrong(name, error, expected))?;
    let mut array = |array: String| {
        let source = format!("{name}, array {array}");
        let mut entry = archive
            .by_name(&format!("{array}.npy"))
            .map_err(|error| wrong(&source, error, expected))?;
        let mut bytes = Vec::new();
        let read = entry.read_to_end(&mut bytes);
        read.map_err(|error| wrong(&source, format_args!("damaged bytes ({error})"), expected))?;
        npy(&bytes, &source)
    };
    let mut part = |part: &str| {
        let (images, labels) = (
            array(format!("{part}_images"))?,
            array(format!("{part}_labels"))?,
        );
        LabelledImages::new(images, labels, &format!("{name}, array {part}_images"))
    };
    let set = MedMnistImages {
        train: part("train")?,
        validation: part("val")?,
        test: part("test")?,
    };
    for (part, images) in [("val", &set.validation), ("test", &set.test)] {
        let source = format!("{name}, array {part}_labels");
        set.train.check_classes_of(images, &source)?;
    }
    Ok(set)
}

/// The format: magic bytes, a version, the length of the header, the header as text, then the values.
fn npy(bytes: &[u8], source: &str) -> Result<ByteArray> {
    let refused = |found: String| {
        wrong(
            source,
            found,
            "an .npy array of unsigned bytes (`|u1`) in C order",
        )
    };
    let start = || {
        refused(format!(
            "the first bytes {:02x?}",
            &bytes[..bytes.len().min(10)]
        ))
    };
    let (length, rest) = match bytes {
        [
            0x93,
            b'N',
            b'U',
            b'M',
            b'P',
            b'Y',
            1,
            _,
            low,
            high,
            rest @ ..,
        ] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
        [
            0x93,
            b'N',
            b'U',
            b'M',
            b'P',
            b'Y',
            _,
            _,
            a,
            b,
            c,
            d,
            rest @ ..,
        ] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err(start()),
    };
    let (header, values) = rest.split_at_checked(length).ok_or_else(start)?;
    let header = String::from_utf8_lossy(header);
    let shape = byte_shape(&header).ok_or_else(|| refused(format!("the header `{header}`")))?;
    ByteArray::new(shape, values.to_vec(), source)
}

/// The shape in a header such as `{'descr': '|u1', 'fortran_order': False, 'shape': (54, 28, 28), }`;
/// `None` if the array is not of bytes in C order.
fn byte_shape(header: &str) -> Option<Vec<usize>> {
    let entry = |key: &str| {
        let rest = header.split_once(&format!("'{key}'"))?.1;
        rest.trim_start().strip_prefix(':').map(str::trim_start)
    };
    if !entry("descr")?.starts_with("'|u1'") || !entry("fortran_order")?.starts_with("False") {
        return None;
    }
    let (shape, _) = entry("shape")?.strip_prefix('(')?.split_once(')')?;
    let lengths = shape.trim().trim_end_matches(',').split(',');
    lengths.map(|length| length.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use burn_bayes_tabular::TabularError;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    fn array(shape: &str, values: &[u8]) -> Vec<u8> {
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
                ("images", array("(2, 2, 2)", &[9; 8])),
                ("labels", array("(2, 1)", &[0, 1])),
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
    fn archives_are_read_and_their_classes_compared() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let unchanged = npz(method, |_, bytes| bytes);
            let set = read_archive(Cursor::new(&unchanged), "set.npz").unwrap();
            assert_eq!(set.train.class_count(), 2);
        }
        for part in ["val", "test"] {
            let archive = npz(CompressionMethod::Stored, |name, bytes| {
                match name == format!("{part}_labels") {
                    true => array("(2, 1)", &[1, 2]),
                    false => bytes,
                }
            });
            let error = read_archive(Cursor::new(&archive), "set.npz").unwrap_err();
            let place = format!(
                "set.npz, array {part}_labels, row 1 (counted from 0): found the label 2, expected one of"
            );
            assert!(error.to_string().starts_with(&place), "{error}");
        }
    }

    #[test]
    fn a_header_is_understood_or_refused() {
        let header = |descr: &str, order: &str, shape: &str| {
            byte_shape(&format!(
                "{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
            ))
        };
        assert_eq!(
            header("|u1", "False", "(54, 28, 28)"),
            Some(vec![54, 28, 28])
        );
        assert_eq!(header("|u1", "False", "(54,)"), Some(vec![54]));
        assert_eq!(header("<f8", "False", "(54,)"), None);
        assert_eq!(header("|u1", "True", "(54, 2)"), None);
        for shape in ["()", "(-1,)", "(a, 2)", "(1, 2", "(1,,2)"] {
            assert_eq!(header("|u1", "False", shape), None, "{shape}");
        }
        assert_eq!(byte_shape(""), None);
    }

    #[test]
    fn an_array_file_is_read_whole_or_not_at_all() {
        let text = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1), }\n";
        let file = |version: u8, length: &[u8], values: &[u8]| {
            [b"\x93NUMPY", &[version, 0][..], length, text, values].concat()
        };
        let (short, long) = (&[text.len() as u8, 0][..], &[text.len() as u8, 0, 0, 0][..]);
        for bytes in [file(1, short, &[5, 6]), file(2, long, &[5, 6])] {
            let array = npy(&bytes, "test").unwrap();
            assert_eq!((array.shape, array.values), (vec![2, 1], vec![5, 6]));
        }
        for bytes in [
            file(1, short, &[5]),
            file(1, short, &[5, 6, 7]),
            file(2, &[0xff; 4], &[5, 6]),
            b"\x93NUMPX..".to_vec(),
            Vec::new(),
        ] {
            let error = npy(&bytes, "test").unwrap_err();
            assert!(matches!(error, TabularError::Data(_)), "{error}");
        }
    }
}
