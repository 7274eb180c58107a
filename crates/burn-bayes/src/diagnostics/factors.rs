//! What better factors would gain: the KL divergence of a fit minus the least one that other factors have beside the same
//! diagonal, for few weights.
//!
//! Factors that are nearly 0 have a gradient that is nearly 0, so that neither gradients nor better scales of the weights show what
//! they could gain. With the curvature H = E_q ∇², the deviations R that the diagonal alone has (√ψ, or d^-½), and the
//! eigenpairs (h, w) of R H R, the best K factors give
//!
//! ```text
//! S = R (I + Σ (1/h − 1) w wᵀ) R
//! ```
//!
//! with the K pairs of the largest ½(h − 1 − ln h): of those with h < 1 in covariance form, whose factors widen, and of those with h > 1
//! in precision form, whose factors narrow.
//!
//! H is measured along a frame, D antithetic pairs c ± δ with δ = √D L q for S = L Lᵀ and the rows q of a random rotation:
//! with a = ½(G(c+δ) − G(c−δ)) it is the symmetric part of Σ L⁻ᵀq aᵀ/√D, exactly where the gradient G is linear. The factors that
//! one frame finds best are judged by another one, so that they gain nothing from its noise.

use burn_bayes_eval::Bounded;

use crate::algebra::{AlgebraError, Cholesky, SquareMatrix, SymmetricEigen, dot};
use crate::kernels::composed::to_host;
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, FormKind};

/// A curvature ratio below this is not distinguished from no curvature.
pub(super) const SMALLEST_RATIO: f64 = 0.01;

/// What the best scale of a weight, or of a direction, gains whose precision is too large by a factor of 1/`ratio`.
pub(super) fn gain_of(ratio: f64) -> f64 {
    0.5 * (ratio - 1.0 - ratio.ln())
}

/// A Gaussian with factors, dense.
pub(super) struct DenseFit {
    kind: FormKind,
    rank: usize,
    /// R.
    diagonal: Vec<f64>,
    covariance: SquareMatrix,
    cholesky: Cholesky,
}

/// The rows q of a rotation.
pub(super) struct Frame(SquareMatrix);

/// What better factors would gain, in nats.
#[derive(Clone, Copy, Debug)]
pub(super) struct FactorGain {
    pub(super) nats: f64,
    pub(super) standard_error: f64,
}

impl DenseFit {
    /// `None` without factors, with more weights than `most`, or if the covariance is not positive definite in double precision.
    pub(super) fn of(posterior: &FactorPosterior, most: usize) -> Option<Self> {
        if posterior.rank() == 0 || posterior.len() > most {
            return None;
        }
        let dense = posterior.to_dense().ok()?;
        let kind = posterior.kind();
        let root = |value: f64| match kind {
            FormKind::Covariance => value.sqrt(),
            FormKind::Precision => value.powf(-0.5),
        };
        Some(Self {
            kind,
            rank: posterior.rank(),
            diagonal: to_host(posterior.diagonal())
                .into_iter()
                .map(root)
                .collect(),
            covariance: dense.covariance().clone(),
            cholesky: dense.cholesky().clone(),
        })
    }

    fn size(&self) -> usize {
        self.diagonal.len()
    }

    pub(super) fn frame(&self, noise: Noise) -> Result<Frame, AlgebraError> {
        let size = self.size();
        let normals = noise.latent(size * size).into_iter().map(f64::from);
        let normals = SquareMatrix::from_row_major(size, normals.collect())?;
        Ok(Frame(normals.nearest_orthogonal()?))
    }

    /// The deviations δ of a frame.
    pub(super) fn deviations(&self, frame: &Frame) -> Result<Vec<Vec<f64>>, AlgebraError> {
        let length = (self.size() as f64).sqrt();
        let deviation = |row: usize| {
            let deviation = self.cholesky.lower().multiply_vector(frame.0.row(row))?;
            Ok(deviation.into_iter().map(|value| length * value).collect())
        };
        (0..self.size()).map(deviation).collect()
    }

    /// H, from the differences a along a frame.
    pub(super) fn curvature(
        &self,
        frame: &Frame,
        differences: &[Vec<f64>],
    ) -> Result<SquareMatrix, AlgebraError> {
        let size = self.size();
        let mut solved = frame.0.transpose().into_row_major();
        self.cholesky.solve_lower_transposed(&mut solved)?;
        let solved = SquareMatrix::from_row_major(size, solved)?;
        let differences = SquareMatrix::from_row_major(size, differences.concat())?;
        let product = solved.multiply(&differences)?;
        let half = 0.5 / (size as f64).sqrt();
        Ok(SquareMatrix::from_fn(size, |row, column| {
            half * (product.get(row, column) + product.get(column, row))
        }))
    }

    /// What better factors would gain, with the curvature along two frames.
    pub(super) fn gain(&self, curvatures: [&SquareMatrix; 2]) -> Result<FactorGain, AlgebraError> {
        let [first, second] = curvatures;
        let one = self.gain_of(first, second)?;
        let other = self.gain_of(second, first)?;
        Ok(FactorGain {
            nats: (0.5 * (one + other)).at_least(0.0),
            standard_error: 0.5 * (one - other).abs(),
        })
    }

    /// What the factors gain that are best under one curvature, under another one.
    fn gain_of(&self, chosen: &SquareMatrix, judged: &SquareMatrix) -> Result<f64, AlgebraError> {
        let (covariance, log_determinant) = self.best(chosen)?;
        // Up to a constant.
        let divergence = |covariance: &SquareMatrix, log_determinant: f64| {
            0.5 * (dot(covariance.as_slice(), judged.as_slice()) - log_determinant)
        };
        let own = divergence(&self.covariance, self.cholesky.log_determinant());
        Ok(own - divergence(&covariance, log_determinant))
    }

    /// S with the best factors under a curvature, and log|S|.
    fn best(&self, curvature: &SquareMatrix) -> Result<(SquareMatrix, f64), AlgebraError> {
        let deviation = &self.diagonal;
        let scaled = SquareMatrix::from_fn(self.size(), |row, column| {
            deviation[row] * curvature.get(row, column) * deviation[column]
        });
        let eigen = SymmetricEigen::new(&scaled)?;
        let ratios = eigen.values().iter();
        let ratios = ratios.map(|&ratio| ratio.at_least(SMALLEST_RATIO));
        let is_reached = |&(_, ratio): &(usize, f64)| match self.kind {
            FormKind::Covariance => ratio < 1.0,
            FormKind::Precision => ratio > 1.0,
        };
        let mut pairs: Vec<(usize, f64)> = ratios.enumerate().filter(is_reached).collect();
        let gain = |&(_, ratio): &(usize, f64)| gain_of(ratio);
        pairs.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
        pairs.truncate(self.rank);
        let mut covariance = SquareMatrix::identity(self.size());
        for &(index, ratio) in &pairs {
            covariance.add_outer(1.0 / ratio - 1.0, eigen.vectors().row(index));
        }
        let covariance = SquareMatrix::from_fn(self.size(), |row, column| {
            deviation[row] * covariance.get(row, column) * deviation[column]
        });
        let of_diagonal: f64 = deviation.iter().map(|deviation| deviation.ln()).sum();
        let of_factors: f64 = pairs.iter().map(|(_, ratio)| ratio.ln()).sum();
        Ok((covariance, 2.0 * of_diagonal - of_factors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Lbfgs;
    use crate::posterior::DenseGaussian;

    const SIZE: usize = 5;
    const RANK: usize = 2;

    fn normals(stream: u64, count: usize) -> Vec<f64> {
        let normals = Noise::new(5).row(stream).latent(count);
        normals.into_iter().map(f64::from).collect()
    }

    fn gaussian(kind: FormKind, factors: &[f64], diagonal: &[f64]) -> DenseGaussian {
        DenseGaussian::from_factors(kind, vec![0.0; SIZE], factors, diagonal).unwrap()
    }

    /// ½(tr S H − ln|S|), and its gradient in the factors.
    fn divergence(
        kind: FormKind,
        factors: &[f64],
        diagonal: &[f64],
        curvature: &SquareMatrix,
    ) -> (f64, Vec<f64>) {
        let gaussian = gaussian(kind, factors, diagonal);
        let (covariance, precision) = (gaussian.covariance(), gaussian.precision());
        let trace = dot(covariance.as_slice(), curvature.as_slice());
        let value = 0.5 * (trace - gaussian.cholesky().log_determinant());
        let gradient = match kind {
            FormKind::Covariance => SquareMatrix::from_fn(SIZE, |row, column| {
                curvature.get(row, column) - precision.get(row, column)
            }),
            FormKind::Precision => {
                let product = covariance.multiply(curvature).unwrap();
                let product = product.multiply(covariance).unwrap();
                SquareMatrix::from_fn(SIZE, |row, column| {
                    covariance.get(row, column) - product.get(row, column)
                })
            }
        };
        let rows = factors.chunks_exact(SIZE);
        let gradient = rows.flat_map(|row| gradient.multiply_vector(row).unwrap());
        (value, gradient.collect())
    }

    #[test]
    fn the_gain_is_that_of_a_search_for_the_best_factors() {
        let random = normals(1, 3 * SIZE);
        let curvature = SquareMatrix::from_fn(SIZE, |row, column| {
            let low_rank: f64 = random.chunks(SIZE).map(|r| r[row] * r[column]).sum();
            low_rank + if row == column { 0.3 } else { 0.0 }
        });
        let diagonal: Vec<f64> = normals(2, SIZE).into_iter().map(f64::exp).collect();
        let factors: Vec<f64> = normals(3, RANK * SIZE).iter().map(|f| 0.1 * f).collect();
        for kind in [FormKind::Covariance, FormKind::Precision] {
            let gaussian = gaussian(kind, &factors, &diagonal);
            let root = |value: &f64| match kind {
                FormKind::Covariance => value.sqrt(),
                FormKind::Precision => value.sqrt().recip(),
            };
            let fit = DenseFit {
                kind,
                rank: RANK,
                diagonal: diagonal.iter().map(root).collect(),
                covariance: gaussian.covariance().clone(),
                cholesky: gaussian.cholesky().clone(),
            };
            let search = Lbfgs {
                most_steps: 1_000,
                flat: 1e-9,
                first_scale: 0.1,
                longest: 1.0,
            };
            let at = |factors: &[f64]| {
                Ok::<_, AlgebraError>(divergence(kind, factors, &diagonal, &curvature))
            };
            let best = search.minimum(factors.clone(), at).unwrap();
            let [own, best] = [&factors, &best].map(|f| at(f).unwrap().0);
            assert!(own - best > 0.1, "{kind:?} {own} {best}");
            let found = fit.gain([&curvature, &curvature]).unwrap();
            let off = (found.nats - (own - best)).abs();
            assert!(off < 1e-8, "{kind:?} {found:?} {own} {best}");
            assert!(found.standard_error < 1e-12);
        }
    }

    #[test]
    fn a_frame_measures_a_curvature_exactly() {
        let diagonal: Vec<f64> = normals(2, SIZE).into_iter().map(f64::exp).collect();
        let gaussian = gaussian(FormKind::Covariance, &normals(4, SIZE), &diagonal);
        let fit = DenseFit {
            kind: FormKind::Covariance,
            rank: 1,
            diagonal,
            covariance: gaussian.covariance().clone(),
            cholesky: gaussian.cholesky().clone(),
        };
        let curvature = SquareMatrix::gram(SIZE, &normals(5, SIZE * SIZE)).unwrap();
        let frame = fit.frame(Noise::new(1)).unwrap();
        let deviations = fit.deviations(&frame).unwrap();
        let differences = deviations
            .iter()
            .map(|deviation| curvature.multiply_vector(deviation).unwrap());
        let differences: Vec<Vec<f64>> = differences.collect();
        let found = fit.curvature(&frame, &differences).unwrap();
        for (found, expected) in found.as_slice().iter().zip(curvature.as_slice()) {
            assert!((found - expected).abs() < 1e-10, "{found} {expected}");
        }
    }
}
