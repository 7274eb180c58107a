//! Means with standard errors.

use burn_bayes::eval::ClusteredMean;

use crate::rows::Units;

/// The mean of a score over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; `None` for a single run.
    pub standard_error: Option<f64>,
    /// Number of values.
    pub runs: usize,
}

impl Summary {
    /// The summary of runs of a cross-validation, whose training rows overlap, by the correction of Nadeau and Bengio
    /// (2003): the variance of the mean is s²·(1/n + ρ), with ρ the number of test rows divided by that of training rows.
    pub fn of_overlapping(values: &[f64], test_to_train: f64) -> Option<Self> {
        let plain = Self::of(values)?;
        let factor = (1.0 + plain.runs as f64 * test_to_train).sqrt();
        Some(Self {
            standard_error: plain.standard_error.map(|error| factor * error),
            ..plain
        })
    }

    /// The summary of values of rows, the independent ones of which are these units.
    pub(crate) fn of_rows(values: &[f64], units: &Units) -> Option<Self> {
        let plain = Self::of(values)?;
        // The NLL of a row may be infinite, and then there is no standard error.
        let clustered = units.clusters().map(|of| ClusteredMean::of(values, of));
        Some(match clustered {
            Some(Ok(found)) => Self {
                standard_error: found.standard_error,
                ..plain
            },
            Some(Err(_)) | None => plain,
        })
    }

    /// The summary of the differences of rows, value minus other.
    pub(crate) fn of_differences(values: &[f64], others: &[f64], units: &Units) -> Option<Self> {
        let differences = values
            .iter()
            .zip(others)
            .map(|(value, other)| value - other);
        Self::of_rows(&differences.collect::<Vec<_>>(), units)
    }

    /// The summary of these independent values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        let count = runs as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (runs > 0).then(|| Self {
            mean,
            standard_error: (runs > 1).then(|| (squares / (count - 1.0) / count).sqrt()),
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_errors_are_those_of_means() {
        let summary = Summary::of(&[1.0, 3.0]).unwrap();
        // The sample standard deviation is √2, and n is 2.
        assert_eq!((summary.mean, summary.standard_error), (2.0, Some(1.0)));
        assert_eq!(Summary::of(&[5.0]).unwrap().standard_error, None);
        assert_eq!(Summary::of(&[]), None);
        // 1/2 + 3/2 in the place of 1/2.
        let overlapping = Summary::of_overlapping(&[1.0, 3.0], 1.5).unwrap();
        assert!((overlapping.standard_error.unwrap() - 2.0).abs() < 1e-15);
    }
}
