//! The walks through a module's parameters that a [`Layout`] needs.

use std::any::Any;
use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor};

use super::{Layout, LayoutEntry};
use crate::error::{Error, Result};
use crate::module_path::ModulePath;

#[derive(Clone, Copy)]
pub(super) enum Written {
    AsBefore,
    Leaves,
}

/// The trainable float parameters that `group` selects; a tied one by any of its paths.
///
/// # Errors
///
/// If one has no elements, or numbers of another type than f32.
pub(super) fn collect<M: Module>(module: &M, group: &ParamGroup) -> Result<Vec<LayoutEntry>> {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    let mut offset = 0;
    let is_selected =
        |found: &Found| paths(&found.entry).any(|path| group.matches(&found.id, Some(path)));
    let selected = collector.found.into_iter().filter(is_selected);
    let entries = selected.map(|Found { mut entry, dtype, .. }| {
        let path = &entry.path;
        if entry.is_empty() {
            return Err(Error::layout(format!(
                "{path} has no elements; leave its layer out of the model, or the parameter out of the group"
            )));
        }
        if let Some(dtype) = dtype.filter(|&dtype| dtype != DType::F32) {
            return Err(Error::layout(format!(
                "{path} has numbers of the type {dtype:?}; posteriors are over numbers of the type F32: cast the parameters of the \
                 model to it, or leave this one out of the group"
            )));
        }
        entry.offset = offset;
        offset += entry.len();
        Ok(entry)
    });
    entries.collect()
}

/// All paths of a parameter, the first of them first.
pub(super) fn paths(entry: &LayoutEntry) -> impl Iterator<Item = &String> {
    std::iter::once(&entry.path).chain(&entry.tied)
}

/// A trainable float parameter, whatever its place will be.
struct Found {
    id: ParamId,
    entry: LayoutEntry,
    /// `None` if it has no values yet.
    dtype: Option<DType>,
}

#[derive(Default)]
struct Collector {
    path: ModulePath,
    found: Vec<Found>,
    seen: HashMap<ParamId, usize>,
}

impl ModuleVisitor for Collector {
    crate::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if !param.is_require_grad() {
            return;
        }
        let path = self.path.as_str().to_owned();
        if let Some(&index) = self.seen.get(&param.id) {
            self.found[index].entry.tied.push(path);
            return;
        }
        let shape = param.lazy_shape().iter().copied().collect();
        self.seen.insert(param.id, self.found.len());
        self.found.push(Found {
            id: param.id,
            entry: LayoutEntry {
                path,
                shape,
                offset: 0,
                tied: Vec::new(),
            },
            dtype: param.is_initialized().then(|| param.base().dtype()),
        });
    }
}

#[derive(Default)]
pub(super) struct ShapeVisitor {
    pub(super) path: ModulePath,
    pub(super) shapes: HashMap<String, Vec<usize>>,
}

impl ModuleVisitor for ShapeVisitor {
    crate::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let shape = param.lazy_shape().iter().copied().collect();
        self.shapes.insert(self.path.as_str().to_owned(), shape);
    }
}

pub(super) struct FlattenVisitor<'a> {
    pub(super) layout: &'a Layout,
    pub(super) path: ModulePath,
    pub(super) parts: Vec<Option<Tensor<1>>>,
}

impl ModuleVisitor for FlattenVisitor<'_> {
    crate::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if let Some(&index) = self.layout.places.get(self.path.as_str()) {
            let len = self.layout.entries[index].len();
            // Of a tied parameter the first path counts, which optimisers change.
            self.parts[index].get_or_insert_with(|| param.base().without_autodiff().reshape([len]));
        }
    }
}

pub(super) struct RegisterVisitor<'a> {
    pub(super) layout: &'a Layout,
    pub(super) path: ModulePath,
    pub(super) flat: Tensor<1>,
    pub(super) gradients: GradientsParams,
}

impl ModuleVisitor for RegisterVisitor<'_> {
    crate::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if let Some(&index) = self.layout.places.get(self.path.as_str()) {
            let entry = &self.layout.entries[index];
            let part = self.flat.clone().narrow(0, entry.offset, entry.len());
            let part = part.reshape(param.lazy_shape());
            self.gradients.register::<R>(param.id, part);
        }
    }
}

pub(super) struct GradientVisitor<'a> {
    pub(super) layout: &'a Layout,
    pub(super) path: ModulePath,
    pub(super) parts: Vec<Option<Tensor<1>>>,
    pub(super) gradients: &'a mut GradientsParams,
    pub(super) device: Option<Device>,
}

impl ModuleVisitor for GradientVisitor<'_> {
    crate::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let Some(&index) = self.layout.places.get(self.path.as_str()) else {
            return;
        };
        if self.device.is_none() {
            self.device = Some(param.lazy_device().inner());
        }
        if let Some(gradient) = self.gradients.remove::<R>(param.id) {
            let len = self.layout.entries[index].len();
            self.parts[index] = Some(gradient.without_autodiff().reshape([len]));
        }
    }
}

pub(super) struct WriteMapper<'a> {
    pub(super) layout: &'a Layout,
    pub(super) path: ModulePath,
    pub(super) flat: Tensor<1>,
    pub(super) written: Written,
    /// Tied parameters share one leaf, so that their gradients add up.
    pub(super) leaves: HashMap<usize, Box<dyn Any>>,
    pub(super) found: usize,
    pub(super) problem: Option<String>,
}

impl WriteMapper<'_> {
    fn value<const R: usize>(
        &self,
        entry: &LayoutEntry,
        id: ParamId,
        before: &Tensor<R>,
    ) -> Tensor<R> {
        let shape: [usize; R] = entry
            .shape
            .as_slice()
            .try_into()
            .expect("ranks were compared");
        let range = entry.offset..entry.offset + entry.len();
        let value = self.flat.clone().slice([range]).reshape(shape);
        let require_grad = match self.written {
            Written::AsBefore if !before.is_autodiff() => return value,
            Written::AsBefore => before.is_require_grad(),
            Written::Leaves => true,
        };
        let mut value = Tensor::from_inner(value);
        if let Some(strategy) = before.gradient_checkpointing_strategy() {
            value = value.with_gradient_checkpointing_strategy(strategy);
        }
        value = value.set_require_grad(require_grad);
        // Replicas that train together reduce the gradients of the parameters marked so.
        if before.is_autodiff() && before.is_distributed() {
            value.set_distributed(id)
        } else {
            value
        }
    }
}

impl ModuleMapper for WriteMapper<'_> {
    crate::track_path!(path);

    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        let Some(&index) = self.layout.places.get(self.path.as_str()) else {
            return param;
        };
        let entry = &self.layout.entries[index];
        let (id, before, mapper) = param.consume();
        if before.dims().as_slice() != entry.shape {
            self.problem.get_or_insert(format!(
                "{} is {:?} in the model, {:?} in the posterior",
                self.path.as_str(),
                before.dims(),
                entry.shape
            ));
            return Param::from_mapped_value(id, before, mapper);
        }
        self.found += 1;
        let value = match self
            .leaves
            .get(&index)
            .and_then(|leaf| leaf.downcast_ref::<Tensor<R>>())
        {
            Some(leaf) => leaf.clone(),
            None => {
                let value = self.value(entry, id, &before);
                if !entry.tied.is_empty() {
                    self.leaves.insert(index, Box::new(value.clone()));
                }
                value
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
