//! Per-example losses and gradients from a recorded loss.

use std::fmt;
use std::sync::Arc;

use crate::compile::{CompiledRecording, Wanted, on_host, said};
use crate::cpu::{HostValues, Scratch};
use crate::layout::{Layout, LayoutEntry};
use burn::module::Module;
use burn::tensor::Tensor;

use crate::assemble::GradientSum;
use crate::batch::{ExampleBatch, Inputs, examples_of};
use crate::capture::record_examples;
use crate::draw_plan::with_draws;
use crate::draws::{PASS, checked, insert};
use crate::dyn_tensor::{DynTensor, device_of};
use crate::error::{Kind, Result};
use crate::factor::Term;
use crate::fields::fields_of;
use crate::gradients::{Block, ExampleGradients, ExampleLosses};
use crate::looped::{Direct, looped_rows};
use crate::memo::{CAPACITY, Cached, Key, Memo};
use crate::parameters::{ModuleTensor, module_tensors, parameters_of};
use crate::plan::{Failure, Plan, Replay, plan};
use crate::replay::Player;
use crate::rules::{bias_gradients, copy_gradients, weight_gradients};
use crate::self_check::{Found, Largest, check_examples};
use crate::stop_gradient::check_gradients;
use crate::template::Template;

/// The per-example loss of a model, as a recorded graph.
///
/// The loss is recorded at the first batch of each shape and replayed at later ones with the current
/// parameters. It is recorded in inference mode, as by Burn's `Module::valid`: dropout is off, and batch
/// norm uses its running statistics.
///
/// A loss that cannot be recorded is evaluated one example at a time. This loop is exact but slower, and its
/// reason is logged once. A loss that mixes examples, such as the mean over the batch, is an error.
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_graph::{LayoutEntry, Layout};
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
    /// Those of one draw and, with other keys, those of several.
    players: Memo<Player>,
    scratch: Scratch,
    is_checked: bool,
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
    /// Takes the per-example loss, `[M]`, as a function of a model and a batch of M examples. Gradients
    /// are with respect to the weights of the layout.
    pub fn new(
        layout: Arc<Layout>,
        loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            loss: Arc::new(loss),
            players: Memo::new(CAPACITY),
            scratch: Scratch::default(),
            is_checked: true,
        }
    }

    /// Turns off the comparison of the recording with the loss itself, which is made at the first batches
    /// of every shape and occasionally later.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// The weights that gradients are taken with respect to.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The loss of every example and its gradient, at the model's current weights.
    ///
    /// # Errors
    ///
    /// If the batch is empty or its tensors have different numbers of examples, if the loss mixes examples
    /// or draws random numbers, or if the model does not fit the layout.
    pub fn example_gradients(&self, model: &M, batch: &B) -> Result<ExampleLosses> {
        let examples = examples_of(batch)?;
        let key = Key::new(fields_of(model), batch, 1);
        let Some(player) = self.player(model, batch, &key)? else {
            return self.looped(model, batch);
        };
        let all = self.one_draw(&player, model, batch, examples)?;
        if self.is_checked {
            player.count_use(&key, |of| {
                let found = Found {
                    all: &all,
                    first: 0,
                    examples,
                    of,
                };
                self.check(model, self.layout.flatten(model)?, batch, found)
            })?;
        }
        Ok(all)
    }

    fn one_draw(
        &self,
        player: &Player,
        model: &M,
        batch: &B,
        examples: usize,
    ) -> Result<ExampleLosses> {
        let tensors = module_tensors(model, &self.layout);
        let (losses, mut sum) = match self.run(player, model, &tensors, None, batch)? {
            Some(replay) => self.summed(&player.plan, replay, 1, examples),
            None => self.replayed(player, tensors, batch, examples),
        };
        let looped = &player.plan.looped;
        if !looped.is_empty() {
            let (_, rows) = looped_rows(&*self.loss, model, batch, examples, &self.layout, looped)?;
            for (parameter, rows) in rows {
                sum.replace(parameter, rows);
            }
        }
        Ok(self.finished(losses, sum))
    }

    /// Compares the results at these weights with the loss itself.
    fn check(&self, model: &M, weights: Tensor<1>, batch: &B, found: Found<'_>) -> Result<Largest> {
        let direct = Direct::new(&*self.loss, model, weights, batch, &self.layout)?;
        check_examples(&direct, &self.layout, found)
    }

    /// The losses and gradients at S draws of the layout's weights, `[D]` each: S·M of each.
    ///
    /// The draws are vectorised into one forward and one backward pass if the intermediate results fit into
    /// a processor's cache. Otherwise, or if an operation cannot be vectorised, each draw has its own passes.
    ///
    /// # Errors
    ///
    /// Those of [`example_gradients`](Self::example_gradients). Also if there are no draws, or if their
    /// length is not that of the layout.
    pub fn example_gradients_at(
        &self,
        model: &M,
        draws: &[Tensor<1>],
        batch: &B,
    ) -> Result<ExampleLosses> {
        self.example_gradients_of(&Template::new(model, &self.layout), draws, batch)
    }

    /// The same for a model that does not change between calls.
    ///
    /// # Errors
    ///
    /// Those of [`example_gradients_at`](Self::example_gradients_at).
    pub fn example_gradients_of(
        &self,
        template: &Template<'_, M>,
        draws: &[Tensor<1>],
        batch: &B,
    ) -> Result<ExampleLosses> {
        let examples = examples_of(batch)?;
        let model = template.model();
        let key = template.key(batch, draws.len());
        let alone = self.player(model, batch, &key.with_draws(1))?;
        let compiled = alone.filter(|player| player.is_compiled() && player.plan.looped.is_empty());
        if let (Some(player), [_, ..]) = (compiled, draws) {
            let stacked = Tensor::stack(draws.to_vec(), 0);
            checked(&self.layout, &stacked)?;
            let draws_of = Some(stacked);
            if let Some(replay) = self.run(&player, model, template.tensors(), draws_of, batch)? {
                let (losses, sum) = self.summed(&player.plan, replay, draws.len(), examples);
                let all = self.finished(losses, sum);
                self.compare(&player, &key, model, draws, batch, &all)?;
                return Ok(all);
            }
        }
        if let Some(player) = self.draw_player(model, batch, &key)? {
            let mut tensors = template.tensors().to_vec();
            let stacked = Tensor::stack(draws.to_vec(), 0);
            checked(&self.layout, &stacked)?;
            insert(&mut tensors, &self.layout, &stacked);
            let (losses, sum) = self.replayed(&player, tensors, batch, examples);
            let all = self.finished(losses, sum);
            self.compare(&player, &key, model, draws, batch, &all)?;
            return Ok(all);
        }
        let sets = draws.iter().map(|draw| {
            let model = self.layout.write(model.clone(), draw.clone())?;
            self.example_gradients(&model, batch)
        });
        let sets = sets.collect::<Result<Vec<_>>>()?.into_iter();
        let (losses, gradients): (Vec<_>, Vec<_>) =
            sets.map(|set| (set.losses, set.gradients)).unzip();
        if losses.is_empty() {
            return Err(Kind::Batch("there are no draws; pass at least one".into()).into());
        }
        Ok(ExampleLosses {
            losses: Tensor::cat(losses, 0),
            gradients: ExampleGradients::joined(gradients),
        })
    }

    /// Compares the results at these draws with the loss itself, at some of the calls.
    fn compare(
        &self,
        player: &Cached<Player>,
        key: &Key,
        model: &M,
        draws: &[Tensor<1>],
        batch: &B,
        all: &ExampleLosses,
    ) -> Result<()> {
        if !self.is_checked {
            return Ok(());
        }
        let examples = all.gradients.count() / draws.len();
        player.count_use(key, |of| {
            // A different draw at each comparison.
            let draw = of.time as usize % draws.len();
            let found = Found {
                all,
                first: draw * examples,
                examples,
                of,
            };
            self.check(model, draws[draw].clone(), batch, found)
        })
    }

    /// The results of the plan's program at these draws, `[S, D]`, or at the model's weights. `None` if there is none.
    fn run(
        &self,
        player: &Player,
        model: &M,
        tensors: &[ModuleTensor],
        draws: Option<Tensor<2>>,
        batch: &B,
    ) -> Result<Option<Replay>> {
        if !player.is_compiled() {
            return Ok(None);
        }
        let draws = match draws {
            Some(draws) => draws,
            None => self.layout.flatten(model)?.unsqueeze(),
        };
        let Some(draws) = HostValues::of(draws.without_autodiff().into_dispatch()) else {
            return Ok(None);
        };
        let (draws, examples) = ((&*self.layout, draws.values()), examples_of(batch)?);
        Ok(player.run(draws, tensors, Inputs::of(batch), examples))
    }

    /// The losses and gradients by one backward pass per example: exact for every model, and slow.
    ///
    /// # Errors
    ///
    /// If the loss of an example alone differs from its loss in the batch, or if the batch or the layout
    /// does not fit, as in [`example_gradients`](Self::example_gradients).
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

    /// The paths of the parameters whose gradients come from one backward pass per example for such a batch:
    /// none if the recording gives all of them.
    pub fn looped_paths(&self, model: &M, batch: &B) -> Result<Vec<String>> {
        let entries = self.layout.entries();
        let path = |entry: &LayoutEntry| entry.path.clone();
        let key = Key::new(fields_of(model), batch, 1);
        Ok(match self.player(model, batch, &key)? {
            Some(player) => {
                let looped = player.plan.looped.iter();
                looped.map(|&entry| path(&entries[entry])).collect()
            }
            None => entries.iter().map(path).collect(),
        })
    }

    /// Whether [`example_gradients_at`](Self::example_gradients_at) vectorises over this many draws (at
    /// least two).
    pub fn is_in_one_pass(&self, model: &M, batch: &B, draws: usize) -> Result<bool> {
        let key = Key::new(fields_of(model), batch, draws);
        Ok(self.draw_player(model, batch, &key)?.is_some())
    }

    fn player(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Cached<Player>>> {
        self.players.get(key, || self.captured(model, batch))
    }

    /// Replays the loss vectorised over draws; `None` if each draw has its own pass.
    fn draw_player(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Cached<Player>>> {
        let draws = key.draws();
        if draws < 2 {
            return Ok(None);
        }
        self.players.get(key, || {
            let plan = match self.planned(model, batch) {
                Ok(plan) => plan,
                Err(Failure::Refused(error)) => return Err(error),
                // The pass of a single draw logs the reason.
                Err(Failure::Single | Failure::Loop(_)) => return Ok(None),
            };
            if draws * (self.layout.len() + plan.numbers()) > PASS {
                return Ok(None);
            }
            let parameters = parameters_of(&module_tensors(model, &self.layout));
            let player = with_draws(plan, &parameters, draws).map(Player::new);
            let player = player.inspect_err(|reason| {
                log::warn!("the gradients are evaluated one draw at a time: {reason}");
            });
            Ok(player.ok())
        })
    }

    fn captured(&self, model: &M, batch: &B) -> Result<Option<Player>> {
        match self.planned(model, batch) {
            Ok(plan) => {
                if !plan.looped.is_empty() {
                    let entries = self.layout.entries();
                    let paths: Vec<_> = plan.looped.iter().map(|&i| &*entries[i].path).collect();
                    log::warn!(
                        "the gradients of {} are computed by one backward pass per example: there is \
                         no rule for how the loss uses them",
                        paths.join(", ")
                    );
                }
                let program = self.compiled(model, batch, &plan)?;
                Ok(Some(Player::new(plan).with_program(program)))
            }
            Err(Failure::Single) => Ok(None),
            Err(Failure::Loop(reason)) => {
                log::warn!(
                    "the loss is evaluated one example at a time, because it cannot be recorded: \
                     {reason}"
                );
                Ok(None)
            }
            Err(Failure::Refused(error)) => Err(error),
        }
    }

    /// The plan as a program, if it can be compiled for the device of the model.
    fn compiled(&self, model: &M, batch: &B, plan: &Plan) -> Result<Option<CompiledRecording>> {
        let tensors = module_tensors(model, &self.layout);
        if !on_host(&tensors) {
            return Ok(None);
        }
        let (examples, inputs) = (examples_of(batch)?, Inputs::of(batch));
        let program = CompiledRecording::new(plan, &tensors, &inputs, examples, Wanted::Taps);
        Ok(said(program))
    }

    fn planned(&self, model: &M, batch: &B) -> std::result::Result<Plan, Failure> {
        self.layout.check(model)?;
        let examples = examples_of(batch)?;
        if examples == 1 {
            return Err(Failure::Single);
        }
        let tensors = module_tensors(model, &self.layout);
        let parameters = parameters_of(&tensors);
        let loss = |model: &M, batch| (self.loss)(model, batch);
        let recording =
            record_examples(model, &self.layout, batch, examples, &loss).map_err(Failure::Loop)?;
        let device = device_of(tensors.iter().map(|tensor| &tensor.value));
        let plan = plan(
            recording.clone(),
            &parameters,
            &self.layout,
            examples,
            device,
        )?;
        check_gradients(model, &self.layout, batch, &loss, &recording).map_err(Failure::Loop)?;
        Ok(plan)
    }

    /// The losses, and the gradients of the plan's taps and copies.
    fn replayed(
        &self,
        player: &Player,
        tensors: Vec<ModuleTensor>,
        batch: &B,
        examples: usize,
    ) -> (Tensor<1>, GradientSum<'_>) {
        let replay = player.replay(tensors, Inputs::of(batch));
        let draws = player.plan.draws.unwrap_or(1);
        self.summed(&player.plan, replay, draws, examples)
    }

    /// The losses, and the gradients of a replay's taps and copies.
    fn summed(
        &self,
        plan: &Plan,
        replay: Replay,
        draws: usize,
        examples: usize,
    ) -> (Tensor<1>, GradientSum<'_>) {
        let all = examples * draws;
        let of_all = |value: DynTensor, axis, rank| match draws {
            1 => value,
            draws => value.with_draws_as_examples(axis, rank, draws, examples),
        };
        let losses: Tensor<1> = replay.losses.reshape(&[all]).typed();
        let mut sum = GradientSum::new(&self.layout, losses.device());
        for (tap, tapped) in plan.taps.iter().zip(replay.taps) {
            let Some(delta) = tapped.delta else {
                continue;
            };
            let delta = of_all(delta, tap.output_axis, tap.output_rank());
            if let Some(view) = tap.bias.as_ref().and_then(|bias| bias.view.as_ref()) {
                sum.add_rows(view, bias_gradients(tap, delta.clone(), all));
            }
            if let Some(view) = &tap.weight {
                let input = of_all(tapped.input, tap.input_axis, tap.input_rank());
                sum.add(view, weight_gradients(tap, input, delta, all));
            }
        }
        for (copied, gradient) in plan.copies.iter().zip(replay.copies) {
            if let Some(gradient) = gradient {
                let gradient = of_all(gradient, copied.axis, copied.rank);
                sum.add_rows(&copied.view, copy_gradients(gradient, copied.axis, all));
            }
        }
        (losses, sum)
    }

    fn finished(&self, losses: Tensor<1>, sum: GradientSum<'_>) -> ExampleLosses {
        let [count] = losses.dims();
        let gradients = ExampleGradients::new(count, sum.into_blocks(), &losses.device());
        ExampleLosses {
            losses,
            gradients: gradients.with_scratch(&self.scratch).in_rows_if_few(),
        }
    }
}

#[cfg(test)]
mod tests;
