//! From the settings of a method and of all methods to a training in stages.

use std::sync::Arc;

use burn::module::Module;

use super::{Settings, Staged};
use crate::error::Result;
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::methods::average::{Average, Averaging};
use crate::methods::checks::pairs;
use crate::methods::method_config::{LearningRates, MethodConfig};
use crate::methods::method_state::{Learns, MethodState, StagedConfig, Start};
use crate::methods::settings::BayesianConfig;
use crate::methods::setup::Setup;
use crate::methods::stages::{StageSettings, Stages};
use crate::methods::start::{InitialMean, buffer, trained};

fn stage_settings<C: StagedConfig>(config: &BayesianConfig<C>) -> StageSettings {
    let averaging = match config.method.averaged() {
        0 => Averaging::None,
        _ => config.averaging(),
    };
    let settings = StageSettings::new(config.train_len, config.mean_stage(), averaging);
    let settings = match C::State::LEARNS {
        Learns::ByOptimizer => settings,
        Learns::AtOnce | Learns::FromSums => {
            settings.with_adam(config.mean_stage_rate(), config.method.has_start())
        }
    };
    match config.method.burn_in() {
        Some(steps) => settings.within(steps),
        None => settings,
    }
}

/// The number of draws of a step, and whether they are antithetic pairs.
fn draws<C: StagedConfig>(config: &BayesianConfig<C>) -> (usize, bool) {
    let antithetic = config.antithetic.unwrap_or(C::DRAWS > 1);
    (config.draws.unwrap_or(C::DRAWS), antithetic)
}

impl<C: StagedConfig> MethodConfig for C {
    type Algorithm = Staged<C::State>;

    const USES: &'static [&'static str] = <C as StagedConfig>::USES;

    fn learning_rates(&self) -> LearningRates {
        StagedConfig::learning_rates(self)
    }

    fn validate(config: &BayesianConfig<Self>) -> Result<()> {
        let (count, antithetic) = draws(config);
        pairs(count, antithetic)?;
        config.method.validate()
    }

    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<Self::Algorithm> {
        let setup = Setup::of(config, model)?.with_ess(config.ess);
        let weights = setup.layout.flatten(model)?;
        let mean = match config.initial_mean {
            None => weights,
            Some(InitialMean::Zero) => weights.zeros_like(),
        };
        let prior = config.prior();
        let settings = stage_settings(config);
        let state = config.method.start(Start {
            model,
            setup: &setup,
            prior: &setup.precisions(&prior)?,
            mean: mean.clone(),
            is_staged: !settings.mean_stage.is_none(),
        })?;
        let average = Average::new(state.iterate(mean.clone()));
        let stages = Stages::new(settings, &setup, &prior, average)?;
        Ok(Staged {
            stages: match config.steps {
                Some(steps) => stages.with_length(steps),
                None => stages,
            },
            mean: match C::State::LEARNS {
                Learns::ByOptimizer => trained(mean),
                Learns::AtOnce | Learns::FromSums => buffer(mean),
            },
            state,
            settings: Arc::new(Settings {
                setup,
                draws: draws(config),
                has_start: config.method.has_start(),
            }),
        })
    }

    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan {
        let (draws, _) = draws(config);
        let mut plan = config.method.memory(weights, draws, optimizer);
        let averaged = config.method.averaged() * weights;
        plan.parameters += stage_settings(config).bytes(weights, averaged);
        plan
    }
}
