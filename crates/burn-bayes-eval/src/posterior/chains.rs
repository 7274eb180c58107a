//! Convergence of sequences of a scalar: R̂ and the effective sample size.
//!
//! Each of m sequences is split in halves of n values. The values are replaced by normal scores of
//! their ranks among all 2mn = S values, z = Φ⁻¹((rank − 3/8)/(S + 1/4)), ties sharing the mean of
//! their ranks. With W the mean variance within halves and B/n the variance of their means,
//!
//!   R̂ = √( (n − 1)/n + B/(nW) )
//!
//! is near 1 if the halves look like samples of one distribution. The larger of two values is
//! reported: for x, which compares locations, and for abs(x − median), which compares spreads.
//!
//! The effective sample size for the mean uses the autocorrelations ρ_t of z, with V the pooled
//! variance (n − 1)W/n + B/n and C_t the mean autocovariance of the halves:
//!
//!   ρ_t = 1 − (W − C_t)/V,   P_j = ρ_2j + ρ_2j+1,   S_eff = S/τ,   τ = −1 + 2 Σ_{j<J} P̃_j + ρ_2J ≥ 1/log₁₀ S
//!
//! where J is the first j with P_j ≤ 0, or the last one that the length allows, and P̃_j is the
//! smallest of P_0 … P_j. In the last term a ρ_2J below zero counts as zero if P_J < 0.
//!
//! Reference: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner, "Rank-normalization,
//! folding, and localization: an improved R̂ for assessing convergence of MCMC" (2021).

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{ascending, compare, mean, tie_groups};
use crate::special::normal;

/// Sequences of a scalar: chains, repeated runs, or one run whose halves are compared.
///
/// ```
/// use burn_bayes_eval::{Chains, uniforms};
///
/// let values = uniforms(1000, 3);
/// let chains = Chains::new(&values, 2, 500)?;
/// assert!(chains.r_hat().expect("the values vary") < 1.01);
///
/// // The second chain is somewhere else.
/// let moved: Vec<f64> = (0..1000).map(|i| values[i] + (i / 500) as f64).collect();
/// assert!(Chains::new(&moved, 2, 500)?.r_hat().expect("the values vary") > 1.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Chains {
    /// n, the length of a half.
    half: usize,
    /// The halves, one after the other; for an odd length without the middle value.
    values: Vec<f64>,
}

impl Chains {
    /// `values` holds the chains one after the other, each of `length` values.
    ///
    /// # Errors
    /// A data error if the shape does not fit, a chain has fewer than four values, or a value is not
    /// finite; it names the chain as row and the step as column.
    pub fn new(values: &[f64], chains: usize, length: usize) -> Result<Self, EvalError> {
        check::shape(
            "chains",
            values.len(),
            &[("chains", chains), ("steps", length)],
        )?;
        if length < 4 {
            let found = format!("{length} steps");
            let cause = "a run that was stopped early";
            return Err(EvalError::data(
                "chains",
                Place::WHOLE,
                found,
                "at least 4",
                cause,
            ));
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let place = Place::row(index / length).at_column(index % length);
            return Err(check::not_finite("chains", place, values[index]));
        }
        let half = length / 2;
        let halves = values.chunks(length).flat_map(|chain| {
            let (first, second) = (&chain[..half], &chain[length - half..]);
            first.iter().chain(second).copied()
        });
        Ok(Self {
            half,
            values: halves.collect(),
        })
    }

    /// The rank-normalised split R̂; values above 1.01 to 1.05 show that the chains have not
    /// converged. `None` if all values are equal.
    pub fn r_hat(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(|a, b| compare(*a, *b));
        // The number of values is even.
        let median = 0.5 * sorted[sorted.len() / 2 - 1] + 0.5 * sorted[sorted.len() / 2];
        let folded: Vec<f64> = self.values.iter().map(|x| (x - median).abs()).collect();
        let values = [&self.values, &folded].map(|values| self.moments(&normal_scores(values)));
        let ratios = values.iter().filter_map(|moments| {
            let ratio = moments.between / moments.within;
            (!ratio.is_nan()).then(|| (1.0 - 1.0 / self.half as f64 + ratio).sqrt())
        });
        ratios.reduce(f64::at_least)
    }

    /// The effective sample size for estimates of the centre of the distribution, from all values.
    /// `None` if all values are equal.
    pub fn bulk_effective_sample_size(&self) -> Option<f64> {
        let scores = normal_scores(&self.values);
        let Moments { within, between } = self.moments(&scores);
        let pooled = (1.0 - 1.0 / self.half as f64) * within + between;
        if pooled == 0.0 {
            return None;
        }
        let correlation = |lag: usize| match lag {
            0 => 1.0,
            _ => 1.0 - (within - self.autocovariance(&scores, lag)) / pooled,
        };
        let mut time = -1.0;
        let (mut even, mut pair) = (1.0, 1.0 + correlation(1));
        let (mut smallest, mut lag) = (pair, 2);
        while lag + 2 < self.half && pair > 0.0 {
            time += 2.0 * smallest;
            even = correlation(lag);
            pair = even + correlation(lag + 1);
            smallest = smallest.at_most(pair);
            lag += 2;
        }
        time += if pair < 0.0 { even.at_least(0.0) } else { even };
        let number = self.values.len() as f64;
        Some(number / time.at_least(1.0 / number.log10()))
    }

    fn moments(&self, values: &[f64]) -> Moments {
        let means: Vec<f64> = values.chunks(self.half).map(mean).collect();
        let variances: Vec<f64> = values.chunks(self.half).map(variance).collect();
        Moments {
            within: mean(&variances),
            between: variance(&means),
        }
    }

    /// Mean over the halves, with divisor n.
    fn autocovariance(&self, values: &[f64], lag: usize) -> f64 {
        let sum = |half: &[f64]| {
            let centre = mean(half);
            let pairs = half.iter().zip(&half[lag..]);
            pairs.map(|(a, b)| (a - centre) * (b - centre)).sum::<f64>()
        };
        values.chunks(self.half).map(sum).sum::<f64>() / values.len() as f64
    }
}

/// Variances of the values of all halves.
#[derive(Debug, Clone, Copy)]
struct Moments {
    /// W, the mean variance of a half.
    within: f64,
    /// B/n, the variance of the means of the halves.
    between: f64,
}

/// With divisor n − 1.
fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares = values.iter().map(|value| (value - centre).powi(2));
    squares.sum::<f64>() / (values.len() as f64 - 1.0)
}

fn normal_scores(values: &[f64]) -> Vec<f64> {
    let order = ascending(values);
    let mut scores = vec![0.0; values.len()];
    let mut below = 0;
    for group in tie_groups(&order, values) {
        let rank = below as f64 + 0.5 * (group.len() as f64 + 1.0);
        let score = normal::quantile((rank - 0.375) / (values.len() as f64 + 0.25));
        for &index in group {
            scores[index] = score;
        }
        below += group.len();
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn equal_halves_have_the_smallest_value() {
        let values: Vec<f64> = (0..4).flat_map(|_| uniforms(50, 1)).collect();
        let chains = Chains::new(&values, 2, 100).unwrap();
        let found = chains.r_hat().unwrap();
        assert!((found - (49.0f64 / 50.0).sqrt()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn increasing_transformations_change_nothing() {
        let values = uniforms(300, 2);
        let transformed: Vec<f64> = values.iter().map(|u| (20.0 * u).exp()).collect();
        let effective = |values: &[f64]| {
            let chains = Chains::new(values, 3, 100).unwrap();
            chains.bulk_effective_sample_size().unwrap()
        };
        assert_eq!(effective(&values), effective(&transformed));
    }

    /// x_t = φ x_{t−1} + noise has the integrated autocorrelation time (1 + φ)/(1 − φ).
    #[test]
    fn autocorrelation_reduces_the_effective_sample_size() {
        for memory in [-0.5, 0.0, 0.5, 0.9] {
            let mut state = 0.0;
            let values: Vec<f64> = uniforms(40_000, 6)
                .iter()
                .map(|u| {
                    state = memory * state + u - 0.5;
                    state
                })
                .collect();
            let chains = Chains::new(&values, 4, 10_000).unwrap();
            let found = chains.bulk_effective_sample_size().unwrap() / 40_000.0;
            let expected = (1.0 - memory) / (1.0 + memory);
            // Truncation at some tens of lags leaves a standard error of some per cent.
            assert!((found / expected - 1.0).abs() < 0.15, "{memory}: {found}");
            assert!(chains.r_hat().unwrap() < 1.01);
        }
    }

    #[test]
    fn a_trend_is_found_in_a_single_chain() {
        let noise = uniforms(400, 8);
        let trend: Vec<f64> = (0..400).map(|i| noise[i] + i as f64 / 400.0).collect();
        let r_hat = |values: &[f64]| Chains::new(values, 1, 400).unwrap().r_hat().unwrap();
        assert!(r_hat(&noise) < 1.02 && r_hat(&trend) > 1.2);
    }

    #[test]
    fn constant_chains() {
        let equal = Chains::new(&[3.0; 8], 2, 4).unwrap();
        assert_eq!(
            (equal.r_hat(), equal.bulk_effective_sample_size()),
            (None, None)
        );
        let apart = Chains::new(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0], 2, 4).unwrap();
        assert_eq!(apart.r_hat(), Some(f64::INFINITY));
    }

    #[test]
    fn rejects_bad_shapes_and_values() {
        assert!(Chains::new(&[0.0; 6], 2, 3).unwrap_err().is_data());
        assert!(Chains::new(&[0.0; 7], 2, 4).unwrap_err().is_data());
        assert!(Chains::new(&[], 0, 4).unwrap_err().is_data());
        let mut values = [0.0; 8];
        values[6] = f64::NAN;
        let error = Chains::new(&values, 2, 4).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(2)));
    }
}
