//! Axes and views: how values lie in memory.

/// The length of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The length, or the length for every row of a block.
    pub len: usize,
    /// Whether the axis grows with the rows.
    pub per_row: bool,
}

impl Axis {
    /// An axis of fixed length.
    pub fn fixed(len: usize) -> Self {
        Self {
            len,
            per_row: false,
        }
    }

    /// An axis with `len` entries for each row.
    pub fn rows(len: usize) -> Self {
        Self { len, per_row: true }
    }
}

/// How a value lies in a node's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) axes: Vec<Axis>,
    /// The distance of elements along each axis.
    pub(crate) strides: Vec<isize>,
    pub(crate) offset: usize,
}

/// The axis of rows, if there is one.
pub(crate) fn row_axis(axes: &[Axis]) -> Option<usize> {
    axes.iter().position(|axis| axis.per_row)
}

/// The number of elements, for one row.
pub(crate) fn elements(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.len).product()
}

impl View {
    /// A whole node: the axis of rows is the outermost in memory, the others are in order.
    pub(crate) fn whole(axes: &[Axis]) -> Self {
        let mut strides = vec![0; axes.len()];
        let mut stride = 1;
        let outermost = row_axis(axes);
        let inner = (0..axes.len())
            .rev()
            .filter(|&axis| Some(axis) != outermost);
        for axis in inner.chain(outermost) {
            strides[axis] = stride as isize;
            stride *= axes[axis].len;
        }
        Self {
            axes: axes.to_vec(),
            strides,
            offset: 0,
        }
    }

    /// Whether the two views show the same elements in the same order. The strides of axes with one element do not
    /// matter.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let alike = |axis: usize| {
            let Axis { len, per_row } = self.axes[axis];
            (len == 1 && !per_row) || self.strides[axis] == other.strides[axis]
        };
        self.offset == other.offset && self.axes == other.axes && (0..self.axes.len()).all(alike)
    }

    /// The view with axis `i` being axis `axes[i]` of this one.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        Self {
            axes: axes.iter().map(|&axis| self.axes[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// The view broadcast to `axes`: axes of length one are repeated, and leading axes are added. `None` if it cannot
    /// be.
    pub(crate) fn expanded(&self, axes: &[Axis]) -> Option<Self> {
        let added = axes.len().checked_sub(self.axes.len())?;
        let mut strides = vec![0; axes.len()];
        for (axis, &to) in axes.iter().enumerate().skip(added) {
            let from = self.axes[axis - added];
            if from == to {
                strides[axis] = self.strides[axis - added];
            } else if from != Axis::fixed(1) {
                return None;
            }
        }
        Some(Self {
            axes: axes.to_vec(),
            strides,
            offset: self.offset,
        })
    }

    /// Entries `start`, `start + step`, … of an axis, `len` of them.
    pub(crate) fn sliced(&self, axis: usize, start: usize, step: isize, len: usize) -> Self {
        let mut view = self.clone();
        view.offset = (self.offset as isize + start as isize * self.strides[axis]) as usize;
        view.axes[axis].len = len;
        view.strides[axis] = self.strides[axis] * step;
        view
    }

    /// The view with other axes over the same elements in the same order. `None` if its memory does not allow it.
    pub(crate) fn reshaped(&self, axes: &[Axis]) -> Option<Self> {
        let (from, to) = (row_axis(&self.axes), row_axis(axes));
        let strides = match (from, to) {
            (None, None) => split(&self.axes, &self.strides, axes)?,
            (Some(from), Some(to)) => {
                let mut strides = split(&self.axes[..from], &self.strides[..from], &axes[..to])?;
                strides.extend(split(
                    &self.axes[from..],
                    &self.strides[from..],
                    &axes[to..],
                )?);
                // Rows must follow each other at the distance that the new axis says.
                let row = self.strides[from] * self.axes[from].len as isize;
                if strides[to] * axes[to].len as isize != row && axes[to].len > 1 {
                    return None;
                }
                if axes[to].len == 1 {
                    strides[to] = row;
                }
                strides
            }
            _ => return None,
        };
        Some(Self {
            axes: axes.to_vec(),
            strides,
            offset: self.offset,
        })
    }
}

/// Strides of the axes `to` over the elements of `from`, in their order. `None` if a new axis combines elements that do
/// not follow each other, or if the numbers of elements differ.
fn split(from: &[Axis], strides: &[isize], to: &[Axis]) -> Option<Vec<isize>> {
    if elements(from) != elements(to) {
        return None;
    }
    let mut result = vec![0isize; to.len()];
    let old: Vec<(usize, isize)> = from
        .iter()
        .zip(strides)
        .filter(|(axis, _)| axis.len != 1)
        .map(|(axis, &stride)| (axis.len, stride))
        .collect();
    let (mut i, mut j) = (0, 0);
    while i < old.len() {
        // The smallest groups of old and new axes with the same number of elements.
        let (first_old, first_new) = (i, j);
        let (mut left, mut right) = (old[i].0, 1);
        i += 1;
        while left != right {
            if left > right {
                right *= to.get(j)?.len;
                j += 1;
            } else {
                left *= old.get(i)?.0;
                i += 1;
            }
        }
        let group = &old[first_old..i];
        let follow = group
            .windows(2)
            .all(|pair| pair[0].1 == pair[1].1 * pair[1].0 as isize);
        if !follow {
            return None;
        }
        let mut stride = group[group.len() - 1].1;
        for axis in (first_new..j).rev() {
            result[axis] = stride;
            stride *= to[axis].len as isize;
        }
    }
    Some(result)
}
