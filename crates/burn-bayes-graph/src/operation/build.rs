//! Constructors of operations, for passes that rewrite a recording.

use burn::backend::ir::{
    BaseOperationIr as Base, BinaryOpIr, FloatOperationIr as FloatOp, LinearOpIr, MatmulOpIr,
    ModuleOperationIr as ModuleOp, NumericOperationIr as Numeric, OperationIr, PermuteOpIr,
    ReduceDimOpIr, SelectOpIr, ShapeOpIr, TensorId, TensorIr, TensorStatus,
};
use burn::tensor::{DType, Shape};

use super::Operation;

/// The number of slots in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotCount(pub(crate) usize);

impl SlotCount {
    /// A tensor of this shape in a new slot, with the element type of `like`.
    pub(crate) fn tensor(&mut self, like: &TensorIr, shape: &[usize]) -> TensorIr {
        let id = TensorId::new(self.0 as u64);
        self.0 += 1;
        TensorIr {
            id,
            shape: Shape::from(shape.to_vec()),
            status: TensorStatus::ReadOnly,
            dtype: like.dtype,
        }
    }
}

impl Operation {
    pub(crate) fn reshape(input: TensorIr, out: TensorIr) -> Self {
        Self::base(out.dtype, Base::Reshape(ShapeOpIr { input, out }))
    }

    pub(crate) fn expand(input: TensorIr, out: TensorIr) -> Self {
        Self::base(out.dtype, Base::Expand(ShapeOpIr { input, out }))
    }

    pub(crate) fn permute(input: TensorIr, out: TensorIr, axes: Vec<usize>) -> Self {
        Self::base(out.dtype, Base::Permute(PermuteOpIr { input, out, axes }))
    }

    pub(crate) fn select(tensor: TensorIr, dim: usize, indices: TensorIr, out: TensorIr) -> Self {
        let select = SelectOpIr {
            tensor,
            dim,
            indices,
            out: out.clone(),
        };
        Self::base(out.dtype, Base::Select(select))
    }

    pub(crate) fn add(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> Self {
        let dtype = out.dtype;
        OperationIr::NumericFloat(dtype, Numeric::Add(BinaryOpIr { lhs, rhs, out })).into()
    }

    pub(crate) fn mul(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> Self {
        let dtype = out.dtype;
        OperationIr::NumericFloat(dtype, Numeric::Mul(BinaryOpIr { lhs, rhs, out })).into()
    }

    pub(crate) fn matmul(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> Self {
        let dtype = out.dtype;
        OperationIr::Float(dtype, FloatOp::Matmul(MatmulOpIr { lhs, rhs, out })).into()
    }

    /// A linear layer without bias.
    pub(crate) fn linear(x: TensorIr, weight: TensorIr, out: TensorIr) -> Self {
        let bias = None;
        OperationIr::Module(ModuleOp::Linear(LinearOpIr {
            x,
            weight,
            bias,
            out,
        }))
        .into()
    }

    /// The same operation on other operands. The caller sets its results.
    pub(crate) fn with_inputs<const N: usize>(&self, inputs: [TensorIr; N]) -> Self {
        Self {
            inputs: inputs.into(),
            ..self.clone()
        }
    }

    /// A reduction of floats along one axis, which is kept with length one.
    pub(crate) fn reduce(
        reduction: fn(ReduceDimOpIr) -> Numeric,
        input: TensorIr,
        axis: usize,
        out: TensorIr,
    ) -> Self {
        let dtype = out.dtype;
        let reduce = ReduceDimOpIr {
            input,
            out,
            axis,
            accumulator_len: 1,
        };
        OperationIr::NumericFloat(dtype, reduction(reduce)).into()
    }

    fn base(dtype: DType, operation: Base) -> Self {
        let recorded = if dtype.is_float() {
            OperationIr::BaseFloat(operation)
        } else if dtype.is_bool() {
            OperationIr::BaseBool(operation)
        } else {
            OperationIr::BaseInt(operation)
        };
        recorded.into()
    }
}
