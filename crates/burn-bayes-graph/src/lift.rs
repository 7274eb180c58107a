//! Gives a recording an axis of draws: the same operations with parameters that carry a leading axis
//! of S draws, so that one pass evaluates all of them.
//!
//! Tensors that no parameter has touched stay as they are, and are computed once for all draws.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::{
    ActivationOperationIr as Activation, BaseOperationIr as Base, FloatOperationIr as FloatOp,
    IrVisitorMut, MatmulOpIr, ModuleOperationIr as ModuleOp, NumericOperationIr as Numeric,
    OperationIr, PermuteOpIr, ReduceDimOpIr, SelectOpIr, ShapeOpIr, TensorIr,
};
use burn::tensor::{Shape, Slice};

use crate::axis::out_of;
use crate::capture::Recording;
use crate::execute::name;
use crate::lower::slot;
use crate::semantics::{Semantics, semantics};

/// The recording for `draws` draws of the tensors in `parameters`, or the name of an operation
/// without a rule.
pub(crate) fn lifted(
    mut recording: Recording,
    parameters: &[Option<usize>],
    draws: usize,
) -> Result<Recording, String> {
    let operations = std::mem::take(&mut recording.operations);
    let held = recording.held.iter().zip(parameters);
    let lifted = held.filter_map(|(slot, parameter)| parameter.map(|_| *slot));
    let mut lifter = Lifter {
        lifted: lifted.collect(),
        renamed: BTreeMap::new(),
        recording,
        draws,
    };
    for operation in operations {
        lifter.run(operation)?;
    }
    if !lifter.lifted.contains(&lifter.recording.losses) {
        return Err("no weight reaches the output".into());
    }
    lifter.recording.losses = lifter.place(lifter.recording.losses);
    Ok(lifter.recording)
}

pub(crate) struct Lifter {
    pub(crate) recording: Recording,
    /// The slots of tensors that carry draws.
    pub(crate) lifted: BTreeSet<usize>,
    /// Lifted tensors that are another one under their own number.
    pub(crate) renamed: BTreeMap<usize, TensorIr>,
    pub(crate) draws: usize,
}

impl Lifter {
    /// Adds an operation, lifted if an operand is, or its name if there is no rule for that.
    pub(crate) fn run(&mut self, operation: OperationIr) -> Result<(), String> {
        if operation.inputs().any(|input| self.is_lifted(input)) {
            self.add(operation)
        } else {
            self.push(operation);
            Ok(())
        }
    }

    /// Where the lifted tensor of a slot is.
    pub(crate) fn place(&self, number: usize) -> usize {
        self.renamed.get(&number).map_or(number, slot)
    }

    pub(crate) fn is_lifted(&self, tensor: &TensorIr) -> bool {
        self.lifted.contains(&slot(tensor))
    }

    fn add(&mut self, operation: OperationIr) -> Result<(), String> {
        let refused = || Err(name(&operation));
        match semantics(&operation) {
            Semantics::Elementwise(operands) => {
                let needs_full = matches!(
                    operation,
                    OperationIr::BaseFloat(Base::MaskWhere(_) | Base::MaskFill(_))
                        | OperationIr::BaseInt(Base::MaskWhere(_) | Base::MaskFill(_))
                        | OperationIr::BaseBool(Base::MaskWhere(_) | Base::MaskFill(_))
                );
                let operands = self.aligned(&operands, needs_full);
                self.emit(operation, operands);
            }
            Semantics::Reshape(input)
            | Semantics::Permute(input, _)
            | Semantics::Slice(input, _)
            | Semantics::Repeat(input, ..) => {
                let operands = self.aligned(&[input], false);
                self.emit(shifted(operation), operands);
            }
            Semantics::Along(operands, _) => {
                let operands = self.aligned(&operands, true);
                self.emit(shifted(operation), operands);
            }
            Semantics::SliceAssign { tensor, value, .. } => {
                let operands = self.aligned(&[tensor, value], true);
                self.emit(shifted(operation), operands);
            }
            Semantics::Gather {
                tensor, indices, ..
            } => {
                let operands = self.aligned(&[tensor, indices], true);
                self.emit(shifted(operation), operands);
            }
            Semantics::Select {
                tensor, indices, ..
            } => {
                if self.is_lifted(indices) {
                    return refused();
                }
                let operands = self.aligned(&[tensor], false);
                self.emit(shifted(operation), operands);
            }
            Semantics::Expand(input) => {
                let new = out_of(&operation).shape.num_dims() - input.shape.num_dims();
                let mut shape = vec![self.draws];
                shape.extend(std::iter::repeat_n(1, new));
                shape.extend_from_slice(&input.shape);
                let input = (slot(input), self.reshaped(self.up(input), &shape));
                self.emit(operation, BTreeMap::from([input]));
            }
            Semantics::Embedding { weights, indices } => {
                if self.is_lifted(indices) {
                    return refused();
                }
                let picked = indices.shape.num_elements();
                let indices = self.reshaped(indices.clone(), &[picked]);
                let rows = [self.draws, picked, weights.shape[1]];
                let rows = self.recording.tensor(weights, &rows);
                let tensor = self.up(weights);
                let select = SelectOpIr {
                    tensor,
                    dim: 1,
                    indices,
                    out: rows.clone(),
                };
                self.push(OperationIr::BaseFloat(Base::Select(select)));
                self.finish(rows, out_of(&operation));
            }
            Semantics::Matmul { lhs, rhs } => {
                let operands = self.aligned(&[lhs, rhs], false);
                self.emit(operation, operands);
            }
            Semantics::Linear { x, weight, bias } => {
                let [rows, features] = flat(&x.shape);
                let width = out_of(&operation).shape[x.shape.num_dims() - 1];
                let x = if self.is_lifted(x) {
                    self.reshaped(self.up(x), &[self.draws, rows, features])
                } else {
                    self.reshaped(x.clone(), &[1, rows, features])
                };
                let weight = self.aligned_one(weight, false);
                let product = [self.draws, rows, width];
                let product = self.recording.tensor(&x, &product);
                self.push(OperationIr::Float(
                    product.dtype,
                    FloatOp::Matmul(MatmulOpIr {
                        lhs: x,
                        rhs: weight,
                        out: product.clone(),
                    }),
                ));
                let sum = self.biased(product, bias, 2);
                self.finish(sum, out_of(&operation));
            }
            Semantics::Convolution { x, weight, bias } => {
                self.convolution(&operation, x, weight, bias);
            }
            Semantics::Spatial { x, .. } | Semantics::BatchNorm { x, .. } => {
                // Draws are further examples.
                self.folded(&operation, &[x]);
            }
            Semantics::Attention(operands) => self.folded(&operation, &operands),
            Semantics::LayerNorm { input, .. } => {
                let operands = self.aligned(&[input], false);
                self.emit(operation, operands);
            }
            Semantics::Whole => {
                let Some(input) = operation.inputs().next() else {
                    return refused();
                };
                let reduce: fn(ReduceDimOpIr) -> Numeric = match &operation {
                    OperationIr::NumericFloat(_, Numeric::Sum(_)) => Numeric::SumDim,
                    OperationIr::NumericFloat(_, Numeric::Mean(_)) => Numeric::MeanDim,
                    _ => return refused(),
                };
                let flat = [self.draws, input.shape.num_elements()];
                let input = self.reshaped(self.up(input), &flat);
                let out = self.recording.tensor(&input, &[self.draws, 1]);
                let reduction = ReduceDimOpIr {
                    input,
                    out: out.clone(),
                    axis: 1,
                    accumulator_len: 1,
                };
                self.push(OperationIr::NumericFloat(out.dtype, reduce(reduction)));
                self.finish(out, out_of(&operation));
            }
            Semantics::Creation | Semantics::Random | Semantics::Unknown => return refused(),
        }
        Ok(())
    }

    /// S convolutions as one with S times the channels, each in groups of its own.
    fn convolution(
        &mut self,
        operation: &OperationIr,
        x: &TensorIr,
        weight: &TensorIr,
        bias: Option<&TensorIr>,
    ) {
        let mut operation = operation.clone();
        let result = out_of(&operation).clone();
        let is_transposed = groups_of(&mut operation).is_transposed;
        // A plain input feeds all draws at once where groups do not tell the draws apart.
        let shares_input =
            !self.is_lifted(x) && !is_transposed && *groups_of(&mut operation).groups == 1;
        let x = if shares_input {
            x.clone()
        } else {
            *groups_of(&mut operation).groups *= self.draws;
            let full = self.aligned_one(x, true);
            let by_example = self.permuted(full, &swapped(x.shape.num_dims() + 1));
            let mut shape = x.shape.to_vec();
            shape[1] *= self.draws;
            self.reshaped(by_example, &shape)
        };
        let mut kernels = weight.shape.to_vec();
        kernels[0] *= self.draws;
        let full = self.aligned_one(weight, true);
        let weight = self.reshaped(full, &kernels);
        let mut stacked = result.shape.to_vec();
        let channels = stacked[1];
        stacked[1] *= self.draws;
        let out = self.recording.tensor(&result, &stacked);
        set_convolution(&mut operation, x, weight, out.clone());
        self.push(operation);
        let mut shape = stacked;
        shape.splice(1..2, [self.draws, channels]);
        let by_example = self.reshaped(out, &shape);
        let by_draw = self.permuted(by_example, &swapped(shape.len()));
        let sum = self.biased(by_draw, bias, 2);
        self.finish(sum, &result);
    }

    /// The operation with draws and examples joined into its first axis.
    fn folded(&mut self, operation: &OperationIr, operands: &[&TensorIr]) {
        let result = out_of(operation).clone();
        let examples = operands.iter().map(|operand| operand.shape[0]).max();
        let examples = examples.unwrap_or(1);
        let mut operation = operation.clone();
        let mut replaced = BTreeMap::new();
        for operand in operands {
            let mut shape = operand.shape.to_vec();
            let mut full = self.aligned_one(operand, true);
            if shape[0] != examples {
                shape[0] = examples;
                full = self.expanded(full, &[&[self.draws], &shape[..]].concat());
            }
            shape[0] *= self.draws;
            replaced.insert(slot(operand), self.reshaped(full, &shape));
        }
        let mut shape = result.shape.to_vec();
        shape[0] *= self.draws;
        let out = self.recording.tensor(&result, &shape);
        replaced.insert(slot(&result), out.clone());
        operation.visit_mut(&mut Substitute(&replaced));
        self.push(operation);
        self.finish(out, &result);
    }

    /// Adds a bias `[S, width]`, or `[width]`, along `axis`.
    fn biased(&mut self, sum: TensorIr, bias: Option<&TensorIr>, axis: usize) -> TensorIr {
        let Some(bias) = bias else {
            return sum;
        };
        let mut shape = vec![1; sum.shape.num_dims()];
        shape[axis] = sum.shape[axis];
        let bias = if self.is_lifted(bias) {
            shape[0] = self.draws;
            self.up(bias)
        } else {
            bias.clone()
        };
        let rhs = self.reshaped(bias, &shape);
        let out = self.recording.tensor(&sum, &sum.shape);
        let add = burn::backend::ir::BinaryOpIr {
            lhs: sum,
            rhs,
            out: out.clone(),
        };
        self.push(OperationIr::NumericFloat(out.dtype, Numeric::Add(add)));
        out
    }

    fn push(&mut self, operation: OperationIr) {
        self.recording.operations.push(operation);
    }

    /// A lifted tensor with its axis of draws.
    pub(crate) fn up(&self, tensor: &TensorIr) -> TensorIr {
        if let Some(other) = self.renamed.get(&slot(tensor)) {
            return other.clone();
        }
        let mut shape = vec![self.draws];
        shape.extend_from_slice(&tensor.shape);
        TensorIr {
            shape: Shape::from(shape),
            ..tensor.clone()
        }
    }

    /// The operands with an axis of draws: of length one where it makes no difference, unless
    /// `full`.
    fn aligned(&mut self, operands: &[&TensorIr], full: bool) -> BTreeMap<usize, TensorIr> {
        let aligned = operands
            .iter()
            .map(|operand| (slot(operand), self.aligned_one(operand, full)));
        aligned.collect()
    }

    pub(crate) fn aligned_one(&mut self, operand: &TensorIr, full: bool) -> TensorIr {
        if self.is_lifted(operand) {
            return self.up(operand);
        }
        let one = [&[1], &operand.shape[..]].concat();
        let aligned = self.reshaped(operand.clone(), &one);
        if full {
            let shape = [&[self.draws], &operand.shape[..]].concat();
            self.expanded(aligned, &shape)
        } else {
            aligned
        }
    }

    pub(crate) fn reshaped(&mut self, input: TensorIr, shape: &[usize]) -> TensorIr {
        if input.shape[..] == *shape {
            return input;
        }
        let out = self.recording.tensor(&input, shape);
        let reshape = ShapeOpIr {
            input,
            out: out.clone(),
        };
        self.push(shape_operation(&out, Base::Reshape(reshape)));
        out
    }

    pub(crate) fn expanded(&mut self, input: TensorIr, shape: &[usize]) -> TensorIr {
        let out = self.recording.tensor(&input, shape);
        let expand = ShapeOpIr {
            input,
            out: out.clone(),
        };
        self.push(shape_operation(&out, Base::Expand(expand)));
        out
    }

    pub(crate) fn permuted(&mut self, input: TensorIr, axes: &[usize]) -> TensorIr {
        let shape: Vec<_> = axes.iter().map(|&axis| input.shape[axis]).collect();
        let out = self.recording.tensor(&input, &shape);
        let permute = PermuteOpIr {
            input,
            out: out.clone(),
            axes: axes.to_vec(),
        };
        self.push(shape_operation(&out, Base::Permute(permute)));
        out
    }

    /// Pushes the operation with its operands replaced, and its results lifted.
    fn emit(&mut self, mut operation: OperationIr, mut replaced: BTreeMap<usize, TensorIr>) {
        for out in operation.outputs() {
            replaced.insert(slot(out), self.up(out));
            self.lifted.insert(slot(out));
        }
        operation.visit_mut(&mut Substitute(&replaced));
        self.push(operation);
    }

    /// Gives the lifted `result` the elements of `value`.
    fn finish(&mut self, value: TensorIr, result: &TensorIr) {
        let out = self.up(result);
        if out.shape == value.shape {
            self.renamed.insert(slot(result), value);
        } else {
            let reshape = ShapeOpIr { input: value, out };
            self.push(shape_operation(result, Base::Reshape(reshape)));
        }
        self.lifted.insert(slot(result));
    }
}

struct Substitute<'a>(&'a BTreeMap<usize, TensorIr>);

impl IrVisitorMut for Substitute<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if let Some(new) = self.0.get(&slot(tensor)) {
            *tensor = new.clone();
        }
    }
}

fn shape_operation(tensor: &TensorIr, operation: Base) -> OperationIr {
    if tensor.dtype.is_float() {
        OperationIr::BaseFloat(operation)
    } else if tensor.dtype.is_bool() {
        OperationIr::BaseBool(operation)
    } else {
        OperationIr::BaseInt(operation)
    }
}

/// `[rows, features]`: all axes but the last joined.
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

struct Groups<'a> {
    groups: &'a mut usize,
    is_transposed: bool,
}

fn groups_of(operation: &mut OperationIr) -> Groups<'_> {
    let OperationIr::Module(module) = operation else {
        unreachable!("convolutions are module operations")
    };
    let (groups, is_transposed) = match module {
        ModuleOp::Conv1d(op) => (&mut op.options.groups, false),
        ModuleOp::Conv2d(op) => (&mut op.options.groups, false),
        ModuleOp::Conv3d(op) => (&mut op.options.groups, false),
        ModuleOp::ConvTranspose1d(op) => (&mut op.options.groups, true),
        ModuleOp::ConvTranspose2d(op) => (&mut op.options.groups, true),
        ModuleOp::ConvTranspose3d(op) => (&mut op.options.groups, true),
        other => unreachable!("{other:?} is not a convolution"),
    };
    Groups {
        groups,
        is_transposed,
    }
}

/// Puts other tensors into a convolution; its bias is added apart.
fn set_convolution(operation: &mut OperationIr, x: TensorIr, weight: TensorIr, out: TensorIr) {
    let OperationIr::Module(module) = operation else {
        unreachable!("convolutions are module operations")
    };
    macro_rules! set {
        ($op:ident) => {{
            $op.x = x;
            $op.weight = weight;
            $op.bias = None;
            $op.out = out;
        }};
    }
    match module {
        ModuleOp::Conv1d(op) => set!(op),
        ModuleOp::Conv2d(op) => set!(op),
        ModuleOp::Conv3d(op) => set!(op),
        ModuleOp::ConvTranspose1d(op) => set!(op),
        ModuleOp::ConvTranspose2d(op) => set!(op),
        ModuleOp::ConvTranspose3d(op) => set!(op),
        other => unreachable!("{other:?} is not a convolution"),
    }
}

/// The operation on axes one further.
fn shifted(mut operation: OperationIr) -> OperationIr {
    match &mut operation {
        OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => {
            shift_base(op);
        }
        OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => shift_numeric(op),
        OperationIr::Float(_, FloatOp::Cross(op)) => op.dim += 1,
        OperationIr::Activation(
            Activation::Softmax(op) | Activation::LogSoftmax(op) | Activation::Softmin(op),
        ) => op.axis += 1,
        _ => {}
    }
    operation
}

fn shift_base(op: &mut Base) {
    match op {
        Base::SwapDims(op) => {
            op.dim1 += 1;
            op.dim2 += 1;
        }
        Base::Permute(op) => {
            op.axes.iter_mut().for_each(|axis| *axis += 1);
            op.axes.insert(0, 0);
        }
        Base::Flip(op) => op.axes.iter_mut().for_each(|axis| *axis += 1),
        Base::Unfold(op) => op.dim += 1,
        Base::Slice(op) => op.ranges.insert(0, Slice::full()),
        Base::SliceAssign(op) => op.ranges.insert(0, Slice::full()),
        Base::Select(op) => op.dim += 1,
        Base::Gather(op) => op.dim += 1,
        Base::Scatter(op) => op.dim += 1,
        Base::RepeatDim(op) => op.dim += 1,
        Base::Cat(op) => op.dim += 1,
        Base::AllDim(op) | Base::AnyDim(op) => op.axis += 1,
        _ => {}
    }
}

fn shift_numeric(op: &mut Numeric) {
    use Numeric as N;
    match op {
        N::MeanDim(op)
        | N::SumDim(op)
        | N::ProdDim(op)
        | N::ArgMax(op)
        | N::ArgMin(op)
        | N::ArgTopK(op)
        | N::TopK(op)
        | N::MaxDim(op)
        | N::MinDim(op)
        | N::MaxAbsDim(op) => op.axis += 1,
        N::SumDims(op) => op.axes.iter_mut().for_each(|axis| *axis += 1),
        N::TopKWithIndices(op) => op.dim += 1,
        N::MaxDimWithIndices(op) | N::MinDimWithIndices(op) => op.dim += 1,
        N::CumSum(op) | N::CumProd(op) | N::CumMin(op) | N::CumMax(op) => op.axis += 1,
        N::Sort(op) | N::ArgSort(op) => op.dim += 1,
        N::SortWithIndices(op) => op.dim += 1,
        N::Pad(op) => op.padding.insert(0, (0, 0)),
        _ => {}
    }
}
