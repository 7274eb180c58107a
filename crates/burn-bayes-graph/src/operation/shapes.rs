//! Entries of operations on shapes and elements, which exist for floats, integers and booleans.

use burn::backend::ir::BaseOperationIr as Base;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::tensor::IndexingUpdateOp;
use burn::backend::{Dispatch as D, DispatchTensor};
use burn::tensor::DType;

use burn_bayes_program::{Binary, Expr};

use super::AxisRule;
use super::forms::{
    BOOL, Entry, FLOAT, INT, along, along_to, compare, compare_scalar, create, number,
    supported_if, three, to_shape, unary_to, unknown, whole_to, with_axes, with_rule,
};

/// The entry of an operation on the element type `k`, which indexes the functions for floats, integers and
/// booleans.
pub(super) fn base(op: &Base, k: usize) -> Entry {
    match op {
        Base::Reshape(_) => to_shape(
            AxisRule::Reshape,
            [D::float_reshape, D::int_reshape, D::bool_reshape][k],
        ),
        Base::Expand(_) => to_shape(
            AxisRule::Expand,
            [D::float_expand, D::int_expand, D::bool_expand][k],
        ),
        Base::Permute(op) => with_axes(AxisRule::Permute(op.axes.clone()), PERMUTE[k]),
        Base::SwapDims(op) => {
            let mut axes: Vec<_> = (0..op.input.shape.num_dims()).collect();
            axes.swap(op.dim1, op.dim2);
            with_axes(AxisRule::Permute(axes), PERMUTE[k])
        }
        Base::Flip(op) => with_axes(
            AxisRule::Flip(op.axes.clone()),
            [D::float_flip, D::int_flip, D::bool_flip][k],
        ),
        Base::Slice(op) => {
            let run = [D::float_slice, D::int_slice, D::bool_slice][k];
            with_rule(AxisRule::Slice(op.ranges.clone()), move |op, slots| {
                run(slots.input(op, 0), op.axes.ranges())
            })
        }
        Base::SliceAssign(op) => {
            let run = [
                D::float_slice_assign,
                D::int_slice_assign,
                D::bool_slice_assign,
            ][k];
            with_rule(
                AxisRule::SliceAssign(op.ranges.clone()),
                move |op, slots| run(slots.input(op, 0), op.axes.ranges(), slots.input(op, 1)),
            )
        }
        Base::Select(op) => {
            let run = [D::float_select, D::int_select, D::bool_select][k];
            with_rule(AxisRule::Select(op.dim), move |op, slots| {
                run(slots.input(op, 0), op.axes.axis(), slots.input(op, 1))
            })
        }
        Base::Gather(op) => {
            let run = [D::float_gather, D::int_gather, D::bool_gather][k];
            with_rule(AxisRule::Gather(op.dim), move |op, slots| {
                run(op.axes.axis(), slots.input(op, 0), slots.input(op, 1))
            })
        }
        Base::MaskWhere(_) => {
            let run = [D::float_mask_where, D::int_mask_where, D::bool_mask_where][k];
            with_rule(AxisRule::Mask, move |op, slots| {
                run(slots.input(op, 0), slots.input(op, 1), slots.input(op, 2))
            })
            .map(Expr::select(
                Expr::Operand(1),
                Expr::Operand(2),
                Expr::Operand(0),
            ))
        }
        Base::MaskFill(op) => {
            let run = [D::float_mask_fill, D::int_mask_fill, D::bool_mask_fill][k];
            let value = op.value;
            let entry = with_rule(AxisRule::Mask, move |op, slots| {
                run(slots.input(op, 0), slots.input(op, 1), value.into())
            });
            match number(value) {
                Some(value) => entry.map(Expr::select(Expr::Operand(1), value, Expr::Operand(0))),
                None => entry,
            }
        }
        Base::RepeatDim(op) => {
            let run = [D::float_repeat_dim, D::int_repeat_dim, D::bool_repeat_dim][k];
            let times = op.times;
            with_rule(AxisRule::Repeat(op.dim, times), move |op, slots| {
                run(slots.input(op, 0), op.axes.axis(), times)
            })
        }
        Base::Cat(op) => {
            let run = [D::float_cat, D::int_cat, D::bool_cat][k];
            with_rule(AxisRule::Cat(op.dim), move |op, slots| {
                let parts = op.inputs.iter().map(|input| slots.read(input));
                run(parts.collect(), op.axes.axis())
            })
        }
        // Programs have numbers of `f32`, and integers that it has exactly.
        Base::Cast(op) => match k {
            FLOAT => unary_to(D::float_cast)
                .with_axis_rule(AxisRule::Cast)
                .map(Expr::Operand(0))
                .compiled_if(op.out.dtype == DType::F32),
            INT => unary_to(D::int_cast)
                .with_axis_rule(AxisRule::Cast)
                .map(Expr::Operand(0))
                .compiled_if(matches!(op.out.dtype, DType::I64 | DType::I32)),
            _ => Entry::without_arithmetic(AxisRule::Cast),
        },
        Base::Equal(_) => compare(
            [D::float_equal, D::int_equal, |lhs, rhs, _| {
                D::bool_equal(lhs, rhs)
            }][k],
        )
        .binary(Binary::Equal),
        Base::NotEqual(_) => compare(
            [D::float_not_equal, D::int_not_equal, |lhs, rhs, _| {
                D::bool_not_equal(lhs, rhs)
            }][k],
        )
        .binary(Binary::NotEqual),
        Base::EqualElem(op) => compare_scalar(
            op.rhs,
            [D::float_equal_elem, D::int_equal_elem, |lhs, rhs, _| {
                D::bool_equal_elem(lhs, rhs)
            }][k],
        )
        .scalar(Binary::Equal, op.rhs),
        Base::NotEqualElem(op) => compare_scalar(
            op.rhs,
            [
                D::float_not_equal_elem,
                D::int_not_equal_elem,
                |lhs, rhs, _| D::bool_not_equal_elem(lhs, rhs),
            ][k],
        )
        .scalar(Binary::NotEqual, op.rhs),
        Base::All(_) => whole_to([D::float_all, D::int_all, |input, _| D::bool_all(input)][k]),
        Base::Any(_) => whole_to([D::float_any, D::int_any, |input, _| D::bool_any(input)][k]),
        Base::AllDim(op) => along_to(
            op.axis,
            [D::float_all_dim, D::int_all_dim, |input, axis, _| {
                D::bool_all_dim(input, axis)
            }][k],
        ),
        Base::AnyDim(op) => along_to(
            op.axis,
            [D::float_any_dim, D::int_any_dim, |input, axis, _| {
                D::bool_any_dim(input, axis)
            }][k],
        ),
        Base::Empty(_) => create(k, D::float_empty, D::int_empty, D::bool_empty),
        Base::Ones(_) => create(k, D::float_ones, D::int_ones, D::bool_ones),
        Base::Zeros(_) => create(k, D::float_zeros, D::int_zeros, D::bool_zeros),
        Base::Unfold(op) => {
            let (size, step) = (op.size, op.step);
            let run = [D::float_unfold, D::int_unfold, D::bool_unfold][k];
            let entry = along(op.dim, move |input, axis| run(input, axis, size, step));
            supported_if(k != BOOL, entry)
        }
        Base::Scatter(op) => {
            let update = op.update;
            let run = [
                D::float_scatter,
                D::int_scatter,
                |axis, input, indices, value, _| D::bool_scatter_or(axis, input, indices, value),
            ][k];
            let entry = with_rule(AxisRule::Along(vec![op.dim]), move |op, slots| {
                let [input, indices, value] = three(op, slots);
                run(op.axes.axis(), input, indices, value, update)
            });
            supported_if(k != BOOL || is_addition(update), entry)
        }
        Base::SelectAssign(op) => {
            let (axis, update) = (op.dim, op.update);
            let run = [
                D::float_select_assign,
                D::int_select_assign,
                |input, axis, indices, value, _| D::bool_select_or(input, axis, indices, value),
            ][k];
            let entry = with_rule(AxisRule::Unknown, move |op, slots| {
                let [input, indices, value] = three(op, slots);
                run(input, axis, indices, value, update)
            });
            supported_if(k != BOOL || is_addition(update), entry)
        }
        Base::ScatterNd(op) if k != BOOL => {
            let update = op.reduction;
            let run = [D::float_scatter_nd, D::int_scatter_nd][k];
            with_rule(AxisRule::Unknown, move |op, slots| {
                let [input, indices, values] = three(op, slots);
                run(input, indices, values, update)
            })
        }
        Base::GatherNd(_) if k != BOOL => {
            let run = [D::float_gather_nd, D::int_gather_nd][k];
            with_rule(AxisRule::Unknown, move |op, slots| {
                run(slots.input(op, 0), slots.input(op, 1))
            })
        }
        Base::ScatterNd(_) | Base::GatherNd(_) => unknown(),
    }
}

const PERMUTE: [fn(DispatchTensor, &[usize]) -> DispatchTensor; 3] =
    [D::float_permute, D::int_permute, D::bool_permute];

/// Boolean tensors support no other update.
fn is_addition(update: IndexingUpdateOp) -> bool {
    matches!(update, IndexingUpdateOp::Add)
}
