//! How a training step gathers the gradient of every example's loss.

use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{TrainOutput, TrainStep};
use burn_bayes_core::Layout;
use burn_bayes_graph::{CapturedModel, ExampleBatch, ExampleGradients};
use burn_bayes_infer::{Draw, FromExamples};

use crate::bayesian::Bayesian;
use crate::error::Result;
use crate::finite::first_non_finite;
use crate::supply::{Gathered, Outside, Supply, no_draws, one_by_one, stopped};

/// A model that tells the loss of every example of a batch, as algorithms that learn from the
/// gradient of each ask.
///
/// # Laws
///
/// The mean of the losses is the loss whose gradients [`TrainStep::step`] returns, and an example's
/// loss does not depend on the others of its batch.
pub trait ExampleLoss: TrainStep {
    /// −log p(y | x, θ) of every example, `[rows]`, in nats.
    fn example_losses(&self, batch: Self::Input) -> Tensor<1>;

    /// What metrics see of the batch, whose examples have these losses, `[rows]`: by default the output
    /// of `step`, whose backward pass is for nothing here. Time is saved by the losses' mean and a
    /// forward pass of `self.clone().no_grad()`, and more by an output that needs no such pass.
    fn example_outputs(
        &self,
        batch: Self::Input,
        losses: Tensor<1>,
    ) -> <Self as TrainStep>::Output {
        let _ = losses;
        TrainStep::step(self, batch).item
    }
}

/// Every example's gradient at every proposed draw.
impl<M, A> Supply<M, A> for ExampleGradients
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch> + 'static,
    A: FromExamples,
{
    fn step(
        bayesian: &Bayesian<M, A>,
        item: <M as TrainStep>::Input,
    ) -> TrainOutput<<M as TrainStep>::Output> {
        let output = evaluate(bayesian, item.clone());
        output.unwrap_or_else(|error| stopped(bayesian, item, error))
    }

    fn stepped(algorithm: A, _model: &M, _step: u64) -> A {
        algorithm
    }
}

/// What is found out about a model once.
struct Recorded<M, B> {
    captured: CapturedModel<M, B>,
    /// Whether no trained parameter is outside the layout.
    is_everything: bool,
}

fn evaluate<M, A>(
    bayesian: &Bayesian<M, A>,
    item: <M as TrainStep>::Input,
) -> Result<TrainOutput<<M as TrainStep>::Output>>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch> + 'static,
    A: FromExamples,
{
    let (algorithm, layout) = (bayesian.algorithm(), bayesian.layout());
    let proposal = algorithm.propose(bayesian.clock().tick())?;
    let recorded = bayesian.recording(|| {
        let all = Layout::new(bayesian.template(), &ParamGroup::all());
        Recorded {
            captured: CapturedModel::new(layout.clone(), |model: &M, batch| {
                model.example_losses(batch)
            }),
            is_everything: all.is_ok_and(|all| all.len() == layout.len()),
        }
    });
    let Recorded {
        captured,
        is_everything,
    } = recorded.as_ref();
    let Gathered {
        evidence,
        mut outside,
        item,
    } = match (proposal.draws.as_slice(), is_everything) {
        ([], _) => return Err(no_draws()),
        (draws, true) => together(captured, bayesian.template(), draws, item)?,
        (draws, false) => {
            let evidence_of =
                |model: &M, _| Ok(captured.example_gradients(model, &item)?.gradients);
            let gathered = one_by_one(layout, bayesian.template(), draws, &item, evidence_of)?;
            Gathered {
                evidence: ExampleGradients::joined(gathered.evidence),
                outside: gathered.outside,
                item: gathered.item,
            }
        }
    };
    if let Some(path) = first_non_finite(bayesian.template(), &outside) {
        return Err(burn_bayes_infer::Error::non_finite(proposal.tick.step + 1, path).into());
    }
    let mut grads = algorithm.gradients(proposal, evidence)?;
    Outside::add(bayesian.template(), 1.0, &mut outside, &mut grads);
    Ok(TrainOutput { grads, item })
}

/// All that is trained is in the layout.
fn together<M: Module + ExampleLoss<Input: ExampleBatch>>(
    captured: &CapturedModel<M, M::Input>,
    model: &M,
    draws: &[Draw],
    item: M::Input,
) -> Result<Gathered<ExampleGradients, M::Output>> {
    let first = captured
        .layout()
        .write_leaves(model.clone(), draws[0].weights.clone())?;
    let evidence = match draws {
        [_] => captured.example_gradients(&first, &item)?,
        _ => {
            let weights: Vec<_> = draws.iter().map(|draw| draw.weights.clone()).collect();
            captured.example_gradients_at(model, &weights, &item)?
        }
    };
    let examples = evidence.losses.dims()[0] / draws.len();
    let losses = evidence.losses.narrow(0, 0, examples);
    Ok(Gathered {
        evidence: evidence.gradients,
        outside: GradientsParams::new(),
        item: first.example_outputs(item, losses),
    })
}
