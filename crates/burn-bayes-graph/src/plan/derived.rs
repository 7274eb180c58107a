//! Copies for every example of what is computed from parameters alone, such as the exponential of a scale:
//! the parameters are copied, and the operations on them run with an axis of copies.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::{IrVisitorMut, OperationIr, TensorId, TensorIr};

use super::{Copied, Planner, Role, Step};
use crate::axis::ExampleAxis;
use crate::capture::Recording;
use crate::lift::Lifter;
use crate::lower::{reshape, slot};
use crate::semantics::{Semantics, semantics};

/// Numbers that copies of derived values may take; beyond that the loop is cheaper.
const COPIES: usize = 1 << 16;

impl Planner<'_> {
    /// A tensor with a copy of the derived `operand` for every example along `axis`, or none if it has no
    /// place for them there.
    pub(super) fn copied_derived(
        &mut self,
        operand: &TensorIr,
        axis: ExampleAxis,
    ) -> Option<TensorIr> {
        let operand = &self.unrepeated(operand, axis)?;
        let (parameters, mut chain) = self.derivation(operand);
        let made = chain.iter().flat_map(OperationIr::outputs);
        let numbers = made.chain(parameters.values());
        let numbers: usize = numbers.map(|tensor| tensor.shape.num_elements()).sum();
        if self.examples * numbers > COPIES {
            return None;
        }
        let mut lifter = self.lifter();
        let mut leaves = Vec::new();
        for (&number, tensor) in &parameters {
            let Some(Role::View(view)) = self.roles.get(&number) else {
                return None;
            };
            let one = [&[1], &tensor.shape[..]].concat();
            let copies = [&[self.examples], &tensor.shape[..]].concat();
            let source = lifter.recording.tensor(tensor, &one);
            let target = lifter.recording.tensor(tensor, &copies);
            lifter.lifted.insert(number);
            lifter.renamed.insert(number, target.clone());
            leaves.push((
                reshape(tensor.clone(), source.clone()),
                Copied {
                    source: slot(&source),
                    target: slot(&target),
                    rank: copies.len(),
                    shape: copies,
                    axis: ExampleAxis::plain(0),
                    view: view.reshape(&one),
                },
            ));
        }
        // The values themselves stay what they are, for others that read them.
        let mut own = BTreeMap::new();
        for operation in &mut chain {
            for out in operation.outputs() {
                own.insert(out.id, lifter.recording.tensor(out, &out.shape).id);
            }
            operation.visit_mut(&mut Renamed(&own));
        }
        let copied = TensorIr {
            id: own[&operand.id],
            ..operand.clone()
        };
        for operation in chain {
            lifter.run(operation).ok()?;
        }
        let copies = lifter.up(&copied);
        let placed = placed(&mut lifter, copies, axis, self.examples);
        self.take(leaves, lifter, &placed, axis);
        Some(placed)
    }

    /// The derived tensor before it was repeated over the examples.
    fn unrepeated(&self, operand: &TensorIr, axis: ExampleAxis) -> Option<TensorIr> {
        if operand.shape.get(axis.axis) == Some(&1) {
            return Some(operand.clone());
        }
        let makes = |operation: &&OperationIr| operation.outputs().any(|out| out.id == operand.id);
        let input = match semantics(self.derivations.iter().find(makes)?) {
            Semantics::Repeat(input, ..) | Semantics::Expand(input) => input,
            _ => return None,
        };
        let mut once = operand.shape.to_vec();
        *once.get_mut(axis.axis)? = 1;
        let is_repeated =
            input.shape[..] == once[..] && matches!(self.role(input), Role::Derived(_));
        is_repeated.then(|| input.clone())
    }

    /// The parameters, or views of them, that a derived tensor is computed from, and how.
    fn derivation(&self, operand: &TensorIr) -> (BTreeMap<usize, TensorIr>, Vec<OperationIr>) {
        let mut needed = BTreeSet::from([slot(operand)]);
        let mut parameters = BTreeMap::new();
        let mut chain = Vec::new();
        for operation in self.derivations.iter().rev() {
            if operation.outputs().any(|out| needed.contains(&slot(out))) {
                for input in operation.inputs() {
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

    /// Gives operations an axis of examples.
    fn lifter(&self) -> Lifter {
        Lifter {
            lifted: BTreeSet::new(),
            renamed: BTreeMap::new(),
            recording: Recording {
                operations: Vec::new(),
                held: Vec::new(),
                inputs: Vec::new(),
                constants: Vec::new(),
                losses: self.plan.losses,
                slots: self.plan.slots,
                grown: BTreeMap::new(),
            },
            draws: self.examples,
        }
    }

    fn take(
        &mut self,
        leaves: Vec<(OperationIr, Copied)>,
        lifter: Lifter,
        placed: &TensorIr,
        axis: ExampleAxis,
    ) {
        self.plan.slots = lifter.recording.slots;
        for (source, copied) in leaves {
            self.plan.steps.push(Step::Run(source.into()));
            self.plan.steps.push(Step::Copy(self.plan.copies.len()));
            self.plan.copies.push(copied);
        }
        for operation in lifter.recording.operations {
            self.plan.steps.push(Step::Run(operation.into()));
        }
        self.roles.insert(slot(placed), Role::Data(axis));
        self.tracked.insert(slot(placed));
    }
}

/// `[M, …, 1, …]` with the copies along the axis of length one.
fn placed(lifter: &mut Lifter, copies: TensorIr, axis: ExampleAxis, examples: usize) -> TensorIr {
    let (place, rank) = (axis.axis, copies.shape.num_dims() - 1);
    let order: Vec<_> = (1..=place).chain([0]).chain(place + 1..=rank).collect();
    let moved = lifter.permuted(copies, &order);
    // […, M, 1, …]
    let mut shape = moved.shape.to_vec();
    shape.splice(place..place + 2, [1, examples, 1]);
    let split = lifter.reshaped(moved, &shape);
    shape.splice(place..place + 3, [axis.outer, examples, axis.inner]);
    let full = match axis.len(examples) == examples {
        true => split,
        false => lifter.expanded(split, &shape),
    };
    shape.splice(place..place + 3, [axis.len(examples)]);
    lifter.reshaped(full, &shape)
}

/// Gives tensors other numbers.
struct Renamed<'a>(&'a BTreeMap<TensorId, TensorId>);

impl IrVisitorMut for Renamed<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if let Some(&new) = self.0.get(&tensor.id) {
            tensor.id = new;
        }
    }
}
