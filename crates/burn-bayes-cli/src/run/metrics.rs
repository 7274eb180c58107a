//! `metrics.jsonl`: one line for every epoch, added as it ends.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::folder::RunFolder;
use crate::engine::{EpochRecord, Stage};
use crate::failure::{Failure, Result};
use crate::files::{at, read_text, write_whole};

/// The open file.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    file: File,
    path: PathBuf,
}

impl MetricsFile {
    /// An empty file.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        Self::with(folder, &[])
    }

    /// The file of an interrupted fit, without the epochs that its checkpoint does not know.
    pub(crate) fn resume(folder: &RunFolder, epochs: usize) -> Result<Self> {
        let mut records = folder.metrics()?;
        records.retain(|record| record.stage == Stage::Noise || record.epoch <= epochs);
        Self::with(folder, &records)
    }

    fn with(folder: &RunFolder, records: &[EpochRecord]) -> Result<Self> {
        let path = folder.metrics_file();
        let lines: Vec<String> = records.iter().map(line).collect::<Result<_>>()?;
        write_whole(&path, lines.concat().as_bytes())?;
        let file = File::options()
            .append(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(Self { file, path })
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, record: &EpochRecord) -> Result<()> {
        let line = line(record)?;
        self.file.write_all(line.as_bytes()).map_err(at(&self.path))
    }
}

impl RunFolder {
    /// What was recorded so far.
    pub(crate) fn metrics(&self) -> Result<Vec<EpochRecord>> {
        let path = self.metrics_file();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = read_text(&path)?;
        let records = text.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| {
                Failure::Data(format!("{}, line {}: {error}", path.display(), index + 1))
            })
        });
        records.collect()
    }
}

fn line(record: &EpochRecord) -> Result<String> {
    let mut line = serde_json::to_string(record).map_err(std::io::Error::from)?;
    line.push('\n');
    Ok(line)
}
