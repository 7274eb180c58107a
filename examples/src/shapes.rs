//! Generated images for segmentation: discs and squares, and crosses that no training image shows.
//!
//! The brightness of a shape, its size, place and kind are random, and every pixel has Gaussian
//! noise. An image is a function of the seed and its number, so a set needs no memory.

use std::ops::Range;

use burn_bayes::Noise;

const FEWEST: usize = 2;
const MOST: usize = 4;
const NOISE_DEVIATION: f32 = 0.3;

/// A generator of noisy images of shapes, each with a class per pixel.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// Whether a third of the shapes are crosses, whose pixels have the label [`UNSEEN`](Self::UNSEEN).
    pub has_crosses: bool,
    /// Seed of the set.
    pub seed: u64,
}

/// An image and the class of every pixel, both row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeImage {
    /// Brightness, about 0 in the background and from 0.7 to 1.3 in a shape.
    pub pixels: Vec<f32>,
    /// 0 for background, 1 for a disc, 2 for a square, or [`Shapes::UNSEEN`].
    pub labels: Vec<usize>,
}

impl Shapes {
    /// Rows and columns of an image.
    pub const SIDE: usize = 24;
    /// Number of pixels of an image.
    pub const PIXELS: usize = Self::SIDE * Self::SIDE;
    /// Background, disc and square.
    pub const CLASSES: usize = 3;
    /// The label of the pixels of a cross.
    pub const UNSEEN: usize = 255;

    /// The images with these numbers.
    pub fn images(self, numbers: Range<u64>) -> Vec<ShapeImage> {
        numbers.map(|number| self.image(number)).collect()
    }

    fn image(self, number: u64) -> ShapeImage {
        let noise = Noise::new(self.seed).fold(number);
        let mut pixels = noise.fold(0).latent(Self::PIXELS);
        pixels
            .iter_mut()
            .for_each(|pixel| *pixel *= NOISE_DEVIATION);
        let mut brightness = vec![0.0; Self::PIXELS];
        let mut labels = vec![0; Self::PIXELS];
        let count = pick(noise.fold(1), FEWEST, MOST);
        for shape in 0..count as u64 {
            let noise = noise.fold(2 + shape);
            let kinds = if self.has_crosses { 3 } else { 2 };
            let label = match pick(noise.fold(0), 1, kinds) {
                3 => Self::UNSEEN,
                class => class,
            };
            let radius = pick(noise.fold(1), 3, 5);
            let centre = |key| pick(noise.fold(key), radius, Self::SIDE - 1 - radius);
            let (x, y) = (centre(2), centre(3));
            let lit = 0.7 + 0.6 * noise.fold(4).uniform() as f32;
            for pixel in 0..Self::PIXELS {
                let right = (pixel % Self::SIDE).abs_diff(x);
                let down = (pixel / Self::SIDE).abs_diff(y);
                // A later shape covers an earlier one.
                if is_inside(label, right, down, radius) {
                    brightness[pixel] = lit;
                    labels[pixel] = label;
                }
            }
        }
        for (pixel, lit) in pixels.iter_mut().zip(brightness) {
            *pixel += lit;
        }
        ShapeImage { pixels, labels }
    }
}

fn is_inside(label: usize, right: usize, down: usize, radius: usize) -> bool {
    match label {
        1 => right * right + down * down <= radius * radius,
        2 => right.max(down) < radius,
        _ => right.max(down) <= radius && right.min(down) <= 1,
    }
}

/// A number from `least` to `most`, both included.
fn pick(noise: Noise, least: usize, most: usize) -> usize {
    let choices = most - least + 1;
    least + ((noise.uniform() * choices as f64) as usize).min(choices - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_depend_on_seed_and_number_alone() {
        let shapes = Shapes {
            has_crosses: true,
            seed: 3,
        };
        assert_eq!(shapes.images(0..4)[2..], shapes.images(2..4));
        let other = Shapes { seed: 4, ..shapes };
        assert_ne!(shapes.images(0..1), other.images(0..1));
    }

    #[test]
    fn crosses_occur_only_on_request_and_shapes_are_brighter() {
        let set = |has_crosses| {
            Shapes {
                has_crosses,
                seed: 1,
            }
            .images(0..200)
        };
        let labels = |has_crosses| -> Vec<usize> {
            let all = set(has_crosses).into_iter().flat_map(|image| image.labels);
            let distinct: std::collections::BTreeSet<usize> = all.collect();
            distinct.into_iter().collect()
        };
        assert_eq!(labels(false), [0, 1, 2]);
        assert_eq!(labels(true), [0, 1, 2, Shapes::UNSEEN]);
        let mean = |label: usize| {
            let values: Vec<f32> = set(true)
                .into_iter()
                .flat_map(|image| image.pixels.into_iter().zip(image.labels))
                .filter_map(|(pixel, of_pixel)| (of_pixel == label).then_some(pixel))
                .collect();
            f64::from(values.iter().sum::<f32>()) / values.len() as f64
        };
        // The rarest label has over 5 000 pixels in over 100 shapes. The standard error is below
        // that of the brightness, 0.6/√12/√100 = 0.017, and the tolerance is 5 of them.
        for (label, expected) in [(0, 0.0), (1, 1.0), (2, 1.0), (Shapes::UNSEEN, 1.0)] {
            let found = mean(label);
            assert!((found - expected).abs() < 0.09, "{label}: {found}");
        }
    }
}
