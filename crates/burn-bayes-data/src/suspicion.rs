//! A warning about data that are probably wrong. `suspicions.rs` has the rules.

use std::fmt;

use crate::error::Place;
use crate::shell::quoted_name;

/// Minimum number of rows: in fewer, values may be unique by chance.
pub(crate) const FEWEST_ROWS: usize = 20;

/// A probable mistake in a column; its text has the position, the finding and the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspicion {
    place: Place,
    finding: String,
    cure: String,
    /// Whether the column may have another type than the reader detected.
    is_of_reading: bool,
}

impl Suspicion {
    pub(crate) fn new(place: Place, finding: String, cure: String) -> Self {
        Self {
            place,
            finding,
            cure,
            is_of_reading: false,
        }
    }

    /// A doubt of the reader about the type of a column.
    pub(crate) fn of_reading(place: Place, finding: String, cure: String) -> Self {
        Self {
            is_of_reading: true,
            ..Self::new(place, finding, cure)
        }
    }

    /// Whether the column may have another type than the reader detected, so that leaving it out may be a mistake too.
    pub fn is_of_reading(&self) -> bool {
        self.is_of_reading
    }

    /// The column.
    pub fn column(&self) -> Option<&str> {
        self.place.column_name()
    }
}

impl fmt::Display for Suspicion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            finding,
            cure,
            is_of_reading: _,
        } = self;
        write!(formatter, "{place}: {finding}; {cure}")
    }
}

/// The advice to leave out a column.
pub(crate) fn leave_out(column: &str) -> String {
    format!("leave the column out (`--ignore {}`)", quoted_name(column))
}
