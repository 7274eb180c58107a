//! Operations on shapes, which tensors of every kind have.

use burn::backend::Dispatch;
use burn::backend::ir::BaseOperationIr as Base;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::tensor::IndexingUpdateOp;

use super::{Outcome, Slots, unsupported};

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

pub(super) fn base_float(op: &Base, slots: &mut Slots) -> Outcome {
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
            slots.write(
                &op.out,
                Dispatch::float_unfold(input, op.dim, op.size, op.step),
            );
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

pub(super) fn base_int(op: &Base, slots: &mut Slots) -> Outcome {
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
            slots.write(
                &op.out,
                Dispatch::int_unfold(input, op.dim, op.size, op.step),
            );
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

pub(super) fn base_bool(op: &Base, slots: &mut Slots) -> Outcome {
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
            slots.write(
                &op.out,
                Dispatch::bool_select_or(tensor, op.dim, indices, value),
            );
        }
        Base::Scatter(op) if matches!(op.update, IndexingUpdateOp::Add) => {
            let (tensor, indices) = (slots.read(&op.tensor), slots.read(&op.indices));
            let value = slots.read(&op.value);
            slots.write(
                &op.out,
                Dispatch::bool_scatter_or(op.dim, tensor, indices, value),
            );
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
