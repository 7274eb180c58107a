//! The state of a model in a file: a metadata entry, and a tensor for each value.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_bayes_graph::Layout;

use super::{Kind, Known, ModelState, Saved, Shape, State, Value};

/// The prefix of the names of its tensors in a file.
pub(in crate::posterior) const PREFIX: &str = "model.";

fn tensor_name(path: &str) -> String {
    format!("{PREFIX}{path}")
}

impl ModelState {
    /// The metadata entry of a file, and the tensors, if there are any.
    pub(in crate::posterior) fn to_file(&self) -> Option<(String, Vec<(String, TensorData)>)> {
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
    pub(in crate::posterior) fn from_file(
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
