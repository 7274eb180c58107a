//! `metrics.jsonl`: one line per epoch.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::RunFolder;
use super::progress::ValidationScore;
use crate::engine::EpochRecord;
use crate::error::{Result, TabularError};
use crate::files::{at, text, whole_lines, write_whole};

/// One line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct EpochMetrics {
    /// The record of the training.
    #[serde(flatten)]
    pub record: EpochRecord,
    /// The score of the held-out rows; `None` if the epoch was not scored.
    #[serde(flatten)]
    pub validation: Option<ValidationScore>,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    file: File,
    path: PathBuf,
}

impl MetricsFile {
    /// An empty file.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        Self::with(folder, "")
    }

    /// Opens the file of an interrupted fit, without the epochs after its checkpoint.
    pub(crate) fn resume(folder: &RunFolder, epochs: usize) -> Result<Self> {
        let text = folder.metrics_text()?;
        let recorded = parsed(&text, &folder.metrics_file())?;
        let lines = recorded.partition_point(|metrics| metrics.record.epoch <= epochs);
        // The text is kept, because parsing may change the last digit of a number.
        let kept: String = text.split_inclusive('\n').take(lines).collect();
        Self::with(folder, &kept)
    }

    fn with(folder: &RunFolder, text: &str) -> Result<Self> {
        let path = folder.metrics_file();
        write_whole(&path, text.as_bytes())?;
        let file = File::options()
            .append(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(Self { file, path })
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, metrics: &EpochMetrics) -> Result<()> {
        let mut line = serde_json::to_string(metrics).map_err(std::io::Error::from)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(at(&self.path))
    }
}

impl RunFolder {
    /// The epochs recorded so far.
    pub(crate) fn metrics(&self) -> Result<Vec<EpochMetrics>> {
        parsed(&self.metrics_text()?, &self.metrics_file())
    }

    fn metrics_text(&self) -> Result<String> {
        let path = self.metrics_file();
        if !path.exists() {
            return Ok(String::new());
        }
        // A full disk or a killed process may leave an incomplete line.
        text(&path, whole_lines(std::fs::read(&path).map_err(at(&path))?))
    }
}

fn parsed(text: &str, path: &Path) -> Result<Vec<EpochMetrics>> {
    let lines = text.lines().enumerate().map(|(index, line)| {
        line_of(line).map_err(|problem| {
            TabularError::Data(format!("{}, line {}: {problem}", path.display(), index + 1))
        })
    });
    lines.collect()
}

/// Parses a line, and checks that its numbers can be plotted.
fn line_of(line: &str) -> Result<EpochMetrics, String> {
    /// Beyond it, the range of an axis may overflow.
    const LARGEST: f64 = 1e300;
    let metrics: EpochMetrics = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let validation = metrics.validation.map(|score| [score.nll, score.error]);
    let numbers = [metrics.record.loss].into_iter();
    let mut numbers = numbers.chain(validation.into_iter().flatten());
    match numbers.find(|number| number.abs() > LARGEST) {
        None => Ok(metrics),
        Some(number) => Err(format!("found {number:e}, which no fit writes")),
    }
}
