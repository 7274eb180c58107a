//! VIFA on a linear model: as the VIFA paper trains it, and as we would.

use burn::grad_clipping::GradientClippingConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::train::Interrupter;
use burn_bayes::methods::Rate;
use burn_bayes::methods::{Averaging, FactorUnits, InitialDeviation, MeanStage};
use burn_bayes::posterior::DenseGaussian;
use burn_bayes::prelude::*;
use burn_bayes::train::{RateSchedule, Trainer, VifaPart};
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::settings::DeviceName;

use super::linear_model::{Likelihood, LinearModel, Rows};
use super::stream::Stream;

/// All that a training depends on beside its data and the model.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct VifaFit {
    pub(crate) rank: usize,
    pub(crate) batch: usize,
    pub(crate) epochs: u64,
    pub(crate) recipe: Recipe,
    pub(crate) seed: u64,
}

/// How a training proceeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Recipe {
    /// The VIFA paper's: a draw for each of ten batches, whose gradients make one step of gradient
    /// descent, each of the three clipped at norm 10; constant rates; the last iterate counts.
    Paper {
        /// Rates of the mean, the factors and the log-variances.
        rates: [f64; 3],
    },
    /// Ours: an antithetic pair of draws and a step of Adam for every batch, a decaying rate and
    /// nothing clipped; the average of the second half of the steps counts.
    Ours {
        /// The rate at the start.
        rate: f64,
    },
}

/// Batches whose gradients make one of the paper's steps.
const PAPER_ACCUMULATION: usize = 10;
/// Norm at which the paper clips each gradient.
const PAPER_CLIP: f32 = 10.0;
/// Our rate has fallen by 2^−power after this share of the steps.
const DECAY_SHARE: f64 = 0.05;
const DECAY_POWER: f64 = 0.75;

impl VifaFit {
    /// The posterior of a linear model's weights under a prior of this precision.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used, or a training that leaves the finite numbers.
    pub(crate) fn posterior(
        &self,
        rows: &Rows,
        prior: f64,
        likelihood: Likelihood,
    ) -> Result<DenseGaussian> {
        let device = DeviceName::host()?.autodiff();
        let steps = rows.batches_in(self.epochs, self.batch) / self.recipe.accumulation() as u64;
        let model = LinearModel::new(rows.width, likelihood, &device);
        let bayes = self
            .config(rows, prior, steps)
            .try_init(model)?
            .with_interrupter(Interrupter::new());
        let accumulation = self.recipe.accumulation();
        let stream = Stream {
            steps: steps as usize * accumulation,
            batches: || rows.batches(self.batch, self.seed, &device),
        };
        let (optimizer, rates) = (self.recipe.optimizer(), self.recipe.rates(steps)?);
        let trainer = Trainer::new(bayes, optimizer, rates).with_accumulation(accumulation);
        // All epochs are one stream.
        let trainer = trainer.without_row_check();
        let bayes = trainer.run(&stream, &mut ())?.trainer.into_model();
        Ok(bayes.try_posterior()?.to_dense()?)
    }

    fn config(&self, rows: &Rows, prior: f64, steps: u64) -> BayesianConfig<VifaConfig> {
        let rank = self.rank.min(rows.width);
        match self.recipe {
            // The optimiser clips what the batches add up to; `clip` would clip each batch's share.
            Recipe::Paper { .. } => BayesianConfig::paper(
                rows.len(),
                VifaConfig::paper()
                    .with_rank(rank)
                    .with_clip_norm(None)
                    .with_accumulation(self.recipe.accumulation()),
            )
            .with_zero_mean(),
            Recipe::Ours { .. } => BayesianConfig::new(
                rows.len(),
                VifaConfig::new()
                    .with_rank(rank)
                    .with_initial_deviation(InitialDeviation::Constant(0.1))
                    .with_factor_units(FactorUnits::Weights)
                    .with_factor_scale(0.01),
            )
            .with_zero_mean()
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::From(steps / 2)),
        }
        .with_prior(Prior::isotropic(prior))
        .with_seed(self.seed)
    }
}

impl Recipe {
    fn accumulation(self) -> usize {
        match self {
            Self::Paper { .. } => PAPER_ACCUMULATION,
            Self::Ours { .. } => 1,
        }
    }

    fn optimizer(self) -> ModuleOptimizer {
        match self {
            Self::Paper { .. } => SgdConfig::new()
                .with_gradient_clipping(Some(GradientClippingConfig::Norm(PAPER_CLIP)))
                .init(),
            Self::Ours { .. } => FusedAdamConfig::new().init(),
        }
    }

    fn rates(self, steps: u64) -> Result<ModuleLrScheduler> {
        match self {
            Self::Paper {
                rates: [mean, factors, log_variance],
            } => Ok(ModuleLrScheduler::new(mean)
                .with_group(VifaPart::Factors.group(), factors)
                .with_group(VifaPart::LogVariance.group(), log_variance)),
            Self::Ours { rate } => {
                let time_constant = (DECAY_SHARE * steps as f64).max(1.0);
                let rate = Rate::Power {
                    initial: rate,
                    time_constant,
                    power: DECAY_POWER,
                };
                Ok(ModuleLrScheduler::new(RateSchedule::new(rate)?))
            }
        }
    }
}
