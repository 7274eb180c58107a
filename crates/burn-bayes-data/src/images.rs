//! Pictures with a class each, as bytes.

use std::io::Read;

use crate::dataset::check_rows;
use crate::error::{DataError, Place};
use crate::levels::Levels;
use crate::source::too_large;

/// The extent of every picture of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Bytes for a pixel: 1 for grey, 3 for colour.
    pub channels: usize,
}

impl ImageShape {
    /// Bytes of one picture.
    pub fn bytes(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Pictures of one shape and the class of each.
///
/// The bytes of a picture are in the order height, width, channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledImages {
    shape: ImageShape,
    bytes: Vec<u8>,
    classes: Vec<u8>,
}

impl LabelledImages {
    /// Pictures and classes read from the arrays of a file.
    pub(crate) fn new(
        images: ByteArray,
        classes: ByteArray,
        source: &str,
    ) -> Result<Self, DataError> {
        let wrong = |found: &[usize], expected: String| {
            let cure = "check that images and labels belong together";
            Err(DataError::data(
                Place::of(source),
                format_args!("shape {found:?}"),
                expected,
                cure,
            ))
        };
        let shape = match images.shape[..] {
            [_, height, width] => [height, width, 1],
            [_, height, width, channels] => [height, width, channels],
            _ => {
                return wrong(
                    &images.shape,
                    "pictures of [height, width] or [height, width, channels]".into(),
                );
            }
        };
        let count = images.shape[0];
        if count == 0 || shape.contains(&0) {
            return wrong(&images.shape, "at least one picture with a pixel".into());
        }
        if !matches!(classes.shape[..], [rows] | [rows, 1] if rows == count) {
            return wrong(
                &classes.shape,
                format!("one label for each of {count} pictures"),
            );
        }
        let [height, width, channels] = shape;
        Ok(Self {
            shape: ImageShape {
                height,
                width,
                channels,
            },
            bytes: images.values,
            classes: classes.values,
        })
    }

    /// The number of pictures.
    pub fn rows(&self) -> usize {
        self.classes.len()
    }

    /// The extent of every picture.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The class of every picture.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// The number of classes: one more than the greatest of these pictures' classes. Ask the training
    /// pictures, for other parts need not have every class.
    pub fn class_count(&self) -> usize {
        let greatest = self.classes.iter().max();
        greatest.map_or(0, |&class| usize::from(class) + 1)
    }

    /// Refuses pictures of `source` whose class none of these pictures has.
    pub(crate) fn check_classes_of(&self, other: &Self, source: &str) -> Result<(), DataError> {
        let classes = Levels::new(self.classes.iter().map(u8::to_string));
        for (row, class) in other.classes.iter().enumerate() {
            classes.class(&class.to_string(), || Place::of(source).row(row))?;
        }
        Ok(())
    }

    /// The bytes of one picture.
    ///
    /// # Panics
    /// If there is no such picture.
    pub fn image(&self, row: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        &self.bytes[row * bytes..][..bytes]
    }

    /// The pictures with the given numbers one after the other, bytes divided by 255.
    ///
    /// # Errors
    /// If there is no picture of one of the numbers.
    pub fn unit_pixels(&self, rows: &[usize]) -> Result<Vec<f32>, DataError> {
        check_rows(rows, self.rows())?;
        let bytes = rows.iter().flat_map(|&row| self.image(row));
        Ok(bytes.map(|&byte| f32::from(byte) / 255.0).collect())
    }
}

/// Bytes with a shape, whose product is their number.
#[derive(Debug)]
pub(crate) struct ByteArray {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<u8>,
}

impl ByteArray {
    /// Reads the bytes that a header promised, at most `most` of them, and no more memory is asked for
    /// than bytes come.
    pub(crate) fn read(
        mut reader: impl Read,
        shape: Vec<usize>,
        most: usize,
        source: &str,
    ) -> Result<Self, DataError> {
        let wrong = |found: String| {
            DataError::data(
                Place::of(source),
                found,
                format_args!("as many bytes as the shape {shape:?} has cells"),
                "copy or fetch the file again",
            )
        };
        let count = shape
            .iter()
            .try_fold(1, |count: usize, &length| count.checked_mul(length))
            .ok_or_else(|| wrong("a shape beyond any memory".into()))?;
        if count > most {
            return Err(too_large(Place::of(source), "an array", most));
        }
        let mut values = Vec::new();
        // One byte more than promised would be one too many.
        (&mut reader)
            .take((count as u64).saturating_add(1))
            .read_to_end(&mut values)
            .map_err(|error| DataError::io(source, &error))?;
        match values.len() {
            length if length == count => Ok(Self { shape, values }),
            length if length < count => Err(wrong(format!("{length} bytes"))),
            _ => Err(wrong("more bytes".into())),
        }
    }
}
