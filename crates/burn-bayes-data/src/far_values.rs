//! Numbers of new rows that are far from those of the training rows.

use std::fmt;

use crate::error::{DataError, Place};
use crate::preprocessor::{Code, Preprocessor};
use crate::table::Table;

/// A number is far if it is outside of the training rows' range by more than this share of its width.
const MARGIN: f64 = 0.1;

/// The numbers of a column that are far outside of the range of the training rows, where a prediction is a guess.
#[derive(Debug, Clone, PartialEq)]
pub struct FarValues {
    /// The column.
    pub column: String,
    /// Where the first of them is.
    place: Place,
    /// The first of them.
    pub value: f64,
    /// The least and the largest number of the training rows.
    pub range: (f64, f64),
    /// How many there are.
    pub count: usize,
}

impl Preprocessor {
    /// The far numbers of some rows of a table, by column.
    ///
    /// # Errors
    /// If a column is missing or has another type than in training.
    pub fn far_values(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<Vec<FarValues>, DataError> {
        let columns = self.feature_columns(table)?;
        let plans = self.features.iter().zip(columns);
        let of_column = plans.filter_map(|(plan, column)| {
            let Code::Number { least, most, .. } = plan.code else {
                return None;
            };
            let margin = MARGIN * (most - least);
            let near = least - margin..=most + margin;
            let mut far = rows.clone().into_iter().filter_map(|row| {
                let value = column.number(row).filter(|value| !near.contains(value));
                value.map(|value| (row, value))
            });
            let (row, value) = far.next()?;
            Some(FarValues {
                column: plan.name.clone(),
                place: table.place(row).column(&plan.name),
                value,
                range: (least, most),
                count: 1 + far.count(),
            })
        });
        Ok(of_column.collect())
    }
}

impl fmt::Display for FarValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.range;
        write!(
            f,
            "{}: {} is far outside of the training rows, which have {least} to {most}: its prediction is a guess",
            self.place, self.value
        )?;
        match self.count {
            1 => Ok(()),
            2 => f.write_str(", as is that of another row"),
            count => write!(f, ", as are those of {} more rows", count - 1),
        }
    }
}
