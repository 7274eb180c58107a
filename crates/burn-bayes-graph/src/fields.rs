//! A hash of a module's fields that are not parameters: numbers, options and plain tensors, which are
//! constants of a recording.

use std::cell::RefCell;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

use crate::capture::{in_scope, without_values};
use crate::debug_text::hash_fields;

/// A hash of the fields of `model` that are not parameters, and of the parameters' shapes and element types.
///
/// It covers the `Debug` output of these fields and the values of plain tensors. It does not cover
/// the values of parameters, running statistics and the memory state of tensors.
pub(crate) fn fields_of<M: Module>(model: &M) -> u64 {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        // Writing to a string does not fail. A `Debug` that fails is hashed as far as it went.
        let _ = write!(text, "{model:?}");
        let mut hasher = DefaultHasher::new();
        let has_tensors = hash_fields(text, &mut hasher);
        if has_tensors {
            hash_tensors(model, &mut hasher);
        }
        let mut types = Types(hasher);
        model.visit(&mut types);
        types.0.finish()
    })
}

/// Hashes the shapes and element types of parameters.
struct Types(DefaultHasher);

impl ModuleVisitor for Types {
    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let tensor = param.base();
        (tensor.dims(), tensor.dtype()).hash(&mut self.0);
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        let tensor = param.val();
        (tensor.dims(), tensor.dtype()).hash(&mut self.0);
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        (param.val().dims(),).hash(&mut self.0);
    }
}

fn hash_tensors<M: Module>(model: &M, hasher: &mut impl Hasher) {
    let moved = in_scope(model, |device| {
        let _ = without_values(model, device);
        Vec::new()
    });
    // A model that cannot be moved cannot be recorded either.
    let values = moved.map(|graph| graph.values).unwrap_or_default();
    for value in values.values() {
        value.as_bytes().hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Param;
    use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
    use burn::tensor::{Device, Tensor};

    #[derive(Module, Debug)]
    struct Model {
        linear: Linear,
        norm: BatchNorm,
        scale: f64,
        shift: Tensor<1>,
        own: Param<Tensor<1>>,
    }

    fn model() -> Model {
        let device = Device::default().autodiff();
        Model {
            linear: LinearConfig::new(2, 2).init(&device),
            norm: BatchNormConfig::new(2).init(&device),
            scale: 0.5,
            shift: Tensor::zeros([2], &device),
            own: Param::from_tensor(Tensor::zeros([2], &device)),
        }
    }

    #[test]
    fn fields_count_and_parameters_do_not() {
        let before = model();
        let number = fields_of(&before);
        let mut other = before.clone();
        other.own = Param::from_tensor(Tensor::ones([2], &before.shift.device()));
        other.linear = LinearConfig::new(2, 2).init(&before.shift.device());
        assert_eq!(fields_of(&other), number);
        // A forward pass in training changes running statistics.
        let _ = before
            .norm
            .forward::<2>(Tensor::ones([3, 2], &before.shift.device()));
        assert_eq!(fields_of(&before), number);
        other.scale = 0.25;
        assert_ne!(fields_of(&other), number);
        other.scale = 0.5;
        assert_eq!(fields_of(&other), number);
        other.shift = Tensor::ones([2], &before.shift.device());
        assert_ne!(fields_of(&other), number);
    }
}
