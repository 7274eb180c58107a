//! The precision form, N(μ, (UᵀU + diag d)⁻¹).
//!
//! * Woodbury: A = (I + U d⁻¹ Uᵀ)⁻¹, Σv = v/d − (U/d)ᵀ A (U/d) v, log|Σ| = −Σ log d − log|I + U d⁻¹ Uᵀ|.
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

use super::form::{GaussianForm, Moments};
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::Result;
use crate::kernels::statistics::{self, PrecisionParts};
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

impl GaussianForm for PrecisionForm {
    fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        let parts = self.parts();
        let coefficients = self.inner(&parts)?.draw_coefficients();
        let normal = noise.normal(parts.mean.dims()[0], &parts.mean.device());
        Ok(statistics::precision_draw(
            &parts,
            coefficients.as_slice(),
            normal,
        ))
    }

    fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        let parts = self.parts();
        let coefficients = self.inner(&parts)?.draw_coefficients();
        let ([len], device) = (parts.mean.dims(), parts.mean.device());
        if count == 0 {
            return Ok(Tensor::zeros([0, len], &device));
        }
        let rows = (0..count as u64).map(|row| {
            let normal = noise.row(row).normal(len, &device);
            statistics::precision_draw(&parts, coefficients.as_slice(), normal).unsqueeze::<2>()
        });
        Ok(Tensor::cat(rows.collect(), 0))
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

    fn squared_distance(&self, deviation: &Tensor<1>) -> Result<f64> {
        let parts = self.parts();
        let weighted = deviation.clone() * parts.precision;
        let explained: f64 = parts.factors.as_ref().map_or(0.0, |factors| {
            statistics::project(factors, deviation)
                .iter()
                .map(|value| value * value)
                .sum()
        });
        Ok(statistics::dot(deviation, &weighted) + explained)
    }
}
