//! A model evaluated at many draws of its weights in one pass.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use burn::backend::TensorMetadata;
use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_core::Layout;

use crate::batch::{ExampleBatch, Inputs, signature_of};
use crate::capture::record_once;
use crate::error::{Kind, Result};
use crate::lift::lifted;
use crate::lower::lowered;
use crate::parameters::{Held, held};
use crate::plan::Plan;
use crate::replay::Constants;
use crate::untyped::Untyped;

/// A model's forward pass, recorded, and replayed for many draws of the weights at once.
///
/// What does not depend on the weights is computed once for all draws, and the draws share every
/// other operation. A model with an operation that cannot carry draws along is evaluated one draw
/// at a time, which is logged once with the operation's name. The pass is that of inference.
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_core::Layout;
/// use burn_bayes_graph::CapturedForward;
///
/// let device = Device::default();
/// let model = LinearConfig::new(3, 2).init(&device);
/// let layout = Layout::new(&model, &ParamGroup::all())?;
/// let forward =
///     CapturedForward::new(layout.into(), |model: &Linear, x: Tensor<2>| model.forward(x));
///
/// let draws = Tensor::ones([10, 8], &device);
/// let outputs = forward.outputs(&model, draws, &Tensor::ones([5, 3], &device))?;
/// assert_eq!(outputs.dims(), [10, 5, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CapturedForward<M, B> {
    layout: Arc<Layout>,
    forward: Arc<Forward<M, B>>,
    graphs: RwLock<HashMap<Vec<usize>, Arc<Graph>>>,
}

type Forward<M, B> = dyn Fn(&M, B) -> Tensor<2> + Send + Sync;

impl<M, B> fmt::Debug for CapturedForward<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedForward")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Graph {
    Lifted(Plan, Constants),
    Looped,
}

impl<M: Module, B: ExampleBatch> CapturedForward<M, B> {
    /// The model's output on a batch, `[M, width]`.
    pub fn new(
        layout: Arc<Layout>,
        forward: impl Fn(&M, B) -> Tensor<2> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            forward: Arc::new(forward),
            graphs: RwLock::default(),
        }
    }

    /// The output at every draw: `draws` is `[S, D]`, the result `[S, M, width]`.
    ///
    /// # Errors
    ///
    /// Draws whose length is not the layout's; a model that does not fit the layout.
    pub fn outputs(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, _] = self.checked(&draws)?;
        let tensors = held(model, &self.layout);
        let device = tensors.first().map(|held| held.value.device());
        match (&*self.graph(model, batch, &tensors, count)?, device) {
            (Graph::Lifted(plan, constants), Some(device)) => {
                let tensors = self.drawn(tensors, &draws);
                let inputs = Inputs::of(batch);
                let replay = plan.replay(&device, constants, tensors, inputs);
                Ok(replay.losses.typed())
            }
            _ => self.looped(model, draws, batch),
        }
    }

    /// The same, one draw at a time.
    pub fn looped(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, len] = self.checked(&draws)?;
        let model = model.valid();
        let outputs = (0..count).map(|draw| {
            let weights = draws.clone().narrow(0, draw, 1).reshape([len]);
            let model = self.layout.write(model.clone(), weights)?;
            Ok((self.forward)(&model, batch.clone()).without_autodiff())
        });
        Ok(Tensor::stack(outputs.collect::<Result<_>>()?, 0))
    }

    /// Whether such a batch is evaluated one draw at a time.
    pub fn is_looped(&self, model: &M, draws: &Tensor<2>, batch: &B) -> Result<bool> {
        let [count, _] = self.checked(draws)?;
        let tensors = held(model, &self.layout);
        Ok(matches!(
            *self.graph(model, batch, &tensors, count)?,
            Graph::Looped
        ))
    }

    fn checked(&self, draws: &Tensor<2>) -> Result<[usize; 2]> {
        let [count, len] = draws.dims();
        if count == 0 || len != self.layout.len() {
            let expected = self.layout.len();
            return Err(Kind::Draws(format!(
                "the draws are [{count}, {len}], expected at least one draw of {expected} weights"
            ))
            .into());
        }
        Ok([count, len])
    }

    /// The module's tensors, those of the layout with an axis of draws.
    fn drawn(&self, tensors: Vec<Held>, draws: &Tensor<2>) -> Vec<Held> {
        let draws = draws.clone().without_autodiff();
        let count = draws.dims()[0];
        let drawn = tensors.into_iter().map(|held| {
            let Some(parameter) = held.parameter else {
                return held;
            };
            let entry = &self.layout.entries()[parameter];
            let values = draws.clone().narrow(1, entry.offset, entry.len());
            let shape = [&[count], &entry.shape[..]].concat();
            let values = Untyped::new(values.into_dispatch()).reshape(&shape);
            Held {
                value: values.into_dispatch(),
                ..held
            }
        });
        drawn.collect()
    }

    fn graph(&self, model: &M, batch: &B, tensors: &[Held], draws: usize) -> Result<Arc<Graph>> {
        let mut signature = signature_of(batch);
        signature.push(draws);
        let known = self.graphs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(graph) = known.get(&signature) {
            return Ok(graph.clone());
        }
        drop(known);
        self.layout.check(model)?;
        let parameters: Vec<_> = tensors.iter().map(|held| held.parameter).collect();
        let recorded = record_once(model, &self.layout, batch.clone(), &|model: &M, batch| {
            (self.forward)(model, batch)
        });
        let lifted = recorded.and_then(|recording| {
            let (recording, is_lifted) =
                lifted(lowered(recording, &parameters), &parameters, draws)?;
            if is_lifted {
                Ok(recording)
            } else {
                Err("no weight reaches the output".into())
            }
        });
        let graph = match lifted.and_then(Plan::untapped) {
            Ok(plan) => Graph::Lifted(plan, Constants::default()),
            Err(reason) => {
                log::warn!("the model is evaluated one draw at a time: {reason}");
                Graph::Looped
            }
        };
        let mut known = self.graphs.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(signature).or_insert(graph.into()).clone())
    }
}
