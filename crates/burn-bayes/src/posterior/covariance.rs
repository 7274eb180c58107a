//! The covariance form, N(c, FᵀF + diag ψ).
//!
//! * A = F/ψ, B = F Aᵀ; `inverse.rs` has S⁻¹v and log|S|.
//! * vᵀS⁻¹v = ‖(v − Fᵀh)/ψ^½‖² + ‖h‖² at h = (I+B)⁻¹A v, where this is smallest, so that rounding errors of h
//!   have only a second-order effect.
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
use super::form::{CovarianceRoots, CovarianceTerms, GaussianForm};
use super::inverse::LowRankInverse;
use crate::error::Result;
use crate::kernels::composed::{from_host, to_host};
use crate::kernels::{self, CovarianceParts, Diagonal, FactorUnits, statistics};
use crate::noise::Noise;

/// The parameters of a Gaussian in covariance form.
#[derive(Module, Debug)]
pub(super) struct CovarianceForm {
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

    /// S⁻¹.
    fn precision(&self) -> Result<LowRankInverse> {
        let factors = self.factors.as_ref().map(Param::val);
        LowRankInverse::new(factors.as_ref(), &self.diagonal.val())
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

    fn variance(&self) -> Result<Vec<f64>> {
        Ok(to_host(statistics::covariance_variance(&self.parts())))
    }

    fn precision_diagonal(&self) -> Result<Vec<f64>> {
        self.precision()?.diagonal()
    }

    fn log_determinant(&self) -> Result<f64> {
        Ok(self.precision()?.log_determinant())
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
        let product = self.precision()?.product(&to_host(vector.clone()));
        Ok(from_host(product, vector.dims(), &vector.device()))
    }

    fn covariance_roots(&self) -> Result<CovarianceRoots> {
        Ok(CovarianceRoots {
            deviation: self.diagonal.val().sqrt().unsqueeze(),
            factors: self.factors.as_ref().map(Param::val),
            mixed: None,
        })
    }

    fn covariance_terms(&self) -> Result<CovarianceTerms> {
        Ok(CovarianceTerms {
            diagonal: self.diagonal.val(),
            vectors: self.factors.as_ref().map(Param::val),
            is_difference: false,
        })
    }

    fn squared_distances(&self, deviations: &Tensor<2>) -> Result<Vec<f64>> {
        let parts = self.parts();
        let scale = self.diagonal.val().sqrt().unsqueeze::<2>();
        let Some(factors) = &parts.factors else {
            return Ok(statistics::row_squares(deviations.clone() / scale));
        };
        let scaled = deviations.clone() / self.diagonal.val().unsqueeze::<2>();
        let projections = to_host(kernels::inner_products(&scaled, factors));
        let inverse = self.precision()?.inner().inverse();
        let solved = projections.chunks_exact(parts.rank().max(1));
        let solved = solved.map(|projection| inverse.multiply_vector(projection));
        let solved = solved.collect::<Result<Vec<_>, _>>()?.concat();
        let explained = kernels::mix(factors, &solved, deviations.dims()[0]);
        let squares = statistics::row_squares((deviations.clone() - explained) / scale);
        let latent = solved.chunks_exact(parts.rank().max(1)).map(|latent| {
            // Rounded as in `explained`.
            let rounded = latent.iter().map(|&value| f64::from(value as f32));
            rounded.map(|value| value * value).sum::<f64>()
        });
        Ok(squares.iter().zip(latent).map(|(s, l)| s + l).collect())
    }
}
