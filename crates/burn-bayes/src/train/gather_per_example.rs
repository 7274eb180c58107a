//! Computes per-example gradients in a training step.

use std::sync::{Arc, OnceLock};

use burn::module::{Module, ModuleDisplay};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{TrainOutput, TrainStep};
use burn_bayes_graph::{CapturedModel, ExampleBatch, ExampleGradients, ExampleLosses, Layout};

use super::batched_training::BatchedTraining;
use super::bayesian::Bayesian;
use super::compiled::StepOf;
use super::draws::{Gathered, no_draws, one_by_one, stacked};
use super::example_loss::ExampleLoss;
use super::gather::{Gather, finished, stopped};
use crate::error::{Error, Result};
use crate::likelihood::MixDraws;
use crate::methods::{Algorithm, Draw, FromExamples, Proposal, Stage};
use crate::predict::{moves_statistics, training_flags};
use crate::train::own_loss::{self, Nudge};

/// Per-example gradients at every proposed draw.
impl<M, A> Gather<M, A> for ExampleGradients
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch, Output: MixDraws> + 'static,
    A: FromExamples,
{
    fn step(
        bayesian: &Bayesian<M, A>,
        item: <M as TrainStep>::Input,
    ) -> TrainOutput<<M as TrainStep>::Output> {
        let output = evaluate(bayesian, item.clone());
        output.unwrap_or_else(|error| stopped(bayesian, item, error))
    }

    fn compiled(bayesian: &Bayesian<M, A>) -> Option<StepOf<Bayesian<M, A>, M::Input>> {
        if bayesian.moves_statistics() {
            // Gradients of single examples have no meaning with statistics of the batch.
            return None;
        }
        let recorded = recorded(bayesian);
        bayesian.compiled_steps(move |bayesian, steps, item| {
            let template = steps.template();
            let (algorithm, terms) = (bayesian.algorithm(), bayesian.model_terms());
            let proposal = algorithm.propose(bayesian.clock().first_pass())?;
            let proposal = terms.add_function(template.model(), proposal)?;
            let check = bayesian.self_check();
            if matches!(algorithm.stage(), Stage::Mean | Stage::Scale) {
                let draws = stacked(&proposal.draws);
                let Some(found) = recorded.mean.gradients(template, draws, item, check)? else {
                    return Ok(None);
                };
                check.gathered();
                let [_, rows] = found.losses.dims();
                let update = algorithm.stage_step(&proposal, found.pieces, rows);
                return bayesian.step_gradients(update.ok_or_else(no_stage_step)??, found.losses);
            }
            let proposal = terms.add_curvature(template.model(), item, proposal)?;
            let weights = proposal.draws.iter().map(|draw| draw.weights.clone());
            let weights: Vec<_> = weights.collect();
            let all = recorded
                .captured
                .example_gradients_of(template, &weights, item)?;
            check.gathered();
            let losses = all.losses.reshape([weights.len() as i32, -1]);
            bayesian.step_gradients(algorithm.step(proposal, all.gradients)?, losses)
        })
    }

    fn after_step(algorithm: A, _model: &M, _step: u64) -> A {
        algorithm
    }
}

/// The recordings of a model and properties that are determined once.
struct Recorded<M: Module + TrainStep> {
    captured: CapturedModel<M, M::Input>,
    /// The mean loss, for stages that need no gradients of single examples.
    mean: Arc<BatchedTraining<M>>,
    statistics_from: OnceLock<StatisticsFrom>,
}

fn evaluate<M, A>(
    bayesian: &Bayesian<M, A>,
    item: <M as TrainStep>::Input,
) -> Result<TrainOutput<<M as TrainStep>::Output>>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch, Output: MixDraws> + 'static,
    A: FromExamples,
{
    let (algorithm, layout) = (bayesian.algorithm(), bayesian.layout());
    let (model, check) = (bayesian.model_of_step(), bayesian.self_check());
    let model = &*model;
    let has_batch_norm = has_batch_norm_alone(model)?;
    bayesian.clock().check_record()?;
    let proposal = algorithm.propose(bayesian.clock().next_pass())?;
    let proposal = bayesian.model_terms().add_function(model, proposal)?;
    let recorded = recorded(bayesian);
    let mut is_due = check.is_loss_due();
    if matches!(algorithm.stage(), Stage::Mean | Stage::Scale) {
        if is_due {
            let first = layout.write_leaves(model.clone(), proposal.draws[0].weights.clone())?;
            let gather = || Ok(recorded.captured.example_gradients(&first, &item)?);
            compared(layout, &first, &proposal.draws[..1], &item, gather)?;
        }
        return of_means(bayesian, &recorded, model, proposal, item);
    }
    let proposal = bayesian
        .model_terms()
        .add_curvature(model, &item, proposal)?;
    let Gathered {
        signal,
        outside,
        item,
    } = match (proposal.draws.as_slice(), bayesian.is_everything()) {
        ([], _) => return Err(no_draws()),
        (draws, true) => {
            let first = layout.write_leaves(model.clone(), draws[0].weights.clone())?;
            let gather = || together(&recorded.captured, model, &first, draws, &item);
            let all = match is_due {
                true => compared(layout, &first, draws, &item, gather)?,
                false => gather()?,
            };
            let losses = all.losses.narrow(0, 0, all.gradients.count() / draws.len());
            if has_batch_norm {
                recorded.move_statistics(&first, &item, &losses);
            }
            Gathered {
                signal: all.gradients,
                outside: GradientsParams::new(),
                item: first.example_outputs(item, losses),
            }
        }
        (draws, false) => {
            let signal_of = |model: &M, _| {
                let gather = || Ok(recorded.captured.example_gradients(model, &item)?);
                let all = match std::mem::take(&mut is_due) {
                    true => compared(layout, model, &draws[..1], &item, gather)?,
                    false => gather()?,
                };
                Ok(all.gradients)
            };
            let gathered = one_by_one(layout, model, draws, &item, signal_of)?;
            Gathered {
                signal: ExampleGradients::joined(gathered.signal),
                outside: gathered.outside,
                item: gathered.item,
            }
        }
    };
    check.gathered();
    finished(bayesian, proposal.id, outside, item, |_| {
        algorithm.step(proposal, signal)
    })
}

fn recorded<M, A>(bayesian: &Bayesian<M, A>) -> Arc<Recorded<M>>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch> + 'static,
    A: Algorithm,
{
    bayesian.example_losses(|| {
        let layout = bayesian.layout();
        let losses = |model: &M, batch| model.example_losses(batch);
        let captured = CapturedModel::new(layout.clone(), losses);
        Recorded {
            captured: match bayesian.self_check().is_on() {
                true => captured,
                false => captured.without_self_check(),
            },
            mean: bayesian
                .mean_loss()
                .get(|| BatchedTraining::new(layout.clone(), false)),
            statistics_from: OnceLock::new(),
        }
    })
}

/// A step of a stage that needs no gradients of single examples: from the recorded mean loss, or by the model's own step
/// at every draw if it has batch norm.
fn of_means<M, A>(
    bayesian: &Bayesian<M, A>,
    recorded: &Recorded<M>,
    model: &M,
    proposal: Proposal,
    item: <M as TrainStep>::Input,
) -> Result<TrainOutput<<M as TrainStep>::Output>>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch, Output: MixDraws> + 'static,
    A: FromExamples,
{
    let (layout, draws) = (bayesian.layout(), &proposal.draws);
    let Gathered {
        signal,
        outside,
        item,
    } = match recorded
        .mean
        .gathered(model, draws, &item, bayesian.self_check())?
    {
        Some(gathered) => gathered,
        None => {
            bayesian.self_check().gathered();
            one_by_one(layout, model, draws, &item, |_, pieces| Ok(pieces))?
        }
    };
    finished(bayesian, proposal.id, outside, item, |item| {
        let update = bayesian
            .algorithm()
            .stage_step(&proposal, signal, item.rows());
        update.ok_or_else(no_stage_step)?
    })
}

fn no_stage_step() -> Error {
    Error::config("stage", "has no step of its own")
}

/// Whether batch norm is in training mode. Fails if another layer is active that does nothing in
/// inference.
fn has_batch_norm_alone<M: Module>(model: &M) -> Result<bool> {
    let mut flags = training_flags(model);
    flags.retain(|flag| flag.is_on);
    let Some(layer) = flags.iter().find(|flag| !flag.is_batch_norm()) else {
        return Ok(!flags.is_empty());
    };
    let problem = format!(
        "behaves differently in training and inference, and per-example gradients are computed in \
         inference mode, in which the layer has no effect; {}, or use an algorithm that learns \
         from mean gradients, such as VIFA, VON or Vadam",
        layer.cure()
    );
    Err(Error::config(layer.to_string(), problem))
}

/// The gradients at all draws, for a model whose trained parameters are all in the layout.
fn together<M: Module + ExampleLoss<Input: ExampleBatch>>(
    captured: &CapturedModel<M, M::Input>,
    model: &M,
    first: &M,
    draws: &[Draw],
    item: &M::Input,
) -> Result<ExampleLosses> {
    Ok(match draws {
        [_] => captured.example_gradients(first, item)?,
        _ => {
            let weights: Vec<_> = draws.iter().map(|draw| draw.weights.clone()).collect();
            captured.example_gradients_at(model, &weights, item)?
        }
    })
}

/// The result of `gather` at these draws. Fails if the mean gradient at the first draw differs from
/// the gradient of the model's own step.
fn compared<M: Module + TrainStep<Input: Clone>>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    item: &M::Input,
    gather: impl FnOnce() -> Result<ExampleLosses>,
) -> Result<ExampleLosses> {
    let weights = &draws[0].weights;
    let own = |weights| own_loss::of_frozen_step(layout, model, weights, item.clone());
    // Recording updates the running statistics, so both gradients must use the updated ones.
    drop(model.valid());
    let expected = own(weights.clone())?;
    let all = gather()?;
    let mean = all.gradients.split(draws.len()).swap_remove(0).mean();
    let again = |nudge: Nudge| own(nudge.of(weights));
    own_loss::compare(own_loss::inside(layout, &mean), &expected, again)?;
    Ok(all)
}

/// The pass that updates batch norm's running statistics in a training step. Per-example gradients
/// do not update them, because the recording is replayed in inference mode.
#[derive(Clone, Copy, Debug)]
enum StatisticsFrom {
    /// The pass of `example_outputs`.
    Outputs,
    Losses,
    Step,
    /// No pass updates them yet.
    Nothing,
}

impl<M: Module + ExampleLoss<Input: Clone>> Recorded<M> {
    /// Makes a forward pass in training mode to update the running statistics, unless
    /// `example_outputs` makes one.
    fn move_statistics(&self, model: &M, item: &M::Input, losses: &Tensor<1>) {
        let by_outputs = |model: &M| drop(model.example_outputs(item.clone(), losses.clone()));
        let by_losses = |model: &M| drop(model.clone().no_grad().example_losses(item.clone()));
        let by_step = |model: &M| drop(TrainStep::step(model, item.clone()));
        let from = self.statistics_from.get_or_init(|| {
            if moves_statistics(model, by_outputs) {
                StatisticsFrom::Outputs
            } else if moves_statistics(model, by_losses) {
                StatisticsFrom::Losses
            } else if moves_statistics(model, by_step) {
                StatisticsFrom::Step
            } else {
                StatisticsFrom::Nothing
            }
        });
        match from {
            StatisticsFrom::Outputs | StatisticsFrom::Nothing => {}
            StatisticsFrom::Losses => by_losses(model),
            StatisticsFrom::Step => by_step(model),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use burn::train::RegressionOutput;

    use super::*;

    /// A model whose step is that of its losses, with outputs of its own or the default.
    #[derive(Module, Debug)]
    struct Line<const HAS_OUTPUTS: bool> {
        layer: Linear,
    }

    type Batch = (Tensor<2>, Tensor<2>);

    impl<const HAS_OUTPUTS: bool> Line<HAS_OUTPUTS> {
        fn new() -> Self {
            let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
            Self { layer }
        }

        fn batch(&self) -> Batch {
            let device = Device::default().autodiff();
            let inputs = Tensor::from_data([[1.0, 2.0], [-1.0, 0.5]], &device);
            (inputs, Tensor::from_data([[1.0], [3.0]], &device))
        }
    }

    impl<const HAS_OUTPUTS: bool> ExampleLoss for Line<HAS_OUTPUTS> {
        fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
            let error = self.layer.forward(inputs) - targets;
            error.square().squeeze_dim(1)
        }

        fn example_outputs(&self, batch: Batch, losses: Tensor<1>) -> RegressionOutput {
            match HAS_OUTPUTS {
                true => RegressionOutput::new(losses.mean(), self.layer.forward(batch.0), batch.1),
                false => TrainStep::step(self, batch).item,
            }
        }
    }

    impl<const HAS_OUTPUTS: bool> TrainStep for Line<HAS_OUTPUTS> {
        type Input = Batch;
        type Output = RegressionOutput;

        fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
            self.mean_loss_step(batch)
        }
    }

    #[test]
    fn a_step_of_losses_has_the_gradients_of_their_mean() {
        let line = Line::<true>::new();
        let (inputs, targets) = line.batch();
        let error = line.layer.forward(inputs) - targets;
        let loss = error.square().mean();
        let expected = loss.clone().into_scalar::<f32>();
        let mut gradients = GradientsParams::from_grads(loss.backward(), &line);
        let mut step = TrainStep::step(&line, line.batch());
        assert_eq!(step.item.loss.into_scalar::<f32>(), expected);
        let of = |gradients: &mut GradientsParams| {
            let gradient = gradients.remove::<2>(line.layer.weight.id).unwrap();
            gradient.into_data().try_into_vec::<f32>().unwrap()
        };
        assert_eq!(of(&mut step.grads), of(&mut gradients));
    }

    #[test]
    #[should_panic(expected = "`ExampleLoss::example_outputs` must be implemented")]
    fn a_step_of_losses_needs_outputs_that_call_no_step() {
        let line = Line::<false>::new();
        TrainStep::step(&line, line.batch());
    }
}
