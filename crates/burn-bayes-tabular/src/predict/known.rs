//! Rows with known targets, and the thresholds of conformal sets and intervals that they give.

use std::f64::consts::LN_2;
use std::path::Path;

use burn_bayes::eval::{
    AdaptiveLevel, ClassProbabilities, ConformalByClass, ConformalNormalisedResidual,
    ConformalSets, EvalError, LabelledProbabilities, PredictionSets, RankPenalty, SetScore,
};
use burn_bayes_data::Targets;

use super::conformal::{ConformalRequest, SetMethod};
use super::held_out::HeldOutTable;
use super::table::DEVIATIONS;
use super::{MEAN, Predictions, TARGET, column_name, mismatched, probability_column};
use crate::error::Result;
use crate::order::selected;
use crate::rows::{Target, Units};

/// The penalty of RAPS: on every class beyond the most probable one.
const PENALTY: RankPenalty = RankPenalty {
    weight: 0.1,
    free_classes: 1,
};

/// The predictions and targets of the held-out rows.
pub(crate) enum Known {
    Classes(ClassProbabilities<'static>, Vec<usize>),
    Numbers([Vec<f64>; 3]),
}

/// What is in a set or interval.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Sets(ConformalSets),
    Intervals(ConformalNormalisedResidual),
}

impl Known {
    /// Predictions of rows with their targets, of each target.
    ///
    /// # Errors
    /// If they do not match.
    pub(crate) fn of_targets(predictions: &Predictions, targets: &Targets) -> Result<Vec<Self>> {
        let pairs = predictions.beside(targets);
        pairs
            .map(|(_, predictions, targets)| Self::of(predictions, targets))
            .collect()
    }

    fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Classes(classes), Targets::Classes(truths)) => {
                Ok(Self::Classes(classes.checked()?.average(), truths.clone()))
            }
            (_, Targets::Real(truths)) => {
                let moments = predictions.moments()?.unwrap_or_default();
                Ok(Self::Numbers([
                    moments.mean.clone(),
                    moments.deviations(),
                    truths.clone(),
                ]))
            }
            _ => Err(mismatched(predictions)),
        }
    }

    /// These rows, and then others of the same kind.
    pub(super) fn and(self, others: &Self) -> Result<Self, EvalError> {
        match (self, others) {
            (Self::Classes(table, truths), Self::Classes(other, more)) => {
                let values = [table.values(), other.values()].concat();
                let truths = [&truths[..], more].concat();
                let classes = table.classes();
                let table = ClassProbabilities::new(values, truths.len(), classes)?;
                Ok(Self::Classes(table, truths))
            }
            (Self::Numbers(columns), Self::Numbers(others)) => {
                let mut columns = columns;
                let pairs = columns.iter_mut().zip(others);
                pairs.for_each(|(column, other)| column.extend(other));
                Ok(Self::Numbers(columns))
            }
            _ => unreachable!("rows of one run have one kind"),
        }
    }

    /// The level after these rows in time, and whether each of them but the first ones was inside at the level before it.
    pub(super) fn followed(
        &self,
        request: &ConformalRequest,
    ) -> Result<(f64, Vec<bool>), EvalError> {
        let mut adaptive = AdaptiveLevel::new(request.level, STEP)?;
        let window = window(request.level);
        let mut inside = Vec::new();
        for row in 1..self.rows() {
            let before: Vec<usize> = (row.saturating_sub(window)..row).collect();
            let is_inside = match adaptive.level() {
                level if level >= 1.0 => true,
                level if level <= 0.0 => false,
                level => {
                    let request = ConformalRequest {
                        level,
                        ..request.clone()
                    };
                    self.is_inside(row, &self.rule(&before, &equal(before.len()), &request)?)?
                }
            };
            // Until there are enough rows for a finite threshold, nothing is learned.
            if row >= rows_needed(request.level) {
                adaptive.update(is_inside);
                inside.push(is_inside);
            }
        }
        Ok((adaptive.level(), inside))
    }

    /// Whether a rule has the target of a row inside.
    fn is_inside(&self, row: usize, rule: &Rule) -> Result<bool, EvalError> {
        match (self, rule) {
            (Self::Numbers([means, deviations, truths]), Rule::Intervals(rule)) => {
                let found = rule.intervals(&[means[row]], &[deviations[row]])?;
                Ok(found.covered(&[truths[row]])?[0])
            }
            (Self::Classes(table, truths), rule) => {
                let sets = rule.sets(&table.select(&[row])?).transpose()?;
                Ok(sets.is_some_and(|sets| sets.contains(0, truths[row])))
            }
            (Self::Numbers(_), _) => unreachable!("the rules of numbers make intervals"),
        }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Classes(_, truths) => truths.len(),
            Self::Numbers([means, ..]) => means.len(),
        }
    }

    /// Reads the columns of a target, with the name `of` if there are several; `by` is a column of words that is read too,
    /// if the file has it.
    pub(super) fn read(
        path: &Path,
        target: &Target,
        of: Option<&str>,
        by: Option<&str>,
    ) -> Result<(Self, HeldOutTable)> {
        let column = |name: &str| column_name(of, name);
        let truth_column = column(TARGET);
        let words = |target: &[&String]| -> Vec<String> {
            let target = target.iter().copied().cloned();
            target.chain(by.map(String::from)).collect()
        };
        match target {
            Target::Classes(classes) => {
                let names: Vec<String> = classes
                    .iter()
                    .map(|class| column(&probability_column(class)))
                    .collect();
                let table = HeldOutTable::read(path, &names, &words(&[&truth_column]))?;
                let truths = table.words(&truth_column)?.into_iter();
                let truths = truths.map(|truth| {
                    let class = classes.iter().position(|class| class == truth);
                    class.ok_or_else(|| table.damaged(format_args!("`{truth}` is not a class")))
                });
                let truths: Vec<usize> = truths.collect::<Result<_>>()?;
                let columns = names.iter().map(|name| table.numbers(name));
                let columns: Vec<Vec<f64>> = columns.collect::<Result<_>>()?;
                let of_row = |row: usize| columns.iter().map(move |column| column[row]);
                let values: Vec<f64> = (0..table.rows()).flat_map(of_row).collect();
                let damaged = |error| table.damaged(error);
                let probabilities = ClassProbabilities::new(values, truths.len(), classes.len())
                    .map_err(damaged)?;
                LabelledProbabilities::new(&probabilities, &truths).map_err(damaged)?;
                Ok((Self::Classes(probabilities, truths), table))
            }
            Target::Real(_) | Target::Counts { .. } => {
                let names = [MEAN, DEVIATIONS[0], TARGET].map(column);
                let table = HeldOutTable::read(path, &names, &words(&[]))?;
                let [mean, deviation, truth] = names.map(|name| table.numbers(&name));
                Ok((Self::Numbers([mean?, deviation?, truth?]), table))
            }
            Target::Several(_) => unreachable!("each target has thresholds of its own"),
        }
    }

    /// The rule of these rows, with a weight for each beside that of a new row, which is 1.
    pub(super) fn rule(
        &self,
        rows: &[usize],
        weights: &[f64],
        request: &ConformalRequest,
    ) -> Result<Rule, EvalError> {
        let level = request.level;
        match self {
            Self::Classes(probabilities, truths) => {
                let (table, truths) = (probabilities.select(rows)?, selected(truths, rows));
                let labelled = LabelledProbabilities::new(&table, &truths)?;
                let score = request.set_score();
                ConformalSets::calibrate_weighted(&labelled, weights, level, score).map(Rule::Sets)
            }
            Self::Numbers(columns) => {
                let [mean, deviation, truth] =
                    columns.each_ref().map(|column| selected(column, rows));
                ConformalNormalisedResidual::calibrate_weighted(
                    &mean, &deviation, &truth, weights, level,
                )
                .map(Rule::Intervals)
            }
        }
    }

    /// The rule with a threshold for each class.
    pub(super) fn by_class(
        &self,
        request: &ConformalRequest,
    ) -> Result<ConformalByClass, EvalError> {
        let Self::Classes(probabilities, truths) = self else {
            unreachable!("the request was validated");
        };
        let labelled = LabelledProbabilities::new(probabilities, truths)?;
        ConformalByClass::calibrate(&labelled, request.level, request.set_score())
    }

    /// The number of rows of a class, and its name.
    pub(super) fn class(&self, target: &Target, class: usize) -> (usize, String) {
        match (self, target) {
            (Self::Classes(_, truths), Target::Classes(names)) => {
                let count = truths.iter().filter(|&&truth| truth == class).count();
                (count, names[class].clone())
            }
            _ => unreachable!("the request was validated"),
        }
    }
}

impl ConformalRequest {
    fn set_score(&self) -> SetScore {
        match self.set_method.unwrap_or(SetMethod::Lac) {
            SetMethod::Lac => SetScore::Lac,
            SetMethod::Aps => SetScore::Aps,
            SetMethod::Raps => SetScore::Raps(PENALTY),
        }
    }
}

impl Rule {
    pub(super) fn threshold(&self) -> f64 {
        match self {
            Self::Sets(rule) => rule.threshold(),
            Self::Intervals(rule) => rule.threshold(),
        }
    }

    /// The sets of rows; `None` for intervals.
    pub(super) fn sets(
        &self,
        average: &ClassProbabilities<'_>,
    ) -> Option<Result<PredictionSets, EvalError>> {
        match self {
            Self::Sets(rule) => Some(rule.sets(average)),
            Self::Intervals(_) => None,
        }
    }
}

/// The number of last rows whose threshold a level that follows a drift has.
pub(super) fn window(level: f64) -> usize {
    LEAST_WINDOW.max(2 * rows_needed(level))
}

const LEAST_WINDOW: usize = 100;
/// In simulations of errors that drift, grow, jump and come in seasons, .89 to .91 of 200 rows were inside at .9, and at most
/// two of a thousand intervals infinite; with steps of .02 and .05 up to 22 and 117 were.
const STEP: f64 = 0.01;

/// The weights of rows that count like a new one.
pub(super) fn equal(rows: usize) -> Vec<f64> {
    vec![1.0; rows]
}

/// The weights of rows in the order of time: that of a new row, halved for each half-life that they are older.
pub(super) fn halved(rows: usize, half_life: f64) -> Vec<f64> {
    let age = |row: usize| (rows - row) as f64;
    (0..rows)
        .map(|row| (-age(row) / half_life).exp2())
        .collect()
}

/// The weights of rows whose groups each count like a new row.
pub(super) fn shared(units: &Units) -> Vec<f64> {
    let mut weights = vec![0.0; units.of_rows().len()];
    for rows in units.members() {
        let weight = 1.0 / rows.len() as f64;
        rows.into_iter().for_each(|row| weights[row] = weight);
    }
    weights
}

/// The least whole half-life at which this number of rows weighs as much; `None` if there is none.
pub(super) fn shortest_half_life(rows: usize, weight: f64) -> Option<f64> {
    // Σ 2^(−age/h) over the ages from 1 on, a geometric series.
    let of_half_life = |half_life: f64| {
        let power = LN_2 / half_life;
        -(-power * rows as f64).exp_m1() / power.exp_m1()
    };
    let (mut short, mut long) = (0.0, 1.0);
    while of_half_life(long) < weight {
        (short, long) = (long, 2.0 * long);
        if long > LONGEST_HALF_LIFE {
            return None;
        }
    }
    while long - short > 1.0 {
        let middle = (0.5 * (short + long)).round();
        match of_half_life(middle) < weight {
            true => short = middle,
            false => long = middle,
        }
    }
    Some(long)
}

/// With a longer one, weights hardly differ from 1.
const LONGEST_HALF_LIFE: f64 = 1e12;

/// The smallest n with ⌈(n + 1)·level⌉ ≤ n.
pub(super) fn rows_needed(level: f64) -> usize {
    let exact = level / (1.0 - level);
    // A quotient within rounding of an integer is that integer.
    (exact * (1.0 - 4.0 * f64::EPSILON / (1.0 - level))).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_life_halves_the_weights() {
        assert_eq!(halved(3, 1.0), [0.125, 0.25, 0.5]);
        let weights = halved(5, 0.5);
        assert_eq!(weights[4], 0.25);
        assert!(weights.windows(2).all(|pair| 4.0 * pair[0] == pair[1]));
    }

    #[test]
    fn the_shortest_half_life_gives_the_weight_and_a_shorter_one_does_not() {
        for (rows, weight) in [(60, 9.0), (20, 19.0), (1000, 99.0), (10, 0.3), (10, 9.99)] {
            let found = shortest_half_life(rows, weight).unwrap();
            let of = |half_life| halved(rows, half_life).iter().sum::<f64>();
            assert!(
                of(found) >= weight * (1.0 - 1e-12),
                "{rows} {weight} {found}"
            );
            assert!(
                found == 1.0 || of(found - 1.0) < weight,
                "{rows} {weight} {found}"
            );
        }
        assert_eq!(shortest_half_life(9, 9.0), None);
        assert_eq!(shortest_half_life(9, 12.0), None);
    }
}
