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
//! A draw may predict several Gaussians with weights w_srk of sum 1 ([`GaussianMixture::with_weights`]): then f_sr is the
//! mean Σ_k w_srk f_srk of a draw, and 1/β_sr its variance.
//!
//! Networks are trained on standardised targets and evaluated on the original ones: y = m + d·y′
//! turns N(y′; f′, 1/β′) into N(y; m + d·f′, d²/β′), so a negative log-likelihood increases by ln
//! d. [`GaussianMixture::unnormalised`] makes this conversion for all scores.
//!
//! Positive targets may be predicted by the Gaussians of their logarithms, so by log-normal distributions:
//! [`GaussianMixture::exponentiated`]. With m and σ those of a logarithm,
//!
//!   E y = exp(m + σ²/2),   Var y = (exp σ² − 1) (E y)²,   p(y) = N(ln y; m, σ²)/y.
//!
//! Means and standard deviations 1/√β are limited to 10¹⁵⁰, so that no variance overflows.

use std::borrow::Cow;

use crate::check;
use crate::error::{EvalError, Place};

/// Mixtures of Gaussians, one per row, with one component per draw, or [several](Self::with_weights).
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
    /// The standard deviation of a component is at `draw · draw_stride + row · row_stride`.
    deviations: Vec<f64>,
    draw_stride: usize,
    row_stride: usize,
    draws: usize,
    rows: usize,
    /// The Gaussians of a draw, one after the other.
    per_draw: usize,
    /// The weight of every Gaussian within its draw, as the means; none if each draw has one.
    weights: Cow<'a, [f64]>,
    /// Whether the Gaussians are those of the logarithms.
    is_of_logarithms: bool,
}

/// The precision β = 1/σ² of the observation noise around each draw's mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoisePrecision<'a> {
    /// The same for all draws and rows.
    Shared(f64),
    /// One per draw.
    PerDraw(&'a [f64]),
    /// One per draw and row, `[draws × rows]`, row-major, for heteroscedastic noise.
    PerPrediction(&'a [f64]),
}

/// The standardisation of targets: normalised = (original − mean) / deviation.
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
    /// A data error if a length does not fit, a mean is NaN or beyond ±10¹⁵⁰, or a precision is not
    /// a finite number of at least 10⁻³⁰⁰.
    pub fn new(
        means: impl Into<Cow<'a, [f64]>>,
        draws: usize,
        rows: usize,
        noise: NoisePrecision<'_>,
    ) -> Result<Self, EvalError> {
        let means = means.into();
        check::shape("means", means.len(), &[("draws", draws), ("rows", rows)])?;
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
        let deviation = |precision: &f64| precision.sqrt().recip();
        let mixture = Self {
            means,
            deviations: precisions.iter().map(deviation).collect(),
            draw_stride,
            row_stride,
            draws,
            rows,
            per_draw: 1,
            weights: Cow::Borrowed(&[]),
            is_of_logarithms: false,
        };
        mixture.check_means("means")?;
        if let Some(index) = mixture.unusable_deviation() {
            return Err(EvalError::data(
                "noise precision",
                mixture.place_of_deviation(index),
                precisions[index],
                "a finite number of at least 1e-300",
                "a log-precision or a variance of zero was passed, or training diverged",
            ));
        }
        Ok(mixture)
    }

    /// The mixtures whose first `per_draw` "draws" are the Gaussians of the first draw, and so on, with a weight for each,
    /// `[draws × rows]` as the means, row-major.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, NoisePrecision};
    ///
    /// // A draw that is sure of 1, and one that takes −2 and 2 for equally likely.
    /// let gaussians = GaussianMixture::new(&[1.0, 0.0, -2.0, 2.0], 4, 1, NoisePrecision::Shared(1.0))?;
    /// let mixture = gaussians.with_weights(2, &[1.0, 0.0, 0.5, 0.5])?;
    /// assert_eq!((mixture.draws(), mixture.mean()[0]), (2, 0.5));
    /// assert_eq!(mixture.variance_between_draws(), [0.25]);
    /// assert_eq!(mixture.variance(), [3.25]); // 1 and 1 + 4 of the draws, 1/4 between them
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if `per_draw` does not divide the number of draws; a data error if the weights of a draw and row are
    /// negative or their sum is not 1.
    pub fn with_weights(
        self,
        per_draw: usize,
        weights: impl Into<Cow<'a, [f64]>>,
    ) -> Result<Self, EvalError> {
        /// Single precision.
        const ROUNDING: f64 = 1e-5;
        let weights = weights.into();
        let gaussians = self.draws * self.per_draw;
        if per_draw == 0 || !gaussians.is_multiple_of(per_draw) {
            let expected = format!("a divisor of the number of draws, {gaussians}");
            return Err(EvalError::config("per_draw", per_draw, expected));
        }
        let extents = [("draws", gaussians), ("rows", self.rows)];
        check::shape("weights", weights.len(), &extents)?;
        for (draw, of_draw) in weights.chunks(per_draw * self.rows).enumerate() {
            for row in 0..self.rows {
                let of_row = of_draw.iter().skip(row).step_by(self.rows);
                let sum: f64 = of_row.clone().sum();
                let is_negative = of_row.clone().any(|weight| *weight < 0.0);
                let is_one = (sum - 1.0).abs() <= ROUNDING;
                if is_negative || !is_one {
                    return Err(EvalError::data(
                        "weights of a draw's Gaussians",
                        Place::draw(draw).at_row(row),
                        sum,
                        "weights of at least 0 whose sum is 1",
                        "logits instead of their softmax, or a diverged model",
                    ));
                }
            }
        }
        Ok(Self {
            draws: gaussians / per_draw,
            per_draw,
            weights,
            ..self
        })
    }

    /// The distributions of positive targets whose logarithms have these distributions.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, NoisePrecision, quantiles};
    ///
    /// let logarithms = GaussianMixture::new(&[1.0], 1, 1, NoisePrecision::Shared(4.0))?;
    /// let mixture = logarithms.exponentiated()?;
    /// assert!((quantiles(&mixture, 0.5)?[0] - 1f64.exp()).abs() < 1e-12);
    /// assert!((mixture.mean()[0] - 1.125f64.exp()).abs() < 1e-12);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if a mean or a standard deviation of the targets exceeds 10¹⁵⁰.
    pub fn exponentiated(mut self) -> Result<Self, EvalError> {
        let largest = LARGEST.ln();
        for row in 0..self.rows {
            let out_of_range = |c: Component| c.mean + c.deviation * c.deviation > largest;
            if let Some(draw) = self.components(row).position(out_of_range) {
                return Err(EvalError::data(
                    "means of logarithms",
                    Place::draw(draw).at_row(row),
                    self.components(row).nth(draw).map_or(f64::NAN, |c| c.mean),
                    format!("with their variance, at most {largest:.0}"),
                    "means of targets instead of their logarithms, or a diverged model",
                ));
            }
        }
        self.is_of_logarithms = true;
        Ok(self)
    }

    /// The number of draws.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The means of all Gaussians, `[draws × rows]`, row-major; with several for each draw, these one after the other.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The mean of each row's mixture: the point prediction that minimises the squared error.
    pub fn mean(&self) -> Vec<f64> {
        self.map_moments(mean)
    }

    /// The variance of each row's mixture: that of each draw plus the variance between draws.
    pub fn variance(&self) -> Vec<f64> {
        self.map_moments(variance)
    }

    /// The population variance of the draws' means, without the variance of each draw.
    pub fn variance_between_draws(&self) -> Vec<f64> {
        (0..self.rows)
            .map(|row| {
                let means = self.draw_means(row);
                let draws = means.len() as f64;
                let centre = means.iter().sum::<f64>() / draws;
                let squares = means.iter().map(|mean| (mean - centre) * (mean - centre));
                squares.sum::<f64>() / draws
            })
            .collect()
    }

    /// The mean of the target of a row under each draw.
    pub(crate) fn draw_means(&self, row: usize) -> Vec<f64> {
        let moments: Vec<Component> = self.moments(row).collect();
        let of_draws = moments.chunks(self.per_draw).map(|draw| match draw {
            [one] => one.mean,
            several => mean(several.iter().copied()),
        });
        of_draws.collect()
    }

    /// A number for each row, from the means and deviations of the targets under its components.
    fn map_moments(&self, of: impl Fn(std::vec::IntoIter<Component>) -> f64) -> Vec<f64> {
        let moments = |row| -> Vec<Component> { self.moments(row).collect() };
        (0..self.rows)
            .map(|row| of(moments(row).into_iter()))
            .collect()
    }

    /// The mean and the deviation of the target under each component of a row.
    pub(crate) fn moments(&self, row: usize) -> impl ExactSizeIterator<Item = Component> + Clone {
        // √(exp σ² − 1) exp(m + σ²/2) without exp σ², which overflows before the deviation does.
        let of_exponential = |own: Component| {
            let variance = own.deviation * own.deviation;
            Component {
                mean: own.mean_of_exponential(),
                deviation: (own.mean + variance).exp() * (-(-variance).exp_m1()).sqrt(),
                ..own
            }
        };
        self.components(row)
            .map(move |own| match self.is_of_logarithms {
                true => of_exponential(own),
                false => own,
            })
    }

    /// Whether the components are those of the logarithms of the targets.
    pub(crate) fn is_of_logarithms(&self) -> bool {
        self.is_of_logarithms
    }

    /// A target where its components are.
    pub(crate) fn located(&self, target: f64) -> f64 {
        match self.is_of_logarithms {
            true if target > 0.0 => target.ln(),
            true => f64::NEG_INFINITY,
            false => target,
        }
    }

    /// The inverse.
    pub(crate) fn target_at(&self, location: f64) -> f64 {
        match self.is_of_logarithms {
            true => location.exp(),
            false => location,
        }
    }

    /// The mean of the components' means, of each row.
    pub(crate) fn centres(&self) -> Vec<f64> {
        (0..self.rows)
            .map(|row| mean(self.components(row)))
            .collect()
    }

    /// The predictions on the original scale of the targets.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetScale, TargetedMixture, mixture_nll};
    ///
    /// let scale = TargetScale { mean: 10.0, deviation: 2.0 };
    /// let normalised = GaussianMixture::new(&[0.5], 1, 1, NoisePrecision::Shared(1.0))?;
    /// let original = normalised.unnormalised(scale)?;
    /// assert_eq!((original.mean()[0], original.variance()[0]), (11.0, 4.0));
    ///
    /// let on_normalised = mixture_nll(&TargetedMixture::new(&normalised, &[1.0])?);
    /// let on_original = mixture_nll(&TargetedMixture::new(&original, &[12.0])?);
    /// assert!((on_original - (on_normalised + 2f64.ln())).abs() < 1e-14);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if the mean is not finite or the deviation not a finite number above zero, or the mixture is
    /// [of logarithms](Self::exponentiated), which have a scale of their own; a data error if a mean leaves ±10¹⁵⁰ on the new scale, or a noise deviation exceeds 10¹⁵⁰ or
    /// underflows to 0.
    pub fn unnormalised(&self, scale: TargetScale) -> Result<GaussianMixture<'static>, EvalError> {
        if self.is_of_logarithms {
            return Err(EvalError::config(
                "mixture",
                "one of logarithms",
                "unnormalised before it is exponentiated",
            ));
        }
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
        let mixture = self.with_moments(means, deviations);
        mixture.check_means("unnormalised means")?;
        if let Some(index) = mixture.unusable_deviation() {
            return Err(EvalError::data(
                "unnormalised noise deviations",
                mixture.place_of_deviation(index),
                mixture.deviations[index],
                format!("above 0 and at most {LARGEST:e}"),
                "a scale of other targets",
            ));
        }
        Ok(mixture)
    }

    /// The predictions with all deviations from each row's mean, and the noise, times a factor.
    pub(crate) fn widened(&self, factor: f64) -> Result<GaussianMixture<'static>, EvalError> {
        let centres = self.centres();
        let moved = |(index, mean): (usize, &f64)| {
            let centre = centres[index % self.rows];
            factor.mul_add(mean - centre, centre)
        };
        let means = self.means.iter().enumerate().map(moved).collect();
        let deviations = self.deviations.iter().map(|deviation| factor * deviation);
        let mixture = self.with_moments(means, deviations.collect());
        mixture.check_means("widened means")?;
        match mixture.unusable_deviation() {
            Some(index) => Err(EvalError::data(
                "widened noise deviations",
                mixture.place_of_deviation(index),
                mixture.deviations[index],
                format!("above 0 and at most {LARGEST:e}"),
                "a factor fitted to targets on another scale",
            )),
            None => Ok(mixture),
        }
    }

    /// The same with other means and deviations of the Gaussians.
    fn with_moments(&self, means: Vec<f64>, deviations: Vec<f64>) -> GaussianMixture<'static> {
        GaussianMixture {
            means: means.into(),
            deviations,
            weights: self.weights.to_vec().into(),
            ..*self
        }
    }

    fn check_means(&self, what: &str) -> Result<(), EvalError> {
        // A range never contains NaN.
        let usable = |mean: &f64| (-LARGEST..=LARGEST).contains(mean);
        match self.means.iter().position(|mean| !usable(mean)) {
            Some(index) => Err(EvalError::data(
                what,
                self.place_of_mean(index),
                self.means[index],
                format!("a finite number of at most ±{LARGEST:e}"),
                check::DIVERGED,
            )),
            None => Ok(()),
        }
    }

    fn unusable_deviation(&self) -> Option<usize> {
        let usable = |deviation: &f64| *deviation > 0.0 && *deviation <= LARGEST;
        self.deviations
            .iter()
            .position(|deviation| !usable(deviation))
    }

    fn place_of_mean(&self, index: usize) -> Place {
        Place::draw(index / self.rows).at_row(index % self.rows)
    }

    fn place_of_deviation(&self, index: usize) -> Place {
        match (self.draw_stride, self.row_stride) {
            (0, _) => Place::WHOLE,
            (_, 0) => Place::draw(index),
            _ => self.place_of_mean(index),
        }
    }

    /// The components of one row's mixture, in draw order.
    pub(crate) fn components(
        &self,
        row: usize,
    ) -> impl ExactSizeIterator<Item = Component> + Clone {
        (0..self.draws * self.per_draw).map(move |at| Component {
            mean: self.means[at * self.rows + row],
            deviation: self.deviations[at * self.draw_stride + row * self.row_stride],
            weight: self
                .weights
                .get(at * self.rows + row)
                .map_or(1.0, |one| *one),
        })
    }

    /// The number of Gaussians of each draw.
    pub(crate) fn per_draw(&self) -> usize {
        self.per_draw
    }
}

/// The largest magnitude of a mean or standard deviation; sums of ten million squares are finite.
const LARGEST: f64 = 1e150;

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

    /// A number for each row, from the place of its target among its components.
    pub(crate) fn map(&self, score: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        self.targets
            .iter()
            .enumerate()
            .map(|(row, &target)| score(row, self.mixture.located(target)))
            .collect()
    }
}

/// One Gaussian of a mixture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Component {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    /// Its share of a draw; the sum over a row is the number of draws.
    pub(crate) weight: f64,
}

impl Component {
    /// E exp X.
    pub(crate) fn mean_of_exponential(self) -> f64 {
        (self.mean + 0.5 * self.deviation * self.deviation).exp()
    }

    pub(crate) fn standardised(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }
}

/// The weighted mean over components of a function of each.
pub(crate) fn average(
    components: impl Iterator<Item = Component>,
    value: impl Fn(Component) -> f64,
) -> f64 {
    let [sum, weights] = components.fold([0.0; 2], |[sum, weights], component| {
        [
            sum + component.weight * value(component),
            weights + component.weight,
        ]
    });
    sum / weights
}

/// The mean of a mixture.
pub(crate) fn mean(components: impl Iterator<Item = Component>) -> f64 {
    average(components, |component| component.mean)
}

/// Its variance.
pub(crate) fn variance(components: impl Iterator<Item = Component> + Clone) -> f64 {
    let noise = average(components.clone(), |c| c.deviation * c.deviation);
    noise + variance_of_means(components)
}

fn variance_of_means(components: impl Iterator<Item = Component> + Clone) -> f64 {
    let centre = mean(components.clone());
    average(components, |c| (c.mean - centre) * (c.mean - centre))
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

    /// Weights of ¼ and ¾ against a component once and three times.
    #[test]
    fn weights_are_repetitions() {
        let pairs = [[0.3, 1.2], [-1.0, 0.4]];
        let precisions = [[4.0, 1.0], [9.0, 0.5]];
        let flat = |values: [[f64; 2]; 2]| values.concat();
        let repeated = |values: [[f64; 2]; 2]| {
            let four = values.map(|[one, other]| [one, other, other, other]);
            four.concat()
        };
        let (means, noise) = (flat(pairs), flat(precisions));
        let noise = NoisePrecision::PerPrediction(&noise);
        let gaussians = GaussianMixture::new(means, 4, 1, noise).unwrap();
        let weighted = gaussians.with_weights(2, &[0.25, 0.75, 0.25, 0.75]);
        let weighted = weighted.unwrap();
        let (means, noise) = (repeated(pairs), repeated(precisions));
        let noise = NoisePrecision::PerPrediction(&noise);
        let expected = GaussianMixture::new(means, 8, 1, noise).unwrap();
        let scores = |mixture: &GaussianMixture<'_>| {
            let targets = [0.7];
            let targeted = TargetedMixture::new(mixture, &targets).unwrap();
            let scaling = crate::HeldOut::for_new_rows(targeted);
            let widened = mixture.widened(1.5).unwrap();
            let unit = TargetScale {
                mean: 1.0,
                deviation: 2.0,
            };
            let scaled = mixture.unnormalised(unit).unwrap();
            [
                mixture.mean()[0],
                mixture.variance()[0],
                crate::log_densities(&targeted)[0],
                crate::pit_values(&targeted)[0],
                crate::crps(&targeted),
                crate::quantiles(mixture, 0.05).unwrap()[0],
                crate::quantiles(mixture, 0.8).unwrap()[0],
                crate::VarianceScaling::most_likely(&scaling).factor(),
                crate::most_likely_noise_precision(&targeted, 1e-3..=1e3).unwrap(),
                widened.variance()[0],
                scaled.variance()[0],
            ]
        };
        let pairs = |mixtures: [&GaussianMixture<'_>; 2]| {
            let [found, expected] = mixtures.map(scores);
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        };
        pairs([&weighted, &expected]);
        // Means of .975 and .05 of the draws.
        let between = weighted.variance_between_draws()[0];
        assert!((between - 0.4625_f64.powi(2)).abs() < 1e-14, "{between}");
        let [weighted, expected] = [weighted, expected].map(|one| one.exponentiated().unwrap());
        let targets = [2.0];
        let score = |mixture| crate::crps(&TargetedMixture::new(mixture, &targets).unwrap());
        assert!((score(&weighted) - score(&expected)).abs() < 1e-12);
        assert!((weighted.mean()[0] - expected.mean()[0]).abs() < 1e-12);
    }

    #[test]
    fn weights_that_are_no_shares_of_a_draw_are_refused() {
        let mixture = || {
            let noise = NoisePrecision::Shared(1.0);
            GaussianMixture::new(&[0.0; 8], 4, 2, noise).unwrap()
        };
        let error = mixture().with_weights(3, &[1.0; 8]).unwrap_err();
        assert!(error.is_config(), "{error}");
        let error = mixture().with_weights(2, &[0.5; 6]).unwrap_err();
        assert!(error.is_data(), "{error}");
        let mut weights = [0.5; 8];
        weights[5] = 0.6;
        let error = mixture().with_weights(2, &weights).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(1), Some(1)));
        let negative = [1.5, 0.5, -0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
        let error = mixture().with_weights(2, &negative).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(0), Some(0)));
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
    fn rejects_what_has_no_finite_square() {
        let shared = NoisePrecision::Shared(1.0);
        let error = GaussianMixture::new(&[0.0, 0.0, 0.0, -1e200], 2, 2, shared).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(1), Some(1)));
        let noise = NoisePrecision::PerDraw(&[1.0, 1e-310]);
        let error = GaussianMixture::new(&[0.0; 4], 2, 2, noise).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(1), None));
        let widest = NoisePrecision::Shared(1e-300);
        let mixture = GaussianMixture::new(&[-1e150, 1e150], 2, 1, widest).unwrap();
        let variance = mixture.variance()[0];
        assert!((variance / 2e300 - 1.0).abs() < 4.0 * f64::EPSILON);
    }

    #[test]
    fn what_a_scale_takes_out_of_range_is_named_by_draw_and_row() {
        let place = |means: &[f64], noise, deviation| {
            let mixture = GaussianMixture::new(means, 2, 3, noise).unwrap();
            let scale = TargetScale {
                mean: 0.0,
                deviation,
            };
            let error = mixture.unnormalised(scale).unwrap_err();
            assert!(error.is_data());
            (error.draw(), error.row())
        };
        let large = [0.0, 0.0, 0.0, 0.0, 1e145, 0.0]; // draw 1, row 1
        let shared = NoisePrecision::Shared(1e-290);
        assert_eq!(place(&large, shared, 1e10), (Some(1), Some(1)));
        let means = [0.0; 6];
        assert_eq!(place(&means, shared, 1e10), (None, None));
        let per_draw = NoisePrecision::PerDraw(&[1.0, 1e-290]);
        assert_eq!(place(&means, per_draw, 1e10), (Some(1), None));
        let precisions = [1.0, 1.0, 1.0, 1.0, 1e-290, 1.0];
        let each = NoisePrecision::PerPrediction(&precisions);
        assert_eq!(place(&means, each, 1e10), (Some(1), Some(1)));
        let narrow = NoisePrecision::PerDraw(&[1.0, 1e300]);
        assert_eq!(place(&means, narrow, 1e-200), (Some(1), None));
    }

    /// Against the same numbers of the logarithms, and moments by quadrature over quantiles.
    #[test]
    fn positive_targets_have_the_distribution_of_their_logarithms() {
        let noise = NoisePrecision::PerPrediction(&[4.0, 1.0, 9.0, 16.0]);
        let logarithms = GaussianMixture::new(&[0.3, -1.0, 0.8, 0.2], 2, 2, noise).unwrap();
        let mixture = logarithms.clone().exponentiated().unwrap();
        let targets = [1.7, 0.4];
        let located = targets.map(f64::ln);
        let targeted = TargetedMixture::new(&mixture, &targets).unwrap();
        let of_logarithms = TargetedMixture::new(&logarithms, &located).unwrap();
        assert_eq!(
            crate::pit_values(&targeted),
            crate::pit_values(&of_logarithms)
        );
        let found = crate::log_densities(&targeted);
        let expected = crate::log_densities(&of_logarithms);
        for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - (expected - located[row])).abs() < 1e-14);
        }
        let points = 20_000;
        let quantiles =
            |at: usize| crate::quantiles(&mixture, (at as f64 + 0.5) / points as f64).unwrap();
        let all: Vec<Vec<f64>> = (0..points).map(quantiles).collect();
        for row in 0..2 {
            let mean = all.iter().map(|at| at[row]).sum::<f64>() / points as f64;
            let squares = all.iter().map(|at| (at[row] - mean).powi(2));
            let variance = squares.sum::<f64>() / points as f64;
            assert!((mixture.mean()[row] / mean - 1.0).abs() < 1e-3);
            assert!((mixture.variance()[row] / variance - 1.0).abs() < 0.03);
        }
        assert_eq!(mixture.centres(), logarithms.mean());
        // Nothing is below zero.
        let none = [0.0, -1.0];
        let none = TargetedMixture::new(&mixture, &none).unwrap();
        assert_eq!(crate::log_densities(&none), [f64::NEG_INFINITY; 2]);
        assert_eq!(crate::pit_values(&none), [0.0; 2]);
        let scale = TargetScale {
            mean: 0.0,
            deviation: 2.0,
        };
        assert!(mixture.unnormalised(scale).unwrap_err().is_config());
        let far = GaussianMixture::new(&[0.0, 400.0], 2, 1, NoisePrecision::Shared(1.0)).unwrap();
        assert_eq!(far.exponentiated().unwrap_err().draw(), Some(1));
        // σ² = 710, whose exponential overflows.
        let wide = GaussianMixture::new(&[-700.0], 1, 1, NoisePrecision::Shared(1.0 / 710.0));
        let wide = wide.unwrap().exponentiated().unwrap();
        let found = wide.variance()[0].ln();
        assert!((found - 20.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn rejects_bad_scales_and_targets() {
        let mixture = GaussianMixture::new(&[1e145], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
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
