//! The covariance form, N(c, FᵀF + diag ψ).
//!
//! * A = F/ψ, B = F Aᵀ, C = (I+B)⁻¹A, so S⁻¹v = v/ψ − Cᵀ(A v) and log|S| = Σ log ψ + log|I+B|.
//! * J Σ Jᵀ = (J ψ^½)(J ψ^½)ᵀ + (J Fᵀ)(J Fᵀ)ᵀ.
//! * A draw is c + hᵀF + ψ^½ ⊙ z with h ~ N(0, I_K), z ~ N(0, I_D).
//!
//! | symbol | field |
//! |---|---|
//! | c | `mean` |
//! | F | `factors` |
//! | ψ | `diagonal` |

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::Sampler;
use super::form::{GaussianForm, Moments};
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::Result;
use crate::kernels::{self, CovarianceParts, Diagonal, FactorUnits, statistics};
use crate::noise::Noise;

/// The parameters of a Gaussian in covariance form.
#[derive(Module, Debug)]
pub struct CovarianceForm {
    pub(super) mean: Param<Tensor<1>>,
    pub(super) factors: Option<Param<Tensor<2>>>,
    pub(super) diagonal: Param<Tensor<1>>,
}

impl CovarianceForm {
    fn parts(&self) -> CovarianceParts {
        CovarianceParts {
            mean: self.mean.val(),
            factors: self.factors.as_ref().map(Param::val),
            units: FactorUnits::Weights,
            diagonal: Diagonal::Variance(self.diagonal.val()),
        }
    }

    fn inner(&self, parts: &CovarianceParts) -> Result<IdentityPlus> {
        let gram = SquareMatrix::from_row_major(parts.rank(), kernels::gram(parts))?;
        Ok(IdentityPlus::new(&gram)?)
    }
}

impl Sampler for CovarianceParts {
    fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        Ok(kernels::draw(self, noise))
    }

    fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        Ok(kernels::draws(self, noise, count))
    }
}

impl GaussianForm for CovarianceForm {
    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(self.parts()))
    }

    fn variance(&self) -> Result<Tensor<1>> {
        Ok(statistics::covariance_variance(&self.parts()))
    }

    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        let product = self.diagonal.val() * vector.clone();
        Ok(match &self.factors {
            Some(factors) => {
                let factors = factors.val();
                product + statistics::combine(&factors, &statistics::project(&factors, vector))
            }
            None => product,
        })
    }

    fn precision_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        let parts = self.parts();
        let scaled = vector.clone() / self.diagonal.val();
        let Some(factors) = &parts.factors else {
            return Ok(scaled);
        };
        let projection = statistics::project(factors, &scaled);
        let solved = self.inner(&parts)?.inverse().multiply_vector(&projection)?;
        Ok(scaled - statistics::combine(factors, &solved) / self.diagonal.val())
    }

    fn covariance_roots(&self, jacobian: Tensor<2>) -> Result<Vec<Tensor<2>>> {
        let deviation = self.diagonal.val().sqrt().unsqueeze::<2>();
        let mut roots = vec![jacobian.clone() * deviation];
        if let Some(factors) = &self.factors {
            roots.push(jacobian.matmul(factors.val().transpose()));
        }
        Ok(roots)
    }

    fn moments(&self) -> Result<Moments> {
        let parts = self.parts();
        let log_determinant =
            statistics::log_sum(self.diagonal.val()) + self.inner(&parts)?.log_determinant();
        Ok(Moments {
            mean: self.mean.val(),
            variance: self.variance()?,
            log_determinant,
        })
    }

    fn squared_distance(&self, deviation: &Tensor<1>) -> Result<f64> {
        let parts = self.parts();
        let scaled = deviation.clone() / self.diagonal.val();
        let distance = statistics::dot(deviation, &scaled);
        let Some(factors) = &parts.factors else {
            return Ok(distance);
        };
        // vᵀS⁻¹v = vᵀ(v/ψ) − (A v)ᵀ(I+B)⁻¹(A v)
        let projection = statistics::project(factors, &scaled);
        let solved = self.inner(&parts)?.inverse().multiply_vector(&projection)?;
        Ok(distance
            - projection
                .iter()
                .zip(&solved)
                .map(|(p, s)| p * s)
                .sum::<f64>())
    }
}
