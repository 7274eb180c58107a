//! The rows of an experiment as a logistic regression of the library, and functions of margins.

use burn_bayes::posterior::DenseGaussian;
use burn_bayes_contrib::methods::{LogisticPosterior, LogisticRegression};

use burn_bayes_tabular::error::Result;

use super::linear_model::Rows;

/// −ELBO per row, under a prior of this precision.
pub(crate) fn bound(rows: &Rows, gaussian: &DenseGaussian, prior: f64) -> Result<f64> {
    let bound = with(rows, prior, |rows| rows.negative_bound(gaussian))?;
    Ok(bound / rows.len() as f64)
}

/// The mean over rows of −log E σ(t f).
pub(crate) fn nll(rows: &Rows, gaussian: &DenseGaussian) -> Result<f64> {
    with(rows, 1.0, |rows| rows.nll(gaussian))
}

/// The Gaussian of this kind; with the Hessian it is the best of its family by the bound.
pub(crate) fn posterior(rows: &Rows, prior: f64, kind: LogisticPosterior) -> Result<DenseGaussian> {
    with(rows, prior, |rows| rows.posterior(kind))
}

fn with<T>(
    rows: &Rows,
    prior: f64,
    call: impl FnOnce(&LogisticRegression<'_>) -> burn_bayes::Result<T>,
) -> Result<T> {
    let classes: Vec<bool> = rows.targets.iter().map(|&target| target > 0.0).collect();
    let rows = LogisticRegression::new(&rows.inputs, &classes, prior)?;
    Ok(call(&rows)?)
}

pub(crate) fn sigmoid(z: f64) -> f64 {
    (1.0 + (-z).exp()).recip()
}

pub(crate) fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

/// `target` += `scale` · `source`
pub(crate) fn add(target: &mut [f64], scale: f64, source: &[f64]) {
    let entries = target.iter_mut().zip(source);
    entries.for_each(|(entry, source)| *entry += scale * source);
}
