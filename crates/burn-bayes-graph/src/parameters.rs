//! The tensors that a module holds, in the order of a visit.

use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};
use burn_bayes_core::{Layout, ModulePath};

/// A tensor of a module.
#[derive(Debug)]
pub(crate) struct Held {
    /// Its number among the layout's parameters, if it is one of them.
    pub(crate) parameter: Option<usize>,
    pub(crate) value: DispatchTensor,
}

/// Every tensor of `module`: parameters of any kind, and running statistics. The values are without
/// autodiff; a tied parameter appears once for each of its paths.
pub(crate) fn held<M: Module>(module: &M, layout: &Layout) -> Vec<Held> {
    let mut visitor = Visitor {
        layout,
        path: ModulePath::default(),
        found: Vec::new(),
    };
    module.visit(&mut visitor);
    visitor.found
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
        self.found.push(Held {
            parameter: self.layout.index(self.path.as_str()),
            value: param.base().without_autodiff().into_dispatch(),
        });
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        self.found.push(Held {
            parameter: None,
            value: param.val().without_autodiff().into_dispatch(),
        });
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        self.found.push(Held {
            parameter: None,
            value: param.val().without_autodiff().into_dispatch(),
        });
    }
}
