//! Tests of the uniformity of probability integral transforms.
//!
//! For calibrated predictive distributions of independent rows, the transforms u₁ … u_n of
//! [`pit_values`](crate::pit_values) are independent and uniform.
//!
//! | Test | Statistic | Better when |
//! |---|---|---|
//! | Kolmogorov–Smirnov | D = max_r max(r/n − u₍ᵣ₎, u₍ᵣ₎ − (r − 1)/n) | the predictions are too high or too low |
//! | simultaneous bounds | min over 99 levels of the binomial tail of #{u < k/100} | they are too narrow or too wide, which shows in the tails |
//!
//! The p-value of D is exact for n ≤ 2000, by the matrix of Marsaglia, Tsang and Wang. For more
//! rows it is the limiting distribution at (√n + 0.12 + 0.11/√n)·D, with an error below 0.004, and
//! for nD² > 18 the bound 2 exp(−2nD²). That of the simultaneous bounds is exact for every n.
//!
//! References: G. Marsaglia, W. W. Tsang and J. Wang, "Evaluating Kolmogorov's distribution"
//! (2003); M. A. Stephens, "Use of the Kolmogorov–Smirnov, Cramér–von Mises and related statistics
//! without extensive tables" (1970); T. Säilynoja, P.-C. Bürkner and A. Vehtari (2022), for the
//! bounds, as in [`SimulationBasedCalibration`](crate::SimulationBasedCalibration).

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::special::uniform_counts::UniformCounts;

/// Two tests of the uniformity of transforms.
///
/// ```
/// use burn_bayes_eval::{PitUniformity, uniforms};
///
/// let calibrated = PitUniformity::new(&uniforms(500, 1))?;
/// assert!(calibrated.kolmogorov_smirnov_p_value > 0.05);
///
/// // Intervals that are too narrow: too many targets in the tails.
/// let narrow: Vec<f64> = uniforms(500, 1)
///     .iter()
///     .map(|u| if *u < 0.5 { 2.0 * u * u } else { 1.0 - 2.0 * (1.0 - u) * (1.0 - u) })
///     .collect();
/// assert!(PitUniformity::new(&narrow)?.simultaneous_p_value < 1e-6);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PitUniformity {
    /// D, the largest distance of the empirical distribution from the uniform one.
    pub statistic: f64,
    /// The p-value of D.
    pub kolmogorov_smirnov_p_value: f64,
    /// The p-value of the simultaneous bounds of the counts below each percent.
    pub simultaneous_p_value: f64,
}

impl PitUniformity {
    /// Tests transforms.
    ///
    /// # Errors
    /// A data error if there are no transforms or one is not in [0, 1].
    pub fn new(pit: &[f64]) -> Result<Self, EvalError> {
        check::not_empty("transforms", pit.len())?;
        let cause = "targets or quantiles passed instead of their transforms";
        check::unit("transforms", pit, cause)?;
        let mut sorted = pit.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rows = sorted.len();
        let gap = |(index, u): (usize, &f64)| {
            let (below, at) = (index as f64 / rows as f64, (index + 1) as f64 / rows as f64);
            (at - u).at_least(u - below)
        };
        let statistic = sorted.iter().enumerate().map(gap).fold(0.0, f64::at_least);
        let uniform = UniformCounts::new(rows, CELLS);
        let thresholds = uniform.thresholds().iter();
        let below = thresholds.map(|&t| sorted.partition_point(|&u| u < t as f64 / CELLS as f64));
        let counts: Vec<usize> = below.collect();
        Ok(Self {
            statistic,
            kolmogorov_smirnov_p_value: p_value(statistic, rows),
            simultaneous_p_value: uniform.p_value(&counts),
        })
    }
}

const CELLS: usize = 100;
/// More rows use the limiting distribution.
const MOST_EXACT: usize = 2000;

fn p_value(statistic: f64, rows: usize) -> f64 {
    let squared = rows as f64 * statistic * statistic;
    if squared > 18.0 {
        return 2.0 * (-2.0 * squared).exp();
    }
    if rows <= MOST_EXACT {
        return (1.0 - exact(statistic, rows)).clamp(0.0, 1.0);
    }
    let root = (rows as f64).sqrt();
    let scaled = (root + 0.12 + 0.11 / root) * statistic;
    if scaled < 0.2 {
        return 1.0; // below 10⁻¹¹ of 1, where the series converges slowly
    }
    let term = |k: i32| {
        let sign = if k % 2 == 0 { -1.0 } else { 1.0 };
        sign * (-2.0 * (f64::from(k) * scaled).powi(2)).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// P(D < d), as n!/nⁿ times the middle element of the n-th power of a matrix of size 2k − 1, with
/// nd = k − h, k an integer and 0 ≤ h < 1.
fn exact(statistic: f64, rows: usize) -> f64 {
    let scaled = rows as f64 * statistic;
    let k = scaled.floor() as usize + 1;
    let (h, size) = (k as f64 - scaled, 2 * k - 1);
    let mut matrix = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..size {
            matrix[i * size + j] = if i + 1 >= j { 1.0 } else { 0.0 };
        }
    }
    for i in 0..size {
        matrix[i * size] -= h.powi(i as i32 + 1);
        matrix[(size - 1) * size + i] -= h.powi((size - i) as i32);
    }
    matrix[(size - 1) * size] += if 2.0 * h > 1.0 {
        (2.0 * h - 1.0).powi(size as i32)
    } else {
        0.0
    };
    for i in 0..size {
        for j in 0..size {
            if i + 1 > j {
                matrix[i * size + j] /= libm::tgamma((i + 2 - j) as f64);
            }
        }
    }
    // The row of the power, with the factor n!/nⁿ spread over its steps, so that none overflows.
    let trials = rows as f64;
    let factor = (libm::lgamma(trials + 1.0) / trials).exp() / trials;
    let mut row = vec![0.0; size];
    row[k - 1] = 1.0;
    for _ in 0..rows {
        let product = |j: usize| -> f64 { (0..size).map(|i| row[i] * matrix[i * size + j]).sum() };
        row = (0..size).map(|j| factor * product(j)).collect();
    }
    row[k - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_rows_have_closed_forms() {
        // P(D ≤ d) = 2d − 1 for one row, from ½ on.
        for d in [0.5, 0.6, 0.9] {
            assert!((exact(d, 1) - (2.0 * d - 1.0)).abs() < 1e-14);
        }
        // For two rows 2(2d − ½)² between ¼ and ½, and 1 − 2(1 − d)² beyond.
        for (d, expected) in [
            (0.3, 2.0 * 0.1f64.powi(2)),
            (0.8, 1.0 - 2.0 * 0.2f64.powi(2)),
        ] {
            assert!((exact(d, 2) - expected).abs() < 1e-14, "{}", exact(d, 2));
        }
    }

    #[test]
    fn the_limit_continues_the_exact_distribution() {
        for d in [0.01, 0.015, 0.02, 0.03, 0.05] {
            let (below, above) = (p_value(d, MOST_EXACT), p_value(d, MOST_EXACT + 1));
            assert!((below - above).abs() < 0.004, "{below} {above}");
        }
    }

    #[test]
    fn extreme_and_bad_transforms() {
        let found = PitUniformity::new(&[1.0; 30]).unwrap();
        assert_eq!(found.statistic, 1.0);
        assert!(found.kolmogorov_smirnov_p_value < 1e-12);
        assert!(found.simultaneous_p_value < 1e-12);
        assert!(PitUniformity::new(&[]).unwrap_err().is_data());
        assert_eq!(PitUniformity::new(&[0.5, 1.5]).unwrap_err().row(), Some(1));
    }
}
