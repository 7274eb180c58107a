//! Finds losses that stop gradients: with `detach`, `without_autodiff`, or a copy of the model made by
//! `no_grad`.
//!
//! Those leave no trace among recorded operations. But the gradient through the replay of a recording then
//! differs from the gradient through the loss. Both are computed at weights next to the model's and at some
//! far from them, because a path that has no gradient at one place, behind weights of zero or a unit that is
//! off, has one at another.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{AutodiffBackend, Dispatch, DispatchTensor, TensorMetadata};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Int, Tensor};

use crate::batch::{ExampleBatch, Inputs};
use crate::capture::Recording;
use crate::compare::{Norms, norms, whole};
use crate::layout::Layout;
use crate::parameters::{Held, held};
use crate::plan::Plan;
use crate::replay::{Player, leaf};
use crate::untyped::Untyped;

/// What losses and gradients may differ by, relative to their size: those of the same operations differ by
/// rounding alone.
const TOLERANCE: f64 = 1e-4;

/// The weights that are tried are off by this much, in another pattern each time.
const SHIFTS: [f64; 3] = [0.05, 0.6, 1.0];

/// Fails, with the reason in words, if the gradients of `recording` are not those of `loss`.
pub(crate) fn check_gradients<M: Module, B: ExampleBatch>(
    model: &M,
    layout: &Layout,
    batch: &B,
    loss: &impl Fn(&M, B) -> Tensor<1>,
    recording: &Recording,
) -> Result<(), String> {
    let is_trained = |held: &Held| held.parameter.is_some() || held.outside.is_some();
    let is_trained: Vec<bool> = held(model, layout).iter().map(is_trained).collect();
    let player = Player::new(Plan::untapped(recording.clone())?);
    let compared = |shift: Shift| {
        let near = model.valid().map(&mut Trained {
            is_trained: is_trained.iter(),
            change: Change::Shift(shift),
        });
        let mut tensors = held(&near, layout);
        let mut leaves = Vec::new();
        for (held, _) in tensors.iter_mut().zip(&is_trained).filter(|(_, is)| **is) {
            held.value = leaf(held.value.clone());
            leaves.push(held.value.clone());
        }
        let found = Gradients::of(player.losses(tensors, Inputs::of(batch)), leaves);

        let mut leaves = Vec::new();
        let near = near.map(&mut Trained {
            is_trained: is_trained.iter(),
            change: Change::Leaves(&mut leaves),
        });
        let losses = loss(&near, batch.clone()).into_dispatch();
        // Not every place is one to evaluate a loss at.
        found.compared(&Gradients::of(losses, leaves))
    };
    let places = SHIFTS.into_iter().enumerate();
    let places = places.map(|(number, size)| Shift { size, number });
    let mut found = places.filter_map(compared).peekable();
    if found.peek().is_none() {
        let here = Shift {
            size: 0.0,
            number: 0,
        };
        return compared(here).unwrap_or(Ok(()));
    }
    found.collect()
}

/// How far weights are moved.
#[derive(Clone, Copy)]
struct Shift {
    size: f64,
    /// Of the pattern.
    number: usize,
}

/// Changes the tensors that are trained.
struct Trained<'a> {
    is_trained: std::slice::Iter<'a, bool>,
    change: Change<'a>,
}

enum Change<'a> {
    Shift(Shift),
    /// Makes them leaves.
    Leaves(&'a mut Vec<DispatchTensor>),
}

impl ModuleMapper for Trained<'_> {
    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        if self.is_trained.next() != Some(&true) {
            return param;
        }
        param.map(|tensor| match &mut self.change {
            Change::Shift(Shift { size: 0.0, .. }) => tensor,
            Change::Shift(Shift { size, number }) => {
                // Irregular enough, and the same on every device.
                let count = tensor.shape().num_elements() as i64;
                let places = Tensor::<1, Int>::arange(1..count + 1, &tensor.device());
                let frequency = 1.7 + 0.37 * *number as f64;
                let shifts = places.float().mul_scalar(frequency).sin().mul_scalar(*size);
                let shifts = shifts.cast(tensor.dtype()).reshape(tensor.shape());
                tensor + shifts
            }
            Change::Leaves(leaves) => {
                let leaf = tensor.autodiff().require_grad();
                leaves.push(leaf.clone().into_dispatch());
                leaf
            }
        })
    }

    fn map_int<const R: usize>(&mut self, param: Param<Tensor<R, Int>>) -> Param<Tensor<R, Int>> {
        self.is_trained.next();
        param
    }

    fn map_bool<const R: usize>(
        &mut self,
        param: Param<Tensor<R, Bool>>,
    ) -> Param<Tensor<R, Bool>> {
        self.is_trained.next();
        param
    }
}

/// Losses, and the gradient of their sum with respect to every leaf, one after the other.
struct Gradients {
    losses: Tensor<1>,
    flat: Tensor<1>,
    /// Of each leaf.
    lens: Vec<usize>,
}

impl Gradients {
    fn of(losses: DispatchTensor, leaves: Vec<DispatchTensor>) -> Self {
        let lens: Vec<usize> = leaves
            .iter()
            .map(|leaf| leaf.shape().num_elements())
            .collect();
        let flat = |tensor, len| Untyped::new(tensor).reshape(&[len]).typed::<1>();
        let mut found = Dispatch::is_tracked(&losses)
            .then(|| Dispatch::backward(Dispatch::float_sum(losses.clone())));
        let pieces = leaves.into_iter().zip(&lens).map(|(leaf, &len)| {
            let gradients = found.as_mut();
            match gradients.and_then(|gradients| Dispatch::grad_remove(&leaf, gradients)) {
                Some(gradient) => flat(gradient, len),
                // Nothing depends on it.
                None => flat(leaf, len).zeros_like(),
            }
        });
        Self {
            flat: Tensor::cat(pieces.collect(), 0),
            losses: flat(losses.clone(), losses.shape().num_elements()),
            lens,
        }
    }

    /// Fails if these are not the expected ones; `None` if those are no finite numbers.
    fn compared(&self, expected: &Self) -> Option<Result<(), String>> {
        let [losses] = expected.losses.dims();
        let losses = norms(&self.losses, &expected.losses, [losses])[0];
        let pieces = norms(&self.flat, &expected.flat, expected.lens.iter().copied());
        let whole = whole(&pieces);
        if !losses.expected.is_finite() || !whole.is_finite() {
            return None;
        }
        // A difference that is no number is one.
        let is_close = |norms: &Norms, size: f64| norms.difference <= TOLERANCE * size;
        if !is_close(&losses, losses.expected) {
            return Some(Err("at other weights it computes something else".into()));
        }
        // What is left of large numbers that cancel is rounding.
        let is_right = |norms: &Norms| is_close(norms, norms.expected + 0.1 * whole);
        Some(if pieces.iter().all(is_right) {
            Ok(())
        } else {
            Err(
                "it stops gradients (`detach`, `without_autodiff` or `no_grad`), which a recording \
                 does not show"
                    .into(),
            )
        })
    }
}
