//! Detects an optimiser that decays the parameters of a posterior.
//!
//! The gradients of a posterior contain its prior. Weight decay by the optimiser is a second prior: it shrinks the
//! logarithms of deviations towards 0, and factors towards nothing. An optimiser does not say whether it decays, so a copy
//! of it makes a step with gradients of zero on parameters that are all 1, each of one element and under the path of a
//! parameter of the algorithm: without momentum, only decay moves them.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{GradAdaptor, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use burn_bayes_graph::ModulePath;

/// A learning rate that shows every decay.
const RATE: f64 = 1.0;

/// The path of the first parameter of `algorithm` with a gradient that the optimiser decays. `joined` is the module that
/// the optimiser maps.
pub(crate) fn decayed<A: Module, T: Module>(
    optimizer: &ModuleOptimizer,
    algorithm: A,
    gradients: &GradAdaptor,
    joined: impl FnOnce(A) -> T,
) -> Option<String> {
    let mut probe = Probe {
        gradients,
        zeros: GradientsParams::new(),
        ids: Vec::new(),
    };
    let probed = joined(algorithm.map(&mut probe));
    let Probe { zeros, ids, .. } = probe;
    if ids.is_empty() {
        return None;
    }
    let stepped = optimizer.clone().step(RATE, probed, zeros);
    let mut moved = Moved {
        path: ModulePath::default(),
        ids,
        found: None,
    };
    stepped.visit(&mut moved);
    moved.found
}

/// Puts ones in the place of the parameters that have a gradient.
struct Probe<'a> {
    gradients: &'a GradAdaptor,
    zeros: GradientsParams,
    ids: Vec<ParamId>,
}

impl Probe<'_> {
    fn has_gradient<const R: usize>(&self, id: ParamId) -> bool {
        match self.gradients {
            GradAdaptor::Single(gradients) => gradients.get::<R>(id).is_some(),
            GradAdaptor::Multi(gradients) => {
                let mut all = gradients.grads.iter();
                all.any(|(gradients, _)| gradients.get::<R>(id).is_some())
            }
        }
    }
}

impl ModuleMapper for Probe<'_> {
    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        if !self.has_gradient::<R>(param.id) {
            return param;
        }
        let (id, device) = (ParamId::new(), param.val().device());
        let zero = Tensor::<R>::zeros([1; R], &device.clone().inner());
        self.zeros.register(id, zero);
        self.ids.push(id);
        Param::initialized(id, Tensor::ones([1; R], &device).require_grad())
    }
}

/// Finds the first of these parameters that is not 1.
struct Moved {
    path: ModulePath,
    ids: Vec<ParamId>,
    found: Option<String>,
}

impl ModuleVisitor for Moved {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if self.found.is_some() || !self.ids.contains(&param.id) {
            return;
        }
        let value = param.val().without_autodiff().sum().into_scalar::<f64>();
        // An optimiser that divides by the norm of a gradient may return NaN, which is no decay.
        if value.is_finite() && value != 1.0 {
            self.found = Some(self.path.as_str().to_owned());
        }
    }
}
