//! Tick marks of axes: round numbers, and on logarithmic axes 1, 2 and 5 times powers of ten.

use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::text::tick;

/// The coordinate of an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruler {
    limits: (f64, f64),
    scale: Scale,
}

/// The quantity that an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The coordinates themselves.
    Linear,
    /// Numbers whose decimal logarithms are the coordinates.
    Logarithmic,
}

impl Ruler {
    /// An axis between two coordinates, which must differ.
    pub(crate) fn new(limits: (f64, f64), scale: Scale) -> Self {
        Self { limits, scale }
    }

    fn linear(&self) -> RangedCoordf64 {
        self.range().into()
    }
}

impl Ranged for Ruler {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.linear().map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear().key_points(hint),
            Scale::Logarithmic => log_marks(self.range(), hint.max_num_points()),
        }
    }

    fn range(&self) -> Range<f64> {
        self.limits.0..self.limits.1
    }
}

/// At most about `most` exponents of round numbers. Less than a factor of about ten has marks in equal steps.
fn log_marks(exponents: Range<f64>, most: usize) -> Vec<f64> {
    if most == 0 {
        return Vec::new();
    }
    let decades = exponents.start.floor() as i32..=exponents.end.floor() as i32;
    let of_digits = |digits: &[f64]| -> Vec<f64> {
        let all = decades.clone().flat_map(|decade| {
            digits
                .iter()
                .map(move |digit| f64::from(decade) + digit.log10())
        });
        // Rounding must not hide a mark at the end of the axis.
        let (low, high) = (exponents.start - 1e-9, exponents.end + 1e-9);
        all.filter(|mark| (low..=high).contains(mark)).collect()
    };
    for digits in [&[1.0, 2.0, 5.0][..], &[1.0]] {
        let marks = of_digits(digits);
        if marks.len() <= most {
            if marks.len() > 1 || digits.len() == 1 {
                return marks;
            }
            let (low, high) = (10f64.powf(exponents.start), 10f64.powf(exponents.end));
            let steps = RangedCoordf64::from(low..high).key_points(BoldPoints(most));
            return steps.into_iter().map(f64::log10).collect();
        }
    }
    let decades = of_digits(&[1.0]);
    let step = decades.len().div_ceil(most);
    decades.into_iter().step_by(step).collect()
}

/// The label of a mark of a logarithmic axis.
pub(crate) fn log_tick(exponent: f64) -> String {
    let decade = 10f64.powf(exponent.floor());
    // Rounded to three digits, to undo the rounding of the logarithm.
    let mantissa = (100.0 * 10f64.powf(exponent - exponent.floor())).round() / 100.0;
    tick(mantissa * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, most: usize) -> Vec<String> {
        let marks = log_marks(low.log10()..high.log10(), most);
        marks.into_iter().map(log_tick).collect()
    }

    #[test]
    fn marks_of_logarithmic_axes_are_round() {
        assert_eq!(
            labels(0.1, 10.0, 7),
            ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
        );
        assert_eq!(labels(0.013, 0.7, 6), ["0.02", "0.05", "0.1", "0.2", "0.5"]);
        assert_eq!(labels(3e-5, 4e-4, 5), ["5e−5", "1e−4", "2e−4"]);
        assert_eq!(
            labels(0.02, 3e4, 6),
            ["0.1", "1", "10", "100", "1000", "10000"]
        );
        assert_eq!(
            labels(1e-12, 10.0, 5),
            ["1e−12", "1e−9", "1e−6", "0.001", "1"]
        );
        assert_eq!(labels(1e3, 1e4, 0), [""; 0]);
    }

    #[test]
    fn a_short_logarithmic_axis_has_equal_steps() {
        let marks = labels(0.0011, 0.0019, 5);
        assert!(marks.len() > 2, "{marks:?}");
        let values: Vec<f64> = marks.iter().map(|mark| mark.parse().unwrap()).collect();
        let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            steps.iter().all(|step| (step - steps[0]).abs() < 1e-9),
            "{values:?}"
        );
        assert_eq!(
            labels(1.2e-5, 1.4e-5, 3).first().unwrap().chars().next(),
            Some('1')
        );
    }
}
