//! Factored forms of a parameter's per-example gradients.
//!
//! A form computes a product from its factors, or from rows that are made one piece at a time ([`by_rows`]).
//! It chooses the way with fewer multiplications.

mod by_rows;
mod lookup;
mod outer;
mod rows;

use std::fmt::Debug;
use std::ops::Range;

use crate::cpu::Assembly;
use burn::tensor::kind::Basic;
use burn::tensor::{DType, Int, Tensor};

use self::lookup::Lookup;
use self::outer::Outer;
use self::rows::Rows;

/// The largest number of elements of an intermediate result: 1 MiB in single precision, which fits into a
/// processor's cache. A result may be larger if one row of the parameter for all examples is.
///
/// An operation needs at most three of them at a time, besides its result.
pub(crate) const SCRATCH: usize = 1 << 18;

/// One term of the gradients gᵢ of M examples with respect to one parameter.
///
/// Tensors have no autodiff. The parameter's elements are in row-major order, as in the layout.
#[derive(Clone, Debug)]
pub struct Term(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Outer(Outer),
    Rows(Rows),
    Lookup(Lookup),
}

/// The gradients of M examples with respect to d elements: an implicit `[M, d]` matrix.
pub(crate) trait Factor: Debug {
    /// M.
    fn count(&self) -> usize;

    /// d.
    fn len(&self) -> usize;

    /// The number of elements that are stored.
    fn stored(&self) -> usize;

    fn dtype(&self) -> DType;

    /// The columns in `range` of the matrix.
    fn columns(&self, range: Range<usize>) -> Tensor<2>;

    /// Ranges of columns that cover the matrix and are cheap to compute, of length at most `longest` if
    /// possible.
    fn pieces(&self, longest: usize) -> Vec<Range<usize>>;

    /// gᵢᵀgⱼ, `[M, M]`.
    fn gram(&self) -> Tensor<2> {
        by_rows::gram(self)
    }

    /// Row r is Σᵢ w_ri gᵢ, for weights `[R, M]`: `[R, d]`, written to `sums` from `column` on.
    fn weighted_sums(&self, weights: &Tensor<2>, sums: Assembly, column: usize) -> Assembly {
        by_rows::weighted_sums(self, weights, sums, column)
    }

    /// gᵢᵀv_l, `[M, L]`, for vectors `[L, d]`.
    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        by_rows::dot(self, vectors)
    }

    /// Σᵢ gᵢ², `[1, d]`, written to `sums` from `column` on.
    fn sum_of_squares(&self, sums: Assembly, column: usize) -> Assembly {
        by_rows::sum_of_squares(self, sums, column)
    }
}

/// How consecutive examples are summed to groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouping {
    /// The number of examples in a group; the last group may have fewer.
    pub(crate) size: usize,
    /// The number of groups.
    pub(crate) groups: usize,
    /// The factor of each sum.
    pub(crate) scale: f64,
}

impl Grouping {
    /// Pads the example axis `axis` with zeros to whole groups.
    fn fill<const R: usize, K: Basic>(self, tensor: Tensor<R, K>, axis: usize) -> Tensor<R, K> {
        let mut dims = tensor.dims();
        dims[axis] = self.size * self.groups - dims[axis];
        if dims[axis] == 0 {
            return tensor;
        }
        let zeros = Tensor::zeros(dims, (&tensor.device(), tensor.dtype()));
        Tensor::cat(vec![tensor, zeros], axis)
    }
}

impl Term {
    /// Sums of outer products: gᵢ, with shape `[G, P, Q]`, is Σ_t `left[g, i, t, :]` ⊗ `right[g, i, t, :]`, for
    /// `left` of shape `[G, M, T, P]` and `right` of shape `[G, M, T, Q]`.
    ///
    /// For a linear layer, G = 1 and T is the number of positions at which an example uses it. A grouped
    /// convolution has G groups.
    ///
    /// # Panics
    ///
    /// If G, M or T differ.
    pub fn outer(left: Tensor<4>, right: Tensor<4>) -> Self {
        Outer::new(left, right).into()
    }

    /// gᵢ is row i of `rows`, `[M, d]`: for small parameters, and for those without another form.
    pub fn rows(rows: Tensor<2>) -> Self {
        Rows::new(rows).into()
    }

    /// Gradients of an embedding: gᵢ, with shape `[V, Q]`, is Σ_t e(`indices[i, t]`) ⊗ `values[i, t, :]`, for
    /// `indices` of shape `[M, T]` below V = `rows` and `values` of shape `[M, T, Q]`. e(v) is the v-th of V
    /// unit vectors.
    ///
    /// # Panics
    ///
    /// If M or T differ.
    pub fn lookup(indices: Tensor<2, Int>, values: Tensor<3>, rows: usize) -> Self {
        Lookup::new(indices, values, rows).into()
    }

    /// The gradients as rows, `[M, d]`.
    pub(crate) fn materialise(&self) -> Tensor<2> {
        self.factor().columns(0..self.factor().len())
    }

    /// The sides `[G, M, P]` and `[G, M, Q]` of outer products at one position per example.
    pub(crate) fn sides_of_one_position(&self) -> Option<(Tensor<3>, Tensor<3>)> {
        match &self.0 {
            Kind::Outer(outer) => outer.sides_of_one_position(),
            Kind::Rows(_) | Kind::Lookup(_) => None,
        }
    }

    pub(crate) fn factor(&self) -> &dyn Factor {
        match &self.0 {
            Kind::Outer(outer) => outer,
            Kind::Rows(rows) => rows,
            Kind::Lookup(lookup) => lookup,
        }
    }

    /// The sum of two terms as one term, if they have the same form and shape.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        match (&self.0, &other.0) {
            (Kind::Outer(left), Kind::Outer(right)) => left.merged(right).map(Self::from),
            (Kind::Rows(left), Kind::Rows(right)) => Some(left.merged(right).into()),
            (Kind::Lookup(left), Kind::Lookup(right)) => left.merged(right).map(Self::from),
            _ => None,
        }
    }

    /// Concatenates the gradients of several sets of examples, if the terms have the same form and shape.
    pub(crate) fn joined(sets: &[&Self]) -> Option<Self> {
        match &sets[0].0 {
            Kind::Outer(_) => {
                let outers = same(sets, |kind| match kind {
                    Kind::Outer(outer) => Some(outer),
                    _ => None,
                });
                Outer::joined(&outers?).map(Self::from)
            }
            Kind::Rows(_) => {
                let rows = same(sets, |kind| match kind {
                    Kind::Rows(rows) => Some(rows),
                    _ => None,
                });
                Some(Rows::joined(&rows?).into())
            }
            Kind::Lookup(_) => {
                let lookups = same(sets, |kind| match kind {
                    Kind::Lookup(lookup) => Some(lookup),
                    _ => None,
                });
                Lookup::joined(&lookups?).map(Self::from)
            }
        }
    }

    /// The gradients of some of the examples.
    pub(crate) fn part(&self, examples: Range<usize>) -> Self {
        match &self.0 {
            Kind::Outer(outer) => outer.part(examples).into(),
            Kind::Rows(rows) => rows.part(examples).into(),
            Kind::Lookup(lookup) => lookup.part(examples).into(),
        }
    }

    /// The scaled sums over groups of examples.
    pub(crate) fn grouped(&self, grouping: Grouping) -> Self {
        match &self.0 {
            Kind::Outer(outer) => outer.grouped(grouping).into(),
            Kind::Rows(rows) => rows.grouped(grouping).into(),
            Kind::Lookup(lookup) => lookup.grouped(grouping).into(),
        }
    }
}

/// The factors of all terms, if they have the same form.
fn same<'a, F>(terms: &[&'a Term], of: impl Fn(&'a Kind) -> Option<&'a F>) -> Option<Vec<&'a F>> {
    terms.iter().map(|term| of(&term.0)).collect()
}

impl From<Outer> for Term {
    fn from(outer: Outer) -> Self {
        Self(Kind::Outer(outer))
    }
}

impl From<Rows> for Term {
    fn from(rows: Rows) -> Self {
        Self(Kind::Rows(rows))
    }
}

impl From<Lookup> for Term {
    fn from(lookup: Lookup) -> Self {
        Self(Kind::Lookup(lookup))
    }
}

/// Splits `0..len` into ranges of length `step`; the last may be shorter.
pub(crate) fn steps(len: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(step)
        .map(move |start| start..len.min(start + step))
}

/// Sums products of m·T positions with M·T positions over the T positions of both examples: `[m, M]`.
fn between_examples(products: Tensor<2>, positions: usize) -> Tensor<2> {
    let [some, all] = products.dims().map(|total| total / positions);
    products
        .reshape([some, positions, all, positions])
        .sum_dim(3)
        .sum_dim(1)
        .reshape([some, all])
}

/// The sum of at least one tensor.
pub(crate) fn sum(parts: impl Iterator<Item = Tensor<2>>) -> Tensor<2> {
    let sum = parts.reduce(|sum, part| sum + part);
    sum.expect("a parameter has at least one term and one element")
}
