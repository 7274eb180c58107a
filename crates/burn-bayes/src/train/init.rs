//! From a configuration and a model to a [`Bayesian`] model.

use burn::module::{Module, ModuleDisplay};

use super::bayesian::Bayesian;
use crate::error::Result;
use crate::methods::{
    BatchEnsemble, BatchEnsembleConfig, FactorAnalysis, FactorAnalysisConfig, IterateAveraging,
    IterateAveragingConfig, Ivon, IvonConfig, Nagvac, NagvacConfig, Sghmc, SghmcConfig, Slang,
    SlangConfig, Swag, SwagConfig, Vadam, VadamConfig, Vifa, VifaConfig, Von, VonConfig,
};

/// `init` and `try_init`, written once for the configurations of all methods. They are no trait, so that
/// a program needs to import nothing but the configuration.
macro_rules! wraps_models {
    ($($config:ty => $algorithm:ty),+ $(,)?) => {$(
        impl $config {
            /// Wraps the model.
            ///
            /// # Panics
            ///
            /// Where [`try_init`](Self::try_init) fails.
            pub fn init<M: Module + ModuleDisplay>(&self, model: M) -> Bayesian<M, $algorithm> {
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
            ) -> Result<Bayesian<M, $algorithm>> {
                let algorithm = self.build(&model)?;
                Bayesian::new(model, algorithm)
            }
        }
    )+};
}

wraps_models! {
    VifaConfig => Vifa,
    SlangConfig => Slang,
    SwagConfig => Swag,
    FactorAnalysisConfig => FactorAnalysis,
    IterateAveragingConfig => IterateAveraging,
    VadamConfig => Vadam,
    IvonConfig => Ivon,
    NagvacConfig => Nagvac,
    SghmcConfig => Sghmc,
    BatchEnsembleConfig => BatchEnsemble,
    VonConfig => Von,
}
