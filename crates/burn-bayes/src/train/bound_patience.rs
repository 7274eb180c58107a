//! Early stopping by the variational bound.
//!
//! −ELBO/N of an epoch is the mean loss of its batches, which is at draws of the weights, plus KL(q‖p)/N. The average of
//! the last W epochs is compared with the least so far; after P epochs without a new least one, the training ends. No rows
//! need to be held out.
//!
//! Reference: Tran, Nguyen and Dao (2021), "A practical tutorial on variational Bayes", section 3.5, with W and P counted
//! in iterations.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use burn::module::{Module, ModuleDisplay};

use super::bayesian::Bayesian;
use super::trainer::{EpochSummary, TrainingObserver};
use crate::error::{Error, Result};
use crate::methods::{Algorithm, checks};
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// Ends a training whose smoothed bound no longer improves: an observer of a [`Trainer`](super::Trainer).
///
/// ```
/// use burn_bayes::Prior;
/// use burn_bayes::train::BoundPatience;
///
/// let mut patience = BoundPatience::new(Prior::isotropic(1.0), 2, 3)?;
/// let bounds = [5.0, 4.0, 3.0, 4.0, 3.0, 4.0, 3.0];
/// let end = bounds.iter().position(|&bound| patience.observe(bound).is_break());
/// // The averages of two are 4.5, 3.5, 3.5, 3.5, 3.5: three without improvement.
/// assert_eq!(end, Some(5));
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BoundPatience {
    prior: Prior,
    window: usize,
    patience: usize,
    recent: VecDeque<f64>,
    least: f64,
    waited: usize,
}

impl BoundPatience {
    /// With the prior of the training, the number W of epochs in an average, and the number P of epochs to wait.
    ///
    /// # Errors
    ///
    /// If a number is 0.
    pub fn new(prior: Prior, window: usize, patience: usize) -> Result<Self> {
        checks::counts([("window", window), ("patience", patience)])?;
        Ok(Self {
            prior,
            window,
            patience,
            recent: VecDeque::with_capacity(window),
            least: f64::INFINITY,
            waited: 0,
        })
    }

    /// The average of the last W values of −ELBO/N, in nats; `None` before there are as many.
    pub fn smoothed(&self) -> Option<f64> {
        let is_full = self.recent.len() == self.window;
        is_full.then(|| self.recent.iter().sum::<f64>() / self.window as f64)
    }

    /// Takes −ELBO/N of another epoch.
    pub fn observe(&mut self, bound: f64) -> ControlFlow<()> {
        if self.recent.len() == self.window {
            self.recent.pop_front();
        }
        self.recent.push_back(bound);
        match self.smoothed() {
            None => return ControlFlow::Continue(()),
            Some(smoothed) if smoothed < self.least => {
                self.least = smoothed;
                self.waited = 0;
            }
            Some(_) => self.waited += 1,
        }
        match self.waited < self.patience {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

impl<M, A> TrainingObserver<Bayesian<M, A>> for BoundPatience
where
    M: Module + ModuleDisplay,
    A: Algorithm<Posterior = FactorPosterior>,
{
    type Error = Error;

    fn epoch(&mut self, summary: &EpochSummary, model: &Bayesian<M, A>) -> Result<ControlFlow<()>> {
        let posterior = match model.try_posterior() {
            Ok(posterior) => posterior,
            Err(error) if error.is_too_early() => return Ok(ControlFlow::Continue(())),
            Err(error) => return Err(error),
        };
        let divergence = posterior.kl(&self.prior.resolve(posterior.layout())?)?;
        let train_len = model.algorithm().setup().train_len;
        Ok(self.observe(summary.loss + divergence / train_len as f64))
    }
}
