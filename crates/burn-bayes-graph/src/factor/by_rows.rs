//! Products computed from rows: pieces of the `[M, d]` matrix are made one at a time.
//!
//! A piece C is a range of columns: the gradients of all examples with respect to a slice of the parameter.

use std::ops::Range;

use crate::cpu::Assembly;
use burn::tensor::Tensor;

use super::{Factor, SCRATCH, sum};

/// The column ranges, each with its piece.
fn pieces<F: Factor + ?Sized>(factor: &F) -> impl Iterator<Item = (Range<usize>, Tensor<2>)> {
    let ranges = factor.pieces((SCRATCH / factor.count()).max(1));
    let with_columns = |range: Range<usize>| (range.clone(), factor.columns(range));
    ranges.into_iter().map(with_columns)
}

/// Σ C Cᵀ.
pub(super) fn gram<F: Factor + ?Sized>(factor: &F) -> Tensor<2> {
    let products = pieces(factor).map(|(_, columns)| columns.clone().matmul(columns.transpose()));
    sum(products)
}

/// W C.
pub(super) fn weighted_sums<F: Factor + ?Sized>(
    factor: &F,
    weights: &Tensor<2>,
    sums: Assembly,
    column: usize,
) -> Assembly {
    pieces(factor).fold(sums, |sums, (range, columns)| {
        let products = weights.clone().matmul(columns);
        sums.put([0, column + range.start], products.unsqueeze_dim(1))
    })
}

/// Σ C Vᵀ, with the same columns of V.
pub(super) fn dot<F: Factor + ?Sized>(factor: &F, vectors: &Tensor<2>) -> Tensor<2> {
    let products = pieces(factor).map(|(range, columns)| {
        let vectors = vectors.clone().slice_dim(1, range);
        columns.matmul(vectors.transpose())
    });
    sum(products)
}

/// The sum of C ⊙ C over examples.
pub(super) fn sum_of_squares<F: Factor + ?Sized>(
    factor: &F,
    sums: Assembly,
    column: usize,
) -> Assembly {
    pieces(factor).fold(sums, |sums, (range, columns)| {
        let squares = columns.square().sum_dim(0);
        sums.put([0, column + range.start], squares.unsqueeze_dim(1))
    })
}
