//! The numbers of a CPU tensor, for compiled programs.

use burn::backend::DispatchTensor;

/// The elements of a tensor in row-major order, as `f32`.
#[cfg_attr(
    not(feature = "flex"),
    allow(dead_code, reason = "without Burn's CPU backend there are none")
)]
#[derive(Debug)]
pub(crate) enum HostValues {
    /// The memory of the tensor.
    #[cfg(feature = "flex")]
    Lent(burn::backend::flex::FlexTensor),
    /// A converted copy.
    Owned(Vec<f32>),
}

impl HostValues {
    /// The elements of a tensor of Burn's CPU backend without autodiff. `None` for other tensors, for floats that are
    /// not `f32`, and for integers that `f32` does not have.
    #[cfg(feature = "flex")]
    pub(crate) fn of(tensor: DispatchTensor) -> Option<Self> {
        use burn::backend::{BackendTensor, DispatchKindConversion, Flex};
        use burn::tensor::DType;

        let tensor =
            <DispatchTensor as DispatchKindConversion<Flex>>::try_into_backend(tensor).ok()?;
        match tensor {
            BackendTensor::Float(tensor) if tensor.dtype() == DType::F32 => {
                Some(Self::Lent(contiguous(tensor)))
            }
            BackendTensor::Int(tensor) => {
                let tensor = contiguous(tensor);
                let converted = match tensor.dtype() {
                    DType::I64 => integers(tensor.as_slice::<i64>()?),
                    DType::I32 => integers(tensor.as_slice::<i32>()?),
                    _ => None,
                };
                converted.map(Self::Owned)
            }
            BackendTensor::Bool(tensor) => {
                let tensor = contiguous(tensor);
                let first = tensor.layout().start_offset();
                let bytes = &tensor.storage::<u8>()[first..][..tensor.layout().num_elements()];
                let numbers = bytes.iter().map(|&value| f32::from(u8::from(value != 0)));
                Some(Self::Owned(numbers.collect()))
            }
            _ => None,
        }
    }

    /// Without Burn's CPU backend there are none.
    #[cfg(not(feature = "flex"))]
    pub(crate) fn of(_tensor: DispatchTensor) -> Option<Self> {
        None
    }

    pub(crate) fn values(&self) -> &[f32] {
        match self {
            #[cfg(feature = "flex")]
            Self::Lent(tensor) => tensor.as_slice().expect("it is contiguous f32"),
            Self::Owned(values) => values,
        }
    }
}

/// The tensor, copied if its elements lie otherwise.
#[cfg(feature = "flex")]
fn contiguous(tensor: burn::backend::flex::FlexTensor) -> burn::backend::flex::FlexTensor {
    if tensor.is_contiguous() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// Integers as `f32`, if it has each of them.
#[cfg(feature = "flex")]
fn integers<T: Copy + Into<i64>>(values: &[T]) -> Option<Vec<f32>> {
    /// Up to this size, `f32` has every integer.
    const LARGEST: i64 = 1 << 24;
    let numbers = values.iter().map(|&value| {
        let value: i64 = value.into();
        (value.abs() <= LARGEST).then_some(value as f32)
    });
    numbers.collect()
}
