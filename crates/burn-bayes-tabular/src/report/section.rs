//! The parts of a page: sections with charts and tables.

use super::chart::Figure;
use crate::error::TabularError;
use crate::text::plain;

/// A section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// The anchor.
    pub(crate) id: String,
    /// The heading.
    pub(crate) heading: String,
    /// An introduction.
    pub(crate) text: String,
    /// Its charts.
    pub(crate) figures: Vec<Figure>,
    /// Its tables.
    pub(crate) tables: Vec<Table>,
}

/// Rows of cells; the first cell of a row is its name.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells, as many as in the header.
    pub rows: Vec<Vec<String>>,
    /// Whether a page shows it only when asked for.
    pub(crate) is_folded: bool,
}

impl Section {
    /// A section of text alone.
    pub(crate) fn new(id: &str, heading: &str, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            heading: heading.into(),
            text: text.into(),
            figures: Vec::new(),
            tables: Vec::new(),
        }
    }

    pub(crate) fn with_figures(self, figures: Vec<Figure>) -> Self {
        Self { figures, ..self }
    }

    pub(crate) fn with_tables(self, tables: Vec<Table>) -> Self {
        Self { tables, ..self }
    }

    /// The section of the target at a place among several.
    pub(super) fn of_target(self, name: &str, place: usize) -> Self {
        let number = place + 1;
        Self {
            id: format!("{}-{number}", self.id),
            heading: format!("{}: {}", plain(name), self.heading),
            figures: self
                .figures
                .into_iter()
                .map(|figure| Figure {
                    name: format!("{}-{number}", figure.name),
                    ..figure
                })
                .collect(),
            ..self
        }
    }
}

impl Table {
    pub(crate) fn new<H: Into<String>>(
        caption: impl Into<String>,
        header: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            header: header.into_iter().map(H::into).collect(),
            rows: rows.into_iter().collect(),
            is_folded: false,
        }
    }

    /// The same, shown only when asked for.
    pub(crate) fn folded(self) -> Self {
        Self {
            is_folded: true,
            ..self
        }
    }
}

/// An error for parts of different tasks.
pub(crate) fn other_task() -> TabularError {
    TabularError::Data(
        "predictions, targets and scores have different tasks; use the scores of these predictions"
            .into(),
    )
}
