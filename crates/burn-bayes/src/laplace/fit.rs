//! The configuration, the pass over the training data, and its result.

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::{CapturedModel, ExampleBatch, Layout};
use serde::{Deserialize, Serialize};

use super::evidence::PriorSharing;
use super::fitted::LaplaceFit;
use super::kronecker::Kronecker;
use super::near_draws::SomeRows;
use super::outputs::{ModelOutputs, OutputGradients, micro_batches, without_autodiff};
use super::structure::{Diagonal, Full, LowRank, RowSum};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::methods::checks::counts;
use crate::posterior::{FactorPosterior, ModelState};
use crate::prior::{Prior, PriorPrecisions};
use crate::train::{ExampleLoss, PostHoc};

/// The structure of the curvature of the loss, G.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Structure {
    /// The diagonal of G.
    Diagonal,
    /// The leading directions of G, found in a stream over the batches, and the exact diagonal of the rest. It
    /// equals [`Full`](Self::Full) if `rank` is at least the rank of G.
    LowRank {
        /// L, the number of directions.
        rank: usize,
    },
    /// All of G, for at most [`Laplace::FULL_LIMIT`] weights, such as those of a last layer that `group`
    /// selects.
    Full,
    /// The Kronecker product of the second moments of the last layer's inputs and of the curvature of the
    /// outputs. `group` must select the weight and the bias of that layer, with at most
    /// [`Laplace::FULL_LIMIT`] weights.
    KroneckerLastLayer,
}

/// The prior of a Laplace approximation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PriorChoice {
    /// The precisions that maximise the log marginal likelihood, raised by a common factor until the quadratic
    /// approximation of the loss holds at draws of the posterior.
    ///
    /// A classifier that fits its training rows has hardly any curvature left, so the marginal likelihood alone would
    /// choose a prior so wide that draws from the posterior predict nothing. Where the curvature of the outputs is the same everywhere, as with
    /// Gaussian noise, only [`PostHoc::fit`] raises them, whose posterior is for draws of the network itself.
    Evidence(PriorSharing),
    /// This prior.
    Given(Prior),
}

/// The Laplace approximation of a trained model.
///
/// [`PostHoc::fit`] returns a posterior for draws of the network. [`gauss_newton`](Self::gauss_newton) and
/// [`empirical_fisher`](Self::empirical_fisher) return a [`LaplaceFit`], which also has the log marginal likelihood
/// and takes other priors; with its posterior [`Linearized`](super::Linearized) predicts.
///
/// ```
/// use burn_bayes::laplace::{Laplace, Linearized, ModelOutputs, Structure};
///
/// fn predictor<M>(trained: M, train_len: usize, batches: Vec<M::Input>) -> burn_bayes::Result<Linearized<M>>
/// where
///     M: burn::module::Module + ModelOutputs<Input: burn_bayes::ExampleBatch> + 'static,
/// {
///     let laplace = Laplace::new(train_len).with_structure(Structure::LowRank { rank: 20 });
///     let posterior = laplace.gauss_newton(&trained, batches)?.posterior()?;
///     Linearized::new(trained, posterior)
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct Laplace {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The prior over the weights; [`with_prior`](Self::with_prior) gives one.
    #[config(default = "PriorChoice::Evidence(PriorSharing::Global)")]
    pub prior_choice: PriorChoice,
    /// The parameters that become random; the others stay point estimates.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// The structure of the curvature.
    #[config(default = "Structure::LowRank { rank: 20 }")]
    pub structure: Structure,
}

impl<M> PostHoc<M, M::Input> for Laplace
where
    M: Module + ModelOutputs<Input: ExampleBatch> + 'static,
{
    type Posterior = FactorPosterior;

    /// # Errors
    ///
    /// Those of [`gauss_newton`](Laplace::gauss_newton). A warning is logged if the given prior is so wide that draws of
    /// the model's own weights destroy the fit.
    fn fit(
        &self,
        model: &M,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<FactorPosterior> {
        let (fit, rows) = self.gauss_newton_with_rows(model, batches)?;
        if let PriorChoice::Given(_) = self.prior_choice {
            fit.warn_of_wide_draws(&rows, model)?;
        }
        self.near(fit, &rows, model)?.posterior()
    }
}

impl Laplace {
    /// The largest number of weights of [`Structure::Full`] and [`Structure::KroneckerLastLayer`].
    pub const FULL_LIMIT: usize = 2000;

    /// The same with this prior, which should be that of the training.
    #[must_use]
    pub fn with_prior(self, prior: Prior) -> Self {
        self.with_prior_choice(PriorChoice::Given(prior))
    }

    /// Computes the generalised Gauss–Newton matrix of these batches, scaled to N examples.
    ///
    /// # Errors
    ///
    /// Without examples or with twice as many as N, if a setting is invalid or the structure does not fit the selected parameters, or if a
    /// loss, an output or a gradient cannot be computed or is not finite.
    pub fn gauss_newton<M>(
        &self,
        model: &M,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<LaplaceFit>
    where
        M: Module + ModelOutputs<Input: ExampleBatch> + 'static,
    {
        let (fit, rows) = self.gauss_newton_with_rows(model, batches)?;
        // There the linearised model loses exactly what the quadratic approximation says.
        match model.likelihood().has_constant_curvature() {
            true => Ok(fit),
            false => self.near(fit, &rows, model),
        }
    }

    /// The fit, and some of its rows.
    fn gauss_newton_with_rows<M>(
        &self,
        model: &M,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<(LaplaceFit, SomeRows<M::Input>)>
    where
        M: Module + ModelOutputs<Input: ExampleBatch> + 'static,
    {
        let mut pass = Pass::new(self, model)?;
        let likelihood = model.likelihood();
        likelihood.validate()?;
        let gradients = OutputGradients::new(pass.layout.clone());
        pass.over(model, batches, |sum, batch| {
            let features = M::features(batch);
            let outputs = gradients.outputs(model, &features)?;
            let roots = likelihood.curvature_roots(&outputs)?;
            match sum {
                Sum::Rows(sum) => {
                    for root in roots {
                        sum.add(&gradients.weighted(model, &features, root)?)?;
                    }
                    Ok(())
                }
                Sum::Kronecker(sum) => {
                    let first = gradients.of_output(model, &features, &outputs, 0)?;
                    let all = gradients.weighted(model, &features, outputs.ones_like())?;
                    sum.add([&first, &all], &roots)
                }
            }
        })?;
        pass.finish(self)
    }

    /// Computes the empirical Fisher information of these batches, Σᵢ gᵢgᵢᵀ with the gradients of every example's
    /// loss, scaled to N examples.
    ///
    /// # Errors
    ///
    /// Those of [`gauss_newton`](Self::gauss_newton); also for [`Structure::KroneckerLastLayer`].
    pub fn empirical_fisher<M>(
        &self,
        model: &M,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<LaplaceFit>
    where
        M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
    {
        let mut pass = Pass::new(self, model)?;
        let losses = |model: &M, batch| model.example_losses(batch);
        let captured = CapturedModel::new(pass.layout.clone(), losses);
        pass.over(model, batches, |sum, batch| match sum {
            Sum::Rows(sum) => sum.add(&captured.example_gradients(model, &batch)?.gradients),
            Sum::Kronecker(_) => Err(Error::config(
                "structure",
                "is KroneckerLastLayer, which the empirical Fisher information does not have; use `gauss_newton`",
            )),
        })?;
        let (fit, rows) = pass.finish(self)?;
        self.near(fit, &rows, model)
    }

    /// With a prior whose draws are near, unless one was given.
    fn near<M>(&self, fit: LaplaceFit, rows: &SomeRows<M::Input>, model: &M) -> Result<LaplaceFit>
    where
        M: Module + ExampleLoss<Input: ExampleBatch>,
    {
        match self.prior_choice {
            PriorChoice::Given(_) => Ok(fit),
            PriorChoice::Evidence(_) => fit.with_near_draws(rows, model),
        }
    }
}

/// A sum over examples.
enum Sum {
    Rows(Box<dyn RowSum>),
    Kronecker(Kronecker),
}

impl Sum {
    fn new(structure: Structure, layout: &Layout, device: &Device) -> Result<Self> {
        let len = layout.len();
        Ok(match structure {
            Structure::Diagonal | Structure::LowRank { rank: 0 } => {
                Self::Rows(Box::new(Diagonal::new(len, device)))
            }
            Structure::LowRank { rank } => {
                Self::Rows(Box::new(LowRank::new(rank.min(len), len, device)))
            }
            Structure::Full => Self::Rows(Box::new(Full::new(len, device)?)),
            Structure::KroneckerLastLayer => Self::Kronecker(Kronecker::new(layout)?),
        })
    }

    fn rows_at_a_time(&self) -> usize {
        match self {
            Self::Rows(sum) => sum.rows_at_a_time(),
            Self::Kronecker(_) => super::structure::ROWS_AT_A_TIME,
        }
    }
}

/// Fails if N cannot be the number of training examples of batches with so many `examples`, which may be some of them only.
pub fn check_train_len(train_len: usize, examples: usize) -> Result<()> {
    counts([("train_len", train_len)])?;
    if examples == 0 {
        return Err(Error::config("batches", "have no examples"));
    }
    if examples / 2 >= train_len {
        let problem = format!(
            "is {train_len}, but the batches have {examples} rows; it is the number of training examples"
        );
        return Err(Error::config("train_len", problem));
    }
    Ok(())
}

/// A pass over the training data.
struct Pass<B> {
    layout: Arc<Layout>,
    state: ModelState,
    mean: Tensor<1>,
    prior: PriorPrecisions,
    sum: Sum,
    examples: usize,
    loss: f64,
    rows: SomeRows<B>,
}

impl<B: ExampleBatch> Pass<B> {
    fn new<M: Module>(laplace: &Laplace, model: &M) -> Result<Self> {
        counts([("train_len", laplace.train_len)])?;
        let layout = Arc::new(Layout::new(model, &laplace.group)?);
        let mean = layout.flatten(model)?.without_autodiff();
        let prior = match &laplace.prior_choice {
            PriorChoice::Given(prior) => prior.resolve(&layout)?,
            PriorChoice::Evidence(_) => Prior::isotropic(1.0).resolve(&layout)?,
        };
        Ok(Self {
            prior,
            rows: SomeRows::default(),
            sum: Sum::new(laplace.structure, &layout, &mean.device())?,
            examples: 0,
            loss: 0.0,
            state: ModelState::of(model, &layout),
            layout,
            mean,
        })
    }

    fn over<M: Module + ExampleLoss<Input = B>>(
        &mut self,
        model: &M,
        batches: impl IntoIterator<Item = B>,
        mut add: impl FnMut(&mut Sum, B) -> Result<()>,
    ) -> Result<()> {
        let evaluated = model.valid();
        for batch in batches {
            let batch = without_autodiff(batch);
            for batch in micro_batches(&batch, self.sum.rows_at_a_time())? {
                let losses = to_host(evaluated.example_losses(batch.clone()));
                self.examples += losses.len();
                self.loss += losses.iter().sum::<f64>();
                self.rows.add(&batch);
                add(&mut self.sum, batch)?;
            }
        }
        Ok(())
    }

    /// The fit, with the prior of the evidence unless one was given, and some of its rows.
    fn finish(self, laplace: &Laplace) -> Result<(LaplaceFit, SomeRows<B>)> {
        check_train_len(laplace.train_len, self.examples)?;
        if !self.loss.is_finite() {
            return Err(Error::numerical(format!(
                "the loss of the training examples is {}; likely cause: training diverged",
                self.loss
            )));
        }
        let scale = laplace.train_len as f64 / self.examples as f64;
        let curvature = match self.sum {
            Sum::Rows(sum) => sum.finish()?,
            Sum::Kronecker(sum) => sum.finish(&self.mean.device())?,
        };
        let fit = LaplaceFit {
            layout: self.layout,
            state: self.state,
            mean: self.mean,
            curvature: curvature.scaled(scale),
            log_likelihood: -scale * self.loss,
            train_len: laplace.train_len,
            prior: self.prior,
        };
        let fit = match &laplace.prior_choice {
            PriorChoice::Given(_) => fit,
            PriorChoice::Evidence(sharing) => fit.with_optimal_prior(*sharing)?,
        };
        Ok((fit, self.rows))
    }
}
