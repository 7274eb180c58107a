//! The gradients of VIFA's parameters, clipped.

use burn::optim::GradientsParams;

use super::Vifa;
use crate::kernels::{self, CovarianceGradient};
use crate::methods::algorithm::{Algorithm, Stage};

impl Vifa {
    /// Each of the three gradients with at most the norm of the configuration.
    pub(super) fn clipped(&self, gradient: CovarianceGradient) -> GradientsParams {
        let factor = |squared_norm: f64| match self.config().clip {
            Some(clip) if squared_norm > clip * clip => clip / squared_norm.sqrt(),
            _ => 1.0,
        };
        let [mean, factors, log_variance] = gradient.squared_norms.map(factor);
        let mut gradients = GradientsParams::new();
        if self.stage() == Stage::Scale {
            return gradients;
        }
        gradients.register(self.mean.id, kernels::scale(gradient.mean, mean));
        if self.stage() == Stage::Mean {
            return gradients;
        }
        if let (Some(param), Some(value)) = (&self.factors, gradient.factors) {
            gradients.register(param.id, kernels::scale(value, factors));
        }
        let log_variances = kernels::scale(gradient.log_variance, log_variance);
        gradients.register(self.log_variance.id, log_variances);
        gradients
    }
}
