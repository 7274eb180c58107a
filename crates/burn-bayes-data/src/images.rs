//! Labelled images as bytes.

use std::io::Read;

use crate::dataset::check_rows;
use crate::error::{DataError, Place};
use crate::levels::Levels;
use crate::source::too_large;

/// The shape of the images of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels per row.
    pub width: usize,
    /// Bytes per pixel: 1 for grey, 3 for colour.
    pub channels: usize,
}

impl ImageShape {
    /// Bytes per image.
    pub fn bytes(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Images of one shape with their classes.
///
/// The bytes of an image are in the order height, width, channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledImages {
    shape: ImageShape,
    bytes: Vec<u8>,
    classes: Vec<u8>,
}

impl LabelledImages {
    /// Images and classes from the arrays of a file.
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
                    "images of [height, width] or [height, width, channels]".into(),
                );
            }
        };
        let count = images.shape[0];
        if count == 0 || shape.contains(&0) {
            return wrong(&images.shape, "at least one image with a pixel".into());
        }
        if !matches!(classes.shape[..], [rows] | [rows, 1] if rows == count) {
            return wrong(
                &classes.shape,
                format!("one label for each of {count} images"),
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

    /// The number of images.
    pub fn rows(&self) -> usize {
        self.classes.len()
    }

    /// The shape of every image.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The class of every image.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// The number of classes: one more than the largest class of these images. Use the training images,
    /// because other parts may not have every class.
    pub fn class_count(&self) -> usize {
        let greatest = self.classes.iter().max();
        greatest.map_or(0, |&class| usize::from(class) + 1)
    }

    /// Refuses images of `source` with a class that none of these images has.
    pub(crate) fn check_classes_of(&self, other: &Self, source: &str) -> Result<(), DataError> {
        let classes = Levels::new(self.classes.iter().map(u8::to_string));
        for (row, class) in other.classes.iter().enumerate() {
            classes.class(&class.to_string(), || Place::of(source).row(row))?;
        }
        Ok(())
    }

    /// The bytes of an image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn image(&self, row: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        &self.bytes[row * bytes..][..bytes]
    }

    /// The concatenated images with the given indices, with bytes divided by 255.
    ///
    /// # Errors
    /// If an image does not exist.
    pub fn unit_pixels(&self, rows: &[usize]) -> Result<Vec<f32>, DataError> {
        check_rows(rows, self.rows())?;
        let bytes = rows.iter().flat_map(|&row| self.image(row));
        Ok(bytes.map(|&byte| f32::from(byte) / 255.0).collect())
    }
}

/// A byte array with a shape.
#[derive(Debug)]
pub(crate) struct ByteArray {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<u8>,
}

impl ByteArray {
    /// Reads the bytes of a shape from a header, at most `most`. Memory grows with the bytes read, not
    /// with the shape.
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
                format_args!("as many bytes as the shape {shape:?} has elements"),
                "copy or fetch the file again",
            )
        };
        let count = shape
            .iter()
            .try_fold(1, |count: usize, &length| count.checked_mul(length))
            .ok_or_else(|| wrong("a shape that exceeds any memory".into()))?;
        if count > most {
            return Err(too_large(Place::of(source), "an array", most));
        }
        let mut values = Vec::new();
        // One more byte is requested, to detect trailing bytes.
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
