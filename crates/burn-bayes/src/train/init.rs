//! From a configuration and a model to a [`Bayesian`] model.

use burn::module::{Module, ModuleDisplay};

use super::bayesian::Bayesian;
use crate::error::Result;
use crate::methods::{BayesianConfig, MethodConfig};

impl<C: MethodConfig> BayesianConfig<C> {
    /// Wraps the model.
    ///
    /// # Panics
    ///
    /// Where [`try_init`](Self::try_init) fails.
    pub fn init<M: Module + ModuleDisplay>(&self, model: M) -> Bayesian<M, C::Algorithm> {
        self.try_init(model)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Wraps the model.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used; the message names the field.
    pub fn try_init<M: Module + ModuleDisplay>(
        &self,
        model: M,
    ) -> Result<Bayesian<M, C::Algorithm>> {
        let algorithm = self.build(&model)?;
        Bayesian::new(model, algorithm)
    }
}
