//! Answers from the rows of the gradients, made a piece at a time and for all examples at once.
//!
//! A piece is some columns C of the `[M, d]` matrix: the gradients of a slice of the parameter.

use std::ops::Range;

use burn::tensor::Tensor;

use super::{Factor, SCRATCH, sum};
use crate::cpu::Assembly;

/// The pieces' ranges, and what makes a piece.
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

/// Σ C Vᵀ with the same columns of V.
pub(super) fn dot<F: Factor + ?Sized>(factor: &F, vectors: &Tensor<2>) -> Tensor<2> {
    let products = pieces(factor).map(|(range, columns)| {
        let vectors = vectors.clone().slice_dim(1, range);
        columns.matmul(vectors.transpose())
    });
    sum(products)
}

/// The sums of C ⊙ C over the examples.
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
