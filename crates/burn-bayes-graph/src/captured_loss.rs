//! A model's mean loss, recorded, with its gradient at many draws of the weights.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Once};

use burn::backend::ops::FloatTensorOps;
use burn::backend::{AutodiffBackend, Dispatch, DispatchTensor};
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::batch::{ExampleBatch, Inputs, examples_of};
use crate::capture::record;
use crate::draws::{checked, lifted_player, stacked_weights};
use crate::error::Result;
use crate::layout::Layout;
use crate::looped::Direct;
use crate::memo::{Key, Memo};
use crate::parameters::{Held, held};
use crate::replay::{Player, leaf};
use crate::self_check::check_mean;
use crate::stopped::check_gradients;
use crate::untyped::Untyped;

/// The gradients of the mean loss at several draws of the weights.
#[derive(Debug)]
pub struct DrawGradients {
    /// The losses of the M examples at each of the S draws, `[S, M]`.
    pub losses: Tensor<2>,
    /// At each draw, one flat piece per parameter of the layout.
    pub pieces: Vec<Vec<Tensor<1>>>,
    /// Those of the trained parameters outside the layout, which all draws share: the average over
    /// draws, under the parameters' ids.
    pub outside: GradientsParams,
}

/// The mean of a model's losses over a batch, as a recorded graph whose weights carry many draws.
///
/// One forward pass evaluates the loss at all draws, and one backward pass gives the gradient at
/// each. The loss is recorded at the first batch of each shape and number of draws, in inference mode:
/// dropout is off, and batch norm uses its running statistics.
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
/// let gradients = captured.gradients(&model, draws, &batch)?.expect("the loss carries draws");
/// assert_eq!(gradients.pieces[1][0].dims(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CapturedLoss<M, B> {
    layout: Arc<Layout>,
    loss: Box<Loss<M, B>>,
    players: Memo<Player>,
    replica: Once,
    is_checked: bool,
}

type Loss<M, B> = dyn Fn(&M, B) -> Tensor<1> + Send + Sync;

impl<M, B> fmt::Debug for CapturedLoss<M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedLoss")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl<M: Module, B: ExampleBatch> CapturedLoss<M, B> {
    /// The loss of each example, `[M]`, as a function of a model and a batch of M.
    pub fn new(
        layout: Arc<Layout>,
        loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
    ) -> Self {
        Self {
            layout,
            loss: Box::new(loss),
            players: Memo::default(),
            replica: Once::new(),
            is_checked: true,
        }
    }

    /// Does not compare the recording with the loss itself at the first batches of every shape and now and
    /// then later.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.is_checked = false;
        self
    }

    /// The gradients at every draw, `draws` being `[S, D]`; `None` where only a pass for each draw has
    /// them.
    ///
    /// That is so for a loss that cannot be recorded or has an operation that cannot carry draws, and
    /// for a replica that averages its gradients with others: each is logged once. A batch of one
    /// example is not recorded either.
    ///
    /// # Errors
    ///
    /// Draws whose length is not the layout's; a batch without examples, or whose tensors disagree
    /// about their number; a model that does not fit the layout.
    pub fn gradients(
        &self,
        model: &M,
        draws: Tensor<2>,
        batch: &B,
    ) -> Result<Option<DrawGradients>> {
        let [count, _] = checked(&self.layout, &draws)?;
        let examples = examples_of(batch)?;
        let mut tensors = held(model, &self.layout);
        if tensors.iter().any(|held| held.is_distributed) {
            self.replica.call_once(|| {
                one_by_one("a replica averages the gradients of each pass with others");
            });
            return Ok(None);
        }
        let key = Key::new(model, batch, count);
        let Some(player) = self.player(model, batch, &tensors, &key, examples)? else {
            return Ok(None);
        };
        let leaves = Leaves::put_in(&mut tensors, stacked_weights(&self.layout, &draws));
        let losses = player.losses(tensors, Inputs::of(batch));
        let sum = Dispatch::float_sum(losses.clone());
        let mean = Dispatch::float_mul_scalar(sum, (1.0 / examples as f64).into());
        let mut gradients = Dispatch::backward(mean);
        let mut gradient =
            |leaf: &DispatchTensor| Dispatch::grad_remove(leaf, &mut gradients).map(Untyped::new);
        let weights: Vec<_> = leaves.weights.iter().map(&mut gradient).collect();
        let outside = leaves.outside.iter();
        let outside = outside.filter_map(|(&id, leaf)| Some((id, gradient(leaf)?)));
        let losses = Untyped::new(Dispatch::inner(losses));
        let gradients = DrawGradients {
            losses: losses.reshape(&[count, examples]).typed(),
            pieces: self.pieces(weights, &draws),
            outside: registered(model, outside.collect(), 1.0 / count as f64),
        };
        if self.is_checked {
            self.players.count(&key, |time, extent| {
                // Another draw each time.
                let draw = time as usize % count;
                let weights = draws.clone().narrow(0, draw, 1).squeeze_dim(0);
                let direct = Direct::new(&*self.loss, model, weights, batch, &self.layout)?;
                let losses = gradients.losses.clone().narrow(0, draw, 1).squeeze_dim(0);
                let pieces = &gradients.pieces[draw];
                check_mean(&direct, &self.layout, losses, pieces, extent)
            })?;
        }
        Ok(Some(gradients))
    }

    fn player(
        &self,
        model: &M,
        batch: &B,
        tensors: &[Held],
        key: &Key,
        examples: usize,
    ) -> Result<Option<Arc<Player>>> {
        self.players.get(key, || {
            self.layout.check(model)?;
            if examples == 1 {
                return Ok(None);
            }
            let loss = |model: &M, batch| (self.loss)(model, batch);
            let player = record(model, &self.layout, batch, &loss).and_then(|recording| {
                check_gradients(model, &self.layout, batch, &loss, &recording)?;
                lifted_player(recording, tensors, key.draws())
            });
            Ok(player.map_err(|reason| one_by_one(&reason)).ok())
        })
    }

    /// From gradients `[S, …]` of every parameter to those of all parameters at each draw.
    fn pieces(&self, weights: Vec<Option<Untyped>>, draws: &Tensor<2>) -> Vec<Vec<Tensor<1>>> {
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

fn one_by_one(reason: &str) {
    log::warn!("the gradients of every draw take a pass of their own: {reason}");
}

/// What a backward pass gives gradients of.
struct Leaves {
    /// The layout's parameters at all draws, in order.
    weights: Vec<DispatchTensor>,
    outside: HashMap<ParamId, DispatchTensor>,
}

impl Leaves {
    /// Leaves in the place of the module's trained tensors, one for each parameter however many paths
    /// lead to it; `weights` are those of the layout.
    fn put_in(tensors: &mut [Held], weights: Vec<Untyped>) -> Self {
        let weights = weights.into_iter().map(Untyped::into_dispatch).map(leaf);
        let mut leaves = Self {
            weights: weights.collect(),
            outside: HashMap::new(),
        };
        for held in tensors {
            if let Some(parameter) = held.parameter {
                held.value = leaves.weights[parameter].clone();
            } else if let Some(id) = held.outside {
                held.value = match leaves.outside.entry(id) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(new) => new.insert(leaf(held.value.clone())).clone(),
                };
            }
        }
        leaves
    }
}

/// Gradients of parameters of `model`, multiplied by `share`, under their ids.
fn registered<M: Module>(
    model: &M,
    gradients: HashMap<ParamId, Untyped>,
    share: f64,
) -> GradientsParams {
    struct Register {
        gradients: HashMap<ParamId, Untyped>,
        share: f64,
        registered: GradientsParams,
    }
    impl ModuleVisitor for Register {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            if let Some(gradient) = self.gradients.remove(&param.id) {
                let gradient = gradient.typed::<R>() * self.share;
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
