//! Bayesian training of Burn models with Burn's own Learner.
//!
//! [`BayesianConfig::init`](crate::methods::BayesianConfig::init) wraps a model into a [`Bayesian`], which replaces
//! the model in training code. [`Trainer`] is a training loop with exact resume, an alternative to Burn's
//! Learner. [`StagedLearningRate`] and [`RateSchedule`] are schedules.

mod batched_training;
mod bayesian;
mod cache;
mod clock;
mod compiled;
mod deferred_step;
mod divergence_stop;
mod draws;
mod example_loss;
mod gather;
mod gather_per_example;
mod gradient_check;
mod init;
mod loss_at_draws;
mod model_terms;
mod notices;
mod own_decay;
mod own_likelihood;
mod own_loss;
mod own_optimize;
mod parts;
mod post_hoc;
mod prior_terms;
mod running_statistics;
mod scale_free;
mod self_check;
mod staging;
mod step_template;
mod trainer;
mod validation_check;

pub use bayesian::Bayesian;
pub(crate) use bayesian::is_everything;
#[doc(hidden)]
pub use bayesian::{DEFAULT_PREDICTION_DRAWS, MAX_REJECTIONS};
#[doc(hidden)]
pub use compiled::StepGradients;
pub use compiled::{CompiledStep, Recordings};
pub(crate) use draws::one_by_one;
pub use example_loss::ExampleLoss;
pub use gather::Gather;
pub use parts::VifaPart;
pub use post_hoc::PostHoc;
#[doc(hidden)]
pub use prior_terms::PriorTerms;
pub(crate) use scale_free::scale_free;
pub use staging::{RateSchedule, StagedLearningRate};
pub use trainer::{
    BatchLoss, Batches, Checkpoint, CheckpointTime, EpochLosses, EpochSummary, Trainer,
    TrainerModel, TrainingEnd, TrainingObserver, TrainingRun,
};
