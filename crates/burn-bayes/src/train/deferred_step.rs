//! How a closed-form update gets from [`TrainStep::step`](burn::train::TrainStep::step), which computes
//! it, to [`TrainStep::optimize`](burn::train::TrainStep::optimize), which knows the learning rate.
//!
//! The update waits beside the model. The gradients carry a token under an id that no parameter has.
//! Accumulation and training on several devices drop the token, because they sum the gradients of the model's
//! parameters only. Then the update is not applied, and the caller gets an error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use crate::error::{Error, Result};

/// The last closed-form update, until it is applied. Clones share it.
#[derive(Debug)]
pub(crate) struct DeferredStep<C>(Arc<Mutex<Option<Waiting<C>>>>);

#[derive(Debug)]
struct Waiting<C> {
    token: ParamId,
    update: Deferred<C>,
}

/// What waits for the optimiser's turn.
#[derive(Debug)]
pub(crate) enum Deferred<C> {
    Update(C),
    /// The step is skipped.
    Rejection,
}

impl<C> Clone for DeferredStep<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Default for DeferredStep<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<C> DeferredStep<C> {
    /// Defers `update`, and returns the gradients with its token. It replaces an update that was not
    /// applied.
    ///
    /// # Errors
    ///
    /// If `algorithm` is a replica: each would apply updates of its own.
    pub(crate) fn put<A: Module>(
        &self,
        update: Deferred<C>,
        algorithm: &A,
        device: &Device,
    ) -> Result<GradientsParams> {
        if is_distributed(algorithm) {
            return Err(Error::lost_step());
        }
        let token = ParamId::new();
        *self.lock() = Some(Waiting { token, update });
        let mut gradients = GradientsParams::new();
        gradients.register(token, Tensor::<1>::zeros([1], device));
        Ok(gradients)
    }

    /// Takes the update whose token the gradients carry; `None` if the algorithm has deferred none.
    ///
    /// # Errors
    ///
    /// If the token is missing.
    pub(crate) fn take(&self, gradients: &mut GradientsParams) -> Result<Option<Deferred<C>>> {
        match self.lock().take() {
            None => Ok(None),
            Some(Waiting { token, update }) => match gradients.remove::<1>(token) {
                Some(_) => Ok(Some(update)),
                None => Err(Error::lost_step()),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waiting<C>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the module is a replica of a distributed training.
fn is_distributed<A: Module>(module: &A) -> bool {
    struct Search(bool);
    impl ModuleVisitor for Search {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.0 |= param.val().is_distributed();
        }
    }
    let mut search = Search(false);
    module.visit(&mut search);
    search.0
}
