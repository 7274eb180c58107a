//! Products with a weight that is computed from parameters, such as W₀ + s A B in LoRA.
//!
//! A product of the batch x with a weight W is linear in W. It is replaced by products with the tensors that W is
//! computed from, for which there are rules:
//!
//! | W | x W |
//! |---|---|
//! | A B | (x A) B |
//! | U ± V | x U ± x V |
//! | s V, for a number s | s (x V) |
//! | V ⊙ c, for a row c | (x V) ⊙ c |
//! | V ⊙ c, for a column c | (x ⊙ cᵀ) V |
//!
//! The gradient of A for one example is then the outer product of x and B δ. W x and lookups of rows of W are replaced
//! in the same way. A division by c is treated as a product. If W is transposed, its operands are.

use burn::backend::ir::TensorIr;

use super::planner::{Planner, Role};
use crate::operation::{AxisRule, Operation};

/// The largest number of products that replace one.
const PRODUCTS: usize = 16;

/// How a product uses its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// x W, with W of two axes.
    Linear,
    /// x W
    Right,
    /// W x
    Left,
    /// Selected rows of W.
    Lookup,
}

/// A product of the batch with a weight.
#[derive(Clone, Copy, Debug)]
struct Product<'a> {
    operation: &'a Operation,
    side: Side,
}

impl<'a> Product<'a> {
    fn weight(self) -> &'a TensorIr {
        &self.operation.inputs[self.place()]
    }

    /// The operand that is not the weight.
    fn other(self) -> &'a TensorIr {
        &self.operation.inputs[1 - self.place()]
    }

    /// The index of the weight among the operands.
    fn place(self) -> usize {
        match self.side {
            Side::Linear | Side::Right => 1,
            Side::Left | Side::Lookup => 0,
        }
    }
}

impl Planner<'_> {
    /// The operations that replace a product with a computed weight. Each may be such a product again. `None` if
    /// the operation is not replaced.
    pub(super) fn replaced(&mut self, operation: &Operation) -> Option<Vec<Operation>> {
        let product = self.with_computed_weight(operation)?;
        self.products(product.weight())?;
        if operation.inputs.len() > 2 {
            return Some(self.without_bias(operation));
        }
        if let Some(weight) = self.shared(product) {
            let mut operation = operation.clone();
            operation.inputs[product.place()] = weight;
            return Some(vec![operation]);
        }
        let made = self.definition(product.weight())?;
        let x = product.other();
        let out = operation.outputs.clone();
        let (mut last, mut operations) = match (&*made.name, &made.inputs[..]) {
            ("Matmul", [left, right]) => {
                let (near, far) = match product.side {
                    Side::Left => (right, left),
                    _ => (left, right),
                };
                let first = self.applied(product, x, near);
                let last = match product.side {
                    Side::Lookup => {
                        let out = operation.out().clone();
                        Operation::linear(first.out().clone(), far.clone(), out)
                    }
                    _ => self.applied(product, first.out(), far),
                };
                (last, vec![first])
            }
            ("Add" | "Sub", [left, right]) => {
                let both = [left, right].map(|weight| self.applied(product, x, weight));
                let sum = both.each_ref().map(|part| part.out().clone());
                (made.with_inputs(sum), both.into())
            }
            ("MulScalar" | "DivScalar" | "Neg", [weight]) => {
                let first = self.applied(product, x, weight);
                (made.with_inputs([first.out().clone()]), vec![first])
            }
            ("Mul" | "Div", _) => self.scaled(product, &made)?,
            _ => return None,
        };
        last.outputs = out;
        operations.push(last);
        Some(operations)
    }

    /// The product that an operation is, if its weight is computed from parameters.
    fn with_computed_weight<'a>(&self, operation: &'a Operation) -> Option<Product<'a>> {
        let side = match (&operation.axes, &operation.inputs[..]) {
            (AxisRule::Linear, _) => Side::Linear,
            (AxisRule::Matmul, [lhs, _]) if self.axis(lhs).is_some() => Side::Right,
            (AxisRule::Matmul, _) => Side::Left,
            (AxisRule::Embedding, _) => Side::Lookup,
            (AxisRule::Select(0), [tensor, _]) if tensor.shape.num_dims() == 2 => Side::Lookup,
            _ => return None,
        };
        let product = Product { operation, side };
        self.is_computed(product.weight()).then_some(product)
    }

    fn is_computed(&self, tensor: &TensorIr) -> bool {
        matches!(self.role(tensor), Role::Derived(_))
    }

    /// The number of products that replace a product with this weight. `None` if there is no rule for the weight,
    /// or if they are too many: a repeated product of sums has exponentially many terms.
    fn products(&self, weight: &TensorIr) -> Option<usize> {
        if !self.is_computed(weight) {
            return Some(1);
        }
        let made = self.maker(weight)?;
        let operand = |index: usize| self.products(&made.inputs[index]);
        let count = match (&made.axes, &*made.name) {
            (AxisRule::Matmul, _) => operand(0)? + operand(1)?,
            (_, "Add" | "Sub") if made.inputs[0].shape == made.inputs[1].shape => {
                operand(0)? + operand(1)?
            }
            (_, "Mul" | "Div") => operand(scaled_operand(made)?)?,
            (
                AxisRule::Permute(_) | AxisRule::Reshape | AxisRule::Expand | AxisRule::Repeat(..),
                _,
            )
            | (_, "MulScalar" | "DivScalar" | "Neg") => operand(0)?,
            _ => return None,
        };
        (count <= PRODUCTS).then_some(count)
    }

    /// A linear layer as a product and the addition of the bias.
    fn without_bias(&mut self, operation: &Operation) -> Vec<Operation> {
        let out = operation.out().clone();
        let mut product = operation.clone();
        product.inputs.truncate(2);
        product.outputs = vec![self.plan.slots.tensor(&out, &out.shape)];
        let bias = &operation.inputs[2];
        let bias = self.reshaped(bias, &broadcast_row(bias, &out));
        let sum = Operation::add(product.out().clone(), bias, out);
        vec![product, sum]
    }

    /// A weight that is repeated over leading axes, without the repetition, if the product broadcasts it as well.
    fn shared(&mut self, product: Product<'_>) -> Option<TensorIr> {
        let weight = product.weight();
        let made = self.maker(weight)?;
        if !matches!(made.axes, AxisRule::Expand | AxisRule::Repeat(..)) {
            return None;
        }
        let input = made.inputs[0].clone();
        let lead = weight.shape.num_dims() - 2;
        let same = product.other().shape[..lead] == product.operation.out().shape[..lead];
        let once = with_rank(&input, weight.shape.num_dims())?;
        (same && once[lead..] == weight.shape[lead..]).then(|| self.reshaped(&input, &once))
    }

    /// The operation that computes a weight. Operations that transpose it, or add or remove leading axes of length
    /// one, are moved to the operands.
    fn definition(&mut self, weight: &TensorIr) -> Option<Operation> {
        let made = self.maker(weight)?.clone();
        let rank = weight.shape.num_dims();
        let is_transposed = match &made.axes {
            AxisRule::Permute(axes) => {
                let transposed: Vec<_> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
                if *axes != transposed {
                    return None;
                }
                true
            }
            AxisRule::Reshape => {
                if with_rank(&made.inputs[0], rank)? != weight.shape[..] {
                    return None;
                }
                false
            }
            _ => return Some(made),
        };
        let mut moved = self.definition(&made.inputs[0])?;
        for operand in &mut moved.inputs {
            *operand = match is_transposed {
                true => self.transposed(operand),
                false => {
                    let shape = with_rank(operand, rank)?;
                    self.reshaped(operand, &shape)
                }
            };
        }
        match moved.axes {
            AxisRule::Matmul if is_transposed => moved.inputs.swap(0, 1),
            AxisRule::Matmul | AxisRule::Elementwise => {}
            _ => return None,
        }
        moved.outputs = made.outputs;
        Some(moved)
    }

    /// The product of `x` with `weight`, of the same kind as `product`.
    fn applied(&mut self, product: Product<'_>, x: &TensorIr, weight: &TensorIr) -> Operation {
        let (rank, axes) = (x.shape.num_dims(), weight.shape.num_dims());
        let columns = weight.shape[axes - 1];
        let shape = match product.side {
            Side::Linear => [&x.shape[..rank - 1], &[columns]].concat(),
            Side::Lookup => {
                let out = &product.operation.out().shape;
                [&out[..out.num_dims() - 1], &[columns]].concat()
            }
            Side::Right => {
                let ends = [x.shape[rank - 2], columns];
                [&joint(&x.shape[..rank - 2], &weight.shape)[..], &ends].concat()
            }
            Side::Left => {
                let ends = [weight.shape[axes - 2], x.shape[rank - 1]];
                [&joint(&x.shape[..rank - 2], &weight.shape)[..], &ends].concat()
            }
        };
        let inputs = match product.place() {
            0 => [weight.clone(), x.clone()],
            _ => [x.clone(), weight.clone()],
        };
        let mut operation = product.operation.with_inputs(inputs);
        operation.outputs = vec![self.plan.slots.tensor(weight, &shape)];
        operation
    }

    /// The last operation, and those before it, for a weight whose rows or columns are scaled.
    fn scaled(
        &mut self,
        product: Product<'_>,
        made: &Operation,
    ) -> Option<(Operation, Vec<Operation>)> {
        let place = scaled_operand(made)?;
        let (weight, scale) = (&made.inputs[place], &made.inputs[1 - place]);
        let lead = scale.shape.num_dims() - 2;
        let [is_row, is_column] = [0, 1].map(|axis| scale.shape[lead + axis] == 1);
        let is_of_result = match product.side {
            Side::Left => is_column,
            Side::Linear | Side::Right | Side::Lookup => is_row,
        };
        let x = product.other();
        if is_of_result {
            let first = self.applied(product, x, weight);
            let scale = match product.side {
                Side::Linear | Side::Lookup => {
                    self.reshaped(scale, &broadcast_row(scale, first.out()))
                }
                Side::Left | Side::Right => scale.clone(),
            };
            let last = made.with_inputs([first.out().clone(), scale]);
            return Some((last, vec![first]));
        }
        if product.side == Side::Lookup {
            return None;
        }
        let shape = match product.side {
            Side::Linear => broadcast_row(scale, x),
            // One of the two axes has length one.
            _ => [
                &scale.shape[..lead],
                &[scale.shape[lead + 1], scale.shape[lead]],
            ]
            .concat(),
        };
        let scale = self.reshaped(scale, &shape);
        let rank = x.shape.num_dims();
        let shape = [
            &joint(&x.shape[..rank - 2], &scale.shape)[..],
            &x.shape[rank - 2..],
        ]
        .concat();
        let mut first = made.with_inputs([x.clone(), scale]);
        first.outputs = vec![self.plan.slots.tensor(x, &shape)];
        let last = self.applied(product, first.out(), weight);
        Some((last, vec![first]))
    }

    /// The tensor with another shape. It must not depend on the batch.
    fn reshaped(&mut self, tensor: &TensorIr, shape: &[usize]) -> TensorIr {
        if tensor.shape[..] == *shape {
            return tensor.clone();
        }
        let out = self.plan.slots.tensor(tensor, shape);
        self.add_without_batch(Operation::reshape(tensor.clone(), out.clone()));
        out
    }

    /// The tensor with its last two axes exchanged. It must not depend on the batch.
    fn transposed(&mut self, tensor: &TensorIr) -> TensorIr {
        let rank = tensor.shape.num_dims();
        let axes: Vec<_> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        let shape: Vec<_> = axes.iter().map(|&axis| tensor.shape[axis]).collect();
        let out = self.plan.slots.tensor(tensor, &shape);
        self.add_without_batch(Operation::permute(tensor.clone(), out.clone(), axes));
        out
    }
}

/// The index of the operand that has the shape of the result, if the other one is broadcast along its rows or
/// columns.
fn scaled_operand(made: &Operation) -> Option<usize> {
    let (out, [left, right]) = (&made.out().shape, &made.inputs[..]) else {
        return None;
    };
    let (place, scale) = match (left.shape == *out, right.shape == *out) {
        (true, false) => (0, right),
        (false, true) if made.name == "Mul" => (1, left),
        _ => return None,
    };
    let rank = scale.shape.num_dims();
    let is_scale = rank >= 2 && scale.shape[rank - 2..].contains(&1);
    is_scale.then_some(place)
}

/// The shape `[1, …, 1, len]` in which a vector of `len` elements is broadcast over the rows of `tensor`.
fn broadcast_row(vector: &TensorIr, tensor: &TensorIr) -> Vec<usize> {
    let mut shape = vec![1; tensor.shape.num_dims()];
    if let Some(last) = shape.last_mut() {
        *last = vector.shape.num_elements();
    }
    shape
}

/// The shape with this many axes, by leading axes of length one. `None` if others would have to be removed.
fn with_rank(tensor: &TensorIr, rank: usize) -> Option<Vec<usize>> {
    let shape = &tensor.shape[..];
    let more = rank.saturating_sub(shape.len());
    let (fewer, kept) = shape.split_at(shape.len().saturating_sub(rank));
    let only_ones = rank >= 2 && shape.len() >= 2 && fewer.iter().all(|&len| len == 1);
    only_ones.then(|| [&vec![1; more], kept].concat())
}

/// The leading axes of a matrix product of operands with the leading axes `lead` and the shape `other`.
fn joint(lead: &[usize], other: &[usize]) -> Vec<usize> {
    let pairs = lead.iter().zip(other);
    pairs.map(|(&left, &right)| left.max(right)).collect()
}
