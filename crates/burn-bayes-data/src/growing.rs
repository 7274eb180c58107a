//! Columns under construction.

use crate::csv_options::CsvOptions;
use crate::decimal::DecimalMark;
use crate::error::{DataError, Place, shown};
use crate::shell::quoted_name;
use crate::table::{Column, ColumnKind, GrowingCategories, Texts};

/// A column under construction.
pub(crate) struct Growing {
    /// `None` for a skipped column.
    pub(crate) values: Option<GrowingValues>,
    /// The unchanged text of the cells, if kept.
    pub(crate) written: Option<Texts>,
}

/// The values of a column under construction.
pub(crate) enum GrowingValues {
    /// This many missing ones: the first value says the type.
    Open(usize),
    Numbers(Vec<f64>),
    Categories(GrowingCategories),
}

impl Growing {
    /// An empty column, of this type if it is known, optionally with its values and its text.
    pub(crate) fn new(kind: Option<ColumnKind>, keeps_values: bool, keeps_text: bool) -> Self {
        let values = match kind {
            None => GrowingValues::Open(0),
            Some(ColumnKind::Number) => GrowingValues::Numbers(Vec::new()),
            Some(ColumnKind::Category) => GrowingValues::Categories(GrowingCategories::default()),
        };
        Self {
            values: keeps_values.then_some(values),
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
        let Self { values, written } = self;
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
            Some(values) => values.push(cell.trim(), options, &place),
            None => Ok(()),
        }
    }

    /// Adds a missing value in the place of a cell that is neither a number nor a text, which is an error unless the column
    /// is skipped.
    pub(crate) fn push_unreadable(
        &mut self,
        found: &str,
        place: impl Fn() -> Place,
    ) -> Result<(), DataError> {
        self.push_missing();
        if self.values.is_none() && self.written.is_none() {
            return Ok(());
        }
        let place = place();
        let name = quoted_name(place.column_name().unwrap_or_default());
        let cure = format!(
            "write what matters of it as columns of numbers or texts, or leave the column out (`--ignore {name}`)"
        );
        Err(DataError::data(
            place.clone(),
            found,
            "a number or a text",
            &cure,
        ))
    }

    /// Adds a missing value.
    pub(crate) fn push_missing(&mut self) {
        if let Some(values) = &mut self.values {
            values.push_missing();
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
        place: &dyn Fn() -> Place,
    ) -> Result<(), DataError> {
        if options.is_missing(cell) {
            self.push_missing();
            return Ok(());
        }
        let is_missing = |value: f64| options.is_missing_number(value);
        match self {
            Self::Open(missing) => match options.number(cell) {
                Some(value) if is_missing(value) => *missing += 1,
                number => {
                    *self = Self::after(*missing, number.is_some());
                    self.push(cell, options, place)?;
                }
            },
            Self::Categories(cells) => cells.push(Some(cell)),
            Self::Numbers(cells) => match options.number(cell).filter(|value| value.is_finite()) {
                Some(value) if is_missing(value) => cells.push(f64::NAN),
                Some(value) => cells.push(value),
                None => {
                    cells.push(f64::NAN);
                    return Err(not_a_number(cell, options.decimal, place()));
                }
            },
        }
        Ok(())
    }

    fn push_missing(&mut self) {
        match self {
            Self::Open(missing) => *missing += 1,
            Self::Numbers(cells) => cells.push(f64::NAN),
            Self::Categories(cells) => cells.push(None),
        }
    }

    /// This many missing values, of numbers or categories.
    fn after(missing: usize, are_numbers: bool) -> Self {
        if are_numbers {
            return Self::Numbers(vec![f64::NAN; missing]);
        }
        let mut cells = GrowingCategories::default();
        (0..missing).for_each(|_| cells.push(None));
        Self::Categories(cells)
    }

    /// The type; `None` without any value to say it.
    pub(crate) fn kind(&self) -> Option<ColumnKind> {
        match self {
            Self::Open(_) => None,
            Self::Numbers(_) => Some(ColumnKind::Number),
            Self::Categories(_) => Some(ColumnKind::Category),
        }
    }

    pub(crate) fn into_column(self, name: &str) -> Column {
        match self {
            Self::Open(missing) => Column::numbers(name, vec![f64::NAN; missing]),
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
    not_in_column(cell, "a finite number in a numeric column", place)
}

/// The error of a text among cells that are all something else.
pub(crate) fn not_in_column(cell: &str, expected: &str, place: Place) -> DataError {
    let name = quoted_name(place.column_name().unwrap_or_default());
    let cure = format!(
        "correct the cell, list it as a missing value (`--na-values`), declare the column as categories \
         (`--categories {name}`), or leave it out (`--ignore {name}`)"
    );
    DataError::data(place.clone(), shown(cell), expected, &cure)
}
