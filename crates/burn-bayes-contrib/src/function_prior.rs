//! Priors over functions: the outputs of a network are compared with a Gaussian process, instead of its weights with a
//! Gaussian.
//!
//! At n measurement points X, with K = k(X, X), the prior over the outputs f(X; θ) is N(0, K). Linearised at the draw of
//! a step, ½ fᵀK⁻¹f has the gradient and the Gauss–Newton curvature
//!
//! ```text
//! gradient    JᵀK⁻¹f,   J = ∂f(X; θ)/∂θ
//! curvature   JᵀK⁻¹J = RᵀR,  R = L⁻¹J,  K = L Lᵀ
//! ```
//!
//! which a natural-gradient step adds to those of the loss and of the prior over weights:
//!
//! ```text
//! P⁺ = (1−β) P + β (N H + diag α + JᵀK⁻¹J)
//! μ⁺ = μ − η (P⁺)⁻¹ (N g + α⊙μ + JᵀK⁻¹f)
//! ```
//!
//! R has n rows per output and enters SLANG's factors like the gradients of n more examples; VON takes the diagonal of
//! RᵀR. VIFA takes the gradient alone, at every draw, which is that of E_q ½ fᵀK⁻¹f: the function-space term of its
//! objective KL(q(w)‖p(w)) + E_q KL(N(f, σ²I)‖N(0, K)) (equation 3.6), without bias. The entropy in it is that of the
//! weights, so the objective is an upper bound of the divergence between the distributions of functions. VIFA can also
//! minimise [that divergence of the linearised network](FunctionDivergence).
//!
//! The outputs are independent processes with the same kernel. The points are drawn afresh in every step, so that the
//! prior acts at all inputs from which they are drawn.
//!
//! A **sketch** replaces R by r random rows S L⁻¹J with independent signs S/√r, so that RᵀR is right on average. It costs
//! r backward passes instead of one per output, and r·D numbers instead of n·C·D.
//!
//! [`FunctionPrior::laplace`] is the Laplace approximation of a small network that was trained with the prior, in double
//! precision.
//!
//! Departures from the report: the second derivatives of f are left out, which keeps the precision positive, as for the
//! loss. The update of the variance of f given the weights is left out too: for a Gaussian likelihood it does not change
//! the updates of P and μ.
//!
//! Reference: equation 3.16 of the report on VON with functional regularisation.

mod curvature;
mod divergence;
mod laplace;
mod output_precision;
mod start;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::graph::{ExampleGradients, Layout, module_device};
use burn_bayes::kernels::{from_host, to_host};
use burn_bayes::laplace::{ModelOutputs, OutputGradients, not_finite};
use burn_bayes::methods::{Algorithm, Draw, FunctionPriorUse, FunctionTerms, Proposal};
use burn_bayes::train::PriorTerms;
use burn_bayes::{Bayesian, Error, Noise, Result};

use crate::functional::{Kernel, MOST_POINTS, MeasurementPoints, Points};

pub use divergence::FunctionDivergence;

/// A Gaussian-process prior over the outputs of a network.
///
/// ```
/// use burn_bayes_contrib::functional::{Kernel, MeasurementPoints};
/// use burn_bayes_contrib::function_prior::FunctionPrior;
///
/// let kernel = Kernel::constant(1.0) * Kernel::periodic(1.0, [0.7]);
/// let points = MeasurementPoints::uniform(vec![-3.0], vec![3.0])?;
/// let prior = FunctionPrior::new(kernel, points, 32)?;
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FunctionPrior {
    kernel: Kernel,
    points: MeasurementPoints,
    count: usize,
    jitter: f64,
    sketch: Option<usize>,
    divergence: FunctionDivergence,
}

impl FunctionPrior {
    /// The prior with this kernel, at `count` measurement points in every step.
    ///
    /// # Errors
    ///
    /// If the kernel does not fit the points, or there are not so many points, or more than
    /// [`MOST_POINTS`].
    pub fn new(kernel: Kernel, points: MeasurementPoints, count: usize) -> Result<Self> {
        if count > MOST_POINTS {
            let problem = format!(
                "is {count}; the covariance of the points is factorised in every step, so use at most {MOST_POINTS}"
            );
            return Err(Error::config("count", problem));
        }
        kernel.matrix(&points.draw(count, Noise::new(0))?)?;
        Ok(Self {
            kernel,
            points,
            count,
            jitter: JITTER,
            sketch: None,
            divergence: FunctionDivergence::Joint,
        })
    }

    /// Sets the share of the mean variance that is added to K; the default is 10⁻³. It is the variance of white noise that
    /// the prior allows. With a small one, a network that cannot be exactly a function of the kernel is held at zero.
    #[must_use]
    pub fn with_jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// Uses `rows` random rows for the curvature, which then is right on average. For networks with many weights or
    /// outputs.
    #[must_use]
    pub fn with_sketch(mut self, rows: usize) -> Self {
        self.sketch = Some(rows);
        self
    }

    /// Sets the divergence that VIFA minimises; the default is [`FunctionDivergence::Joint`], the only one of the other
    /// algorithms.
    #[must_use]
    pub fn with_divergence(mut self, divergence: FunctionDivergence) -> Self {
        self.divergence = divergence;
        self
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// All settings as text. Given points are described by their number.
    fn description(&self) -> String {
        let Self {
            kernel,
            points,
            count,
            jitter,
            sketch,
            divergence,
        } = self;
        format!("{kernel} {points:?} {count} {jitter:e} {sketch:?} {divergence:?}")
    }

    fn validate(&self) -> Result<()> {
        if !(self.jitter.is_finite() && self.jitter >= 0.0) {
            let problem = format!("is {}; it must be finite and not below zero", self.jitter);
            return Err(Error::config("jitter", problem));
        }
        match self.sketch {
            Some(0) => Err(Error::config("sketch", "is 0; it must be at least 1")),
            _ => Ok(()),
        }
    }

    /// Fails if an algorithm that uses this much of a prior cannot minimise its divergence.
    fn check_divergence(&self, used: FunctionPriorUse) -> Result<()> {
        match (self.divergence, used) {
            // Without support, the training says so.
            (FunctionDivergence::Joint, _) | (_, FunctionPriorUse::Nothing) => Ok(()),
            (_, FunctionPriorUse::Gradient) => match self.jitter > 0.0 {
                true => Ok(()),
                false => {
                    let problem = "is 0; a divergence between Gaussians over function values needs one above zero";
                    Err(Error::config("jitter", problem))
                }
            },
            _ => {
                let problem = "is that of distributions of functions, which only VIFA minimises; use \
                               `FunctionDivergence::Joint` or VIFA";
                Err(Error::config("divergence", problem))
            }
        }
    }
}

/// Adds a prior over functions to a wrapped model.
///
/// It is not a [`Prior`](burn_bayes::Prior): a prior over weights is a setting of an algorithm, which files contain and any
/// model accepts, whereas this one needs a model that states its [outputs](ModelOutputs), and its points may come from code.
pub trait WithFunctionPrior<M: ModelOutputs>: Sized {
    /// Adds a prior over functions to that over the weights, for a model whose features are a matrix with one point per
    /// row. A weak prior over the weights leaves the choice of the function to this one. The effective sample size is
    /// then N, because this prior counts once. A record contains only a hash of
    /// it: set it again to resume a training, whose first step fails without it.
    ///
    /// # Errors
    ///
    /// If the algorithm does not support priors over functions, a setting is invalid, or `ess` was set to another number
    /// than N.
    fn with_function_prior(self, prior: FunctionPrior) -> Result<Self>
    where
        M: ModelOutputs<Features = Tensor<2>>,
    {
        self.with_function_prior_on(prior, |points| points)
    }

    /// Adds a prior over functions for a model with other features, which `features` makes from the points, `[n, width]`.
    ///
    /// # Errors
    ///
    /// Those of [`with_function_prior`](Self::with_function_prior).
    fn with_function_prior_on(
        self,
        prior: FunctionPrior,
        features: impl Fn(Tensor<2>) -> M::Features + Send + Sync + 'static,
    ) -> Result<Self>;
}

impl<M, A> WithFunctionPrior<M> for Bayesian<M, A>
where
    M: Module + ModuleDisplay + ModelOutputs + 'static,
    A: Algorithm,
{
    fn with_function_prior_on(
        self,
        prior: FunctionPrior,
        features: impl Fn(Tensor<2>) -> M::Features + Send + Sync + 'static,
    ) -> Result<Self> {
        let used = self.algorithm().function_prior_use();
        prior.validate()?;
        prior.check_divergence(used)?;
        let comparison = Comparison::<M> {
            prior,
            gradients: OutputGradients::new(self.layout().clone()),
            layout: self.layout().clone(),
            noise: self.algorithm().setup().noise,
            has_rows: used == FunctionPriorUse::Curvature,
        };
        comparison.check(self.template(), &features)?;
        self.with_prior_terms(ComparisonAt {
            comparison,
            features,
        })
    }
}

/// A comparison with these features of the points.
struct ComparisonAt<M: ModelOutputs, F> {
    comparison: Comparison<M>,
    features: F,
}

impl<M, F> PriorTerms<M> for ComparisonAt<M, F>
where
    M: Module + ModelOutputs + 'static,
    F: Fn(Tensor<2>) -> M::Features + Send + Sync + 'static,
{
    fn description(&self) -> String {
        self.comparison.prior.description()
    }

    fn terms(&self, model: &M, proposal: &Proposal) -> Result<FunctionTerms> {
        self.comparison.terms(model, &self.features, proposal)
    }
}

/// A model and the prior over its outputs.
struct Comparison<M: ModelOutputs> {
    prior: FunctionPrior,
    gradients: OutputGradients<M>,
    layout: Arc<Layout>,
    noise: Noise,
    /// Whether the algorithm uses the curvature.
    has_rows: bool,
}

/// The default jitter.
const JITTER: f64 = 1e-3;
/// The stream of the measurement points; algorithms number their own streams from 1.
const MEASUREMENT: u64 = 0x6d65_6173;
/// The most numbers in the rows of a step, 2 GiB.
const MOST_NUMBERS: usize = 1 << 29;

impl<M: Module + ModelOutputs + 'static> Comparison<M> {
    /// The terms at the draws of a proposal.
    fn terms(
        &self,
        model: &M,
        features: &dyn Fn(Tensor<2>) -> M::Features,
        proposal: &Proposal,
    ) -> Result<FunctionTerms> {
        let noise = proposal.id.noise(self.noise).fold(MEASUREMENT);
        let points = self.prior.points.draw(self.prior.count, noise.fold(0))?;
        let factor = self.prior.kernel.factor(&points, self.prior.jitter)?;
        let draws = &proposal.draws;
        let first = draws.first();
        let first = first.ok_or_else(|| Error::config("draws", "are none"))?;
        let device = first.weights.device();
        let inputs = from_host(points.as_slice(), [points.len(), points.width()], &device);
        let places = Places {
            features: features(inputs),
            points,
            factor,
        };
        match (self.prior.divergence, &proposal.gaussian) {
            (FunctionDivergence::Linearized, Some(gaussian)) => {
                let at_mean = At::new(self, model, gaussian.mean.clone(), &places)?;
                at_mean.check(1)?;
                let divergence = at_mean.linearized(gaussian)?;
                Ok(FunctionTerms {
                    rows: None,
                    gradients: Vec::new(),
                    divergence: Some(divergence),
                    replaces_weights: true,
                })
            }
            // A stage of the mean alone has no distribution of functions.
            _ => self.joint(model, &places, draws, noise.fold(1)),
        }
    }

    /// Fails if the model has no outputs at the points.
    fn check(&self, model: &M, features: &dyn Fn(Tensor<2>) -> M::Features) -> Result<()> {
        let points = self.prior.points.draw(self.prior.count, self.noise)?;
        let device = module_device(model);
        let inputs = from_host(
            points.as_slice(),
            [points.len(), points.width()],
            &device.inner(),
        );
        let outputs = || model.valid().outputs(features(inputs));
        let outputs = catch_unwind(AssertUnwindSafe(outputs)).map_err(|_| {
            let problem = format!(
                "have {} coordinates, and the model fails on them; give points with as many coordinates as the model has \
                 inputs, prepared in the same way, or use `with_function_prior_on`",
                points.width()
            );
            Error::config("points", problem)
        })?;
        check_count(&outputs, points.len())
    }

    /// The terms of ½ E fᵀK⁻¹f.
    fn joint(
        &self,
        model: &M,
        places: &Places<M>,
        draws: &[Draw],
        noise: Noise,
    ) -> Result<FunctionTerms> {
        let share = 1.0 / draws.len() as f64;
        let (mut rows, mut gradients) = (Vec::new(), Vec::new());
        for (index, draw) in draws.iter().enumerate() {
            let weights = draw.weights.clone();
            if !self.has_rows {
                gradients.push(self.gradient(model, weights, places)?);
                continue;
            }
            let at_draw = At::new(self, model, weights.clone(), places)?;
            at_draw.check(draws.len())?;
            let (added, gradient) = match self.prior.sketch {
                None => at_draw.whitened()?,
                Some(count) => {
                    let sketch = at_draw.sketch(count, noise.row(index as u64))?;
                    (sketch, self.gradient(model, weights, places)?)
                }
            };
            rows.push(added.mul_scalar(share.sqrt()));
            gradients.push(gradient);
        }
        Ok(FunctionTerms {
            rows: self.has_rows.then(|| Tensor::cat(rows, 0)),
            gradients,
            divergence: None,
            replaces_weights: self.prior.divergence != FunctionDivergence::Joint,
        })
    }

    /// JᵀK⁻¹f by one forward and one backward pass.
    fn gradient(&self, model: &M, weights: Tensor<1>, places: &Places<M>) -> Result<Tensor<1>> {
        // The layers of a frozen model behave as in inference.
        let model = self
            .layout
            .write_leaves(model.clone().freeze(), weights.clone())?;
        let outputs = model.outputs(places.features.clone());
        let values = outputs.clone().without_autodiff();
        check_count(&values, places.points.len())?;
        let mut solved = to_host(values);
        if solved.iter().any(|value| !value.is_finite()) {
            return Err(not_finite());
        }
        places.factor.solve(&mut solved)?;
        let solved = from_host(&solved, outputs.dims(), &weights.device());
        let energy = (outputs * solved).sum();
        let mut gradients = match energy.is_tracked() {
            true => GradientsParams::from_grads(energy.backward(), &model),
            // The outputs depend on none of the weights.
            false => GradientsParams::new(),
        };
        let pieces = self.layout.gradient_parts(&model, &mut gradients)?;
        Ok(Tensor::cat(pieces, 0).without_autodiff())
    }
}

/// The measurement points of a step.
struct Places<M: ModelOutputs> {
    points: Points,
    features: M::Features,
    /// L.
    factor: Cholesky,
}

/// Fails unless there is one output for each point.
fn check_count(outputs: &Tensor<2>, points: usize) -> Result<()> {
    let [count, _] = outputs.dims();
    if count == points {
        return Ok(());
    }
    let problem = format!("make {count} outputs of {points} points; return one example per point");
    Err(Error::config("features", problem))
}

/// The comparison at one draw.
struct At<'a, M: ModelOutputs> {
    comparison: &'a Comparison<M>,
    model: M,
    places: &'a Places<M>,
    /// f, `[n, C]`.
    outputs: Tensor<2>,
}

impl<'a, M: Module + ModelOutputs + 'static> At<'a, M> {
    /// At these weights.
    fn new(
        comparison: &'a Comparison<M>,
        model: &M,
        weights: Tensor<1>,
        places: &'a Places<M>,
    ) -> Result<Self> {
        let model = comparison.layout.write(model.valid(), weights)?;
        let outputs = comparison.gradients.outputs(&model, &places.features)?;
        check_count(&outputs, places.points.len())?;
        Ok(Self {
            comparison,
            model,
            places,
            outputs,
        })
    }

    /// Fails if the rows would be too large.
    fn check(&self, draws: usize) -> Result<()> {
        let [count, width] = self.outputs.dims();
        let prior = &self.comparison.prior;
        let sketch = prior.sketch.filter(|_| self.comparison.has_rows);
        let rows = sketch.unwrap_or(count * width);
        let numbers = draws * rows * self.comparison.layout.len();
        if numbers > MOST_NUMBERS {
            let problem = format!(
                "needs {rows} rows of {} weights for each of {draws} draws, {} MB; use fewer measurement points, or \
                 `with_sketch`, which needs fewer rows",
                self.comparison.layout.len(),
                numbers / 1_000_000 * size_of::<f32>()
            );
            return Err(Error::config("prior", problem));
        }
        Ok(())
    }

    /// R = L⁻¹J of every output, and the gradient Rᵀ(L⁻¹f).
    fn whitened(&self) -> Result<(Tensor<2>, Tensor<1>)> {
        let [count, width] = self.outputs.dims();
        let device = self.outputs.device();
        let mut inverse = SquareMatrix::identity(count).into_row_major();
        self.places.factor.solve_lower(&mut inverse)?;
        let inverse = from_host(&inverse, [count, count], &device);
        let rows = (0..width).map(|output| {
            let jacobian = self.jacobian(output)?;
            Ok(jacobian.weighted_sums(inverse.clone()))
        });
        let rows = Tensor::cat(rows.collect::<Result<Vec<Tensor<2>>>>()?, 0);
        let mut errors = to_host(self.outputs.clone());
        self.places.factor.solve_lower(&mut errors)?;
        let errors = from_host(&errors, [count, width], &device);
        let errors = errors.transpose().reshape([1, count * width]);
        let gradient = errors.matmul(rows.clone()).squeeze_dim(0);
        Ok((rows, gradient))
    }

    /// The rows of one output's Jacobian.
    fn jacobian(&self, output: usize) -> Result<ExampleGradients> {
        let gradients = &self.comparison.gradients;
        gradients.of_output(&self.model, &self.places.features, &self.outputs, output)
    }

    /// Random rows.
    fn sketch(&self, rows: usize, noise: Noise) -> Result<Tensor<2>> {
        let [count, width] = self.outputs.dims();
        let scale = (rows as f64).sqrt().recip();
        let random = (0..rows).map(|row| {
            let normals = noise.fold(row as u64).latent(count * width);
            let signs = normals.into_iter().map(|z| scale.copysign(f64::from(z)));
            let mut weights: Vec<f64> = signs.collect();
            self.places.factor.solve_lower_transposed(&mut weights)?;
            self.weighted(&weights)
        });
        let random = random.collect::<Result<Vec<Tensor<1>>>>()?;
        Ok(Tensor::stack(random, 0))
    }

    /// Σ wᵢ_c ∇fᵢ_c.
    fn weighted(&self, weights: &[f64]) -> Result<Tensor<1>> {
        let weights = from_host(weights, self.outputs.dims(), &self.outputs.device());
        let gradients = &self.comparison.gradients;
        let sums = gradients.weighted(&self.model, &self.places.features, weights)?;
        Ok(sums.mean().mul_scalar(self.places.points.len() as f64))
    }
}

#[cfg(test)]
mod tests;
