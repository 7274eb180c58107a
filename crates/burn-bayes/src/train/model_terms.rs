//! Terms of a training step that need more of a model than its loss: those of a prior over functions, and a curvature
//! that is computed from the model's outputs.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use burn_bayes_graph::ExampleGradients;

use crate::error::Result;
use crate::methods::{FunctionTerms, Proposal};

/// How to compute these terms; clones of a wrapped model share it. The types of the model and the batch are erased,
/// because a module cannot skip a field that has them.
#[derive(Clone, Default)]
pub(crate) struct ModelTerms {
    function: Option<Arc<FunctionOf>>,
    curvature: Option<Arc<CurvatureOf>>,
}

type FunctionOf = dyn Fn(&dyn Any, &Proposal) -> Result<FunctionTerms> + Send + Sync;
type CurvatureOf = dyn Fn(&dyn Any, &dyn Any, &Proposal) -> Result<ExampleGradients> + Send + Sync;

impl ModelTerms {
    /// With a prior over functions.
    pub(crate) fn with_function<M: 'static>(
        self,
        terms: impl Fn(&M, &Proposal) -> Result<FunctionTerms> + Send + Sync + 'static,
    ) -> Self {
        let function = move |model: &dyn Any, proposal: &Proposal| {
            let model = model.downcast_ref();
            terms(model.expect("the terms are of this model"), proposal)
        };
        Self {
            function: Some(Arc::new(function)),
            ..self
        }
    }

    /// With a curvature of the loss.
    pub(crate) fn with_curvature<M: 'static, B: 'static>(
        self,
        rows: impl Fn(&M, &B, &Proposal) -> Result<ExampleGradients> + Send + Sync + 'static,
    ) -> Self {
        let curvature = move |model: &dyn Any, batch: &dyn Any, proposal: &Proposal| {
            let (model, batch) = (model.downcast_ref(), batch.downcast_ref());
            rows(
                model.expect("the curvature is of this model"),
                batch.expect("the curvature is of this model's batches"),
                proposal,
            )
        };
        Self {
            curvature: Some(Arc::new(curvature)),
            ..self
        }
    }

    /// The proposal with the terms of the prior over functions.
    pub(crate) fn add_function<M: 'static>(
        &self,
        model: &M,
        mut proposal: Proposal,
    ) -> Result<Proposal> {
        if let Some(function) = &self.function {
            proposal.function = Some(function(model, &proposal)?);
        }
        Ok(proposal)
    }

    /// The proposal with the curvature of a batch.
    pub(crate) fn add_curvature<M: 'static, B: 'static>(
        &self,
        model: &M,
        batch: &B,
        mut proposal: Proposal,
    ) -> Result<Proposal> {
        if let Some(curvature) = &self.curvature {
            proposal.curvature = Some(curvature(model, batch, &proposal)?);
        }
        Ok(proposal)
    }
}

impl fmt::Debug for ModelTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |is_set| if is_set { "set" } else { "none" };
        f.debug_struct("ModelTerms")
            .field("function", &shown(self.function.is_some()))
            .field("curvature", &shown(self.curvature.is_some()))
            .finish()
    }
}
