//! Rows without targets: which of them can be predicted, and what is wrong with the others.

use burn_bayes_data::{DataError, Features, Table};

use crate::error::{Result, TabularError};
use crate::rows::usable_rows;
use crate::run::Run;
use crate::settings::choices;

choices! {
    /// What is done about a row that cannot be predicted.
    BadRowsName {
        /// It ends the command with an error
        Refuse = "refuse",
        /// It has no predictions, and a column `problem` says why
        Mark = "mark",
    }
}

/// Rows that are predicted at once.
#[derive(Debug)]
pub(crate) struct NewRows {
    /// Those that are written, by their places in the table.
    pub(crate) rows: Vec<usize>,
    /// Those of them that can be predicted, by their places among these.
    pub(crate) predicted: Vec<usize>,
    /// The features of those.
    pub(crate) features: Features,
    /// What is wrong with each of `rows`.
    pub(crate) problems: Vec<Option<String>>,
}

impl NewRows {
    /// Of the rows of a table, as the run treats missing cells.
    pub(crate) fn of(run: &Run, table: &Table, bad_rows: BadRowsName) -> Result<Self> {
        let rows = match bad_rows {
            BadRowsName::Refuse => usable_rows(table, &run.config.data),
            // All of them, so that the file and its predictions go together line by line.
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
        Ok(Self {
            rows,
            predicted,
            features: usable.features,
            problems,
        })
    }
}

/// What is said of the first row that cannot be predicted.
fn refusal(fault: &DataError) -> TabularError {
    TabularError::Data(format!(
        "{fault}; `--bad-rows mark` predicts the other rows, and says of this one in the output what is \
         wrong with it"
    ))
}
