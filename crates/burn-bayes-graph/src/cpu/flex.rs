//! Tensors of Burn's CPU backend as slices.
//!
//! Each function gives `None` where it does not apply: another backend, another element type, memory
//! that is not contiguous.

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{Bytes, DType, Device, Shape, Tensor};
use burn_bayes_kernels::weighted_product;
use rayon::prelude::*;

use super::Scratch;

/// A CPU tensor whose elements lie one after the other.
#[derive(Debug)]
pub struct Contiguous(FlexTensor);

impl Contiguous {
    /// The tensor, if it is contiguous `f32` on the CPU backend.
    pub fn new<const R: usize>(tensor: &Tensor<R>) -> Option<Self> {
        let primitive = tensor.clone().try_into_primitive::<Flex>().ok()?;
        primitive.as_slice::<f32>()?;
        Some(Self(primitive))
    }

    /// The tensor, copied if its elements lie otherwise.
    fn of<const R: usize>(tensor: &Tensor<R>) -> Self {
        Self(primitive(tensor.clone()).to_contiguous())
    }

    /// The elements, in row-major order.
    pub fn values(&self) -> &[f32] {
        self.0.as_slice().expect("the constructor looked at it")
    }
}

/// A new tensor from values in row-major order.
pub fn tensor<const R: usize>(values: Vec<f32>, shape: [usize; R]) -> Tensor<R> {
    stored(Bytes::from_elems(values), shape)
}

/// A new tensor from the bytes of values in row-major order.
fn stored<const R: usize>(bytes: Bytes, shape: [usize; R]) -> Tensor<R> {
    let layout = Layout::contiguous(Shape::from(shape));
    Tensor::from_primitive::<Flex>(FlexTensor::new(bytes, layout, DType::F32))
}

/// Whether tensors of this device and type have fused kernels.
pub(super) fn applies(options: (&Device, DType)) -> bool {
    let tensor = Tensor::<1>::zeros([1], options);
    options.1 == DType::F32 && tensor.try_into_primitive::<Flex>().is_ok()
}

/// A new tensor whose memory returns to the scratch it came from.
pub fn lent<const R: usize>(values: Vec<f32>, shape: [usize; R], scratch: &Scratch) -> Tensor<R> {
    stored(scratch.lend(values), shape)
}

/// Copies `[rows, runs, length]` into the first rows, `width` long, of a matrix, from a column on.
pub(super) fn copy_runs(matrix: &mut [f32], width: usize, column: usize, values: Tensor<3>) {
    let [rows, runs, length] = values.dims();
    if rows * runs * length == 0 {
        return;
    }
    let mut values = primitive(values);
    let strides = values.layout().strides();
    if strides[2] != 1 || strides.iter().any(|&stride| stride < 0) {
        values = values.to_contiguous();
    }
    let start = values.layout().start_offset();
    let [row_stride, run_stride] = [0, 1].map(|axis| values.layout().strides()[axis] as usize);
    let values = &values.storage::<f32>()[start..];
    let copy = |(row, out): (usize, &mut [f32])| {
        let out = &mut out[column..column + runs * length];
        for (run, out) in out.chunks_exact_mut(length).enumerate() {
            out.copy_from_slice(&values[row * row_stride + run * run_stride..][..length]);
        }
    };
    for_rows(matrix, [rows, width], runs * length, copy);
}

/// Calls `write` with the first `rows` rows of a matrix, `width` long: on several threads if a row takes so much `work` that
/// it helps.
fn for_rows(
    matrix: &mut [f32],
    [rows, width]: [usize; 2],
    work: usize,
    write: impl Fn((usize, &mut [f32])) + Send + Sync,
) {
    /// The work that takes as long as waking a thread.
    const INLINE_WORK: usize = 1 << 16;
    if rows * work < INLINE_WORK {
        matrix
            .chunks_mut(width)
            .take(rows)
            .enumerate()
            .for_each(write);
    } else {
        let rows = matrix.par_chunks_mut(width).take(rows).enumerate();
        rows.for_each(write);
    }
}

/// leftᵀ diag(w) right for every row w of `weights`, into `columns` of the rows of a matrix.
pub(super) fn products(
    matrix: &mut [f32],
    columns: Range<usize>,
    left: &Tensor<2>,
    right: &Tensor<2>,
    weights: &Tensor<2>,
) {
    let [rows, terms] = weights.dims();
    let [height, width] = [left.dims()[1], right.dims()[1]];
    if rows == 0 || columns.is_empty() {
        return;
    }
    let [left, right, weights] = [left, right, weights].map(Contiguous::of);
    let row_len = matrix.len() / rows;
    let write = |(row, out): (usize, &mut [f32])| {
        // Without terms, every row of the weights is empty.
        let weights = &weights.values()[row * terms..(row + 1) * terms];
        let out = &mut out[columns.clone()];
        weighted_product(out, [height, width], left.values(), right.values(), weights);
    };
    let work = height * width * terms.max(1);
    for_rows(matrix, [rows, row_len], work, write);
}

/// Whether a tensor's elements are its whole buffer, so that they can be written in place.
pub fn is_whole<const R: usize>(tensor: &Tensor<R>) -> bool {
    Contiguous::new(tensor)
        .is_some_and(|whole| whole.0.storage::<f32>().len() == whole.values().len())
}

/// The tensor of the CPU backend behind `tensor`.
///
/// # Panics
///
/// If it is on another backend.
pub fn primitive<const R: usize>(tensor: Tensor<R>) -> FlexTensor {
    tensor
        .try_into_primitive::<Flex>()
        .expect("the backend was looked at")
}
