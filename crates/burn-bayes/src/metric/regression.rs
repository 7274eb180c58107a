//! Errors of the mean, and quality of the predictive distribution of numbers.
//!
//! f_s is the prediction of draw s of S, β the precision of the noise, and y the target.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{
    EvalError, PredictionIntervals, TargetScale, TargetedMixture, crps_losses, joint_log_densities,
    winkler_scores,
};

use super::epoch::{RowMeanMetric, WholeSetMetric};
use super::score::{Caption, RowScore, SetScore};
use crate::likelihood::{GaussianNll, RegressionDraws, refused};

/// The observation model: the distribution of targets given predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Observation {
    noise_precision: f64,
    scale: TargetScale,
}

/// For scores that do not depend on the noise.
impl Default for Observation {
    fn default() -> Self {
        Self::new(1.0)
    }
}

impl Observation {
    /// Gaussian noise with this precision, on the scale of the targets that the model sees. Panics
    /// if the precision is not finite and above zero.
    fn new(noise_precision: f64) -> Self {
        let GaussianNll { noise_precision } = GaussianNll::new(noise_precision);
        let (mean, deviation) = (0.0, 1.0);
        let scale = TargetScale { mean, deviation };
        Self {
            noise_precision,
            scale,
        }
    }

    /// Reports values on the original scale of standardised targets. Panics if the mean is not
    /// finite, or the standard deviation is not finite and above zero.
    fn with_target_scale(self, scale: TargetScale) -> Self {
        assert!(
            scale.mean.is_finite() && scale.deviation.is_finite() && scale.deviation > 0.0,
            "the targets' scale is {scale:?}; both must be finite, the deviation above zero"
        );
        Self { scale, ..self }
    }

    /// The score of a batch and its number of target columns, on the original scale of the targets.
    fn score<T>(
        &self,
        batch: &RegressionDraws,
        score: impl FnOnce(&TargetedMixture<'_>, usize) -> Result<T, EvalError>,
    ) -> Result<T, TensorReadError> {
        let TargetScale { mean, deviation } = self.scale;
        let draws = batch.read()?;
        let mixture = draws.mixture(self.noise_precision)?;
        let original = mixture.unnormalised(self.scale).map_err(refused)?;
        let targets = draws.targets().iter();
        let targets: Vec<f64> = targets.map(|y| deviation.mul_add(*y, mean)).collect();
        let targeted = TargetedMixture::new(&original, &targets).map_err(refused)?;
        score(&targeted, draws.columns()).map_err(refused)
    }
}

macro_rules! with_target_scale {
    ($metric:ident) => {
        impl $metric {
            /// Reports values on the original scale of standardised targets.
            ///
            /// # Panics
            ///
            /// If the mean is not finite, or the standard deviation is not finite and above zero.
            #[must_use]
            pub fn with_target_scale(self, scale: TargetScale) -> Self {
                let mut score = *self.score();
                score.observation = score.observation.with_target_scale(scale);
                Self::of(score)
            }
        }
    };
}

/// The root mean squared error of the average of the draws, √((1/N) Σ_r ((1/S) Σ_s f_sr − y_r)²), in the unit of the
/// target. The root is taken over all rows of the epoch.
///
/// The root of the mean squared error.
///
/// ```
/// use burn_bayes_eval::TargetScale;
/// use burn_bayes::metric::RmseOfMeanMetric;
///
/// // The model learned (y − 22.5)/9.2.
/// let scale = TargetScale { mean: 22.5, deviation: 9.2 };
/// let metric = RmseOfMeanMetric::new().with_target_scale(scale);
/// ```
pub type RmseOfMeanMetric = WholeSetMetric<RmseOfMean>;

/// The score of [`RmseOfMeanMetric`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RmseOfMean {
    observation: Observation,
    /// Of squared errors.
    sum: f64,
    count: usize,
}

with_target_scale!(RmseOfMeanMetric);

impl SetScore for RmseOfMean {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        Caption::new("RMSE", "Root mean squared error of the average prediction.")
    }

    fn add(&mut self, batch: &RegressionDraws) -> Result<(), TensorReadError> {
        self.sum += self.observation.score(batch, |targeted, _| {
            let means = targeted.mixture().mean();
            let errors = means.iter().zip(targeted.targets());
            let squares = errors.map(|(mean, target)| (mean - target).powi(2));
            Ok(squares.sum::<f64>())
        })?;
        self.count += batch.read()?.targets().len();
        Ok(())
    }

    fn value(&self) -> f64 {
        (self.sum / self.count as f64).sqrt()
    }
}

/// Metrics that are the mean of a score of the predictive distributions of a batch's rows: settings that are levels of
/// intervals, name, description, unit and direction, and the scores of the distributions with their number of columns.
macro_rules! distribution_row_metrics {
    ($($(#[$docs:meta])* $metric:ident of $score:ident($($level:ident)?): $name:expr,
        $description:literal, $unit:expr, $higher_is_better:literal,
        |$targeted:ident, $columns:pat_param| $scores:expr;)+) => {$(
        $(#[$docs])*
        pub type $metric = RowMeanMetric<$score>;

        #[doc = concat!("The score that [`", stringify!($metric), "`] averages.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $score {
            $($level: f64,)?
            observation: Observation,
        }

        impl $metric {
            /// The metric for this noise precision, on the scale of the targets that the model sees.
            ///
            /// # Panics
            ///
            /// If the precision is not finite and above zero, or a level not between 0 and 1.
            pub fn new($($level: f64,)? noise_precision: f64) -> Self {
                $(
                    let is_level = $level > 0.0 && $level < 1.0;
                    assert!(is_level, "level is {}; it must be between 0 and 1", $level);
                )?
                let observation = Observation::new(noise_precision);
                Self::of($score { $($level,)? observation })
            }
        }

        with_target_scale!($metric);

        impl RowScore for $score {
            type Input = RegressionDraws;

            fn caption(&self) -> Caption {
                let Self { $($level,)? .. } = self;
                let caption = Caption::new($name, $description);
                Caption { unit: $unit, higher_is_better: $higher_is_better, ..caption }
            }

            fn scores(&self, batch: &RegressionDraws) -> Result<Vec<f64>, TensorReadError> {
                let Self { $($level,)? observation } = *self;
                observation.score(batch, |$targeted, $columns| $scores)
            }
        }
    )+};
}

distribution_row_metrics! {
    /// The mean negative log-likelihood of an epoch's rows under the mixture of the draws:
    /// −ln (1/S) Σ_s Π_t N(y_t; f_st, 1/β), joint over the targets t of a row, by log-sum-exp.
    ///
    /// On the original scale it grows by the logarithm of the standard deviation of each target.
    ///
    /// ```
    /// use burn_bayes_eval::TargetScale;
    /// use burn_bayes::metric::MixtureNllMetric;
    ///
    /// // The model learned (y − 22.5)/9.2, with noise precision 10 on that scale.
    /// let scale = TargetScale { mean: 22.5, deviation: 9.2 };
    /// let metric = MixtureNllMetric::new(10.0).with_target_scale(scale);
    /// ```
    MixtureNllMetric of MixtureNll(): "Mixture NLL",
        "Negative log-likelihood of the mixture of the draws.", Some("nats"), false,
        |targeted, columns| {
            let densities = joint_log_densities(targeted, columns)?;
            Ok(densities.into_iter().map(|density| -density).collect())
        };

    /// The mean continuous ranked probability score of an epoch's rows, ∫ (F(x) − \[x ≥ y\])² dx: the absolute error of a
    /// whole distribution, in the unit of the target. The closed form for a mixture costs S² per row.
    CrpsMetric of Crps(): "CRPS",
        "Continuous ranked probability score of the mixture of the draws.", None, false,
        |targeted, _| Ok(crps_losses(targeted));

    /// The fraction of an epoch's targets inside their central prediction interval, on any scale of the targets.
    ///
    /// The interval at level ℓ leaves (1 − ℓ)/2 of the mixture's mass on either side; a calibrated model covers a fraction
    /// ℓ of the targets. Burn's metrics need a direction: higher coverage counts as better, because too low a coverage is
    /// the usual failure; a coverage above ℓ means that intervals are too wide.
    ///
    /// ```
    /// use burn_bayes::metric::IntervalCoverageMetric;
    ///
    /// let metric = IntervalCoverageMetric::new(0.95, 10.0); // near 0.95 is right
    /// ```
    IntervalCoverageMetric of IntervalCoverage(level): format!("Interval Coverage @ {level}"),
        "Fraction of targets inside the central prediction interval.", None, true,
        |targeted, _| {
            let intervals = PredictionIntervals::central(targeted.mixture(), level)?;
            let limits = intervals.lower().iter().zip(intervals.upper());
            let rows = limits.zip(targeted.targets());
            let is_covered = rows.map(|((lower, upper), target)| (lower..=upper).contains(&target));
            Ok(is_covered.map(|covered| f64::from(u8::from(covered))).collect())
        };

    /// The mean Winkler score of an epoch's targets.
    ///
    /// The interval \[l, u\] at level ℓ costs its width, and 2/(1−ℓ) times the distance of a target outside:
    /// u − l + 2/(1−ℓ) (max(l − y, 0) + max(y − u, 0)). It is a proper score of the two quantiles, so unlike the coverage
    /// it cannot be improved by intervals that are too wide.
    IntervalScoreMetric of IntervalScore(level): format!("Interval Score @ {level}"),
        "Width of the central prediction interval, and a penalty outside.", None, false,
        |targeted, _| {
            let intervals = PredictionIntervals::central(targeted.mixture(), level)?;
            winkler_scores(&intervals, targeted.targets(), level)
        };
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;
    use std::panic::catch_unwind;

    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::metric::testing::{assert_epoch, epoch, regression};

    fn scale(mean: f64, deviation: f64) -> TargetScale {
        TargetScale { mean, deviation }
    }

    #[test]
    fn the_root_is_taken_over_the_whole_epoch_in_the_unit_of_the_target() {
        // Errors of the mean: 1 and 2, then 4.
        let batches = [
            regression([[1.0, 2.0], [3.0, 4.0]], [1.0, 5.0]),
            regression([[0.0]], [4.0]),
        ];
        let metric = RmseOfMeanMetric::new();
        assert_epoch(metric.clone(), &batches, 7f64.sqrt(), 0);
        let original = metric.with_target_scale(scale(10.0, 2.0));
        assert_epoch(original, &batches, 28f64.sqrt(), 0);
    }

    #[test]
    fn likelihoods_average_by_rows_and_the_original_scale_adds_its_logarithm() {
        // Draws 1 away on either side (twice), then one draw 2 away.
        let batches = [
            regression([[-1.0, 4.0], [1.0, 6.0]], [0.0, 5.0]),
            regression([[3.0]], [1.0]),
        ];
        let metric = MixtureNllMetric::new(4.0);
        // ½ β e² + ½ ln(2π/β) with β = 4 and e² = 1, 1, 4.
        let expected = 2.0 * 6.0 / 3.0 + 0.5 * (PI / 2.0).ln();
        assert_epoch(metric.clone(), &batches, expected, 4);
        let expected = epoch(metric.clone(), &batches) + 10f64.ln();
        let original = metric.with_target_scale(scale(-3.0, 10.0));
        assert_epoch(original, &batches, expected, 4);
        // The targets of a row count together. The draws are off by (1, 2) and (0, 1): squares of 5 and 1.
        let device = Device::default();
        let outputs = Tensor::from_data([[[1.0, -2.0]], [[0.0, 1.0]]], &device);
        let draws = RegressionDraws::new(outputs, Tensor::from_data([[0.0, 0.0]], &device));
        let density = |squares: f64| 4.0 / (2.0 * PI) * (-2.0 * squares).exp();
        let expected = -(0.5 * (density(5.0) + density(1.0))).ln();
        assert_epoch(MixtureNllMetric::new(4.0), &[draws], expected, 4);
    }

    #[test]
    fn the_crps_of_a_gaussian_and_of_two_points_is_in_the_unit_of_the_target() {
        // A Gaussian scores σ(√2 − 1)/√π at its own mean; σ = 1/2 and, undone, 3/2.
        let batches = [
            regression([[1.0, 2.0]], [1.0, 2.0]),
            regression([[0.0], [0.0]], [0.0]),
        ];
        let expected = (2f64.sqrt() - 1.0) / PI.sqrt();
        let metric = CrpsMetric::new(4.0);
        assert_epoch(metric.clone(), &batches, 0.5 * expected, 4);
        let original = metric.with_target_scale(scale(7.0, 3.0));
        assert_epoch(original, &batches, 1.5 * expected, 4);
        // Noise of 10⁻⁴ vanishes: (1 + 3)/2 − ½ · 2 for the points 0 and 4 and the target 1.
        let batch = regression([[0.0], [4.0]], [1.0]);
        let value = epoch(CrpsMetric::new(1e8), &[batch]);
        assert!((value - 1.0).abs() < 1e-4);
    }

    #[test]
    fn coverage_averages_by_rows_and_disagreement_widens_intervals() {
        // σ = 1/2: 95 % lie within 0.98.
        let batches = [
            regression([[0.0, 0.0, 0.0]], [0.97, -0.99, 0.0]),
            regression([[5.0]], [4.0]),
        ];
        assert_epoch(IntervalCoverageMetric::new(0.95, 4.0), &batches, 0.5, 0);
        let batch = regression([[-3.0], [3.0]], [2.9]);
        assert_epoch(IntervalCoverageMetric::new(0.5, 4.0), &[batch], 1.0, 0);
    }

    #[test]
    fn interval_scores_average_by_rows_in_the_unit_of_the_target() {
        // The quantile of the standard normal at 95 %.
        const QUANTILE: f64 = 1.644_853_626_951_472_7;
        let batches = [
            regression([[0.0, 0.0]], [0.0, 0.0]),
            regression([[5.0]], [6.0]),
        ];
        // σ = ½ and level 90 %: both targets at 0 and one at 1 above the mean.
        let half = 0.5 * QUANTILE;
        let expected = 2.0 * half + 20.0 * (1.0 - half) / 3.0;
        let metric = IntervalScoreMetric::new(0.9, 4.0);
        let original = metric.clone().with_target_scale(scale(-2.0, 3.0));
        for (metric, expected) in [(metric, expected), (original, 3.0 * expected)] {
            let value = epoch(metric, &batches);
            // The quantiles of a mixture are found by bisection.
            assert!((value - expected).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let cases: [(fn(), &str); 4] = [
            (|| drop(IntervalCoverageMetric::new(1.0, 1.0)), "level is 1"),
            (|| drop(IntervalScoreMetric::new(0.0, 1.0)), "level is 0"),
            (|| drop(MixtureNllMetric::new(0.0)), "noise_precision is 0"),
            (
                || drop(MixtureNllMetric::new(1.0).with_target_scale(scale(0.0, 0.0))),
                "the targets' scale",
            ),
        ];
        for (build, message) in cases {
            let panic = catch_unwind(build).expect_err(message);
            let text = panic.downcast_ref::<String>().expect("a formatted message");
            assert!(text.contains(message), "{text}");
        }
    }
}
