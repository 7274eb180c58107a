//! IDX files of bytes, the format of MNIST and similar data sets.

use std::path::Path;

use burn_bayes_tabular::{Result, TabularError};

use super::images::{ByteArray, LabelledImages};
use super::source::{read, wrong};

/// The type code of unsigned bytes.
const UNSIGNED_BYTE: u8 = 0x08;

/// Training and test images of MNIST or a similar data set.
#[derive(Debug, Clone)]
pub(crate) struct MnistImages {
    /// Training images.
    pub(crate) train: LabelledImages,
    /// Test images.
    pub(crate) test: LabelledImages,
}

/// Reads the four files `{train,t10k}-{images-idx3,labels-idx1}-ubyte` of MNIST, Fashion-MNIST and
/// similar data sets, each optionally compressed with gzip.
pub(crate) fn read_mnist(folder: impl AsRef<Path>) -> Result<MnistImages> {
    let folder = folder.as_ref();
    let part = |name: &str| -> Result<(LabelledImages, String)> {
        let read = |what: &str| {
            let (bytes, source) = read(&folder.join(format!("{name}-{what}-ubyte")))?;
            Ok::<_, TabularError>((array(&bytes, &source)?, source))
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

/// The format: two zeros, a type code, the number of dimensions, each length as four big-endian bytes,
/// then the values.
pub(super) fn array(bytes: &[u8], source: &str) -> Result<ByteArray> {
    let &[0, 0, UNSIGNED_BYTE, dimensions, ref rest @ ..] = bytes else {
        let start = &bytes[..bytes.len().min(4)];
        let expected = "00, 00, 08 and the number of dimensions: IDX of unsigned bytes";
        return Err(wrong(
            source,
            format_args!("the first bytes {start:02x?}"),
            expected,
        ));
    };
    let Some((lengths, values)) = rest.split_at_checked(4 * usize::from(dimensions)) else {
        return Err(wrong(
            source,
            format_args!("{} bytes", bytes.len()),
            "a complete file",
        ));
    };
    let length = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
    };
    let shape = lengths.chunks_exact(4).map(length).collect();
    ByteArray::new(shape, values.to_vec(), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGES: [u8; 24] = [
        0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 255,
    ];
    const LABELS: [u8; 10] = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9];

    fn read(images: &[u8], labels: &[u8]) -> Result<LabelledImages> {
        LabelledImages::new(array(images, "images")?, array(labels, "labels")?, "labels")
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
        assert!(matches!(set.unit_pixels(&[2]), Err(TabularError::Usage(_))));
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
            assert!(matches!(error, TabularError::Data(_)), "{error}");
        }
        let mut one_label = LABELS[..9].to_vec();
        one_label[7] = 1;
        let error = read(&IMAGES, &one_label).unwrap_err();
        assert!(error.to_string().starts_with("labels: "), "{error}");
    }

    #[test]
    fn a_test_picture_of_a_class_without_training_pictures_is_refused() {
        let read = |test: u8| {
            let folder = tempfile::tempdir().unwrap();
            let of_test = [&LABELS[..9], &[test]].concat();
            for (part, labels) in [("train", &LABELS[..]), ("t10k", &of_test)] {
                for (what, bytes) in [("images-idx3", &IMAGES[..]), ("labels-idx1", labels)] {
                    let path = folder.path().join(format!("{part}-{what}-ubyte"));
                    std::fs::write(&path, bytes).unwrap();
                }
            }
            read_mnist(folder.path())
        };
        let set = read(7).unwrap();
        assert_eq!((set.train.class_count(), set.test.class_count()), (10, 8));
        for unseen in [8, 10] {
            let message = read(unseen).unwrap_err().to_string();
            let place = "t10k-labels-idx1-ubyte, row 1 (counted from 0): found the label";
            assert!(
                message.contains(place) && message.contains("{7, 9}"),
                "{message}"
            );
        }
    }
}
