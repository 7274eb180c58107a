//! Generated pictures of digits, some of which cannot be read, and pictures of other things.
//!
//! A stencil of 5×7 cells is turned, scaled and moved at random on a canvas of 16×16 pixels, with a
//! random brightness and Gaussian noise. Picture i of a set is a function of the set's seed and i.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::Noise;
use burn_bayes::train::Batches;

use crate::batches::ClassRow;
use crate::glyphs::STENCILS;
use crate::image_net::ImageBatch;
use crate::settings::is_smoke;

/// Letters that are not like a digit: A, E, F, H, K, L, N, T, X and Y.
const LETTERS: [[u8; 7]; 10] = [
    [
        0b01110, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001,
    ],
    [
        0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b11111,
    ],
    [
        0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000,
    ],
    [
        0b10001, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001,
    ],
    [
        0b10001, 0b10010, 0b10100, 0b11000, 0b10100, 0b10010, 0b10001,
    ],
    [
        0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b11111,
    ],
    [
        0b10001, 0b11001, 0b10101, 0b10011, 0b10001, 0b10001, 0b10001,
    ],
    [
        0b11111, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100,
    ],
    [
        0b10001, 0b10001, 0b01010, 0b00100, 0b01010, 0b10001, 0b10001,
    ],
    [
        0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00100,
    ],
];
const SIDE: usize = 16;
const NOISE_DEVIATION: f32 = 0.4;

/// What a set of pictures shows. All but the digits are foreign to a network that was trained on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureKind {
    /// Digits, upright.
    Digits,
    /// Letters, upright.
    Letters,
    /// Digits, turned by a quarter.
    Sideways,
    /// Digits, dark on a bright ground.
    Negatives,
    /// Digits whose pixels are in a random order.
    Shuffled,
}

impl PictureKind {
    /// All kinds that no training picture is of.
    pub const FOREIGN: [Self; 4] = [
        Self::Letters,
        Self::Sideways,
        Self::Negatives,
        Self::Shuffled,
    ];
}

/// A generator of noisy pictures.
#[derive(Clone, Copy, Debug)]
pub struct Pictures {
    /// What they show.
    pub kind: PictureKind,
    /// Seed of the set.
    pub seed: u64,
}

impl Pictures {
    /// Rows and columns of a picture.
    pub const SIDE: usize = SIDE;
    /// Number of pixels of a picture.
    pub const PIXELS: usize = SIDE * SIDE;
    /// Number of digits.
    pub const CLASSES: usize = STENCILS.len();

    /// Disjoint training, validation and test digits; small sets for a smoke run.
    pub fn digits(seed: u64) -> [Vec<ClassRow>; 3] {
        let counts = if is_smoke() {
            [160, 50, 60]
        } else {
            [4000, 1000, 2000]
        };
        let kind = PictureKind::Digits;
        let mut set = 10 * seed;
        counts.map(|count| {
            set += 1;
            Self { kind, seed: set }.rows(count)
        })
    }

    /// A set of foreign pictures, smaller for a smoke run. Their classes are those of the stencils.
    pub fn foreign(kind: PictureKind, seed: u64) -> Vec<ClassRow> {
        let set = Self {
            kind,
            seed: 10 * seed + 4,
        };
        set.rows(if is_smoke() { 40 } else { 1000 })
    }

    /// The first `count` pictures of the set.
    pub fn rows(self, count: usize) -> Vec<ClassRow> {
        (0..count as u64).map(|index| self.row(index)).collect()
    }

    fn row(self, index: u64) -> ClassRow {
        let noise = Noise::new(self.seed).fold(index);
        let class = pick(noise.fold(1), 0, Self::CLASSES - 1);
        let stencil = match self.kind {
            PictureKind::Letters => &LETTERS[class],
            _ => &STENCILS[class],
        };
        let brightness = 0.5 + 0.8 * noise.fold(2).uniform() as f32;
        let shape = drawn(stencil, noise.fold(3));
        let background = noise.fold(4).latent(Self::PIXELS);
        let pixels = shape.iter().zip(background);
        let pixels: Vec<f32> = pixels
            .map(|(shape, noise)| brightness * shape + NOISE_DEVIATION * noise)
            .collect();
        let features = match self.kind {
            PictureKind::Digits | PictureKind::Letters => pixels,
            PictureKind::Sideways => {
                let turned = |pixel| pixels[SIDE * (pixel % SIDE) + SIDE - 1 - pixel / SIDE];
                (0..Self::PIXELS).map(turned).collect()
            }
            PictureKind::Negatives => pixels.iter().map(|pixel| 1.0 - pixel).collect(),
            PictureKind::Shuffled => {
                let order = shuffled_order(Self::PIXELS, noise.fold(5));
                order.into_iter().map(|pixel| pixels[pixel]).collect()
            }
        };
        ClassRow { features, class }
    }
}

/// A stencil on the canvas, between 0 and 1, at a random angle, size and place.
fn drawn(stencil: &[u8; 7], noise: Noise) -> Vec<f32> {
    let [angle, right, down] = noise.fold(0).latent(3)[..] else {
        return Vec::new();
    };
    let (sine, cosine) = (0.15 * angle).sin_cos();
    let cell = 1.5 + 0.4 * noise.fold(1).uniform() as f32;
    let centre = (SIDE - 1) as f32 / 2.0;
    // 1 in a lit cell, 0 outside, linear between the centres of cells.
    let lit = |x: i32, y: i32| {
        let is_inside = (0..5).contains(&x) && (0..7).contains(&y);
        f32::from(is_inside && stencil[y.max(0) as usize % 7] >> (4 - x.clamp(0, 4)) & 1 == 1)
    };
    let value = |pixel: usize| {
        let x = (pixel % SIDE) as f32 - centre - right;
        let y = (pixel / SIDE) as f32 - centre - down;
        let x = (cosine * x + sine * y) / cell + 2.0;
        let y = (cosine * y - sine * x) / cell + 3.0;
        let (left, top) = (x.floor(), y.floor());
        let (x, y) = (x - left, y - top);
        let (left, top) = (left as i32, top as i32);
        let row = |y| (1.0 - x) * lit(left, y) + x * lit(left + 1, y);
        (1.0 - y) * row(top) + y * row(top + 1)
    };
    (0..SIDE * SIDE).map(value).collect()
}

// ANCHOR: batch
/// A mini-batch of pictures, `[rows, 16, 16]`, and their classes.
pub fn picture_batch(rows: &[ClassRow], device: &Device) -> ImageBatch {
    let pixels: Vec<f32> = rows.iter().flat_map(|row| row.features.clone()).collect();
    let labels: Vec<i64> = rows.iter().map(|row| row.class as i64).collect();
    ImageBatch {
        images: Tensor::from_data(TensorData::new(pixels, [rows.len(), SIDE, SIDE]), device),
        labels: Tensor::from_data(labels.as_slice(), device),
    }
}
// ANCHOR_END: batch

// ANCHOR: augmented
/// Training pictures in mini-batches. Every epoch has them in another order, each moved by up to a pixel, with another
/// brightness and additional noise.
#[derive(Clone, Debug)]
pub struct AugmentedPictures {
    /// The pictures as they are.
    pub rows: Vec<ClassRow>,
    /// Pictures per mini-batch.
    pub batch_size: usize,
    /// Of which all changes are functions, with the epoch and the number of the picture.
    pub noise: Noise,
    /// The device of the mini-batches.
    pub device: Device,
}

impl Batches for AugmentedPictures {
    type Batch = ImageBatch;

    fn per_epoch(&self) -> usize {
        self.rows.len().div_ceil(self.batch_size)
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = ImageBatch> {
        let noise = self.noise.fold(epoch as u64);
        let order = shuffled_order(self.rows.len(), noise);
        (first..self.per_epoch()).map(move |number| {
            let rows = order.iter().skip(number * self.batch_size);
            let rows: Vec<ClassRow> = rows
                .take(self.batch_size)
                .map(|&row| augmented(&self.rows[row], noise.fold(row as u64)))
                .collect();
            picture_batch(&rows, &self.device)
        })
    }
}

fn augmented(row: &ClassRow, noise: Noise) -> ClassRow {
    let (right, down) = (pick(noise.fold(0), 0, 2), pick(noise.fold(1), 0, 2));
    let brightness = 0.9 + 0.2 * noise.fold(2).uniform() as f32;
    let mut features = noise.fold(3).latent(Pictures::PIXELS);
    features.iter_mut().for_each(|pixel| *pixel *= 0.1);
    for y in 0..SIDE {
        for x in 0..SIDE {
            // A pixel from outside of the canvas is 0, the mean of the background.
            let (from_x, from_y) = (x + right, y + down);
            if (1..=SIDE).contains(&from_x) && (1..=SIDE).contains(&from_y) {
                let pixel = row.features[SIDE * (from_y - 1) + from_x - 1];
                features[SIDE * y + x] += brightness * pixel;
            }
        }
    }
    ClassRow {
        features,
        class: row.class,
    }
}
// ANCHOR_END: augmented

/// The numbers 0..count in random order.
fn shuffled_order(count: usize, noise: Noise) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let keys = noise.latent(count);
    order.sort_by(|&one, &other| keys[one].total_cmp(&keys[other]));
    order
}

/// A number from `least` to `most`, both included.
fn pick(noise: Noise, least: usize, most: usize) -> usize {
    let choices = most - least + 1;
    least + ((noise.uniform() * choices as f64) as usize).min(choices - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(kind: PictureKind, seed: u64) -> Vec<ClassRow> {
        Pictures { kind, seed }.rows(20)
    }

    #[test]
    fn pictures_depend_on_seed_and_number_alone() {
        let digits = set(PictureKind::Digits, 3);
        let few = Pictures {
            kind: PictureKind::Digits,
            seed: 3,
        };
        assert_eq!(digits[..4], few.rows(4));
        assert_ne!(digits[0], set(PictureKind::Digits, 4)[0]);
    }

    #[test]
    fn foreign_pictures_are_digits_that_are_changed() {
        let digits = set(PictureKind::Digits, 3);
        for kind in PictureKind::FOREIGN {
            for (digit, foreign) in digits.iter().zip(set(kind, 3)) {
                assert_ne!(digit.features, foreign.features, "{kind:?}");
                let sorted = |row: &ClassRow, change: fn(f32) -> f32| {
                    let mut pixels: Vec<f32> =
                        row.features.iter().map(|&pixel| change(pixel)).collect();
                    pixels.sort_by(f32::total_cmp);
                    pixels
                };
                match kind {
                    PictureKind::Negatives => {
                        assert_eq!(sorted(digit, |pixel| 1.0 - pixel), sorted(&foreign, |p| p));
                    }
                    PictureKind::Letters | PictureKind::Digits => {}
                    PictureKind::Sideways | PictureKind::Shuffled => {
                        assert_eq!(sorted(digit, |pixel| pixel), sorted(&foreign, |p| p));
                    }
                }
            }
        }
    }

    #[test]
    fn an_epoch_has_every_picture_once_and_changes_it() {
        let rows = set(PictureKind::Digits, 1);
        let batches = AugmentedPictures {
            rows: rows.clone(),
            batch_size: 6,
            noise: Noise::new(2),
            device: Device::default(),
        };
        let classes = |epoch, first| -> Vec<i64> {
            let batches = batches.epoch(epoch, first);
            batches
                .flat_map(|batch| batch.labels.into_data().iter::<i64>().collect::<Vec<_>>())
                .collect()
        };
        let mut all = classes(0, 0);
        assert_eq!(all[12..], classes(0, 2));
        assert_ne!(all, classes(1, 0));
        all.sort_unstable();
        let mut expected: Vec<i64> = rows.iter().map(|row| row.class as i64).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn an_augmented_picture_is_near_one_of_nine_places() {
        let row = &set(PictureKind::Digits, 1)[0];
        for number in 0..30 {
            let found = augmented(row, Noise::new(number));
            let distance = |right: usize, down: usize| {
                let inside = (1..SIDE - 1).flat_map(|y| (1..SIDE - 1).map(move |x| (x, y)));
                let squares = inside.map(|(x, y)| {
                    let from = SIDE * (y + down - 1) + x + right - 1;
                    (found.features[SIDE * y + x] - row.features[from]).powi(2)
                });
                (squares.sum::<f32>() / 196.0).sqrt()
            };
            let places = (0..3).flat_map(|right| (0..3).map(move |down| (right, down)));
            let least = places.map(|(right, down)| distance(right, down));
            let least = least.fold(f32::INFINITY, f32::min);
            // The noise of 0.1, and a tenth of pixels whose mean square is below 1; other places are at least .5 apart.
            assert!(least < 0.25, "{number}: {least}");
        }
    }
}
