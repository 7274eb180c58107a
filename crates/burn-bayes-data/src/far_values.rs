//! Values of new rows that are far from those of the training rows.

use std::fmt;

use crate::error::{DataError, Place, shown};
use crate::preprocessor::{Code, FeaturePlan, Numbers, Preprocessor};
use crate::table::{Column, Table};

/// A number is far if it is outside of the training rows' range by more than this share of its width.
const MARGIN: f64 = 0.1;

/// The values of a column that no training row is near to, so that a prediction is a guess: numbers and dates far outside of
/// their range, categories that they do not have, and missing values where all of them have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarValues {
    /// The column.
    pub column: String,
    /// Where the first of them is.
    place: Place,
    /// The first of them, and why it is far.
    finding: String,
    /// How many there are.
    pub count: usize,
}

impl Preprocessor {
    /// The far values of some rows of a table, by column.
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
            let mut far = rows.clone().into_iter().filter_map(|row| {
                let finding = plan.far(column, row)?;
                Some((row, finding))
            });
            let (row, finding) = far.next()?;
            Some(FarValues {
                column: plan.name.clone(),
                place: table.place(row).column(&plan.name),
                finding,
                count: 1 + far.count(),
            })
        });
        Ok(of_column.collect())
    }
}

impl FeaturePlan {
    /// Why a value is far, if it is.
    fn far(&self, column: &Column, row: usize) -> Option<String> {
        if column.is_missing(row) {
            return (self.is_complete && !self.is_exposure())
                .then(|| "no value, and no training row lacks one".into());
        }
        match &self.code {
            Code::Number { numbers } => {
                let value = column.number(row)?;
                let Numbers { least, most, .. } = *numbers;
                numbers.is_far(value).then(|| outside(value, [least, most]))
            }
            Code::Date { order, days, .. } => {
                let value = order.moment(column.category(row)?)?.days();
                let range = [days.least, days.most];
                days.is_far(value)
                    .then(|| outside(order.shown(value), range.map(|days| order.shown(days))))
            }
            // A count is proportional to it, in any range.
            Code::Exposure { .. } => None,
            Code::OneHot { .. } => {
                let category = column.category(row)?;
                let is_new = !self.code.has(category);
                is_new.then(|| format!("{} is in no training row", shown(category)))
            }
        }
    }
}

impl Numbers {
    fn is_far(&self, value: f64) -> bool {
        let margin = MARGIN * (self.most - self.least);
        !(self.least - margin..=self.most + margin).contains(&value)
    }
}

fn outside<T: fmt::Display>(value: T, [least, most]: [T; 2]) -> String {
    format!("{value} is far outside of the training rows, which have {least} to {most}")
}

impl fmt::Display for FarValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: its prediction is a guess",
            self.place, self.finding
        )?;
        match self.count {
            1 => Ok(()),
            2 => f.write_str(", as is that of another row"),
            count => write!(f, ", as are those of {} more rows", count - 1),
        }
    }
}
