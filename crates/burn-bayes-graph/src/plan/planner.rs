//! Builds a plan from the operations of a recording, one by one.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::Layout;
use burn::backend::DispatchDevice;
use burn::backend::ir::TensorIr;

use super::{Failure, Plan, Step};
use crate::axis::{ExampleAxis, Untracked, follow};
use crate::capture::Recording;
use crate::error::Kind;
use crate::lower::lowered;
use crate::operation::{AxisRule, Operation, slot};
use crate::view::View;

/// What the tensor of a slot depends on.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// On constants alone.
    Constant,
    /// On tensors of the module outside the layout.
    Fixed,
    /// On parameters: each element is an element of a parameter.
    View(View),
    /// On these parameters, by arithmetic.
    Derived(BTreeSet<usize>),
    /// On the batch.
    Data(ExampleAxis),
}

/// Plans the replay of a recording. Constants that the plan depends on are computed on `device`.
pub(crate) fn plan(
    recording: Recording,
    parameters: &[Option<usize>],
    layout: &Layout,
    examples: usize,
    device: DispatchDevice,
) -> Result<Plan, Failure> {
    let recording = lowered(recording, parameters);
    let mut planner = Planner {
        layout,
        examples,
        device,
        roles: BTreeMap::new(),
        tracked: BTreeSet::new(),
        derivations: Vec::new(),
        plan: Plan::of(&recording),
        example_constants: recording.example_constants,
    };
    planner.assign_entries(parameters);
    for operation in recording.operations {
        planner.add(operation)?;
    }
    planner.finish()
}

pub(super) struct Planner<'a> {
    pub(super) layout: &'a Layout,
    pub(super) examples: usize,
    pub(super) device: DispatchDevice,
    pub(super) roles: BTreeMap<usize, Role>,
    pub(super) tracked: BTreeSet<usize>,
    /// The operations whose results have the role [`Role::Derived`].
    pub(super) derivations: Vec<Operation>,
    example_constants: BTreeMap<usize, usize>,
    pub(super) plan: Plan,
}

impl Planner<'_> {
    fn assign_entries(&mut self, parameters: &[Option<usize>]) {
        for (slot, parameter) in self.plan.module_tensors.iter().zip(parameters) {
            let role = match parameter {
                Some(parameter) => {
                    let shape = &self.layout.entries()[*parameter].shape;
                    Role::View(View::of(*parameter, shape))
                }
                None => Role::Fixed,
            };
            self.roles.insert(*slot, role);
        }
        for (slot, _) in &self.plan.constants {
            let role = self.constant_role(*slot);
            self.roles.insert(*slot, role);
        }
        for slot in &self.plan.inputs {
            self.roles.insert(*slot, Role::Data(ExampleAxis::plain(0)));
        }
    }

    /// The role of a constant. One with an entry per example is treated as a tensor of the batch.
    fn constant_role(&self, slot: usize) -> Role {
        match self.example_constants.get(&slot) {
            Some(&axis) => Role::Data(ExampleAxis::plain(axis)),
            None => Role::Constant,
        }
    }

    pub(super) fn role(&self, tensor: &TensorIr) -> &Role {
        self.roles.get(&slot(tensor)).unwrap_or(&Role::Constant)
    }

    pub(super) fn view(&self, tensor: &TensorIr) -> Option<View> {
        match self.role(tensor) {
            Role::View(view) => Some(view.clone()),
            _ => None,
        }
    }

    pub(super) fn axis(&self, tensor: &TensorIr) -> Option<ExampleAxis> {
        match self.role(tensor) {
            Role::Data(axis) => Some(*axis),
            _ => None,
        }
    }

    fn assign(&mut self, operation: &Operation, role: &Role) {
        let is_tracked = operation.reads(|slot| self.tracked.contains(&slot));
        for out in &operation.outputs {
            self.roles.insert(slot(out), role.clone());
            if is_tracked {
                self.tracked.insert(slot(out));
            }
        }
    }

    pub(super) fn new_tensor(&mut self, like: &TensorIr, shape: &[usize], role: Role) -> TensorIr {
        let tensor = self.plan.slots.tensor(like, shape);
        self.roles.insert(slot(&tensor), role);
        tensor
    }

    fn add(&mut self, operation: Operation) -> Result<(), Failure> {
        if matches!(operation.axes, AxisRule::Random) {
            return Err(Failure::Refused(Kind::Random(operation.name).into()));
        }
        if !operation.is_supported() {
            let name = operation.name;
            return Err(Failure::Loop(format!("{name} cannot be replayed")));
        }
        let mut inputs = operation.inputs.iter();
        if inputs.any(|input| self.axis(input).is_some()) {
            self.add_with_batch(operation)
        } else {
            self.add_without_batch(operation);
            Ok(())
        }
    }

    /// Adds an operation whose operands do not depend on the batch.
    pub(super) fn add_without_batch(&mut self, operation: Operation) {
        let mut derived = BTreeSet::new();
        let mut fixed = false;
        for input in &operation.inputs {
            match self.role(input) {
                Role::Constant | Role::Data(_) => {}
                Role::Fixed => fixed = true,
                Role::View(view) => derived.extend(view.parameters()),
                Role::Derived(parameters) => derived.extend(parameters),
            }
        }
        if derived.is_empty() && !fixed {
            let role = self.constant_role(slot(operation.out()));
            self.assign(&operation, &role);
            self.plan.constant_operations.push(operation);
            return;
        }
        let role = match self.viewed(&operation) {
            Some(view) => Role::View(view),
            None if derived.is_empty() => Role::Fixed,
            None => Role::Derived(derived),
        };
        self.assign(&operation, &role);
        if let Role::Derived(_) = role {
            self.derivations.push(operation.clone());
        }
        self.plan.steps.push(Step::Run(operation));
    }

    /// Adds an operation with operands that depend on the batch.
    fn add_with_batch(&mut self, mut operation: Operation) -> Result<(), Failure> {
        let axis = match follow(&operation, self.examples, |tensor| self.axis(tensor)) {
            Ok(axis) => axis,
            Err(Untracked::Mixed) => {
                let shape = operation.inputs[0].shape.to_vec();
                let operation = operation.name;
                return Err(Failure::Refused(Kind::Coupled { operation, shape }.into()));
            }
            Err(Untracked::Unknown) => {
                let name = operation.name;
                return Err(Failure::Loop(format!(
                    "the example axis is unknown after {name}"
                )));
            }
        };
        if let Some(operations) = self.replaced(&operation) {
            let mut operations = operations.into_iter();
            return operations.try_for_each(|operation| self.add(operation));
        }
        match self.tap(&operation, axis) {
            Some(tap) => {
                self.assign(&operation, &Role::Data(axis));
                self.tracked.insert(slot(&tap.output));
                let product = Step::Run(tap.operation.clone());
                let leaf = Step::Tap(self.plan.taps.len());
                self.plan.steps.extend([product, leaf]);
                self.plan.taps.push(tap);
            }
            None => {
                self.copy_operands(&mut operation, axis);
                self.assign(&operation, &Role::Data(axis));
                self.plan.steps.push(Step::Run(operation));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Plan, Failure> {
        match self.roles.get(&self.plan.losses) {
            Some(Role::Data(axis)) if *axis == ExampleAxis::plain(0) => {}
            _ => {
                return Err(Failure::Refused(
                    Kind::Batch("the loss does not depend on the batch".into()).into(),
                ));
            }
        }
        self.plan.drop_unread();
        self.plan.mark_last_reads();
        Ok(self.plan)
    }
}
