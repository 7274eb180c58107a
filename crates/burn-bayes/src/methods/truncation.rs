//! SLANG's new factors: the best rank-L approximation of RᵀR for R = \[ o U ; S ; n gᵢ \], with the old
//! factors U, M gradients gᵢ, scalars o and n, and the rows S of a prior over functions, if there is one.
//!
//! With R Rᵀ = Q Λ Qᵀ they are (Q_{:,1:L})ᵀ R; with RᵀR = V Λ Vᵀ they are Λ^½_{1:L} (V_{:,1:L})ᵀ,
//! equal up to signs. The first needs the eigenvectors of a matrix of size L+M, the second of size
//! D; the smaller matrix is used. Networks have many weights and few gradients per mini-batch; for
//! linear models with several draws per mini-batch it is the opposite.

use std::borrow::Cow;

use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;
use burn_bayes_graph::ExampleGradients;

use crate::algebra::{SquareMatrix, SymmetricEigen};
use crate::error::{Error, Result};
use crate::kernels::{from_host, inner_products, to_host};

/// The largest matrix whose eigenvectors a step computes.
const LARGEST_MATRIX: usize = 8192;

/// U⁺ = A U + B.
#[derive(Clone, Debug)]
pub(crate) struct Truncation {
    /// A, L×L row by row: the coefficients of the old factors.
    pub(crate) mixing: Vec<f64>,
    /// B, `[L, D]`.
    pub(crate) rows: Tensor<2>,
}

/// The parts of R.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackedFactors<'a> {
    /// U, `[L, D]`.
    pub(crate) factors: &'a Tensor<2>,
    /// U Uᵀ, L×L row by row.
    pub(crate) gram: &'a [f64],
    /// gᵢ.
    pub(crate) rows: &'a ExampleGradients,
    /// o.
    pub(crate) old: f64,
    /// n.
    pub(crate) new: f64,
    /// S, `[rows, D]`.
    pub(crate) scaled: Option<&'a Tensor<2>>,
}

impl StackedFactors<'_> {
    /// The new factors.
    pub(crate) fn truncated(self) -> Result<Truncation> {
        let [rank, len] = self.factors.dims();
        let scaled = self.scaled.map_or(0, |rows| rows.dims()[0]);
        let stacked = rank + scaled + self.rows.count();
        if stacked.min(len) > LARGEST_MATRIX {
            return Err(Error::config(
                "batch",
                format!(
                    "has {} rows of gradients of {len} weights, whose eigenvectors would take hours; use at most \
                     {} rows in a mini-batch, or a `group_size`",
                    self.rows.count(),
                    LARGEST_MATRIX.saturating_sub(rank + scaled)
                ),
            ));
        }
        match stacked <= len {
            true => self.truncated_by_rows(),
            false => self.truncated_by_columns(),
        }
    }

    /// Uses the eigenvectors of R Rᵀ, without forming R.
    fn truncated_by_rows(self) -> Result<Truncation> {
        let Self { old, new, .. } = self;
        let [rank, _] = self.factors.dims();
        let count = self.rows.count();
        // The rows that are not gradients: U and S.
        let (dense, gram) = match self.scaled {
            Some(scaled) => {
                let dense = Tensor::cat(vec![self.factors.clone(), scaled.clone()], 0);
                let gram = to_host(inner_products(&dense, &dense));
                (dense, Cow::Owned(gram))
            }
            None => (self.factors.clone(), Cow::Borrowed(self.gram)),
        };
        let [width, _] = dense.dims();
        let scale = |row: usize| if row < rank { old } else { 1.0 };
        // Row i holds gᵢᵀgⱼ for all gradients, and gᵢᵀr for all dense rows: one read from the device.
        let products = vec![self.rows.gram(), self.rows.dot(dense)];
        let products = to_host(Tensor::cat(products, 1));
        let product = |row: usize, column: usize| products[row * (count + width) + column];
        let stacked = SquareMatrix::from_fn(width + count, |row, column| {
            let (low, high) = (row.min(column), row.max(column));
            match (high < width, low < width) {
                (true, _) => scale(row) * scale(column) * gram[row * width + column],
                (false, true) => scale(low) * new * product(high - width, count + low),
                (false, false) => new * new * product(row - width, column - width),
            }
        });
        let pairs = SymmetricEigen::leading(&stacked, rank).map_err(Error::from)?;
        let device = self.factors.device();
        // The shares of some rows of R in the new factors, times a scale.
        let shares = |first: usize, count: usize, scale: f64| {
            let shares = pairs
                .iter()
                .flat_map(|pair| &pair.vector[first..first + count]);
            from_host(shares.map(|share| scale * share), [rank, count], &device)
        };
        let rows = self.rows.weighted_sums(shares(width, count, new));
        let mixing = pairs.iter().flat_map(|pair| &pair.vector[..rank]);
        Ok(Truncation {
            mixing: mixing.map(|share| old * share).collect(),
            rows: match self.scaled {
                Some(scaled) => rows + shares(rank, width - rank, 1.0).matmul(scaled.clone()),
                None => rows,
            },
        })
    }

    /// Uses the eigenvectors of RᵀR. R is formed because it is smaller than R Rᵀ.
    fn truncated_by_columns(self) -> Result<Truncation> {
        let [rank, len] = self.factors.dims();
        let gradients = self.rows.materialise().mul_scalar(self.new);
        let mut stacked = vec![self.factors.clone().mul_scalar(self.old), gradients];
        stacked.extend(self.scaled.cloned());
        let stacked = Tensor::cat(stacked, 0);
        let scatter = to_host(stacked.clone().transpose().matmul(stacked));
        let scatter = SquareMatrix::from_row_major(len, scatter).map_err(Error::from)?;
        let pairs = SymmetricEigen::leading(&scatter, rank).map_err(Error::from)?;
        let rows = pairs.iter().flat_map(|pair| {
            let scale = pair.value.at_least(0.0).sqrt();
            pair.vector.iter().map(move |entry| scale * entry)
        });
        Ok(Truncation {
            mixing: vec![0.0; rank * rank],
            rows: from_host(rows, [rank, len], &self.factors.device()),
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use burn_bayes_graph::{Block, Term};

    use super::*;
    use crate::noise::Noise;

    #[test]
    fn eigenvectors_that_would_take_hours_are_refused() {
        let device = Device::default();
        let ones = |dims: [usize; 4]| Tensor::<4>::ones(dims, &device);
        let side = 100;
        let rows = Term::outer(
            ones([1, LARGEST_MATRIX, 1, side]),
            ones([1, LARGEST_MATRIX, 1, side]),
        );
        let blocks = vec![Block::new(side * side, vec![rows])];
        let rows = ExampleGradients::new(LARGEST_MATRIX, blocks, &device);
        let factors = Tensor::ones([2, side * side], &device);
        let stack = StackedFactors {
            factors: &factors,
            gram: &[1.0; 4],
            rows: &rows,
            old: 0.8,
            new: 0.6,
            scaled: None,
        };
        let error = stack.truncated().unwrap_err();
        assert!(error.to_string().contains("at most 8190 rows"), "{error}");
    }

    /// U⁺ᵀU⁺ computed both ways; it does not depend on the signs of the rows.
    #[test]
    fn both_ways_keep_the_same_part() {
        let device = Device::default();
        let len = 9;
        for (rank, count, extra) in [(1, 3, 0), (2, 12, 0), (4, 5, 0), (2, 3, 2), (3, 4, 11)] {
            let matrix = |key: u64, rows: usize| {
                let normals = Noise::new(1).fold(key).normal(rows * len, &device);
                normals.reshape([rows, len])
            };
            let factors: Tensor<2> = matrix(1, rank);
            let gram = to_host(factors.clone().matmul(factors.clone().transpose()));
            let rows = ExampleGradients::from_rows(matrix(2, count));
            let scaled = matrix(3, extra.max(1));
            let stack = StackedFactors {
                factors: &factors,
                gram: &gram,
                rows: &rows,
                old: 0.8,
                new: 0.6,
                scaled: (extra > 0).then_some(&scaled),
            };
            let [left, right] =
                [stack.truncated_by_rows(), stack.truncated_by_columns()].map(|truncation| {
                    let Truncation { mixing, rows } = truncation.unwrap();
                    let mixing = from_host(mixing, [rank, rank], &device);
                    let new = mixing.matmul(factors.clone()) + rows;
                    to_host(new.clone().transpose().matmul(new))
                });
            let largest = right
                .iter()
                .fold(0.0f64, |most, entry| most.max(entry.abs()));
            // Sums of at most rank + count + extra single-precision products, and the gap of the spectrum.
            let bound = 64.0 * (rank + count + extra) as f64 * f64::from(f32::EPSILON) * largest;
            for (left, right) in left.iter().zip(&right) {
                assert!((left - right).abs() <= bound, "{left} {right} {bound}");
            }
        }
    }
}
