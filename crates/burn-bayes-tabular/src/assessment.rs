//! Whether a fit can be trusted: the convergence test of its posterior, and its negative log-likelihood (NLL) on
//! the held-out rows beside those of plain models.

use std::fmt;

use serde::Serialize;

use crate::engine::{ChainAgreement, Diagnosis, ProcessComparison};
use crate::report::VerdictPanel;
use crate::scores::{Baseline, CalibrationTest, Verdict};
use crate::text::{number, sentence};
use crate::trend::Trend;

/// Rows are too few if what they leave open costs more nats per row and target: of Gaussians, a third of the deviation.
const MOST_UNKNOWN: f64 = 0.3;

/// Whether a fit can be trusted, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Assessment {
    /// The worst verdict of the parts; null if none of them has one.
    pub verdict: Option<Verdict>,
    /// That of the predictions of held-out rows alone; null without held-out rows.
    pub predictions: Option<Verdict>,
    /// That of the posterior alone, which matters far from the training rows; null if it was not tested.
    pub posterior: Option<Verdict>,
    /// The KL gap to the best Gaussian of the family; null for a point estimate and with a prior over functions.
    pub diagnosis: Option<Diagnosis>,
    /// How far its functions are from those of the exact Gaussian process; null without a prior over functions, and for
    /// more rows than an exact process takes.
    pub process: Option<ProcessComparison>,
    /// Whether its chains predict the same; null for methods without chains, a single chain, and few draws of each.
    pub agreement: Option<ChainAgreement>,
    /// The verdicts of the tests of the posteriors of an ensemble's members; empty for a single fit, and for point
    /// estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_verdicts: Vec<Verdict>,
    /// How the training loss changed at the end; null if there were too few epochs.
    pub trend: Option<Trend>,
    /// Plain models on the held-out rows; empty without held-out rows.
    pub baselines: Vec<Baseline>,
    /// Whether the held-out rows come as predicted; null without held-out rows, and for fewer than five, or ten
    /// groups or periods.
    pub calibration: Option<CalibrationTest>,
    /// The mutual information of targets and weights on the held-out rows: how much more training rows could lower the NLL,
    /// in nats per row and target; null without held-out rows, and for point estimates.
    pub mutual_information: Option<f64>,
    /// Whether the fit diverged.
    #[serde(skip)]
    pub(crate) has_diverged: bool,
    /// Whether no rows were held out.
    #[serde(skip)]
    pub(crate) is_unseen: bool,
    /// Whether there are chains that were not compared.
    #[serde(skip)]
    pub(crate) is_uncompared: bool,
}

/// Of a fit without held-out rows.
const WITHOUT_ROWS: &str = "no rows were held out to judge its predictions";
/// Of one chain, and of chains with few draws of each.
const WITHOUT_CHAINS: &str = "convergence is unknown: it takes at least two chains, of several draws each, that are compared";

impl Assessment {
    /// The assessment at the end of a fit, whose held-out rows, if any, have completed it.
    pub(crate) fn completed(self, by_rows: Option<Self>, has_diverged: bool) -> Self {
        Self {
            is_unseen: by_rows.is_none(),
            has_diverged,
            ..by_rows.unwrap_or(self)
        }
        .judged()
    }

    /// With the verdicts that follow from the parts.
    pub(crate) fn judged(self) -> Self {
        let members = self.member_verdicts.iter().copied();
        let diagnosis = self.diagnosis.iter().map(|diagnosis| diagnosis.verdict);
        let process = self.process.iter().map(|process| process.verdict);
        let agreement = self.agreement.iter().map(|agreement| agreement.verdict);
        let posterior = members.chain(diagnosis).chain(process).chain(agreement);
        let posterior = posterior.max();

        let baselines = self.baselines.iter().filter_map(Baseline::verdict);
        let calibration = self.calibration.iter();
        let calibration = calibration.filter_map(CalibrationTest::verdict);
        let unjudged = self.is_unjudged().then_some(Verdict::LookCloser);
        let unknown = self.has_few_rows().then_some(Verdict::LookCloser);
        let diverged = self.has_diverged.then_some(Verdict::DoNotUse);
        let objections = baselines.chain(calibration).chain(unjudged);
        let objections = objections.chain(unknown).chain(diverged);
        let objection = objections.max();
        let passed = (!self.baselines.is_empty()).then_some(Verdict::Trust);
        // A point estimate has no posterior to trust.
        let untested = self.is_uncompared || self.is_unseen && posterior.is_some();
        Self {
            // Predictions alone are no reason to trust a fit without a posterior.
            verdict: posterior
                .max(objection)
                .max(untested.then_some(Verdict::LookCloser)),
            predictions: objection.or(passed),
            posterior,
            ..self
        }
    }

    fn has_few_rows(&self) -> bool {
        self.mutual_information
            .is_some_and(|nats| nats > MOST_UNKNOWN)
    }

    /// Whether rows were held out, but too few to judge predictions by.
    fn is_unjudged(&self) -> bool {
        let mut scores = self.baselines.iter().filter_map(|baseline| baseline.scores);
        scores.any(|scores| scores.standard_error.is_none())
    }

    /// What the tests could not find out, and how they could.
    fn untested(&self) -> impl Iterator<Item = String> {
        let unseen = self.is_unseen.then_some(WITHOUT_ROWS);
        let uncompared = self.is_uncompared.then_some(WITHOUT_CHAINS);
        uncompared.into_iter().chain(unseen).map(String::from)
    }

    /// Whether there are doubts about the posterior alone.
    fn is_of_posterior_alone(&self) -> bool {
        self.predictions == Some(Verdict::Trust) && self.posterior > Some(Verdict::Trust)
    }

    /// The verdict, and where it holds.
    fn heading(&self) -> Option<String> {
        let verdict = self.verdict?;
        Some(match self.is_of_posterior_alone() {
            true => format!("{verdict} far from the training rows"),
            false => verdict.to_string(),
        })
    }

    /// What is still unknown, without a capital letter and a full stop; `None` without draws of the weights.
    fn finding_of_unknown(&self) -> Option<String> {
        let nats = self.mutual_information?;
        let shown = number(nats);
        Some(match self.has_few_rows() {
            true => format!(
                "the training rows are too few: what they leave open about the weights costs {shown} nats per row and \
                 target"
            ),
            false => {
                format!("more training rows could lower the NLL by {shown} nats per row and target")
            }
        })
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

    /// The verdict with its reasons, for a report; `None` without a verdict.
    pub(crate) fn panel(&self) -> Option<VerdictPanel> {
        let verdict = self.verdict?;
        // The names of settings have code marks, for a terminal.
        let sentences = self.sentences().into_iter();
        let sentences = sentences.map(|text| text.replace('`', "")).collect();
        Some(VerdictPanel::new(verdict, self.heading()?, sentences))
    }

    /// What was found out, a sentence for each part.
    pub fn sentences(&self) -> Vec<String> {
        let said = |finding: String| sentence(&format!("{finding}."));
        let diagnosis = self.diagnosis.iter().flat_map(Diagnosis::sentences);
        let process = self.process.iter().map(ProcessComparison::finding);
        let agreement = self.agreement.iter().map(ChainAgreement::finding);
        let members = self.finding_of_members();
        let of_posterior = process.chain(agreement).chain(members).map(said);
        let calibration = self.calibration.iter().map(CalibrationTest::advice);
        let findings = self.baselines.iter().filter_map(Baseline::finding);
        let unknown = self.finding_of_unknown();
        let of_predictions = calibration.chain(findings).chain(unknown);
        let of_predictions = of_predictions.chain(self.untested());
        let of_predictions = of_predictions.map(said);
        let trend = self.trend.as_ref().filter(|trend| trend.is_falling());
        let trend = trend.map(|trend| {
            let (fall, error) = (number(-trend.change), number(trend.standard_error));
            format!(
                "The training loss was still falling, by {fall} ± {error} nats per row in the last quarter of the \
                 epochs."
            )
        });
        diagnosis
            .chain(of_posterior)
            .chain(trend)
            .chain(of_predictions)
            .collect()
    }
}

impl fmt::Display for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(heading) = self.heading() else {
            return Ok(());
        };
        let worse = self.baselines.iter();
        let worse = worse.filter(|baseline| baseline.verdict().is_some());
        let worse: Vec<String> = worse.filter_map(Baseline::finding).collect();
        let diverged = self.has_diverged && worse.is_empty();
        let diverged = diverged.then(|| "its predictions are far off".to_string());
        let diagnosis = self.diagnosis.iter().map(Diagnosis::finding);
        let process = self.process.iter().map(ProcessComparison::finding);
        let agreement = self.agreement.iter().map(ChainAgreement::finding);
        let calibration = self.calibration.iter();
        let calibration = calibration.filter(|test| test.verdict().is_some());
        let calibration = calibration.map(CalibrationTest::advice);
        let unknown = self.finding_of_unknown();
        let unknown = unknown.filter(|_| self.has_few_rows());
        let unjudged = "the held-out rows are too few, or of too few groups or times, to judge its predictions";
        let unjudged = self.is_unjudged().then(|| unjudged.to_string());
        let reasons = diverged
            .into_iter()
            .chain(unjudged)
            .chain(worse)
            .chain(calibration)
            .chain(unknown)
            .chain(diagnosis)
            .chain(process)
            .chain(agreement)
            .chain(self.untested());
        let passed = "the predictions of the held-out rows pass their tests";
        let passed = self.is_of_posterior_alone().then(|| passed.into());
        let reasons = reasons.chain(self.finding_of_members()).chain(passed);
        write!(f, "{heading}: {}", reasons.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Importance, Motion};
    use crate::scores::{BaselineModel, BaselineScores};

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

    /// An assessment by these tests of members' posteriors.
    fn of_members(verdicts: &[Verdict]) -> Assessment {
        Assessment {
            member_verdicts: verdicts.to_vec(),
            ..Assessment::default()
        }
    }

    #[test]
    fn predictions_that_few_rows_judge_are_not_trusted() {
        let mut baseline = beside(BaselineModel::Constant, -1.0);
        let verdict = |baseline: &Baseline| {
            Assessment {
                baselines: vec![baseline.clone()],
                ..of_members(&[Verdict::Trust])
            }
            .judged()
        };
        assert_eq!(verdict(&baseline).verdict, Some(Verdict::Trust));
        if let Some(scores) = &mut baseline.scores {
            scores.standard_error = None;
        }
        let found = verdict(&baseline);
        assert_eq!(found.verdict, Some(Verdict::LookCloser));
        let text = found.to_string();
        assert!(text.contains("to judge its predictions"), "{text}");
    }

    #[test]
    fn what_was_not_tested_is_said_and_not_trusted() {
        let unseen = |assessment| Assessment {
            is_unseen: true,
            ..assessment
        };
        // A point estimate has no posterior to trust.
        let point = unseen(Assessment::default()).judged();
        assert_eq!(point.verdict, None);
        let unseen = unseen(of_members(&[Verdict::Trust])).judged();
        assert_eq!(unseen.verdict, Some(Verdict::LookCloser));
        assert_eq!(unseen.predictions, None);
        assert!(unseen.to_string().contains(WITHOUT_ROWS), "{unseen}");
        let alone = Assessment {
            is_uncompared: true,
            ..Assessment::default()
        };
        let alone = alone.judged();
        assert_eq!(alone.verdict, Some(Verdict::LookCloser));
        assert!(alone.to_string().contains("two chains"), "{alone}");
        assert_eq!(alone.sentences().len(), 1);
    }

    #[test]
    fn a_verdict_is_the_worst_of_its_parts() {
        use BaselineModel::{Constant, Linear, Map};
        let diagnosis = |verdict| Diagnosis {
            verdict,
            decrement: 0.0,
            covariance_gain: 0.0,
            standard_error: 0.0,
            weights: 10,
            motion: Motion::default(),
            cure: None,
            importance: Importance::Absent {
                absent: "the test has none".into(),
            },
        };
        let verdict = |diagnosis: Option<Diagnosis>, baselines: &[Baseline], diverged| {
            let assessment = Assessment {
                diagnosis,
                baselines: baselines.to_vec(),
                has_diverged: diverged,
                ..Assessment::default()
            };
            assessment.judged().verdict
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
    fn doubts_about_the_posterior_alone_are_about_rows_far_away() {
        let baselines = vec![beside(BaselineModel::Linear, -1.0)];
        let doubted = Assessment {
            baselines: baselines.clone(),
            ..of_members(&[Verdict::Trust, Verdict::LookCloser])
        };
        let judged = doubted.clone().judged();
        let [predictions, posterior] = [judged.predictions, judged.posterior];
        assert_eq!(predictions, Some(Verdict::Trust));
        assert_eq!(posterior, Some(Verdict::LookCloser));
        let text = judged.to_string();
        assert!(
            text.starts_with("look closer far from the training rows: the posteriors of 1 of 2"),
            "{text}"
        );
        assert!(
            text.ends_with("the held-out rows pass their tests"),
            "{text}"
        );
        for (baselines, has_diverged, predictions) in [
            (vec![], false, None),
            (baselines.clone(), true, Some(Verdict::DoNotUse)),
        ] {
            let judged = Assessment {
                baselines,
                has_diverged,
                ..doubted.clone()
            };
            let judged = judged.judged();
            assert_eq!(judged.predictions, predictions);
            assert!(!judged.to_string().contains("far from"), "{judged}");
        }
        let known = |nats| {
            Assessment {
                baselines: baselines.clone(),
                mutual_information: Some(nats),
                ..of_members(&[Verdict::Trust; 2])
            }
            .judged()
        };
        assert_eq!(known(0.2).verdict, Some(Verdict::Trust));
        let few = known(0.4);
        assert_eq!(few.predictions, Some(Verdict::LookCloser));
        assert!(
            few.to_string()
                .starts_with("look closer: the training rows are too few"),
            "{few}"
        );
    }

    #[test]
    fn the_worst_reasons_are_printed_first() {
        let worse = [
            beside(BaselineModel::Map, 0.25),
            beside(BaselineModel::Constant, -0.3),
        ];
        let text = Assessment {
            baselines: worse.to_vec(),
            ..Assessment::default()
        };
        let text = text.judged();
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
        let falling = Assessment {
            trend: Trend::of(&falling),
            ..Assessment::default()
        };
        let [sentence] = &falling.sentences()[..] else {
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
