//! The computation as a graph of few kinds of nodes.
//!
//! Views cost nothing: a [`Value`] is a node seen through strides. Everything that writes through strides is a
//! [`Kind::Total`]: sums, concatenations, padding, matrix products and all gradients of views are parts that are added
//! into one memory.

use std::sync::Arc;

use burn_bayes_kernels::Unary;

use crate::expr::Expr;
use crate::shape::{Axis, View, elements, row_axis};

/// A value: a node, and how the value lies in its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub(crate) node: usize,
    pub(crate) view: View,
}

impl Value {
    /// The axes.
    pub fn axes(&self) -> &[Axis] {
        &self.view.axes
    }

    /// Whether there is an entry for every row.
    pub fn is_per_row(&self) -> bool {
        row_axis(&self.view.axes).is_some()
    }

    /// The value with axis `i` being axis `axes[i]` of this one.
    #[must_use]
    pub fn permuted(&self, axes: &[usize]) -> Self {
        self.viewed(self.view.permuted(axes))
    }

    /// Entries `start`, `start + step`, … of an axis, `len` of them.
    #[must_use]
    pub fn sliced(&self, axis: usize, start: usize, step: isize, len: usize) -> Self {
        self.viewed(self.view.sliced(axis, start, step, len))
    }

    /// The axis as two: `count` windows, `step` entries apart, of `size` entries, `dilation` apart.
    #[must_use]
    pub fn windowed(
        &self,
        axis: usize,
        [count, step]: [usize; 2],
        [size, dilation]: [usize; 2],
    ) -> Self {
        let mut view = self.view.clone();
        let stride = view.strides[axis];
        view.axes
            .splice(axis..=axis, [Axis::fixed(count), Axis::fixed(size)]);
        let strides = [stride * step as isize, stride * dilation as isize];
        view.strides.splice(axis..=axis, strides);
        self.viewed(view)
    }

    /// Whether all entries of an axis are one and the same.
    pub fn is_repeated(&self, axis: usize) -> bool {
        self.view.strides[axis] == 0
    }

    /// The value broadcast to `axes`. `None` if an axis is longer than one and differs.
    pub fn expanded(&self, axes: &[Axis]) -> Option<Self> {
        Some(self.viewed(self.view.expanded(axes)?))
    }

    /// The value with an axis of length one before axis `axis`.
    #[must_use]
    pub fn inserted(&self, axis: usize) -> Self {
        let mut view = self.view.clone();
        view.axes.insert(axis, Axis::fixed(1));
        view.strides.insert(axis, 0);
        self.viewed(view)
    }

    /// The value without axis `axis`, whose first entry remains.
    #[must_use]
    pub fn removed(&self, axis: usize) -> Self {
        let mut view = self.view.clone();
        view.axes.remove(axis);
        view.strides.remove(axis);
        self.viewed(view)
    }

    fn viewed(&self, view: View) -> Self {
        Self {
            node: self.node,
            view,
        }
    }
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its memory: the whole view of these axes.
    pub(crate) axes: Vec<Axis>,
    pub(crate) kind: Kind,
}

impl Node {
    pub(crate) fn is_per_row(&self) -> bool {
        row_axis(&self.axes).is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A value that the caller gives, by its number among those of its kind.
    Leaf(Leaf),
    /// A formula of operands that have the node's axes.
    Map(Expr, Vec<Value>),
    /// A copy of `value` with a backward rule of its own, instead of those of the steps that lead to it.
    Ruled { value: Value, rule: Rule },
    /// The sum of parts.
    Total(Vec<Part>),
    /// The number of the window entry with the largest or smallest value.
    Arg {
        of: Value,
        window: Arc<[usize]>,
        is_largest: bool,
    },
    /// The elements of a table that indices select. The table's view leads to entry 0.
    Pick {
        table: Value,
        index: Value,
        route: Route,
    },
}

/// A backward rule for several steps.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Of a softmax along an axis, or of its logarithm.
    Softmax {
        of: Value,
        axis: usize,
        is_log: bool,
    },
    Normalised(Box<Normalised>),
}

/// y = a x̂ + b with x̂ = (x − μ)/σ.
#[derive(Clone, Debug)]
pub(crate) struct Normalised {
    /// x.
    pub(crate) of: Value,
    /// a, of length one along `over`.
    pub(crate) scale: Value,
    /// b, of length one along `over`.
    pub(crate) shift: Value,
    /// μ.
    pub(crate) mean: Value,
    /// 1/σ.
    pub(crate) inverse: Value,
    /// The number of entries that each μ is the mean of.
    pub(crate) count: Value,
    pub(crate) over: Vec<usize>,
}

/// A value from outside.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    /// The same for all rows.
    Shared(usize),
    /// One entry per row.
    Rows(usize),
    /// Numbers that never change.
    Constant(Arc<[f32]>),
}

/// Where an index leads.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To an entry of a list of distances.
    Listed(Arc<[usize]>),
    /// To one of `count` entries, `stride` apart.
    Even { stride: usize, count: usize },
}

/// Something that is added into a node's memory.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) source: Source,
    /// The axes of the loop, and where in the node's memory an index leads: zero strides sum.
    pub(crate) target: View,
}

/// What a part adds. All operands have the axes of the part.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Copy(Value),
    Product(Value, Value),
    /// Values that go to where the indices lead.
    Routed {
        values: Value,
        index: Value,
        route: Route,
    },
}

impl Part {
    /// The multiplications of a product, for one row if it has an axis of rows.
    fn multiplications(&self) -> u64 {
        match self.source {
            Source::Product(..) => elements(&self.target.axes) as u64,
            Source::Copy(_) | Source::Routed { .. } => 0,
        }
    }
}

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    shared: usize,
    rows: usize,
}

impl Graph {
    /// The multiplications of all products: those of every row, and those that are the same for all rows.
    pub(crate) fn multiplications(&self) -> [u64; 2] {
        let totals = self.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Total(parts) => Some(parts),
            _ => None,
        });
        let mut sums = [0; 2];
        for part in totals.flatten() {
            let is_shared = row_axis(&part.target.axes).is_none();
            sums[usize::from(is_shared)] += part.multiplications();
        }
        sums
    }

    /// A value that is the same for all rows, the next of its kind.
    pub fn shared(&mut self, lens: &[usize]) -> Value {
        let axes: Vec<_> = lens.iter().map(|&len| Axis::fixed(len)).collect();
        self.shared += 1;
        let leaf = Leaf::Shared(self.shared - 1);
        self.push(axes, Kind::Leaf(leaf))
    }

    /// A value with an entry for each row, the next of its kind. The axis of rows is the outermost in memory.
    pub fn rows(&mut self, axes: &[Axis]) -> Value {
        self.rows += 1;
        let leaf = Leaf::Rows(self.rows - 1);
        self.push(axes.to_vec(), Kind::Leaf(leaf))
    }

    /// Numbers that never change, in row-major order.
    pub fn constant(&mut self, lens: &[usize], values: Vec<f32>) -> Value {
        let axes: Vec<_> = lens.iter().map(|&len| Axis::fixed(len)).collect();
        self.push(axes, Kind::Leaf(Leaf::Constant(values.into())))
    }

    /// The same number everywhere.
    pub fn filled(&mut self, axes: &[Axis], value: f32) -> Value {
        let one = self.constant(&vec![1; axes.len()], vec![value]);
        one.expanded(axes).expect("a single element is broadcast")
    }

    /// A formula of operands, which are broadcast to common axes. `None` if they cannot be.
    pub fn map(&mut self, expr: Expr, operands: &[Value]) -> Option<Value> {
        let axes = common_axes(operands.iter().map(Value::axes))?;
        let operands = operands.iter().map(|operand| operand.expanded(&axes));
        Some(self.map_over(&axes, expr, operands.collect::<Option<_>>()?))
    }

    /// A formula of operands that have these axes.
    pub(crate) fn map_over(&mut self, axes: &[Axis], expr: Expr, operands: Vec<Value>) -> Value {
        // Numbers become part of the formula, and an operand appears once.
        let mut kept: Vec<Value> = Vec::new();
        let mut places = Vec::with_capacity(operands.len());
        for operand in operands {
            let is_even = operand.view.strides.iter().all(|&stride| stride == 0)
                || operand.view.axes.iter().all(|axis| *axis == Axis::fixed(1));
            places.push(match &self.nodes[operand.node].kind {
                Kind::Leaf(Leaf::Constant(values)) if is_even => {
                    Expr::Constant(values[operand.view.offset])
                }
                _ => {
                    let known = kept.iter().position(|known| *known == operand);
                    Expr::Operand(known.unwrap_or_else(|| {
                        kept.push(operand);
                        kept.len() - 1
                    }))
                }
            });
        }
        let expr = expr.with_operands(&|index| places[index].clone());
        if let Some(index) = expr.operand() {
            return kept.swap_remove(index);
        }
        if let Expr::Constant(value) = expr {
            return self.filled(axes, value);
        }
        self.push(axes.to_vec(), Kind::Map(expr, kept))
    }

    /// The value in memory of its own.
    pub fn copied(&mut self, value: Value) -> Value {
        let axes = value.view.axes.clone();
        self.push(axes, Kind::Map(Expr::Operand(0), vec![value]))
    }

    /// The value with other axes over the same elements in row-major order. `None` if rows would not stay apart.
    pub fn reshaped(&mut self, value: &Value, axes: &[Axis]) -> Option<Value> {
        if let Some(view) = value.view.reshaped(axes) {
            return Some(value.viewed(view));
        }
        let copied = self.copied(value.clone());
        let view = copied.view.reshaped(axes)?;
        Some(copied.viewed(view))
    }

    /// The sum over axes, which are kept with length one.
    pub fn sum(&mut self, value: &Value, over: &[usize]) -> Value {
        let mut axes = value.view.axes.clone();
        for &axis in over {
            axes[axis] = Axis::fixed(1);
        }
        let mut target = View::whole(&axes);
        for &axis in over {
            target.strides[axis] = 0;
        }
        target.axes.clone_from(&value.view.axes);
        let source = Source::Copy(value.clone());
        self.total(axes, vec![Part { source, target }])
    }

    /// The values one after the other along an axis.
    pub fn concatenated(&mut self, values: &[Value], axis: usize) -> Value {
        let mut axes = values[0].view.axes.clone();
        axes[axis].len = values.iter().map(|value| value.view.axes[axis].len).sum();
        let whole = View::whole(&axes);
        let mut start = 0;
        let parts = values.iter().map(|value| {
            let len = value.view.axes[axis].len;
            let target = whole.sliced(axis, start, 1, len);
            start += len;
            let source = Source::Copy(value.clone());
            Part { source, target }
        });
        let parts = parts.collect();
        self.total(axes, parts)
    }

    /// The value with zeros before and after it along each axis.
    pub fn padded(&mut self, value: &Value, padding: &[(usize, usize)]) -> Value {
        let mut axes = value.view.axes.clone();
        for (axis, (before, after)) in axes.iter_mut().zip(padding) {
            axis.len += before + after;
        }
        let mut target = View::whole(&axes);
        for (axis, (before, _)) in padding.iter().enumerate() {
            target = target.sliced(axis, *before, 1, value.view.axes[axis].len);
        }
        let source = Source::Copy(value.clone());
        self.total(axes, vec![Part { source, target }])
    }

    /// The sum over `over` of products of two values, which are broadcast to common axes. The axes in `over` are kept
    /// with length one. `None` if the values cannot be broadcast.
    pub fn product(&mut self, left: &Value, right: &Value, over: &[usize]) -> Option<Value> {
        self.unwindowed_product(left, right, over, &[], &[])
    }

    /// The largest or smallest entry over `over`, axes that are kept with length one, and its number among these entries
    /// in row-major order. Of equal entries the first one counts.
    pub fn extreme(&mut self, value: &Value, over: &[usize], is_largest: bool) -> [Value; 2] {
        let value = match over.iter().any(|&axis| value.view.strides[axis] < 0) {
            true => self.copied(value.clone()),
            false => value.clone(),
        };
        let mut first = value.clone();
        let mut window = vec![0];
        for &axis in over {
            let stride = value.view.strides[axis] as usize;
            let len = value.view.axes[axis].len;
            let step = |&distance: &usize| (0..len).map(move |entry| distance + entry * stride);
            window = window.iter().flat_map(step).collect();
            first = first.sliced(axis, 0, 1, 1);
        }
        let window: Arc<[usize]> = window.into();
        let axes = first.view.axes.clone();
        let kind = Kind::Arg {
            of: first.clone(),
            window: window.clone(),
            is_largest,
        };
        let index = self.push(axes.clone(), kind);
        let kind = Kind::Pick {
            table: first,
            index: index.clone(),
            route: Route::Listed(window),
        };
        [self.push(axes, kind), index]
    }

    /// The elements of `table` along `axis` that `index` selects; both are broadcast to common axes otherwise.
    /// `None` if they cannot be.
    pub fn picked(&mut self, table: &Value, index: &Value, axis: usize) -> Option<Value> {
        let table = if table.view.strides[axis] < 0 {
            self.copied(table.clone())
        } else {
            table.clone()
        };
        let route = Route::Even {
            stride: table.view.strides[axis] as usize,
            count: table.view.axes[axis].len,
        };
        let first = table.sliced(axis, 0, 1, 1);
        let axes = common_axes([first.axes(), index.axes()].into_iter())?;
        let kind = Kind::Pick {
            table: first.expanded(&axes)?,
            index: index.expanded(&axes)?,
            route,
        };
        Some(self.push(axes, kind))
    }

    /// The softmax along an axis, or its logarithm.
    pub fn softmax(&mut self, x: &Value, axis: usize, is_log: bool) -> Value {
        let [largest, _] = self.extreme(x, &[axis], true);
        let axes = x.view.axes.clone();
        let largest = largest.expanded(&axes).expect("a kept axis is broadcast");
        let operands = vec![x.clone(), largest];
        let shifted = Expr::Operand(0) - Expr::Operand(1);
        let power = shifted.clone().apply(Unary::Exp);
        let powers = self.map_over(&axes, power, operands.clone());
        let sum = self.sum(&powers, &[axis]);
        let sum = sum.expanded(&axes).expect("a kept axis is broadcast");
        let value = if is_log {
            let logarithm = Expr::Operand(2).apply(Unary::Log);
            let operands = operands.into_iter().chain([sum]).collect();
            self.map_over(&axes, shifted - logarithm, operands)
        } else {
            let quotient = Expr::Operand(0) / Expr::Operand(1);
            self.map_over(&axes, quotient, vec![powers, sum])
        };
        let rule = Rule::Softmax {
            of: x.clone(),
            axis,
            is_log,
        };
        self.push(axes, Kind::Ruled { value, rule })
    }

    /// Products of two values, which are broadcast to common axes, added up where windows of `lens` overlap: the reverse of
    /// [`windowed`](Value::windowed) for every `(axis, step, dilation)`, with the windows' entries in the axis after it.
    /// The axes in `over` are summed and kept with length one. `None` if the values cannot be broadcast.
    pub fn unwindowed_product(
        &mut self,
        left: &Value,
        right: &Value,
        over: &[usize],
        windows: &[(usize, usize, usize)],
        lens: &[usize],
    ) -> Option<Value> {
        let loops = common_axes([left.axes(), right.axes()].into_iter())?;
        let mut axes = loops.clone();
        for &axis in over {
            axes[axis] = Axis::fixed(1);
        }
        for (&(axis, ..), &len) in windows.iter().zip(lens).rev() {
            axes.splice(axis..=axis + 1, [Axis::fixed(len)]);
        }
        let mut target = Value {
            node: 0,
            view: View::whole(&axes),
        };
        for &(axis, step, dilation) in windows {
            let [count, size] = [loops[axis].len, loops[axis + 1].len];
            target = target.windowed(axis, [count, step], [size, dilation]);
        }
        let mut target = target.view;
        for &axis in over {
            target.strides[axis] = 0;
        }
        target.axes.clone_from(&loops);
        let source = Source::Product(left.expanded(&loops)?, right.expanded(&loops)?);
        Some(self.total(axes, vec![Part { source, target }]))
    }

    /// Whether a node is given from outside.
    pub(crate) fn is_leaf(&self, node: usize) -> bool {
        matches!(self.nodes[node].kind, Kind::Leaf(_))
    }

    pub(crate) fn total(&mut self, axes: Vec<Axis>, parts: Vec<Part>) -> Value {
        self.push(axes, Kind::Total(parts))
    }

    pub(crate) fn push(&mut self, axes: Vec<Axis>, kind: Kind) -> Value {
        let view = View::whole(&axes);
        self.nodes.push(Node { axes, kind });
        Value {
            node: self.nodes.len() - 1,
            view,
        }
    }
}

/// The axes to which all can be broadcast; shorter ones get leading axes.
fn common_axes<'a>(all: impl Iterator<Item = &'a [Axis]>) -> Option<Vec<Axis>> {
    let mut common: Vec<Axis> = Vec::new();
    for axes in all {
        if axes.len() > common.len() {
            let added = axes.len() - common.len();
            common.splice(0..0, vec![Axis::fixed(1); added]);
        }
        let skipped = common.len() - axes.len();
        for (known, axis) in common[skipped..].iter_mut().zip(axes) {
            if *known == Axis::fixed(1) {
                *known = *axis;
            } else if known != axis && *axis != Axis::fixed(1) {
                return None;
            }
        }
    }
    Some(common)
}
