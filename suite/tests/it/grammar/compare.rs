//! Compares the results of one call with the oracle at each draw of the weights.

use std::cell::OnceCell;
use std::ops::Range;

use super::oracle::{Expected, Setting};

/// A call with the correct result for each draw.
pub(crate) struct Call<'a> {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting<'a>,
    /// The results for each draw.
    pub(crate) weights: &'a [Vec<f32>],
    pub(crate) expected: Vec<Expected>,
    nudged: OnceCell<Vec<Vec<Expected>>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(name: &'static str, setting: Setting<'a>, weights: &'a [Vec<f32>]) -> Self {
        let expected = weights.iter().map(|weights| setting.expected(weights));
        Self {
            name,
            setting,
            weights,
            expected: expected.collect(),
            nudged: OnceCell::new(),
        }
    }

    /// Whether each example alone has the same loss as in the batch, at the first draws.
    pub(crate) fn has_meaning(&self, draws: usize) -> bool {
        self.expected[..draws]
            .iter()
            .all(|draw| draw.rows.is_some())
    }

    /// The difference between numbers of the first draws and a part of the expected ones, if any.
    pub(crate) fn difference(
        &self,
        found: &[f64],
        draws: usize,
        part: impl Fn(&Expected) -> Vec<f64>,
    ) -> Option<String> {
        self.beyond(found, draws, 0.0, part)
    }

    /// The same for numbers `[…, D]`, with a scale per parameter.
    pub(crate) fn differences(
        &self,
        found: &[f64],
        draws: usize,
        part: impl Fn(&Expected) -> Vec<f64>,
    ) -> Vec<String> {
        let layout = self.setting.layout;
        let expected: Vec<f64> = self.expected[..draws].iter().flat_map(&part).collect();
        if found.len() != expected.len() {
            return vec![count(found.len(), expected.len())];
        }
        let floor = 0.1 * largest(&expected);
        let differences = layout.entries().iter().filter_map(|entry| {
            let range = entry.offset..entry.offset + entry.len();
            let columns = |numbers: &[f64]| columns(numbers, layout.len(), &range);
            let part = |expected: &Expected| columns(&part(expected));
            let difference = self.beyond(&columns(found), draws, floor, part)?;
            Some(format!(
                "gradient of {} {:?}: {difference}",
                entry.path, entry.shape
            ))
        });
        differences.collect()
    }

    /// Larger than 1e-5 of the largest number, or of `floor`, and than rounding explains.
    fn beyond(
        &self,
        found: &[f64],
        draws: usize,
        floor: f64,
        part: impl Fn(&Expected) -> Vec<f64>,
    ) -> Option<String> {
        let expected: Vec<f64> = self.expected[..draws].iter().flat_map(&part).collect();
        if found.len() != expected.len() {
            return Some(count(found.len(), expected.len()));
        }
        let scale = largest(&expected).max(floor).max(1e-6);
        let (place, error) = worst(found, &expected);
        if error <= 1e-5 * scale {
            return None;
        }
        let rounding = self.rounding(draws, part);
        // Every operation in a chain rounds, not only the inputs, and a saturated softmax amplifies it.
        if error <= 1e-5 * scale + 16.0 * rounding {
            return None;
        }
        Some(format!(
            "{:.6e} at {place}, expected {:.6e} (largest {scale:.1e}, rounding {rounding:.0e})",
            found[place], expected[place]
        ))
    }

    /// How much a change of the last bits of the weights changes a part of the expected numbers.
    fn rounding(&self, draws: usize, part: impl Fn(&Expected) -> Vec<f64>) -> f64 {
        let nudged = self.nudged.get_or_init(|| {
            let nudged = self.weights.iter().map(|draw| self.setting.nudged(draw));
            nudged.collect()
        });
        let mut rounding = 0.0_f64;
        for (draw, nudged) in self.expected.iter().zip(nudged).take(draws) {
            let exact = part(draw);
            for near in nudged {
                rounding = rounding.max(worst(&part(near), &exact).1);
            }
        }
        rounding
    }
}

/// The columns of one parameter, from rows of all weights.
fn columns(numbers: &[f64], width: usize, range: &Range<usize>) -> Vec<f64> {
    let rows = numbers.chunks(width).map(|row| &row[range.clone()]);
    rows.collect::<Vec<_>>().concat()
}

/// The largest difference and its position; a NaN is larger than any number.
fn worst(found: &[f64], expected: &[f64]) -> (usize, f64) {
    let errors = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    errors.enumerate().fold((0, 0.0), |worst, (place, error)| {
        let is_worse = error > worst.1 || error.is_nan();
        if is_worse && !worst.1.is_nan() {
            (place, error)
        } else {
            worst
        }
    })
}

fn count(found: usize, expected: usize) -> String {
    format!("{found} numbers, expected {expected}")
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |max, x| max.max(x.abs()))
}
