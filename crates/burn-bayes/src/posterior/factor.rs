//! A low-rank-plus-diagonal Gaussian, in covariance or precision form.

use std::f64::consts::PI;
use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, Param, ParamGroup, ParamId};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::covariance::CovarianceForm;
use super::dense::DenseGaussian;
use super::form::{CovarianceRoots, CovarianceTerms, GaussianForm};
use super::precision::PrecisionForm;
use super::storage::{Contents, DIAGONAL, FACTORS, MEAN, Saved};
use super::{ModelState, Posterior, Sampler, check_finite};
use crate::error::{Error, Result};
use crate::kernels::composed::{from_host, to_host};
use crate::noise::Noise;
use crate::prior::{PriorPrecisions, selects};

/// A low-rank-plus-diagonal Gaussian over the weights of a model.
///
/// It is in **covariance form**, N(c, FᵀF + diag ψ), or in **precision form**,
/// N(μ, (UᵀU + diag d)⁻¹), with K rows of factors; K = 0 is mean-field. It is a Burn [`Module`], so
/// it can be moved between devices and saved in records, and it holds the [`Layout`] that maps
/// numbers to parameters.
///
/// ```
/// use std::sync::Arc;
/// use burn::{module::ParamGroup, nn::LinearConfig, tensor::{Device, Tensor}};
/// use burn_bayes::{FactorPosterior, Noise, Prior};
/// use burn_bayes::graph::Layout;
///
/// let device = Device::default();
/// let layer = LinearConfig::new(2, 1).init(&device.clone().autodiff());
/// let layout = Arc::new(Layout::new(&layer, &ParamGroup::all())?);
///
/// let posterior = FactorPosterior::covariance(
///     layout.clone(),
///     layout.flatten(&layer)?,
///     Some(Tensor::from_data([[0.3, -0.1, 0.2]], &device)),
///     Tensor::full([3], 0.01, &device),
/// )?;
/// let sampled = posterior.write_draw(layer, Noise::new(0))?;
/// let divergence = posterior.kl(&Prior::isotropic(1.0).resolve(&layout)?)?;
/// assert!(divergence > 0.0);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct FactorPosterior {
    form: Form,
    #[module(skip)]
    layout: Arc<Layout>,
    #[module(skip)]
    state: ModelState,
}

/// The two forms.
#[derive(Module, Debug)]
enum Form {
    Covariance(CovarianceForm),
    Precision(PrecisionForm),
}

impl Form {
    fn gaussian(&self) -> &dyn GaussianForm {
        match self {
            Self::Covariance(form) => form,
            Self::Precision(form) => form,
        }
    }
}

/// The name of a form in saved files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormKind {
    /// N(c, FᵀF + diag ψ).
    Covariance,
    /// N(μ, (UᵀU + diag d)⁻¹).
    Precision,
}

impl FormKind {
    const ALL: [Self; 2] = [Self::Covariance, Self::Precision];

    /// `covariance` or `precision`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Covariance => "covariance",
            Self::Precision => "precision",
        }
    }
}

impl FactorPosterior {
    /// N(mean, factorsᵀ factors + diag variance).
    pub fn covariance(
        layout: Arc<Layout>,
        mean: Tensor<1>,
        factors: Option<Tensor<2>>,
        variance: Tensor<1>,
    ) -> Result<Self> {
        Self::new(FormKind::Covariance, layout, mean, factors, variance)
    }

    /// N(mean, (factorsᵀ factors + diag precision)⁻¹).
    pub fn precision(
        layout: Arc<Layout>,
        mean: Tensor<1>,
        factors: Option<Tensor<2>>,
        precision: Tensor<1>,
    ) -> Result<Self> {
        Self::new(FormKind::Precision, layout, mean, factors, precision)
    }

    /// Fails unless shapes fit the layout, numbers are finite and the diagonal is positive; zero factors are dropped.
    fn new(
        kind: FormKind,
        layout: Arc<Layout>,
        mean: Tensor<1>,
        factors: Option<Tensor<2>>,
        diagonal: Tensor<1>,
    ) -> Result<Self> {
        let factors = factors.filter(|factors| factors.dims()[0] > 0);
        check(kind, &layout, &mean, factors.as_ref(), &diagonal)?;
        let (mean, factors, diagonal) = (constant(mean), factors.map(constant), constant(diagonal));
        let form = match kind {
            FormKind::Covariance => Form::Covariance(CovarianceForm {
                mean,
                factors,
                diagonal,
            }),
            FormKind::Precision => Form::Precision(PrecisionForm {
                mean,
                factors,
                diagonal,
            }),
        };
        Ok(Self {
            form,
            layout,
            state: ModelState::default(),
        })
    }

    /// The layout of the weights.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// D, the number of weights.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no weights.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// K, the number of factors.
    pub fn rank(&self) -> usize {
        self.factors().map_or(0, |factors| factors.dims()[0])
    }

    /// The form it is in.
    pub fn kind(&self) -> FormKind {
        match self.form {
            Form::Covariance(_) => FormKind::Covariance,
            Form::Precision(_) => FormKind::Precision,
        }
    }

    /// The device its tensors are on.
    pub fn device(&self) -> Device {
        self.mean().device()
    }

    /// The mean, `[D]`.
    pub fn mean(&self) -> Tensor<1> {
        match &self.form {
            Form::Covariance(form) => form.mean.val(),
            Form::Precision(form) => form.mean.val(),
        }
    }

    /// The factors, `[K, D]`, of the covariance or of the precision.
    pub fn factors(&self) -> Option<Tensor<2>> {
        match &self.form {
            Form::Covariance(form) => form.factors.as_ref().map(Param::val),
            Form::Precision(form) => form.factors.as_ref().map(Param::val),
        }
    }

    /// The diagonal, `[D]`: variances ψ in covariance form, precisions d in precision form.
    pub fn diagonal(&self) -> Tensor<1> {
        match &self.form {
            Form::Covariance(form) => form.diagonal.val(),
            Form::Precision(form) => form.diagonal.val(),
        }
    }

    /// The marginal variances, `[D]`, computed in double precision: they keep their digits where the factors leave
    /// little of the diagonal's variance.
    pub fn variance(&self) -> Result<Tensor<1>> {
        let variance = self.form.gaussian().variance()?;
        Ok(from_host(variance, [self.layout.len()], &self.device()))
    }

    /// The diagonal of Σ⁻¹, D numbers: 1 over the variance of each weight, given all others.
    pub(crate) fn precision_diagonal(&self) -> Result<Vec<f64>> {
        self.form.gaussian().precision_diagonal()
    }

    /// The distance of `weights` from the mean in marginal standard deviations, as a root mean square over weights.
    pub fn standardized_distance(&self, weights: &Tensor<1>) -> Result<f64> {
        self.check_len(weights)?;
        let distances = to_host(weights.clone())
            .into_iter()
            .zip(to_host(self.mean()));
        let variances = self.form.gaussian().variance()?;
        let squares = distances.zip(&variances).map(|((weight, mean), variance)| {
            let distance = weight - mean;
            distance * distance / variance
        });
        Ok((squares.sum::<f64>() / self.len() as f64).sqrt())
    }

    /// Σ v, without forming Σ.
    pub fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        self.check_len(vector)?;
        self.form.gaussian().covariance_product(vector)
    }

    /// Σ⁻¹ v, without forming Σ.
    pub fn precision_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>> {
        self.check_len(vector)?;
        self.form.gaussian().precision_product(vector)
    }

    /// The variances of functions that are linear in the weights, `[R]`: the diagonal of J Σ Jᵀ. Row r of
    /// `jacobian`, `[R, D]`, is the gradient of function r.
    ///
    /// With the gradients of a model's outputs at the mean, these are the variances of its
    /// **linearised** outputs.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use burn::{module::ParamGroup, nn::LinearConfig, tensor::{Device, Tensor}};
    /// # use burn_bayes::FactorPosterior;
    /// # use burn_bayes::graph::Layout;
    /// # let device = Device::default();
    /// # let layer = LinearConfig::new(2, 1).with_bias(false).init(&device);
    /// # let layout = Arc::new(Layout::new(&layer, &ParamGroup::all())?);
    /// let mean = layout.flatten(&layer)?;
    /// let factors = Some(Tensor::from_data([[1.0, 2.0]], &device));
    /// let posterior = FactorPosterior::covariance(layout, mean, factors, Tensor::ones([2], &device))?;
    /// // The variances of the first weight, and of the difference of both.
    /// let jacobian = Tensor::from_data([[1.0, 0.0], [1.0, -1.0]], &device);
    /// let variances = posterior.linear_variance(&jacobian)?.into_data();
    /// assert_eq!(variances.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn linear_variance(&self, jacobian: &Tensor<2>) -> Result<Tensor<1>> {
        let jacobian = self.jacobian(jacobian)?;
        Ok(self.covariance_roots()?.variance(jacobian))
    }

    /// The covariance of functions that are linear in the weights, J Σ Jᵀ, `[R, R]`, as that of a model's
    /// linearised outputs; see [`linear_variance`](Self::linear_variance).
    pub fn linear_covariance(&self, jacobian: &Tensor<2>) -> Result<Tensor<2>> {
        let [rows, _] = jacobian.dims();
        let jacobian = self.jacobian(jacobian)?;
        let roots = self.covariance_roots()?.of(jacobian).into_iter();
        let products = roots.map(|root| root.clone().matmul(root.transpose()));
        Ok(products.fold(Tensor::zeros([rows, rows], &self.device()), Tensor::add))
    }

    /// A draw of all weights, `[D]`.
    ///
    /// For several draws, use a [`sampler`](Posterior::sampler), which computes once what they
    /// share.
    pub fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        self.sampler()?.draw(noise)
    }

    /// `count` draws, `[count, D]`; row s is the draw with `noise.row(s)`.
    pub fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        if count == 0 {
            return Ok(Tensor::zeros([0, self.len()], &self.device()));
        }
        self.sampler()?.draws(noise, count)
    }

    /// log q(θ), in nats.
    pub fn log_density(&self, weights: &Tensor<1>) -> Result<f64> {
        Ok(self.log_densities(&weights.clone().unsqueeze())?[0])
    }

    /// log q(θ) for every row of `weights`, `[S, D]`, in nats.
    pub fn log_densities(&self, weights: &Tensor<2>) -> Result<Vec<f64>> {
        self.check_width(weights.dims()[1])?;
        let gaussian = self.form.gaussian();
        let deviations = weights.clone() - self.mean().unsqueeze::<2>();
        let constant = self.len() as f64 * (2.0 * PI).ln() + gaussian.log_determinant()?;
        let distances = gaussian.squared_distances(&deviations)?.into_iter();
        Ok(distances
            .map(|distance| -0.5 * (constant + distance))
            .collect())
    }

    /// ½(D log 2πe + log|Σ|), in nats.
    pub fn entropy(&self) -> Result<f64> {
        let log_determinant = self.form.gaussian().log_determinant()?;
        Ok(0.5 * (self.len() as f64 * (1.0 + (2.0 * PI).ln()) + log_determinant))
    }

    /// KL(q‖p) = ½[Σ α⊙(c² + Var θ) − D − Σ log α − log|Σ|], in nats.
    pub fn kl(&self, prior: &PriorPrecisions) -> Result<f64> {
        if prior.len() != self.len() {
            return Err(Error::layout(format!(
                "the prior is over {} weights, but the posterior is over {}",
                prior.len(),
                self.len()
            )));
        }
        let log_determinant = self.form.gaussian().log_determinant()?;
        let second_moments = self.second_moments()?;
        let mut weighted = 0.0;
        let mut start = 0;
        for &(len, precision) in prior.segments() {
            weighted += precision * second_moments[start..start + len].iter().sum::<f64>();
            start += len;
        }
        Ok(0.5 * (weighted - self.len() as f64 - prior.log_sum() - log_determinant))
    }

    /// The prior precision α with the smallest KL(q‖p), which maximises the bound on the evidence for this posterior:
    /// the number of the weights that `group` selects by path over Σ (c² + Var θ) of these weights.
    ///
    /// # Errors
    ///
    /// If the group selects no weights.
    pub fn prior_precision(&self, group: &ParamGroup) -> Result<f64> {
        let second_moments = self.second_moments()?;
        let (mut count, mut sum, mut start) = (0, 0.0, 0);
        for entry in self.layout.entries() {
            let end = start + entry.len();
            if selects(group, &entry.path) {
                count += entry.len();
                sum += second_moments[start..end].iter().sum::<f64>();
            }
            start = end;
        }
        if count == 0 {
            let problem = format!("{group:?} selects none of the random parameters");
            return Err(Error::config("group", problem));
        }
        Ok(count as f64 / sum)
    }

    /// c² + Var θ.
    fn second_moments(&self) -> Result<Vec<f64>> {
        let variances = self.form.gaussian().variance()?.into_iter();
        let moments = variances.zip(to_host(self.mean()));
        Ok(moments
            .map(|(variance, mean)| mean * mean + variance)
            .collect())
    }

    /// A dense copy in double precision; an error above [`DenseGaussian::LIMIT`] weights.
    pub fn to_dense(&self) -> Result<DenseGaussian> {
        const LIMIT: usize = DenseGaussian::LIMIT;
        if self.len() > LIMIT {
            return Err(Error::config(
                "to_dense",
                format!(
                    "a dense covariance of {0} weights would hold {0}² numbers; the limit is \
                     {LIMIT} weights; `variance` and `covariance_product` need no dense copy",
                    self.len()
                ),
            ));
        }
        let mean = to_host(self.mean());
        let factors = self.factors().map_or_else(Vec::new, to_host);
        let diagonal = to_host(self.diagonal());
        DenseGaussian::from_factors(self.kind(), mean, &factors, &diagonal)
    }

    /// The model with a draw as its weights, and with its state.
    ///
    /// # Errors
    ///
    /// Those of [`Posterior::write_mean`].
    pub fn write_draw<M: Module>(&self, model: M, noise: Noise) -> Result<M> {
        let model = self.state.restore(model, &self.layout)?;
        Ok(self.layout.write(model, self.draw(noise)?)?)
    }

    pub(super) fn from_file(mut saved: Saved<'_>) -> Result<Self> {
        let kind = match saved.expect_form(&FormKind::ALL.map(FormKind::name))? {
            name if name == FormKind::Covariance.name() => FormKind::Covariance,
            _ => FormKind::Precision,
        };
        let (mean, diagonal) = (saved.vector(MEAN)?, saved.vector(DIAGONAL)?);
        let factors = saved.rows(FACTORS)?;
        saved.expect_empty()?;
        let layout = saved.layout();
        let posterior = Self::new(kind, layout, mean, factors, diagonal);
        let posterior = posterior.map_err(|error| saved.damaged(error))?;
        Ok(posterior.with_state(saved.state()))
    }

    /// The map from a Jacobian to roots of the covariance of its functions.
    pub(crate) fn covariance_roots(&self) -> Result<CovarianceRoots> {
        self.form.gaussian().covariance_roots()
    }

    /// The terms of the covariance of functions whose Jacobian is in factored form.
    pub(crate) fn covariance_terms(&self) -> Result<CovarianceTerms> {
        self.form.gaussian().covariance_terms()
    }

    /// A Jacobian of this width, without autodiff.
    fn jacobian(&self, jacobian: &Tensor<2>) -> Result<Tensor<2>> {
        self.check_width(jacobian.dims()[1])?;
        Ok(jacobian.clone().without_autodiff())
    }

    fn check_len(&self, vector: &Tensor<1>) -> Result<()> {
        self.check_width(vector.dims()[0])
    }

    fn check_width(&self, len: usize) -> Result<()> {
        if len == self.len() {
            return Ok(());
        }
        Err(Error::layout(format!(
            "a vector of {len} numbers was given, but the posterior is over {} weights",
            self.len()
        )))
    }
}

impl Posterior for FactorPosterior {
    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        self.form.gaussian().sampler()
    }

    fn mean_weights(&self) -> Result<Tensor<1>> {
        Ok(self.mean())
    }

    fn shared_state(&self) -> Option<ModelState> {
        Some(self.state.clone())
    }

    fn with_state(self, state: ModelState) -> Self {
        let state = self.state.replaced_by(state);
        Self { state, ..self }
    }

    fn save(&self, path: &Path) -> Result<()> {
        let name = self.kind().name();
        let contents = Contents::new(name, &self.layout, &self.state).with(MEAN, self.mean());
        let contents = match self.factors() {
            Some(factors) => contents.with(FACTORS, factors),
            None => contents,
        };
        contents.with(DIAGONAL, self.diagonal()).write(path)
    }

    fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::from_file(Saved::read(path, device)?)
    }
}

/// A parameter that is not trained.
fn constant<const R: usize>(value: Tensor<R>) -> Param<Tensor<R>> {
    Param::initialized(ParamId::new(), value.without_autodiff())
}

fn check(
    kind: FormKind,
    layout: &Layout,
    mean: &Tensor<1>,
    factors: Option<&Tensor<2>>,
    diagonal: &Tensor<1>,
) -> Result<()> {
    let diagonal_name = match kind {
        FormKind::Covariance => "variance",
        FormKind::Precision => "precision",
    };
    let len = layout.len();
    let lengths = [
        ("mean", mean.dims()[0]),
        ("factors", factors.map_or(len, |factors| factors.dims()[1])),
        (diagonal_name, diagonal.dims()[0]),
    ];
    for (name, found) in lengths {
        if found != len {
            return Err(Error::layout(format!(
                "{name} has {found} numbers per row, but the layout has {len} weights"
            )));
        }
    }
    check_finite("mean", mean, layout)?;
    if let Some(factors) = factors {
        check_finite("factors", factors, layout)?;
    }
    check_finite(diagonal_name, diagonal, layout)?;
    if diagonal.clone().min().into_scalar::<f64>() > 0.0 {
        return Ok(());
    }
    let diagonal = to_host(diagonal.clone());
    let at = diagonal.iter().position(|&value| value <= 0.0);
    let at = at.expect("the smallest is not above zero");
    Err(Error::numerical(format!(
        "{diagonal_name} is {} at {}; it must be above zero",
        diagonal[at],
        layout.path_at(at).unwrap_or("?")
    )))
}
