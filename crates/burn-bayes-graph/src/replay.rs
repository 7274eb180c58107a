//! Replays a plan: a forward pass with leaves, and one backward pass to the leaves.

use std::sync::{Mutex, PoisonError};

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{AutodiffBackend, Dispatch, DispatchDevice, DispatchTensor};
use burn::tensor::TensorData;

use crate::compile::CompiledRecording;
use crate::dyn_tensor::{DynTensor, device_of};
use crate::layout::Layout;
use crate::memory_use::MemoryUse;
use crate::operation::{Slots, slot};
use crate::parameters::ModuleTensor;
use crate::plan::{ExampleCopy, Plan, Replay, Step, Tap, Tapped};

/// The results of a forward pass, in the order of the plan's taps and copies.
struct Forward {
    losses: DispatchTensor,
    /// The input and the leaf of each tap.
    taps: Vec<(DispatchTensor, DispatchTensor)>,
    /// The leaf of each copy.
    copies: Vec<DispatchTensor>,
}

/// A plan with its constants as tensors, which replays share.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) plan: Plan,
    /// The plan as a program, if it can be compiled.
    program: Option<CompiledRecording>,
    /// The constants on the device of the last replay.
    constants: Mutex<Option<(DispatchDevice, Filled)>>,
}

/// Tensors and their slots.
type Filled = Vec<(usize, DispatchTensor)>;

impl Player {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            program: None,
            constants: Mutex::default(),
        }
    }

    /// With this program for the plan.
    pub(crate) fn with_program(self, program: Option<CompiledRecording>) -> Self {
        Self { program, ..self }
    }

    /// Whether the plan is compiled.
    pub(crate) fn is_compiled(&self) -> bool {
        self.program.is_some()
    }

    /// Evaluates the losses and the gradients at the leaves, at one or several draws of the layout's weights, by the
    /// program. `None` if there is none, or for a batch that it cannot read.
    pub(crate) fn run(
        &self,
        (layout, draws): (&Layout, &[f32]),
        tensors: &[ModuleTensor],
        inputs: Vec<DispatchTensor>,
        examples: usize,
    ) -> Option<Replay> {
        let program = self.program.as_ref()?;
        let read = program.inputs(tensors, inputs.clone(), examples)?;
        Some(program.replay(&self.plan, (layout, draws), &read, &inputs))
    }

    /// Evaluates the losses and the gradients at the leaves, for the tensors of a module and of a batch.
    pub(crate) fn replay(&self, tensors: Vec<ModuleTensor>, inputs: Vec<DispatchTensor>) -> Replay {
        let Forward {
            losses,
            taps,
            copies,
        } = self.forward(tensors, inputs);
        if taps.is_empty() && copies.is_empty() {
            return Replay {
                losses: DynTensor::new(losses),
                taps: Vec::new(),
                copies: Vec::new(),
            };
        }
        let mut gradients = Dispatch::backward(Dispatch::float_sum(losses.clone()));
        let mut gradient =
            |leaf: &DispatchTensor| Dispatch::grad_remove(leaf, &mut gradients).map(DynTensor::new);
        let taps = taps.into_iter().map(|(input, leaf)| Tapped {
            input: DynTensor::new(input),
            delta: gradient(&leaf),
        });
        let taps = taps.collect();
        let copies = copies.iter().map(gradient).collect();
        Replay {
            losses: DynTensor::new(losses),
            taps,
            copies,
        }
    }

    /// Evaluates the result of the recording. It is tracked if one of the given tensors is.
    pub(crate) fn outputs(
        &self,
        tensors: Vec<ModuleTensor>,
        inputs: Vec<DispatchTensor>,
    ) -> DispatchTensor {
        self.forward(tensors, inputs).losses
    }

    fn forward(&self, tensors: Vec<ModuleTensor>, inputs: Vec<DispatchTensor>) -> Forward {
        let plan = &self.plan;
        // The batch comes first, because the module's tensors may be leaves on an autodiff device.
        let values = tensors.iter().map(|tensor| &tensor.value);
        let device = device_of(inputs.iter().chain(values));
        let mut slots = Slots::new(plan.slots.0, device.clone());
        for (slot, value) in self.constants_on(&device) {
            slots.set(slot, value);
        }
        for (slot, tensor) in plan.module_tensors.iter().zip(tensors) {
            slots.set(*slot, tensor.value);
        }
        for (slot, value) in plan.inputs.iter().zip(inputs) {
            slots.set(*slot, value);
        }
        let (mut taps, mut copies) = (Vec::new(), Vec::new());
        for step in &plan.steps {
            match step {
                Step::Run(operation) => operation.run(&mut slots),
                Step::Tap(number) => taps.push(plan.taps[*number].insert(&mut slots)),
                Step::Copy(number) => copies.push(plan.copies[*number].insert(&mut slots)),
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

impl MemoryUse for Player {
    fn bytes(&self) -> usize {
        let program = self.program.as_ref().map_or(0, MemoryUse::bytes);
        size_of::<Self>() + self.plan.owned_bytes() + program
    }
}

impl Plan {
    /// The constants of the recording, and the results of operations on constants alone.
    pub(crate) fn computed_constants(&self, device: &DispatchDevice) -> Filled {
        let mut slots = Slots::new(self.slots.0, device.clone());
        for (slot, value) in &self.constants {
            slots.set(*slot, upload(value.clone(), device));
        }
        for operation in &self.constant_operations {
            operation.run(&mut slots);
        }
        slots.into_filled()
    }
}

impl Tap {
    /// Adds a leaf to the product. Returns the input and the leaf.
    fn insert(&self, slots: &mut Slots) -> (DispatchTensor, DispatchTensor) {
        let input = slots.get(self.source).clone();
        let product = slots.get(self.product).clone();
        let bias = self.bias.as_ref().map(|bias| {
            let value = DynTensor::new(slots.get(bias.slot).clone());
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
            // The product itself is not tracked, so that it can be the leaf.
            let output = match bias {
                Some(bias) => Dispatch::float_add(product, bias),
                None => product,
            };
            let leaf = leaf(output);
            (leaf.clone(), leaf)
        };
        slots.set(slot(&self.output), output);
        (input, leaf)
    }
}

impl ExampleCopy {
    fn insert(&self, slots: &mut Slots) -> DispatchTensor {
        let source = DynTensor::new(slots.get(self.source).clone());
        let leaf = leaf(source.expand(&self.shape).into_dispatch());
        slots.set(self.target, leaf.clone());
        leaf
    }
}

/// Makes the tensor a leaf of the autodiff graph.
pub(crate) fn leaf(tensor: DispatchTensor) -> DispatchTensor {
    Dispatch::float_set_require_grad(Dispatch::from_inner(tensor), true)
}

/// Uploads a constant to the device.
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
