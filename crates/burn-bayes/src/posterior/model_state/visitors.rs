//! What models have besides their weights: shapes, values and running statistics, and how they are replaced.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor, kind};
use burn_bayes_graph::{Layout, LayoutEntry, ModulePath};

use super::{Kind, Known, Shape, Value};

/// The parameters and running statistics outside `layout` that change in a training: trained point estimates, and
/// running statistics.
pub fn changing<M: Module>(model: &M, layout: &Layout) -> Option<Arc<Layout>> {
    let running = running_states(model);
    floats(model, |shape, is_trained| {
        layout.entry(&shape.path).is_none() && (is_trained || running.contains(&shape.path))
    })
}

/// The running statistics of a model.
pub fn running<M: Module>(model: &M) -> Option<Arc<Layout>> {
    let running = running_states(model);
    floats(model, |shape, _| running.contains(&shape.path))
}

/// The float parameters that `is_wanted` selects by their shape, and whether they are trained.
fn floats<M: Module>(model: &M, is_wanted: impl Fn(&Shape, bool) -> bool) -> Option<Arc<Layout>> {
    struct Floats(ModulePath, Vec<(Shape, bool)>);
    impl ModuleVisitor for Floats {
        burn_bayes_graph::track_path!(0);

        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            let shape = shape(&self.0, Kind::Float, &param.lazy_shape());
            self.1.push((shape, param.is_require_grad()));
        }
    }
    let mut found = Floats(ModulePath::default(), Vec::new());
    // On a device without autodiff nothing requires gradients; `train` restores the flags.
    model.valid().train().visit(&mut found);
    let mut offset = 0;
    let wanted = found
        .1
        .into_iter()
        .filter(|(shape, is_trained)| is_wanted(shape, *is_trained));
    let entries = wanted.map(|(Shape { path, shape, .. }, _)| {
        let entry = LayoutEntry {
            path,
            shape,
            offset,
            tied: Vec::new(),
        };
        offset += entry.len();
        entry
    });
    Layout::of_entries(entries.collect()).ok().map(Arc::new)
}

/// The paths of the running statistics of a model, in Burn's layers and in the user's.
///
/// Only a `RunningState` is shared by the clones of a model. So it is what a change to a clone changes.
fn running_states<M: Module>(model: &M) -> HashSet<String> {
    struct Emptied;
    impl ModuleMapper for Emptied {
        fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
            Param::initialized(
                param.id,
                Tensor::zeros([0; R], &param.lazy_device().inner()),
            )
        }
    }
    let own = model.valid();
    drop(own.clone().map(&mut Emptied));
    let emptied = shapes_of(&own).into_iter();
    let emptied = emptied.filter(|shape| shape.kind == Kind::Float && shape.shape.contains(&0));
    emptied.map(|shape| shape.path).collect()
}

/// A model that shares no running statistics with its clones.
pub(crate) fn unshared<M: Module>(model: M) -> M {
    struct IsAutodiff(bool);
    impl ModuleVisitor for IsAutodiff {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.0 |= param.lazy_device().is_autodiff();
        }
    }
    let mut is_autodiff = IsAutodiff(false);
    model.visit(&mut is_autodiff);
    match is_autodiff.0 {
        false => model.valid(),
        true if running_states(&model).is_empty() => model,
        true => model.valid().train(),
    }
}

fn shape(path: &ModulePath, kind: Kind, shape: &burn::tensor::Shape) -> Shape {
    Shape {
        path: path.as_str().to_owned(),
        kind,
        shape: shape.iter().copied().collect(),
    }
}

/// The parameters and running statistics of a model, in the order of a visit.
pub(super) fn shapes_of<M: Module>(model: &M) -> Vec<Shape> {
    #[derive(Default)]
    struct Shapes(ModulePath, Vec<Shape>);
    impl ModuleVisitor for Shapes {
        burn_bayes_graph::track_path!(0);

        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.1
                .push(shape(&self.0, Kind::Float, &param.lazy_shape()));
        }

        fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
            self.1.push(shape(&self.0, Kind::Int, &param.lazy_shape()));
        }

        fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
            self.1.push(shape(&self.0, Kind::Bool, &param.lazy_shape()));
        }
    }
    let mut shapes = Shapes::default();
    model.visit(&mut shapes);
    shapes.1
}

/// The values of all parameters and running statistics of a model without autodiff.
#[derive(Default)]
pub(super) struct Collector {
    path: ModulePath,
    pub(super) found: Vec<(Shape, Value)>,
}

impl ModuleVisitor for Collector {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let value = param.base().without_autodiff();
        let shape = shape(&self.path, Kind::Float, &value.shape());
        self.found.push((shape, Value::Float(value.reshape([-1]))));
    }

    fn visit_int<const R: usize>(&mut self, param: &Param<Tensor<R, Int>>) {
        let value = param.val().without_autodiff();
        let shape = shape(&self.path, Kind::Int, &value.shape());
        self.found.push((shape, Value::Int(value.reshape([-1]))));
    }

    fn visit_bool<const R: usize>(&mut self, param: &Param<Tensor<R, Bool>>) {
        let value = param.val().without_autodiff();
        let shape = shape(&self.path, Kind::Bool, &value.shape());
        self.found.push((shape, Value::Bool(value.reshape([-1]))));
    }
}

/// Writes a state into a model of the same shapes.
pub(super) struct Writer<'a> {
    pub(super) path: ModulePath,
    pub(super) known: &'a Known,
    pub(super) places: HashMap<&'a str, usize>,
}

impl Writer<'_> {
    fn value(&self) -> Option<&Value> {
        let index = *self.places.get(self.path.as_str())?;
        self.known.values.get(index)
    }
}

/// The value in the shape and on the device of the one that it replaces.
fn placed<const R: usize, K: kind::Autodiff>(
    value: &Tensor<1, K>,
    before: &Tensor<R, K>,
) -> Tensor<R, K> {
    let device = before.device();
    let value = value.clone().to_device(&device.clone().inner());
    let value = value.reshape(before.dims());
    match before.is_autodiff() {
        true => Tensor::from_inner(value),
        false => value,
    }
}

impl ModuleMapper for Writer<'_> {
    burn_bayes_graph::track_path!(path);

    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        let Some(Value::Float(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        let mut value = placed(value, &before);
        if before.is_autodiff() {
            if let Some(strategy) = before.gradient_checkpointing_strategy() {
                value = value.with_gradient_checkpointing_strategy(strategy);
            }
            value = value.set_require_grad(before.is_require_grad());
            if before.is_distributed() {
                value = value.set_distributed(id);
            }
        }
        Param::from_mapped_value(id, value, mapper)
    }

    fn map_int<const R: usize>(&mut self, param: Param<Tensor<R, Int>>) -> Param<Tensor<R, Int>> {
        let Some(Value::Int(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        Param::from_mapped_value(id, placed(value, &before), mapper)
    }

    fn map_bool<const R: usize>(
        &mut self,
        param: Param<Tensor<R, Bool>>,
    ) -> Param<Tensor<R, Bool>> {
        let Some(Value::Bool(value)) = self.value() else {
            return param;
        };
        let (id, before, mapper) = param.consume();
        Param::from_mapped_value(id, placed(value, &before), mapper)
    }
}
