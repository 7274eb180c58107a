//! Compares what a recording gives with the loss as it stands: a net under everything that a recording
//! does not show.
//!
//! At the first batches of every shape, and again later when the weights have moved, the losses, their mean
//! gradient and the gradients of two examples are computed by ordinary autodiff as well.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_core::Layout;

use crate::batch::ExampleBatch;
use crate::captured::ExampleLosses;
use crate::error::{Kind, Result};
use crate::looped::{Direct, dependent};

/// The largest difference of two values that should agree, relative to the largest of their kind. Rounding
/// of single precision leaves 1e-6 to 1e-4; what is wrong is off by much more.
const TOLERANCE: f64 = 1e-2;

/// What a parameter's gradient may be off by whatever its size, relative to the gradient of all parameters:
/// what is left of large numbers that cancel is rounding.
const FLOOR: f64 = 1e-4;

/// Examples whose loss is computed alone.
const ALONE: usize = 8;

/// Whether the recording is compared at its use of this number, counted from 1: at the first few, because
/// what a batch hides is another each time.
pub(crate) fn is_due(time: u64) -> bool {
    matches!(time, 1..=4 | 100) || time.is_multiple_of(1000)
}

/// What was found for the examples of a batch.
pub(crate) struct Found<'a> {
    /// Those of one or more draws.
    pub(crate) all: &'a ExampleLosses,
    /// The first example of the draw that is compared.
    pub(crate) first: usize,
    pub(crate) examples: usize,
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
    } = found;
    if examples < 2 {
        return Ok(());
    }
    let whole = direct.whole()?;
    let expected = values(&whole.losses);
    let one = (7 * time as usize + examples / 2) % examples;
    let chosen = [one, (one + examples / 2) % examples];
    let mut alone = BTreeMap::new();
    let mut rows = vec![Tensor::cat(whole.pieces, 0).div_scalar(examples as f64)];
    for example in chosen {
        let single = direct.single(example)?;
        alone.insert(example, values(&single.losses)[0]);
        rows.push(Tensor::cat(single.pieces, 0));
    }
    for example in (0..examples)
        .map(|next| (one + next) % examples)
        .take(ALONE)
    {
        if let Entry::Vacant(unknown) = alone.entry(example) {
            unknown.insert(values(&direct.single_loss(example)?)[0]);
        }
    }
    check_independence::<B>(&alone, &expected, examples)?;
    let losses = all.losses.clone().narrow(0, first, examples);
    check_losses(&values(&losses), &expected)?;

    let [kinds, count] = [rows.len(), all.gradients.count()];
    let expected: Tensor<2> = Tensor::stack(rows, 0);
    let mut weights = vec![0.0_f32; kinds * count];
    weights[first..first + examples].fill(1.0 / examples as f32);
    for (row, example) in chosen.iter().enumerate() {
        weights[(row + 1) * count + first + example] = 1.0;
    }
    let weights: Tensor<1> = Tensor::from_data(&*weights, &expected.device());
    let rows = all.gradients.weighted_sums(weights.reshape([kinds, count]));
    let Some(difference) = first_difference(layout, &rows, &expected) else {
        return Ok(());
    };
    if difference.row > 0 {
        // A kink of the loss may lie within the rounding between one example and many.
        let example = chosen[difference.row - 1];
        let alike = Tensor::cat(direct.one_of_whole(example)?.pieces, 0).unsqueeze();
        let row = rows.narrow(0, difference.row, 1);
        if first_difference(layout, &row, &alike).is_none() {
            return Ok(());
        }
    }
    Err(difference.into_kind(layout).into())
}

/// Fails if examples have another loss alone than in their batch, where there must be one for each.
pub(crate) fn check_independence<B>(
    alone: &BTreeMap<usize, f64>,
    together: &[f64],
    examples: usize,
) -> Result<()> {
    if together.len() != examples {
        return Err(Kind::Batch(format!(
            "the loss gives {} values for {examples} examples; it must give one for each",
            together.len()
        ))
        .into());
    }
    for (&example, &alone) in alone {
        if differs(&[alone], &together[example..=example], together) {
            let problem = format!(
                "alone, it is {alone}, and in its batch {}",
                together[example]
            );
            return Err(dependent::<B>(example, problem).into());
        }
    }
    Ok(())
}

/// Compares a mean gradient, in pieces, and the losses behind it with the loss itself.
pub(crate) fn check_mean<M: Module, B: ExampleBatch, F: Fn(&M, B) -> Tensor<1> + ?Sized>(
    direct: &Direct<'_, M, B, F>,
    layout: &Layout,
    losses: Tensor<1>,
    pieces: &[Tensor<1>],
) -> Result<()> {
    let whole = direct.whole()?;
    let examples = whole.losses.dims()[0] as f64;
    check_losses(&values(&losses), &values(&whole.losses))?;
    let expected = Tensor::cat(whole.pieces, 0).div_scalar(examples);
    let found = Tensor::cat(pieces.to_vec(), 0);
    match first_difference(layout, &found.unsqueeze(), &expected.unsqueeze()) {
        Some(difference) => Err(difference.into_kind(layout).into()),
        None => Ok(()),
    }
}

/// Compares outputs of a recording with the model's own.
pub(crate) fn check_outputs(found: Tensor<2>, expected: Tensor<2>) -> Result<()> {
    let (found, expected) = (values(&found), values(&expected));
    if differs(&found, &expected, &expected) {
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
    if differs(found, expected, expected) {
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
fn differs(found: &[f64], expected: &[f64], all: &[f64]) -> bool {
    let is_finite = expected.iter().all(|value| value.is_finite());
    let off = largest_difference(found, expected);
    let is_close = found.len() == expected.len() && off <= TOLERANCE * largest(all);
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

fn largest(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| largest.max(value.abs()))
}

/// A parameter whose gradient is wrong.
struct Difference {
    row: usize,
    entry: usize,
    difference: f64,
    size: f64,
}

impl Difference {
    fn into_kind(self, layout: &Layout) -> Kind {
        let path = &layout.entries()[self.entry].path;
        let of = if self.row == 0 {
            "the mean gradient"
        } else {
            "an example's gradient"
        };
        Kind::Mismatch {
            what: format!("{of} of `{path}`"),
            difference: self.difference,
            size: self.size,
        }
    }
}

/// The worst parameter of a row of gradients `[R, D]` that is off by more than rounding explains.
fn first_difference(
    layout: &Layout,
    found: &Tensor<2>,
    expected: &Tensor<2>,
) -> Option<Difference> {
    let differences = norms(layout, &(found.clone() - expected.clone()));
    let sizes = norms(layout, expected);
    if sizes.iter().flatten().any(|size| !size.is_finite()) {
        return None;
    }
    let whole = |row: &Vec<f64>| row.iter().map(|norm| norm * norm).sum::<f64>().sqrt();
    let floor = FLOOR * sizes.iter().map(whole).fold(0.0, f64::max);
    for (row, (differences, sizes)) in differences.iter().zip(&sizes).enumerate() {
        let excess = |&entry: &usize| differences[entry] - TOLERANCE * sizes[entry] - floor;
        let wrong = (0..sizes.len()).filter(|entry| excess(entry) > 0.0 || excess(entry).is_nan());
        if let Some(entry) = wrong.max_by(|a, b| excess(a).total_cmp(&excess(b))) {
            return Some(Difference {
                row,
                entry,
                difference: differences[entry],
                size: sizes[entry],
            });
        }
    }
    None
}

/// The norm of each parameter's part of every row.
fn norms(layout: &Layout, rows: &Tensor<2>) -> Vec<Vec<f64>> {
    let entries = layout.entries();
    let squares = entries.iter().map(|entry| {
        let part = rows.clone().narrow(1, entry.offset, entry.len());
        part.square().sum_dim(1)
    });
    let squares = values(&Tensor::cat(squares.collect(), 1));
    let rows = squares.chunks(entries.len());
    rows.map(|row| row.iter().map(|square| square.sqrt()).collect())
        .collect()
}

pub(crate) fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}
