//! Real-valued predictions of several draws: one mixture of Gaussians per row.
//!
//!   p(y | row r) = (1/S) Σ_s N(y; f_sr, 1/β_sr)
//!   mean_r = (1/S) Σ_s f_sr,   variance_r = (1/S) Σ_s 1/β_sr + (1/S) Σ_s (f_sr − mean_r)²
//!
//! | Symbol | Here |
//! |---|---|
//! | f_sr | `means`, `[draws × rows]`, row-major |
//! | β_sr | [`NoisePrecision`]: one for all, one per draw, or one per draw and row |
//!
//! Networks are trained on standardised targets and judged on the original ones:
//! y = m + d·y′ turns N(y′; f′, 1/β′) into N(y; m + d·f′, d²/β′), so a negative log-likelihood grows
//! by ln d. [`GaussianMixture::unnormalised`] does that once, for all scores.

use std::borrow::Cow;

use crate::check;
use crate::error::{EvalError, Place};

/// Mixtures of Gaussians, one per row, with one component per draw.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision};
///
/// let mixture = GaussianMixture::new(&[1.0, 3.0], 2, 1, NoisePrecision::Shared(4.0))?;
/// assert_eq!(mixture.mean(), [2.0]);
/// assert_eq!(mixture.variance(), [1.25]); // 1/4 of noise and 1 between the draws
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianMixture<'a> {
    means: Cow<'a, [f64]>,
    /// One deviation stands at `draw · draw_stride + row · row_stride`.
    deviations: Vec<f64>,
    draw_stride: usize,
    row_stride: usize,
    draws: usize,
    rows: usize,
}

/// The precision β = 1/σ² of the observation noise around each draw's mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoisePrecision<'a> {
    /// The same for all draws and rows.
    Shared(f64),
    /// One per draw.
    PerDraw(&'a [f64]),
    /// One per draw and row, `[draws × rows]`, row-major: noise that depends on the input.
    PerPrediction(&'a [f64]),
}

/// How targets were standardised: normalised = (original − mean) / deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetScale {
    /// Mean of the original training targets.
    pub mean: f64,
    /// Standard deviation of the original training targets, above zero.
    pub deviation: f64,
}

impl<'a> GaussianMixture<'a> {
    /// Checks `means` (borrowed or owned) as `draws` predictions of `rows` rows, with their noise.
    ///
    /// # Errors
    /// A data error if a length does not fit, a mean is not finite, or a precision is not a finite
    /// number above zero.
    pub fn new(
        means: impl Into<Cow<'a, [f64]>>,
        draws: usize,
        rows: usize,
        noise: NoisePrecision<'_>,
    ) -> Result<Self, EvalError> {
        let means = means.into();
        check::shape("means", means.len(), &[("draws", draws), ("rows", rows)])?;
        if let Some(index) = means.iter().position(|mean| !mean.is_finite()) {
            let place = Place::draw(index / rows).at_row(index % rows);
            return Err(check::not_finite("means", place, means[index]));
        }
        let (precisions, draw_stride, row_stride) = match &noise {
            NoisePrecision::Shared(precision) => (std::slice::from_ref(precision), 0, 0),
            NoisePrecision::PerDraw(precisions) => {
                check::shape("noise precisions", precisions.len(), &[("draws", draws)])?;
                (*precisions, 1, 0)
            }
            NoisePrecision::PerPrediction(precisions) => {
                let extents = [("draws", draws), ("rows", rows)];
                check::shape("noise precisions", precisions.len(), &extents)?;
                (*precisions, rows, 1)
            }
        };
        let place = |index: usize| match noise {
            NoisePrecision::Shared(_) => Place::WHOLE,
            NoisePrecision::PerDraw(_) => Place::draw(index),
            NoisePrecision::PerPrediction(_) => Place::draw(index / rows).at_row(index % rows),
        };
        let deviation = |(index, &precision): (usize, &f64)| {
            if precision.is_finite() && precision > 0.0 {
                return Ok(precision.sqrt().recip());
            }
            let cause = "a log-precision or a variance of zero was passed, or training diverged";
            let expected = "a finite number above 0";
            Err(EvalError::data(
                "noise precision",
                place(index),
                precision,
                expected,
                cause,
            ))
        };
        let deviations = precisions
            .iter()
            .enumerate()
            .map(deviation)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            means,
            deviations,
            draw_stride,
            row_stride,
            draws,
            rows,
        })
    }

    /// The number of draws.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The mean of each row's mixture: the point prediction that minimises the squared error.
    pub fn mean(&self) -> Vec<f64> {
        let mean = |row| self.average(row, |component| component.mean);
        (0..self.rows).map(mean).collect()
    }

    /// The variance of each row's mixture: noise plus what the draws disagree about.
    pub fn variance(&self) -> Vec<f64> {
        let noise = |row| self.average(row, |component| component.deviation * component.deviation);
        let between = self.variance_between_draws();
        between
            .into_iter()
            .enumerate()
            .map(|(row, between)| noise(row) + between)
            .collect()
    }

    /// The population variance of the draws' means, without the noise.
    pub fn variance_between_draws(&self) -> Vec<f64> {
        let variance = |(row, mean): (usize, f64)| {
            self.average(row, |component| {
                (component.mean - mean) * (component.mean - mean)
            })
        };
        self.mean().into_iter().enumerate().map(variance).collect()
    }

    /// The same predictions on the scale of the original targets.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetScale, TargetedMixture, nmll};
    ///
    /// let scale = TargetScale { mean: 10.0, deviation: 2.0 };
    /// let normalised = GaussianMixture::new(&[0.5], 1, 1, NoisePrecision::Shared(1.0))?;
    /// let original = normalised.unnormalised(scale)?;
    /// assert_eq!((original.mean()[0], original.variance()[0]), (11.0, 4.0));
    ///
    /// let on_normalised = nmll(&TargetedMixture::new(&normalised, &[1.0])?);
    /// let on_original = nmll(&TargetedMixture::new(&original, &[12.0])?);
    /// assert!((on_original - (on_normalised + 2f64.ln())).abs() < 1e-14);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if the mean is not finite or the deviation not a finite number above zero; a
    /// data error if a prediction overflows on the new scale.
    pub fn unnormalised(&self, scale: TargetScale) -> Result<GaussianMixture<'static>, EvalError> {
        if !scale.mean.is_finite() {
            return Err(EvalError::config(
                "TargetScale::mean",
                scale.mean,
                "a finite number",
            ));
        }
        if !(scale.deviation.is_finite() && scale.deviation > 0.0) {
            let expected = "a finite number above 0";
            return Err(EvalError::config(
                "TargetScale::deviation",
                scale.deviation,
                expected,
            ));
        }
        let means: Vec<f64> = self
            .means
            .iter()
            .map(|mean| scale.deviation.mul_add(*mean, scale.mean))
            .collect();
        let deviations: Vec<f64> = self
            .deviations
            .iter()
            .map(|deviation| scale.deviation * deviation)
            .collect();
        check::finite("unnormalised means", &means)?;
        check::finite("unnormalised noise deviations", &deviations)?;
        Ok(GaussianMixture {
            means: means.into(),
            deviations,
            ..*self
        })
    }

    /// The components of one row's mixture, equally weighted, in the order of the draws.
    pub(crate) fn components(&self, row: usize) -> impl Iterator<Item = Component> + Clone {
        (0..self.draws).map(move |draw| Component {
            mean: self.means[draw * self.rows + row],
            deviation: self.deviations[draw * self.draw_stride + row * self.row_stride],
        })
    }

    /// The mean over draws of a function of the component.
    pub(crate) fn average(&self, row: usize, value: impl Fn(Component) -> f64) -> f64 {
        self.components(row).map(value).sum::<f64>() / self.draws as f64
    }
}

/// Mixtures together with the true value of each row.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture};
///
/// let mixture = GaussianMixture::new(&[1.0, 3.0], 1, 2, NoisePrecision::Shared(4.0))?;
/// assert!(TargetedMixture::new(&mixture, &[1.5, 2.5]).is_ok());
/// assert_eq!(TargetedMixture::new(&mixture, &[1.5, f64::NAN]).unwrap_err().row(), Some(1));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetedMixture<'a> {
    mixture: &'a GaussianMixture<'a>,
    targets: &'a [f64],
}

impl<'a> TargetedMixture<'a> {
    /// Pairs mixtures with one finite target per row, on the same scale.
    ///
    /// # Errors
    /// A data error if the lengths differ or a target is not finite.
    pub fn new(mixture: &'a GaussianMixture<'a>, targets: &'a [f64]) -> Result<Self, EvalError> {
        check::same_length("targets", targets.len(), mixture.rows)?;
        check::finite("targets", targets)?;
        Ok(Self { mixture, targets })
    }

    /// The mixtures.
    pub fn mixture(&self) -> &'a GaussianMixture<'a> {
        self.mixture
    }

    /// The true values.
    pub fn targets(&self) -> &'a [f64] {
        self.targets
    }

    pub(crate) fn map(&self, score: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        self.targets
            .iter()
            .enumerate()
            .map(|(row, &target)| score(row, target))
            .collect()
    }
}

/// One Gaussian of a mixture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Component {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Component {
    pub(crate) fn standardised(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_may_be_shared_per_draw_or_per_prediction() {
        let means = [0.0, 1.0, 2.0, 3.0]; // two draws, two rows
        let shared = GaussianMixture::new(&means, 2, 2, NoisePrecision::Shared(0.25)).unwrap();
        assert_eq!(shared.mean(), [1.0, 2.0]);
        assert_eq!(shared.variance_between_draws(), [1.0, 1.0]);
        assert_eq!(shared.variance(), [5.0, 5.0]);
        let noise = NoisePrecision::PerDraw(&[0.25, 1.0]);
        let per_draw = GaussianMixture::new(&means, 2, 2, noise).unwrap();
        assert_eq!(per_draw.variance(), [3.5, 3.5]);
        let noise = NoisePrecision::PerPrediction(&[0.25, 1.0, 1.0, 0.0625]);
        let each = GaussianMixture::new(&means, 2, 2, noise).unwrap();
        assert_eq!(each.variance(), [3.5, 9.5]);
    }

    #[test]
    fn rejects_bad_means_precisions_and_lengths() {
        let shared = NoisePrecision::Shared(1.0);
        let error = GaussianMixture::new(&[0.0, 1.0, f64::NAN, 0.0], 2, 2, shared).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(1), Some(0)));
        assert!(
            GaussianMixture::new(&[0.0], 1, 2, shared)
                .unwrap_err()
                .is_data()
        );
        assert!(
            GaussianMixture::new(Vec::new(), 0, 0, shared)
                .unwrap_err()
                .is_data()
        );
        for precision in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let noise = NoisePrecision::Shared(precision);
            assert!(
                GaussianMixture::new(&[0.0], 1, 1, noise)
                    .unwrap_err()
                    .is_data()
            );
            let precisions = [1.0, precision];
            let noise = NoisePrecision::PerDraw(&precisions);
            let error = GaussianMixture::new(&[0.0, 0.0], 2, 1, noise).unwrap_err();
            assert_eq!((error.draw(), error.row()), (Some(1), None));
            let noise = NoisePrecision::PerPrediction(&precisions);
            let error = GaussianMixture::new(&[0.0, 0.0], 1, 2, noise).unwrap_err();
            assert_eq!((error.draw(), error.row()), (Some(0), Some(1)));
        }
        let noise = NoisePrecision::PerDraw(&[1.0]);
        assert!(
            GaussianMixture::new(&[0.0, 0.0], 2, 1, noise)
                .unwrap_err()
                .is_data()
        );
    }

    #[test]
    fn rejects_bad_scales_and_targets() {
        let mixture = GaussianMixture::new(&[1e300], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
        for deviation in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let scale = TargetScale {
                mean: 0.0,
                deviation,
            };
            assert!(mixture.unnormalised(scale).unwrap_err().is_config());
        }
        let scale = TargetScale {
            mean: f64::NAN,
            deviation: 1.0,
        };
        assert!(mixture.unnormalised(scale).unwrap_err().is_config());
        let scale = TargetScale {
            mean: 0.0,
            deviation: 1e10,
        };
        assert!(mixture.unnormalised(scale).unwrap_err().is_data());
        assert!(TargetedMixture::new(&mixture, &[]).unwrap_err().is_data());
        assert!(
            TargetedMixture::new(&mixture, &[f64::INFINITY])
                .unwrap_err()
                .is_data()
        );
    }
}
