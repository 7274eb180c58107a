//! What an algorithm asks for, and its answer: draws, the gradients at them, and updates.

use std::sync::Arc;

use burn::module::RunningState;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleGradients, Layout};

use super::draw_statistics::DrawStatistics;
use super::function_terms::FunctionTerms;
use super::setup::StepId;
use crate::error::Error;
use crate::kernels::CovarianceParts;
use crate::noise::Noise;

/// The draws at which an algorithm wants gradients.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The gradient that this is for.
    pub id: StepId,
    /// At least one draw.
    pub draws: Vec<Draw>,
    /// The Gram matrix of the factors, K×K, which the pass that draws computes as well: F ψ⁻¹ Fᵀ in
    /// covariance form, U Uᵀ in precision form.
    pub gram: Vec<f64>,
    /// The Gaussian of the draws, if the algorithm accepts a gradient by its covariance.
    #[doc(hidden)]
    pub gaussian: Option<CovarianceParts>,
    /// The terms of a prior over functions at these draws.
    pub(crate) function: Option<FunctionTerms>,
    /// The rows whose outer products are the curvature of the loss, if they are not the gradients of the examples.
    pub(crate) curvature: Option<ExampleGradients>,
    /// The running statistics of every draw, if they are not those of the model.
    pub(crate) statistics: Option<DrawStatistics>,
}

impl Proposal {
    /// A proposal of at least one draw.
    pub fn new(id: StepId, draws: Vec<Draw>) -> Self {
        Self {
            id,
            draws,
            gram: Vec::new(),
            gaussian: None,
            function: None,
            curvature: None,
            statistics: None,
        }
    }

    /// The proposal with the running statistics of every draw, if the model has such statistics.
    #[must_use]
    pub fn with_statistics(
        self,
        layout: Option<Arc<Layout>>,
        values: Vec<RunningState<Tensor<1>>>,
    ) -> Self {
        let statistics = layout.map(|layout| DrawStatistics::new(layout, values));
        Self { statistics, ..self }
    }

    /// The proposal with this Gram matrix of the factors.
    #[must_use]
    pub fn with_gram(self, gram: Vec<f64>) -> Self {
        Self { gram, ..self }
    }

    /// The proposal with the terms of a prior over functions.
    #[must_use]
    pub fn with_function_terms(self, terms: FunctionTerms) -> Self {
        Self {
            function: Some(terms),
            ..self
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn with_gaussian(self, gaussian: CovarianceParts) -> Self {
        Self {
            gaussian: Some(gaussian),
            ..self
        }
    }
}

/// The gradient of the mean negative log-likelihood at each proposed draw, in pieces that are in layout order one after
/// the other.
pub type GradientPieces = Vec<Vec<Tensor<1>>>;

/// Every gradient as one vector.
pub fn joined(gradients: GradientPieces) -> Vec<Tensor<1>> {
    gradients.into_iter().map(whole).collect()
}

/// A gradient in pieces as one vector.
pub(crate) fn whole(mut pieces: Vec<Tensor<1>>) -> Tensor<1> {
    match pieces.len() {
        1 => pieces.swap_remove(0),
        _ => Tensor::cat(pieces, 0),
    }
}

/// Weights at which the gradient of the loss is wanted.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The weights, `[D]`.
    pub weights: Tensor<1>,
    /// The noise they were made from.
    pub noise: Noise,
}

impl Draw {
    /// Every vector of weights with the noise it was made from.
    pub fn all(weights: Vec<Tensor<1>>, noises: Vec<Noise>) -> Vec<Self> {
        let draws = weights.into_iter().zip(noises);
        draws
            .map(|(weights, noise)| Self { weights, noise })
            .collect()
    }
}

/// The answer of an algorithm to gradients.
#[derive(Debug)]
pub enum Update<C> {
    /// Gradients under the ids of the algorithm's own parameters, which accumulators and replicas add up: for an
    /// optimiser that minimises, or for [`Algorithm::update_from_sum`](super::Algorithm::update_from_sum).
    Gradients(GradientsParams),
    /// An update that [`Algorithm::apply_step`](super::Algorithm::apply_step) applies once the learning rate is known. It is computed
    /// from one evaluation, so it cannot be accumulated or averaged over devices as gradients can.
    ClosedForm(C),
    /// The update would not be finite. The step is skipped; after several in a row the training stops
    /// with this error.
    Rejected(Error),
}
