//! Factor analysis of a matrix of vectors, dense and in f64: the references of the online rules.

use burn_bayes::algebra::{SquareMatrix, SymmetricEigen};
use burn_bayes::eval::Bounded;
use burn_bayes::posterior::DenseGaussian;
use burn_bayes::{Error, Result};

/// The smallest ψ, as a fraction of the variance of its number.
const FLOOR: f64 = 1e-9;
/// Change of the mean log-likelihood at which a fit has converged, nats.
const TOLERANCE: f64 = 1e-7;

/// N(mean, FᵀF + diag variance), fitted to vectors.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FactorEstimate {
    /// c, D numbers.
    pub mean: Vec<f64>,
    /// F, K×D row by row.
    pub factors: Vec<f64>,
    /// ψ, D numbers.
    pub variance: Vec<f64>,
}

impl FactorEstimate {
    /// One entry of FᵀF + diag ψ.
    pub fn covariance(&self, row: usize, column: usize) -> f64 {
        let factors = self.factors.chunks_exact(self.mean.len());
        let shared: f64 = factors.map(|factor| factor[row] * factor[column]).sum();
        if row == column {
            shared + self.variance[row]
        } else {
            shared
        }
    }

    /// The same with its D×D covariance, for at most [`DenseGaussian::LIMIT`] numbers.
    pub fn to_dense(&self) -> Result<DenseGaussian> {
        let len = checked(self.mean.len())?;
        let covariance = SquareMatrix::from_fn(len, |i, j| self.covariance(i, j));
        let mean = self.mean.clone();
        DenseGaussian::new(mean, covariance.into_row_major())
    }

    /// The factor analysis of maximum likelihood of `vectors`, T×D row by row, by at most `iterations` of: ψ given,
    /// F from the K largest eigenvalues of ψ^-½ S ψ^-½; F given, ψ = diag(S − FᵀF).
    ///
    /// scikit-learn's `FactorAnalysis` does the same by a singular value decomposition of the vectors.
    ///
    /// # Errors
    ///
    /// A rank of 0 or from D on, more than [`DenseGaussian::LIMIT`] numbers in a vector, or fewer than two vectors.
    pub fn maximum_likelihood(
        vectors: &[f32],
        len: usize,
        rank: usize,
        iterations: usize,
    ) -> Result<Self> {
        let (mean, covariance) = moments(vectors, len, rank)?;
        let total: Vec<f64> = covariance.diagonal().collect();
        let smallest = FLOOR * covariance.trace() / len as f64 + f64::MIN_POSITIVE;
        let mut variance: Vec<f64> = total.iter().map(|v| v.at_least(smallest)).collect();
        let (mut factors, mut before) = (Vec::new(), f64::NEG_INFINITY);
        for _ in 0..iterations.max(1) {
            let root: Vec<f64> = variance.iter().map(|value| value.sqrt()).collect();
            let scaled =
                SquareMatrix::from_fn(len, |i, j| covariance.get(i, j) / (root[i] * root[j]));
            factors.clear();
            let mut likelihood = -0.5 * variance.iter().map(|value| value.ln()).sum::<f64>();
            likelihood -= 0.5 * scaled.trace();
            for pair in SymmetricEigen::leading(&scaled, rank)? {
                let gain = (pair.value - 1.0).at_least(0.0);
                likelihood += 0.5 * (gain - gain.ln_1p());
                let entries = pair.vector.iter().zip(&root);
                factors.extend(entries.map(|(entry, root)| gain.sqrt() * entry * root));
            }
            for (at, variance) in variance.iter_mut().enumerate() {
                let shared: f64 = factors.iter().skip(at).step_by(len).map(|f| f * f).sum();
                *variance = (total[at] - shared)
                    .at_least(FLOOR * total[at])
                    .at_least(smallest);
            }
            if likelihood - before < TOLERANCE {
                break;
            }
            before = likelihood;
        }
        Ok(Self {
            mean,
            factors,
            variance,
        })
    }

    /// Probabilistic principal components (Tipping and Bishop 1999): the same ψ for all numbers, in closed form.
    ///
    /// # Errors
    ///
    /// Those of [`maximum_likelihood`](Self::maximum_likelihood).
    pub fn principal_components(vectors: &[f32], len: usize, rank: usize) -> Result<Self> {
        let (mean, covariance) = moments(vectors, len, rank)?;
        let pairs = SymmetricEigen::leading(&covariance, rank)?;
        let explained: f64 = pairs.iter().map(|pair| pair.value).sum();
        let rest = (covariance.trace() - explained) / (len - rank) as f64;
        let rest = rest.at_least(f64::MIN_POSITIVE);
        let factors = pairs.iter().flat_map(|pair| {
            let scale = (pair.value - rest).at_least(0.0).sqrt();
            pair.vector.iter().map(move |entry| scale * entry)
        });
        Ok(Self {
            mean,
            factors: factors.collect(),
            variance: vec![rest; len],
        })
    }

    /// Batch expectation-maximisation with parameter expansion, the oracle of the online rule: `iterations` steps from
    /// this estimate.
    #[cfg(test)]
    pub(super) fn improved(&self, vectors: &[f32], iterations: usize) -> Result<Self> {
        use burn_bayes::algebra::Cholesky;

        let len = self.mean.len();
        let rank = self.factors.len() / len.max(1);
        let (mean, covariance) = moments(vectors, len, rank)?;
        let (mut factors, mut variance) = (self.factors.clone(), self.variance.clone());
        for _ in 0..iterations {
            let weighted: Vec<f64> = factors
                .iter()
                .enumerate()
                .map(|(at, factor)| factor / variance[at % len])
                .collect();
            let gram = SquareMatrix::from_fn(rank, |i, j| {
                let rows = factors[i * len..][..len].iter().zip(&weighted[j * len..]);
                let dot: f64 = rows.map(|(l, r)| l * r).sum();
                dot + f64::from(u8::from(i == j))
            });
            let latent = Cholesky::new(&gram)?.inverse();
            let mut weights = vec![0.0; rank * len];
            for k in 0..rank {
                for at in 0..len {
                    let terms = (0..rank).map(|j| latent.get(k, j) * weighted[j * len + at]);
                    weights[k * len + at] = terms.sum();
                }
            }
            // E[h dᵀ] = W S and E[h hᵀ] = Σ + W S Wᵀ.
            let mut cross = vec![0.0; rank * len];
            for (cross, weights) in cross.chunks_exact_mut(len).zip(weights.chunks_exact(len)) {
                cross.copy_from_slice(&covariance.multiply_vector(weights)?);
            }
            let second = SquareMatrix::from_fn(rank, |i, j| {
                let rows = weights[i * len..][..len].iter().zip(&cross[j * len..]);
                latent.get(i, j) + rows.map(|(l, r)| l * r).sum::<f64>()
            });
            Cholesky::new(&second)?.solve_lower(&mut cross)?;
            factors = cross;
            for (at, variance) in variance.iter_mut().enumerate() {
                let shared: f64 = factors.iter().skip(at).step_by(len).map(|f| f * f).sum();
                let total = covariance.get(at, at);
                *variance = (total - shared)
                    .at_least(FLOOR * total)
                    .at_least(f64::MIN_POSITIVE);
            }
        }
        Ok(Self {
            mean,
            factors,
            variance,
        })
    }
}

fn checked(len: usize) -> Result<usize> {
    const LIMIT: usize = DenseGaussian::LIMIT;
    if len > LIMIT {
        let problem = format!("a dense matrix of {len} rows; at most {LIMIT} are supported");
        return Err(Error::layout(problem));
    }
    Ok(len)
}

/// The mean and the covariance, D×D, of the vectors.
fn moments(vectors: &[f32], len: usize, rank: usize) -> Result<(Vec<f64>, SquareMatrix)> {
    checked(len)?;
    if rank == 0 || rank >= len {
        let problem = format!("is {rank}; it must be at least 1 and below {len}");
        return Err(Error::config("rank", problem));
    }
    let count = vectors.len() / len;
    if count < 2 || vectors.len() != count * len {
        let problem = format!("{} numbers are no two vectors of {len}", vectors.len());
        return Err(Error::layout(problem));
    }
    let mut mean = vec![0.0; len];
    for vector in vectors.chunks_exact(len) {
        let entries = mean.iter_mut().zip(vector);
        entries.for_each(|(mean, &value)| *mean += f64::from(value) / count as f64);
    }
    let mut values = vec![0.0; len * len];
    let mut deviation = vec![0.0; len];
    for vector in vectors.chunks_exact(len) {
        let entries = deviation.iter_mut().zip(vector.iter().zip(&mean));
        entries.for_each(|(entry, (&value, mean))| *entry = f64::from(value) - mean);
        for (row, &scale) in values.chunks_exact_mut(len).zip(&deviation) {
            let entries = row.iter_mut().zip(&deviation);
            entries.for_each(|(entry, value)| *entry += scale * value);
        }
    }
    let covariance = SquareMatrix::from_fn(len, |i, j| values[i * len + j] / count as f64);
    Ok((mean, covariance))
}
