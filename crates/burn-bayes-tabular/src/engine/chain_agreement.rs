//! Whether chains that started elsewhere predict the same.

use burn_bayes::sampling::Agreement;
use serde::Serialize;

use crate::scores::Verdict;
use crate::settings::Method;
use crate::text::number;

/// R̂ of the predictions of training rows across chains, near 1 if they predict the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChainAgreement {
    /// The verdict.
    pub verdict: Verdict,
    /// The median of R̂ over rows and outputs.
    pub r_hat: f64,
    /// Its 95 % quantile.
    pub r_hat_upper: f64,
    #[serde(skip)]
    pub(super) is_converged: bool,
    /// The method and the epochs of the fit.
    #[serde(skip)]
    method: Method,
    #[serde(skip)]
    epochs: usize,
}

impl ChainAgreement {
    /// That of a fit by this method in this number of epochs.
    pub(crate) fn of(agreement: Agreement, method: Method, epochs: usize) -> Self {
        Self {
            verdict: match agreement.is_approximate() {
                true => Verdict::Trust,
                false => Verdict::LookCloser,
            },
            r_hat: agreement.median,
            r_hat_upper: agreement.upper,
            is_converged: agreement.is_converged(),
            method,
            epochs,
        }
    }

    /// What was found, without a capital letter and a full stop.
    pub(crate) fn finding(&self) -> String {
        let r_hat = format!(
            "R̂ of their predictions has the median {}",
            number(self.r_hat)
        );
        match self.verdict {
            Verdict::Trust if self.is_converged => format!("the chains agree ({r_hat})"),
            Verdict::Trust => format!("the chains agree approximately ({r_hat})"),
            Verdict::LookCloser | Verdict::DoNotUse => format!(
                "the chains do not agree ({r_hat}), so that their average is that of an ensemble and not of the posterior; \
                 try `--method {} --epochs {}`",
                self.method,
                2 * self.epochs
            ),
        }
    }
}
