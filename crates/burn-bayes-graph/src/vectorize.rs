//! Vectorises a recording over draws: parameters get a leading axis of S draws, and one pass evaluates all.
//!
//! Tensors that do not depend on a parameter keep their shape and are computed once for all draws.

mod rewrite;

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::TensorIr;

use crate::capture::Recording;
use crate::operation::{AxisRule, Convolution, Operation, SlotCount, slot};
use crate::parameters::parameter_slots;

/// The recording vectorised over `draws` draws of the tensors that `parameters` marks. Fails with the name of
/// an operation that cannot be vectorised.
pub(crate) fn vectorize_draws(
    recording: Recording,
    parameters: &[Option<usize>],
    draws: usize,
) -> Result<Recording, String> {
    let vectorized = parameter_slots(&recording.module_tensors, parameters);
    let mut vectorizer = Vectorizer::new(recording.slots, vectorized, draws);
    for operation in recording.operations {
        vectorizer.run(operation)?;
    }
    if !vectorizer.vectorized.contains(&recording.losses) {
        return Err("the output does not depend on the weights".into());
    }
    Ok(Recording {
        losses: vectorizer.place(recording.losses),
        operations: vectorizer.operations,
        slots: vectorizer.slots,
        ..recording
    })
}

/// Vectorises operations one by one.
pub(crate) struct Vectorizer {
    /// The operations so far.
    pub(crate) operations: Vec<Operation>,
    pub(crate) slots: SlotCount,
    /// The slots of tensors that have an axis of draws.
    pub(crate) vectorized: BTreeSet<usize>,
    /// Vectorised tensors that lie in another slot.
    pub(crate) renamed: BTreeMap<usize, TensorIr>,
    pub(crate) draws: usize,
}

impl Vectorizer {
    /// Starts from the `vectorized` slots, which hold a tensor for each of the `draws`.
    pub(crate) fn new(slots: SlotCount, vectorized: BTreeSet<usize>, draws: usize) -> Self {
        Self {
            operations: Vec::new(),
            slots,
            vectorized,
            renamed: BTreeMap::new(),
            draws,
        }
    }

    /// Adds an operation, vectorised if one of its operands is. Fails with its name if that is impossible.
    pub(crate) fn run(&mut self, operation: Operation) -> Result<(), String> {
        if operation.reads(|slot| self.vectorized.contains(&slot)) {
            self.add(operation)
        } else {
            self.push(operation);
            Ok(())
        }
    }

    /// The slot in which the vectorised tensor of a slot lies.
    pub(crate) fn place(&self, number: usize) -> usize {
        self.renamed.get(&number).map_or(number, slot)
    }

    pub(crate) fn is_vectorized(&self, tensor: &TensorIr) -> bool {
        self.vectorized.contains(&slot(tensor))
    }

    fn add(&mut self, operation: Operation) -> Result<(), String> {
        let operands = operation.inputs.len();
        match &operation.axes {
            AxisRule::Elementwise
            | AxisRule::Cast
            | AxisRule::Matmul
            | AxisRule::Reshape
            | AxisRule::Permute(_)
            | AxisRule::Slice(_)
            | AxisRule::Repeat(..) => self.emit(operation, operands, Alignment::Broadcast),
            AxisRule::Mask
            | AxisRule::Along(_)
            | AxisRule::Flip(_)
            | AxisRule::Cat(_)
            | AxisRule::SliceAssign(_)
            | AxisRule::Gather(_) => self.emit(operation, operands, Alignment::Full),
            // Only the operand is vectorised: `lower` splits off scales and shifts that depend on weights.
            AxisRule::LayerNorm => self.emit(operation, 1, Alignment::Broadcast),
            AxisRule::Select(_) | AxisRule::Embedding
                if self.is_vectorized(&operation.inputs[1]) =>
            {
                return Err(operation.name);
            }
            AxisRule::Select(_) => self.emit(operation, 1, Alignment::Broadcast),
            AxisRule::Embedding => self.embedding(&operation),
            AxisRule::Expand => self.expand(operation),
            AxisRule::Linear => self.linear(&operation),
            AxisRule::Convolution(convolution) => {
                let convolution = convolution.clone();
                self.convolution(operation, convolution);
            }
            // Draws become further examples.
            AxisRule::Spatial { .. } | AxisRule::BatchNorm => self.fold(operation, 1),
            AxisRule::Attention => self.fold(operation, operands),
            AxisRule::Whole(Some(reduction)) => {
                let reduction = *reduction;
                let [input, result] = [&operation.inputs[0], operation.out()];
                let flat = [self.draws, input.shape.num_elements()];
                let input = self.reshaped(self.with_draws(input), &flat);
                let out = self.slots.tensor(&input, &[self.draws, 1]);
                self.push(Operation::reduce(reduction, input, 1, out.clone()));
                self.finish(out, result);
            }
            AxisRule::Whole(None) | AxisRule::Creation | AxisRule::Random | AxisRule::Unknown => {
                return Err(operation.name);
            }
        }
        Ok(())
    }

    fn expand(&mut self, mut operation: Operation) {
        let input = &operation.inputs[0];
        let new = operation.out().shape.num_dims() - input.shape.num_dims();
        let mut shape = vec![self.draws];
        shape.extend(std::iter::repeat_n(1, new));
        shape.extend_from_slice(&input.shape);
        operation.inputs[0] = self.reshaped(self.with_draws(input), &shape);
        self.emit(operation, 0, Alignment::Broadcast);
    }

    fn embedding(&mut self, operation: &Operation) {
        let [weights, indices] = [&operation.inputs[0], &operation.inputs[1]];
        let picked = indices.shape.num_elements();
        let indices = self.reshaped(indices.clone(), &[picked]);
        let rows = [self.draws, picked, weights.shape[1]];
        let rows = self.slots.tensor(weights, &rows);
        let weights = self.with_draws(weights);
        self.push(Operation::select(weights, 1, indices, rows.clone()));
        self.finish(rows, operation.out());
    }

    /// A batched matrix product, and its bias.
    fn linear(&mut self, operation: &Operation) {
        let [x, weight] = [&operation.inputs[0], &operation.inputs[1]];
        let [rows, features] = flat(&x.shape);
        let width = operation.out().shape[x.shape.num_dims() - 1];
        let x = if self.is_vectorized(x) {
            self.reshaped(self.with_draws(x), &[self.draws, rows, features])
        } else {
            self.reshaped(x.clone(), &[1, rows, features])
        };
        let weight = self.aligned(weight, Alignment::Broadcast);
        let product = self.slots.tensor(&x, &[self.draws, rows, width]);
        self.push(Operation::matmul(x, weight, product.clone()));
        let sum = self.biased(product, operation.inputs.get(2));
        self.finish(sum, operation.out());
    }

    /// Joins S convolutions to one with S times the channels and separate groups.
    fn convolution(&mut self, mut operation: Operation, mut convolution: Convolution) {
        let result = operation.out().clone();
        let [x, weight] = [&operation.inputs[0], &operation.inputs[1]];
        // An input without draws can feed all kernels at once, unless groups tell the draws apart.
        let shares_input =
            !self.is_vectorized(x) && !convolution.is_transposed && convolution.groups == 1;
        let x = if shares_input {
            x.clone()
        } else {
            convolution.groups *= self.draws;
            let full = self.aligned(x, Alignment::Full);
            let by_example = self.permuted(full, swapped(x.shape.num_dims() + 1));
            let mut shape = x.shape.to_vec();
            shape[1] *= self.draws;
            self.reshaped(by_example, &shape)
        };
        let mut kernels = weight.shape.to_vec();
        kernels[0] *= self.draws;
        let full = self.aligned(weight, Alignment::Full);
        let weight = self.reshaped(full, &kernels);
        let mut shape = result.shape.to_vec();
        let channels = shape[1];
        shape[1] *= self.draws;
        let out = self.slots.tensor(&result, &shape);
        let bias = operation.inputs.get(2).cloned();
        operation.axes = AxisRule::Convolution(convolution);
        operation.inputs = vec![x, weight];
        operation.outputs = vec![out.clone()];
        self.push(operation);
        shape.splice(1..2, [self.draws, channels]);
        let by_example = self.reshaped(out, &shape);
        let by_draw = self.permuted(by_example, swapped(shape.len()));
        let sum = self.biased(by_draw, bias.as_ref());
        self.finish(sum, &result);
    }

    /// Joins draws and examples into the first axis of the first `count` operands.
    fn fold(&mut self, mut operation: Operation, count: usize) {
        let result = operation.out().clone();
        let operands = operation.inputs[..count].iter();
        let examples = operands.map(|operand| operand.shape[0]).max();
        let examples = examples.unwrap_or(1);
        for operand in &mut operation.inputs[..count] {
            let mut shape = operand.shape.to_vec();
            let mut full = self.aligned(operand, Alignment::Full);
            if shape[0] != examples {
                shape[0] = examples;
                full = self.expanded(full, &[&[self.draws], &shape[..]].concat());
            }
            shape[0] *= self.draws;
            *operand = self.reshaped(full, &shape);
        }
        let mut shape = result.shape.to_vec();
        shape[0] *= self.draws;
        let out = self.slots.tensor(&result, &shape);
        operation.outputs = vec![out.clone()];
        self.push(operation);
        self.finish(out, &result);
    }

    /// Adds a bias, `[S, width]` or `[width]`, along axis 2.
    fn biased(&mut self, sum: TensorIr, bias: Option<&TensorIr>) -> TensorIr {
        let Some(bias) = bias else {
            return sum;
        };
        let mut shape = vec![1; sum.shape.num_dims()];
        shape[2] = sum.shape[2];
        let bias = if self.is_vectorized(bias) {
            shape[0] = self.draws;
            self.with_draws(bias)
        } else {
            bias.clone()
        };
        let bias = self.reshaped(bias, &shape);
        let out = self.slots.tensor(&sum, &sum.shape);
        self.push(Operation::add(sum, bias, out.clone()));
        out
    }
}

/// The axis of draws that an operand gets if it does not depend on the draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// An axis of length one, for operations that broadcast.
    Broadcast,
    /// An axis with one entry for each draw.
    Full,
}

/// The shape `[rows, features]` after joining all axes but the last.
fn flat(shape: &[usize]) -> [usize; 2] {
    let features = shape[shape.len() - 1];
    [shape[..shape.len() - 1].iter().product(), features]
}

/// The order of `rank` axes with the first two exchanged.
fn swapped(rank: usize) -> Vec<usize> {
    let mut axes: Vec<_> = (0..rank).collect();
    axes.swap(0, 1);
    axes
}
