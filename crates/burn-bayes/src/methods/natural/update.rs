//! An update of a Gaussian, computed from gradients and applied once the learning rate is known.

use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;

use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::{Error, Result};
use crate::kernels::{PrecisionUpdate, sum, to_host};
use crate::methods::proposal::Update;

/// A natural-gradient step.
#[derive(Clone, Debug)]
pub struct NaturalStep {
    /// ĝ.
    pub(super) gradient: Tensor<1>,
    /// U⁺.
    pub(super) factors: Option<Tensor<2>>,
    /// d⁺.
    pub(super) precision: Tensor<1>,
    /// (I + U⁺ d⁺⁻¹ U⁺ᵀ)⁻¹ U⁺ (ĝ/d⁺).
    pub(super) weights: Vec<f64>,
    /// ĝᵀ(P⁺)⁻¹ĝ.
    pub(super) decrement: f64,
}

impl NaturalStep {
    /// The step to an updated precision. Fails if any number is not finite.
    pub(crate) fn new(update: PrecisionUpdate) -> Result<Self> {
        let rank = update.projection.len();
        let inner = SquareMatrix::from_row_major(rank, update.scaled_gram)
            .and_then(|gram| IdentityPlus::new(&gram))
            .map_err(Error::from)?;
        let solved = inner.inverse().multiply_vector(&update.projection);
        let weights = solved.map_err(Error::from)?;
        let products = weights.iter().zip(&update.projection);
        let explained: f64 = products.map(|(weight, product)| weight * product).sum();
        let decrement = update.squared_norm - explained;
        if !(decrement + update.precision_sum).is_finite() {
            let problem = "a natural gradient or a precision is not finite";
            return Err(Error::numerical(problem));
        }
        Ok(Self {
            gradient: update.gradient,
            factors: update.factors,
            precision: update.precision,
            weights,
            decrement: decrement.at_least(0.0),
        })
    }

    /// The step as an algorithm's update; a step that is not finite is rejected with `reason`.
    pub(crate) fn update(
        step: Result<Self>,
        reason: impl FnOnce() -> Error,
    ) -> Result<Update<Self>> {
        match step {
            Ok(step) => Ok(Update::ClosedForm(step)),
            Err(error) if error.is_numerical() => Ok(Update::Rejected(reason())),
            Err(error) => Err(error),
        }
    }

    /// The step to a precision without factors.
    pub(crate) fn diagonal(gradient: Tensor<1>, precision: Tensor<1>) -> Result<Self> {
        let square = gradient.clone().square() / precision.clone();
        let sums = [square, precision.clone()].map(sum).to_vec();
        let sums = to_host(Tensor::cat(sums, 0));
        Self::new(PrecisionUpdate {
            factors: None,
            precision,
            gradient,
            scaled_gram: Vec::new(),
            projection: Vec::new(),
            squared_norm: sums[0],
            precision_sum: sums[1],
        })
    }
}
