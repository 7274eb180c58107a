//! The settings of VIFA, and its state at the beginning.

use std::sync::Arc;

use burn::config::Config;
use burn::module::Module;

use super::VifaState;
use crate::error::{Error, Result};
use crate::kernels::FactorUnits;
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::methods::checks::{counts, positive};
use crate::methods::method_config::LearningRates;
use crate::methods::method_state::{StagedConfig, Start};
use crate::methods::setup::purpose;
use crate::methods::start::{InitialDeviation, orthogonal_rows, trained};

/// Settings of VIFA.
///
/// ```
/// use burn_bayes::memory::OptimizerMemory;
/// use burn_bayes::{BayesianConfig, VifaConfig};
///
/// let config = BayesianConfig::new(60_000, VifaConfig::new().with_rank(8)).with_draws(4);
/// println!("{}", config.memory(478_410, OptimizerMemory::Adam));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VifaConfig {
    /// K, the number of low-rank factors; 0 is mean-field. Paper: 1.
    #[config(default = 1)]
    pub rank: usize,
    /// Number of mini-batches whose gradients are added before a step; set it to the Learner's
    /// `grads_accumulation`. Each gradient is divided by this number, so that the sum is an
    /// average. Paper: L.
    #[config(default = 1)]
    pub accumulation: usize,
    /// Norm to which each of the three gradients is clipped. Paper: 10; none by default, because
    /// clipping biases the covariance. Cannot be combined with `accumulation`: clip in the
    /// optimiser instead.
    pub clip_norm: Option<f64>,
    /// The initial ψ^½. Paper: 1.
    #[config(default = "InitialDeviation::FanInScaled(0.03)")]
    pub initial_deviation: InitialDeviation,
    /// The units of the factors. Paper: those of the weights.
    #[config(default = "FactorUnits::Deviations")]
    pub factor_units: FactorUnits,
    /// The initial norm of each row of factors; the rows are orthogonal. Paper: 1.
    #[config(default = 0.1)]
    pub factor_scale: f64,
}

impl VifaConfig {
    /// The settings of the VIFA paper's synthetic experiments (4.1), whose mean begins at zero: unit scales, clipping at
    /// 10, factors in the units of the weights. With several mini-batches per step, clip in the optimiser instead.
    pub fn paper() -> Self {
        Self::new()
            .with_initial_deviation(InitialDeviation::Constant(1.0))
            .with_factor_scale(1.0)
            .with_clip_norm(Some(10.0))
            .with_factor_units(FactorUnits::Weights)
    }

    /// Variational approximation with factor covariance (Ong, Nott and Smith 2018): the same
    /// objective at rank `rank`, with small initial scales; train it with Adam.
    pub fn vafc(rank: usize) -> Self {
        Self::new()
            .with_rank(rank)
            .with_initial_deviation(InitialDeviation::Constant(0.01))
            .with_factor_scale(0.01)
            .with_factor_units(FactorUnits::Weights)
    }
}

impl StagedConfig for VifaConfig {
    type State = VifaState;

    const DRAWS: usize = 2;

    fn learning_rates(&self) -> LearningRates {
        // Noise that moves the factors of thousands of weights costs more than slow factors do.
        let rates = LearningRates::PLAIN.with_covariance(0.003, 0.005);
        rates.with_decay(0.2)
    }

    fn validate(&self) -> Result<()> {
        positive("initial_deviation", self.initial_deviation.scale())?;
        if self.rank > 0 {
            positive("factor_scale", self.factor_scale)?;
        }
        positive("clip_norm", self.clip_norm.unwrap_or(1.0))?;
        counts([("accumulation", self.accumulation)])?;
        if self.clip_norm.is_some() && self.accumulation > 1 {
            let problem = "would clip the gradient of each mini-batch instead of their sum; omit \
                           it and clip in the optimiser, which clips after accumulation";
            return Err(Error::config("clip_norm", problem));
        }
        Ok(())
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<VifaState> {
        let setup = start.setup;
        let layout = &setup.layout;
        setup.check_rank(self.rank)?;
        let device = start.mean.device();
        let log_variance = self.initial_deviation.log_variance(layout, &device);
        let noise = setup.noise.fold(purpose::INITIAL_FACTORS);
        let factors = orthogonal_rows(self.rank, layout.len(), noise, &device)?
            .map(|rows| rows.mul_scalar(self.factor_scale));
        Ok(VifaState {
            factors: factors.map(trained),
            log_variance: trained(log_variance),
            scratch: Arc::default(),
            config: self.clone(),
        })
    }

    fn memory(&self, weights: usize, draws: usize, optimizer: OptimizerMemory) -> MemoryPlan {
        MemoryPlan::gaussian(weights, self.rank, draws, optimizer)
    }

    fn averaged(&self) -> usize {
        2 + self.rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BayesianConfig;

    #[test]
    fn refused_settings_name_their_field() {
        let base = VifaConfig::new();
        let cases = [
            (base.clone().with_accumulation(0), "accumulation"),
            (base.clone().with_clip_norm(Some(0.0)), "clip_norm"),
            (VifaConfig::paper().with_accumulation(10), "clip_norm"),
            (base.clone().with_factor_scale(f64::NAN), "factor_scale"),
            (
                base.with_initial_deviation(InitialDeviation::Constant(0.0)),
                "initial_deviation",
            ),
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
