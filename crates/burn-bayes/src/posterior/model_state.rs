//! The state of a model outside a layout: parameters that are point estimates, running statistics such as those of batch
//! norm, and the settings of its layers.
//!
//! A posterior carries it, so that a model and a posterior, or its file, are the predictive model of the training.

mod file;
mod visitors;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor};
use burn_bayes_graph::{Layout, ModulePath};
use serde::{Deserialize, Serialize};

pub(super) use self::file::PREFIX;
pub(crate) use self::visitors::unshared;
use self::visitors::{Collector, Writer, shapes_of};
pub use self::visitors::{changing, running};
use super::reparameterization::{Reparameterized, reparameterized};
use super::settings::{Setting, first_difference, settings_of};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// The state of a model outside the layout of a posterior: the values of all other parameters and of running statistics,
/// the settings of the layers, and the noise of the predictions.
///
/// A posterior that a training or a method has made has one; a posterior made from tensors has none, until
/// [`with_model_state`](super::Posterior::with_model_state) gives it that of a model. It is written into every model that
/// the posterior is combined with.
#[derive(Clone, Default)]
pub struct ModelState(State);

#[derive(Clone, Default)]
enum State {
    /// The posterior was made from tensors: the model that it is combined with keeps its own state.
    #[default]
    Unknown,
    /// The posterior was read from a file without a state.
    Missing,
    /// What changes in a training, at the time of a sample. The remaining state is unknown.
    Sample(Arc<Layout>, Tensor<1>),
    Known(Known),
}

#[derive(Clone)]
struct Known {
    /// In the order of [`Description::values`].
    values: Arc<[Value]>,
    description: Arc<Description>,
    noise: Option<Noise>,
    /// Whether it was read from a file, so that the model was not made by the same program.
    is_loaded: bool,
}

/// The values of a parameter or of a running statistic, as a vector.
#[derive(Clone)]
enum Value {
    Float(Tensor<1>),
    Int(Tensor<1, Int>),
    Bool(Tensor<1, Bool>),
}

/// What is needed besides the values to restore a model, or to recognise another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    /// The parameters and running statistics outside the layout.
    values: Vec<Shape>,
    settings: Vec<Setting>,
    reparameterized: Vec<Reparameterized>,
}

/// The contents of the metadata entry of a file.
#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    description: Description,
    noise: Option<Noise>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shape {
    path: String,
    kind: Kind,
    shape: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Float,
    Int,
    Bool,
}

impl fmt::Debug for ModelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Unknown => "ModelState(unknown)",
            State::Missing => "ModelState(missing)",
            State::Sample(..) => "ModelState(sample)",
            State::Known(_) => "ModelState(known)",
        })
    }
}

impl ModelState {
    /// The state of a model outside this layout.
    pub(crate) fn of<M: Module>(model: &M, layout: &Layout) -> Self {
        // `valid` applies pending updates of running statistics.
        let model = model.valid();
        let mut found = Collector::default();
        model.visit(&mut found);
        let outside = found.found.into_iter();
        let outside = outside.filter(|(shape, _)| layout.entry(&shape.path).is_none());
        let (shapes, values): (Vec<_>, Vec<_>) = outside.unzip();
        Self(State::Known(Known {
            values: values.into(),
            description: Arc::new(Description {
                values: shapes,
                settings: settings_of(&model),
                reparameterized: reparameterized(&model),
            }),
            noise: None,
            is_loaded: false,
        }))
    }

    /// The state of a sample: the values of [`changing`] parameters and statistics.
    #[doc(hidden)]
    pub fn of_sample(changing: Arc<Layout>, values: Tensor<1>) -> Self {
        Self(State::Sample(changing, values))
    }

    /// The same state with the noise of the predictions.
    pub(crate) fn with_noise(self, noise: Noise) -> Self {
        match self.0 {
            State::Known(known) => Self(State::Known(Known {
                noise: Some(noise),
                ..known
            })),
            state => Self(state),
        }
    }

    /// The noise of the predictions in the training.
    pub(crate) fn noise(&self) -> Option<Noise> {
        match &self.0 {
            State::Known(known) => known.noise,
            _ => None,
        }
    }

    /// The value of a setting of the model, as its `Debug` output shows it.
    pub(crate) fn setting(&self, path: &str) -> Option<&str> {
        match &self.0 {
            State::Known(known) => Setting::value(&known.description.settings, path),
            _ => None,
        }
    }

    /// This state of a posterior, replaced by that of a model: a sample keeps its own values, and a training its noise.
    pub(crate) fn replaced_by(self, state: Self) -> Self {
        let noise = self.noise();
        let state = match (self.0, state.0) {
            (State::Sample(layout, values), State::Known(known)) => {
                State::Known(known.with_sample(&layout, &values))
            }
            (_, state) => state,
        };
        match (Self(state), noise) {
            (state, Some(noise)) if state.noise().is_none() => state.with_noise(noise),
            (state, _) => state,
        }
    }

    /// The average of the states of several components; the first of the states if it cannot be averaged.
    pub(super) fn average(states: &[(f64, Self)]) -> Self {
        let known = |state: &Self| match &state.0 {
            State::Known(known) => Some(known.clone()),
            _ => None,
        };
        let all: Option<Vec<_>> = states
            .iter()
            .map(|(weight, state)| Some((*weight, known(state)?)))
            .collect();
        let Some(all) = all else {
            return states
                .first()
                .map(|(_, state)| state.clone())
                .unwrap_or_default();
        };
        let Some((_, first)) = all.first().cloned() else {
            return Self::default();
        };
        let average = |(index, value): (usize, &Value)| match value {
            Value::Float(value) if value.dtype().is_float() => {
                let mut sum = value.zeros_like();
                for (weight, known) in &all {
                    if let Some(Value::Float(value)) = known.values.get(index) {
                        sum = sum + value.clone().mul_scalar(*weight);
                    }
                }
                Value::Float(sum)
            }
            value => value.clone(),
        };
        let values = first.values.iter().enumerate().map(average).collect();
        Self(State::Known(Known { values, ..first }))
    }

    /// Whether two components of a mixture have the same state, so that their draws can share a model.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (State::Unknown, State::Unknown) | (State::Missing, State::Missing) => true,
            (State::Known(one), State::Known(other)) => {
                Arc::ptr_eq(&one.values, &other.values)
                    || one.values.is_empty() && other.values.is_empty()
            }
            _ => false,
        }
    }

    /// Whether it has no values, so that those of all components of a mixture are equal.
    pub(super) fn has_no_values(&self) -> bool {
        match &self.0 {
            State::Unknown | State::Missing => true,
            State::Sample(..) => false,
            State::Known(known) => known.values.is_empty(),
        }
    }

    /// Fails at the first parameter or setting in which the models of two components of a mixture differ: one model
    /// evaluates the draws of both.
    pub(super) fn expect_same_model(&self, other: &Self) -> Result<()> {
        let (State::Known(one), State::Known(other)) = (&self.0, &other.0) else {
            return Ok(());
        };
        let (one, other) = (&one.description, &other.description);
        let parameter = first_difference(&one.values, &other.values);
        let parameter = parameter.map(|shape| {
            let path = &shape.path;
            format!("{path} is not the same in the models of two components of a mixture")
        });
        let names = ["one component of a mixture", "another one"];
        let settings = || Setting::difference([&one.settings, &other.settings], names);
        let adapters = || {
            let [one, other] = [one, other].map(|of| &of.reparameterized);
            Reparameterized::difference(one, names[0], other)
        };
        match parameter.or_else(settings).or_else(adapters) {
            None => Ok(()),
            Some(difference) => Err(Error::layout(difference)),
        }
    }

    /// The model with this state.
    ///
    /// # Errors
    ///
    /// If the model has other parameters, or, for a posterior from a file, other settings, or if the file has no state
    /// and the model has one.
    pub(super) fn restore<M: Module>(&self, model: M, layout: &Layout) -> Result<M> {
        self.check(&model, layout)?;
        self.write(model)
    }

    /// The model with this state, which [fits](Self::check) it.
    pub(crate) fn write<M: Module>(&self, model: M) -> Result<M> {
        match &self.0 {
            State::Unknown | State::Missing => Ok(model),
            State::Known(known) if known.values.is_empty() => Ok(model),
            State::Known(known) => Ok(unshared(model).map(&mut Writer {
                path: ModulePath::default(),
                known,
                places: known.description.places(),
            })),
            State::Sample(layout, values) => Ok(layout.write(unshared(model), values.clone())?),
        }
    }

    /// Fails unless the state can be written into the model, and nothing else of the model has to be known.
    pub(crate) fn check<M: Module>(&self, model: &M, layout: &Layout) -> Result<()> {
        match &self.0 {
            State::Unknown | State::Sample(..) => Ok(()),
            State::Missing => match shapes_of(model)
                .into_iter()
                .find(|shape| layout.entry(&shape.path).is_none())
            {
                None => Ok(()),
                Some(Shape { path, .. }) => Err(Error::layout(format!(
                    "`{path}` is not in the posterior's file, which has only weights; load the model's own record, and \
                     call `with_model_state(&model)` of the posterior to use it"
                ))),
            },
            State::Known(known) => known.check(model, layout),
        }
    }
}

impl Known {
    /// The same state with the values of a sample.
    fn with_sample(self, layout: &Layout, sample: &Tensor<1>) -> Self {
        let shapes = self.description.values.iter();
        let values = shapes.zip(self.values.iter()).map(|(shape, value)| {
            match (layout.entry(&shape.path), value) {
                (Some(entry), Value::Float(_)) => {
                    Value::Float(sample.clone().narrow(0, entry.offset, entry.len()))
                }
                _ => value.clone(),
            }
        });
        let values = values.collect();
        Self { values, ..self }
    }

    fn check<M: Module>(&self, model: &M, layout: &Layout) -> Result<()> {
        let places = self.description.places();
        let found = shapes_of(model);
        for Shape { path, kind, shape } in &found {
            let expected = match (layout.entry(path), places.get(path.as_str())) {
                (Some(entry), _) => (Kind::Float, &entry.shape),
                (None, Some(&index)) => {
                    let value = &self.description.values[index];
                    (value.kind, &value.shape)
                }
                (None, None) => {
                    return Err(Error::layout(format!(
                        "{path} is in the model, but not in that of the posterior"
                    )));
                }
            };
            if expected != (*kind, shape) {
                return Err(Error::layout(format!(
                    "{path} is {shape:?} in the model, {:?} in the posterior",
                    expected.1
                )));
            }
        }
        let found: HashSet<_> = found.iter().map(|shape| shape.path.as_str()).collect();
        let of_layout = layout.entries().iter().map(|entry| entry.path.as_str());
        let outside = self
            .description
            .values
            .iter()
            .map(|value| value.path.as_str());
        if let Some(path) = of_layout.chain(outside).find(|path| !found.contains(path)) {
            return Err(Error::layout(format!("{path} is missing in the model")));
        }
        let difference = match self.is_loaded {
            true => {
                let names = ["the posterior's file", "the model"];
                Setting::difference([&self.description.settings, &settings_of(model)], names)
            }
            false => None,
        };
        let difference = difference.or_else(|| {
            let own = &self.description.reparameterized;
            Reparameterized::difference(own, "the posterior", &reparameterized(model))
        });
        match difference {
            None => Ok(()),
            Some(difference) => Err(Error::layout(format!(
                "{difference}; make the model with the settings of the training, or, if its own are right, call \
                 `with_model_state(&model)` of the posterior"
            ))),
        }
    }
}

impl Description {
    /// The index of every path.
    fn places(&self) -> HashMap<&str, usize> {
        let paths = self.values.iter().map(|shape| shape.path.as_str());
        paths.zip(0..).collect()
    }
}
