//! The methods of the program: one row for each, from which its options, defaults and checks are derived.

use burn_bayes::methods::{
    IvonConfig, LearningRates, MethodConfig, Rate, StagedConfig, VadamConfig, VonConfig,
};
use burn_bayes::posterior::FormKind;
use burn_bayes::sampling::SamplingConfig;
use burn_bayes::{SlangConfig, SwagConfig, VifaConfig};
use burn_bayes_contrib::methods::{FactorAnalysisConfig, NagvacConfig};

use super::choices::{Activation, choices};

/// How a posterior comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodKind {
    /// Gradients at draws, by the optimiser of the settings.
    Variational,
    /// Gradients at draws, by steps of its own.
    Natural,
    /// From the iterates of an ordinary training.
    Iterates,
    /// By an approximation at the end of an ordinary training.
    PostHoc,
    /// Directly, without training.
    Direct,
    /// As samples of chains.
    Sampled,
    /// There is none: an ordinary training.
    Point,
}

/// The rank of a posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankRule {
    /// That of the settings.
    Given,
    /// This one.
    Fixed(usize),
    /// The number of weights.
    Full,
    /// There is no posterior.
    None,
}

/// What the program knows of a method.
#[derive(Clone, Copy, Debug)]
pub struct MethodRow {
    pub(crate) kind: MethodKind,
    pub(crate) rank: RankRule,
    /// The form of its Gaussian.
    pub(crate) form: FormKind,
    /// Whether it can have a prior over functions.
    pub(crate) has_function_prior: bool,
    /// Whether an initial deviation can be set.
    pub(crate) has_deviation: bool,
    /// The tuned learning rates, that of the diagonal being the rate of the covariance of a natural method, if it has one.
    pub(crate) rates: LearningRates,
    /// Whether it has this rate.
    pub(crate) has_diagonal_rate: bool,
    /// The draws of a training step.
    pub(crate) draws: usize,
    /// The hidden layers of a network, and their activation function.
    pub(crate) hidden: &'static [usize],
    pub(crate) activation: Activation,
    /// The steps of a chain, of few rows.
    pub(crate) chain_steps: usize,
    /// Whether chains that do not agree are lengthened.
    pub(crate) is_lengthened: bool,
}

impl MethodRow {
    /// An ordinary training.
    const POINT: Self = Self {
        kind: MethodKind::Point,
        rank: RankRule::None,
        form: FormKind::Covariance,
        has_function_prior: false,
        has_deviation: false,
        rates: LearningRates::PLAIN,
        has_diagonal_rate: false,
        draws: 1,
        hidden: &[50],
        activation: Activation::Relu,
        chain_steps: 0,
        is_lengthened: false,
    };

    /// A method from the iterates of an ordinary training.
    fn iterates(config: &impl MethodConfig) -> Self {
        Self {
            kind: MethodKind::Iterates,
            rank: RankRule::Given,
            rates: config.learning_rates(),
            ..Self::POINT
        }
    }

    /// A method that learns from gradients at draws, with an optimiser.
    fn variational<C: StagedConfig>(config: &C, rank: RankRule) -> Self {
        Self {
            kind: MethodKind::Variational,
            rank,
            has_function_prior: true,
            has_deviation: true,
            rates: StagedConfig::learning_rates(config),
            has_diagonal_rate: true,
            draws: C::DRAWS,
            ..Self::POINT
        }
    }

    /// A method with steps of its own, and this rate of the covariance.
    fn natural<C: StagedConfig>(config: &C, rank: RankRule, rate: Option<Rate>) -> Self {
        let rates = StagedConfig::learning_rates(config);
        let diagonal = rate.map_or(rates.diagonal, |rate| rate.at(0));
        Self {
            kind: MethodKind::Natural,
            rank,
            form: FormKind::Precision,
            has_deviation: true,
            rates: rates.with_covariance(rates.mean, diagonal),
            has_diagonal_rate: rate.is_some(),
            draws: C::DRAWS,
            ..Self::POINT
        }
    }

    /// Chains of these settings.
    fn sampled(config: &SamplingConfig) -> Self {
        Self {
            kind: MethodKind::Sampled,
            hidden: &[16, 16],
            activation: Activation::Silu,
            chain_steps: config.all_steps(),
            ..Self::POINT
        }
    }

    fn with_function_prior(self) -> Self {
        Self {
            has_function_prior: true,
            ..self
        }
    }

    /// Whether gradients at draws train it.
    pub(crate) fn is_of_draws(&self) -> bool {
        matches!(self.kind, MethodKind::Variational | MethodKind::Natural)
    }

    /// Whether the optimiser of the settings trains the weights.
    pub(crate) fn has_optimizer(&self) -> bool {
        !matches!(
            self.kind,
            MethodKind::Natural | MethodKind::Direct | MethodKind::Sampled
        )
    }

    /// Whether it is learned in steps from mini-batches.
    pub(crate) fn has_mini_batches(&self) -> bool {
        self.kind != MethodKind::Sampled
    }

    /// Whether it has a posterior.
    pub(crate) fn has_posterior(&self) -> bool {
        self.kind != MethodKind::Point
    }
}

/// Defines the methods with their rows.
macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $method:ident = $name:literal => $row:expr,)+) => {
        choices! {
            /// Inference method.
            Method {
                $($(#[doc = $doc])+ $method = $name,)+
            }
        }

        impl Method {
            /// What the program knows of it.
            pub(crate) fn row(self) -> MethodRow {
                match self {
                    $(Self::$method => $row,)+
                }
            }
        }
    };
}

methods! {
    /// Chosen by the data: exact or full-gaussian for a linear model, also if it predicts left-out rows better than a network;
    /// mclmc where its chains take up to a minute and a half, slang where they take longer; vifa if a setting that only
    /// trainings have is given, such as `epochs`.
    Auto = "auto" => Self::Vifa.row(),
    /// Variational inference with a factor-analysis covariance.
    Vifa = "vifa" => MethodRow::variational(&VifaConfig::new(), RankRule::Given),
    /// VIFA without factors: Bayes by backprop.
    MeanField = "mean-field" => MethodRow::variational(&VifaConfig::new(), RankRule::Fixed(0)),
    /// Variational approximation with factor covariance.
    Vafc = "vafc" => MethodRow {
        kind: MethodKind::Variational,
        rank: RankRule::Given,
        has_diagonal_rate: true,
        ..MethodRow::POINT
    },
    /// Gaussian from the iterates of ordinary training.
    Swag = "swag" => MethodRow::iterates(&SwagConfig::new().with_start(Some(1))),
    /// Factor analysis of the iterates of ordinary training.
    FactorAnalysis = "factor-analysis" => MethodRow::iterates(&FactorAnalysisConfig::new().with_start(Some(1))),
    /// Natural gradients with a low-rank plus diagonal precision.
    Slang = "slang" => {
        let slang = SlangConfig::new();
        let rate = Some(slang.covariance_rate);
        MethodRow::natural(&slang, RankRule::Given, rate).with_function_prior()
    },
    /// SLANG without factors.
    Vogn = "vogn" => {
        let vogn = SlangConfig::vogn();
        let rate = Some(vogn.covariance_rate);
        MethodRow::natural(&vogn, RankRule::Fixed(0), rate).with_function_prior()
    },
    /// Natural gradients with a diagonal precision from Price's theorem.
    Von = "von" => {
        let von = VonConfig::new();
        let rate = Some(von.covariance_rate);
        MethodRow::natural(&von, RankRule::Fixed(0), rate).with_function_prior()
    },
    /// Adam with perturbed weights.
    Vadam = "vadam" => MethodRow::natural(&VadamConfig::new(), RankRule::Fixed(0), None),
    /// VON with an average gradient.
    Ivon = "ivon" => {
        let ivon = IvonConfig::new();
        MethodRow::natural(&ivon, RankRule::Fixed(0), Some(ivon.covariance_rate))
    },
    /// Natural gradients of a Gaussian with one factor.
    Nagvac = "nagvac" => {
        let nagvac = NagvacConfig::new();
        let rate = Some(nagvac.covariance_rate);
        MethodRow {
            form: FormKind::Covariance,
            ..MethodRow::natural(&nagvac, RankRule::Fixed(1), rate)
        }
    },
    /// Samples of microcanonical Langevin Monte Carlo, of several chains on all rows.
    Mclmc = "mclmc" => MethodRow {
        is_lengthened: true,
        ..MethodRow::sampled(&SamplingConfig::new())
    },
    /// Samples of Hamiltonian Monte Carlo: the exact reference for mclmc, which takes many times as long.
    Hmc = "hmc" => MethodRow::sampled(&SamplingConfig::hmc()),
    /// Laplace approximation of the maximum a posteriori fit, with linearised predictions.
    Laplace = "laplace" => MethodRow {
        kind: MethodKind::PostHoc,
        rank: RankRule::Given,
        ..MethodRow::POINT
    },
    /// Exact Gaussian posterior of a linear regression.
    Exact = "exact" => MethodRow {
        kind: MethodKind::Direct,
        rank: RankRule::Full,
        ..MethodRow::POINT
    },
    /// Best Gaussian with a full covariance, of a linear model.
    FullGaussian = "full-gaussian" => MethodRow {
        kind: MethodKind::Direct,
        rank: RankRule::Full,
        ..MethodRow::POINT
    },
    /// Maximum a posteriori estimate, without a posterior.
    Map = "map" => MethodRow::POINT,
}

impl Method {
    /// All methods but `auto`, which stands for one of them.
    pub fn named() -> impl Iterator<Item = Self> {
        let methods = Self::ALL.into_iter();
        methods.filter(|method| *method != Self::Auto)
    }

    /// The methods for any network and task.
    pub fn general() -> impl Iterator<Item = Self> {
        Self::named().filter(|method| !method.is_dense())
    }

    /// Whether the posterior is a dense Gaussian, which is computed without training.
    pub(crate) fn is_dense(self) -> bool {
        self.row().kind == MethodKind::Direct
    }

    /// Whether gradient steps lead to it, which can diverge.
    pub(crate) fn is_trained(self) -> bool {
        !self.is_dense() && !self.is_sampled()
    }

    /// Whether the posterior is samples of chains.
    pub fn is_sampled(self) -> bool {
        self.row().kind == MethodKind::Sampled
    }

    /// Whether the posterior describes the iterates of an ordinary training.
    pub(crate) fn is_of_iterates(self) -> bool {
        self.row().kind == MethodKind::Iterates
    }
}
