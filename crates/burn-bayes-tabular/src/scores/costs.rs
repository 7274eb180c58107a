//! What decisions by costs have cost on rows with known classes.

use burn_bayes::eval::{Action, LabelledProbabilities};
use burn_bayes_data::Targets;
use serde::Serialize;

use crate::error::Result;
use crate::predict::{CostRule, Predictions, classes, mismatched};
use crate::scores::{Intervals, Score, mean};

/// The mean cost of decisions, beside that of plain rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostScores {
    /// The classes, in the order of [`RuleCost::decided`].
    pub classes: Vec<String>,
    /// Of the action of least expected cost for each row, then of plain rules: the most probable class, and always the same
    /// class, for every class. Of more than six classes, only the one that costs least.
    pub rules: Vec<RuleCost>,
}

/// The mean cost of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleCost {
    /// What it decides.
    pub rule: String,
    /// The mean over rows, with its 95 % interval.
    pub mean_cost: Score,
    /// Number of rows that are decided as each class.
    pub decided: Vec<usize>,
    /// Number of rows that are not decided.
    pub abstained: usize,
}

impl CostScores {
    /// With more classes than this, not each has a rule and a column.
    pub(crate) const MOST_CLASSES: usize = 6;

    /// The costs of predictions, given the targets.
    ///
    /// # Errors
    /// If these are not predictions and targets of classes.
    pub(crate) fn of(
        rule: &CostRule,
        predictions: &Predictions,
        targets: &Targets,
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        let Targets::Classes(labels) = targets else {
            return Err(mismatched(predictions));
        };
        let draws = classes(predictions)?.checked()?;
        let average = draws.average();
        let labelled = LabelledProbabilities::new(&average, labels)?;
        let count = rule.classes.len();
        let of_rule = |name: String, actions: Vec<Action>| -> Result<RuleCost> {
            let costs = rule.costs(&actions, &labelled)?;
            let [mean_cost] = intervals.of_means([&costs]);
            let of_action = |wanted| actions.iter().filter(|&&action| action == wanted).count();
            Ok(RuleCost {
                rule: name,
                mean_cost,
                decided: (0..count)
                    .map(|class| of_action(Action::Class(class)))
                    .collect(),
                abstained: of_action(Action::Abstain),
            })
        };
        let decisions = rule.decisions(&average)?.into_iter();
        let decisions = decisions.map(|decision| decision.action);
        let predicted = average.predicted_classes().into_iter();
        let more = if count == 2 { "more" } else { "most" };
        let mut rules = vec![
            of_rule("least expected cost".into(), decisions.collect())?,
            of_rule(
                format!("the {more} probable class"),
                predicted.map(Action::Class).collect(),
            )?,
        ];
        let always = |class| vec![Action::Class(class); labels.len()];
        let mut shown: Vec<usize> = (0..count).collect();
        if count > Self::MOST_CLASSES {
            let cost = |&class: &usize| -> Result<(usize, f64)> {
                Ok((class, mean(&rule.costs(&always(class), &labelled)?)))
            };
            let costs = shown.iter().map(cost).collect::<Result<Vec<_>>>()?;
            let cheapest = costs
                .into_iter()
                .min_by(|one, other| one.1.total_cmp(&other.1));
            shown = cheapest.into_iter().map(|(class, _)| class).collect();
        }
        for class in shown {
            let name = format!("always {}", rule.classes[class]);
            rules.push(of_rule(name, always(class))?);
        }
        Ok(Self {
            classes: rule.classes.clone(),
            rules,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::ClassPredictions;
    use crate::rows::Target;

    /// The costs of predictions by one draw of the classes `c0`, `c1` and so on.
    fn scores(given: &str, classes: usize, probabilities: &[f64], labels: &[usize]) -> CostScores {
        let names: Vec<String> = (0..classes).map(|class| format!("c{class}")).collect();
        let target = Target::Classes(names.clone());
        let rule = CostRule::of(&given.parse().unwrap(), &target, None).unwrap();
        let predictions = Predictions::Classes(ClassPredictions {
            kind: names,
            draws: 1,
            members: vec![1],
            values: probabilities.to_vec(),
        });
        let intervals = Intervals::Omitted;
        let labels = Targets::Classes(labels.to_vec());
        CostScores::of(&rule, &predictions, &labels, intervals).unwrap()
    }

    #[test]
    fn rules_cost_what_their_decisions_cost() {
        let probabilities = [0.6, 0.3, 0.1, 0.1, 0.8, 0.1, 0.2, 0.2, 0.6, 0.6, 0.3, 0.1];
        let given = "c2:c0=9,other=1,abstain=0.45";
        let found = scores(given, 3, &probabilities, &[0, 1, 0, 2]);
        // The least expected costs of the rows are 0.45, 0.2, 0.4 and 0.45.
        let expected: [(&str, f64, [usize; 3], usize); 5] = [
            ("least expected cost", 0.475, [0, 1, 1], 2),
            ("the most probable class", 2.5, [2, 1, 1], 0),
            ("always c0", 2.5, [4, 0, 0], 0),
            ("always c1", 0.75, [0, 4, 0], 0),
            ("always c2", 0.75, [0, 0, 4], 0),
        ];
        assert_eq!(found.rules.len(), expected.len());
        for (found, (rule, cost, decided, abstained)) in found.rules.iter().zip(expected) {
            assert_eq!(found.rule, rule);
            let mean = found.mean_cost.value.unwrap();
            assert!((mean - cost).abs() < 1e-12, "{rule}: {mean}");
            assert_eq!(
                (&found.decided[..], found.abstained),
                (&decided[..], abstained)
            );
        }
        let table = found.table();
        assert_eq!(table.header[3..], ["as c0", "as c1", "as c2", "abstained"]);
        assert_eq!(table.rows[0][3..], ["0", "1", "1", "2"]);
    }

    #[test]
    fn two_classes_have_a_more_probable_one() {
        let found = scores("fp=1,fn=20", 2, &[0.9, 0.1, 0.4, 0.6], &[0, 1]);
        let rules: Vec<&str> = found.rules.iter().map(|found| &*found.rule).collect();
        let expected = [
            "least expected cost",
            "the more probable class",
            "always c0",
            "always c1",
        ];
        assert_eq!(rules, expected);
        assert_eq!(found.rules[0].decided, [0, 2]);
    }

    #[test]
    fn of_many_classes_only_the_cheapest_is_always_decided() {
        let found = scores("other=1", 7, &[1.0 / 7.0; 21], &[3, 1, 3]);
        let rules: Vec<&str> = found.rules.iter().map(|found| &*found.rule).collect();
        assert_eq!(rules[2..], ["always c3"]);
        assert_eq!(found.rules[2].decided, [0, 0, 0, 3, 0, 0, 0]);
        let table = found.table();
        assert_eq!(table.header[3..], ["abstained"]);
        assert_eq!(table.rows[2].len(), 4);
    }
}
