//! The training loss at draws of a posterior beside that at its mean.

use std::any::Any;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Int, Tensor};
use burn::train::TrainStep;

use super::bayesian::Bayesian;
use super::trainer::BatchLoss;
use crate::error::Result;
use crate::likelihood::MixDraws;
use crate::methods::Algorithm;
use crate::posterior::{FactorPosterior, Posterior};
use crate::verdict::{LossAtDraws, add_classes, entropy};

/// Draws, and batches, that are evaluated.
const DRAWS: u64 = 4;
const BATCHES: usize = 4;

/// The losses of a few batches, with what the loss of epochs has risen since it was least; `None` for an algorithm that has not learned a posterior yet.
///
/// Every layer is frozen, as in inference, so that no running statistic changes.
pub(crate) fn loss_at_draws<M, A>(
    bayesian: &Bayesian<M, A>,
    batches: &mut dyn Iterator<Item = <M as TrainStep>::Input>,
    since_best_epoch: f64,
) -> Result<Option<LossAtDraws>>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws + BatchLoss>,
    A: Algorithm,
{
    if !bayesian.has_posterior() {
        return Ok(None);
    }
    let posterior = match bayesian.try_posterior() {
        Err(error) if error.is_too_early() => return Ok(None),
        posterior => posterior?,
    };
    let layout = bayesian.layout();
    let noise = bayesian.algorithm().setup().noise.for_prediction();
    let sampler = posterior.sampler()?;
    let frozen = bayesian.template().clone().freeze();
    let draws = (0..DRAWS).map(|draw| {
        let noise = noise.row(draw);
        // Components of a mixture have states of their own.
        let model = match posterior.shared_state() {
            Some(_) => frozen.clone(),
            None => posterior.state(noise)?.write(frozen.clone())?,
        };
        Ok(layout.write_leaves(model, sampler.draw(noise)?)?)
    });
    let mut models = draws.collect::<Result<Vec<_>>>()?;
    let gaussian = (&posterior as &dyn Any).downcast_ref::<FactorPosterior>();
    let mean = match gaussian {
        Some(gaussian) => gaussian.mean(),
        None => layout.flatten(&bayesian.last_model()?)?.without_autodiff(),
    };
    models.push(layout.write_leaves(frozen.clone(), mean)?);
    let mut sums = vec![0.0; models.len()];
    let (mut rows, mut classes) = (0, Some(Vec::new()));
    for batch in batches.take(BATCHES) {
        let mut counts = None;
        for (sum, model) in sums.iter_mut().zip(&models) {
            let output = TrainStep::step(model, batch.clone()).item;
            let loss = output.batch_loss().without_autodiff().into_scalar::<f64>();
            *sum += output.rows() as f64 * loss;
            counts.get_or_insert_with(|| (output.rows(), output.classes().and_then(indices)));
        }
        if let Some((count, found)) = counts {
            rows += count;
            classes = classes.zip(found).map(|(mut all, some)| {
                add_classes(&mut all, some);
                all
            });
        }
    }
    if rows == 0 {
        return Ok(None);
    }
    let losses: Vec<f64> = sums.iter().map(|sum| sum / rows as f64).collect();
    let (at_draws, at_mean) = losses.split_at(DRAWS as usize);
    let count = at_draws.len() as f64;
    let average = at_draws.iter().sum::<f64>() / count;
    let scatter: f64 = at_draws.iter().map(|loss| (loss - average).powi(2)).sum();
    Ok(Some(LossAtDraws {
        at_mean: at_mean[0],
        since_best_epoch,
        at_draws: average,
        draws: at_draws.len(),
        rows,
        standard_error: (scatter / (count - 1.0) / count).sqrt(),
        constant: classes.and_then(|classes| entropy(&classes)),
        train_len: bayesian.algorithm().setup().train_len,
        weights: layout.len(),
    }))
}

/// The numbers of the classes; `None` if one is below zero.
fn indices(classes: Tensor<1, Int>) -> Option<Vec<usize>> {
    let classes = classes.into_data();
    let classes = classes
        .iter::<i64>()
        .map(|class| usize::try_from(class).ok());
    classes.collect()
}
