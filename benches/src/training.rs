//! One training step as programs make it: with Burn's Learner, and with a model of one's own.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::train::TrainStep;

/// What holds a model between steps.
pub trait Holder<M: TrainStep + Module> {
    /// Holds a model and its optimiser.
    fn new(model: M, optimizer: ModuleOptimizer) -> Self;

    /// Forward, backward and update.
    fn step(&mut self, batch: <M as TrainStep>::Input);
}

const LEARNING_RATE: f64 = 1e-4;

/// Keeps the model while a copy is updated, as Burn's Learner does: optimisers then cannot write
/// in place.
#[derive(Debug)]
pub struct LearnerLike<M> {
    model: M,
    optimizer: Optimizer,
}

/// Gives the model away for the update.
#[derive(Debug)]
pub struct Owned<M> {
    model: Option<M>,
    optimizer: Optimizer,
}

struct Optimizer(ModuleOptimizer);

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModuleOptimizer")
    }
}

impl<M: TrainStep + Module> Holder<M> for LearnerLike<M> {
    fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        Self {
            model,
            optimizer: Optimizer(optimizer),
        }
    }

    fn step(&mut self, batch: <M as TrainStep>::Input) {
        let output = self.model.step(batch);
        let copy = self.model.clone();
        self.model = copy.optimize(&mut self.optimizer.0, LEARNING_RATE.into(), output.grads);
    }
}

impl<M: TrainStep + Module> Holder<M> for Owned<M> {
    fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        Self {
            model: Some(model),
            optimizer: Optimizer(optimizer),
        }
    }

    fn step(&mut self, batch: <M as TrainStep>::Input) {
        let Some(model) = self.model.take() else {
            return;
        };
        let output = model.step(batch);
        let updated = model.optimize(&mut self.optimizer.0, LEARNING_RATE.into(), output.grads);
        self.model = Some(updated);
    }
}
