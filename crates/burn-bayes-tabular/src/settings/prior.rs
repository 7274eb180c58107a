//! The prior of a fit: over the weights, or over the functions.

use std::fmt;
use std::str::FromStr;

use burn_bayes_contrib::functional::Kernel;
use serde::{Deserialize, Serialize};

/// Before the text of a kernel.
const PREFIX: &str = "gp:";

/// What the prior is about.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum PriorName {
    /// A Gaussian over the weights.
    Weights,
    /// Also a Gaussian process over the functions, whose kernel has this form.
    GaussianProcess(Kernel),
}

impl PriorName {
    /// The form of the kernel; `None` without a Gaussian process.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Weights => None,
            Self::GaussianProcess(kernel) => Some(kernel),
        }
    }
}

impl FromStr for PriorName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "weights" {
            return Ok(Self::Weights);
        }
        let Some(kernel) = text.strip_prefix(PREFIX) else {
            return Err(format!(
                "`{text}` is neither `weights` nor `{PREFIX}` with a kernel, such as `{PREFIX}rbf+periodic`"
            ));
        };
        let form: Kernel = kernel
            .parse()
            .map_err(|error: burn_bayes::Error| error.to_string())?;
        if form.parameters().iter().any(|parameter| *parameter != 1.0) {
            return Err(format!(
                "`{kernel}` has numbers, but the parameters of the kernel are learned; write names only, such as \
                 `{PREFIX}rbf+periodic`"
            ));
        }
        Ok(Self::GaussianProcess(form))
    }
}

impl fmt::Display for PriorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weights => f.write_str("weights"),
            Self::GaussianProcess(kernel) => write!(f, "{PREFIX}{kernel}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_prior_is_read_again() {
        for text in ["weights", "gp:rbf", "gp:linear*periodic + rbf"] {
            let prior: PriorName = text.parse().unwrap();
            assert_eq!(prior, prior.to_string().parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_kernels_or_the_place() {
        for (text, expected) in [
            ("rbf", "neither `weights` nor `gp:`"),
            ("gp:cubic", "no kernel `cubic`"),
            ("gp:cubic", "matern52"),
            ("gp:rbf+", "at character 5"),
            ("gp:rbf(2)", "are learned"),
        ] {
            let error = text.parse::<PriorName>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
