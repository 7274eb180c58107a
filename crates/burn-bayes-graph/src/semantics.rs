//! What an operation does to the axes of its operands: the one table that following the example
//! axis and adding a draws axis both read.

use burn::backend::Slice;
use burn::backend::ir::{
    ActivationOperationIr as Activation, BaseOperationIr as Base, BoolOperationIr as BoolOp,
    FloatOperationIr as FloatOp, IntOperationIr as IntOp, ModuleOperationIr as ModuleOp,
    NumericOperationIr as Numeric, OperationIr, TensorIr,
};

/// What an operation does to axes.
#[derive(Debug)]
pub(crate) enum Semantics<'a> {
    /// Element by element, with broadcasting; all operands have the rank of the result.
    Elementwise(Vec<&'a TensorIr>),
    /// The same elements in the same order under another shape.
    Reshape(&'a TensorIr),
    /// Axis `i` of the result is axis `axes[i]` of the operand.
    Permute(&'a TensorIr, Vec<usize>),
    /// Repetition along axes of size one, and along new leading axes.
    Expand(&'a TensorIr),
    /// A part of the operand.
    Slice(&'a TensorIr, &'a [Slice]),
    /// A part of `tensor` replaced by `value`.
    SliceAssign {
        tensor: &'a TensorIr,
        value: &'a TensorIr,
        ranges: &'a [Slice],
    },
    /// Mixes elements along these axes of its operands and along no others.
    Along(Vec<&'a TensorIr>, Vec<usize>),
    /// Copies along one axis, one after the other.
    Repeat(&'a TensorIr, usize, usize),
    /// Mixes all elements.
    Whole,
    /// Picks entries along one axis, by a vector of indices.
    Select {
        tensor: &'a TensorIr,
        dim: usize,
        indices: &'a TensorIr,
    },
    /// Picks entries along one axis, by indices of the result's shape.
    Gather {
        tensor: &'a TensorIr,
        dim: usize,
        indices: &'a TensorIr,
    },
    /// Picks rows of a matrix, by indices of the result's leading shape.
    Embedding {
        weights: &'a TensorIr,
        indices: &'a TensorIr,
    },
    /// A product of the last two axes, broadcast over the others.
    Matmul {
        lhs: &'a TensorIr,
        rhs: &'a TensorIr,
    },
    /// A product of the last axis with a matrix.
    Linear {
        x: &'a TensorIr,
        weight: &'a TensorIr,
        bias: Option<&'a TensorIr>,
    },
    /// A convolution, direct or transposed: examples, channels, space.
    Convolution {
        x: &'a TensorIr,
        weight: &'a TensorIr,
        bias: Option<&'a TensorIr>,
    },
    /// Mixes the axes after the first `kept`.
    Spatial { x: &'a TensorIr, kept: usize },
    /// Normalises the last axis, then scales and shifts it.
    LayerNorm {
        input: &'a TensorIr,
        gamma: &'a TensorIr,
        beta: Option<&'a TensorIr>,
    },
    /// Scales and shifts axis 1 by statistics.
    BatchNorm {
        x: &'a TensorIr,
        others: [&'a TensorIr; 4],
    },
    /// Attention over the last two axes; the operands may broadcast over the first two.
    Attention(Vec<&'a TensorIr>),
    /// Makes a tensor from nothing.
    Creation,
    /// Draws random numbers.
    Random,
    /// No rule.
    Unknown,
}

/// What `operation` does to axes.
pub(crate) fn semantics(operation: &OperationIr) -> Semantics<'_> {
    match operation {
        OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => {
            base(op)
        }
        OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => numeric(op),
        OperationIr::Bool(op) => match op {
            BoolOp::IntoFloat(op) | BoolOp::IntoInt(op) => elementwise([&op.input]),
            BoolOp::Not(op) => elementwise([&op.input]),
            BoolOp::And(op) | BoolOp::Or(op) | BoolOp::Xor(op) => elementwise([&op.lhs, &op.rhs]),
        },
        OperationIr::Int(op) => integer(op),
        OperationIr::Float(_, op) => float(op),
        OperationIr::Module(op) => module(op),
        OperationIr::Activation(op) => activation(op),
        OperationIr::Init(_)
        | OperationIr::Custom(_)
        | OperationIr::Drop(_)
        | OperationIr::Distributed(_) => Semantics::Unknown,
    }
}

fn elementwise<'a>(operands: impl IntoIterator<Item = &'a TensorIr>) -> Semantics<'a> {
    Semantics::Elementwise(operands.into_iter().collect())
}

fn along(operand: &TensorIr, axis: usize) -> Semantics<'_> {
    Semantics::Along(vec![operand], vec![axis])
}

fn base(op: &Base) -> Semantics<'_> {
    match op {
        Base::Reshape(op) => Semantics::Reshape(&op.input),
        Base::SwapDims(op) => {
            let mut axes: Vec<_> = (0..op.input.shape.num_dims()).collect();
            axes.swap(op.dim1, op.dim2);
            Semantics::Permute(&op.input, axes)
        }
        Base::Permute(op) => Semantics::Permute(&op.input, op.axes.clone()),
        Base::Flip(op) => Semantics::Along(vec![&op.input], op.axes.clone()),
        Base::Expand(op) => Semantics::Expand(&op.input),
        Base::Unfold(op) => along(&op.input, op.dim),
        Base::Slice(op) => Semantics::Slice(&op.tensor, &op.ranges),
        Base::SliceAssign(op) => Semantics::SliceAssign {
            tensor: &op.tensor,
            value: &op.value,
            ranges: &op.ranges,
        },
        Base::Select(op) => Semantics::Select {
            tensor: &op.tensor,
            dim: op.dim,
            indices: &op.indices,
        },
        Base::Gather(op) => Semantics::Gather {
            tensor: &op.tensor,
            dim: op.dim,
            indices: &op.indices,
        },
        Base::MaskWhere(op) => elementwise([&op.tensor, &op.mask, &op.value]),
        Base::MaskFill(op) => elementwise([&op.tensor, &op.mask]),
        Base::Equal(op) | Base::NotEqual(op) => elementwise([&op.lhs, &op.rhs]),
        Base::EqualElem(op) | Base::NotEqualElem(op) => elementwise([&op.lhs]),
        Base::RepeatDim(op) => Semantics::Repeat(&op.tensor, op.dim, op.times),
        Base::Cat(op) => Semantics::Along(op.tensors.iter().collect(), vec![op.dim]),
        Base::Cast(op) => elementwise([&op.input]),
        Base::Empty(_) | Base::Ones(_) | Base::Zeros(_) => Semantics::Creation,
        Base::All(_) | Base::Any(_) => Semantics::Whole,
        Base::AllDim(op) | Base::AnyDim(op) => along(&op.input, op.axis),
        Base::Scatter(op) => {
            Semantics::Along(vec![&op.tensor, &op.indices, &op.value], vec![op.dim])
        }
        Base::SelectAssign(_) | Base::ScatterNd(_) | Base::GatherNd(_) => Semantics::Unknown,
    }
}

fn numeric(op: &Numeric) -> Semantics<'_> {
    use Numeric as N;
    match op {
        N::Add(op) | N::Sub(op) | N::Div(op) | N::Rem(op) | N::Mul(op) | N::Powi(op) => {
            elementwise([&op.lhs, &op.rhs])
        }
        N::Greater(op) | N::GreaterEqual(op) | N::Lower(op) | N::LowerEqual(op) => {
            elementwise([&op.lhs, &op.rhs])
        }
        N::AddScalar(op)
        | N::SubScalar(op)
        | N::DivScalar(op)
        | N::RemScalar(op)
        | N::MulScalar(op)
        | N::PowiScalar(op)
        | N::ClampMin(op)
        | N::ClampMax(op)
        | N::GreaterElem(op)
        | N::GreaterEqualElem(op)
        | N::LowerElem(op)
        | N::LowerEqualElem(op) => elementwise([&op.lhs]),
        N::Abs(op) | N::Neg(op) | N::Sign(op) => elementwise([&op.input]),
        N::Clamp(op) => elementwise([&op.tensor]),
        N::Full(_) => Semantics::Creation,
        N::Mean(_) | N::Sum(_) | N::Prod(_) | N::Max(_) | N::Min(_) | N::MaxAbs(_) => {
            Semantics::Whole
        }
        N::MeanDim(op)
        | N::SumDim(op)
        | N::ProdDim(op)
        | N::ArgMax(op)
        | N::ArgMin(op)
        | N::ArgTopK(op)
        | N::TopK(op)
        | N::MaxDim(op)
        | N::MinDim(op)
        | N::MaxAbsDim(op) => along(&op.input, op.axis),
        N::SumDims(op) => Semantics::Along(vec![&op.input], op.axes.clone()),
        N::TopKWithIndices(op) => along(&op.tensor, op.dim),
        N::MaxDimWithIndices(op) | N::MinDimWithIndices(op) => along(&op.tensor, op.dim),
        N::CumSum(op) | N::CumProd(op) | N::CumMin(op) | N::CumMax(op) => along(&op.input, op.axis),
        N::Sort(op) | N::ArgSort(op) => along(&op.input, op.dim),
        N::SortWithIndices(op) => along(&op.input, op.dim),
        N::Pad(op) => {
            let padded = op.padding.iter().enumerate();
            let padded = padded.filter(|(_, (before, after))| before + after > 0);
            Semantics::Along(vec![&op.input], padded.map(|(axis, _)| axis).collect())
        }
        N::IntRandom(_) => Semantics::Random,
    }
}

fn integer(op: &IntOp) -> Semantics<'_> {
    match op {
        IntOp::IntoFloat(op) => elementwise([&op.input]),
        IntOp::Matmul(op) => Semantics::Matmul {
            lhs: &op.lhs,
            rhs: &op.rhs,
        },
        IntOp::BitwiseNot(op) => elementwise([&op.input]),
        IntOp::BitwiseAnd(op)
        | IntOp::BitwiseOr(op)
        | IntOp::BitwiseXor(op)
        | IntOp::BitwiseLeftShift(op)
        | IntOp::BitwiseRightShift(op) => elementwise([&op.lhs, &op.rhs]),
        IntOp::BitwiseAndScalar(op)
        | IntOp::BitwiseOrScalar(op)
        | IntOp::BitwiseXorScalar(op)
        | IntOp::BitwiseLeftShiftScalar(op)
        | IntOp::BitwiseRightShiftScalar(op) => elementwise([&op.lhs]),
    }
}

fn float(op: &FloatOp) -> Semantics<'_> {
    use FloatOp as F;
    match op {
        F::Exp(op)
        | F::Log(op)
        | F::Log1p(op)
        | F::Erf(op)
        | F::Sqrt(op)
        | F::Recip(op)
        | F::Cos(op)
        | F::Cosh(op)
        | F::Sin(op)
        | F::Sinh(op)
        | F::Tan(op)
        | F::Tanh(op)
        | F::ArcCos(op)
        | F::ArcCosh(op)
        | F::ArcSin(op)
        | F::ArcSinh(op)
        | F::ArcTan(op)
        | F::ArcTanh(op)
        | F::Round(op)
        | F::Floor(op)
        | F::Ceil(op)
        | F::Trunc(op)
        | F::IsNan(op)
        | F::IsInf(op) => elementwise([&op.input]),
        F::IntoInt(op) => elementwise([&op.input]),
        F::PowfScalar(op) => elementwise([&op.lhs]),
        F::Powf(op) | F::ArcTan2(op) | F::Hypot(op) => elementwise([&op.lhs, &op.rhs]),
        F::Matmul(op) => Semantics::Matmul {
            lhs: &op.lhs,
            rhs: &op.rhs,
        },
        F::Cross(op) => Semantics::Along(vec![&op.lhs, &op.rhs], vec![op.dim]),
        F::Random(_) => Semantics::Random,
        F::Quantize(_) | F::Dequantize(_) | F::GridSample2d(_) => Semantics::Unknown,
    }
}

fn module(op: &ModuleOp) -> Semantics<'_> {
    macro_rules! convolution {
        ($op:ident) => {
            Semantics::Convolution {
                x: &$op.x,
                weight: &$op.weight,
                bias: $op.bias.as_ref(),
            }
        };
    }
    match op {
        ModuleOp::Linear(op) => Semantics::Linear {
            x: &op.x,
            weight: &op.weight,
            bias: op.bias.as_ref(),
        },
        ModuleOp::Embedding(op) => Semantics::Embedding {
            weights: &op.weights,
            indices: &op.indices,
        },
        ModuleOp::LayerNorm(op) => Semantics::LayerNorm {
            input: &op.input,
            gamma: &op.gamma,
            beta: op.beta.as_ref(),
        },
        ModuleOp::BatchNorm(op) => Semantics::BatchNorm {
            x: &op.x,
            others: [&op.gamma, &op.beta, &op.mean, &op.variance],
        },
        ModuleOp::Conv1d(op) => convolution!(op),
        ModuleOp::Conv2d(op) => convolution!(op),
        ModuleOp::Conv3d(op) => convolution!(op),
        ModuleOp::ConvTranspose1d(op) => convolution!(op),
        ModuleOp::ConvTranspose2d(op) => convolution!(op),
        ModuleOp::ConvTranspose3d(op) => convolution!(op),
        ModuleOp::AvgPool1d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::AvgPool2d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::AdaptiveAvgPool1d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::AdaptiveAvgPool2d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::AdaptiveAvgPool3d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::MaxPool1d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::MaxPool2d(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::Interpolate(op) => Semantics::Spatial { x: &op.x, kept: 2 },
        ModuleOp::Unfold4d(op) => Semantics::Spatial { x: &op.x, kept: 1 },
        ModuleOp::Attention(op) => {
            let optional = op.mask.iter().chain(&op.attn_bias);
            let operands = [&op.query, &op.key, &op.value].into_iter();
            Semantics::Attention(operands.chain(optional).collect())
        }
        _ => Semantics::Unknown,
    }
}

fn activation(op: &Activation) -> Semantics<'_> {
    use Activation as A;
    match op {
        A::Relu(op) | A::Gelu(op) | A::Sigmoid(op) | A::LogSigmoid(op) => elementwise([&op.input]),
        A::LeakyRelu(op) => elementwise([&op.lhs]),
        A::HardSigmoid(op) => elementwise([&op.tensor]),
        A::PRelu(op) => elementwise([&op.lhs, &op.rhs]),
        A::Softmax(op) | A::LogSoftmax(op) | A::Softmin(op) => along(&op.input, op.axis),
        A::ReluBackward(_)
        | A::GeluBackward(_)
        | A::SigmoidBackward(_)
        | A::LogSigmoidBackward(_) => Semantics::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    /// The kinds of [`Semantics`](super::Semantics), and how gradients come through their operations, in
    /// the words of the book.
    const ROWS: [(&[&str], &str); 9] = [
        (
            &["Linear", "Matmul", "Convolution"],
            "rule: outer products of x and δ",
        ),
        (
            &["Embedding", "Select", "Gather"],
            "rule: indices and δ; followed to the parameter's elements where the indices are constant",
        ),
        (
            &["LayerNorm", "BatchNorm"],
            "rule: rewritten as a multiplication and an addition",
        ),
        (
            &["Reshape", "Permute", "Expand", "Slice", "Repeat"],
            "rule: followed to the parameter's elements",
        ),
        (
            &["Elementwise", "Along", "SliceAssign", "Attention"],
            "rule: a copy of the parameter for each example, also of a few numbers computed from \
             parameters; of parameters alone otherwise, the loop for those; across examples, refused",
        ),
        (
            &["Spatial", "Whole"],
            "of the batch alone: each example's own, or refused; of parameters alone, the loop for those",
        ),
        (&["Creation"], "constant"),
        (&["Random"], "refused"),
        (&["Unknown"], "the loop for the whole loss"),
    ];

    /// Every operation that this file names, by its kind.
    fn operations() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut named = Vec::new();
        let source = include_str!("semantics.rs");
        let source = source.split("#[cfg(test)]").next().unwrap_or(source);
        for word in source.split(|c: char| !(c.is_alphanumeric() || "_:!".contains(c))) {
            let kind = match word.split_once("::") {
                Some(("Base" | "N" | "F" | "IntOp" | "BoolOp" | "ModuleOp" | "A", name)) => {
                    named.push(name);
                    continue;
                }
                Some(("Semantics", kind)) => kind,
                None if word == "elementwise" => "Elementwise",
                None if word == "along" => "Along",
                None if word == "convolution!" => "Convolution",
                _ => continue,
            };
            found.entry(kind).or_default().extend(named.drain(..));
        }
        found
    }

    #[test]
    fn the_book_lists_every_operation() {
        let mut operations = operations();
        assert!(operations["Elementwise"].contains("Add") && operations["Gather"].len() == 1);
        let mut table = "| Operations | How |\n| --- | --- |\n".to_owned();
        for (kinds, how) in ROWS {
            let names = kinds.iter().flat_map(|kind| operations.remove(kind));
            let names: BTreeSet<_> = names.flatten().collect();
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            table += &format!("| {} | {how} |\n", names.join(", "));
        }
        operations.retain(|_, names| !names.is_empty());
        assert!(operations.is_empty(), "kinds without a row: {operations:?}");
        let chapter = include_str!("../../../book/src/example-gradients.md");
        assert!(
            chapter.contains(&table),
            "the table of operations in example-gradients.md has to be\n\n{table}"
        );
    }
}
