//! The initial Gaussian of an algorithm.
//!
//! In covariance form the mean starts at the model's weights, the diagonal is small relative to
//! them, and the factors are orthogonal rows, so that none of them is redundant. In precision form
//! the factors start at zero and are learned from the data.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;
use serde::{Deserialize, Serialize};

use crate::algebra::{Cholesky, SquareMatrix};
use crate::error::Result;
use crate::kernels::{self, CovarianceParts, Diagonal, FactorUnits};
use crate::noise::Noise;

/// An initial mean that is not the model's own weights.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum InitialMean {
    /// Zero, as in the VIFA paper.
    Zero,
}

/// The initial standard deviation of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InitialDeviation {
    /// The same standard deviation for every weight.
    Constant(f64),
    /// This number divided by the square root of the parameter's fan-in.
    FanInScaled(f64),
}

impl InitialDeviation {
    /// A small part of the weights themselves, with which methods begin that learn the scale of their covariance.
    pub const NARROW: Self = Self::FanInScaled(0.03);

    /// The constant, or the factor of 1/√fan-in.
    pub fn scale(self) -> f64 {
        match self {
            Self::Constant(scale) | Self::FanInScaled(scale) => scale,
        }
    }

    /// log ψ of every weight.
    pub fn log_variance(self, layout: &Layout, device: &Device) -> Tensor<1> {
        let pieces = layout.entries().iter().map(|entry| {
            let deviation = match self {
                Self::Constant(deviation) => deviation,
                Self::FanInScaled(scale) => scale / (entry.fan_in() as f64).sqrt(),
            };
            Tensor::full([entry.len()], 2.0 * deviation.ln(), device)
        });
        Tensor::cat(pieces.collect(), 0)
    }
}

/// Orthogonal rows of unit norm, `[rank, len]`; `None` at rank 0.
///
/// Random normals are orthogonalised through the Cholesky factor of their Gram matrix, twice to
/// reduce rounding errors.
pub fn orthogonal_rows(
    rank: usize,
    len: usize,
    noise: Noise,
    device: &Device,
) -> Result<Option<Tensor<2>>> {
    if rank == 0 {
        return Ok(None);
    }
    let rows = (0..rank as u64).map(|row| noise.row(row).normal(len, device).unsqueeze());
    let mut rows: Tensor<2> = Tensor::cat(rows.collect(), 0);
    for _ in 0..2 {
        let unit = CovarianceParts {
            mean: Tensor::zeros([len], device),
            factors: Some(rows.clone()),
            units: FactorUnits::Weights,
            diagonal: Diagonal::Variance(Tensor::ones([len], device)),
        };
        let gram = SquareMatrix::from_row_major(rank, kernels::gram(&unit))?;
        let inverse = Cholesky::with_floor(&gram)?.inverse_lower();
        rows = kernels::mix(&rows, inverse.as_slice(), rank);
    }
    Ok(Some(rows))
}

/// A parameter that an optimiser updates: a leaf on an autodiff device, as Burn's optimisers
/// require.
pub fn trained<const R: usize>(value: Tensor<R>) -> Param<Tensor<R>> {
    Param::initialized(ParamId::new(), trained_value(value))
}

/// The value of such a parameter.
pub(crate) fn trained_value<const R: usize>(value: Tensor<R>) -> Tensor<R> {
    Tensor::from_inner(value).require_grad()
}

/// A value that is saved with the parameters but not updated by an optimiser. It is on an autodiff
/// device because Burn's training with replicas marks every float parameter as requiring a
/// gradient, which fails on other devices.
pub fn buffer<const R: usize>(value: Tensor<R>) -> Param<Tensor<R>> {
    Param::initialized(ParamId::new(), Tensor::from_inner(value))
}

/// Updates a buffer by a computation without autodiff.
pub fn updated<const R: usize>(
    buffer: Param<Tensor<R>>,
    change: impl FnOnce(Tensor<R>) -> Tensor<R>,
) -> Param<Tensor<R>> {
    buffer.map(|value| Tensor::from_inner(change(value.without_autodiff())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_orthonormal_up_to_rounding() {
        let device = Device::default();
        for (rank, len) in [(1, 1), (3, 4), (7, 300)] {
            let rows = orthogonal_rows(rank, len, Noise::new(5), &device)
                .unwrap()
                .unwrap();
            let products: Vec<f32> = rows
                .clone()
                .matmul(rows.transpose())
                .try_into_vec_as()
                .unwrap();
            for (index, product) in products.iter().enumerate() {
                let expected = if index % (rank + 1) == 0 { 1.0 } else { 0.0 };
                let tolerance = 8.0 * f32::EPSILON * (len as f32).sqrt();
                assert!(
                    (product - expected).abs() <= tolerance,
                    "{rank}×{len}: {products:?}"
                );
            }
        }
        assert!(
            orthogonal_rows(0, 5, Noise::new(5), &device)
                .unwrap()
                .is_none()
        );
    }
}
