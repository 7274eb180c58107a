//! The derive macro of `ExampleBatch`.

use burn::tensor::{Int, Tensor, kind};
use burn_bayes::ExampleBatch;
use burn_bayes::graph::TensorMapper;

use crate::support::{device, matrix, values};

#[derive(Clone, Debug, ExampleBatch)]
struct Sentences {
    tokens: Tensor<2, Int>,
    lengths: Tensor<1, Int>,
}

#[derive(Clone, Debug, ExampleBatch)]
struct Labelled<B, const R: usize>
where
    B: Send,
{
    inputs: B,
    targets: Tensor<R>,
    #[batch(shared)]
    classes: usize,
}

#[derive(Clone, Debug, ExampleBatch)]
struct Pair(Tensor<2>, #[batch(shared)] &'static str, Tensor<2>);

/// Keeps the first example and records the rank of every tensor.
#[derive(Default)]
struct First(Vec<usize>);

impl TensorMapper for First {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        self.0.push(R);
        tensor.narrow(0, 0, 1)
    }
}

#[test]
fn every_tensor_is_mapped_in_the_order_of_the_fields() {
    let device = device();
    let batch = Labelled {
        inputs: Sentences {
            tokens: Tensor::from_data([[1, 2, 3], [4, 5, 6]], &device),
            lengths: Tensor::from_data([3, 2], &device),
        },
        targets: matrix(2, 2, &[1.0, 2.0, 3.0, 4.0]),
        classes: 7,
    };
    let mut first = First::default();
    let batch = batch.map_tensors(&mut first);
    assert_eq!(first.0, [2, 1, 2]);
    assert_eq!(batch.inputs.tokens.dims(), [1, 3]);
    assert_eq!(batch.inputs.lengths.dims(), [1]);
    assert_eq!(values(&batch.targets), [1.0, 2.0]);
    assert_eq!(batch.classes, 7);
}

#[test]
fn a_tuple_structure_is_mapped() {
    let pair = Pair(
        matrix(2, 1, &[1.0, 2.0]),
        "shared",
        matrix(2, 1, &[3.0, 4.0]),
    );
    let Pair(left, name, right) = pair.map_tensors(&mut First::default());
    assert_eq!((values(&left), name), (vec![1.0], "shared"));
    assert_eq!(values(&right), [3.0]);
}
