//! The parts of a page: sections with charts and tables.

use std::ops::Range;

use super::chart::Figure;
use super::terms;
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
    /// The headers that a page may explain. Others, such as those of the user's columns, only look like terms.
    terms: Range<usize>,
    /// Whether a page may explain the names of rows too.
    has_terms_as_names: bool,
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
        let header: Vec<String> = header.into_iter().map(H::into).collect();
        Self {
            caption: caption.into(),
            terms: 0..header.len(),
            header,
            rows: rows.into_iter().collect(),
            is_folded: false,
            has_terms_as_names: false,
        }
    }

    /// The same, with explanations of these headers alone.
    pub(crate) fn with_terms(self, terms: Range<usize>) -> Self {
        Self { terms, ..self }
    }

    /// The same, with explanations of the names of rows too.
    pub(crate) fn with_terms_as_names(self) -> Self {
        Self {
            has_terms_as_names: true,
            ..self
        }
    }

    /// The names of the columns, with their meanings.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, Option<&'static str>)> {
        let headers = self.header.iter().enumerate();
        headers.map(|(place, name)| {
            let is_term = self.terms.contains(&place);
            (&**name, is_term.then(|| terms::meaning(name)).flatten())
        })
    }

    /// The meaning of the name of a row.
    pub(crate) fn meaning(&self, name: &str) -> Option<&'static str> {
        self.has_terms_as_names
            .then(|| terms::meaning(name))
            .flatten()
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
