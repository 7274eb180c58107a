//! The start of a training with a prior over functions.
//!
//! The units of the first layer are placed over the measurement points, and the last layer is solved for, under the noise
//! that the marginal likelihood gave.

use burn::module::ParamGroup;
use burn_bayes::Noise;
use burn_bayes::laplace::Laplace;

use super::prior::{layer_group, prior};
use super::training::Training;
use crate::error::Result;
use crate::network::{Batch, Network};
use crate::random::shuffled;

/// The most rows for the start.
const MOST_ROWS: usize = 1000;
/// The random stream of the first layer and the rows.
const START: u64 = 0x7374_6172;

impl Training<'_> {
    /// The network at the start; the same without a prior over functions.
    pub(super) fn started(&self, network: Network) -> Result<Network> {
        let Some(function_prior) = &self.function_prior else {
            return Ok(network);
        };
        let hidden = self.settings.shape().hidden;
        // Without biases the units cannot be placed.
        let network = match (hidden.first(), self.settings.no_intercept) {
            (Some(&units), false) => {
                let first = function_prior.first_layer(units, self.start_noise(), &self.device)?;
                network.with_first_layer(first)
            }
            _ => network,
        };
        if hidden
            .last()
            .is_some_and(|&units| units >= Laplace::FULL_LIMIT)
        {
            return Ok(network);
        }
        let group: ParamGroup = layer_group(hidden.len());
        let weights = prior(self.settings, None);
        let (rows, batch) = (self.training_set.rows(), self.start_batch());
        Ok(function_prior.solved(network, &group, rows, &weights, [batch])?)
    }

    fn start_noise(&self) -> Noise {
        Noise::new(self.settings.seed).fold(START)
    }

    /// Random rows of the first epoch.
    fn start_batch(&self) -> Batch {
        let mut rows: Vec<usize> = match self.seen_rows(0) {
            Some(seen) => seen.to_vec(),
            None => (0..self.training_set.rows()).collect(),
        };
        if rows.len() > MOST_ROWS {
            let order = shuffled(rows.len(), self.start_noise().fold(1));
            rows = order[..MOST_ROWS].iter().map(|&at| rows[at]).collect();
        }
        self.training_set.batch(&rows, &self.device)
    }
}
