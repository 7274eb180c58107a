//! The table of operations that Burn records, with the rule for axes and the arithmetic of each.
//!
//! An operation that exists for several element types has one entry with a function for each type. Entries are
//! in this file, [`shapes`](super::shapes), [`numeric`](super::numeric) and [`layers`](super::layers).

use burn::backend::Dispatch as D;
use burn::backend::ir::{
    BoolOperationIr as BoolOp, FloatOperationIr as F, IntOperationIr as IntOp, OperationIr,
};
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_bayes_program::{Binary, Expr, Unary};

use super::AxisRule;
use super::compiled::is_bounded;
use super::forms::{
    BOOL, Entry, FLOAT, INT, binary, matmul, scalar, unary, unary_to, unknown, with_rule,
};
use super::layers::{activation, module};
use super::numeric::numeric;
use super::shapes::base;

/// The entry of an operation.
pub(super) fn entry(operation: &OperationIr) -> Entry {
    match operation {
        OperationIr::BaseFloat(op) => base(op, FLOAT),
        OperationIr::BaseInt(op) => base(op, INT),
        OperationIr::BaseBool(op) => base(op, BOOL),
        OperationIr::NumericFloat(_, op) => numeric(op, FLOAT),
        OperationIr::NumericInt(_, op) => numeric(op, INT).compiled_if(is_bounded(op)),
        OperationIr::Bool(op) => boolean(op),
        OperationIr::Int(op) => integer(op),
        OperationIr::Float(_, op) => float(op),
        OperationIr::Module(op) => module(op),
        OperationIr::Activation(op) => activation(op),
        OperationIr::Init(_)
        | OperationIr::Custom(_)
        | OperationIr::Drop(_)
        | OperationIr::Distributed(_) => unknown(),
    }
}

fn boolean(op: &BoolOp) -> Entry {
    match op {
        BoolOp::IntoFloat(_) => unary_to(D::bool_into_float).map(Expr::Operand(0)),
        BoolOp::IntoInt(_) => unary_to(D::bool_into_int).map(Expr::Operand(0)),
        BoolOp::Not(_) => unary(D::bool_not).map(Expr::Constant(1.0) - Expr::Operand(0)),
        BoolOp::And(_) => binary(D::bool_and).binary(Binary::Min),
        BoolOp::Or(_) => binary(D::bool_or).binary(Binary::Max),
        BoolOp::Xor(_) => binary(D::bool_xor).binary(Binary::NotEqual),
    }
}

fn integer(op: &IntOp) -> Entry {
    match op {
        IntOp::IntoFloat(_) => unary_to(D::int_into_float).map(Expr::Operand(0)),
        IntOp::Matmul(_) => matmul(D::int_matmul).compiled_if(false),
        IntOp::BitwiseAnd(_) => binary(D::bitwise_and),
        IntOp::BitwiseAndScalar(op) => scalar(op.rhs, D::bitwise_and_scalar),
        IntOp::BitwiseOr(_) => binary(D::bitwise_or),
        IntOp::BitwiseOrScalar(op) => scalar(op.rhs, D::bitwise_or_scalar),
        IntOp::BitwiseXor(_) => binary(D::bitwise_xor),
        IntOp::BitwiseXorScalar(op) => scalar(op.rhs, D::bitwise_xor_scalar),
        IntOp::BitwiseNot(_) => unary(D::bitwise_not),
        IntOp::BitwiseLeftShift(_) => binary(D::bitwise_left_shift),
        IntOp::BitwiseLeftShiftScalar(op) => scalar(op.rhs, D::bitwise_left_shift_scalar),
        IntOp::BitwiseRightShift(_) => binary(D::bitwise_right_shift),
        IntOp::BitwiseRightShiftScalar(op) => scalar(op.rhs, D::bitwise_right_shift_scalar),
    }
}

fn float(op: &F) -> Entry {
    match op {
        F::Exp(_) => unary(D::float_exp).unary(Unary::Exp),
        F::Log(_) => unary(D::float_log).unary(Unary::Log),
        F::Log1p(_) => unary(D::float_log1p).unary(Unary::Log1p),
        F::Erf(_) => unary(D::float_erf).unary(Unary::Erf),
        F::Sqrt(_) => unary(D::float_sqrt).unary(Unary::Sqrt),
        F::Recip(_) => unary(D::float_recip).unary(Unary::Recip),
        F::Cos(_) => unary(D::float_cos).unary(Unary::Cos),
        F::Cosh(_) => unary(D::float_cosh).unary(Unary::Cosh),
        F::Sin(_) => unary(D::float_sin).unary(Unary::Sin),
        F::Sinh(_) => unary(D::float_sinh).unary(Unary::Sinh),
        F::Tan(_) => unary(D::float_tan).unary(Unary::Tan),
        F::Tanh(_) => unary(D::float_tanh).unary(Unary::Tanh),
        F::ArcCos(_) => unary(D::float_acos).unary(Unary::Acos),
        F::ArcCosh(_) => unary(D::float_acosh).unary(Unary::Acosh),
        F::ArcSin(_) => unary(D::float_asin).unary(Unary::Asin),
        F::ArcSinh(_) => unary(D::float_asinh).unary(Unary::Asinh),
        F::ArcTan(_) => unary(D::float_atan).unary(Unary::Atan),
        F::ArcTanh(_) => unary(D::float_atanh).unary(Unary::Atanh),
        F::ArcTan2(_) => binary(D::float_atan2).binary(Binary::Atan2),
        F::Round(_) => unary(D::float_round).unary(Unary::Round),
        F::Floor(_) => unary(D::float_floor).unary(Unary::Floor),
        F::Ceil(_) => unary(D::float_ceil).unary(Unary::Ceil),
        F::Trunc(_) => unary(D::float_trunc).unary(Unary::Trunc),
        F::IntoInt(_) => unary_to(D::float_into_int).unary(Unary::Trunc),
        F::IsNan(_) => unary_to(D::float_is_nan).unary(Unary::IsNan),
        F::IsInf(_) => unary_to(D::float_is_inf).unary(Unary::IsInf),
        F::Powf(_) => binary(D::float_powf).binary(Binary::Pow),
        F::PowfScalar(op) => scalar(op.rhs, D::float_powf_scalar).scalar(Binary::Pow, op.rhs),
        F::Hypot(_) => binary(D::float_hypot).binary(Binary::Hypot),
        F::Matmul(_) => matmul(D::float_matmul),
        F::Cross(op) => with_rule(AxisRule::Along(vec![op.dim]), |op, slots| {
            D::float_cross(slots.input(op, 0), slots.input(op, 1), op.axes.axis())
        }),
        F::GridSample2d(op) => {
            let options = op.options.clone();
            with_rule(AxisRule::Unknown, move |op, slots| {
                let (input, grid) = (slots.input(op, 0), slots.input(op, 1));
                D::float_grid_sample_2d(input, grid, options.clone().into())
            })
        }
        F::Random(_) => Entry::without_arithmetic(AxisRule::Random),
        F::Quantize(_) | F::Dequantize(_) => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    /// How gradients are computed through the operations of each rule, as the book says it.
    const ROWS: [(&[&str], &str); 9] = [
        (
            &["Linear", "Matmul", "Convolution"],
            "rule: outer products of x and δ",
        ),
        (
            &["Embedding", "Select", "Gather"],
            "rule: indices and δ; a view of the parameter if the indices are constant",
        ),
        (
            &["LayerNorm", "BatchNorm"],
            "rule: split into normalisation, product and sum",
        ),
        (
            &["Reshape", "Permute", "Expand", "Slice", "Repeat"],
            "rule: a view of the parameter",
        ),
        (
            &[
                "Elementwise",
                "Mask",
                "Cast",
                "Along",
                "Flip",
                "Cat",
                "SliceAssign",
                "Attention",
            ],
            "rule: one copy of the parameter for each example, also of small tensors computed from \
             parameters; the loop for the parameters of larger ones; refused if it mixes examples",
        ),
        (
            &["Spatial", "Whole"],
            "on the batch: within each example, or refused; on parameters alone: the loop for these parameters",
        ),
        (&["Creation"], "constant"),
        (&["Random"], "refused"),
        (&["Unknown"], "the loop for the whole loss"),
    ];

    /// The rules that forms of entries have.
    const FORMS: [(&str, &[&str]); 6] = [
        (
            "Elementwise",
            &[
                "unary",
                "unary_to",
                "binary",
                "scalar",
                "scalars",
                "compare",
                "compare_scalar",
            ],
        ),
        ("Along", &["along", "along_to", "along_with_indices"]),
        ("Whole", &["whole", "whole_to", "whole_sum"]),
        ("Creation", &["create"]),
        ("Matmul", &["matmul"]),
        ("Spatial", &["spatial", "pool!"]),
    ];

    /// The rule that a word of the table names.
    fn rule(word: &str) -> Option<&str> {
        let form = |(rule, forms): &(&'static str, &[&str])| forms.contains(&word).then_some(*rule);
        let rule = match word {
            "convolution" | "transposed_convolution" => Some("Convolution"),
            "unknown" => Some("Unknown"),
            _ => FORMS.iter().find_map(form),
        };
        rule.or_else(|| word.strip_prefix("AxisRule::"))
    }

    /// Every operation that the table names, by its rule.
    fn operations() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for source in [
            include_str!("table.rs"),
            include_str!("shapes.rs"),
            include_str!("numeric.rs"),
            include_str!("layers.rs"),
        ] {
            let mut named = Vec::new();
            let source = source.split("#[cfg(test)]").next().unwrap_or(source);
            for word in source.split(|c: char| !(c.is_alphanumeric() || "_:!".contains(c))) {
                match word.split_once("::") {
                    Some(("Base" | "N" | "F" | "IntOp" | "BoolOp" | "M" | "A", name)) => {
                        named.push(name);
                    }
                    _ => {
                        if let Some(rule) = rule(word) {
                            found.entry(rule).or_default().extend(named.drain(..));
                        }
                    }
                }
            }
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
        assert!(operations.is_empty(), "rules without a row: {operations:?}");
        let chapter = include_str!("../../../../book/src/example-gradients.md");
        assert!(
            chapter.contains(&table),
            "the table of operations in example-gradients.md must be\n\n{table}"
        );
    }
}
