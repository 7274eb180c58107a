//! The error type of this crate.
//!
//! The type is opaque: programs use its predicates ([`EvalError::is_data`],
//! [`EvalError::is_config`], [`EvalError::row`], …). The message says what is wrong, where (draw,
//! row and column, counted from zero), and the likely cause.

use std::fmt;

use thiserror::Error;

/// The error of a score: invalid data or an invalid setting.
///
/// ```
/// use burn_bayes_eval::ClassProbabilities;
///
/// let error = ClassProbabilities::new(&[0.5, 0.5, f64::NAN, 1.0], 2, 2).unwrap_err();
/// assert!(error.is_data());
/// assert_eq!((error.row(), error.column()), (Some(1), Some(0)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct EvalError {
    message: Box<str>,
    kind: Kind,
    place: Box<Place>,
}

impl EvalError {
    /// Whether the data are invalid: a wrong length, a value outside its range, a missing class.
    pub fn is_data(&self) -> bool {
        self.kind == Kind::Data
    }

    /// Whether a setting is outside its range: a number of bins, a level, a fraction.
    pub fn is_config(&self) -> bool {
        self.kind == Kind::Config
    }

    /// The draw of the invalid value, from zero, if the error concerns a single value.
    pub fn draw(&self) -> Option<usize> {
        self.place.draw
    }

    /// The row of the invalid value, from zero, if the error concerns a single value or row.
    pub fn row(&self) -> Option<usize> {
        self.place.row
    }

    /// The column (class) of the invalid value, from zero, if the error concerns a single value.
    pub fn column(&self) -> Option<usize> {
        self.place.column
    }

    pub(crate) fn data(
        what: &str,
        place: Place,
        found: impl fmt::Display,
        expected: impl fmt::Display,
        cause: &str,
    ) -> Self {
        let message =
            format!("{what}{place}: found {found}, expected {expected}; likely cause: {cause}");
        Self {
            message: message.into(),
            kind: Kind::Data,
            place: Box::new(place),
        }
    }

    pub(crate) fn config(
        name: &str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        let message = format!("setting `{name}`: found {found}, expected {expected}");
        Self {
            message: message.into(),
            kind: Kind::Config,
            place: Box::default(),
        }
    }
}

/// The position of a value in the input; `None` for coordinates that do not apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    draw: Option<usize>,
    row: Option<usize>,
    column: Option<usize>,
}

impl Place {
    pub(crate) const WHOLE: Self = Self {
        draw: None,
        row: None,
        column: None,
    };

    pub(crate) fn row(row: usize) -> Self {
        Self {
            row: Some(row),
            ..Self::WHOLE
        }
    }

    pub(crate) fn draw(draw: usize) -> Self {
        Self {
            draw: Some(draw),
            ..Self::WHOLE
        }
    }

    pub(crate) fn at_row(self, row: usize) -> Self {
        Self {
            row: Some(row),
            ..self
        }
    }

    pub(crate) fn at_column(self, column: usize) -> Self {
        Self {
            column: Some(column),
            ..self
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, index) in [
            ("draw", self.draw),
            ("row", self.row),
            ("column", self.column),
        ] {
            if let Some(index) = index {
                write!(formatter, ", {name} {index}")?;
            }
        }
        if *self == Self::WHOLE {
            return Ok(());
        }
        // A file's lines count from 1.
        formatter.write_str(", counted from 0")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Config,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_says_what_where_and_likely_cause() {
        let place = Place::draw(2).at_row(3).at_column(1);
        let error = EvalError::data("class probabilities", place, -0.5, "a number ≥ 0", "logits");
        assert_eq!(
            error.to_string(),
            "class probabilities, draw 2, row 3, column 1, counted from 0: found -0.5, expected a \
             number ≥ 0; likely cause: logits"
        );
        assert_eq!(
            (error.draw(), error.row(), error.column()),
            (Some(2), Some(3), Some(1))
        );
        let error = EvalError::data("rows", Place::WHOLE, 0, "at least 1", "an empty batch");
        assert_eq!(
            error.to_string(),
            "rows: found 0, expected at least 1; likely cause: an empty batch"
        );
        assert!(error.is_data() && !error.is_config());
    }

    #[test]
    fn a_setting_is_not_data() {
        let error = EvalError::config("bins", 0, "at least 1");
        assert_eq!(
            error.to_string(),
            "setting `bins`: found 0, expected at least 1"
        );
        assert!(error.is_config() && !error.is_data());
        assert_eq!(
            (error.draw(), error.row(), error.column()),
            (None, None, None)
        );
    }

    #[test]
    fn is_a_thread_safe_standard_error() {
        fn assert_error<E: std::error::Error + Send + Sync + 'static>() {}
        assert_error::<EvalError>();
    }
}
