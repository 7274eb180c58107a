//! Priors over the outputs of a model, which any crate can add to a training.

use burn::module::{Module, ModuleDisplay};

use super::bayesian::Bayesian;
use super::clock::PriorHash;
use crate::error::{Error, Result};
use crate::methods::{Algorithm, FunctionPriorUse, FunctionTerms, Proposal};

/// A prior over the outputs of a model, as terms that are added to every training step. The crate `burn-bayes-contrib` has
/// one with Gaussian processes.
pub trait PriorTerms<M>: Send + Sync + 'static {
    /// All settings as text, whose hash is part of a record.
    fn description(&self) -> String;

    /// The terms at the draws of a proposal. What the algorithm uses of them is its
    /// [`function_prior_use`](Algorithm::function_prior_use).
    ///
    /// # Errors
    ///
    /// An error stops the training.
    fn terms(&self, model: &M, proposal: &Proposal) -> Result<FunctionTerms>;
}

impl<M: Module + ModuleDisplay + 'static, A: Algorithm> Bayesian<M, A> {
    /// Adds a prior over the outputs of the model to that over the weights. Set it again to resume a training, whose first
    /// step fails without it.
    ///
    /// Its terms count once, so the effective sample size is then N, also for a model with more weights than examples.
    ///
    /// # Errors
    ///
    /// If the algorithm does not support priors over functions, or has an [`ess`](crate::BayesianConfig::ess) other than N.
    pub fn with_prior_terms(self, prior: impl PriorTerms<M>) -> Result<Self> {
        if self.algorithm().function_prior_use() == FunctionPriorUse::Nothing {
            let problem = "is over functions, which this algorithm does not support; use SLANG, VOGN, VON or VIFA, or a \
                           prior over the weights";
            return Err(Error::config("prior", problem));
        }
        let setup = self.algorithm().setup();
        if setup.is_ess_given && setup.ess != setup.train_len as f64 {
            let problem = format!(
                "is {}, but data and weights cannot count several times beside a prior over functions: omit it, or set it \
                 to the number of training examples, {}",
                setup.ess, setup.train_len
            );
            return Err(Error::config("ess", problem));
        }
        let hash = PriorHash::new(&prior.description());
        Ok(self.with_function_terms(hash, |terms| {
            terms.with_function(move |model: &M, proposal| prior.terms(model, proposal))
        }))
    }
}
