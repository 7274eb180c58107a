//! Upper bounds of the memory that recordings hold.

use burn::backend::ir::TensorIr;
use burn::tensor::TensorData;

/// What an allocation needs besides its contents.
pub(crate) const ALLOCATION: usize = 16;

/// Values with a known memory use.
pub(crate) trait MemoryUse {
    /// An upper bound of the memory use in bytes, itself included.
    fn bytes(&self) -> usize;
}

/// The memory of a vector, besides the vector itself and what its elements own.
pub(crate) fn vec_bytes<T>(values: &Vec<T>) -> usize {
    match values.capacity() * size_of::<T>() {
        0 => 0,
        bytes => bytes + ALLOCATION,
    }
}

/// The memory of descriptions of tensors.
pub(crate) fn tensors_bytes(tensors: &Vec<TensorIr>) -> usize {
    let shapes = tensors
        .iter()
        .map(|tensor| shape_bytes(tensor.shape.num_dims()));
    vec_bytes(tensors) + shapes.sum::<usize>()
}

/// The memory of numbers on the host, besides the description of their place.
pub(crate) fn data_bytes(data: &TensorData) -> usize {
    storage_bytes(data.as_bytes().len()) + shape_bytes(data.shape().num_dims())
}

/// The memory of a tensor that a replay keeps.
pub(crate) fn kept_bytes(tensor: &TensorIr) -> usize {
    /// A shape and strides.
    const SHAPES: usize = 2;
    let len = tensor.shape.num_elements() * tensor.dtype.size();
    storage_bytes(len) + SHAPES * shape_bytes(tensor.shape.num_dims())
}

/// The memory of a shape that is too long for the tensor's own fields.
fn shape_bytes(rank: usize) -> usize {
    rank * size_of::<usize>() + ALLOCATION
}

/// The memory of bytes with their owner, aligned for vector instructions.
fn storage_bytes(len: usize) -> usize {
    const OWNER: usize = 192;
    len + OWNER
}
