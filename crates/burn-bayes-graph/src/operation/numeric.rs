//! Entries of arithmetic, comparisons and reductions, which exist for floats and integers.

use burn::backend::Dispatch as D;
use burn::backend::ir::{NumericOperationIr as N, NumericOperationIr as Numeric, PadModeIr};
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn_bayes_program::{Binary, Expr, Unary};

use super::forms::{
    Entry, FLOAT, along, along_to, along_with_indices, binary, clamped, compare, compare_scalar,
    number, scalar, scalars, supported_if, unary, whole, whole_sum, with_axes, with_rule,
};
use super::{AxisRule, Compiled};

/// The entry of an operation on the element type `k`, which indexes the functions for floats and integers.
pub(super) fn numeric(op: &N, k: usize) -> Entry {
    match op {
        N::Add(_) => binary([D::float_add, D::int_add][k]).binary(Binary::Add),
        N::AddScalar(op) => {
            scalar(op.rhs, [D::float_add_scalar, D::int_add_scalar][k]).scalar(Binary::Add, op.rhs)
        }
        N::Sub(_) => binary([D::float_sub, D::int_sub][k]).binary(Binary::Sub),
        N::SubScalar(op) => {
            scalar(op.rhs, [D::float_sub_scalar, D::int_sub_scalar][k]).scalar(Binary::Sub, op.rhs)
        }
        N::Mul(_) => binary([D::float_mul, D::int_mul][k]).binary(Binary::Mul),
        N::MulScalar(op) => {
            scalar(op.rhs, [D::float_mul_scalar, D::int_mul_scalar][k]).scalar(Binary::Mul, op.rhs)
        }
        N::Div(_) => binary([D::float_div, D::int_div][k]).binary(Binary::Div),
        N::DivScalar(op) => {
            scalar(op.rhs, [D::float_div_scalar, D::int_div_scalar][k]).scalar(Binary::Div, op.rhs)
        }
        N::Rem(_) => binary([D::float_remainder, D::int_remainder][k]).binary(Binary::Rem),
        N::RemScalar(op) => scalar(
            op.rhs,
            [D::float_remainder_scalar, D::int_remainder_scalar][k],
        )
        .scalar(Binary::Rem, op.rhs),
        N::Powi(_) => binary([D::float_powi, D::int_powi][k]).binary(Binary::Pow),
        N::PowiScalar(op) => scalar(op.rhs, [D::float_powi_scalar, D::int_powi_scalar][k])
            .scalar(Binary::Pow, op.rhs),
        N::Abs(_) => unary([D::float_abs, D::int_abs][k]).unary(Unary::Abs),
        N::Neg(_) => unary([D::float_neg, D::int_neg][k]).unary(Unary::Neg),
        N::Sign(_) => unary([D::float_sign, D::int_sign][k]).unary(Unary::Sign),
        N::ClampMin(op) => {
            scalar(op.rhs, [D::float_clamp_min, D::int_clamp_min][k]).scalar(Binary::Max, op.rhs)
        }
        N::ClampMax(op) => {
            scalar(op.rhs, [D::float_clamp_max, D::int_clamp_max][k]).scalar(Binary::Min, op.rhs)
        }
        N::Clamp(op) => {
            let entry = scalars(op.min, op.max, [D::float_clamp, D::int_clamp][k]);
            match (number(op.min), number(op.max)) {
                (Some(min), Some(max)) => entry.map(clamped(Expr::Operand(0), min, max)),
                _ => entry,
            }
        }
        N::Greater(_) => compare([D::float_greater, D::int_greater][k]).binary(Binary::Greater),
        N::GreaterElem(op) => {
            compare_scalar(op.rhs, [D::float_greater_elem, D::int_greater_elem][k])
                .scalar(Binary::Greater, op.rhs)
        }
        N::GreaterEqual(_) => {
            compare([D::float_greater_equal, D::int_greater_equal][k]).binary(Binary::GreaterEqual)
        }
        N::GreaterEqualElem(op) => compare_scalar(
            op.rhs,
            [D::float_greater_equal_elem, D::int_greater_equal_elem][k],
        )
        .scalar(Binary::GreaterEqual, op.rhs),
        N::Lower(_) => compare([D::float_lower, D::int_lower][k]).binary(Binary::Lower),
        N::LowerElem(op) => compare_scalar(op.rhs, [D::float_lower_elem, D::int_lower_elem][k])
            .scalar(Binary::Lower, op.rhs),
        N::LowerEqual(_) => {
            compare([D::float_lower_equal, D::int_lower_equal][k]).binary(Binary::LowerEqual)
        }
        N::LowerEqualElem(op) => compare_scalar(
            op.rhs,
            [D::float_lower_equal_elem, D::int_lower_equal_elem][k],
        )
        .scalar(Binary::LowerEqual, op.rhs),
        N::Sum(_) => whole_sum(k, [D::float_sum, D::int_sum][k], Numeric::SumDim),
        N::Mean(_) => whole_sum(k, [D::float_mean, D::int_mean][k], Numeric::MeanDim),
        N::Prod(_) => whole([D::float_prod, D::int_prod][k]),
        N::Max(_) => whole([D::float_max, D::int_max][k]),
        N::Min(_) => whole([D::float_min, D::int_min][k]),
        N::MaxAbs(_) => whole([D::float_max_abs, D::int_max_abs][k]),
        N::SumDim(op) => along(op.axis, [D::float_sum_dim, D::int_sum_dim][k])
            .compiles(Compiled::Sum { is_mean: false }),
        N::MeanDim(op) => along(op.axis, [D::float_mean_dim, D::int_mean_dim][k])
            .compiles(Compiled::Sum { is_mean: true }),
        N::ProdDim(op) => along(op.axis, [D::float_prod_dim, D::int_prod_dim][k]),
        N::MaxDim(op) => {
            along(op.axis, [D::float_max_dim, D::int_max_dim][k]).compiles(Compiled::Extreme {
                is_largest: true,
                is_index: false,
            })
        }
        N::MinDim(op) => {
            along(op.axis, [D::float_min_dim, D::int_min_dim][k]).compiles(Compiled::Extreme {
                is_largest: false,
                is_index: false,
            })
        }
        N::MaxAbsDim(op) => along(op.axis, [D::float_max_abs_dim, D::int_max_abs_dim][k]),
        N::CumSum(op) => along(op.axis, [D::float_cumsum, D::int_cumsum][k]),
        N::CumProd(op) => along(op.axis, [D::float_cumprod, D::int_cumprod][k]),
        N::CumMin(op) => along(op.axis, [D::float_cummin, D::int_cummin][k]),
        N::CumMax(op) => along(op.axis, [D::float_cummax, D::int_cummax][k]),
        N::SumDims(op) => with_axes(
            AxisRule::Along(op.axes.clone()),
            [D::float_sum_dims, |input, axes: &[usize]| {
                axes.iter()
                    .fold(input, |sum, &axis| D::int_sum_dim(sum, axis))
            }][k],
        )
        .compiles(Compiled::Sum { is_mean: false }),
        N::ArgMax(op) => along_to(
            op.axis,
            [D::float_argmax, |input, axis, _| D::int_argmax(input, axis)][k],
        )
        .compiles(Compiled::Extreme {
            is_largest: true,
            is_index: true,
        }),
        N::ArgMin(op) => along_to(
            op.axis,
            [D::float_argmin, |input, axis, _| D::int_argmin(input, axis)][k],
        )
        .compiles(Compiled::Extreme {
            is_largest: false,
            is_index: true,
        }),
        N::TopK(op) => {
            let (run, len) = ([D::float_topk, D::int_topk][k], op.accumulator_len);
            along(op.axis, move |input, axis| run(input, axis, len))
        }
        N::ArgTopK(op) => {
            let len = op.accumulator_len;
            let run = [D::float_argtopk, |input, axis, len, _| {
                D::int_argtopk(input, axis, len)
            }][k];
            along_to(op.axis, move |input, axis, dtype| {
                run(input, axis, len, dtype)
            })
        }
        N::TopKWithIndices(op) => {
            let len = op.k;
            let run = [D::float_topk_with_indices, |input, axis, len, _| {
                D::int_topk_with_indices(input, axis, len)
            }][k];
            along_with_indices(op.dim, move |input, axis, dtype| {
                run(input, axis, len, dtype)
            })
        }
        N::MaxDimWithIndices(op) => along_with_indices(
            op.dim,
            [D::float_max_dim_with_indices, |input, axis, _| {
                D::int_max_dim_with_indices(input, axis)
            }][k],
        )
        .compiles(Compiled::Extreme {
            is_largest: true,
            is_index: false,
        }),
        N::MinDimWithIndices(op) => along_with_indices(
            op.dim,
            [D::float_min_dim_with_indices, |input, axis, _| {
                D::int_min_dim_with_indices(input, axis)
            }][k],
        )
        .compiles(Compiled::Extreme {
            is_largest: false,
            is_index: false,
        }),
        N::Sort(op) => {
            let descending = op.descending;
            let entry = along(op.dim, move |input, axis| {
                D::float_sort(input, axis, descending)
            });
            supported_if(k == FLOAT, entry)
        }
        N::SortWithIndices(op) => {
            let descending = op.descending;
            let entry = along_with_indices(op.dim, move |input, axis, dtype| {
                D::float_sort_with_indices(input, axis, descending, dtype)
            });
            supported_if(k == FLOAT, entry)
        }
        N::ArgSort(op) => {
            let descending = op.descending;
            let run = [D::float_argsort, |input, axis, descending, _| {
                D::int_argsort(input, axis, descending)
            }][k];
            along_to(op.dim, move |input, axis, dtype| {
                run(input, axis, descending, dtype)
            })
        }
        N::Pad(op) => {
            let compiled = match op.mode {
                PadModeIr::Constant(value) => number(value).map(|value| Compiled::Pad {
                    padding: op.padding.clone(),
                    value,
                }),
                _ => None,
            };
            let (run, mode) = ([D::float_pad, D::int_pad][k], op.mode);
            let padded = op.padding.iter().enumerate();
            let padded = padded.filter(|(_, (before, after))| before + after > 0);
            let (axes, amounts): (Vec<_>, Vec<_>) =
                padded.map(|(axis, &amount)| (axis, amount)).unzip();
            with_rule(AxisRule::Along(axes), move |op, slots| {
                let mut padding = vec![(0, 0); op.out().shape.num_dims()];
                for (&axis, &amount) in op.axes.axes().iter().zip(&amounts) {
                    padding[axis] = amount;
                }
                run(slots.input(op, 0), &padding, mode.into())
            })
            .compiles(compiled.unwrap_or(Compiled::No))
        }
        N::Full(op) => {
            let value = op.value;
            with_rule(AxisRule::Creation, move |op, slots| {
                let (shape, dtype) = (op.out().shape.clone(), op.out().dtype);
                match k {
                    FLOAT => D::float_full(shape, value.into(), slots.device(), dtype.into()),
                    _ => D::int_full(shape, value.into(), slots.device(), dtype.into()),
                }
            })
        }
        N::IntRandom(_) => Entry::without_arithmetic(AxisRule::Random),
    }
}
