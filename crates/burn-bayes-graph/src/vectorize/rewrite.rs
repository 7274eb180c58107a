//! Building blocks of vectorised operations.

use burn::backend::ir::TensorIr;
use burn::tensor::Shape;

use super::{Alignment, Vectorizer};
use crate::operation::{Operation, slot};

impl Vectorizer {
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// A vectorised tensor, with its axis of draws.
    pub(crate) fn with_draws(&self, tensor: &TensorIr) -> TensorIr {
        if let Some(other) = self.renamed.get(&slot(tensor)) {
            return other.clone();
        }
        TensorIr {
            shape: Shape::from([&[self.draws], &tensor.shape[..]].concat()),
            ..tensor.clone()
        }
    }

    /// An operand with an axis of draws, which is added if the operand is not vectorised.
    pub(crate) fn aligned(&mut self, operand: &TensorIr, alignment: Alignment) -> TensorIr {
        if self.is_vectorized(operand) {
            return self.with_draws(operand);
        }
        let aligned = self.reshaped(operand.clone(), &[&[1], &operand.shape[..]].concat());
        match alignment {
            Alignment::Broadcast => aligned,
            Alignment::Full => {
                let shape = [&[self.draws], &operand.shape[..]].concat();
                self.expanded(aligned, &shape)
            }
        }
    }

    pub(crate) fn reshaped(&mut self, input: TensorIr, shape: &[usize]) -> TensorIr {
        if input.shape[..] == *shape {
            return input;
        }
        let out = self.slots.tensor(&input, shape);
        self.push(Operation::reshape(input, out.clone()));
        out
    }

    pub(crate) fn expanded(&mut self, input: TensorIr, shape: &[usize]) -> TensorIr {
        let out = self.slots.tensor(&input, shape);
        self.push(Operation::expand(input, out.clone()));
        out
    }

    pub(crate) fn permuted(&mut self, input: TensorIr, axes: Vec<usize>) -> TensorIr {
        let shape: Vec<_> = axes.iter().map(|&axis| input.shape[axis]).collect();
        let out = self.slots.tensor(&input, &shape);
        self.push(Operation::permute(input, out.clone(), axes));
        out
    }

    /// Adds the operation with a leading axis of draws of its first `count` operands and its results.
    pub(super) fn emit(&mut self, mut operation: Operation, count: usize, alignment: Alignment) {
        for operand in &mut operation.inputs[..count] {
            *operand = self.aligned(operand, alignment);
        }
        for out in &mut operation.outputs {
            *out = self.with_draws(out);
            self.vectorized.insert(slot(out));
        }
        operation.axes = operation.axes.with_leading_axis();
        self.push(operation);
    }

    /// Makes `value` the vectorised `result`.
    pub(super) fn finish(&mut self, value: TensorIr, result: &TensorIr) {
        let out = self.with_draws(result);
        if out.shape == value.shape {
            self.renamed.insert(slot(result), value);
        } else {
            self.push(Operation::reshape(value, out));
        }
        self.vectorized.insert(slot(result));
    }
}
