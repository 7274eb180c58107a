//! What a fit has learned from each column, from predictions of rows in which its cells are replaced.

use std::collections::BTreeMap;
use std::ops::Range;

use burn_bayes::Noise;
use burn_bayes_data::{Column, ColumnKind, Features, Targets};

use super::{KnownRows, SimilarRequest};
use crate::error::{Result, TabularError};
use crate::groups::Groups;
use crate::order::{by_cost, quantile, spread};
use crate::predict::{Predictions, TargetPredictions};
use crate::random::shuffled;
use crate::report::{Effect, EffectPoint, Explanation, Importance};
use crate::rows::{Units, not_a_column, true_targets};
use crate::run::Run;
use crate::scores::{Summary, mean, row_costs};
use crate::settings::refused;

/// The most rows that are permuted, and that effects are averages over.
const MOST_PERMUTED: usize = 2000;
const MOST_AVERAGED: usize = 200;
/// Permutations of a column.
const REPEATS: u64 = 5;
/// The most values of a number and of a category at which there are predictions, and of the other column of a pair.
const MOST_NUMBERS: usize = 21;
const MOST_CATEGORIES: usize = 12;
const MOST_OF_PAIR: usize = 4;
/// The columns with effects, if none are asked for.
const MOST_COLUMNS: usize = 6;
/// Standard errors to each side of an estimate.
const STANDARD_ERRORS: f64 = 1.96;
/// The levels of the limits of effects: nine in ten draws of the weights are between them.
const LIMITS: [f64; 2] = [0.05, 0.95];
/// The note of an explanation without intervals.
const TOO_FEW: &str = "too few rows to say how important columns are: at least five, or ten groups or times, have an interval";
/// The random stream of the permutations.
const STREAM: u64 = 0x7065_726d;

/// Which effects are asked for.
#[derive(Clone, Debug, Default)]
pub struct ExplanationRequest {
    /// The columns with effects; the six most important ones if there are none.
    pub columns: Vec<String>,
    /// The pairs of columns with effects.
    pub pairs: Vec<(String, String)>,
    /// The number of draws of the weights.
    pub draws: usize,
    /// The similar training rows of some rows.
    pub similar: SimilarRequest,
}

/// A value of a column, with a row that has it.
struct Value {
    row: usize,
    text: String,
    number: Option<f64>,
}

/// The rows of an explanation, and where the features of each column are.
struct Explained<'a> {
    run: &'a Run,
    features: &'a Features,
    columns: &'a [Column],
    places: Vec<Range<usize>>,
    draws: usize,
}

impl ExplanationRequest {
    /// Explains the predictions of a run for these rows.
    ///
    /// # Errors
    /// If a column is not one of the fit, or a prediction is not finite.
    pub fn explain(&self, run: &Run, rows: &KnownRows) -> Result<Explanation> {
        let explained = Explained::of(run, rows, self.draws);
        let columns = explained.columns.iter();
        let names: Vec<String> = columns.map(|column| column.name().into()).collect();
        let place = |setting: &str, name: &str| {
            let found = names.iter().position(|known| known == name);
            found.ok_or_else(|| refused(setting, not_a_column(name, &rows.path, &names)))
        };
        let asked = self.columns.iter().map(|name| place("columns", name));
        let asked = asked.collect::<Result<Vec<_>>>()?;
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|(one, other)| Ok((place("pair", one)?, place("pair", other)?)));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;

        let chosen = spread(rows.rows(), MOST_PERMUTED);
        let targets = true_targets(&rows.dataset, run.model.target()).select(&chosen);
        let base = explained.costs(&explained.features.select(&chosen)?, &targets)?;
        let units = rows.inputs.units.select(&chosen);
        let importance = (0..names.len())
            .map(|column| explained.importance(column, &chosen, &base, &targets, &units));
        let mut importance: Vec<(usize, Importance)> = importance
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .enumerate()
            .collect();
        importance.sort_by(|(_, one), (_, other)| by_cost(-one.increase, -other.increase));
        let most_important = importance.iter().map(|(column, _)| *column);
        let most_important: Vec<usize> = most_important.take(MOST_COLUMNS).collect();
        let similar = self.similar.find(run, rows, &most_important, self.draws)?;
        let asked = match asked.is_empty() {
            true => most_important,
            false => asked,
        };
        let mut effects = Vec::new();
        for column in asked {
            effects.extend(explained.effects(column, None)?);
        }
        for (column, other) in pairs {
            for value in explained.values(other, MOST_OF_PAIR)? {
                effects.extend(explained.effects(column, Some((other, &value)))?);
            }
        }
        Ok(Explanation {
            target: run.config.data.target_text()?,
            rows: chosen.len(),
            nll: Summary::of(&base).ok_or_else(no_rows)?.mean,
            note: (!units.are_enough()).then(|| TOO_FEW.into()),
            importance: importance.into_iter().map(|(_, found)| found).collect(),
            effects,
            similar,
        })
    }
}

impl<'a> Explained<'a> {
    fn of(run: &'a Run, rows: &'a KnownRows, draws: usize) -> Self {
        let mut end = 0;
        let places = run.preprocessor.widths().into_iter().map(|width| {
            end += width;
            end - width..end
        });
        Self {
            run,
            features: rows.dataset.features(),
            columns: &rows.inputs.columns,
            places: places.collect(),
            draws,
        }
    }

    fn costs(&self, features: &Features, targets: &Targets) -> Result<Vec<f64>> {
        row_costs(&self.run.predict(features, self.draws)?, targets)
    }

    /// The features of these rows, in which those of a column are of other rows.
    fn replaced(&self, rows: &[usize], sources: &[(usize, &[usize])]) -> Result<Features> {
        let width = self.features.columns();
        let mut values = Vec::with_capacity(rows.len() * width);
        for (place, &row) in rows.iter().enumerate() {
            let start = values.len();
            values.extend_from_slice(self.features.row(row));
            for (column, from) in sources {
                let features = self.places[*column].clone();
                let other = &self.features.row(from[place % from.len()])[features.clone()];
                values[start..][features].copy_from_slice(other);
            }
        }
        Ok(Features::new(rows.len(), width, values)?)
    }

    fn importance(
        &self,
        column: usize,
        rows: &[usize],
        base: &[f64],
        targets: &Targets,
        units: &Units,
    ) -> Result<Importance> {
        let noise = Noise::new(self.run.config.fit.seed)
            .fold(STREAM)
            .fold(column as u64);
        let mut increases = vec![0.0; rows.len()];
        for repeat in 0..REPEATS {
            let order = shuffled(rows.len(), noise.fold(repeat)).into_iter();
            let from: Vec<usize> = order.map(|place| rows[place]).collect();
            let costs = self.costs(&self.replaced(rows, &[(column, &from)])?, targets)?;
            let all = increases.iter_mut().zip(costs.iter().zip(base));
            all.for_each(|(sum, (cost, before))| *sum += (cost - before) / REPEATS as f64);
        }
        let Summary {
            mean,
            standard_error,
            ..
        } = Summary::of_rows(&increases, units).ok_or_else(no_rows)?;
        let half = standard_error
            .filter(|_| units.are_enough())
            .map(|error| STANDARD_ERRORS * error);
        Ok(Importance {
            column: self.columns[column].name().into(),
            increase: mean,
            lower: half.map(|half| mean - half),
            upper: half.map(|half| mean + half),
        })
    }

    /// The values of a column at which there are predictions: quantiles of numbers, at most this many, and the most frequent
    /// categories.
    fn values(&self, column: usize, most: usize) -> Result<Vec<Value>> {
        let column = &self.columns[column];
        let rows: Vec<usize> = (0..column.len())
            .filter(|&row| !column.is_missing(row))
            .collect();
        if let Some(times) = column.times() {
            let mut order = rows;
            order.sort_by(|&one, &other| times[one].total_cmp(&times[other]));
            let count = most.min(order.len());
            let quantile = |place: usize| order[(2 * place + 1) * order.len() / (2 * count)];
            let mut chosen: Vec<usize> = (0..count).map(quantile).collect();
            chosen.dedup_by(|one, other| times[*one] == times[*other]);
            let value = |row: usize| Value {
                row,
                text: column.label(row).unwrap_or_default(),
                number: column.number(row),
            };
            return Ok(chosen.into_iter().map(value).collect());
        }
        let groups = Groups::of(column, &rows)?.largest(most);
        let firsts: BTreeMap<usize, usize> = groups
            .of_rows
            .iter()
            .zip(&rows)
            .rev()
            .map(|(&group, &row)| (group, row))
            .collect();
        let firsts = firsts.into_values().take(most);
        Ok(firsts
            .map(|row| Value {
                row,
                text: column.label(row).unwrap_or_default(),
                number: None,
            })
            .collect())
    }

    /// The effects of a column on every output, perhaps where another one has this value.
    fn effects(&self, column: usize, given: Option<(usize, &Value)>) -> Result<Vec<Effect>> {
        let most = match self.columns[column].kind() {
            ColumnKind::Number => MOST_NUMBERS,
            ColumnKind::Category => MOST_CATEGORIES,
        };
        let rows = spread(self.features.rows(), MOST_AVERAGED);
        let mut effects: Vec<Effect> = Vec::new();
        for value in self.values(column, most)? {
            let from = [value.row];
            let other = given.map(|(other, value)| (other, [value.row]));
            let mut sources = vec![(column, &from[..])];
            sources.extend(other.iter().map(|(other, row)| (*other, &row[..])));
            let features = self.replaced(&rows, &sources)?;
            let predictions = self.run.predict(&features, self.draws)?;
            for (place, (output, mut draws)) in
                outputs(&predictions, self.run)?.into_iter().enumerate()
            {
                draws.sort_by(f64::total_cmp);
                let [lower, upper] = LIMITS.map(|level| quantile(&draws, level));
                let point = EffectPoint {
                    value: value.text.clone(),
                    number: value.number,
                    mean: mean(&draws),
                    lower,
                    upper,
                };
                if effects.len() == place {
                    effects.push(Effect {
                        column: self.columns[column].name().into(),
                        output,
                        given: given.map(|(other, value)| {
                            (self.columns[other].name().to_string(), value.text.clone())
                        }),
                        points: Vec::new(),
                    });
                }
                effects[place].points.push(point);
            }
        }
        Ok(effects)
    }
}

/// What is predicted, with the mean over rows under every draw: numbers in their own unit, and probabilities of classes, of two the
/// positive one.
fn outputs(predictions: &Predictions, run: &Run) -> Result<Vec<(String, Vec<f64>)>> {
    let mut targets = run.preprocessor.target_names();
    let name = targets.next().unwrap_or_default();
    let positive = run.config.data.positive.as_deref();
    of_target(predictions, name, run.model.target().positive(positive)?)
}

/// Those of a target; `positive` is the one of two classes that is shown, by default the second.
fn of_target(
    predictions: &Predictions,
    name: &str,
    positive: Option<&str>,
) -> Result<Vec<(String, Vec<f64>)>> {
    Ok(match predictions {
        Predictions::Reals(_) | Predictions::Counts(_) => {
            let of_draw = |draw| Ok(mean(&predictions.of_draw(draw).numbers()?.mean()));
            let draws = (0..predictions.draws()).map(of_draw);
            vec![(name.into(), draws.collect::<Result<_>>()?)]
        }
        Predictions::Classes(classes) => {
            let names = &classes.kind;
            let shown = match &names[..] {
                [_, second] => Some(positive.unwrap_or(second)),
                _ => None,
            };
            let of_class = |(class, name_of): (usize, &String)| {
                let values = classes.values.iter().skip(class).step_by(names.len());
                let values: Vec<f64> = values.copied().collect();
                let draws = values.chunks(classes.rows()).map(mean);
                let output = format!("probability of {name} = {name_of}");
                (output, draws.collect())
            };
            let all = names.iter().enumerate();
            all.filter(|(_, class)| shown.is_none_or(|shown| shown == *class))
                .map(of_class)
                .collect()
        }
        Predictions::Several(several) => {
            let of_one = |one: &TargetPredictions| of_target(&one.predictions, &one.name, None);
            let outputs = several.iter().map(of_one);
            outputs.collect::<Result<Vec<_>>>()?.concat()
        }
    })
}

fn no_rows() -> TabularError {
    TabularError::Data("no row has a value to predict; give other rows".into())
}
