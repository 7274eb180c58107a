//! Plans how a recording is replayed to give per-example gradients.
//!
//! A plan separates constants, which are computed once, from the operations of every replay. Where an
//! operation combines a parameter with the batch, there are three cases:
//!
//! - A product with a weight gets a **tap**: a leaf of the autodiff graph is added to the product. The gradient
//!   δ at the leaf and the other operand give the gradient of every example.
//!   A weight that is computed from parameters is first replaced by these.
//! - Another operation that does not mix examples gets one **copy** of the parameter for each example. The
//!   gradients of the copies are the per-example gradients.
//! - For any other operation, the parameter is left to the loop over single examples.

mod copies;
mod derived;
mod last_reads;
mod planner;
mod products;
mod taps;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::DispatchTensor;
use burn::backend::ir::TensorIr;
use burn::tensor::TensorData;

use crate::axis::ExampleAxis;
use crate::capture::Recording;
use crate::dyn_tensor::DynTensor;
use crate::error::Error;
use crate::memory_use::{data_bytes, kept_bytes, vec_bytes};
use crate::operation::{AxisRule, Operation, SlotCount, slot};
use crate::view::View;

pub(crate) use planner::plan;
pub(crate) use taps::has_examples;

/// How the per-example gradients of a batch are computed.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) slots: SlotCount,
    /// The slots of the module's tensors, in visiting order.
    pub(crate) module_tensors: Vec<usize>,
    /// The slots of the batch's tensors.
    pub(crate) inputs: Vec<usize>,
    /// The slot of the result.
    pub(crate) losses: usize,
    /// Constants of the recording, by slot.
    pub(crate) constants: Vec<(usize, TensorData)>,
    /// The operations on constants alone.
    pub(crate) constant_operations: Vec<Operation>,
    /// The operations of every replay.
    pub(crate) steps: Vec<Step>,
    pub(crate) taps: Vec<Tap>,
    pub(crate) copies: Vec<ExampleCopy>,
    /// The parameters whose gradients come from the loop over single examples.
    pub(crate) looped: BTreeSet<usize>,
    /// The example axis of constants with one entry per example.
    pub(crate) example_constants: BTreeMap<usize, usize>,
    /// The number of draws, if the plan is vectorised over draws. Tensors that depend on a parameter then have
    /// a leading axis of draws, which the axes of taps and copies do not count.
    pub(crate) draws: Option<usize>,
}

/// One step of a replay.
#[derive(Debug)]
pub(crate) enum Step {
    Run(Operation),
    /// Adds the leaf of this tap to its product.
    Tap(usize),
    /// Makes the copies of this parameter, one for each example.
    Copy(usize),
}

/// A product with a weight, and the leaf that is added to it.
#[derive(Debug)]
pub(crate) struct Tap {
    /// The product, without its bias.
    pub(crate) operation: Operation,
    /// The slot of the operand that is not the weight, at one draw.
    pub(crate) input: usize,
    pub(crate) input_axis: ExampleAxis,
    /// The slot of that operand in this plan.
    pub(crate) source: usize,
    /// The slot of the product.
    pub(crate) product: usize,
    /// The sum of the product, the bias and the leaf.
    pub(crate) output: TensorIr,
    pub(crate) output_axis: ExampleAxis,
    /// The weight as a view of parameters, if its gradient is wanted.
    pub(crate) weight: Option<View>,
    pub(crate) bias: Option<Bias>,
    /// Whether the input depends on a leaf.
    pub(crate) is_tracked: bool,
}

/// The bias of a product.
#[derive(Clone, Debug)]
pub(crate) struct Bias {
    pub(crate) slot: usize,
    /// The shape that broadcasts over the output.
    pub(crate) shape: Vec<usize>,
    /// The bias as a view of parameters, if its gradient is wanted.
    pub(crate) view: Option<View>,
}

impl Tap {
    /// The rank of the output at one draw.
    pub(crate) fn output_rank(&self) -> usize {
        self.operation.out().shape.num_dims()
    }

    /// The operand that is not the weight, at one draw.
    fn operand(&self) -> &TensorIr {
        let mut inputs = self.operation.inputs.iter();
        let operand = inputs.find(|input| slot(input) == self.input);
        operand.expect("a tap is made for an operand")
    }

    /// The shape of the input at one draw.
    pub(crate) fn input_shape(&self) -> &[usize] {
        &self.operand().shape
    }

    /// The rank of the input at one draw.
    pub(crate) fn input_rank(&self) -> usize {
        self.input_shape().len()
    }

    /// Whether the input is of numbers, not of indices.
    pub(crate) fn reads_floats(&self) -> bool {
        self.operand().dtype.is_float()
    }

    /// The slots that inserting the leaf reads.
    fn reads(&self) -> impl Iterator<Item = usize> {
        let bias = self.bias.as_ref().map(|bias| bias.slot);
        [self.source, self.product].into_iter().chain(bias)
    }

    /// The axis of the output to which the bias belongs.
    pub(crate) fn channel(&self) -> usize {
        channel(&self.operation)
    }

    /// The memory of what the tap owns, in bytes.
    fn owned_bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| {
            vec_bytes(&bias.shape) + bias.view.as_ref().map_or(0, View::owned_bytes)
        });
        // Its output is described like the operation's.
        2 * self.operation.owned_bytes() + self.weight.as_ref().map_or(0, View::owned_bytes) + bias
    }
}

/// The axis of a product's result to which the bias belongs.
fn channel(operation: &Operation) -> usize {
    match operation.axes {
        AxisRule::Convolution(_) => 1,
        _ => operation.out().shape.num_dims() - 1,
    }
}

/// A parameter, or a view of several, with one copy for each example.
#[derive(Debug)]
pub(crate) struct ExampleCopy {
    pub(crate) source: usize,
    pub(crate) target: usize,
    /// The shape of the copies, with the example axis `axis`.
    pub(crate) shape: Vec<usize>,
    /// The rank of the copies at one draw.
    pub(crate) rank: usize,
    pub(crate) axis: ExampleAxis,
    /// The parameter, with one entry along `axis`.
    pub(crate) view: View,
}

/// The results of a replay, in the order of the plan's taps and copies.
pub(crate) struct Replay {
    pub(crate) losses: DynTensor,
    pub(crate) taps: Vec<Tapped>,
    pub(crate) copies: Vec<Option<DynTensor>>,
}

/// The results at a tap.
pub(crate) struct Tapped {
    pub(crate) input: DynTensor,
    /// The gradient at the output; `None` if the losses do not depend on it.
    pub(crate) delta: Option<DynTensor>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is only one example, which needs only one backward pass.
    Single,
    /// The loop over single examples is needed; the reason in words.
    Loop(String),
    /// There are no per-example gradients.
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Plan {
    /// The memory of what the plan owns, in bytes, with the tensors of its constants.
    pub(crate) fn owned_bytes(&self) -> usize {
        let Self {
            slots: _,
            module_tensors,
            inputs,
            losses: _,
            constants,
            constant_operations,
            steps,
            taps,
            copies,
            looped,
            example_constants,
            draws: _,
        } = self;
        let values = constants.iter().map(|(_, value)| {
            // As data and as a tensor.
            2 * data_bytes(value) + size_of::<(usize, DispatchTensor)>()
        });
        let computed = constant_operations.iter().flat_map(|run| &run.outputs);
        let computed = computed.map(|out| kept_bytes(out) + size_of::<(usize, DispatchTensor)>());
        let run = steps.iter().filter_map(Step::operation);
        let operations = run.chain(constant_operations).map(Operation::owned_bytes);
        let taps_own = taps.iter().map(Tap::owned_bytes);
        let copies_own = copies
            .iter()
            .map(|copied| vec_bytes(&copied.shape) + copied.view.owned_bytes());
        // A node of a tree has place for eleven numbers.
        let looped = looped.len() * 16 * size_of::<usize>()
            + example_constants.len() * 32 * size_of::<usize>();
        vec_bytes(module_tensors)
            + vec_bytes(inputs)
            + vec_bytes(constants)
            + vec_bytes(constant_operations)
            + vec_bytes(steps)
            + vec_bytes(taps)
            + vec_bytes(copies)
            + looped
            + values.sum::<usize>()
            + computed.sum::<usize>()
            + operations.sum::<usize>()
            + taps_own.sum::<usize>()
            + copies_own.sum::<usize>()
    }
}

impl Step {
    pub(crate) fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Run(operation) => Some(operation),
            Self::Tap(_) | Self::Copy(_) => None,
        }
    }
}

impl Plan {
    /// A plan without taps and copies, which evaluates a recording. Fails with the name of an operation that
    /// cannot be replayed.
    pub(crate) fn untapped(recording: Recording) -> Result<Self, String> {
        let mut plan = Self::of(&recording);
        let variable = plan.module_tensors.iter().chain(&plan.inputs);
        let mut variable: BTreeSet<usize> = variable.copied().collect();
        for operation in recording.operations {
            if !operation.is_supported() {
                return Err(format!("{} cannot be replayed", operation.name));
            }
            if operation.reads(|slot| variable.contains(&slot)) {
                variable.extend(operation.outputs.iter().map(slot));
                plan.steps.push(Step::Run(operation));
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
            module_tensors: recording.module_tensors.clone(),
            inputs: recording.inputs.clone(),
            losses: recording.losses,
            constants: recording.constants.clone(),
            constant_operations: Vec::new(),
            steps: Vec::new(),
            taps: Vec::new(),
            copies: Vec::new(),
            looped: BTreeSet::new(),
            example_constants: recording.example_constants.clone(),
            draws: None,
        }
    }

    /// The number of elements that the forward pass of a replay computes.
    pub(crate) fn numbers(&self) -> usize {
        let run = self.steps.iter().filter_map(Step::operation);
        let results = run.flat_map(|operation| &operation.outputs);
        results.map(|out| out.shape.num_elements()).sum()
    }
}
