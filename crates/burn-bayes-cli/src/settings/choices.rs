//! The values of settings that are neither numbers nor text.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the posterior is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Method {
    /// Variational inference with a factor-analysis covariance.
    Vifa,
    /// The same without factors: Bayes by backprop.
    MeanField,
    /// Variational approximation with factor covariance.
    Vafc,
    /// A Gaussian from the iterates of an ordinary training.
    Swag,
    /// Natural gradients with a low-rank-plus-diagonal precision.
    Slang,
    /// The same without factors.
    Vogn,
    /// Natural gradients with a diagonal precision from Price's theorem.
    Von,
    /// Adam with perturbed weights.
    Vadam,
    /// No posterior: the most probable weights alone.
    Map,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(self, f)
    }
}

/// What moves the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OptimizerName {
    /// Adam.
    Adam,
    /// Gradient descent with momentum.
    Sgd,
}

impl fmt::Display for OptimizerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(self, f)
    }
}

/// A choice as it is written on the command line.
fn shown<T: ValueEnum>(choice: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = choice.to_possible_value();
    f.write_str(value.as_ref().map_or("", |value| value.get_name()))
}

/// The shape of a network: `linear`, or `mlp:50,50` for two hidden layers of 50 rectifiers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct NetworkShape {
    /// The widths of the hidden layers; none in a linear model.
    pub(crate) hidden: Vec<usize>,
}

impl FromStr for NetworkShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hidden = match text.split_once(':') {
            None if text == "linear" => Some(Vec::new()),
            Some(("mlp", widths)) => {
                let widths = widths.split(',').map(|width| width.trim().parse().ok());
                let widths: Option<Vec<usize>> = widths.collect();
                widths.filter(|widths| !widths.contains(&0))
            }
            _ => None,
        };
        let hidden = hidden.ok_or_else(|| {
            format!(
                "`{text}` is no model; use `linear`, or `mlp:` and the widths of the hidden layers, \
                 as in `mlp:50,50`"
            )
        })?;
        Ok(Self { hidden })
    }
}

impl fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<String> = self.hidden.iter().map(ToString::to_string).collect();
        match widths.is_empty() {
            true => f.write_str("linear"),
            false => write!(f, "mlp:{}", widths.join(",")),
        }
    }
}

/// The precision of the noise around a real target, 1/variance in the target's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum NoisePrecision {
    /// Known beforehand.
    Given(f64),
    /// Estimated on training rows that a first fit has not seen.
    Learned(LearnedWord),
}

/// The word `learned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LearnedWord {
    /// `learned`.
    Learned,
}

impl NoisePrecision {
    /// To be estimated.
    pub(crate) const LEARNED: Self = Self::Learned(LearnedWord::Learned);
}

impl FromStr for NoisePrecision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "learned" => Ok(Self::LEARNED),
            _ => text
                .parse()
                .map(Self::Given)
                .map_err(|_| format!("`{text}` is neither a number nor `learned`")),
        }
    }
}

impl fmt::Display for NoisePrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(precision) => precision.fmt(f),
            Self::Learned(_) => f.write_str("learned"),
        }
    }
}

impl TryFrom<String> for NetworkShape {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<NetworkShape> for String {
    fn from(shape: NetworkShape) -> Self {
        shape.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_parsed() {
        for text in ["linear", "mlp:50", "mlp:50,20"] {
            assert_eq!(text.parse::<NetworkShape>().unwrap().to_string(), text);
        }
        for text in ["learned", "0.25"] {
            assert_eq!(text.parse::<NoisePrecision>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["mlp", "mlp:", "mlp:5,0", "mlp:x", "cnn", "linear:3"] {
            let error = text.parse::<NetworkShape>().unwrap_err();
            assert!(
                error.contains(text) && error.contains("mlp:50,50"),
                "{error}"
            );
        }
        assert!("lots".parse::<NoisePrecision>().is_err());
    }
}
