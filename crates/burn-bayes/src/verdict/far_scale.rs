//! Inputs and targets of a scale that the prior does not expect.
//!
//! Priors over weights are made for inputs and targets with means near 0 and deviations near 1. A column is far from them if
//!
//! * its deviation is larger than 10,
//! * all of its values lie within ±.1, and are not equal, or
//! * its mean is beyond ±1, and five deviations from 0.
//!
//! Indicators of 0 and 1 are never far.

use std::fmt;

use burn::tensor::Tensor;

use crate::kernels::composed::to_host;

const LARGEST_DEVIATION: f64 = 10.0;
const SMALLEST_VALUE: f64 = 0.1;
const LARGEST_MEAN: f64 = 1.0;
const MOST_DEVIATIONS: f64 = 5.0;

/// The first column of inputs or targets that is far, and the number of all of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FarScale {
    /// `input` or `target`.
    kind: &'static str,
    column: usize,
    mean: f64,
    deviation: f64,
    count: usize,
}

impl FarScale {
    /// That of these rows, if a column is far.
    pub(crate) fn of(kind: &'static str, rows: &Tensor<2>) -> Option<Self> {
        let [count, width] = rows.dims();
        if count < 2 || width == 0 {
            return None;
        }
        let means = to_host(rows.clone().mean_dim(0));
        let variances = to_host(rows.clone().var(0));
        let largest = to_host(rows.clone().abs().max_dim(0));
        let columns = means.into_iter().zip(variances).zip(largest).enumerate();
        let mut far = columns.filter_map(|(column, ((mean, variance), largest))| {
            let deviation = variance.sqrt();
            let is_small = deviation > 0.0 && largest < SMALLEST_VALUE;
            let is_off = mean.abs() > LARGEST_MEAN && mean.abs() > MOST_DEVIATIONS * deviation;
            (deviation > LARGEST_DEVIATION || is_small || is_off).then_some(Self {
                kind,
                column,
                mean,
                deviation,
                count: 1,
            })
        });
        let first = far.next()?;
        let count = 1 + far.count();
        Some(Self { count, ..first })
    }
}

impl fmt::Display for FarScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            column,
            mean,
            deviation,
            count,
        } = self;
        write!(
            f,
            "{kind} column {column} (from 0) has mean {mean:.3e} and deviation {deviation:.3e}"
        )?;
        if *count > 1 {
            write!(f, " ({count} {kind} columns are of such a scale)")?;
        }
        f.write_str(
            ", but the prior expects means near 0 and deviations near 1; standardise it: subtract the mean of the training rows, \
             and divide by their deviation",
        )
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn columns_far_from_the_standard_scale_are_named() {
        let rows = |columns: [[f64; 4]; 3]| {
            Tensor::<2>::from_data(columns, &Device::default()).transpose()
        };
        let (fine, indicator) = ([-2.0, 1.0, 3.0, 0.5], [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(
            FarScale::of("input", &rows([fine, indicator, [0.0; 4]])),
            None
        );
        for far in [
            [100.0, 300.0, 200.0, 400.0],
            [1e-4, -2e-4, 0.0, 3e-4],
            [2000.0, 2001.0, 2002.0, 1999.0],
            [500.0; 4],
        ] {
            let found = FarScale::of("input", &rows([fine, far, far])).unwrap();
            assert_eq!((found.column, found.count), (1, 2), "{far:?}");
            let text = found.to_string();
            assert!(text.contains("input column 1 (from 0)"), "{text}");
        }
    }
}
