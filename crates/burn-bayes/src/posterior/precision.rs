//! The precision form, N(μ, (UᵀU + diag d)⁻¹).
//!
//! * `inverse.rs` has Σ v, its diagonal and log|Σ|, with A = (I + U d⁻¹ Uᵀ)⁻¹.
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
use super::form::{CovarianceRoots, CovarianceTerms, GaussianForm};
use super::inverse::LowRankInverse;
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::Result;
use crate::kernels::composed::{from_host, to_host};
use crate::kernels::statistics::{self, PrecisionParts};
use crate::kernels::{self, Projections};
use crate::noise::Noise;

/// The parameters of a Gaussian in precision form.
#[derive(Module, Debug)]
pub(super) struct PrecisionForm {
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

    /// Σ.
    fn covariance(&self) -> Result<LowRankInverse> {
        covariance(&self.parts())
    }
}

fn covariance(parts: &PrecisionParts) -> Result<LowRankInverse> {
    LowRankInverse::new(parts.factors.as_ref(), &parts.precision)
}

/// Draws, and U Uᵀ, which the same pass computes.
#[derive(Clone, Debug)]
pub(crate) struct PrecisionDraws {
    /// One draw per noise, `[D]` each.
    pub(crate) draws: Vec<Tensor<1>>,
    /// U Uᵀ, K×K row-major.
    pub(crate) gram: Vec<f64>,
}

/// One draw per noise.
pub(crate) fn precision_draws(parts: &PrecisionParts, noises: &[Noise]) -> Result<PrecisionDraws> {
    let Projections {
        scaled_gram,
        gram,
        products,
    } = kernels::projections(parts, noises);
    let scaled_gram = SquareMatrix::from_row_major(parts.rank(), scaled_gram)?;
    let coefficients = DrawCoefficients(IdentityPlus::new(&scaled_gram)?.draw_coefficients());
    Ok(PrecisionDraws {
        draws: coefficients.draws(parts, noises, products)?,
        gram,
    })
}

/// The K×K matrix that all draws share. It maps U (d^-½ ⊙ ε) to the coefficients of the factors in a draw.
#[derive(Debug)]
struct DrawCoefficients(SquareMatrix);

impl DrawCoefficients {
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
        let inner = covariance(&parts)?;
        let coefficients = DrawCoefficients(inner.inner().draw_coefficients());
        Ok(Self {
            parts,
            coefficients,
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

    fn variance(&self) -> Result<Vec<f64>> {
        self.covariance()?.diagonal()
    }

    fn precision_diagonal(&self) -> Result<Vec<f64>> {
        let parts = self.parts();
        let mut diagonal = to_host(parts.precision);
        if let Some(factors) = parts.factors {
            let squares = to_host(factors.square().sum_dim(0));
            diagonal
                .iter_mut()
                .zip(squares)
                .for_each(|(sum, square)| *sum += square);
        }
        Ok(diagonal)
    }

    fn log_determinant(&self) -> Result<f64> {
        Ok(-self.covariance()?.log_determinant())
    }

    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        let product = self.covariance()?.product(&to_host(vector.clone()));
        Ok(from_host(product, vector.dims(), &vector.device()))
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
        Ok(CovarianceRoots {
            factors: parts
                .factors
                .clone()
                .map(|factors| factors * deviation.clone()),
            mixed: covariance(&parts)?.solved_rows(),
            deviation,
        })
    }

    fn covariance_terms(&self) -> Result<CovarianceTerms> {
        Ok(CovarianceTerms {
            diagonal: self.diagonal.val().recip(),
            vectors: self.covariance()?.whitened_rows(),
            is_difference: true,
        })
    }

    fn squared_distances(&self, deviations: &Tensor<2>) -> Result<Vec<f64>> {
        let parts = self.parts();
        let scaled = deviations.clone() * parts.precision.sqrt().unsqueeze::<2>();
        let squares = statistics::row_squares(scaled);
        let Some(factors) = parts.factors else {
            return Ok(squares);
        };
        let projections = kernels::inner_products(deviations, &factors);
        let explained = statistics::row_squares(projections);
        Ok(squares.iter().zip(explained).map(|(s, e)| s + e).collect())
    }
}
