//! Decisions between classes by their costs, with abstention as a further action.
//!
//! With p_i the probability of class i, and C_ij the cost of deciding class j where class i is true, the expected costs are
//!
//!   class j  Σ_i p_i · C_ij,   abstain  c_A
//!
//! and the action with the least is taken; of equal ones, the class with the lowest index, and a class before abstention. For
//! two classes without abstention, that is the positive class if its probability is above c_FP/(c_FP + c_FN), with c_FP the
//! cost of a false positive and c_FN that of a false negative.
//!
//! Reference: C. K. Chow, "On optimum recognition error and reject tradeoff" (1970).

use crate::check;
use crate::error::EvalError;
use crate::views::{ClassProbabilities, LabelledProbabilities};

/// What decisions between classes cost, in any unit. A right one costs nothing.
///
/// ```
/// use burn_bayes_eval::{Action, ClassProbabilities, DecisionCosts};
///
/// // To overlook class 1 costs twenty times as much as to take class 0 for it.
/// let costs = DecisionCosts::binary(1.0, 20.0, 1)?.with_abstention(0.5)?;
/// let table = ClassProbabilities::binary(&[0.01, 0.04, 0.9])?;
/// let decisions = costs.decisions(&table)?;
/// let actions: Vec<Action> = decisions.iter().map(|decision| decision.action).collect();
/// assert_eq!(actions, [Action::Class(0), Action::Abstain, Action::Class(1)]);
/// assert_eq!(decisions[0].expected_cost, 0.2);
///
/// // Of three classes, to take the last for the first is the worst error.
/// let costs = DecisionCosts::new(
///     &[
///         0.0, 1.0, 1.0, // class 0 is true
///         1.0, 0.0, 1.0, // class 1
///         9.0, 1.0, 0.0, // class 2
///     ],
///     3,
/// )?;
/// let table = ClassProbabilities::new(&[0.6, 0.3, 0.1], 1, 3)?;
/// assert_eq!(costs.decisions(&table)?[0].action, Action::Class(1));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionCosts {
    /// Row-major: true class × decided class.
    costs: Vec<f64>,
    classes: usize,
    abstention: Option<f64>,
}

/// What is done about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is treated as the class with this index.
    Class(usize),
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
    /// The costs of all decisions, `[true class × decided class]`, row-major, without abstention.
    ///
    /// # Errors
    /// A data error if the length does not fit. A config error if there are fewer than two classes, a cost is not a finite
    /// number of at least 0, a right decision costs something, or a class has no cost above 0, neither where it is true nor
    /// where it is decided: to decide it would always be best.
    pub fn new(costs: &[f64], classes: usize) -> Result<Self, EvalError> {
        if classes < 2 {
            return Err(EvalError::config("classes", classes, "at least 2"));
        }
        let extents = [("true classes", classes), ("decided classes", classes)];
        check::shape("costs", costs.len(), &extents)?;
        for (place, &cost) in costs.iter().enumerate() {
            let (truth, decided) = (place / classes, place % classes);
            let name = format!("costs, true class {truth}, decided class {decided}");
            check_cost(&name, cost)?;
            if truth == decided && cost != 0.0 {
                return Err(EvalError::config(&name, cost, "0 for a right decision"));
            }
        }
        let is_free = |class: &usize| {
            let mut others = 0..classes;
            others.all(|other| {
                costs[class * classes + other] == 0.0 && costs[other * classes + class] == 0.0
            })
        };
        if let Some(class) = (0..classes).find(is_free) {
            let name = format!("costs, class {class}");
            return Err(EvalError::config(&name, 0, "a cost above 0 of an error"));
        }
        Ok(Self {
            costs: costs.to_vec(),
            classes,
            abstention: None,
        })
    }

    /// The costs of a false positive and of a false negative for two classes, without abstention; `positive` is the index of
    /// the positive class.
    ///
    /// # Errors
    /// A config error if a cost is not a finite number of at least 0, both are 0, or `positive` is not 0 or 1.
    pub fn binary(
        false_positive: f64,
        false_negative: f64,
        positive: usize,
    ) -> Result<Self, EvalError> {
        check_cost("false_positive", false_positive)?;
        check_cost("false_negative", false_negative)?;
        check::count("positive", positive, 0..=1)?;
        let mut costs = [0.0; 4];
        costs[2 * (1 - positive) + positive] = false_positive;
        costs[2 * positive + (1 - positive)] = false_negative;
        Self::new(&costs, 2)
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

    /// The action of least expected cost for each row.
    ///
    /// # Errors
    /// A config error if the probabilities are of another number of classes.
    pub fn decisions(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<Vec<CostedAction>, EvalError> {
        self.check_classes(probabilities)?;
        Ok(probabilities.iter().map(|row| self.decision(row)).collect())
    }

    /// What these actions cost, given the true classes.
    ///
    /// # Errors
    /// As [`decisions`](Self::decisions); a data error if there is not one action for each row; a config error if an action
    /// is none of the classes, or a row is abstained from without a cost of abstention.
    pub fn costs(
        &self,
        actions: &[Action],
        labelled: &LabelledProbabilities<'_>,
    ) -> Result<Vec<f64>, EvalError> {
        let labels = labelled.labels();
        self.check_classes(labelled.probabilities())?;
        check::same_length("actions", actions.len(), labels.len())?;
        let cost = |(action, &label): (&Action, &usize)| match *action {
            Action::Class(class) => {
                check::count("decided class", class, 0..=self.classes - 1)?;
                Ok(self.cost(label, class))
            }
            Action::Abstain => self.abstention.ok_or_else(|| {
                EvalError::config("abstention", "none", "a cost, if rows are not decided")
            }),
        };
        actions.iter().zip(labels).map(cost).collect()
    }

    /// The action of least expected cost, from the probability of every class.
    fn decision(&self, probabilities: &[f64]) -> CostedAction {
        let of_class = |class| {
            let costs = probabilities.iter().enumerate();
            let costs = costs.map(|(truth, probability)| probability * self.cost(truth, class));
            CostedAction {
                action: Action::Class(class),
                expected_cost: costs.sum(),
            }
        };
        let abstain = self.abstention.map(|cost| CostedAction {
            action: Action::Abstain,
            expected_cost: cost,
        });
        let others = (1..self.classes).map(of_class).chain(abstain);
        others.fold(of_class(0), |best, other| {
            match other.expected_cost < best.expected_cost {
                true => other,
                false => best,
            }
        })
    }

    fn cost(&self, truth: usize, decided: usize) -> f64 {
        self.costs[truth * self.classes + decided]
    }

    fn check_classes(&self, probabilities: &ClassProbabilities<'_>) -> Result<(), EvalError> {
        match probabilities.classes() == self.classes {
            true => Ok(()),
            false => Err(EvalError::config(
                "classes",
                self.classes,
                format!("{}, as in the probabilities", probabilities.classes()),
            )),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(costs: &DecisionCosts, probabilities: &[f64]) -> Vec<Action> {
        let table = ClassProbabilities::binary(probabilities).unwrap();
        let decisions = costs.decisions(&table).unwrap();
        decisions.iter().map(|decision| decision.action).collect()
    }

    #[test]
    fn no_other_action_is_expected_to_cost_less() {
        use Action::{Abstain, Class};
        let costs = DecisionCosts::binary(2.0, 5.0, 1).unwrap();
        let costs = costs.with_abstention(0.75).unwrap();
        let probabilities: Vec<f64> = (0..=1000).map(|p| f64::from(p) / 1000.0).collect();
        let table = ClassProbabilities::binary(&probabilities).unwrap();
        let decisions = costs.decisions(&table).unwrap();
        for (p, decision) in probabilities.iter().zip(&decisions) {
            // The mean of the realised costs over the distribution of the class.
            let cost = |action| {
                let row = ClassProbabilities::binary(&[*p, *p]).unwrap();
                let labelled = LabelledProbabilities::new(&row, &[0, 1]).unwrap();
                let of_classes = costs.costs(&[action; 2], &labelled).unwrap();
                (1.0 - p) * of_classes[0] + p * of_classes[1]
            };
            let least = [Class(0), Class(1), Abstain].map(cost);
            let least = least.into_iter().fold(f64::INFINITY, f64::min);
            assert!((cost(decision.action) - least).abs() < 1e-15, "{p}");
            assert!((decision.expected_cost - least).abs() < 1e-15, "{p}");
        }
        // Abstention costs less between 0.75/5 and 1 − 0.75/2.
        let found = actions(&costs, &[0.149, 0.151, 0.624, 0.626]);
        assert_eq!(found, [Class(0), Abstain, Abstain, Class(1)]);
    }

    #[test]
    fn a_cost_is_that_of_the_true_and_the_decided_class() {
        // The cost of deciding class j where class i is true is 10 i + j + 1.
        let costs = [0.0, 2.0, 3.0, 11.0, 0.0, 13.0, 21.0, 22.0, 0.0];
        let costs = DecisionCosts::new(&costs, 3).unwrap();
        let table = ClassProbabilities::new(&[0.2, 0.5, 0.3], 1, 3).unwrap();
        // By hand: 0.5 · 11 + 0.3 · 21, 0.2 · 2 + 0.3 · 22 and 0.2 · 3 + 0.5 · 13.
        let decision = costs.decisions(&table).unwrap()[0];
        assert_eq!(decision.action, Action::Class(1));
        assert!((decision.expected_cost - 7.0).abs() < 1e-14);
        for (label, expected) in [[0.0, 2.0, 3.0], [11.0, 0.0, 13.0], [21.0, 22.0, 0.0]]
            .into_iter()
            .enumerate()
        {
            let labels = [label];
            let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
            for (class, cost) in expected.into_iter().enumerate() {
                let found = costs.costs(&[Action::Class(class)], &labelled).unwrap();
                assert_eq!(found, [cost]);
            }
        }
    }

    #[test]
    fn of_equal_costs_the_first_class_is_taken() {
        use Action::{Abstain, Class};
        for positive in [0, 1] {
            let costs = DecisionCosts::binary(1.0, 1.0, positive).unwrap();
            assert_eq!(actions(&costs, &[0.5, 0.75]), [Class(0), Class(1)]);
            let costs = costs.with_abstention(0.25).unwrap();
            let found = actions(&costs, &[0.25, 0.5, 0.75]);
            assert_eq!(found, [Class(0), Abstain, Class(1)]);
        }
        let costs = [0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0];
        let costs = DecisionCosts::new(&costs, 3).unwrap();
        let table = ClassProbabilities::new(&[0.25, 0.375, 0.375], 1, 3).unwrap();
        assert_eq!(costs.decisions(&table).unwrap()[0].action, Class(1));
    }

    #[test]
    fn what_is_no_cost_is_refused() {
        for cost in [-1.0, f64::NAN, f64::INFINITY] {
            for (one, other) in [(cost, 1.0), (1.0, cost)] {
                let error = DecisionCosts::binary(one, other, 1).unwrap_err();
                assert!(error.is_config());
                let error = DecisionCosts::new(&[0.0, one, other, 0.0], 2).unwrap_err();
                assert!(error.is_config());
            }
            let costs = DecisionCosts::binary(1.0, 1.0, 1).unwrap();
            assert!(costs.with_abstention(cost).unwrap_err().is_config());
        }
        let error = DecisionCosts::new(&[0.0, -2.0, 1.0, 0.0], 2).unwrap_err();
        assert!(error.to_string().contains("true class 0, decided class 1"));
        let error = DecisionCosts::new(&[0.0, 1.0, 1.0, 0.5], 2).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("a right decision"));
        assert!(DecisionCosts::binary(0.0, 0.0, 1).unwrap_err().is_config());
        assert!(DecisionCosts::binary(1.0, 1.0, 2).unwrap_err().is_config());
        // To decide class 2 would cost nothing, whatever is true.
        let free = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let error = DecisionCosts::new(&free, 3).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("class 2"));
    }

    #[test]
    fn classes_and_rows_must_fit() {
        assert!(DecisionCosts::new(&[0.0], 1).unwrap_err().is_config());
        assert!(DecisionCosts::new(&[0.0; 6], 3).unwrap_err().is_data());
        let costs = DecisionCosts::binary(1.0, 1.0, 1).unwrap();
        let table = ClassProbabilities::new(&[0.5, 0.25, 0.25], 1, 3).unwrap();
        assert!(costs.decisions(&table).unwrap_err().is_config());
        let labelled = LabelledProbabilities::new(&table, &[0]).unwrap();
        let error = costs.costs(&[Action::Class(0)], &labelled).unwrap_err();
        assert!(error.is_config());
        let table = ClassProbabilities::binary(&[0.5]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0]).unwrap();
        for action in [Action::Abstain, Action::Class(2)] {
            let error = costs.costs(&[action], &labelled).unwrap_err();
            assert!(error.is_config());
        }
        assert!(costs.costs(&[], &labelled).unwrap_err().is_data());
    }
}
