//! Kernels as text: sums and products of names with parameters, and numbers for constants.
//!
//! ```text
//! sum     = product { "+" product }
//! product = factor { "*" factor }
//! factor  = number | name [ "(" number { "," number } ")" ] | "(" sum ")"
//! ```
//!
//! The parameters of a name are its shape, if it has one, and its length scales; without parentheses all are 1.

use std::fmt;
use std::str::FromStr;

use burn_bayes::{Error, Result};

use super::base::{BaseKernel, Family};
use super::{Kernel, Node};

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        let kernel = parser.sum()?;
        match parser.rest() {
            "" => {
                kernel.check_parameters()?;
                Ok(kernel)
            }
            rest => Err(parser.problem(&format!("`{rest}` was not expected"))),
        }
    }
}

/// The most parentheses around a kernel.
const DEEPEST: usize = 32;

struct Parser<'a> {
    text: &'a str,
    /// The number of bytes read.
    at: usize,
    /// The number of open parentheses.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    /// Moves past `symbol`, if it is next.
    fn takes(&mut self, symbol: char) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    /// The characters up to the next one that belongs to no word or number.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let mut previous = ' ';
        let end = rest.find(|symbol: char| {
            let is_exponent = matches!(symbol, '+' | '-') && matches!(previous, 'e' | 'E');
            let is_sign = symbol == '-' && previous == ' ';
            previous = symbol;
            !(symbol.is_alphanumeric() || matches!(symbol, '_' | '.') || is_exponent || is_sign)
        });
        // The sign of an exponent follows a digit and an `e`, not a name.
        let mut word = &rest[..end.unwrap_or(rest.len())];
        if word.parse::<f64>().is_err() {
            word = word.split(['+', '-']).next().unwrap_or_default();
        }
        self.at += word.len();
        word
    }

    fn sum(&mut self) -> Result<Kernel> {
        let mut sum = self.product()?;
        while self.takes('+') {
            sum = sum + self.product()?;
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<Kernel> {
        let mut product = self.factor()?;
        while self.takes('*') {
            product = product * self.factor()?;
        }
        Ok(product)
    }

    fn factor(&mut self) -> Result<Kernel> {
        if self.takes('(') {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(self.problem("there are too many parentheses"));
            }
            let sum = self.sum()?;
            self.depth -= 1;
            return match self.takes(')') {
                true => Ok(sum),
                false => Err(self.problem("a `)` is missing")),
            };
        }
        let word = self.word();
        if let Ok(variance) = word.parse() {
            return Ok(Kernel::constant(variance));
        }
        let Some(family) = Family::ALL.into_iter().find(|family| family.name() == word) else {
            return Err(self.problem(&match word {
                "" => "a kernel was expected".to_owned(),
                word => format!("there is no kernel `{word}`"),
            }));
        };
        let shapes = usize::from(family.shape_name().is_some());
        let least = shapes + usize::from(family.has_length_scales());
        if !self.takes('(') {
            return Ok(Kernel::base(family, vec![1.0; least]));
        }
        let mut parameters = Vec::new();
        loop {
            let word = self.word();
            let Ok(parameter) = word.parse() else {
                return Err(self.problem(&format!("`{word}` is not a number")));
            };
            parameters.push(parameter);
            if self.takes(')') {
                break;
            }
            if !self.takes(',') {
                return Err(self.problem("a `,` or `)` is missing"));
            }
        }
        let most = if family.has_length_scales() {
            usize::MAX
        } else {
            least
        };
        if parameters.len() < least || parameters.len() > most {
            let name = family.name();
            let shape = family.shape_name().map(|shape| format!("its {shape}"));
            let scales = family
                .has_length_scales()
                .then(|| "one length scale, or one per coordinate".to_owned());
            let expected: Vec<String> = shape.into_iter().chain(scales).collect();
            let expected = expected.join(", and ");
            return Err(self.problem(&format!("`{name}` takes {expected}")));
        }
        Ok(Kernel::base(family, parameters))
    }

    fn problem(&self, problem: &str) -> Error {
        let names = Family::ALL.map(Family::name).join(", ");
        Error::config(
            "kernel",
            format!(
                "`{}`, at character {}: {problem}; write sums and products of numbers and {names}, such as \
                 `rbf + 2*periodic(12, 1)`",
                self.text,
                self.text[..self.at].chars().count() + 1
            ),
        )
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(base) => base.fmt(f),
            Self::Sum(terms) => {
                for (index, term) in terms.iter().enumerate() {
                    let plus = if index > 0 { " + " } else { "" };
                    write!(f, "{plus}{term}")?;
                }
                Ok(())
            }
            Self::Product(factors) => {
                for (index, factor) in factors.iter().enumerate() {
                    let times = if index > 0 { "*" } else { "" };
                    match factor {
                        Self::Sum(_) => write!(f, "{times}({factor})")?,
                        _ => write!(f, "{times}{factor}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for BaseKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.family == Family::Constant {
            return write!(f, "{}", self.parameters[0]);
        }
        let parameters: Vec<String> = self.parameters.iter().map(f64::to_string).collect();
        write!(f, "{}({})", self.family.name(), parameters.join(","))
    }
}
