//! Compares the results of a recording with the loss itself, to detect what a recording does not show.
//!
//! At the first, second, fourth, eighth … batch of every shape, the losses, their mean gradient and the gradients of two
//! examples are also computed by ordinary autodiff. At the third and at every sixteenth batch, and at every 128th
//! from the 1024th on, only the losses are, by a forward pass. At the first, more examples are evaluated alone, because a loss may depend on the others of its batch.
//!
//! A value that a recording does not show, such as a field that the model's `Debug` omits, is therefore detected at
//! most fifteen batches after it changes, later 127. This costs a sixteenth of a forward pass per batch, 2 to 3 % of a
//! step, and later an eighth of that. A batch with values besides its tensors that its [`Signature`](crate::batch::Signature) does not show
//! is compared at every use.

use crate::layout::{Layout, LayoutEntry};
use burn::module::Module;
use burn::tensor::Tensor;

use crate::batch::{ExampleBatch, check_count};
use crate::compare::{Norms, largest, largest_difference, norm, norms, values, whole};
use crate::error::{Kind, Result};
use crate::gradients::ExampleLosses;
use crate::looped::{Direct, Tracked};

/// The largest allowed difference, relative to the largest expected value. Single precision rounds to 1e-6
/// to 1e-4; errors are much larger.
const TOLERANCE: f64 = 1e-2;

/// The difference that is always allowed for a parameter's gradient, relative to the gradient of all
/// parameters. It covers the rounding of large terms that cancel.
const FLOOR: f64 = 1e-4;

/// The difference that is always allowed, relative to the largest gradient in the earlier comparisons and the mean
/// gradient of the batch, or to the largest loss. Where gradients and losses almost vanish, as those of a saturated
/// softmax do, they are differences of numbers whose rounding stays as large as it was.
const ROUNDING: f64 = 1e-5;

/// The number of examples whose loss is also computed in a batch of their own at the first batch of a shape.
const ALONE: usize = 8;

/// The weights of two examples in a sum of their gradients, which one backward pass gives. They are unequal
/// so that errors do not cancel.
const SHARES: [f32; 2] = [1.0, -0.618_034];

/// The quantities that are compared at a use of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Losses and gradients.
    All,
    /// Losses alone, which detect hidden values that change from batch to batch.
    Losses,
}

impl Extent {
    /// The comparison at use number `time`, counted from 1. Those of losses cost a few per cent of a small network's
    /// steps, and become rarer.
    pub(crate) fn at(time: u64) -> Option<Self> {
        let every = if time < 1024 { 16 } else { 128 };
        match time {
            _ if time.is_power_of_two() => Some(Self::All),
            _ if time == 3 || time.is_multiple_of(every) => Some(Self::Losses),
            _ => None,
        }
    }
}

/// A use of a recording that is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// The number of the use, from 1. Each use compares the gradients of other examples.
    pub(crate) time: u64,
    pub(crate) extent: Extent,
    /// Those of the earlier comparisons.
    pub(crate) largest: Largest,
}

/// The largest numbers in comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Largest {
    /// The norm of a gradient.
    pub(crate) gradient: f64,
    /// The absolute value of a loss or an output.
    pub(crate) value: f64,
}

/// The results for the examples of a batch.
pub(crate) struct Found<'a> {
    /// The results at one or more draws.
    pub(crate) all: &'a ExampleLosses,
    /// The first example of the draw that is compared.
    pub(crate) first: usize,
    pub(crate) examples: usize,
    pub(crate) of: Use,
}

/// Compares the results with the loss itself, and returns the largest numbers that were compared.
pub(crate) fn check_examples<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    found: Found<'_>,
) -> Result<Largest> {
    let Found {
        all,
        first,
        examples,
        of,
    } = found;
    let Use {
        time,
        extent,
        largest,
    } = of;
    if examples < 2 {
        return Ok(Largest::default());
    }
    let losses = values(&all.losses.clone().narrow(0, first, examples));
    if extent == Extent::Losses {
        return check_values("a loss", &losses, &values(&direct.whole()), largest);
    }
    let tracked = direct.tracked()?;
    let whole = tracked.whole()?;
    let mean_norm = norm(&whole.pieces) / examples as f64;
    let rounding = ROUNDING * largest.gradient.max(mean_norm);
    let one = (7 * time as usize + examples / 2) % examples;
    let chosen = [one, (one + examples / 2) % examples];
    let singles = tracked.singles(chosen.into_iter().zip(SHARES))?;
    let row = chosen
        .map(|example| first + example)
        .into_iter()
        .zip(SHARES);
    let row = all.gradients.weighted_sum(row);
    let (scale, mut wrong) = compared(layout, &row, singles.pieces, rounding, &[]);
    if wrong.is_some() {
        // Near a kink of the loss, the rounding of a batch of one may lead to another gradient.
        let weighted = |tracked: &Tracked<'_, M, B, F>| -> Result<_> {
            let evaluated = tracked.some_of_whole(chosen.into_iter().zip(SHARES))?;
            Ok(evaluated.pieces)
        };
        let alike = weighted(&tracked)?;
        if let (_, Some(_)) = compared(layout, &row, alike.clone(), rounding, &[]) {
            let near = amplified(direct, layout, &alike, weighted)?;
            wrong = compared(layout, &row, alike, rounding, &near).1.and(wrong);
        } else {
            wrong = None;
        }
    }
    let mut alone: Vec<_> = chosen.into_iter().zip(values(&singles.losses)).collect();
    if time == 1 {
        let others = (1..examples).map(|next| (one + next) % examples);
        let others = others.filter(|example| !chosen.contains(example));
        for example in others.take(ALONE - chosen.len()) {
            alone.push((example, values(&direct.single(example)?)[0]));
        }
    }
    let expected = values(&whole.losses);
    check_count(&expected, examples)?;
    for (example, alone) in alone {
        direct.check_alone(example, alone, &expected)?;
    }
    let Largest { value, .. } = check_values("a loss", &losses, &expected, largest)?;
    if let Some(wrong) = wrong {
        return Err(wrong.into_kind(layout, "an example's gradient").into());
    }
    let share = 1.0 / examples as f32;
    let shares = (first..first + examples).map(|example| (example, share));
    let mean = all.gradients.weighted_sum(shares);
    let rounding = rounding.max(FLOOR * scale);
    check_mean_gradient(direct, layout, &mean, whole.pieces, examples, rounding)?;
    Ok(Largest {
        gradient: scale.max(mean_norm),
        value,
    })
}

/// Compares a mean gradient, in pieces, and its losses with the loss itself, and returns the largest numbers.
pub(crate) fn check_mean<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    losses: Tensor<1>,
    pieces: &[Tensor<1>],
    of: Use,
) -> Result<Largest> {
    let losses = values(&losses);
    if of.extent == Extent::Losses {
        return check_values("a loss", &losses, &values(&direct.whole()), of.largest);
    }
    let whole = direct.tracked()?.whole()?;
    let [examples] = whole.losses.dims();
    let Largest { value, .. } =
        check_values("a loss", &losses, &values(&whole.losses), of.largest)?;
    let found = Tensor::cat(pieces.to_vec(), 0);
    let rounding = ROUNDING * of.largest.gradient;
    let gradient = check_mean_gradient(direct, layout, &found, whole.pieces, examples, rounding)?;
    Ok(Largest { gradient, value })
}

/// Compares a mean gradient with sums over examples, and returns its norm. Differences up to `rounding` are
/// allowed.
fn check_mean_gradient<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    found: &Tensor<1>,
    sums: Vec<Tensor<1>>,
    examples: usize,
    rounding: f64,
) -> Result<f64> {
    let share = 1.0 / examples as f64;
    let mean = |sums: Vec<Tensor<1>>| -> Vec<Tensor<1>> {
        sums.into_iter().map(|sum| sum.mul_scalar(share)).collect()
    };
    let expected = mean(sums);
    let (norm, wrong) = compared(layout, found, expected.clone(), rounding, &[]);
    if wrong.is_none() {
        return Ok(norm);
    }
    let near = amplified(direct, layout, &expected, |tracked| {
        Ok(mean(tracked.whole()?.pieces))
    })?;
    match compared(layout, found, expected, rounding, &near) {
        (_, Some(difference)) => Err(difference.into_kind(layout, "the mean gradient").into()),
        (norm, None) => Ok(norm),
    }
}

/// For every parameter, how much of a gradient the last bits of the weights decide: near a kink of the loss, such as an
/// input of `relu` within rounding of zero, there are two gradients.
fn amplified<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    gradient: &[Tensor<1>],
    gradient_of: impl Fn(&Tracked<'_, M, B, F>) -> Result<Vec<Tensor<1>>>,
) -> Result<Vec<f64>> {
    /// The number of weights nearby, each twice as far as the one before it.
    const PLACES: usize = 6;
    /// The size of the allowed difference, relative to the largest that is seen there.
    const MARGIN: f64 = 4.0;
    let mut largest = vec![0.0_f64; layout.entries().len()];
    for number in 0..PLACES {
        let near = gradient_of(&direct.near(number)?)?;
        let lens = layout.entries().iter().map(LayoutEntry::len);
        let norms = norms(
            &Tensor::cat(near, 0),
            &Tensor::cat(gradient.to_vec(), 0),
            lens,
        );
        for (largest, of) in largest.iter_mut().zip(norms) {
            *largest = largest.max(MARGIN * of.difference);
        }
    }
    Ok(largest)
}

/// Compares losses or outputs of a recording with those of the model, and returns the largest. Expected values that are
/// not finite are not compared.
pub(crate) fn check_values(
    what: &str,
    found: &[f64],
    expected: &[f64],
    before: Largest,
) -> Result<Largest> {
    let size = largest(expected);
    let difference = largest_difference(found, expected);
    let is_finite = expected.iter().all(|value| value.is_finite());
    let allowed = TOLERANCE * size + ROUNDING * before.value;
    let is_close = found.len() == expected.len() && difference <= allowed;
    if is_finite && !is_close {
        return Err(Kind::Mismatch {
            what: what.into(),
            difference,
            size,
        }
        .into());
    }
    Ok(Largest {
        value: size,
        ..Largest::default()
    })
}

/// A parameter with a wrong gradient.
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

/// The norm of a gradient, and the parameter with the largest difference beyond the tolerance, `rounding` and what is
/// `allowed` for it besides.
fn compared(
    layout: &Layout,
    found: &Tensor<1>,
    expected: Vec<Tensor<1>>,
    rounding: f64,
    allowed: &[f64],
) -> (f64, Option<Wrong>) {
    let lens = layout.entries().iter().map(LayoutEntry::len);
    let norms = norms(found, &Tensor::cat(expected, 0), lens);
    let whole = whole(&norms);
    let floor = rounding.max(FLOOR * whole);
    let excess = |of: &Wrong| {
        let besides = allowed.get(of.entry).copied().unwrap_or(0.0);
        of.norms.difference - TOLERANCE * of.norms.expected - floor - besides
    };
    let all = norms.into_iter().enumerate();
    let worst = all
        .map(|(entry, norms)| Wrong { entry, norms })
        .filter(|of| excess(of) > 0.0 || excess(of).is_nan())
        .max_by(|a, b| excess(a).total_cmp(&excess(b)));
    (whole, worst.filter(|_| whole.is_finite()))
}
