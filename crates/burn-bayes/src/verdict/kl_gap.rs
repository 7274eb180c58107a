//! The estimated KL gap between a fit and the best Gaussian of its family, and whether the fit has converged.

/// The estimated KL gap between a fit and the best Gaussian of its family.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KlGap {
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What better scales of the weights would gain, in nats.
    pub scale_gain: f64,
    /// What better factors would gain, in nats, if the fit has factors and at most 32 weights.
    pub factor_gain: Option<f64>,
    /// The Monte-Carlo standard error of their sum; infinite if the draws do not determine it.
    pub standard_error: f64,
    /// The number of weights whose curvature the draws do not determine, because their deviations are smaller than the
    /// rounding of the weights. They count in `scale_gain` as weights with far too small a deviation.
    pub undetermined: usize,
}

/// Standard errors that a verdict adds to an estimate.
pub(crate) const CERTAIN: f64 = 2.0;

/// Whether a fit has converged, by its [`KlGap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// The gap is at most [`KlGap::CONVERGED`] nats per weight, with two standard errors added.
    Converged,
    /// The gap is above that, with two standard errors subtracted.
    NotConverged,
    /// The draws do not determine the gap.
    Undetermined,
}

impl KlGap {
    /// The largest KL gap of a converged fit, in nats per weight.
    ///
    /// Variances that are all too large by a factor of 1.5 cost about as much.
    pub const CONVERGED: f64 = 0.05;

    /// What a better mean and a better covariance would gain together, in nats: an estimate of KL(q‖p) for this fit q and the true
    /// posterior p, minus its least value in the family.
    pub fn nats(&self) -> f64 {
        self.decrement + self.covariance_gain()
    }

    /// What a better covariance would gain, in nats: better scales, or better factors if that is more.
    pub fn covariance_gain(&self) -> f64 {
        match self.factor_gain {
            Some(gain) if self.has_poor_factors() => gain,
            _ => self.scale_gain,
        }
    }

    /// Whether better factors would gain more than better scales.
    pub(crate) fn has_poor_factors(&self) -> bool {
        self.factor_gain.is_some_and(|gain| gain > self.scale_gain)
    }

    /// The same with what better factors would gain, and its standard error.
    pub(crate) fn with_factors(self, gain: f64, standard_error: f64) -> Self {
        let found = Self {
            factor_gain: Some(gain),
            ..self
        };
        match found.has_poor_factors() {
            true => Self {
                standard_error: self.standard_error.hypot(standard_error),
                ..found
            },
            false => found,
        }
    }

    /// Whether a fit of this number of weights has converged.
    ///
    /// ```
    /// use burn_bayes::diagnostics::{ConvergenceTest, Convergence};
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
    /// let gap = ConvergenceTest::new(train_len).measure(model, posterior, || batches.clone())?;
    /// let has_converged = gap.convergence(posterior.len()) == Convergence::Converged;
    /// # Ok(has_converged)
    /// # }
    /// ```
    pub fn convergence(&self, weights: usize) -> Convergence {
        Convergence::of(self.nats(), self.standard_error, weights)
    }
}

impl Convergence {
    /// The convergence of a fit of this number of weights, from its KL gap in nats and the standard error.
    pub fn of(gap: f64, standard_error: f64, weights: usize) -> Self {
        let limit = KlGap::CONVERGED * weights as f64;
        // If deviations are lost in rounding, the error is infinite, and the gap is at least that.
        let certain = match standard_error == f64::INFINITY {
            true => 0.0,
            false => CERTAIN * standard_error,
        };
        // Comparisons with NaN are false.
        if gap + CERTAIN * standard_error <= limit {
            Self::Converged
        } else if gap - certain > limit {
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
        let gap = |nats, standard_error| KlGap {
            decrement: 0.0,
            scale_gain: nats,
            factor_gain: None,
            standard_error,
            undetermined: 0,
        };
        let limit = KlGap::CONVERGED * 100.0;
        assert_eq!(
            gap(0.0, 14_295.0).convergence(100),
            Convergence::Undetermined
        );
        assert_eq!(
            gap(0.0, 0.4 * limit).convergence(100),
            Convergence::Converged
        );
        assert_eq!(
            gap(0.9 * limit, 0.1 * limit).convergence(100),
            Convergence::Undetermined
        );
        assert_eq!(
            gap(1.1 * limit, 0.1 * limit).convergence(100),
            Convergence::Undetermined
        );
        for error in [0.1 * limit, f64::INFINITY] {
            assert_eq!(
                gap(1.3 * limit, error).convergence(100),
                Convergence::NotConverged
            );
        }
        for unknown in [gap(f64::NAN, 0.1), gap(0.0, f64::NAN)] {
            assert_eq!(unknown.convergence(100), Convergence::Undetermined);
        }
    }
}
