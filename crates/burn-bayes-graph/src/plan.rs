//! From a recording to a plan: what is computed once, what in every replay, and where gradients are
//! tapped.
//!
//! A parameter meets the batch in an operation. If the operation is a product with a weight, the
//! product's result is **tapped**: it becomes the sum of itself and a leaf, whose gradient δ, with
//! the operation's other operand, says the gradient of every example. In any other operation that
//! treats examples apart, the parameter is **copied**: each example gets its own, as a leaf whose
//! gradient is the answer. What is neither is left to the loop over single examples.

mod derived;
mod last_reads;

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::DispatchDevice;
use burn::backend::ir::{
    BaseOperationIr, IrVisitorMut, ModuleOperationIr, OperationIr, TensorId, TensorIr, TensorStatus,
};
use burn::tensor::{Shape, TensorData};

use crate::axis::{ExampleAxis, Lost, follow, out_of};
use crate::capture::Recording;
use crate::error::{Error, Kind};
use crate::execute::{is_supported, name};
use crate::layout::Layout;
use crate::lower::{lowered, slot};
use crate::semantics::{Semantics, semantics};
use crate::untyped::Untyped;
use crate::view::View;

/// How the gradients of a batch's examples are computed.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) slots: usize,
    pub(crate) held: Vec<usize>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) losses: usize,
    /// Values that no replay changes, and what is computed from them alone.
    pub(crate) constants: Vec<(usize, TensorData)>,
    pub(crate) constant_operations: Vec<OperationIr>,
    pub(crate) steps: Vec<Step>,
    pub(crate) taps: Vec<Tap>,
    pub(crate) copies: Vec<Copied>,
    /// Parameters whose gradients come from the loop over single examples.
    pub(crate) looped: BTreeSet<usize>,
    /// If it evaluates several draws of the parameters, their number: what they touch then has an axis
    /// of draws before the axes that taps and copies name.
    pub(crate) draws: Option<usize>,
}

/// One step of a replay.
#[derive(Debug)]
pub(crate) enum Step {
    Run(Box<OperationIr>),
    /// Puts a tap's leaf in, after its product was run.
    Tap(usize),
    /// Copies a parameter for every example.
    Copy(usize),
}

/// A product with a weight.
#[derive(Debug)]
pub(crate) struct Tap {
    /// The product, without its bias.
    pub(crate) operation: OperationIr,
    /// The operand that is not the weight.
    pub(crate) input: usize,
    pub(crate) input_axis: ExampleAxis,
    /// Where that operand is.
    pub(crate) source: usize,
    /// Where the operation leaves the product.
    pub(crate) product: usize,
    /// The sum of product, bias and leaf.
    pub(crate) output: TensorIr,
    pub(crate) output_axis: ExampleAxis,
    /// The weight, if its gradient is wanted.
    pub(crate) weight: Option<View>,
    pub(crate) bias: Option<Bias>,
    /// Whether the input depends on a leaf.
    pub(crate) is_tracked: bool,
}

/// What is added to a product.
#[derive(Clone, Debug)]
pub(crate) struct Bias {
    pub(crate) slot: usize,
    /// Under which it is added to the output.
    pub(crate) shape: Vec<usize>,
    /// Its view, if its gradient is wanted.
    pub(crate) view: Option<View>,
}

impl Tap {
    /// The number of the output's axes at one draw.
    pub(crate) fn output_rank(&self) -> usize {
        out_of(&self.operation).shape.num_dims()
    }

    /// The number of the input's axes at one draw.
    pub(crate) fn input_rank(&self) -> usize {
        let input = self
            .operation
            .inputs()
            .find(|input| slot(input) == self.input);
        input.map_or(0, |input| input.shape.num_dims())
    }
}

/// The axis of a product's result along which its bias lies.
pub(crate) fn channel(operation: &OperationIr) -> usize {
    match semantics(operation) {
        Semantics::Convolution { .. } => 1,
        _ => out_of(operation).shape.num_dims() - 1,
    }
}

/// A parameter with a copy for every example.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) source: usize,
    pub(crate) target: usize,
    /// The shape of the copies, with all examples along `axis`.
    pub(crate) shape: Vec<usize>,
    /// The number of the copies' axes at one draw.
    pub(crate) rank: usize,
    pub(crate) axis: ExampleAxis,
    /// The parameter, with one entry along `axis`.
    pub(crate) view: View,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Failure {
    /// One example takes one backward pass, and there is nothing to tell apart.
    Single,
    /// The loop over single examples is exact all the same; the reason in words.
    Loop(String),
    /// No per-example gradients exist.
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What a slot depends on.
#[derive(Clone, Debug)]
enum Role {
    /// Nothing.
    Constant,
    /// Tensors of the module outside the layout.
    Fixed,
    /// Parameters, picked and arranged.
    View(View),
    /// Parameters, computed with.
    Derived(BTreeSet<usize>),
    /// The batch.
    Data(ExampleAxis),
}

/// Plans the replay of a recording; what must be computed for that is computed on `device`.
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
        grown: recording.grown,
    };
    planner.enter(parameters);
    for operation in recording.operations {
        planner.add(operation)?;
    }
    planner.finish()
}

struct Planner<'a> {
    layout: &'a Layout,
    examples: usize,
    device: DispatchDevice,
    roles: BTreeMap<usize, Role>,
    tracked: BTreeSet<usize>,
    /// The operations on parameters that do more than pick and arrange their elements.
    derivations: Vec<OperationIr>,
    grown: BTreeMap<usize, usize>,
    plan: Plan,
}

impl Planner<'_> {
    fn enter(&mut self, parameters: &[Option<usize>]) {
        for (slot, parameter) in self.plan.held.iter().zip(parameters) {
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

    /// A constant with an entry per example is like a tensor of the batch.
    fn constant_role(&self, slot: usize) -> Role {
        match self.grown.get(&slot) {
            Some(&axis) => Role::Data(ExampleAxis::plain(axis)),
            None => Role::Constant,
        }
    }

    fn role(&self, tensor: &TensorIr) -> &Role {
        self.roles.get(&slot(tensor)).unwrap_or(&Role::Constant)
    }

    fn view(&self, tensor: &TensorIr) -> Option<View> {
        match self.role(tensor) {
            Role::View(view) => Some(view.clone()),
            _ => None,
        }
    }

    fn axis(&self, tensor: &TensorIr) -> Option<ExampleAxis> {
        match self.role(tensor) {
            Role::Data(axis) => Some(*axis),
            _ => None,
        }
    }

    fn assign(&mut self, operation: &OperationIr, role: &Role) {
        let is_tracked = operation
            .inputs()
            .any(|input| self.tracked.contains(&slot(input)));
        for out in operation.outputs() {
            self.roles.insert(slot(out), role.clone());
            if is_tracked {
                self.tracked.insert(slot(out));
            }
        }
    }

    fn new_tensor(&mut self, like: &TensorIr, shape: &[usize], role: Role) -> TensorIr {
        let number = self.plan.slots;
        self.plan.slots += 1;
        self.roles.insert(number, role);
        TensorIr {
            id: TensorId::new(number as u64),
            shape: Shape::from(shape.to_vec()),
            status: TensorStatus::ReadOnly,
            dtype: like.dtype,
        }
    }

    fn add(&mut self, operation: OperationIr) -> Result<(), Failure> {
        if matches!(semantics(&operation), Semantics::Random) {
            return Err(Failure::Refused(Kind::Random(name(&operation)).into()));
        }
        if !is_supported(&operation) {
            let name = name(&operation);
            return Err(Failure::Loop(format!("{name} cannot be replayed")));
        }
        if operation.inputs().any(|input| self.axis(input).is_some()) {
            self.add_data(operation)
        } else {
            self.add_still(operation);
            Ok(())
        }
    }

    /// An operation that the batch does not reach.
    fn add_still(&mut self, operation: OperationIr) {
        let mut derived = BTreeSet::new();
        let mut fixed = false;
        for input in operation.inputs() {
            match self.role(input) {
                Role::Constant | Role::Data(_) => {}
                Role::Fixed => fixed = true,
                Role::View(view) => derived.extend(view.parameters()),
                Role::Derived(parameters) => derived.extend(parameters),
            }
        }
        if derived.is_empty() && !fixed {
            let role = self.constant_role(slot(out_of(&operation)));
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
        self.plan.steps.push(Step::Run(operation.into()));
    }

    /// The result of an operation that only picks and arranges elements of parameters.
    fn viewed(&self, operation: &OperationIr) -> Option<View> {
        let out = &out_of(operation).shape;
        match semantics(operation) {
            Semantics::Reshape(input) => Some(self.view(input)?.reshape(out)),
            Semantics::Permute(input, axes) => Some(self.view(input)?.permute(&axes)),
            Semantics::Expand(input) => Some(self.view(input)?.expand(out)),
            Semantics::Slice(input, ranges) => self.view(input)?.slice(ranges, out),
            Semantics::Repeat(input, dim, times) => Some(self.view(input)?.repeat(dim, times)),
            Semantics::Select {
                tensor,
                dim,
                indices,
            } => Some(self.view(tensor)?.select(dim, &self.constant(indices)?)),
            Semantics::Gather {
                tensor,
                dim,
                indices,
            } => Some(
                self.view(tensor)?
                    .gather(dim, &self.constant(indices)?, out),
            ),
            Semantics::Embedding { weights, indices } => {
                let rows = self.view(weights)?.select(0, &self.constant(indices)?);
                Some(rows.reshape(out))
            }
            Semantics::Elementwise(operands) => match operation {
                OperationIr::BaseFloat(BaseOperationIr::Cast(_)) => self.view(operands[0]),
                _ => None,
            },
            Semantics::Along(operands, axes) => match operation {
                OperationIr::BaseFloat(BaseOperationIr::Flip(op)) => {
                    Some(self.view(operands[0])?.flip(&op.axes))
                }
                OperationIr::BaseFloat(BaseOperationIr::Cat(_)) => {
                    let part = |operand: &&TensorIr| match self.role(operand) {
                        Role::View(view) => Some(Ok(view.clone())),
                        Role::Constant | Role::Fixed => Some(Err(operand.shape.to_vec())),
                        Role::Derived(_) | Role::Data(_) => None,
                    };
                    let parts = operands.iter().map(part).collect::<Option<_>>()?;
                    Some(View::join(parts, axes[0]))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The values of a constant.
    fn constant(&self, indices: &TensorIr) -> Option<Vec<usize>> {
        if !matches!(self.role(indices), Role::Constant) {
            return None;
        }
        let mut constants = self.plan.computed_constants(&self.device).into_iter();
        let (_, value) = constants.find(|(number, _)| *number == slot(indices))?;
        let values = Untyped::new(value).into_integers()?;
        values
            .into_iter()
            .map(|index| index.try_into().ok())
            .collect()
    }

    /// An operation that the batch reaches.
    fn add_data(&mut self, operation: OperationIr) -> Result<(), Failure> {
        let axis = match follow(&operation, self.examples, |tensor| self.axis(tensor)) {
            Ok(axis) => axis,
            Err(Lost::Mixed) => {
                return Err(Failure::Refused(
                    Kind::Coupled {
                        operation: name(&operation),
                        shape: operation
                            .inputs()
                            .next()
                            .map_or_else(Vec::new, |input| input.shape.to_vec()),
                    }
                    .into(),
                ));
            }
            Err(Lost::Unknown) => {
                let name = name(&operation);
                return Err(Failure::Loop(format!(
                    "the examples cannot be followed through {name}"
                )));
            }
        };
        let mut operation = operation;
        match self.tap(&operation, axis) {
            Some(tap) => {
                self.assign(&operation, &Role::Data(axis));
                self.tracked.insert(slot(&tap.output));
                let product = Step::Run(tap.operation.clone().into());
                let leaf = Step::Tap(self.plan.taps.len());
                self.plan.steps.extend([product, leaf]);
                self.plan.taps.push(tap);
            }
            None => {
                self.copy_operands(&mut operation, axis);
                self.assign(&operation, &Role::Data(axis));
                self.plan.steps.push(Step::Run(operation.into()));
            }
        }
        Ok(())
    }

    /// A product with a weight whose gradient, or whose bias's, is wanted.
    fn tap(&mut self, operation: &OperationIr, output_axis: ExampleAxis) -> Option<Tap> {
        let (input, weight, bias) = match semantics(operation) {
            Semantics::Linear { x, weight, bias } => (x, weight, bias),
            Semantics::Convolution { x, weight, bias } => (x, weight, bias),
            Semantics::Embedding { weights, indices } => (indices, weights, None),
            Semantics::Select {
                tensor,
                dim: 0,
                indices,
            } => (indices, tensor, None),
            // Where the examples lie along another axis each has a copy.
            Semantics::Gather {
                tensor,
                dim,
                indices,
            } if self.axis(indices)?.axis == dim => (indices, tensor, None),
            Semantics::Matmul { lhs, rhs } if self.axis(rhs).is_none() => (lhs, rhs, None),
            Semantics::Matmul { lhs, rhs } if self.axis(lhs).is_none() => (rhs, lhs, None),
            _ => return None,
        };
        for operand in [Some(weight), bias].into_iter().flatten() {
            if let Role::Derived(parameters) = self.role(operand) {
                self.plan.looped.extend(parameters.clone());
            }
        }
        let output = out_of(operation);
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
        Some(Tap {
            operation: without_bias(operation.clone()),
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

    /// The weight that an example has in a product: all of it, unless the product has a weight for every
    /// example. Those must be the same one.
    fn own_weight(
        &self,
        operation: &OperationIr,
        weight: &TensorIr,
        view: View,
        axis: ExampleAxis,
    ) -> Option<View> {
        match semantics(operation) {
            Semantics::Matmul { .. } if has_examples(weight, axis) => view
                .split(axis.axis, &[axis.outer, self.examples, axis.inner])
                .unrepeated(axis.axis + 1),
            _ => Some(view),
        }
    }

    /// Gives every example its own copy of the parameters among the operands.
    fn copy_operands(&mut self, operation: &mut OperationIr, out_axis: ExampleAxis) {
        let operands: Vec<TensorIr> = operation.inputs().cloned().collect();
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
                Some(target) => operation.visit_mut(&mut Replace {
                    from: operand.id,
                    to: target.id,
                    shape: target.shape,
                }),
                None => self.plan.looped.extend(parameters),
            }
        }
    }

    /// Whether the operation would treat an example's own copy of `operand` apart from those of others.
    fn treats_apart(
        &self,
        operation: &OperationIr,
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

    /// A tensor with a copy for every example of a parameter, if `operand` is one.
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
        self.plan.copies.push(Copied {
            source: slot(operand),
            target: slot(&target),
            rank: shape.len(),
            shape,
            axis,
            view,
        });
        Some(target)
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
        self.plan.mark_last_reads();
        Ok(self.plan)
    }
}

impl Plan {
    /// A plan that evaluates a recording and taps nothing; the name of an operation that cannot be
    /// replayed otherwise.
    pub(crate) fn untapped(recording: Recording) -> Result<Self, String> {
        let mut plan = Self::of(&recording);
        let mut alive: BTreeSet<usize> = plan.held.iter().chain(&plan.inputs).copied().collect();
        for operation in recording.operations {
            if !is_supported(&operation) || matches!(semantics(&operation), Semantics::Random) {
                return Err(format!("{} cannot be replayed", name(&operation)));
            }
            if operation.inputs().any(|input| alive.contains(&slot(input))) {
                alive.extend(operation.outputs().map(slot));
                plan.steps.push(Step::Run(operation.into()));
            } else {
                plan.constant_operations.push(operation);
            }
        }
        plan.mark_last_reads();
        Ok(plan)
    }

    /// A plan without steps.
    fn of(recording: &Recording) -> Self {
        Self {
            slots: recording.slots,
            held: recording.held.clone(),
            inputs: recording.inputs.clone(),
            losses: recording.losses,
            constants: recording.constants.clone(),
            constant_operations: Vec::new(),
            steps: Vec::new(),
            taps: Vec::new(),
            copies: Vec::new(),
            looped: BTreeSet::new(),
            draws: None,
        }
    }

    /// The numbers that a replay computes before it goes back.
    pub(crate) fn numbers(&self) -> usize {
        let run = self.steps.iter().filter_map(|step| match step {
            Step::Run(operation) => Some(operation),
            Step::Tap(_) | Step::Copy(_) => None,
        });
        let results = run.flat_map(|operation| operation.outputs());
        results.map(|out| out.shape.num_elements()).sum()
    }
}

/// Whether the weight of a matrix product lies along the axis of examples, too.
pub(crate) fn has_examples(weight: &TensorIr, axis: ExampleAxis) -> bool {
    axis.axis + 2 < weight.shape.num_dims() && weight.shape[axis.axis] > 1
}

/// Puts one operand in the place of another.
struct Replace {
    from: TensorId,
    to: TensorId,
    shape: Shape,
}

impl IrVisitorMut for Replace {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if tensor.id == self.from {
            tensor.id = self.to;
            tensor.shape = self.shape.clone();
        }
    }
}

fn without_bias(mut operation: OperationIr) -> OperationIr {
    use ModuleOperationIr as M;
    if let OperationIr::Module(module) = &mut operation {
        match module {
            M::Linear(op) => op.bias = None,
            M::Conv1d(op) => op.bias = None,
            M::Conv2d(op) => op.bias = None,
            M::Conv3d(op) => op.bias = None,
            M::ConvTranspose1d(op) => op.bias = None,
            M::ConvTranspose2d(op) => op.bias = None,
            M::ConvTranspose3d(op) => op.bias = None,
            _ => {}
        }
    }
    operation
}
