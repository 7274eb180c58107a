//! The factored forms in which a parameter's per-example gradients come.

use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor};

/// A summand of the gradients gᵢ of M examples with respect to one parameter.
///
/// Tensors carry no autodiff. The parameter's elements are in row-major order, as in the layout.
#[derive(Clone, Debug)]
pub struct Term(pub(crate) Kind);

/// The form of a [`Term`].
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Outer(Outer),
    Rows(Tensor<2>),
    Lookup(Lookup),
}

/// gᵢ as `[G, P, Q]` = Σ_t left[g, i, t, :] ⊗ right[g, i, t, :].
#[derive(Clone, Debug)]
pub(crate) struct Outer {
    /// `[G, M, T, P]`.
    pub(crate) left: Tensor<4>,
    /// `[G, M, T, Q]`.
    pub(crate) right: Tensor<4>,
}

/// gᵢ as `[V, Q]` = Σ_t e(indices[i, t]) ⊗ values[i, t, :].
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// `[M, T]`.
    pub(crate) indices: Tensor<2, Int>,
    /// `[M, T, Q]`.
    pub(crate) values: Tensor<3>,
    /// V.
    pub(crate) rows: usize,
}

impl Term {
    /// gᵢ, read as `[G, P, Q]`, is Σ_t `left[g, i, t, :]` ⊗ `right[g, i, t, :]`, with `left`
    /// `[G, M, T, P]` and `right` `[G, M, T, Q]`.
    ///
    /// A linear layer has G = 1 and T the number of positions at which an example uses it; a grouped
    /// convolution has G groups.
    ///
    /// # Panics
    ///
    /// If G, M or T differ.
    pub fn outer(left: Tensor<4>, right: Tensor<4>) -> Self {
        assert_eq!(
            left.dims()[..3],
            right.dims()[..3],
            "the two sides of an outer product differ in groups, examples or positions"
        );
        Self(Kind::Outer(Outer { left, right }))
    }

    /// gᵢ is row i of `rows`, `[M, d]`: for parameters that are small, or that no other form fits.
    pub fn rows(rows: Tensor<2>) -> Self {
        Self(Kind::Rows(rows))
    }

    /// gᵢ, read as `[V, Q]`, is Σ_t e(`indices[i, t]`) ⊗ `values[i, t, :]`, with e(v) the v-th of
    /// V = `rows` unit vectors, `indices` `[M, T]` below V and `values` `[M, T, Q]`: an embedding.
    ///
    /// # Panics
    ///
    /// If M or T differ.
    pub fn lookup(indices: Tensor<2, Int>, values: Tensor<3>, rows: usize) -> Self {
        assert_eq!(
            indices.dims()[..],
            values.dims()[..2],
            "the indices and the values of a lookup differ in examples or positions"
        );
        Self(Kind::Lookup(Lookup {
            indices,
            values,
            rows,
        }))
    }

    /// M.
    pub(crate) fn count(&self) -> usize {
        match &self.0 {
            Kind::Outer(outer) => outer.left.dims()[1],
            Kind::Rows(rows) => rows.dims()[0],
            Kind::Lookup(lookup) => lookup.values.dims()[0],
        }
    }

    /// The number of the parameter's elements.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Kind::Outer(Outer { left, right }) => left.dims()[0] * left.dims()[3] * right.dims()[3],
            Kind::Rows(rows) => rows.dims()[1],
            Kind::Lookup(lookup) => lookup.rows * lookup.values.dims()[2],
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match &self.0 {
            Kind::Outer(outer) => outer.left.dtype(),
            Kind::Rows(rows) => rows.dtype(),
            Kind::Lookup(lookup) => lookup.values.dtype(),
        }
    }

    /// The gradients themselves, `[M, d]`.
    pub(crate) fn materialise(&self) -> Tensor<2> {
        match &self.0 {
            Kind::Outer(outer) => outer.materialise(),
            Kind::Rows(rows) => rows.clone(),
            Kind::Lookup(lookup) => lookup.materialise(),
        }
    }
}

impl Outer {
    fn materialise(&self) -> Tensor<2> {
        let [groups, count, _, left] = self.left.dims();
        let right = self.right.dims()[3];
        let products = self
            .left
            .clone()
            .swap_dims(2, 3)
            .matmul(self.right.clone())
            .permute([1, 0, 2, 3]);
        products.reshape([count, groups * left * right])
    }
}

impl Lookup {
    fn materialise(&self) -> Tensor<2> {
        let [count, positions, width] = self.values.dims();
        let device = self.values.device();
        let first_rows = Tensor::<1, Int>::arange(0..count as i64, &device)
            .mul_scalar(self.rows as i64)
            .reshape([count, 1]);
        let targets = (self.indices.clone() + first_rows).reshape([count * positions]);
        let values = self.values.clone().reshape([count * positions, width]);
        Tensor::<2>::zeros([count * self.rows, width], (&device, values.dtype()))
            .select_assign(0, targets, values, IndexingUpdateOp::Add)
            .reshape([count, self.rows * width])
    }
}
