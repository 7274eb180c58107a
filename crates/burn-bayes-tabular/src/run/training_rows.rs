//! The rows that a run was fitted to, read again from its training file.

use std::path::{Path, PathBuf};

use burn_bayes_data::{Features, present};

use super::{Run, wrong};
use crate::error::{Result, TabularError};
use crate::order::spread;
use crate::rows::{PreparedRows, RowInputs, SplitTable, read_table};

/// Training rows of a run, in the order of their file.
#[derive(Debug)]
pub(crate) struct TrainingRows {
    /// The file.
    pub(crate) path: PathBuf,
    /// The features of every row.
    pub(crate) features: Features,
    /// The cells of every row.
    pub(crate) inputs: RowInputs,
}

impl Run {
    /// At most this many of the rows that the run was fitted to, evenly from all of its training file; rows that stand for
    /// several are there once.
    ///
    /// # Errors
    /// If the file is missing, cannot be read, or has other rows than those of the fit.
    pub(crate) fn training_rows(&self, most: usize) -> Result<TrainingRows> {
        let (settings, fit) = (&self.config.data, &self.config.fit);
        let path = settings.path()?;
        expect_file(path)?;
        settings
            .validation_file
            .as_deref()
            .map_or(Ok(()), expect_file)?;
        let split = SplitTable::deal(read_table(settings)?, settings, fit.seed)?;
        let (table, mut rows) = (split.table.clone(), split.train.clone());
        if fit.refit && settings.validation_file.is_none() {
            rows.extend(&split.held_out.rows);
        }
        let prepared = PreparedRows::prepare(split, settings)?;
        if self.file.fingerprint != fingerprint(&prepared) {
            let problem = "its rows differ from those of the fit; restore the file, or fit again";
            return Err(wrong(path, problem));
        }
        rows.sort_unstable();
        rows.dedup();
        let rows: Vec<usize> = spread(rows.len(), most)
            .into_iter()
            .map(|place| rows[place])
            .collect();
        let dataset = self.preprocessor.dataset(&table, rows.iter().copied())?;
        let (features, _) = dataset.into_parts();
        Ok(TrainingRows {
            path: path.clone(),
            features,
            inputs: RowInputs::of(&self.preprocessor, &table, settings, rows)?,
        })
    }
}

/// The hash of the rows of a fit, as text.
pub(super) fn fingerprint(rows: &PreparedRows) -> String {
    format!("{:016x}", rows.fingerprint())
}

/// Checks that a reader finds this file, which may be compressed. The standard input and other pipes cannot be read again.
fn expect_file(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        let problem = "they came from the standard input; fit to a file";
        return Err(TabularError::Data(problem.into()));
    }
    match present(path).is_file() {
        true => Ok(()),
        false => Err(wrong(
            path,
            "the file is not there; restore it, or use the folder in which `fit` ran",
        )),
    }
}
