//! The tensors of a model at several draws of its weights.

use std::collections::BTreeSet;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor, TensorData};

use super::expect_type;
use super::translation::data_of;
use super::writer::GraphWriter;
use crate::capture::Recording;
use crate::error::Result;
use crate::layout::Layout;
use crate::module_path::ModulePath;
use crate::operation::slot;
use crate::parameters::{ModuleTensor, module_tensors};

/// The tensors of the models of all draws.
pub(super) struct DrawnWeights {
    pub(super) draws: usize,
    /// Of the first draw, with their paths.
    pub(super) first: Vec<ModuleTensor>,
    paths: Vec<String>,
    values: Vec<TensorData>,
    /// The values of all draws, of the tensors that are not the same in all.
    others: Vec<Option<Vec<TensorData>>>,
}

impl DrawnWeights {
    pub(super) fn new<M: Module>(model: &M, layout: &Layout) -> Self {
        let first = module_tensors(model, layout);
        let values = first.iter().map(|tensor| data_of(tensor.value.clone()));
        let values: Vec<_> = values.collect();
        Self {
            draws: 1,
            paths: paths(model),
            others: vec![None; first.len()],
            values,
            first,
        }
    }

    /// Adds the next draw.
    pub(super) fn add<M: Module>(&mut self, model: &M, layout: &Layout) {
        let tensors = module_tensors(model, layout);
        for (number, tensor) in tensors.into_iter().enumerate() {
            let value = data_of(tensor.value);
            let (first, known) = (&self.values[number], &mut self.others[number]);
            if known.is_none() && value.as_bytes() == first.as_bytes() {
                continue;
            }
            let draws = self.draws;
            let known = known.get_or_insert_with(|| vec![first.clone(); draws]);
            known.push(value);
        }
        self.draws += 1;
    }

    /// Fails if a tensor has an element type that files cannot have.
    pub(super) fn check(&self) -> Result<()> {
        let mut tensors = self.values.iter().zip(&self.paths);
        tensors.try_for_each(|(value, path)| expect_type(value.dtype(), path))
    }

    /// The tensors that draws change, by their number.
    pub(super) fn varying(&self) -> Vec<Option<usize>> {
        let others = self.others.iter().enumerate();
        others
            .map(|(number, values)| values.as_ref().map(|_| number))
            .collect()
    }

    pub(super) fn varying_slots<'a>(
        &'a self,
        recording: &'a Recording,
    ) -> impl Iterator<Item = usize> + 'a {
        let slots = recording.module_tensors.iter().zip(&self.others);
        slots.filter_map(|(slot, values)| values.as_ref().map(|_| *slot))
    }

    /// The tensors that all draws share.
    pub(super) fn shared_names(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<(usize, String)> {
        let used = used(recording);
        let numbers = recording.module_tensors.iter().enumerate();
        let shared =
            numbers.filter(|(number, slot)| self.others[*number].is_none() && used.contains(slot));
        let named = shared.map(|(number, &slot)| {
            let value = &self.values[number];
            let shape = value.shape().to_vec();
            (slot, writer.weights(&self.paths[number], &shape, &[value]))
        });
        named.collect()
    }

    /// The tensors of every draw.
    pub(super) fn names_of_draws(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<Vec<(usize, String)>> {
        let used = used(recording);
        let mut of_draw = |draw: usize| {
            let numbers = recording.module_tensors.iter().enumerate();
            let named = numbers.filter_map(|(number, &slot)| {
                let value = &self.others[number].as_ref()?[draw];
                if !used.contains(&slot) {
                    return None;
                }
                let name = format!("{}.draw_{draw}", self.paths[number]);
                let shape = value.shape().to_vec();
                Some((slot, writer.weights(&name, &shape, &[value])))
            });
            named.collect()
        };
        (0..self.draws).map(&mut of_draw).collect()
    }

    /// All tensors, with an axis of draws where draws change them.
    pub(super) fn stacked_names(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<(usize, String)> {
        let mut named = self.shared_names(writer, recording);
        let used = used(recording);
        for (number, &slot) in recording.module_tensors.iter().enumerate() {
            let Some(values) = self.others[number]
                .as_ref()
                .filter(|_| used.contains(&slot))
            else {
                continue;
            };
            let shape = [&[self.draws], &values[0].shape()[..]].concat();
            let parts: Vec<_> = values.iter().collect();
            named.push((slot, writer.weights(&self.paths[number], &shape, &parts)));
        }
        named
    }
}

/// The slots that operations read, and that of the result.
fn used(recording: &Recording) -> BTreeSet<usize> {
    let inputs = recording
        .operations
        .iter()
        .flat_map(|operation| &operation.inputs);
    inputs.map(slot).chain([recording.losses]).collect()
}

/// The paths of all tensors of a module, in visiting order.
fn paths<M: Module>(module: &M) -> Vec<String> {
    #[derive(Default)]
    struct Paths {
        path: ModulePath,
        found: Vec<String>,
    }
    impl Paths {
        fn add(&mut self) {
            self.found.push(self.path.as_str().to_owned());
        }
    }
    impl ModuleVisitor for Paths {
        crate::track_path!(path);

        fn visit_float<const R: usize>(&mut self, _param: &Param<Tensor<R>>) {
            self.add();
        }

        fn visit_int<const R: usize>(&mut self, _param: &Param<Tensor<R, Int>>) {
            self.add();
        }

        fn visit_bool<const R: usize>(&mut self, _param: &Param<Tensor<R, Bool>>) {
            self.add();
        }
    }
    let mut paths = Paths::default();
    module.visit(&mut paths);
    paths.found
}
