//! Rows that are given one at a time, by the names of their columns, instead of in a file.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use burn_bayes_data::{
    ColumnKind, CsvOptions, CsvReader, DecimalMark, Header, Table, has_lost_digits,
};
use serde_json::{Map, Value};

use super::{BadRowsName, RowPredictor};
use crate::error::{Result, TabularError};
use crate::files::io_error;
use crate::predict::{PredictionTable, SampleTable};
use crate::rows::nearest;
use crate::settings::{MissingName, listed};

/// Between the cells of a row: no decimal separator, so that numbers are read as strictly as in any file.
const DELIMITER: u8 = b';';
/// What the reader says about the line of a row after its header.
const LINE: &str = ", line 2";

/// Predicts rows as they are given.
#[derive(Debug)]
pub struct GivenRows<'a> {
    predictor: &'a RowPredictor<'a>,
    options: CsvOptions,
    /// The columns that are read: those of the features, and those that are copied or group the rows.
    columns: Vec<String>,
    rows: usize,
}

/// The prediction of a row.
#[derive(Debug)]
pub struct GivenPrediction {
    /// The output columns, with one row.
    pub table: PredictionTable,
    /// The samples, if they were requested.
    pub samples: Option<SampleTable>,
    /// Warnings of values that are far from the training rows, by column.
    pub far: BTreeMap<String, String>,
}

impl<'a> RowPredictor<'a> {
    /// Predicts rows as they are given, numbered from 1.
    pub fn given(&'a self) -> GivenRows<'a> {
        let options = self
            .options()
            .with_delimiter(DELIMITER)
            .with_header(Header::Present);
        let of_features = options.only.iter().flatten();
        let names: HashSet<&String> = of_features.chain(&options.keep).collect();
        let mut columns: Vec<String> = names.into_iter().cloned().collect();
        columns.sort();
        GivenRows {
            predictor: self,
            columns,
            options,
            rows: 0,
        }
    }
}

impl GivenRows<'_> {
    /// Predicts a row; columns without a value are missing, as are those that are null.
    ///
    /// # Errors
    /// If a name is not a column of the run, a value is unusable, the run refuses missing values, or the prediction is not
    /// finite.
    pub fn predict(&mut self, row: &Map<String, Value>) -> Result<GivenPrediction> {
        self.rows += 1;
        let name = format!("row {}", self.rows);
        let wrong = |problem: String| TabularError::Data(format!("{name}: {problem}"));
        self.check_names(row).map_err(wrong)?;
        let table = self.table(row, &name)?;
        self.check_missing(&table).map_err(wrong)?;
        let rows = self.predictor.usable(&table, BadRowsName::Mark)?;
        if let Some(Some(problem)) = rows.problems.first() {
            return Err(TabularError::Data(without_line(problem)));
        }
        let piece = self.predictor.predict(rows, &table, self.rows - 1)?;
        let far = piece.far.iter();
        Ok(GivenPrediction {
            table: piece.table,
            samples: piece.samples,
            far: far
                .map(|far| (far.column.clone(), without_line(far)))
                .collect(),
        })
    }

    /// The number of the last row.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The error of a row that cannot be read; it counts as one.
    pub fn refuse(&mut self, problem: impl Display) -> TabularError {
        self.rows += 1;
        TabularError::Data(format!("row {}: {problem}", self.rows))
    }

    /// Refuses names that are no columns of the run.
    fn check_names(&self, row: &Map<String, Value>) -> Result<(), String> {
        let RowPredictor { run, .. } = self.predictor;
        let unused: Vec<&str> = run
            .preprocessor
            .target_names()
            .chain(run.config.data.ignore.0.iter().map(String::as_str))
            .chain(run.config.data.group_by.as_deref())
            .chain(run.config.data.frequency.as_deref())
            .chain(run.preprocessor.left_out())
            .collect();
        let is_known = |name: &String| self.columns.contains(name) || unused.contains(&&**name);
        let Some(name) = row.keys().find(|name| !is_known(name)) else {
            return Ok(());
        };
        let hint = nearest(name, &self.columns);
        let hint = hint.map_or(String::new(), |hint| format!("; did you mean `{hint}`"));
        Err(format!(
            "`{name}` is not a column of the fit{hint}; its features are {}; leave out others, or copy them with `--keep`",
            listed(&self.columns)
        ))
    }

    /// Refuses missing values, if the run does.
    fn check_missing(&self, table: &Table) -> Result<(), String> {
        let RowPredictor { run, .. } = self.predictor;
        let policy = match run.config.data.missing {
            MissingName::Impute => return Ok(()),
            MissingName::Drop => "leaves out rows with missing values (`--missing drop`)",
            MissingName::Refuse => "refuses missing values (`--missing refuse`)",
        };
        let mut columns = table.columns().iter();
        let missing = columns.find(|column| column.is_missing(0) && table.fault(0).is_none());
        missing.map_or(Ok(()), |column| {
            Err(format!(
                "`{}` has no value, and the fit {policy}; give it one, or fit with `--missing impute`",
                column.name()
            ))
        })
    }

    /// The row as a table, read as a file with these cells would be.
    fn table(&self, row: &Map<String, Value>, name: &str) -> Result<Table> {
        let cells = self.columns.iter().map(|column| match row.get(column) {
            Some(value) => self.cell(column, value).map_err(|problem| {
                TabularError::Data(format!("{name}, column `{column}`: {problem}"))
            }),
            None => Ok(String::new()),
        });
        let cells: Vec<String> = cells.collect::<Result<_>>()?;
        let mut writer = csv::WriterBuilder::new();
        let mut writer = writer.delimiter(DELIMITER).from_writer(Vec::new());
        for record in [&self.columns, &cells] {
            writer.write_record(record).map_err(io_error)?;
        }
        let text = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(CsvReader::new(&text[..], name, self.options.clone())?.read_all()?)
    }

    /// The text of a value in a file.
    fn cell(&self, column: &str, value: &Value) -> Result<String, String> {
        let is_number = self.options.kinds.get(column) == Some(&ColumnKind::Number);
        Ok(match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(truth) if is_number => u8::from(*truth).to_string(),
            Value::Bool(true) => self.spelled(column, ["true", "True", "TRUE"].map(String::from)),
            Value::Bool(false) => {
                self.spelled(column, ["false", "False", "FALSE"].map(String::from))
            }
            Value::Number(number) if has_lost_digits(number) && self.options.needs_text(column) => {
                return Err(format!(
                    "found the number {number}, which may have lost digits; write it as text, in quotes"
                ));
            }
            Value::Number(number) => {
                let short = number.as_f64().unwrap_or(f64::NAN).to_string();
                let decimal = format!("{short}.0");
                let spellings = [number.to_string(), short, decimal];
                self.spelled(
                    column,
                    spellings.map(|text| match self.options.decimal {
                        DecimalMark::Point => text,
                        DecimalMark::Comma => text.replace('.', ","),
                    }),
                )
            }
            Value::Array(_) | Value::Object(_) => {
                let expected = "a number, a text, true, false or null";
                return Err(format!(
                    "found a list or an object, expected {expected}; write one value"
                ));
            }
        })
    }

    /// The first of these spellings that is a category of the column, or else the first.
    fn spelled<const N: usize>(&self, column: &str, spellings: [String; N]) -> String {
        let preprocessor = &self.predictor.run.preprocessor;
        let mut known = spellings.iter();
        let found = known.find(|text| preprocessor.has_category(column, text));
        found.unwrap_or(&spellings[0]).clone()
    }
}

/// A message about a row without the line of the text that it was read from.
fn without_line(message: impl Display) -> String {
    message.to_string().replacen(LINE, "", 1)
}
