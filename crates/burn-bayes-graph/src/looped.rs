//! The loss and its gradients by ordinary autodiff: the oracle of the rules, and what is done without one.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_core::Layout;

use crate::batch::{Copies, ExampleBatch, Single};
use crate::capture::message;
use crate::error::{Kind, Result};
use crate::self_check::{check_count, largest, values};

/// A loss at given weights, evaluated as it stands.
pub(crate) struct Direct<'a, M, B, F: ?Sized> {
    loss: &'a F,
    /// With the layout's weights as leaves. Frozen layers behave as in inference, as in a recording.
    model: M,
    batch: &'a B,
    layout: &'a Layout,
}

/// What losses of an example differ by, relative to the largest of the batch, that are the same but for
/// rounding.
const ROUNDING: f64 = 1e-6;

/// What they differ by that no rounding explains.
const APART: f64 = 1e-2;

/// Losses, and the gradient of their sum: a flat piece for each parameter of the layout.
pub(crate) struct Evaluated {
    pub(crate) losses: Tensor<1>,
    pub(crate) pieces: Vec<Tensor<1>>,
}

impl<'a, M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized> Direct<'a, M, B, F> {
    pub(crate) fn new(
        loss: &'a F,
        model: &M,
        weights: Tensor<1>,
        batch: &'a B,
        layout: &'a Layout,
    ) -> Result<Self> {
        let model = layout.write_leaves(model.clone().freeze(), weights)?;
        Ok(Self {
            loss,
            model,
            batch,
            layout,
        })
    }

    /// The losses of all examples at once.
    pub(crate) fn whole(&self) -> Result<Evaluated> {
        self.evaluated(self.whole_losses())
    }

    /// The same without their gradient.
    pub(crate) fn whole_losses(&self) -> Tensor<1> {
        (self.loss)(&self.model, self.batch.clone())
    }

    /// The loss of one example of the whole batch.
    pub(crate) fn one_of_whole(&self, example: usize) -> Result<Evaluated> {
        self.evaluated(self.whole_losses().narrow(0, example, 1))
    }

    /// The loss of one example, alone in its batch.
    pub(crate) fn single(&self, example: usize) -> Result<Evaluated> {
        self.evaluated(self.single_loss(example)?)
    }

    /// The same without its gradient.
    pub(crate) fn single_loss(&self, example: usize) -> Result<Tensor<1>> {
        let single = self.batch.clone().map_tensors(&mut Single(example));
        let loss = || (self.loss)(&self.model, single);
        let loss = catch_unwind(AssertUnwindSafe(loss));
        let loss = loss.map_err(|panic| dependent::<B>(example, message(panic.as_ref())))?;
        match loss.dims() {
            [1] => Ok(loss),
            [found] => {
                let problem = format!("alone, it gives {found} losses");
                Err(dependent::<B>(example, problem).into())
            }
        }
    }

    /// Fails if an example has another loss, `alone`, than in its batch, `together`.
    ///
    /// Where the two are so close that rounding may explain it, because a device computes one row in another
    /// way than many, a batch of copies of the example tells: it has no more rounding than the batch.
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
                let problem = format!("by itself, it is {alone}, and in its batch {expected}");
                Err(dependent::<B>(example, problem).into())
            }
        }
    }

    fn evaluated(&self, losses: Tensor<1>) -> Result<Evaluated> {
        let mut gradients = match losses.is_tracked() {
            true => GradientsParams::from_grads(losses.clone().sum().backward(), &self.model),
            // Every gradient is stopped.
            false => GradientsParams::new(),
        };
        Ok(Evaluated {
            pieces: self.layout.gradient_parts(&self.model, &mut gradients)?,
            losses: losses.without_autodiff(),
        })
    }
}

/// An example whose loss is not a function of its own part of the batch.
fn dependent<B>(example: usize, problem: String) -> Kind {
    Kind::Dependent {
        example,
        problem,
        batch: type_name::<B>(),
    }
}

/// The losses, and the gradients `[M, len]` of the chosen parameters, by their number. Fails if the losses
/// are not those of the whole batch.
pub(crate) fn looped_rows<M: Module, B: ExampleBatch>(
    loss: &(impl Fn(&M, B) -> Tensor<1> + ?Sized),
    model: &M,
    batch: &B,
    examples: usize,
    layout: &Layout,
    chosen: &BTreeSet<usize>,
) -> Result<(Tensor<1>, BTreeMap<usize, Tensor<2>>)> {
    let direct = Direct::new(loss, model, layout.flatten(model)?, batch, layout)?;
    let mut losses = Vec::with_capacity(examples);
    let mut rows: BTreeMap<usize, Vec<Tensor<1>>> = BTreeMap::new();
    for example in 0..examples {
        let evaluated = direct.single(example)?;
        for (parameter, piece) in evaluated.pieces.into_iter().enumerate() {
            if chosen.contains(&parameter) {
                rows.entry(parameter).or_default().push(piece);
            }
        }
        losses.push(evaluated.losses);
    }
    let losses = Tensor::cat(losses, 0);
    if examples > 1 {
        let together = values(&direct.whole_losses());
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
