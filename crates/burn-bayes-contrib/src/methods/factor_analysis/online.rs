//! Online factor analysis of vectors in main memory.

use burn_bayes::algebra::{AlgebraError, Cholesky, SquareMatrix};
use burn_bayes::eval::Bounded;
use burn_bayes::{Error, Result};
use burn_bayes_kernels::{
    Diagonal, FactorUnits, LowRankGaussian, fold, gram, update_moments, weighted_projections,
};

use super::estimate::FactorEstimate;
use super::gradient;
use super::latent::{FactorRule, Latent, blend, expanded_mean, outer, sum};
use super::{FLOOR, START_SHARE};

/// Each of the first EAGER·K vectors is a block of its own; from then on, K vectors are a block.
const EAGER: usize = 5;

/// Fits θ ~ N(c, FᵀF + diag ψ) to vectors that are seen once.
///
/// It keeps (2K + 3)·D numbers, among them the deviations of a block of K vectors. ψ and Σ change slowly and are those
/// of the start of a block. All that a block needs of its D numbers are the inner products of X and the
/// deviations, so it makes two passes, each O(K²D): O(KD) for a vector.
///
/// ```
/// use burn_bayes_contrib::methods::{FactorRule, OnlineFactorAnalysis};
///
/// let mut analysis = OnlineFactorAnalysis::new(3, 1, FactorRule::ParameterExpansion)?;
/// for step in 0..1000 {
///     let wave = |frequency: f32| (frequency * step as f32).sin();
///     let latent = wave(0.7);
///     analysis.observe(&[1.0 + latent + wave(2.3), 2.0 * latent + wave(3.1), latent + wave(1.7)])?;
/// }
/// let estimate = analysis.estimate()?;
/// assert!((estimate.mean[0] - 1.0).abs() < 0.01);
/// // E[sin²] = ½, times 1 · 2. Three noisy numbers say little about the latent one, so its factor is learned slowly.
/// assert!((estimate.covariance(0, 1) - 1.0).abs() < 0.06);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OnlineFactorAnalysis {
    rule: FactorRule,
    count: usize,
    mean: Vec<f32>,
    variance: Vec<f32>,
    /// The first K deviations; then X, or F for gradient ascent. After these K rows, the deviations of a block.
    rows: Vec<f32>,
    /// The number of deviations of the block so far.
    held: usize,
    /// ψ.
    residual: Vec<f32>,
    /// The mean of m mᵀ, for the textbook's rule.
    moment: SquareMatrix,
    /// H, which is I after a block with parameter expansion.
    total: SquareMatrix,
}

impl OnlineFactorAnalysis {
    /// For vectors of `len` numbers and `rank` factors.
    ///
    /// # Errors
    ///
    /// A rank of 0 or above `len`; a learning rate that is not positive.
    pub fn new(len: usize, rank: usize, rule: FactorRule) -> Result<Self> {
        if rank == 0 || rank > len {
            let problem = format!("is {rank}; it must be at least 1 and at most {len}");
            return Err(Error::config("rank", problem));
        }
        if let FactorRule::GradientAscent { rate } = rule
            && !(rate > 0.0 && rate.is_finite())
        {
            let problem = format!("is {rate}; it must be positive and finite");
            return Err(Error::config("rate", problem));
        }
        Ok(Self {
            rule,
            count: 0,
            mean: vec![0.0; len],
            variance: vec![0.0; len],
            rows: vec![0.0; 2 * rank * len],
            held: 0,
            residual: vec![0.0; len],
            moment: SquareMatrix::identity(rank),
            total: SquareMatrix::identity(rank),
        })
    }

    /// The number of vectors seen.
    pub fn count(&self) -> usize {
        self.count
    }

    fn rank(&self) -> usize {
        self.total.size()
    }

    /// Whether the vectors so far are no more than K + 1, of which the deviations are kept.
    fn is_starting(&self) -> bool {
        self.count <= self.rank() + 1
    }

    /// Takes in a vector.
    ///
    /// # Errors
    ///
    /// Another length than that of the analysis; numbers that are not finite, which leave it as it is.
    pub fn observe(&mut self, vector: &[f32]) -> Result<()> {
        let len = self.mean.len();
        if vector.len() != len {
            let problem = format!("a vector of {} numbers instead of {len}", vector.len());
            return Err(Error::layout(problem));
        }
        if let Some(at) = vector.iter().position(|value| !value.is_finite()) {
            let problem = format!("number {at} of a vector is {}", vector[at]);
            return Err(Error::numerical(problem));
        }
        self.count += 1;
        let (_, block) = self.rows.split_at_mut(self.total.size() * len);
        let deviation = &mut block[self.held * len..][..len];
        let (mean, variance) = (&mut self.mean, &mut self.variance);
        update_moments(&[vector], self.count, mean, variance, Some(deviation));
        if self.is_starting() {
            self.start();
            return Ok(());
        }
        if let FactorRule::GradientAscent { rate } = self.rule {
            return Ok(self.ascend(rate)?);
        }
        self.held += 1;
        if self.held == self.rank() || self.count <= EAGER * self.rank() {
            self.absorb()?;
        }
        Ok(())
    }

    /// Keeps the deviation: X Xᵀ is the exact covariance of at most K + 1 vectors.
    fn start(&mut self) {
        let (rank, len, count) = (self.rank(), self.mean.len(), self.count);
        let Some(row) = count.checked_sub(2) else {
            return;
        };
        let (rows, block) = self.rows.split_at_mut(rank * len);
        let before = (count - 1) as f32;
        let decay = (before / count as f32).sqrt();
        rows.iter_mut().for_each(|entry| *entry *= decay);
        let entries = rows[row * len..].iter_mut().zip(&*block);
        entries.for_each(|(entry, value)| *entry = value / before.sqrt());
        if row + 1 == rank {
            self.halve();
        }
    }

    /// Gives half of the covariance of the first vectors to F and half to ψ.
    fn halve(&mut self) {
        let share = START_SHARE.sqrt() as f32;
        self.rows.iter_mut().for_each(|entry| *entry *= share);
        let residuals = self.residual.iter_mut().zip(&self.variance);
        residuals.for_each(|(residual, variance)| *residual = start_residual(*variance));
    }

    /// Steps of expectation-maximisation for the vectors of the block, with ψ and Σ of its start.
    ///
    /// X stays a combination of the rows R at the start of the block, C R, so a step changes C, and R ψ⁻¹ Rᵀ has all
    /// inner products.
    fn absorb(&mut self) -> Result<(), AlgebraError> {
        let (rank, held) = (self.rank(), self.held);
        let terms = rank + held;
        // A number that has not moved before the block has no ψ yet, by which its deviations could be divided.
        let residuals = self.residual.iter_mut().zip(&self.variance);
        residuals.for_each(|(residual, variance)| *residual = residual.at_least(FLOOR * variance));
        let products = self.products(terms)?;
        let mut gram = SquareMatrix::from_fn(rank, |i, j| products.get(i, j));
        let expanded = self.rule != FactorRule::Textbook;
        let covariance =
            Cholesky::with_floor(&sum(&SquareMatrix::identity(rank), &gram))?.inverse();
        let mut combination: Vec<Vec<f64>> = unit_rows(rank, terms);
        for (at, count) in (self.count - held + 1..=self.count).enumerate() {
            let column = products.row(rank + at);
            let projections: Vec<f64> = combination.iter().map(|row| dot(row, column)).collect();
            let share = 1.0 / count as f64;
            let mean = if expanded {
                let mean = expanded_mean(&self.total, &gram, &projections)?;
                let second = sum(&covariance, &outer(&mean));
                self.total = blend(share, &self.total, &second);
                mean
            } else {
                self.textbook_mean(share, &gram, &projections)?
            };
            let weights: Vec<f64> = mean.iter().map(|value| share * value).collect();
            let (decay, square) = (1.0 - share, column[rank + at]);
            gram = SquareMatrix::from_fn(rank, |i, j| {
                let cross = weights[i] * projections[j] + weights[j] * projections[i];
                decay * (decay * gram.get(i, j) + cross) + weights[i] * weights[j] * square
            });
            for (row, weight) in combination.iter_mut().zip(&weights) {
                row.iter_mut().for_each(|entry| *entry *= decay);
                row[rank + at] = *weight;
            }
        }
        self.held = 0;
        let combination = combination.concat();
        let lower = Cholesky::with_floor(&self.total)?.inverse_lower();
        if expanded {
            self.fold(&combined(&lower, &combination), terms);
            self.total = SquareMatrix::identity(rank);
        } else {
            self.fold(&combination, terms);
            // The latent variables have a covariance of one in these coordinates only.
            let mut unit = self.clone();
            unit.fold(lower.as_slice(), rank);
            self.residual = unit.residual;
        }
        Ok(())
    }

    /// The mean of the latent variables by the textbook's rule, which updates H.
    fn textbook_mean(
        &mut self,
        share: f64,
        gram: &SquareMatrix,
        projections: &[f64],
    ) -> Result<Vec<f64>, AlgebraError> {
        let inverse = Cholesky::with_floor(&self.total)?.inverse();
        let gram = inverse.multiply(gram)?.multiply(&inverse)?;
        let latent = Latent::unit(&gram, &inverse.multiply_vector(projections)?)?;
        self.moment = blend(share, &self.moment, &outer(&latent.mean));
        self.total = sum(&latent.covariance, &self.moment);
        Ok(latent.mean)
    }

    /// R ψ⁻¹ Rᵀ of the first `terms` rows R.
    fn products(&self, terms: usize) -> Result<SquareMatrix, AlgebraError> {
        let gaussian = LowRankGaussian {
            mean: &self.mean,
            factors: &self.rows[..terms * self.mean.len()],
            units: FactorUnits::Weights,
            diagonal: Diagonal::Variance(&self.residual),
        };
        let mut values = vec![0.0; terms * terms];
        gram(&gaussian, terms, &mut values);
        SquareMatrix::from_row_major(terms, values)
    }

    /// X ← C R with the first `terms` rows R, and ψ = v − diag(XᵀX).
    fn fold(&mut self, combination: &[f64], terms: usize) {
        let combination: Vec<f32> = combination.iter().map(|&x| x as f32).collect();
        let rows = &mut self.rows[..terms * self.mean.len()];
        fold(
            rows,
            &combination,
            &self.variance,
            FLOOR,
            &mut self.residual,
        );
    }

    /// One step of gradient ascent, O(K²D).
    fn ascend(&mut self, rate: f64) -> Result<(), AlgebraError> {
        let rank = self.rank();
        let gram = self.products(rank)?;
        let (rows, block) = self.rows.split_at_mut(rank * self.mean.len());
        let (deviation, residual) = (&block[..self.mean.len()], &mut self.residual);
        let mut projections = vec![0.0; rank];
        weighted_projections(rows, deviation, residual, &mut projections);
        let latent = Latent::unit(&gram, &projections)?;
        gradient::ascend(rate, &latent, deviation, rows, residual);
        Ok(())
    }

    /// The Gaussian of all vectors so far.
    ///
    /// # Errors
    ///
    /// Fewer than two vectors.
    pub fn estimate(&self) -> Result<FactorEstimate> {
        if self.count < 2 {
            let problem = format!("factor analysis of {} vectors; it needs two", self.count);
            return Err(Error::too_early(problem));
        }
        let mut fitted = self.clone();
        if self.count <= self.rank() {
            fitted.halve();
        } else if self.held > 0 {
            fitted.absorb()?;
        }
        fitted.rows.truncate(self.rank() * self.mean.len());
        let mut factors: Vec<f64> = fitted.rows.iter().copied().map(f64::from).collect();
        if self.rule == FactorRule::Textbook {
            let inverse = Cholesky::with_floor(&fitted.total)?.inverse();
            factors = combined(&inverse, &factors);
        }
        let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect();
        Ok(FactorEstimate {
            mean: wide(&fitted.mean),
            factors,
            variance: wide(&fitted.residual),
        })
    }
}

/// ψ of a weight before the first step.
fn start_residual(variance: f32) -> f32 {
    ((1.0 - START_SHARE) as f32 * variance).at_least(f32::MIN_POSITIVE)
}

/// The first rows of the identity.
fn unit_rows(rank: usize, terms: usize) -> Vec<Vec<f64>> {
    let row = |k: usize| {
        (0..terms)
            .map(|term| f64::from(u8::from(term == k)))
            .collect()
    };
    (0..rank).map(row).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

/// M · rows.
fn combined(matrix: &SquareMatrix, rows: &[f64]) -> Vec<f64> {
    let rank = matrix.size();
    let len = rows.len() / rank;
    let mut result = vec![0.0; rows.len()];
    for (k, row) in result.chunks_exact_mut(len).enumerate() {
        for (weight, source) in matrix.row(k).iter().zip(rows.chunks_exact(len)) {
            let entries = row.iter_mut().zip(source);
            entries.for_each(|(entry, value)| *entry += weight * value);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` vectors of four factor-analysis numbers with one factor and noise of deviation `noise`.
    fn vectors(count: usize, noise: f64) -> Vec<f32> {
        let mut normals = Normals(7);
        let mut vectors = Vec::with_capacity(LEN * count);
        for _ in 0..count {
            let latent = normals.next();
            let entries = LOADINGS.map(|loading| 2.0 + loading * latent + noise * normals.next());
            vectors.extend(entries.map(|value| value as f32));
        }
        vectors
    }

    const LOADINGS: [f64; 6] = [1.0, -2.0, 0.5, 3.0, -0.25, 1.5];
    const LEN: usize = LOADINGS.len();

    /// Sums of twelve uniform numbers of a linear congruential generator (Knuth's MMIX constants).
    struct Normals(u64);

    impl Normals {
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
                self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
                (self.0 >> 11) as f64 / (1_u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    fn fitted(vectors: &[f32], rank: usize, rule: FactorRule) -> FactorEstimate {
        let mut analysis = OnlineFactorAnalysis::new(LEN, rank, rule).unwrap();
        for vector in vectors.chunks_exact(LEN) {
            analysis.observe(vector).unwrap();
        }
        analysis.estimate().unwrap()
    }

    /// The Frobenius norm of the difference of two covariances, relative to the second.
    fn difference(found: &FactorEstimate, expected: &FactorEstimate) -> f64 {
        let entries = |entry: &dyn Fn(usize, usize) -> f64| -> f64 {
            let squares = (0..LEN * LEN).map(|at| entry(at / LEN, at % LEN).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let covariance = |i, j| expected.covariance(i, j);
        entries(&|i, j| found.covariance(i, j) - covariance(i, j)) / entries(&covariance)
    }

    fn truth(noise: f64) -> FactorEstimate {
        FactorEstimate {
            mean: vec![2.0; LEN],
            factors: LOADINGS.to_vec(),
            variance: vec![noise * noise; LEN],
        }
    }

    #[test]
    fn parameter_expansion_recovers_a_known_covariance() {
        // The standard error of a variance from T normals is √(2/T) of it: four of them.
        let bound = 4.0 * (2.0_f64 / 20_000.0).sqrt();
        for noise in [1.0, 0.1] {
            let vectors = vectors(20_000, noise);
            for rank in [1, 3] {
                let found = fitted(&vectors, rank, FactorRule::ParameterExpansion);
                let error = difference(&found, &truth(noise));
                assert!(error < bound, "noise {noise}, rank {rank}: {error}");
            }
        }
    }

    #[test]
    fn online_and_batch_agree_where_the_batch_has_converged() {
        let vectors = vectors(5000, 1.0);
        let batch = FactorEstimate::maximum_likelihood(&vectors, LEN, 1, 1000).unwrap();
        // Expectation-maximisation does not move away from the maximum.
        let improved = batch.improved(&vectors, 100).unwrap();
        assert!(difference(&improved, &batch) < 1e-3);
        // Within the standard error of the estimate itself.
        let online = fitted(&vectors, 1, FactorRule::ParameterExpansion);
        let error = difference(&online, &batch);
        assert!(error < (2.0_f64 / 5000.0).sqrt(), "{error}");
    }

    #[test]
    fn the_covariance_of_few_vectors_is_their_own() {
        let vectors = vectors(4, 1.0);
        for rank in [3, 5] {
            let found = fitted(&vectors, rank, FactorRule::ParameterExpansion);
            let rows = |at: usize| vectors.chunks_exact(LEN).map(move |v| f64::from(v[at]));
            let mean = |at: usize| rows(at).sum::<f64>() / 4.0;
            for i in 0..LEN {
                for j in 0..LEN {
                    let products = rows(i).zip(rows(j));
                    let products = products.map(|(x, y)| (x - mean(i)) * (y - mean(j)));
                    let share = if i == j { 1.0 } else { START_SHARE };
                    let expected = share * products.sum::<f64>() / 4.0;
                    let error = (found.covariance(i, j) - expected).abs();
                    assert!(error < 1e-4, "rank {rank}, {i}, {j}: {error}");
                }
            }
        }
    }

    #[test]
    fn marginal_variances_are_exact() {
        let vectors = vectors(777, 0.5);
        let found = fitted(&vectors, 2, FactorRule::ParameterExpansion);
        let batch = FactorEstimate::principal_components(&vectors, LEN, 2).unwrap();
        for at in 0..LEN {
            let values = || vectors.chunks_exact(LEN).map(|v| f64::from(v[at]));
            let mean = values().sum::<f64>() / 777.0;
            let expected = values().map(|v| (v - mean).powi(2)).sum::<f64>() / 777.0;
            assert!((found.covariance(at, at) / expected - 1.0).abs() < 1e-4);
            assert!((batch.mean[at] - mean).abs() < 1e-9);
        }
    }

    #[test]
    fn gradients_increase_the_likelihood() {
        let vectors = vectors(20_000, 1.0);
        let found = fitted(&vectors, 1, FactorRule::GradientAscent { rate: 0.003 });
        let error = difference(&found, &truth(1.0));
        assert!(error < 0.15, "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_an_error() {
        let rule = FactorRule::ParameterExpansion;
        for rank in [0, 3] {
            let error = OnlineFactorAnalysis::new(2, rank, rule).unwrap_err();
            assert!(error.is_config(), "{error}");
        }
        let rule_without_rate = FactorRule::GradientAscent { rate: 0.0 };
        assert!(OnlineFactorAnalysis::new(2, 1, rule_without_rate).is_err());
        let mut analysis = OnlineFactorAnalysis::new(2, 1, rule).unwrap();
        assert!(analysis.observe(&[1.0]).is_err());
        assert!(
            analysis
                .observe(&[1.0, f32::NAN])
                .unwrap_err()
                .is_numerical()
        );
        assert!(analysis.estimate().unwrap_err().is_too_early());
        // Numbers that never change have the smallest variance there is.
        for _ in 0..50 {
            analysis.observe(&[1.0, 1.0]).unwrap();
        }
        let estimate = analysis.estimate().unwrap();
        assert!(estimate.variance.iter().all(|&value| value > 0.0));
        assert!(estimate.factors.iter().all(|&value| value == 0.0));
    }
}
