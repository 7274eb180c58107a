//! Checkpoints as one file, so that there is always a whole one: a line with the checksum of all that
//! follows, a line of JSON, the record of what is trained, the record of its optimiser.

use burn_bayes::train;
use serde::{Deserialize, Serialize};

use super::folder::RunFolder;
use super::wrong;
use crate::engine::Checkpoint;
use crate::error::Result;
use crate::files::{at, checksum, write_whole};
use crate::settings::FitSettings;

/// The first line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    /// Of the rows that it was trained on, and of those that were held out.
    fingerprint: u64,
    /// Of the settings by which it was trained.
    settings: String,
    round: usize,
    step: u64,
    epochs: usize,
    /// The bits of a number, which decimals might not keep.
    loss_sum: u32,
    /// Likewise.
    noise_precision: u64,
    /// Bytes of the first record.
    model: usize,
}

const FORMAT: u32 = 2;

impl RunFolder {
    /// Writes a checkpoint of a fit to rows with this fingerprint by these settings, in the place of an older one.
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
            round: checkpoint.round,
            step: checkpoint.state.step,
            epochs: checkpoint.epochs,
            loss_sum: checkpoint.state.loss_sum.to_bits(),
            noise_precision: checkpoint.noise_precision.to_bits(),
            model: checkpoint.state.model.len(),
        };
        let header = serde_json::to_string(&header).map_err(|error| at(&path)(error.into()))?;
        let header = format!("{header}\n").into_bytes();
        let content = [
            &header,
            &checkpoint.state.model,
            &checkpoint.state.optimizer,
        ];
        let content = content.map(Vec::as_slice).concat();
        let first = format!("{}\n", checksum(&content)).into_bytes();
        write_whole(&path, &[first, content].concat())
    }

    /// The last checkpoint, if there is one.
    ///
    /// # Errors
    /// If it is damaged, or of other rows or settings than these.
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
                "it is damaged; remove it, and the fit starts from the beginning",
            )
        })?;
        if header.format != FORMAT {
            let problem =
                "it was written by another version; remove it to start from the beginning";
            return Err(wrong(&path, problem));
        }
        if header.fingerprint != rows {
            let problem = "the rows are not those of the interrupted fit; bring them back, or fit \
                           into another folder";
            return Err(wrong(&path, problem));
        }
        if header.settings != fingerprint(settings)? {
            let problem = "the settings of the fit in config.toml are not those of the interrupted fit; \
                           bring them back, or fit into another folder";
            return Err(wrong(&path, problem));
        }
        Ok(Some(checkpoint))
    }
}

/// A text that tells settings apart between which a fit could not change.
fn fingerprint(settings: &FitSettings) -> Result<String> {
    let text = toml::to_string(&settings.identity()).map_err(std::io::Error::other)?;
    Ok(checksum(text.as_bytes()))
}

fn parsed(bytes: &[u8]) -> Option<(Header, Checkpoint)> {
    let (first, content) = first_line(bytes)?;
    // Before anything is read: Burn trusts a record to be one that it wrote.
    if first != checksum(content).as_bytes() {
        return None;
    }
    let (header, records) = first_line(content)?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let (model, optimizer) = records.split_at_checked(header.model)?;
    let checkpoint = Checkpoint {
        round: header.round,
        epochs: header.epochs,
        noise_precision: f64::from_bits(header.noise_precision),
        state: train::Checkpoint {
            step: header.step,
            loss_sum: f32::from_bits(header.loss_sum),
            model: model.to_vec(),
            optimizer: optimizer.to_vec(),
        },
    };
    Some((header, checkpoint))
}

/// A line, and what follows it.
pub(super) fn first_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
