//! The tensors of a module, in visiting order.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::layout::Layout;
use crate::module_path::ModulePath;
use burn::backend::DispatchTensor;
use burn::module::{Flag, Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Device, Int, Tensor};

/// A tensor of a module.
#[derive(Clone, Debug)]
pub(crate) struct ModuleTensor {
    /// Its index in the layout, if it is one of the layout's parameters.
    pub(crate) parameter: Option<usize>,
    /// Its id, if it is trained but not in the layout.
    pub(crate) outside: Option<ParamId>,
    /// Whether its gradients are averaged over replicas of the module.
    pub(crate) is_distributed: bool,
    /// Its id, if it is a running statistic of batch norm whose training flag is on.
    pub(crate) statistic: Option<ParamId>,
    pub(crate) value: DispatchTensor,
}

impl ModuleTensor {
    /// A tensor that training does not change.
    fn still(value: DispatchTensor) -> Self {
        Self {
            parameter: None,
            outside: None,
            is_distributed: false,
            statistic: None,
            value,
        }
    }
}

/// The device of the first parameter of a module, and the default one if it has none.
pub fn module_device<M: Module>(module: &M) -> Device {
    module.devices().into_iter().next().unwrap_or_default()
}

/// Every tensor of `module`: parameters of every element type, and running statistics. The values have no
/// autodiff. A tied parameter appears once for each of its paths.
///
/// Running statistics have the values of the last synchronisation; recording the module synchronises them.
pub(crate) fn module_tensors<M: Module>(module: &M, layout: &Layout) -> Vec<ModuleTensor> {
    let mut visitor = Visitor {
        layout,
        path: ModulePath::default(),
        place: StatisticPlace::default(),
        is_training: false,
        found: Vec::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// For each tensor that is trained outside the layout, the number of the first one that it is tied to, or its own.
pub(crate) fn outside_numbers(tensors: &[ModuleTensor]) -> Vec<Option<usize>> {
    let mut first = HashMap::new();
    let tensors = tensors.iter().enumerate();
    tensors
        .map(|(number, tensor)| Some(*first.entry(tensor.outside?).or_insert(number)))
        .collect()
}

/// A hash of which tensors are trained outside the layout, and of which are running statistics in training.
pub(crate) fn roles_hash(tensors: &[ModuleTensor]) -> u64 {
    let mut hasher = DefaultHasher::new();
    outside_numbers(tensors).hash(&mut hasher);
    for tensor in tensors {
        tensor.statistic.is_some().hash(&mut hasher);
    }
    hasher.finish()
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
    place: StatisticPlace,
    /// Whether the training flag of the last layer of batch norm is on, which comes before its statistics.
    is_training: bool,
    found: Vec<ModuleTensor>,
}

/// The type of a layer of batch norm, as traversals name it.
pub(crate) const BATCH_NORM: &str = "Struct:BatchNorm";

/// Whether a traversal is at a running statistic of a batch-norm layer. Internal; not covered by semver.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct StatisticPlace(Vec<bool>);

impl StatisticPlace {
    /// Enters a field of a container.
    pub fn enter(&mut self, name: &str, container_type: &str) {
        let is_statistic = matches!(name, "running_mean" | "running_var");
        self.0.push(is_statistic && container_type == BATCH_NORM);
    }

    /// Leaves the field.
    pub fn exit(&mut self) {
        self.0.pop();
    }

    /// Whether the current tensor is a running statistic.
    pub fn is_statistic(&self) -> bool {
        self.0.last() == Some(&true)
    }
}

impl ModuleVisitor for Visitor<'_> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name);
        self.place.enter(name, container_type);
        if container_type == BATCH_NORM && name == "gamma" {
            self.is_training = false;
        }
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
        self.place.exit();
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.is_training = flag.val().is_enabled();
    }

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let parameter = self.layout.index(self.path.as_str());
        let tensor = param.base();
        self.found.push(ModuleTensor {
            parameter,
            outside: (parameter.is_none() && param.is_require_grad()).then_some(param.id),
            is_distributed: tensor.is_autodiff() && tensor.is_distributed(),
            statistic: (self.is_training && self.place.is_statistic()).then_some(param.id),
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
