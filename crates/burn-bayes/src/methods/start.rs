//! Where a Gaussian starts.
//!
//! In covariance form: the mean at the model's own weights, the diagonal small against them, and the
//! factors as orthogonal rows, so that none of them is redundant before the data have spoken. In
//! precision form the factors start at zero, and the data bring them.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;
use serde::{Deserialize, Serialize};

use crate::algebra::{AlgebraError, Cholesky, SquareMatrix};
use crate::error::{Error, Result};
use crate::kernels::{self, CovarianceParts, Diagonal, statistics};
use crate::noise::Noise;

/// Where the mean starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InitialMean {
    /// The model's own weights.
    Model,
    /// Zero, as in the VIFA paper.
    Zero,
}

impl InitialMean {
    /// The mean at the start, given the model's weights.
    pub(crate) fn of(self, weights: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Model => weights,
            Self::Zero => weights.zeros_like(),
        }
    }
}

/// How far apart draws are at the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InitialDeviation {
    /// The same standard deviation for every weight.
    Constant(f64),
    /// This number over the square root of the parameter's fan-in.
    #[serde(alias = "OverRootFan")]
    FanInScaled(f64),
}

impl InitialDeviation {
    /// The number itself, whatever it multiplies.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Self::Constant(scale) | Self::FanInScaled(scale) => scale,
        }
    }

    /// log ψ of every weight.
    pub(crate) fn log_variance(self, layout: &Layout, device: &Device) -> Tensor<1> {
        let pieces = layout.entries().iter().map(|entry| {
            let deviation = match self {
                Self::Constant(deviation) => deviation,
                Self::FanInScaled(scale) => scale / (fan(&entry.shape) as f64).sqrt(),
            };
            Tensor::full([entry.len()], 2.0 * deviation.ln(), device)
        });
        Tensor::cat(pieces.collect(), 0)
    }
}

/// Inputs that feed one output: the first dimension of a matrix, as Burn stores linear layers, all
/// but the first of a convolution, and the width itself for vectors.
fn fan(shape: &[usize]) -> usize {
    match shape {
        [] => 1,
        [width] | [width, _] => (*width).max(1),
        [_, rest @ ..] => rest.iter().product::<usize>().max(1),
    }
}

/// Orthogonal rows of unit norm, `[rank, len]`; `None` at rank 0.
///
/// Normals are orthogonalised through the Cholesky factor of their Gram matrix, twice for the sake
/// of rounding.
pub(crate) fn orthogonal_rows(
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
            diagonal: Diagonal::Variance(Tensor::ones([len], device)),
        };
        let inverse = inverse_root(rank, kernels::gram(&unit)).map_err(Error::from)?;
        rows = statistics::mix(&rows, &inverse, rank);
    }
    Ok(Some(rows))
}

/// L⁻¹ of G = L Lᵀ, row-major.
fn inverse_root(rank: usize, gram: Vec<f64>) -> Result<Vec<f64>, AlgebraError> {
    let lower = Cholesky::with_floor(&SquareMatrix::from_row_major(rank, gram)?)?;
    let mut inverse = SquareMatrix::identity(rank).into_row_major();
    lower.solve_lower(&mut inverse)?;
    Ok(inverse)
}

/// A parameter that an optimiser moves: a leaf on an autodiff device, as Burn's optimisers ask.
pub(crate) fn trained<const R: usize>(value: Tensor<R>) -> Param<Tensor<R>> {
    Param::initialized(ParamId::new(), Tensor::from_inner(value).require_grad())
}

/// A value that is saved with the parameters but not moved by an optimiser. It is on an autodiff
/// device too, because Burn marks every float parameter of a model that trains in replicas, and
/// can only mark those.
pub(crate) fn buffer<const R: usize>(value: Tensor<R>) -> Param<Tensor<R>> {
    Param::initialized(ParamId::new(), Tensor::from_inner(value))
}

/// Changes a buffer by a computation without autodiff.
pub(crate) fn updated<const R: usize>(
    buffer: Param<Tensor<R>>,
    change: impl FnOnce(Tensor<R>) -> Tensor<R>,
) -> Param<Tensor<R>> {
    buffer.map(|value| Tensor::from_inner(change(value.without_autodiff())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fans_of_linear_convolution_and_bias() {
        assert_eq!(
            [fan(&[13, 50]), fan(&[8, 3, 5, 5]), fan(&[50])],
            [13, 75, 50]
        );
    }

    #[test]
    fn rows_are_orthonormal_up_to_rounding() {
        let device = Device::default();
        for (rank, len) in [(1, 1), (3, 4), (7, 300)] {
            let rows = orthogonal_rows(rank, len, Noise::host(5), &device)
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
            orthogonal_rows(0, 5, Noise::host(5), &device)
                .unwrap()
                .is_none()
        );
    }
}
