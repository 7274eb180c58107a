//! Compares what a recording gives with the loss as it stands: a net under everything that a recording
//! does not show.
//!
//! At the first batch of every shape, and again later when the weights have moved, the losses, their mean
//! gradient and the gradients of two examples are computed by ordinary autodiff as well; at the next three
//! batches the losses.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_core::Layout;

use crate::batch::ExampleBatch;
use crate::captured::ExampleLosses;
use crate::error::{Kind, Result};
use crate::looped::Direct;

/// The largest difference of two values that should agree, relative to the largest of their kind. Rounding
/// of single precision leaves 1e-6 to 1e-4; what is wrong is off by much more.
const TOLERANCE: f64 = 1e-2;

/// What a parameter's gradient may be off by whatever its size, relative to the gradient of all parameters:
/// what is left of large numbers that cancel is rounding.
const FLOOR: f64 = 1e-4;

/// Examples whose loss is computed alone.
const ALONE: usize = 8;

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
        return check_losses(&losses, &values(&direct.whole_losses()));
    }
    let one = (7 * time as usize + examples / 2) % examples;
    let chosen = [one, (one + examples / 2) % examples];
    let mut alone = BTreeMap::new();
    let mut wrong = None;
    let mut scale = 0.0_f64;
    for example in chosen {
        let single = direct.single(example)?;
        alone.insert(example, values(&single.losses)[0]);
        let row = all.gradients.weighted_sum(&[(first + example, 1.0)]);
        let (size, difference) = compared(layout, &row, &single.pieces, 0.0);
        scale = scale.max(size);
        if let Some(difference) = difference {
            // A kink of the loss may lie within the rounding between one example and many.
            let alike = direct.one_of_whole(example)?.pieces;
            if compared(layout, &row, &alike, 0.0).1.is_some() {
                wrong = wrong.or(Some(difference.into_kind(layout, "an example's gradient")));
            }
        }
    }
    for example in (0..examples)
        .map(|next| (one + next) % examples)
        .take(ALONE)
    {
        if let Entry::Vacant(unknown) = alone.entry(example) {
            unknown.insert(values(&direct.single_loss(example)?)[0]);
        }
    }
    let whole = direct.whole()?;
    let expected = values(&whole.losses);
    check_count(&expected, examples)?;
    for (example, alone) in alone {
        direct.check_alone(example, alone, &expected)?;
    }
    check_losses(&losses, &expected)?;
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    let share = 1.0 / examples as f32;
    let shares: Vec<_> = (first..first + examples)
        .map(|example| (example, share))
        .collect();
    let mean = all.gradients.weighted_sum(&shares);
    check_mean_gradient(layout, &mean, whole.pieces, examples, scale)
}

/// Fails unless there is one loss for each example.
pub(crate) fn check_count(losses: &[f64], examples: usize) -> Result<()> {
    if losses.len() == examples {
        return Ok(());
    }
    Err(Kind::Batch(format!(
        "the loss gives {} values for {examples} examples; it must give one for each",
        losses.len()
    ))
    .into())
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
        return check_losses(&values(&losses), &values(&direct.whole_losses()));
    }
    let whole = direct.whole()?;
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
    let expected: Vec<_> = sums.into_iter().map(|sum| sum.mul_scalar(share)).collect();
    match compared(layout, found, &expected, scale).1 {
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

fn largest_difference(found: &[f64], expected: &[f64]) -> f64 {
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // A difference that is no number stays one.
    differences.fold(
        0.0,
        |largest, value| if value <= largest { largest } else { value },
    )
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| largest.max(value.abs()))
}

/// A parameter whose gradient is wrong.
struct Difference {
    entry: usize,
    difference: f64,
    size: f64,
}

impl Difference {
    fn into_kind(self, layout: &Layout, of: &str) -> Kind {
        let path = &layout.entries()[self.entry].path;
        Kind::Mismatch {
            what: format!("{of} of `{path}`"),
            difference: self.difference,
            size: self.size,
        }
    }
}

/// The size of a gradient, and the parameter that is off by the most of what rounding does not explain.
/// Gradients in the same place are as large as `scale`.
fn compared(
    layout: &Layout,
    found: &Tensor<1>,
    expected: &[Tensor<1>],
    scale: f64,
) -> (f64, Option<Difference>) {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let entries = layout.entries().iter().zip(expected).enumerate();
    let differences: Vec<_> = entries
        .map(|(number, (entry, expected))| {
            let found = found.clone().narrow(0, entry.offset, entry.len()).to_data();
            let expected = expected.to_data();
            let pairs = found.iter::<f64>().zip(expected.iter::<f64>());
            Difference {
                entry: number,
                difference: norm(&mut pairs.map(|(found, expected)| found - expected)),
                size: norm(&mut expected.iter()),
            }
        })
        .collect();
    let squares = differences.iter().map(|difference| difference.size.powi(2));
    let whole = squares.sum::<f64>().sqrt();
    let floor = FLOOR * scale.max(whole);
    let excess = |d: &Difference| d.difference - TOLERANCE * d.size - floor;
    let is_wrong = |d: &Difference| excess(d) > 0.0 || excess(d).is_nan();
    let wrong = differences.into_iter().filter(is_wrong);
    let worst = wrong.max_by(|a, b| excess(a).total_cmp(&excess(b)));
    (whole, worst.filter(|_| whole.is_finite()))
}

pub(crate) fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}
