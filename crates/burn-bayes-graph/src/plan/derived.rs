//! Copies of tensors that are computed from parameters alone, such as the exponential of a scale.
//!
//! The parameters are copied for each example, and the operations on them are vectorised over the copies.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::TensorIr;

use super::planner::{Planner, Role};
use super::{ExampleCopy, Step};
use crate::axis::ExampleAxis;
use crate::operation::{AxisRule, Operation, slot};
use crate::vectorize::Vectorizer;

/// The largest number of elements of the copies. Beyond it, the loop is cheaper.
const COPIES: usize = 1 << 16;

impl Planner<'_> {
    /// A tensor with one copy of the derived `operand` for each example along `axis`. `None` if the operand
    /// has several entries along this axis, or if the copies are too large.
    pub(super) fn copied_derived(
        &mut self,
        operand: &TensorIr,
        axis: ExampleAxis,
    ) -> Option<TensorIr> {
        let operand = &self.unrepeated(operand, axis)?;
        let (parameters, mut chain) = self.derivation(operand);
        let made = chain.iter().flat_map(|operation| &operation.outputs);
        let numbers = made.chain(parameters.values());
        let numbers: usize = numbers.map(|tensor| tensor.shape.num_elements()).sum();
        if self.examples * numbers > COPIES {
            return None;
        }
        let mut vectorizer = Vectorizer::new(self.plan.slots, BTreeSet::new(), self.examples);
        let mut leaves = Vec::new();
        for (&number, tensor) in &parameters {
            let Some(Role::View(view)) = self.roles.get(&number) else {
                return None;
            };
            let one = [&[1], &tensor.shape[..]].concat();
            let copies = [&[self.examples], &tensor.shape[..]].concat();
            let source = vectorizer.slots.tensor(tensor, &one);
            let target = vectorizer.slots.tensor(tensor, &copies);
            vectorizer.vectorized.insert(number);
            vectorizer.renamed.insert(number, target.clone());
            leaves.push((
                Operation::reshape(tensor.clone(), source.clone()),
                ExampleCopy {
                    source: slot(&source),
                    target: slot(&target),
                    rank: copies.len(),
                    shape: copies,
                    axis: ExampleAxis::plain(0),
                    view: view.reshape(&one),
                },
            ));
        }
        // The copies get slots of their own, because other operations may read the originals.
        let mut own = BTreeMap::new();
        for operation in &mut chain {
            for out in &operation.outputs {
                own.insert(out.id, vectorizer.slots.tensor(out, &out.shape).id);
            }
            for tensor in operation.inputs.iter_mut().chain(&mut operation.outputs) {
                tensor.id = own.get(&tensor.id).copied().unwrap_or(tensor.id);
            }
        }
        let copied = TensorIr {
            id: own[&operand.id],
            ..operand.clone()
        };
        for operation in chain {
            vectorizer.run(operation).ok()?;
        }
        let copies = vectorizer.with_draws(&copied);
        let placed = placed(&mut vectorizer, copies, axis, self.examples);
        self.take(leaves, vectorizer, &placed, axis);
        Some(placed)
    }

    /// The derived tensor before it was repeated along the example axis.
    fn unrepeated(&self, operand: &TensorIr, axis: ExampleAxis) -> Option<TensorIr> {
        if operand.shape.get(axis.axis) == Some(&1) {
            return Some(operand.clone());
        }
        let operation = self.maker(operand)?;
        let input = match operation.axes {
            AxisRule::Repeat(..) | AxisRule::Expand => &operation.inputs[0],
            _ => return None,
        };
        let mut once = operand.shape.to_vec();
        *once.get_mut(axis.axis)? = 1;
        let is_repeated =
            input.shape[..] == once[..] && matches!(self.role(input), Role::Derived(_));
        is_repeated.then(|| input.clone())
    }

    /// The operation that computes a derived tensor.
    pub(super) fn maker(&self, tensor: &TensorIr) -> Option<&Operation> {
        let makes =
            |operation: &&Operation| operation.outputs.iter().any(|out| out.id == tensor.id);
        self.derivations.iter().find(makes)
    }

    /// The views of parameters that a derived tensor is computed from, and the operations that compute it.
    fn derivation(&self, operand: &TensorIr) -> (BTreeMap<usize, TensorIr>, Vec<Operation>) {
        let mut needed = BTreeSet::from([slot(operand)]);
        let mut parameters = BTreeMap::new();
        let mut chain = Vec::new();
        for operation in self.derivations.iter().rev() {
            if operation
                .outputs
                .iter()
                .any(|out| needed.contains(&slot(out)))
            {
                for input in &operation.inputs {
                    match self.role(input) {
                        Role::View(_) => {
                            parameters.insert(slot(input), input.clone());
                        }
                        Role::Derived(_) => {
                            needed.insert(slot(input));
                        }
                        Role::Constant | Role::Fixed | Role::Data(_) => {}
                    }
                }
                chain.push(operation.clone());
            }
        }
        chain.reverse();
        (parameters, chain)
    }

    fn take(
        &mut self,
        leaves: Vec<(Operation, ExampleCopy)>,
        vectorizer: Vectorizer,
        placed: &TensorIr,
        axis: ExampleAxis,
    ) {
        self.plan.slots = vectorizer.slots;
        for (source, copied) in leaves {
            self.plan.steps.push(Step::Run(source));
            self.plan.steps.push(Step::Copy(self.plan.copies.len()));
            self.plan.copies.push(copied);
        }
        for operation in vectorizer.operations {
            self.plan.steps.push(Step::Run(operation));
        }
        self.roles.insert(slot(placed), Role::Data(axis));
        self.tracked.insert(slot(placed));
    }
}

/// Moves the leading axis of copies, `[M, …, 1, …]`, to the example axis.
fn placed(
    vectorizer: &mut Vectorizer,
    copies: TensorIr,
    axis: ExampleAxis,
    examples: usize,
) -> TensorIr {
    let (place, rank) = (axis.axis, copies.shape.num_dims() - 1);
    let order: Vec<_> = (1..=place).chain([0]).chain(place + 1..=rank).collect();
    let moved = vectorizer.permuted(copies, order);
    // […, M, 1, …]
    let mut shape = moved.shape.to_vec();
    shape.splice(place..place + 2, [1, examples, 1]);
    let split = vectorizer.reshaped(moved, &shape);
    shape.splice(place..place + 3, [axis.outer, examples, axis.inner]);
    let full = match axis.len(examples) == examples {
        true => split,
        false => vectorizer.expanded(split, &shape),
    };
    shape.splice(place..place + 3, [axis.len(examples)]);
    vectorizer.reshaped(full, &shape)
}
