//! Labelled images as bytes.

use std::collections::BTreeSet;

use burn_bayes_tabular::{Result, TabularError};

use super::source::wrong;

/// The shape of the images of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageShape {
    /// Rows of pixels.
    pub(crate) height: usize,
    /// Pixels per row.
    pub(crate) width: usize,
    /// Bytes per pixel: 1 for grey, 3 for colour.
    pub(crate) channels: usize,
}

impl ImageShape {
    /// Bytes per image.
    pub(crate) fn bytes(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Images of one shape with their classes.
///
/// The bytes of an image are in the order height, width, channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelledImages {
    shape: ImageShape,
    bytes: Vec<u8>,
    classes: Vec<u8>,
}

impl LabelledImages {
    /// Images and classes from the arrays of a file.
    pub(super) fn new(images: ByteArray, classes: ByteArray, source: &str) -> Result<Self> {
        let refused = |found: &[usize], expected: &str| {
            Err(wrong(source, format_args!("shape {found:?}"), expected))
        };
        let [height, width, channels] = match images.shape[..] {
            [_, height, width] => [height, width, 1],
            [_, height, width, channels] => [height, width, channels],
            _ => {
                let expected = "images of [height, width] or [height, width, channels]";
                return refused(&images.shape, expected);
            }
        };
        if images.shape.contains(&0) {
            return refused(&images.shape, "at least one image with a pixel");
        }
        let count = images.shape[0];
        if !matches!(classes.shape[..], [rows] | [rows, 1] if rows == count) {
            let expected = format!("one label for each of {count} images");
            return refused(&classes.shape, &expected);
        }
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
    pub(crate) fn rows(&self) -> usize {
        self.classes.len()
    }

    /// The shape of every image.
    pub(crate) fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The class of every image.
    pub(crate) fn classes(&self) -> &[u8] {
        &self.classes
    }

    /// The number of classes: one more than the largest class of these images. Use the training images,
    /// because other parts may not have every class.
    pub(crate) fn class_count(&self) -> usize {
        let greatest = self.classes.iter().max();
        greatest.map_or(0, |&class| usize::from(class) + 1)
    }

    /// Refuses images of `source` with a class that none of these images has.
    pub(super) fn check_classes_of(&self, other: &Self, source: &str) -> Result<()> {
        let classes: BTreeSet<u8> = self.classes.iter().copied().collect();
        match other
            .classes
            .iter()
            .position(|class| !classes.contains(class))
        {
            Some(row) => Err(wrong(
                format_args!("{source}, row {row} (counted from 0)"),
                format_args!("the label {}", other.classes[row]),
                format_args!("one of {classes:?}"),
            )),
            None => Ok(()),
        }
    }

    /// The bytes of an image.
    ///
    /// # Panics
    /// If there is no such image.
    pub(crate) fn image(&self, row: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        &self.bytes[row * bytes..][..bytes]
    }

    /// The concatenated images with the given indices, with bytes divided by 255.
    pub(crate) fn unit_pixels(&self, rows: &[usize]) -> Result<Vec<f32>> {
        if let Some(row) = rows.iter().find(|&&row| row >= self.rows()) {
            let message = format!("there is no image {row} among {}", self.rows());
            return Err(TabularError::Usage(message));
        }
        let bytes = rows.iter().flat_map(|&row| self.image(row));
        Ok(bytes.map(|&byte| f32::from(byte) / 255.0).collect())
    }
}

#[cfg(test)]
impl LabelledImages {
    /// Images of a shape with these classes.
    pub(crate) fn of_arrays((shape, values): (&[usize], &[u8]), classes: &[u8]) -> Self {
        let array = |shape: &[usize], values: &[u8]| {
            ByteArray::new(shape.to_vec(), values.to_vec(), "test").unwrap()
        };
        let images = array(shape, values);
        Self::new(images, array(&[classes.len()], classes), "test").unwrap()
    }
}

/// A byte array with a shape.
#[derive(Debug)]
pub(super) struct ByteArray {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<u8>,
}

impl ByteArray {
    /// The bytes of a shape from a header.
    pub(super) fn new(shape: Vec<usize>, values: Vec<u8>, source: &str) -> Result<Self> {
        let mut lengths = shape.iter();
        let count = lengths.try_fold(1, |count: usize, &length| count.checked_mul(length));
        if count == Some(values.len()) {
            return Ok(Self { shape, values });
        }
        let expected = format_args!("as many bytes as the shape {shape:?} has elements");
        Err(wrong(
            source,
            format_args!("{} bytes", values.len()),
            expected,
        ))
    }
}
