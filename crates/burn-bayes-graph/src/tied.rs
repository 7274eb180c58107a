//! Tied parameters: those that a module has at several paths, with one id.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

/// Whether the module has tied parameters. Internal; not covered by semver.
#[doc(hidden)]
pub fn has_tied<M: Module>(module: &M) -> bool {
    #[derive(Default)]
    struct Ids {
        seen: HashSet<ParamId>,
        is_repeated: bool,
    }
    impl ModuleVisitor for Ids {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.is_repeated |= !self.seen.insert(param.id);
        }
    }
    let mut ids = Ids::default();
    module.visit(&mut ids);
    ids.is_repeated
}

/// The module with the values at the first path of its tied parameters at the others too. A step of Burn's optimisers changes
/// the first alone, and from then on the gradients of the paths are apart. Internal; not covered by semver.
#[doc(hidden)]
pub fn retied<M: Module>(module: M) -> M {
    struct Ties(HashMap<ParamId, Box<dyn Any>>);
    impl ModuleMapper for Ties {
        fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
            let (id, own, mapper) = param.consume();
            let first = self.0.get(&id);
            let first = first.and_then(|first| first.downcast_ref::<Tensor<R>>());
            let value = match first {
                Some(first) => first.clone(),
                None => {
                    self.0.insert(id, Box::new(own.clone()));
                    own
                }
            };
            Param::from_mapped_value(id, value, mapper)
        }
    }
    module.map(&mut Ties(HashMap::new()))
}
