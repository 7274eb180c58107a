//! The mean loss of a model and its gradients, vectorised over draws of the weights.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Once};

use crate::capture::record_examples;
use crate::compile::{CompiledRecording, HostInputs, Wanted, on_host, said};
use crate::layout::Layout;
use crate::lower::lowered;
use crate::plan::Plan;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{AutodiffBackend, Dispatch, DispatchTensor};
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::batch::{ExampleBatch, Inputs, examples_of, is_tracked};
use crate::capture::record;
use crate::cpu::HostValues;
use crate::draws::{checked, stacked_weights, vectorized_player};
use crate::dyn_tensor::{DynTensor, device_of};
use crate::error::{Kind, Result};
use crate::looped::Direct;
use crate::memo::{CAPACITY, Cached, Key, Memo};
use crate::parameters::{ModuleTensor, parameters_of};
use crate::replay::{Player, leaf};
use crate::self_check::check_mean;
use crate::stop_gradient::check_gradients;
use crate::template::Template;

/// The gradients of the mean loss at several draws of the weights.
#[derive(Debug)]
pub struct DrawGradients {
    /// The losses of the M examples at each of the S draws, `[S, M]`.
    pub losses: Tensor<2>,
    /// For each draw, the gradient in pieces, which one after the other are in layout order, `[D]`.
    pub pieces: Vec<Vec<Tensor<1>>>,
    /// The gradients of trained parameters outside the layout, averaged over draws, which share these
    /// parameters.
    pub outside: GradientsParams,
    /// For each draw, the statistics of the batch that layers of batch norm take into their running ones, in this order.
    /// Empty unless the loss was made [`with_batch_statistics`](CapturedLoss::with_batch_statistics).
    pub statistics: Vec<Vec<BatchStatistic>>,
}

/// The mean, or the biased variance, of the inputs of a layer of batch norm over a batch.
#[derive(Clone, Debug)]
pub struct BatchStatistic {
    /// The id of the running statistic.
    pub id: ParamId,
    /// A value for each channel.
    pub values: Tensor<1>,
}

/// The mean loss of a model over a batch, as a recorded graph that is vectorised over draws of the weights.
///
/// On the CPU the loss and its gradient are compiled, and draws are evaluated one after the other, large ones in
/// parallel. Elsewhere, and for a loss that cannot be compiled, one forward pass evaluates the loss at all draws, and one
/// backward pass gives the gradient at each. The loss is recorded in inference mode, at the first batch of each shape and
/// number of draws: dropout is off, and batch norm uses its running statistics, unless the loss is made
/// [`with_batch_statistics`](Self::with_batch_statistics).
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_graph::Layout;
/// use burn_bayes_graph::CapturedLoss;
///
/// let device = Device::default();
/// let model = LinearConfig::new(3, 1).init(&device);
/// let layout = Layout::new(&model, &ParamGroup::all())?;
/// let captured = CapturedLoss::new(layout.into(), |model: &Linear, (x, y): (Tensor<2>, Tensor<2>)| {
///     (model.forward(x) - y).square().sum_dim(1).squeeze_dim(1)
/// });
///
/// let batch = (Tensor::ones([5, 3], &device), Tensor::zeros([5, 1], &device));
/// let draws = Tensor::ones([2, 4], &device);
/// let gradients = captured.gradients(&model, draws, &batch)?.expect("the loss can be vectorised");
/// let second = Tensor::cat(gradients.pieces[1].clone(), 0);
/// assert_eq!(second.dims(), [4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CapturedLoss<M, B> {
    layout: Arc<Layout>,
    loss: Box<Loss<M, B>>,
    /// Compiled losses, for one draw at a time.
    programs: Memo<CompiledRecording>,
    /// Losses that cannot be compiled, for all draws.
    players: Memo<Player>,
    replica: Once,
    is_checked: bool,
    is_replayed: bool,
    has_batch_statistics: bool,
}

type Loss<M, B> = dyn Fn(&M, B) -> Tensor<1> + Send + Sync;

/// The losses of one batch as a function of the weights, compiled for the CPU; see [`CapturedLoss::compiled`].
pub struct CompiledBatch {
    layout: Arc<Layout>,
    program: Cached<CompiledRecording>,
    inputs: HostInputs,
}

impl fmt::Debug for CompiledBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledBatch")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl CompiledBatch {
    /// The number of multiplications in the products of an evaluation with its gradient.
    pub fn multiplications(&self) -> u64 {
        self.program.multiplications(self.inputs.examples())
    }

    /// The number of numbers that an evaluation with its gradient computes.
    pub fn numbers(&self) -> usize {
        self.program.numbers(self.inputs.examples())
    }

    /// The sum of the losses at these weights, added up in double precision; its gradient is written to `gradient`.
    ///
    /// # Panics
    ///
    /// If a length is not that of the layout.
    pub fn sum(&self, weights: &[f32], gradient: &mut [f32]) -> f64 {
        assert!(
            [weights.len(), gradient.len()] == [self.layout.len(); 2],
            "{} weights and {} of their gradient were given, the layout has {}",
            weights.len(),
            gradient.len(),
            self.layout.len()
        );
        let losses = self
            .program
            .sum(&self.layout, weights, &self.inputs, gradient);
        losses.iter().map(|&loss| f64::from(loss)).sum()
    }
}

impl<M, B> fmt::Debug for CapturedLoss<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedLoss")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<M: Module, B: ExampleBatch> CapturedLoss<M, B> {
    /// Takes the per-example loss, `[M]`, as a function of a model and a batch of M examples.
    pub fn new(
        layout: Arc<Layout>,
        loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            loss: Box::new(loss),
            programs: Memo::new(CAPACITY / 4 * 3),
            players: Memo::new(CAPACITY / 4),
            replica: Once::new(),
            is_checked: true,
            is_replayed: true,
            has_batch_statistics: false,
        }
    }

    /// Turns off the comparison of the recording with the loss itself, which is made at the first batches
    /// of every shape and occasionally later.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// Leaves a loss that cannot be compiled to the caller, instead of evaluating it at all draws in one pass, whose memory
    /// grows with their number.
    #[must_use]
    pub fn only_compiled(mut self) -> Self {
        self.is_replayed = false;
        self
    }

    /// Evaluates batch norm whose training flag is on in training mode: with the statistics of the batch, which
    /// [`DrawGradients::statistics`] returns. The running statistics of the model stay as they are.
    ///
    /// Such a model is evaluated only by a compiled loss, for batches on a device with autodiff, where Burn's layers are in
    /// training mode. Its losses depend on the other examples of their batch.
    #[must_use]
    pub fn with_batch_statistics(mut self) -> Self {
        self.has_batch_statistics = true;
        self
    }

    #[cfg(test)]
    pub(crate) fn with_capacity(mut self, bytes: usize) -> Self {
        self.programs = Memo::new(bytes / 4 * 3);
        self.players = Memo::new(bytes / 4);
        self
    }

    /// The gradients at every draw, for `draws` of shape `[S, D]`. `None` if the draws need separate passes.
    ///
    /// This is the case for a loss that cannot be recorded, for an operation that can neither be compiled nor be
    /// vectorised, and for replicas that average their gradients; each reason is logged once. A batch of one example is
    /// not recorded, and a single draw is evaluated only by a compiled loss.
    ///
    /// # Errors
    ///
    /// If the length of the draws is not that of the layout, if the batch is empty or its tensors have
    /// different numbers of examples, or if the model does not fit the layout.
    pub fn gradients(
        &self,
        model: &M,
        draws: Tensor<2>,
        batch: &B,
    ) -> Result<Option<DrawGradients>> {
        self.gradients_of(&Template::new(model, &self.layout), draws, batch)
    }

    /// The same for a model that does not change between calls.
    ///
    /// # Errors
    ///
    /// Those of [`gradients`](Self::gradients).
    pub fn gradients_of(
        &self,
        template: &Template<'_, M>,
        draws: Tensor<2>,
        batch: &B,
    ) -> Result<Option<DrawGradients>> {
        let [count, _] = checked(&self.layout, &draws)?;
        let examples = examples_of(batch)?;
        let (model, tensors) = (template.model(), template.tensors());
        if tensors.iter().any(|tensor| tensor.is_distributed) {
            self.replica.call_once(|| {
                warn_about_loop("replicas average the gradients of each pass");
            });
            return Ok(None);
        }
        let key = self.key(template, batch, count);
        let is_training = self.is_training(tensors);
        if is_training && !is_tracked(batch) {
            return Ok(None);
        }
        if let Some(program) = self.program(model, batch, tensors, &key, examples)? {
            // A batch with an integer that is too large for a program is replayed.
            if let Some(inputs) = program.inputs(tensors, Inputs::of(batch), examples) {
                let gradients = self.by_program(&program, template, &draws, &inputs)?;
                self.compare(&program, &key, model, &draws, batch, &gradients)?;
                return Ok(Some(gradients));
            }
        }
        if count == 1 || !self.is_replayed || is_training {
            return Ok(None);
        }
        let Some(player) = self.player(model, batch, tensors, &key, examples)? else {
            return Ok(None);
        };
        let mut tensors = tensors.to_vec();
        let leaves = Leaves::insert(&mut tensors, stacked_weights(&self.layout, &draws));
        let losses = player.outputs(tensors, Inputs::of(batch));
        let sum = Dispatch::float_sum(losses.clone());
        let mean = Dispatch::float_mul_scalar(sum, (1.0 / examples as f64).into());
        let mut gradients = Dispatch::backward(mean);
        let mut gradient =
            |leaf: &DispatchTensor| Dispatch::grad_remove(leaf, &mut gradients).map(DynTensor::new);
        let weights: Vec<_> = leaves.weights.iter().map(&mut gradient).collect();
        let outside = leaves.outside.iter();
        let outside = outside.filter_map(|(&id, leaf)| Some((id, gradient(leaf)?)));
        let losses = DynTensor::new(Dispatch::inner(losses));
        let gradients = DrawGradients {
            losses: losses.reshape(&[count, examples]).typed(),
            pieces: self.pieces(weights, &draws),
            outside: registered(model, outside.collect(), 1.0 / count as f64),
            statistics: Vec::new(),
        };
        self.compare(&player, &key, model, &draws, batch, &gradients)?;
        Ok(Some(gradients))
    }

    /// The losses of a batch as a function of the weights on plain numbers, for a model that does not change besides.
    /// `None` if they cannot be compiled; the reason is logged once. They are compared with the loss itself once, at the
    /// model's own weights.
    ///
    /// # Errors
    ///
    /// Those of [`gradients`](Self::gradients).
    pub fn compiled(&self, template: &Template<'_, M>, batch: &B) -> Result<Option<CompiledBatch>> {
        let examples = examples_of(batch)?;
        let (model, tensors) = (template.model(), template.tensors());
        let key = self.key(template, batch, 1);
        if self.is_training(tensors) && !is_tracked(batch) {
            return Ok(None);
        }
        let Some(program) = self.program(model, batch, tensors, &key, examples)? else {
            return Ok(None);
        };
        let Some(inputs) = program.inputs(tensors, Inputs::of(batch), examples) else {
            return Ok(None);
        };
        let draw = self.layout.flatten(model)?.unsqueeze();
        let found = self.by_program(&program, template, &draw, &inputs)?;
        self.compare(&program, &key, model, &draw, batch, &found)?;
        Ok(Some(CompiledBatch {
            layout: self.layout.clone(),
            program,
            inputs,
        }))
    }

    /// The losses of a batch at these weights, `[D]`, and the gradient of their sum in pieces, by ordinary autodiff.
    ///
    /// # Errors
    ///
    /// If the weights or the model do not fit the layout.
    pub fn direct(
        &self,
        model: &M,
        weights: Tensor<1>,
        batch: &B,
    ) -> Result<(Tensor<1>, Vec<Tensor<1>>)> {
        let direct = Direct::new(&*self.loss, model, weights, batch, &self.layout)?;
        let found = direct.tracked()?.whole()?;
        Ok((found.losses, found.pieces))
    }

    /// What a recording for this batch depends on.
    fn key(&self, template: &Template<'_, M>, batch: &B, count: usize) -> Key {
        template.key(batch, count).with_mode(template.roles())
    }

    /// Whether a layer of batch norm is evaluated in training mode.
    fn is_training(&self, tensors: &[ModuleTensor]) -> bool {
        self.has_batch_statistics && tensors.iter().any(|tensor| tensor.statistic.is_some())
    }

    /// Compares the gradients with those of the loss itself, at some of the calls.
    fn compare<V>(
        &self,
        cached: &Cached<V>,
        key: &Key,
        model: &M,
        draws: &Tensor<2>,
        batch: &B,
        found: &DrawGradients,
    ) -> Result<()> {
        if !self.is_checked {
            return Ok(());
        }
        let count = key.draws();
        cached.count_use(key, |of| {
            // A different draw at each comparison.
            let draw = of.time as usize % count;
            let weights = draws.clone().narrow(0, draw, 1).squeeze_dim(0);
            let (loss, layout) = (&*self.loss, &self.layout);
            let direct = match found.statistics.is_empty() {
                true => Direct::new(loss, model, weights, batch, layout)?,
                false => Direct::in_training(loss, model, weights, batch, layout)?,
            };
            let losses = found.losses.clone().narrow(0, draw, 1).squeeze_dim(0);
            check_mean(&direct, &self.layout, losses, &found.pieces[draw], of)
        })
    }

    fn program(
        &self,
        model: &M,
        batch: &B,
        tensors: &[ModuleTensor],
        key: &Key,
        examples: usize,
    ) -> Result<Option<Cached<CompiledRecording>>> {
        self.programs.get(&key.with_draws(1), || {
            self.layout.check(model)?;
            if examples == 1 || !on_host(tensors) {
                return Ok(None);
            }
            let loss = |model: &M, batch| (self.loss)(model, batch);
            let recorded = record_examples(model, &self.layout, batch, examples, &loss);
            let program = recorded.and_then(|recording| {
                check_gradients(model, &self.layout, batch, &loss, &recording)?;
                let recording = match self.is_training(tensors) {
                    // A normalisation by the statistics of the batch has its own gradient.
                    true => recording,
                    false => lowered(recording, &parameters_of(tensors)),
                };
                let plan = Plan::untapped(recording)?;
                let inputs = Inputs::of(batch);
                let wanted = match self.has_batch_statistics {
                    true => Wanted::TrainingGradients,
                    false => Wanted::MeanGradients,
                };
                CompiledRecording::new(&plan, tensors, &inputs, examples, wanted)
            });
            Ok(said(program))
        })
    }

    /// The gradients at every draw, one after the other.
    fn by_program(
        &self,
        program: &CompiledRecording,
        template: &Template<'_, M>,
        draws: &Tensor<2>,
        inputs: &HostInputs,
    ) -> Result<DrawGradients> {
        let [count, _] = draws.dims();
        let device = device_of([&draws.clone().into_dispatch()].into_iter());
        let weights = HostValues::of(draws.clone().without_autodiff().into_dispatch());
        let weights = weights.ok_or_else(|| {
            let (dtype, device) = (draws.dtype(), draws.device());
            Kind::Batch(format!(
                "the draws are {dtype:?} on {device:?}; give them as f32 on the device of the model"
            ))
        })?;
        let all = program.at_draws(&self.layout, weights.values(), inputs);
        let tensor = |values| DynTensor::from_host(values, &device);
        let tensors = template.tensors();
        let losses: Vec<f32> = match all.as_slice() {
            [at] => at.result.clone(),
            all => all.iter().flat_map(|at| &at.result).copied().collect(),
        };
        let examples = losses.len() / count;
        let mut outside: Vec<(usize, Vec<f32>)> = Vec::new();
        let mut pieces = Vec::with_capacity(count);
        let mut statistics = Vec::new();
        for at in all {
            pieces.push(vec![tensor(at.weights).typed()]);
            if !at.statistics.is_empty() {
                let of_draw = at.statistics.into_iter().map(|(number, values)| {
                    let id = tensors[number].statistic;
                    BatchStatistic {
                        id: id.expect("the roles of tensors are in the key"),
                        values: tensor(values).typed(),
                    }
                });
                statistics.push(of_draw.collect());
            }
            if outside.is_empty() {
                outside = at.outside;
                continue;
            }
            // Every draw has the same ones.
            for ((_, sum), (_, values)) in outside.iter_mut().zip(at.outside) {
                for (sum, value) in sum.iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
        let outside = outside
            .into_iter()
            .filter_map(|(number, sum)| Some((tensors[number].outside?, tensor(sum))));
        Ok(DrawGradients {
            losses: tensor(losses).reshape(&[count, examples]).typed(),
            pieces,
            outside: registered(template.model(), outside.collect(), 1.0 / count as f64),
            statistics,
        })
    }

    fn player(
        &self,
        model: &M,
        batch: &B,
        tensors: &[ModuleTensor],
        key: &Key,
        examples: usize,
    ) -> Result<Option<Cached<Player>>> {
        self.players.get(key, || {
            self.layout.check(model)?;
            if examples == 1 {
                return Ok(None);
            }
            let loss = |model: &M, batch| (self.loss)(model, batch);
            let player = record(model, &self.layout, batch, &loss).and_then(|recording| {
                check_gradients(model, &self.layout, batch, &loss, &recording)?;
                vectorized_player(recording, tensors, key.draws())
            });
            Ok(player.map_err(|reason| warn_about_loop(&reason)).ok())
        })
    }

    /// Splits gradients `[S, …]` of every parameter by draw.
    fn pieces(&self, weights: Vec<Option<DynTensor>>, draws: &Tensor<2>) -> Vec<Vec<Tensor<1>>> {
        let [count, _] = draws.dims();
        let mut pieces = vec![Vec::with_capacity(weights.len()); count];
        for (gradient, entry) in weights.into_iter().zip(self.layout.entries()) {
            let len = entry.len();
            let rows: Tensor<2> = match gradient {
                Some(gradient) => gradient.reshape(&[count, len]).typed(),
                None => Tensor::zeros([count, len], (&draws.device().inner(), draws.dtype())),
            };
            for (draw, pieces) in pieces.iter_mut().enumerate() {
                pieces.push(rows.clone().narrow(0, draw, 1).reshape([len]));
            }
        }
        pieces
    }
}

fn warn_about_loop(reason: &str) {
    log::warn!("the gradients are evaluated one draw at a time: {reason}");
}

/// The tensors that a backward pass gives gradients of.
struct Leaves {
    /// The layout's parameters at all draws, in layout order.
    weights: Vec<DispatchTensor>,
    outside: HashMap<ParamId, DispatchTensor>,
}

impl Leaves {
    /// Replaces the module's trained tensors by leaves. A tied parameter gets one leaf for all its paths.
    /// `weights` are those of the layout.
    fn insert(tensors: &mut [ModuleTensor], weights: Vec<DynTensor>) -> Self {
        let weights = weights.into_iter().map(DynTensor::into_dispatch).map(leaf);
        let mut leaves = Self {
            weights: weights.collect(),
            outside: HashMap::new(),
        };
        for tensor in tensors {
            if let Some(parameter) = tensor.parameter {
                tensor.value = leaves.weights[parameter].clone();
            } else if let Some(id) = tensor.outside {
                tensor.value = match leaves.outside.entry(id) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(new) => new.insert(leaf(tensor.value.clone())).clone(),
                };
            }
        }
        leaves
    }
}

/// Gradients by the ids of the model's parameters, multiplied by `share`.
fn registered<M: Module>(
    model: &M,
    gradients: HashMap<ParamId, DynTensor>,
    share: f64,
) -> GradientsParams {
    struct Register {
        gradients: HashMap<ParamId, DynTensor>,
        share: f64,
        registered: GradientsParams,
    }
    impl ModuleVisitor for Register {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            if let Some(gradient) = self.gradients.remove(&param.id) {
                let gradient = gradient.reshape(&param.shape().to_vec()).typed::<R>() * self.share;
                self.registered.register(param.id, gradient);
            }
        }
    }
    let mut register = Register {
        gradients,
        share,
        registered: GradientsParams::new(),
    };
    if !register.gradients.is_empty() {
        model.visit(&mut register);
    }
    register.registered
}
