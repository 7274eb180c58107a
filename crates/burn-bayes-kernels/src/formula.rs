//! Formulas of scalars, evaluated on strips of elements.
//!
//! A formula is a list of steps. Each step runs over a whole strip before the next one, so that every loop
//! vectorises and a strip stays in the first-level cache.

use crate::elementary::{exp, ln, ln_1p, sigmoid, tanh};

/// Number of elements of a strip.
pub(crate) const STRIP: usize = 256;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// −x
    Neg,
    /// |x|
    Abs,
    /// −1, 0 or 1
    Sign,
    /// exp(x)
    Exp,
    /// ln(x)
    Log,
    /// ln(1 + x)
    Log1p,
    /// √x
    Sqrt,
    /// 1 / x
    Recip,
    /// max(x, 0)
    Relu,
    /// tanh(x)
    Tanh,
    /// 1 / (1 + exp(−x))
    Sigmoid,
    /// erf(x)
    Erf,
    /// sin(x)
    Sin,
    /// cos(x)
    Cos,
    /// tan(x)
    Tan,
    /// sinh(x)
    Sinh,
    /// cosh(x)
    Cosh,
    /// arcsin(x)
    Asin,
    /// arccos(x)
    Acos,
    /// arctan(x)
    Atan,
    /// arsinh(x)
    Asinh,
    /// arcosh(x)
    Acosh,
    /// artanh(x)
    Atanh,
    /// The largest integer that is not larger.
    Floor,
    /// The smallest integer that is not smaller.
    Ceil,
    /// The nearest integer; halves go to the even one.
    Round,
    /// The integer part.
    Trunc,
    /// Whether it is NaN, as 0 or 1.
    IsNan,
    /// Whether it is infinite, as 0 or 1.
    IsInf,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a b
    Mul,
    /// a / b
    Div,
    /// a − b ⌊a / b⌋
    Rem,
    /// aᵇ
    Pow,
    /// The angle of the point (b, a).
    Atan2,
    /// √(a² + b²)
    Hypot,
    /// The larger number; NaN if one is.
    Max,
    /// The smaller number; NaN if one is.
    Min,
    /// a > b, as 0 or 1
    Greater,
    /// a ≥ b, as 0 or 1
    GreaterEqual,
    /// a < b, as 0 or 1
    Lower,
    /// a ≤ b, as 0 or 1
    LowerEqual,
    /// a = b, as 0 or 1
    Equal,
    /// a ≠ b, as 0 or 1
    NotEqual,
}

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// An operand of the formula.
    Operand(usize),
    /// The result of an earlier step.
    Step(usize),
    /// A number.
    Constant(f32),
}

/// One step of a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// The input itself.
    Copy(Input),
    /// A function of one input.
    Unary(Unary, Input),
    /// A function of two inputs.
    Binary(Binary, Input, Input),
    /// The second input where the first is not zero, else the third.
    Select(Input, Input, Input),
}

/// An operand on a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane<'a> {
    Each(&'a [f32]),
    All(f32),
}

/// The results of the steps on a strip.
pub(crate) type Registers = Vec<[f32; STRIP]>;

/// Evaluates the steps on `len` elements. The last step writes to `out`.
#[inline(always)]
pub(crate) fn evaluate(
    steps: &[Step],
    operands: &[Lane<'_>],
    registers: &mut Registers,
    out: &mut [f32],
) {
    let len = out.len();
    let Some((last, before)) = steps.split_last() else {
        return;
    };
    for (place, step) in before.iter().enumerate() {
        let (known, rest) = registers.split_at_mut(place);
        run(step, operands, known, &mut rest[0][..len]);
    }
    run(last, operands, registers, out);
}

#[inline(always)]
fn lane<'a>(
    input: Input,
    operands: &[Lane<'a>],
    known: &'a [[f32; STRIP]],
    len: usize,
) -> Lane<'a> {
    match input {
        Input::Operand(index) => operands[index],
        Input::Step(index) => Lane::Each(&known[index][..len]),
        Input::Constant(value) => Lane::All(value),
    }
}

#[inline(always)]
fn run(step: &Step, operands: &[Lane<'_>], known: &[[f32; STRIP]], out: &mut [f32]) {
    let len = out.len();
    let lane = |input| lane(input, operands, known, len);
    match *step {
        Step::Copy(a) => map(lane(a), out, |a| a),
        Step::Unary(function, a) => unary(function, lane(a), out),
        Step::Binary(function, a, b) => binary(function, lane(a), lane(b), out),
        Step::Select(mask, a, b) => select(lane(mask), lane(a), lane(b), out),
    }
}

#[inline(always)]
fn map(a: Lane<'_>, out: &mut [f32], function: impl Fn(f32) -> f32) {
    match a {
        Lane::Each(a) => {
            for (out, a) in out.iter_mut().zip(a) {
                *out = function(*a);
            }
        }
        Lane::All(a) => out.fill(function(a)),
    }
}

#[inline(always)]
fn zip(a: Lane<'_>, b: Lane<'_>, out: &mut [f32], function: impl Fn(f32, f32) -> f32) {
    match (a, b) {
        (Lane::Each(a), Lane::Each(b)) => {
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = function(*a, *b);
            }
        }
        (Lane::Each(a), Lane::All(b)) => map(Lane::Each(a), out, |a| function(a, b)),
        (Lane::All(a), b) => map(b, out, |b| function(a, b)),
    }
}

#[inline(always)]
fn select(mask: Lane<'_>, a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
    let mask = match mask {
        Lane::All(mask) => return map(if mask != 0.0 { a } else { b }, out, |a| a),
        Lane::Each(mask) => mask,
    };
    let choose = |mask: f32, a: f32, b: f32| if mask != 0.0 { a } else { b };
    match (a, b) {
        (Lane::Each(a), Lane::Each(b)) => {
            for (((out, mask), a), b) in out.iter_mut().zip(mask).zip(a).zip(b) {
                *out = choose(*mask, *a, *b);
            }
        }
        (Lane::Each(a), Lane::All(b)) => {
            for ((out, mask), a) in out.iter_mut().zip(mask).zip(a) {
                *out = choose(*mask, *a, b);
            }
        }
        (Lane::All(a), Lane::Each(b)) => {
            for ((out, mask), b) in out.iter_mut().zip(mask).zip(b) {
                *out = choose(*mask, a, *b);
            }
        }
        (Lane::All(a), Lane::All(b)) => map(Lane::Each(mask), out, |mask| choose(mask, a, b)),
    }
}

#[inline(always)]
fn number(is_true: bool) -> f32 {
    f32::from(u8::from(is_true))
}

#[inline(always)]
fn unary(function: Unary, a: Lane<'_>, out: &mut [f32]) {
    match function {
        Unary::Neg => map(a, out, |x| -x),
        Unary::Abs => map(a, out, f32::abs),
        Unary::Sign => map(a, out, sign),
        Unary::Exp => map(a, out, exp),
        Unary::Log => map(a, out, ln),
        Unary::Log1p => map(a, out, ln_1p),
        Unary::Sqrt => map(a, out, f32::sqrt),
        Unary::Recip => map(a, out, |x| 1.0 / x),
        Unary::Relu => map(a, out, |x| if x < 0.0 { 0.0 } else { x }),
        Unary::Tanh => map(a, out, tanh),
        Unary::Sigmoid => map(a, out, sigmoid),
        Unary::Erf => map(a, out, libm::erff),
        Unary::Sin => map(a, out, f32::sin),
        Unary::Cos => map(a, out, f32::cos),
        Unary::Tan => map(a, out, f32::tan),
        Unary::Sinh => map(a, out, f32::sinh),
        Unary::Cosh => map(a, out, f32::cosh),
        Unary::Asin => map(a, out, f32::asin),
        Unary::Acos => map(a, out, f32::acos),
        Unary::Atan => map(a, out, f32::atan),
        Unary::Asinh => map(a, out, f32::asinh),
        Unary::Acosh => map(a, out, f32::acosh),
        Unary::Atanh => map(a, out, f32::atanh),
        Unary::Floor => map(a, out, f32::floor),
        Unary::Ceil => map(a, out, f32::ceil),
        Unary::Round => map(a, out, f32::round_ties_even),
        Unary::Trunc => map(a, out, f32::trunc),
        Unary::IsNan => map(a, out, |x| number(x.is_nan())),
        Unary::IsInf => map(a, out, |x| number(x.is_infinite())),
    }
}

/// The sign of a number; NaN keeps NaN.
#[inline(always)]
fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x * 0.0
    }
}

/// The remainder with the sign of the divisor. a − b⌊a/b⌋ is off by b where a/b rounds to a whole number.
fn remainder(a: f32, b: f32) -> f32 {
    let rest = a % b;
    match rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        true => rest + b,
        false => rest,
    }
}

#[inline(always)]
fn binary(function: Binary, a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
    match function {
        Binary::Add => zip(a, b, out, |a, b| a + b),
        Binary::Sub => zip(a, b, out, |a, b| a - b),
        Binary::Mul => zip(a, b, out, |a, b| a * b),
        Binary::Div => zip(a, b, out, |a, b| a / b),
        Binary::Rem => zip(a, b, out, remainder),
        Binary::Pow => power(a, b, out),
        Binary::Atan2 => zip(a, b, out, f32::atan2),
        Binary::Hypot => zip(a, b, out, f32::hypot),
        Binary::Max => zip(a, b, out, |a, b| if b > a || b.is_nan() { b } else { a }),
        Binary::Min => zip(a, b, out, |a, b| if b < a || b.is_nan() { b } else { a }),
        Binary::Greater => zip(a, b, out, |a, b| number(a > b)),
        Binary::GreaterEqual => zip(a, b, out, |a, b| number(a >= b)),
        Binary::Lower => zip(a, b, out, |a, b| number(a < b)),
        Binary::LowerEqual => zip(a, b, out, |a, b| number(a <= b)),
        Binary::Equal => zip(a, b, out, |a, b| number(a == b)),
        Binary::NotEqual => zip(a, b, out, |a, b| number(a != b)),
    }
}

#[inline(always)]
fn power(a: Lane<'_>, b: Lane<'_>, out: &mut [f32]) {
    match b {
        Lane::All(1.0) => map(a, out, |a| a),
        Lane::All(2.0) => map(a, out, |a| a * a),
        Lane::All(3.0) => map(a, out, |a| a * a * a),
        Lane::All(0.5) => map(a, out, f32::sqrt),
        _ => zip(a, b, out, f32::powf),
    }
}
