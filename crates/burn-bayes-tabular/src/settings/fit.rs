//! The settings of a fit.

use burn_bayes::VifaConfig;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::choices::{
    Activation, LikelihoodName, NetworkShape, NoisePrecision, OptimizerName, PriorPrecision,
    RecalibrationName, Solver,
};
use super::device::DeviceName;
use super::method::Method::{self, MeanField, Vifa};
use super::method::{MethodKind, MethodRow, RankRule};
use super::prior::PriorName;
use super::table::{Scope, settings};
use super::tuned::{MethodDefaults, Tuned};
use crate::error::{Result, TabularError};

/// The solver that makes settings of the training unused, where it is used itself.
const DIRECT: (&str, &str) = ("solver", "auto");

settings! {
    /// The settings of a fit, independent of the data: those of all methods, as they were given.
    FitSettings {
        /// Inference method.
        method: Method = Method::Auto;
        /// Model: `linear`, or `mlp:50,50` for two hidden layers of 50 units [default: mlp:16,16 with mclmc and hmc,
        /// otherwise mlp:50].
        [method_default: Some(default_model)]
        model: NetworkShape;
        /// Activation function of the hidden layers [default: silu with mclmc and hmc, otherwise relu].
        [unless: &[("model", "linear")]]
        activation: Activation, tuned activation;
        /// Rank of the posterior's low-rank factors [default: 5, or 20 with vifa and a Gaussian process as the prior, or
        /// the number of weights if that is smaller].
        [applies: |row| row.rank == RankRule::Given, method_default: Some(default_rank)]
        rank: usize;
        /// Number of passes over the training rows, each a step of every chain with mclmc and hmc [default: 7000 with mclmc and
        /// 2800 with hmc, down to 1500 with many rows, and with mclmc up to 20000 until its chains agree; otherwise 100, or as
        /// many as give 3000 steps if that is more].
        [unless: &[DIRECT], method_default: Some(default_epochs)]
        epochs: usize;
        /// Mini-batch size.
        [applies: MethodRow::has_mini_batches, unless: &[DIRECT]]
        batch_size: usize = 32;
        /// Number of weight draws per training step [default: an antithetic pair with vifa, mean-field, von, ivon and
        /// nagvac, otherwise 1].
        [applies: MethodRow::is_of_draws, unless: &[DIRECT]]
        train_draws: usize, tuned draws;
        /// Number of weight draws per prediction.
        [applies: MethodRow::has_posterior]
        draws: usize = 100;
        /// How a linear model is fitted.
        [applies: |row| !matches!(row.kind, MethodKind::Iterates | MethodKind::Sampled), unless: &[("model", "mlp")]]
        solver: Solver = Solver::Auto;
        /// Number of chains.
        [applies: |row| row.kind == MethodKind::Sampled]
        chains: usize = 4;
        /// Seconds for which chains that do not agree are lengthened, about: operations of two cores are counted, so that
        /// results do not depend on the machine. With auto, chains may take twice as long before another method is chosen
        /// [default: 30, and at most 20000 epochs].
        [value: Some("SECONDS"), applies: |row| row.is_lengthened, scope: Scope::Length]
        budget: f64;
        /// Lengthen chains until the median of R̂ of their predictions is at most this [default: 1.05].
        [option: Some("until-rhat"), value: Some("R"), applies: |row| row.is_lengthened, scope: Scope::Length]
        until_r_hat: f64;
        /// Optimiser of the methods without an update rule of their own.
        [applies: MethodRow::has_optimizer, unless: &[DIRECT]]
        optimizer: OptimizerName = OptimizerName::Adam;
        /// Learning rate of the posterior mean [default: 0.1 with slang, vogn, von and ivon, otherwise 0.01].
        [alias: Some("lr"), applies: MethodRow::has_mini_batches, unless: &[DIRECT]]
        learning_rate: f64, tuned learning_rate;
        /// Learning rate of the low-rank factors [default: 0.3 times that of the mean with vifa and a prior over the
        /// weights, otherwise the same].
        [applies: |row| row.kind == MethodKind::Variational && row.rank == RankRule::Given, unless: &[("rank", "0"), DIRECT]]
        factors_learning_rate: f64, tuned factors_learning_rate;
        /// Learning rate of the diagonal, or of the precision or covariance [default: half that of the mean with vifa and
        /// mean-field, or twice it if the prior is a Gaussian process; a tenth with slang, vogn, von and ivon, three
        /// times it with nagvac, otherwise the same].
        [applies: |row| row.has_diagonal_rate, unless: &[DIRECT]]
        diagonal_learning_rate: f64, tuned diagonal_learning_rate;
        /// Decay time constant of the learning rates, as a fraction of training; 0 for constant rates
        /// [default: 0.5 with swag and factor-analysis, 0.2 with vifa and mean-field, otherwise 0.1].
        [applies: MethodRow::has_mini_batches, unless: &[DIRECT]]
        decay: f64, tuned decay;
        /// Momentum of sgd, slang, vogn, von, vadam, ivon and nagvac.
        [applies: MethodRow::has_mini_batches, unless: &[("optimizer", "adam"), DIRECT]]
        momentum: f64 = 0.9;
        /// Prior: `weights`, or a Gaussian process with a sum or product of kernels, such as `gp:rbf+periodic`.
        prior: PriorName = PriorName::Weights;
        /// Fraction of the range of every input by which the box in which a Gaussian process acts is widened on each side.
        [unless: &[("prior", "weights")]]
        prior_margin: f64 = 0.5;
        /// Precision (1/variance) of the Gaussian prior over the weights: a number, `learned`, `learned-per-layer` or
        /// `auto`, which with mclmc and hmc is a quarter of the fan-in for the weights of a layer, and 1 for biases.
        prior_precision: PriorPrecision = PriorPrecision::AUTO;
        /// Precision of the prior over biases [default: that of the weights].
        [unless: &[("no_intercept", "true")]]
        bias_prior_precision: f64;
        /// Likelihood of the target [default: gaussian, or heteroscedastic with mclmc or hmc and a learned `noise_precision`;
        /// categorical for classes, negative-binomial for counts (poisson with laplace), bernoulli for labels].
        likelihood: LikelihoodName;
        /// Noise precision of a regression target (1/variance, in units of the target), or `learned`.
        [unless: &[("likelihood", "heteroscedastic")]]
        noise_precision: NoisePrecision = NoisePrecision::LEARNED;
        /// Initial posterior standard deviation of a weight, divided by the square root of the fan-in except
        /// with vadam and ivon [default: 0.03, or 0.003 with a Gaussian process as the prior; that of a first stage with
        /// slang, vogn, von, vadam, ivon and nagvac].
        [applies: |row| row.has_deviation, unless: &[DIRECT]]
        initial_deviation: f64;
        /// Maximum gradient norm [default: no clipping].
        [applies: MethodRow::has_optimizer, unless: &[DIRECT]]
        clip: f64;
        /// Fit no biases.
        no_intercept: bool = false;
        /// Device: flex, wgpu, cuda or cuda:1.
        device: DeviceName = DeviceName::default();
        /// Number of epochs between checkpoints; 0 to save one only on interruption.
        [unless: &[DIRECT], scope: Scope::Nothing]
        checkpoint_every: usize = 10;
        /// Stop when the negative log-likelihood of the held-out rows has not improved for this many epochs, and keep the
        /// model of the best epoch [default: train for all epochs and keep the last].
        [applies: MethodRow::has_mini_batches, unless: &[DIRECT], scope: Scope::Run]
        patience: usize;
        /// After scoring the held-out rows, fit again to all rows, for as many epochs, and keep that model.
        [scope: Scope::Run]
        refit: bool = false;
        /// Recalibrate the predictions on the held-out rows: `temperature` for a classification, `variance` for a
        /// regression [default: no recalibration].
        [scope: Scope::Run]
        recalibrate: RecalibrationName;
        /// Also train the maximum a posteriori fit with the same settings, and compare the scores of the held-out
        /// rows.
        [applies: MethodRow::has_posterior, scope: Scope::Run]
        against_map: bool = false;
        /// Number of members of an ensemble of fits with different seeds, whose predictions are averaged.
        [scope: Scope::Run]
        members: usize = 1;
        /// Random seed.
        seed: u64 = 0;
    }
}

impl FitSettings {
    /// Checks all values. An error names the field.
    pub fn validate(&self) -> Result<()> {
        expect_count("epochs", self.epochs.unwrap_or(1))?;
        expect_at_most("chains", self.chains, MOST_CHAINS)?;
        expect_count("batch_size", self.batch_size)?;
        expect_count("patience", self.patience.unwrap_or(1))?;
        expect_at_most("train_draws", self.tuned().draws, MOST_TRAIN_DRAWS)?;
        expect_at_most("draws", self.draws, MOST_DRAWS)?;
        expect_at_most("members", self.members, MOST_MEMBERS)?;
        if let PriorPrecision::Given(precision) = self.prior_precision {
            positive("prior_precision", precision)?;
        }
        positive("prior_margin", self.prior_margin)?;
        for (field, value) in [
            ("initial_deviation", self.initial_deviation),
            ("learning_rate", self.learning_rate),
            ("factors_learning_rate", self.factors_learning_rate),
            ("diagonal_learning_rate", self.diagonal_learning_rate),
            ("bias_prior_precision", self.bias_prior_precision),
            ("clip", self.clip),
            ("budget", self.budget),
        ] {
            value.map_or(Ok(()), |value| positive(field, value))?;
        }
        if let NoisePrecision::Given(precision) = self.noise_precision {
            positive("noise_precision", precision)?;
        }
        if let Some(r_hat) = self
            .until_r_hat
            .filter(|r_hat| !(r_hat.is_finite() && *r_hat > 1.0))
        {
            let problem = format!("is {r_hat}; it must be finite and above 1");
            return Err(refused("until_r_hat", problem));
        }
        let decay = self.tuned().decay;
        if !(0.0..=f64::MAX).contains(&decay) {
            let problem = format!("is {decay}; it must be finite and not below zero");
            return Err(refused("decay", problem));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            let problem = format!("is {}; it must be in [0, 1)", self.momentum);
            return Err(refused("momentum", problem));
        }
        Ok(())
    }

    /// Everything that the result of a job depends on.
    pub fn key(&self) -> SettingsKey {
        self.key_of(&[Scope::Training, Scope::Length, Scope::Run])
    }

    /// Everything that the steps of a training depend on, which must not change at a resume.
    pub fn training_key(&self) -> SettingsKey {
        self.key_of(&[Scope::Training])
    }

    fn key_of(&self, scopes: &[Scope]) -> SettingsKey {
        SettingsKey {
            defaults: self.method_defaults(),
            settings: self.of_scopes(scopes),
        }
    }

    /// Serialises the settings as their key.
    pub(crate) fn as_key<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.key().serialize(serializer)
    }

    /// The settings of one training, without those of the run around it.
    #[must_use]
    pub(crate) fn of_one_training(&self) -> Self {
        self.of_scopes(&[Scope::Training, Scope::Length, Scope::Nothing])
    }

    /// With what a setting has no effect, given the other settings; `None` if it is used.
    ///
    /// The solver counts as used for every linear model; see `engine::in_effect`.
    pub fn without_effect(&self, name: &str) -> Option<String> {
        let table = Self::table();
        let setting = table.iter().find(|setting| setting.name == name)?;
        if !(setting.applies)(&self.method.row()) {
            return Some(self.method.to_string());
        }
        let mut unless = setting.unless.iter();
        let is_so = |&&(other, value): &&(&str, &str)| {
            let found = self.value(other).or_else(|| self.method_default(other));
            let found = found.unwrap_or_default();
            let found = found.split_once(':').map_or(&*found, |(kind, _)| kind);
            found == value && self.without_effect(other).is_none()
        };
        unless.find(is_so).map(|&found| match found {
            DIRECT => {
                "a linear model that is solved directly; `--solver gradient` trains it".into()
            }
            (other, value) => format!("`{other} = {value}`"),
        })
    }

    /// The settings that were not given and whose default depends on the method, with their values.
    pub(crate) fn method_defaults(&self) -> Vec<(&'static str, String)> {
        let defaults = self.defaults();
        let table = Self::table().into_iter();
        let left = table.filter(|setting| {
            self.value(setting.name).is_none() && self.without_effect(setting.name).is_none()
        });
        left.filter_map(|setting| Some((setting.name, setting.method_default?(&defaults))))
            .collect()
    }

    /// Whether a setting is given that is of trainings by one method and not by another. Every method has epochs, but
    /// numbers of them mean different things: they are settings of trainings.
    pub(crate) fn has_any_of(&self, method: Method, other: Method) -> bool {
        let (row, other) = (method.row(), other.row());
        let default = Self::default();
        Self::table().into_iter().any(|setting| {
            let is_own = (setting.applies)(&row) && !(setting.applies)(&other);
            let is_own = is_own && setting.scope != Scope::Length;
            let is_length = setting.name == "epochs" && row.has_mini_batches();
            (is_own || is_length) && self.value(setting.name) != default.value(setting.name)
        })
    }

    fn defaults(&self) -> MethodDefaults {
        MethodDefaults {
            tuned: self.tuned(),
            rank: self.default_rank(),
            row: self.method.row(),
        }
    }

    /// The default of a setting, as text; `None` if it does not depend on the method.
    fn method_default(&self, name: &str) -> Option<String> {
        let table = Self::table().into_iter();
        let default = table.filter(|setting| setting.name == name);
        let default = default
            .filter_map(|setting| setting.method_default)
            .next()?;
        Some(default(&self.defaults()))
    }

    /// The hidden layers of the network.
    pub fn shape(&self) -> NetworkShape {
        let default = || NetworkShape {
            hidden: self.method.row().hidden.to_vec(),
        };
        self.model.clone().unwrap_or_else(default)
    }

    /// Whether the network has no hidden layers.
    pub(crate) fn is_linear(&self) -> bool {
        self.shape().hidden.is_empty()
    }

    /// A setting as text; `None` if it is not given and has no default.
    fn value(&self, name: &str) -> Option<String> {
        match serde_json::to_value(self).ok()?.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            value => Some(value.to_string()),
        }
    }

    /// The tuned settings of the method, with the given settings in their place.
    pub fn tuned(&self) -> Tuned {
        let MethodRow {
            rates,
            draws,
            activation,
            ..
        } = self.method.row();
        let mut tuned = Tuned {
            learning_rate: rates.mean,
            factors_learning_rate: rates.factors,
            diagonal_learning_rate: rates.diagonal,
            decay: rates.decay,
            initial_deviation: VifaConfig::new().initial_deviation.scale(),
            draws,
            activation: self.activation.unwrap_or(activation),
        };
        if self.has_function_divergence() {
            // Wider deviations at the start keep the functions away from those of the process, whose deviations are
            // reached with faster factors and diagonals.
            tuned.factors_learning_rate = tuned.learning_rate;
            tuned.diagonal_learning_rate = 2.0 * tuned.learning_rate;
            tuned.initial_deviation = NARROW_DEVIATION;
        }
        let mut given = tuned;
        given.draws = self.train_draws.unwrap_or(tuned.draws);
        given.learning_rate = self.learning_rate.unwrap_or(tuned.learning_rate);
        let scale = given.learning_rate / tuned.learning_rate;
        let factors = scale * tuned.factors_learning_rate;
        given.factors_learning_rate = self.factors_learning_rate.unwrap_or(factors);
        let diagonal = match (self.method, self.prior_precision) {
            // The prior is learned from deviations that must have converged.
            (Vifa | MeanField, PriorPrecision::Learned(_)) => FAST_DIAGONAL_RATE,
            _ => tuned.diagonal_learning_rate,
        };
        let diagonal = scale * diagonal;
        given.diagonal_learning_rate = self.diagonal_learning_rate.unwrap_or(diagonal);
        given.decay = self.decay.unwrap_or(tuned.decay);
        given.initial_deviation = self.initial_deviation.unwrap_or(tuned.initial_deviation);
        given
    }

    /// Whether the method minimises the divergence of functions from a Gaussian process.
    pub(crate) fn has_function_divergence(&self) -> bool {
        matches!(self.method, Vifa | MeanField) && self.prior.kernel().is_some()
    }

    /// The rank of a posterior with at least as many weights.
    pub(crate) fn default_rank(&self) -> usize {
        match self.has_function_divergence() {
            true => FUNCTION_RANK,
            false => DEFAULT_RANK,
        }
    }

    /// The number of epochs of a training on this number of rows.
    pub(crate) fn epochs(&self, rows: usize) -> usize {
        self.epochs.unwrap_or_else(|| {
            let enough = FEWEST_STEPS.div_ceil(self.steps_of_epoch(rows));
            match self.method.is_sampled() {
                true => {
                    let most = self.method.row().chain_steps;
                    (ROW_STEPS / rows.max(1)).clamp(FEWEST_CHAIN_STEPS, most)
                }
                false => FEWEST_EPOCHS.max(enough),
            }
        })
    }

    /// The number of steps of a training on this number of rows.
    pub(crate) fn steps(&self, rows: usize) -> usize {
        self.epochs(rows) * self.steps_of_epoch(rows)
    }

    /// The number of steps of an epoch of this number of rows.
    pub(crate) fn steps_of_epoch(&self, rows: usize) -> usize {
        match self.method.is_sampled() {
            true => 1,
            false => rows.div_ceil(self.batch_size),
        }
    }
}

/// What a result depends on: the settings, and the defaults of those that were not given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingsKey {
    defaults: Vec<(&'static str, String)>,
    settings: FitSettings,
}

/// VIFA's initial deviation with a prior over functions.
const NARROW_DEVIATION: f64 = 0.003;

/// The learning rate of VIFA's diagonal with which deviations converge within the default number of epochs.
const FAST_DIAGONAL_RATE: f64 = 0.1;

/// An error about a setting. The problem follows its name.
pub fn refused(name: &str, problem: impl std::fmt::Display) -> TabularError {
    TabularError::Setting {
        name: name.into(),
        problem: problem.to_string(),
    }
}

/// Names in quotes, shortened if there are many.
pub(crate) fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let mut shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.len() > MOST {
        shown.push(format!("and {} more", names.len() - MOST));
    }
    shown.join(", ")
}

/// The default rank of a posterior.
const DEFAULT_RANK: usize = 5;
/// That of VIFA with a prior over functions.
const FUNCTION_RANK: usize = 20;

fn default_rank(defaults: &MethodDefaults) -> String {
    format!(
        "{}, or the number of weights if that is smaller",
        defaults.rank
    )
}

/// By default, a training has at least this number of epochs and of steps: with few rows, 100 epochs are too few
/// steps for deviations to converge.
const FEWEST_EPOCHS: usize = 100;
const FEWEST_STEPS: usize = 3000;

/// Steps of a chain, times rows, from which on it has fewer steps, and the fewest.
const ROW_STEPS: usize = 20_000_000;
const FEWEST_CHAIN_STEPS: usize = 1500;

fn default_model(defaults: &MethodDefaults) -> String {
    let hidden = defaults.row.hidden.to_vec();
    NetworkShape { hidden }.to_string()
}

fn default_epochs(defaults: &MethodDefaults) -> String {
    if defaults.row.kind == MethodKind::Sampled {
        let steps = defaults.row.chain_steps;
        let rows = ROW_STEPS / steps;
        return format!("{steps} of up to {rows} rows, and fewer of more rows");
    }
    format!("{FEWEST_EPOCHS}, or as many as give {FEWEST_STEPS} steps if that is more")
}

/// More draws per step cost time and memory, and the mean of a thousand gradients is hardly better than
/// that of a hundred.
const MOST_TRAIN_DRAWS: usize = 1000;
/// With this many draws, the standard error of a mean prediction is a third of a percent of the standard
/// deviation.
pub(crate) const MOST_DRAWS: usize = 100_000;

/// The most chains.
const MOST_CHAINS: usize = 1000;

/// The largest ensembles of the literature have some tens of members.
const MOST_MEMBERS: usize = 1000;

/// Checks that a count is at least 1 and fits in 32 bits.
pub(crate) fn expect_count(field: &str, value: usize) -> Result<()> {
    expect_at_most(field, value, u32::MAX as usize)
}

/// Checks that a count is between 1 and `most`.
pub(crate) fn expect_at_most(field: &str, value: usize, most: usize) -> Result<()> {
    match value {
        0 => Err(refused(field, "is 0; it must be at least 1")),
        _ if value <= most => Ok(()),
        _ => Err(refused(
            field,
            format!("is {value}; it must be at most {most}"),
        )),
    }
}

fn positive(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be finite and above zero");
    Err(refused(field, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Method::{Map, Mclmc, Slang, Von};
    use crate::settings::{Config, DataSettings, Kind};

    #[test]
    fn a_file_and_flags_make_settings() {
        let text = "method = \"mean-field\"\nmodel = \"mlp:20\"\nnoise_precision = 4\nepochs = 3";
        let mut settings: FitSettings = toml::from_str(text).unwrap();
        assert_eq!(settings.method, Method::MeanField);
        assert_eq!(settings.noise_precision, NoisePrecision::Given(4.0));
        settings.set("epochs", "7").unwrap();
        settings.set("clip", "2").unwrap();
        assert_eq!((settings.epochs, settings.clip), (Some(7), Some(2.0)));
        assert_eq!(settings.shape().hidden, [20]);
    }

    #[test]
    fn a_table_says_what_every_setting_may_be() {
        let mut config = Config::default();
        for setting in DataSettings::table() {
            let default = setting.default.iter();
            default.for_each(|text| config.data.set(setting.name, text).unwrap());
        }
        for setting in FitSettings::table() {
            let default = setting.default.iter();
            default.for_each(|text| config.fit.set(setting.name, text).unwrap());
        }
        assert_eq!(config, Config::default());
        for setting in FitSettings::table() {
            if let Kind::Choice(choices) = setting.kind {
                for choice in choices {
                    config.fit.set(setting.name, choice.name).unwrap();
                }
            }
            let error = config.fit.set(setting.name, "?").unwrap_err();
            assert!(!error.is_empty(), "{}", setting.name);
        }
        assert!(config.fit.set("epoch", "3").is_err());
    }

    #[test]
    fn a_setting_is_unused_by_the_methods_that_do_not_list_it() {
        let unused = |method, name: &str| {
            let settings = FitSettings {
                method,
                ..FitSettings::default()
            };
            settings.without_effect(name).is_some()
        };
        assert!(!unused(Vifa, "rank") && unused(Von, "rank"));
        assert!(unused(Slang, "clip") && !unused(Map, "clip"));
        assert!(!unused(Map, "epochs") && !unused(Vifa, "bias_prior_precision"));
        let of_mclmc = |name: &str| !unused(Mclmc, name);
        let used = ["chains", "epochs", "draws", "checkpoint_every"];
        let others = [
            "batch_size",
            "learning_rate",
            "decay",
            "momentum",
            "optimizer",
            "patience",
            "solver",
            "rank",
        ];
        assert!(used.into_iter().all(of_mclmc) && !others.into_iter().any(of_mclmc));
    }

    #[test]
    fn a_setting_is_unused_if_another_one_rules_it_out() {
        let unused = |text: &str, name: &str| {
            let settings: FitSettings = toml::from_str(text).unwrap();
            settings.without_effect(name).is_some()
        };
        assert!(unused("optimizer = 'adam'", "momentum"));
        assert!(!unused("optimizer = 'sgd'", "momentum"));
        // Vadam does not use the optimiser.
        assert!(!unused("method = 'vadam'\noptimizer = 'adam'", "momentum"));
        assert!(unused("rank = 0", "factors_learning_rate"));
        assert!(!unused("rank = 1", "factors_learning_rate"));
        assert!(unused("no_intercept = true", "bias_prior_precision"));
        assert!(unused("model = 'linear'", "activation") && unused("", "solver"));
        // A linear model is solved directly, except by swag or if asked to train.
        for setting in ["epochs", "learning_rate", "momentum", "clip"] {
            assert!(unused("model = 'linear'", setting), "{setting}");
            assert!(!unused("optimizer = 'sgd'", setting), "{setting}");
            for trained in ["solver = 'gradient'", "method = 'swag'"] {
                let text = format!("model = 'linear'\noptimizer = 'sgd'\n{trained}");
                assert!(!unused(&text, setting), "{trained}: {setting}");
            }
        }
        assert!(!unused("model = 'linear'", "prior_precision"));
        assert!(unused("solver = 'gradient'", "solver") && !unused("model = 'linear'", "solver"));
    }

    #[test]
    fn defaults_of_the_method_are_shown_where_none_is_given() {
        let shown = |text: &str| {
            let settings: FitSettings = toml::from_str(text).unwrap();
            let defaults = settings.method_defaults().into_iter();
            let lines = defaults.map(|(name, value)| format!("{name} = {value}"));
            lines.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            shown("method = 'slang'\ninitial_deviation = 1"),
            "model = mlp:50; activation = relu; rank = 5, or the number of weights if that is smaller; \
             epochs = 100, or as many as give 3000 steps if that is more; train_draws = 1; \
             learning_rate = 0.1; diagonal_learning_rate = 0.01; decay = 0.1"
        );
        assert_eq!(
            shown("rank = 1\nepochs = 9\nlearning_rate = 0.5"),
            "model = mlp:50; activation = relu; train_draws = 2; factors_learning_rate = 0.15; \
             diagonal_learning_rate = 0.25; decay = 0.2"
        );
        assert_eq!(
            shown("method = 'swag'\nrank = 0\nepochs = 9"),
            "model = mlp:50; activation = relu; learning_rate = 0.01; decay = 0.5"
        );
        assert_eq!(
            shown("method = 'mclmc'"),
            "model = mlp:16,16; activation = silu; epochs = 7000 of up to 2857 rows, and fewer of more rows"
        );
    }

    #[test]
    fn a_training_has_enough_epochs_and_enough_steps() {
        let settings = |text: &str| toml::from_str::<FitSettings>(text).unwrap();
        let default = settings("batch_size = 30");
        assert_eq!((default.epochs(60), default.steps(60)), (1500, 3000));
        assert_eq!((default.epochs(61), default.steps(61)), (1000, 3000));
        assert_eq!((default.epochs(6000), default.steps(6000)), (100, 20_000));
        let sampled = settings("method = 'mclmc'");
        let epochs = [100, 2857, 10_000, 50_000].map(|rows| sampled.epochs(rows));
        assert_eq!(epochs, [7000, 7000, 2000, 1500]);
        assert_eq!(settings("method = 'hmc'").epochs(100), 2800);
        let given = settings("batch_size = 30\nepochs = 7");
        assert_eq!((given.epochs(60), given.steps(60)), (7, 14));
    }

    #[test]
    fn every_setting_is_part_of_the_key_of_what_depends_on_it() {
        let base = FitSettings::default();
        let table = FitSettings::table().into_iter();
        for setting in table {
            let candidates = ["2", "3", "0.5", "true", "linear", "gp:rbf", "cuda"];
            let choices: Vec<&str> = match setting.kind {
                Kind::Choice(choices) => choices.iter().map(|choice| choice.name).collect(),
                Kind::Switch | Kind::Text | Kind::List => candidates.to_vec(),
            };
            let mut others = choices.iter().filter_map(|text| {
                let mut settings = base.clone();
                settings.set(setting.name, text).ok()?;
                (settings != base).then_some(settings)
            });
            let other = others.next();
            let other = other.unwrap_or_else(|| panic!("{}: no other value", setting.name));
            let (name, scope) = (setting.name, setting.scope);
            assert_eq!(other.key() != base.key(), scope != Scope::Nothing, "{name}");
            let is_of_training = other.training_key() != base.training_key();
            assert_eq!(is_of_training, scope == Scope::Training, "{name}");
        }
        // Also the defaults of a method, which may change.
        let key = serde_json::to_value(base.training_key()).unwrap();
        assert_eq!(
            key["defaults"].as_array().unwrap().last().unwrap()[0],
            "decay"
        );
    }

    #[test]
    fn settings_survive_a_file() {
        let settings = FitSettings {
            rank: Some(3),
            ..FitSettings::default()
        };
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<FitSettings>(&text).unwrap(), settings);
    }

    #[test]
    fn unknown_keys_and_unusable_values_are_named() {
        let error = toml::from_str::<FitSettings>("epoch = 3").unwrap_err();
        assert!(error.to_string().contains("epoch"), "{error}");
        for (text, field) in [
            ("epochs = 0", "epochs"),
            ("learning_rate = -1.0", "learning_rate"),
            ("noise_precision = 0", "noise_precision"),
            ("clip = nan", "clip"),
            ("momentum = 1.0", "momentum"),
            ("decay = inf", "decay"),
        ] {
            let settings: FitSettings = toml::from_str(text).unwrap();
            let error = settings.validate().unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
        FitSettings::default().validate().unwrap();
    }
}
