//! Per-example gradients in factored form.

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::factor::Term;

/// The gradients of M examples' losses with respect to a flat vector of D weights, in factored form.
///
/// One [`Block`] per parameter, in layout order. Nothing of size M×D is allocated unless
/// [`materialise`](Self::materialise) or [`from_rows`](Self::from_rows) is called.
#[derive(Clone, Debug)]
pub struct ExampleGradients {
    count: usize,
    blocks: Vec<Block>,
    device: Device,
    dtype: DType,
}

/// The gradients of one parameter: the sum of its terms, one for every use of the parameter.
#[derive(Clone, Debug)]
pub struct Block {
    len: usize,
    terms: Vec<Term>,
}

impl Block {
    /// The gradients of a parameter of `len` elements; without terms they are zero.
    ///
    /// # Panics
    ///
    /// If a term has another length.
    pub fn new(len: usize, terms: Vec<Term>) -> Self {
        for term in &terms {
            assert_eq!(
                term.len(),
                len,
                "a term is not as long as its parameter has elements"
            );
        }
        Self { len, terms }
    }
}

impl ExampleGradients {
    /// The gradients of `count` examples, one block per parameter in layout order, on `device`.
    ///
    /// # Panics
    ///
    /// If `count` is zero, or a term is of another number of examples.
    pub fn new(count: usize, blocks: Vec<Block>, device: &Device) -> Self {
        assert_ne!(count, 0, "there are no gradients of no examples");
        let terms = || blocks.iter().flat_map(|block| &block.terms);
        for term in terms() {
            assert_eq!(term.count(), count, "a term is of other examples");
        }
        let dtype = terms().next().map_or_else(
            || Tensor::<1>::zeros([1], device).dtype(),
            |term| term.dtype(),
        );
        Self {
            count,
            blocks,
            device: device.clone(),
            dtype,
        }
    }

    /// The gradients that are the rows of `[M, D]`.
    pub fn from_rows(rows: Tensor<2>) -> Self {
        let [count, len] = rows.dims();
        let device = rows.device();
        Self::new(
            count,
            vec![Block::new(len, vec![Term::rows(rows)])],
            &device,
        )
    }

    /// M, the number of gradients.
    pub fn count(&self) -> usize {
        self.count
    }

    /// D, the number of weights.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a model without weights has no layout"
    )]
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.len).sum()
    }

    /// (1/M) Σᵢ gᵢ, `[D]`.
    pub fn mean(&self) -> Tensor<1> {
        self.materialise().mean_dim(0).reshape([self.len()])
    }

    /// gᵢᵀgⱼ, `[M, M]`.
    pub fn gram(&self) -> Tensor<2> {
        let rows = self.materialise();
        rows.clone().matmul(rows.transpose())
    }

    /// Row r is Σᵢ w_ri gᵢ, `[R, D]`, for weights `[R, M]`.
    pub fn weighted_sums(&self, weights: Tensor<2>) -> Tensor<2> {
        weights.matmul(self.materialise())
    }

    /// gᵢᵀv_l, `[M, L]`, for vectors `[L, D]`.
    pub fn dot(&self, vectors: Tensor<2>) -> Tensor<2> {
        self.materialise().matmul(vectors.transpose())
    }

    /// Σᵢ gᵢ², element by element, `[D]`.
    pub fn sum_of_squares(&self) -> Tensor<1> {
        self.materialise().square().sum_dim(0).reshape([self.len()])
    }

    /// The gradients as rows, `[M, D]`.
    pub fn materialise(&self) -> Tensor<2> {
        let rows = self.blocks.iter().map(|block| {
            let rows = block.terms.iter().map(Term::materialise);
            rows.reduce(|sum, rows| sum + rows).unwrap_or_else(|| {
                Tensor::zeros([self.count, block.len], (&self.device, self.dtype))
            })
        });
        Tensor::cat(rows.collect(), 1)
    }

    /// One row for every `size` consecutive examples (fewer in the last): M/size micro-batches.
    ///
    /// A row is the mean of its gradients where `size` divides M. Otherwise it is the sum of its
    /// gradients times (number of rows)/M, so that [`mean`](Self::mean) stays what it was.
    ///
    /// # Panics
    ///
    /// If `size` is zero.
    pub fn grouped(&self, size: usize) -> Self {
        let groups = self.count.div_ceil(size);
        let mut weights = vec![0.0f32; groups * self.count];
        for example in 0..self.count {
            weights[example / size * self.count + example] = groups as f32 / self.count as f32;
        }
        let weights = TensorData::new(weights, [groups, self.count]);
        let weights = Tensor::from_data(weights, (&self.device, self.dtype));
        Self::from_rows(self.weighted_sums(weights))
    }
}
