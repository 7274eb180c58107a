//! Computes the signal that an algorithm learns from in a training step.

use burn::module::{Module, ModuleDisplay};
use burn::optim::GradientsParams;
use burn::train::{TrainOutput, TrainStep};

use super::batched_training::{BatchedTraining, Evaluated, first};
use super::bayesian::Bayesian;
use super::compiled::StepOf;
use super::draws::{Gathered, Outside, at, stacked, with_statistics};
use super::gradient_check::first_non_finite;
use crate::error::{Error, Result};
use crate::likelihood::MixDraws;
use crate::methods::{
    Algorithm, FromGradients, FromIterates, GradientPieces, Iterates, StepId, Update,
};

/// A signal that a training step can compute for an algorithm. Sealed: the signals are those of this library.
pub trait Gather<M: Module + TrainStep, A: Algorithm>: sealed::Sealed + Sized {
    /// Whether the optimiser trains the weights of the model itself.
    const TRAINS_MODEL: bool = false;

    /// Computes the signal from a mini-batch. The gradients have the ids of the trained parameters.
    fn step(
        bayesian: &Bayesian<M, A>,
        item: <M as TrainStep>::Input,
    ) -> TrainOutput<<M as TrainStep>::Output>;

    /// Computes the same signal for a model that only its optimiser changes, without the model's own step and without an
    /// output. `None` if these are needed.
    fn compiled(bayesian: &Bayesian<M, A>) -> Option<StepOf<Bayesian<M, A>, M::Input>>;

    /// Called after optimiser step number `step` (from 1).
    fn after_step(algorithm: A, model: &M, step: u64) -> A;
}

mod sealed {
    use burn_bayes_graph::ExampleGradients;

    use crate::methods::{GradientPieces, Iterates};

    pub trait Sealed {}

    impl Sealed for GradientPieces {}
    impl Sealed for Iterates {}
    impl Sealed for ExampleGradients {}
}

/// Runs the user's own step at every proposed draw, on a copy of the model whose weights are
/// leaves, or evaluates all draws [in one pass](Bayesian::with_batched_draws).
impl<M, A> Gather<M, A> for GradientPieces
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws> + 'static,
    A: FromGradients,
{
    fn step(
        bayesian: &Bayesian<M, A>,
        item: <M as TrainStep>::Input,
    ) -> TrainOutput<<M as TrainStep>::Output> {
        let output = evaluate(bayesian, item.clone());
        output.unwrap_or_else(|error| stopped(bayesian, item, error))
    }

    fn compiled(bayesian: &Bayesian<M, A>) -> Option<StepOf<Bayesian<M, A>, M::Input>> {
        let batched = bayesian.mean_loss().known::<BatchedTraining<M>>()?;
        bayesian.compiled_steps(move |bayesian, steps, item| {
            let template = steps.template();
            let (algorithm, terms) = (bayesian.algorithm(), bayesian.model_terms());
            let proposal = algorithm.propose(bayesian.clock().first_pass())?;
            let proposal = terms.add_function(template.model(), proposal)?;
            let proposal = terms.add_curvature(template.model(), item, proposal)?;
            let check = bayesian.self_check();
            if steps.has_batch_norm() && proposal.statistics.is_some() {
                return Ok(None);
            }
            let weights = stacked(&proposal.draws);
            let (model, check) = (bayesian.template(), (check, check.is_likelihood_due()));
            let Some(Evaluated { found, own }) =
                steps.gradients(&batched, model, weights, item, check)?
            else {
                return Ok(None);
            };
            bayesian.check_own(own.as_ref())?;
            bayesian.self_check().gathered();
            let [_, rows] = found.losses.dims();
            let update = algorithm.step(proposal, found.pieces, rows)?;
            bayesian.step_gradients(update, found.losses)
        })
    }

    fn after_step(algorithm: A, model: &M, step: u64) -> A {
        with_state(algorithm.after_step(step), model, step)
    }
}

/// Gives the algorithm the state of the model that belongs to a sample after this step, if it takes one.
fn with_state<M: Module, A: Algorithm>(algorithm: A, model: &M, step: u64) -> A {
    let Some(layout) = algorithm.wants_state(step) else {
        return algorithm;
    };
    // `valid` applies pending updates of running statistics.
    let state = layout
        .flatten(&model.valid())
        .expect("the layout was made for this model");
    algorithm.observe_state(step, state)
}

/// Stops the training. The returned output has no gradients, so no parameter changes.
pub(crate) fn stopped<M, A>(
    bayesian: &Bayesian<M, A>,
    item: <M as TrainStep>::Input,
    error: Error,
) -> TrainOutput<<M as TrainStep>::Output>
where
    M: Module + ModuleDisplay + TrainStep,
    A: Algorithm,
{
    bayesian.stop(error);
    let TrainOutput { item, .. } = TrainStep::step(bayesian.template(), item);
    TrainOutput {
        grads: GradientsParams::new(),
        item,
    }
}

fn evaluate<M, A>(
    bayesian: &Bayesian<M, A>,
    item: <M as TrainStep>::Input,
) -> Result<TrainOutput<<M as TrainStep>::Output>>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws> + 'static,
    A: FromGradients,
{
    let algorithm = bayesian.algorithm();
    bayesian.clock().check_record()?;
    let proposal = algorithm.propose(bayesian.clock().next_pass())?;
    let model = bayesian.model_of_step();
    let model = &*model;
    let terms = bayesian.model_terms();
    let proposal = terms.add_function(model, proposal)?;
    let proposal = terms.add_curvature(model, &item, proposal)?;
    let draws = &proposal.draws;
    let mut together = None;
    if let Some(batched) = bayesian.mean_loss().known::<BatchedTraining<M>>() {
        together = batched.gathered(model, draws, &item, bayesian.self_check())?;
        if together.is_none() {
            batched.warn_about_layers(model);
        }
    }
    let Gathered {
        signal,
        outside,
        item,
    } = match together {
        Some(gathered) => gathered,
        None => {
            let statistics = proposal.statistics.as_ref();
            let layout = bayesian.layout();
            with_statistics(layout, model, draws, statistics, &item, |_, pieces| {
                Ok(pieces)
            })?
        }
    };
    finished(bayesian, proposal.id, outside, item, |item| {
        algorithm.step(proposal, signal, item.rows())
    })
}

/// The output of a step: the gradients of an algorithm's update, and those of parameters outside the layout.
pub(crate) fn finished<M, A, O>(
    bayesian: &Bayesian<M, A>,
    id: StepId,
    mut outside: GradientsParams,
    item: O,
    update: impl FnOnce(&O) -> Result<Update<A::ClosedForm>>,
) -> Result<TrainOutput<O>>
where
    M: Module + ModuleDisplay,
    A: Algorithm,
{
    let model = bayesian.template();
    if let Some(path) = first_non_finite(model, &outside) {
        return Err(Error::non_finite(id.step + 1, path));
    }
    let mut grads = bayesian.gradients_of(update(&item)?)?;
    Outside::add(model, 1.0, &mut outside, &mut grads);
    Ok(TrainOutput { grads, item })
}

/// Runs the user's own step on the current model, or evaluates its recorded loss.
impl<M, A> Gather<M, A> for Iterates
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone> + 'static,
    A: FromIterates,
{
    const TRAINS_MODEL: bool = true;

    fn step(
        bayesian: &Bayesian<M, A>,
        item: <M as TrainStep>::Input,
    ) -> TrainOutput<<M as TrainStep>::Output> {
        if let Err(error) = bayesian.clock().check_record() {
            return stopped(bayesian, item, error);
        }
        let model = bayesian.model_of_step();
        let output = match recorded(bayesian, &model, &item) {
            Ok(Some(output)) => output,
            Ok(None) => TrainStep::step(&*model, item),
            Err(error) => return stopped(bayesian, item, error),
        };
        if let Some(path) = first_non_finite(bayesian.template(), &output.grads) {
            let step = bayesian.steps() + 1;
            bayesian.stop(Error::non_finite(step, path));
        }
        output
    }

    fn compiled(bayesian: &Bayesian<M, A>) -> Option<StepOf<Bayesian<M, A>, M::Input>> {
        let batched = bayesian.mean_loss().known::<BatchedTraining<M>>()?;
        bayesian.compiled_steps(move |bayesian, steps, item| {
            let (model, check) = (bayesian.template(), bayesian.self_check());
            let needs = (check, check.is_likelihood_due());
            let found = steps.own_gradients(&batched, model, item, needs)?;
            let Some((gradients, Evaluated { found, own })) = found else {
                return Ok(None);
            };
            bayesian.check_own(own.as_ref())?;
            check.gathered();
            if let Some(path) = first_non_finite(model, &gradients) {
                return Err(Error::non_finite(bayesian.steps() + 1, path));
            }
            Ok(Some(bayesian.counted(gradients, found.losses)))
        })
    }

    fn after_step(algorithm: A, model: &M, step: u64) -> A {
        if !algorithm.wants(step) {
            return algorithm;
        }
        let weights = algorithm
            .setup()
            .layout
            .flatten(model)
            .expect("the layout was checked against this model when the two were joined");
        with_state(algorithm.observe(step, weights), model, step)
    }
}

/// What the recorded loss gives instead of the model's own step, if there is one.
fn recorded<M, A>(
    bayesian: &Bayesian<M, A>,
    model: &M,
    item: &<M as TrainStep>::Input,
) -> Result<Option<TrainOutput<<M as TrainStep>::Output>>>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone> + 'static,
    A: Algorithm,
{
    let (layout, check) = (bayesian.layout(), bayesian.self_check());
    let Some(batched) = bayesian.mean_loss().known::<BatchedTraining<M>>() else {
        return Ok(None);
    };
    let gathered = batched.gathered(model, &[at(layout, model)?], item, check)?;
    gathered
        .map(|gathered| {
            let mut grads = layout.gradients(model, first(gathered.signal)?);
            let mut outside = gathered.outside;
            Outside::add(model, 1.0, &mut outside, &mut grads);
            let item = gathered.item;
            Ok(TrainOutput { grads, item })
        })
        .transpose()
}
