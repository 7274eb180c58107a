//! Compares what a recording gives with the loss as it stands: a net under everything that a recording
//! does not show.
//!
//! At the first batch of every shape, and again later when the weights have moved, the losses, their mean
//! gradient and the gradients of two examples are computed by ordinary autodiff as well; at the next three
//! batches the losses.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::batch::{ExampleBatch, check_count};
use crate::compare::{Norms, largest, largest_difference, norms, values, whole};
use crate::error::{Kind, Result};
use crate::gradients::ExampleLosses;
use crate::layout::{Entry, Layout};
use crate::looped::Direct;

/// The largest difference of two values that should agree, relative to the largest of their kind. Rounding
/// of single precision leaves 1e-6 to 1e-4; what is wrong is off by much more.
const TOLERANCE: f64 = 1e-2;

/// What a parameter's gradient may be off by whatever its size, relative to the gradient of all parameters:
/// what is left of large numbers that cancel is rounding.
const FLOOR: f64 = 1e-4;

/// Examples whose loss is computed alone.
const ALONE: usize = 8;

/// What the gradients of two examples count in a sum of both, which one backward pass gives: what is wrong
/// with them does not cancel.
const SHARES: [f32; 2] = [1.0, -0.618_034];

/// What is compared at a use of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Losses and gradients.
    All,
    /// Losses alone: what a batch hides is another from the first to the second.
    Losses,
}

impl Extent {
    /// What is compared at the use of this number, counted from 1.
    pub(crate) fn at(time: u64) -> Option<Self> {
        match time {
            1 | 100 => Some(Self::All),
            2..=4 => Some(Self::Losses),
            _ => time.is_multiple_of(1000).then_some(Self::All),
        }
    }
}

/// What was found for the examples of a batch.
pub(crate) struct Found<'a> {
    /// Those of one or more draws.
    pub(crate) all: &'a ExampleLosses,
    /// The first example of the draw that is compared.
    pub(crate) first: usize,
    pub(crate) examples: usize,
    pub(crate) extent: Extent,
    /// The number of the use: each compares the gradients of other examples.
    pub(crate) time: u64,
}

/// Compares what was found with the loss itself.
pub(crate) fn check_examples<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    found: Found<'_>,
) -> Result<()> {
    let Found {
        all,
        first,
        examples,
        time,
        extent,
    } = found;
    if examples < 2 {
        return Ok(());
    }
    let losses = values(&all.losses.clone().narrow(0, first, examples));
    if extent == Extent::Losses {
        return check_losses(&losses, &values(&direct.whole()));
    }
    let one = (7 * time as usize + examples / 2) % examples;
    let chosen = [one, (one + examples / 2) % examples];
    let tracked = direct.tracked()?;
    let singles = tracked.singles(chosen.into_iter().zip(SHARES))?;
    let row = chosen
        .map(|example| first + example)
        .into_iter()
        .zip(SHARES);
    let row = all.gradients.weighted_sum(row);
    let (scale, mut wrong) = compared(layout, &row, singles.pieces, 0.0);
    if wrong.is_some() {
        // A kink of the loss may lie within the rounding between one example and many.
        let alike = tracked.some_of_whole(chosen.into_iter().zip(SHARES))?;
        wrong = compared(layout, &row, alike.pieces, 0.0).1.and(wrong);
    }
    let mut alone: Vec<_> = chosen.into_iter().zip(values(&singles.losses)).collect();
    let others = (1..examples).map(|next| (one + next) % examples);
    let others = others.filter(|example| !chosen.contains(example));
    for example in others.take(ALONE - chosen.len()) {
        alone.push((example, values(&direct.single(example)?)[0]));
    }
    let whole = tracked.whole()?;
    let expected = values(&whole.losses);
    check_count(&expected, examples)?;
    for (example, alone) in alone {
        direct.check_alone(example, alone, &expected)?;
    }
    check_losses(&losses, &expected)?;
    if let Some(wrong) = wrong {
        return Err(wrong.into_kind(layout, "an example's gradient").into());
    }
    let share = 1.0 / examples as f32;
    let shares = (first..first + examples).map(|example| (example, share));
    let mean = all.gradients.weighted_sum(shares);
    check_mean_gradient(layout, &mean, whole.pieces, examples, scale)
}

/// Compares a mean gradient, in pieces, and the losses behind it with the loss itself.
pub(crate) fn check_mean<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    losses: Tensor<1>,
    pieces: &[Tensor<1>],
    extent: Extent,
) -> Result<()> {
    if extent == Extent::Losses {
        return check_losses(&values(&losses), &values(&direct.whole()));
    }
    let whole = direct.tracked()?.whole()?;
    let [examples] = whole.losses.dims();
    check_losses(&values(&losses), &values(&whole.losses))?;
    let found = Tensor::cat(pieces.to_vec(), 0);
    check_mean_gradient(layout, &found, whole.pieces, examples, 0.0)
}

/// Compares with the mean of a sum over examples, whose gradients are as large as `scale`.
fn check_mean_gradient(
    layout: &Layout,
    found: &Tensor<1>,
    sums: Vec<Tensor<1>>,
    examples: usize,
    scale: f64,
) -> Result<()> {
    let share = 1.0 / examples as f64;
    let expected = sums.into_iter().map(|sum| sum.mul_scalar(share));
    match compared(layout, found, expected.collect(), scale).1 {
        Some(difference) => Err(difference.into_kind(layout, "the mean gradient").into()),
        None => Ok(()),
    }
}

/// Compares outputs of a recording with the model's own.
pub(crate) fn check_outputs(found: Tensor<2>, expected: Tensor<2>) -> Result<()> {
    let (found, expected) = (values(&found), values(&expected));
    if differs(&found, &expected) {
        return Err(Kind::Mismatch {
            what: "the output".into(),
            difference: largest_difference(&found, &expected),
            size: largest(&expected),
        }
        .into());
    }
    Ok(())
}

fn check_losses(found: &[f64], expected: &[f64]) -> Result<()> {
    if differs(found, expected) {
        return Err(Kind::Mismatch {
            what: "a loss".into(),
            difference: largest_difference(found, expected),
            size: largest(expected),
        }
        .into());
    }
    Ok(())
}

/// Whether one of the values is off by more than rounding explains, where all are finite.
fn differs(found: &[f64], expected: &[f64]) -> bool {
    let is_finite = expected.iter().all(|value| value.is_finite());
    let off = largest_difference(found, expected);
    let is_close = found.len() == expected.len() && off <= TOLERANCE * largest(expected);
    is_finite && !is_close
}

/// A parameter whose gradient is wrong.
struct Wrong {
    entry: usize,
    norms: Norms,
}

impl Wrong {
    fn into_kind(self, layout: &Layout, of: &str) -> Kind {
        let path = &layout.entries()[self.entry].path;
        Kind::Mismatch {
            what: format!("{of} of `{path}`"),
            difference: self.norms.difference,
            size: self.norms.expected,
        }
    }
}

/// The size of a gradient, and the parameter that is off by the most of what rounding does not explain.
/// Gradients in the same place are as large as `scale`.
fn compared(
    layout: &Layout,
    found: &Tensor<1>,
    expected: Vec<Tensor<1>>,
    scale: f64,
) -> (f64, Option<Wrong>) {
    let lens = layout.entries().iter().map(Entry::len);
    let norms = norms(found, &Tensor::cat(expected, 0), lens);
    let whole = whole(&norms);
    let floor = FLOOR * scale.max(whole);
    let excess = |of: &Wrong| of.norms.difference - TOLERANCE * of.norms.expected - floor;
    let all = norms.into_iter().enumerate();
    let worst = all
        .map(|(entry, norms)| Wrong { entry, norms })
        .filter(|of| excess(of) > 0.0 || excess(of).is_nan())
        .max_by(|a, b| excess(a).total_cmp(&excess(b)));
    (whole, worst.filter(|_| whole.is_finite()))
}
