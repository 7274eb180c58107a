//! Columns under construction.

use crate::csv_options::CsvOptions;
use crate::decimal::DecimalMark;
use crate::error::{DataError, Place, shown};
use crate::table::{Column, ColumnKind, GrowingCategories, Texts};

/// A column under construction.
pub(crate) struct Growing {
    /// `None` for a skipped column.
    pub(crate) values: Option<GrowingValues>,
    /// Whether there was no value yet that says its type.
    pub(crate) is_open: bool,
    /// The unchanged text of the cells, if kept.
    pub(crate) written: Option<Texts>,
}

/// The values of a column under construction.
pub(crate) enum GrowingValues {
    Numbers(Vec<f64>),
    Categories(GrowingCategories),
}

impl Growing {
    /// An empty column of this type, perhaps open until there is a value, optionally with its text.
    pub(crate) fn new(kind: Option<ColumnKind>, is_open: bool, keeps_text: bool) -> Self {
        let values = kind.map(|kind| match kind {
            ColumnKind::Number => GrowingValues::Numbers(Vec::new()),
            ColumnKind::Category => GrowingValues::Categories(GrowingCategories::default()),
        });
        Self {
            values,
            is_open,
            written: keeps_text.then(Texts::default),
        }
    }

    /// Adds a cell; an invalid one becomes a missing value.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        options: &CsvOptions,
        place: impl Fn() -> Place,
    ) -> Result<(), DataError> {
        let Self {
            values,
            is_open,
            written,
        } = self;
        if values.is_none() && written.is_none() {
            return Ok(());
        }
        let Ok(cell) = std::str::from_utf8(bytes) else {
            self.push_missing();
            return Err(DataError::not_text(place()));
        };
        if let Some(written) = written {
            written.push(cell);
        }
        match values {
            Some(values) => {
                let cell = cell.trim();
                if *is_open && !options.is_missing(cell) {
                    *is_open = false;
                    if options.number(cell).is_none() {
                        values.become_categories();
                    }
                }
                values.push(cell, options, place)
            }
            None => Ok(()),
        }
    }

    /// Adds a missing value.
    pub(crate) fn push_missing(&mut self) {
        match &mut self.values {
            Some(GrowingValues::Numbers(cells)) => cells.push(f64::NAN),
            Some(GrowingValues::Categories(cells)) => cells.push(None),
            None => {}
        }
        if let Some(written) = &mut self.written {
            written.push("");
        }
    }
}

impl GrowingValues {
    fn push(
        &mut self,
        cell: &str,
        options: &CsvOptions,
        place: impl Fn() -> Place,
    ) -> Result<(), DataError> {
        let is_missing = options.is_missing(cell);
        match self {
            Self::Categories(cells) => cells.push((!is_missing).then_some(cell)),
            Self::Numbers(cells) if is_missing => cells.push(f64::NAN),
            Self::Numbers(cells) => {
                let value = options.number(cell);
                let value = value.filter(|value| value.is_finite());
                cells.push(value.unwrap_or(f64::NAN));
                value.ok_or_else(|| not_a_number(cell, options.decimal, place()))?;
            }
        }
        Ok(())
    }

    /// Of a column without any value yet.
    fn become_categories(&mut self) {
        if let Self::Numbers(cells) = self {
            let mut categories = GrowingCategories::default();
            cells.iter().for_each(|_| categories.push(None));
            *self = Self::Categories(categories);
        }
    }

    pub(crate) fn into_column(self, name: &str) -> Column {
        match self {
            Self::Numbers(mut values) => {
                // Up to half of the capacity may be unused.
                values.shrink_to_fit();
                Column::numbers(name, values)
            }
            Self::Categories(cells) => cells.into_column(name.into()),
        }
    }
}

/// The error of an invalid cell in a numeric column.
fn not_a_number(cell: &str, mark: DecimalMark, place: Place) -> DataError {
    if mark.is_number_with_other(cell) {
        return DataError::data(place, shown(cell), mark.expected(), &mark.cure());
    }
    DataError::data(
        place,
        shown(cell),
        "a finite number in a numeric column",
        "correct the cell, list it as a missing value (`--na-values`), or declare the column as \
         categories",
    )
}
