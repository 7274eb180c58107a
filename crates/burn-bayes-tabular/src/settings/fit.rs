//! How a network is fitted.

use super::choices::Method::{Map, MeanField, Slang, Swag, Vadam, Vafc, Vifa, Vogn, Von};
use super::choices::{Method, NetworkShape, NoisePrecision, OptimizerName};
use super::device::DeviceName;
use super::table::settings;
use crate::error::{Result, TabularError};

settings! {
    /// How a network is fitted, whatever the data.
    FitSettings {
        /// How the posterior is found.
        method: Method = Method::Vifa;
        /// The network: `linear`, or `mlp:50,50` for two hidden layers of 50 rectifiers.
        model: NetworkShape = NetworkShape { hidden: vec![50] };
        /// Factors of the posterior (of methods that have any): at least 2 with swag; by default 5, or
        /// as many as there are weights.
        [methods: &[Vifa, Vafc, Swag, Slang]]
        rank: usize;
        /// Passes over the training rows.
        epochs: usize = 100;
        /// Rows of a step.
        batch_size: usize = 32;
        /// Draws of the weights in a step; by default 2 in von, which come in pairs, and 1 in the others
        /// (swag and map have none).
        [methods: &[Vifa, MeanField, Vafc, Slang, Vogn, Von, Vadam]]
        train_draws: usize;
        /// Draws of the weights in a prediction.
        [methods: &[Vifa, MeanField, Vafc, Swag, Slang, Vogn, Von, Vadam]]
        draws: usize = 100;
        /// What moves the weights (slang, vogn, von and vadam move them themselves).
        [methods: &[Vifa, MeanField, Vafc, Swag, Map]]
        optimizer: OptimizerName = OptimizerName::Adam;
        /// Learning rate of the mean; by default 0.1 in slang, vogn and von, 0.03 in vadam, and 0.01 in the
        /// others. With sgd and a variational method the gradient is that of all rows together, so the
        /// rate must be smaller by their number.
        [alias: Some("lr")]
        learning_rate: f64;
        /// Learning rate of the factors; that of the mean by default.
        [methods: &[Vifa, Vafc]]
        factors_learning_rate: f64;
        /// Learning rate of the diagonal, which in slang, vogn and von is the weight of a batch in the
        /// precision; that of the mean by default.
        [methods: &[Vifa, MeanField, Vafc, Slang, Vogn, Von]]
        diagonal_learning_rate: f64;
        /// Share of all steps after which the learning rates have fallen to 60 %; 0 keeps them constant.
        /// By default 0 in swag, whose spread is that of steps of constant size, and 0.1 in the others.
        decay: f64;
        /// Momentum of the mean (sgd, slang, vogn, von, vadam).
        momentum: f64 = 0.9;
        /// Precision of the prior over the weights, 1/variance.
        prior_precision: f64 = 1.0;
        /// The same of biases; that of the weights by default.
        bias_prior_precision: f64;
        /// Precision of the noise around a real target, 1/variance in the target's own unit, or
        /// `learned`.
        noise_precision: NoisePrecision = NoisePrecision::LEARNED;
        /// Standard deviation of a weight at the start, over the root of its layer's inputs (vifa,
        /// mean-field, slang, vogn, von) or alone (vadam); by default 0.3 in slang and 0.03 in the others.
        [methods: &[Vifa, MeanField, Slang, Vogn, Von, Vadam]]
        initial_deviation: f64;
        /// Norm to which gradients are clipped (vifa, mean-field, vafc, swag, map); none by default.
        [methods: &[Vifa, MeanField, Vafc, Swag, Map]]
        clip: f64;
        /// Layers without biases.
        no_intercept: bool = false;
        /// Where to compute: flex, wgpu, cuda or cuda:1.
        device: DeviceName = DeviceName::default();
        /// Epochs from one checkpoint to the next; 0 keeps one on interruption alone.
        checkpoint_every: usize = 10;
        /// Seed of everything random.
        seed: u64 = 0;
    }
}

impl FitSettings {
    /// Refuses what cannot be used, naming the field.
    pub fn validate(&self) -> Result<()> {
        expect_count("epochs", self.epochs)?;
        expect_count("batch_size", self.batch_size)?;
        expect_at_most("train_draws", self.step_draws(), MOST_TRAIN_DRAWS)?;
        expect_at_most("draws", self.draws, MOST_DRAWS)?;
        positive("prior_precision", self.prior_precision)?;
        for (field, value) in [
            ("initial_deviation", self.initial_deviation),
            ("learning_rate", self.learning_rate),
            ("factors_learning_rate", self.factors_learning_rate),
            ("diagonal_learning_rate", self.diagonal_learning_rate),
            ("bias_prior_precision", self.bias_prior_precision),
            ("clip", self.clip),
        ] {
            value.map_or(Ok(()), |value| positive(field, value))?;
        }
        if let NoisePrecision::Given(precision) = self.noise_precision {
            positive("noise_precision", precision)?;
        }
        let decay = self.rate_decay();
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

    /// All that a result depends on: what it does not depend on is the same for all.
    pub fn identity(&self) -> Self {
        Self {
            checkpoint_every: 0,
            decay: Some(self.rate_decay()),
            ..self.clone()
        }
    }

    /// Whether a setting changes nothing with the method and the other settings.
    pub fn is_idle(&self, field: &str) -> bool {
        let moves_itself = matches!(self.method, Slang | Vogn | Von | Vadam);
        let table = Self::table();
        let setting = table.iter().find(|setting| setting.name == field);
        let is_of_method = setting.is_none_or(|setting| setting.methods.contains(&self.method));
        !is_of_method
            || match field {
                "momentum" => !moves_itself && self.optimizer == OptimizerName::Adam,
                "factors_learning_rate" => self.rank == Some(0),
                "bias_prior_precision" => self.no_intercept,
                _ => false,
            }
    }

    /// The settings that are left to the method and change something, with their values.
    pub(crate) fn chosen(&self) -> Vec<(&'static str, String)> {
        let chosen = |name, is_left: bool, value: String| {
            (is_left && !self.is_idle(name)).then_some((name, value))
        };
        let number =
            |name, given: Option<f64>, value: f64| chosen(name, given.is_none(), value.to_string());
        let rank = format!("{DEFAULT_RANK}, or as many as there are weights");
        let draws = self.step_draws().to_string();
        let settings = [
            chosen("rank", self.rank.is_none(), rank),
            chosen("train_draws", self.train_draws.is_none(), draws),
            number("learning_rate", self.learning_rate, self.mean_rate()),
            number(
                "factors_learning_rate",
                self.factors_learning_rate,
                self.factors_rate(),
            ),
            number(
                "diagonal_learning_rate",
                self.diagonal_learning_rate,
                self.diagonal_rate(),
            ),
            number("decay", self.decay, self.rate_decay()),
            number(
                "initial_deviation",
                self.initial_deviation,
                self.start_deviation(),
            ),
        ];
        settings.into_iter().flatten().collect()
    }

    /// Draws of the weights in a step.
    pub(crate) fn step_draws(&self) -> usize {
        let default = if self.method == Method::Von { 2 } else { 1 };
        self.train_draws.unwrap_or(default)
    }

    /// The learning rate of the mean.
    pub fn mean_rate(&self) -> f64 {
        let default = match self.method {
            Method::Slang | Method::Vogn | Method::Von => 0.1,
            Method::Vadam => 0.03,
            _ => 0.01,
        };
        self.learning_rate.unwrap_or(default)
    }

    /// The share of all steps after which the learning rates have fallen to 60 %; 0 if they are constant.
    pub(crate) fn rate_decay(&self) -> f64 {
        let default = match self.method {
            Method::Swag => 0.0,
            _ => 0.1,
        };
        self.decay.unwrap_or(default)
    }

    /// The deviation of the weights at the start.
    pub(crate) fn start_deviation(&self) -> f64 {
        let default = match self.method {
            Method::Slang => 0.3,
            _ => 0.03,
        };
        self.initial_deviation.unwrap_or(default)
    }

    /// The learning rate of the factors.
    pub(crate) fn factors_rate(&self) -> f64 {
        self.factors_learning_rate.unwrap_or(self.mean_rate())
    }

    /// The learning rate of the diagonal.
    pub(crate) fn diagonal_rate(&self) -> f64 {
        self.diagonal_learning_rate.unwrap_or(self.mean_rate())
    }
}

/// A setting that cannot be used.
pub fn refused(field: &str, problem: impl std::fmt::Display) -> TabularError {
    TabularError::Usage(format!("`{field}` {problem}"))
}

/// Names in quotes, the first of them if there are many.
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

/// Factors of a posterior, unless another number is asked for.
pub(crate) const DEFAULT_RANK: usize = 5;
/// More draws in a step cost time and memory, and a mean of a thousand gradients is hardly better than
/// one of a hundred.
const MOST_TRAIN_DRAWS: usize = 1000;
/// Draws with which a mean of predictions is exact to a third of a percent of its deviation.
pub(crate) const MOST_DRAWS: usize = 100_000;

/// Refuses a count of nothing, and one with which nothing ever ends.
pub(crate) fn expect_count(field: &str, value: usize) -> Result<()> {
    expect_at_most(field, value, u32::MAX as usize)
}

/// Refuses a count of nothing, and one above `most`.
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
    use crate::settings::{Config, DataSettings, Kind};

    #[test]
    fn a_file_and_flags_make_settings() {
        let text = "method = \"mean-field\"\nmodel = \"mlp:20\"\nnoise_precision = 4\nepochs = 3";
        let mut settings: FitSettings = toml::from_str(text).unwrap();
        assert_eq!(settings.method, Method::MeanField);
        assert_eq!(settings.noise_precision, NoisePrecision::Given(4.0));
        settings.set("epochs", "7").unwrap();
        settings.set("clip", "2").unwrap();
        assert_eq!((settings.epochs, settings.clip), (7, Some(2.0)));
        assert_eq!(settings.model.hidden, [20]);
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
    fn a_setting_is_idle_where_no_method_of_its_own_is_chosen() {
        let idle = |method, name: &str| {
            let settings = FitSettings {
                method,
                ..FitSettings::default()
            };
            settings.is_idle(name)
        };
        assert!(!idle(Vifa, "rank") && idle(Von, "rank"));
        assert!(idle(Slang, "clip") && !idle(Map, "clip"));
        assert!(idle(Vifa, "momentum") && !idle(Vadam, "momentum"));
        assert!(!idle(Map, "epochs"));
    }

    #[test]
    fn swag_keeps_its_rate_unless_told_otherwise() {
        let decay = |method, decay| {
            let settings = FitSettings {
                method,
                decay,
                ..FitSettings::default()
            };
            assert_eq!(settings.identity().decay, Some(settings.rate_decay()));
            settings.rate_decay()
        };
        assert_eq!(decay(Method::Swag, None), 0.0);
        assert_eq!(decay(Method::Swag, Some(0.2)), 0.2);
        assert_eq!(decay(Method::Map, None), 0.1);
        assert_eq!(decay(Method::Map, Some(0.0)), 0.0);
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
