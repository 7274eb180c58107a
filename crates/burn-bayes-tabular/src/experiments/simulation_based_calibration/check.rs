//! The result of simulations: a test per quantity, and a verdict.

use std::fmt;

use burn_bayes::eval::{RankDeviation, SimulationBasedCalibration};
use serde::{Serialize, Serializer};

use crate::error::{Result, TabularError};
use crate::scores::Verdict;
use crate::text::number;
use burn_bayes::eval::Bounded;

/// The probability that exact posteriors pass.
const LEVEL: f64 = 0.99;

/// Whether a method is calibrated, by the ranks of several quantities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Number of simulations, with those whose fit diverged.
    pub simulations: usize,
    /// Number of simulations whose fit diverged; they have no ranks.
    pub diverged: usize,
    /// Number of posterior draws per simulation.
    pub draws: usize,
    /// The quantities, each tested at level 1 − .01/k for k quantities.
    pub quantities: Vec<QuantityCheck>,
}

/// The ranks of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantityCheck {
    /// What it is.
    pub name: String,
    /// The p-value of uniform ranks, without a correction for several quantities.
    pub p_value: f64,
    /// What is wrong with the posteriors; null if the ranks do not deviate significantly.
    #[serde(serialize_with = "by_name")]
    pub deviation: Option<RankDeviation>,
    /// Standardised mean of the ranks: above zero, the posteriors are too low.
    pub location_score: f64,
    /// Standardised spread of the ranks: above zero, the posteriors are too narrow.
    pub spread_score: f64,
    /// The ranks.
    #[serde(skip)]
    pub ranks: SimulationBasedCalibration,
}

impl Check {
    /// From the ranks of all quantities in each simulation; `None` for a fit that diverged.
    ///
    /// # Errors
    /// If all fits diverged.
    pub fn of(names: &[String], draws: usize, ranks: &[Option<Vec<usize>>]) -> Result<Self> {
        let found: Vec<&Vec<usize>> = ranks.iter().flatten().collect();
        if found.is_empty() {
            return Err(TabularError::Numerical(format!(
                "all {} fits diverged; lower `learning_rate`, or set `clip`",
                ranks.len()
            )));
        }
        let level = level(names.len());
        let quantity = |(index, name): (usize, &String)| {
            let ranks: Vec<usize> = found.iter().map(|ranks| ranks[index]).collect();
            let ranks = SimulationBasedCalibration::new(&ranks, draws)?;
            Ok(QuantityCheck {
                name: name.clone(),
                p_value: ranks.p_value(),
                deviation: ranks.deviation(level)?,
                location_score: ranks.location_score(),
                spread_score: ranks.spread_score(),
                ranks,
            })
        };
        let quantities: Result<_> = names.iter().enumerate().map(quantity).collect();
        Ok(Self {
            simulations: ranks.len(),
            diverged: ranks.len() - found.len(),
            draws,
            quantities: quantities?,
        })
    }

    /// Whether no quantity deviates significantly.
    pub fn is_calibrated(&self) -> bool {
        let mut quantities = self.quantities.iter();
        quantities.all(|quantity| quantity.deviation.is_none())
    }

    /// The level of the test of each quantity: by Bonferroni's correction, exact posteriors pass all with a
    /// probability of at least 99 %.
    pub fn level(&self) -> f64 {
        level(self.quantities.len())
    }

    /// Calibrated, with diverged fits, or miscalibrated, as for a fit.
    pub(crate) fn verdict(&self) -> Verdict {
        match (self.is_calibrated(), self.diverged) {
            (true, 0) => Verdict::Trust,
            (true, _) => Verdict::LookCloser,
            (false, _) => Verdict::DoNotUse,
        }
    }

    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self.is_calibrated() {
            true => "no miscalibration found",
            false => "miscalibrated",
        }
    }

    /// What was found out, in parts without a capital letter and a full stop.
    pub fn findings(&self) -> Vec<String> {
        let quantities = &self.quantities;
        let mut findings = Vec::new();
        for quantity in quantities {
            let Some(deviation) = quantity.deviation else {
                continue;
            };
            let of_deviation = quantities.iter();
            let of_deviation = of_deviation.filter(|other| other.deviation == Some(deviation));
            let names: Vec<&str> = of_deviation.map(|other| other.name.as_str()).collect();
            let finding = format!("{} for {}", deviation.name(), names.join(", "));
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        if findings.is_empty() {
            let least = quantities.iter().map(|quantity| quantity.p_value);
            findings.push(format!(
                "the ranks of all {} quantities agree with exact posteriors; the smallest p-value is {}, and below {} \
                 would be significant",
                quantities.len(),
                number(least.fold(1.0, f64::at_most)),
                number(1.0 - self.level())
            ));
        }
        if self.diverged > 0 {
            findings.push(format!(
                "{} of {} fits diverged and are left out",
                self.diverged, self.simulations
            ));
        }
        findings
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.word(), self.findings().join("; "))
    }
}

/// The level of each of `tests` tests.
fn level(tests: usize) -> f64 {
    1.0 - (1.0 - LEVEL) / tests as f64
}

fn by_name<S: Serializer>(
    deviation: &Option<RankDeviation>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    deviation.map(RankDeviation::name).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of two quantities: uniform ones, and some that are all in the middle or at the ends.
    fn check(wrong: &[usize], diverged: usize) -> Check {
        let names = ["uniform", "wrong"].map(String::from);
        let ranks =
            (0..100).map(|simulation| Some(vec![simulation % 10, wrong[simulation % wrong.len()]]));
        let diverged = std::iter::repeat_n(None, diverged);
        Check::of(&names, 9, &ranks.chain(diverged).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_verdict_names_the_quantities_that_deviate() {
        let narrow = check(&[0, 9], 0);
        assert_eq!(narrow.to_string(), "miscalibrated: too narrow for wrong");
        assert_eq!(narrow.verdict(), Verdict::DoNotUse);
        let json = serde_json::to_value(&narrow).unwrap();
        assert_eq!(json["quantities"][0]["deviation"], serde_json::Value::Null);
        assert_eq!(json["quantities"][1]["deviation"], "too narrow");
        let wide = check(&[4, 5], 0).to_string();
        assert!(wide.ends_with("too wide for wrong"), "{wide}");
    }

    #[test]
    fn diverged_fits_are_counted() {
        let uniform: Vec<usize> = (0..10).collect();
        let check = check(&uniform, 3);
        assert_eq!((check.simulations, check.diverged), (103, 3));
        assert_eq!(check.verdict(), Verdict::LookCloser);
        let text = check.to_string();
        assert!(
            text.starts_with("no miscalibration found: the ranks"),
            "{text}"
        );
        assert!(
            text.ends_with("3 of 103 fits diverged and are left out"),
            "{text}"
        );
    }
}
