//! Pareto-smoothed importance sampling: does q approximate p, and what do draws of q say about p?
//!
//! S draws θ_s ~ q have the log ratios r_s = ln p(D, θ_s) − ln q(θ_s), up to a constant. The weights
//! w_s ∝ exp r_s correct averages over q to averages over the posterior, unless a few large ratios
//! dominate. The tail, the M = ⌈min(S/5, 3√S)⌉ largest ratios, is compared with a generalised Pareto
//! distribution. With u the largest ratio below the tail and x₁ ≤ … ≤ x_M the exceedances exp r − u:
//!
//!   density      g(x) = (1/σ)(1 + kx/σ)^{−1/k−1};  moments of order 1/k and above do not exist
//!   smoothing    x_j → G⁻¹((j − ½)/M) = (σ/k)((1 − (j − ½)/M)^{−k} − 1),  at most the largest ratio
//!
//! and k̂ and σ̂ are the estimates of Zhang and Stephens with b = −k/σ, m = 30 + ⌊√M⌋, i = 1…m:
//!
//!   b_i = 1/x_M + (1 − √(m/(i − ½)))/(3 x_⌊M/4+½⌋)
//!   k(b) = (1/M) Σ_j ln(1 − b x_j),   ℓ(b) = M (ln(−b/k(b)) − k(b) − 1)
//!   b̂ = Σ_i b_i exp ℓ(b_i) / Σ_i exp ℓ(b_i),   σ̂ = −k(b̂)/b̂,   k̂ = (M k(b̂) + 10·½)/(M + 10)
//!
//! The last step is a weak prior: ten more exceedances with k = ½. Averages are reliable if
//! k̂ < min(1 − 1/log₁₀ S, 0.7).
//!
//! A large k̂ means that q is far from the posterior somewhere that matters. It does not say why: the
//! fit may not have converged, or its family may not contain a good approximation. In high dimension
//! (above some thousands of weights) k̂ is large for every approximation that is not nearly exact.
//!
//! Departures from the reference implementations: draws with equal ratios share the mean of their
//! smoothed weights, so the result does not depend on the order of the draws; and if ties leave
//! fewer than five ratios in the tail, it is extended to the next smaller ratio.
//!
//! References: A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance
//! sampling" (2024); J. Zhang and M. A. Stephens, "A new and efficient estimation method for the
//! generalized Pareto distribution" (2009); Y. Yao, A. Vehtari, D. Simpson and A. Gelman, "Yes, but
//! did it work? Evaluating variational inference" (2018).

use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{ascending, mean, tie_groups};

/// Smoothed importance weights of draws, and the diagnostic k̂ of their reliability.
///
/// ```
/// use burn_bayes_eval::{ParetoSmoothing, uniforms};
///
/// // p(θ) = 2θ and q uniform on (0, 1): the ratios are bounded.
/// let draws = uniforms(1000, 7);
/// let log_ratios: Vec<f64> = draws.iter().map(|draw| draw.ln()).collect();
/// let smoothing = ParetoSmoothing::new(&log_ratios)?;
/// assert!(smoothing.is_reliable());
///
/// // The mean is 2/3 under p and 1/2 under q.
/// assert!((smoothing.mean(&draws)? - 2.0 / 3.0).abs() < 0.03);
/// assert!((smoothing.effective_sample_size() / 1000.0 - 0.75).abs() < 0.05);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoSmoothing {
    pareto_k: f64,
    log_weights: Vec<f64>,
}

impl ParetoSmoothing {
    /// Smooths the ratios ln p(D, θ_s) − ln q(θ_s) of independent draws θ_s of q. A constant that
    /// is added to all of them changes nothing.
    ///
    /// # Errors
    /// A data error if there are no draws or a ratio is not finite; it names the draw.
    pub fn new(log_ratios: &[f64]) -> Result<Self, EvalError> {
        check::not_empty("log ratios", log_ratios.len())?;
        if let Some(draw) = log_ratios.iter().position(|ratio| !ratio.is_finite()) {
            let place = Place::draw(draw);
            return Err(check::not_finite("log ratios", place, log_ratios[draw]));
        }
        let largest = log_ratios.iter().copied().fold(f64::MIN, f64::max);
        let shifted: Vec<f64> = log_ratios.iter().map(|ratio| ratio - largest).collect();
        let (pareto_k, mut log_weights) = smooth(&shifted);
        let sum: f64 = log_weights.iter().map(|weight| weight.exp()).sum();
        for weight in &mut log_weights {
            *weight -= sum.ln();
        }
        Ok(Self {
            pareto_k,
            log_weights,
        })
    }

    /// k̂, the estimated shape of the tail of the ratios.
    ///
    /// It is −∞ if all ratios are equal, as for an exact posterior, and ∞ if the tail has fewer
    /// than five draws, so that nothing can be estimated: for 20 draws or fewer, or if ratios
    /// differ so much that fewer than five weights are above zero in double precision.
    pub fn pareto_k(&self) -> f64 {
        self.pareto_k
    }

    /// min(1 − 1/log₁₀ S, 0.7): below it, S draws are enough for averages with these weights.
    pub fn pareto_k_threshold(&self) -> f64 {
        (1.0 - 1.0 / (self.log_weights.len() as f64).log10()).min(0.7)
    }

    /// Whether k̂ is below its threshold.
    pub fn is_reliable(&self) -> bool {
        self.pareto_k < self.pareto_k_threshold()
    }

    /// Logarithms of the smoothed weights of the draws; the weights sum to 1.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// The smoothed weights of the draws, which sum to 1.
    pub fn weights(&self) -> Vec<f64> {
        self.log_weights.iter().map(|weight| weight.exp()).collect()
    }

    /// 1/Σ w_s²: the number of draws of the posterior itself that would be about as informative.
    /// Meaningless unless [`is_reliable`](Self::is_reliable).
    pub fn effective_sample_size(&self) -> f64 {
        let squares = self.log_weights.iter().map(|weight| (2.0 * weight).exp());
        1.0 / squares.sum::<f64>()
    }

    /// Σ w_s h_s, the self-normalised estimate of the posterior mean of h from one value per draw.
    ///
    /// # Errors
    /// A data error if there is not one value per draw, or a value is not finite.
    pub fn mean(&self, values: &[f64]) -> Result<f64, EvalError> {
        let what = "values of the draws";
        check::same_length(what, values.len(), self.log_weights.len())?;
        if let Some(draw) = values.iter().position(|value| !value.is_finite()) {
            return Err(check::not_finite(what, Place::draw(draw), values[draw]));
        }
        let terms = self.log_weights.iter().zip(values);
        Ok(terms.map(|(weight, value)| weight.exp() * value).sum())
    }
}

/// Fewer exceedances do not determine a shape.
const SMALLEST_TAIL: usize = 5;

/// Logarithm of the smallest weight, relative to the largest, that a tail may contain.
const SMALLEST_LOG_WEIGHT: f64 = -708.396_418_532_264_1; // ln f64::MIN_POSITIVE

/// k̂ and the smoothed log ratios, before normalisation; the largest of `log_ratios` is 0.
fn smooth(log_ratios: &[f64]) -> (f64, Vec<f64>) {
    let mut smoothed = log_ratios.to_vec();
    let order = ascending(log_ratios);
    let sorted: Vec<f64> = order.iter().map(|&draw| log_ratios[draw]).collect();
    let tail = tail_length(sorted.len());
    let Some(cutoff) = cutoff(&sorted, tail) else {
        let is_constant = sorted[0] == 0.0 && tail >= SMALLEST_TAIL;
        let unknown = f64::INFINITY;
        return (if is_constant { -unknown } else { unknown }, smoothed);
    };
    let below = sorted.partition_point(|&ratio| ratio <= cutoff);
    // In units of the ratio at the cutoff, so that small exceedances keep their precision.
    let exceedances: Vec<f64> = sorted[below..]
        .iter()
        .map(|ratio| (ratio - cutoff).exp_m1())
        .collect();
    let pareto = GeneralisedPareto::fit(&exceedances);

    let mut rank = 0.5;
    for group in tie_groups(&order[below..], log_ratios) {
        let mut sum = 0.0;
        for _ in group {
            let quantile = pareto.quantile(rank / exceedances.len() as f64);
            sum += (cutoff + quantile.ln_1p()).min(0.0).exp();
            rank += 1.0;
        }
        for &draw in group {
            smoothed[draw] = (sum / group.len() as f64).ln();
        }
    }
    (pareto.shape, smoothed)
}

fn tail_length(draws: usize) -> usize {
    let draws = draws as f64;
    (draws / 5.0).min(3.0 * draws.sqrt()).ceil() as usize
}

/// The ratio above which the tail begins; `None` if fewer than five draws exceed any such ratio.
fn cutoff(sorted: &[f64], tail: usize) -> Option<f64> {
    if tail < SMALLEST_TAIL {
        return None;
    }
    let fifth = sorted[sorted.len() - SMALLEST_TAIL];
    let ratios_below_fifth = sorted.partition_point(|&ratio| ratio < fifth);
    // Without ties, the first of the two is the smaller one.
    let last = (sorted.len() - tail)
        .min(ratios_below_fifth)
        .checked_sub(1)?;
    let cutoff = sorted[last].max(SMALLEST_LOG_WEIGHT);
    (cutoff < fifth).then_some(cutoff)
}

/// The generalised Pareto distribution of exceedances x > 0.
#[derive(Debug, Clone, Copy)]
struct GeneralisedPareto {
    shape: f64,
    scale: f64,
}

impl GeneralisedPareto {
    /// Estimates both parameters from ascending exceedances.
    fn fit(exceedances: &[f64]) -> Self {
        let number = exceedances.len() as f64;
        let candidates = 30 + number.sqrt() as usize;
        let quartile = exceedances[(number / 4.0 + 0.5) as usize - 1];
        let largest = exceedances[exceedances.len() - 1];
        let candidates: Vec<(f64, f64)> = (0..candidates)
            .map(|index| {
                let root = (candidates as f64 / (index as f64 + 0.5)).sqrt();
                let b = 1.0 / largest + (1.0 - root) / (3.0 * quartile);
                let (shape, inverse_scale) = parameters(b, exceedances);
                (b, number * (inverse_scale.ln() - shape - 1.0))
            })
            .collect();
        let best = candidates
            .iter()
            .fold(f64::MIN, |best, (_, log)| best.max(*log));
        let (mut sum, mut total) = (0.0, 0.0);
        for (b, log) in &candidates {
            let weight = (log - best).exp();
            sum += weight * b;
            total += weight;
        }
        let (shape, inverse_scale) = parameters(sum / total, exceedances);
        Self {
            shape: (number * shape + PRIOR_NUMBER * PRIOR_SHAPE) / (number + PRIOR_NUMBER),
            scale: 1.0 / inverse_scale,
        }
    }

    fn quantile(self, probability: f64) -> f64 {
        // The quantile of the exponential distribution, which is the case k = 0.
        let exponential = -(-probability).ln_1p();
        if self.shape == 0.0 {
            return self.scale * exponential;
        }
        self.scale * (self.shape * exponential).exp_m1() / self.shape
    }
}

/// The weak prior of the shape, as this many exceedances.
const PRIOR_NUMBER: f64 = 10.0;
const PRIOR_SHAPE: f64 = 0.5;

/// k(b) and 1/σ = −b/k(b), for b below 1/x_M.
fn parameters(b: f64, exceedances: &[f64]) -> (f64, f64) {
    if b == 0.0 {
        return (0.0, 1.0 / mean(exceedances)); // the limit, an exponential distribution
    }
    let sum: f64 = exceedances.iter().map(|x| (-b * x).ln_1p()).sum();
    let shape = sum / exceedances.len() as f64;
    (shape, -b / shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    /// ln of the ratios (1 − u)^{−k}, whose tail has the shape k.
    fn log_ratios(shape: f64, draws: usize, seed: u64) -> Vec<f64> {
        let uniforms = uniforms(draws, seed);
        uniforms.iter().map(|u| -shape * (-u).ln_1p()).collect()
    }

    #[test]
    fn the_fit_finds_the_shape_and_the_scale() {
        for shape in [-0.4, 0.0, 0.5, 1.5] {
            let true_law = GeneralisedPareto { shape, scale: 3.0 };
            let number = 20_000;
            let at = |index: usize| (index as f64 + 0.5) / number as f64;
            let sample: Vec<f64> = (0..number).map(|i| true_law.quantile(at(i))).collect();
            let found = GeneralisedPareto::fit(&sample);
            // The standard error of k̂ for random exceedances is (1 + k)/√M.
            let error = (1.0 + shape) / (number as f64).sqrt();
            assert!((found.shape - shape).abs() < error, "{shape}: {found:?}");
            assert!((found.scale / 3.0 - 1.0).abs() < 2.0 * error, "{found:?}");
        }
    }

    #[test]
    fn a_single_shape_is_recovered_from_ratios() {
        for shape in [0.2, 0.6, 1.0] {
            let estimates = (0..50).map(|seed| {
                let smoothing = ParetoSmoothing::new(&log_ratios(shape, 2000, seed)).unwrap();
                smoothing.pareto_k()
            });
            let tail = tail_length(2000) as f64;
            // The prior moves k̂ towards ½; five standard errors (1 + k)/√M of a mean of 50.
            let expected = (tail * shape + PRIOR_NUMBER * PRIOR_SHAPE) / (tail + PRIOR_NUMBER);
            let error = (1.0 + shape) / (50.0 * tail).sqrt();
            let found = estimates.sum::<f64>() / 50.0;
            assert!((found - expected).abs() < 5.0 * error, "{shape}: {found}");
        }
    }

    #[test]
    fn the_threshold_grows_with_the_draws() {
        let threshold = |draws| {
            let smoothing = ParetoSmoothing::new(&log_ratios(0.1, draws, 1)).unwrap();
            smoothing.pareto_k_threshold()
        };
        assert_eq!(threshold(100), 0.5);
        assert_eq!(threshold(1000), 1.0 - 1.0 / 3.0);
        assert_eq!(threshold(100_000), 0.7);
        assert_eq!(threshold(1), f64::NEG_INFINITY);
    }

    #[test]
    fn equal_ratios_give_equal_weights() {
        let smoothing = ParetoSmoothing::new(&[-3e5; 40]).unwrap();
        assert_eq!(smoothing.pareto_k(), f64::NEG_INFINITY);
        assert!(smoothing.is_reliable());
        assert!((smoothing.effective_sample_size() - 40.0).abs() < 1e-12);
        assert!((smoothing.mean(&[2.0; 40]).unwrap() - 2.0).abs() < 40.0 * f64::EPSILON);
    }

    #[test]
    fn without_a_tail_nothing_is_smoothed_or_reliable() {
        for draws in [1, 4, 20] {
            let ratios = log_ratios(0.3, draws, 5);
            let smoothing = ParetoSmoothing::new(&ratios).unwrap();
            assert!(smoothing.pareto_k() == f64::INFINITY && !smoothing.is_reliable());
            for (weight, ratio) in smoothing.log_weights().iter().zip(&ratios) {
                let difference = weight - ratio - (smoothing.log_weights()[0] - ratios[0]);
                assert!(difference.abs() < 8.0 * f64::EPSILON, "{difference:e}");
            }
        }
        let equal = ParetoSmoothing::new(&[1.0; 20]).unwrap();
        assert_eq!(equal.pareto_k(), f64::INFINITY);
        // Only four weights do not underflow.
        let mut ratios = vec![-1e6; 100];
        ratios[..4].copy_from_slice(&[0.0, -1.0, -2.0, -3.0]);
        let dominated = ParetoSmoothing::new(&ratios).unwrap();
        assert_eq!(dominated.pareto_k(), f64::INFINITY);
        // The same with one value for all other draws.
        let mut ratios = vec![0.0; 100];
        ratios[17] = 1.0;
        let single = ParetoSmoothing::new(&ratios).unwrap();
        assert_eq!(single.pareto_k(), f64::INFINITY);
    }

    /// As with ratios in single precision, when the approximation is nearly exact.
    #[test]
    fn ties_at_the_cutoff_extend_the_tail() {
        let level = |draw: usize| match draw {
            0..3 => 2.0,
            3..300 => 1.0,
            300..1700 => 0.0,
            _ => -1.0,
        };
        let ratios: Vec<f64> = (0..2000).map(|draw| 1e-3 * level(draw)).collect();
        let smoothing = ParetoSmoothing::new(&ratios).unwrap();
        assert!(smoothing.is_reliable(), "{}", smoothing.pareto_k());
        assert!(smoothing.effective_sample_size() > 1999.0);
        let weights = smoothing.weights();
        assert_eq!(weights[0], weights[2]);
        assert_eq!(weights[3], weights[299]);
        assert!(weights[0] > weights[3] && weights[3] > weights[300]);
    }

    #[test]
    fn the_order_of_draws_and_a_constant_do_not_matter() {
        let ratios: Vec<f64> = log_ratios(0.5, 400, 9)
            .iter()
            .map(|ratio| (ratio * 8.0).floor() / 8.0)
            .collect();
        let expected = ParetoSmoothing::new(&ratios).unwrap();
        let reversed: Vec<f64> = ratios.iter().rev().map(|ratio| ratio - 512.0).collect();
        let found = ParetoSmoothing::new(&reversed).unwrap();
        assert_eq!(found.pareto_k(), expected.pareto_k());
        let weights = expected.log_weights().iter().rev();
        for (found, expected) in found.log_weights().iter().zip(weights) {
            // The sum of the weights depends on their order.
            assert!((found - expected).abs() < 400.0 * f64::EPSILON);
        }
        let total: f64 = found.weights().iter().sum();
        assert!((total - 1.0).abs() < 400.0 * f64::EPSILON);
    }

    /// p = N(0, 1) and q = N(0, 0.8²): the tail of the ratios has the shape 1 − 0.8² = 0.36.
    #[test]
    fn weights_correct_a_gaussian_that_is_too_narrow() {
        let (scale, draws): (f64, usize) = (0.8, 4000);
        let positions = uniforms(draws, 3);
        let noise: Vec<f64> = positions
            .iter()
            .map(|u| crate::special::normal::quantile(u.max(1e-12)))
            .collect();
        let ratio = |z: &f64| 0.5 * z * z - 0.5 * (scale * z).powi(2);
        let smoothing = ParetoSmoothing::new(&noise.iter().map(ratio).collect::<Vec<_>>()).unwrap();
        assert!(smoothing.is_reliable());
        let squares: Vec<f64> = noise.iter().map(|z| (scale * z).powi(2)).collect();
        let found = smoothing.mean(&squares).unwrap();
        // The truth is 1, and .64 without weights. Five standard errors √(2/S_eff).
        let error = (2.0 / smoothing.effective_sample_size()).sqrt();
        assert!((found - 1.0).abs() < 5.0 * error && 5.0 * error < 0.25);
    }

    #[test]
    fn rejects_ratios_and_values_that_are_not_finite() {
        assert!(ParetoSmoothing::new(&[]).unwrap_err().is_data());
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = ParetoSmoothing::new(&[0.0, 1.0, bad]).unwrap_err();
            assert_eq!((error.is_data(), error.draw()), (true, Some(2)));
        }
        let smoothing = ParetoSmoothing::new(&[0.0, 1.0]).unwrap();
        assert!(smoothing.mean(&[1.0]).unwrap_err().is_data());
        let error = smoothing.mean(&[1.0, f64::NAN]).unwrap_err();
        assert_eq!(error.draw(), Some(1));
    }
}
