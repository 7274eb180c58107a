//! The tensors that a module holds, in the order of a visit.

use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Int, Tensor};

use crate::layout::Layout;
use crate::module_path::ModulePath;

/// A tensor of a module.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its number among the layout's parameters, if it is one of them.
    pub(crate) parameter: Option<usize>,
    /// Its id, if it is trained without being one of them.
    pub(crate) outside: Option<ParamId>,
    /// Whether its gradients are to be averaged over replicas of the module.
    pub(crate) is_distributed: bool,
    pub(crate) value: DispatchTensor,
}

impl Held {
    /// A tensor that no training changes.
    fn still(value: DispatchTensor) -> Self {
        Self {
            parameter: None,
            outside: None,
            is_distributed: false,
            value,
        }
    }
}

/// Every tensor of `module`: parameters of any kind, and running statistics. The values are without
/// autodiff; a tied parameter appears once for each of its paths.
///
/// Running statistics are what was last synchronised, and recording the module synchronises them.
pub(crate) fn held<M: Module>(module: &M, layout: &Layout) -> Vec<Held> {
    let mut visitor = Visitor {
        layout,
        path: ModulePath::default(),
        found: Vec::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// Which of the layout's parameters each of the tensors is.
pub(crate) fn parameters_of(tensors: &[Held]) -> Vec<Option<usize>> {
    tensors.iter().map(|held| held.parameter).collect()
}

struct Visitor<'a> {
    layout: &'a Layout,
    path: ModulePath,
    found: Vec<Held>,
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
        self.found.push(Held {
            parameter,
            outside: (parameter.is_none() && param.is_require_grad()).then_some(param.id),
            is_distributed: tensor.is_autodiff() && tensor.is_distributed(),
            value: tensor.without_autodiff().into_dispatch(),
        });
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        self.found
            .push(Held::still(param.val().without_autodiff().into_dispatch()));
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        self.found
            .push(Held::still(param.val().without_autodiff().into_dispatch()));
    }
}
