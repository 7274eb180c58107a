//! The settings of reparameterised parameters, such as α of LoRA, which no visitor and no `Debug` output shows.
//!
//! They are measured: with its own parameters at 1 and at 0, a reparameterisation gives weights whose means differ by
//! a number that depends on its settings only, for LoRA by the scale times the rank.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn_bayes_graph::ModulePath;
use serde::{Deserialize, Serialize};

/// A reparameterised parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reparameterized {
    path: String,
    /// The difference of the means.
    gain: f64,
}

impl Reparameterized {
    /// The first difference of those of a model from those of one with a name.
    pub(super) fn difference(named: &[Self], name: &str, model: &[Self]) -> Option<String> {
        let pairs = named.iter().zip(model);
        let differ = pairs
            .filter(|(one, other)| one.path == other.path)
            .find(|(one, other)| {
                let size = one.gain.abs().max(other.gain.abs());
                // Also if one of them is not finite.
                let is_near = (one.gain - other.gain).abs() <= 1e-3 * size;
                !(is_near || one.gain.to_bits() == other.gain.to_bits())
            });
        let (one, other) = differ?;
        Some(format!(
            "the scale of the adapter of {} (α of LoRA) is {} times that of {name}",
            one.path,
            other.gain / one.gain
        ))
    }
}

/// The reparameterised parameters of a model.
pub(super) fn reparameterized<M: Module>(model: &M) -> Vec<Reparameterized> {
    let mut search = Search::default();
    model.visit(&mut search);
    if search.found.is_empty() {
        return Vec::new();
    }
    let means = |value| {
        // A copy, because running statistics would be shared.
        let model = model.valid().map(&mut Fill {
            place: Place::default(),
            bases: &search.found,
            value,
        });
        let mut means = Means {
            path: ModulePath::default(),
            bases: &search.found,
            found: Vec::new(),
        };
        model.materialize().visit(&mut means);
        means.found
    };
    let pairs = means(1.0).into_iter().zip(means(0.0));
    pairs
        .map(|((path, one), (_, zero))| Reparameterized {
            path,
            gain: one - zero,
        })
        .collect()
}

/// Where a traversal is.
#[derive(Default)]
struct Place {
    path: ModulePath,
    /// The names of the reparameterisations that have been entered, one for each module.
    inside: Vec<Option<String>>,
}

impl Place {
    fn enter(&mut self, name: &str, container_type: &str) {
        self.path.enter(name);
        self.inside
            .push((container_type == "Reparameterization").then(|| name.to_owned()));
    }

    fn exit(&mut self) {
        self.path.exit();
        self.inside.pop();
    }

    fn reparameterization(&self) -> Option<&str> {
        self.inside.iter().flatten().next().map(String::as_str)
    }
}

/// The paths of the parameters that are reparameterised, with the name of the reparameterisation.
#[derive(Default)]
struct Search {
    path: ModulePath,
    found: HashMap<String, String>,
}

impl ModuleVisitor for Search {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        if container_type == "Reparameterization" {
            self.found
                .insert(self.path.as_str().to_owned(), name.to_owned());
        }
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }
}

/// Gives the parameters of reparameterisations one value, and their bases the value 1.
struct Fill<'a> {
    place: Place,
    bases: &'a HashMap<String, String>,
    value: f64,
}

impl ModuleMapper for Fill<'_> {
    burn_bayes_graph::track_path!(place, container_type);

    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        let path = self.place.path.as_str();
        let inside = self.place.reparameterization();
        let (name, value) = match (inside, self.bases.get(path)) {
            (Some(name), _) => (name, self.value),
            (None, Some(name)) => (name.as_str(), 1.0),
            (None, None) => return param,
        };
        // One row and column of LoRA's product are enough, and its base may be large, or quantised.
        let mut shape: [usize; R] = param.lazy_shape().dims();
        match (name, inside) {
            ("lora", None) => shape = [1; R],
            ("lora", Some(_)) if path.ends_with(".a") => shape[0] = 1,
            ("lora", Some(_)) => shape[R - 1] = 1,
            _ => {}
        }
        Param::initialized(param.id, Tensor::full(shape, value, &param.lazy_device()))
    }
}

/// The means of the parameters with these paths.
struct Means<'a> {
    path: ModulePath,
    bases: &'a HashMap<String, String>,
    found: Vec<(String, f64)>,
}

impl ModuleVisitor for Means<'_> {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if self.bases.contains_key(self.path.as_str()) {
            let mean = param.val().mean().into_scalar::<f64>();
            self.found.push((self.path.as_str().to_owned(), mean));
        }
    }
}
