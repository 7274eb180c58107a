//! Generated images of digits, so noisy that some of them cannot be distinguished.
//!
//! A digit is a 5×7 stencil at one of nine positions on a 9×11 canvas, with random brightness per
//! pixel and Gaussian noise. Row i of a set is a function of the set's seed and i.

use burn_bayes::Noise;

use crate::batches::ClassRow;
use crate::settings::is_smoke;

/// The digits, a row of bits per line.
pub(crate) const STENCILS: [[u8; 7]; 10] = [
    [
        0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110,
    ],
    [
        0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110,
    ],
    [
        0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111,
    ],
    [
        0b01110, 0b10001, 0b00001, 0b00110, 0b00001, 0b10001, 0b01110,
    ],
    [
        0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010,
    ],
    [
        0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110,
    ],
    [
        0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110,
    ],
    [
        0b11111, 0b00001, 0b00010, 0b00100, 0b00100, 0b01000, 0b01000,
    ],
    [
        0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110,
    ],
    [
        0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100,
    ],
];
const WIDTH: usize = 9;
const HEIGHT: usize = 11;

/// A generator of noisy digits.
#[derive(Clone, Copy, Debug)]
pub struct Glyphs {
    /// Standard deviation of the noise; the pixels of a stencil are about 1.
    pub noise: f32,
    /// Seed of the set.
    pub seed: u64,
}

impl Glyphs {
    /// Number of pixels of an image.
    pub const PIXELS: usize = WIDTH * HEIGHT;
    /// Rows and columns of an image.
    pub const SHAPE: [usize; 2] = [HEIGHT, WIDTH];
    /// Number of digits.
    pub const CLASSES: usize = STENCILS.len();

    /// Disjoint training, validation and test rows for the examples; small sets for a smoke run.
    pub fn sets(seed: u64) -> [Vec<ClassRow>; 3] {
        let counts = if is_smoke() {
            [160, 64, 100]
        } else {
            [2000, 500, 4000]
        };
        let mut set = 3 * seed;
        counts.map(|count| {
            set += 1;
            Self {
                noise: 0.35,
                seed: set,
            }
            .rows(count)
        })
    }

    /// The first `count` rows of the set.
    pub fn rows(self, count: usize) -> Vec<ClassRow> {
        (0..count as u64).map(|index| self.row(index)).collect()
    }

    /// The first `count` rows of the set with another question: does the digit have a loop?
    pub fn with_loops(self, count: usize) -> Vec<ClassRow> {
        let has_loop = |digit| usize::from([0, 6, 8, 9].contains(&digit));
        let rows = self.rows(count).into_iter();
        let rows = rows.map(|row| ClassRow {
            class: has_loop(row.class),
            ..row
        });
        rows.collect()
    }

    fn row(self, index: u64) -> ClassRow {
        let noise = Noise::new(self.seed).fold(index);
        let pick = |purpose: u64, choices: usize| {
            let uniform = noise.fold(purpose).uniform();
            ((uniform * choices as f64) as usize).min(choices - 1)
        };
        let class = pick(1, Self::CLASSES);
        let (right, down) = (1 + pick(2, 3), 1 + pick(3, 3));
        let mut pixels = noise.fold(4).latent(Self::PIXELS);
        pixels.iter_mut().for_each(|pixel| *pixel *= self.noise);
        let brightness = noise.fold(5).latent(5 * 7);
        for (y, bits) in STENCILS[class].iter().enumerate() {
            for x in (0..5).filter(|x| bits >> (4 - x) & 1 == 1) {
                let lit = 1.0 + 0.3 * brightness[5 * y + x];
                pixels[WIDTH * (down + y) + right + x] += lit;
            }
        }
        ClassRow {
            features: pixels,
            class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_depend_on_seed_and_number_alone() {
        let glyphs = Glyphs {
            noise: 0.5,
            seed: 3,
        };
        let (few, many) = (glyphs.rows(4), glyphs.rows(9));
        assert_eq!(few, many[..4]);
        assert_ne!(few[0], Glyphs { seed: 4, ..glyphs }.rows(1)[0]);
    }
}
