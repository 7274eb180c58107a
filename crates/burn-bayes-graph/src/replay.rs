//! Replays a plan: forward with leaves put in, one backward pass, the gradients at the leaves.

use std::sync::{Mutex, PoisonError};

use burn::backend::ir::OperationIr;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{AutodiffBackend, Dispatch, DispatchDevice, DispatchTensor, TensorMetadata};
use burn::tensor::TensorData;

use crate::execute::{Slots, execute};
use crate::memo::Weighed;
use crate::parameters::Held;
use crate::plan::{Copied, Plan, Step, Tap};
use crate::untyped::Untyped;

/// What a replay leaves behind, in the order of the plan's taps and copies.
pub(crate) struct Replay {
    pub(crate) losses: Untyped,
    pub(crate) taps: Vec<Tapped>,
    pub(crate) copies: Vec<Option<Untyped>>,
}

/// A tap after the backward pass.
pub(crate) struct Tapped {
    pub(crate) input: Untyped,
    /// The gradient at the output; `None` if no loss depends on it.
    pub(crate) delta: Option<Untyped>,
}

/// What a forward pass leaves behind, in the order of the plan's taps and copies.
struct Forward {
    losses: DispatchTensor,
    /// Inputs and leaves.
    taps: Vec<(DispatchTensor, DispatchTensor)>,
    /// Leaves.
    copies: Vec<DispatchTensor>,
}

/// A plan, and what replays of it share.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) plan: Plan,
    /// The tensors that no replay changes, on the device of the last one.
    constants: Mutex<Option<(DispatchDevice, Filled)>>,
}

/// Tensors and their slots.
type Filled = Vec<(usize, DispatchTensor)>;

impl Player {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            constants: Mutex::default(),
        }
    }

    /// Evaluates the losses and the gradients at the leaves, from the module's tensors and the
    /// batch's.
    pub(crate) fn replay(&self, tensors: Vec<Held>, inputs: Vec<DispatchTensor>) -> Replay {
        let Forward {
            losses,
            taps,
            copies,
        } = self.forward(tensors, inputs);
        if taps.is_empty() && copies.is_empty() {
            return Replay {
                losses: Untyped::new(losses),
                taps: Vec::new(),
                copies: Vec::new(),
            };
        }
        let mut gradients = Dispatch::backward(Dispatch::float_sum(losses.clone()));
        let mut gradient =
            |leaf: &DispatchTensor| Dispatch::grad_remove(leaf, &mut gradients).map(Untyped::new);
        let taps = taps.into_iter().map(|(input, leaf)| Tapped {
            input: Untyped::new(input),
            delta: gradient(&leaf),
        });
        let taps = taps.collect();
        let copies = copies.iter().map(gradient).collect();
        Replay {
            losses: Untyped::new(losses),
            taps,
            copies,
        }
    }

    /// Evaluates the losses; they depend on the given tensors as those require.
    pub(crate) fn losses(&self, tensors: Vec<Held>, inputs: Vec<DispatchTensor>) -> DispatchTensor {
        self.forward(tensors, inputs).losses
    }

    fn forward(&self, tensors: Vec<Held>, inputs: Vec<DispatchTensor>) -> Forward {
        let plan = &self.plan;
        // The batch first: a leaf's device is one with autodiff.
        let held = tensors.iter().map(|held| &held.value);
        let device = device_of(inputs.iter().chain(held));
        let mut slots = Slots::new(plan.slots, device.clone());
        for (slot, value) in self.constants_on(&device) {
            slots.set(slot, value);
        }
        for (slot, held) in plan.held.iter().zip(tensors) {
            slots.set(*slot, held.value);
        }
        for (slot, value) in plan.inputs.iter().zip(inputs) {
            slots.set(*slot, value);
        }
        let (mut taps, mut copies) = (Vec::new(), Vec::new());
        for step in &plan.steps {
            match step {
                Step::Run(operation) => run(operation, &mut slots),
                Step::Tap(number) => taps.push(plan.taps[*number].put_in(&mut slots)),
                Step::Copy(number) => copies.push(plan.copies[*number].put_in(&mut slots)),
            }
        }
        Forward {
            losses: slots.get(plan.losses).clone(),
            taps,
            copies,
        }
    }

    fn constants_on(&self, device: &DispatchDevice) -> Filled {
        let mut known = self
            .constants
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((place, tensors)) if place == device => tensors.clone(),
            _ => {
                let tensors = self.plan.computed_constants(device);
                *known = Some((device.clone(), tensors.clone()));
                tensors
            }
        }
    }
}

impl Weighed for Player {
    fn bytes(&self) -> usize {
        let plan = &self.plan;
        let operations = plan.steps.len() + plan.constant_operations.len();
        // Constants are held as data and as tensors.
        let constants = plan.constants.iter();
        let constants: usize = constants.map(|(_, value)| 2 * value.as_bytes().len()).sum();
        let computed = plan.constant_operations.iter();
        let computed = computed.flat_map(|operation| operation.outputs());
        let computed: usize = computed.map(|out| 4 * out.shape.num_elements()).sum();
        operations * size_of::<OperationIr>() + constants + computed
    }
}

impl Plan {
    /// Every constant that the recording made, or computed from others.
    pub(crate) fn computed_constants(&self, device: &DispatchDevice) -> Filled {
        let mut slots = Slots::new(self.slots, device.clone());
        for (slot, value) in &self.constants {
            slots.set(*slot, upload(value.clone(), device));
        }
        for operation in &self.constant_operations {
            run(operation, &mut slots);
        }
        slots.into_filled()
    }
}

impl Tap {
    /// Adds the leaf to the product; returns the input and the leaf.
    fn put_in(&self, slots: &mut Slots) -> (DispatchTensor, DispatchTensor) {
        let input = slots.get(self.source).clone();
        let product = slots.get(self.product).clone();
        let bias = self.bias.as_ref().map(|bias| {
            let value = Untyped::new(slots.get(bias.slot).clone());
            value.reshape(&bias.shape).into_dispatch()
        });
        let (leaf, output) = if self.is_tracked {
            let dtype = self.output.dtype.into();
            let shape = self.output.shape.clone();
            let leaf = leaf(match bias {
                Some(bias) => Dispatch::float_expand(bias, shape),
                None => Dispatch::float_zeros(shape, slots.device(), dtype),
            });
            (leaf.clone(), Dispatch::float_add(product, leaf))
        } else {
            // Nothing before it has a gradient: the output itself can be the leaf.
            let output = match bias {
                Some(bias) => Dispatch::float_add(product, bias),
                None => product,
            };
            let leaf = leaf(output);
            (leaf.clone(), leaf)
        };
        slots.set(self.output.id.value() as usize, output);
        (input, leaf)
    }
}

impl Copied {
    fn put_in(&self, slots: &mut Slots) -> DispatchTensor {
        let source = Untyped::new(slots.get(self.source).clone());
        let leaf = leaf(source.expand(&self.shape).into_dispatch());
        slots.set(self.target, leaf.clone());
        leaf
    }
}

/// The tensor as one whose gradient a backward pass gives.
pub(crate) fn leaf(tensor: DispatchTensor) -> DispatchTensor {
    Dispatch::float_set_require_grad(Dispatch::from_inner(tensor), true)
}

fn run(operation: &OperationIr, slots: &mut Slots) {
    if let Err(unsupported) = execute(operation, slots) {
        unreachable!("{} was refused when the plan was made", unsupported.0);
    }
}

/// Where the first of these tensors is.
pub(crate) fn device_of<'a>(
    mut tensors: impl Iterator<Item = &'a DispatchTensor>,
) -> DispatchDevice {
    let first = tensors.next();
    first.map_or_else(DispatchDevice::default, TensorMetadata::device)
}

/// A constant as a tensor.
pub(crate) fn upload(value: TensorData, device: &DispatchDevice) -> DispatchTensor {
    let dtype = value.dtype();
    if dtype.is_float() {
        Dispatch::float_from_data(value, device)
    } else if dtype.is_bool() {
        Dispatch::bool_from_data(value, device)
    } else {
        Dispatch::int_from_data(value, device)
    }
}
