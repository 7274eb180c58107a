//! The settings of the papers.

use super::VifaConfig;
use crate::kernels::FactorUnits;
use crate::methods::{Averaging, InitialDeviation, InitialMean, MeanStage};

impl VifaConfig {
    /// The settings of the VIFA paper's synthetic experiments (4.1): zero mean, unit scales,
    /// clipping at 10. With several mini-batches per step, clip in the optimiser instead.
    pub fn paper(train_len: usize) -> Self {
        Self::new(train_len)
            .with_initial_mean(InitialMean::Zero)
            .with_initial_deviation(InitialDeviation::Constant(1.0))
            .with_factor_scale(1.0)
            .with_clip(Some(10.0))
            .published()
    }

    /// One draw per step, factors in the units of the weights, one stage and no average.
    fn published(self) -> Self {
        let train_len = self.train_len as f64;
        self.with_ess(Some(train_len))
            .with_draws(1)
            .with_antithetic(false)
            .with_factor_units(FactorUnits::Weights)
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
    }

    /// Variational approximation with factor covariance (Ong, Nott and Smith 2018): the same
    /// objective at rank `rank`, with one draw per step and small initial scales; train it with
    /// Adam.
    pub fn vafc(train_len: usize, rank: usize) -> Self {
        Self::new(train_len)
            .with_rank(rank)
            .with_initial_deviation(InitialDeviation::Constant(0.01))
            .with_factor_scale(0.01)
            .published()
    }
}
