//! Online factor analysis of the iterates of ordinary training.
//!
//! After step `start`, every `interval` steps, with t counting the iterates taken:
//!
//! * d = θ − θ̄ and the variances v, as in [SWAG](burn_bayes::methods::Swag);
//! * B = F ψ⁻¹ Fᵀ,  Σ = (I + B)⁻¹,  m = Σ F ψ⁻¹ d;
//! * X = (1 − 1/t) F + m dᵀ/t,  H = (1 − 1/t) I + (Σ + m mᵀ)/t = L Lᵀ;
//! * F ← L⁻¹ X,  ψ ← v − Σₖ Fₖ².
//!
//! The posterior is N(θ̄, FᵀF + diag ψ). Its marginal variances are v, those of the iterates.
//!
//! This is expectation-maximisation with parameter expansion (Liu, Rubin and Wu 1998): the covariance H of the latent
//! variables is free in the M step, and its Cholesky factor is multiplied into the loadings. The thesis's step,
//! F = H⁻¹X with statistics of their own, converges slowly if the noise is small.
//!
//! The first K + 1 iterates have a covariance of rank K at most. Its factors are the deviations themselves, and half
//! of it is given to F and half to ψ, as in SWAG. From there F learns; nothing is random.
//!
//! | symbol | field |
//! |---|---|
//! | θ̄ | `mean` |
//! | v | `variance` |
//! | F | `factors` |
//! | ψ | `residual` |
//! | t | computed from the step number |

mod estimate;
mod gradient;
mod latent;
mod online;

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes::algebra::{AlgebraError, Cholesky, SquareMatrix};
use burn_bayes::kernels::{
    self, CovarianceParts, Diagonal, FactorUnits, Moments, at_least, statistics,
};
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::checks::counts;
use burn_bayes::methods::{
    Algorithm, BayesianConfig, FromIterates, IterateSchedule, Iterates, LearningRates,
    MethodConfig, Setup, buffer, updated,
};
use burn_bayes::posterior::FactorPosterior;
use burn_bayes::{Error, Result};

use self::latent::{Latent, blend};

pub use estimate::FactorEstimate;
pub use latent::FactorRule;
pub use online::OnlineFactorAnalysis;

/// The smallest ψ, as a fraction of the weight's variance.
const FLOOR: f32 = 1e-6;
/// The part of the first covariance that the factors get.
const START_SHARE: f64 = 0.5;

/// Settings of online factor analysis.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes_contrib::methods::FactorAnalysisConfig;
///
/// // A hundred iterates: after steps 100, 101, … 199 of a training of 199 steps.
/// let config = BayesianConfig::new(60_000, FactorAnalysisConfig::new().with_start(Some(100)).with_rank(5));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct FactorAnalysisConfig {
    /// The first optimiser step (from 1) whose weights are taken; by default that after three quarters of the training. The
    /// loss should have levelled off there.
    pub start: Option<u64>,
    /// Steps between two iterates; by default for about 400 of them. Paper: 1.
    pub interval: Option<u64>,
    /// K, the number of factors; at most the number of weights. Paper: 10.
    #[config(default = 10)]
    pub rank: usize,
}

/// The approximate number of iterates. The factors change with every one, at a cost of K²D.
const ITERATES: u64 = 400;

impl FactorAnalysisConfig {
    /// The iterates of a training of this number of steps.
    ///
    /// # Errors
    ///
    /// Those of [`IterateSchedule::new`].
    #[doc(hidden)]
    pub fn schedule(&self, steps: Option<u64>) -> Result<IterateSchedule> {
        IterateSchedule::new(self.start, self.interval, steps, ITERATES)
    }
}

impl MethodConfig for FactorAnalysisConfig {
    type Algorithm = FactorAnalysis;

    const USES: &'static [&'static str] = &[];

    fn learning_rates(&self) -> LearningRates {
        LearningRates::ITERATES
    }

    fn validate(BayesianConfig { method, steps, .. }: &BayesianConfig<Self>) -> Result<()> {
        method.schedule(*steps)?;
        counts([("rank", method.rank)])
    }

    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan {
        let rank = config.method.rank.min(weights);
        let mut plan = MemoryPlan::iterates(weights, 3 + rank, optimizer);
        // A step that takes an iterate holds the old rows with the deviation, and the new ones.
        plan.scratch += (2 + 2 * rank) * weights * size_of::<f32>();
        plan
    }

    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<FactorAnalysis> {
        let setup = Setup::of(config, model)?;
        let weights = setup.layout.flatten(model)?;
        let len = setup.layout.len();
        let rows = Tensor::zeros([config.method.rank.min(len), len], &weights.device());
        Ok(FactorAnalysis {
            variance: buffer(weights.zeros_like()),
            residual: buffer(weights.zeros_like()),
            mean: buffer(weights),
            factors: buffer(rows),
            settings: Arc::new(Settings {
                schedule: config.method.schedule(config.steps)?,
                config: config.method.clone(),
                setup,
            }),
        })
    }
}

/// The state of online factor analysis.
#[derive(Module, Debug)]
pub struct FactorAnalysis {
    mean: Param<Tensor<1>>,
    variance: Param<Tensor<1>>,
    residual: Param<Tensor<1>>,
    factors: Param<Tensor<2>>,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: FactorAnalysisConfig,
    schedule: IterateSchedule,
    setup: Setup,
}

impl FactorAnalysis {
    /// The configuration.
    pub fn config(&self) -> &FactorAnalysisConfig {
        &self.settings.config
    }

    fn schedule(&self) -> IterateSchedule {
        self.settings.schedule
    }

    /// The first covariance's part that is ψ.
    fn start_residual(variance: Tensor<1>) -> Tensor<1> {
        let residual = variance.mul_scalar(1.0 - START_SHARE);
        at_least(residual, f32::MIN_POSITIVE)
    }
}

/// The error of an analysis that cannot go on.
fn failed(reason: impl Display) -> Error {
    Error::numerical(format!(
        "factor analysis failed at an iterate: {reason}; likely causes: weights that diverge, or that differ in size by \
         more than single precision can hold; lower the learning rate or start later"
    ))
}

impl Algorithm for FactorAnalysis {
    type Signal = Iterates;
    type Posterior = FactorPosterior;
    type ClosedForm = Infallible;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn perturbs_weights(&self) -> bool {
        false
    }

    fn freezes_statistics(&self, step: u64) -> bool {
        step >= self.schedule().start
    }

    fn posterior(&self, step: u64) -> Result<FactorPosterior> {
        let taken = self.schedule().enough("factor analysis", step)?;
        let mean = self.mean.val().without_autodiff();
        let mut factors = self.factors.val().without_autodiff();
        if !factors.clone().is_finite().all().into_scalar::<bool>() {
            return Err(failed("the factors are not finite"));
        }
        let mut residual = self.residual.val().without_autodiff();
        let [rank, len] = factors.dims();
        let deviations = usize::try_from(taken - 1).unwrap_or(usize::MAX);
        if deviations < rank {
            let kept = factors.slice([0..deviations, 0..len]);
            factors = kept.mul_scalar(START_SHARE.sqrt());
            residual = Self::start_residual(self.variance.val().without_autodiff());
        }
        FactorPosterior::covariance(self.setup().layout.clone(), mean, Some(factors), residual)
    }

    fn apply_step(self, update: Infallible, _learning_rate: f64) -> Self {
        match update {}
    }
}

impl FromIterates for FactorAnalysis {
    fn wants(&self, step: u64) -> bool {
        self.schedule().takes(step)
    }

    fn observe(mut self, step: u64, weights: Tensor<1>) -> Self {
        let taken = self.schedule().taken(step) as usize;
        let moments = Moments {
            mean: self.mean.val().without_autodiff(),
            variance: self.variance.val().without_autodiff(),
        };
        // A sharded optimiser moves parameters between devices, but not buffers.
        let weights = weights.to_device(&moments.mean.device());
        let (moments, deviation) = kernels::running_moments(moments, &weights, taken);
        let rows = self.factors.val().without_autodiff();
        let [rank, _] = rows.dims();
        let (rows, residual) = if taken <= rank + 1 {
            let rows = started(rows, deviation, taken);
            (rows, Self::start_residual(moments.variance.clone()))
        } else {
            // A weight that has not moved before has no ψ yet, by which its deviation could be divided.
            let smallest = moments.variance.clone().mul_scalar(FLOOR);
            let residual = self.residual.val().without_autodiff();
            let gaussian = CovarianceParts {
                mean: moments.mean.clone(),
                factors: Some(rows.clone()),
                units: FactorUnits::Weights,
                diagonal: Diagonal::Variance(residual.max_pair(smallest.clone())),
            };
            let rows = learned(&gaussian, &rows, deviation, taken).unwrap_or_else(|error| {
                log::error!("{}", failed(error));
                // It ends with the state that a record can keep: no posterior, whatever follows.
                rows.full_like(f32::NAN)
            });
            let shared = statistics::column_dot(rows.clone(), rows.clone());
            // The first of both is not a number if the second is not.
            let residual = (moments.variance.clone() - shared).max_pair(smallest);
            (rows, at_least(residual, f32::MIN_POSITIVE))
        };
        self.factors = updated(self.factors, |_| rows);
        self.residual = updated(self.residual, |_| residual);
        self.mean = updated(self.mean, |_| moments.mean);
        self.variance = updated(self.variance, |_| moments.variance);
        self
    }
}

/// The rows after iterate number `taken` of the first K + 1: RᵀR is the covariance of the iterates. After the last
/// of them they are the factors.
fn started(rows: Tensor<2>, deviation: Tensor<1>, taken: usize) -> Tensor<2> {
    let [rank, len] = rows.dims();
    let Some(row) = taken.checked_sub(2) else {
        return rows.zeros_like();
    };
    let before = (taken - 1) as f64;
    let rows = rows.mul_scalar((before / taken as f64).sqrt());
    let deviation = deviation.mul_scalar(before.sqrt().recip()).unsqueeze();
    let rows = rows.slice_assign([row..row + 1, 0..len], deviation);
    if row + 1 == rank {
        rows.mul_scalar(START_SHARE.sqrt())
    } else {
        rows
    }
}

/// L⁻¹ X, with X and H = L Lᵀ after iterate number `taken`.
fn learned(
    gaussian: &CovarianceParts,
    rows: &Tensor<2>,
    deviation: Tensor<1>,
    taken: usize,
) -> std::result::Result<Tensor<2>, AlgebraError> {
    let [rank, _] = rows.dims();
    let gram = SquareMatrix::from_row_major(rank, kernels::gram(gaussian))?;
    let scaled = deviation.clone() / gaussian.diagonal.variance();
    let latent = Latent::unit(&gram, &statistics::project(rows, &scaled))?;
    let share = 1.0 / taken as f64;
    let identity = SquareMatrix::identity(rank);
    let moment = blend(share, &identity, &latent.second_moment());
    let inverse = Cholesky::with_floor(&moment)?.inverse_lower();
    let weights = inverse.multiply_vector(&latent.mean)?;
    // [(1 − 1/t) L⁻¹, L⁻¹m/t] times the rows and the deviation: one product of matrices.
    let coefficients = (0..rank).flat_map(|k| {
        let row = inverse.row(k).iter().map(|entry| (1.0 - share) * entry);
        row.chain([share * weights[k]])
    });
    let coefficients: Vec<f64> = coefficients.collect();
    let rows = Tensor::cat(vec![rows.clone(), deviation.unsqueeze()], 0);
    Ok(kernels::mix(&rows, &coefficients, rank))
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;
    use burn_bayes::kernels::to_host;

    use super::*;

    fn analysis(inputs: usize, start: u64, rank: usize) -> FactorAnalysis {
        let layer = LinearConfig::new(inputs, 1)
            .with_bias(false)
            .init(&Device::default().autodiff());
        let config = BayesianConfig::new(
            10,
            FactorAnalysisConfig::new()
                .with_start(Some(start))
                .with_rank(rank),
        );
        config.build(&layer).unwrap()
    }

    #[test]
    fn it_is_the_analysis_of_slices() {
        const LEN: usize = 7;
        let device = Device::default();
        let mut found = analysis(LEN, 1, 2);
        // ψ of the slices is recomputed after every K vectors: for K = 1 after every one.
        let mut one = analysis(LEN, 1, 1);
        let rule = FactorRule::ParameterExpansion;
        let mut expected = OnlineFactorAnalysis::new(LEN, 1, rule).unwrap();
        for step in 1..=200_u64 {
            let latent = (step as f32 * 0.7).sin();
            let entry = |at: usize| {
                let noise = (step as f32 * (1.3 + at as f32)).cos();
                1.0 + latent * (at as f32 - 2.0) + 0.5 * noise
            };
            let vector: Vec<f32> = (0..LEN).map(entry).collect();
            expected.observe(&vector).unwrap();
            let tensor = Tensor::<1>::from_floats(vector.as_slice(), &device);
            one = one.observe(step, tensor.clone());
            found = found.observe(step, tensor);
            if step > 1 {
                let estimate = expected.estimate().unwrap();
                let posterior = one.posterior(step).unwrap();
                let pairs = [
                    (to_host(posterior.mean()), &estimate.mean),
                    (to_host(posterior.factors().unwrap()), &estimate.factors),
                    (to_host(posterior.diagonal()), &estimate.variance),
                ];
                for (found, expected) in pairs {
                    for (found, expected) in found.iter().zip(expected) {
                        let error = (found - expected).abs();
                        assert!(
                            error < 1e-4 * (1.0 + expected.abs()),
                            "step {step}: {error}"
                        );
                    }
                }
            }
        }
        assert_eq!(found.posterior(200).unwrap().rank(), 2);
    }

    #[test]
    fn few_iterates_have_few_factors_and_none_is_an_error() {
        let device = Device::default();
        let mut analysis = analysis(5, 3, 4);
        let wanted: Vec<u64> = (1..=5).filter(|&step| analysis.wants(step)).collect();
        assert_eq!(wanted, [3, 4, 5]);
        for (step, value) in [(3, 1.0), (4, 3.0), (5, 8.0)] {
            analysis = analysis.observe(step, Tensor::full([5], value, &device));
        }
        let error = analysis.posterior(3).unwrap_err();
        assert!(
            error.is_too_early() && error.to_string().contains("start"),
            "{error}"
        );
        let posterior = analysis.posterior(5).unwrap();
        assert_eq!(posterior.rank(), 2);
        // Mean 4, variance (9 + 1 + 16)/3; half of the covariance is in the factors.
        let variance = 26.0 / 3.0;
        let dense = posterior.to_dense().unwrap();
        assert!((dense.mean()[0] - 4.0).abs() < 1e-5);
        assert!((dense.covariance().get(0, 0) - variance).abs() < 1e-4);
        assert!((dense.covariance().get(0, 1) - 0.5 * variance).abs() < 1e-4);
    }

    #[test]
    fn a_weight_that_moves_late_is_learned() {
        let device = Device::default();
        let mut found = analysis(3, 1, 1);
        let mut expected = OnlineFactorAnalysis::new(3, 1, FactorRule::ParameterExpansion).unwrap();
        for step in 1..=400_u32 {
            let wave = (0.7 * step as f32).sin();
            let late = if step > 3 { 1e3 * wave } else { 0.0 };
            let vector = [wave, late, 0.1 * (1.9 * step as f32).sin()];
            expected.observe(&vector).unwrap();
            found = found.observe(step.into(), Tensor::from_floats(vector, &device));
        }
        let dense = found.posterior(400).unwrap().to_dense().unwrap();
        let correlation = dense.covariance().get(0, 1)
            / (dense.covariance().get(0, 0) * dense.covariance().get(1, 1)).sqrt();
        // Its factor is learned from the fourth iterate on, the part of the first iterates fades slowly.
        assert!(correlation > 0.7, "{correlation}");
        assert!(expected.estimate().is_ok());
    }

    #[test]
    fn an_iterate_that_cannot_be_analysed_is_an_error_from_then_on() {
        let device = Device::default();
        let mut analysis = analysis(3, 1, 1);
        for step in 1..=9_u32 {
            let wave = (0.7 * step as f32).sin();
            let bad = if step == 6 { f32::INFINITY } else { 0.5 * wave };
            let weights = Tensor::from_floats([wave, bad, 1.0 - wave], &device);
            analysis = analysis.observe(step.into(), weights);
            let posterior = analysis.posterior(step.into());
            match step {
                1 => assert!(posterior.unwrap_err().is_too_early()),
                2..=5 => assert!(posterior.is_ok()),
                _ => {
                    let error = posterior.unwrap_err();
                    let message = error.to_string();
                    assert!(
                        error.is_numerical() && message.contains("factor analysis"),
                        "{message}"
                    );
                }
            }
        }
    }

    #[test]
    fn refused_settings_name_their_field() {
        let base = FactorAnalysisConfig::new().with_start(Some(1));
        let cases = [
            (FactorAnalysisConfig::new().with_start(Some(0)), "start"),
            (base.clone().with_interval(Some(0)), "interval"),
            (base.with_rank(0), "rank"),
        ];
        for (method, field) in cases {
            let error = BayesianConfig::new(10, method).validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }
}
