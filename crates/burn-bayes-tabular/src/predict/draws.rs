//! Predictions under draws of the weights.

use burn_bayes::eval::{DrawProbabilities, GaussianMixture, NoisePrecision};

use crate::error::Result;

/// The predictions of rows under every draw.
#[derive(Clone, Debug)]
pub enum Predictions {
    /// Predictions of a classification.
    Classes(ClassPredictions),
    /// Predictions of a regression.
    Reals(RealPredictions),
}

/// Class probabilities for every draw and row.
#[derive(Clone, Debug)]
pub struct ClassPredictions {
    /// The names of the classes, in the order of the probabilities.
    pub classes: Vec<String>,
    /// The number of draws.
    pub draws: usize,
    /// `[draws, rows, classes]`, row-major.
    pub probabilities: Vec<f64>,
}

/// Means for every draw and row, and the standard deviation of the observation noise.
#[derive(Clone, Debug)]
pub struct RealPredictions {
    /// The number of draws.
    pub draws: usize,
    /// `[draws, rows]`, row-major, on the target's own scale.
    pub means: Vec<f64>,
    /// The standard deviation of the noise, on the target's own scale.
    pub noise_deviation: f64,
}

impl ClassPredictions {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.probabilities.len() / (self.draws * self.classes.len()).max(1)
    }

    /// Checks the probabilities, for the computation of scores.
    pub fn checked(&self) -> Result<DrawProbabilities<'_>> {
        let (rows, classes) = (self.rows(), self.classes.len());
        Ok(DrawProbabilities::new(
            &self.probabilities,
            self.draws,
            rows,
            classes,
        )?)
    }
}

impl RealPredictions {
    /// The predictions of some of the rows.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        let count = self.rows();
        let of_draw = |draw: usize| rows.iter().map(move |&row| self.means[draw * count + row]);
        Self {
            draws: self.draws,
            means: (0..self.draws).flat_map(of_draw).collect(),
            noise_deviation: self.noise_deviation,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.means.len() / self.draws.max(1)
    }

    /// The predictive mixture of Gaussians for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<GaussianMixture<'_>> {
        let precision = self.noise_deviation.powi(-2);
        let noise = NoisePrecision::Shared(precision);
        Ok(GaussianMixture::new(
            &self.means,
            self.draws,
            self.rows(),
            noise,
        )?)
    }
}
