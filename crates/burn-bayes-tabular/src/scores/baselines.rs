//! A fit beside plain models of the same training rows.
//!
//! With d_r the NLL of row r under the fit minus that under a baseline, mean d̄ and its standard error, the fit is worse
//! than the baseline if d̄ is above two of these, and above a hundredth of a nat, or of the NLL where
//! that is below 1: of fits that are as good as the baseline, at most one in forty is called worse. Of fewer than five
//! rows, or ten groups or periods, the standard error is a guess, so they are not judged.

use burn_bayes::eval::Bounded;
use burn_bayes_data::Targets;
use serde::Serialize;

use super::{HoldoutScore, Summary, Verdict, row_costs};
use crate::error::Result;
use crate::predict::Predictions;
use crate::rows::Units;
use crate::text::number;

/// A fit is worse or better than a baseline by more than this many standard errors.
const STANDARD_ERRORS: f64 = 2.0;
/// Differences up to this, in nats per row, or in units of an NLL below 1, matter to nobody.
const NEGLIGIBLE: f64 = 0.01;

/// A plain model beside a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Which one it is.
    pub model: BaselineModel,
    /// Its name in words.
    pub name: &'static str,
    /// Its scores; null if it was not fitted.
    pub scores: Option<BaselineScores>,
    /// Why it was not fitted.
    pub absent: Option<String>,
}

/// A plain model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaselineModel {
    /// The class frequencies of the training rows, or the mean and standard deviation of their targets.
    Constant,
    /// Ridge or logistic regression.
    Linear,
    /// A random forest.
    Forest,
    /// A short chain of a small network, beside a linear model.
    Network,
    /// The maximum a posteriori fit with the same settings.
    Map,
}

/// The scores of a plain model on the held-out rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BaselineScores {
    /// Mean negative log-likelihood per row, in nats and in the unit of the target.
    pub nll: f64,
    /// Root mean squared error, or the misclassification rate; see [`HoldoutScore::error`].
    pub error: f64,
    /// The NLL of the fit minus this one.
    pub difference: f64,
    /// The standard error of the difference; null for fewer than five rows, or ten groups or periods.
    pub standard_error: Option<f64>,
}

impl Baseline {
    /// What a comparison says against a fit, if anything.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let ratio = self.scores.and_then(|scores| scores.standard_errors());
        let is_worse = ratio.is_some_and(|ratio| ratio > STANDARD_ERRORS);
        is_worse.then_some(match self.model {
            BaselineModel::Constant | BaselineModel::Map => Verdict::DoNotUse,
            BaselineModel::Linear | BaselineModel::Forest | BaselineModel::Network => {
                Verdict::LookCloser
            }
        })
    }

    /// How the fit compares, without a capital letter and a full stop; `None` without scores.
    pub(crate) fn finding(&self) -> Option<String> {
        let scores = self.scores?;
        let (name, difference) = (self.name, scores.shown_difference());
        let beyond = format!("by more than {STANDARD_ERRORS} standard errors");
        let compared = match scores.standard_errors() {
            None => format!("cannot be compared with {name}"),
            Some(ratio) if ratio > STANDARD_ERRORS => format!("is worse than {name} {beyond}"),
            Some(ratio) if ratio < -STANDARD_ERRORS => format!("is better than {name} {beyond}"),
            Some(_) => format!("is about as good as {name}"),
        };
        Some(format!(
            "on the held-out rows it {compared} (difference in NLL {difference})"
        ))
    }
}

impl BaselineScores {
    /// The scores of predictions, beside the NLL of every row under a fit.
    pub(crate) fn of(
        costs: &[f64],
        predictions: &Predictions,
        targets: &Targets,
        units: &Units,
    ) -> Result<Self> {
        let others = row_costs(predictions, targets)?;
        let HoldoutScore { cost, error, .. } =
            HoldoutScore::of_costs(&others, predictions, targets)?;
        let summary = Summary::of_differences(costs, &others, units);
        let standard_error = summary.and_then(|summary| summary.standard_error);
        Ok(Self {
            nll: cost,
            error,
            difference: summary.map_or(f64::NAN, |summary| summary.mean),
            standard_error: standard_error.filter(|_| units.are_enough()),
        })
    }

    /// The difference in standard errors: 0 if it is negligible, and infinite if it is, or is the same for all rows.
    /// `None` if there are too few rows to judge, or the NLL of both is infinite.
    fn standard_errors(&self) -> Option<f64> {
        let error = self.standard_error?;
        let ratio = match self.difference {
            // The loss of a row is not a number, or both are infinite.
            difference if difference.is_nan() => f64::INFINITY,
            difference if difference.is_infinite() => difference,
            difference if difference.abs() <= NEGLIGIBLE * self.nll.abs().at_most(1.0) => 0.0,
            difference => difference / error,
        };
        (!ratio.is_nan()).then_some(ratio)
    }

    /// The difference with its standard error, as text.
    pub fn shown_difference(&self) -> String {
        match self.standard_error {
            Some(error) => format!("{} ± {}", number(self.difference), number(error)),
            None => number(self.difference),
        }
    }
}
