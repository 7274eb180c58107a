//! The values of settings that are neither numbers nor text.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use burn_bayes_data::shell::item;
use burn_bayes_data::{DecimalMark, Header, MissingPolicy, OneOrSeveral, Task, UnseenPolicy};
use serde::{Deserialize, Serialize};

use super::device::DeviceName;
use super::pairs::{bare, split};
use super::prior::PriorName;
use super::value::{Kind, SettingValue};

/// Defines an enumeration whose values have names in settings and on command lines, perhaps those of another one with the
/// same values.
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $choices:ident $(of $other:ty)? {
            $($(#[doc = $doc:literal])+ $choice:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
        pub enum $choices {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $choice,)+
        }

        impl $choices {
            /// All values.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$choice),+];
        }

        $crate::settings::choices!(@into $choices [$($other)?] [$($choice)+]);

        impl std::fmt::Display for $choices {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$choice => $name,)+
                })
            }
        }

        impl std::str::FromStr for $choices {
            type Err = String;

            fn from_str(text: &str) -> std::result::Result<Self, String> {
                match text {
                    $($name => Ok(Self::$choice),)+
                    _ => Err(format!("`{text}` is not one of {}", [$($name),+].join(", "))),
                }
            }
        }

        impl $crate::settings::SettingValue for $choices {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(&[
                $($crate::settings::Choice { name: $name, help: concat!($($doc),+) }),+
            ]);
        }
    };
    (@into $choices:ident [] $choice:tt) => {};
    (@into $choices:ident [$other:ty] [$($choice:ident)+]) => {
        impl From<$choices> for $other {
            fn from(name: $choices) -> Self {
                match name {
                    $($choices::$choice => Self::$choice,)+
                }
            }
        }
    };
}

pub(crate) use choices;

choices! {
    /// How a linear model is fitted.
    Solver {
        /// Directly if it has at most 1000 weights (all methods but swag and factor-analysis), otherwise by gradient steps.
        Auto = "auto",
        /// By gradient steps, as a network.
        Gradient = "gradient",
    }
}

choices! {
    /// The likelihood of the target.
    LikelihoodName {
        /// A number with Gaussian noise of one variance.
        Gaussian = "gaussian",
        /// A number with Gaussian noise whose variance the network predicts for each row.
        Heteroscedastic = "heteroscedastic",
        /// A number with a mixture of two Gaussians, which the network predicts for each row.
        Mixture = "mixture",
        /// A count with a Poisson distribution, whose rate the network predicts.
        Poisson = "poisson",
        /// A count whose variance exceeds its mean, by a dispersion that is learned.
        NegativeBinomial = "negative-binomial",
        /// One of several classes.
        Categorical = "categorical",
        /// One of several ordered classes.
        Ordinal = "ordinal",
        /// Several labels, each with a probability of its own.
        Bernoulli = "bernoulli",
    }
}

choices! {
    /// A model without uncertainty about its weights, beside which methods are compared.
    PlainName {
        /// The mean and deviation of the training targets, or the frequencies of their classes.
        Constant = "constant",
        /// Ridge, logistic or negative binomial regression.
        Linear = "linear",
        /// A random forest.
        Forest = "forest",
    }
}

choices! {
    /// What is predicted of a number.
    TargetScaleName {
        /// The one of the next two that predicts left-out rows better.
        Auto = "auto",
        /// The number itself.
        Linear = "linear",
        /// Its logarithm, for numbers above 0 whose errors grow with them.
        Log = "log",
    }
}

choices! {
    /// How numeric columns with long tails are scaled.
    FeatureScaleName {
        /// The one of the next two that predicts left-out rows better.
        Auto = "auto",
        /// As all others.
        Linear = "linear",
        /// As logarithms, of both signs and linear near 0.
        Log = "log",
    }
}

choices! {
    /// How predictions are recalibrated on the held-out rows.
    RecalibrationName {
        /// One temperature of the class probabilities of every draw, for a classification.
        Temperature = "temperature",
        /// One factor of all standard deviations, for a regression.
        Variance = "variance",
    }
}

choices! {
    /// Optimiser.
    OptimizerName {
        /// Adam.
        Adam = "adam",
        /// Gradient descent with momentum.
        Sgd = "sgd",
    }
}

choices! {
    /// Activation function of the hidden layers.
    Activation {
        /// max(x, 0)
        Relu = "relu",
        /// x/(1 + exp(−x))
        Silu = "silu",
        /// tanh x
        Tanh = "tanh",
    }
}

choices! {
    /// Type of the task.
    TaskName of Task {
        /// A number.
        Regression = "regression",
        /// A count: a whole number of at least 0.
        Counts = "counts",
        /// A class.
        Classification = "classification",
        /// Several labels, each a column of two values.
        Multilabel = "multilabel",
    }
}

choices! {
    /// Decimal separator.
    DecimalName of DecimalMark {
        /// 1.5
        Point = ".",
        /// 1,5
        Comma = ",",
    }
}

choices! {
    /// Whether the first row of a file names the columns.
    HeaderName of Header {
        /// The first row is a header if none of its cells is a number.
        Detect = "detect",
        /// The first row is a header.
        Present = "present",
        /// There is no header; columns are named column_0, column_1, ….
        Absent = "absent",
    }
}

choices! {
    /// Treatment of missing values.
    MissingName {
        /// Stop with an error.
        Refuse = "refuse",
        /// Replace by the mean of the column, or its most frequent category, and add a feature that says where, if an eighth of the
        /// training rows lack the value. Rows without a value to predict are left out.
        Impute = "impute",
        /// Leave the row out of training, scores and predictions.
        Drop = "drop",
    }
}

impl From<MissingName> for MissingPolicy {
    fn from(name: MissingName) -> Self {
        match name {
            MissingName::Refuse | MissingName::Drop => Self::Refuse,
            MissingName::Impute => Self::Impute,
        }
    }
}

choices! {
    /// Treatment of categories that do not occur in the training rows.
    UnseenName of UnseenPolicy {
        /// Stop with an error.
        Refuse = "refuse",
        /// Encode as zeros, or as the rare ones (`--rare`) if the column has some.
        Zeros = "zeros",
    }
}

/// The shape of a network: `linear`, or `mlp:50,50` for two hidden layers of 50 units.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkShape {
    /// The widths of the hidden layers; none in a linear model.
    pub hidden: Vec<usize>,
}

impl FromStr for NetworkShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hidden = match text.split_once(':') {
            None if text == "linear" => Some(Vec::new()),
            Some(("mlp", widths)) => {
                let widths = widths.split(',').map(|width| width.trim().parse().ok());
                let widths: Option<Vec<usize>> = widths.collect();
                widths.filter(|widths| !widths.contains(&0))
            }
            _ => None,
        };
        let hidden = hidden.ok_or_else(|| {
            format!(
                "`{text}` is not a model; use `linear`, or `mlp:` and the widths of the hidden layers, \
                 as in `mlp:50,50`"
            )
        })?;
        Ok(Self { hidden })
    }
}

impl fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<String> = self.hidden.iter().map(ToString::to_string).collect();
        match widths.is_empty() {
            true => f.write_str("linear"),
            false => write!(f, "mlp:{}", widths.join(",")),
        }
    }
}

/// The noise precision of a regression target, 1/variance in the unit of the target.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "`noise_precision` is neither a number nor `learned`"
)]
pub enum NoisePrecision {
    /// A fixed value.
    Given(f64),
    /// Estimated from the data.
    Learned(LearnedWord),
}

/// The word `learned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearnedWord {
    /// `learned`.
    Learned,
}

impl NoisePrecision {
    /// Estimated from the data.
    pub const LEARNED: Self = Self::Learned(LearnedWord::Learned);
}

/// The precision of the prior over the weights.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum PriorPrecision {
    /// A fixed value.
    Given(f64),
    /// The value with the largest evidence for a linear regression that is solved directly, that of the fan-in with mclmc
    /// and hmc, .01 beside a Gaussian process, otherwise 1.
    Auto(AutoWord),
    /// The value with the largest bound on the evidence.
    Learned(PriorLearning),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AutoWord {
    /// `auto`.
    Auto,
}

impl PriorPrecision {
    /// Chosen by the kind of the model.
    pub const AUTO: Self = Self::Auto(AutoWord::Auto);

    /// The value before it is learned, which is the last one unless it is learned.
    pub(crate) fn initial(self) -> f64 {
        match self {
            Self::Given(precision) => precision,
            Self::Auto(_) | Self::Learned(_) => 1.0,
        }
    }
}

/// The weights that share a learned prior precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorLearning {
    /// All.
    Learned,
    /// Those of a layer.
    LearnedPerLayer,
}

impl From<f64> for PriorPrecision {
    fn from(precision: f64) -> Self {
        Self::Given(precision)
    }
}

/// The texts of a number, or of one of these words.
macro_rules! number_or {
    ($type:ident, $listed:literal, $($word:literal = $variant:ident($value:path)),+) => {
        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant($value)),)+
                    _ => text.parse().map(Self::Given).map_err(|_| {
                        format!("`{text}` is neither a number nor {}", $listed)
                    }),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Given(number) => number.fmt(f),
                    $(Self::$variant($value) => f.write_str($word),)+
                }
            }
        }
    };
}

number_or!(
    NoisePrecision,
    "`learned`",
    "learned" = Learned(LearnedWord::Learned)
);
number_or!(
    PriorPrecision,
    "`auto`, `learned` or `learned-per-layer`",
    "auto" = Auto(AutoWord::Auto),
    "learned" = Learned(PriorLearning::Learned),
    "learned-per-layer" = Learned(PriorLearning::LearnedPerLayer)
);

/// A column separator: one character, or `tab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Delimiter(pub u8);

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self(b'\t')),
            &[byte] if byte.is_ascii() && !b"\"\n\r".contains(&byte) => Ok(Self(byte)),
            _ => Err(format!(
                "`{text}` is not a delimiter; use one character, or `tab`"
            )),
        }
    }
}

impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\t' => f.write_str("tab"),
            byte => write!(f, "{}", char::from(byte)),
        }
    }
}

/// A list of names or words, separated by commas on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Words(pub Vec<String>);

impl FromStr for Words {
    type Err = Infallible;

    /// Words in double quotes may contain commas.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let words = split(text, ',').map(|word| bare(word).to_string());
        Ok(Self(words.filter(|word| !word.is_empty()).collect()))
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|word| item(word)).collect();
        f.write_str(&words.join(","))
    }
}

/// The columns to predict: a name, or a list of names, separated by commas on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct TargetColumns(OneOrSeveral<String>);

impl TargetColumns {
    /// The names.
    pub fn names(&self) -> &[String] {
        self.0.as_slice()
    }
}

impl From<&str> for TargetColumns {
    /// One column.
    fn from(name: &str) -> Self {
        Self(OneOrSeveral::One(name.into()))
    }
}

impl FromStr for TargetColumns {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let Words(names) = text.parse()?;
        Ok(Self(names.into()))
    }
}

impl fmt::Display for TargetColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Words(self.names().to_vec()).fmt(f)
    }
}

/// Conversions for serde, by `FromStr` and `Display`.
macro_rules! as_text {
    ($($type:ty),+) => {
        $(
            impl TryFrom<String> for $type {
                type Error = String;

                fn try_from(text: String) -> Result<Self, String> {
                    text.parse()
                }
            }

            impl From<$type> for String {
                fn from(value: $type) -> Self {
                    value.to_string()
                }
            }
        )+
    };
}

as_text!(Delimiter, DeviceName, NetworkShape, PriorName);

impl SettingValue for Delimiter {}
impl SettingValue for DeviceName {}
impl SettingValue for NetworkShape {}
impl SettingValue for NoisePrecision {}
impl SettingValue for PriorName {}
impl SettingValue for PriorPrecision {}
impl SettingValue for TargetColumns {
    const KIND: Kind = Kind::List;
}
impl SettingValue for Words {
    const KIND: Kind = Kind::List;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_parsed() {
        for text in ["linear", "mlp:50", "mlp:50,20"] {
            assert_eq!(text.parse::<NetworkShape>().unwrap().to_string(), text);
        }
        for text in [",", ";", "tab"] {
            assert_eq!(text.parse::<Delimiter>().unwrap().to_string(), text);
        }
        for text in ["learned", "0.25"] {
            assert_eq!(text.parse::<NoisePrecision>().unwrap().to_string(), text);
        }
        for text in ["learned", "learned-per-layer", "0.25"] {
            assert_eq!(text.parse::<PriorPrecision>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn words_in_quotes_may_contain_commas() {
        for (text, words) in [
            ("a,b", &["a", "b"][..]),
            (" a , ,b,", &["a", "b"]),
            ("\"size, m²\",b", &["size, m²", "b"]),
            ("a\"b", &["a\"b"]),
        ] {
            let found: Words = text.parse().unwrap();
            assert_eq!(found.0, words, "{text}");
            assert_eq!(found.to_string().parse(), Ok(found));
        }
    }

    #[test]
    fn a_target_is_a_name_in_files_and_several_are_a_list() {
        #[derive(Debug, PartialEq, Deserialize, Serialize)]
        struct File {
            target: TargetColumns,
        }
        for (text, names) in [
            ("target = \"a\"\n", &["a"][..]),
            // Only the command line separates names by commas.
            ("target = \"a, b\"\n", &["a, b"]),
            ("target = [\"a\", \"b\"]\n", &["a", "b"]),
        ] {
            let file: File = toml::from_str(text).unwrap();
            assert_eq!(file.target.names(), names);
            assert_eq!(toml::to_string(&file).unwrap(), text);
        }
        let parsed: TargetColumns = "a, b".parse().unwrap();
        assert_eq!(parsed.names(), ["a", "b"]);
        assert_eq!("a".parse(), Ok(TargetColumns::from("a")));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["mlp", "mlp:", "mlp:5,0", "mlp:x", "cnn", "linear:3"] {
            let error = text.parse::<NetworkShape>().unwrap_err();
            assert!(
                error.contains(text) && error.contains("mlp:50,50"),
                "{error}"
            );
        }
        assert!("lots".parse::<NoisePrecision>().is_err());
        assert!("lots".parse::<PriorPrecision>().is_err());
        assert!("::".parse::<Delimiter>().is_err());
    }
}
