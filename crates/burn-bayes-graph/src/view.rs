//! Views of parameters: for each element of a tensor, the parameter element that it shows.
//!
//! A tensor has a view if it was made from parameters only by reshape, permute, slice, expand, select, gather
//! and concatenation.

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::tensor::Slice;

use crate::memory_use::vec_bytes;

/// An element of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the parameter in the layout.
    pub(crate) parameter: usize,
    /// The index of the element, in row-major order.
    pub(crate) element: usize,
}

#[derive(Clone, Debug)]
enum Base {
    /// All elements of one parameter.
    Parameter(usize),
    /// Selected elements; `None` is a constant.
    Picked(Arc<[Option<Place>]>),
}

/// A tensor whose elements are elements of parameters, as a strided window.
#[derive(Clone, Debug)]
pub(crate) struct View {
    base: Base,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl View {
    /// The whole parameter.
    pub(crate) fn of(parameter: usize, shape: &[usize]) -> Self {
        Self::whole(Base::Parameter(parameter), shape)
    }

    fn picked(places: Vec<Option<Place>>, shape: &[usize]) -> Self {
        Self::whole(Base::Picked(places.into()), shape)
    }

    fn whole(base: Base, shape: &[usize]) -> Self {
        Self {
            base,
            offset: 0,
            shape: shape.to_vec(),
            strides: row_major(shape),
        }
    }

    /// The parameter, if the view is one whole parameter in row-major order.
    pub(crate) fn parameter(&self, len: impl Fn(usize) -> usize) -> Option<usize> {
        match self.base {
            Base::Parameter(parameter)
                if self.is_contiguous() && self.offset == 0 && self.len() == len(parameter) =>
            {
                Some(parameter)
            }
            _ => None,
        }
    }

    /// All parameters with elements in the view.
    pub(crate) fn parameters(&self) -> BTreeSet<usize> {
        match &self.base {
            Base::Parameter(parameter) => BTreeSet::from([*parameter]),
            Base::Picked(_) => {
                let places = self.places().into_iter().flatten();
                places.map(|place| place.parameter).collect()
            }
        }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The memory of what the view owns, in bytes.
    pub(crate) fn owned_bytes(&self) -> usize {
        let picked = match &self.base {
            Base::Parameter(_) => 0,
            Base::Picked(places) => size_of_val(&**places),
        };
        picked + vec_bytes(&self.shape) + vec_bytes(&self.strides)
    }

    fn is_contiguous(&self) -> bool {
        let expected = row_major(&self.shape);
        let mut axes = self.shape.iter().zip(self.strides.iter().zip(&expected));
        axes.all(|(&len, (stride, expected))| len == 1 || stride == expected)
    }

    /// Every element's place, in row-major order.
    pub(crate) fn places(&self) -> Vec<Option<Place>> {
        let mut places = Vec::with_capacity(self.len());
        self.visit(0, self.offset, &mut |position| {
            places.push(match &self.base {
                Base::Parameter(parameter) => Some(Place {
                    parameter: *parameter,
                    element: position,
                }),
                Base::Picked(picked) => picked[position],
            });
        });
        places
    }

    fn visit(&self, axis: usize, position: usize, see: &mut impl FnMut(usize)) {
        if axis == self.shape.len() {
            return see(position);
        }
        for index in 0..self.shape[axis] {
            self.visit(axis + 1, position + index * self.strides[axis], see);
        }
    }

    pub(crate) fn reshape(&self, shape: &[usize]) -> Self {
        if self.is_contiguous() {
            return Self {
                shape: shape.to_vec(),
                strides: row_major(shape),
                ..self.clone()
            };
        }
        Self::picked(self.places(), shape)
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            ..self.clone()
        }
    }

    pub(crate) fn expand(&self, shape: &[usize]) -> Self {
        let new = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(new) {
            Some(old) if self.shape[old] == shape[axis] => self.strides[old],
            _ => 0,
        };
        Self {
            shape: shape.to_vec(),
            strides: (0..shape.len()).map(stride).collect(),
            ..self.clone()
        }
    }

    /// A slice with non-negative bounds and positive steps; `None` for other slices.
    pub(crate) fn slice(&self, ranges: &[Slice], shape: &[usize]) -> Option<Self> {
        let mut view = self.clone();
        view.shape = shape.to_vec();
        for (axis, range) in ranges.iter().enumerate() {
            let start = usize::try_from(range.start).ok()?;
            let step = usize::try_from(range.step).ok().filter(|&step| step > 0)?;
            view.offset += start * self.strides[axis];
            view.strides[axis] *= step;
        }
        Some(view)
    }

    /// The entries `indices` along `dim`.
    pub(crate) fn select(&self, dim: usize, indices: &[usize]) -> Self {
        let parts = indices.iter().map(|&index| {
            let mut part = self.clone();
            part.offset += index * self.strides[dim];
            part.shape[dim] = 1;
            Ok(part)
        });
        Self::join(parts.collect(), dim)
    }

    /// The entries `indices` along `dim`, one for each element of the result, which has this `shape`.
    pub(crate) fn gather(&self, dim: usize, indices: &[usize], shape: &[usize]) -> Self {
        let places = self.places();
        let stride = row_major(&self.shape)[dim];
        let starts = gather_starts(&self.shape, dim, shape);
        let after: usize = shape[dim + 1..].iter().product();
        let picked = indices.iter().enumerate().map(|(position, index)| {
            // `starts` has one entry along `dim`.
            let start = position / (shape[dim] * after) * after + position % after;
            places[starts[start] + index * stride]
        });
        Self::picked(picked.collect(), shape)
    }

    pub(crate) fn repeat(&self, dim: usize, times: usize) -> Self {
        Self::join(vec![Ok(self.clone()); times], dim)
    }

    pub(crate) fn flip(&self, axes: &[usize]) -> Self {
        axes.iter().fold(self.clone(), |view, &axis| {
            let backwards: Vec<_> = (0..view.shape[axis]).rev().collect();
            view.select(axis, &backwards)
        })
    }

    /// Concatenates views (`Ok`) and constants of given shapes (`Err`) along an axis.
    pub(crate) fn join(parts: Vec<Result<Self, Vec<usize>>>, dim: usize) -> Self {
        let shape_of = |part: &Result<Self, Vec<usize>>| match part {
            Ok(view) => view.shape.clone(),
            Err(shape) => shape.clone(),
        };
        let mut shape = shape_of(&parts[0]);
        shape[dim] = parts.iter().map(|part| shape_of(part)[dim]).sum();
        let before: usize = shape[..dim].iter().product();
        let columns: Vec<_> = parts
            .iter()
            .map(|part| match part {
                Ok(view) => view.places(),
                Err(shape) => vec![None; shape.iter().product()],
            })
            .collect();
        let mut places = Vec::with_capacity(shape.iter().product());
        for row in 0..before {
            for column in &columns {
                let len = column.len() / before;
                places.extend_from_slice(&column[row * len..(row + 1) * len]);
            }
        }
        Self::picked(places, &shape)
    }

    /// Splits one axis into several of these lengths.
    pub(crate) fn split(&self, axis: usize, lens: &[usize]) -> Self {
        let mut view = self.clone();
        let steps = row_major(lens).into_iter();
        let strides = steps.map(|step| step * self.strides[axis]);
        view.strides.splice(axis..=axis, strides);
        view.shape.splice(axis..=axis, lens.iter().copied());
        view
    }

    /// The first entry along an axis, if all entries show the same elements.
    pub(crate) fn unrepeated(&self, axis: usize) -> Option<Self> {
        let mut first = self.clone();
        first.shape[axis] = 1;
        if self.shape[axis] == 1 || self.strides[axis] == 0 {
            return Some(first);
        }
        let places = first.places();
        let same = (1..self.shape[axis]).all(|index| {
            let mut other = first.clone();
            other.offset += index * self.strides[axis];
            other.places() == places
        });
        same.then_some(first)
    }
}

/// The elements of a tensor of shape `from` that a gather along `dim` with indices of zero picks, for a result
/// of shape `to` reduced to one entry along `dim`.
pub(crate) fn gather_starts(from: &[usize], dim: usize, to: &[usize]) -> Vec<usize> {
    let strides = row_major(from);
    let others = (0..to.len()).filter(|&axis| axis != dim);
    others.fold(vec![0], |starts, axis| {
        let steps = |start| (0..to[axis]).map(move |index| (start, index));
        let all = starts.into_iter().flat_map(steps);
        all.map(|(start, index)| start + index * strides[axis])
            .collect()
    })
}

/// The strides of a contiguous tensor.
pub(crate) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(view: &View) -> Vec<Option<usize>> {
        let places = view.places().into_iter();
        places
            .map(|place| place.map(|place| place.element))
            .collect()
    }

    #[test]
    fn views_of_views_find_their_elements() {
        let view = View::of(0, &[2, 3]);
        let transposed = view.permute(&[1, 0]);
        assert_eq!(elements(&transposed), [0, 3, 1, 4, 2, 5].map(Some));
        assert_eq!(transposed.parameter(|_| 6), None);
        let flat = transposed.reshape(&[6]);
        assert_eq!(elements(&flat), [0, 3, 1, 4, 2, 5].map(Some));
        let column = view.slice(&[Slice::from(0..2), Slice::from(1..2)], &[2, 1]);
        let column = column.expect("the slice is inside");
        assert_eq!(elements(&column.expand(&[2, 2])), [1, 1, 4, 4].map(Some));
        assert_eq!(elements(&view.flip(&[1])), [2, 1, 0, 5, 4, 3].map(Some));
        assert_eq!(elements(&view.repeat(0, 2)).len(), 12);
        let joined = View::join(vec![Ok(column), Err(vec![2, 1])], 1);
        assert_eq!(elements(&joined), [Some(1), None, Some(4), None]);
    }

    #[test]
    fn a_repeated_axis_is_recognised_however_it_was_made() {
        let view = View::of(0, &[1, 3]);
        for repeated in [view.expand(&[4, 3]), view.repeat(0, 4)] {
            let first = repeated.unrepeated(0).expect("all entries are alike");
            assert_eq!(elements(&first), [0, 1, 2].map(Some));
        }
        assert!(View::of(0, &[2, 3]).unrepeated(0).is_none());
    }
}
