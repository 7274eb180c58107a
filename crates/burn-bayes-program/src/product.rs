//! How a sum of products becomes matrix products.

use crate::shape::{Axis, View};

/// An axis of a product with the distances of elements in the left operand, the right one and the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) axis: Axis,
    pub(crate) strides: [isize; 3],
}

impl Loop {
    const ONE: Self = Self {
        axis: Axis {
            len: 1,
            per_row: false,
        },
        strides: [0; 3],
    };
}

/// A matrix product `[m, k] × [k, n]` within loops over further axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProductLoops {
    pub(crate) m: Loop,
    pub(crate) n: Loop,
    pub(crate) k: Loop,
    pub(crate) others: Vec<Loop>,
    /// The first elements.
    pub(crate) offsets: [usize; 3],
}

impl ProductLoops {
    /// Whether every element of the target is written by one matrix product.
    pub(crate) fn is_written_at_once(&self) -> bool {
        self.others.iter().all(|other| other.strides[2] != 0) && self.is_apart()
    }

    /// Whether the target's elements differ for different indices.
    fn is_apart(&self) -> bool {
        let mut all: Vec<Loop> = [self.m, self.n]
            .into_iter()
            .chain(self.others.iter().copied())
            .collect();
        all.retain(|one| one.axis != Axis::fixed(1) && one.strides[2] != 0);
        all.sort_by_key(|one| one.strides[2].abs());
        all.windows(2).all(|pair| {
            let [inner, outer] = [pair[0], pair[1]];
            !inner.axis.per_row
                && outer.strides[2].abs() >= inner.strides[2].abs() * inner.axis.len as isize
        })
    }
}

/// Loops for the sum over `axes` of left times right.
pub(crate) fn product_loops(axes: &[Axis], views: [&View; 3]) -> ProductLoops {
    let loops = axes.iter().enumerate().map(|(number, &axis)| Loop {
        axis,
        strides: views.map(|view| view.strides[number]),
    });
    let loops: Vec<_> = loops.filter(|one| one.axis != Axis::fixed(1)).collect();
    let class = |left: bool, right: bool, target: bool| {
        let is_such = |one: &&Loop| one.strides.map(|stride| stride != 0) == [left, right, target];
        merged(loops.iter().filter(is_such).copied().collect())
    };
    let (mut m, mut n, mut k) = (
        class(true, false, true),
        class(false, true, true),
        class(true, true, false),
    );
    let mut others = class(true, true, true);
    let is_rest = |one: &&Loop| {
        let uses = one.strides.iter().filter(|&&stride| stride != 0).count();
        uses < 2
    };
    others.extend(loops.iter().filter(is_rest).copied());
    let chosen = [
        take_longest(&mut m),
        take_longest(&mut n),
        take_longest(&mut k),
    ];
    let [m_axis, mut n_axis, k_axis] = chosen;
    if !are_apart(m_axis, n_axis) {
        n.push(n_axis);
        n_axis = Loop::ONE;
    }
    others.extend(m.into_iter().chain(n).chain(k));
    ProductLoops {
        m: m_axis,
        n: n_axis,
        k: k_axis,
        others,
        offsets: views.map(|view| view.offset),
    }
}

/// Whether the elements of a matrix in the target differ.
fn are_apart(rows: Loop, columns: Loop) -> bool {
    let is_inside = |inner: Loop, outer: Loop| {
        !inner.axis.per_row
            && outer.strides[2].abs() >= inner.strides[2].abs() * inner.axis.len as isize
    };
    rows.axis == Axis::fixed(1)
        || columns.axis == Axis::fixed(1)
        || is_inside(rows, columns)
        || is_inside(columns, rows)
}

/// Joins axes that follow each other in all three.
fn merged(mut loops: Vec<Loop>) -> Vec<Loop> {
    // Rows are the outermost.
    loops.sort_by_key(|one| !one.axis.per_row);
    let mut merged: Vec<Loop> = Vec::new();
    for one in loops {
        if let Some(last) = merged.last_mut() {
            let len = one.axis.len as isize;
            let follows = (0..3).all(|side| last.strides[side] == one.strides[side] * len);
            if follows {
                last.axis.len *= one.axis.len;
                last.strides = one.strides;
                continue;
            }
        }
        merged.push(one);
    }
    merged
}

/// Takes the longest loop. One over rows counts as long, but a block of long rows has few of them.
fn take_longest(loops: &mut Vec<Loop>) -> Loop {
    let rows = 16;
    let len = |one: &Loop| one.axis.len * if one.axis.per_row { rows } else { 1 };
    let longest = (0..loops.len()).max_by_key(|&index| (len(&loops[index]), index));
    longest.map_or(Loop::ONE, |index| loops.remove(index))
}
