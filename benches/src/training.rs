//! One training step as programs make it: with Burn's Learner, and with a model of one's own.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::train::TrainStep;

const LEARNING_RATE: f64 = 1e-4;

/// Who holds the model while it is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Keeps it while a copy is updated, as Burn's Learner does: an optimiser cannot write in place.
    Learner,
    /// Gives it away.
    Owner,
}

/// A model and its optimiser, to be stepped.
#[allow(
    missing_debug_implementations,
    reason = "Burn's optimiser cannot be printed"
)]
pub struct Training<M> {
    // Absent only while a step owns it.
    model: Option<M>,
    optimizer: ModuleOptimizer,
    holder: Holder,
}

impl<M: Module + TrainStep> Training<M> {
    /// A training that has not begun.
    pub fn new(model: M, optimizer: ModuleOptimizer, holder: Holder) -> Self {
        Self {
            model: Some(model),
            optimizer,
            holder,
        }
    }

    /// The model.
    ///
    /// # Panics
    ///
    /// After a step that panicked.
    pub fn model(&self) -> &M {
        self.model.as_ref().expect("no step is under way")
    }

    /// Forward, backward and update.
    pub fn step(&mut self, batch: <M as TrainStep>::Input) {
        let gradients = self.model().step(batch).grads;
        self.update(gradients);
    }

    /// The update alone.
    pub fn update(&mut self, gradients: burn::optim::GradientsParams) {
        let model = match self.holder {
            Holder::Learner => self.model.clone(),
            Holder::Owner => self.model.take(),
        };
        let rate = LEARNING_RATE.into();
        self.model = model.map(|model| model.optimize(&mut self.optimizer, rate, gradients));
    }
}
