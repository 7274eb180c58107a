//! Tables of single rows: the least certain ones and the greatest surprises, with their inputs.

use burn_bayes::eval::{LabelledProbabilities, log_losses, predictive_entropy};
use burn_bayes_data::Column;

use super::section::{Section, Table};
use crate::error::Result;
use crate::order::by_cost;
use crate::predict::Moments;
use crate::relevance::by_relevance;
use crate::rows::RowInputs;
use crate::text::{number, shortened};

/// Number of the least certain rows.
const LEAST_CERTAIN: usize = 20;
/// Number of surprises.
const SURPRISES: usize = 10;
/// Maximum number of inputs shown.
const MOST_INPUTS: usize = 12;
/// Maximum length of a cell.
const CELL_LENGTH: usize = 28;
/// Relative differences of uncertainties below this are rounding.
const ROUNDING: f64 = 1e-9;

/// The section of a classification.
pub(crate) fn of_classes(
    classes: &[String],
    labelled: &LabelledProbabilities<'_>,
    inputs: &RowInputs,
) -> Result<Section> {
    let average = labelled.probabilities();
    let entropies = predictive_entropy(average);
    let surprises = log_losses(labelled);
    let predicted = average.predicted_classes();
    let cells = |row: usize| {
        vec![
            shortened(&classes[predicted[row]], CELL_LENGTH),
            number(average.row(row)[predicted[row]]),
            number(entropies[row]),
            shortened(&classes[labelled.labels()[row]], CELL_LENGTH),
            shown(surprises[row]),
        ]
    };
    let outputs: Vec<f64> = (0..average.rows())
        .flat_map(|row| average.row(row))
        .copied()
        .collect();
    RowTables {
        by: "entropy",
        uncertainty: &entropies,
        surprises: &surprises,
        header: &[
            "prediction",
            "its probability",
            "entropy",
            "truth",
            "surprise, nats",
        ],
        cells: &cells,
        inputs,
    }
    .section(&outputs)
}

/// The section of a regression or of counts.
pub(crate) fn of_numbers(
    moments: &Moments,
    surprises: &[f64],
    targets: &[f64],
    inputs: &RowInputs,
) -> Result<Section> {
    let means = &moments.mean;
    let deviations = moments.deviations();
    let epistemic = moments.epistemic_deviations();
    let cells = |row: usize| {
        vec![
            number(means[row]),
            number(deviations[row]),
            number(epistemic[row]),
            number(targets[row]),
            number(targets[row] - means[row]),
            shown(surprises[row]),
        ]
    };
    RowTables {
        by: "standard deviation",
        uncertainty: &deviations,
        surprises,
        header: &[
            "prediction",
            "standard deviation",
            "epistemic part",
            "truth",
            "error",
            "surprise, nats",
        ],
        cells: &cells,
        inputs,
    }
    .section(means)
}

/// What the two tables show.
struct RowTables<'a> {
    /// The name of the uncertainty.
    by: &'a str,
    /// The uncertainty of each row.
    uncertainty: &'a [f64],
    /// The negative log-likelihood of each row.
    surprises: &'a [f64],
    /// The names of `cells`.
    header: &'a [&'a str],
    /// The cells of a row.
    cells: &'a dyn Fn(usize) -> Vec<String>,
    inputs: &'a RowInputs,
}

impl RowTables<'_> {
    /// The section; `outputs` are the predictions of each row, which choose the inputs.
    fn section(&self, outputs: &[f64]) -> Result<Section> {
        let columns = &self.inputs.columns;
        let mut shown: Vec<usize> = (0..columns.len()).collect();
        let mut text = "The rows that are worth a look, with their inputs as in the file. Rows are counted from 1, without a \
                        header line. The surprise of a row is its negative log-likelihood."
            .to_string();
        if columns.len() > MOST_INPUTS {
            shown = by_relevance(columns, outputs)?;
            let others = (0..columns.len()).filter(|index| !shown.contains(index));
            let others: Vec<usize> = others.collect();
            shown.extend(others);
            shown.truncate(MOST_INPUTS);
            shown.sort_unstable();
            let all = columns.len();
            text += &format!(
                " Of {all} inputs, the tables show the {MOST_INPUTS} that explain most of the variation of the predictions."
            );
        }
        let inputs: Vec<&Column> = shown.iter().map(|&index| &columns[index]).collect();
        let mut tables = Vec::new();
        let least = largest(self.uncertainty, LEAST_CERTAIN);
        if differ(self.uncertainty) {
            let caption = format!("The {} least certain rows, by {}", least.len(), self.by);
            tables.push(self.table(caption, &least, &inputs));
        } else {
            text += &format!(" All rows have the same {}.", self.by);
        }
        let greatest = largest(self.surprises, SURPRISES);
        let caption = format!(
            "The {} greatest surprises: look for errors in the data, and for cases that the training rows lack",
            greatest.len()
        );
        tables.push(self.table(caption, &greatest, &inputs));
        Ok(Section::new("rows", "Single rows", text).with_tables(tables))
    }

    fn table(&self, caption: String, rows: &[usize], inputs: &[&Column]) -> Table {
        let fixed = ["row"].iter().chain(self.header).map(ToString::to_string);
        let names = inputs
            .iter()
            .map(|column| shortened(column.name(), CELL_LENGTH));
        let cell = |column: &Column, row: usize| {
            let cell = column.label(row);
            cell.map_or_else(|| "–".into(), |cell| shortened(&cell, CELL_LENGTH))
        };
        let cells = |&row: &usize| {
            let start = [(self.inputs.places[row] + 1).to_string()];
            let inputs = inputs.iter().map(|column| cell(column, row));
            start
                .into_iter()
                .chain((self.cells)(row))
                .chain(inputs)
                .collect()
        };
        Table::new(caption, fixed.chain(names), rows.iter().map(cells))
            .with_terms(0..1 + self.header.len())
    }
}

/// The indices of the largest values, the largest first; of equal values, the first.
fn largest(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| by_cost(-values[one], -values[other]));
    order.truncate(count);
    order
}

/// Whether values differ by more than rounding.
fn differ(values: &[f64]) -> bool {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    most - least > ROUNDING * most
}

/// A surprise, which is infinite for a probability of zero.
fn shown(surprise: f64) -> String {
    match surprise.is_finite() {
        true => number(surprise),
        false => "∞".into(),
    }
}
