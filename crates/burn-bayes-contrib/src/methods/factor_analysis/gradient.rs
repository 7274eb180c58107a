//! Stochastic gradient ascent on the log-likelihood of a factor analysis model:
//!
//! ```text
//! ∇F = (m dᵀ − (Σ + m mᵀ) F) / ψ,   ∇log ψ = ½ [(d² − 2 d ⊙ Fᵀm + diag(Fᵀ(Σ + m mᵀ)F)) / ψ − 1]
//! ```

use burn_bayes::eval::Bounded;

use super::latent::Latent;

/// Moves the factors, K×D, and ψ by `rate` times the gradient at a deviation.
pub(super) fn ascend(
    rate: f64,
    latent: &Latent,
    deviation: &[f32],
    factors: &mut [f32],
    residual: &mut [f32],
) {
    let (rank, len) = (latent.mean.len(), deviation.len());
    let second = latent.second_moment();
    let second: Vec<f32> = second.as_slice().iter().map(|&x| x as f32).collect();
    let mean: Vec<f32> = latent.mean.iter().map(|&x| x as f32).collect();
    let rate = rate as f32;
    let (mut column, mut image) = (vec![0.0_f32; rank], vec![0.0_f32; rank]);
    for (at, (residual, &d)) in residual.iter_mut().zip(deviation).enumerate() {
        for (k, entry) in column.iter_mut().enumerate() {
            *entry = factors[k * len + at];
        }
        for (image, row) in image.iter_mut().zip(second.chunks_exact(rank)) {
            *image = dot(row, &column);
        }
        let error = d * d - 2.0 * d * dot(&mean, &column) + dot(&image, &column);
        let scale = rate / *residual;
        for (k, (m, image)) in mean.iter().zip(&image).enumerate() {
            factors[k * len + at] += scale * (m * d - image);
        }
        let step = 0.5 * rate * (error / *residual - 1.0);
        *residual = (*residual * step.exp()).at_least(f32::MIN_POSITIVE);
    }
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}
