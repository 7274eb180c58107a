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
    /// The median before the chains were lengthened for the last time; null if they were not.
    pub r_hat_before: Option<f64>,
    /// Whether the chains were ended before they agreed as well as was asked for, and can go on.
    #[serde(skip)]
    pub(crate) can_go_on: bool,
    #[serde(skip)]
    is_converged: bool,
    #[serde(skip)]
    pub(super) length: ChainLength,
    /// The epochs before that.
    #[serde(skip)]
    epochs_before: usize,
}

/// How long chains are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainLength {
    pub(super) method: Method,
    pub(super) epochs: usize,
    /// How much of a budget they took, in seconds.
    pub(super) seconds: f64,
}

/// R̂ − 1 falls about as the inverse of the length, and is small enough here.
const SMALL: f64 = 0.15;
/// Longer chains help if it falls at least as this power of the length.
const HELPED: f64 = -0.5;
/// Nobody is asked to wait for chains of more than as many times the length.
const MOST_TIMES: f64 = 20.0;
/// A length that is reasonable however much longer it is, in seconds.
const REASONABLE: f64 = 120.0;

impl ChainAgreement {
    /// That of chains of this length.
    pub(super) fn of(agreement: Agreement, length: ChainLength) -> Self {
        Self {
            verdict: match agreement.is_approximate() {
                true => Verdict::Trust,
                false => Verdict::LookCloser,
            },
            r_hat: agreement.median,
            r_hat_upper: agreement.upper,
            r_hat_before: None,
            can_go_on: false,
            is_converged: agreement.is_converged(),
            length,
            epochs_before: 0,
        }
    }

    /// The same of chains that had this agreement before they were lengthened, if they were.
    pub(super) fn after(self, earlier: Option<Self>) -> Self {
        Self {
            r_hat_before: earlier.map(|earlier| earlier.r_hat),
            epochs_before: earlier.map_or(0, |earlier| earlier.length.epochs),
            ..self
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
                "the chains do not agree ({r_hat}), so that their average is that of an ensemble and not of the posterior; {}",
                self.cure()
            ),
        }
    }

    /// What helps chains that do not agree.
    fn cure(&self) -> String {
        let ChainLength {
            method,
            epochs,
            seconds,
        } = self.length;
        let times = (self.r_hat - 1.0) / SMALL;
        let lengthened = epochs as f64 / self.epochs_before.max(1) as f64;
        match self.r_hat_before {
            Some(before) if self.r_hat - 1.0 > lengthened.powf(HELPED) * (before - 1.0) => format!(
                "longer chains do not help (it was {} before they were last lengthened)",
                number(before)
            ),
            _ if times > MOST_TIMES && times * seconds > REASONABLE => {
                "longer chains would not help within a reasonable time".into()
            }
            _ if self.can_go_on => {
                let budget = (times * seconds).round().max(1.0);
                format!("the command of this fit with `--resume --budget {budget}` goes on")
            }
            _ => format!(
                "try `--method {method} --epochs {}`",
                (times * epochs as f64).round()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_follows_from_what_helped() {
        let cure = |method, r_hat: f64, before: Option<f64>| {
            let verdict = match r_hat > 1.2 {
                true => Verdict::LookCloser,
                false => Verdict::Trust,
            };
            let length = ChainLength {
                method,
                epochs: 7000,
                seconds: 10.0,
            };
            let found = ChainAgreement {
                verdict,
                r_hat,
                r_hat_upper: r_hat + 0.1,
                r_hat_before: before,
                can_go_on: method == Method::Mclmc,
                is_converged: r_hat < 1.05,
                length,
                epochs_before: 6000,
            };
            found.finding()
        };
        let goes_on = cure(Method::Mclmc, 1.45, None);
        assert!(
            goes_on.ends_with("with `--resume --budget 30` goes on"),
            "{goes_on}"
        );
        // A sixth longer, by the inverse of which .45 would come of .525, and by its root of .486.
        let helps = cure(Method::Mclmc, 1.45, Some(1.49));
        assert!(
            helps.ends_with("with `--resume --budget 30` goes on"),
            "{helps}"
        );
        let helps_not = cure(Method::Mclmc, 1.45, Some(1.47));
        assert!(
            helps_not.contains("longer chains do not help (it was 1.47"),
            "{helps_not}"
        );
        let hopeless = cure(Method::Mclmc, 9.0, None);
        assert!(hopeless.ends_with("within a reasonable time"), "{hopeless}");
        let other = cure(Method::Hmc, 1.3, None);
        assert!(
            other.ends_with("try `--method hmc --epochs 14000`"),
            "{other}"
        );
        let agrees = cure(Method::Mclmc, 1.02, None);
        assert!(agrees.starts_with("the chains agree (R̂"), "{agrees}");
    }
}
