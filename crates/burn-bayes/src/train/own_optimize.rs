//! Checks that a model's own [`TrainStep::optimize`] equals the optimiser's step, which is the
//! default.
//!
//! The type system does not show whether a default method was overridden. So the model's own method
//! and the optimiser are each called once on a copy of the model. The two results must be
//! bit-identical, because they apply the same arithmetic to the same numbers. The optimiser is
//! plain gradient descent with learning rate 1 and gradients of ±1000, so that every weight exceeds
//! any limit or norm that the model may enforce.
//!
//! The check detects a difference in a tensor, in a flag or in the displayed text of other fields,
//! and a panic. It does not detect effects that occur only at some steps or outside the model.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{DisplaySettings, Flag, Module, ModuleDisplay, ModuleVisitor, Param};
use burn::optim::{GradientsParams, MultiGradientsParams, SgdConfig};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use burn::train::TrainStep;
use burn_bayes_graph::{ModulePath, module_device};

const RATE: f64 = 1.0;
const SIZE: f32 = 1000.0;

/// The difference between the model's own `optimize` or `optimize_multi` and the optimiser's step,
/// if any.
pub(crate) fn changes_of_own_optimize<M>(model: &M) -> Option<String>
where
    M: Module + ModuleDisplay + TrainStep,
{
    // `valid` and `train` copy running statistics; clones would share them.
    let model = model.valid().train();
    let gradients = || large_gradients(&model);
    let optimizer = || SgdConfig::new().init();
    let expected = Snapshot::of(&optimizer().step(RATE, model.clone(), gradients()));
    let own = || {
        let model = model.clone();
        model.optimize(&mut optimizer(), RATE.into(), gradients())
    };
    let own_multi = || {
        let device = module_device(&model);
        let gradients = MultiGradientsParams {
            grads: vec![(gradients(), device)],
        };
        let model = model.clone();
        model.optimize_multi(&mut optimizer(), RATE.into(), gradients)
    };
    expected
        .difference_after(own)
        .or_else(|| expected.difference_after(own_multi))
}

/// Alternating ±1000 for every trained parameter.
fn large_gradients<M: Module>(model: &M) -> GradientsParams {
    struct Large(GradientsParams);
    impl ModuleVisitor for Large {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            if !param.is_require_grad() {
                return;
            }
            let value = param.val().without_autodiff();
            let signs = [SIZE, -SIZE].into_iter().cycle();
            let values: Vec<f32> = signs.take(value.shape().num_elements()).collect();
            let data = TensorData::new(values, value.shape());
            let gradient = Tensor::<R>::from_data(data, (&value.device(), value.dtype()));
            self.0.register(param.id, gradient);
        }
    }
    let mut large = Large(GradientsParams::new());
    model.visit(&mut large);
    large.0
}

/// The compared state of a module: a hash of each tensor, the flags, and the other fields as text.
#[derive(PartialEq)]
struct Snapshot {
    values: Vec<(String, u64)>,
    text: String,
}

impl Snapshot {
    fn of<M: Module + ModuleDisplay>(module: &M) -> Self {
        let mut values = Values::default();
        module.visit(&mut values);
        Self {
            values: values.found,
            text: module.format(DisplaySettings::default()),
        }
    }

    /// The first difference between this state and the result of `own`.
    fn difference_after<M: Module + ModuleDisplay>(&self, own: impl Fn() -> M) -> Option<String> {
        let Ok(own) = catch_unwind(AssertUnwindSafe(own)) else {
            return Some("it panics on large gradients".into());
        };
        let own = Self::of(&own);
        let values = self.values.iter().zip(&own.values);
        let mut changed = values.filter(|(expected, own)| expected != own);
        if let Some(((path, _), _)) = changed.next() {
            return Some(format!("it changes `{path}`"));
        }
        let mut lines = own.text.lines().zip(self.text.lines());
        match lines.find(|(own, expected)| own != expected) {
            Some((own, _)) => Some(format!("it changes `{}`", own.trim())),
            None if *self == own => None,
            None => Some("it changes the fields of the model".into()),
        }
    }
}

#[derive(Default)]
struct Values {
    path: ModulePath,
    found: Vec<(String, u64)>,
}

impl Values {
    fn add(&mut self, value: impl Hash) {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let path = self.path.as_str().to_owned();
        self.found.push((path, hasher.finish()));
    }

    fn add_data(&mut self, data: &TensorData) {
        self.add((&data.shape().to_vec(), data.as_bytes()));
    }
}

impl ModuleVisitor for Values {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        self.add_data(&param.val().into_data());
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        self.add_data(&param.val().into_data());
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        self.add_data(&param.val().into_data());
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.add(flag.val().is_enabled());
    }
}
