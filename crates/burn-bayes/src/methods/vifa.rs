//! VIFA: variational inference with a factor-analysis covariance (the VIFA paper, Alg. 1).
//!
//! The posterior is q = N(c, FᵀF + diag ψ), ψ = exp γ. With a draw θ = c + hᵀF + ψ^½⊙z and the
//! gradient g of the mean negative log-likelihood at θ, the objective λ·E\[NLL\] + KL(q‖prior)
//! has the unbiased gradient
//!
//! * ∇c = λ g + α⊙c
//! * ∇F = λ h gᵀ + α⊙F − C
//! * ∇γ = ½ [ λ g⊙(ψ^½⊙z) − 1 + Σ_k C_k⊙F_k + α⊙ψ ]
//!
//! with A = F/ψ, B = F Aᵀ, C = (I+B)⁻¹A. The paper's −A + C Bᵀ is −C exactly, and its
//! N is λ; the λ-terms are averaged over L draws. No automatic differentiation through the posterior is needed.
//!
//! By default the factors are in units of the deviations, F = V diag(ψ^½), so that a step of an optimiser
//! has the same relative effect on a narrow and on a wide posterior. With C = (I + V Vᵀ)⁻¹V
//!
//! * ∇V = λ h (g⊙ψ^½)ᵀ + α⊙ψ⊙V − C
//! * ∇γ = ½ [ λ g⊙(θ−c) + α⊙diag S − 1 ]
//!
//! With [`Bayesian::with_gauss_newton`](crate::Bayesian::with_gauss_newton) the λ-terms of F and γ use the Gauss–Newton
//! matrix H instead of the draws' gradients, which takes the noise of h and z out of them: F·λH and ½ λ ψ⊙diag H. A
//! divergence between distributions of functions takes the place of that of the weights.
//!
//! The training has [stages](super::stages), in all of which the user's optimiser trains the mean. The posterior is the
//! average of the iterates of the last.
//!
//! | symbol | field |
//! |---|---|
//! | F or V, K | `factors`, `rank` |
//! | γ | `log_variance` |
//! | L | draws × `accumulation` |

mod config;
mod curvature;

use std::convert::Infallible;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

pub use self::config::VifaConfig;
use super::algorithm::{FromCurvature, FunctionPriorUse};
use super::average::Iterate;
use super::method_state::{Context, Learns, MethodState};
use super::proposal::{Draw, GradientPieces, Proposal, Update};
use super::setup::StepId;
use super::staged::Staged;
use super::stages::StageSignal;
use super::start::trained_value;
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::{Error, Result};
use crate::kernels::{
    self, CovarianceGradient, CovarianceParts, Diagonal, FactorUnits, Objective, Scratch,
};
use crate::noise::Noise;
use crate::posterior::FactorPosterior;

/// VIFA.
pub type Vifa = Staged<VifaState>;

impl FromCurvature for Vifa {}

/// VIFA's covariance.
#[derive(Module, Debug)]
pub struct VifaState {
    factors: Option<Param<Tensor<2>>>,
    log_variance: Param<Tensor<1>>,
    #[module(skip)]
    scratch: Arc<Scratch>,
    #[module(skip)]
    config: VifaConfig,
}

impl VifaState {
    fn parts(&self, mean: Tensor<1>) -> CovarianceParts {
        let factors = self.factors.as_ref();
        CovarianceParts {
            mean,
            factors: factors.map(|factors| factors.val().without_autodiff()),
            units: self.config.factor_units,
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }

    /// The gradient of the objective of a mini-batch, for a Gaussian.
    fn gradient(
        &self,
        context: Context<'_>,
        parts: &CovarianceParts,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<CovarianceGradient> {
        let inner_inverse = SquareMatrix::from_row_major(parts.rank(), proposal.gram.clone())
            .and_then(|gram| IdentityPlus::new(&gram))
            .map_err(Error::from)?
            .inverse();
        let share = self.share();
        let function = proposal.function.as_ref();
        let objective = Objective {
            scale: share * context.setup.ess / proposal.draws.len() as f64,
            temperature: match function.is_some_and(|terms| terms.replaces_weights) {
                true => 0.0,
                false => share,
            },
            prior: context.prior,
            inner_inverse: inner_inverse.as_slice(),
            scratch: &self.scratch,
        };
        let gradients = (gradients, examples);
        let gradient = curvature::gradient(context.setup, parts, proposal, gradients, objective);
        let gradient = match function.and_then(|terms| terms.divergence.as_ref()) {
            Some(divergence) => curvature::with_divergence(gradient, parts, divergence, share),
            None => gradient,
        };
        match gradient.first_non_finite {
            None => Ok(gradient),
            Some(index) => {
                let path = context.setup.layout.path_at(index).unwrap_or("?");
                Err(Error::non_finite(proposal.id.step + 1, path))
            }
        }
    }

    /// The factor by which a gradient of this squared norm is clipped.
    fn clipping(&self, squared_norm: f64) -> f64 {
        match self.config.clip_norm {
            Some(clip) if squared_norm > clip * clip => clip / squared_norm.sqrt(),
            _ => 1.0,
        }
    }
}

impl MethodState for VifaState {
    type Signal = GradientPieces;
    type Posterior = FactorPosterior;
    type Step = Infallible;

    const LEARNS: Learns = Learns::ByOptimizer;
    const FUNCTION_PRIOR: FunctionPriorUse = FunctionPriorUse::Gradient;

    fn propose(
        &self,
        _context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let parts = self.parts(mean);
        let (weights, gram) = kernels::draws_and_gram(&parts, &noises, &self.scratch);
        let proposal = Proposal::new(id, Draw::all(weights, noises)).with_gram(gram);
        Ok(proposal.with_gaussian(parts))
    }

    fn variance(&self, _context: Context<'_>) -> Tensor<1> {
        self.log_variance.val().without_autodiff().exp()
    }

    fn share(&self) -> f64 {
        1.0 / self.config.accumulation as f64
    }

    fn mean_signal(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<StageSignal> {
        let parts = CovarianceParts {
            factors: None,
            ..self.parts(mean)
        };
        let gradient = self.gradient(context, &parts, proposal, gradients, examples)?;
        let factor = self.clipping(gradient.squared_norms[0]);
        Ok(StageSignal::Mean(kernels::scale(gradient.mean, factor)))
    }

    fn scale_signal(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<StageSignal> {
        let parts = self.parts(mean);
        let gradient = self.gradient(context, &parts, proposal, gradients, examples)?;
        let growth = gradient.log_variance.mul_scalar(-2.0 / self.share());
        Ok(StageSignal::growth(context.setup, growth))
    }

    fn rescaled(mut self, _context: Context<'_>, factors: Tensor<1>) -> Self {
        let growth = factors.clone().log();
        self.log_variance = self
            .log_variance
            .map(|value| trained_value(value.without_autodiff() + growth));
        if self.config.factor_units == FactorUnits::Weights {
            let root = factors.sqrt().unsqueeze::<2>();
            self.factors = self
                .factors
                .map(|factors| factors.map(|value| trained_value(value.without_autodiff() * root)));
        }
        self
    }

    fn update(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<Infallible>> {
        let parts = self.parts(mean.val().without_autodiff());
        let gradient = self.gradient(context, &parts, &proposal, gradients, examples)?;
        let [center, factors, log_variance] =
            gradient.squared_norms.map(|norm| self.clipping(norm));
        let mut clipped = GradientsParams::new();
        clipped.register(mean.id, kernels::scale(gradient.mean, center));
        if let (Some(param), Some(value)) = (&self.factors, gradient.factors) {
            clipped.register(param.id, kernels::scale(value, factors));
        }
        let log_variances = kernels::scale(gradient.log_variance, log_variance);
        clipped.register(self.log_variance.id, log_variances);
        Ok(Update::Gradients(clipped))
    }

    fn apply_step(
        self,
        _context: Context<'_>,
        _mean: Param<Tensor<1>>,
        _step: u64,
        update: Infallible,
        _learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        match update {}
    }

    fn iterate(&self, mean: Tensor<1>) -> Iterate {
        Iterate::of_gaussian(self.parts(mean))
    }

    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        _step: u64,
    ) -> Result<FactorPosterior> {
        let parts = iterate.parts(self.config.factor_units);
        let parts = parts.in_units_of_weights();
        let layout = context.setup.layout.clone();
        FactorPosterior::covariance(layout, parts.mean, parts.factors, parts.diagonal.variance())
    }
}
