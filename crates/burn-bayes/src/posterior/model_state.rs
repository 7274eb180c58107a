//! The state of a model outside a layout: parameters that are point estimates, running statistics such as those of batch
//! norm, and the settings of its layers.
//!
//! A posterior carries it, so that a model and a posterior, or its file, are the predictive model of the training.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData, kind};
use burn_bayes_graph::{Layout, LayoutEntry, ModulePath};
use serde::{Deserialize, Serialize};

use super::reparameterization::{Reparameterized, reparameterized};
use super::settings::{Setting, settings_of};
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

    /// Fails at the first parameter in which the models of two components of a mixture differ.
    pub(super) fn expect_same_parameters(&self, other: &Self) -> Result<()> {
        let (State::Known(one), State::Known(other)) = (&self.0, &other.0) else {
            return Ok(());
        };
        let (one, other) = (&one.description.values, &other.description.values);
        let differ = one.iter().zip(other).find(|(one, other)| one != other);
        let longer = [one, other].map(|shapes| shapes.get(one.len().min(other.len())));
        let path = match (differ, longer) {
            (None, [None, None]) => return Ok(()),
            (Some((shape, _)), _) | (None, [Some(shape), _]) | (None, [None, Some(shape)]) => {
                &shape.path
            }
        };
        Err(Error::layout(format!(
            "{path} is not the same in the models of two components of a mixture"
        )))
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

    /// The metadata entry of a file, and the tensors, if there are any.
    pub(super) fn to_file(&self) -> Option<(String, Vec<(String, TensorData)>)> {
        let State::Known(known) = &self.0 else {
            return None;
        };
        let saved = Saved {
            description: known.description.as_ref().clone(),
            noise: known.noise,
        };
        let text = serde_json::to_string(&saved).expect("strings and numbers serialise");
        let shapes = known.description.values.iter();
        let tensors = shapes.zip(known.values.iter()).map(|(shape, value)| {
            let data = match value {
                Value::Float(value) => value.to_data(),
                Value::Int(value) => value.to_data(),
                Value::Bool(value) => {
                    let values: Vec<bool> = value.to_data().iter().collect();
                    TensorData::from(&*values)
                }
            };
            (tensor_name(&shape.path), data)
        });
        Some((text, tensors.collect()))
    }

    /// From the metadata entry of a file, and its tensors, which are removed from `tensors`.
    pub(super) fn from_file(
        text: Option<&str>,
        tensors: &mut HashMap<String, TensorData>,
        layout: &Layout,
        device: &Device,
    ) -> Result<Self, String> {
        let Some(text) = text else {
            return Ok(Self(State::Missing));
        };
        let Saved { description, noise } = serde_json::from_str(text)
            .map_err(|error| format!("the description of its model is not readable: {error}"))?;
        let mut seen = HashSet::new();
        let value = |shape: &Shape| {
            let path = &shape.path;
            if layout.entry(path).is_some() || !seen.insert(path.clone()) {
                return Err(format!("it names `{path}` twice"));
            }
            let name = tensor_name(path);
            let data = tensors.remove(&name);
            let data = data.ok_or_else(|| format!("the tensor `{name}` is missing"))?;
            let len = shape
                .shape
                .iter()
                .try_fold(1usize, |len, &dim| len.checked_mul(dim));
            if data.shape().as_slice() != [len.unwrap_or(usize::MAX)] {
                return Err(format!(
                    "`{name}` has shape {:?}, but the model requires {:?}",
                    data.shape().as_slice(),
                    shape.shape
                ));
            }
            let dtype = data.dtype();
            let options = || (device, dtype);
            match (shape.kind, dtype) {
                (Kind::Bool, DType::Bool(_)) => Ok(Value::Bool(Tensor::from_data(data, device))),
                (Kind::Int, _) if dtype.is_int() || dtype.is_uint() => {
                    Ok(Value::Int(Tensor::from_data(data, options())))
                }
                (Kind::Float, _) if dtype.is_float() => {
                    Ok(Value::Float(Tensor::from_data(data, options())))
                }
                (Kind::Float, DType::QFloat(_)) => {
                    Ok(Value::Float(Tensor::from_data(data, device)))
                }
                (kind, _) => Err(format!("`{name}` is {dtype:?}, not {kind:?}")),
            }
        };
        let values = description.values.iter().map(value);
        let values = values.collect::<Result<Vec<_>, String>>()?;
        Ok(Self(State::Known(Known {
            values: values.into(),
            description: Arc::new(description),
            noise,
            is_loaded: true,
        })))
    }
}

/// The prefix of the names of its tensors in a file.
pub(super) const PREFIX: &str = "model.";

fn tensor_name(path: &str) -> String {
    format!("{PREFIX}{path}")
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
            true => Setting::difference(&self.description.settings, &settings_of(model)),
            false => None,
        };
        let difference = difference.or_else(|| {
            Reparameterized::difference(&self.description.reparameterized, &reparameterized(model))
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

/// The parameters and running statistics outside `layout` that change in a training: trained point estimates, and
/// running statistics.
pub fn changing<M: Module>(model: &M, layout: &Layout) -> Option<Arc<Layout>> {
    let running = running_states(model);
    floats(model, |shape, is_trained| {
        layout.entry(&shape.path).is_none() && (is_trained || running.contains(&shape.path))
    })
}

/// The running statistics of a model.
pub fn running<M: Module>(model: &M) -> Option<Arc<Layout>> {
    let running = running_states(model);
    floats(model, |shape, _| running.contains(&shape.path))
}

/// The float parameters that `is_wanted` selects by their shape, and whether they are trained.
fn floats<M: Module>(model: &M, is_wanted: impl Fn(&Shape, bool) -> bool) -> Option<Arc<Layout>> {
    struct Floats(ModulePath, Vec<(Shape, bool)>);
    impl ModuleVisitor for Floats {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.0.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.0.exit();
        }

        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            let shape = shape(&self.0, Kind::Float, &param.lazy_shape());
            self.1.push((shape, param.is_require_grad()));
        }
    }
    let mut found = Floats(ModulePath::default(), Vec::new());
    // On a device without autodiff nothing requires gradients; `train` restores the flags.
    model.valid().train().visit(&mut found);
    let mut offset = 0;
    let wanted = found
        .1
        .into_iter()
        .filter(|(shape, is_trained)| is_wanted(shape, *is_trained));
    let entries = wanted.map(|(Shape { path, shape, .. }, _)| {
        let entry = LayoutEntry {
            path,
            shape,
            offset,
            tied: Vec::new(),
        };
        offset += entry.len();
        entry
    });
    Layout::of_entries(entries.collect()).ok().map(Arc::new)
}

/// The paths of the running statistics of a model, in Burn's layers and in the user's.
///
/// Only a `RunningState` is shared by the clones of a model. So it is what a change to a clone changes.
fn running_states<M: Module>(model: &M) -> HashSet<String> {
    struct Emptied;
    impl ModuleMapper for Emptied {
        fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
            Param::initialized(
                param.id,
                Tensor::zeros([0; R], &param.lazy_device().inner()),
            )
        }
    }
    let own = model.valid();
    drop(own.clone().map(&mut Emptied));
    let emptied = shapes_of(&own).into_iter();
    let emptied = emptied.filter(|shape| shape.kind == Kind::Float && shape.shape.contains(&0));
    emptied.map(|shape| shape.path).collect()
}

/// A model that shares no running statistics with its clones.
pub(crate) fn unshared<M: Module>(model: M) -> M {
    struct IsAutodiff(bool);
    impl ModuleVisitor for IsAutodiff {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.0 |= param.lazy_device().is_autodiff();
        }
    }
    let mut is_autodiff = IsAutodiff(false);
    model.visit(&mut is_autodiff);
    match is_autodiff.0 {
        false => model.valid(),
        true if running_states(&model).is_empty() => model,
        true => model.valid().train(),
    }
}

fn shape(path: &ModulePath, kind: Kind, shape: &burn::tensor::Shape) -> Shape {
    Shape {
        path: path.as_str().to_owned(),
        kind,
        shape: shape.iter().copied().collect(),
    }
}

/// The parameters and running statistics of a model, in the order of a visit.
fn shapes_of<M: Module>(model: &M) -> Vec<Shape> {
    #[derive(Default)]
    struct Shapes(ModulePath, Vec<Shape>);
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.0.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.0.exit();
        }

        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.1
                .push(shape(&self.0, Kind::Float, &param.lazy_shape()));
        }

        fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
            self.1.push(shape(&self.0, Kind::Int, &param.lazy_shape()));
        }

        fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
            self.1.push(shape(&self.0, Kind::Bool, &param.lazy_shape()));
        }
    }
    let mut shapes = Shapes::default();
    model.visit(&mut shapes);
    shapes.1
}

/// The values of all parameters and running statistics of a model without autodiff.
#[derive(Default)]
struct Collector {
    path: ModulePath,
    found: Vec<(Shape, Value)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let value = param.base().without_autodiff();
        let shape = shape(&self.path, Kind::Float, &value.shape());
        self.found.push((shape, Value::Float(value.reshape([-1]))));
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        let value = param.val().without_autodiff();
        let shape = shape(&self.path, Kind::Int, &value.shape());
        self.found.push((shape, Value::Int(value.reshape([-1]))));
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        let value = param.val().without_autodiff();
        let shape = shape(&self.path, Kind::Bool, &value.shape());
        self.found.push((shape, Value::Bool(value.reshape([-1]))));
    }
}

/// Writes a state into a model of the same shapes.
struct Writer<'a> {
    path: ModulePath,
    known: &'a Known,
    places: HashMap<&'a str, usize>,
}

impl Writer<'_> {
    fn value(&self) -> Option<&Value> {
        let index = *self.places.get(self.path.as_str())?;
        self.known.values.get(index)
    }
}

/// The value in the shape and on the device of the one that it replaces.
fn placed<const R: usize, K: kind::Autodiff>(
    value: &Tensor<1, K>,
    before: &Tensor<R, K>,
) -> Tensor<R, K> {
    let device = before.device();
    let value = value.clone().to_device(&device.clone().inner());
    let value = value.reshape(before.dims());
    match before.is_autodiff() {
        true => Tensor::from_inner(value),
        false => value,
    }
}

impl ModuleMapper for Writer<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        let Some(Value::Float(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        let mut value = placed(value, &before);
        if before.is_autodiff() {
            if let Some(strategy) = before.gradient_checkpointing_strategy() {
                value = value.with_gradient_checkpointing_strategy(strategy);
            }
            value = value.set_require_grad(before.is_require_grad());
            if before.is_distributed() {
                value = value.set_distributed(id);
            }
        }
        Param::from_mapped_value(id, value, mapper)
    }

    fn map_int<const R: usize>(&mut self, param: Param<Tensor<R, Int>>) -> Param<Tensor<R, Int>> {
        let Some(Value::Int(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        Param::from_mapped_value(id, placed(value, &before), mapper)
    }

    fn map_bool<const R: usize>(
        &mut self,
        param: Param<Tensor<R, Bool>>,
    ) -> Param<Tensor<R, Bool>> {
        let Some(Value::Bool(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        Param::from_mapped_value(id, placed(value, &before), mapper)
    }
}
