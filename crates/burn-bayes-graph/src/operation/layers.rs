//! Entries of layers and activations that Burn records as one operation.

use burn::backend::Dispatch as D;
use burn::backend::ir::{ActivationOperationIr as A, ModuleOperationIr as M};
use burn::backend::ops::{ActivationOps, ModuleOps, UnfoldOptions};

use burn_bayes_program::{Binary, Expr, Unary};

use super::forms::{
    Entry, along, binary, clamped, convolution, number, scalar, scalars, spatial, three,
    transposed_convolution, unary, unknown, with_rule,
};
use super::{AxisRule, Compiled, Pool};

/// A pooling layer: how it is compiled, its function, and the fields that are arguments of the function.
macro_rules! pool {
    ($op:ident, $pool:expr, $function:ident, $($argument:ident),+) => {{
        $(let $argument = $op.$argument;)+
        spatial(move |x| D::$function(x, $($argument),+)).compiles(Compiled::Pool($pool))
    }};
}

pub(super) fn module(op: &M) -> Entry {
    match op {
        M::Linear(_) => with_rule(AxisRule::Linear, |op, slots| {
            let (x, weight) = (slots.input(op, 0), slots.input(op, 1));
            D::linear(x, weight, slots.optional_input(op, 2))
        }),
        M::Embedding(_) => with_rule(AxisRule::Embedding, |op, slots| {
            D::embedding(slots.input(op, 0), slots.input(op, 1))
        }),
        M::LayerNorm(op) => {
            let epsilon = op.epsilon.elem();
            with_rule(AxisRule::LayerNorm, move |op, slots| {
                let (x, scale) = (slots.input(op, 0), slots.input(op, 1));
                D::layer_norm(x, scale, slots.optional_input(op, 2), epsilon)
            })
            .compiles(Compiled::Normalise { epsilon })
        }
        M::BatchNorm(op) => {
            let epsilon = op.epsilon.elem();
            with_rule(AxisRule::BatchNorm, move |op, slots| {
                let [x, scale, shift] = three(op, slots);
                let (mean, variance) = (slots.input(op, 3), slots.input(op, 4));
                D::batch_norm(x, scale, shift, mean, variance, epsilon)
            })
            .compiles(Compiled::Normalise { epsilon })
        }
        M::Conv1d(op) => convolution(op.options.clone().into(), D::conv1d),
        M::Conv2d(op) => convolution(op.options.clone().into(), D::conv2d),
        M::Conv3d(op) => convolution(op.options.clone().into(), D::conv3d),
        M::ConvTranspose1d(op) => {
            transposed_convolution(op.options.clone().into(), D::conv_transpose1d)
        }
        M::ConvTranspose2d(op) => {
            transposed_convolution(op.options.clone().into(), D::conv_transpose2d)
        }
        M::ConvTranspose3d(op) => {
            transposed_convolution(op.options.clone().into(), D::conv_transpose3d)
        }
        M::AvgPool1d(op) => {
            let windows = Pool::windows(&[op.kernel_size], &[op.stride], &[op.padding]);
            pool!(
                op,
                windows.mean(op.count_include_pad),
                avg_pool1d,
                kernel_size,
                stride,
                padding,
                count_include_pad,
                ceil_mode
            )
        }
        M::AvgPool2d(op) => {
            let windows = Pool::windows(&op.kernel_size, &op.stride, &op.padding);
            pool!(
                op,
                windows.mean(op.count_include_pad),
                avg_pool2d,
                kernel_size,
                stride,
                padding,
                count_include_pad,
                ceil_mode
            )
        }
        M::AdaptiveAvgPool1d(op) => pool!(op, Pool::adaptive(), adaptive_avg_pool1d, output_size),
        M::AdaptiveAvgPool2d(op) => pool!(op, Pool::adaptive(), adaptive_avg_pool2d, output_size),
        M::AdaptiveAvgPool3d(op) => pool!(op, Pool::adaptive(), adaptive_avg_pool3d, output_size),
        M::MaxPool1d(op) => {
            let windows = Pool::windows(&[op.kernel_size], &[op.stride], &[op.padding]);
            pool!(
                op,
                windows.largest(&[op.dilation]),
                max_pool1d,
                kernel_size,
                stride,
                padding,
                dilation,
                ceil_mode
            )
        }
        M::MaxPool2d(op) => {
            let windows = Pool::windows(&op.kernel_size, &op.stride, &op.padding);
            pool!(
                op,
                windows.largest(&op.dilation),
                max_pool2d,
                kernel_size,
                stride,
                padding,
                dilation,
                ceil_mode
            )
        }
        M::Interpolate(op) => {
            let (size, options) = (op.output_size, op.options.clone());
            spatial(move |x| D::interpolate(x, size, options.clone().into()))
        }
        M::Unfold4d(op) => {
            let (size, options) = (op.kernel_size, op.options.clone());
            with_rule(AxisRule::Spatial { kept: 1 }, move |op, slots| {
                let options = UnfoldOptions::new(options.stride, options.padding, options.dilation);
                D::unfold4d(slots.input(op, 0), size, options)
            })
        }
        M::Attention(op) => {
            let (has_mask, options) = (op.mask.is_some(), op.options.clone());
            with_rule(AxisRule::Attention, move |op, slots| {
                let [query, key, value] = three(op, slots);
                let mask = has_mask.then(|| slots.input(op, 3));
                let bias = slots.optional_input(op, 3 + usize::from(has_mask));
                D::attention(query, key, value, mask, bias, options.clone().into())
            })
        }
        _ => unknown(),
    }
}

pub(super) fn activation(op: &A) -> Entry {
    match op {
        A::Relu(_) => unary(D::relu).unary(Unary::Relu),
        A::Gelu(_) => unary(D::gelu).map(gelu()),
        A::Sigmoid(_) => unary(D::sigmoid).unary(Unary::Sigmoid),
        A::LogSigmoid(_) => unary(D::log_sigmoid).map(log_sigmoid()),
        A::LeakyRelu(op) => {
            let entry = scalar(op.rhs, D::leaky_relu);
            match number(op.rhs) {
                Some(slope) => entry.map(leaky(slope)),
                None => entry,
            }
        }
        A::HardSigmoid(op) => {
            let entry = scalars(op.alpha, op.beta, D::hard_sigmoid);
            match (number(op.alpha), number(op.beta)) {
                (Some(slope), Some(shift)) => {
                    let line = Expr::Operand(0) * slope + shift;
                    entry.map(clamped(line, Expr::Constant(0.0), Expr::Constant(1.0)))
                }
                _ => entry,
            }
        }
        A::PRelu(_) => binary(D::prelu).map(leaky(Expr::Operand(1))),
        A::Softmax(op) => along(op.axis, D::softmax).compiles(Compiled::Softmax {
            is_log: false,
            is_negated: false,
        }),
        A::LogSoftmax(op) => along(op.axis, D::log_softmax).compiles(Compiled::Softmax {
            is_log: true,
            is_negated: false,
        }),
        A::Softmin(op) => along(op.axis, D::softmin).compiles(Compiled::Softmax {
            is_log: false,
            is_negated: true,
        }),
        A::ReluBackward(_)
        | A::GeluBackward(_)
        | A::SigmoidBackward(_)
        | A::LogSigmoidBackward(_) => unknown(),
    }
}

/// x (1 + erf(x / √2)) / 2
fn gelu() -> Expr {
    let x = || Expr::Operand(0);
    let erf = (x() * Expr::Constant(std::f32::consts::FRAC_1_SQRT_2)).apply(Unary::Erf);
    x() * (Expr::Constant(0.5) * (Expr::Constant(1.0) + erf))
}

/// min(x, 0) − ln(1 + exp(−|x|)), with the first as (x − |x|)/2, whose slope at 0 is that of both.
fn log_sigmoid() -> Expr {
    let x = || Expr::Operand(0);
    let tail = (-x().apply(Unary::Abs))
        .apply(Unary::Exp)
        .apply(Unary::Log1p);
    (x() - x().apply(Unary::Abs)) * Expr::Constant(0.5) - tail
}

/// x where it is positive, else slope · x.
fn leaky(slope: Expr) -> Expr {
    let x = || Expr::Operand(0);
    let is_on = Expr::binary(Binary::GreaterEqual, x(), Expr::Constant(0.0));
    Expr::select(is_on, x(), x() * slope)
}
