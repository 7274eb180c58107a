//! What decisions by costs have cost on rows with known classes.

use burn_bayes::eval::{Action, LabelledProbabilities};
use burn_bayes_data::Targets;
use serde::Serialize;

use crate::error::Result;
use crate::predict::{CostRule, Predictions, classes, mismatched};
use crate::scores::{Intervals, Score};

/// The mean cost of decisions, beside that of plain rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostScores {
    /// The positive class.
    pub positive: String,
    /// Of the action of least expected cost for each row, then of plain rules.
    pub rules: Vec<RuleCost>,
}

/// The mean cost of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleCost {
    /// What it decides.
    pub rule: String,
    /// The mean over rows, with its 95 % interval.
    pub mean_cost: Score,
    /// Number of rows that are decided as the positive class.
    pub positive: usize,
    /// Number of rows that are not decided.
    pub abstained: usize,
}

impl CostScores {
    /// The costs of predictions, given the targets.
    ///
    /// # Errors
    /// If these are not predictions and targets of two classes.
    pub(crate) fn of(
        rule: &CostRule,
        predictions: &Predictions,
        targets: &Targets,
    ) -> Result<Self> {
        let Targets::Classes(labels) = targets else {
            return Err(mismatched(predictions));
        };
        let draws = classes(predictions)?.checked()?;
        let average = draws.average();
        let labelled = LabelledProbabilities::new(&average, labels)?;
        let of_rule = |name: String, actions: Vec<Action>| -> Result<RuleCost> {
            let costs = rule.costs(&actions, &labelled)?;
            let [mean_cost] = Intervals::Bootstrapped.of_means([&costs]);
            let count = |wanted| actions.iter().filter(|&&action| action == wanted).count();
            Ok(RuleCost {
                rule: name,
                mean_cost,
                positive: count(Action::Positive),
                abstained: count(Action::Abstain),
            })
        };
        let decisions = rule.decisions(&average)?.into_iter();
        let decisions = decisions.map(|decision| decision.action);
        let always = |action| {
            let name = format!("always {}", rule.name(action));
            of_rule(name, vec![action; labels.len()])
        };
        let predicted = average.predicted_classes().into_iter();
        let predicted = predicted.map(|class| rule.action_of(class));
        Ok(Self {
            positive: rule.name(Action::Positive).into(),
            rules: vec![
                of_rule("least expected cost".into(), decisions.collect())?,
                of_rule("the more probable class".into(), predicted.collect())?,
                always(Action::Negative)?,
                always(Action::Positive)?,
            ],
        })
    }
}
