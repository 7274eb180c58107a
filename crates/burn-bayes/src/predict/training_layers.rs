//! Layers that behave differently in training and inference, each switched by a flag.

use std::fmt;

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};

/// A flag of a layer. While it is on, the layer behaves differently in training and inference.
#[derive(Clone, Debug)]
pub(crate) struct TrainingFlag {
    /// The flag's own path, such as `block.noise.training`.
    path: String,
    layer: Layer,
    pub(crate) is_on: bool,
}

impl TrainingFlag {
    pub(crate) fn is_dropout(&self) -> bool {
        self.layer.is_dropout()
    }

    pub(crate) fn is_batch_norm(&self) -> bool {
        self.layer.kind == "BatchNorm"
    }

    /// How to switch the layer off.
    pub(crate) fn cure(&self) -> String {
        let path = &self.path;
        match self.is_dropout() {
            true => "remove `with_dropout()`".into(),
            false => format!(
                "freeze the layer before wrapping the model: \
                 `model.freeze_group(ParamGroup::from_path(\"{path}\"))`"
            ),
        }
    }
}

impl fmt::Display for TrainingFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layer.fmt(f)
    }
}

/// A layer, identified by its path and type name.
#[derive(Clone, Debug)]
struct Layer {
    path: String,
    kind: String,
}

impl Layer {
    fn is_dropout(&self) -> bool {
        self.kind.ends_with("Dropout")
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "the model ({})", self.kind),
            path => write!(f, "{path} ({})", self.kind),
        }
    }
}

/// All flags of a module, in Burn's layers and in the user's.
pub(crate) fn training_flags<M: Module>(module: &M) -> Vec<TrainingFlag> {
    let mut search = Search::default();
    module.visit(&mut search);
    search.found
}

/// Whether a layer other than batch norm, such as dropout or noise, behaves as in training and may draw random numbers.
pub(crate) fn has_random_layers<M: Module>(module: &M) -> bool {
    let flags = training_flags(module);
    flags.iter().any(|flag| flag.is_on && !flag.is_batch_norm())
}

/// The module with all its dropout switched.
pub(crate) fn with_dropout<M: Module>(module: M, on: bool) -> M {
    switched(module, |layer, is_on| match layer.is_dropout() {
        true => on,
        false => is_on,
    })
}

/// Whether one of these is the flag of batch norm in training mode.
pub(crate) fn has_batch_norm(flags: &[TrainingFlag]) -> bool {
    flags.iter().any(|flag| flag.is_on && flag.is_batch_norm())
}

/// The module with its batch norm in inference mode.
pub(crate) fn without_batch_norm<M: Module>(module: M) -> M {
    switched(module, |layer, is_on| is_on && layer.kind != "BatchNorm")
}

/// The module with its dropout on and all other flags off.
pub(crate) fn only_dropout<M: Module>(module: M) -> M {
    switched(module, |layer, _| layer.is_dropout())
}

/// The module with the flags that `is_on` returns for their layers and present values.
fn switched<M: Module>(module: M, is_on: impl Fn(&Layer, bool) -> bool) -> M {
    module.map(&mut Switch {
        is_on,
        place: Place::default(),
    })
}

/// The path of a module traversal: the fields, each with the type of its container.
#[derive(Default)]
struct Place(Vec<(String, String)>);

impl Place {
    fn enter(&mut self, name: &str, container_type: &str) {
        self.0.push((name.into(), container_type.into()));
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn path(&self, len: usize) -> String {
        let names: Vec<_> = self.0[..len].iter().map(|(name, _)| &**name).collect();
        names.join(".")
    }

    /// The innermost structure that contains the current field.
    fn layer(&self) -> Layer {
        let structures = self.0.iter().enumerate().rev();
        let mut structures = structures.filter_map(|(depth, (_, container_type))| {
            Some((depth, container_type.strip_prefix("Struct:")?))
        });
        let (depth, kind) = structures.next().unwrap_or_default();
        Layer {
            path: self.path(depth),
            kind: kind.into(),
        }
    }
}

struct Switch<F> {
    is_on: F,
    place: Place,
}

impl<F: Fn(&Layer, bool) -> bool> ModuleMapper for Switch<F> {
    burn_bayes_graph::track_path!(place, container_type);

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let is_on = flag.val().is_enabled();
        flag.with_value((self.is_on)(&self.place.layer(), is_on))
    }
}

#[derive(Default)]
struct Search {
    place: Place,
    found: Vec<TrainingFlag>,
}

impl ModuleVisitor for Search {
    burn_bayes_graph::track_path!(place, container_type);

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.found.push(TrainingFlag {
            path: self.place.path(self.place.0.len()),
            layer: self.place.layer(),
            is_on: flag.val().is_enabled(),
        });
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, Dropout, GaussianNoise};
    use burn::nn::{BatchNormConfig, DropoutConfig, GaussianNoiseConfig};
    use burn::tensor::Device;

    use super::*;

    #[derive(Module, Debug)]
    struct Model {
        blocks: Vec<Block>,
        switches: Vec<Param<Flag>>,
    }

    #[derive(Module, Debug)]
    struct Block {
        norm: Option<BatchNorm>,
        dropout: Dropout,
        noise: GaussianNoise,
    }

    #[test]
    fn every_flag_is_found_with_the_layer_that_it_is_of() {
        let block = Block {
            norm: Some(BatchNormConfig::new(2).init(&Device::default())),
            dropout: DropoutConfig::new(0.5).init(),
            noise: GaussianNoiseConfig::new(0.5).init(),
        };
        let model = with_dropout(
            Model {
                blocks: vec![block],
                switches: vec![Param::from_bool(false)],
            },
            false,
        );
        let flags = training_flags(&model);
        let found = flags
            .iter()
            .map(|flag| (flag.to_string(), &*flag.path, flag.is_on));
        let found: Vec<_> = found.collect();
        let expected = [
            ("blocks.0.norm (BatchNorm)", "blocks.0.norm.training", true),
            (
                "blocks.0.dropout (Dropout)",
                "blocks.0.dropout.training",
                false,
            ),
            (
                "blocks.0.noise (GaussianNoise)",
                "blocks.0.noise.training",
                true,
            ),
            ("the model (Model)", "switches.0", false),
        ];
        assert_eq!(
            found,
            expected.map(|(layer, path, on)| (layer.to_owned(), path, on))
        );
        assert!(flags[0].is_batch_norm() && flags[1].is_dropout());
        assert!(has_random_layers(&model));
        let norm = BatchNormConfig::new(2).init(&Device::default());
        assert!(!has_random_layers(&vec![norm]));
        let flags = training_flags(&only_dropout(model));
        let is_on: Vec<_> = flags.iter().map(|flag| flag.is_on).collect();
        assert_eq!(is_on, [false, true, false, false]);
    }
}
