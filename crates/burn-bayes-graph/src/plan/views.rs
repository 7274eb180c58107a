//! Views: results whose elements are elements of parameters.

use burn::backend::ir::TensorIr;

use super::planner::{Planner, Role};
use crate::dyn_tensor::DynTensor;
use crate::operation::{AxisRule, Operation, slot};
use crate::view::View;

impl Planner<'_> {
    /// The result as a view, if the operation only selects and rearranges elements of parameters.
    pub(super) fn viewed(&self, operation: &Operation) -> Option<View> {
        let out = &operation.out().shape;
        let first = operation.inputs.first()?;
        let second = || self.constant(operation.inputs.get(1)?);
        match &operation.axes {
            AxisRule::Reshape => Some(self.view(first)?.reshape(out)),
            AxisRule::Permute(axes) => Some(self.view(first)?.permute(axes)),
            AxisRule::Expand => Some(self.view(first)?.expand(out)),
            AxisRule::Slice(ranges) => self.view(first)?.slice(ranges, out),
            AxisRule::Repeat(dim, times) => Some(self.view(first)?.repeat(*dim, *times)),
            AxisRule::Flip(axes) => Some(self.view(first)?.flip(axes)),
            AxisRule::Cast => self.view(first),
            AxisRule::Select(dim) => Some(self.view(first)?.select(*dim, &second()?)),
            AxisRule::Gather(dim) => Some(self.view(first)?.gather(*dim, &second()?, out)),
            AxisRule::Embedding => Some(self.view(first)?.select(0, &second()?).reshape(out)),
            AxisRule::Cat(dim) if first.dtype.is_float() => {
                let part = |operand: &TensorIr| match self.role(operand) {
                    Role::View(view) => Some(Ok(view.clone())),
                    Role::Constant | Role::Fixed => Some(Err(operand.shape.to_vec())),
                    Role::Derived(_) | Role::Data(_) => None,
                };
                let parts = operation.inputs.iter().map(part).collect::<Option<_>>()?;
                Some(View::join(parts, *dim))
            }
            _ => None,
        }
    }

    /// The values of a constant tensor of indices.
    fn constant(&self, indices: &TensorIr) -> Option<Vec<usize>> {
        if !matches!(self.role(indices), Role::Constant) {
            return None;
        }
        let mut constants = self.plan.computed_constants(&self.device).into_iter();
        let (_, value) = constants.find(|(number, _)| *number == slot(indices))?;
        let values = DynTensor::new(value).into_integers()?;
        values
            .into_iter()
            .map(|index| index.try_into().ok())
            .collect()
    }
}
