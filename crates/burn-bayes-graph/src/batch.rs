//! Mini-batches, and mappers over their tensors.

use burn::backend::DispatchTensor;
use burn::tensor::{Tensor, kind};

use crate::error::{Kind, Result};

/// A mini-batch: the first axis of every tensor is the example axis.
///
/// Tensors implement it, and so do tuples of up to four batches. For a structure of tensors and batches it
/// is derived. A field that all examples share is passed on as it is; recordings take it as a constant, so
/// it must be the same in all batches.
///
/// ```
/// use burn::tensor::{Int, Tensor};
/// use burn_bayes_graph::ExampleBatch;
///
/// #[derive(Clone, ExampleBatch)]
/// #[batch(crate = burn_bayes_graph)] // not with `use burn_bayes::ExampleBatch`
/// struct ImageBatch {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
///     #[batch(shared)]
///     class_weights: [f32; 10],
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no batch of examples",
    label = "neither a tensor nor a batch",
    note = "a structure of tensors becomes one by `#[derive(ExampleBatch)]`; mark a field that all \
            examples share with `#[batch(shared)]`"
)]
pub trait ExampleBatch: Clone {
    /// Replaces every tensor by the result of `mapper`, always in the same order.
    #[must_use]
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self;
}

/// A function of the tensors of a batch.
pub trait TensorMapper {
    /// Maps one tensor.
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K>;
}

impl<const R: usize, K: kind::Autodiff> ExampleBatch for Tensor<R, K> {
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
        mapper.map(self)
    }
}

macro_rules! tuple_batches {
    ($($name:ident)+) => {
        impl<$($name: ExampleBatch),+> ExampleBatch for ($($name,)+) {
            fn map_tensors<Mapper: TensorMapper>(self, mapper: &mut Mapper) -> Self {
                #[allow(non_snake_case, reason = "a field is named like its type parameter")]
                let ($($name,)+) = self;
                ($($name.map_tensors(mapper),)+)
            }
        }
    };
}

tuple_batches!(A);
tuple_batches!(A B);
tuple_batches!(A B C);
tuple_batches!(A B C D);

/// Keeps one example.
pub(crate) struct Single(pub(crate) usize);

impl TensorMapper for Single {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        tensor.narrow(0, self.0, 1)
    }
}

/// Replaces all examples by copies of one.
pub(crate) struct Copies(pub(crate) usize);

impl TensorMapper for Copies {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let examples = tensor.dims()[0];
        tensor.narrow(0, self.0, 1).repeat_dim(0, examples)
    }
}

/// Appends a copy of the first example.
pub(crate) struct OneMoreExample;

impl TensorMapper for OneMoreExample {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let first = tensor.clone().narrow(0, 0, 1);
        Tensor::cat(vec![tensor, first], 0)
    }
}

/// Collects the tensors, without autodiff.
pub(crate) struct Inputs(Vec<DispatchTensor>);

impl Inputs {
    pub(crate) fn of<B: ExampleBatch>(batch: &B) -> Vec<DispatchTensor> {
        let mut inputs = Self(Vec::new());
        let _ = batch.clone().map_tensors(&mut inputs);
        inputs.0
    }
}

impl TensorMapper for Inputs {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        self.0
            .push(tensor.clone().without_autodiff().into_dispatch());
        tensor
    }
}

/// The rank and shape of each tensor. Batches of equal signature share a recording.
pub(crate) fn signature_of<B: ExampleBatch>(batch: &B) -> Vec<usize> {
    struct Shapes(Vec<usize>);
    impl TensorMapper for Shapes {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            self.0.push(R);
            self.0.extend(tensor.dims());
            tensor
        }
    }
    let mut shapes = Shapes(Vec::new());
    let _ = batch.clone().map_tensors(&mut shapes);
    shapes.0
}

/// The number of examples, M.
pub(crate) fn examples_of<B: ExampleBatch>(batch: &B) -> Result<usize> {
    /// The length of each tensor's first axis.
    struct Lengths(Vec<usize>);
    impl TensorMapper for Lengths {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            self.0.push(tensor.dims().first().copied().unwrap_or(0));
            tensor
        }
    }
    let mut lengths = Lengths(Vec::new());
    let _ = batch.clone().map_tensors(&mut lengths);
    let problem = match lengths.0.as_slice() {
        [] => "the batch has no tensors".to_owned(),
        [0, ..] => "the batch has no examples".to_owned(),
        [first, rest @ ..] => match rest.iter().position(|len| len != first) {
            None => return Ok(*first),
            Some(index) => format!(
                "tensor {} of the batch has {} entries along its first axis, tensor 0 has {first}; \
                 every tensor must have one entry for each example",
                index + 1,
                rest[index]
            ),
        },
    };
    Err(Kind::Batch(problem).into())
}

/// Fails unless the loss has one value for each example.
pub(crate) fn check_count(losses: &[f64], examples: usize) -> Result<()> {
    if losses.len() == examples {
        return Ok(());
    }
    Err(Kind::Batch(format!(
        "the loss has {} values for {examples} examples; return one value for each example",
        losses.len()
    ))
    .into())
}
