//! The distances of an approximate posterior from the true one, as the VIFA paper reports them.

use burn_bayes::posterior::{DenseGaussian, GaussianDistance};

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::scores::Measures;

use super::experiment::Column;

pub(crate) const MEAN: &str = "relative_mean";
pub(crate) const COVARIANCE: &str = "relative_covariance";
pub(crate) const WASSERSTEIN: &str = "scaled_wasserstein";

/// All three.
pub(crate) const MEASURES: [&str; 3] = [MEAN, COVARIANCE, WASSERSTEIN];

/// The columns of their tables.
pub(crate) const COLUMNS: [Column; 3] = [
    Column::mean(MEAN, "relative mean"),
    Column::mean(COVARIANCE, "relative covariance"),
    Column::mean(WASSERSTEIN, "W₂/D"),
];

/// A distance in a published setting may be so many times the published one, which is of one run.
pub(crate) const ALIKE: f64 = 1.5;

/// How far `found` is from `truth`.
pub(crate) fn measures(truth: &DenseGaussian, found: &DenseGaussian) -> Result<Measures> {
    let distance = GaussianDistance::between(truth, found)?;
    Ok(Measures::from([
        (MEAN.into(), distance.relative_mean),
        (COVARIANCE.into(), distance.relative_covariance),
        (WASSERSTEIN.into(), distance.scaled_wasserstein),
    ]))
}
