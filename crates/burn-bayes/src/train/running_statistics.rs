//! Running statistics of batch norm in steps that do not run the model's layers.
//!
//! A layer in training mode takes the statistics s of every mini-batch into its running ones,
//!
//!   r ← (1 − m) r + m s.
//!
//! A recorded loss returns s and leaves r alone. A layer does not expose its momentum m: after a step of the model's own
//! from a large r, in which a layer is evaluated k times, (1 − m)ᵏ r is left.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ParamId};
use burn::tensor::Tensor;
use burn_bayes_graph::{BatchStatistic, DrawGradients, Template};

use crate::predict::replace_statistics;

/// How layers take statistics into their running ones, as far as this is known.
#[derive(Debug, Default)]
pub(super) struct RunningStatistics(Mutex<Option<Momenta>>);

#[derive(Debug)]
struct Momenta {
    /// A hash of the model's fields, of which m is one.
    fields: u64,
    /// m of every running statistic; zero for one that no step changes.
    of: HashMap<ParamId, f64>,
    /// Whether a step changes a running statistic that the recorded loss does not return.
    has_others: bool,
}

impl RunningStatistics {
    /// Whether the momentum of all these statistics is known.
    pub(super) fn is_known<M: Module>(
        &self,
        template: &Template<'_, M>,
        found: &DrawGradients,
    ) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| {
            let mut statistics = found.statistics.iter().flatten();
            known.fields == template.fields() && statistics.all(|of| known.of.contains_key(&of.id))
        })
    }

    /// Takes in what is left of large running statistics after a step of the model's own at one draw.
    pub(super) fn learn<M: Module>(
        &self,
        template: &Template<'_, M>,
        found: &DrawGradients,
        left: &HashMap<ParamId, f64>,
    ) {
        let mut counts: HashMap<ParamId, i32> = HashMap::new();
        for statistic in found.statistics.iter().take(1).flatten() {
            *counts.entry(statistic.id).or_default() += 1;
        }
        let momentum = |(&id, &count): (&ParamId, &i32)| {
            let left = left.get(&id).copied().unwrap_or(1.0);
            let each = if count == 1 {
                left
            } else {
                left.powf(1.0 / f64::from(count))
            };
            (id, 1.0 - each)
        };
        let has_others = left.keys().any(|id| !counts.contains_key(id));
        if has_others {
            log::info!(
                "steps are the model's own: they change running statistics of a layer that `example_losses` does not use"
            );
        }
        let momenta = Momenta {
            fields: template.fields(),
            of: counts.iter().map(momentum).collect(),
            has_others,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(momenta);
    }

    /// Whether a step changes a running statistic that the recorded loss does not return.
    pub(super) fn has_others<M: Module>(&self, template: &Template<'_, M>) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .as_ref()
            .is_some_and(|known| known.fields == template.fields() && known.has_others)
    }

    /// Updates the running statistics of the model as its own layers would at these draws, one after the other.
    pub(super) fn update<M: Module>(&self, model: &M, draws: &[Vec<BatchStatistic>]) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_ref() else {
            return;
        };
        let mut values: HashMap<ParamId, Vec<&Tensor<1>>> = HashMap::new();
        for statistic in draws.iter().flatten() {
            values
                .entry(statistic.id)
                .or_default()
                .push(&statistic.values);
        }
        replace_statistics(model, |id, running| {
            let momentum = known.of.get(&id).copied().unwrap_or_default();
            // A layer at several places of the model has one state.
            match values.remove(&id).filter(|_| momentum != 0.0) {
                Some(values) => updated(running, momentum, &values),
                None => running,
            }
        });
    }
}

/// The running statistic after these statistics of mini-batches.
fn updated(running: Tensor<1>, momentum: f64, values: &[&Tensor<1>]) -> Tensor<1> {
    let is_autodiff = running.is_autodiff();
    let start = running.without_autodiff();
    let (device, dtype) = (start.device(), start.dtype());
    let updated = values.iter().fold(start, |running, &value| {
        let value = value.clone().to_device(&device).cast(dtype);
        running.mul_scalar(1.0 - momentum) + value.mul_scalar(momentum)
    });
    match is_autodiff {
        true => Tensor::from_inner(updated),
        false => updated,
    }
}
