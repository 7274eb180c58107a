//! The configuration of each method, made from the settings of a fit.
//!
//! The settings are those of all methods, and many of them may be absent. Here they become the
//! configuration of one method, where every field has a value.

use burn_bayes::laplace::{Laplace, Structure};
use burn_bayes::methods::{
    InitialDeviation, IvonConfig, MeanStage, NagvacConfig, VadamConfig, VonConfig,
};
use burn_bayes::train::StagedLearningRate;
use burn_bayes::{FactorAnalysisConfig, SlangConfig, SwagConfig, VifaConfig};

use super::prior::prior;
use crate::error::Result;
use crate::settings::{FitSettings, Method, refused};

/// The number of weights per row from which on the posterior of a network has the library's effective sample size, that of
/// its weights. With N, that of the rows, the divergence outweighs the likelihood there; with fewer weights, N is better.
const WIDE: usize = 20;
/// The largest fraction of a training in which only the mean learns.
const MEAN_STAGE: f64 = 0.3;
/// The approximate number of SWAG iterates if the last quarter of training has fewer epochs; many times
/// more than the factors need.
const SWAG_ITERATES: u64 = 40;
/// The same for factor analysis, whose factors change with every iterate, each at a cost of K²D.
const ANALYSED_ITERATES: u64 = 400;
/// The largest step of a published natural-gradient method, in posterior standard deviations per weight.
const PUBLISHED_RADIUS: f64 = 5.0;

/// The configuration of a method.
#[derive(Debug)]
pub(super) enum MethodConfig {
    /// VIFA, mean-field and VAFC.
    Vifa(VifaConfig),
    Swag(SwagConfig),
    FactorAnalysis(FactorAnalysisConfig),
    /// SLANG and VOGN.
    Slang(SlangConfig),
    Von(VonConfig),
    Vadam(VadamConfig),
    Ivon(IvonConfig),
    Nagvac(NagvacConfig),
    /// A point estimate, whose posterior is approximated after the training.
    Laplace(Laplace),
    /// A point estimate, which needs an optimiser only.
    Map,
}

impl MethodConfig {
    /// The configuration for a training on `rows` rows of a network with `weights` weights.
    pub(super) fn new(settings: &FitSettings, rows: usize, weights: usize) -> Result<Self> {
        let rank = rank(settings, weights)?.unwrap_or(0);
        Ok(match settings.method {
            Method::Vifa | Method::MeanField => {
                Self::Vifa(vifa(settings, rows, weights).with_rank(rank))
            }
            Method::Vafc => Self::Vifa(variational(VifaConfig::vafc(rows, rank), settings)),
            Method::Swag => Self::Swag(swag(settings, rows).with_max_rank(rank)),
            Method::FactorAnalysis => {
                Self::FactorAnalysis(factor_analysis(settings, rows).with_rank(rank))
            }
            Method::Slang | Method::Vogn => {
                Self::Slang(slang(settings, rows, weights).with_rank(rank))
            }
            Method::Von => Self::Von(von(settings, rows, weights)),
            Method::Vadam => Self::Vadam(vadam(settings, rows, weights)),
            Method::Ivon => Self::Ivon(ivon(settings, rows, weights)),
            Method::Nagvac => Self::Nagvac(nagvac(settings, rows, weights)),
            Method::Laplace => Self::Laplace(laplace(settings, rows, rank)),
            // Solved directly.
            Method::Exact | Method::FullGaussian | Method::Map => Self::Map,
        })
    }
}

/// K, the rank given or the default; 0 for a diagonal posterior, and `None` for a point estimate.
pub fn rank(settings: &FitSettings, weights: usize) -> Result<Option<usize>> {
    match settings.method {
        Method::Vifa
        | Method::Vafc
        | Method::Swag
        | Method::FactorAnalysis
        | Method::Slang
        | Method::Laplace => {}
        Method::MeanField | Method::Vogn | Method::Von | Method::Vadam | Method::Ivon => {
            return Ok(Some(0));
        }
        Method::Nagvac => return Ok(Some(1)),
        Method::Exact | Method::FullGaussian => return Ok(Some(weights)),
        Method::Map => return Ok(None),
    }
    let rank = settings
        .rank
        .unwrap_or(settings.default_rank().min(weights));
    if rank > weights {
        let problem = format!("is {rank}, but the network has {weights} weights; make it smaller");
        return Err(refused("rank", problem));
    }
    match (settings.method, rank, settings.rank) {
        (Method::Swag, 1, None) => Ok(Some(0)),
        (Method::Swag, 1, Some(_)) => Err(refused(
            "rank",
            "is 1, but a single swag deviation has no spread; use 0 for a diagonal, or at least 2",
        )),
        (Method::FactorAnalysis, 0, _) => Err(refused(
            "rank",
            "is 0, but factor-analysis needs a factor; use at least 1, or `--method swag` for a diagonal",
        )),
        _ => Ok(Some(rank)),
    }
}

/// λ: N, or the library's default for wide networks.
fn ess(settings: &FitSettings, rows: usize, weights: usize) -> Option<f64> {
    let is_wide = !settings.model.hidden.is_empty() && weights > WIDE * rows;
    (!is_wide).then_some(rows as f64)
}

fn vifa(settings: &FitSettings, rows: usize, weights: usize) -> VifaConfig {
    let preset = settings.preset();
    variational(
        VifaConfig::new(rows).with_ess(ess(settings, rows, weights)),
        settings,
    )
    .with_antithetic(preset.draws.is_multiple_of(2))
    .with_mean_stage(mean_stage(settings, rows))
    .with_initial_deviation(preset.initial_deviation())
}

fn mean_stage(settings: &FitSettings, rows: usize) -> MeanStage {
    let at_most = (MEAN_STAGE * settings.steps(rows) as f64) as u64;
    MeanStage::UntilArrival {
        at_most: Some(at_most),
    }
}

fn variational(config: VifaConfig, settings: &FitSettings) -> VifaConfig {
    config
        .with_prior(prior(settings, None))
        .with_draws(settings.preset().draws)
        .with_clip(settings.clip)
        .with_seed(settings.seed)
}

/// SWAG collects iterates in the last quarter: one per epoch, or several if there are few epochs.
fn swag(settings: &FitSettings, rows: usize) -> SwagConfig {
    let (start, interval) = last_quarter(settings, rows, SWAG_ITERATES);
    SwagConfig::new(rows, start)
        .with_interval(interval)
        .with_seed(settings.seed)
}

/// Factor analysis learns its factors from more iterates.
fn factor_analysis(settings: &FitSettings, rows: usize) -> FactorAnalysisConfig {
    let (start, interval) = last_quarter(settings, rows, ANALYSED_ITERATES);
    FactorAnalysisConfig::new(rows, start)
        .with_interval(interval)
        .with_seed(settings.seed)
}

/// The first step of the last quarter, and the interval of about this many iterates: at most an epoch.
fn last_quarter(settings: &FitSettings, rows: usize, iterates: u64) -> (u64, u64) {
    let epoch = rows.div_ceil(settings.batch_size) as u64;
    let steps = settings.steps(rows) as u64;
    let start = (3 * steps).div_ceil(4).max(1);
    let spacing = steps.saturating_sub(start) / iterates;
    (start, spacing.clamp(1, epoch))
}

fn published_radius(weights: usize) -> f64 {
    PUBLISHED_RADIUS * (weights as f64).sqrt()
}

/// In two stages, or in one, as published, if the initial deviation is given.
fn slang(settings: &FitSettings, rows: usize, weights: usize) -> SlangConfig {
    let preset = settings.preset();
    let config = match settings.initial_deviation {
        Some(deviation) => SlangConfig::paper(rows)
            .with_radius(published_radius(weights))
            .with_initial_deviation(Some(InitialDeviation::FanInScaled(deviation))),
        None => SlangConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(mean_stage(settings, rows)),
    };
    config
        .with_prior(prior(settings, None))
        .with_draws(preset.draws)
        .with_precision_rate(preset.precision_rate(settings.steps(rows)))
        .with_momentum(settings.momentum)
        .with_seed(settings.seed)
}

/// In two stages, or in one, as published, if the initial deviation is given.
fn von(settings: &FitSettings, rows: usize, weights: usize) -> VonConfig {
    let preset = settings.preset();
    let config = match settings.initial_deviation {
        Some(deviation) => VonConfig::paper(rows)
            .with_radius(published_radius(weights))
            .with_initial_deviation(Some(InitialDeviation::FanInScaled(deviation))),
        None => VonConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(mean_stage(settings, rows)),
    };
    config
        .with_prior(prior(settings, None))
        .with_draws(preset.draws)
        .with_antithetic(preset.draws.is_multiple_of(2))
        .with_precision_rate(preset.precision_rate(settings.steps(rows)))
        .with_momentum(settings.momentum)
        .with_seed(settings.seed)
}

/// In two stages, or in one, as published, if the initial deviation is given.
fn vadam(settings: &FitSettings, rows: usize, weights: usize) -> VadamConfig {
    let preset = settings.preset();
    let config = match settings.initial_deviation {
        Some(deviation) => VadamConfig::paper(rows)
            .with_square_scale(Some(settings.batch_size as f64))
            .with_initial_precision(deviation.powi(-2)),
        None => VadamConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(mean_stage(settings, rows)),
    };
    config
        .with_prior(prior(settings, None))
        .with_draws(preset.draws)
        .with_gamma_1(settings.momentum)
        .with_seed(settings.seed)
}

fn laplace(settings: &FitSettings, rows: usize, rank: usize) -> Laplace {
    Laplace::new(rows)
        .with_prior(prior(settings, None))
        .with_structure(Structure::LowRank { rank })
}

/// In two stages, or in one, as published, if the initial deviation is given.
fn ivon(settings: &FitSettings, rows: usize, weights: usize) -> IvonConfig {
    let preset = settings.preset();
    let config = match settings.initial_deviation {
        Some(deviation) => IvonConfig::paper(rows)
            .with_radius(published_radius(weights))
            .with_initial_hessian(Some(deviation.powi(-2) / rows as f64)),
        None => IvonConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(mean_stage(settings, rows)),
    };
    config
        .with_prior(prior(settings, None))
        .with_draws(preset.draws)
        .with_antithetic(preset.draws.is_multiple_of(2))
        .with_precision_rate(preset.precision_rate(settings.steps(rows)))
        .with_momentum(settings.momentum)
        .with_seed(settings.seed)
}

/// In two stages, or in one, as published, if the initial deviation is given.
fn nagvac(settings: &FitSettings, rows: usize, weights: usize) -> NagvacConfig {
    let preset = settings.preset();
    let config = match settings.initial_deviation {
        Some(deviation) => NagvacConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(MeanStage::None)
            .with_radius(published_radius(weights))
            .with_initial_deviation(Some(InitialDeviation::FanInScaled(deviation))),
        None => NagvacConfig::new(rows)
            .with_ess(ess(settings, rows, weights))
            .with_mean_stage(mean_stage(settings, rows)),
    };
    config
        .with_prior(prior(settings, None))
        .with_draws(preset.draws)
        .with_antithetic(preset.draws.is_multiple_of(2))
        .with_covariance_rate(preset.precision_rate(settings.steps(rows)))
        .with_momentum(settings.momentum)
        .with_seed(settings.seed)
}

/// The learning rates of a training on `rows` rows.
pub(super) fn rates(settings: &FitSettings, rows: usize) -> StagedLearningRate {
    settings.preset().learning_rates(settings.steps(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_uses_the_settings_that_the_table_lists_for_it() {
        let shown = |settings: &FitSettings| {
            let config = MethodConfig::new(settings, 100, 50).unwrap();
            (format!("{config:?}"), rates(settings, 100))
        };
        for method in Method::ALL {
            let base = FitSettings {
                method,
                ..FitSettings::default()
            };
            let (config, base_rates) = shown(&base);
            for (name, value) in [
                ("rank", "3"),
                ("train_draws", "4"),
                ("factors_learning_rate", "0.5"),
                ("diagonal_learning_rate", "0.5"),
                ("initial_deviation", "0.5"),
                ("clip", "2"),
            ] {
                let mut settings = base.clone();
                settings.set(name, value).unwrap();
                let (changed, changed_rates) = shown(&settings);
                let changes_rates = format!("{changed_rates:?}") != format!("{base_rates:?}");
                match base.without_effect(name).is_some() {
                    true => assert_eq!(changed, config, "{method}: {name}"),
                    // These clip in the optimiser.
                    false
                        if name == "clip"
                            && (method.is_of_iterates()
                                || matches!(method, Method::Laplace | Method::Map)) => {}
                    false => assert!(changed != config || changes_rates, "{method}: {name}"),
                }
            }
        }
    }
}
