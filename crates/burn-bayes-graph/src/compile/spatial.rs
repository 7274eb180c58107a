//! Convolutions and pooling as products and reductions of windows.

use burn_bayes_program::{Axis, Expr, Value};

use super::operations::Values;
use crate::operation::{Convolution, Operation, Pool};

/// The most numbers in the windows of an example that are copied. Where there are more, a sum over the entries of the
/// kernel, which reads the windows where they are, is faster: for at least so many channels in a group, and so many windows.
/// With fewer, its products are too small.
const WINDOWS: usize = 1 << 16;
const CHANNELS: usize = 4;
const PLACES: usize = 512;

impl Values {
    /// A convolution: every window is a row of a matrix product, or every entry of the kernel gives one.
    pub(super) fn convolution(
        &mut self,
        operation: &Operation,
        x: &Value,
        options: &Convolution,
        axes: &[Axis],
    ) -> Option<Value> {
        let kernel = self.value(operation, 1)?;
        let lens = lens_of(&axes[2..]);
        let product = match options.is_transposed {
            false => self.windows_product(x, &kernel, options, &lens)?,
            true => self.transposed(x, &kernel, options, &lens)?,
        };
        let product = self.graph.reshaped(&product, axes)?;
        let Some(bias) = self.value(operation, 2) else {
            return Some(product);
        };
        let bias = (0..lens.len()).fold(bias, |bias, _| bias.inserted(bias.axes().len()));
        self.plus(product, bias)
    }

    /// `[M, G, O / G, 1, …]`.
    fn windows_product(
        &mut self,
        x: &Value,
        kernel: &Value,
        options: &Convolution,
        lens: &[usize],
    ) -> Option<Value> {
        let (rank, groups) = (lens.len(), options.groups);
        let sizes = lens_of(&kernel.axes()[2..]);
        let x = self.surrounded(x, &options.padding, 0.0)?;
        let channels = x.axes()[1].len;
        let has_steps = options.stride.iter().any(|&step| step != 1);
        let is_plain = sizes.iter().all(|&size| size == 1) && !has_steps;
        let places: usize = lens.iter().product();
        let numbers = channels * sizes.iter().product::<usize>() * places;
        let is_large = numbers > WINDOWS && channels / groups >= CHANNELS && places >= PLACES;
        if is_large && !has_steps && !is_plain {
            return self.shifted_products(&x, kernel, options, lens);
        }
        // [M, C, len…] → [M, C, size…, len…]
        let windows = windowed(x, lens, [&options.stride, &sizes, &options.dilation]);
        let order = [0, 1].into_iter().chain((0..rank).map(|axis| 2 * axis + 3));
        let order: Vec<_> = order.chain((0..rank).map(|axis| 2 * axis + 2)).collect();
        let mut patches = windows.permuted(&order);
        if !is_plain {
            patches = self.graph.copied(patches);
        }
        // [M, G, 1, C / G, size…, len…] and [1, G, O / G, C / G, size…, 1…]
        let split = grouped(patches.axes(), 1, groups);
        let patches = self.graph.reshaped(&patches, &split)?.inserted(2);
        let split = grouped(kernel.axes(), 0, groups);
        let mut kernel = self.graph.reshaped(kernel, &split)?.inserted(0);
        for _ in 0..rank {
            kernel = kernel.inserted(kernel.axes().len());
        }
        let over: Vec<_> = (3..4 + rank).collect();
        self.graph.product(&patches, &kernel, &over)
    }

    /// The same without copies, for steps of one: `[M, O, …]`.
    ///
    /// With the spatial axes of `x` as one, an entry of the kernel reads `x` from some element on, one element after the
    /// other: over the end of a row, so that some of the sums belong to no window, and are not read.
    fn shifted_products(
        &mut self,
        x: &Value,
        kernel: &Value,
        options: &Convolution,
        lens: &[usize],
    ) -> Option<Value> {
        let (rank, groups) = (lens.len(), options.groups);
        let [rows, channels] = [x.axes()[0], x.axes()[1]];
        let spatial = x.axes()[2..].iter().map(|axis| axis.len);
        let spatial: Vec<_> = spatial.collect();
        let strides: Vec<usize> = (0..rank)
            .map(|axis| spatial[axis + 1..].iter().product())
            .collect();
        // From the first sum that is read to the last one along the axes from some axis on.
        let span = |from: usize| {
            let last = (from..rank).map(|axis| (lens[axis] - 1) * strides[axis]);
            last.sum::<usize>() + 1
        };
        let whole = Axis::fixed(spatial.iter().product());
        let flat = grouped(&[rows, channels, whole], 1, groups);
        let mut shifted = self.graph.reshaped(x, &flat)?;
        let mut count = whole.len;
        for axis in (0..rank).rev() {
            let (size, distance) = (
                kernel.axes()[axis + 2].len,
                options.dilation[axis] * strides[axis],
            );
            count -= (size - 1) * distance;
            shifted = shifted.windowed(3, [count, 1], [size, distance]);
        }
        // [M, G, 1, C / G, count, size…] and [1, G, O / G, C / G, 1, size…]
        let shifted = shifted.inserted(2);
        let outputs = kernel.axes()[0].len;
        let split = grouped(kernel.axes(), 0, groups);
        let kernel = self.graph.reshaped(kernel, &split)?;
        let kernel = kernel.inserted(0).inserted(4);
        let over: Vec<_> = [3].into_iter().chain(5..5 + rank).collect();
        let sums = self.graph.product(&shifted, &kernel, &over)?;
        let flat = [rows, Axis::fixed(outputs), Axis::fixed(count)];
        let mut sums = self.graph.reshaped(&sums, &flat)?;
        for axis in 0..rank {
            let windows = [lens[axis], strides[axis]];
            sums = sums.windowed(axis + 2, windows, [span(axis + 1), 1]);
        }
        Some(sums.removed(rank + 2))
    }

    /// `[M, G, 1, O / G, …]` for a kernel `[C, O / G, …]`.
    fn transposed(
        &mut self,
        x: &Value,
        kernel: &Value,
        options: &Convolution,
        lens: &[usize],
    ) -> Option<Value> {
        let groups = options.groups;
        let inputs: usize = x.axes().iter().map(|axis| axis.len).product();
        let sizes: usize = kernel.axes()[2..].iter().map(|axis| axis.len).product();
        if inputs * sizes > WINDOWS {
            return None;
        }
        // [M, G, C / G, 1, len, 1, …] and [1, G, C / G, O / G, 1, size, …]
        let split = grouped(x.axes(), 1, groups);
        let mut left = self.graph.reshaped(x, &split)?.inserted(3);
        let split = grouped(kernel.axes(), 0, groups);
        let mut right = self.graph.reshaped(kernel, &split)?.inserted(0);
        let mut windows = Vec::with_capacity(lens.len());
        let mut full = Vec::with_capacity(lens.len());
        for (axis, &len) in lens.iter().enumerate() {
            left = left.inserted(5 + 2 * axis);
            right = right.inserted(4 + 2 * axis);
            let (step, dilation) = (options.stride[axis], options.dilation[axis]);
            windows.push((4 + 2 * axis, step, dilation));
            let (count, size) = (x.axes()[2 + axis].len, kernel.axes()[2 + axis].len);
            let reached = (count - 1) * step + dilation * (size - 1) + 1;
            full.push(reached.max(options.padding[axis].0 + len));
        }
        let sum = self
            .graph
            .unwindowed_product(&left, &right, &[2], &windows, &full)?;
        let cropped = lens.iter().enumerate().fold(sum, |sum, (axis, &len)| {
            sum.sliced(axis + 4, options.padding[axis].0, 1, len)
        });
        Some(cropped)
    }

    /// The largest entry or the mean of every window.
    pub(super) fn pooled(&mut self, x: &Value, pool: &Pool, axes: &[Axis]) -> Option<Value> {
        let (inner, lens) = (lens_of(&x.axes()[2..]), lens_of(&axes[2..]));
        let Some(pool) = pool.sized(&inner, &lens) else {
            return self.means(x, &inner, &lens);
        };
        let around = if pool.is_largest {
            f32::NEG_INFINITY
        } else {
            0.0
        };
        let x = self.surrounded(x, &pool.padding, around)?;
        let windows = windowed(x, &lens, [&pool.stride, &pool.kernel, &pool.dilation]);
        let over: Vec<_> = (0..lens.len()).map(|axis| 2 * axis + 3).collect();
        if pool.is_largest {
            let [largest, _] = self.graph.extreme(&windows, &over, true);
            return self.graph.reshaped(&largest, axes);
        }
        let sum = self.graph.sum(&windows, &over);
        let sum = self.graph.reshaped(&sum, axes)?;
        let shares = pool.shares(&inner, &lens);
        let shares = self.graph.constant(&lens, shares).inserted(0).inserted(0);
        let mean = Expr::Operand(0) * Expr::Operand(1);
        self.graph.map(mean, &[sum, shares])
    }

    /// The means of windows of different lengths: a product with their shares along every spatial axis.
    fn means(&mut self, x: &Value, inner: &[usize], lens: &[usize]) -> Option<Value> {
        let mut means = x.clone();
        for (axis, (&inner, &len)) in inner.iter().zip(lens).enumerate() {
            let share = |number: usize| {
                let (window, place) = (number / inner, number % inner);
                let (start, end) = (window * inner / len, ((window + 1) * inner).div_ceil(len));
                match (start..end).contains(&place) {
                    true => 1.0 / (end - start) as f32,
                    false => 0.0,
                }
            };
            let shares = (0..len * inner).map(share).collect();
            let shares = self.graph.constant(&[len, inner], shares);
            let shares = (axis + 1..lens.len()).fold(shares, |shares, _| {
                let last = shares.axes().len();
                shares.inserted(last)
            });
            let product = self
                .graph
                .product(&means.inserted(axis + 2), &shares, &[axis + 3])?;
            means = product.removed(axis + 3);
        }
        Some(means)
    }

    /// The value with a number around its spatial axes; −∞ is no window's largest entry.
    fn surrounded(&mut self, x: &Value, padding: &[(usize, usize)], value: f32) -> Option<Value> {
        if padding.iter().all(|&(before, after)| before + after == 0) {
            return Some(x.clone());
        }
        let padding: Vec<_> = [(0, 0); 2].iter().chain(padding).copied().collect();
        self.padded(x, &padding, &Expr::Constant(value))
    }
}

fn lens_of(axes: &[Axis]) -> Vec<usize> {
    axes.iter().map(|axis| axis.len).collect()
}

/// The axes with one of them divided into groups.
fn grouped(axes: &[Axis], axis: usize, groups: usize) -> Vec<Axis> {
    let mut axes = axes.to_vec();
    let parts = [Axis::fixed(groups), Axis::fixed(axes[axis].len / groups)];
    axes.splice(axis..=axis, parts);
    axes
}

/// Every spatial axis as two: `lens` windows, and their entries; `[M, C, len, size, …]`.
fn windowed(x: Value, lens: &[usize], [steps, sizes, dilations]: [&[usize]; 3]) -> Value {
    (0..lens.len()).rev().fold(x, |windows, axis| {
        let entries = [sizes[axis], dilations[axis]];
        windows.windowed(axis + 2, [lens[axis], steps[axis]], entries)
    })
}

impl Pool {
    /// The options with sizes and padding for these lengths. `None` for windows of different lengths.
    pub(crate) fn sized(&self, inner: &[usize], lens: &[usize]) -> Option<Self> {
        let mut sized = self.clone();
        if self.is_adaptive {
            for (&inner, &len) in inner.iter().zip(lens) {
                if !inner.is_multiple_of(len) {
                    return None;
                }
                sized.kernel.push(inner / len);
                sized.stride.push(inner / len);
                sized.padding.push((0, 0));
                sized.dilation.push(1);
            }
        }
        for axis in 0..lens.len() {
            let reached = (lens[axis] - 1) * sized.stride[axis]
                + sized.dilation[axis] * (sized.kernel[axis] - 1)
                + 1;
            let (before, after) = &mut sized.padding[axis];
            // The last window may end beyond the padding.
            *after = reached.saturating_sub(inner[axis] + *before).max(*after);
        }
        Some(sized)
    }

    /// One over the number of entries that each window counts.
    pub(crate) fn shares(&self, inner: &[usize], lens: &[usize]) -> Vec<f32> {
        let count = |axis: usize, window: usize| {
            let start = window * self.stride[axis];
            // The options have the same padding on both sides.
            let (before, _) = self.padding[axis];
            let counted = match self.counts_padding {
                true => 0..before + inner[axis] + before,
                false => before..before + inner[axis],
            };
            let entries = (0..self.kernel[axis]).map(|entry| start + entry * self.dilation[axis]);
            entries
                .filter(|place| counted.contains(place))
                .count()
                .max(1)
        };
        let mut counts = vec![1];
        for (axis, &len) in lens.iter().enumerate() {
            let times = |known: usize| (0..len).map(move |window| (known, window));
            counts = counts
                .into_iter()
                .flat_map(times)
                .map(|(known, window)| known * count(axis, window))
                .collect();
        }
        counts.into_iter().map(|count| 1.0 / count as f32).collect()
    }
}
