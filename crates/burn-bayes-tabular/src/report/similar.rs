//! The training rows whose predictions are correlated with those of explained rows, and their section of a page.

use serde::Serialize;

use super::section::{Section, Table};
use crate::text::{number, plain, shortened};

/// Maximum length of a cell.
const CELL_LENGTH: usize = 28;

/// Rows, each with the training rows that its prediction depends on.
#[derive(Clone, Debug, Serialize)]
pub struct SimilarRows {
    /// The first target.
    pub target: String,
    /// What is correlated: the target, its logarithm, or the log-odds of a class.
    pub output: String,
    /// The number of different draws of the weights.
    pub draws: usize,
    /// The number of training rows that were compared.
    pub training_rows: usize,
    /// The least correlation of similar rows.
    pub least_correlation: f64,
    /// Why no rows were compared; absent if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The columns of the cells, the most important one first.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<ExplainedRow>,
}

/// A row with its similar training rows.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedRow {
    /// The number of the row in its file, from 1.
    pub row: usize,
    /// What is predicted.
    pub prediction: PredictedValue,
    /// The target.
    pub target: Option<String>,
    /// The cells, `None` where they are missing.
    pub cells: Vec<Option<String>>,
    /// The similar training rows, the most similar one first.
    pub similar: Vec<SimilarRow>,
}

/// A prediction of one row.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum PredictedValue {
    /// The mean of a number or a count.
    Number(f64),
    /// The most probable class.
    Class(String),
}

/// A training row.
#[derive(Clone, Debug, Serialize)]
pub struct SimilarRow {
    /// The number of the row in the training file, from 1.
    pub row: usize,
    /// The correlation of its prediction with that of the explained row over the draws of the weights.
    pub correlation: f64,
    /// The target.
    pub target: Option<String>,
    /// The cells, `None` where they are missing.
    pub cells: Vec<Option<String>>,
}

impl SimilarRows {
    /// The section of a page.
    pub(super) fn section(&self) -> Section {
        let heading = "Similar training rows";
        let question = "Which training rows does a prediction depend on?";
        if let Some(note) = &self.note {
            return Section::new("similar", heading, format!("{question} {}", plain(note)));
        }
        let text = format!(
            "{question} Over the draws of the weights, the prediction of a row moves together with those of similar training rows: \
             had they other targets, it would be another one. The tables show the largest correlations of {} over {} draws, \
             among {}. Those below {} are left out, because they may be chance. Rows are counted from 1, without a header line.",
            plain(&self.output),
            self.draws,
            counted(self.training_rows, "training row"),
            shown(self.least_correlation)
        );
        let tables = self.rows.iter().map(|row| self.table(row)).collect();
        Section::new("similar", heading, text).with_tables(tables)
    }

    fn table(&self, explained: &ExplainedRow) -> Table {
        let target = shortened(&self.target, CELL_LENGTH);
        let header = ["training row".into(), "correlation".into(), target];
        let names = self.columns.iter().map(|name| shortened(name, CELL_LENGTH));
        let ExplainedRow { target, cells, .. } = explained;
        let own = line(["this row".into(), "–".into()], target, cells);
        let similar = explained.similar.iter().map(|one| {
            let start = [one.row.to_string(), shown(one.correlation)];
            line(start, &one.target, &one.cells)
        });
        Table::new(
            explained.caption(self.least_correlation),
            header.into_iter().chain(names),
            [own].into_iter().chain(similar),
        )
        .with_terms(0..2)
    }
}

impl ExplainedRow {
    fn caption(&self, least: f64) -> String {
        let prediction = match &self.prediction {
            PredictedValue::Number(mean) => number(*mean),
            PredictedValue::Class(class) => format!("“{}”", shortened(class, CELL_LENGTH)),
        };
        let none = match self.similar.is_empty() {
            true => format!(
                "; no training row has a correlation of at least {}",
                shown(least)
            ),
            false => String::new(),
        };
        format!("Row {}, predicted {prediction}{none}", self.row)
    }
}

/// A correlation.
fn shown(correlation: f64) -> String {
    format!("{correlation:.2}")
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// A line of a table: these cells, the target, and those of the columns.
fn line(start: [String; 2], target: &Option<String>, cells: &[Option<String>]) -> Vec<String> {
    let cells = [target].into_iter().chain(cells);
    let cells = cells.map(|cell| match cell {
        Some(text) => shortened(text, CELL_LENGTH),
        None => "–".into(),
    });
    start.into_iter().chain(cells).collect()
}
