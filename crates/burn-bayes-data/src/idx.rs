//! IDX files of bytes, the format of MNIST and similar data sets.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::error::{DataError, Place};
use crate::images::{ByteArray, LabelledImages};
use crate::source::{self, Plain};

/// The type code of unsigned bytes.
const UNSIGNED_BYTE: u8 = 0x08;

/// Training and test images of MNIST or a similar data set.
#[derive(Debug, Clone)]
pub struct MnistImages {
    /// Training images.
    pub train: LabelledImages,
    /// Test images.
    pub test: LabelledImages,
}

/// Reads the four files `{train,t10k}-{images-idx3,labels-idx1}-ubyte` of MNIST, Fashion-MNIST and
/// similar data sets, each optionally compressed with gzip. A compressed array may have at most 2³⁰
/// bytes.
///
/// # Errors
/// If a file cannot be read or is not IDX of bytes, images and labels do not match, or a test image has
/// a class that no training image has.
pub fn read_mnist(folder: impl AsRef<Path>) -> Result<MnistImages, DataError> {
    let folder = folder.as_ref();
    let part = |name: &str| -> Result<(LabelledImages, String), DataError> {
        let read = |what: &str| {
            let (plain, source) = source::open(&folder.join(format!("{name}-{what}-ubyte")))?;
            Ok((read_plain(plain, &source)?, source))
        };
        let (images, _) = read("images-idx3")?;
        let (labels, source) = read("labels-idx1")?;
        let part = LabelledImages::new(images, labels, &source)?;
        Ok((part, source))
    };
    let (train, _) = part("train")?;
    let (test, source) = part("t10k")?;
    train.check_classes_of(&test, &source)?;
    Ok(MnistImages { train, test })
}

/// Reads images and labels from two readers; the names are used in messages.
///
/// # Errors
/// As for [`read_mnist`].
pub fn read_idx_from(
    (images, images_name): (impl Read, &str),
    (labels, labels_name): (impl Read, &str),
) -> Result<LabelledImages, DataError> {
    let images = read_plain(source::plain(images, images_name)?, images_name)?;
    let labels = read_plain(source::plain(labels, labels_name)?, labels_name)?;
    LabelledImages::new(images, labels, labels_name)
}

/// The format: two zeros, a type code, the number of dimensions, each length as four big-endian bytes,
/// then the values.
fn read_plain(plain: Plain<'_>, source: &str) -> Result<ByteArray, DataError> {
    let Plain { mut bytes, packing } = plain;
    let four = |reader: &mut dyn BufRead| {
        let mut bytes = [0; 4];
        let result = reader.read_exact(&mut bytes);
        result.map_err(|error| DataError::io(source, &error))?;
        Ok::<_, DataError>(bytes)
    };
    let start = four(&mut bytes)?;
    let [0, 0, UNSIGNED_BYTE, dimensions] = start else {
        return Err(DataError::data(
            Place::of(source),
            format_args!("the first bytes {start:02x?}"),
            "00, 00, 08 and the number of dimensions: IDX of unsigned bytes",
            "check that the file is the right one",
        ));
    };
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(u32::from_be_bytes(four(&mut bytes)?) as usize);
    }
    ByteArray::read(bytes, shape, packing.largest_array(), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGES: [u8; 24] = [
        0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 255,
    ];
    const LABELS: [u8; 10] = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9];

    fn read(images: &[u8], labels: &[u8]) -> Result<LabelledImages, DataError> {
        read_idx_from((images, "images"), (labels, "labels"))
    }

    #[test]
    fn bytes_and_classes_are_read() {
        let set = read(&IMAGES, &LABELS).unwrap();
        assert_eq!((set.rows(), set.shape().bytes()), (2, 4));
        assert_eq!(
            (set.image(1), set.classes()),
            (&[4, 5, 6, 255][..], &[7, 9][..])
        );
        assert_eq!(set.unit_pixels(&[1]).unwrap()[3], 1.0);
        assert!(set.unit_pixels(&[2]).unwrap_err().is_config());
    }

    #[test]
    fn a_wrong_file_is_named() {
        let mut other_type = IMAGES;
        other_type[2] = 0x0d;
        let mut huge = IMAGES;
        huge[4..16].fill(0xff);
        let longer = [&IMAGES[..], &[0]].concat();
        for images in [
            &IMAGES[..23],
            &longer,
            &other_type,
            &huge,
            &IMAGES[..7],
            &[],
            &LABELS,
        ] {
            let error = read(images, &LABELS).unwrap_err();
            assert!(error.is_data(), "{error}");
        }
        let mut one_label = LABELS[..9].to_vec();
        one_label[7] = 1;
        let error = read(&IMAGES, &one_label).unwrap_err();
        assert_eq!(error.source_name(), Some("labels"));
    }

    #[test]
    fn a_test_picture_of_a_class_without_training_pictures_is_refused() {
        let read = |test: u8| {
            let folder = tempfile::tempdir().unwrap();
            let of_test = [&LABELS[..9], &[test]].concat();
            for (part, labels) in [("train", &LABELS[..]), ("t10k", &of_test)] {
                for (what, bytes) in [("images-idx3", &IMAGES[..]), ("labels-idx1", labels)] {
                    let path = folder.path().join(format!("{part}-{what}-ubyte"));
                    source::write_whole(&path, bytes).unwrap();
                }
            }
            read_mnist(folder.path())
        };
        let set = read(7).unwrap();
        assert_eq!((set.train.class_count(), set.test.class_count()), (10, 8));
        for unseen in [8, 10] {
            let error = read(unseen).unwrap_err();
            assert_eq!((error.is_data(), error.row()), (true, Some(1)), "{error}");
            let place = "t10k-labels-idx1-ubyte, row 1 (counted from 0): found the label";
            let message = error.to_string();
            assert!(
                message.contains(place) && message.contains("`7`, `9`"),
                "{message}"
            );
        }
    }
}
