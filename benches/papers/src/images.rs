//! Pictures as networks take them: which rows, at which scale, channel by channel.

use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_bayes::Noise;
use burn_bayes::graph::ExampleBatch;
use burn_bayes_data::{ColumnScale, Scaling, stratified_partition};
use rand::{Rng, RngExt};
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::random::{generator, shuffled};

use crate::sets::{ImageShape, LabelledImages, MnistImages, read_medmnist, read_mnist};

pub(crate) const COLOURS: usize = 3;
/// A stream of random numbers.
const CHOICE: u64 = 0x6368_6f69;
/// Streams of generated pictures.
const GRATINGS: u64 = 0x6772_6174;
const NOISE: u64 = 0x6e6f_6973;
/// Kinds of clothing that [`Clothing::kinds`] holds out: dresses and ankle boots.
const HELD_OUT: [u8; 2] = [3, 9];
/// Periods of a grating over the width of a picture.
const PERIODS: [f32; 2] = [1.0, 8.0];
/// The paper's shares of rows for training, validation and testing.
const SHARES: [f64; 3] = [0.5, 0.2, 0.3];

/// Pictures with a class each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pictures {
    pub(crate) shape: ImageShape,
    /// One picture after the other, in the order channel, height, width.
    pixels: Vec<f32>,
    pub(crate) classes: Vec<usize>,
}

/// Some pictures, as a network takes them.
#[derive(Clone, Debug, ExampleBatch)]
pub(crate) struct ImageBatch {
    /// `[rows, channels, height, width]`.
    pub(crate) images: Tensor<4>,
    /// `[rows]`.
    pub(crate) classes: Tensor<1, Int>,
}

/// Pictures for training, for choosing settings and for testing, at the scale of the first.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) train: Pictures,
    pub(crate) valid: Pictures,
    pub(crate) test: Pictures,
    /// Sets of pictures of something else.
    pub(crate) foreign: Vec<Pictures>,
}

/// Pictures of clothing, and of digits.
#[derive(Debug)]
pub(crate) struct Clothing {
    clothing: MnistImages,
    digits: LabelledImages,
}

/// How many rows of [`Clothing`] are used.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Counts {
    /// Beside them a fifth as many choose settings.
    pub(crate) train: usize,
    /// Of clothing, and as many of digits.
    pub(crate) test: usize,
}

impl Clothing {
    /// Reads both sets from the data folder.
    pub(crate) fn read(data: &Path) -> Result<Self> {
        Ok(Self {
            clothing: read_mnist(data.join("fashion_mnist"))?,
            digits: read_mnist(data.join("mnist"))?.test,
        })
    }

    /// Training and validation rows of this seed; the first of the test files.
    pub(crate) fn parts(&self, counts: Counts, seed: u64) -> Result<Parts> {
        let MnistImages { train, test } = &self.clothing;
        let order = shuffled(train.rows(), Noise::new(seed).fold(CHOICE));
        let (chosen, rest) = order.split_at(counts.train);
        let first: Vec<usize> = (0..counts.test).collect();
        let class = usize::from;
        Parts {
            train: Pictures::of(train, chosen, class)?,
            valid: Pictures::of(train, &rest[..counts.train / 5], class)?,
            test: Pictures::of(test, &first, class)?,
            foreign: vec![self.digits(counts.test)?],
        }
        .standardised()
    }

    /// The first training rows.
    pub(crate) fn first(&self, count: usize) -> Result<Pictures> {
        let rows: Vec<usize> = (0..count).collect();
        let train = Pictures::of(&self.clothing.train, &rows, usize::from)?;
        let scales = train.scales()?;
        Ok(train.scaled(&scales))
    }

    /// The first digits.
    pub(crate) fn digits(&self, count: usize) -> Result<Pictures> {
        let rows: Vec<usize> = (0..count).collect();
        Pictures::of(&self.digits, &rows, usize::from)
    }

    /// As [`Clothing::parts`], of the kinds that are not held out. Foreign are the pictures of the held-out kinds, digits,
    /// gratings and noise.
    pub(crate) fn kinds(&self, counts: Counts, seed: u64) -> Result<Parts> {
        let MnistImages { train, test } = &self.clothing;
        let is_held_out =
            |images: &LabelledImages, row: usize| HELD_OUT.contains(&images.classes()[row]);
        let order = shuffled(train.rows(), Noise::new(seed).fold(CHOICE));
        let order = order.into_iter().filter(|&row| !is_held_out(train, row));
        let order: Vec<usize> = order.collect();
        let (chosen, rest) = order.split_at(counts.train);
        let first = |held_out: bool| -> Vec<usize> {
            let rows = 0..test.rows();
            let rows = rows.filter(|&row| is_held_out(test, row) == held_out);
            rows.take(counts.test).collect()
        };
        let class =
            |kind: u8| usize::from(kind - HELD_OUT.iter().filter(|&&out| out < kind).count() as u8);
        let (shape, rows) = (test.shape(), counts.test);
        Parts {
            train: Pictures::of(train, chosen, class)?,
            valid: Pictures::of(train, &rest[..counts.train / 5], class)?,
            test: Pictures::of(test, &first(false), class)?,
            foreign: vec![
                Pictures::of(test, &first(true), usize::from)?,
                self.digits(counts.test)?,
                Pictures::gratings(shape, rows, seed),
                Pictures::noise(shape, rows, seed),
            ],
        }
        .standardised()
    }
}

impl Parts {
    /// A split of pictures, with the share of every class in every part.
    pub(crate) fn of_split(all: &Pictures, foreign: Vec<Pictures>, number: u64) -> Result<Self> {
        let rows = stratified_partition(&all.classes, &SHARES, number)?;
        let part = |at: usize| all.select(&rows[at]);
        Self {
            train: part(0),
            valid: part(1),
            test: part(2),
            foreign,
        }
        .standardised()
    }

    /// The same, every channel with mean zero and variance one in the training rows.
    pub(crate) fn standardised(self) -> Result<Self> {
        let scales = self.train.scales()?;
        Ok(Self {
            train: self.train.scaled(&scales),
            valid: self.valid.scaled(&scales),
            test: self.test.scaled(&scales),
            foreign: self
                .foreign
                .into_iter()
                .map(|pictures| pictures.scaled(&scales))
                .collect(),
        })
    }
}

impl Pictures {
    /// All pictures of a MedMNIST set, whatever part they are published in; a grade from `threshold` on
    /// is class 1.
    pub(crate) fn medical(path: &Path, threshold: u8) -> Result<Self> {
        let set = read_medmnist(path)?;
        let class = |grade| usize::from(grade >= threshold);
        let mut all = Self::of_all(&set.train, class)?;
        for part in [&set.validation, &set.test] {
            let Self {
                pixels, classes, ..
            } = Self::of_all(part, class)?;
            all.pixels.extend(pixels);
            all.classes.extend(classes);
        }
        Ok(all)
    }

    fn of_all(images: &LabelledImages, class: impl Fn(u8) -> usize) -> Result<Self> {
        let rows: Vec<usize> = (0..images.rows()).collect();
        Self::of(images, &rows, class)
    }

    /// These rows, with pixels between 0 and 1.
    pub(crate) fn of(
        images: &LabelledImages,
        rows: &[usize],
        class: impl Fn(u8) -> usize,
    ) -> Result<Self> {
        let shape = images.shape();
        let mut pixels = Vec::with_capacity(rows.len() * shape.bytes());
        for picture in images.unit_pixels(rows)?.chunks_exact(shape.bytes()) {
            for channel in 0..shape.channels {
                pixels.extend(picture[channel..].iter().step_by(shape.channels));
            }
        }
        let classes = rows.iter().map(|&row| class(images.classes()[row]));
        Ok(Self {
            shape,
            pixels,
            classes: classes.collect(),
        })
    }

    /// Sine gratings of random frequency, direction and phase.
    pub(crate) fn gratings(shape: ImageShape, rows: usize, seed: u64) -> Self {
        let mut generator = generator(Noise::new(seed).fold(GRATINGS));
        let mut pixels = Vec::with_capacity(rows * shape.bytes());
        for _ in 0..rows {
            let turn = std::f32::consts::TAU;
            let [least, most] = PERIODS;
            let frequency = turn * generator.random_range(least..most) / shape.width as f32;
            let (across, along) = generator.random_range(0.0..turn).sin_cos();
            let phase = generator.random_range(0.0..turn);
            for _ in 0..shape.channels {
                for (y, x) in (0..shape.height).flat_map(|y| (0..shape.width).map(move |x| (y, x)))
                {
                    let place = across * x as f32 + along * y as f32;
                    pixels.push(0.5 + 0.5 * (frequency * place + phase).sin());
                }
            }
        }
        Self::unlabelled(shape, pixels)
    }

    /// Pixels that are independent and uniform.
    pub(crate) fn noise(shape: ImageShape, rows: usize, seed: u64) -> Self {
        let mut generator = generator(Noise::new(seed).fold(NOISE));
        let pixels = (0..rows * shape.bytes()).map(|_| generator.random_range(0.0..1.0));
        Self::unlabelled(shape, pixels.collect())
    }

    /// Generated pictures, without classes that mean something.
    fn unlabelled(shape: ImageShape, pixels: Vec<f32>) -> Self {
        Self {
            classes: vec![0; pixels.len() / shape.bytes()],
            shape,
            pixels,
        }
    }

    /// With three colours: grey pictures have the same in each.
    pub(crate) fn coloured(&self) -> Self {
        if self.shape.channels == COLOURS {
            return self.clone();
        }
        let planes = self.pixels.chunks_exact(self.plane());
        Self {
            pixels: planes.flat_map(|plane| plane.repeat(COLOURS)).collect(),
            shape: ImageShape {
                channels: COLOURS,
                ..self.shape
            },
            classes: self.classes.clone(),
        }
    }

    /// The number of pictures.
    pub(crate) fn rows(&self) -> usize {
        self.classes.len()
    }

    /// Some of them on a device.
    pub(crate) fn batch(&self, rows: &[usize], device: &Device) -> ImageBatch {
        let Self {
            shape,
            pixels,
            classes,
        } = self.select(rows);
        let classes: Vec<i64> = classes.into_iter().map(|class| class as i64).collect();
        let images = [rows.len(), shape.channels, shape.height, shape.width];
        ImageBatch {
            images: Tensor::from_data(TensorData::new(pixels, images), device),
            classes: Tensor::from_data(TensorData::new(classes, [rows.len()]), device),
        }
    }

    /// As [`Pictures::batch`], with every picture shifted at random by up to `most` pixels in both directions, and half of
    /// them mirrored. What comes in at an edge has the values of the edge.
    pub(crate) fn moved_batch(
        &self,
        rows: &[usize],
        most: usize,
        generator: &mut impl Rng,
        device: &Device,
    ) -> ImageBatch {
        let mut chosen = self.select(rows);
        let ImageShape { height, width, .. } = self.shape;
        let at = |place: usize, shift: usize, size: usize| {
            (place + shift).saturating_sub(most).min(size - 1)
        };
        for picture in chosen.pixels.chunks_exact_mut(self.shape.bytes()) {
            let [down, right] = [0, 1].map(|_| generator.random_range(0..=2 * most));
            let is_mirrored = generator.random_range(0..2) == 1;
            for plane in picture.chunks_exact_mut(height * width) {
                let before = plane.to_vec();
                for (place, pixel) in plane.iter_mut().enumerate() {
                    let (row, column) = (place / width, place % width);
                    let column = if is_mirrored {
                        width - 1 - column
                    } else {
                        column
                    };
                    *pixel = before[at(row, down, height) * width + at(column, right, width)];
                }
            }
        }
        chosen.batch(&(0..rows.len()).collect::<Vec<_>>(), device)
    }

    fn select(&self, rows: &[usize]) -> Self {
        let bytes = self.shape.bytes();
        let pixels = rows
            .iter()
            .flat_map(|&row| &self.pixels[row * bytes..][..bytes]);
        Self {
            shape: self.shape,
            pixels: pixels.copied().collect(),
            classes: rows.iter().map(|&row| self.classes[row]).collect(),
        }
    }

    /// Pixels of a picture.
    fn plane(&self) -> usize {
        self.shape.height * self.shape.width
    }

    /// The values of every channel.
    fn channels(&self) -> Vec<Vec<f64>> {
        let mut channels = vec![Vec::new(); self.shape.channels];
        for (at, values) in self.pixels.chunks_exact(self.plane()).enumerate() {
            channels[at % self.shape.channels].extend(values.iter().map(|&value| f64::from(value)));
        }
        channels
    }

    /// What standardises every channel.
    fn scales(&self) -> Result<Vec<ColumnScale>> {
        let channels = self.channels().into_iter();
        let scales = channels.map(|values| ColumnScale::fit(values, Scaling::Standardise));
        Ok(scales.collect::<Result<_, _>>()?)
    }

    fn scaled(mut self, scales: &[ColumnScale]) -> Self {
        let plane = self.plane();
        for (at, values) in self.pixels.chunks_exact_mut(plane).enumerate() {
            let scale = &scales[at % scales.len()];
            for value in values {
                *value = scale.apply(f64::from(*value)) as f32;
            }
        }
        self
    }
}

#[cfg(test)]
impl Pictures {
    /// Grey pictures of noise whose left or right half is bright, by class.
    pub(crate) fn bright_halves(rows: usize, seed: u64) -> Self {
        let shape = ImageShape {
            height: 28,
            width: 28,
            channels: 1,
        };
        let classes: Vec<usize> = (0..rows).map(|row| row % 2).collect();
        let noise = Noise::new(seed).latent(rows * shape.bytes());
        let light = |at: usize| {
            let (class, column) = (classes[at / shape.bytes()], at % shape.width);
            if (column < shape.width / 2) == (class == 0) {
                0.5
            } else {
                -0.5
            }
        };
        let pixels = noise
            .iter()
            .enumerate()
            .map(|(at, noise)| noise + light(at));
        Self {
            pixels: pixels.collect(),
            shape,
            classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pictures of one row of two pixels with three colours.
    fn colours() -> LabelledImages {
        let pixels = [0, 10, 20, 51, 61, 71, 100, 110, 120, 151, 161, 171];
        LabelledImages::of_arrays((&[2, 1, 2, 3], &pixels), &[1, 4])
    }

    #[test]
    fn colours_come_one_after_the_other() {
        let pictures = Pictures::of(&colours(), &[1, 0], |grade| usize::from(grade >= 2)).unwrap();
        assert_eq!(pictures.classes, [1, 0]);
        let bytes = [100, 151, 110, 161, 120, 171, 0, 51, 10, 61, 20, 71];
        let pixels = bytes.map(|byte: u8| f32::from(byte) / 255.0);
        assert_eq!(pictures.pixels, pixels);
        let batch = pictures.batch(&[1], &Device::default());
        assert_eq!(batch.images.dims(), [1, 3, 1, 2]);
        let values: Vec<f32> = batch.images.into_data().iter().collect();
        assert_eq!(values, pixels[6..]);
    }

    #[test]
    fn a_split_is_at_the_scale_of_its_training_rows() {
        let all = Pictures::bright_halves(40, 1);
        let parts = Parts::of_split(&all, Vec::new(), 3).unwrap();
        let rows = [&parts.train, &parts.valid, &parts.test].map(Pictures::rows);
        assert_eq!(rows, [20, 8, 12]);
        let moments = |pictures: &Pictures| {
            let values = &pictures.channels()[0];
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let square = values.iter().map(|value| value * value).sum::<f64>() / count;
            (mean, square - mean * mean)
        };
        let (mean, variance) = moments(&parts.train);
        assert!(
            mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-6,
            "{mean} {variance}"
        );
        assert!(moments(&parts.test).0.abs() > 1e-6);
        assert_ne!(
            parts.test,
            Parts::of_split(&all, Vec::new(), 4).unwrap().test
        );
    }
}
