//! The checkpoint file: a line with the checksum of the rest, a line of JSON, the record of the model,
//! the record of the optimiser, and the posterior's mean before the last quarter of the epochs (if it has begun). A single file can be replaced atomically.

use burn_bayes::train::{self, EpochLosses};
use burn_bayes_data::OneOrSeveral;
use serde::{Deserialize, Serialize};

use super::folder::RunFolder;
use super::wrong;
use crate::engine::{Checkpoint, Precisions};
use crate::error::Result;
use crate::files::{at, checksum, write_whole};
use crate::settings::FitSettings;

/// The JSON line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    /// The hash of training and validation rows.
    fingerprint: u64,
    /// The checksum of the settings.
    settings: String,
    step: u64,
    epochs: usize,
    loss_sum: f32,
    loss_rows: u64,
    epoch_losses: Option<EpochLosses>,
    noise_precision: OneOrSeveral<f64>,
    learned_prior: Option<Vec<f64>>,
    /// Size of the record of the model in bytes.
    model: usize,
    /// That of the optimiser.
    optimizer: usize,
}

const FORMAT: u32 = 9;

impl RunFolder {
    /// Writes a checkpoint of a fit to rows with this fingerprint, replacing the previous one.
    pub(crate) fn save_checkpoint(
        &self,
        checkpoint: &Checkpoint,
        rows: u64,
        settings: &FitSettings,
    ) -> Result<()> {
        let path = self.checkpoint_file();
        let header = Header {
            format: FORMAT,
            fingerprint: rows,
            settings: fingerprint(settings)?,
            step: checkpoint.state.step,
            epochs: checkpoint.epochs,
            loss_sum: checkpoint.state.loss_sum,
            loss_rows: checkpoint.state.rows,
            epoch_losses: checkpoint.state.losses,
            noise_precision: checkpoint.precisions.noise.clone().into(),
            learned_prior: checkpoint.precisions.prior.clone(),
            model: checkpoint.state.model.len(),
            optimizer: checkpoint.state.optimizer.len(),
        };
        let header = serde_json::to_string(&header).map_err(|error| at(&path)(error.into()))?;
        let header = format!("{header}\n").into_bytes();
        let mean = checkpoint.earlier_mean.iter().flatten();
        let mean: Vec<u8> = mean.flat_map(|value| value.to_le_bytes()).collect();
        let content = [
            &header,
            &checkpoint.state.model,
            &checkpoint.state.optimizer,
            &mean,
        ];
        let content = content.map(Vec::as_slice).concat();
        let first = format!("{}\n", checksum(&content)).into_bytes();
        write_whole(&path, &[first, content].concat())
    }

    /// The last checkpoint, if any.
    ///
    /// # Errors
    /// If it is damaged, or has other rows or settings.
    pub(crate) fn load_checkpoint(
        &self,
        rows: u64,
        settings: &FitSettings,
    ) -> Result<Option<Checkpoint>> {
        let path = self.checkpoint_file();
        if !path.exists() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(at(&path))?;
        let (header, checkpoint) = parsed(&bytes).ok_or_else(|| {
            wrong(
                &path,
                "it is damaged; remove it to start from the beginning",
            )
        })?;
        if header.format != FORMAT {
            let problem =
                "it was written by another version; remove it to start from the beginning";
            return Err(wrong(&path, problem));
        }
        if header.fingerprint != rows {
            let problem = "the rows differ from those of the interrupted fit; restore them, or fit \
                           into another folder";
            return Err(wrong(&path, problem));
        }
        if header.settings != fingerprint(settings)? {
            let problem = "the fit settings in config.toml differ from those of the interrupted fit; \
                           restore them, or fit into another folder";
            return Err(wrong(&path, problem));
        }
        Ok(Some(checkpoint))
    }
}

/// The checksum of the settings that must not change during a fit.
fn fingerprint(settings: &FitSettings) -> Result<String> {
    let text = serde_json::to_string(&settings.training_key()).map_err(std::io::Error::from)?;
    Ok(checksum(text.as_bytes()))
}

fn parsed(bytes: &[u8]) -> Option<(Header, Checkpoint)> {
    let (first, content) = first_line(bytes)?;
    // Checked first, because Burn does not validate records.
    if first != checksum(content).as_bytes() {
        return None;
    }
    let (header, records) = first_line(content)?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let (model, records) = records.split_at_checked(header.model)?;
    let (optimizer, mean) = records.split_at_checked(header.optimizer)?;
    let (mean, []) = mean.as_chunks() else {
        return None;
    };
    let mean: Vec<f32> = mean.iter().copied().map(f32::from_le_bytes).collect();
    let checkpoint = Checkpoint {
        epochs: header.epochs,
        precisions: Precisions {
            noise: header.noise_precision.as_slice().to_vec(),
            prior: header.learned_prior.clone(),
        },
        earlier_mean: (!mean.is_empty()).then_some(mean),
        state: train::Checkpoint {
            step: header.step,
            loss_sum: header.loss_sum,
            rows: header.loss_rows,
            losses: header.epoch_losses,
            model: model.to_vec(),
            optimizer: optimizer.to_vec(),
        },
    };
    Some((header, checkpoint))
}

/// The first line and the rest.
pub(super) fn first_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
