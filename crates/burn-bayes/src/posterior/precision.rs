//! The precision form, N(μ, (UᵀU + diag d)⁻¹).
//!
//! * Woodbury: A = (I + U d⁻¹ Uᵀ)⁻¹, Σv = v/d − (U/d)ᵀ A (U/d) v, log|Σ| = −Σ log d − log|I + U d⁻¹ Uᵀ|.
//! * With V = U/√d, W = J/√d and Y = W Vᵀ A: J Σ Jᵀ = R Rᵀ + Y Yᵀ for R = W − Y V, without
//!   cancellation.
//! * A draw, with V = U/√d and B Bᵀ = I + V Vᵀ, is μ + d^-½ ⊙ (ε − Vᵀ B⁻ᵀ (I+B)⁻¹ V ε); safe for
//!   rank-deficient U.
//!
//! | symbol | field |
//! |---|---|
//! | μ | `mean` |
//! | U | `factors` |
//! | d | `diagonal` |

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::Sampler;
use super::form::{CovarianceRoots, CovarianceTerms, GaussianForm, Moments};
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::Result;
use crate::kernels::statistics::{self, PrecisionParts};
use crate::kernels::{self, Projections};
use crate::noise::Noise;

/// The parameters of a Gaussian in precision form.
#[derive(Module, Debug)]
pub struct PrecisionForm {
    pub(super) mean: Param<Tensor<1>>,
    pub(super) factors: Option<Param<Tensor<2>>>,
    pub(super) diagonal: Param<Tensor<1>>,
}

impl PrecisionForm {
    fn parts(&self) -> PrecisionParts {
        PrecisionParts {
            mean: self.mean.val(),
            factors: self.factors.as_ref().map(Param::val),
            precision: self.diagonal.val(),
        }
    }

    fn inner(&self, parts: &PrecisionParts) -> Result<IdentityPlus> {
        let gram = SquareMatrix::from_row_major(parts.rank(), parts.gram())?;
        Ok(IdentityPlus::new(&gram)?)
    }
}

/// Draws, and U Uᵀ, which the same pass computes.
#[derive(Clone, Debug)]
pub struct PrecisionDraws {
    /// One draw per noise, `[D]` each.
    pub draws: Vec<Tensor<1>>,
    /// U Uᵀ, K×K row-major.
    pub gram: Vec<f64>,
}

/// One draw per noise.
pub fn precision_draws(parts: &PrecisionParts, noises: &[Noise]) -> Result<PrecisionDraws> {
    let Projections {
        scaled_gram,
        gram,
        products,
    } = kernels::projections(parts, noises);
    let coefficients = DrawCoefficients::new(parts.rank(), scaled_gram)?;
    Ok(PrecisionDraws {
        draws: coefficients.draws(parts, noises, products)?,
        gram,
    })
}

/// The K×K matrix that all draws share. It maps U (d^-½ ⊙ ε) to the coefficients of the factors in a draw.
#[derive(Debug)]
struct DrawCoefficients(SquareMatrix);

impl DrawCoefficients {
    fn new(rank: usize, scaled_gram: Vec<f64>) -> Result<Self> {
        let gram = SquareMatrix::from_row_major(rank, scaled_gram)?;
        Ok(Self(IdentityPlus::new(&gram)?.draw_coefficients()))
    }

    fn draws(
        &self,
        parts: &PrecisionParts,
        noises: &[Noise],
        products: Vec<Vec<f64>>,
    ) -> Result<Vec<Tensor<1>>> {
        let draws = noises.iter().zip(products).map(|(&noise, product)| {
            let weights = self.0.multiply_vector(&product)?;
            Ok(kernels::precision_draw(parts, noise, &weights))
        });
        draws.collect()
    }
}

/// Makes all draws with one factorisation of the K×K matrix.
#[derive(Debug)]
struct PrecisionSampler {
    parts: PrecisionParts,
    coefficients: DrawCoefficients,
}

impl PrecisionSampler {
    fn new(parts: PrecisionParts) -> Result<Self> {
        let gram = kernels::projections(&parts, &[]).scaled_gram;
        Ok(Self {
            coefficients: DrawCoefficients::new(parts.rank(), gram)?,
            parts,
        })
    }

    fn draws_of(&self, noises: &[Noise]) -> Result<Vec<Tensor<1>>> {
        let products = kernels::noise_products(&self.parts, noises);
        self.coefficients.draws(&self.parts, noises, products)
    }
}

impl Sampler for PrecisionSampler {
    fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        Ok(self.draws_of(&[noise])?.swap_remove(0))
    }

    fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        let noises: Vec<_> = (0..count as u64).map(|row| noise.row(row)).collect();
        Ok(Tensor::stack(self.draws_of(&noises)?, 0))
    }
}

impl GaussianForm for PrecisionForm {
    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(PrecisionSampler::new(self.parts())?))
    }

    fn variance(&self) -> Result<Tensor<1>> {
        let parts = self.parts();
        let woodbury = self.inner(&parts)?.inverse();
        Ok(statistics::precision_variance(&parts, woodbury.as_slice()))
    }

    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        let parts = self.parts();
        let scaled = vector.clone() / parts.precision.clone();
        let Some(factors) = &parts.factors else {
            return Ok(scaled);
        };
        let projection = statistics::project(factors, &scaled);
        let solved = self.inner(&parts)?.inverse().multiply_vector(&projection)?;
        Ok(scaled - statistics::combine(factors, &solved) / parts.precision)
    }

    fn precision_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        let parts = self.parts();
        let scaled = vector.clone() * parts.precision.clone();
        Ok(match &parts.factors {
            Some(factors) => {
                scaled + statistics::combine(factors, &statistics::project(factors, vector))
            }
            None => scaled,
        })
    }

    fn covariance_roots(&self) -> Result<CovarianceRoots> {
        let parts = self.parts();
        let deviation: Tensor<2> = parts.precision.clone().sqrt().recip().unsqueeze();
        let factors = parts.factors.clone();
        let factors = factors.map(|factors| factors * deviation.clone());
        let mixed = match &factors {
            None => None,
            Some(factors) => {
                let woodbury = self.inner(&parts)?.inverse();
                Some(statistics::mix(factors, woodbury.as_slice(), parts.rank()))
            }
        };
        Ok(CovarianceRoots {
            deviation,
            factors,
            mixed,
        })
    }

    fn covariance_terms(&self) -> Result<CovarianceTerms> {
        let parts = self.parts();
        let diagonal = parts.precision.clone().recip();
        let vectors = match &parts.factors {
            None => None,
            Some(factors) => {
                let scaled = factors.clone() * diagonal.clone().unsqueeze::<2>();
                let root = self.inner(&parts)?.inverse_root();
                Some(statistics::mix(&scaled, root.as_slice(), parts.rank()))
            }
        };
        Ok(CovarianceTerms {
            diagonal,
            vectors,
            is_difference: true,
        })
    }

    fn moments(&self) -> Result<Moments> {
        let parts = self.parts();
        let log_determinant =
            -statistics::log_sum(parts.precision.clone()) - self.inner(&parts)?.log_determinant();
        Ok(Moments {
            mean: parts.mean,
            variance: self.variance()?,
            log_determinant,
        })
    }

    fn squared_distances(&self, deviations: &Tensor<2>) -> Result<Vec<f64>> {
        let parts = self.parts();
        let scaled = deviations.clone() * parts.precision.sqrt().unsqueeze::<2>();
        let squares = statistics::row_squares(scaled);
        let Some(factors) = parts.factors else {
            return Ok(squares);
        };
        let projections = deviations.clone().matmul(factors.transpose());
        let explained = statistics::row_squares(projections);
        Ok(squares.iter().zip(explained).map(|(s, e)| s + e).collect())
    }
}
