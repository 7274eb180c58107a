//! What a fit is good for, in a word.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verdict on a fit, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The fit has converged, and close to the true posterior if that was measured.
    Trust,
    /// The fit has not converged, or is not close to the true posterior.
    LookCloser,
    /// The mean is far from converged.
    DoNotUse,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::LookCloser => "look closer",
            Self::DoNotUse => "do not use",
        })
    }
}
