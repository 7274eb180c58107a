//! Which rows are kept: by a threshold on an uncertainty score, given or chosen for a target risk.

use burn_bayes::eval::BoundedPoint;
use burn_bayes_data::{Preprocessor, Task};

use super::{PredictionRequest, expect_share};
use crate::error::{Result, TabularError};
use crate::predict::{
    Abstention, DEVIATIONS, EPISTEMIC, Uncertainty, column_name, threshold_at_risk,
};
use crate::rows::Target;
use crate::run::{Run, RunFolder};
use crate::settings::refused;
use crate::text::tick;

/// The rule that decides which rows are kept.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The name of the score.
    pub score: String,
    /// The threshold: rows with a score up to it are kept.
    pub threshold: f64,
    /// The bound on the wrong rows from the validation rows, if a target risk was given.
    pub promise: Option<BoundedPoint>,
    /// The guarantee in words, with the promise.
    pub guarantee: Option<String>,
}

impl PredictionRequest {
    /// The decision rule; `None` if all rows are predicted without one.
    ///
    /// # Errors
    /// If the run cannot fulfil the request.
    pub(super) fn decision(
        &self,
        folder: &RunFolder,
        run: &Run,
        draws: usize,
    ) -> Result<Option<Decision>> {
        let decides = self.abstain_above.is_some() || self.target_risk.is_some();
        if !decides && self.score.is_none() {
            return Ok(None);
        }
        let score = self.score(&run.preprocessor)?;
        if decides && run.model.draws(draws) == 1 && score.compares_draws {
            let problem = format!(
                "is `{}`, which compares weight draws, and there is only one draw; use another \
                 score",
                score.name()
            );
            return Err(refused("score", problem));
        }
        match (self.abstain_above, self.target_risk) {
            (Some(threshold), _) if threshold.is_nan() => {
                Err(refused("abstain-above", "is NaN; it must be a number"))
            }
            (Some(threshold), _) => Ok(Some(Decision {
                score: score.name(),
                threshold,
                promise: None,
                guarantee: None,
            })),
            (None, Some(risk)) => self.promised(folder, run, &score, risk).map(Some),
            (None, None) => Err(refused(
                "score",
                "has no effect without `--abstain-above` or `--target-risk`",
            )),
        }
    }

    /// The threshold that bounds the risk, chosen on the validation rows.
    fn promised(
        &self,
        folder: &RunFolder,
        run: &Run,
        score: &ScoreName<'_>,
        risk: f64,
    ) -> Result<Decision> {
        expect_share("target-risk", risk)?;
        expect_share("confidence", self.confidence)?;
        let known = Uncertainty::ALL
            .into_iter()
            .find(|known| known.name() == score.column);
        let mut targets = run.model.target().of_targets().into_iter();
        let target = targets.find(|(name, _)| *name == score.target);
        let classes = match target {
            Some((_, Target::Classes(classes))) => Some(classes),
            _ => None,
        };
        let abstention = match (classes, known, self.tolerance) {
            (Some(_), _, Some(_)) => {
                let problem = "is for regression, and the run predicts classes; leave it out";
                return Err(refused("tolerance", problem));
            }
            (Some(classes), Some(score), None) => Abstention::Class {
                score,
                classes: classes.len(),
            },
            (Some(_), None, None) => {
                return Err(TabularError::Usage(format!(
                    "`{}` is not a score",
                    score.name()
                )));
            }
            (None, _, None) => {
                let problem = "needs `--tolerance` for a regression: the largest absolute error that is not wrong, in \
                               the unit of the target";
                return Err(refused("target-risk", problem));
            }
            (None, _, Some(tolerance)) => {
                if !(tolerance > 0.0 && tolerance.is_finite()) {
                    let problem = format!("is {tolerance}; it must be a finite number above 0");
                    return Err(refused("tolerance", problem));
                }
                Abstention::Number {
                    score: score.column,
                    tolerance,
                }
            }
        };
        let otherwise = ", or give a threshold with `--abstain-above`";
        run.expect_independent_rows("target-risk")?;
        let rows = run.calibration_file(folder, "target-risk", self.draws, otherwise)?;
        let point = threshold_at_risk(&rows, score.target, abstention, risk, self.confidence)?;
        let wrong = match self.tolerance {
            Some(tolerance) => format!("are off by more than {tolerance}"),
            None => "are wrong".into(),
        };
        let target = score.target.map(|target| format!(" in `{target}`"));
        let guarantee = format!(
            "of the rows that are kept, at most {} % {wrong}{}, with a confidence of {} %, if new rows come from the same \
             distribution as the training file",
            tick(100.0 * risk),
            target.unwrap_or_default(),
            tick(100.0 * self.confidence)
        );
        Ok(Decision {
            score: score.name(),
            threshold: point.threshold,
            promise: Some(point),
            guarantee: Some(guarantee),
        })
    }

    /// The score, by default the first one of a single target.
    fn score<'a>(&self, preprocessor: &'a Preprocessor) -> Result<ScoreName<'a>> {
        let of_classes = || {
            let scores = Uncertainty::ALL.into_iter();
            scores
                .map(|score| (score.name(), score.needs_draws()))
                .collect()
        };
        let of_task: Vec<(&'static str, bool)> = match preprocessor.task() {
            Task::Classification | Task::Multilabel => of_classes(),
            Task::Regression | Task::Counts => {
                DEVIATIONS.map(|score| (score, score == EPISTEMIC)).into()
            }
        };
        let is_several = preprocessor.targets().len() > 1;
        let of_target = |target| {
            let target = is_several.then_some(target);
            of_task
                .iter()
                .map(move |&(column, compares_draws)| ScoreName {
                    target,
                    column,
                    compares_draws,
                })
        };
        let scores: Vec<ScoreName<'_>> = preprocessor.target_names().flat_map(of_target).collect();
        let known: Vec<String> = scores.iter().map(ScoreName::name).collect();
        let known = known.join(", ");
        let name = match &self.score {
            None if is_several => {
                let problem =
                    format!("is not given, and the fit has several targets; use one of {known}");
                return Err(refused("score", problem));
            }
            None => scores[0].name(),
            Some(name) => name.clone(),
        };
        let found = scores.into_iter().find(|score| score.name() == name);
        found.ok_or_else(|| refused("score", format!("is `{name}`; use one of {known}")))
    }
}

/// An uncertainty score.
struct ScoreName<'a> {
    /// The target that it is of, if there are several.
    target: Option<&'a str>,
    /// Its column among the predictions of the target.
    column: &'static str,
    compares_draws: bool,
}

impl ScoreName<'_> {
    /// Its column among the predictions.
    fn name(&self) -> String {
        column_name(self.target, self.column)
    }
}
