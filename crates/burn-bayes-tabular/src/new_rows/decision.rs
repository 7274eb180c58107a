//! Which rows are kept: by a threshold on an uncertainty score, given or chosen for a target risk.

use burn_bayes::eval::BoundedPoint;
use burn_bayes_data::Task;

use super::{PredictionRequest, expect_share};
use crate::error::{Result, TabularError};
use crate::predict::{Abstention, DEVIATIONS, EPISTEMIC, Uncertainty, threshold_at_risk};
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
        let score = self.score(run.preprocessor.task())?;
        let decides = self.abstain_above.is_some() || self.target_risk.is_some();
        if decides && run.model.draws(draws) == 1 && compares_draws(&score) {
            let problem = format!(
                "is `{score}`, which compares weight draws, and there is only one draw; use another \
                 score"
            );
            return Err(refused("score", problem));
        }
        match (self.abstain_above, self.target_risk) {
            (Some(threshold), _) if threshold.is_nan() => {
                Err(refused("abstain-above", "is NaN; it must be a number"))
            }
            (Some(threshold), _) => Ok(Some(Decision {
                score,
                threshold,
                promise: None,
                guarantee: None,
            })),
            (None, Some(risk)) => self.promised(folder, run, score, risk).map(Some),
            (None, None) if self.score.is_some() => Err(refused(
                "score",
                "has no effect without `--abstain-above` or `--target-risk`",
            )),
            (None, None) => Ok(None),
        }
    }

    /// The threshold that bounds the risk, chosen on the validation rows.
    fn promised(
        &self,
        folder: &RunFolder,
        run: &Run,
        score: String,
        risk: f64,
    ) -> Result<Decision> {
        expect_share("target-risk", risk)?;
        expect_share("confidence", self.confidence)?;
        let known = Uncertainty::ALL
            .into_iter()
            .find(|known| known.name() == score);
        let abstention = match (run.preprocessor.classes(), known, self.tolerance) {
            (Some(_), _, Some(_)) => {
                let problem = "is for regression, and the run predicts classes; leave it out";
                return Err(refused("tolerance", problem));
            }
            (Some(classes), Some(score), None) => Abstention::Class {
                score,
                classes: classes.len(),
            },
            (Some(_), None, None) => {
                return Err(TabularError::Usage(format!("`{score}` is not a score")));
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
                    score: &score,
                    tolerance,
                }
            }
        };
        let otherwise = ", or give a threshold with `--abstain-above`";
        let rows = run.calibration_file(folder, "target-risk", self.draws, otherwise)?;
        let point = threshold_at_risk(&rows, abstention, risk, self.confidence)?;
        let wrong = match self.tolerance {
            Some(tolerance) => format!("are off by more than {tolerance}"),
            None => "are wrong".into(),
        };
        let guarantee = format!(
            "of the rows that are kept, at most {} % {wrong}, with a confidence of {} %, if new rows come from the same \
             distribution as the training file",
            tick(100.0 * risk),
            tick(100.0 * self.confidence)
        );
        Ok(Decision {
            score,
            threshold: point.threshold,
            promise: Some(point),
            guarantee: Some(guarantee),
        })
    }

    /// The name of the score.
    fn score(&self, task: Task) -> Result<String> {
        let names: Vec<&str> = match task {
            Task::Classification => Uncertainty::ALL.iter().map(|score| score.name()).collect(),
            Task::Regression | Task::Counts => DEVIATIONS.to_vec(),
        };
        let name = self.score.as_deref().unwrap_or(names[0]);
        match names.contains(&name) {
            true => Ok(name.into()),
            false => {
                let problem = format!("is `{name}`; use one of {}", names.join(", "));
                Err(refused("score", problem))
            }
        }
    }
}

fn compares_draws(score: &str) -> bool {
    let of_classes = |known: &Uncertainty| known.name() == score && known.needs_draws();
    score == EPISTEMIC || Uncertainty::ALL.iter().any(of_classes)
}
