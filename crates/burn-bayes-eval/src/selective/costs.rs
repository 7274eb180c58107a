//! Decisions between two classes by their costs, with abstention as a third action.
//!
//! With p the probability of the positive class, the expected costs are
//!
//!   negative  p · c_FN,   positive  (1 − p) · c_FP,   abstain  c_A
//!
//! and the action with the least is taken; of equal ones, the first of these. Without abstention, that is the positive class
//! if p > c_FP/(c_FP + c_FN), and with it, abstention if c_FP and c_FN would both cost more.
//!
//! Reference: C. K. Chow, "On optimum recognition error and reject tradeoff" (1970).

use crate::check;
use crate::error::EvalError;
use crate::views::{ClassProbabilities, LabelledProbabilities};

/// What decisions between two classes cost, in any unit. A right one costs nothing.
///
/// ```
/// use burn_bayes_eval::{Action, ClassProbabilities, DecisionCosts};
///
/// // To overlook class 1 costs twenty times as much as to take class 0 for it.
/// let costs = DecisionCosts::new(1.0, 20.0)?.with_abstention(0.5)?;
/// let table = ClassProbabilities::binary(&[0.01, 0.04, 0.9])?;
/// let decisions = costs.decisions(&table, 1)?;
/// let actions: Vec<Action> = decisions.iter().map(|decision| decision.action).collect();
/// assert_eq!(actions, [Action::Negative, Action::Abstain, Action::Positive]);
/// assert_eq!(decisions[0].expected_cost, 0.2);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecisionCosts {
    false_positive: f64,
    false_negative: f64,
    abstention: Option<f64>,
}

/// What is done about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is treated as the negative class.
    Negative,
    /// It is treated as the positive class.
    Positive,
    /// It is not decided.
    Abstain,
}

/// The action of least expected cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostedAction {
    /// The action.
    pub action: Action,
    /// Its expected cost.
    pub expected_cost: f64,
}

impl DecisionCosts {
    /// The costs of a false positive and of a false negative, without abstention.
    ///
    /// # Errors
    /// A config error if one is not a finite number of at least 0, or both are 0.
    pub fn new(false_positive: f64, false_negative: f64) -> Result<Self, EvalError> {
        check_cost("false_positive", false_positive)?;
        check_cost("false_negative", false_negative)?;
        if false_positive + false_negative == 0.0 {
            let expected = "a cost above 0 of one of the errors";
            return Err(EvalError::config("false_negative", 0, expected));
        }
        Ok(Self {
            false_positive,
            false_negative,
            abstention: None,
        })
    }

    /// Allows abstention, at this cost.
    ///
    /// # Errors
    /// A config error if it is not a finite number of at least 0.
    pub fn with_abstention(self, cost: f64) -> Result<Self, EvalError> {
        check_cost("abstention", cost)?;
        Ok(Self {
            abstention: Some(cost),
            ..self
        })
    }

    /// The action of least expected cost for each row; `positive` is the index of the positive class.
    ///
    /// # Errors
    /// A config error unless there are two classes, and `positive` is one of them.
    pub fn decisions(
        &self,
        probabilities: &ClassProbabilities<'_>,
        positive: usize,
    ) -> Result<Vec<CostedAction>, EvalError> {
        check_two_classes(probabilities, positive)?;
        let decision = |row: &[f64]| self.decision(row[1 - positive], row[positive]);
        Ok(probabilities.iter().map(decision).collect())
    }

    /// What these actions cost, given the true classes.
    ///
    /// # Errors
    /// As [`decisions`](Self::decisions); a data error if there is not one action for each row; a config error if a row
    /// is abstained from without a cost of abstention.
    pub fn costs(
        &self,
        actions: &[Action],
        labelled: &LabelledProbabilities<'_>,
        positive: usize,
    ) -> Result<Vec<f64>, EvalError> {
        let labels = labelled.labels();
        check_two_classes(labelled.probabilities(), positive)?;
        check::same_length("actions", actions.len(), labels.len())?;
        let cost = |(action, &label): (&Action, &usize)| match (action, label == positive) {
            (Action::Negative, true) => Ok(self.false_negative),
            (Action::Positive, false) => Ok(self.false_positive),
            (Action::Negative, false) | (Action::Positive, true) => Ok(0.0),
            (Action::Abstain, _) => self.abstention.ok_or_else(|| {
                EvalError::config("abstention", "none", "a cost, if rows are not decided")
            }),
        };
        actions.iter().zip(labels).map(cost).collect()
    }

    /// The action of least expected cost, from the probabilities of both classes.
    fn decision(&self, of_negative: f64, of_positive: f64) -> CostedAction {
        let negative = (Action::Negative, of_positive * self.false_negative);
        let positive = (Action::Positive, of_negative * self.false_positive);
        let abstain = self.abstention.map(|cost| (Action::Abstain, cost));
        let others = [positive].into_iter().chain(abstain);
        let (action, expected_cost) = others.fold(negative, |best, other| match other.1 < best.1 {
            true => other,
            false => best,
        });
        CostedAction {
            action,
            expected_cost,
        }
    }
}

fn check_cost(name: &str, cost: f64) -> Result<(), EvalError> {
    match cost.is_finite() && cost >= 0.0 {
        true => Ok(()),
        false => Err(EvalError::config(
            name,
            cost,
            "a finite number of at least 0",
        )),
    }
}

fn check_two_classes(
    probabilities: &ClassProbabilities<'_>,
    positive: usize,
) -> Result<(), EvalError> {
    if probabilities.classes() != 2 {
        return Err(EvalError::config("classes", probabilities.classes(), 2));
    }
    check::count("positive", positive, 0..=1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(costs: DecisionCosts, probabilities: &[f64], positive: usize) -> Vec<Action> {
        let table = ClassProbabilities::binary(probabilities).unwrap();
        let decisions = costs.decisions(&table, positive).unwrap();
        decisions.iter().map(|decision| decision.action).collect()
    }

    #[test]
    fn no_other_action_is_expected_to_cost_less() {
        use Action::{Abstain, Negative, Positive};
        let costs = DecisionCosts::new(2.0, 5.0).unwrap();
        let costs = costs.with_abstention(0.75).unwrap();
        let probabilities: Vec<f64> = (0..=1000).map(|p| f64::from(p) / 1000.0).collect();
        let table = ClassProbabilities::binary(&probabilities).unwrap();
        let decisions = costs.decisions(&table, 1).unwrap();
        for (p, decision) in probabilities.iter().zip(&decisions) {
            // The mean of the realised costs over the distribution of the class.
            let cost = |action| {
                let row = ClassProbabilities::binary(&[*p, *p]).unwrap();
                let labelled = LabelledProbabilities::new(&row, &[0, 1]).unwrap();
                let of_classes = costs.costs(&[action; 2], &labelled, 1).unwrap();
                (1.0 - p) * of_classes[0] + p * of_classes[1]
            };
            let least = [Negative, Positive, Abstain].map(cost);
            let least = least.into_iter().fold(f64::INFINITY, f64::min);
            assert!((cost(decision.action) - least).abs() < 1e-15, "{p}");
            assert!((decision.expected_cost - least).abs() < 1e-15, "{p}");
        }
        // Abstention costs less between 0.75/5 and 1 − 0.75/2.
        let found = actions(costs, &[0.149, 0.151, 0.624, 0.626], 1);
        assert_eq!(found, [Negative, Abstain, Abstain, Positive]);
    }

    #[test]
    fn of_equal_costs_a_class_is_taken() {
        use Action::{Abstain, Negative, Positive};
        let costs = DecisionCosts::new(1.0, 1.0).unwrap();
        assert_eq!(actions(costs, &[0.5, 0.75], 1), [Negative, Positive]);
        assert_eq!(actions(costs, &[0.5, 0.75], 0), [Negative, Negative]);
        let costs = costs.with_abstention(0.25).unwrap();
        let found = actions(costs, &[0.25, 0.5, 0.75], 1);
        assert_eq!(found, [Negative, Abstain, Positive]);
    }

    #[test]
    fn what_is_no_cost_is_refused() {
        for cost in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(DecisionCosts::new(cost, 1.0).unwrap_err().is_config());
            assert!(DecisionCosts::new(1.0, cost).unwrap_err().is_config());
            let costs = DecisionCosts::new(1.0, 1.0).unwrap();
            assert!(costs.with_abstention(cost).unwrap_err().is_config());
        }
        assert!(DecisionCosts::new(0.0, 0.0).unwrap_err().is_config());
        let costs = DecisionCosts::new(1.0, 1.0).unwrap();
        let table = ClassProbabilities::new(&[0.5, 0.25, 0.25], 1, 3).unwrap();
        assert!(costs.decisions(&table, 1).unwrap_err().is_config());
        let table = ClassProbabilities::binary(&[0.5]).unwrap();
        assert!(costs.decisions(&table, 2).unwrap_err().is_config());
        let labelled = LabelledProbabilities::new(&table, &[0]).unwrap();
        let error = costs.costs(&[Action::Abstain], &labelled, 1).unwrap_err();
        assert!(error.is_config());
        assert!(costs.costs(&[], &labelled, 1).unwrap_err().is_data());
    }
}
