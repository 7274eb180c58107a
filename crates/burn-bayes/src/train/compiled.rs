//! Mini-batches without the model's own step and without an output: for a [`Trainer`](super::Trainer), between two epochs
//! of which nothing but the optimiser changes the model.
//!
//! Recordings are looked up once for all these mini-batches, and no wrapped model is visited, which for a small network
//! takes longer than the gradients. The numbers are those of the ordinary step with recorded losses.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes_graph::{ExampleBatch, Layout};

use super::batched_training::{BatchedTraining, Evaluated};
use super::bayesian::Bayesian;
use super::draws::at;
use super::example_loss::ExampleLoss;
use super::self_check::SelfCheck;
use super::step_template::StepTemplate;
use crate::error::Result;
use crate::kernels::host_scalar;
use crate::methods::{Algorithm, Update};
use crate::predict::RecordingCache;

/// Computes what a step makes of a mini-batch. `None` if the model's own step must.
pub type CompiledStep<L> = StepOf<L, <L as TrainStep>::Input>;

/// The same for mini-batches of this type.
pub(super) type StepOf<L, I> = Box<dyn Fn(&L, &I) -> Result<Option<StepGradients>>>;

/// What a step makes of a mini-batch.
#[derive(Debug, Default)]
pub struct StepGradients {
    pub(crate) gradients: GradientsParams,
    /// The mean loss at the first draw, `[1]`; `None` after an error.
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) rows: usize,
}

impl StepGradients {
    /// With the losses of the rows at each of the draws, `[S, rows]`.
    pub(super) fn new(gradients: GradientsParams, losses: Tensor<2>) -> Self {
        let [_, rows] = losses.dims();
        Self {
            gradients,
            loss: Some(losses.narrow(0, 0, 1).mean()),
            rows,
        }
    }
}

/// What a [`Trainer`](super::Trainer) keeps of a model's losses from epoch to epoch.
#[derive(Debug, Default)]
pub struct Recordings {
    /// One for each layout: parameters may be frozen between two epochs.
    of_layouts: Mutex<Vec<(Arc<Layout>, RecordingCache)>>,
    check: SelfCheck,
}

impl Recordings {
    /// The step of a model that returns the loss of every example, for its
    /// [`compiled`](super::TrainerModel::compiled). `None` if it is not on the CPU, or has a layer other than batch norm that
    /// behaves differently in training and inference.
    pub fn step_of_losses<M>(&self, model: &M) -> Option<CompiledStep<M>>
    where
        M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
    {
        if !is_on_host(&model.devices()) {
            return None;
        }
        let layout = Arc::new(Layout::new(model, &ParamGroup::all()).ok()?);
        let batched = self
            .of_layout(&layout)
            .get(|| BatchedTraining::<M>::new(layout.clone(), false));
        let steps = StepTemplate::new(model, &layout)?;
        let check = self.check.clone();
        Some(Box::new(move |model, item| {
            // That of a model with batch norm is a part of the step.
            let is_due = check.is_loss_due() && !steps.has_batch_norm();
            if is_due {
                // It compares the gradient with that of the model's own step, and is counted.
                let checked = batched.gathered(model, &[at(&layout, model)?], item, &check)?;
                if checked.is_none() {
                    return Ok(None);
                }
            }
            let found = steps.own_gradients(&batched, model, item, (&check, false))?;
            let Some((gradients, Evaluated { found, .. })) = found else {
                return Ok(None);
            };
            if !is_due {
                check.gathered();
            }
            Ok(Some(StepGradients::new(gradients, found.losses)))
        }))
    }

    fn of_layout(&self, layout: &Arc<Layout>) -> RecordingCache {
        let known = self.of_layouts.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(other, _)| other == layout);
        match found {
            Some((_, cache)) => cache.clone(),
            None => {
                let cache = RecordingCache::default();
                known.push((layout.clone(), cache.clone()));
                cache
            }
        }
    }
}

/// Whether the results of a step can be read without waiting.
fn is_on_host(devices: &[Device]) -> bool {
    let device = devices.first().cloned().unwrap_or_default();
    host_scalar(&Tensor::zeros([1], &device.inner())).is_some()
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay,
    A: Algorithm,
{
    /// The steps that `compute` makes with the wrapped model as they evaluate it, if it is on the CPU and they change nothing
    /// but its weights in the layout and its running statistics. No step is made where the model's own is needed.
    pub(super) fn compiled_steps<I>(
        &self,
        compute: impl Fn(&Self, &StepTemplate<M>, &I) -> Result<Option<StepGradients>> + 'static,
    ) -> Option<StepOf<Self, I>>
    where
        M: 'static,
    {
        if !is_on_host(&self.algorithm().devices()) || !self.is_everything() {
            return None;
        }
        let steps = StepTemplate::new(&*self.model_of_step(), self.layout())?;
        Some(Box::new(move |bayesian, item| {
            match bayesian.needs_own_step(&steps) {
                true => Ok(None),
                false => compute(bayesian, &steps, item),
            }
        }))
    }

    /// Whether the next step must be the model's own: for a check, or because the template is not as the step evaluates the
    /// model.
    fn needs_own_step(&self, steps: &StepTemplate<M>) -> bool
    where
        M: 'static,
    {
        // The checks of a model with batch norm are a part of its step.
        let is_due = !steps.has_batch_norm() && self.self_check().is_step_due();
        let is_needed =
            is_due || self.seeks_scale_free() || steps.has_batch_norm() != self.moves_statistics();
        if is_needed {
            steps.own_step();
        }
        is_needed
    }

    /// Checks the model, and whether the loss is that of the likelihood, as the model's own step does.
    pub(super) fn check_own<O: 'static>(&self, own: Option<&O>) -> Result<()>
    where
        M: TrainStep,
    {
        let check = self.self_check();
        if let Some(own) = own.filter(|_| check.is_likelihood_due()) {
            check.optimize(self.template())?;
            check.likelihood_of(own);
        }
        Ok(())
    }

    /// The gradients of an algorithm's update, from these losses of the rows at each of the draws.
    pub(super) fn step_gradients(
        &self,
        update: Update<A::ClosedForm>,
        losses: Tensor<2>,
    ) -> Result<Option<StepGradients>> {
        Ok(Some(self.counted(self.gradients_of(update)?, losses)))
    }

    /// Gradients with these losses, whose rows are counted.
    pub(super) fn counted(&self, gradients: GradientsParams, losses: Tensor<2>) -> StepGradients {
        let step = StepGradients::new(gradients, losses);
        self.self_check().count_step();
        self.count_rows(step.rows);
        step
    }
}
