//! Decisions between the classes of a target by their costs.

use burn_bayes::eval::{
    Action, ClassProbabilities, CostedAction, DecisionCosts, LabelledProbabilities,
};

use super::{ClassPredictions, Predictions, mismatched};
use crate::error::{Result, TabularError};
use crate::rows::{Target, nearest};
use crate::settings::{Pairs, listed, refused};

/// What an action is called if it is no class.
const ABSTAIN: &str = "abstain";
/// All pairs of classes that are not named.
const OTHER: &str = "other";
/// Between the true and the decided class of a pair.
const SEPARATOR: char = ':';
const FALSE_POSITIVE: &str = "fp";
const FALSE_NEGATIVE: &str = "fn";

/// The costs of decisions between the classes of a target.
#[derive(Clone, Debug)]
pub struct CostRule {
    costs: DecisionCosts,
    /// The classes, in the order of their indices.
    pub(crate) classes: Vec<String>,
}

impl CostRule {
    /// The rule of the given costs: of pairs of classes, as `true:decided`, and of all pairs that are not named, as `other`;
    /// or of two classes, as `fp` and `fn`, where `positive` is the class asked for, by default the second one. Rows may be
    /// left undecided at the cost `abstain`.
    ///
    /// # Errors
    /// If the target has no classes, `positive` is none of two, a pair is not one of two different classes, has no cost or
    /// has two, a cost is not a finite number of at least 0, or a class has no cost above 0.
    pub fn of(given: &Pairs, target: &Target, positive: Option<&str>) -> Result<Self> {
        let Target::Classes(classes) = target else {
            let found = match target {
                Target::Several(_) => "the fit has several targets",
                _ => "the target is a number",
            };
            let problem = format!("is for one target with classes, but {found}; leave it out");
            return Err(refused("cost", problem));
        };
        let abstain = given.0.iter().find(|(name, _)| name == ABSTAIN);
        let of_decisions = given.0.iter().filter(|(name, _)| name != ABSTAIN);
        let (of_errors, of_pairs): (Vec<_>, Vec<_>) =
            of_decisions.partition(|(name, _)| is_of_error(name));
        let costs = match (&of_errors[..], &of_pairs[..]) {
            ([], _) => DecisionCosts::new(&costs_of_pairs(&of_pairs, classes)?, classes.len())?,
            ([(name, _), ..], _) if classes.len() != 2 => {
                let problem = format!(
                    "names `{name}`, which is for two classes, but the target has {}; {}",
                    classes.len(),
                    use_pairs(classes)
                );
                return Err(refused("cost", problem));
            }
            ([(error, _), ..], [(name, _), ..]) => {
                let problem = format!(
                    "names `{name}` beside `{error}`; use fp for the cost of a false positive and fn for that of a false \
                     negative alone, or {}",
                    use_pairs(classes)
                );
                return Err(refused("cost", problem));
            }
            (_, []) => {
                let asked = target.positive(positive)?;
                let positive = classes
                    .iter()
                    .position(|class| asked == Some(class.as_str()));
                costs_of_errors(&of_errors, positive.unwrap_or(1))?
            }
        };
        let costs = match abstain {
            Some(abstain) => costs.with_abstention(cost_of(abstain)?)?,
            None => costs,
        };
        Ok(Self {
            costs,
            classes: classes.clone(),
        })
    }

    /// Whether the costs are those of a false positive and a false negative.
    pub(crate) fn has_positive(given: &Pairs) -> bool {
        given.0.iter().any(|(name, _)| is_of_error(name))
    }

    /// The action of least expected cost for each row.
    pub(crate) fn decisions(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<Vec<CostedAction>> {
        Ok(self.costs.decisions(probabilities)?)
    }

    /// What actions cost, given the true classes.
    pub(crate) fn costs(
        &self,
        actions: &[Action],
        labelled: &LabelledProbabilities<'_>,
    ) -> Result<Vec<f64>> {
        Ok(self.costs.costs(actions, labelled)?)
    }

    /// The name of an action: that of its class.
    pub(crate) fn name(&self, action: Action) -> &str {
        match action {
            Action::Class(class) => &self.classes[class],
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

fn is_of_error(name: &str) -> bool {
    [FALSE_POSITIVE, FALSE_NEGATIVE].contains(&name)
}

/// The costs of a false positive and of a false negative.
fn costs_of_errors(given: &[&(String, String)], positive: usize) -> Result<DecisionCosts> {
    let cost = |wanted: &str| {
        let pair = given.iter().find(|(name, _)| name == wanted);
        let pair = pair.ok_or_else(|| {
            let problem =
                format!("has no {wanted}; give the costs of both errors, as in fp=1,fn=20");
            refused("cost", problem)
        });
        cost_of(pair?)
    };
    let (false_positive, false_negative) = (cost(FALSE_POSITIVE)?, cost(FALSE_NEGATIVE)?);
    if false_positive + false_negative == 0.0 {
        let problem = "has fp=0 and fn=0; one of them must be above 0";
        return Err(refused("cost", problem));
    }
    let costs = DecisionCosts::binary(false_positive, false_negative, positive)?;
    Ok(costs)
}

/// The costs of all decisions, `[true class × decided class]`, row-major.
fn costs_of_pairs(given: &[&(String, String)], classes: &[String]) -> Result<Vec<f64>> {
    let count = classes.len();
    let mut costs: Vec<Option<f64>> = vec![None; count * count];
    let mut other: Option<f64> = None;
    for pair in given {
        let (name, cost) = (&pair.0, cost_of(pair)?);
        let known = match name == OTHER {
            true => other.replace(cost),
            false => {
                let (truth, decided) = pair_of(name, classes)?;
                costs[truth * count + decided].replace(cost)
            }
        };
        if known.is_some() {
            let problem = format!("has two costs for `{name}`; leave one of them out");
            return Err(refused("cost", problem));
        }
    }
    let cost = |place: usize| {
        let (truth, decided) = (place / count, place % count);
        if truth == decided {
            return Ok(0.0);
        }
        costs[place].or(other).ok_or_else(|| {
            let (truth, decided) = (&classes[truth], &classes[decided]);
            let problem = format!(
                "has no cost for `{truth}{SEPARATOR}{decided}`, the decision `{decided}` where `{truth}` is true; add it, \
                 or {OTHER}=1 for all pairs that are not named"
            );
            refused("cost", problem)
        })
    };
    let costs = (0..count * count).map(cost).collect::<Result<Vec<_>>>()?;
    for (class, name) in classes.iter().enumerate() {
        let mut others = 0..count;
        if others.all(|other| costs[class * count + other] + costs[other * count + class] == 0.0) {
            let problem = format!(
                "has no cost above 0 for a pair with `{name}`, so that it would always be decided; give one of them a cost"
            );
            return Err(refused("cost", problem));
        }
    }
    Ok(costs)
}

/// The true and the decided class of a pair. Names of classes may contain the separator.
fn pair_of(name: &str, classes: &[String]) -> Result<(usize, usize)> {
    let place = |side: &str| classes.iter().position(|class| class == side.trim());
    let splits = name.match_indices(SEPARATOR);
    let splits = splits.map(|(at, separator)| (&name[..at], &name[at + separator.len()..]));
    let splits: Vec<(&str, &str)> = splits.collect();
    let found = splits.iter();
    let found = found.filter_map(|(truth, decided)| Some((place(truth)?, place(decided)?)));
    let found: Vec<(usize, usize)> = found.collect();
    let problem = match found[..] {
        [(truth, decided)] if truth != decided => return Ok((truth, decided)),
        [(class, _)] => format!(
            "has a cost for `{name}`, but it costs nothing to decide `{}` where it is true; leave it out",
            classes[class]
        ),
        [] => return Err(not_a_pair(name, &splits, classes)),
        [(truth, decided), (other_truth, other_decided), ..] => format!(
            "names `{name}`, which may be `{}` and `{}` or `{}` and `{}`; rename one of these classes in the file",
            classes[truth], classes[decided], classes[other_truth], classes[other_decided]
        ),
    };
    Err(refused("cost", problem))
}

/// The error about a name that is no pair of classes, whatever the separator at which it is split.
fn not_a_pair(name: &str, splits: &[(&str, &str)], classes: &[String]) -> TabularError {
    let is_class = |side: &str| classes.iter().any(|class| class == side.trim());
    let half_known = splits.iter();
    let half_known = half_known.filter(|(truth, decided)| is_class(truth) || is_class(decided));
    let Some((truth, decided)) = half_known.chain(splits).next() else {
        let problem = format!(
            "names `{name}`, which is no pair of classes; {}",
            use_pairs(classes)
        );
        return refused("cost", problem);
    };
    let unknown = match is_class(truth) {
        true => decided.trim(),
        false => truth.trim(),
    };
    let hint = nearest(unknown, classes);
    let hint = hint.map_or(String::new(), |hint| format!("; did you mean `{hint}`"));
    let problem = format!(
        "names `{unknown}`, which is not a class of the target{hint}; its classes are {}",
        listed(classes)
    );
    refused("cost", problem)
}

/// How the costs of pairs are given.
fn use_pairs(classes: &[String]) -> String {
    let pair: Vec<&str> = classes.iter().take(2).map(String::as_str).collect();
    let pair = pair.join(&SEPARATOR.to_string());
    let pair = match pair.contains([',', '=']) {
        true => format!("\"{pair}\""),
        false => pair,
    };
    format!(
        "give costs by true and decided class, as in {pair}=20, {OTHER}=1 for all pairs that are not named, and perhaps \
         {ABSTAIN}=0.5"
    )
}

/// The cost of a pair of a name and a value.
fn cost_of((name, value): &(String, String)) -> Result<f64> {
    let cost = value.parse::<f64>().ok();
    let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
    cost.ok_or_else(|| {
        let problem = format!("has {name}={value}; it must be a finite number of at least 0");
        refused("cost", problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(given: &str, classes: &[&str]) -> Result<CostRule> {
        let classes = classes.iter().map(ToString::to_string).collect();
        let given: Pairs = given.parse().unwrap();
        CostRule::of(&given, &Target::Classes(classes), None)
    }

    /// The cost of every decision, `[true class × decided class]`.
    fn matrix(rule: &CostRule) -> Vec<f64> {
        let count = rule.classes.len();
        let certain = |truth: usize| (0..count).map(move |class| f64::from(class == truth));
        let certain: Vec<f64> = (0..count).flat_map(certain).collect();
        let table = ClassProbabilities::new(&certain, count, count).unwrap();
        let truths: Vec<usize> = (0..count).collect();
        let labelled = LabelledProbabilities::new(&table, &truths).unwrap();
        let of_decided = |class: usize| {
            let actions = vec![Action::Class(class); count];
            rule.costs(&actions, &labelled).unwrap()
        };
        let columns: Vec<Vec<f64>> = (0..count).map(of_decided).collect();
        let rows = 0..count;
        rows.flat_map(|row| columns.iter().map(move |column| column[row]))
            .collect()
    }

    #[test]
    fn pairs_have_the_costs_that_are_given() {
        let classes = ["high", "low", "middle"];
        let given = "low:high=9, other = 1,middle : low=0.5,abstain=.25";
        let found = rule(given, &classes).unwrap();
        assert_eq!(
            matrix(&found),
            [0.0, 1.0, 1.0, 9.0, 0.0, 1.0, 1.0, 0.5, 0.0]
        );
        let uniform = ClassProbabilities::new(&[1.0 / 3.0; 3], 1, 3).unwrap();
        let decisions = found.decisions(&uniform).unwrap();
        assert_eq!(found.name(decisions[0].action), "abstain");
        let given = "a:b=1,b:a=20";
        assert_eq!(
            matrix(&rule(given, &["a", "b"]).unwrap()),
            matrix(&rule("fp=1,fn=20", &["a", "b"]).unwrap())
        );
    }

    #[test]
    fn the_positive_class_may_be_the_first() {
        let given: Pairs = "fp=1,fn=20".parse().unwrap();
        let target = Target::Classes(["no", "yes"].map(String::from).into());
        let costs = |positive| matrix(&CostRule::of(&given, &target, positive).unwrap());
        assert_eq!(costs(None), [0.0, 1.0, 20.0, 0.0]);
        assert_eq!(costs(Some("yes")), [0.0, 1.0, 20.0, 0.0]);
        assert_eq!(costs(Some("no")), [0.0, 20.0, 1.0, 0.0]);
    }

    #[test]
    fn names_of_classes_may_have_separators() {
        let classes = ["9:00", "9:30", "late, or never"];
        let given = "9:00:9:30=2,\"late, or never:9:00\"=3,other=1";
        assert_eq!(
            matrix(&rule(given, &classes).unwrap()),
            [0.0, 2.0, 1.0, 1.0, 0.0, 1.0, 3.0, 1.0, 0.0]
        );
        let error = rule("a:b:c=1,other=1", &["a", "a:b", "b:c", "c"]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("may be `a` and `b:c` or `a:b` and `c`"),
            "{message}"
        );
    }

    #[test]
    fn costs_that_do_not_fit_the_classes_are_refused() {
        let classes = ["high", "low", "middle"];
        for (given, expected) in [
            ("low:high=9", "has no cost for `high:low`"),
            ("low:high=9", "or other=1 for all pairs"),
            ("abstain=1", "has no cost for `high:low`"),
            ("low:hihg=9,other=1", "names `hihg`, which is not a class"),
            ("low:hihg=9,other=1", "did you mean `high`"),
            ("lo:high=9,other=1", "classes are `high`, `low`, `middle`"),
            ("1:2=9,other=1", "names `1`"),
            ("low=9,other=1", "names `low`, which is no pair of classes"),
            ("low:low=9,other=1", "costs nothing to decide `low`"),
            (
                "low:high=9,low: high=8,other=1",
                "two costs for `low: high`",
            ),
            ("low:high=-9,other=1", "has low:high=-9"),
            ("low:high=9,other=x", "has other=x"),
            ("low:high=9,other=1,abstain=NaN", "has abstain=NaN"),
            ("other=0", "pair with `high`"),
            ("high:low=1,other=0", "pair with `middle`"),
            ("fp=1,fn=2", "is for two classes, but the target has 3"),
            ("fp=1,low:high=2", "as in high:low=20"),
        ] {
            let message = rule(given, &classes).unwrap_err().to_string();
            assert!(message.contains(expected), "{given}: {message}");
        }
        for given in ["fp=1,fn=2,no:yes=1", "fp=1,other=1", "fn=1,tp=2"] {
            let message = rule(given, &["no", "yes"]).unwrap_err().to_string();
            assert!(message.contains("beside `f"), "{given}: {message}");
        }
    }
}
