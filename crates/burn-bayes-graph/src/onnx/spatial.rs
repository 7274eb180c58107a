//! Convolutions and pooling as nodes.

use super::message::Attribute;
use super::translation::Translation;
use super::writer::{integer, integers};
use crate::operation::{Convolution, Operation, Pool};

impl Translation<'_> {
    /// A convolution or a transposed one.
    pub(super) fn convolution(
        &mut self,
        operation: &Operation,
        options: &Convolution,
    ) -> Result<String, String> {
        let mut settings = vec![
            integers("strides", options.stride.iter().copied()),
            pads(&options.padding),
            integers("dilations", options.dilation.iter().copied()),
            integer("group", options.groups),
        ];
        let operator = match options.is_transposed {
            false => "Conv",
            true => {
                let added = self.added_padding(operation, options)?;
                settings.push(integers("output_padding", added));
                "ConvTranspose"
            }
        };
        self.of_all(operator, operation, settings)
    }

    /// How much longer the result of a transposed convolution is than its windows reach.
    fn added_padding(
        &self,
        operation: &Operation,
        options: &Convolution,
    ) -> Result<Vec<usize>, String> {
        let inner = self.lens(&operation.inputs[0], 2)?;
        let kernel = self.lens(&operation.inputs[1], 2)?;
        let lens = self.lens(operation.out(), 2)?;
        let added = (0..lens.len()).map(|axis| {
            let (before, after) = options.padding[axis];
            let reach = options.stride[axis] * (inner[axis] - 1)
                + options.dilation[axis] * (kernel[axis] - 1)
                + 1;
            (lens[axis] + before + after).checked_sub(reach)
        });
        let added: Option<Vec<_>> = added.collect();
        added.ok_or_else(|| "its result is shorter than its windows reach".into())
    }

    /// The largest entry or the mean of every window.
    pub(super) fn pooled(&mut self, operation: &Operation, pool: &Pool) -> Result<String, String> {
        let x = self.operand(operation, 0)?;
        let inner = self.lens(&operation.inputs[0], 2)?;
        let lens = self.lens(operation.out(), 2)?;
        let sized = pool.sized(&inner, &lens);
        let sized = sized.ok_or("its windows have different lengths")?;
        let mut settings = vec![
            integers("kernel_shape", sized.kernel.iter().copied()),
            integers("strides", sized.stride.iter().copied()),
        ];
        if pool.is_largest {
            settings.push(integers("dilations", sized.dilation.iter().copied()));
            let x = self.surrounded(&x, &sized, f32::NEG_INFINITY);
            return Ok(self.writer.node("MaxPool", &[&x], settings));
        }
        let x = self.surrounded(&x, &sized, 0.0);
        let mean = self.writer.node("AveragePool", &[&x], settings);
        // The node divides by the sizes of whole windows.
        let size: usize = sized.kernel.iter().product();
        let shares = sized.shares(&inner, &lens);
        let factors: Vec<_> = shares.iter().map(|share| share * size as f32).collect();
        if factors.iter().all(|factor| (factor - 1.0).abs() < 1e-6) {
            return Ok(mean);
        }
        let shape = [&[1, 1], &lens[..]].concat();
        let factors = self.writer.numbers(&shape, &factors);
        Ok(self.plain("Mul", &[&mean, &factors]))
    }

    /// The tensor with a number around its spatial axes.
    fn surrounded(&mut self, x: &str, pool: &Pool, value: f32) -> String {
        let padding: Vec<_> = [(0, 0); 2].iter().chain(&pool.padding).copied().collect();
        let value = self.writer.numbers(&[], &[value]);
        self.padded(x, &padding, Some(&value))
    }
}

/// The padding before all axes, then after them.
fn pads(padding: &[(usize, usize)]) -> Attribute {
    let before = padding.iter().map(|&(before, _)| before);
    let after = padding.iter().map(|&(_, after)| after);
    integers("pads", before.chain(after))
}
