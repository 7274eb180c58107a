//! The loss and its gradients by ordinary autodiff: the reference for the rules, and the fallback without one.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::layout::Layout;
use burn::module::{Flag, Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::batch::{Copies, ExampleBatch, Single, check_count};
use crate::capture::message;
use crate::compare::{largest, values};
use crate::error::{Kind, Result};
use crate::parameters::BATCH_NORM;

/// A loss at given weights, evaluated without a recording.
pub(crate) struct Direct<'a, M, B, F: ?Sized> {
    loss: &'a F,
    /// The model of the caller, in the mode of the evaluation.
    origin: M,
    /// The model at the weights, without gradients.
    model: M,
    weights: Tensor<1>,
    batch: &'a B,
    layout: &'a Layout,
}

/// A loss at given weights, with gradients.
pub(crate) struct Tracked<'a, M, B, F: ?Sized> {
    direct: &'a Direct<'a, M, B, F>,
    /// The model in the mode of the evaluation, with the layout's weights as leaves.
    model: M,
}

/// Switches all layers but batch norm to inference.
#[derive(Default)]
struct OnlyBatchNorm {
    /// For each of the fields that contain the current one, whether it is one of batch norm.
    is_inside: Vec<bool>,
}

impl ModuleMapper for OnlyBatchNorm {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.is_inside.push(container_type == BATCH_NORM);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.is_inside.pop();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let is_on = flag.val().is_enabled() && self.is_inside.last() == Some(&true);
        flag.with_value(is_on)
    }
}

/// The largest difference between two evaluations of an example's loss that rounding explains, relative to
/// the largest loss of the batch.
const ROUNDING: f64 = 1e-6;

/// A relative difference that rounding does not explain.
const APART: f64 = 1e-2;

/// Losses, and the gradient of their sum: one flat piece for each parameter of the layout.
pub(crate) struct Evaluated {
    pub(crate) losses: Tensor<1>,
    pub(crate) pieces: Vec<Tensor<1>>,
}

impl<'a, M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized> Direct<'a, M, B, F> {
    /// With a frozen model, so that its layers behave as in inference.
    pub(crate) fn new(
        loss: &'a F,
        model: &M,
        weights: Tensor<1>,
        batch: &'a B,
        layout: &'a Layout,
    ) -> Result<Self> {
        Self::of(loss, model.clone().freeze(), weights, batch, layout)
    }

    /// With batch norm in training mode, for a batch on a device with autodiff. The running statistics of `model` stay as
    /// they are.
    pub(crate) fn in_training(
        loss: &'a F,
        model: &M,
        weights: Tensor<1>,
        batch: &'a B,
        layout: &'a Layout,
    ) -> Result<Self> {
        // `valid` and `train` copy running statistics, which clones would share.
        let model = model.valid().train().no_grad();
        let model = model.map(&mut OnlyBatchNorm::default());
        Self::of(loss, model, weights, batch, layout)
    }

    fn of(
        loss: &'a F,
        origin: M,
        weights: Tensor<1>,
        batch: &'a B,
        layout: &'a Layout,
    ) -> Result<Self> {
        Ok(Self {
            loss,
            model: layout.write(origin.clone().no_grad(), weights.clone())?,
            origin,
            weights,
            batch,
            layout,
        })
    }

    pub(crate) fn tracked(&'a self) -> Result<Tracked<'a, M, B, F>> {
        let model = self.origin.clone();
        Ok(Tracked {
            direct: self,
            model: self.layout.write_leaves(model, self.weights.clone())?,
        })
    }

    /// As [`tracked`](Self::tracked), at weights whose last bits differ: otherwise for every `number`.
    pub(crate) fn near(&'a self, number: usize) -> Result<Tracked<'a, M, B, F>> {
        /// A few units in the last place: as much as another order of a sum changes its result.
        const CHANGE: f32 = 4.0 * f32::EPSILON;
        // Rounding adds up over the layers of a deep network.
        let change = CHANGE * (1 << number) as f32;
        let factor = |index: usize| {
            let mixed =
                (index + 1).wrapping_mul(0x9e37_79b9) ^ (number + 1).wrapping_mul(0x85eb_ca6b);
            match (mixed >> 16).is_multiple_of(2) {
                true => 1.0 + change,
                false => 1.0 - change,
            }
        };
        let [len] = self.weights.dims();
        let factors: Vec<f32> = (0..len).map(factor).collect();
        let weights = self.weights.clone();
        let factors = Tensor::<1>::from_data(&*factors, &weights.device()).cast(weights.dtype());
        let model = self.origin.clone();
        Ok(Tracked {
            direct: self,
            model: self.layout.write_leaves(model, weights * factors)?,
        })
    }

    /// The losses of all examples at once.
    pub(crate) fn whole(&self) -> Tensor<1> {
        (self.loss)(&self.model, self.batch.clone()).without_autodiff()
    }

    /// The loss of one example in a batch of its own.
    pub(crate) fn single(&self, example: usize) -> Result<Tensor<1>> {
        Ok(self.single_of(&self.model, example)?.without_autodiff())
    }

    fn single_of(&self, model: &M, example: usize) -> Result<Tensor<1>> {
        let single = self.batch.clone().map_tensors(&mut Single(example));
        let loss = || (self.loss)(model, single);
        let loss = catch_unwind(AssertUnwindSafe(loss));
        let loss = loss.map_err(|panic| dependent::<B>(example, message(panic.as_ref())))?;
        match loss.dims() {
            [1] => Ok(loss),
            [found] => {
                let problem = format!("a batch of this example alone gives {found} losses");
                Err(dependent::<B>(example, problem).into())
            }
        }
    }

    /// Fails if the loss of an example `alone` differs from its loss in the batch, `together`.
    ///
    /// A device may use different kernels for one row and for many, which rounds differently. A small
    /// difference is therefore checked with a batch of copies of the example.
    pub(crate) fn check_alone(&self, example: usize, alone: f64, together: &[f64]) -> Result<()> {
        let (expected, scale) = (together[example], largest(together));
        let off = (alone - expected).abs();
        let found = match expected.is_finite() {
            true if off > APART * scale || off.is_nan() => Some(alone),
            true if off > ROUNDING * scale => {
                let copies = self.batch.clone().map_tensors(&mut Copies(example));
                let copies = values(&(self.loss)(&self.model, copies)).into_iter();
                let is_off = |copy: &f64| (copy - expected).abs() > 10.0 * ROUNDING * scale;
                copies.into_iter().find(is_off)
            }
            _ => None,
        };
        match found {
            None => Ok(()),
            Some(alone) => {
                let problem = format!("it is {alone} alone and {expected} in the batch");
                Err(dependent::<B>(example, problem).into())
            }
        }
    }
}

impl<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized> Tracked<'_, M, B, F> {
    /// The losses of all examples at once, and the gradient of their sum.
    pub(crate) fn whole(&self) -> Result<Evaluated> {
        let losses = self.whole_losses();
        Ok(Evaluated {
            pieces: self.gradient_of(losses.clone().sum())?,
            losses: losses.without_autodiff(),
        })
    }

    /// The loss of one example in a batch of its own, and its gradient.
    pub(crate) fn single(&self, example: usize) -> Result<Evaluated> {
        self.singles([(example, 1.0)])
    }

    /// The losses of some examples, each in a batch of its own, and the gradient of their weighted sum.
    pub(crate) fn singles(
        &self,
        weights: impl IntoIterator<Item = (usize, f32)>,
    ) -> Result<Evaluated> {
        let single = |example| self.direct.single_of(&self.model, example);
        self.weighted(weights, single)
    }

    /// The losses of some examples of the whole batch, and the gradient of their weighted sum.
    pub(crate) fn some_of_whole(
        &self,
        weights: impl IntoIterator<Item = (usize, f32)>,
    ) -> Result<Evaluated> {
        let losses = self.whole_losses();
        self.weighted(weights, |example| Ok(losses.clone().narrow(0, example, 1)))
    }

    fn whole_losses(&self) -> Tensor<1> {
        (self.direct.loss)(&self.model, self.direct.batch.clone())
    }

    fn weighted(
        &self,
        weights: impl IntoIterator<Item = (usize, f32)>,
        loss: impl Fn(usize) -> Result<Tensor<1>>,
    ) -> Result<Evaluated> {
        let (mut losses, mut weighted) = (Vec::new(), Vec::new());
        for (example, weight) in weights {
            let loss = loss(example)?;
            weighted.push(loss.clone() * weight);
            losses.push(loss.without_autodiff());
        }
        Ok(Evaluated {
            pieces: self.gradient_of(Tensor::cat(weighted, 0).sum())?,
            losses: Tensor::cat(losses, 0),
        })
    }

    fn gradient_of(&self, sum: Tensor<1>) -> Result<Vec<Tensor<1>>> {
        let mut gradients = match sum.is_tracked() {
            true => GradientsParams::from_grads(sum.backward(), &self.model),
            // The loss stops all gradients.
            false => GradientsParams::new(),
        };
        let layout = self.direct.layout;
        layout.gradient_parts(&self.model, &mut gradients)
    }
}

/// The error for an example whose loss depends on more than the example.
fn dependent<B>(example: usize, problem: String) -> Kind {
    Kind::Dependent {
        example,
        problem,
        batch: type_name::<B>(),
    }
}

/// The losses, and the gradients `[M, len]` of the chosen parameters, by one backward pass per example. Fails
/// if the losses differ from those of the whole batch.
pub(crate) fn looped_rows<M: Module, B: ExampleBatch>(
    loss: &(impl Fn(&M, B) -> Tensor<1> + ?Sized),
    model: &M,
    batch: &B,
    examples: usize,
    layout: &Layout,
    chosen: &BTreeSet<usize>,
) -> Result<(Tensor<1>, BTreeMap<usize, Tensor<2>>)> {
    let direct = Direct::new(loss, model, layout.flatten(model)?, batch, layout)?;
    let tracked = direct.tracked()?;
    let mut losses = Vec::with_capacity(examples);
    let mut rows: BTreeMap<usize, Vec<Tensor<1>>> = BTreeMap::new();
    for example in 0..examples {
        let evaluated = tracked.single(example)?;
        for (parameter, piece) in evaluated.pieces.into_iter().enumerate() {
            if chosen.contains(&parameter) {
                rows.entry(parameter).or_default().push(piece);
            }
        }
        losses.push(evaluated.losses);
    }
    let losses = Tensor::cat(losses, 0);
    if examples > 1 {
        let together = values(&direct.whole());
        check_count(&together, examples)?;
        for (example, alone) in values(&losses).into_iter().enumerate() {
            direct.check_alone(example, alone, &together)?;
        }
    }
    let rows = rows
        .into_iter()
        .map(|(parameter, rows)| (parameter, Tensor::stack(rows, 0)));
    Ok((losses, rows.collect()))
}
