//! The Gauss–Newton matrix as the curvature of a training step.

use burn::module::{Module, ModuleDisplay};
use burn_bayes_graph::{ExampleBatch, ExampleGradients, Layout};

use super::outputs::{ModelOutputs, OutputGradients, without_autodiff};
use crate::error::Result;
use crate::methods::{Draw, FromCurvature, Proposal};
use crate::train::Bayesian;

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + ModelOutputs<Input: ExampleBatch> + 'static,
    A: FromCurvature,
{
    /// Uses the generalised Gauss–Newton matrix Σ JᵢᵀΛᵢJᵢ of a mini-batch as its curvature. In SLANG it replaces the
    /// empirical Fisher information Σ gᵢgᵢᵀ, in VIFA the products of gradients and noise, from which the covariance is
    /// learned. It does not depend on the residuals, and is exact for a model that is linear in its weights. It costs one
    /// more backward pass for each output, and is not part of a record.
    #[must_use]
    pub fn with_gauss_newton(self) -> Self {
        let layout = self.layout().clone();
        let gradients = OutputGradients::<M>::new(layout.clone());
        self.with_curvature_terms(|terms| {
            terms.with_curvature(move |model: &M, batch: &M::Input, proposal: &Proposal| {
                let features = M::features(without_autodiff(batch.clone()));
                let rows = proposal.draws.iter().map(|draw| {
                    let model = model_at(&layout, model, draw)?;
                    let outputs = gradients.outputs(&model, &features)?;
                    let roots = model.likelihood().curvature_roots(&outputs)?.into_iter();
                    roots
                        .map(|root| gradients.weighted(&model, &features, root))
                        .collect::<Result<Vec<_>>>()
                });
                let rows: Vec<_> = rows.collect::<Result<_>>()?;
                Ok(ExampleGradients::joined(
                    rows.into_iter().flatten().collect(),
                ))
            })
        })
    }
}

/// The model in inference mode, with the weights of a draw.
fn model_at<M: Module>(layout: &Layout, model: &M, draw: &Draw) -> Result<M> {
    Ok(layout.write(model.valid(), draw.weights.clone())?)
}
