//! A model evaluated at many draws of its weights in one pass.

use std::fmt;
use std::sync::Arc;

use burn::backend::ir::OperationIr;
use burn::module::Module;
use burn::tensor::Tensor;

use crate::batch::{ExampleBatch, Inputs};
use crate::capture::{Recording, record};
use crate::error::{Kind, Result};
use crate::layout::Layout;
use crate::lift::lifted;
use crate::lower::lowered;
use crate::memo::{Key, Memo, Weighed};
use crate::parameters::{Held, held, parameters_of};
use crate::plan::Plan;
use crate::replay::Player;
use crate::self_check::check_outputs;
use crate::untyped::Untyped;

/// A model's forward pass, recorded, and replayed for many draws of the weights at once.
///
/// What does not depend on the weights is computed once for all draws, and the draws share every
/// other operation. As many draws go into one pass as fit a processor's cache; a network so large
/// that two do not is evaluated one draw at a time, which is then the faster way. So is a model with
/// an operation that cannot carry draws along, and that is logged once with the operation's name.
/// The pass is that of inference.
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
    players: Memo<Player>,
    is_checked: bool,
}

/// Numbers of one pass: weights and what is computed with them.
pub(crate) const PASS: usize = 1 << 19;

/// A forward pass without draws.
struct Recorded {
    recording: Recording,
    /// The weights, and the results of all operations.
    numbers: usize,
}

impl Weighed for Recorded {
    fn bytes(&self) -> usize {
        let constants = self.recording.constants.iter();
        let constants: usize = constants.map(|(_, value)| value.as_bytes().len()).sum();
        self.recording.operations.len() * size_of::<OperationIr>() + constants
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
    /// The model's output on a batch, `[M, width]`.
    pub fn new(
        layout: Arc<Layout>,
        forward: impl Fn(&M, B) -> Tensor<2> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            forward: Arc::new(forward),
            recordings: Memo::default(),
            players: Memo::default(),
            is_checked: true,
        }
    }

    /// Does not compare the recording with the model itself at the first batches of every shape and now and
    /// then later.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// The output at every draw: `draws` is `[S, D]`, the result `[S, M, width]`.
    ///
    /// # Errors
    ///
    /// Draws whose length is not the layout's; a model that does not fit the layout.
    pub fn outputs(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, _] = checked(&self.layout, &draws)?;
        let key = Key::new(model, batch, count);
        let at_a_time = self.that_fit(model, batch, &key)?.min(count);
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

    /// How many draws of such a batch go into one pass: at least one.
    ///
    /// It is one if the model is evaluated one draw at a time for another reason.
    pub fn draws_that_fit(&self, model: &M, batch: &B) -> Result<usize> {
        self.that_fit(model, batch, &Key::new(model, batch, 1))
    }

    /// The same in one pass, whatever its size.
    pub fn in_one_pass(&self, model: &M, draws: Tensor<2>, batch: &B) -> Result<Tensor<3>> {
        let [count, _] = checked(&self.layout, &draws)?;
        self.pass(model, draws, batch, &Key::new(model, batch, count))
    }

    fn that_fit(&self, model: &M, batch: &B, key: &Key) -> Result<usize> {
        if self.player(model, batch, &key.with_draws(2))?.is_none() {
            return Ok(1);
        }
        let recorded = self.recorded(model, batch, &key.with_draws(1))?;
        Ok(recorded.map_or(1, |recorded| (PASS / recorded.numbers.max(1)).max(1)))
    }

    /// One pass of as many draws as `key` says.
    fn pass(&self, model: &M, draws: Tensor<2>, batch: &B, key: &Key) -> Result<Tensor<3>> {
        let Some(player) = self.player(model, batch, key)? else {
            return self.looped(model, draws, batch);
        };
        let mut tensors = held(model, &self.layout);
        put_in(&mut tensors, &self.layout, &draws);
        let outputs = player.losses(tensors, Inputs::of(batch));
        let outputs: Tensor<3> = Untyped::new(outputs).typed();
        if self.is_checked {
            self.players.count(key, |time, _| {
                // Another draw each time.
                let draw = time as usize % key.draws();
                let alone = self.looped(model, draws.clone().narrow(0, draw, 1), batch)?;
                let found = outputs.clone().narrow(0, draw, 1);
                check_outputs(found.squeeze_dim(0), alone.squeeze_dim(0))
            })?;
        }
        Ok(outputs)
    }

    /// The same, one draw at a time.
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

    /// Whether the model has an operation that cannot carry draws along.
    pub fn is_looped(&self, model: &M, batch: &B) -> Result<bool> {
        let key = Key::new(model, batch, 2);
        Ok(self.player(model, batch, &key)?.is_none())
    }

    fn recorded(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Arc<Recorded>>> {
        self.recordings.get(key, || {
            self.layout.check(model)?;
            let forward = |model: &M, batch| (self.forward)(model, batch);
            Ok(match record(model, &self.layout, batch, &forward) {
                Ok(recording) => {
                    let results = recording.operations.iter().flat_map(OperationIr::outputs);
                    let results = results.map(|out| out.shape.num_elements());
                    let numbers = self.layout.len() + results.sum::<usize>();
                    Some(Recorded { recording, numbers })
                }
                Err(reason) => one_by_one(&reason),
            })
        })
    }

    fn player(&self, model: &M, batch: &B, key: &Key) -> Result<Option<Arc<Player>>> {
        self.players.get(key, || {
            let Some(recorded) = self.recorded(model, batch, &key.with_draws(1))? else {
                return Ok(None);
            };
            let tensors = held(model, &self.layout);
            let player = lifted_player(recorded.recording.clone(), &tensors, key.draws());
            Ok(player.map_or_else(|reason| one_by_one(&reason), Some))
        })
    }
}

/// The number of draws, and of the weights of each.
pub(crate) fn checked(layout: &Layout, draws: &Tensor<2>) -> Result<[usize; 2]> {
    let [count, len] = draws.dims();
    if count == 0 || len != layout.len() {
        let expected = layout.len();
        return Err(Kind::Draws(format!(
            "the draws are [{count}, {len}], expected at least one draw of {expected} weights"
        ))
        .into());
    }
    Ok([count, len])
}

/// Every parameter of the layout at all draws: its shape, with an axis of draws before the others.
pub(crate) fn stacked_weights(layout: &Layout, draws: &Tensor<2>) -> Vec<Untyped> {
    let draws = draws.clone().without_autodiff();
    let count = draws.dims()[0];
    let stacked = layout.entries().iter().map(|entry| {
        let values = draws.clone().narrow(1, entry.offset, entry.len());
        let shape = [&[count], &entry.shape[..]].concat();
        Untyped::new(values.into_dispatch()).reshape(&shape)
    });
    stacked.collect()
}

/// Puts all draws in the place of the layout's parameters.
pub(crate) fn put_in(tensors: &mut [Held], layout: &Layout, draws: &Tensor<2>) {
    let weights = stacked_weights(layout, draws);
    for held in tensors {
        if let Some(parameter) = held.parameter {
            held.value = weights[parameter].clone().into_dispatch();
        }
    }
}

/// What replays a recording at many draws; the name of an operation that cannot carry them.
pub(crate) fn lifted_player(
    recording: Recording,
    tensors: &[Held],
    draws: usize,
) -> Result<Player, String> {
    let parameters = parameters_of(tensors);
    let recording = lowered(recording, &parameters);
    let plan = lifted(recording, &parameters, draws).and_then(Plan::untapped)?;
    Ok(Player::new(plan))
}

fn one_by_one<T>(reason: &str) -> Option<T> {
    log::warn!("the model is evaluated one draw at a time: {reason}");
    None
}
