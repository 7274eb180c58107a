//! The page of a simulation-based calibration.

use std::path::Path;

use super::{Check, ranks};
use crate::error::Result;
use crate::report::{Page, VerdictPanel};
use crate::text::{plain, sentence};

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct CheckReport<'a> {
    /// The heading.
    pub title: &'a str,
    /// What was simulated.
    pub subtitle: &'a str,
    /// The command line that made it.
    pub command: &'a str,
    /// The settings in effect, as TOML.
    pub config: &'a str,
    /// The result.
    pub check: &'a Check,
}

impl CheckReport<'_> {
    /// Writes the page to `path`, and its charts into the folder `plots` beside it.
    ///
    /// # Errors
    /// If a chart cannot be drawn, or a file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let findings = self.check.findings().into_iter();
        let sentences = findings.map(|text| sentence(&format!("{text}."))).collect();
        let word = self.check.word().into();
        let page = Page {
            title: plain(self.title),
            subtitle: plain(self.subtitle),
            verdict: Some(VerdictPanel::new(self.check.verdict(), word, sentences)),
            sections: ranks::sections(self.check)?,
            command: self.command,
            config: self.config,
            ..Page::default()
        };
        page.write(path)
    }
}
