//! How far a fit is from the best of its family, and what this says about it.

/// The distance of a fit from the optimum of its family.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Arrival {
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What better scales of the weights would gain, in nats.
    pub scale_gain: f64,
    /// The Monte-Carlo standard error of their sum; infinite if the draws do not determine it.
    pub standard_error: f64,
    /// The number of weights whose curvature the draws do not determine, because their deviations are smaller than the
    /// rounding of the weights. They count in `scale_gain` as weights with far too small a deviation.
    pub undetermined: usize,
}

/// The largest excess of a converged fit, in nats per weight.
///
/// Variances that are all too large by a factor of 1.5 cost about as much.
pub const CONVERGED: f64 = 0.05;

/// Standard errors that a verdict adds to an estimate.
pub(crate) const CERTAIN: f64 = 2.0;

/// What an [`Arrival`] says about a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// The excess is at most [`CONVERGED`] nats per weight, with two standard errors added.
    Converged,
    /// The excess is above that.
    NotConverged,
    /// The draws do not determine the excess.
    Undetermined,
}

impl Arrival {
    /// The sum of both gains, an estimate of the excess divergence from the true posterior over that of the
    /// best fit of the family, in nats.
    pub fn excess(&self) -> f64 {
        self.decrement + self.scale_gain
    }

    /// Whether a fit of this number of weights has converged.
    ///
    /// ```
    /// use burn_bayes::diagnostics::{ArrivalTest, Convergence};
    /// # use burn::{module::Module, train::TrainStep};
    /// # use burn_bayes::{FactorPosterior, likelihood::MixDraws};
    ///
    /// # fn has_converged<M>(
    /// #     model: &M,
    /// #     posterior: &FactorPosterior,
    /// #     train_len: usize,
    /// #     batches: Vec<<M as TrainStep>::Input>,
    /// # ) -> burn_bayes::Result<bool>
    /// # where
    /// #     M: Module + TrainStep<Input: Clone, Output: MixDraws>,
    /// # {
    /// let arrival = ArrivalTest::new(train_len).measure(model, posterior, batches)?;
    /// let has_converged = arrival.convergence(posterior.len()) == Convergence::Converged;
    /// # Ok(has_converged)
    /// # }
    /// ```
    pub fn convergence(&self, weights: usize) -> Convergence {
        Convergence::of(self.excess(), self.standard_error, weights)
    }
}

impl Convergence {
    /// What an excess divergence, in nats, and its standard error say about a fit of this number of weights.
    pub fn of(excess: f64, standard_error: f64, weights: usize) -> Self {
        let limit = CONVERGED * weights as f64;
        // Comparisons with NaN are false.
        if excess + CERTAIN * standard_error <= limit {
            Self::Converged
        } else if excess > limit {
            Self::NotConverged
        } else {
            Self::Undetermined
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_with_a_large_error_is_undetermined() {
        let arrival = |excess, standard_error| Arrival {
            decrement: 0.0,
            scale_gain: excess,
            standard_error,
            undetermined: 0,
        };
        let limit = CONVERGED * 100.0;
        assert_eq!(
            arrival(0.0, 14_295.0).convergence(100),
            Convergence::Undetermined
        );
        assert_eq!(
            arrival(0.0, 0.4 * limit).convergence(100),
            Convergence::Converged
        );
        assert_eq!(
            arrival(0.9 * limit, 0.1 * limit).convergence(100),
            Convergence::Undetermined
        );
        assert_eq!(
            arrival(1.1 * limit, 0.1 * limit).convergence(100),
            Convergence::NotConverged
        );
        for unknown in [arrival(f64::NAN, 0.1), arrival(0.0, f64::NAN)] {
            assert_eq!(unknown.convergence(100), Convergence::Undetermined);
        }
    }
}
