//! Checks that recorded losses have the same gradient as the model's own step.
//!
//! With g the gradient of the mean recorded loss and s that of [`TrainStep::step`], the gradients
//! of parameter p agree if
//!
//!   ‖g_p − s_p‖ ≤ τ (‖s_p‖ + φ ‖s‖).
//!
//! Both gradients are sums of the same terms in a different order. Rounding in single precision
//! makes a relative difference of about 10⁻⁶, or 10⁻⁴ if the terms of a mini-batch cancel to a
//! hundredth; τ = 10⁻² is far above this, and below the effect of a penalty or label smoothing. The
//! gradient of some parameters is zero up to rounding, for example of a bias in front of a softmax
//! over its outputs. Because of them φ adds a tenth of the norm of the full gradient to the scale.
//!
//! Rounding is larger where the loss is ill-conditioned, for example behind batch norm of outputs that hardly vary, and a unit
//! whose input is zero up to rounding is on or off by chance. So what differs is compared with what several relative changes
//! of the weights by about 10⁻⁶ do to s.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use burn::train::TrainStep;
use burn_bayes_graph::{Layout, LayoutEntry, ModulePath};

use crate::error::{Error, Result};
use crate::noise::Noise;

/// τ; devices with low precision use a multiple of their rounding error instead.
const TOLERANCE: f64 = 1e-2;
const ROUNDINGS: f64 = 16.0;
/// φ.
const WHOLE: f64 = 0.1;
/// The relative change of the weights, a few roundings of each; how many there are; and the part of a difference that one of
/// them explains by itself.
const NUDGE: f64 = 1.0 / (1 << 20) as f64;
const NUDGES: u64 = 8;
const EXPLAINED: f64 = 0.1;

/// Gradients of parameters, flat, by path.
pub(crate) type Parts = BTreeMap<String, Tensor<1>>;

/// The parts of a gradient in layout order.
pub(crate) fn inside(layout: &Layout, gradient: &Tensor<1>) -> Parts {
    let entries = layout.entries().iter();
    let part = |entry: &LayoutEntry| gradient.clone().narrow(0, entry.offset, entry.len());
    entries
        .map(|entry| (entry.path.clone(), part(entry)))
        .collect()
}

/// The gradients of other parameters of `model`.
pub(crate) fn outside<M: Module>(model: &M, gradients: &GradientsParams) -> Parts {
    struct Collect<'a> {
        path: ModulePath,
        gradients: &'a GradientsParams,
        found: Parts,
    }
    impl ModuleVisitor for Collect<'_> {
        burn_bayes_graph::track_path!(path);

        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            if let Some(gradient) = self.gradients.get::<R>(param.id) {
                let path = self.path.as_str().to_owned();
                self.found.insert(path, gradient.reshape([-1]));
            }
        }
    }
    let mut collect = Collect {
        path: ModulePath::default(),
        gradients,
        found: Parts::new(),
    };
    model.visit(&mut collect);
    collect.found
}

/// The gradient of the model's own step with respect to the layout's weights. Every layer is
/// frozen, as in the recording, so that it behaves as in inference.
pub(crate) fn of_frozen_step<M: Module + TrainStep>(
    layout: &Layout,
    model: &M,
    weights: Tensor<1>,
    item: M::Input,
) -> Result<Parts> {
    let model = layout.write_leaves(model.clone().freeze(), weights)?;
    let mut gradients = TrainStep::step(&model, item).grads;
    let gradient = layout.flatten_gradients(&model, &mut gradients)?;
    Ok(inside(layout, &gradient))
}

/// Weights that differ by roundings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nudge {
    /// The weights themselves.
    Nothing,
    /// With this seed.
    Seeded(u64),
}

impl Nudge {
    pub(crate) fn of(self, weights: &Tensor<1>) -> Tensor<1> {
        match self {
            Self::Nothing => weights.clone(),
            Self::Seeded(seed) => {
                let normals = Noise::new(seed).normal(weights.dims()[0], &weights.device());
                weights.clone() + weights.clone() * normals.mul_scalar(NUDGE)
            }
        }
    }
}

/// Fails unless the gradient of the recorded losses equals that of the model's own step. `again`
/// repeats that step with nudged weights.
pub(crate) fn compare(
    recorded: Parts,
    own: &Parts,
    again: impl Fn(Nudge) -> Result<Parts>,
) -> Result<()> {
    let Some(worst) = worst(recorded, own) else {
        return Ok(());
    };
    if let Some(random) = self::worst(again(Nudge::Nothing)?, own) {
        let problem = format!(
            "`step` is random: two evaluations on the same mini-batch at the same weights give \
             gradients of `{}` that differ by {:.2e}, with norms {:.2e} and {:.2e}; recorded \
             losses cannot contain this noise: draw it where batches are made, or train without \
             recorded losses; to train without the noise, use `without_self_check()`",
            random.path, random.difference, random.recorded, random.own
        );
        return Err(Error::config("ExampleLoss", problem));
    }
    for seed in 0..NUDGES {
        if is_ill_conditioned(&worst, own, again(Nudge::Seeded(seed))?) {
            return Ok(());
        }
    }
    let problem = format!(
        "`example_losses` and `step` do not compute the same loss: the gradient of `{}` has \
         norm {:.2e} with the mean of `example_losses` and {:.2e} with `step`, and the two \
         differ by {:.2e}; add to `example_losses` what only `step` contains (a penalty, label \
         smoothing, class weights, a sum instead of the mean), or remove it from `step`; to \
         train on `example_losses` anyway, use `without_self_check()`",
        worst.path, worst.recorded, worst.own, worst.difference
    );
    Err(Error::config("ExampleLoss", problem))
}

/// Whether the gradient that nudged weights have explains the difference.
fn is_ill_conditioned(worst: &Norms, own: &Parts, mut nudged: Parts) -> bool {
    let path = worst.path.clone();
    let own = own.get(&path).cloned();
    let nudged = Norms::of(path.clone(), nudged.remove(&path), own);
    let is_explained = nudged.difference > EXPLAINED * worst.difference;
    if is_explained {
        log::info!(
            "the gradient of `{path}` changes by {:.1e} of its norm with the last digits of the weights, so that its precision \
             is low",
            nudged.difference / nudged.own
        );
    }
    is_explained
}

/// The norms of one parameter's gradients.
struct Norms {
    path: String,
    recorded: f64,
    own: f64,
    difference: f64,
    tolerance: f64,
}

/// The largest difference among the parameters whose gradients do not agree.
fn worst(recorded: Parts, own: &Parts) -> Option<Norms> {
    let mut own = own.clone();
    let mut all: Vec<_> = recorded
        .into_iter()
        .map(|(path, recorded)| {
            let own = own.remove(&path);
            Norms::of(path, Some(recorded), own)
        })
        .collect();
    all.extend(
        own.into_iter()
            .map(|(path, own)| Norms::of(path, None, Some(own))),
    );
    // The algorithm reports gradients that are not finite, with the step.
    if all.iter().any(|norms| !norms.recorded.is_finite()) {
        return None;
    }
    let whole = norm(all.iter().map(|norms| norms.own));
    let differing = all.into_iter().filter(|norms| {
        let agrees = norms.difference <= norms.tolerance * (norms.own + WHOLE * whole);
        // NaN counts as disagreement.
        !agrees
    });
    differing.max_by(|one, other| one.difference.total_cmp(&other.difference))
}

impl Norms {
    /// A missing gradient counts as zero.
    fn of(path: String, recorded: Option<Tensor<1>>, own: Option<Tensor<1>>) -> Self {
        let data = |gradient: Tensor<1>| gradient.without_autodiff().into_data();
        let (recorded, own) = (recorded.map(data), own.map(data));
        let norm_of =
            |data: &Option<TensorData>| data.as_ref().map_or(0.0, |data| norm(data.iter()));
        let difference = match (&recorded, &own) {
            (Some(recorded), Some(own)) => {
                let pairs = recorded.iter::<f64>().zip(own.iter::<f64>());
                norm(pairs.map(|(recorded, own)| recorded - own))
            }
            _ => norm_of(&recorded) + norm_of(&own),
        };
        let precision = recorded.as_ref().and_then(|data| data.dtype().finfo());
        let rounding = precision.map_or(0.0, |precision| ROUNDINGS * precision.epsilon);
        Self {
            path,
            recorded: norm_of(&recorded),
            own: norm_of(&own),
            difference,
            tolerance: TOLERANCE.max(rounding),
        }
    }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    let squares = values.into_iter().map(|value| value * value);
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn parts(parts: &[(&str, &[f32])]) -> Parts {
        let part = |&(path, values): &(&str, &[f32])| {
            let values = Tensor::from_data(values, &Device::default());
            (path.to_owned(), values)
        };
        parts.iter().map(part).collect()
    }

    fn worst_path(recorded: &[(&str, &[f32])], own: &[(&str, &[f32])]) -> Option<String> {
        worst(parts(recorded), &parts(own)).map(|norms| norms.path)
    }

    #[test]
    fn rounding_agrees_and_a_hundredth_does_not() {
        let own: [(&str, &[f32]); 2] = [("a", &[3.0, 4.0]), ("b", &[0.0])];
        assert_eq!(worst_path(&own, &own), None);
        assert_eq!(
            worst_path(&[("a", &[3.0001, 4.0]), ("b", &[1e-4])], &own),
            None
        );
        let named = |recorded| worst_path(recorded, &own).unwrap();
        assert_eq!(named(&[("a", &[3.0, 4.06]), ("b", &[0.0])]), "a");
        assert_eq!(named(&[("a", &[3.0, 4.0]), ("b", &[0.01])]), "b");
        assert_eq!(named(&[("a", &[3.0, 4.1]), ("b", &[0.2])]), "b");
    }

    #[test]
    fn a_difference_that_nudged_weights_explain_is_rounding() {
        let own: [(&str, &[f32]); 2] = [("a", &[3.0, 4.0]), ("b", &[0.0])];
        let compared = |nudged: [f32; 2]| {
            let recorded = parts(&[("a", &[3.0, 4.1]), ("b", &[0.0])]);
            compare(recorded, &parts(&own), |nudge| {
                // The last of the nudges changes something.
                let is_last = matches!(nudge, Nudge::Seeded(seed) if seed + 1 == NUDGES);
                let a = if is_last { nudged } else { [3.0, 4.0] };
                Ok(parts(&[("a", &a), ("b", &[0.0])]))
            })
        };
        assert!(compared([3.02, 4.0]).is_ok());
        let error = compared([3.001, 4.0]).unwrap_err().to_string();
        assert!(error.contains("do not compute the same loss"), "{error}");
    }

    #[test]
    fn nudges_change_the_last_digits() {
        let weights = Tensor::from_data([3.0f32, -40.0, 0.0], &Device::default());
        assert_eq!(Nudge::Nothing.of(&weights).into_data(), weights.to_data());
        let [nudged, other] = [0, 1].map(|seed| Nudge::Seeded(seed).of(&weights));
        assert_ne!(nudged.to_data(), weights.to_data());
        assert_ne!(nudged.to_data(), other.into_data());
        let change: f32 = (nudged - weights).abs().max().into_scalar();
        assert!(change < 40.0 * 4e-6, "{change}");
    }

    #[test]
    fn a_gradient_that_only_one_side_has_is_found() {
        let one: [(&str, &[f32]); 1] = [("a", &[3.0])];
        let both: [(&str, &[f32]); 2] = [("a", &[3.0]), ("b", &[1.0])];
        assert_eq!(worst_path(&one, &both).unwrap(), "b");
        assert_eq!(worst_path(&both, &one).unwrap(), "b");
    }

    #[test]
    fn gradients_that_vanish_agree_and_those_of_the_step_must_be_finite() {
        assert_eq!(worst_path(&[("a", &[0.0])], &[("a", &[0.0])]), None);
        assert_eq!(worst_path(&[("a", &[f32::NAN])], &[("a", &[0.0])]), None);
        let own: [(&str, &[f32]); 1] = [("a", &[f32::NAN])];
        assert_eq!(worst_path(&[("a", &[1.0])], &own).unwrap(), "a");
    }
}
