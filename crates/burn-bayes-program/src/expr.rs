//! Expressions of scalars, their derivatives, and their translation to the steps of a formula.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use burn_bayes_kernels::{Binary, Input, Step, Unary};

/// An expression of scalar operands.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An operand, by its number.
    Operand(usize),
    /// A number.
    Constant(f32),
    /// A function of one expression.
    Unary(Unary, Arc<Expr>),
    /// A function of two expressions.
    Binary(Binary, Arc<Expr>, Arc<Expr>),
    /// The second expression where the first is not zero, else the third.
    Select(Arc<Expr>, Arc<Expr>, Arc<Expr>),
}

macro_rules! operators {
    ($($operator:ident $method:ident),+) => {$(
        impl $operator for Expr {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                Self::binary(Binary::$operator, self, other)
            }
        }
    )+};
}

operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Expr {
    type Output = Self;

    fn neg(self) -> Self {
        Self::unary(Unary::Neg, self)
    }
}

impl Expr {
    /// A function of an expression.
    pub fn unary(function: Unary, of: Self) -> Self {
        match (function, of) {
            (Unary::Neg, Self::Unary(Unary::Neg, inner)) => (*inner).clone(),
            (Unary::Neg, Self::Constant(value)) => Self::Constant(-value),
            (function, of) => Self::Unary(function, of.into()),
        }
    }

    /// A function of two expressions. Sums and products with zero and one are simplified.
    pub fn binary(function: Binary, left: Self, right: Self) -> Self {
        use Expr::Constant;
        match (function, &left, &right) {
            (Binary::Add, Constant(0.0), _) => right,
            (Binary::Add | Binary::Sub, _, Constant(0.0)) => left,
            (Binary::Mul, Constant(1.0), _) => right,
            (Binary::Mul | Binary::Div, _, Constant(1.0)) => left,
            (Binary::Mul, Constant(-1.0), _) => Self::unary(Unary::Neg, right),
            (Binary::Mul, _, Constant(-1.0)) => Self::unary(Unary::Neg, left),
            _ => Self::Binary(function, left.into(), right.into()),
        }
    }

    /// The second expression where the first is not zero, else the third.
    pub fn select(mask: Self, chosen: Self, other: Self) -> Self {
        Self::Select(mask.into(), chosen.into(), other.into())
    }

    /// A function of the expression.
    #[must_use]
    pub fn apply(self, function: Unary) -> Self {
        Self::unary(function, self)
    }

    /// The expression with every operand replaced.
    #[must_use]
    pub fn with_operands(&self, replace: &impl Fn(usize) -> Self) -> Self {
        let inner = |expr: &Self| expr.with_operands(replace);
        match self {
            Self::Operand(index) => replace(*index),
            Self::Constant(value) => Self::Constant(*value),
            Self::Unary(function, of) => Self::unary(*function, inner(of)),
            Self::Binary(function, left, right) => {
                Self::binary(*function, inner(left), inner(right))
            }
            Self::Select(mask, chosen, other) => {
                Self::select(inner(mask), inner(chosen), inner(other))
            }
        }
    }

    /// The memory of its parts in bytes.
    pub fn owned_bytes(&self) -> usize {
        /// The counts of an `Arc`, and its allocation.
        const SHARED: usize = 32;
        let part = |part: &Self| SHARED + size_of::<Self>() + part.owned_bytes();
        match self {
            Self::Operand(_) | Self::Constant(_) => 0,
            Self::Unary(_, of) => part(of),
            Self::Binary(_, left, right) => part(left) + part(right),
            Self::Select(mask, chosen, other) => part(mask) + part(chosen) + part(other),
        }
    }

    /// Whether the expression is an operand itself.
    pub(crate) fn operand(&self) -> Option<usize> {
        match self {
            Self::Operand(index) => Some(*index),
            _ => None,
        }
    }

    /// Marks the operands that the expression reads.
    pub(crate) fn mark_operands(&self, read: &mut [bool]) {
        match self {
            Self::Operand(index) => read[*index] = true,
            Self::Constant(_) => {}
            Self::Unary(_, of) => of.mark_operands(read),
            Self::Binary(_, left, right) => {
                left.mark_operands(read);
                right.mark_operands(read);
            }
            Self::Select(mask, chosen, other) => {
                mask.mark_operands(read);
                chosen.mark_operands(read);
                other.mark_operands(read);
            }
        }
    }

    /// The gradients with respect to `count` operands, given the gradient of the result: `None` where
    /// it is zero. `result` stands for the value of this expression.
    pub(crate) fn gradients(
        &self,
        count: usize,
        gradient: &Self,
        result: &Self,
    ) -> Vec<Option<Self>> {
        let mut gradients = vec![None; count];
        self.pull_back(gradient.clone(), result, &mut gradients);
        gradients
    }

    fn pull_back(&self, dy: Self, y: &Self, gradients: &mut [Option<Self>]) {
        match self {
            Self::Operand(index) => {
                let sum = &mut gradients[*index];
                *sum = Some(match sum.take() {
                    Some(sum) => sum + dy,
                    None => dy,
                });
            }
            Self::Constant(_) => {}
            Self::Unary(function, of) => {
                if let Some(inner) = unary_rule(*function, of, y, dy) {
                    of.pull_back(inner, of, gradients);
                }
            }
            Self::Binary(function, left, right) => {
                let (to_left, to_right) = binary_rule(*function, left, right, y, &dy);
                if let Some(inner) = to_left {
                    left.pull_back(inner, left, gradients);
                }
                if let Some(inner) = to_right {
                    right.pull_back(inner, right, gradients);
                }
            }
            Self::Select(mask, chosen, other) => {
                let zero = Self::Constant(0.0);
                let mask = (**mask).clone();
                let to_chosen = Self::select(mask.clone(), dy.clone(), zero.clone());
                chosen.pull_back(to_chosen, chosen, gradients);
                other.pull_back(Self::select(mask, zero, dy), other, gradients);
            }
        }
    }

    /// The steps that evaluate the expression. Equal parts are evaluated once.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Steps::default();
        let result = steps.add(self);
        let is_last = matches!(result, Input::Step(index) if index + 1 == steps.0.len());
        if !is_last {
            steps.0.push(Step::Copy(result));
        }
        steps.0
    }
}

#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn add(&mut self, expr: &Expr) -> Input {
        let step = match expr {
            Expr::Operand(index) => return Input::Operand(*index),
            Expr::Constant(value) => return Input::Constant(*value),
            Expr::Unary(function, of) => Step::Unary(*function, self.add(of)),
            Expr::Binary(function, left, right) => {
                Step::Binary(*function, self.add(left), self.add(right))
            }
            Expr::Select(mask, chosen, other) => {
                Step::Select(self.add(mask), self.add(chosen), self.add(other))
            }
        };
        let known = self.0.iter().position(|known| *known == step);
        Input::Step(known.unwrap_or_else(|| {
            self.0.push(step);
            self.0.len() - 1
        }))
    }
}

/// The gradient of the argument x of y = f(x).
fn unary_rule(function: Unary, x: &Expr, y: &Expr, dy: Expr) -> Option<Expr> {
    use Expr::Constant;
    let one = || Constant(1.0);
    let x = || x.clone();
    let y = || y.clone();
    let square = |of: Expr| of.clone() * of;
    Some(match function {
        Unary::Neg => -dy,
        Unary::Abs => dy * x().apply(Unary::Sign),
        Unary::Exp => dy * y(),
        Unary::Log => dy / x(),
        Unary::Log1p => dy / (one() + x()),
        Unary::Sqrt => dy / (Constant(2.0) * y()),
        Unary::Recip => -(dy * square(y())),
        Unary::Relu => {
            let is_on = Expr::binary(Binary::Greater, y(), Constant(0.0));
            Expr::select(is_on, dy, Constant(0.0))
        }
        Unary::Tanh => dy * (one() - square(y())),
        Unary::Sigmoid => dy * y() * (one() - y()),
        Unary::Erf => {
            let bell = (-square(x())).apply(Unary::Exp);
            dy * Constant(std::f32::consts::FRAC_2_SQRT_PI) * bell
        }
        Unary::Sin => dy * x().apply(Unary::Cos),
        Unary::Cos => -(dy * x().apply(Unary::Sin)),
        Unary::Tan => dy * (one() + square(y())),
        Unary::Sinh => dy * x().apply(Unary::Cosh),
        Unary::Cosh => dy * x().apply(Unary::Sinh),
        Unary::Asin => dy / (one() - square(x())).apply(Unary::Sqrt),
        Unary::Acos => -(dy / (one() - square(x())).apply(Unary::Sqrt)),
        Unary::Atan => dy / (one() + square(x())),
        Unary::Asinh => dy / (one() + square(x())).apply(Unary::Sqrt),
        Unary::Acosh => dy / (square(x()) - one()).apply(Unary::Sqrt),
        Unary::Atanh => dy / (one() - square(x())),
        Unary::Sign
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Trunc
        | Unary::IsNan
        | Unary::IsInf => return None,
    })
}

/// The gradients of the arguments of y = f(a, b).
fn binary_rule(
    function: Binary,
    a: &Expr,
    b: &Expr,
    y: &Expr,
    dy: &Expr,
) -> (Option<Expr>, Option<Expr>) {
    use Expr::Constant;
    let (a, b, y, dy) = (|| a.clone(), || b.clone(), || y.clone(), || dy.clone());
    let chosen = |mask: Expr| {
        let zero = || Constant(0.0);
        (
            Some(Expr::select(mask.clone(), dy(), zero())),
            Some(Expr::select(mask, zero(), dy())),
        )
    };
    match function {
        Binary::Add => (Some(dy()), Some(dy())),
        Binary::Sub => (Some(dy()), Some(-dy())),
        Binary::Mul => (Some(dy() * b()), Some(dy() * a())),
        Binary::Div => (Some(dy() / b()), Some(-(dy() * y() / b()))),
        Binary::Rem => {
            let quotient = (a() / b()).apply(Unary::Floor);
            (Some(dy()), Some(-(dy() * quotient)))
        }
        Binary::Pow => {
            let slope = match b() {
                Constant(exponent) => {
                    Constant(exponent) * Expr::binary(Binary::Pow, a(), Constant(exponent - 1.0))
                }
                b => {
                    let less = b.clone() - Constant(1.0);
                    b * Expr::binary(Binary::Pow, a(), less)
                }
            };
            let to_exponent = dy() * y() * a().apply(Unary::Log);
            (Some(dy() * slope), Some(to_exponent))
        }
        Binary::Atan2 => {
            let square = a() * a() + b() * b();
            (
                Some(dy() * b() / square.clone()),
                Some(-(dy() * a() / square)),
            )
        }
        Binary::Hypot => (Some(dy() * a() / y()), Some(dy() * b() / y())),
        Binary::Max => chosen(Expr::binary(Binary::GreaterEqual, a(), b())),
        Binary::Min => chosen(Expr::binary(Binary::GreaterEqual, b(), a())),
        Binary::Greater
        | Binary::GreaterEqual
        | Binary::Lower
        | Binary::LowerEqual
        | Binary::Equal
        | Binary::NotEqual => (None, None),
    }
}
