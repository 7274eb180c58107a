//! The training rows that a prediction depends on: those whose predictions are correlated with it over the draws of the
//! weights.
//!
//! Let fᵢ be what is predicted of row i under a draw: a mean, the logarithm of a rate, or the log-odds of a class. The
//! likelihood of target y has the factor exp(y f / σ²), with σ = 1 for rates and log-odds. A target yⱼ that is larger by δ
//! therefore multiplies the posterior by exp(δ fⱼ / σ²), and
//!
//! d E[fᵢ] / d yⱼ = Cov(fᵢ, fⱼ) / σ²
//!
//! over draws of the posterior. The correlation is this covariance on a scale from −1 to 1. A probability would have the same
//! sign, but few draws would decide about it where it is near 0 or 1; its log-odds are what the target acts on.

use burn_bayes::eval::Bounded;

use super::KnownRows;
use crate::error::{Result, TabularError};
use crate::files::is_same;
use crate::order::by_cost;
use crate::predict::{Predictions, mismatched};
use crate::report::{ExplainedRow, PredictedValue, SimilarRow, SimilarRows};
use crate::rows::RowInputs;
use crate::run::{Run, TrainingRows};
use crate::scores::mean;
use crate::settings::refused;

/// The least number of draws of a posterior that has any number of them. They are pairs of opposite draws, so half of them are
/// independent.
const DRAWS: usize = 400;
/// Correlations of fewer draws are chance.
const FEWEST_DRAWS: usize = 30;
/// The most training rows that are compared.
const MOST_TRAINING: usize = 5000;
/// Rows are similar from this correlation on, or from this number of standard errors of no correlation, 1/√draws, if these are
/// more: among thousands of rows, three standard errors are exceeded by chance.
const LEAST_CORRELATION: f64 = 0.3;
const STANDARD_ERRORS: f64 = 4.0;
/// Deviations below this are rounding, in the unit of a standardised target.
const ROUNDING: f64 = 1e-6;
/// The least probability and rate of which there is a logarithm.
const LEAST: f64 = 1e-12;
/// The most numbers that are predicted at a time: 128 MiB.
const MOST_NUMBERS: usize = 1 << 24;
/// The number of rows that are explained, if none are asked for.
const FIRST: usize = 3;

/// Which similar training rows are asked for.
#[derive(Clone, Debug, Default)]
pub struct SimilarRequest {
    /// The most similar training rows of each row; 0 for none of all this.
    pub count: usize,
    /// The numbers of the explained rows in their file, from 1; the first three if there are none.
    pub of: Vec<usize>,
}

/// What is correlated of an explained row.
struct Explained {
    /// The predicted class.
    class: Option<usize>,
    /// A number for every draw.
    draws: Vec<f64>,
}

impl SimilarRequest {
    /// The similar training rows, with the cells of these columns; `None` if none are asked for.
    ///
    /// # Errors
    /// If a row is not there, or a prediction is not finite. That the training file is missing is no error, but a note.
    pub(super) fn find(
        &self,
        run: &Run,
        rows: &KnownRows,
        columns: &[usize],
        draws: usize,
    ) -> Result<Option<SimilarRows>> {
        if self.count == 0 {
            return Ok(None);
        }
        let chosen = self.chosen(rows)?;
        let draws = run.model.distinct_draws(draws.max(DRAWS))?;
        let predictions = run.predict(&rows.dataset.features().select(&chosen)?, draws)?;
        let predictions = of_first_target(predictions);
        let classes = predicted_classes(&predictions)?;
        let explained = (0..chosen.len()).map(|place| Explained {
            class: classes.as_ref().map(|classes| classes[place]),
            draws: of_row(
                &predictions,
                classes.as_ref().map(|classes| classes[place]),
                place,
            ),
        });
        let explained: Vec<Explained> = explained.collect();
        let values = predicted_values(&predictions, classes.as_deref())?;
        let shown = chosen
            .iter()
            .zip(values)
            .map(|(&row, prediction)| ExplainedRow {
                row: rows.inputs.places[row] + 1,
                prediction,
                target: rows.inputs.target.label(row),
                cells: cells(&rows.inputs, columns, row),
                similar: Vec::new(),
            });
        let name = rows.inputs.target.name();
        let column = |&column: &usize| rows.inputs.columns[column].name().to_string();
        let mut found = SimilarRows {
            target: name.into(),
            output: output(&predictions, name),
            draws,
            training_rows: 0,
            least_correlation: least_correlation(draws),
            note: note_on_draws(draws, &explained, rounding(run)),
            columns: columns.iter().map(column).collect(),
            rows: shown.collect(),
        };
        if found.note.is_some() {
            return Ok(Some(found));
        }
        match run.training_rows(MOST_TRAINING) {
            Ok(training) => self.fill(&mut found, run, rows, &training, &explained, columns)?,
            Err(TabularError::Interrupted(reason)) => {
                return Err(TabularError::Interrupted(reason));
            }
            Err(error) => {
                found.note = Some(format!("The training rows cannot be read again: {error}."));
            }
        }
        Ok(Some(found))
    }

    /// The explained rows, as places among the known ones.
    fn chosen(&self, rows: &KnownRows) -> Result<Vec<usize>> {
        let places = &rows.inputs.places;
        if self.of.is_empty() {
            // A row that stands for several is explained once.
            let is_new = |&row: &usize| row == 0 || places[row] != places[row - 1];
            return Ok((0..places.len()).filter(is_new).take(FIRST).collect());
        }
        let place = |&number: &usize| {
            let found = places.iter().position(|place| place + 1 == number);
            found.ok_or_else(|| {
                let path = rows.path.display();
                let problem = format!(
                    "is {number}, which is not a row of {path} that can be scored; rows are counted from 1, without a header line"
                );
                refused("similar-to", problem)
            })
        };
        self.of.iter().map(place).collect()
    }

    /// Adds the similar training rows of every explained row.
    fn fill(
        &self,
        found: &mut SimilarRows,
        run: &Run,
        rows: &KnownRows,
        training: &TrainingRows,
        explained: &[Explained],
        columns: &[usize],
    ) -> Result<()> {
        let all = all_correlations(run, training, explained, found.draws)?;
        found.training_rows = training.features.rows();
        let is_same_file = is_same(&training.path, &rows.path);
        for (one, correlations) in found.rows.iter_mut().zip(all) {
            let number = |row: usize| training.inputs.places[row] + 1;
            let similar = correlations.into_iter().enumerate();
            let similar = similar.filter_map(|(row, found)| Some((row, found?)));
            let mut similar: Vec<(usize, f64)> = similar
                .filter(|(row, correlation)| {
                    let is_itself = is_same_file && number(*row) == one.row;
                    *correlation >= found.least_correlation && !is_itself
                })
                .collect();
            similar.sort_by(|(_, one), (_, other)| by_cost(-one, -other));
            similar.truncate(self.count);
            let similar = similar.into_iter().map(|(row, correlation)| SimilarRow {
                row: number(row),
                correlation,
                target: training.inputs.target.label(row),
                cells: cells(&training.inputs, columns, row),
            });
            one.similar = similar.collect();
        }
        Ok(())
    }
}

/// The correlations of every explained row with every training row; `None` where a prediction does not vary.
fn all_correlations(
    run: &Run,
    training: &TrainingRows,
    explained: &[Explained],
    draws: usize,
) -> Result<Vec<Vec<Option<f64>>>> {
    let count = training.features.rows();
    let piece = MOST_NUMBERS / (draws * run.model.target().columns());
    let mut all = vec![Vec::with_capacity(count); explained.len()];
    let places: Vec<usize> = (0..count).collect();
    for rows in places.chunks(piece.max(1)) {
        let predictions = run.predict(&training.features.select(rows)?, draws)?;
        let predictions = of_first_target(predictions);
        for (one, all) in explained.iter().zip(&mut all) {
            let values = values(&predictions, one.class);
            all.extend(correlations(&one.draws, &values, rounding(run)));
        }
    }
    Ok(all)
}

/// The correlations over draws of a row with others, whose values are `[draws, rows]`, row-major; `None` where one of both
/// deviates by no more than rounding.
fn correlations(of: &[f64], others: &[f64], rounding: f64) -> Vec<Option<f64>> {
    let rows = others.len() / of.len();
    let draws = of.len() as f64;
    let centre = mean(of);
    let mut means = vec![0.0; rows];
    for draw in others.chunks(rows) {
        let sums = means.iter_mut().zip(draw);
        sums.for_each(|(mean, value)| *mean += value / draws);
    }
    let (mut products, mut squares) = (vec![0.0; rows], vec![0.0; rows]);
    let mut own_square = 0.0;
    for (draw, value) in others.chunks(rows).zip(of) {
        let own = value - centre;
        own_square += own * own;
        let sums = products.iter_mut().zip(&mut squares);
        let others = draw.iter().zip(&means);
        for ((product, square), (value, mean)) in sums.zip(others) {
            let other = value - mean;
            *product += own * other;
            *square += other * other;
        }
    }
    let varies = |square: f64| (square / draws).sqrt() > rounding;
    let pairs = products.into_iter().zip(squares);
    let of_row = |(product, square): (f64, f64)| {
        let correlation = product / (square.sqrt() * own_square.sqrt());
        (varies(own_square) && varies(square)).then(|| correlation.clamp(-1.0, 1.0))
    };
    pairs.map(of_row).collect()
}

/// The deviation of a prediction that is rounding.
fn rounding(run: &Run) -> f64 {
    let target = run.model.target().first();
    ROUNDING * target.unit()
}

/// The least correlation of rows that are similar.
fn least_correlation(draws: usize) -> f64 {
    (STANDARD_ERRORS / (draws as f64).sqrt()).max(LEAST_CORRELATION)
}

/// Why draws have no correlations, if they have none.
fn note_on_draws(draws: usize, explained: &[Explained], rounding: f64) -> Option<String> {
    let cure = "fit with a posterior, such as with `--method laplace`";
    if draws == 1 {
        return Some(format!(
            "This fit has a single vector of weights, so predictions have no correlations over draws; {cure}."
        ));
    }
    if draws < FEWEST_DRAWS {
        return Some(format!(
            "This fit has {draws} different draws of the weights, and correlations need at least {FEWEST_DRAWS}; {cure}."
        ));
    }
    let varies = |one: &Explained| {
        let own = correlations(&one.draws, &one.draws, rounding);
        own.iter().any(Option::is_some)
    };
    let problem = "The predictions of these rows are the same under all draws of the weights, so they have no correlations.";
    (!explained.iter().any(varies)).then(|| problem.into())
}

/// Those of the first target, if there are several.
fn of_first_target(predictions: Predictions) -> Predictions {
    match predictions {
        Predictions::Several(several) => {
            let first = several.into_iter().next();
            first.map_or(Predictions::Several(Vec::new()), |one| one.predictions)
        }
        one => one,
    }
}

/// What is correlated, in words.
fn output(predictions: &Predictions, name: &str) -> String {
    match predictions {
        Predictions::Classes(_) => format!("the log-odds of the predicted class of {name}"),
        Predictions::Counts(_) => format!("the logarithm of the mean of {name}"),
        Predictions::Reals(all) if all.kind.is_of_logarithms => {
            format!("the mean of the logarithm of {name}")
        }
        Predictions::Reals(_) | Predictions::Several(_) => format!("the mean of {name}"),
    }
}

/// What is correlated, `[draws, rows]`, row-major: of classes, the log-odds of one.
fn values(predictions: &Predictions, class: Option<usize>) -> Vec<f64> {
    match predictions {
        Predictions::Classes(all) => {
            let of_class = all.values.iter().skip(class.unwrap_or_default());
            let of_class = of_class.step_by(all.kind.len());
            of_class.copied().map(log_odds).collect()
        }
        Predictions::Counts(all) => {
            let rates = all.values.iter();
            rates.map(|rate| rate.at_least(LEAST).ln()).collect()
        }
        Predictions::Reals(all) => {
            let [means, _] = all.moments_of_draws();
            means
        }
        Predictions::Several(_) => Vec::new(),
    }
}

/// Those of a row.
fn of_row(predictions: &Predictions, class: Option<usize>, row: usize) -> Vec<f64> {
    values(&predictions.of_rows(&[row]), class)
}

fn log_odds(probability: f64) -> f64 {
    let probability = probability.clamp(LEAST, 1.0 - LEAST);
    (probability / (1.0 - probability)).ln()
}

/// The most probable class of every row; `None` for numbers and counts.
fn predicted_classes(predictions: &Predictions) -> Result<Option<Vec<usize>>> {
    match predictions {
        Predictions::Classes(all) if all.rows() > 0 => {
            Ok(Some(all.checked()?.average().predicted_classes()))
        }
        Predictions::Classes(_) => Ok(Some(Vec::new())),
        _ => Ok(None),
    }
}

/// What is predicted of every row.
fn predicted_values(
    predictions: &Predictions,
    classes: Option<&[usize]>,
) -> Result<Vec<PredictedValue>> {
    match (predictions, classes) {
        (Predictions::Classes(all), Some(classes)) => {
            let name = |&class: &usize| PredictedValue::Class(all.kind[class].clone());
            Ok(classes.iter().map(name).collect())
        }
        (Predictions::Reals(_) | Predictions::Counts(_), _) => {
            let means = predictions.moments()?.map(|moments| moments.mean);
            let means = means.unwrap_or_default().into_iter();
            Ok(means.map(PredictedValue::Number).collect())
        }
        _ => Err(mismatched(predictions)),
    }
}

/// The cells of a row in these columns.
fn cells(inputs: &RowInputs, columns: &[usize], row: usize) -> Vec<Option<String>> {
    let cell = |&column: &usize| inputs.columns[column].label(row);
    columns.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The correlation of two rows, as in its definition.
    fn correlation(one: &[f64], other: &[f64]) -> f64 {
        let (centre, other_centre) = (mean(one), mean(other));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            let pairs = one.iter().zip(other);
            pairs.map(|(x, y)| of(x - centre, y - other_centre)).sum()
        };
        sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
    }

    proptest! {
        #[test]
        fn correlations_are_those_of_the_definition(
            values in proptest::collection::vec(-1e3..1e3, 4 * 40),
            shift in -1e6..1e6,
        ) {
            let values: Vec<f64> = values.into_iter().map(|value: f64| value + shift).collect();
            let column = |row: usize| -> Vec<f64> { values.iter().skip(row).step_by(4).copied().collect() };
            let found = correlations(&column(0), &values, 0.0);
            for (row, found) in found.into_iter().enumerate() {
                let expected = correlation(&column(0), &column(row));
                let found = found.unwrap();
                // Centred values have a relative rounding of about ε·shift/deviation.
                prop_assert!((found - expected).abs() < 1e-10, "{found} {expected}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_vary_have_no_correlations() {
        let of = [1.0, 2.0, 4.0];
        // A row that varies, one that does not, and one that varies by rounding.
        let others = [2.0, 5.0, 7.0, 4.0, 5.0, 7.0 + 1e-9, 8.0, 5.0, 7.0];
        let found = correlations(&of, &others, 1e-6);
        assert!((found[0].unwrap() - 1.0).abs() < 1e-15);
        assert_eq!(found[1..], [None, None]);
        assert_eq!(correlations(&[5.0; 3], &others, 1e-6), [None; 3]);
    }

    #[test]
    fn correlations_of_few_draws_must_be_large() {
        assert_eq!(least_correlation(400), LEAST_CORRELATION);
        assert_eq!(least_correlation(64), 0.5);
        assert!(least_correlation(FEWEST_DRAWS) < 0.75);
    }

    #[test]
    fn log_odds_are_finite() {
        assert!((log_odds(0.75) - 3_f64.ln()).abs() < 1e-15);
        // 1 − p has a relative rounding of ε/(1 − p).
        assert!((log_odds(0.0) + log_odds(1.0)).abs() < 2.0 * f64::EPSILON / LEAST);
        assert!(log_odds(1.0).is_finite());
    }
}
