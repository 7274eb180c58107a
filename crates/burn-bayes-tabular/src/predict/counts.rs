//! Predicted counts under draws of the weights.

use burn_bayes::eval::PoissonMixture;

use super::draws::gathered;
use crate::error::Result;

/// The rate of a Poisson distribution for every draw and row.
#[derive(Clone, Debug)]
pub struct CountPredictions {
    /// The number of draws.
    pub draws: usize,
    /// The number of draws of each member of an ensemble, in this order; of a single model, all.
    pub members: Vec<usize>,
    /// `[draws, rows]`, row-major.
    pub rates: Vec<f64>,
}

impl CountPredictions {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rates.len() / self.draws.max(1)
    }

    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        Self {
            rates: gathered(&self.rates, self.rows(), 1, rows),
            ..self.clone()
        }
    }

    /// The predictive mixture of Poisson distributions for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<PoissonMixture<'_>> {
        Ok(PoissonMixture::new(&self.rates, self.draws, self.rows())?)
    }
}
