//! Compiled forward passes, which compute what draws of the weights have in common once.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use burn::backend::DispatchTensor;

use crate::capture::Recording;
use crate::compile::{CompiledRecording, Wanted};
use crate::dyn_tensor::{DynTensor, device_of};
use crate::layout::Layout;
use crate::lower::lowered;
use crate::memory_use::{MemoryUse, vec_bytes};
use crate::operation::{Operation, slot};
use crate::parameters::{ModuleTensor, parameters_of};
use crate::plan::Plan;

/// A compiled forward pass.
#[derive(Debug)]
pub(crate) struct CompiledForward {
    features: Option<Features>,
    /// From the features if there are any, else from the batch.
    outputs: CompiledRecording,
}

/// What the layout's weights do not change, such as the layers before the last.
#[derive(Debug)]
struct Features {
    program: CompiledRecording,
    /// The shape at the recorded number of rows.
    shape: Vec<usize>,
}

impl CompiledForward {
    /// Compiles the recording of a batch with so many rows. Fails with the reason.
    pub(crate) fn new(
        recording: Recording,
        tensors: &[ModuleTensor],
        batch: &[DispatchTensor],
        examples: usize,
    ) -> Result<Self, String> {
        let recording = lowered(recording, &parameters_of(tensors));
        let compiled = |recording: Recording, batch: &[DispatchTensor]| {
            let plan = Plan::untapped(recording)?;
            CompiledRecording::new(&plan, tensors, batch, examples, Wanted::Result)
        };
        if let Some(halves) = Halves::of(&recording, tensors) {
            let Halves {
                before,
                after,
                shape,
            } = halves;
            // A tensor without memory for its elements, which only its shape is read of.
            let device = device_of(tensors.iter().map(|tensor| &tensor.value));
            let features = DynTensor::from_host(vec![0.0], &device).reshape(&vec![1; shape.len()]);
            let features = features.expand(&shape);
            let both = compiled(before, batch)
                .and_then(|before| Ok((before, compiled(after, &[features.into_dispatch()])?)));
            if let Ok((program, outputs)) = both
                && program.multiplications(examples) > 0
            {
                let features = Some(Features { program, shape });
                return Ok(Self { features, outputs });
            }
        }
        Ok(Self {
            features: None,
            outputs: compiled(recording, batch)?,
        })
    }

    /// The outputs at every draw, one after the other in row-major order. `None` for tensors that programs cannot read.
    pub(crate) fn results(
        &self,
        (layout, draws): (&Layout, &[f32]),
        tensors: &[ModuleTensor],
        batch: Vec<DispatchTensor>,
        examples: usize,
    ) -> Option<Vec<f32>> {
        let batch = match &self.features {
            Some(Features { program, shape }) => {
                let inputs = program.inputs(tensors, batch, examples)?;
                let one = &draws[..layout.len()];
                let values = program.results(layout, one, &inputs);
                let device = device_of(tensors.iter().map(|tensor| &tensor.value));
                vec![
                    DynTensor::from_host(values, &device)
                        .reshape(shape)
                        .into_dispatch(),
                ]
            }
            None => batch,
        };
        let inputs = self.outputs.inputs(tensors, batch, examples)?;
        Some(self.outputs.results(layout, draws, &inputs))
    }
}

impl MemoryUse for CompiledForward {
    fn bytes(&self) -> usize {
        let features = self.features.as_ref();
        let features = features.map(|of| of.program.bytes() + vec_bytes(&of.shape));
        self.outputs.bytes() + features.unwrap_or(0)
    }
}

/// A recording in two.
struct Halves {
    /// What the layout's weights do not change.
    before: Recording,
    /// The rest, which has the result of the first half instead of the batch.
    after: Recording,
    /// The shape of that result.
    shape: Vec<usize>,
}

impl Halves {
    /// `None` unless there is one tensor through which the batch gets to the layout's weights.
    fn of(recording: &Recording, tensors: &[ModuleTensor]) -> Option<Self> {
        let slots = recording.module_tensors.iter().zip(tensors);
        let weights = slots.filter(|(_, tensor)| tensor.parameter.is_some());
        let mut drawn: BTreeSet<usize> = weights.map(|(&slot, _)| slot).collect();
        let mut data: BTreeSet<usize> = recording.inputs.iter().copied().collect();
        let mut read = BTreeSet::new();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for operation in &recording.operations {
            let outputs = operation.outputs.iter().map(slot);
            if operation.reads(|slot| drawn.contains(&slot)) {
                drawn.extend(outputs);
                let inputs = operation.inputs.iter().map(slot);
                read.extend(inputs.filter(|slot| data.contains(slot)));
                after.push(operation.clone());
                continue;
            }
            before.push(operation.clone());
            if operation.reads(|slot| data.contains(&slot)) {
                data.extend(outputs);
            } else {
                // Of constants and fixed weights: both halves may need it.
                after.push(operation.clone());
            }
        }
        let mut read = read.into_iter();
        let features = read.next().filter(|_| read.next().is_none())?;
        let mut made = before.iter().flat_map(|operation| &operation.outputs);
        let made = made.find(|out| slot(out) == features)?;
        let shape = made.shape.to_vec();
        let half = |operations: Vec<Operation>| Recording {
            operations,
            ..recording.clone()
        };
        Some(Self {
            before: Recording {
                losses: features,
                ..half(before)
            },
            after: Recording {
                inputs: vec![features],
                ..half(after)
            },
            shape,
        })
    }
}
