//! Copies: parameters that are repeated for each example.

use burn::backend::ir::TensorIr;

use super::planner::{Planner, Role};
use super::{ExampleCopy, Step};
use crate::axis::{ExampleAxis, follow};
use crate::operation::{Operation, slot};

impl Planner<'_> {
    /// Replaces the parameters among the operands by one copy for each example.
    pub(super) fn copy_operands(&mut self, operation: &mut Operation, out_axis: ExampleAxis) {
        let operands = operation.inputs.clone();
        let Some(axis) = operands.iter().find_map(|operand| self.axis(operand)) else {
            return;
        };
        for operand in operands {
            let parameters = match self.role(&operand) {
                Role::View(view) => view.parameters(),
                Role::Derived(parameters) => parameters.clone(),
                _ => continue,
            };
            let target = match self.treats_apart(operation, &operand, axis, out_axis) {
                true => self
                    .copied(&operand, axis)
                    .or_else(|| self.copied_derived(&operand, axis)),
                false => None,
            };
            match target {
                Some(target) => {
                    let same = operation.inputs.iter_mut();
                    for input in same.filter(|input| input.id == operand.id) {
                        *input = target.clone();
                    }
                }
                None => self.plan.looped.extend(parameters),
            }
        }
    }

    /// Whether the operation keeps examples separate if `operand` has one copy for each example.
    fn treats_apart(
        &self,
        operation: &Operation,
        operand: &TensorIr,
        axis: ExampleAxis,
        out_axis: ExampleAxis,
    ) -> bool {
        let as_data = |tensor: &TensorIr| match tensor.id == operand.id {
            true => Some(axis),
            false => self.axis(tensor),
        };
        follow(operation, self.examples, as_data) == Ok(out_axis)
    }

    /// A tensor with one copy of `operand` for each example, if `operand` is a view of parameters.
    fn copied(&mut self, operand: &TensorIr, axis: ExampleAxis) -> Option<TensorIr> {
        let view = self.view(operand)?;
        let mut shape = operand.shape.to_vec();
        let len = axis.len(self.examples);
        if axis.axis >= shape.len() || (shape[axis.axis] != 1 && shape[axis.axis] != len) {
            return None;
        }
        let view = view.unrepeated(axis.axis)?;
        shape[axis.axis] = len;
        let target = self.new_tensor(operand, &shape, Role::Data(axis));
        self.tracked.insert(slot(&target));
        self.plan.steps.push(Step::Copy(self.plan.copies.len()));
        self.plan.copies.push(ExampleCopy {
            source: slot(operand),
            target: slot(&target),
            rank: shape.len(),
            shape,
            axis,
            view,
        });
        Some(target)
    }
}
