//! Formulas of scalars as nodes.
//!
//! Programs have truth values as 0 and 1. In a file they are booleans, which are converted where a formula calculates with them.
//! A formula calculates in `f32`, or in `i64` if its operands are integers.

use burn_bayes_program::{Binary, Expr, Unary};

use super::message::Kind;
use super::writer::{GraphWriter, cast_to};

/// A named tensor and its element type.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// The nodes of a formula of these operands, with a result of this type. `None` if there are none.
pub(super) fn formula(
    writer: &mut GraphWriter,
    expr: &Expr,
    operands: &[Named],
    result: Kind,
) -> Option<String> {
    let has = |kind| operands.iter().any(|operand| operand.kind == kind);
    let number = match !has(Kind::Float) && has(Kind::Integer) {
        true => Kind::Integer,
        false => Kind::Float,
    };
    let mut nodes = Nodes {
        writer,
        operands,
        number,
    };
    let value = nodes.value(expr)?;
    Some(nodes.cast(value, result))
}

struct Nodes<'a> {
    writer: &'a mut GraphWriter,
    operands: &'a [Named],
    /// The type in which it calculates.
    number: Kind,
}

impl Nodes<'_> {
    fn value(&mut self, expr: &Expr) -> Option<Named> {
        match expr {
            Expr::Operand(index) => self.operands.get(*index).cloned(),
            Expr::Constant(value) => self.constant(*value),
            Expr::Unary(function, of) => {
                let of = self.number(of)?;
                self.unary(*function, &of)
            }
            Expr::Binary(function, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                self.binary(*function, &left, &right)
            }
            Expr::Select(mask, chosen, other) => {
                let mask = self.value(mask)?;
                let mask = self.cast(mask, Kind::Boolean);
                let (chosen, other) = (self.number(chosen)?, self.number(other)?);
                Some(self.result("Where", &[&mask, &chosen, &other]))
            }
        }
    }

    /// The value as a number.
    fn number(&mut self, expr: &Expr) -> Option<String> {
        let value = self.value(expr)?;
        Some(self.cast(value, self.number))
    }

    fn cast(&mut self, value: Named, to: Kind) -> String {
        match value.kind == to {
            true => value.name,
            false => self.writer.node("Cast", &[&value.name], vec![cast_to(to)]),
        }
    }

    fn constant(&mut self, value: f32) -> Option<Named> {
        let name = match self.number {
            Kind::Integer if value.fract() != 0.0 => return None,
            Kind::Integer => self.writer.integers(&[], &[value as i64]),
            _ => self.writer.numbers(&[], &[value]),
        };
        Some(Named {
            name,
            kind: self.number,
        })
    }

    fn one(&mut self) -> String {
        self.writer.numbers(&[], &[1.0])
    }

    fn node(&mut self, operator: &str, operands: &[&str]) -> String {
        self.writer.node(operator, operands, Vec::new())
    }

    /// A node whose result is a number.
    fn result(&mut self, operator: &str, operands: &[&str]) -> Named {
        Named {
            name: self.node(operator, operands),
            kind: self.number,
        }
    }

    /// A node whose result is a truth value.
    fn truth(&mut self, operator: &str, operands: &[&str]) -> Named {
        Named {
            name: self.node(operator, operands),
            kind: Kind::Boolean,
        }
    }

    fn unary(&mut self, function: Unary, x: &str) -> Option<Named> {
        let operator = match function {
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Sign => "Sign",
            _ if self.number != Kind::Float => return None,
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Log1p => return Some(self.log_one_plus(x)),
            Unary::Sqrt => "Sqrt",
            Unary::Recip => "Reciprocal",
            Unary::Relu => "Relu",
            Unary::Tanh => "Tanh",
            Unary::Sigmoid => "Sigmoid",
            Unary::Erf => "Erf",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Tan => "Tan",
            Unary::Sinh => "Sinh",
            Unary::Cosh => "Cosh",
            Unary::Asin => "Asin",
            Unary::Acos => "Acos",
            Unary::Atan => "Atan",
            Unary::Asinh => "Asinh",
            Unary::Acosh => "Acosh",
            Unary::Atanh => "Atanh",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Trunc => {
                let (size, sign) = (self.node("Abs", &[x]), self.node("Sign", &[x]));
                let whole = self.node("Floor", &[&size]);
                return Some(self.result("Mul", &[&sign, &whole]));
            }
            Unary::IsNan => return Some(self.truth("IsNaN", &[x])),
            Unary::IsInf => return Some(self.truth("IsInf", &[x])),
        };
        Some(self.result(operator, &[x]))
    }

    /// ln(1 + x) without the rounding error of u = 1 + x, as ln(u) x / (u − 1).
    fn log_one_plus(&mut self, x: &str) -> Named {
        let one = self.one();
        let sum = self.node("Add", &[x, &one]);
        let log = self.node("Log", &[&sum]);
        let rounded = self.node("Sub", &[&sum, &one]);
        let ratio = self.node("Div", &[x, &rounded]);
        // Of a large x, also an infinite one, the sum is x itself.
        let is_large = self.node("Equal", &[&sum, x]);
        let ratio = self.node("Where", &[&is_large, &one, &ratio]);
        let corrected = self.node("Mul", &[&log, &ratio]);
        let is_tiny = self.node("Equal", &[&sum, &one]);
        self.result("Where", &[&is_tiny, x, &corrected])
    }

    fn binary(&mut self, function: Binary, a: &str, b: &str) -> Option<Named> {
        let operator = match function {
            Binary::Max => "Max",
            Binary::Min => "Min",
            Binary::Greater => return Some(self.truth("Greater", &[a, b])),
            Binary::GreaterEqual => return Some(self.truth("GreaterOrEqual", &[a, b])),
            Binary::Lower => return Some(self.truth("Less", &[a, b])),
            Binary::LowerEqual => return Some(self.truth("LessOrEqual", &[a, b])),
            Binary::Equal => return Some(self.truth("Equal", &[a, b])),
            Binary::NotEqual => {
                let equal = self.node("Equal", &[a, b]);
                return Some(self.truth("Not", &[&equal]));
            }
            _ if self.number != Kind::Float => return None,
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => "Pow",
            Binary::Rem => {
                let quotient = self.node("Div", &[a, b]);
                let whole = self.node("Floor", &[&quotient]);
                let multiple = self.node("Mul", &[b, &whole]);
                return Some(self.result("Sub", &[a, &multiple]));
            }
            Binary::Hypot => {
                let (a, b) = (self.node("Mul", &[a, a]), self.node("Mul", &[b, b]));
                let sum = self.node("Add", &[&a, &b]);
                return Some(self.result("Sqrt", &[&sum]));
            }
            Binary::Atan2 => return None,
        };
        Some(self.result(operator, &[a, b]))
    }
}
