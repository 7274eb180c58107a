//! A model's loss, recorded once and replayed with gradients for every example.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_core::kernels::Scratch;
use burn_bayes_core::{Entry, Layout};

use crate::assemble::GradientSum;
use crate::batch::{ExampleBatch, Inputs, Lengths, signature_of};
use crate::capture::record_grown;
use crate::error::{Kind, Result};
use crate::factor::Term;
use crate::gradients::{Block, ExampleGradients};
use crate::looped::looped_rows;
use crate::memo::Memo;
use crate::parameters::{Held, held};
use crate::plan::{Failure, plan};
use crate::replay::Player;
use crate::rules::{bias_gradients, copy_gradients, weight_gradients};

/// The losses of a batch's examples, and the gradient of each.
#[derive(Clone, Debug)]
pub struct ExampleLosses {
    /// The losses, `[M]`.
    pub losses: Tensor<1>,
    /// Their gradients with respect to the layout's weights.
    pub gradients: ExampleGradients,
}

/// A model's loss per example, as a recorded graph.
///
/// The loss is recorded at the first batch of each shape, and replayed for every further one with
/// the parameters that the model then has. It is recorded in inference mode, as Burn's
/// `Module::valid` would run it: dropout is off, and batch norm uses its running statistics.
///
/// What cannot be recorded is evaluated one example at a time, which is exact, slower, and logged
/// once with the reason. A loss that lets examples see each other, such as the mean over the batch,
/// is an error.
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_core::{Entry, Layout};
/// use burn_bayes_graph::CapturedModel;
///
/// let device = Device::default();
/// let model = LinearConfig::new(3, 1).init(&device);
/// let layout = Layout::new(&model, &ParamGroup::all())?;
/// let captured = CapturedModel::new(layout.into(), |model: &Linear, (x, y): (Tensor<2>, Tensor<2>)| {
///     (model.forward(x) - y).square().sum_dim(1).squeeze_dim(1)
/// });
///
/// let batch = (Tensor::ones([5, 3], &device), Tensor::zeros([5, 1], &device));
/// let evaluated = captured.example_gradients(&model, &batch)?;
/// assert_eq!(evaluated.losses.dims(), [5]);
/// assert_eq!(evaluated.gradients.gram().dims(), [5, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CapturedModel<M, B> {
    layout: Arc<Layout>,
    loss: Arc<Loss<M, B>>,
    players: Memo<Vec<usize>, Player>,
    scratch: Scratch,
}

type Loss<M, B> = dyn Fn(&M, B) -> Tensor<1> + Send + Sync;

impl<M, B> fmt::Debug for CapturedModel<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedModel")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<M: Module, B: ExampleBatch> CapturedModel<M, B> {
    /// The loss of each example, `[M]`, as a function of a model and a batch of M; the gradients
    /// are those of the layout's weights.
    pub fn new(
        layout: Arc<Layout>,
        loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            loss: Arc::new(loss),
            players: Memo::default(),
            scratch: Scratch::default(),
        }
    }

    /// Which weights the gradients are about.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The loss of every example and its gradient, at the model's present weights.
    ///
    /// # Errors
    ///
    /// An empty batch, tensors that disagree about the number of examples, a loss that mixes
    /// examples or draws random numbers, a model that does not fit the layout.
    pub fn example_gradients(&self, model: &M, batch: &B) -> Result<ExampleLosses> {
        let examples = examples_of(batch)?;
        let tensors = held(model, &self.layout);
        match self.player(model, batch, &tensors)? {
            Some(player) => self.replayed(&player, model, batch, tensors, examples),
            None => self.looped(model, batch),
        }
    }

    /// The same by one backward pass for each example: exact for every model, and slow.
    pub fn looped(&self, model: &M, batch: &B) -> Result<ExampleLosses> {
        let all = (0..self.layout.entries().len()).collect();
        let examples = examples_of(batch)?;
        let (losses, rows) = looped_rows(&*self.loss, model, batch, examples, &self.layout, &all)?;
        let blocks = rows.into_values().map(|rows| {
            let len = rows.dims()[1];
            Block::new(len, vec![Term::rows(rows)])
        });
        let device = losses.device();
        let gradients = ExampleGradients::new(examples, blocks.collect(), &device);
        let gradients = gradients.with_scratch(&self.scratch);
        Ok(ExampleLosses { losses, gradients })
    }

    /// The paths of the parameters whose gradients on such a batch come from one backward pass for
    /// each example: none if the graph gives all of them.
    pub fn looped_paths(&self, model: &M, batch: &B) -> Result<Vec<String>> {
        let tensors = held(model, &self.layout);
        let entries = self.layout.entries();
        let path = |entry: &Entry| entry.path.clone();
        Ok(match self.player(model, batch, &tensors)? {
            Some(player) => {
                let looped = player.plan.looped.iter();
                looped.map(|&entry| path(&entries[entry])).collect()
            }
            None => entries.iter().map(path).collect(),
        })
    }

    fn player(&self, model: &M, batch: &B, tensors: &[Held]) -> Result<Option<Arc<Player>>> {
        self.players
            .get(signature_of(batch), || self.captured(model, batch, tensors))
    }

    fn captured(&self, model: &M, batch: &B, tensors: &[Held]) -> Result<Option<Player>> {
        self.layout.check(model)?;
        let examples = examples_of(batch)?;
        if examples == 1 {
            // One example, one backward pass; nothing to tell apart.
            return Ok(None);
        }
        let parameters: Vec<_> = tensors.iter().map(|held| held.parameter).collect();
        let planned = record_grown(model, &self.layout, batch, &|model: &M, batch| {
            (self.loss)(model, batch)
        })
        .map_err(Failure::Loop)
        .and_then(|recording| plan(recording, &parameters, &self.layout, examples));
        match planned {
            Ok(plan) => {
                if !plan.looped.is_empty() {
                    let entries = self.layout.entries();
                    let paths: Vec<_> = plan.looped.iter().map(|&i| &*entries[i].path).collect();
                    log::warn!(
                        "gradients per example of {} come from one backward pass for each example: \
                         there is no rule for how the loss uses them",
                        paths.join(", ")
                    );
                }
                Ok(Some(Player::new(plan)))
            }
            Err(Failure::Loop(reason)) => {
                log::warn!(
                    "the loss could not be recorded, and is evaluated one example at a time: \
                     {reason}"
                );
                Ok(None)
            }
            Err(Failure::Refused(error)) => Err(error),
        }
    }

    fn replayed(
        &self,
        player: &Player,
        model: &M,
        batch: &B,
        tensors: Vec<Held>,
        examples: usize,
    ) -> Result<ExampleLosses> {
        let plan = &player.plan;
        let replay = player.replay(tensors, Inputs::of(batch));

        let losses: Tensor<1> = replay.losses.typed();
        let mut sum = GradientSum::new(&self.layout, losses.device());
        for (tap, tapped) in plan.taps.iter().zip(replay.taps) {
            let Some(delta) = tapped.delta else {
                continue;
            };
            if let Some((_, Some(view))) = &tap.bias {
                sum.add_rows(view, bias_gradients(tap, delta.clone(), examples));
            }
            if let Some(view) = &tap.weight {
                sum.add(view, weight_gradients(tap, tapped.input, delta, examples));
            }
        }
        for (copied, gradient) in plan.copies.iter().zip(replay.copies) {
            if let Some(gradient) = gradient {
                sum.add_rows(
                    &copied.view,
                    copy_gradients(gradient, copied.axis, examples),
                );
            }
        }
        if !plan.looped.is_empty() {
            let (_, rows) = looped_rows(
                &*self.loss,
                model,
                batch,
                examples,
                &self.layout,
                &plan.looped,
            )?;
            for (parameter, rows) in rows {
                sum.replace(parameter, rows);
            }
        }
        let device = losses.device();
        let gradients = ExampleGradients::new(examples, sum.into_blocks(), &device);
        let gradients = gradients.with_scratch(&self.scratch);
        Ok(ExampleLosses { losses, gradients })
    }
}

/// The number of examples, M.
pub(crate) fn examples_of<B: ExampleBatch>(batch: &B) -> Result<usize> {
    let mut lengths = Lengths::default();
    let _ = batch.clone().map_tensors(&mut lengths);
    let problem = match lengths.0.as_slice() {
        [] => "the batch has no tensor".to_owned(),
        [0, ..] => "the batch has no examples".to_owned(),
        [first, rest @ ..] => match rest.iter().position(|len| len != first) {
            None => return Ok(*first),
            Some(index) => format!(
                "tensor {} of the batch has {} entries along its first axis, tensor 0 has {first}; \
                 all must have one for each example",
                index + 1,
                rest[index]
            ),
        },
    };
    Err(Kind::Batch(problem).into())
}
