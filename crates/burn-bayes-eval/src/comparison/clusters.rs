//! The mean over rows that are not independent: rows of one patient, one place or one day, its cluster.
//!
//! With values v_i of N rows in G clusters, v̄ their mean and S_g the sum of v_i − v̄ over the rows of cluster g,
//!
//!   SE² = G/(G − 1) Σ_g S_g²/N²,   t = (v̄ − μ)/SE, with Student's distribution with G − 1 degrees of freedom
//!
//! if the true mean is μ. With a cluster for each row, SE² is the sample variance divided by N.
//!
//! Reference: A. C. Cameron and D. L. Miller, "A practitioner's guide to cluster-robust inference" (2015).

use std::collections::BTreeMap;

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::special::beta;

/// The mean of values whose rows are in clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusteredMean {
    /// The mean over rows.
    pub mean: f64,
    /// Its standard error; `None` for a single cluster.
    pub standard_error: Option<f64>,
    /// The number of clusters.
    pub clusters: usize,
}

impl ClusteredMean {
    /// The mean of one value per row; `clusters` has one number per row.
    ///
    /// ```
    /// use burn_bayes_eval::ClusteredMean;
    ///
    /// let values = [1.0, 1.0, 3.0, 3.0];
    /// let rows = ClusteredMean::of(&values, &[0, 1, 2, 3])?;
    /// let pairs = ClusteredMean::of(&values, &[0, 0, 1, 1])?;
    /// assert_eq!((rows.mean, pairs.mean), (2.0, 2.0));
    /// assert_eq!(rows.standard_error, Some((1.0_f64 / 3.0).sqrt()));
    /// assert_eq!(pairs.standard_error, Some(1.0)); // two values: of equal rows, one says nothing new
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no values or one is not finite.
    pub fn of(values: &[f64], clusters: &[usize]) -> Result<Self, EvalError> {
        check::not_empty("values", values.len())?;
        check::same_length("clusters", clusters.len(), values.len())?;
        check::finite("values", values)?;
        let centre = mean(values);
        let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
        for (value, &cluster) in values.iter().zip(clusters) {
            *sums.entry(cluster).or_default() += value - centre;
        }
        let (rows, count) = (values.len() as f64, sums.len() as f64);
        let squares: f64 = sums.values().map(|sum| sum * sum).sum();
        Ok(Self {
            mean: centre,
            standard_error: (sums.len() > 1)
                .then(|| (count / (count - 1.0) * squares).sqrt() / rows),
            clusters: sums.len(),
        })
    }

    /// The same with the standard error of as many independent values of this variance, if that is larger: under a
    /// hypothesis that says how much values vary, few clusters that happen to be equal say no more.
    ///
    /// ```
    /// use burn_bayes_eval::ClusteredMean;
    ///
    /// let mean = ClusteredMean::of(&[1.0, 1.0, 1.0, 1.0], &[0, 0, 1, 1])?;
    /// assert_eq!(mean.standard_error, Some(0.0));
    /// assert_eq!(mean.with_variance(0.25, 4).standard_error, Some(0.25));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    #[must_use]
    pub fn with_variance(self, variance: f64, rows: usize) -> Self {
        let least = (variance / rows as f64).sqrt();
        Self {
            standard_error: self.standard_error.map(|error| error.at_least(least)),
            ..self
        }
    }

    /// Two-sided p-value of the hypothesis that the true mean is `expected`; `None` for a single cluster.
    ///
    /// ```
    /// use burn_bayes_eval::ClusteredMean;
    ///
    /// let mean = ClusteredMean::of(&[0.0, 2.0], &[0, 1])?;
    /// // Student's distribution with one degree of freedom is Cauchy's, which has half of its mass within ±1.
    /// assert!((mean.p_value(2.0).unwrap() - 0.5).abs() < 1e-14);
    /// assert_eq!(mean.p_value(1.0), Some(1.0));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    pub fn p_value(&self, expected: f64) -> Option<f64> {
        let error = self.standard_error?;
        let distance = self.mean - expected;
        if distance == 0.0 {
            return Some(1.0);
        }
        let freedom = (self.clusters - 1) as f64;
        let squared = (distance / error).powi(2);
        let share = freedom / (freedom + squared);
        Some(beta::regularised(0.5 * freedom, 0.5, share))
    }
}

/// The number of independent rows that say as much about the fraction of hits as these N: 1 + (N − 1)/r, with r the ratio of
/// its variances with and without clusters, if that is above 1. Rows that are all hits, or none, say as much as there are
/// clusters.
///
/// Reference: E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of positive
/// counts estimated from survey data" (1998).
pub(crate) fn effective_rows(hits: &[bool], clusters: &[usize]) -> Result<usize, EvalError> {
    let hits: Vec<f64> = hits.iter().map(|&hit| f64::from(u8::from(hit))).collect();
    let each: Vec<usize> = (0..hits.len()).collect();
    let [alone, together] = [&each[..], clusters].map(|of| ClusteredMean::of(&hits, of));
    let (alone, together) = (alone?, together?);
    let (Some(plain), Some(clustered)) = (alone.standard_error, together.standard_error) else {
        return Ok(together.clusters);
    };
    if plain == 0.0 {
        return Ok(together.clusters);
    }
    let ratio = (clustered / plain).powi(2).max(1.0);
    let others = (hits.len() - 1) as f64;
    Ok(1 + (others / ratio).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn the_mean_of_alike_rows_is_as_uncertain_as_that_of_their_clusters() {
        let of_clusters = uniforms(9, 1);
        let values: Vec<f64> = of_clusters.iter().flat_map(|&value| [value; 7]).collect();
        let clusters: Vec<usize> = (0..63).map(|row| row / 7).collect();
        let rows = ClusteredMean::of(&values, &clusters).unwrap();
        let alone = ClusteredMean::of(&of_clusters, &(0..9).collect::<Vec<_>>()).unwrap();
        let (rows, alone) = (rows.standard_error.unwrap(), alone.standard_error.unwrap());
        assert!((rows / alone - 1.0).abs() < 1e-12, "{rows} {alone}");
    }

    #[test]
    fn equal_clusters_are_tested_at_the_level() {
        let fails = |per: usize| {
            let tests = 2000;
            let uniform = uniforms(tests * 12 * (per + 1), 5);
            let tests = uniform.chunks(12 * (per + 1)).filter(|numbers| {
                // The values of a cluster have a number in common.
                let clusters = numbers.chunks(per + 1);
                let values = clusters.flat_map(|of| of[1..].iter().map(|own| of[0] + 0.5 * own));
                let values: Vec<f64> = values.collect();
                let clusters: Vec<usize> = (0..values.len()).map(|row| row / per).collect();
                let found = ClusteredMean::of(&values, &clusters).unwrap();
                found.p_value(0.75).unwrap() < 0.05
            });
            tests.count() as f64 / 2000.0
        };
        for per in [1, 5] {
            let share = fails(per);
            assert!((share - 0.05).abs() < 0.015, "{per}: {share}");
        }
    }

    #[test]
    fn alike_rows_are_as_good_as_one() {
        let hits: Vec<bool> = (0..40).map(|row| row / 4 % 3 > 0).collect();
        let clusters: Vec<usize> = (0..40).map(|row| row / 4).collect();
        assert_eq!(effective_rows(&hits, &clusters).unwrap(), 10);
        let rows: Vec<usize> = (0..40).collect();
        assert_eq!(effective_rows(&hits, &rows).unwrap(), 40);
        assert_eq!(effective_rows(&[true; 40], &clusters).unwrap(), 10);
        assert_eq!(effective_rows(&hits, &[0; 40]).unwrap(), 1);
    }
}
