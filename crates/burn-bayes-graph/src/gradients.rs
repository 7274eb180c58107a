//! Per-example gradients in factored form.

use std::ops::Range;

use burn::tensor::{DType, Device, Tensor};

use crate::cpu::{Assembly, Scratch};
use crate::factor::{Factor, Grouping, Term, sum};

/// The gradients gᵢ of M examples' losses with respect to a flat vector of D weights.
///
/// One [`Block`] for every parameter, in layout order. Nothing of size M×D is allocated unless
/// [`materialise`](Self::materialise) or [`from_rows`](Self::from_rows) is called: beside its result,
/// an operation holds a few times as much as fits a processor's cache, or as the largest block holds.
#[derive(Clone, Debug)]
pub struct ExampleGradients {
    count: usize,
    blocks: Vec<Block>,
    device: Device,
    dtype: DType,
    scratch: Scratch,
}

/// The gradients of one parameter: the sum of its terms, one for every use of the parameter.
#[derive(Clone, Debug)]
pub struct Block {
    len: usize,
    terms: Vec<Term>,
}

/// The losses of a batch's examples, and the gradient of each.
///
/// At several draws of the weights, every draw has examples of its own: those of the first, then those
/// of the second, and so on.
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
    /// If `count` is zero, there is no block, or a term is of another number of examples.
    pub fn new(count: usize, blocks: Vec<Block>, device: &Device) -> Self {
        assert_ne!(count, 0, "per-example gradients need an example");
        assert!(!blocks.is_empty(), "per-example gradients need a parameter");
        let factors = || blocks.iter().filter_map(Block::factor);
        for factor in factors() {
            assert_eq!(factor.count(), count, "a term is of other examples");
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

    /// The same with the memory of results as long as the weights taken from `scratch`, to which it
    /// returns when they are dropped.
    pub fn with_scratch(self, scratch: &Scratch) -> Self {
        Self {
            scratch: scratch.clone(),
            ..self
        }
    }

    /// The gradients that are the rows of `[M, D]`.
    pub fn from_rows(rows: Tensor<2>) -> Self {
        let [count, len] = rows.dims();
        let device = rows.device();
        let block = Block::new(len, vec![Term::rows(rows)]);
        Self::new(count, vec![block], &device)
    }

    /// The gradients of several sets of examples, or of the same examples at several draws of the
    /// weights, as one set: those of the first, then those of the second, and so on.
    ///
    /// What is factored stays so, where the sets hold it in one form, as those of one
    /// [`CapturedModel`](crate::CapturedModel) do.
    ///
    /// # Panics
    ///
    /// If there is no set, or their parameters differ.
    pub fn joined(mut sets: Vec<Self>) -> Self {
        if sets.len() == 1 {
            return sets.swap_remove(0);
        }
        let first = sets.first().expect("a joined set has at least one part");
        let lens = |set: &Self| set.blocks.iter().map(|block| block.len).collect::<Vec<_>>();
        assert!(
            sets.iter().all(|set| lens(set) == lens(first)),
            "joined gradients are of one model's parameters"
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

    /// The inverse of [`joined`](Self::joined) for `sets` sets of as many examples each.
    ///
    /// # Panics
    ///
    /// If the examples cannot be divided so.
    pub fn split(&self, sets: usize) -> Vec<Self> {
        assert!(
            sets > 0 && self.count.is_multiple_of(sets),
            "{} examples are not {sets} sets of one size",
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

    /// Σ wᵢ gᵢ, `[D]`, over the given examples and their weights.
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

    /// Gradients of micro-batches: one for every `size` consecutive examples, the last of which may be
    /// of fewer.
    ///
    /// Each is the mean of its examples' gradients where `size` divides M. In general it is their sum
    /// times (number of micro-batches)/M, so that [`mean`](Self::mean) stays what it was.
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

    /// `[rows, D]`, into which every block puts its columns.
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
    /// The gradients of a parameter of `len` elements; without terms they are zero.
    ///
    /// Terms of one form and shape become one term, and terms that hold more numbers than their sum's
    /// rows become rows: those cost no more to make than any answer from the terms.
    ///
    /// # Panics
    ///
    /// If a term is of another length, or of other examples than the others.
    pub fn new(len: usize, terms: Vec<Term>) -> Self {
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            let (found, count) = (term.factor().len(), term.factor().count());
            assert_eq!(found, len, "a term is not as long as the parameter");
            if let Some(first) = merged.first() {
                assert_eq!(first.factor().count(), count, "terms are of other examples");
            }
            let mut sums = merged.iter().enumerate();
            match sums.find_map(|(index, sum)| Some((index, sum.merged(&term)?))) {
                Some((index, sum)) => merged[index] = sum,
                None => merged.push(term),
            }
        }
        let block = Self { len, terms: merged };
        match block.factor() {
            Some(factor) if factor.held() > factor.count() * len => Self {
                len,
                terms: vec![Term::rows(factor.columns(0..len))],
            },
            _ => block,
        }
    }

    /// The gradients of several sets of examples as those of one, where their terms are alike.
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

    /// What answers for the block; nothing if it is zero.
    fn factor(&self) -> Option<&dyn Factor> {
        match self.terms.as_slice() {
            [] => None,
            [term] => Some(term.factor()),
            _ => Some(self),
        }
    }

    /// The terms' answers, added.
    fn sum(&self, answer: impl Fn(&dyn Factor) -> Tensor<2>) -> Tensor<2> {
        sum(self.terms.iter().map(|term| answer(term.factor())))
    }
}

/// Several terms: what is linear in the gradients is the sum of the terms' answers, the rest is had
/// from the rows.
impl Factor for Block {
    fn count(&self) -> usize {
        self.terms[0].factor().count()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn held(&self) -> usize {
        self.terms.iter().map(|term| term.factor().held()).sum()
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
