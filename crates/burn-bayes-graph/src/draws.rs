//! The outputs of a model, vectorised over draws of its weights.

use std::fmt;
use std::sync::Arc;

use crate::layout::Layout;
use burn::module::Module;
use burn::tensor::{Tensor, TensorData, kind};

use crate::batch::{ExampleBatch, Inputs, TensorMapper, examples_of};
use crate::capture::{Recording, record_examples};
use crate::compare::values;
use crate::compile::{on_host, said};
use crate::compiled_forward::CompiledForward;
use crate::cpu::HostValues;
use crate::dyn_tensor::DynTensor;
use crate::error::{Kind, Result};
use crate::fields::fields_of;
use crate::lower::lowered;
use crate::memo::{CAPACITY, Cached, Key, Memo};
use crate::memory_use::{MemoryUse, data_bytes, vec_bytes};
use crate::operation::Operation;
use crate::parameters::{ModuleTensor, module_tensors, parameters_of};
use crate::plan::Plan;
use crate::replay::Player;
use crate::self_check::check_values;
use crate::vectorize::vectorize_draws;

/// The forward pass of a model, recorded and vectorised over draws of the weights.
///
/// Values that do not depend on the weights are computed once for all draws. On the CPU the recording is compiled, and draws
/// are evaluated one after the other. Elsewhere, and for a recording that cannot be compiled, one pass takes as many draws as
/// fit into a processor's cache. A network for which two draws do not fit is evaluated one draw at a time,
/// which is then faster. A model with an operation that cannot be vectorised is evaluated one draw at a time
/// too, and the operation's name is logged once. The forward pass is recorded in inference mode.
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_graph::Layout;
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
    recordings: Memo<Recorded>,
    /// Compiled forward passes, for one draw at a time.
    programs: Memo<CompiledForward>,
    /// Forward passes that cannot be compiled, for several draws.
    players: Memo<Player>,
    is_checked: bool,
}

/// The number of elements, of weights and intermediate results, in one pass.
pub(crate) const PASS: usize = 1 << 19;

/// The recording of one forward pass.
struct Recorded {
    recording: Recording,
    /// The number of elements of the weights and of the results of all operations.
    numbers: usize,
}

impl MemoryUse for Recorded {
    fn bytes(&self) -> usize {
        let Recording {
            operations,
            module_tensors,
            inputs,
            constants,
            losses: _,
            slots: _,
            example_constants: _,
        } = &self.recording;
        let owned = operations.iter().map(Operation::owned_bytes);
        let values = constants.iter().map(|(_, value)| data_bytes(value));
        size_of::<Self>()
            + vec_bytes(operations)
            + owned.sum::<usize>()
            + vec_bytes(module_tensors)
            + vec_bytes(inputs)
            + vec_bytes(constants)
            + values.sum::<usize>()
    }
}

type Forward<M, B> = dyn Fn(&M, B) -> Tensor<2> + Send + Sync;

impl<M, B> fmt::Debug for CapturedForward<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedForward")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<M: Module, B: ExampleBatch> CapturedForward<M, B> {
    /// Takes the model's output on a batch, `[M, width]`.
    pub fn new(
        layout: Arc<Layout>,
        forward: impl Fn(&M, B) -> Tensor<2> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            forward: Arc::new(forward),
            recordings: Memo::new(CAPACITY / 4),
            programs: Memo::new(CAPACITY / 4),
            players: Memo::new(CAPACITY / 2),
            is_checked: true,
        }
    }

    /// The layout of the draws.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    #[cfg(test)]
    pub(crate) fn with_capacity(mut self, bytes: usize) -> Self {
        self.recordings = Memo::new(bytes / 4);
        self.programs = Memo::new(bytes / 4);
        self.players = Memo::new(bytes / 2);
        self
    }

    /// Turns off the comparison of the recording with the model itself, which is made at the first batches
    /// of every shape and occasionally later.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// The output at every draw, `[S, M, width]`, for `draws` of shape `[S, D]`.
    ///
    /// # Errors
    ///
    /// If the length of the draws is not that of the layout, or if the model does not fit the layout.
    pub fn outputs(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, _] = checked(&self.layout, &draws)?;
        let key = Key::new(fields_of(model), batch, count);
        if let Some(outputs) = self.compiled(model, &draws, batch, &key)? {
            return Ok(outputs);
        }
        let at_a_time = self.draws_per_pass(model, batch, &key)?.min(count);
        if at_a_time == 1 {
            return self.looped(model, draws, batch);
        }
        let passes = (0..count).step_by(at_a_time).map(|first| {
            let some = at_a_time.min(count - first);
            let some_draws = draws.clone().narrow(0, first, some);
            self.pass(model, some_draws, batch, &key.with_draws(some))
        });
        Ok(Tensor::cat(passes.collect::<Result<_>>()?, 0))
    }

    /// Whether [`outputs`](Self::outputs) is faster than a loop over draws for such a batch: if the model can be compiled,
    /// or one pass takes several draws.
    pub fn is_faster(&self, model: &M, batch: &B) -> Result<bool> {
        let fields = fields_of(model);
        let twice = Twice::of(batch)?;
        let rows = twice.as_ref().unwrap_or(batch);
        let is_compiled = self.program(model, rows, &Key::new(fields, rows, 1))?;
        let key = Key::new(fields, batch, 1);
        Ok(is_compiled.is_some() || self.draws_per_pass(model, batch, &key)? > 1)
    }

    /// The output at every draw in one pass, whatever its size.
    pub fn in_one_pass(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, _] = checked(&self.layout, &draws)?;
        self.pass(
            model,
            draws,
            batch,
            &Key::new(fields_of(model), batch, count),
        )
    }

    /// The output at every draw by a program. `None` if there is none, or for a batch that it cannot read.
    fn compiled(
        &self,
        model: &M,
        draws: &Tensor<2>,
        batch: &B,
        key: &Key,
    ) -> Result<Option<Tensor<3>>> {
        if let Some(twice) = Twice::of(batch)? {
            let key = Key::new(fields_of(model), &twice, key.draws());
            let outputs = self.compiled(model, draws, &twice, &key)?;
            return Ok(outputs.map(|outputs| outputs.narrow(1, 0, 1)));
        }
        let Some(program) = self.program(model, batch, key)? else {
            return Ok(None);
        };
        let examples = examples_of(batch)?;
        let Some(values) = HostValues::of(draws.clone().without_autodiff().into_dispatch()) else {
            return Ok(None);
        };
        let tensors = module_tensors(model, &self.layout);
        let results = program.results(
            (&self.layout, values.values()),
            &tensors,
            Inputs::of(batch),
            examples,
        );
        let Some(results) = results else {
            return Ok(None);
        };
        let shape = [
            key.draws(),
            examples,
            results.len() / key.draws() / examples,
        ];
        let results = TensorData::new(results, shape);
        let outputs = Tensor::from_data(results, &draws.device().inner());
        self.compare(&program, key, model, draws, batch, &outputs)?;
        Ok(Some(outputs))
    }

    fn program(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Cached<CompiledForward>>> {
        self.programs.get(&key.with_draws(1), || {
            let tensors = module_tensors(model, &self.layout);
            let examples = examples_of(batch)?;
            if !on_host(&tensors) {
                return Ok(None);
            }
            let Some(recorded) = self.recorded(model, batch, &key.with_draws(1))? else {
                return Ok(None);
            };
            let (recording, inputs) = (recorded.recording.clone(), Inputs::of(batch));
            let program = CompiledForward::new(recording, &tensors, &inputs, examples);
            Ok(said(program))
        })
    }

    /// Compares the outputs with those of the model itself, at some of the calls.
    fn compare<V>(
        &self,
        cached: &Cached<V>,
        key: &Key,
        model: &M,
        draws: &Tensor<2>,
        batch: &B,
        outputs: &Tensor<3>,
    ) -> Result<()> {
        if !self.is_checked {
            return Ok(());
        }
        cached.count_use(key, |of| {
            // A different draw at each comparison.
            let draw = of.time as usize % key.draws();
            let alone = self.looped(model, draws.clone().narrow(0, draw, 1), batch)?;
            let found = outputs.clone().narrow(0, draw, 1);
            check_values("the output", &values(&found), &values(&alone), of.largest)
        })
    }

    fn draws_per_pass(&self, model: &M, batch: &B, key: &Key) -> Result<usize> {
        if self.player(model, batch, &key.with_draws(2))?.is_none() {
            return Ok(1);
        }
        let recorded = self.recorded(model, batch, &key.with_draws(1))?;
        Ok(recorded.map_or(1, |recorded| (PASS / recorded.numbers.max(1)).max(1)))
    }

    /// One pass over the draws, as many as `key` has.
    fn pass(&self, model: &M, draws: Tensor<2>, batch: &B, key: &Key) -> Result<Tensor<3>> {
        let Some(player) = self.player(model, batch, key)? else {
            return self.looped(model, draws, batch);
        };
        let mut tensors = module_tensors(model, &self.layout);
        insert(&mut tensors, &self.layout, &draws);
        let outputs = player.outputs(tensors, Inputs::of(batch));
        let outputs: Tensor<3> = DynTensor::new(outputs).typed();
        self.compare(&player, key, model, &draws, batch, &outputs)?;
        Ok(outputs)
    }

    /// The output at every draw, one draw at a time.
    pub fn looped(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, len] = checked(&self.layout, &draws)?;
        let model = model.valid();
        let outputs = (0..count).map(|draw| {
            let weights = draws.clone().narrow(0, draw, 1).reshape([len]);
            let model = self.layout.write(model.clone(), weights)?;
            Ok((self.forward)(&model, batch.clone()).without_autodiff())
        });
        Ok(Tensor::stack(outputs.collect::<Result<_>>()?, 0))
    }

    /// Whether the model cannot be recorded and vectorised, and is evaluated one draw at a time.
    pub fn is_looped(&self, model: &M, batch: &B) -> Result<bool> {
        let key = Key::new(fields_of(model), batch, 2);
        Ok(self.player(model, batch, &key)?.is_none())
    }

    fn recorded(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Cached<Recorded>>> {
        self.recordings.get(key, || {
            self.layout.check(model)?;
            let forward = |model: &M, batch| (self.forward)(model, batch);
            let examples = examples_of(batch)?;
            let recorded = record_examples(model, &self.layout, batch, examples, &forward);
            Ok(match recorded {
                Ok(recording) => {
                    let results = recording.operations.iter().flat_map(|op| &op.outputs);
                    let results = results.map(|out| out.shape.num_elements());
                    let numbers = self.layout.len() + results.sum::<usize>();
                    Some(Recorded { recording, numbers })
                }
                Err(reason) => warn_about_loop(&reason),
            })
        })
    }

    fn player(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Cached<Player>>> {
        self.players.get(key, || {
            let Some(recorded) = self.recorded(model, batch, &key.with_draws(1))? else {
                return Ok(None);
            };
            let tensors = module_tensors(model, &self.layout);
            let player = vectorized_player(recorded.recording.clone(), &tensors, key.draws());
            Ok(player.map_or_else(|reason| warn_about_loop(&reason), Some))
        })
    }
}

/// Repeats the only row of a batch: a recording of two rows shows which axes are those of rows.
struct Twice;

impl Twice {
    fn of<B: ExampleBatch>(batch: &B) -> Result<Option<B>> {
        let is_single = examples_of(batch)? == 1;
        Ok(is_single.then(|| batch.clone().map_tensors(&mut Self)))
    }
}

impl TensorMapper for Twice {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        Tensor::cat(vec![tensor.clone(), tensor], 0)
    }
}

/// The shape of the draws, `[S, D]`. Fails if it does not fit the layout.
pub(crate) fn checked(layout: &Layout, draws: &Tensor<2>) -> Result<[usize; 2]> {
    let [count, len] = draws.dims();
    if count == 0 || len != layout.len() {
        let expected = layout.len();
        return Err(Kind::Batch(format!(
            "the draws have shape [{count}, {len}]; expected [S, {expected}] with at least one draw"
        ))
        .into());
    }
    Ok([count, len])
}

/// Every parameter of the layout at all draws: its shape with a leading axis of draws.
pub(crate) fn stacked_weights(layout: &Layout, draws: &Tensor<2>) -> Vec<DynTensor> {
    let draws = draws.clone().without_autodiff();
    let count = draws.dims()[0];
    let stacked = layout.entries().iter().map(|entry| {
        let values = draws.clone().narrow(1, entry.offset, entry.len());
        let shape = [&[count], &entry.shape[..]].concat();
        DynTensor::new(values.into_dispatch()).reshape(&shape)
    });
    stacked.collect()
}

/// Replaces the layout's parameters by their draws.
pub(crate) fn insert(tensors: &mut [ModuleTensor], layout: &Layout, draws: &Tensor<2>) {
    let weights = stacked_weights(layout, draws);
    for tensor in tensors {
        if let Some(parameter) = tensor.parameter {
            tensor.value = weights[parameter].clone().into_dispatch();
        }
    }
}

/// Replays a recording vectorised over draws. Fails with the name of an operation that cannot be.
pub(crate) fn vectorized_player(
    recording: Recording,
    tensors: &[ModuleTensor],
    draws: usize,
) -> Result<Player, String> {
    let parameters = parameters_of(tensors);
    let recording = lowered(recording, &parameters);
    let plan = vectorize_draws(recording, &parameters, draws).and_then(Plan::untapped)?;
    Ok(Player::new(plan))
}

fn warn_about_loop<T>(reason: &str) -> Option<T> {
    log::warn!("the model is evaluated one draw at a time: {reason}");
    None
}
