//! Forms of table entries. Operations of the same form differ only in a function of Burn.

use std::sync::Arc;

use burn::backend::ir::{NumericOperationIr, ReduceDimOpIr, ScalarIr};
use burn::backend::ops::{ConvOptions, ConvTransposeOptions};
use burn::backend::{DispatchDevice, DispatchTensor as T};
use burn::tensor::{BoolDType, DType, FloatDType, IntDType, Scalar, Shape};

use burn_bayes_program::{Binary, Expr, Unary};

use super::{AxisRule, Compiled, Convolution, Kernel, Operation, Slots};

/// An entry of the table.
pub(super) struct Entry {
    pub(super) rule: AxisRule,
    /// The arithmetic, if the operation can be replayed.
    pub(super) kernel: Option<Kernel>,
    pub(super) compiled: Compiled,
}

impl Entry {
    fn new(rule: AxisRule, kernel: Option<Kernel>) -> Self {
        let compiled = Compiled::by_rule(&rule);
        Self {
            rule,
            kernel,
            compiled,
        }
    }

    /// An entry without arithmetic.
    pub(super) fn without_arithmetic(rule: AxisRule) -> Self {
        Self::new(rule, None)
    }

    /// With this rule instead.
    pub(super) fn with_axis_rule(self, rule: AxisRule) -> Self {
        Self { rule, ..self }
    }

    /// With this way to compile it.
    pub(super) fn compiles(self, compiled: Compiled) -> Self {
        Self { compiled, ..self }
    }

    /// Compiled to a function of the operand.
    pub(super) fn unary(self, function: Unary) -> Self {
        self.map(Expr::Operand(0).apply(function))
    }

    /// Compiled to a function of the two operands.
    pub(super) fn binary(self, function: Binary) -> Self {
        self.map(Expr::binary(function, Expr::Operand(0), Expr::Operand(1)))
    }

    /// Compiled to a function of the operand and a scalar.
    pub(super) fn scalar(self, function: Binary, rhs: ScalarIr) -> Self {
        match number(rhs) {
            Some(rhs) => self.map(Expr::binary(function, Expr::Operand(0), rhs)),
            None => self.compiles(Compiled::No),
        }
    }

    /// Compiled to a formula of the operands.
    pub(super) fn map(self, formula: Expr) -> Self {
        self.compiles(Compiled::Map(formula))
    }

    /// Not compiled unless `is_compiled`.
    pub(super) fn compiled_if(self, is_compiled: bool) -> Self {
        if is_compiled {
            self
        } else {
            self.compiles(Compiled::No)
        }
    }
}

/// A scalar as a number of a formula. `None` for an integer that `f32` does not have.
pub(super) fn number(scalar: ScalarIr) -> Option<Expr> {
    let (exact, is_rounded) = match scalar {
        ScalarIr::Float(value) => (value, true),
        ScalarIr::Int(value) => (value as f64, false),
        ScalarIr::UInt(value) => (value as f64, false),
        ScalarIr::Bool(value) => (f64::from(u8::from(value)), false),
    };
    let value = exact as f32;
    (is_rounded || f64::from(value) == exact).then_some(Expr::Constant(value))
}

/// The expression between two bounds.
pub(super) fn clamped(x: Expr, min: Expr, max: Expr) -> Expr {
    Expr::binary(Binary::Min, Expr::binary(Binary::Max, x, min), max)
}

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
    Entry::new(rule, Some(kernel))
}

/// Removes the arithmetic unless `is_supported`.
pub(super) fn supported_if(is_supported: bool, entry: Entry) -> Entry {
    Entry {
        kernel: entry.kernel.filter(|_| is_supported),
        ..entry
    }
}

/// Reads the first three operands.
pub(super) fn three(op: &Operation, slots: &mut Slots) -> [T; 3] {
    [0, 1, 2].map(|index| slots.input(op, index))
}

pub(super) fn unknown() -> Entry {
    Entry::without_arithmetic(AxisRule::Unknown)
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
    Entry::new(AxisRule::Along(vec![axis]), Some(kernel))
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
    let along_axis = (kind == FLOAT).then_some(along_axis);
    whole(run).with_axis_rule(AxisRule::Whole(along_axis))
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
    with_rule(AxisRule::Matmul, move |op, slots| {
        run(slots.input(op, 0), slots.input(op, 1))
    })
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
