//! Evaluates all draws of a step in one pass, for models that return the loss of every example.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Once, OnceLock};

use burn::module::{Module, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::{CapturedLoss, DrawGradients, ExampleBatch, Layout, Template};

use super::draws::{Gathered, no_draws, one_by_one, stacked};
use super::example_loss::ExampleLoss;
use super::running_statistics::RunningStatistics;
use super::self_check::SelfCheck;
use crate::error::Result;
use crate::methods::{Draw, GradientPieces, whole};
use crate::noise::Noise;
use crate::posterior::unshared;
use crate::predict::{left_of_large_statistics, training_flags, with_large_statistics};
use crate::train::own_loss::{self, Nudge, Parts};

/// A model's recorded loss. The functions hide the bound on [`ExampleLoss`], so that other code does not need it.
pub(crate) struct BatchedTraining<M: Module + TrainStep> {
    layout: Arc<Layout>,
    gradients: Box<Gradients<M>>,
    /// The model's output, given the losses of the examples.
    output: fn(&M, M::Input, Tensor<1>) -> M::Output,
    running: RunningStatistics,
    /// Whether it was said why draws need one pass each, if somebody asked for another way.
    refused: Option<Once>,
}

/// See [`CapturedLoss::gradients`].
type Gradients<M> = dyn Fn(
        &Template<'_, M>,
        Tensor<2>,
        &<M as TrainStep>::Input,
        &SelfCheck,
    ) -> Result<Option<DrawGradients>>
    + Send
    + Sync;

impl<M: Module + TrainStep> fmt::Debug for BatchedTraining<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchedTraining").finish_non_exhaustive()
    }
}

impl<M> BatchedTraining<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
{
    /// A loss that cannot be compiled is replayed at all draws at once, or not at all.
    pub(crate) fn new(layout: Arc<Layout>, is_replayed: bool) -> Self {
        // Created at the first step, when all settings are known.
        let loss = OnceLock::new();
        let of = layout.clone();
        Self {
            gradients: Box::new(move |template, draws, item, check| {
                let loss = loss.get_or_init(|| {
                    let losses = |model: &M, batch| model.example_losses(batch);
                    let captured = CapturedLoss::new(of.clone(), losses).with_batch_statistics();
                    let captured = match is_replayed {
                        true => captured,
                        false => captured.only_compiled(),
                    };
                    match check.is_on() {
                        true => captured,
                        false => captured.without_self_check(),
                    }
                });
                Ok(loss.gradients_of(template, draws, item)?)
            }),
            output: M::example_outputs,
            layout,
            running: RunningStatistics::default(),
            refused: is_replayed.then(Once::new),
        }
    }
}

/// What a step computes, and the output of the model's own step at the first draw, if a check needed it.
pub(super) struct Evaluated<O> {
    pub(super) found: DrawGradients,
    pub(super) own: Option<O>,
}

/// The model's own step at every draw.
struct OwnStep<O> {
    gathered: Gathered<GradientPieces, O>,
    /// What the first draw leaves of large running statistics.
    left: HashMap<ParamId, f64>,
}

/// Compares the gradients at the first draw, and those outside the layout, with the model's own
/// step.
fn compared<M: Module + TrainStep<Input: Clone>>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    item: &M::Input,
    found: &DrawGradients,
) -> Result<()> {
    let own = |draws: &[Draw]| -> Result<_> {
        let own = one_by_one(layout, model, draws, item, |_, pieces| Ok(pieces))?;
        Ok(parts(layout, model, &own.signal, &own.outside))
    };
    let found = parts(layout, model, &found.pieces, &found.outside);
    own_loss::compare(found, &own(draws)?, |nudge| own(&nudged(draws, nudge)))
}

/// The draws with nudged weights.
fn nudged(draws: &[Draw], nudge: Nudge) -> Vec<Draw> {
    let nudged = draws.iter().map(|draw| Draw {
        weights: nudge.of(&draw.weights),
        ..draw.clone()
    });
    nudged.collect()
}

/// The gradients at the first draw, and those outside the layout.
fn parts<M: Module>(
    layout: &Layout,
    model: &M,
    pieces: &[Vec<Tensor<1>>],
    outside: &GradientsParams,
) -> Parts {
    let mut parts = own_loss::inside(layout, &whole(pieces[0].clone()));
    parts.extend(own_loss::outside(model, outside));
    parts
}

impl<M: Module + TrainStep> BatchedTraining<M> {
    /// The layout of the weights.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The gradients at all draws; `None` if they need one pass per draw.
    pub(crate) fn gathered(
        &self,
        model: &M,
        draws: &[Draw],
        item: &M::Input,
        check: &SelfCheck,
    ) -> Result<Option<Gathered<GradientPieces, M::Output>>>
    where
        M::Input: Clone,
    {
        if !is_plain(model) {
            return Ok(None);
        }
        let template = Template::new(model, &self.layout);
        let Some(gradients) = self.gradients(&template, stacked(draws), item, check)? else {
            return Ok(None);
        };
        if check.is_loss_due() {
            compared(&self.layout, model, draws, item, &gradients)?;
        }
        check.gathered();
        let first = self
            .layout
            .write_leaves(model.clone(), draws[0].weights.clone())?;
        let losses = gradients.losses.narrow(0, 0, 1).squeeze_dim(0);
        Ok(Some(Gathered {
            signal: gradients.pieces,
            outside: gradients.outside,
            item: (self.output)(&first, item.clone(), losses),
        }))
    }

    /// Says once which layer is the reason for one pass per draw, if batched draws were asked for.
    pub(crate) fn warn_about_layers(&self, model: &M) {
        let flags = training_flags(model);
        let layer = flags.iter().find(|flag| flag.is_on);
        let (Some(layer), Some(refused)) = (layer, &self.refused) else {
            return;
        };
        refused.call_once(|| {
            let cure = layer.cure();
            log::warn!(
                "draws are evaluated one by one: {layer} behaves differently in training and \
                 inference, and recordings are made in inference mode; for batched draws, \
                 {cure}"
            );
        });
    }

    /// The losses and gradients at all draws with batch norm in training mode. The running statistics of the model change as
    /// in its own step at each of the draws.
    ///
    /// At some of the calls the model's own step is made too, on a copy, and its gradients are compared.
    pub(super) fn training_gradients(
        &self,
        template: &Template<'_, M>,
        model: &M,
        draws: Tensor<2>,
        item: &M::Input,
        (check, needs_output): (&SelfCheck, bool),
    ) -> Result<Option<Evaluated<M::Output>>>
    where
        M::Input: Clone,
    {
        if self.running.has_others(template) {
            return Ok(None);
        }
        let Some(found) = self.gradients(template, draws.clone(), item, check)? else {
            return Ok(None);
        };
        let (is_known, is_due) = (self.running.is_known(template, &found), check.is_loss_due());
        let mut own = None;
        if !is_known || is_due || needs_output {
            let draws: Vec<_> = draws.iter_dim(0).map(draw_of_row).collect();
            let copy = || with_large_statistics(unshared(model.clone()));
            let step = self.own_step(&copy(), &draws, item)?;
            self.running.learn(template, &found, &step.left);
            if is_due {
                let of = |step: &OwnStep<M::Output>| {
                    let Gathered {
                        signal, outside, ..
                    } = &step.gathered;
                    parts(&self.layout, model, signal, outside)
                };
                let again =
                    |nudge| Ok(of(&self.own_step(&copy(), &nudged(&draws, nudge), item)?));
                let recorded = parts(&self.layout, model, &found.pieces, &found.outside);
                own_loss::compare(recorded, &of(&step), again)?;
            }
            own = Some(step.gathered.item);
        }
        if self.running.has_others(template) {
            return Ok(None);
        }
        self.running.update(model, &found.statistics);
        Ok(Some(Evaluated { found, own }))
    }

    /// The model's own step at every draw, from large running statistics.
    fn own_step(&self, model: &M, draws: &[Draw], item: &M::Input) -> Result<OwnStep<M::Output>>
    where
        M::Input: Clone,
    {
        let mut left = None;
        let gathered = one_by_one(&self.layout, model, draws, item, |model, pieces| {
            left.get_or_insert_with(|| left_of_large_statistics(model));
            Ok(pieces)
        })?;
        Ok(OwnStep {
            gathered,
            left: left.unwrap_or_default(),
        })
    }

    /// The losses and gradients at all draws, for a model without layers that behave differently in training, except batch
    /// norm. `None` if they need one pass per draw.
    pub(crate) fn gradients(
        &self,
        template: &Template<'_, M>,
        draws: Tensor<2>,
        item: &M::Input,
        check: &SelfCheck,
    ) -> Result<Option<DrawGradients>> {
        (self.gradients)(template, draws, item, check)
    }
}

/// The gradient at the first draw.
pub(super) fn first(gradients: GradientPieces) -> Result<Tensor<1>> {
    let first = gradients.into_iter().next();
    first.map(whole).ok_or_else(no_draws)
}

/// A draw from its row among all draws, `[1, D]`.
fn draw_of_row(row: Tensor<2>) -> Draw {
    Draw {
        weights: row.squeeze_dim(0),
        noise: Noise::new(0),
    }
}

/// Whether no layer behaves differently in training and inference.
fn is_plain<M: Module>(model: &M) -> bool {
    training_flags(model).iter().all(|flag| !flag.is_on)
}
