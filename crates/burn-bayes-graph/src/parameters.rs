//! The tensors of a module, in visiting order.

use std::collections::BTreeSet;

use crate::layout::Layout;
use crate::module_path::ModulePath;
use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Int, Tensor};

/// A tensor of a module.
#[derive(Clone, Debug)]
pub(crate) struct ModuleTensor {
    /// Its index in the layout, if it is one of the layout's parameters.
    pub(crate) parameter: Option<usize>,
    /// Its id, if it is trained but not in the layout.
    pub(crate) outside: Option<ParamId>,
    /// Whether its gradients are averaged over replicas of the module.
    pub(crate) is_distributed: bool,
    pub(crate) value: DispatchTensor,
}

impl ModuleTensor {
    /// A tensor that training does not change.
    fn still(value: DispatchTensor) -> Self {
        Self {
            parameter: None,
            outside: None,
            is_distributed: false,
            value,
        }
    }
}

/// Every tensor of `module`: parameters of every element type, and running statistics. The values have no
/// autodiff. A tied parameter appears once for each of its paths.
///
/// Running statistics have the values of the last synchronisation; recording the module synchronises them.
pub(crate) fn module_tensors<M: Module>(module: &M, layout: &Layout) -> Vec<ModuleTensor> {
    let mut visitor = Visitor {
        layout,
        path: ModulePath::default(),
        found: Vec::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// The index in the layout of each tensor that is a parameter of it.
pub(crate) fn parameters_of(tensors: &[ModuleTensor]) -> Vec<Option<usize>> {
    tensors.iter().map(|tensor| tensor.parameter).collect()
}

/// The slots of the layout's parameters among those of the module's tensors.
pub(crate) fn parameter_slots(slots: &[usize], parameters: &[Option<usize>]) -> BTreeSet<usize> {
    let tensors = slots.iter().zip(parameters);
    tensors
        .filter_map(|(slot, parameter)| parameter.map(|_| *slot))
        .collect()
}

struct Visitor<'a> {
    layout: &'a Layout,
    path: ModulePath,
    found: Vec<ModuleTensor>,
}

impl ModuleVisitor for Visitor<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let parameter = self.layout.index(self.path.as_str());
        let tensor = param.base();
        self.found.push(ModuleTensor {
            parameter,
            outside: (parameter.is_none() && param.is_require_grad()).then_some(param.id),
            is_distributed: tensor.is_autodiff() && tensor.is_distributed(),
            value: tensor.without_autodiff().into_dispatch(),
        });
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        self.found.push(ModuleTensor::still(
            param.val().without_autodiff().into_dispatch(),
        ));
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        self.found.push(ModuleTensor::still(
            param.val().without_autodiff().into_dispatch(),
        ));
    }
}
