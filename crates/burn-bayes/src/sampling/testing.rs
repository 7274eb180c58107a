//! Densities with known moments.

use super::density::LogDensity;
use crate::error::Result;

/// Independent normals, in rotated coordinates if wanted.
#[derive(Clone, Debug)]
pub(super) struct Gaussian {
    pub(super) deviations: Vec<f64>,
}

impl Gaussian {
    pub(super) fn of_deviations(deviations: &[f64]) -> Self {
        Self {
            deviations: deviations.to_vec(),
        }
    }
}

impl LogDensity for Gaussian {
    fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let mut log_density = 0.0;
        for ((slope, z), deviation) in gradient.iter_mut().zip(place).zip(&self.deviations) {
            *slope = -z / deviation.powi(2);
            log_density += 0.5 * *slope * z;
        }
        Ok(log_density)
    }
}
