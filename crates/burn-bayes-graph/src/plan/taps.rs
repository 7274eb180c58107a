//! Taps: leaves added to products with a weight.

use burn::backend::ir::TensorIr;

use super::planner::{Planner, Role};
use super::{Bias, Tap, channel};
use crate::axis::ExampleAxis;
use crate::operation::{AxisRule, Operation, slot};
use crate::view::View;

impl Planner<'_> {
    /// The tap of a product, if the gradient of its weight or its bias is wanted.
    pub(super) fn tap(&mut self, operation: &Operation, output_axis: ExampleAxis) -> Option<Tap> {
        let (input, weight, bias) = match (&operation.axes, &operation.inputs[..]) {
            (AxisRule::Linear | AxisRule::Convolution(_), [x, weight, bias @ ..]) => {
                (x, weight, bias.first())
            }
            (AxisRule::Embedding | AxisRule::Select(0), [tensor, indices]) => {
                (indices, tensor, None)
            }
            // Along another example axis, each example gets a copy instead.
            (AxisRule::Gather(dim), [tensor, indices]) if self.axis(indices)?.axis == *dim => {
                (indices, tensor, None)
            }
            (AxisRule::Matmul, [lhs, rhs]) if self.axis(rhs).is_none() => (lhs, rhs, None),
            (AxisRule::Matmul, [lhs, rhs]) if self.axis(lhs).is_none() => (rhs, lhs, None),
            _ => return None,
        };
        for operand in [Some(weight), bias].into_iter().flatten() {
            if let Role::Derived(parameters) = self.role(operand) {
                self.plan.looped.extend(parameters.clone());
            }
        }
        let output = operation.out();
        let input_axis = self.axis(input)?;
        let weight_view = match self.view(weight) {
            Some(view) => {
                let own = self.own_weight(operation, weight, view.clone(), input_axis);
                if own.is_none() {
                    self.plan.looped.extend(view.parameters());
                }
                own
            }
            None => None,
        };
        let bias = bias.map(|bias| {
            let mut shape = vec![1; output.shape.num_dims()];
            shape[channel(operation)] = output.shape[channel(operation)];
            Bias {
                slot: slot(bias),
                shape,
                view: self.view(bias),
            }
        });
        if weight_view.is_none() && bias.as_ref().is_none_or(|bias| bias.view.is_none()) {
            return None;
        }
        let mut product = operation.clone();
        // Without its bias.
        product.inputs.truncate(2);
        Some(Tap {
            operation: product,
            input: slot(input),
            input_axis,
            source: slot(input),
            product: slot(output),
            output: output.clone(),
            output_axis,
            weight: weight_view,
            bias,
            is_tracked: self.tracked.contains(&slot(input)),
        })
    }

    /// The weight that each example has in a product. If the weight of a matrix product has an entry for each
    /// example, all entries must be the same elements.
    fn own_weight(
        &self,
        operation: &Operation,
        weight: &TensorIr,
        view: View,
        axis: ExampleAxis,
    ) -> Option<View> {
        match operation.axes {
            AxisRule::Matmul if has_examples(weight, axis) => view
                .split(axis.axis, &[axis.outer, self.examples, axis.inner])
                .unrepeated(axis.axis + 1),
            _ => Some(view),
        }
    }
}

/// Whether the weight of a matrix product also has an entry for each example.
pub(crate) fn has_examples(weight: &TensorIr, axis: ExampleAxis) -> bool {
    axis.axis + 2 < weight.shape.num_dims() && weight.shape[axis.axis] > 1
}
