//! Whether a model and data fit each other, before anything is trained.

use burn::module::Module;

use super::rows::Rows;
use super::{Inputs, Supervised, caught};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::likelihood::{Likelihood, Targets};

/// Rows that are evaluated at once.
const AT_ONCE: usize = 100;
/// How far from 1 the sum of a row of classes may be.
const ROUNDING: f64 = 1e-3;

/// # Errors
///
/// If a setting of the likelihood cannot be used, the network has another number of outputs than the targets need, or a target
/// is none that the likelihood has a probability of.
pub(super) fn check<M, X, Y>(model: &Supervised<M, X, Y>, rows: &Rows<(X, Y)>) -> Result<()>
where
    M: Module,
    X: Inputs,
    Y: Targets,
{
    let likelihood = &model.likelihood;
    likelihood.validate()?;
    if rows.count() == 0 {
        return Ok(());
    }
    let found = evaluated(model, rows)?;
    let targets = rows.all().1.columns(likelihood, found);
    let [_, width] = targets.dims();
    let refused = |problem: String| Err(Error::config("data", problem));
    if likelihood.classes(found) == Some(1) {
        return refused(format!(
            "does not fit the network, which has one output; {likelihood:?} needs one for each class, and `Bernoulli` one for a label"
        ));
    }
    if found != likelihood.outputs(width) {
        let form = match likelihood.classes(found) {
            Some(_) => "classes are integers, `Tensor<1, Int>`, or rows with a 1 for their class",
            None => "a row has as many targets as the network has means",
        };
        return refused(format!(
            "does not fit the network, which has {found} outputs; {likelihood:?} with {width} targets of a row needs {}: {form}",
            likelihood.outputs(width)
        ));
    }
    if let Likelihood::GaussianTargets { noise_precisions } = likelihood
        && noise_precisions.len() != width
    {
        let count = noise_precisions.len();
        return refused(format!(
            "has {width} targets of a row, but the likelihood has {count} noise precisions"
        ));
    }
    let problem_of = |row: &[f64]| {
        let outside = |is_possible: fn(f64) -> bool| row.iter().find(|value| !is_possible(**value));
        match likelihood {
            Likelihood::Categorical | Likelihood::Ordinal => {
                let sum: f64 = row.iter().sum();
                let is_class =
                    (sum - 1.0).abs() <= ROUNDING && row.iter().all(|share| *share >= 0.0);
                (!is_class).then(|| format!("is none of the classes 0 to {}", width - 1))
            }
            Likelihood::Bernoulli => outside(|label| (0.0..=1.0).contains(&label))
                .map(|label| format!("has the label {label}; labels are 0 or 1")),
            Likelihood::Poisson | Likelihood::NegativeBinomial => {
                outside(|count| count >= 0.0 && count.fract() == 0.0)
                    .map(|count| format!("has {count}, which is no count"))
            }
            _ => None,
        }
    };
    let values: Vec<f64> = to_host(targets);
    let mut problems = values.chunks(width.max(1)).map(problem_of).enumerate();
    match problems.find_map(|(row, problem)| Some((row, problem?))) {
        Some((row, problem)) => refused(format!("the target of row {row} (from 0) {problem}")),
        None => Ok(()),
    }
}

/// The number of outputs.
///
/// # Errors
///
/// If the network panics at a row, for example because of its shape, or an index that it has no embedding of.
fn evaluated<M, X, Y>(model: &Supervised<M, X, Y>, rows: &Rows<(X, Y)>) -> Result<usize>
where
    M: Module,
    X: Inputs,
    Y: Targets,
{
    let model = model.clone().train().valid();
    let outputs = |rows_at: &[usize]| {
        let (inputs, _) = rows.select(rows_at);
        // Values are computed when they are read.
        caught(|| Ok(to_host(model.forward(inputs)).len() / rows_at.len()))
    };
    let all: Vec<usize> = (0..rows.count()).collect();
    let mut found = 0;
    for rows in all.chunks(AT_ONCE) {
        found = outputs(rows).map_err(|error| {
            let row = rows.iter().find(|&&row| outputs(&[row]).is_err());
            match row {
                Some(row) => Error::config("data", format!("row {row} (from 0): {error}")),
                None => error,
            }
        })?;
    }
    Ok(found)
}
