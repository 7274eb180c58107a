//! Recalibration of real-valued predictive distributions.
//!
//!   variance scaling   Var′ = s·Var,   s = mean_r (y_r − mean_r)²/Var_r
//!   quantiles          F′ = R ∘ F,     R(u_(i)) = i/(n + 1),  u_(i) the sorted transforms F_r(y_r)
//!
//! Variance scaling is the maximum-likelihood factor for Gaussians;
//! `most_likely_variance.rs` has that for mixtures. It moves the draws' means and
//! the noise apart by √s around the mean of the row. Quantile recalibration is isotonic regression
//! of the observed on the predicted frequencies; the transforms of the held-out rows are then
//! uniform. R is linear between the transforms, R(0) = 0 and R(1) = 1. Departure: i/(n + 1) instead
//! of i/n, so that no target gets the mass 0 or 1.
//!
//! Better when: variance scaling for few rows or intervals of one shape; quantiles for a skewed or
//! heavy-tailed error and at least a few hundred rows.
//!
//! References: V. Kuleshov, N. Fenner and S. Ermon, "Accurate uncertainties for deep learning using
//! calibrated regression" (2018); M.-H. Laves et al., "Well-calibrated regression uncertainty in
//! medical imaging with deep learning" (2020), for variance scaling.

use crate::calibration::pit_values;
use crate::check;
use crate::error::{EvalError, Place};
use crate::recalibration::held_out::HeldOut;
use crate::regression::quantiles;
use crate::views::{GaussianMixture, TargetedMixture};

/// One factor for all predictive variances.
///
/// ```
/// use burn_bayes_eval::{
///     GaussianMixture, HeldOut, NoisePrecision, TargetedMixture, VarianceScaling,
/// };
///
/// let mixture = GaussianMixture::new(&[0.0, 0.0], 1, 2, NoisePrecision::Shared(1.0))?;
/// let targeted = TargetedMixture::new(&mixture, &[2.0, -4.0])?;
/// let scaling = VarianceScaling::fit(&HeldOut::new(targeted, &[0, 1], &[2])?)?;
/// assert_eq!(scaling.factor(), 10.0);
/// assert!((scaling.apply(&mixture)?.variance()[0] - 10.0).abs() < 1e-14);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceScaling {
    pub(super) factor: f64,
}

impl VarianceScaling {
    /// A known factor.
    ///
    /// # Errors
    /// A config error if the factor is not a finite number above zero.
    pub fn new(factor: f64) -> Result<Self, EvalError> {
        if factor.is_finite() && factor > 0.0 {
            return Ok(Self { factor });
        }
        let expected = "a finite number above 0";
        Err(EvalError::config("variance factor", factor, expected))
    }

    /// The mean squared standardised error of the held-out rows.
    ///
    /// # Errors
    /// A data error if every target equals its prediction, so that the factor would be zero.
    pub fn fit(held_out: &HeldOut<TargetedMixture<'_>>) -> Result<Self, EvalError> {
        let (mixture, targets) = (held_out.view().mixture(), held_out.view().targets());
        let moments = mixture.mean().into_iter().zip(mixture.variance());
        let squares = moments
            .zip(targets)
            .map(|((m, v), y)| (y - m) * (y - m) / v);
        let factor = squares.sum::<f64>() / targets.len() as f64;
        if factor > 0.0 && factor.is_finite() {
            return Ok(Self { factor });
        }
        Err(EvalError::data(
            "standardised errors of the held-out rows",
            Place::WHOLE,
            format!("a mean square of {factor}"),
            "a finite number above 0",
            "predictions that were copied from the targets, or rows that the model was fitted to",
        ))
    }

    /// s, above 1 if the predictions are overconfident.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// The recalibrated predictions of new rows.
    ///
    /// # Errors
    /// A data error if a mean or a deviation leaves the range of [`GaussianMixture`].
    pub fn apply(
        &self,
        mixture: &GaussianMixture<'_>,
    ) -> Result<GaussianMixture<'static>, EvalError> {
        mixture.widened(self.factor.sqrt())
    }
}

/// A correction of the levels of quantiles.
///
/// ```
/// use burn_bayes_eval::{
///     GaussianMixture, HeldOut, NoisePrecision, QuantileRecalibration, TargetedMixture,
/// };
///
/// // The predictions are one standard deviation too low.
/// let mixture = GaussianMixture::new(&[0.0, 0.0, 0.0], 1, 3, NoisePrecision::Shared(1.0))?;
/// let targeted = TargetedMixture::new(&mixture, &[0.0, 1.0, 2.0])?;
/// let recalibration = QuantileRecalibration::fit(&HeldOut::new(targeted, &[0, 1, 2], &[3])?)?;
/// let new = GaussianMixture::new(&[5.0], 1, 1, NoisePrecision::Shared(1.0))?;
/// assert!((recalibration.quantiles(&new, 0.5)?[0] - 6.0).abs() < 1e-9);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileRecalibration {
    /// Increasing, from 0 to 1.
    predicted: Vec<f64>,
    /// Increasing, from 0 to 1.
    observed: Vec<f64>,
}

impl QuantileRecalibration {
    /// Fits R to the transforms of the held-out rows.
    ///
    /// # Errors
    /// A data error if all targets are on one side of their distributions, beyond double precision.
    pub fn fit(held_out: &HeldOut<TargetedMixture<'_>>) -> Result<Self, EvalError> {
        let mut pit = pit_values(held_out.view());
        pit.sort_by(f64::total_cmp);
        let rows = pit.len() as f64 + 1.0;
        let (mut predicted, mut observed, mut below) = (vec![0.0], vec![0.0], 0);
        for group in pit.chunk_by(|a, b| a == b) {
            // The mean of the tied ranks.
            let rank = below as f64 + 0.5 * (group.len() as f64 + 1.0);
            below += group.len();
            if group[0] > 0.0 && group[0] < 1.0 {
                predicted.push(group[0]);
                observed.push(rank / rows);
            }
        }
        if predicted.len() == 1 {
            return Err(EvalError::data(
                "transforms of the held-out rows",
                Place::WHOLE,
                "only 0 and 1",
                "a target within a predictive distribution",
                "targets on another scale than the predictions, or far too little noise",
            ));
        }
        predicted.push(1.0);
        observed.push(1.0);
        Ok(Self {
            predicted,
            observed,
        })
    }

    /// R of transforms from [`pit_values`]: the recalibrated mass below each target.
    ///
    /// # Errors
    /// A data error if a transform is not in [0, 1].
    pub fn apply(&self, pit: &[f64]) -> Result<Vec<f64>, EvalError> {
        check::unit(
            "transforms",
            pit,
            "targets passed instead of their transforms",
        )?;
        Ok(pit
            .iter()
            .map(|&u| interpolate(&self.predicted, &self.observed, u))
            .collect())
    }

    /// R⁻¹(p): the level at which the uncorrected model has the quantile p.
    ///
    /// # Errors
    /// A config error if the probability is not strictly between 0 and 1.
    pub fn level(&self, probability: f64) -> Result<f64, EvalError> {
        check::open_unit("probability", probability)?;
        Ok(interpolate(&self.observed, &self.predicted, probability))
    }

    /// The recalibrated quantile of each row's mixture.
    ///
    /// # Errors
    /// A config error if the probability is not strictly between 0 and 1.
    pub fn quantiles(
        &self,
        mixture: &GaussianMixture<'_>,
        probability: f64,
    ) -> Result<Vec<f64>, EvalError> {
        quantiles(mixture, self.level(probability)?)
    }
}

fn interpolate(at: &[f64], values: &[f64], x: f64) -> f64 {
    let above = at.partition_point(|&knot| knot < x).clamp(1, at.len() - 1);
    let (low, high) = (at[above - 1], at[above]);
    values[above - 1] + (x - low) / (high - low) * (values[above] - values[above - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoisePrecision;

    #[test]
    fn own_transforms_become_uniform_and_levels_invert() {
        let means: Vec<f64> = (0..9).map(f64::from).collect();
        let targets: Vec<f64> = means.iter().map(|m| m + 0.3 * (m - 4.0)).collect();
        let mixture = GaussianMixture::new(&means, 1, 9, NoisePrecision::Shared(4.0)).unwrap();
        let targeted = TargetedMixture::new(&mixture, &targets).unwrap();
        let ids: Vec<usize> = (0..9).collect();
        let fitted =
            QuantileRecalibration::fit(&HeldOut::new(targeted, &ids, &[9]).unwrap()).unwrap();
        let mapped = fitted.apply(&pit_values(&targeted)).unwrap();
        for (rank, value) in mapped.into_iter().enumerate() {
            assert!((value - (rank + 1) as f64 / 10.0).abs() < 1e-12, "{value}");
        }
        for p in [0.01, 0.3, 0.77, 0.99] {
            let again = fitted.apply(&[fitted.level(p).unwrap()]).unwrap()[0];
            assert!((again - p).abs() < 1e-12);
        }
        assert!(fitted.level(0.0).unwrap_err().is_config());
        assert_eq!(fitted.apply(&[0.5, 2.0]).unwrap_err().row(), Some(1));
    }

    #[test]
    fn a_scaled_mixture_keeps_its_mean_and_has_unit_errors() {
        let means = [0.0, 4.0, 2.0, 6.0];
        let mixture = GaussianMixture::new(&means, 2, 2, NoisePrecision::PerDraw(&[1.0, 4.0]));
        let mixture = mixture.unwrap();
        let targets = [4.0, 5.5];
        let targeted = TargetedMixture::new(&mixture, &targets).unwrap();
        let held_out = HeldOut::new(targeted, &[0, 1], &[2]).unwrap();
        let scaled = VarianceScaling::fit(&held_out)
            .unwrap()
            .apply(&mixture)
            .unwrap();
        assert_eq!(scaled.mean(), mixture.mean());
        let targeted = TargetedMixture::new(&scaled, &targets).unwrap();
        let again = VarianceScaling::fit(&HeldOut::new(targeted, &[0, 1], &[2]).unwrap()).unwrap();
        assert!((again.factor() - 1.0).abs() < 1e-14);
        let mean = mixture.mean();
        let copied = TargetedMixture::new(&mixture, &mean).unwrap();
        let error = VarianceScaling::fit(&HeldOut::new(copied, &[0, 1], &[2]).unwrap());
        assert!(error.unwrap_err().is_data());
    }

    #[test]
    fn targets_beyond_every_distribution_are_an_error() {
        let mixture = GaussianMixture::new(&[0.0], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
        let targeted = TargetedMixture::new(&mixture, &[1e3]).unwrap();
        let held_out = HeldOut::new(targeted, &[0], &[1]).unwrap();
        assert!(QuantileRecalibration::fit(&held_out).unwrap_err().is_data());
    }
}
