//! The configuration of each method, made from the settings of a fit.
//!
//! The settings are those of all methods, and many of them may be absent. Here they become the
//! configuration of one method, where every field has a value.

use burn_bayes::laplace::{Laplace, Structure};
use burn_bayes::methods::{
    Averaging, InitialDeviation, IterateSchedule, IvonConfig, MeanStage, VadamConfig, VonConfig,
};
use burn_bayes::sampling::SamplingConfig;
use burn_bayes::train::StagedLearningRate;
use burn_bayes::{BayesianConfig, SlangConfig, SwagConfig, VifaConfig};
use burn_bayes_contrib::methods::{FactorAnalysisConfig, NagvacConfig};

use super::prior::prior;
use super::sampling;
use crate::error::Result;
use crate::settings::{FitSettings, Method, RankRule, refused};

/// The number of weights per row from which on the posterior of a network has the library's effective sample size, that of
/// its weights. With N, that of the rows, the divergence outweighs the likelihood there; with fewer weights, N is better.
const WIDE: usize = 20;
/// The largest step of a published natural-gradient method, in posterior standard deviations per weight.
const PUBLISHED_RADIUS: f64 = 5.0;

/// The configuration of a method.
#[derive(Debug)]
pub(super) enum MethodConfig {
    /// VIFA, mean-field and VAFC.
    Vifa(BayesianConfig<VifaConfig>),
    Swag(BayesianConfig<SwagConfig>),
    FactorAnalysis(BayesianConfig<FactorAnalysisConfig>),
    /// SLANG and VOGN.
    Slang(BayesianConfig<SlangConfig>),
    Von(BayesianConfig<VonConfig>),
    Vadam(BayesianConfig<VadamConfig>),
    Ivon(BayesianConfig<IvonConfig>),
    Nagvac(BayesianConfig<NagvacConfig>),
    /// A point estimate, whose posterior is approximated after the training.
    Laplace(Laplace),
    /// Samples of chains.
    Sampled(SamplingConfig),
    /// A point estimate, which needs an optimiser only.
    Map,
}

impl MethodConfig {
    /// The configuration for a training on `rows` rows of a network with `weights` weights.
    pub(super) fn new(settings: &FitSettings, rows: usize, weights: usize) -> Result<Self> {
        let rank = rank(settings, weights)?.unwrap_or(0);
        let training = Training {
            settings,
            rows,
            weights,
        };
        let (tuned, momentum) = (settings.tuned(), settings.momentum);
        let rate = tuned.covariance_rate();
        // In stages, or in one, as published, if the initial deviation is given.
        let deviation = settings.initial_deviation;
        let constant = deviation.map(InitialDeviation::FanInScaled);
        let radius = deviation.map(|_| PUBLISHED_RADIUS * (weights as f64).sqrt());
        Ok(match settings.method {
            Method::Auto => {
                let problem = "is auto, which stands for a method once the rows are known";
                return Err(refused("method", problem));
            }
            Method::Vifa | Method::MeanField => {
                let vifa = VifaConfig::new()
                    .with_initial_deviation(InitialDeviation::FanInScaled(tuned.initial_deviation))
                    .with_clip_norm(settings.clip)
                    .with_rank(rank);
                Self::Vifa(training.staged(vifa))
            }
            Method::Vafc => {
                let vafc = VifaConfig::vafc(rank).with_clip_norm(settings.clip);
                let config = BayesianConfig::paper(rows, vafc).with_draws(tuned.draws);
                let config = config.with_prior(prior(settings, None));
                Self::Vifa(config.with_seed(settings.seed))
            }
            Method::Swag => {
                let swag = SwagConfig::new().with_rank(rank);
                let (start, interval) = training.iterates(|steps| swag.schedule(steps))?;
                let swag = swag.with_start(start).with_interval(interval);
                Self::Swag(training.unstaged(swag))
            }
            Method::FactorAnalysis => {
                let analysis = FactorAnalysisConfig::new().with_rank(rank);
                let (start, interval) = training.iterates(|steps| analysis.schedule(steps))?;
                let analysis = analysis.with_start(start).with_interval(interval);
                Self::FactorAnalysis(training.unstaged(analysis))
            }
            Method::Slang | Method::Vogn => {
                let slang = SlangConfig::new()
                    .with_rank(rank)
                    .with_covariance_rate(rate)
                    .with_momentum(momentum)
                    .with_initial_deviation(constant);
                let radius = radius.unwrap_or(slang.radius);
                Self::Slang(training.in_stages(slang.with_radius(radius)))
            }
            Method::Von => {
                let von = VonConfig::new()
                    .with_covariance_rate(rate)
                    .with_momentum(momentum)
                    .with_initial_deviation(constant);
                let radius = radius.unwrap_or(von.radius);
                Self::Von(training.in_stages(von.with_radius(radius)))
            }
            Method::Vadam => {
                let scale = deviation.map(|_| settings.batch_size as f64);
                let vadam = VadamConfig::new()
                    .with_momentum(momentum)
                    .with_square_scale(scale)
                    .with_initial_precision(deviation.map_or(0.0, |deviation| deviation.powi(-2)));
                Self::Vadam(training.in_stages(vadam))
            }
            Method::Ivon => {
                let hessian = deviation.map(|deviation| deviation.powi(-2) / rows as f64);
                let ivon = IvonConfig::new()
                    .with_covariance_rate(rate)
                    .with_momentum(momentum)
                    .with_initial_hessian(hessian);
                let radius = radius.unwrap_or(ivon.radius);
                Self::Ivon(training.in_stages(ivon.with_radius(radius)))
            }
            Method::Nagvac => {
                let nagvac = NagvacConfig::new()
                    .with_covariance_rate(rate)
                    .with_momentum(momentum)
                    .with_initial_deviation(constant);
                let radius = radius.unwrap_or(nagvac.radius);
                Self::Nagvac(training.in_stages(nagvac.with_radius(radius)))
            }
            Method::Laplace => Self::Laplace(
                Laplace::new(rows)
                    .with_prior(prior(settings, None))
                    .with_structure(Structure::LowRank { rank }),
            ),
            Method::Mclmc | Method::Hmc => Self::Sampled(sampling::config(settings, rows)),
            // Solved directly.
            Method::Exact | Method::FullGaussian | Method::Map => Self::Map,
        })
    }
}

/// What the configuration of a method depends on besides the method.
#[derive(Clone, Copy)]
struct Training<'a> {
    settings: &'a FitSettings,
    rows: usize,
    weights: usize,
}

impl Training<'_> {
    /// In stages, or in one and with λ = N, as published, if the initial deviation is given.
    fn in_stages<C>(self, method: C) -> BayesianConfig<C> {
        match self.settings.initial_deviation {
            None => self.staged(method),
            Some(_) => {
                let config = self.staged(method).with_ess(self.rows as f64);
                config
                    .with_mean_stage(MeanStage::None)
                    .with_averaging(Averaging::None)
            }
        }
    }

    fn staged<C>(self, method: C) -> BayesianConfig<C> {
        let draws = self.settings.tuned().draws;
        let config = BayesianConfig::new(self.rows, method)
            .with_prior(prior(self.settings, None))
            .with_draws(draws)
            .with_steps(self.settings.steps(self.rows) as u64)
            .with_seed(self.settings.seed);
        let config = match draws.is_multiple_of(2) {
            true => config,
            false => config.with_antithetic(false),
        };
        // N, or the library's default for wide networks.
        let is_network = !self.settings.is_linear();
        match is_network && self.weights > WIDE * self.rows {
            true => config,
            false => config.with_ess(self.rows as f64),
        }
    }

    fn unstaged<C>(self, method: C) -> BayesianConfig<C> {
        BayesianConfig::new(self.rows, method).with_seed(self.settings.seed)
    }

    /// The start and the interval of a method's iterates, which are at most an epoch apart.
    fn iterates(
        self,
        schedule: impl FnOnce(Option<u64>) -> burn_bayes::Result<IterateSchedule>,
    ) -> Result<(Option<u64>, Option<u64>)> {
        let epoch = self.rows.div_ceil(self.settings.batch_size) as u64;
        let steps = self.settings.steps(self.rows) as u64;
        let IterateSchedule { start, interval } = schedule(Some(steps))?;
        Ok((Some(start), Some(interval.min(epoch))))
    }
}

/// K, the rank given or the default; 0 for a diagonal posterior, and `None` for a point estimate.
pub fn rank(settings: &FitSettings, weights: usize) -> Result<Option<usize>> {
    match settings.method.row().rank {
        RankRule::Given => {}
        RankRule::Fixed(rank) => return Ok(Some(rank)),
        RankRule::Full => return Ok(Some(weights)),
        RankRule::None => return Ok(None),
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

/// The learning rates of a training on `rows` rows.
pub(super) fn rates(settings: &FitSettings, rows: usize) -> StagedLearningRate {
    settings.tuned().learning_rates().over(settings.steps(rows))
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
        for method in Method::named() {
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
                    false if name == "clip" && !method.row().is_of_draws() => {}
                    false => assert!(changed != config || changes_rates, "{method}: {name}"),
                }
            }
        }
    }
}
