//! One training step, as in Burn's Learner or as in a custom loop that owns the model.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn::train::TrainStep;

const LEARNING_RATE: f64 = 1e-4;

/// The owner of the model during the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Keeps the model while a copy is updated, as Burn's Learner does, so that an optimiser cannot
    /// update in place.
    Learner,
    /// Moves the model into the update.
    Owner,
}

/// A model and its optimiser.
#[allow(
    missing_debug_implementations,
    reason = "Burn's optimiser cannot be printed"
)]
pub struct Training<M> {
    // `None` only during a step, which owns the model.
    model: Option<M>,
    optimizer: ModuleOptimizer,
    holder: Holder,
}

impl<M: Module + TrainStep> Training<M> {
    /// A new training.
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

    /// Only the update.
    pub fn update(&mut self, gradients: burn::optim::GradientsParams) {
        let model = match self.holder {
            Holder::Learner => self.model.clone(),
            Holder::Owner => self.model.take(),
        };
        let rate = LEARNING_RATE.into();
        self.model = model.map(|model| model.optimize(&mut self.optimizer, rate, gradients));
    }
}

/// Waits until the default device has finished its work; a CPU always has.
///
/// # Panics
///
/// If the device has failed.
pub fn wait() {
    Device::default().sync().expect("the device works");
}
