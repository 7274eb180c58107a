//! Tensors with a rank that is known only at run time.

use burn::backend::ops::{FloatTensorOps, IntTensorOps, PadMode};
use burn::backend::{AutodiffBackend, Dispatch, DispatchDevice, DispatchTensor, TensorMetadata};
use burn::tensor::{Int, Shape, Slice, Tensor, TensorData};

use crate::axis::ExampleAxis;
use crate::view::{gather_starts, row_major};

/// A tensor without autodiff.
#[derive(Clone, Debug)]
pub(crate) struct DynTensor(DispatchTensor);

impl DynTensor {
    /// Removes autodiff from the tensor.
    pub(crate) fn new(tensor: DispatchTensor) -> Self {
        use burn::backend::DispatchAutodiffContext as Context;
        match tensor.autodiff {
            Context::Disabled => Self(tensor),
            Context::Enabled(_) if tensor.dtype().is_float() => Self(Dispatch::inner(tensor)),
            Context::Enabled(_) => Self(Dispatch::int_inner(tensor)),
        }
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        self.0.shape().to_vec()
    }

    pub(crate) fn rank(&self) -> usize {
        self.0.shape().num_dims()
    }

    pub(crate) fn reshape(self, shape: &[usize]) -> Self {
        let shape = Shape::from(shape.to_vec());
        Self(match self.0.dtype().is_float() {
            true => Dispatch::float_reshape(self.0, shape),
            false => Dispatch::int_reshape(self.0, shape),
        })
    }

    /// Splits one axis into several of these lengths.
    pub(crate) fn split(self, axis: usize, lens: &[usize]) -> Self {
        let mut shape = self.shape();
        shape.splice(axis..=axis, lens.iter().copied());
        self.reshape(&shape)
    }

    pub(crate) fn expand(self, shape: &[usize]) -> Self {
        let shape = Shape::from(shape.to_vec());
        Self(match self.0.dtype().is_float() {
            true => Dispatch::float_expand(self.0, shape),
            false => Dispatch::int_expand(self.0, shape),
        })
    }

    fn permute(self, axes: &[usize]) -> Self {
        if axes.iter().copied().eq(0..axes.len()) {
            return self;
        }
        Self(match self.0.dtype().is_float() {
            true => Dispatch::float_permute(self.0, axes),
            false => Dispatch::int_permute(self.0, axes),
        })
    }

    /// Joins S draws and M examples into S·M examples, ordered by draw.
    ///
    /// `axis` is the example axis at one draw, of a tensor with `rank` axes. A tensor of this rank is shared
    /// by all draws; otherwise it has a leading axis of draws.
    pub(crate) fn with_draws_as_examples(
        self,
        axis: ExampleAxis,
        rank: usize,
        draws: usize,
        examples: usize,
    ) -> Self {
        let shape = self.shape();
        let of_draws = if shape.len() == rank {
            let one = [&[1], &shape[..]].concat();
            self.reshape(&one).expand(&[&[draws], &shape[..]].concat())
        } else {
            self
        };
        let mut shape = of_draws.shape();
        // [S, …, outer · M · inner, …] → [S, …, outer, M · inner, …] → […, outer, S, M · inner, …]
        let place = axis.axis + 1;
        shape.splice(place..=place, [axis.outer, examples * axis.inner]);
        let split = of_draws.reshape(&shape);
        let order: Vec<_> = (1..=place)
            .chain([0])
            .chain(place + 1..shape.len())
            .collect();
        let mut joined = shape[1..].to_vec();
        joined.splice(
            axis.axis..=place,
            [axis.outer * draws * examples * axis.inner],
        );
        split.permute(&order).reshape(&joined)
    }

    pub(crate) fn cat(parts: Vec<Self>, dim: usize) -> Self {
        let parts = parts.into_iter().map(|part| part.0).collect();
        Self(Dispatch::float_cat(parts, dim))
    }

    /// Pads the spatial axes, those after the second, with zeros.
    pub(crate) fn pad_spatial(self, padding: &[(usize, usize)]) -> Self {
        if padding.iter().all(|&(before, after)| before + after == 0) {
            return self;
        }
        let padding = [&[(0, 0), (0, 0)], padding].concat();
        Self(Dispatch::float_pad(
            self.0,
            &padding,
            PadMode::Constant(0.0),
        ))
    }

    /// Picks `lens` entries of each spatial axis, beginning at `starts`, with strides `steps`.
    pub(crate) fn strided(self, starts: Vec<usize>, steps: &[usize], lens: &[usize]) -> Self {
        let shape = self.shape();
        let mut ranges = vec![Slice::full(), Slice::full()];
        for (axis, start) in starts.iter().enumerate() {
            let end = start + (lens[axis] - 1) * steps[axis] + 1;
            debug_assert!(
                end <= shape[axis + 2],
                "a patch lies inside the padded tensor"
            );
            ranges.push(Slice::new(
                *start as isize,
                Some(end as isize),
                steps[axis] as isize,
            ));
        }
        Self(Dispatch::float_slice(self.0, &ranges))
    }

    pub(crate) fn into_dispatch(self) -> DispatchTensor {
        self.0
    }

    /// The tensor with static rank `R`.
    pub(crate) fn typed<const R: usize>(self) -> Tensor<R> {
        assert_eq!(self.rank(), R, "the rank of a tensor");
        Tensor::from_dispatch(self.0)
    }

    /// A vector of numbers.
    pub(crate) fn from_host(values: Vec<f32>, device: &DispatchDevice) -> Self {
        let len = values.len();
        Self(Dispatch::float_from_data(
            TensorData::new(values, [len]),
            device,
        ))
    }

    /// A vector with the values of `draws` draws, each of this shape with the axis `rows` moved to the front, as a tensor
    /// of this shape; with a leading axis of draws if there are several.
    pub(crate) fn with_rows_moved(self, draws: usize, shape: &[usize], rows: usize) -> Self {
        let mut first = shape.to_vec();
        let len = first.remove(rows);
        first.insert(0, len);
        let mut order: Vec<_> = (1..shape.len()).collect();
        order.insert(rows, 0);
        if draws > 1 {
            first.insert(0, draws);
            order = std::iter::once(0)
                .chain(order.into_iter().map(|axis| axis + 1))
                .collect();
        }
        self.reshape(&first).permute(&order)
    }

    /// The values of an integer tensor.
    pub(crate) fn into_integers(self) -> Option<Vec<i64>> {
        if self.0.dtype().is_float() || self.0.dtype().is_bool() {
            return None;
        }
        let shape = Shape::from(vec![self.0.shape().num_elements()]);
        let flat = Tensor::<1, Int>::from_dispatch(Dispatch::int_reshape(self.0, shape));
        flat.into_data().convert::<i64>().try_into_vec().ok()
    }

    /// The row-major positions of the elements that a gather with these indices along `dim` picks from a
    /// tensor of this `shape`.
    pub(crate) fn gathered_elements(self, shape: &[usize], dim: usize) -> Self {
        let indices = self.shape();
        let starts = gather_starts(shape, dim, &indices);
        let starts: Vec<_> = starts.into_iter().map(|start| start as i64).collect();
        let mut once = indices.clone();
        once[dim] = 1;
        let starts = TensorData::new(starts, once).convert_dtype(self.0.dtype());
        let starts = Dispatch::int_from_data(starts, &self.0.device());
        let starts = Dispatch::int_expand(starts, Shape::from(indices));
        let steps = Dispatch::int_mul_scalar(self.0, row_major(shape)[dim].into());
        Self(Dispatch::int_add(steps, starts))
    }

    /// Integers as `[M, T]`: examples, positions.
    pub(crate) fn arranged_indices(self, axis: ExampleAxis, examples: usize) -> Tensor<2, Int> {
        let (split, order) = split(&self.shape(), axis, examples, &[], &[]);
        let len: usize = split.iter().product();
        let arranged = self.reshape(&split).permute(&order);
        Tensor::from_dispatch(arranged.reshape(&[examples, len / examples]).0)
    }
}

/// The device of the first tensor.
pub(crate) fn device_of<'a>(
    mut tensors: impl Iterator<Item = &'a DispatchTensor>,
) -> DispatchDevice {
    let first = tensors.next();
    first.map_or_else(DispatchDevice::default, TensorMetadata::device)
}

/// The tensor as `[groups, examples, positions, features]`. Each of `groups` and `features` is a list of axes
/// to join; the remaining axes are joined to positions.
pub(crate) fn arranged(
    tensor: DynTensor,
    axis: ExampleAxis,
    examples: usize,
    groups: &[usize],
    features: &[usize],
) -> Tensor<4> {
    let shape = tensor.shape();
    let (split, order) = split(&shape, axis, examples, groups, features);
    let len = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let (groups, features) = (len(groups), len(features));
    let all: usize = shape.iter().product();
    let positions = all / (groups * examples * features).max(1);
    let permuted = tensor.reshape(&split).permute(&order);
    permuted
        .reshape(&[groups, examples, positions, features])
        .typed()
}

/// The shape with the example axis split in three, and the order of axes: groups, examples, positions,
/// features.
fn split(
    shape: &[usize],
    axis: ExampleAxis,
    examples: usize,
    groups: &[usize],
    features: &[usize],
) -> (Vec<usize>, Vec<usize>) {
    let mut split = shape.to_vec();
    split.splice(axis.axis..=axis.axis, [axis.outer, examples, axis.inner]);
    // The place of an axis of `shape` after the split, which adds two axes.
    let moved = |other: usize| if other > axis.axis { other + 2 } else { other };
    let groups: Vec<_> = groups.iter().map(|&axis| moved(axis)).collect();
    let features: Vec<_> = features.iter().map(|&axis| moved(axis)).collect();
    let place = axis.axis + 1;
    let is_position =
        |axis: &usize| *axis != place && !groups.contains(axis) && !features.contains(axis);
    let positions = (0..split.len()).filter(is_position);
    let order = groups.iter().copied().chain([place]).chain(positions);
    let order: Vec<_> = order.chain(features.iter().copied()).collect();
    (split, order)
}
