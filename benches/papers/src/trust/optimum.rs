//! The least divergence of a family from a known Gaussian.

use burn_bayes::posterior::{DenseGaussian, FormKind};
use burn_bayes_tabular::error::Result;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Random starts beside those of the library; fewer for many weights, whose steps are expensive.
const RANDOM_STARTS: usize = 6;
const MANY_WEIGHTS: usize = 64;

/// The least KL(q‖`truth`) of a low-rank-plus-diagonal q of this form and rank, in nats.
pub(super) fn least_divergence(truth: &DenseGaussian, form: FormKind, rank: usize) -> Result<f64> {
    let curvature: Vec<f64> = truth.precision().diagonal().collect();
    let mut generator = StdRng::seed_from_u64(0);
    let count = match (rank, curvature.len()) {
        (0, _) => 0,
        (_, MANY_WEIGHTS..) => 1,
        _ => RANDOM_STARTS,
    };
    let mut start = || {
        let diagonal = curvature.iter().map(|h| match form {
            FormKind::Covariance => h.recip(),
            FormKind::Precision => *h,
        });
        let moved = diagonal.map(|value| value * f64::exp(generator.random_range(-2.0..2.0)));
        moved.collect()
    };
    let starts: Vec<Vec<f64>> = (0..count).map(|_| start()).collect();
    Ok(truth.nearest(form, rank, &starts)?.divergence)
}
