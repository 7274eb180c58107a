//! `model.toml`: results of a fit other than the weights, and the checksums of the files of the run. It
//! is written last; its first line is the checksum of its other lines.

use std::collections::BTreeMap;

use burn_bayes_data::OneOrSeveral;
use serde::{Deserialize, Serialize};

use super::checkpoint::first_line;
use super::checksums::{CURE, Checksums};
use super::folder::RunFolder;
use super::members::Member;
use super::plain_models::PlainRecord;
use super::training_rows::fingerprint;
use super::validation::Validation;
use super::wrong;
use crate::error::Result;
use crate::files::{at, checksum, write_whole};
use crate::groups::GroupRule;
use crate::plain_models::PlainModels;
use crate::predict::Recalibration;
use crate::rows::PreparedRows;
use crate::scores::Verdict;

/// The format of a run's files.
const FORMAT: u32 = 5;

/// Everything after the first line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFile {
    pub(super) format: u32,
    /// β of every target on the standardised scale of the network.
    pub(super) noise_precision: OneOrSeveral<f64>,
    /// The learned kernel of the prior over functions; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<String>,
    /// Why the fit diverged; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diverged: Option<String>,
    /// Whether the fit can be trusted; absent if nothing judged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<Verdict>,
    /// The hash of the training and held-out rows.
    pub(super) fingerprint: String,
    /// Of the files that are there when this one is written.
    pub(super) checksums: Checksums,
    /// The recalibration of the predictions; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recalibration: Option<Recalibration>,
    /// The plain models beside the fit.
    pub(super) plain_models: PlainRecord,
    /// How each column in the file of the held-out rows is divided into groups; absent without such columns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) kept_columns: BTreeMap<String, GroupRule>,
    /// The members of an ensemble; absent in the file of a single fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<Member>,
}

impl ModelFile {
    /// Of a fit to these rows, without a kernel, a verdict, members and checksums.
    pub(super) fn of(
        rows: &PreparedRows,
        scores: Option<&Validation>,
        diverged: Option<String>,
        noise_precisions: Vec<f64>,
        plain_models: &PlainModels,
    ) -> Self {
        Self {
            format: FORMAT,
            noise_precision: noise_precisions.into(),
            kernel: None,
            diverged,
            verdict: None,
            fingerprint: fingerprint(rows),
            checksums: Checksums::default(),
            recalibration: scores.and_then(Validation::recalibration_of_new_rows),
            plain_models: PlainRecord::of(plain_models),
            kept_columns: rows.kept_columns.clone(),
            members: Vec::new(),
        }
    }

    /// Reads the file of a finished run.
    ///
    /// # Errors
    /// If it was changed since the fit, or written by another version of the program.
    pub(super) fn load(folder: &RunFolder) -> Result<Self> {
        let path = folder.model_file();
        let bytes = std::fs::read(&path).map_err(at(&path))?;
        let body = first_line(&bytes)
            .filter(|(first, body)| *first == checksum_line(body).as_bytes())
            .and_then(|(_, body)| str::from_utf8(body).ok());
        let body = body.ok_or_else(|| {
            let problem = format!("it is damaged, or was written by an earlier version; {CURE}");
            wrong(&path, problem)
        })?;
        let learnt: Self = toml::from_str(body).map_err(|error| wrong(&path, error))?;
        match learnt.format {
            FORMAT => Ok(learnt),
            format => Err(wrong(
                &path,
                format!("it has format {format}, but this program reads {FORMAT}; fit again"),
            )),
        }
    }

    /// Writes the file, which marks the run as finished.
    pub(super) fn save(&self, folder: &RunFolder) -> Result<()> {
        let body = toml::to_string(self).map_err(std::io::Error::other)?;
        let text = format!("{}\n{body}", checksum_line(body.as_bytes()));
        write_whole(&folder.model_file(), text.as_bytes())
    }
}

/// The first line of the file, for the rest of its content.
fn checksum_line(body: &[u8]) -> String {
    format!("checksum = \"{}\"", checksum(body))
}
