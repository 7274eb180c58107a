//! Rows without targets: which can be predicted, and why the others cannot.

use burn_bayes_data::{DataError, FarValues, Features, Table};

use crate::error::{Result, TabularError};
use crate::rows::usable_rows;
use crate::run::Run;
use crate::settings::choices;

choices! {
    /// Treatment of rows that cannot be predicted.
    BadRowsName {
        /// Stop with an error
        Refuse = "refuse",
        /// Leave the predictions empty, with the reason in the column `problem`
        Mark = "mark",
    }
}

/// A chunk of rows.
#[derive(Debug)]
pub(crate) struct NewRows {
    /// Indices in the table of the rows to write.
    pub(crate) rows: Vec<usize>,
    /// Indices in `rows` of those that can be predicted.
    pub(crate) predicted: Vec<usize>,
    /// The features of the predictable rows.
    pub(crate) features: Features,
    /// Why each of `rows` cannot be predicted.
    pub(crate) problems: Vec<Option<String>>,
    /// Numbers of the predictable rows that are far from the training rows.
    pub(crate) far: Vec<FarValues>,
}

impl NewRows {
    /// The rows of a table, with missing values treated as in the run.
    pub(crate) fn of(run: &Run, table: &Table, bad_rows: BadRowsName) -> Result<Self> {
        let rows = match bad_rows {
            BadRowsName::Refuse => usable_rows(table, &run.config.data),
            // All of them, so that the output has one row per row of the file.
            BadRowsName::Mark => (0..table.rows()).collect(),
        };
        let usable = run
            .preprocessor
            .usable_features(table, rows.iter().copied())?;
        if bad_rows == BadRowsName::Refuse
            && let Some((_, fault)) = usable.faults.first()
        {
            return Err(refusal(fault));
        }
        let mut problems = vec![None; rows.len()];
        let mut faults = usable.faults.into_iter().peekable();
        let mut predicted = Vec::new();
        for (place, &row) in rows.iter().enumerate() {
            match faults.next_if(|&(faulty, _)| faulty == row) {
                Some((_, fault)) => problems[place] = Some(fault.to_string()),
                None => predicted.push(place),
            }
        }
        let far = predicted.iter().map(|&place: &usize| rows[place]);
        Ok(Self {
            far: run.preprocessor.far_values(table, far)?,
            rows,
            predicted,
            features: usable.features,
            problems,
        })
    }
}

/// The error of the first row that cannot be predicted.
fn refusal(fault: &DataError) -> TabularError {
    TabularError::Data(format!(
        "{fault}; with `--bad-rows mark`, the other rows are predicted, and the output states the \
         problem of this row"
    ))
}
