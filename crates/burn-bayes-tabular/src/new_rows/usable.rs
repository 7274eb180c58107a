//! Rows without targets: which can be predicted, and why the others cannot.

use std::fmt::Display;

use burn_bayes_data::{FarValues, Features, Table};

use crate::error::{Result, TabularError};
use crate::order::selected;
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

    /// Without those rows of the table whose predictions would have no guarantee, for this reason.
    pub(crate) fn with_guarantee(
        mut self,
        run: &Run,
        table: &Table,
        bad_rows: BadRowsName,
        problem: impl Fn(usize) -> Option<String>,
    ) -> Result<Self> {
        let mut kept = Vec::new();
        for (index, &place) in self.predicted.iter().enumerate() {
            let row = self.rows[place];
            let Some(problem) = problem(row) else {
                kept.push(index);
                continue;
            };
            let problem = format!("{}: {problem}", table.row_name(row));
            match bad_rows {
                BadRowsName::Refuse => return Err(refusal(&problem)),
                BadRowsName::Mark => self.problems[place] = Some(problem),
            }
        }
        if kept.len() < self.predicted.len() {
            self.features = self.features.select(&kept)?;
            self.predicted = selected(&self.predicted, &kept);
            let far = self.predicted.iter().map(|&place| self.rows[place]);
            self.far = run.preprocessor.far_values(table, far)?;
        }
        Ok(self)
    }
}

/// The error of the first row that cannot be predicted.
fn refusal(fault: impl Display) -> TabularError {
    TabularError::Data(format!(
        "{fault}; with `--bad-rows mark`, the other rows are predicted, and the output states the \
         problem of this row"
    ))
}
