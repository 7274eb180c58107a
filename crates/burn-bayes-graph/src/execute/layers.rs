//! Layers and activations that are one operation each.

use burn::backend::Dispatch;
use burn::backend::ir::{ActivationOperationIr as Activation, ModuleOperationIr as ModuleOp};
use burn::backend::ops::{ActivationOps, ModuleOps, UnfoldOptions};

use super::{Outcome, Slots, unsupported};

macro_rules! convolution {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (x, weight) = ($slots.read(&$op.x), $slots.read(&$op.weight));
        let bias = $slots.read_optional($op.bias.as_ref());
        let out = Dispatch::$function(x, weight, bias, $op.options.clone().into());
        $slots.write(&$op.out, out);
    }};
}

macro_rules! pool {
    ($slots:ident, $op:ident, $function:ident, $($argument:ident),+) => {{
        let x = $slots.read(&$op.x);
        $slots.write(&$op.out, Dispatch::$function(x, $($op.$argument),+));
    }};
}

pub(super) fn module(op: &ModuleOp, slots: &mut Slots) -> Outcome {
    match op {
        ModuleOp::Linear(op) => {
            let (x, weight) = (slots.read(&op.x), slots.read(&op.weight));
            let bias = slots.read_optional(op.bias.as_ref());
            slots.write(&op.out, Dispatch::linear(x, weight, bias));
        }
        ModuleOp::Embedding(op) => {
            let (weights, indices) = (slots.read(&op.weights), slots.read(&op.indices));
            slots.write(&op.out, Dispatch::embedding(weights, indices));
        }
        ModuleOp::BatchNorm(op) => {
            let (x, gamma, beta) = (
                slots.read(&op.x),
                slots.read(&op.gamma),
                slots.read(&op.beta),
            );
            let (mean, variance) = (slots.read(&op.mean), slots.read(&op.variance));
            let out = Dispatch::batch_norm(x, gamma, beta, mean, variance, op.epsilon.elem());
            slots.write(&op.out, out);
        }
        ModuleOp::LayerNorm(op) => {
            let (input, gamma) = (slots.read(&op.input), slots.read(&op.gamma));
            let beta = slots.read_optional(op.beta.as_ref());
            let out = Dispatch::layer_norm(input, gamma, beta, op.epsilon.elem());
            slots.write(&op.out, out);
        }
        ModuleOp::Conv1d(op) => convolution!(slots, op, conv1d),
        ModuleOp::Conv2d(op) => convolution!(slots, op, conv2d),
        ModuleOp::Conv3d(op) => convolution!(slots, op, conv3d),
        ModuleOp::ConvTranspose1d(op) => convolution!(slots, op, conv_transpose1d),
        ModuleOp::ConvTranspose2d(op) => convolution!(slots, op, conv_transpose2d),
        ModuleOp::ConvTranspose3d(op) => convolution!(slots, op, conv_transpose3d),
        ModuleOp::AvgPool1d(op) => pool!(
            slots,
            op,
            avg_pool1d,
            kernel_size,
            stride,
            padding,
            count_include_pad,
            ceil_mode
        ),
        ModuleOp::AvgPool2d(op) => pool!(
            slots,
            op,
            avg_pool2d,
            kernel_size,
            stride,
            padding,
            count_include_pad,
            ceil_mode
        ),
        ModuleOp::AdaptiveAvgPool1d(op) => pool!(slots, op, adaptive_avg_pool1d, output_size),
        ModuleOp::AdaptiveAvgPool2d(op) => pool!(slots, op, adaptive_avg_pool2d, output_size),
        ModuleOp::AdaptiveAvgPool3d(op) => pool!(slots, op, adaptive_avg_pool3d, output_size),
        ModuleOp::MaxPool1d(op) => pool!(
            slots,
            op,
            max_pool1d,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode
        ),
        ModuleOp::MaxPool2d(op) => pool!(
            slots,
            op,
            max_pool2d,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode
        ),
        ModuleOp::Interpolate(op) => {
            let x = slots.read(&op.x);
            let out = Dispatch::interpolate(x, op.output_size, op.options.clone().into());
            slots.write(&op.out, out);
        }
        ModuleOp::Unfold4d(op) => {
            let x = slots.read(&op.x);
            let options =
                UnfoldOptions::new(op.options.stride, op.options.padding, op.options.dilation);
            slots.write(&op.out, Dispatch::unfold4d(x, op.kernel_size, options));
        }
        ModuleOp::Attention(op) => {
            let (query, key) = (slots.read(&op.query), slots.read(&op.key));
            let value = slots.read(&op.value);
            let mask = slots.read_optional(op.mask.as_ref());
            let bias = slots.read_optional(op.attn_bias.as_ref());
            let options = op.options.clone().into();
            let out = Dispatch::attention(query, key, value, mask, bias, options);
            slots.write(&op.out, out);
        }
        other => return unsupported(other),
    }
    Ok(())
}

pub(super) fn activation(op: &Activation, slots: &mut Slots) -> Outcome {
    match op {
        Activation::Relu(op) => unary!(slots, op, relu),
        Activation::Gelu(op) => unary!(slots, op, gelu),
        Activation::Sigmoid(op) => unary!(slots, op, sigmoid),
        Activation::LogSigmoid(op) => unary!(slots, op, log_sigmoid),
        Activation::LeakyRelu(op) => scalar!(slots, op, leaky_relu),
        Activation::PRelu(op) => binary!(slots, op, prelu),
        Activation::HardSigmoid(op) => {
            let tensor = slots.read(&op.tensor);
            let out = Dispatch::hard_sigmoid(tensor, op.alpha.into(), op.beta.into());
            slots.write(&op.out, out);
        }
        Activation::Softmax(op) => along!(slots, op, softmax),
        Activation::LogSoftmax(op) => along!(slots, op, log_softmax),
        Activation::Softmin(op) => along!(slots, op, softmin),
        other => return unsupported(other),
    }
    Ok(())
}
