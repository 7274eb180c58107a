//! From a configuration and a model to a [`Bayesian`] model.

use burn::module::{Module, ModuleDisplay};

use super::bayesian::Bayesian;
use crate::error::Result;
use crate::methods::{
    Algorithm, Slang, SlangConfig, Swag, SwagConfig, Vadam, VadamConfig, Vifa, VifaConfig, Von,
    VonConfig,
};

/// A configuration that wraps a model.
pub trait BayesianConfig {
    /// The algorithm it configures.
    type Algorithm: Algorithm;

    /// The algorithm for the weights of `model`.
    fn algorithm<M: Module>(&self, model: &M) -> Result<Self::Algorithm>;

    /// Wraps the model.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used; the message names the field.
    fn try_init<M: Module + ModuleDisplay>(
        &self,
        model: M,
    ) -> Result<Bayesian<M, Self::Algorithm>> {
        let algorithm = self.algorithm(&model)?;
        Bayesian::new(model, algorithm)
    }

    /// Wraps the model.
    ///
    /// # Panics
    ///
    /// Where [`try_init`](Self::try_init) fails.
    fn init<M: Module + ModuleDisplay>(&self, model: M) -> Bayesian<M, Self::Algorithm> {
        self.try_init(model)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl BayesianConfig for VifaConfig {
    type Algorithm = Vifa;

    fn algorithm<M: Module>(&self, model: &M) -> Result<Vifa> {
        self.build(model)
    }
}

impl BayesianConfig for SlangConfig {
    type Algorithm = Slang;

    fn algorithm<M: Module>(&self, model: &M) -> Result<Slang> {
        self.build(model)
    }
}

impl BayesianConfig for SwagConfig {
    type Algorithm = Swag;

    fn algorithm<M: Module>(&self, model: &M) -> Result<Swag> {
        self.build(model)
    }
}

impl BayesianConfig for VadamConfig {
    type Algorithm = Vadam;

    fn algorithm<M: Module>(&self, model: &M) -> Result<Vadam> {
        self.build(model)
    }
}

impl BayesianConfig for VonConfig {
    type Algorithm = Von;

    fn algorithm<M: Module>(&self, model: &M) -> Result<Von> {
        self.build(model)
    }
}
