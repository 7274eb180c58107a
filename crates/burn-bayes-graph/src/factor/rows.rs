//! Gradients as rows: for small parameters, and for those without a factored form.

use std::ops::Range;

use burn::tensor::{DType, Tensor};

use super::{Factor, Grouping, steps};

/// gᵢ is row i.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// `[M, d]`.
    rows: Tensor<2>,
}

impl Rows {
    pub(super) fn new(rows: Tensor<2>) -> Self {
        Self { rows }
    }

    pub(super) fn merged(&self, other: &Self) -> Self {
        Self::new(self.rows.clone() + other.rows.clone())
    }

    /// Concatenates the examples of all sets.
    pub(super) fn joined(sets: &[&Self]) -> Self {
        let rows = sets.iter().map(|set| set.rows.clone());
        Self::new(Tensor::cat(rows.collect(), 0))
    }

    pub(super) fn part(&self, examples: Range<usize>) -> Self {
        Self::new(self.rows.clone().slice_dim(0, examples))
    }

    pub(super) fn grouped(&self, grouping: Grouping) -> Self {
        let Grouping {
            size,
            groups,
            scale,
        } = grouping;
        let len = self.len();
        let sums = grouping
            .fill(self.rows.clone(), 0)
            .reshape([groups, size, len])
            .sum_dim(1)
            .reshape([groups, len]);
        Self::new(sums.mul_scalar(scale))
    }
}

impl Factor for Rows {
    fn count(&self) -> usize {
        self.rows.dims()[0]
    }

    fn len(&self) -> usize {
        self.rows.dims()[1]
    }

    fn stored(&self) -> usize {
        self.count() * self.len()
    }

    fn dtype(&self) -> DType {
        self.rows.dtype()
    }

    fn columns(&self, range: Range<usize>) -> Tensor<2> {
        self.rows.clone().slice_dim(1, range)
    }

    fn pieces(&self, longest: usize) -> Vec<Range<usize>> {
        steps(self.len(), longest).collect()
    }

    /// One product without pieces, because the rows exist already.
    fn gram(&self) -> Tensor<2> {
        self.rows.clone().matmul(self.rows.clone().transpose())
    }

    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        self.rows.clone().matmul(vectors.clone().transpose())
    }
}
