//! Executes recorded operations, one by one, on tensors whose rank is known at run time only.
//!
//! This and `capture.rs` are the files that name Burn's intermediate representation and its
//! primitive tensor functions; an upgrade of Burn touches them and `operation.rs` first.

use burn::backend::ir::{
    ActivationOperationIr as Activation, BaseOperationIr as Base, BoolOperationIr as BoolOp,
    FloatOperationIr as FloatOp, IntOperationIr as IntOp, ModuleOperationIr as ModuleOp,
    NumericOperationIr as Numeric, OperationIr, TensorIr, TensorStatus,
};
use burn::backend::ops::{
    ActivationOps, BoolTensorOps, FloatTensorOps, IntTensorOps, ModuleOps, UnfoldOptions,
};
use burn::backend::tensor::IndexingUpdateOp;
use burn::backend::{Dispatch, DispatchDevice, DispatchTensor};

/// The tensors of one replay, by slot.
#[derive(Debug)]
pub(crate) struct Slots {
    values: Vec<Option<DispatchTensor>>,
    device: DispatchDevice,
}

impl Slots {
    pub(crate) fn new(len: usize, device: DispatchDevice) -> Self {
        Self {
            values: vec![None; len],
            device,
        }
    }

    /// The tensor of a slot, which an earlier operation or the caller has filled.
    pub(crate) fn get(&self, slot: usize) -> &DispatchTensor {
        self.values[slot]
            .as_ref()
            .expect("operations are replayed in the order in which they were recorded")
    }

    pub(crate) fn set(&mut self, slot: usize, value: DispatchTensor) {
        self.values[slot] = Some(value);
    }

    pub(crate) fn device(&self) -> &DispatchDevice {
        &self.device
    }

    /// Every tensor that is there, with its slot.
    pub(crate) fn into_filled(self) -> Vec<(usize, DispatchTensor)> {
        let values = self.values.into_iter().enumerate();
        values
            .filter_map(|(slot, value)| Some((slot, value?)))
            .collect()
    }

    /// Reads an operand; its last reader takes it, so that operations can work in place.
    fn read(&mut self, operand: &TensorIr) -> DispatchTensor {
        let slot = operand.id.value() as usize;
        match operand.status {
            TensorStatus::ReadWrite => self.values[slot].take(),
            TensorStatus::ReadOnly | TensorStatus::NotInit => self.values[slot].clone(),
        }
        .expect("operations are replayed in the order in which they were recorded")
    }

    fn read_optional(&mut self, operand: Option<&TensorIr>) -> Option<DispatchTensor> {
        operand.map(|operand| self.read(operand))
    }

    fn write(&mut self, out: &TensorIr, value: DispatchTensor) {
        self.set(out.id.value() as usize, value);
    }
}

/// An operation without an executor, by name.
#[derive(Debug)]
pub(crate) struct Unsupported(pub(crate) String);

type Outcome = Result<(), Unsupported>;

/// Whether [`execute`] knows the operation; asked once, when a graph is captured.
pub(crate) fn is_supported(operation: &OperationIr) -> bool {
    use ModuleOp as M;
    match operation {
        OperationIr::BaseFloat(_) | OperationIr::BaseInt(_) => true,
        OperationIr::BaseBool(op) => !matches!(
            op,
            Base::ScatterNd(_) | Base::GatherNd(_) | Base::Cast(_) | Base::Unfold(_)
        ),
        OperationIr::NumericFloat(_, op) => !matches!(op, Numeric::IntRandom(_)),
        OperationIr::NumericInt(_, op) => !matches!(
            op,
            Numeric::IntRandom(_) | Numeric::Sort(_) | Numeric::SortWithIndices(_)
        ),
        OperationIr::Bool(_) | OperationIr::Int(_) | OperationIr::Init(_) => true,
        OperationIr::Float(_, op) => !matches!(
            op,
            FloatOp::Random(_) | FloatOp::Quantize(_) | FloatOp::Dequantize(_)
        ),
        OperationIr::Module(op) => matches!(
            op,
            M::BatchNorm(_)
                | M::Embedding(_)
                | M::Linear(_)
                | M::Conv1d(_)
                | M::Conv2d(_)
                | M::Conv3d(_)
                | M::ConvTranspose1d(_)
                | M::ConvTranspose2d(_)
                | M::ConvTranspose3d(_)
                | M::AvgPool1d(_)
                | M::AvgPool2d(_)
                | M::AdaptiveAvgPool1d(_)
                | M::AdaptiveAvgPool2d(_)
                | M::AdaptiveAvgPool3d(_)
                | M::MaxPool1d(_)
                | M::MaxPool2d(_)
                | M::Interpolate(_)
                | M::Attention(_)
                | M::LayerNorm(_)
                | M::Unfold4d(_)
        ),
        OperationIr::Activation(op) => !matches!(
            op,
            Activation::ReluBackward(_)
                | Activation::GeluBackward(_)
                | Activation::SigmoidBackward(_)
                | Activation::LogSigmoidBackward(_)
        ),
        OperationIr::Custom(_) | OperationIr::Drop(_) | OperationIr::Distributed(_) => false,
    }
}

/// Executes one operation.
pub(crate) fn execute(operation: &OperationIr, slots: &mut Slots) -> Outcome {
    match operation {
        OperationIr::BaseFloat(op) => base_float(op, slots),
        OperationIr::BaseInt(op) => base_int(op, slots),
        OperationIr::BaseBool(op) => base_bool(op, slots),
        OperationIr::NumericFloat(_, op) => numeric_float(op, slots),
        OperationIr::NumericInt(_, op) => numeric_int(op, slots),
        OperationIr::Bool(op) => boolean(op, slots),
        OperationIr::Int(op) => integer(op, slots),
        OperationIr::Float(_, op) => float(op, slots),
        OperationIr::Module(op) => module(op, slots),
        OperationIr::Activation(op) => activation(op, slots),
        OperationIr::Init(_) => Ok(()),
        other => unsupported(other),
    }
}

fn unsupported(operation: &impl std::fmt::Debug) -> Outcome {
    Err(Unsupported(name(operation)))
}

/// The operation's name, without its operands: `Float(F32, Cross(…` is `Cross`.
pub(crate) fn name(operation: &impl std::fmt::Debug) -> String {
    let text = format!("{operation:?}");
    let mut name = text.as_str();
    for part in text.split(['(', ',', ' ', '{']) {
        match part {
            "Float" | "Int" | "Bool" | "Module" | "Activation" | "Distributed" | "Custom"
            | "BaseFloat" | "BaseInt" | "BaseBool" | "NumericFloat" | "NumericInt" | "F64"
            | "F32" | "F16" | "BF16" | "I64" | "I32" | "" => {}
            part => {
                name = part;
                break;
            }
        }
    }
    name.trim_end_matches("OpIr").to_owned()
}

macro_rules! unary {
    ($slots:ident, $op:ident, $function:ident) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input));
    }};
}

macro_rules! unary_typed {
    ($slots:ident, $op:ident, $function:ident) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input, $op.out.dtype.into()));
    }};
}

macro_rules! binary {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (lhs, rhs) = ($slots.read(&$op.lhs), $slots.read(&$op.rhs));
        $slots.write(&$op.out, Dispatch::$function(lhs, rhs));
    }};
}

macro_rules! scalar {
    ($slots:ident, $op:ident, $function:ident) => {{
        let lhs = $slots.read(&$op.lhs);
        $slots.write(&$op.out, Dispatch::$function(lhs, $op.rhs.into()));
    }};
}

macro_rules! compare {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (lhs, rhs) = ($slots.read(&$op.lhs), $slots.read(&$op.rhs));
        $slots.write(&$op.out, Dispatch::$function(lhs, rhs, $op.out.dtype.into()));
    }};
}

macro_rules! compare_scalar {
    ($slots:ident, $op:ident, $function:ident) => {{
        let lhs = $slots.read(&$op.lhs);
        let out = Dispatch::$function(lhs, $op.rhs.into(), $op.out.dtype.into());
        $slots.write(&$op.out, out);
    }};
}

macro_rules! along {
    ($slots:ident, $op:ident, $function:ident $(, $more:expr)*) => {{
        let input = $slots.read(&$op.input);
        $slots.write(&$op.out, Dispatch::$function(input, $op.axis $(, $more)*));
    }};
}

macro_rules! with_indices {
    ($slots:ident, $op:ident, $call:expr) => {{
        let (out, indices) = $call;
        $slots.write(&$op.out, out);
        $slots.write(&$op.out_indices, indices);
    }};
}

macro_rules! create {
    ($slots:ident, $op:ident, $function:ident) => {{
        let shape = $op.out.shape.clone();
        let out = Dispatch::$function(shape, &$slots.device, $op.out.dtype.into());
        $slots.write(&$op.out, out);
    }};
}

/// The shape operations, which every kind of tensor has under names of its own.
macro_rules! shape_operations {
    ($op:expr, $slots:ident, {
        $reshape:ident $swap_dims:ident $permute:ident $flip:ident $expand:ident $slice:ident
        $slice_assign:ident $gather:ident $select:ident $mask_where:ident $mask_fill:ident
        $repeat_dim:ident $cat:ident $empty:ident $ones:ident $zeros:ident
    }, $others:expr) => {
        match $op {
            Base::Reshape(op) => {
                let input = $slots.read(&op.input);
                $slots.write(&op.out, Dispatch::$reshape(input, op.out.shape.clone()));
            }
            Base::SwapDims(op) => {
                let input = $slots.read(&op.input);
                $slots.write(&op.out, Dispatch::$swap_dims(input, op.dim1, op.dim2));
            }
            Base::Permute(op) => {
                let input = $slots.read(&op.input);
                $slots.write(&op.out, Dispatch::$permute(input, &op.axes));
            }
            Base::Flip(op) => {
                let input = $slots.read(&op.input);
                $slots.write(&op.out, Dispatch::$flip(input, &op.axes));
            }
            Base::Expand(op) => {
                let input = $slots.read(&op.input);
                $slots.write(&op.out, Dispatch::$expand(input, op.out.shape.clone()));
            }
            Base::Slice(op) => {
                let tensor = $slots.read(&op.tensor);
                $slots.write(&op.out, Dispatch::$slice(tensor, &op.ranges));
            }
            Base::SliceAssign(op) => {
                let (tensor, value) = ($slots.read(&op.tensor), $slots.read(&op.value));
                let out = Dispatch::$slice_assign(tensor, &op.ranges, value);
                $slots.write(&op.out, out);
            }
            Base::Gather(op) => {
                let (tensor, indices) = ($slots.read(&op.tensor), $slots.read(&op.indices));
                $slots.write(&op.out, Dispatch::$gather(op.dim, tensor, indices));
            }
            Base::Select(op) => {
                let (tensor, indices) = ($slots.read(&op.tensor), $slots.read(&op.indices));
                $slots.write(&op.out, Dispatch::$select(tensor, op.dim, indices));
            }
            Base::MaskWhere(op) => {
                let (tensor, mask) = ($slots.read(&op.tensor), $slots.read(&op.mask));
                let value = $slots.read(&op.value);
                $slots.write(&op.out, Dispatch::$mask_where(tensor, mask, value));
            }
            Base::MaskFill(op) => {
                let (tensor, mask) = ($slots.read(&op.tensor), $slots.read(&op.mask));
                let out = Dispatch::$mask_fill(tensor, mask, op.value.into());
                $slots.write(&op.out, out);
            }
            Base::RepeatDim(op) => {
                let tensor = $slots.read(&op.tensor);
                $slots.write(&op.out, Dispatch::$repeat_dim(tensor, op.dim, op.times));
            }
            Base::Cat(op) => {
                let tensors = op.tensors.iter().map(|part| $slots.read(part)).collect();
                $slots.write(&op.out, Dispatch::$cat(tensors, op.dim));
            }
            Base::Empty(op) => create!($slots, op, $empty),
            Base::Ones(op) => create!($slots, op, $ones),
            Base::Zeros(op) => create!($slots, op, $zeros),
            other => return $others(other, $slots),
        }
    };
}

fn base_float(op: &Base, slots: &mut Slots) -> Outcome {
    shape_operations!(op, slots, {
        float_reshape float_swap_dims float_permute float_flip float_expand float_slice
        float_slice_assign float_gather float_select float_mask_where float_mask_fill
        float_repeat_dim float_cat float_empty float_ones float_zeros
    }, more_base_float);
    Ok(())
}

fn more_base_float(op: &Base, slots: &mut Slots) -> Outcome {
    match op {
        Base::Unfold(op) => {
            let input = slots.read(&op.input);
            slots.write(&op.out, Dispatch::float_unfold(input, op.dim, op.size, op.step));
        }
        Base::SelectAssign(op) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            let out = Dispatch::float_select_assign(tensor, op.dim, indices, value, op.update);
            slots.write(&op.out, out);
        }
        Base::Scatter(op) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            let out = Dispatch::float_scatter(op.dim, tensor, indices, value, op.update);
            slots.write(&op.out, out);
        }
        Base::ScatterNd(op) => {
            let (data, indices) = (slots.read(&op.data), slots.read(&op.indices));
            let values = slots.read(&op.values);
            let out = Dispatch::float_scatter_nd(data, indices, values, op.reduction);
            slots.write(&op.out, out);
        }
        Base::GatherNd(op) => {
            let (data, indices) = (slots.read(&op.data), slots.read(&op.indices));
            slots.write(&op.out, Dispatch::float_gather_nd(data, indices));
        }
        Base::Equal(op) => compare!(slots, op, float_equal),
        Base::EqualElem(op) => compare_scalar!(slots, op, float_equal_elem),
        Base::NotEqual(op) => compare!(slots, op, float_not_equal),
        Base::NotEqualElem(op) => compare_scalar!(slots, op, float_not_equal_elem),
        Base::Cast(op) => unary_typed!(slots, op, float_cast),
        Base::All(op) => unary_typed!(slots, op, float_all),
        Base::Any(op) => unary_typed!(slots, op, float_any),
        Base::AllDim(op) => along!(slots, op, float_all_dim, op.out.dtype.into()),
        Base::AnyDim(op) => along!(slots, op, float_any_dim, op.out.dtype.into()),
        other => return unsupported(other),
    }
    Ok(())
}

fn base_int(op: &Base, slots: &mut Slots) -> Outcome {
    shape_operations!(op, slots, {
        int_reshape int_swap_dims int_permute int_flip int_expand int_slice
        int_slice_assign int_gather int_select int_mask_where int_mask_fill
        int_repeat_dim int_cat int_empty int_ones int_zeros
    }, more_base_int);
    Ok(())
}

fn more_base_int(op: &Base, slots: &mut Slots) -> Outcome {
    match op {
        Base::Unfold(op) => {
            let input = slots.read(&op.input);
            slots.write(&op.out, Dispatch::int_unfold(input, op.dim, op.size, op.step));
        }
        Base::SelectAssign(op) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            let out = Dispatch::int_select_assign(tensor, op.dim, indices, value, op.update);
            slots.write(&op.out, out);
        }
        Base::Scatter(op) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            let out = Dispatch::int_scatter(op.dim, tensor, indices, value, op.update);
            slots.write(&op.out, out);
        }
        Base::ScatterNd(op) => {
            let (data, indices) = (slots.read(&op.data), slots.read(&op.indices));
            let values = slots.read(&op.values);
            let out = Dispatch::int_scatter_nd(data, indices, values, op.reduction);
            slots.write(&op.out, out);
        }
        Base::GatherNd(op) => {
            let (data, indices) = (slots.read(&op.data), slots.read(&op.indices));
            slots.write(&op.out, Dispatch::int_gather_nd(data, indices));
        }
        Base::Equal(op) => compare!(slots, op, int_equal),
        Base::EqualElem(op) => compare_scalar!(slots, op, int_equal_elem),
        Base::NotEqual(op) => compare!(slots, op, int_not_equal),
        Base::NotEqualElem(op) => compare_scalar!(slots, op, int_not_equal_elem),
        Base::Cast(op) => unary_typed!(slots, op, int_cast),
        Base::All(op) => unary_typed!(slots, op, int_all),
        Base::Any(op) => unary_typed!(slots, op, int_any),
        Base::AllDim(op) => along!(slots, op, int_all_dim, op.out.dtype.into()),
        Base::AnyDim(op) => along!(slots, op, int_any_dim, op.out.dtype.into()),
        other => return unsupported(other),
    }
    Ok(())
}

fn base_bool(op: &Base, slots: &mut Slots) -> Outcome {
    shape_operations!(op, slots, {
        bool_reshape bool_swap_dims bool_permute bool_flip bool_expand bool_slice
        bool_slice_assign bool_gather bool_select bool_mask_where bool_mask_fill
        bool_repeat_dim bool_cat bool_empty bool_ones bool_zeros
    }, more_base_bool);
    Ok(())
}

fn more_base_bool(op: &Base, slots: &mut Slots) -> Outcome {
    match op {
        Base::SelectAssign(op) if matches!(op.update, IndexingUpdateOp::Add) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            slots.write(&op.out, Dispatch::bool_select_or(tensor, op.dim, indices, value));
        }
        Base::Scatter(op) if matches!(op.update, IndexingUpdateOp::Add) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            slots.write(&op.out, Dispatch::bool_scatter_or(op.dim, tensor, indices, value));
        }
        Base::Equal(op) => binary!(slots, op, bool_equal),
        Base::EqualElem(op) => scalar!(slots, op, bool_equal_elem),
        Base::NotEqual(op) => binary!(slots, op, bool_not_equal),
        Base::NotEqualElem(op) => scalar!(slots, op, bool_not_equal_elem),
        Base::All(op) => unary!(slots, op, bool_all),
        Base::Any(op) => unary!(slots, op, bool_any),
        Base::AllDim(op) => along!(slots, op, bool_all_dim),
        Base::AnyDim(op) => along!(slots, op, bool_any_dim),
        other => return unsupported(other),
    }
    Ok(())
}

fn numeric_float(op: &Numeric, slots: &mut Slots) -> Outcome {
    match op {
        Numeric::Add(op) => binary!(slots, op, float_add),
        Numeric::AddScalar(op) => scalar!(slots, op, float_add_scalar),
        Numeric::Sub(op) => binary!(slots, op, float_sub),
        Numeric::SubScalar(op) => scalar!(slots, op, float_sub_scalar),
        Numeric::Div(op) => binary!(slots, op, float_div),
        Numeric::DivScalar(op) => scalar!(slots, op, float_div_scalar),
        Numeric::Rem(op) => binary!(slots, op, float_remainder),
        Numeric::RemScalar(op) => scalar!(slots, op, float_remainder_scalar),
        Numeric::Mul(op) => binary!(slots, op, float_mul),
        Numeric::MulScalar(op) => scalar!(slots, op, float_mul_scalar),
        Numeric::Abs(op) => unary!(slots, op, float_abs),
        Numeric::Neg(op) => unary!(slots, op, float_neg),
        Numeric::Sign(op) => unary!(slots, op, float_sign),
        Numeric::Powi(op) => binary!(slots, op, float_powi),
        Numeric::PowiScalar(op) => scalar!(slots, op, float_powi_scalar),
        Numeric::ClampMin(op) => scalar!(slots, op, float_clamp_min),
        Numeric::ClampMax(op) => scalar!(slots, op, float_clamp_max),
        Numeric::Clamp(op) => {
            let tensor = slots.read(&op.tensor);
            let out = Dispatch::float_clamp(tensor, op.min.into(), op.max.into());
            slots.write(&op.out, out);
        }
        Numeric::Full(op) => {
            let shape = op.out.shape.clone();
            let dtype = op.out.dtype.into();
            let out = Dispatch::float_full(shape, op.value.into(), &slots.device, dtype);
            slots.write(&op.out, out);
        }
        Numeric::Mean(op) => unary!(slots, op, float_mean),
        Numeric::MeanDim(op) => along!(slots, op, float_mean_dim),
        Numeric::Sum(op) => unary!(slots, op, float_sum),
        Numeric::SumDim(op) => along!(slots, op, float_sum_dim),
        Numeric::SumDims(op) => {
            let input = slots.read(&op.input);
            slots.write(&op.out, Dispatch::float_sum_dims(input, &op.axes));
        }
        Numeric::Prod(op) => unary!(slots, op, float_prod),
        Numeric::ProdDim(op) => along!(slots, op, float_prod_dim),
        Numeric::Max(op) => unary!(slots, op, float_max),
        Numeric::MaxDim(op) => along!(slots, op, float_max_dim),
        Numeric::Min(op) => unary!(slots, op, float_min),
        Numeric::MinDim(op) => along!(slots, op, float_min_dim),
        Numeric::MaxAbs(op) => unary!(slots, op, float_max_abs),
        Numeric::MaxAbsDim(op) => along!(slots, op, float_max_abs_dim),
        Numeric::Greater(op) => compare!(slots, op, float_greater),
        Numeric::GreaterElem(op) => compare_scalar!(slots, op, float_greater_elem),
        Numeric::GreaterEqual(op) => compare!(slots, op, float_greater_equal),
        Numeric::GreaterEqualElem(op) => compare_scalar!(slots, op, float_greater_equal_elem),
        Numeric::Lower(op) => compare!(slots, op, float_lower),
        Numeric::LowerElem(op) => compare_scalar!(slots, op, float_lower_elem),
        Numeric::LowerEqual(op) => compare!(slots, op, float_lower_equal),
        Numeric::LowerEqualElem(op) => compare_scalar!(slots, op, float_lower_equal_elem),
        Numeric::ArgMax(op) => along!(slots, op, float_argmax, op.out.dtype.into()),
        Numeric::ArgMin(op) => along!(slots, op, float_argmin, op.out.dtype.into()),
        Numeric::ArgTopK(op) => {
            along!(slots, op, float_argtopk, op.accumulator_len, op.out.dtype.into())
        }
        Numeric::TopK(op) => along!(slots, op, float_topk, op.accumulator_len),
        Numeric::TopKWithIndices(op) => with_indices!(slots, op, {
            let dtype = op.out_indices.dtype.into();
            Dispatch::float_topk_with_indices(slots.read(&op.tensor), op.dim, op.k, dtype)
        }),
        Numeric::MaxDimWithIndices(op) => with_indices!(slots, op, {
            let dtype = op.out_indices.dtype.into();
            Dispatch::float_max_dim_with_indices(slots.read(&op.tensor), op.dim, dtype)
        }),
        Numeric::MinDimWithIndices(op) => with_indices!(slots, op, {
            let dtype = op.out_indices.dtype.into();
            Dispatch::float_min_dim_with_indices(slots.read(&op.tensor), op.dim, dtype)
        }),
        Numeric::CumSum(op) => along!(slots, op, float_cumsum),
        Numeric::CumProd(op) => along!(slots, op, float_cumprod),
        Numeric::CumMin(op) => along!(slots, op, float_cummin),
        Numeric::CumMax(op) => along!(slots, op, float_cummax),
        Numeric::Sort(op) => {
            let input = slots.read(&op.input);
            slots.write(&op.out, Dispatch::float_sort(input, op.dim, op.descending));
        }
        Numeric::SortWithIndices(op) => with_indices!(slots, op, {
            let dtype = op.out_indices.dtype.into();
            let input = slots.read(&op.input);
            Dispatch::float_sort_with_indices(input, op.dim, op.descending, dtype)
        }),
        Numeric::ArgSort(op) => {
            let input = slots.read(&op.input);
            let dtype = op.out.dtype.into();
            let out = Dispatch::float_argsort(input, op.dim, op.descending, dtype);
            slots.write(&op.out, out);
        }
        Numeric::Pad(op) => {
            let input = slots.read(&op.input);
            let out = Dispatch::float_pad(input, &op.padding, op.mode.clone().into());
            slots.write(&op.out, out);
        }
        other @ Numeric::IntRandom(_) => return unsupported(other),
    }
    Ok(())
}

fn numeric_int(op: &Numeric, slots: &mut Slots) -> Outcome {
    match op {
        Numeric::Add(op) => binary!(slots, op, int_add),
        Numeric::AddScalar(op) => scalar!(slots, op, int_add_scalar),
        Numeric::Sub(op) => binary!(slots, op, int_sub),
        Numeric::SubScalar(op) => scalar!(slots, op, int_sub_scalar),
        Numeric::Div(op) => binary!(slots, op, int_div),
        Numeric::DivScalar(op) => scalar!(slots, op, int_div_scalar),
        Numeric::Rem(op) => binary!(slots, op, int_remainder),
        Numeric::RemScalar(op) => scalar!(slots, op, int_remainder_scalar),
        Numeric::Mul(op) => binary!(slots, op, int_mul),
        Numeric::MulScalar(op) => scalar!(slots, op, int_mul_scalar),
        Numeric::Abs(op) => unary!(slots, op, int_abs),
        Numeric::Neg(op) => unary!(slots, op, int_neg),
        Numeric::Sign(op) => unary!(slots, op, int_sign),
        Numeric::Powi(op) => binary!(slots, op, int_powi),
        Numeric::PowiScalar(op) => scalar!(slots, op, int_powi_scalar),
        Numeric::ClampMin(op) => scalar!(slots, op, int_clamp_min),
        Numeric::ClampMax(op) => scalar!(slots, op, int_clamp_max),
        Numeric::Clamp(op) => {
            let tensor = slots.read(&op.tensor);
            slots.write(&op.out, Dispatch::int_clamp(tensor, op.min.into(), op.max.into()));
        }
        Numeric::Full(op) => {
            let shape = op.out.shape.clone();
            let dtype = op.out.dtype.into();
            let out = Dispatch::int_full(shape, op.value.into(), &slots.device, dtype);
            slots.write(&op.out, out);
        }
        Numeric::Mean(op) => unary!(slots, op, int_mean),
        Numeric::MeanDim(op) => along!(slots, op, int_mean_dim),
        Numeric::Sum(op) => unary!(slots, op, int_sum),
        Numeric::SumDim(op) => along!(slots, op, int_sum_dim),
        Numeric::SumDims(op) => {
            let input = slots.read(&op.input);
            let sum = |sum, &axis| Dispatch::int_sum_dim(sum, axis);
            slots.write(&op.out, op.axes.iter().fold(input, sum));
        }
        Numeric::Prod(op) => unary!(slots, op, int_prod),
        Numeric::ProdDim(op) => along!(slots, op, int_prod_dim),
        Numeric::Max(op) => unary!(slots, op, int_max),
        Numeric::MaxDim(op) => along!(slots, op, int_max_dim),
        Numeric::Min(op) => unary!(slots, op, int_min),
        Numeric::MinDim(op) => along!(slots, op, int_min_dim),
        Numeric::MaxAbs(op) => unary!(slots, op, int_max_abs),
        Numeric::MaxAbsDim(op) => along!(slots, op, int_max_abs_dim),
        Numeric::Greater(op) => compare!(slots, op, int_greater),
        Numeric::GreaterElem(op) => compare_scalar!(slots, op, int_greater_elem),
        Numeric::GreaterEqual(op) => compare!(slots, op, int_greater_equal),
        Numeric::GreaterEqualElem(op) => compare_scalar!(slots, op, int_greater_equal_elem),
        Numeric::Lower(op) => compare!(slots, op, int_lower),
        Numeric::LowerElem(op) => compare_scalar!(slots, op, int_lower_elem),
        Numeric::LowerEqual(op) => compare!(slots, op, int_lower_equal),
        Numeric::LowerEqualElem(op) => compare_scalar!(slots, op, int_lower_equal_elem),
        Numeric::ArgMax(op) => along!(slots, op, int_argmax),
        Numeric::ArgMin(op) => along!(slots, op, int_argmin),
        Numeric::ArgTopK(op) => along!(slots, op, int_argtopk, op.accumulator_len),
        Numeric::TopK(op) => along!(slots, op, int_topk, op.accumulator_len),
        Numeric::TopKWithIndices(op) => with_indices!(slots, op, {
            Dispatch::int_topk_with_indices(slots.read(&op.tensor), op.dim, op.k)
        }),
        Numeric::MaxDimWithIndices(op) => with_indices!(slots, op, {
            Dispatch::int_max_dim_with_indices(slots.read(&op.tensor), op.dim)
        }),
        Numeric::MinDimWithIndices(op) => with_indices!(slots, op, {
            Dispatch::int_min_dim_with_indices(slots.read(&op.tensor), op.dim)
        }),
        Numeric::CumSum(op) => along!(slots, op, int_cumsum),
        Numeric::CumProd(op) => along!(slots, op, int_cumprod),
        Numeric::CumMin(op) => along!(slots, op, int_cummin),
        Numeric::CumMax(op) => along!(slots, op, int_cummax),
        Numeric::ArgSort(op) => {
            let input = slots.read(&op.input);
            slots.write(&op.out, Dispatch::int_argsort(input, op.dim, op.descending));
        }
        Numeric::Pad(op) => {
            let input = slots.read(&op.input);
            let out = Dispatch::int_pad(input, &op.padding, op.mode.clone().into());
            slots.write(&op.out, out);
        }
        other => return unsupported(other),
    }
    Ok(())
}

fn boolean(op: &BoolOp, slots: &mut Slots) -> Outcome {
    match op {
        BoolOp::IntoFloat(op) => unary_typed!(slots, op, bool_into_float),
        BoolOp::IntoInt(op) => unary_typed!(slots, op, bool_into_int),
        BoolOp::Not(op) => unary!(slots, op, bool_not),
        BoolOp::And(op) => binary!(slots, op, bool_and),
        BoolOp::Or(op) => binary!(slots, op, bool_or),
        BoolOp::Xor(op) => binary!(slots, op, bool_xor),
    }
    Ok(())
}

fn integer(op: &IntOp, slots: &mut Slots) -> Outcome {
    match op {
        IntOp::IntoFloat(op) => unary_typed!(slots, op, int_into_float),
        IntOp::Matmul(op) => binary!(slots, op, int_matmul),
        IntOp::BitwiseAnd(op) => binary!(slots, op, bitwise_and),
        IntOp::BitwiseAndScalar(op) => scalar!(slots, op, bitwise_and_scalar),
        IntOp::BitwiseOr(op) => binary!(slots, op, bitwise_or),
        IntOp::BitwiseOrScalar(op) => scalar!(slots, op, bitwise_or_scalar),
        IntOp::BitwiseXor(op) => binary!(slots, op, bitwise_xor),
        IntOp::BitwiseXorScalar(op) => scalar!(slots, op, bitwise_xor_scalar),
        IntOp::BitwiseNot(op) => unary!(slots, op, bitwise_not),
        IntOp::BitwiseLeftShift(op) => binary!(slots, op, bitwise_left_shift),
        IntOp::BitwiseLeftShiftScalar(op) => scalar!(slots, op, bitwise_left_shift_scalar),
        IntOp::BitwiseRightShift(op) => binary!(slots, op, bitwise_right_shift),
        IntOp::BitwiseRightShiftScalar(op) => scalar!(slots, op, bitwise_right_shift_scalar),
    }
    Ok(())
}

fn float(op: &FloatOp, slots: &mut Slots) -> Outcome {
    match op {
        FloatOp::Exp(op) => unary!(slots, op, float_exp),
        FloatOp::Log(op) => unary!(slots, op, float_log),
        FloatOp::Log1p(op) => unary!(slots, op, float_log1p),
        FloatOp::Erf(op) => unary!(slots, op, float_erf),
        FloatOp::Sqrt(op) => unary!(slots, op, float_sqrt),
        FloatOp::Recip(op) => unary!(slots, op, float_recip),
        FloatOp::Cos(op) => unary!(slots, op, float_cos),
        FloatOp::Cosh(op) => unary!(slots, op, float_cosh),
        FloatOp::Sin(op) => unary!(slots, op, float_sin),
        FloatOp::Sinh(op) => unary!(slots, op, float_sinh),
        FloatOp::Tan(op) => unary!(slots, op, float_tan),
        FloatOp::Tanh(op) => unary!(slots, op, float_tanh),
        FloatOp::ArcCos(op) => unary!(slots, op, float_acos),
        FloatOp::ArcCosh(op) => unary!(slots, op, float_acosh),
        FloatOp::ArcSin(op) => unary!(slots, op, float_asin),
        FloatOp::ArcSinh(op) => unary!(slots, op, float_asinh),
        FloatOp::ArcTan(op) => unary!(slots, op, float_atan),
        FloatOp::ArcTanh(op) => unary!(slots, op, float_atanh),
        FloatOp::ArcTan2(op) => binary!(slots, op, float_atan2),
        FloatOp::Round(op) => unary!(slots, op, float_round),
        FloatOp::Floor(op) => unary!(slots, op, float_floor),
        FloatOp::Ceil(op) => unary!(slots, op, float_ceil),
        FloatOp::Trunc(op) => unary!(slots, op, float_trunc),
        FloatOp::IntoInt(op) => unary_typed!(slots, op, float_into_int),
        FloatOp::IsNan(op) => unary_typed!(slots, op, float_is_nan),
        FloatOp::IsInf(op) => unary_typed!(slots, op, float_is_inf),
        FloatOp::Powf(op) => binary!(slots, op, float_powf),
        FloatOp::PowfScalar(op) => scalar!(slots, op, float_powf_scalar),
        FloatOp::Hypot(op) => binary!(slots, op, float_hypot),
        FloatOp::Matmul(op) => binary!(slots, op, float_matmul),
        FloatOp::Cross(op) => {
            let (lhs, rhs) = (slots.read(&op.lhs), slots.read(&op.rhs));
            slots.write(&op.out, Dispatch::float_cross(lhs, rhs, op.dim));
        }
        FloatOp::GridSample2d(op) => {
            let (tensor, grid) = (slots.read(&op.tensor), slots.read(&op.grid));
            let out = Dispatch::float_grid_sample_2d(tensor, grid, op.options.clone().into());
            slots.write(&op.out, out);
        }
        other => return unsupported(other),
    }
    Ok(())
}

macro_rules! convolution {
    ($slots:ident, $op:ident, $function:ident) => {{
        let (x, weight) = ($slots.read(&$op.x), $slots.read(&$op.weight));
        let bias = $slots.read_optional($op.bias.as_ref());
        let out = Dispatch::$function(x, weight, bias, $op.options.clone().into());
        $slots.write(&$op.out, out);
    }};
}

macro_rules! pool {
    ($slots:ident, $op:ident, $function:ident, $($argument:ident),+) => {{
        let x = $slots.read(&$op.x);
        $slots.write(&$op.out, Dispatch::$function(x, $($op.$argument),+));
    }};
}

fn module(op: &ModuleOp, slots: &mut Slots) -> Outcome {
    match op {
        ModuleOp::Linear(op) => {
            let (x, weight) = (slots.read(&op.x), slots.read(&op.weight));
            let bias = slots.read_optional(op.bias.as_ref());
            slots.write(&op.out, Dispatch::linear(x, weight, bias));
        }
        ModuleOp::Embedding(op) => {
            let (weights, indices) = (slots.read(&op.weights), slots.read(&op.indices));
            slots.write(&op.out, Dispatch::embedding(weights, indices));
        }
        ModuleOp::BatchNorm(op) => {
            let (x, gamma, beta) = (
                slots.read(&op.x),
                slots.read(&op.gamma),
                slots.read(&op.beta),
            );
            let (mean, variance) = (slots.read(&op.mean), slots.read(&op.variance));
            let out = Dispatch::batch_norm(x, gamma, beta, mean, variance, op.epsilon.elem());
            slots.write(&op.out, out);
        }
        ModuleOp::LayerNorm(op) => {
            let (input, gamma) = (slots.read(&op.input), slots.read(&op.gamma));
            let beta = slots.read_optional(op.beta.as_ref());
            let out = Dispatch::layer_norm(input, gamma, beta, op.epsilon.elem());
            slots.write(&op.out, out);
        }
        ModuleOp::Conv1d(op) => convolution!(slots, op, conv1d),
        ModuleOp::Conv2d(op) => convolution!(slots, op, conv2d),
        ModuleOp::Conv3d(op) => convolution!(slots, op, conv3d),
        ModuleOp::ConvTranspose1d(op) => convolution!(slots, op, conv_transpose1d),
        ModuleOp::ConvTranspose2d(op) => convolution!(slots, op, conv_transpose2d),
        ModuleOp::ConvTranspose3d(op) => convolution!(slots, op, conv_transpose3d),
        ModuleOp::AvgPool1d(op) => pool!(
            slots, op, avg_pool1d, kernel_size, stride, padding, count_include_pad, ceil_mode
        ),
        ModuleOp::AvgPool2d(op) => pool!(
            slots, op, avg_pool2d, kernel_size, stride, padding, count_include_pad, ceil_mode
        ),
        ModuleOp::AdaptiveAvgPool1d(op) => pool!(slots, op, adaptive_avg_pool1d, output_size),
        ModuleOp::AdaptiveAvgPool2d(op) => pool!(slots, op, adaptive_avg_pool2d, output_size),
        ModuleOp::AdaptiveAvgPool3d(op) => pool!(slots, op, adaptive_avg_pool3d, output_size),
        ModuleOp::MaxPool1d(op) => pool!(
            slots, op, max_pool1d, kernel_size, stride, padding, dilation, ceil_mode
        ),
        ModuleOp::MaxPool2d(op) => pool!(
            slots, op, max_pool2d, kernel_size, stride, padding, dilation, ceil_mode
        ),
        ModuleOp::Interpolate(op) => {
            let x = slots.read(&op.x);
            let out = Dispatch::interpolate(x, op.output_size, op.options.clone().into());
            slots.write(&op.out, out);
        }
        ModuleOp::Unfold4d(op) => {
            let x = slots.read(&op.x);
            let options = UnfoldOptions::new(
                op.options.stride,
                op.options.padding,
                op.options.dilation,
            );
            slots.write(&op.out, Dispatch::unfold4d(x, op.kernel_size, options));
        }
        ModuleOp::Attention(op) => {
            let (query, key) = (slots.read(&op.query), slots.read(&op.key));
            let value = slots.read(&op.value);
            let mask = slots.read_optional(op.mask.as_ref());
            let bias = slots.read_optional(op.attn_bias.as_ref());
            let options = op.options.clone().into();
            let out = Dispatch::attention(query, key, value, mask, bias, options);
            slots.write(&op.out, out);
        }
        other => return unsupported(other),
    }
    Ok(())
}

fn activation(op: &Activation, slots: &mut Slots) -> Outcome {
    match op {
        Activation::Relu(op) => unary!(slots, op, relu),
        Activation::Gelu(op) => unary!(slots, op, gelu),
        Activation::Sigmoid(op) => unary!(slots, op, sigmoid),
        Activation::LogSigmoid(op) => unary!(slots, op, log_sigmoid),
        Activation::LeakyRelu(op) => scalar!(slots, op, leaky_relu),
        Activation::PRelu(op) => binary!(slots, op, prelu),
        Activation::HardSigmoid(op) => {
            let tensor = slots.read(&op.tensor);
            let out = Dispatch::hard_sigmoid(tensor, op.alpha.into(), op.beta.into());
            slots.write(&op.out, out);
        }
        Activation::Softmax(op) => along!(slots, op, softmax),
        Activation::LogSoftmax(op) => along!(slots, op, log_softmax),
        Activation::Softmin(op) => along!(slots, op, softmin),
        other => return unsupported(other),
    }
    Ok(())
}
