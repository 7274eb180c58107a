//! Compiles recordings to programs for the CPU.
//!
//! A program evaluates a recording at one set of weights for any number of rows. Draws are loops around it. A
//! recording with an operation that has no way to be compiled is replayed instead.

mod operations;
mod spatial;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use burn::backend::DispatchTensor;
use burn_bayes_program::{Given, Program, Value, Workspace};
use rayon::prelude::*;

use crate::axis::ExampleAxis;
use crate::cpu::HostValues;
use crate::dyn_tensor::{DynTensor, device_of};
use crate::layout::Layout;
use crate::memory_use::{MemoryUse, vec_bytes};
use crate::operation::{Operation, slot};
use crate::parameters::{ModuleTensor, outside_numbers};
use crate::plan::{Plan, Replay, Step, Tapped};
use operations::Values;

/// Where a value that all rows share comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    /// The weights of a parameter of the layout.
    Parameter(usize),
    /// A tensor of the module, by its number in visiting order.
    Tensor(usize),
    /// The factor of the loss in gradients.
    Seed,
}

/// What a program computes besides the result of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Result,
    /// The gradients of the mean of the result.
    MeanGradients,
    /// The same with batch norm in training mode, and the statistics of the batch.
    TrainingGradients,
    /// The inputs of the plan's taps, and the gradients of the sum of the result at its taps and copies.
    Taps,
}

/// A compiled recording.
#[derive(Debug)]
pub(crate) struct CompiledRecording {
    program: Program,
    /// The number of rows of the batches that it was made for.
    examples: usize,
    shared: Vec<Shared>,
    /// Constants with an entry per row, which follow the batch's tensors.
    row_constants: Vec<Vec<f32>>,
    /// The parameters that gradients are computed for, in the order of the outputs.
    parameters: Vec<usize>,
    /// The trained tensors outside the layout that gradients are computed for, by their numbers in visiting order.
    outside: Vec<usize>,
    /// The running statistics whose values for the batch follow, by their numbers in visiting order.
    statistics: Vec<usize>,
    /// The places of the plan's taps among the outputs.
    taps: Vec<TapOutputs>,
    /// The places of the gradients of the plan's copies.
    copies: Vec<Option<usize>>,
    /// Memory of earlier runs.
    workspaces: Mutex<Vec<Workspace>>,
}

/// The results at one draw.
#[derive(Debug)]
pub(crate) struct AtDraw {
    /// The result of the recording, in row-major order.
    pub(crate) result: Vec<f32>,
    /// The gradients of the layout's weights, `[D]`.
    pub(crate) weights: Vec<f32>,
    /// The gradients of trained tensors outside the layout, by the numbers of these tensors.
    pub(crate) outside: Vec<(usize, Vec<f32>)>,
    /// The statistics of the batch for the running ones, by the numbers of these, in the order of evaluation.
    pub(crate) statistics: Vec<(usize, Vec<f32>)>,
}

/// The results of a tap.
#[derive(Clone, Copy, Debug)]
struct TapOutputs {
    input: TapInput,
    /// The place of the gradient at the output, unless it is zero.
    delta: Option<usize>,
}

/// Where the input of a tap is.
#[derive(Clone, Copy, Debug)]
enum TapInput {
    /// A tensor of the batch, by its number.
    Given(usize),
    /// An output.
    Output(usize),
}

/// The values of a module and a batch that all draws have in common.
pub(crate) struct HostInputs {
    tensors: Vec<Option<HostValues>>,
    rows: Vec<HostValues>,
    examples: usize,
}

impl HostInputs {
    /// The number of rows.
    pub(crate) fn examples(&self) -> usize {
        self.examples
    }
}

impl CompiledRecording {
    /// The number of numbers that an evaluation of so many rows computes.
    pub(crate) fn numbers(&self, examples: usize) -> usize {
        self.program.numbers(examples)
    }

    /// The number of multiplications in the products of an evaluation of so many rows.
    pub(crate) fn multiplications(&self, examples: usize) -> u64 {
        self.program.multiplications(examples)
    }

    /// Compiles a plan, whose taps and copies count only if they are wanted. Fails with the reason.
    pub(crate) fn new(
        plan: &Plan,
        tensors: &[ModuleTensor],
        inputs: &[DispatchTensor],
        examples: usize,
        wanted: Wanted,
    ) -> Result<Self, String> {
        let mut values = Values {
            examples,
            ..Values::default()
        };
        let mut shared = Vec::new();
        let mut leaves: BTreeMap<usize, Value> = BTreeMap::new();
        let mut outside: BTreeMap<usize, Value> = BTreeMap::new();
        let numbers = outside_numbers(tensors);
        for (number, (tensor, &slot)) in tensors.iter().zip(&plan.module_tensors).enumerate() {
            let shape = shape_of(&tensor.value);
            if shape.contains(&0) {
                return Err("a parameter has no elements".into());
            }
            if wanted == Wanted::TrainingGradients && tensor.statistic.is_some() {
                // It has no value: an operation other than batch norm must not read it, because it changes in every step.
                values.running.insert(slot, number);
                continue;
            }
            let mut leaf = |source| {
                shared.push(source);
                values.graph.shared(&shape)
            };
            let value = match (tensor.parameter, numbers[number]) {
                (Some(parameter), _) => leaves
                    .entry(parameter)
                    .or_insert_with(|| leaf(Shared::Parameter(parameter)))
                    .clone(),
                (None, Some(first)) => outside
                    .entry(first)
                    .or_insert_with(|| leaf(Shared::Tensor(first)))
                    .clone(),
                (None, None) => leaf(Shared::Tensor(number)),
            };
            values.of.insert(slot, value);
        }
        for (&slot, input) in plan.inputs.iter().zip(inputs) {
            let axis = ExampleAxis::plain(0);
            let axes = Values::axes_of(&shape_of(input), Some(axis));
            let axes = axes.ok_or("a tensor of the batch has no elements")?;
            let value = values.graph.rows(&axes);
            values.of.insert(slot, value);
            values.axes.insert(slot, axis);
        }
        let row_constants = add_constants(plan, tensors, &mut values)?;
        for step in &plan.steps {
            values.add_step(plan, step)?;
        }
        let result = values.of.get(&plan.losses).cloned();
        let is_of_rows = values.axes.get(&plan.losses) == Some(&ExampleAxis::plain(0));
        let result = result
            .filter(|_| is_of_rows)
            .ok_or("its result does not have an entry for each example")?;
        let mut outputs = vec![result.clone()];
        let (mut parameters, mut numbers) = (Vec::new(), Vec::new());
        let (mut taps, mut copies) = (Vec::new(), Vec::new());
        if wanted == Wanted::Taps {
            let seed = values.graph.filled(result.axes(), 1.0);
            (taps, copies) = add_taps(plan, &mut values, &result, &seed, &mut outputs)?;
        }
        if matches!(wanted, Wanted::MeanGradients | Wanted::TrainingGradients) {
            let factor = values.graph.shared(&[1]);
            shared.push(Shared::Seed);
            let seed = factor
                .expanded(result.axes())
                .ok_or("the loss is not a vector")?;
            let mut targets: Vec<_> = leaves.values().cloned().collect();
            targets.extend(outside.values().cloned());
            let gradients = values.graph.gradients(&result, &seed, &targets);
            let known = leaves.keys().map(|&parameter| (Some(parameter), None));
            let known = known.chain(outside.keys().map(|&number| (None, Some(number))));
            for (gradient, (parameter, number)) in gradients.into_iter().zip(known) {
                let Some(gradient) = gradient else {
                    continue;
                };
                outputs.push(gradient);
                parameters.extend(parameter);
                numbers.extend(number);
            }
        }
        let (statistics, of_batch): (Vec<_>, Vec<_>) = values.statistics.into_iter().unzip();
        outputs.extend(of_batch);
        let program = Program::new(values.graph, &outputs);
        let program = program.map_err(|reason| format!("{reason:?}"))?;
        Ok(Self {
            program,
            examples,
            shared,
            row_constants,
            parameters,
            outside: numbers,
            statistics,
            taps,
            copies,
            workspaces: Mutex::default(),
        })
    }

    /// The values that runs read. `None` if they are not on the CPU or have other element types.
    pub(crate) fn inputs(
        &self,
        tensors: &[ModuleTensor],
        inputs: Vec<DispatchTensor>,
        examples: usize,
    ) -> Option<HostInputs> {
        let tensors = tensors.iter().enumerate().map(|(number, tensor)| {
            if self.shared.contains(&Shared::Tensor(number)) {
                HostValues::of(tensor.value.clone()).map(Some)
            } else {
                Some(None)
            }
        });
        let rows = inputs.into_iter().map(HostValues::of);
        Some(HostInputs {
            tensors: tensors.collect::<Option<_>>()?,
            rows: rows.collect::<Option<_>>()?,
            examples,
        })
    }

    /// Runs the program at the layout's weights.
    ///
    /// Gradients are those of the losses times `factor`.
    fn run_into(
        &self,
        layout: &Layout,
        weights: &[f32],
        inputs: &HostInputs,
        factor: f32,
        outputs: &mut [&mut [f32]],
    ) {
        let factor = [factor];
        let entries = layout.entries();
        let shared = self.shared.iter().map(|source| match *source {
            Shared::Parameter(parameter) => {
                let entry = &entries[parameter];
                &weights[entry.offset..entry.offset + entry.len()]
            }
            Shared::Tensor(number) => {
                let values = inputs.tensors[number].as_ref();
                values
                    .expect("the tensors that are read were kept")
                    .values()
            }
            Shared::Seed => &factor,
        });
        let shared: Vec<&[f32]> = shared.collect();
        let constants = self.row_constants.iter().map(Vec::as_slice);
        let rows = inputs.rows.iter().map(HostValues::values).chain(constants);
        let rows: Vec<&[f32]> = rows.collect();
        let given = Given {
            shared: &shared,
            rows: &rows,
            count: inputs.examples,
        };
        let mut memory = self.workspace().pop().unwrap_or_default();
        self.program.run(given, &mut memory, outputs);
        self.workspace().push(memory);
    }

    /// The result at every draw, one after the other in row-major order.
    pub(crate) fn results(&self, layout: &Layout, draws: &[f32], inputs: &HostInputs) -> Vec<f32> {
        let count = draws.len() / layout.len().max(1);
        let len = inputs.examples * self.program.outputs()[0].len;
        let mut results = vec![0.0; count * len];
        let places = results.chunks_exact_mut(len).collect();
        self.for_draws(layout, draws, inputs, places, |place, weights| {
            self.run_into(layout, weights, inputs, 1.0, &mut [place]);
        });
        results
    }

    /// The gradients at the taps and copies of the plan. With several draws, all but the inputs of the batch have a
    /// leading axis of draws.
    pub(crate) fn replay(
        &self,
        plan: &Plan,
        (layout, draws): (&Layout, &[f32]),
        inputs: &HostInputs,
        batch: &[DispatchTensor],
    ) -> Replay {
        let count = draws.len() / layout.len().max(1);
        let lens = self
            .program
            .outputs()
            .iter()
            .map(|of| of.len * inputs.examples);
        let lens: Vec<_> = lens.collect();
        let mut all: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; count * len]).collect();
        let mut places: Vec<Vec<&mut [f32]>> = (0..count).map(|_| Vec::new()).collect();
        for (values, &len) in all.iter_mut().zip(&lens) {
            for (places, values) in places.iter_mut().zip(values.chunks_exact_mut(len)) {
                places.push(values);
            }
        }
        self.for_draws(layout, draws, inputs, places, |mut places, weights| {
            self.run_into(layout, weights, inputs, 1.0, &mut places);
        });
        let mut all: Vec<_> = all.into_iter().map(Some).collect();
        let device = device_of(batch.iter());
        let mut tensor = |place: usize, shape: &[usize], axis: ExampleAxis| {
            let values = all[place].take().expect("every output is read once");
            let values = DynTensor::from_host(values, &device);
            values.with_rows_moved(count, shape, axis.axis)
        };
        let losses = tensor(0, &[inputs.examples], ExampleAxis::plain(0));
        let taps = plan.taps.iter().zip(&self.taps).map(|(tap, found)| Tapped {
            input: match found.input {
                TapInput::Given(number) => DynTensor::new(batch[number].clone()),
                TapInput::Output(place) => tensor(place, tap.input_shape(), tap.input_axis),
            },
            delta: found
                .delta
                .map(|place| tensor(place, &tap.operation.out().shape, tap.output_axis)),
        });
        let taps = taps.collect();
        let copies =
            plan.copies.iter().zip(&self.copies).map(|(copied, place)| {
                place.map(|place| tensor(place, &copied.shape, copied.axis))
            });
        let copies = copies.collect();
        Replay {
            losses,
            taps,
            copies,
        }
    }

    /// The recording and its gradients at every draw, one after the other in `draws`.
    pub(crate) fn at_draws(
        &self,
        layout: &Layout,
        draws: &[f32],
        inputs: &HostInputs,
    ) -> Vec<AtDraw> {
        let count = draws.len() / layout.len().max(1);
        self.for_draws(layout, draws, inputs, vec![(); count], |(), weights| {
            self.run(layout, weights, inputs)
        })
    }

    /// Runs `run` with every draw and its place: on several threads if they help.
    fn for_draws<P: Send, R: Send>(
        &self,
        layout: &Layout,
        draws: &[f32],
        inputs: &HostInputs,
        places: Vec<P>,
        run: impl Fn(P, &[f32]) -> R + Sync,
    ) -> Vec<R> {
        let is_long = self.is_long(places.len(), inputs);
        let run = |(place, weights): (P, &[f32])| run(place, weights);
        if is_long {
            let weights = draws.par_chunks_exact(layout.len());
            places.into_par_iter().zip(weights).map(run).collect()
        } else {
            let weights = draws.chunks_exact(layout.len());
            places.into_iter().zip(weights).map(run).collect()
        }
    }

    /// Whether so many draws take long enough for other threads to help.
    fn is_long(&self, draws: usize, inputs: &HostInputs) -> bool {
        /// The number of numbers that a thread should compute at least.
        const SHARE: usize = 1 << 15;
        draws > 1 && self.program.numbers(inputs.examples) >= SHARE
    }

    /// Evaluates the recording and the gradients of its mean at the layout's weights.
    fn run(&self, layout: &Layout, weights: &[f32], inputs: &HostInputs) -> AtDraw {
        let has_gradients = self.program.outputs().len() > 1;
        let mut gradient = vec![0.0; if has_gradients { layout.len() } else { 0 }];
        let factor = 1.0 / inputs.examples as f32;
        let (result, others) = self.evaluate(layout, weights, inputs, factor, &mut gradient);
        let mut others = others.into_iter();
        let outside = self.outside.iter().copied().zip(others.by_ref());
        AtDraw {
            result,
            weights: gradient,
            outside: outside.collect(),
            statistics: self.statistics.iter().copied().zip(others).collect(),
        }
    }

    /// The losses of the rows at the layout's weights, and in `gradient` that of their sum.
    pub(crate) fn sum(
        &self,
        layout: &Layout,
        weights: &[f32],
        inputs: &HostInputs,
        gradient: &mut [f32],
    ) -> Vec<f32> {
        gradient.fill(0.0);
        self.evaluate(layout, weights, inputs, 1.0, gradient).0
    }

    /// The result, the gradients outside the layout, and after them the statistics of the batch. The gradients of the
    /// layout's weights are written to `gradient`, as far as the recording depends on them.
    fn evaluate(
        &self,
        layout: &Layout,
        weights: &[f32],
        inputs: &HostInputs,
        factor: f32,
        gradient: &mut [f32],
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let entries = layout.entries();
        let described = self.program.outputs();
        let mut result = vec![0.0; inputs.examples * described[0].len];
        let others = &described[1 + self.parameters.len()..];
        let mut others: Vec<Vec<f32>> = others.iter().map(|of| vec![0.0; of.len]).collect();
        let mut outputs: Vec<&mut [f32]> = vec![&mut result];
        let mut rest = gradient;
        let mut passed = 0;
        for &parameter in &self.parameters {
            let entry = &entries[parameter];
            let (_, after) = rest.split_at_mut(entry.offset - passed);
            let (place, after) = after.split_at_mut(entry.len());
            passed = entry.offset + entry.len();
            outputs.push(place);
            rest = after;
        }
        outputs.extend(others.iter_mut().map(Vec::as_mut_slice));
        self.run_into(layout, weights, inputs, factor, &mut outputs);
        (result, others)
    }

    fn workspace(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        self.workspaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryUse for CompiledRecording {
    fn bytes(&self) -> usize {
        let constants = self.row_constants.iter().map(vec_bytes);
        size_of::<Self>()
            + self.program.bytes(self.examples)
            + vec_bytes(&self.shared)
            + vec_bytes(&self.parameters)
            + vec_bytes(&self.outside)
            + vec_bytes(&self.statistics)
            + vec_bytes(&self.row_constants)
            + constants.sum::<usize>()
    }
}

/// The program, or none with its reason in the log: once for every reason.
pub(crate) fn said<P>(program: Result<P, String>) -> Option<P> {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let reason = match program {
        Ok(program) => return Some(program),
        Err(reason) => reason,
    };
    let mut known = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains(&reason) {
        log::info!("a recording is replayed by Burn's operations, which is slower: {reason}");
        known.insert(reason);
    }
    None
}

/// Whether the tensors are on Burn's CPU backend, with element types that programs have.
pub(crate) fn on_host(tensors: &[ModuleTensor]) -> bool {
    let mut tensors = tensors.iter();
    tensors.all(|tensor| HostValues::of(tensor.value.clone()).is_some())
}

fn shape_of(tensor: &DispatchTensor) -> Vec<usize> {
    use burn::backend::TensorMetadata;
    tensor.shape().to_vec()
}

/// Adds the constants of a plan. Returns those with an entry per row.
fn add_constants(
    plan: &Plan,
    tensors: &[ModuleTensor],
    values: &mut Values,
) -> Result<Vec<Vec<f32>>, String> {
    let device = device_of(tensors.iter().map(|tensor| &tensor.value));
    let mut row_constants = Vec::new();
    for (slot, tensor) in plan.computed_constants(&device) {
        let shape = shape_of(&tensor);
        let Some(numbers) = HostValues::of(tensor) else {
            // It may be one that no other operation reads.
            continue;
        };
        let numbers = numbers.values();
        let axis = plan.example_constants.get(&slot);
        let axis = axis.map(|&axis| ExampleAxis::plain(axis));
        let Some(axes) = Values::axes_of(&shape, axis) else {
            continue;
        };
        let is_even = numbers
            .iter()
            .all(|number| number.to_bits() == numbers[0].to_bits());
        let value = if is_even {
            values.graph.filled(&axes, numbers[0])
        } else if let Some(ExampleAxis { axis, .. }) = axis {
            row_constants.push(rows_first(numbers, &shape, axis));
            values.graph.rows(&axes)
        } else {
            values.graph.constant(&shape, numbers.to_vec())
        };
        values.of.insert(slot, value);
        if let Some(axis) = axis {
            values.axes.insert(slot, axis);
        }
    }
    Ok(row_constants)
}

/// Numbers of this shape with one axis moved to the front.
fn rows_first(numbers: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let len = shape[axis];
    let mut moved = Vec::with_capacity(numbers.len());
    for row in 0..len {
        for block in 0..outer {
            let start = (block * len + row) * inner;
            moved.extend_from_slice(&numbers[start..start + inner]);
        }
    }
    moved
}

/// Adds the outputs of a plan's taps and copies.
fn add_taps(
    plan: &Plan,
    values: &mut Values,
    losses: &Value,
    seed: &Value,
    outputs: &mut Vec<Value>,
) -> Result<(Vec<TapOutputs>, Vec<Option<usize>>), String> {
    let of_taps = plan.taps.iter().map(|tap| slot(&tap.output));
    let targets = of_taps.chain(plan.copies.iter().map(|copied| copied.target));
    let targets: Option<Vec<_>> = targets.map(|slot| values.of.get(&slot).cloned()).collect();
    let targets = targets.ok_or("a product cannot be compiled")?;
    let gradients = values.graph.gradients(losses, seed, &targets);
    let mut add = |value: Value| {
        outputs.push(value);
        outputs.len() - 1
    };
    let mut gradients = gradients.into_iter().map(|gradient| gradient.map(&mut add));
    let deltas: Vec<_> = gradients.by_ref().take(plan.taps.len()).collect();
    let copies = gradients.collect();
    let mut taps = Vec::with_capacity(deltas.len());
    for (tap, delta) in plan.taps.iter().zip(deltas) {
        let given = plan.inputs.iter().position(|&input| input == tap.source);
        let input = match given {
            Some(number) => TapInput::Given(number),
            None if tap.reads_floats() => {
                let value = values.of.get(&tap.source).cloned();
                outputs.push(value.ok_or("an input of a product cannot be compiled")?);
                TapInput::Output(outputs.len() - 1)
            }
            None => return Err("an index is computed".into()),
        };
        taps.push(TapOutputs { input, delta });
    }
    Ok((taps, copies))
}

/// Why an operation has no program.
fn uncompiled(operation: &Operation) -> String {
    format!("{} cannot be compiled", operation.name)
}

impl Values {
    fn add_step(&mut self, plan: &Plan, step: &Step) -> Result<(), String> {
        match step {
            Step::Run(operation) => self.add(operation).ok_or_else(|| uncompiled(operation)),
            Step::Tap(number) => {
                let tap = &plan.taps[*number];
                self.add_tap(tap).ok_or_else(|| uncompiled(&tap.operation))
            }
            Step::Copy(number) => {
                let added = self.add_copy(&plan.copies[*number]);
                added.ok_or_else(|| "a parameter cannot be copied for each example".into())
            }
        }
    }
}
