//! Checks that the gradients of a module are finite, reading one number from the device.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_graph::ModulePath;

/// The path of the first parameter of `module` whose gradient is not finite.
pub(crate) fn first_non_finite<M: Module>(
    module: &M,
    gradients: &GradientsParams,
) -> Option<String> {
    if gradients.is_empty() {
        return None;
    }
    let mut total = Total {
        gradients,
        sum: None,
    };
    module.visit(&mut total);
    let sum: f32 = total.sum?.into_scalar();
    if sum.is_finite() {
        return None;
    }
    // A sum of finite numbers can overflow, so check the elements.
    let mut search = Search {
        gradients,
        path: ModulePath::default(),
        found: None,
    };
    module.visit(&mut search);
    search.found
}

/// The sum of all gradients; it is not finite if any gradient is not finite.
struct Total<'a> {
    gradients: &'a GradientsParams,
    sum: Option<Tensor<1>>,
}

impl ModuleVisitor for Total<'_> {
    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if let Some(gradient) = self.gradients.get::<R>(param.id) {
            let sum = gradient.without_autodiff().sum();
            self.sum = Some(match self.sum.take() {
                Some(total) => {
                    let device = total.device();
                    total + sum.to_device(&device)
                }
                None => sum,
            });
        }
    }
}

/// The first parameter with a gradient that is not finite.
struct Search<'a> {
    gradients: &'a GradientsParams,
    path: ModulePath,
    found: Option<String>,
}

impl ModuleVisitor for Search<'_> {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if self.found.is_some() {
            return;
        }
        if let Some(gradient) = self.gradients.get::<R>(param.id)
            && !gradient.into_data().iter::<f32>().all(f32::is_finite)
        {
            self.found = Some(self.path.as_str().to_owned());
        }
    }
}
