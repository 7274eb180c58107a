//! Arithmetic, comparisons and reductions.

use burn::backend::Dispatch;
use burn::backend::ir::{
    BoolOperationIr as BoolOp, FloatOperationIr as FloatOp, IntOperationIr as IntOp,
    NumericOperationIr as Numeric,
};
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};

use super::{Outcome, Slots, unsupported};

pub(super) fn numeric_float(op: &Numeric, slots: &mut Slots) -> Outcome {
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
            along!(
                slots,
                op,
                float_argtopk,
                op.accumulator_len,
                op.out.dtype.into()
            )
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
            let out = Dispatch::float_pad(input, &op.padding, op.mode.into());
            slots.write(&op.out, out);
        }
        other @ Numeric::IntRandom(_) => return unsupported(other),
    }
    Ok(())
}

pub(super) fn numeric_int(op: &Numeric, slots: &mut Slots) -> Outcome {
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
            slots.write(
                &op.out,
                Dispatch::int_clamp(tensor, op.min.into(), op.max.into()),
            );
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
            let out = Dispatch::int_pad(input, &op.padding, op.mode.into());
            slots.write(&op.out, out);
        }
        other => return unsupported(other),
    }
    Ok(())
}

pub(super) fn boolean(op: &BoolOp, slots: &mut Slots) -> Outcome {
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

pub(super) fn integer(op: &IntOp, slots: &mut Slots) -> Outcome {
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

pub(super) fn float(op: &FloatOp, slots: &mut Slots) -> Outcome {
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
