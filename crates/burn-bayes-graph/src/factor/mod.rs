//! The factored forms in which a parameter's per-example gradients come.
//!
//! A form answers from its factors, or from its rows, which are made a piece at a time
//! ([`by_rows`]); where both are possible it counts multiplications and takes the smaller number.

mod by_rows;
mod lookup;
mod outer;
mod rows;

use std::fmt::Debug;
use std::ops::Range;

use burn::tensor::kind::Basic;
use burn::tensor::{DType, Int, Tensor};

use self::lookup::Lookup;
use self::outer::Outer;
use self::rows::Rows;
use crate::cpu::Assembly;

/// The most numbers that an intermediate result holds (1 MiB in single precision, which fits into a
/// processor's cache), or as many as one row of the parameter has for all examples, if that is more.
///
/// An operation holds at most three of them at a time, beside its result.
pub(crate) const SCRATCH: usize = 1 << 18;

/// A summand of the gradients gᵢ of M examples with respect to one parameter.
///
/// Tensors carry no autodiff. The parameter's elements are in row-major order, as in the layout.
#[derive(Clone, Debug)]
pub struct Term(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Outer(Outer),
    Rows(Rows),
    Lookup(Lookup),
}

/// The gradients of M examples with respect to d elements, as an `[M, d]` matrix that need not exist.
pub(crate) trait Factor: Debug {
    /// M.
    fn count(&self) -> usize;

    /// d.
    fn len(&self) -> usize;

    /// The numbers held.
    fn held(&self) -> usize;

    fn dtype(&self) -> DType;

    /// The columns in `range` of the matrix.
    fn columns(&self, range: Range<usize>) -> Tensor<2>;

    /// Ranges that cover all columns, each cheap to make and, if possible, of at most `longest`.
    fn pieces(&self, longest: usize) -> Vec<Range<usize>>;

    /// gᵢᵀgⱼ, `[M, M]`.
    fn gram(&self) -> Tensor<2> {
        by_rows::gram(self)
    }

    /// Row r is Σᵢ w_ri gᵢ, for weights `[R, M]`: `[R, d]`, put into `sums` from `column` on.
    fn weighted_sums(&self, weights: &Tensor<2>, sums: Assembly, column: usize) -> Assembly {
        by_rows::weighted_sums(self, weights, sums, column)
    }

    /// gᵢᵀv_l, `[M, L]`, for vectors `[L, d]`.
    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        by_rows::dot(self, vectors)
    }

    /// Σᵢ gᵢ², `[1, d]`, put into `sums` from `column` on.
    fn sum_of_squares(&self, sums: Assembly, column: usize) -> Assembly {
        by_rows::sum_of_squares(self, sums, column)
    }
}

/// How consecutive examples become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouping {
    /// Examples in a group; the last may have fewer.
    pub(crate) size: usize,
    /// The number of groups.
    pub(crate) groups: usize,
    /// What each sum is multiplied by.
    pub(crate) scale: f64,
}

impl Grouping {
    /// `tensor` with zeros for the examples that the last group lacks; examples lie along `axis`.
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
        Outer::new(left, right).into()
    }

    /// gᵢ is row i of `rows`, `[M, d]`: for parameters that are small, or that no other form fits.
    pub fn rows(rows: Tensor<2>) -> Self {
        Rows::new(rows).into()
    }

    /// gᵢ, read as `[V, Q]`, is Σ_t e(`indices[i, t]`) ⊗ `values[i, t, :]`, with e(v) the v-th of
    /// V = `rows` unit vectors, `indices` `[M, T]` below V and `values` `[M, T, Q]`: an embedding.
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

    pub(crate) fn factor(&self) -> &dyn Factor {
        match &self.0 {
            Kind::Outer(outer) => outer,
            Kind::Rows(rows) => rows,
            Kind::Lookup(lookup) => lookup,
        }
    }

    /// The sum of the two as one term, where they are of one form and shape.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        match (&self.0, &other.0) {
            (Kind::Outer(left), Kind::Outer(right)) => left.merged(right).map(Self::from),
            (Kind::Rows(left), Kind::Rows(right)) => Some(left.merged(right).into()),
            (Kind::Lookup(left), Kind::Lookup(right)) => left.merged(right).map(Self::from),
            _ => None,
        }
    }

    /// The gradients of several sets of examples as those of one, where the terms are of one form and
    /// shape.
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

    /// The sums of groups of gradients, scaled.
    pub(crate) fn grouped(&self, grouping: Grouping) -> Self {
        match &self.0 {
            Kind::Outer(outer) => outer.grouped(grouping).into(),
            Kind::Rows(rows) => rows.grouped(grouping).into(),
            Kind::Lookup(lookup) => lookup.grouped(grouping).into(),
        }
    }
}

/// The factors of all terms, if they are of one form.
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

/// `0..len` in ranges of `step`, of which the last may be shorter.
fn steps(len: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(step)
        .map(move |start| start..len.min(start + step))
}

/// Products of m·T positions with M·T positions, added over the T positions of either example: `[m, M]`.
fn between_examples(products: Tensor<2>, positions: usize) -> Tensor<2> {
    let [some, all] = products.dims().map(|total| total / positions);
    products
        .reshape([some, positions, all, positions])
        .sum_dim(3)
        .sum_dim(1)
        .reshape([some, all])
}

/// The sum of at least one part.
pub(crate) fn sum(parts: impl Iterator<Item = Tensor<2>>) -> Tensor<2> {
    let sum = parts.reduce(|sum, part| sum + part);
    sum.expect("a parameter has a term and elements")
}
