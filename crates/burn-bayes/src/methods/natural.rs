//! Natural-gradient updates, shared by several algorithms: a Gaussian N(μ, (UᵀU + diag d)⁻¹), whose
//! mean is updated by μ⁺ = μ − η (P⁺)⁻¹ ĝ with the new precision P⁺ = U⁺ᵀU⁺ + diag d⁺ and
//! ĝ = N g + α⊙μ.
//!
//! **Safeguards.** A step that is not finite is rejected and changes nothing. A step whose length
//! √(Δᵀ P⁺ Δ / D), in posterior standard deviations per weight, exceeds `radius` is shortened to
//! `radius`.
//!
//! | symbol | here |
//! |---|---|
//! | μ, U, d | `mean`, `factors`, `precision` |
//! | v, the momentum average of the steps | `velocity` |
//! | ĝᵀ(P⁺)⁻¹ĝ | `decrement` |

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use super::algorithm::Update;
use super::checks::counts;
use super::rate::Rate;
use super::start::{InitialDeviation, InitialMean, buffer, updated};
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::{Error, Result};
use crate::kernels::statistics::PrecisionParts;
use crate::kernels::{self, MeanStep, MeanValues, PrecisionUpdate};
use crate::posterior::FactorPosterior;
use crate::prior::PriorPrecisions;

/// A Gaussian in precision form, updated by natural gradients.
#[derive(Module, Debug)]
pub(crate) struct NaturalGaussian {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    precision: Param<Tensor<1>>,
    velocity: Option<Param<Tensor<1>>>,
}

/// A natural-gradient step, before the learning rate is applied.
#[derive(Clone, Debug)]
pub struct NaturalStep {
    /// ĝ.
    gradient: Tensor<1>,
    /// U⁺.
    factors: Option<Tensor<2>>,
    /// d⁺.
    precision: Tensor<1>,
    /// (I + U⁺ d⁺⁻¹ U⁺ᵀ)⁻¹ U⁺ (ĝ/d⁺).
    weights: Vec<f64>,
    /// ĝᵀ(P⁺)⁻¹ĝ.
    decrement: f64,
}

impl NaturalStep {
    /// The step to an updated precision. Fails if any number is not finite.
    pub(crate) fn new(update: PrecisionUpdate) -> Result<Self> {
        let rank = update.projection.len();
        let inner = SquareMatrix::from_row_major(rank, update.scaled_gram)
            .and_then(|gram| IdentityPlus::new(&gram))
            .map_err(Error::from)?;
        let solved = inner.inverse().multiply_vector(&update.projection);
        let weights = solved.map_err(Error::from)?;
        let products = weights.iter().zip(&update.projection);
        let explained: f64 = products.map(|(weight, product)| weight * product).sum();
        let decrement = update.squared_norm - explained;
        if !(decrement + update.precision_sum).is_finite() {
            let problem = "a natural gradient or a precision is not finite";
            return Err(Error::numerical(problem));
        }
        Ok(Self {
            gradient: update.gradient,
            factors: update.factors,
            precision: update.precision,
            weights,
            decrement: decrement.max(0.0),
        })
    }

    /// The step as an algorithm's update; a step that is not finite is rejected with `reason`.
    pub(crate) fn update(
        step: Result<Self>,
        reason: impl FnOnce() -> Error,
    ) -> Result<Update<Self>> {
        match step {
            Ok(step) => Ok(Update::ClosedForm(step)),
            Err(error) if error.is_numerical() => Ok(Update::Rejected(reason())),
            Err(error) => Err(error),
        }
    }

    /// The step to a precision without factors.
    pub(crate) fn diagonal(gradient: Tensor<1>, precision: Tensor<1>) -> Result<Self> {
        let square = gradient.clone().square() / precision.clone();
        let sums = [square, precision.clone()].map(Tensor::sum).to_vec();
        let sums: Vec<f64> = Tensor::cat(sums, 0).into_data().iter::<f64>().collect();
        Self::new(PrecisionUpdate {
            factors: None,
            precision,
            gradient,
            scaled_gram: Vec::new(),
            projection: Vec::new(),
            squared_norm: sums[0],
            precision_sum: sums[1],
        })
    }
}

/// The parameters of a step of the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Motion {
    pub(crate) learning_rate: f64,
    pub(crate) momentum: f64,
    pub(crate) radius: f64,
}

impl NaturalGaussian {
    pub(crate) fn parts(&self) -> PrecisionParts {
        PrecisionParts {
            mean: self.mean.val().without_autodiff(),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.val().without_autodiff()),
            precision: self.precision.val().without_autodiff(),
        }
    }

    pub(crate) fn posterior(&self, layout: Arc<Layout>) -> Result<FactorPosterior> {
        let PrecisionParts {
            mean,
            factors,
            precision,
        } = self.parts();
        FactorPosterior::precision(layout, mean, factors, precision)
    }

    /// Applies a step.
    pub(crate) fn apply_step(mut self, step: NaturalStep, motion: Motion) -> Self {
        let NaturalStep {
            gradient,
            factors,
            precision,
            weights,
            decrement,
        } = step;
        let [len] = gradient.dims();
        let reach = motion.learning_rate * (decrement / len as f64).sqrt();
        let velocity = self.velocity.as_ref().map(Param::val);
        let MeanValues { mean, velocity } = kernels::mean_step(
            PrecisionParts {
                mean: self.mean.val().without_autodiff(),
                factors: factors.clone(),
                precision: precision.clone(),
            },
            velocity.map(Tensor::without_autodiff),
            gradient,
            MeanStep {
                weights: &weights,
                scale: (motion.radius / reach).min(1.0),
                momentum: motion.momentum,
                learning_rate: motion.learning_rate,
            },
        );
        self.mean = updated(self.mean, |_| mean);
        self.precision = updated(self.precision, |_| precision);
        self.factors = replaced(self.factors, factors);
        self.velocity = replaced(self.velocity, velocity);
        self
    }
}

fn replaced<const R: usize>(
    buffer: Option<Param<Tensor<R>>>,
    value: Option<Tensor<R>>,
) -> Option<Param<Tensor<R>>> {
    match (buffer, value) {
        (Some(buffer), Some(value)) => Some(updated(buffer, |_| value)),
        (buffer, _) => buffer,
    }
}

/// The settings common to these algorithms.
pub(crate) struct NaturalSettings {
    pub(crate) train_len: usize,
    pub(crate) draws: usize,
    pub(crate) precision_rate: Rate,
    pub(crate) momentum: f64,
    pub(crate) radius: f64,
    pub(crate) initial_mean: InitialMean,
    pub(crate) initial_deviation: Option<InitialDeviation>,
}

impl NaturalSettings {
    /// Checks the settings. The error names the field.
    pub(crate) fn validate(&self) -> Result<()> {
        counts([("train_len", self.train_len), ("draws", self.draws)])?;
        self.precision_rate.validate("precision_rate")?;
        fraction("momentum", self.momentum)?;
        let deviation = self.initial_deviation.map(InitialDeviation::scale);
        for (field, value) in [
            ("radius", self.radius),
            ("initial_deviation", deviation.unwrap_or(1.0)),
        ] {
            if value.is_nan() || value <= 0.0 {
                let problem = format!("is {value}; it must be above zero");
                return Err(Error::config(field, problem));
            }
        }
        Ok(())
    }

    /// The parameters of a step of the mean at this learning rate.
    pub(crate) fn motion(&self, learning_rate: f64) -> Motion {
        Motion {
            learning_rate,
            momentum: self.momentum,
            radius: self.radius,
        }
    }

    /// The initial Gaussian: zero factors, and the prior's precision unless a deviation is set.
    pub(crate) fn start<M: Module>(
        &self,
        model: &M,
        layout: &Layout,
        prior: &PriorPrecisions,
        rank: usize,
    ) -> Result<NaturalGaussian> {
        let weights = layout.flatten(model)?;
        let device = weights.device();
        let mean = self.initial_mean.of(weights);
        let precision = match self.initial_deviation {
            Some(deviation) => deviation.log_variance(layout, &device).neg().exp(),
            None => prior.expanded(&device),
        };
        let velocity = (self.momentum > 0.0).then(|| buffer(mean.zeros_like()));
        Ok(NaturalGaussian {
            factors: (rank > 0).then(|| buffer(Tensor::zeros([rank, layout.len()], &device))),
            mean: buffer(mean),
            precision: buffer(precision),
            velocity,
        })
    }
}

/// Refuses a setting that is not in [0, 1).
pub(crate) fn fraction(field: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(
        field,
        format!("is {value}; it must be from 0 to below 1"),
    ))
}
