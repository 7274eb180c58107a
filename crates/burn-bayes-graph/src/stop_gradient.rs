//! Detects losses that stop gradients, by `detach`, `without_autodiff`, or a `no_grad` copy of the model.
//!
//! Recorded operations do not show this, but the gradient through a replay then differs from the gradient of
//! the loss. Both are compared near the current weights and far from them, because a path without gradient at
//! one point, behind a zero weight or an inactive unit, has one at another.

use crate::layout::Layout;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{AutodiffBackend, Dispatch, DispatchTensor, TensorMetadata};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Int, Tensor};

use crate::batch::{ExampleBatch, Inputs};
use crate::capture::Recording;
use crate::compare::{Norms, norms, whole};
use crate::dyn_tensor::DynTensor;
use crate::parameters::{ModuleTensor, module_tensors};
use crate::plan::Plan;
use crate::replay::{Player, leaf};

/// The largest allowed relative difference. Results of the same operations differ by rounding alone.
const TOLERANCE: f64 = 1e-4;

/// The amplitudes by which weights are shifted, each with a different pattern.
const SHIFTS: [f64; 3] = [0.05, 0.6, 1.0];

/// Fails with the reason if the gradients of `recording` differ from those of `loss`.
pub(crate) fn check_gradients<M: Module, B: ExampleBatch>(
    model: &M,
    layout: &Layout,
    batch: &B,
    loss: &impl Fn(&M, B) -> Tensor<1>,
    recording: &Recording,
) -> Result<(), String> {
    let is_trained = |tensor: &ModuleTensor| tensor.parameter.is_some() || tensor.outside.is_some();
    let is_trained: Vec<bool> = module_tensors(model, layout)
        .iter()
        .map(is_trained)
        .collect();
    let player = Player::new(Plan::untapped(recording.clone())?);
    let compared = |shift: Shift| {
        let near = model.valid().map(&mut Trained {
            is_trained: is_trained.iter(),
            change: Change::Shift(shift),
        });
        let mut tensors = module_tensors(&near, layout);
        let mut leaves = Vec::new();
        for (tensor, _) in tensors.iter_mut().zip(&is_trained).filter(|(_, is)| **is) {
            tensor.value = leaf(tensor.value.clone());
            leaves.push(tensor.value.clone());
        }
        let found = Gradients::of(player.outputs(tensors, Inputs::of(batch)), leaves);

        let mut leaves = Vec::new();
        let near = near.map(&mut Trained {
            is_trained: is_trained.iter(),
            change: Change::Leaves(&mut leaves),
        });
        let losses = loss(&near, batch.clone()).into_dispatch();
        // `None` if the loss is not finite at these weights.
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

/// A shift of the weights.
#[derive(Clone, Copy)]
struct Shift {
    size: f64,
    /// The number of the pattern.
    number: usize,
}

/// Changes the trained tensors of a module.
struct Trained<'a> {
    is_trained: std::slice::Iter<'a, bool>,
    change: Change<'a>,
}

enum Change<'a> {
    Shift(Shift),
    /// Replaces them by leaves.
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
                // An irregular pattern that is the same on every device.
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

/// Losses, and the gradient of their sum with respect to all leaves as one vector.
struct Gradients {
    losses: Tensor<1>,
    flat: Tensor<1>,
    /// The number of elements of each leaf.
    lens: Vec<usize>,
}

impl Gradients {
    fn of(losses: DispatchTensor, leaves: Vec<DispatchTensor>) -> Self {
        let lens: Vec<usize> = leaves
            .iter()
            .map(|leaf| leaf.shape().num_elements())
            .collect();
        let flat = |tensor, len| DynTensor::new(tensor).reshape(&[len]).typed::<1>();
        let mut found = Dispatch::is_tracked(&losses)
            .then(|| Dispatch::backward(Dispatch::float_sum(losses.clone())));
        let pieces = leaves.into_iter().zip(&lens).map(|(leaf, &len)| {
            let gradients = found.as_mut();
            match gradients.and_then(|gradients| Dispatch::grad_remove(&leaf, gradients)) {
                Some(gradient) => flat(gradient, len),
                // The loss does not depend on the leaf.
                None => flat(leaf, len).zeros_like(),
            }
        });
        Self {
            flat: Tensor::cat(pieces.collect(), 0),
            losses: flat(losses.clone(), losses.shape().num_elements()),
            lens,
        }
    }

    /// Fails if the gradients differ from the expected ones. `None` if those are not finite.
    fn compared(&self, expected: &Self) -> Option<Result<(), String>> {
        let [losses] = expected.losses.dims();
        let losses = norms(&self.losses, &expected.losses, [losses])[0];
        let pieces = norms(&self.flat, &expected.flat, expected.lens.iter().copied());
        let whole = whole(&pieces);
        if !losses.expected.is_finite() || !whole.is_finite() {
            return None;
        }
        // Written so that a NaN counts as a difference.
        let is_close = |norms: &Norms, size: f64| norms.difference <= TOLERANCE * size;
        if !is_close(&losses, losses.expected) {
            return Some(Err(
                "its recording gives other losses at other weights".into()
            ));
        }
        // The second term covers the rounding of large terms that cancel.
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
