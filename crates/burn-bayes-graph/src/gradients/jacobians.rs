//! The gradients of several outputs of the same examples.
//!
//! Example i has the Jacobian Jᵢ, `[C, D]`; its row c is the gradient of output c. For a linear layer that an example
//! uses once, row c is aᵢ ⊗ δᵢ_c, and all outputs share the input aᵢ. Products therefore begin with those of the
//! inputs. The numbers of multiplications for M examples, weights of shape `[P, Q]` and K vectors are
//!
//! | product | with shared inputs | from the gradients of each output |
//! |---|---|---|
//! | Jᵢ v_k | (aᵢᵀV_k) δᵢ_c: M·K·Q·(P + C) | C·M·K·P·Q |
//! | diagonal of Jᵢ diag(w) Jᵢᵀ | (aᵢ²ᵀW) δᵢ_c²: M·Q·(P + C) | C·M·P·Q |
//! | Jᵢ diag(w) Jᵢᵀ | Σ_q (aᵢ²ᵀW)_q δᵢ_cq δᵢ_c′q: M·Q·(P + C²) | C²·M·P·Q |
//!
//! Other parameters are computed from pieces of rows, one piece at a time.

use std::ops::Range;

use burn::tensor::Tensor;

use super::ExampleGradients;
use crate::factor::{SCRATCH, steps};

/// The Jacobians Jᵢ, `[C, D]`, of M examples' C outputs with respect to a flat vector of D weights.
///
/// No M×D matrix is allocated. Memory for a product is, besides its result, a few times a processor's cache.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes_graph::{ExampleGradients, ExampleJacobians};
///
/// let device = Device::default();
/// // One example with the outputs 2 θ₁ and θ₁ + 3 θ₂.
/// let row = |values: [f32; 2]| ExampleGradients::from_rows(Tensor::from_data([values], &device));
/// let jacobians = ExampleJacobians::new(vec![row([2.0, 0.0]), row([1.0, 3.0])]);
/// let grams = jacobians.weighted_grams(&Tensor::from_data([1.0, 10.0], &device));
/// assert_eq!(grams.into_data().to_vec::<f32>()?, [4.0, 2.0, 2.0, 91.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExampleJacobians {
    outputs: Vec<ExampleGradients>,
    /// For each parameter, if it has this form.
    shared: Vec<Option<SharedInputs>>,
}

/// Gradients aᵢ ⊗ δᵢ_c of one parameter.
#[derive(Clone, Debug)]
struct SharedInputs {
    /// a, `[G, M, P]`.
    inputs: Tensor<3>,
    /// δ, `[G, M, C, Q]`.
    slopes: Tensor<4>,
}

impl ExampleJacobians {
    /// Takes the gradients of every output. They should be those of the same model at the same weights and batch.
    ///
    /// # Panics
    ///
    /// If there is no output, or if the gradients are of different parameters or numbers of examples.
    pub fn new(outputs: Vec<ExampleGradients>) -> Self {
        let first = outputs.first().expect("a Jacobian has an output");
        let shape = |output: &ExampleGradients| {
            let lens = output.blocks.iter().map(|block| block.len);
            (output.count, lens.collect::<Vec<_>>())
        };
        assert!(
            outputs.iter().all(|output| shape(output) == shape(first)),
            "the outputs of a Jacobian differ in parameters or examples"
        );
        let blocks = 0..first.blocks.len();
        let shared = blocks.map(|index| SharedInputs::of(&outputs, index));
        Self {
            shared: shared.collect(),
            outputs,
        }
    }

    /// M.
    pub fn count(&self) -> usize {
        self.outputs[0].count
    }

    /// The number of stored elements, for all examples and outputs.
    pub fn stored(&self) -> usize {
        self.outputs.iter().map(ExampleGradients::stored).sum()
    }

    /// Jᵢ v_k, `[M, C, K]`, for vectors `[K, D]`.
    pub fn dot(&self, vectors: &Tensor<2>) -> Tensor<3> {
        let [total, _] = vectors.dims();
        self.sum([self.count(), self.outputs.len(), total], |index, range| {
            let vectors = vectors.clone().slice_dim(1, range);
            match &self.shared[index] {
                Some(shared) => shared.dot(&vectors),
                None => {
                    let dots = self.outputs.iter().map(|output| {
                        let zeros = || output.zeros(total);
                        let factor = output.blocks[index].factor();
                        factor.map_or_else(zeros, |factor| factor.dot(&vectors))
                    });
                    Tensor::stack(dots.collect(), 1)
                }
            }
        })
    }

    /// The diagonals of Jᵢ diag(w) Jᵢᵀ, `[M, C]`, for weights `[D]`.
    pub fn weighted_squares(&self, weights: &Tensor<1>) -> Tensor<2> {
        self.sum([self.count(), self.outputs.len()], |index, range| {
            let weights = weights.clone().slice_dim(0, range);
            match &self.shared[index] {
                Some(shared) => shared.weighted_squares(weights),
                None => self.by_rows(index, &weights, |rows, weights| {
                    (rows.square() * weights).sum_dim(2).squeeze_dim(2)
                }),
            }
        })
    }

    /// Jᵢ diag(w) Jᵢᵀ, `[M, C, C]`, for weights `[D]`.
    pub fn weighted_grams(&self, weights: &Tensor<1>) -> Tensor<3> {
        let outputs = self.outputs.len();
        self.sum([self.count(), outputs, outputs], |index, range| {
            let weights = weights.clone().slice_dim(0, range);
            match &self.shared[index] {
                Some(shared) => shared.weighted_grams(weights),
                None => self.by_rows(index, &weights, |rows, weights| {
                    (rows.clone() * weights).matmul(rows.transpose())
                }),
            }
        })
    }

    /// The sum over parameters of `product`, which is called with a parameter's index and its range of weights.
    fn sum<const R: usize>(
        &self,
        shape: [usize; R],
        product: impl Fn(usize, Range<usize>) -> Tensor<R>,
    ) -> Tensor<R> {
        let mut start = 0;
        let zeros = Tensor::zeros(shape, self.outputs[0].options());
        let blocks = self.outputs[0].blocks.iter().enumerate();
        blocks.fold(zeros, |sum, (index, block)| {
            let range = start..start + block.len;
            start = range.end;
            sum + product(index, range)
        })
    }

    /// The sum over pieces of a parameter of `product`, which is called with rows `[M, C, d]` and their weights
    /// `[1, 1, d]`.
    fn by_rows<const R: usize>(
        &self,
        index: usize,
        weights: &Tensor<1>,
        product: impl Fn(Tensor<3>, Tensor<3>) -> Tensor<R>,
    ) -> Tensor<R> {
        let longest = (SCRATCH / (self.count() * self.outputs.len())).max(1);
        let mut factors = self.outputs.iter().map(|output| &output.blocks[index]);
        let pieces = match factors.find_map(|block| block.factor()) {
            Some(factor) => factor.pieces(longest),
            // No output depends on the parameter: any piece will do.
            None => std::iter::once(0..1).collect(),
        };
        let products = pieces.into_iter().map(|range| {
            let rows = self.outputs.iter().map(|output| {
                let zeros = || Tensor::zeros([self.count(), range.len()], output.options());
                let factor = output.blocks[index].factor();
                factor.map_or_else(zeros, |factor| factor.columns(range.clone()))
            });
            let weights = weights.clone().slice_dim(0, range.clone());
            product(Tensor::stack(rows.collect(), 1), weights.unsqueeze())
        });
        let sum = products.reduce(|sum, product| sum + product);
        sum.expect("a parameter has an element")
    }
}

impl SharedInputs {
    /// The parameter with this index; `None` if it has another form.
    fn of(outputs: &[ExampleGradients], index: usize) -> Option<Self> {
        let sides = outputs.iter().map(|output| {
            let [term] = output.blocks[index].terms.as_slice() else {
                return None;
            };
            term.sides_of_one_position()
        });
        let (inputs, slopes): (Vec<_>, Vec<_>) =
            sides.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let is_equal = |left: &Tensor<3>, right: &Tensor<3>| {
            let equal = || left.clone().equal(right.clone()).all().into_scalar();
            left.dims() == right.dims() && equal()
        };
        let is_shared = inputs.windows(2).all(|pair| is_equal(&pair[0], &pair[1]));
        is_shared.then(|| Self {
            inputs: inputs[0].clone(),
            slopes: Tensor::stack(slopes, 2),
        })
    }

    /// aᵢᵀV_k for some vectors at a time, then its products with all δᵢ_c.
    fn dot(&self, vectors: &Tensor<2>) -> Tensor<3> {
        let [groups, count, height] = self.inputs.dims();
        let [_, _, outputs, width] = self.slopes.dims();
        let [total, _] = vectors.dims();
        let at_a_time = (SCRATCH / (groups * count * width)).clamp(1, total.max(1));
        let parts = steps(total, at_a_time).map(|some| {
            let shape = [some.len(), groups, height, width];
            let vectors = vectors.clone().slice_dim(0, some).reshape(shape);
            let products = self.inputs.clone().unsqueeze::<4>().matmul(vectors);
            let products = products.permute([1, 2, 3, 0]);
            let dots = self.slopes.clone().matmul(products).sum_dim(0);
            dots.reshape([count, outputs, shape[0]])
        });
        Tensor::cat(parts.collect(), 2)
    }

    /// aᵢ²ᵀW, `[G, M, 1, Q]`.
    fn scales(&self, weights: Tensor<1>) -> Tensor<4> {
        let [groups, _, height] = self.inputs.dims();
        let width = self.slopes.dims()[3];
        let weights = weights.reshape([groups, height, width]);
        self.inputs
            .clone()
            .square()
            .matmul(weights)
            .unsqueeze_dim(2)
    }

    fn weighted_squares(&self, weights: Tensor<1>) -> Tensor<2> {
        let [_, count, outputs, _] = self.slopes.dims();
        let squares = self.slopes.clone().square() * self.scales(weights);
        squares.sum_dim(3).sum_dim(0).reshape([count, outputs])
    }

    fn weighted_grams(&self, weights: Tensor<1>) -> Tensor<3> {
        let scaled = self.slopes.clone() * self.scales(weights);
        let grams = scaled.matmul(self.slopes.clone().transpose());
        grams.sum_dim(0).squeeze_dim(0)
    }
}
