//! The settings of a model: its fields that are not parameters, such as dropout rates, epsilons and activations, as its
//! `Debug` output shows them.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::methods::hash_of_text;

/// A field that is not a parameter, or the type of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    path: String,
    value: String,
}

/// The name of the setting that is read back from files, and so is kept whole.
const LIKELIHOOD: &str = "likelihood";

/// Longer values are replaced by their hash.
const LONGEST: usize = 200;

/// Structures whose contents are not settings.
const OPAQUE: [&str; 2] = ["Tensor", "RunningState"];

impl Setting {
    /// The value at this path.
    pub(super) fn value<'a>(settings: &'a [Self], path: &str) -> Option<&'a str> {
        let found = settings.iter().find(|setting| setting.path == path);
        found.map(|setting| setting.value.as_str())
    }

    /// The first difference between the settings of two models with these names.
    pub(super) fn difference(
        [one, other]: [&[Self]; 2],
        [name, other_name]: [&str; 2],
    ) -> Option<String> {
        let path = &first_difference(one, other)?.path;
        let shown = |settings| match Self::value(settings, path) {
            Some(value) => format!("`{value}`"),
            None => "absent".into(),
        };
        let place = if path.is_empty() { "the model" } else { path };
        Some(format!(
            "the setting {place} is {} in {name}, {} in {other_name}",
            shown(one),
            shown(other)
        ))
    }
}

/// The first element of one list that is not in the same place of the other.
pub(super) fn first_difference<'a, T: PartialEq>(one: &'a [T], other: &'a [T]) -> Option<&'a T> {
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    let common = one.len().min(other.len());
    let longer = one.get(common).or_else(|| other.get(common));
    differ.map(|(element, _)| element).or(longer)
}

/// A hash of the settings of a model.
pub(crate) fn hash_of_settings(model: &impl Debug) -> u64 {
    hash_of_text(&format!("{:?}", settings_of(model)))
}

/// The settings of a model, in the order of its fields. Parameters, tensors, running statistics, devices and addresses are
/// none.
pub(super) fn settings_of(model: &impl Debug) -> Vec<Setting> {
    let text = format!("{model:#?}");
    let mut settings = Vec::new();
    // The open structures, by indentation.
    let mut open: Vec<Open> = Vec::new();
    let mut opaque: Option<usize> = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let content = content.trim_end().trim_end_matches(',');
        let closes = matches!(content, "}" | ")" | "]" | "})" | "");
        if let Some(depth) = opaque {
            if indent <= depth && closes {
                opaque = None;
            }
            continue;
        }
        while open.last().is_some_and(|last| last.indent >= indent) {
            open.pop();
        }
        if closes {
            continue;
        }
        let (name, value) = match content.split_once(": ") {
            Some((name, value)) if is_name(name) => (name.to_owned(), value),
            // An element of a list, or the contents of a tuple.
            _ => {
                let index = open.last_mut().map(Open::next);
                (
                    index.map_or(String::new(), |index| index.to_string()),
                    content,
                )
            }
        };
        let opens = value.ends_with(['{', '(', '[']);
        let word = value.trim_end_matches([' ', '{', '(', '[']);
        if opens && OPAQUE.contains(&word) {
            opaque = Some(indent);
            continue;
        }
        let path = open.iter().map(|open| &*open.name).chain([&*name]);
        let path: Vec<_> = path.filter(|name| !name.is_empty()).collect();
        let path = path.join(".");
        if !is_volatile(&name, value) {
            let value = match opens {
                true => word,
                false => value,
            };
            settings.push(Setting {
                path,
                value: match &*name {
                    LIKELIHOOD => value.to_owned(),
                    _ => shortened(value),
                },
            });
        }
        if opens {
            open.push(Open {
                indent,
                name,
                count: 0,
            });
        }
    }
    settings
}

/// A structure or list whose end has not been read.
struct Open {
    indent: usize,
    name: String,
    /// The elements without a name so far.
    count: usize,
}

impl Open {
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }
}

/// Whether the value is a parameter, or differs between programs without an effect on predictions.
fn is_volatile(name: &str, value: &str) -> bool {
    matches!(name, "device" | "Param")
        || ["Param: ", "Device<", "0x", "ParamId"]
            .iter()
            .any(|start| value.starts_with(start))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '"')
}

fn shortened(value: &str) -> String {
    match value.len() <= LONGEST {
        true => value.into(),
        false => {
            let digest = Sha256::digest(value.as_bytes());
            let digits = digest.iter().map(|byte| format!("{byte:02x}"));
            format!("sha256 {}", digits.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, Param};
    use burn::nn::{
        BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Gelu, Linear, LinearConfig,
    };
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[derive(Clone, Debug)]
    #[allow(dead_code, reason = "read through Debug")]
    enum Choice {
        Plain,
        Scaled(f64),
        Named { rates: Vec<f64> },
    }

    #[derive(Module, Debug)]
    struct Model {
        blocks: Vec<Linear>,
        norm: Option<BatchNorm>,
        dropout: Dropout,
        activation: Gelu,
        constant: Tensor<1>,
        own: Param<Tensor<1>>,
        #[module(skip)]
        choice: Choice,
        scale: f64,
    }

    fn model(device: &Device, choice: Choice) -> Model {
        Model {
            blocks: (0..2)
                .map(|_| LinearConfig::new(2, 2).init(device))
                .collect(),
            norm: Some(BatchNormConfig::new(2).init(device)),
            dropout: DropoutConfig::new(0.25).init(),
            activation: Gelu::new(),
            constant: Tensor::zeros([2], device),
            own: Param::from_tensor(Tensor::zeros([2], device)),
            choice,
            scale: 0.5,
        }
    }

    #[test]
    fn settings_do_not_depend_on_values_and_devices() {
        let plain = model(&Device::default(), Choice::Plain);
        let training = model(&Device::default().autodiff(), Choice::Plain);
        let settings = settings_of(&plain);
        assert_eq!(settings_of(&training), settings);
        assert_eq!(settings_of(&training.valid().no_grad()), settings);
        let value = |path: &str| {
            let found = settings.iter().find(|setting| setting.path == path);
            found.map(|setting| setting.value.as_str())
        };
        assert_eq!(value("dropout.prob"), Some("0.25"));
        assert_eq!(value("scale"), Some("0.5"));
        assert_eq!(value("choice"), Some("Plain"));
        assert_eq!(value("blocks.1"), Some("Linear"));
        assert!(
            settings
                .iter()
                .any(|setting| setting.path.ends_with("momentum"))
        );
        assert!(!settings.iter().any(|setting| setting.path.contains("own")));
    }

    #[test]
    fn the_first_different_setting_is_named() {
        let device = Device::default();
        let difference = |one: Model, other: Model| {
            let names = ["the posterior's file", "the model"];
            Setting::difference([&settings_of(&one), &settings_of(&other)], names)
        };
        let base = || {
            model(
                &device,
                Choice::Named {
                    rates: vec![0.5, 1.5],
                },
            )
        };
        assert_eq!(difference(base(), base()), None);
        let mut other = base();
        other.dropout = DropoutConfig::new(0.5).init();
        let message = difference(base(), other).unwrap();
        assert!(
            message.contains("dropout.prob is `0.25` in the posterior's file, `0.5` in the model"),
            "{message}"
        );
        let other = model(
            &device,
            Choice::Named {
                rates: vec![0.5, 2.5],
            },
        );
        let message = difference(base(), other).unwrap();
        assert!(message.contains("choice.rates.1 is `1.5`"), "{message}");
        let other = model(&device, Choice::Scaled(2.0));
        assert!(
            difference(base(), other)
                .unwrap()
                .contains("choice is `Named`")
        );
        let scaled = |by| model(&device, Choice::Scaled(by));
        assert!(
            difference(scaled(1.0), scaled(2.0))
                .unwrap()
                .contains("choice.0")
        );
    }
}
