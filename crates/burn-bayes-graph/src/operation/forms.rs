//! Forms of table entries. Operations of the same form differ only in a function of Burn.

use std::sync::Arc;

use burn::backend::ir::{NumericOperationIr, ReduceDimOpIr, ScalarIr};
use burn::backend::ops::{ConvOptions, ConvTransposeOptions};
use burn::backend::{DispatchDevice, DispatchTensor as T};
use burn::tensor::{BoolDType, DType, FloatDType, IntDType, Scalar, Shape};

use super::{AxisRule, Convolution, Kernel, Operation, Slots};

/// The rule for axes of an operation, and its arithmetic if it can be replayed.
pub(super) type Entry = (AxisRule, Option<Kernel>);

/// The element type of an operation, as an index into the functions of an entry.
pub(super) const FLOAT: usize = 0;
pub(super) const INT: usize = 1;
pub(super) const BOOL: usize = 2;

/// An operation with this rule and one result.
pub(super) fn with_rule(
    rule: AxisRule,
    run: impl Fn(&Operation, &mut Slots) -> T + Send + Sync + 'static,
) -> Entry {
    let kernel: Kernel = Arc::new(move |op, slots| {
        let out = run(op, slots);
        slots.write(op.out(), out);
    });
    (rule, Some(kernel))
}

/// Removes the arithmetic unless `is_supported`.
pub(super) fn supported_if(is_supported: bool, (rule, kernel): Entry) -> Entry {
    (rule, kernel.filter(|_| is_supported))
}

/// Reads the first three operands.
pub(super) fn three(op: &Operation, slots: &mut Slots) -> [T; 3] {
    [0, 1, 2].map(|index| slots.input(op, index))
}

pub(super) fn unknown() -> Entry {
    (AxisRule::Unknown, None)
}

pub(super) fn unary(run: fn(T) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0))
    })
}

/// `run` takes the element type of the result.
pub(super) fn unary_to<D: From<DType> + 'static>(run: fn(T, D) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0), op.out().dtype.into())
    })
}

pub(super) fn binary(run: fn(T, T) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0), slots.input(op, 1))
    })
}

pub(super) fn scalar(rhs: ScalarIr, run: fn(T, Scalar) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0), rhs.into())
    })
}

/// `run` takes two scalars.
pub(super) fn scalars(first: ScalarIr, second: ScalarIr, run: fn(T, Scalar, Scalar) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0), first.into(), second.into())
    })
}

pub(super) fn compare(run: fn(T, T, BoolDType) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(
            slots.input(op, 0),
            slots.input(op, 1),
            op.out().dtype.into(),
        )
    })
}

pub(super) fn compare_scalar(rhs: ScalarIr, run: fn(T, Scalar, BoolDType) -> T) -> Entry {
    with_rule(AxisRule::Elementwise, move |op, slots| {
        run(slots.input(op, 0), rhs.into(), op.out().dtype.into())
    })
}

pub(super) fn along(axis: usize, run: impl Fn(T, usize) -> T + Send + Sync + 'static) -> Entry {
    with_rule(AxisRule::Along(vec![axis]), move |op, slots| {
        run(slots.input(op, 0), op.axes.axis())
    })
}

/// `run` takes the element type of the result.
pub(super) fn along_to<D: From<DType>>(
    axis: usize,
    run: impl Fn(T, usize, D) -> T + Send + Sync + 'static,
) -> Entry {
    with_rule(AxisRule::Along(vec![axis]), move |op, slots| {
        run(slots.input(op, 0), op.axes.axis(), op.out().dtype.into())
    })
}

/// An operation with two results, values and their indices. `run` takes the element type of the indices.
pub(super) fn along_with_indices(
    axis: usize,
    run: impl Fn(T, usize, IntDType) -> (T, T) + Send + Sync + 'static,
) -> Entry {
    let kernel: Kernel = Arc::new(move |op, slots| {
        let [values, indices] = &op.outputs[..] else {
            unreachable!("{} has two results", op.name);
        };
        let found = run(slots.input(op, 0), op.axes.axis(), indices.dtype.into());
        slots.write(values, found.0);
        slots.write(indices, found.1);
    });
    (AxisRule::Along(vec![axis]), Some(kernel))
}

pub(super) fn whole(run: fn(T) -> T) -> Entry {
    with_rule(AxisRule::Whole(None), move |op, slots| {
        run(slots.input(op, 0))
    })
}

pub(super) fn whole_to<D: From<DType> + 'static>(run: fn(T, D) -> T) -> Entry {
    with_rule(AxisRule::Whole(None), move |op, slots| {
        run(slots.input(op, 0), op.out().dtype.into())
    })
}

/// A sum or a mean. `along_axis` is the same reduction along one axis.
pub(super) fn whole_sum(
    kind: usize,
    run: fn(T) -> T,
    along_axis: fn(ReduceDimOpIr) -> NumericOperationIr,
) -> Entry {
    let (_, kernel) = whole(run);
    let along_axis = (kind == FLOAT).then_some(along_axis);
    (AxisRule::Whole(along_axis), kernel)
}

pub(super) fn to_shape(rule: AxisRule, run: fn(T, Shape) -> T) -> Entry {
    with_rule(rule, move |op, slots| {
        run(slots.input(op, 0), op.out().shape.clone())
    })
}

pub(super) fn with_axes(rule: AxisRule, run: fn(T, &[usize]) -> T) -> Entry {
    with_rule(rule, move |op, slots| {
        run(slots.input(op, 0), op.axes.axes())
    })
}

pub(super) fn create(
    kind: usize,
    float: fn(Shape, &DispatchDevice, FloatDType) -> T,
    int: fn(Shape, &DispatchDevice, IntDType) -> T,
    boolean: fn(Shape, &DispatchDevice, BoolDType) -> T,
) -> Entry {
    with_rule(AxisRule::Creation, move |op, slots| {
        let (shape, dtype) = (op.out().shape.clone(), op.out().dtype);
        match kind {
            FLOAT => float(shape, slots.device(), dtype.into()),
            INT => int(shape, slots.device(), dtype.into()),
            _ => boolean(shape, slots.device(), dtype.into()),
        }
    })
}

pub(super) fn matmul(run: fn(T, T) -> T) -> Entry {
    let (_, kernel) = binary(run);
    (AxisRule::Matmul, kernel)
}

/// An operation on spatial axes, those after the first two.
pub(super) fn spatial(run: impl Fn(T) -> T + Send + Sync + 'static) -> Entry {
    with_rule(AxisRule::Spatial { kept: 2 }, move |op, slots| {
        run(slots.input(op, 0))
    })
}

pub(super) fn convolution<const N: usize>(
    options: ConvOptions<N>,
    run: fn(T, T, Option<T>, ConvOptions<N>) -> T,
) -> Entry {
    let rule = AxisRule::Convolution(Convolution {
        stride: options.stride.to_vec(),
        padding: options.padding.to_vec(),
        dilation: options.dilation.to_vec(),
        groups: options.groups,
        is_transposed: false,
    });
    with_rule(rule, move |op, slots| {
        let options = ConvOptions {
            groups: op.axes.groups(),
            ..options.clone()
        };
        let (x, weight) = (slots.input(op, 0), slots.input(op, 1));
        run(x, weight, slots.optional_input(op, 2), options)
    })
}

pub(super) fn transposed_convolution<const N: usize>(
    options: ConvTransposeOptions<N>,
    run: fn(T, T, Option<T>, ConvTransposeOptions<N>) -> T,
) -> Entry {
    let rule = AxisRule::Convolution(Convolution {
        stride: options.stride.to_vec(),
        padding: options.padding.iter().map(|&both| (both, both)).collect(),
        dilation: options.dilation.to_vec(),
        groups: options.groups,
        is_transposed: true,
    });
    with_rule(rule, move |op, slots| {
        let options = ConvTransposeOptions {
            groups: op.axes.groups(),
            ..options.clone()
        };
        let (x, weight) = (slots.input(op, 0), slots.input(op, 1));
        run(x, weight, slots.optional_input(op, 2), options)
    })
}
