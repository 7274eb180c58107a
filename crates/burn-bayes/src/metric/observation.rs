//! Converts predictions to predictive distributions of the targets: adds the noise and undoes the
//! standardisation.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{TargetScale, TargetedMixture};

use crate::likelihood::TargetedDraws;
use crate::likelihood::refused;

/// Panics if the level of an interval is not between 0 and 1.
pub(super) fn check_level(level: f64) {
    assert!(
        level > 0.0 && level < 1.0,
        "level is {level}; it must be between 0 and 1"
    );
}

/// The observation model: the distribution of targets given predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    noise_precision: f64,
    scale: TargetScale,
}

impl Observation {
    /// Gaussian noise with this precision, on the scale of the targets that the model sees.
    ///
    /// # Panics
    ///
    /// If the precision is not finite and above zero.
    pub(crate) fn new(noise_precision: f64) -> Self {
        assert!(
            noise_precision.is_finite() && noise_precision > 0.0,
            "noise_precision is {noise_precision}; it must be finite and above zero"
        );
        Self {
            noise_precision,
            scale: TargetScale {
                mean: 0.0,
                deviation: 1.0,
            },
        }
    }

    /// Reports values on the original scale of standardised targets.
    ///
    /// # Panics
    ///
    /// If the mean is not finite, or the standard deviation is not finite and above zero.
    pub(crate) fn with_target_scale(self, scale: TargetScale) -> Self {
        assert!(
            scale.mean.is_finite() && scale.deviation.is_finite() && scale.deviation > 0.0,
            "the targets' scale is {scale:?}; both must be finite, the deviation above zero"
        );
        Self { scale, ..self }
    }

    /// The score of a batch, on the original scale of the targets.
    pub(crate) fn score<T>(
        &self,
        draws: &TargetedDraws,
        score: impl FnOnce(&TargetedMixture<'_>) -> T,
    ) -> Result<T, TensorReadError> {
        let TargetScale { mean, deviation } = self.scale;
        let mixture = draws.mixture(self.noise_precision)?;
        let original = mixture.unnormalised(self.scale).map_err(refused)?;
        let targets: Vec<f64> = draws
            .targets()
            .iter()
            .map(|target| deviation.mul_add(*target, mean))
            .collect();
        let targeted = TargetedMixture::new(&original, &targets).map_err(refused)?;
        Ok(score(&targeted))
    }
}
