//! Per-example gradients in factored form.

mod jacobians;

use std::ops::Range;

pub use jacobians::ExampleJacobians;

use crate::cpu::{Assembly, Scratch};
use burn::tensor::{DType, Device, Tensor};

use crate::factor::{Factor, Grouping, Term, sum};

/// The gradients gᵢ of M examples' losses with respect to a flat vector of D weights.
///
/// There is one [`Block`] per parameter, in layout order. The M×D matrix is allocated only by
/// [`materialise`](Self::materialise) and [`from_rows`](Self::from_rows). Other methods need, besides their
/// result, memory of a few times a processor's cache or of the largest block.
#[derive(Clone, Debug)]
pub struct ExampleGradients {
    count: usize,
    blocks: Vec<Block>,
    device: Device,
    dtype: DType,
    scratch: Scratch,
}

/// The gradients of one parameter: a sum of terms, one for each use of the parameter.
#[derive(Clone, Debug)]
pub struct Block {
    len: usize,
    terms: Vec<Term>,
}

/// The losses and gradients of a batch's examples.
///
/// Results at several draws of the weights are ordered by draw: first all examples at the first draw, then
/// all at the second, and so on.
#[derive(Clone, Debug)]
pub struct ExampleLosses {
    /// The losses, `[M]`.
    pub losses: Tensor<1>,
    /// Their gradients with respect to the layout's weights.
    pub gradients: ExampleGradients,
}

impl ExampleGradients {
    /// The gradients of `count` examples, one block for every parameter in layout order, on `device`.
    ///
    /// # Panics
    ///
    /// If `count` is zero, if there is no block, or if a term has another number of examples.
    pub fn new(count: usize, blocks: Vec<Block>, device: &Device) -> Self {
        assert_ne!(count, 0, "per-example gradients need an example");
        assert!(!blocks.is_empty(), "per-example gradients need a parameter");
        let factors = || blocks.iter().filter_map(Block::factor);
        for factor in factors() {
            assert_eq!(
                factor.count(),
                count,
                "a term has another number of examples"
            );
        }
        let dtype = match factors().next() {
            Some(factor) => factor.dtype(),
            None => Tensor::<1>::zeros([1], device).dtype(),
        };
        Self {
            count,
            blocks,
            device: device.clone(),
            dtype,
            scratch: Scratch::default(),
        }
    }

    /// Takes the memory of D-sized results from `scratch`, to which it returns when they are dropped.
    pub fn with_scratch(self, scratch: &Scratch) -> Self {
        Self {
            scratch: scratch.clone(),
            ..self
        }
    }

    /// Takes the gradients as rows, `[M, D]`.
    pub fn from_rows(rows: Tensor<2>) -> Self {
        let [count, len] = rows.dims();
        let device = rows.device();
        let block = Block::new(len, vec![Term::rows(rows)]);
        Self::new(count, vec![block], &device)
    }

    /// Concatenates the gradients of several sets of examples, or of the same examples at several draws of
    /// the weights.
    ///
    /// Blocks that have the same factored form in all sets stay factored. This is so for sets of the same
    /// [`CapturedModel`](crate::CapturedModel).
    ///
    /// # Panics
    ///
    /// If there are no sets, or if their parameters differ.
    pub fn joined(mut sets: Vec<Self>) -> Self {
        if sets.len() == 1 {
            return sets.swap_remove(0);
        }
        let first = sets.first().expect("there is at least one set to join");
        let lens = |set: &Self| set.blocks.iter().map(|block| block.len).collect::<Vec<_>>();
        assert!(
            sets.iter().all(|set| lens(set) == lens(first)),
            "joined gradients must have the same parameters"
        );
        let blocks = (0..first.blocks.len()).map(|index| {
            let parts = sets.iter().map(|set| &set.blocks[index]);
            Block::joined(&parts.collect::<Vec<_>>()).unwrap_or_else(|| {
                let rows = sets.iter().map(|set| set.rows_of(index));
                let rows = Tensor::cat(rows.collect(), 0);
                Block::new(first.blocks[index].len, vec![Term::rows(rows)])
            })
        });
        let count = sets.iter().map(Self::count).sum();
        Self::new(count, blocks.collect(), &first.device).with_scratch(&first.scratch)
    }

    /// Splits the gradients into `sets` sets of equal size: the inverse of [`joined`](Self::joined).
    ///
    /// # Panics
    ///
    /// If the number of examples is not divisible by `sets`.
    pub fn split(&self, sets: usize) -> Vec<Self> {
        assert!(
            sets > 0 && self.count.is_multiple_of(sets),
            "{} examples cannot be split into {sets} sets of equal size",
            self.count
        );
        let count = self.count / sets;
        let part = |set: usize| {
            let examples = set * count..(set + 1) * count;
            let blocks = self.blocks.iter().map(|block| {
                let terms = block.terms.iter().map(|term| term.part(examples.clone()));
                Block::new(block.len, terms.collect())
            });
            Self::new(count, blocks.collect(), &self.device).with_scratch(&self.scratch)
        };
        (0..sets).map(part).collect()
    }

    /// M, the number of gradients.
    pub fn count(&self) -> usize {
        self.count
    }

    /// D, the number of weights.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a layout has at least one weight"
    )]
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.len).sum()
    }

    /// The number of stored elements.
    fn stored(&self) -> usize {
        let factors = self.blocks.iter().filter_map(Block::factor);
        factors.map(Factor::stored).sum()
    }

    /// (1/M) Σᵢ gᵢ, `[D]`.
    pub fn mean(&self) -> Tensor<1> {
        let weights = Tensor::full([1, self.count], 1.0 / self.count as f64, self.options());
        self.weighted_sums(weights).reshape([self.len()])
    }

    /// gᵢᵀgⱼ, `[M, M]`; exactly symmetric.
    pub fn gram(&self) -> Tensor<2> {
        let factors = self.blocks.iter().filter_map(Block::factor);
        let sum = factors
            .map(Factor::gram)
            .fold(self.zeros(self.count), |sum, gram| sum + gram);
        (sum.clone() + sum.transpose()).mul_scalar(0.5)
    }

    /// Row r is Σᵢ w_ri gᵢ, `[R, D]`, for weights `[R, M]`.
    pub fn weighted_sums(&self, weights: Tensor<2>) -> Tensor<2> {
        let [rows, _] = weights.dims();
        self.assembled(rows, |factor, sums, column| {
            factor.weighted_sums(&weights, sums, column)
        })
    }

    /// Σ wᵢ gᵢ, `[D]`, over pairs of an example and its weight.
    pub(crate) fn weighted_sum(
        &self,
        weights: impl IntoIterator<Item = (usize, f32)>,
    ) -> Tensor<1> {
        let mut row = vec![0.0; self.count];
        for (example, weight) in weights {
            row[example] = weight;
        }
        let row = Tensor::<1>::from_data(&*row, &self.device);
        self.weighted_sums(row.unsqueeze()).squeeze_dim(0)
    }

    /// gᵢᵀv_l, `[M, L]`, for vectors `[L, D]`.
    pub fn dot(&self, vectors: Tensor<2>) -> Tensor<2> {
        let [total, _] = vectors.dims();
        let mut start = 0;
        self.blocks.iter().fold(self.zeros(total), |sum, block| {
            let range = start..start + block.len;
            start = range.end;
            match block.factor() {
                Some(factor) => sum + factor.dot(&vectors.clone().slice_dim(1, range)),
                None => sum,
            }
        })
    }

    /// Σᵢ gᵢ², element by element, `[D]`.
    pub fn sum_of_squares(&self) -> Tensor<1> {
        let sums = self.assembled(1, |factor, sums, column| {
            factor.sum_of_squares(sums, column)
        });
        sums.reshape([self.len()])
    }

    /// The gradients as rows, `[M, D]`.
    pub fn materialise(&self) -> Tensor<2> {
        self.assembled(self.count, |factor, rows, column| {
            let columns = factor.columns(0..factor.len());
            rows.put([0, column], columns.unsqueeze_dim(1))
        })
    }

    /// The same gradients as rows, if these are so few numbers that every product with them takes less time than the
    /// operations of a factored form.
    pub(crate) fn in_rows_if_few(self) -> Self {
        /// The largest number of elements.
        const FEW: usize = 1 << 15;
        match self.count * self.len() <= FEW {
            true => Self::from_rows(self.materialise()).with_scratch(&self.scratch),
            false => self,
        }
    }

    /// The gradients of micro-batches of `size` consecutive examples. The last micro-batch may be smaller.
    ///
    /// Each gradient is the mean over its examples if `size` divides M. In general it is their sum times
    /// (number of micro-batches)/M, which preserves [`mean`](Self::mean).
    ///
    /// # Panics
    ///
    /// If `size` is zero.
    pub fn grouped(&self, size: usize) -> Self {
        let groups = self.count.div_ceil(size);
        let grouping = Grouping {
            size,
            groups,
            scale: groups as f64 / self.count as f64,
        };
        let blocks = self.blocks.iter().map(|block| {
            let terms = block.terms.iter().map(|term| term.grouped(grouping));
            Block::new(block.len, terms.collect())
        });
        Self::new(groups, blocks.collect(), &self.device).with_scratch(&self.scratch)
    }

    /// A matrix `[rows, D]` that is assembled from the columns of each block.
    fn assembled(
        &self,
        rows: usize,
        put: impl Fn(&dyn Factor, Assembly, usize) -> Assembly,
    ) -> Tensor<2> {
        let whole = Assembly::new([rows, self.len()], self.options(), &self.scratch);
        let mut column = 0;
        let whole = self.blocks.iter().fold(whole, |whole, block| {
            let start = column;
            column += block.len;
            match block.factor() {
                Some(factor) => put(factor, whole, start),
                None => whole.put(
                    [0, start],
                    Tensor::zeros([rows, 1, block.len], self.options()),
                ),
            }
        });
        whole.finish()
    }

    /// The gradients of one parameter as rows.
    fn rows_of(&self, index: usize) -> Tensor<2> {
        let block = &self.blocks[index];
        match block.factor() {
            Some(factor) => factor.columns(0..block.len),
            None => Tensor::zeros([self.count, block.len], self.options()),
        }
    }

    fn options(&self) -> (&Device, DType) {
        (&self.device, self.dtype)
    }

    /// `[M, columns]` zeros.
    fn zeros(&self, columns: usize) -> Tensor<2> {
        Tensor::zeros([self.count, columns], self.options())
    }
}

impl Block {
    /// The gradients of a parameter of `len` elements. They are zero if there are no terms.
    ///
    /// Terms of the same form and shape are merged. Terms with more elements than the rows of their sum are
    /// replaced by these rows, which cost no more than any product with the terms.
    ///
    /// # Panics
    ///
    /// If a term has another length, or another number of examples than the others.
    pub fn new(len: usize, terms: Vec<Term>) -> Self {
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            let (found, count) = (term.factor().len(), term.factor().count());
            assert_eq!(found, len, "a term must be as long as the parameter");
            if let Some(first) = merged.first() {
                assert_eq!(
                    first.factor().count(),
                    count,
                    "terms must have the same number of examples"
                );
            }
            let mut sums = merged.iter().enumerate();
            match sums.find_map(|(index, sum)| Some((index, sum.merged(&term)?))) {
                Some((index, sum)) => merged[index] = sum,
                None => merged.push(term),
            }
        }
        let block = Self { len, terms: merged };
        match block.factor() {
            Some(factor) if factor.stored() > factor.count() * len => Self {
                len,
                terms: vec![Term::rows(factor.columns(0..len))],
            },
            _ => block,
        }
    }

    /// Concatenates the gradients of several sets, if their terms have the same form and shape.
    fn joined(sets: &[&Self]) -> Option<Self> {
        let Self { len, terms } = sets[0];
        if sets.iter().any(|set| set.terms.len() != terms.len()) {
            return None;
        }
        let terms = (0..terms.len()).map(|index| {
            let parts: Vec<_> = sets.iter().map(|set| &set.terms[index]).collect();
            Term::joined(&parts)
        });
        Some(Self::new(*len, terms.collect::<Option<_>>()?))
    }

    /// The gradients as one factor; `None` if they are zero.
    fn factor(&self) -> Option<&dyn Factor> {
        match self.terms.as_slice() {
            [] => None,
            [term] => Some(term.factor()),
            _ => Some(self),
        }
    }

    /// The sum of `answer` over the terms.
    fn sum(&self, answer: impl Fn(&dyn Factor) -> Tensor<2>) -> Tensor<2> {
        sum(self.terms.iter().map(|term| answer(term.factor())))
    }
}

/// A sum of terms. Quantities that are linear in the gradients are sums over the terms; the others are
/// computed from rows.
impl Factor for Block {
    fn count(&self) -> usize {
        self.terms[0].factor().count()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn stored(&self) -> usize {
        self.terms.iter().map(|term| term.factor().stored()).sum()
    }

    fn dtype(&self) -> DType {
        self.terms[0].factor().dtype()
    }

    fn columns(&self, range: Range<usize>) -> Tensor<2> {
        self.sum(|term| term.columns(range.clone()))
    }

    fn pieces(&self, longest: usize) -> Vec<Range<usize>> {
        self.terms[0].factor().pieces(longest)
    }

    fn weighted_sums(&self, weights: &Tensor<2>, sums: Assembly, column: usize) -> Assembly {
        let [rows, _] = weights.dims();
        let options = (&weights.device(), self.dtype());
        let total = self.sum(|term| {
            let whole = Assembly::new([rows, self.len], options, &Scratch::default());
            term.weighted_sums(weights, whole, 0).finish()
        });
        sums.put([0, column], total.unsqueeze_dim(1))
    }

    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        self.sum(|term| term.dot(vectors))
    }
}
