//! Batches whose tensors can be found: moved to another device, cut into single examples, read.

use burn::backend::DispatchTensor;
use burn::tensor::{Tensor, kind};

use crate::error::{Kind, Result};

/// A batch of examples: every tensor in it has one entry per example along its first axis.
///
/// Tensors are batches, and so are tuples of up to four batches. A structure needs one line for
/// each of its tensors:
///
/// ```
/// use burn::tensor::{Int, Tensor};
/// use burn_bayes_graph::{ExampleBatch, TensorMapper};
///
/// #[derive(Clone)]
/// struct ImageBatch {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
/// }
///
/// impl ExampleBatch for ImageBatch {
///     fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
///         Self {
///             images: mapper.map(self.images),
///             labels: mapper.map(self.labels),
///         }
///     }
/// }
/// ```
pub trait ExampleBatch: Clone {
    /// Hands every tensor to `mapper`, always in the same order, and keeps what it returns.
    #[must_use]
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self;
}

/// What is done to the tensors of a batch.
pub trait TensorMapper {
    /// The tensor that takes this one's place.
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

/// Puts one example in the place of all.
pub(crate) struct Copies(pub(crate) usize);

impl TensorMapper for Copies {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let examples = tensor.dims()[0];
        tensor.narrow(0, self.0, 1).repeat_dim(0, examples)
    }
}

/// Puts the first example once more at the end.
pub(crate) struct Lengthened;

impl TensorMapper for Lengthened {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let first = tensor.clone().narrow(0, 0, 1);
        Tensor::cat(vec![tensor, first], 0)
    }
}

/// The tensors, without autodiff.
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

/// The shapes, each after its rank: batches that agree in it share a recording.
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
    /// Of every tensor's first axis.
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
        [] => "the batch has no tensor".to_owned(),
        [0, ..] => "the batch has no examples".to_owned(),
        [first, rest @ ..] => match rest.iter().position(|len| len != first) {
            None => return Ok(*first),
            Some(index) => format!(
                "tensor {} of the batch has {} entries along its first axis, tensor 0 has {first}; \
                 all must have one for each example",
                index + 1,
                rest[index]
            ),
        },
    };
    Err(Kind::Batch(problem).into())
}

/// Fails unless there is one loss for each example.
pub(crate) fn check_count(losses: &[f64], examples: usize) -> Result<()> {
    if losses.len() == examples {
        return Ok(());
    }
    Err(Kind::Batch(format!(
        "the loss gives {} values for {examples} examples; it must give one for each",
        losses.len()
    ))
    .into())
}
