//! Named ranges of settings, as a TOML table: `learning_rate = { log_uniform = [0.01, 0.02] }`.

use std::collections::BTreeMap;
use std::path::Path;

use burn_bayes::Noise;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Result, TabularError};
use crate::files::read_text;
use crate::random::generator;
use crate::settings::{FitSettings, LikelihoodName, Method, refused};

/// The distribution of a setting.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// Log-uniform between two numbers.
    LogUniform([f64; 2]),
    /// Uniform between two numbers.
    Uniform([f64; 2]),
    /// A whole number, both limits inclusive.
    Integer([u64; 2]),
    /// One of these values.
    Choice(Vec<Value>),
}

/// Ranges by name of setting.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Ranges(BTreeMap<String, Range>);

/// The default ranges of all methods.
const DEFAULTS: &str = include_str!("ranges.toml");

impl Ranges {
    /// The default ranges of a method; ranks are at most the number of `weights`.
    pub(crate) fn of_method(method: Method, weights: usize) -> Result<Self> {
        let wrong = |error| TabularError::Usage(format!("the default ranges: {error}"));
        let mut all: BTreeMap<String, Self> = toml::from_str(DEFAULTS).map_err(wrong)?;
        let ranges = all.remove(&method.to_string());
        let missing = || {
            refused(
                "ranges",
                format!("has no default for {method}; give a file"),
            )
        };
        let mut ranges = ranges.ok_or_else(missing)?;
        if let Some(Range::Choice(ranks)) = ranges.0.get_mut("rank") {
            let is_too_large = |rank: &Value| rank.as_u64() > Some(weights as u64);
            // The number of choices stays the same, so that the other settings of a trial do not change.
            for rank in ranks.iter_mut().filter(|rank| is_too_large(rank)) {
                *rank = weights.into();
            }
        }
        Ok(ranges)
    }

    /// The ranges of settings that have an effect with the other `settings`.
    pub(crate) fn with_effect(mut self, settings: &FitSettings) -> Self {
        self.0
            .retain(|name, _| settings.without_effect(name).is_none());
        self
    }

    /// Also of these likelihoods, if there are several.
    pub(crate) fn with_likelihoods(mut self, likelihoods: &[LikelihoodName]) -> Self {
        if likelihoods.len() > 1 {
            let names = likelihoods.iter().map(|name| name.to_string().into());
            let names = Range::Choice(names.collect());
            self.0.insert("likelihood".into(), names);
        }
        self
    }

    /// Reads a TOML file of ranges.
    ///
    /// # Errors
    /// If the file cannot be read, or a range is invalid for its setting.
    pub fn read(path: &Path, base: &FitSettings) -> Result<Self> {
        let path_shown = path.display();
        let ranges: Self = toml::from_str(&read_text(path)?).map_err(|error| {
            TabularError::Usage(format!(
                "{path_shown}: {error}; write ranges as in `learning_rate = {{ log_uniform = \
                 [0.001, 0.1] }}`"
            ))
        })?;
        let drawn = ranges.draw(base, Noise::new(0));
        drawn.map_err(|failure| TabularError::Usage(format!("{path_shown}: {failure}")))?;
        Ok(ranges)
    }

    /// The names of the settings, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether a setting is drawn on a logarithmic scale.
    pub(super) fn is_logarithmic(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Range::LogUniform(_)))
    }

    /// Ranges of the settings with these names.
    pub fn new(ranges: impl IntoIterator<Item = (&'static str, Range)>) -> Self {
        let named = ranges.into_iter();
        Self(named.map(|(name, range)| (name.into(), range)).collect())
    }

    /// Draws the settings with ranges; the others are those of `base`.
    ///
    /// # Errors
    /// If a range is empty, or its name or its values are invalid.
    pub(crate) fn draw(&self, base: &FitSettings, noise: Noise) -> Result<FitSettings> {
        let mut generator = generator(noise);
        let mut settings = base.clone();
        for (name, range) in &self.0 {
            let value = range.draw(name, &mut generator)?;
            settings = with(&settings, name, value)?;
        }
        settings.validate()?;
        Ok(settings)
    }
}

impl Range {
    fn draw(&self, name: &str, generator: &mut impl RngExt) -> Result<Value> {
        match self {
            Self::LogUniform([least, most]) => {
                if !(0.0 < *least && least <= most && most.is_finite()) {
                    return Err(empty(name, "two numbers above zero, the smaller first"));
                }
                // Rounding errors may leave the range.
                let drawn = generator.random_range(least.ln()..=most.ln()).exp();
                Ok(drawn.clamp(*least, *most).into())
            }
            Self::Uniform([least, most]) => {
                // The generator panics if the difference overflows.
                if !(least <= most && most - least <= f64::MAX / 2.0) {
                    return Err(empty(name, "two numbers, the smaller first"));
                }
                Ok(generator.random_range(*least..=*most).into())
            }
            Self::Integer([least, most]) => {
                if least > most {
                    return Err(empty(name, "two whole numbers, the smaller first"));
                }
                Ok(generator.random_range(*least..=*most).into())
            }
            Self::Choice(values) if values.is_empty() => Err(empty(name, "at least one value")),
            Self::Choice(values) => Ok(values[generator.random_range(0..values.len())].clone()),
        }
    }
}

fn empty(name: &str, expected: &str) -> TabularError {
    refused(
        name,
        format!("has an empty or invalid range; give {expected}"),
    )
}

/// The settings with a new value of one of them.
fn with(settings: &FitSettings, name: &str, value: Value) -> Result<FitSettings> {
    let wrong = |error: serde_json::Error| refused(name, format!("has an invalid range: {error}"));
    let mut table = serde_json::to_value(settings).map_err(wrong)?;
    table[name] = value;
    serde_json::from_value(table).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::settings::{NetworkShape, NoisePrecision};

    fn ranges(text: &str) -> Ranges {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn draws_fill_their_ranges() {
        let ranges = ranges(
            "learning_rate = { log_uniform = [0.01, 1.0] }\n\
             momentum = { uniform = [0.5, 0.9] }\n\
             rank = { integer = [1, 3] }\n\
             method = { choice = [\"vifa\", \"slang\"] }\n\
             noise_precision = { choice = [\"learned\", 2.0] }\n\
             model = { choice = [\"linear\", \"mlp:50\"] }",
        );
        let base = FitSettings {
            epochs: Some(7),
            ..FitSettings::default()
        };
        let drawn: Vec<_> = (0..400)
            .map(|seed| ranges.draw(&base, Noise::new(seed)).unwrap())
            .collect();
        let share = |is: &dyn Fn(&FitSettings) -> bool| {
            drawn.iter().filter(|settings| is(settings)).count() as f64 / 400.0
        };
        // Five standard deviations of a fraction of 1/2 in 400 draws are 0.125, and of 1/3 0.118.
        let near = |share: f64, expected: f64| assert!((share - expected).abs() < 0.125, "{share}");
        near(share(&|settings| settings.tuned().learning_rate < 0.1), 0.5);
        near(share(&|settings| settings.momentum < 0.7), 0.5);
        near(share(&|settings| settings.rank == Some(3)), 1.0 / 3.0);
        near(share(&|settings| settings.method == Method::Slang), 0.5);
        near(
            share(&|settings| settings.noise_precision == NoisePrecision::LEARNED),
            0.5,
        );
        near(
            share(&|settings| settings.model == Some(NetworkShape { hidden: vec![] })),
            0.5,
        );
        for settings in &drawn {
            assert!((0.01..=1.0).contains(&settings.tuned().learning_rate));
            assert!((0.5..=0.9).contains(&settings.momentum));
            assert_eq!(settings.epochs, Some(7));
        }
        assert_eq!(ranges.draw(&base, Noise::new(5)).unwrap(), drawn[5]);
    }

    #[test]
    fn what_is_no_range_of_a_setting_is_named() {
        for (text, name) in [
            ("learning_rat = { uniform = [0.1, 0.2] }", "learning_rat"),
            ("learning_rate = { uniform = [0.2, 0.1] }", "learning_rate"),
            ("clip = { log_uniform = [0.0, 1.0] }", "clip"),
            ("rank = { uniform = [0.5, 0.6] }", "rank"),
            ("epochs = { integer = [3, 2] }", "epochs"),
            ("epochs = { integer = [0, 0] }", "epochs"),
            ("method = { choice = [] }", "method"),
            ("method = { choice = [\"vifer\"] }", "method"),
        ] {
            let failure = ranges(text)
                .draw(&FitSettings::default(), Noise::new(0))
                .unwrap_err();
            assert!(
                matches!(failure, TabularError::Setting { .. }),
                "{failure:?}"
            );
            assert!(
                failure.to_string().contains(&format!("`{name}`")),
                "{failure}"
            );
        }
        assert!(toml::from_str::<Ranges>("clip = { normal = [0.0, 1.0] }").is_err());
    }

    #[test]
    fn every_method_has_ranges_that_fit() {
        for method in Method::named() {
            let base = FitSettings {
                method,
                ..FitSettings::default()
            };
            let ranges = Ranges::of_method(method, 5).unwrap();
            assert!(
                ranges.names().any(|name| name == "prior_precision"),
                "{method}"
            );
            let drawn = ranges.draw(&base, Noise::new(1)).unwrap();
            assert_ne!(drawn, base);
        }
    }

    #[test]
    fn default_ranks_are_at_most_the_number_of_weights() {
        for method in [Method::Vifa, Method::Vafc, Method::Slang] {
            let base = FitSettings {
                method,
                ..FitSettings::default()
            };
            let drawn = |weights: usize| -> Vec<FitSettings> {
                let ranges = Ranges::of_method(method, weights).unwrap();
                let draw = |seed| ranges.draw(&base, Noise::new(seed)).unwrap();
                (0..40).map(draw).collect()
            };
            let (many, few) = (drawn(1000), drawn(4));
            // The probability that one of three ranks is never drawn is 3 (2/3)⁴⁰ < 10⁻⁶.
            assert!(many.iter().any(|settings| settings.rank == Some(5)));
            let capped = many.into_iter().map(|settings| FitSettings {
                rank: settings.rank.map(|rank| rank.min(4)),
                ..settings
            });
            assert_eq!(few, capped.collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranges_survive_a_file() {
        let ranges = Ranges::new([
            ("clip", Range::LogUniform([0.1, 10.0])),
            ("rank", Range::Integer([0, 5])),
        ]);
        let text = toml::to_string(&ranges).unwrap();
        assert_eq!(toml::from_str::<Ranges>(&text).unwrap(), ranges);
    }
}
