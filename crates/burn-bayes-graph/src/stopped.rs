//! Finds losses that stop gradients: with `detach`, `without_autodiff`, or a copy of the model made by
//! `no_grad`.
//!
//! Those leave no trace among recorded operations. But the gradient through the replay of a recording then
//! differs from the gradient through the loss. Both are computed at weights next to the model's and at some
//! far from them, because a path that has no gradient at one place, behind weights of zero or a unit that is
//! off, has one at another.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{AutodiffBackend, Dispatch, DispatchTensor};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Int, Tensor};
use burn_bayes_core::Layout;

use crate::batch::{ExampleBatch, Inputs};
use crate::capture::Recording;
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
        let expected = Gradients::of(losses, leaves);
        // Not every place is one to evaluate a loss at.
        expected.is_finite().then(|| found.compared(&expected))
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

/// Losses, and the gradient of their sum with respect to every leaf: none where nothing depends on it.
struct Gradients {
    losses: Tensor<1>,
    pieces: Vec<Option<Tensor<1>>>,
}

impl Gradients {
    fn of(losses: DispatchTensor, leaves: Vec<DispatchTensor>) -> Self {
        let flat = |tensor: Untyped| {
            let len: usize = tensor.shape().iter().product();
            tensor.reshape(&[len]).typed()
        };
        let pieces = if Dispatch::is_tracked(&losses) {
            let mut found = Dispatch::backward(Dispatch::float_sum(losses.clone()));
            let gradients = leaves.iter();
            let gradients = gradients.map(|leaf| Dispatch::grad_remove(leaf, &mut found));
            gradients
                .map(|gradient| gradient.map(|gradient| flat(Untyped::new(gradient))))
                .collect()
        } else {
            vec![None; leaves.len()]
        };
        Self {
            losses: flat(Untyped::new(losses)),
            pieces,
        }
    }

    fn is_finite(&self) -> bool {
        let pieces = self.pieces.iter().flatten();
        norm(&self.losses).is_finite() && pieces.map(norm).all(f64::is_finite)
    }

    /// Fails if these are not the expected ones.
    fn compared(&self, expected: &Self) -> Result<(), String> {
        let is_close = |difference: f64, size: f64| difference <= TOLERANCE * size;
        if !is_close(off(&self.losses, &expected.losses), norm(&expected.losses)) {
            return Err("at other weights it computes something else".into());
        }
        let whole = expected.pieces.iter().flatten().map(norm);
        let whole = whole.map(|norm| norm * norm).sum::<f64>().sqrt();
        for pieces in self.pieces.iter().zip(&expected.pieces) {
            let (difference, size) = match pieces {
                (None, None) => continue,
                (Some(only), None) | (None, Some(only)) => (norm(only), 0.0),
                (Some(found), Some(expected)) => (off(found, expected), norm(expected)),
            };
            // What is left of large numbers that cancel is rounding.
            if !is_close(difference, size + 0.1 * whole) {
                return Err(
                    "it stops gradients (`detach`, `without_autodiff` or `no_grad`), which a \
                     recording does not show"
                        .into(),
                );
            }
        }
        Ok(())
    }
}

fn norm(values: &Tensor<1>) -> f64 {
    values.clone().square().sum().into_scalar::<f64>().sqrt()
}

fn off(found: &Tensor<1>, expected: &Tensor<1>) -> f64 {
    norm(&(found.clone() - expected.clone()))
}
