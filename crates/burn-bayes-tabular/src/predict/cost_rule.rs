//! Decisions between the two classes of a target by their costs.

use burn_bayes::eval::{
    Action, ClassProbabilities, CostedAction, DecisionCosts, LabelledProbabilities,
};

use super::{ClassPredictions, Predictions, mismatched};
use crate::error::Result;
use crate::rows::Target;
use crate::settings::{Pairs, refused};

/// What an action is called if it is no class.
const ABSTAIN: &str = "abstain";
const FALSE_POSITIVE: &str = "fp";
const FALSE_NEGATIVE: &str = "fn";

/// The costs of decisions between the two classes of a target.
#[derive(Clone, Debug)]
pub struct CostRule {
    costs: DecisionCosts,
    /// The index of the positive class.
    positive: usize,
    /// The negative class, then the positive one.
    pub(crate) classes: [String; 2],
}

impl CostRule {
    /// The rule of the costs `fp` and `fn`, perhaps with `abstain`; `positive` is the class asked for, by default the second
    /// one.
    ///
    /// # Errors
    /// If the target does not have two classes, `positive` is none of them, a cost of an error is not given, or one is not a
    /// finite number of at least 0.
    pub fn of(given: &Pairs, target: &Target, positive: Option<&str>) -> Result<Self> {
        let costs = costs(given)?;
        let positive = target.positive(positive)?;
        let (Target::Classes(names), Some(positive)) = (target, positive) else {
            let found = match target {
                Target::Classes(names) => format!("the target has {}", names.len()),
                Target::Real(_) | Target::Counts { .. } => "the target is a number".into(),
                Target::Several(_) => "the fit has several targets".into(),
            };
            let problem = format!(
                "is for one target of two classes, but {found}; decide by the probabilities"
            );
            return Err(refused("cost", problem));
        };
        let positive = usize::from(names[1] == positive);
        Ok(Self {
            costs,
            positive,
            classes: [1 - positive, positive].map(|class| names[class].clone()),
        })
    }

    /// The action of least expected cost for each row.
    pub(crate) fn decisions(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<Vec<CostedAction>> {
        Ok(self.costs.decisions(probabilities, self.positive)?)
    }

    /// What actions cost, given the true classes.
    pub(crate) fn costs(
        &self,
        actions: &[Action],
        labelled: &LabelledProbabilities<'_>,
    ) -> Result<Vec<f64>> {
        Ok(self.costs.costs(actions, labelled, self.positive)?)
    }

    /// The action that predicts a class.
    pub(crate) fn action_of(&self, class: usize) -> Action {
        match class == self.positive {
            true => Action::Positive,
            false => Action::Negative,
        }
    }

    /// The name of an action: that of its class.
    pub(crate) fn name(&self, action: Action) -> &str {
        let [negative, positive] = &self.classes;
        match action {
            Action::Negative => negative,
            Action::Positive => positive,
            Action::Abstain => ABSTAIN,
        }
    }
}

/// The predictions of a classification.
pub(crate) fn classes(predictions: &Predictions) -> Result<&ClassPredictions> {
    match predictions {
        Predictions::Classes(predictions) => Ok(predictions),
        _ => Err(mismatched(predictions)),
    }
}

fn costs(given: &Pairs) -> Result<DecisionCosts> {
    let names = [FALSE_POSITIVE, FALSE_NEGATIVE, ABSTAIN];
    if let Some((name, _)) = given.0.iter().find(|(name, _)| !names.contains(&&**name)) {
        let problem = format!(
            "names `{name}`; use fp for the cost of a false positive, fn for that of a false negative, and perhaps abstain"
        );
        return Err(refused("cost", problem));
    }
    let cost = |wanted: &str| {
        let pair = given.0.iter().find(|(name, _)| name == wanted)?;
        let cost = pair.1.parse::<f64>().ok();
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        Some(cost.ok_or_else(|| {
            let problem = format!(
                "has {wanted}={}; it must be a finite number of at least 0",
                pair.1
            );
            refused("cost", problem)
        }))
    };
    let of_error = |wanted: &str| {
        cost(wanted).unwrap_or_else(|| {
            let problem =
                format!("has no {wanted}; give the costs of both errors, as in fp=1,fn=20");
            Err(refused("cost", problem))
        })
    };
    let (false_positive, false_negative) = (of_error(FALSE_POSITIVE)?, of_error(FALSE_NEGATIVE)?);
    if false_positive + false_negative == 0.0 {
        return Err(refused(
            "cost",
            "has fp=0 and fn=0; one of them must be above 0",
        ));
    }
    let costs = DecisionCosts::new(false_positive, false_negative)?;
    Ok(match cost(ABSTAIN) {
        Some(abstain) => costs.with_abstention(abstain?)?,
        None => costs,
    })
}
