//! Whether a fit can be trusted: the convergence test of its posterior, and its negative log-likelihood (NLL) on
//! the held-out rows beside those of plain models.
//!
//! With d_r the NLL of row r under the fit minus that under a baseline, N rows, mean d̄ and sample standard
//! deviation s, the fit is worse than the baseline if d̄ > 2 s/√N: of fits that are as good as the baseline, about one in
//! forty is called worse. Of fewer than five rows, s is a guess, so they are not judged.

use std::fmt;

use burn_bayes_data::{Features, Targets};
use serde::Serialize;

use crate::engine::{Diagnosis, ProcessComparison, Verdict};
use crate::error::Result;
use crate::plain_models::PlainModels;
use crate::predict::Predictions;
use crate::scores::{FEWEST_ROWS, HoldoutScore, Summary, row_costs};
use crate::text::{number, sentence};
use crate::trend::Trend;

/// A fit is worse or better than a baseline by more than this many standard errors.
const STANDARD_ERRORS: f64 = 2.0;
/// Differences up to this fraction of the NLL are rounding.
const ROUNDING: f64 = 1e-9;

/// Whether a fit can be trusted, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Assessment {
    /// The worst verdict of the parts; null if none of them has one.
    pub verdict: Option<Verdict>,
    /// The KL gap to the best Gaussian of the family; null for a point estimate and with a prior over functions.
    pub diagnosis: Option<Diagnosis>,
    /// How far its functions are from those of the exact Gaussian process; null without a prior over functions, and for
    /// more rows than an exact process takes.
    pub process: Option<ProcessComparison>,
    /// The verdicts of the tests of the posteriors of an ensemble's members; empty for a single fit, and for point
    /// estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_verdicts: Vec<Verdict>,
    /// How the training loss changed at the end; null if there were too few epochs.
    pub trend: Option<Trend>,
    /// Plain models on the held-out rows; empty without held-out rows.
    pub baselines: Vec<Baseline>,
    /// Whether the fit diverged.
    #[serde(skip)]
    has_diverged: bool,
}

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
    /// The standard error of the difference; null for fewer than five rows.
    pub standard_error: Option<f64>,
}

impl Assessment {
    /// The assessment of a fit by the convergence test or the exact process, with the training losses of its epochs.
    pub(crate) fn of(
        diagnosis: Option<Diagnosis>,
        process: Option<ProcessComparison>,
        losses: &[f64],
    ) -> Self {
        let convergence = diagnosis.as_ref().map(|diagnosis| diagnosis.verdict);
        Self {
            verdict: convergence.max(process.as_ref().map(|process| process.verdict)),
            diagnosis,
            process,
            trend: Trend::of(losses),
            ..Self::default()
        }
    }

    /// The assessment of an ensemble by the tests of its members' posteriors.
    pub(crate) fn of_members(member_verdicts: Vec<Verdict>) -> Self {
        Self {
            verdict: member_verdicts.iter().copied().max(),
            member_verdicts,
            ..Self::default()
        }
    }

    /// How many members' posteriors do not pass their test; `None` without tests of members.
    fn finding_of_members(&self) -> Option<String> {
        let verdicts = &self.member_verdicts;
        let failed = verdicts.iter().filter(|&&verdict| verdict > Verdict::Trust);
        let (failed, members) = (failed.count(), verdicts.len());
        (members > 0).then(|| match failed {
            0 => format!("the posteriors of all {members} members pass their tests"),
            _ => format!("the posteriors of {failed} of {members} members do not pass their tests"),
        })
    }

    /// The assessment with baselines of held-out rows as well.
    pub(crate) fn with_baselines(self, baselines: Vec<Baseline>, has_diverged: bool) -> Self {
        let verdicts = baselines.iter().filter_map(Baseline::verdict);
        let verdicts = verdicts.chain(has_diverged.then_some(Verdict::DoNotUse));
        Self {
            verdict: verdicts.chain(self.verdict).max(),
            baselines,
            has_diverged,
            ..self
        }
    }

    /// The assessment of a fit that has diverged on its training rows.
    pub(crate) fn with_divergence(self) -> Self {
        Self {
            verdict: Some(Verdict::DoNotUse),
            has_diverged: true,
            ..self
        }
    }

    /// What was found out, a sentence for each part.
    pub fn sentences(&self) -> Vec<String> {
        let diagnosis = self.diagnosis.iter().flat_map(Diagnosis::sentences);
        let process = self.process.iter().map(ProcessComparison::sentence);
        let members = self.finding_of_members();
        let members = members.map(|finding| sentence(&format!("{finding}.")));
        let findings = self.baselines.iter().filter_map(Baseline::finding);
        let findings = findings.map(|finding| sentence(&format!("{finding}.")));
        let trend = self.trend.as_ref().filter(|trend| trend.is_falling());
        let trend = trend.map(|trend| {
            let (fall, error) = (number(-trend.change), number(trend.standard_error));
            format!(
                "The training loss was still falling, by {fall} ± {error} nats per row in the last quarter of the \
                 epochs."
            )
        });
        diagnosis
            .chain(process)
            .chain(members)
            .chain(trend)
            .chain(findings)
            .collect()
    }
}

impl fmt::Display for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(verdict) = self.verdict else {
            return Ok(());
        };
        let diverged = self.has_diverged.then(|| "it has diverged".to_string());
        let worse = self.baselines.iter();
        let worse = worse.filter(|baseline| baseline.verdict().is_some());
        let worse = worse.filter_map(Baseline::finding);
        let diagnosis = self.diagnosis.iter().map(Diagnosis::finding);
        let process = self.process.iter().map(ProcessComparison::finding);
        let reasons = diverged
            .into_iter()
            .chain(worse)
            .chain(diagnosis)
            .chain(process);
        let reasons: Vec<String> = reasons.chain(self.finding_of_members()).collect();
        write!(f, "{verdict}: {}", reasons.join("; "))
    }
}

impl Baseline {
    /// The plain models beside a fit with these predictions of rows.
    ///
    /// # Errors
    /// If predictions and targets do not match.
    pub(crate) fn all(
        models: &PlainModels,
        predictions: &Predictions,
        features: &Features,
        targets: &Targets,
    ) -> Result<Vec<Self>> {
        let costs = row_costs(predictions, targets)?;
        let scored = |other: &Predictions| BaselineScores::of(&costs, other, targets);
        let (constant, linear) = match predictions {
            Predictions::Reals(_) => ("the mean and deviation of the targets", "ridge regression"),
            Predictions::Counts(_) => ("the mean count", "Poisson regression"),
            Predictions::Classes(_) => ("the class frequencies", "logistic regression"),
            Predictions::Several(_) => ("a constant for each target", "a linear model"),
        };
        let mut baselines = vec![Self {
            model: BaselineModel::Constant,
            name: constant,
            scores: Some(scored(&models.constant(targets.len()))?),
            absent: None,
        }];
        for (model, name, fit) in [
            (BaselineModel::Linear, linear, &models.linear),
            (BaselineModel::Map, "map", &models.map),
        ] {
            let Some(fit) = fit else { continue };
            let (scores, absent) = match fit.predict(features)? {
                Ok(predictions) => (Some(scored(&predictions)?), None),
                Err(reason) => (None, Some(reason)),
            };
            baselines.push(Self {
                model,
                name,
                scores,
                absent,
            });
        }
        Ok(baselines)
    }

    /// What a comparison says against a fit, if anything.
    fn verdict(&self) -> Option<Verdict> {
        let ratio = self.scores.and_then(|scores| scores.standard_errors());
        let is_worse = ratio.is_some_and(|ratio| ratio > STANDARD_ERRORS);
        is_worse.then_some(match self.model {
            BaselineModel::Constant | BaselineModel::Map => Verdict::DoNotUse,
            BaselineModel::Linear => Verdict::LookCloser,
        })
    }

    /// How the fit compares, without a capital letter and a full stop; `None` without scores.
    fn finding(&self) -> Option<String> {
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
    fn of(costs: &[f64], predictions: &Predictions, targets: &Targets) -> Result<Self> {
        let HoldoutScore { cost, error, .. } = HoldoutScore::of(predictions, targets)?;
        let others = row_costs(predictions, targets)?;
        let differences: Vec<f64> = costs
            .iter()
            .zip(others)
            .map(|(one, other)| one - other)
            .collect();
        let summary = Summary::of(&differences);
        let standard_error = summary.and_then(|summary| summary.standard_error);
        Ok(Self {
            nll: cost,
            error,
            difference: summary.map_or(f64::NAN, |summary| summary.mean),
            standard_error: standard_error.filter(|_| costs.len() >= FEWEST_ROWS),
        })
    }

    /// The difference in standard errors: 0 if it is only rounding, and infinite if it is, or is the same for all rows.
    /// `None` if there are too few rows to judge, or the NLL of both is infinite.
    fn standard_errors(&self) -> Option<f64> {
        let error = self.standard_error?;
        let ratio = match self.difference {
            // The loss of a row is not a number, or both are infinite.
            difference if difference.is_nan() => f64::INFINITY,
            difference if difference.is_infinite() => difference,
            difference if difference.abs() <= ROUNDING * (1.0 + self.nll.abs()) => 0.0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Importance, Motion};

    fn beside(model: BaselineModel, difference: f64) -> Baseline {
        Baseline {
            model,
            name: "the baseline",
            scores: Some(BaselineScores {
                nll: 1.0,
                error: 0.5,
                difference,
                standard_error: Some(0.1),
            }),
            absent: None,
        }
    }

    #[test]
    fn a_verdict_is_the_worst_of_its_parts() {
        use BaselineModel::{Constant, Linear, Map};
        let diagnosis = |verdict| Diagnosis {
            verdict,
            decrement: 0.0,
            scale_gain: 0.0,
            standard_error: 0.0,
            weights: 10,
            motion: Motion::default(),
            cure: None,
            importance: Importance::Absent {
                absent: "the test has none".into(),
            },
        };
        let verdict = |diagnosis: Option<Diagnosis>, baselines: &[Baseline], diverged| {
            Assessment::of(diagnosis, None, &[])
                .with_baselines(baselines.to_vec(), diverged)
                .verdict
        };
        let trusted = || Some(diagnosis(Verdict::Trust));
        for (model, worse) in [
            (Constant, Verdict::DoNotUse),
            (Linear, Verdict::LookCloser),
            (Map, Verdict::DoNotUse),
        ] {
            let baselines = |difference| [beside(model, difference)];
            assert_eq!(verdict(trusted(), &baselines(0.21), false), Some(worse));
            assert_eq!(verdict(None, &baselines(0.21), false), Some(worse));
            // Of equal fits, a sixth is worse by more than one standard error, of 0.1 here.
            for difference in [-1.0, 0.09, 0.19] {
                let baselines = baselines(difference);
                assert_eq!(verdict(trusted(), &baselines, false), Some(Verdict::Trust));
                assert_eq!(verdict(None, &baselines, false), None);
            }
        }
        let unfinished = Some(diagnosis(Verdict::DoNotUse));
        let both = verdict(unfinished, &[beside(Linear, 0.3)], false);
        assert_eq!(both, Some(Verdict::DoNotUse));
        assert_eq!(verdict(trusted(), &[], true), Some(Verdict::DoNotUse));
    }

    #[test]
    fn the_worst_reasons_are_printed_first() {
        let worse = [
            beside(BaselineModel::Map, 0.25),
            beside(BaselineModel::Constant, -0.3),
        ];
        let text = Assessment::default().with_baselines(worse.to_vec(), false);
        assert_eq!(
            text.to_string(),
            "do not use: on the held-out rows it is worse than the baseline by more than 2 standard errors (difference in \
             NLL 0.2500 ± 0.1000)"
        );
        let sentences = text.sentences();
        assert!(
            sentences[1].starts_with("On the held-out rows it is better"),
            "{sentences:?}"
        );
        assert_eq!(Assessment::default().to_string(), "");
        let falling: Vec<f64> = (0..40).map(|epoch| f64::from(-epoch)).collect();
        let [sentence] = &Assessment::of(None, None, &falling).sentences()[..] else {
            panic!("one sentence is expected")
        };
        assert!(sentence.contains("still falling, by 10"), "{sentence}");
    }

    #[test]
    fn identical_predictions_and_few_rows_are_no_worse() {
        let mut same = beside(BaselineModel::Map, 0.0);
        same.scores.as_mut().unwrap().standard_error = Some(0.0);
        assert_eq!(same.verdict(), None);
        let mut infinite = beside(BaselineModel::Map, f64::NAN);
        assert_eq!(infinite.verdict(), Some(Verdict::DoNotUse));
        infinite.scores.as_mut().unwrap().difference = 0.1;
        infinite.scores.as_mut().unwrap().standard_error = Some(0.0);
        assert_eq!(infinite.verdict(), Some(Verdict::DoNotUse));
        let mut few = beside(BaselineModel::Map, 5.0);
        few.scores.as_mut().unwrap().standard_error = None;
        assert_eq!(few.verdict(), None);
        assert!(few.finding().unwrap().contains("cannot be compared"));
        // An infinite NLL has no standard error, and is worse than any other.
        for (difference, verdict) in [
            (f64::INFINITY, Some(Verdict::DoNotUse)),
            (f64::NEG_INFINITY, None),
            (f64::NAN, Some(Verdict::DoNotUse)),
        ] {
            let mut infinite = beside(BaselineModel::Map, difference);
            infinite.scores.as_mut().unwrap().standard_error = Some(f64::NAN);
            assert_eq!(infinite.verdict(), verdict, "{difference}");
            let finding = infinite.finding().unwrap();
            assert!(!finding.contains("about as good"), "{finding}");
        }
        // The same difference for every row has no noise.
        let mut certain = beside(BaselineModel::Map, 0.5);
        certain.scores.as_mut().unwrap().standard_error = Some(0.0);
        assert_eq!(certain.verdict(), Some(Verdict::DoNotUse));
        certain.scores.as_mut().unwrap().difference = 1e-15;
        assert_eq!(certain.verdict(), None);
    }
}
