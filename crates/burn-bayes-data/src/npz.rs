//! NPZ archives of byte arrays, in the layout of MedMNIST.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::error::{DataError, Place, at_path, shown};
use crate::images::{ByteArray, LabelledImages};
use crate::source::Packing;

/// The images of a MedMNIST data set with its published parts.
#[derive(Debug, Clone)]
pub struct MedMnistImages {
    /// Training images.
    pub train: LabelledImages,
    /// Validation images.
    pub validation: LabelledImages,
    /// Test images.
    pub test: LabelledImages,
}

/// Reads a `.npz` archive with the arrays `{train,val,test}_images` and `{train,val,test}_labels`, all
/// of unsigned bytes, with one label for each image. A compressed array may have at most 2³⁰ bytes.
///
/// # Errors
/// If the file cannot be read, is not such an archive, an array is missing or has another type or
/// shape, or an image has a class that no training image has.
pub fn read_medmnist(path: impl AsRef<Path>) -> Result<MedMnistImages, DataError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(at_path(path))?;
    read_medmnist_from(BufReader::new(file), &path.display().to_string())
}

/// Reads from any reader; `name` is used in messages.
///
/// # Errors
/// As for [`read_medmnist`].
pub fn read_medmnist_from(
    reader: impl Read + Seek,
    name: &str,
) -> Result<MedMnistImages, DataError> {
    let mut archive = ZipArchive::new(reader).map_err(|error| zip_error(name, error))?;
    let mut part = |part: &str| {
        let source = format!("{name}, array {part}_images");
        let images = array(&mut archive, name, &format!("{part}_images"))?;
        let labels = array(&mut archive, name, &format!("{part}_labels"))?;
        LabelledImages::new(images, labels, &source)
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

fn array(
    archive: &mut ZipArchive<impl Read + Seek>,
    name: &str,
    array: &str,
) -> Result<ByteArray, DataError> {
    let source = format!("{name}, array {array}");
    let entry = archive
        .by_name(&format!("{array}.npy"))
        .map_err(|error| zip_error(&source, error))?;
    let packing = match entry.compression() {
        CompressionMethod::Stored => Packing::None,
        _ => Packing::Deflate,
    };
    read_npy(entry, packing, &source)
}

fn zip_error(source: &str, error: ZipError) -> DataError {
    match error {
        ZipError::Io(error) => DataError::io(source, &error),
        other => DataError::data(
            Place::of(source),
            format_args!("an archive that cannot be read ({other})"),
            "an .npz archive in the layout of MedMNIST",
            "check that the file is the right one, and copy or fetch it again",
        ),
    }
}

/// The format: magic bytes, a version, the length of the header, the header as text, then the values.
fn read_npy(mut reader: impl Read, packing: Packing, source: &str) -> Result<ByteArray, DataError> {
    const MARK: [u8; 6] = *b"\x93NUMPY";
    /// More than the headers that numpy writes for arrays of numbers.
    const LONGEST_HEADER: usize = 1 << 16;
    let wrong = |found: String| {
        DataError::data(
            Place::of(source),
            found,
            "an .npy array of unsigned bytes (`|u1`) in C order",
            "save the array with numpy as uint8",
        )
    };
    let mut start = [0; 8];
    let mut read = |bytes: &mut [u8]| {
        let result = reader.read_exact(bytes);
        result.map_err(|error| DataError::io(source, &error))
    };
    read(&mut start)?;
    if start[..6] != MARK {
        return Err(wrong(format!("the first bytes {:02x?}", &start[..6])));
    }
    let length = if start[6] == 1 {
        let mut bytes = [0; 2];
        read(&mut bytes)?;
        usize::from(u16::from_le_bytes(bytes))
    } else {
        let mut bytes = [0; 4];
        read(&mut bytes)?;
        u32::from_le_bytes(bytes) as usize
    };
    if length > LONGEST_HEADER {
        return Err(wrong(format!("a header of {length} bytes")));
    }
    let mut header = vec![0; length];
    read(&mut header)?;
    let header = String::from_utf8_lossy(&header);
    let shape =
        byte_shape(&header).ok_or_else(|| wrong(format!("the header {}", shown(&header))))?;
    ByteArray::read(reader, shape, packing.largest_array(), source)
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
    use super::*;

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
            let array = read_npy(&bytes[..], Packing::None, "test").unwrap();
            assert_eq!((array.shape, array.values), (vec![2, 1], vec![5, 6]));
        }
        for bytes in [
            file(1, short, &[5]),
            file(1, short, &[5, 6, 7]),
            file(2, &[0xff; 4], &[5, 6]),
            b"\x93NUMPX..".to_vec(),
            Vec::new(),
        ] {
            let error = read_npy(&bytes[..], Packing::None, "test").unwrap_err();
            assert!(error.is_data(), "{error}");
        }
    }
}
