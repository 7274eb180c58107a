//! Linear models, fitted without an optimiser.
//!
//! The negative log joint density U of the weights of a linear model is convex, so its posterior needs neither
//! learning rates nor epochs. That of a regression has a closed form, and that of a classification a best Gaussian
//! approximation. The posterior of a method is the member of its family with the least divergence; the family of `exact`
//! and `full-gaussian` is that of all Gaussians.
//!
//! Weights are in the network's order: the weight of input i for output k is number i·K + k, and the bias is the
//! last input.

mod classification;
mod exact;
mod regression;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Tensor, TensorData};
use burn_bayes::FactorPosterior;
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{DenseGaussian, FormKind, NearestGaussian};

use self::regression::Sums;
use super::TrainedModel;
use super::algorithms::weights;
use super::likelihood::is_simple;
use super::method::rank;
use super::prior::bounded;
use crate::error::Result;
use crate::rows::{Target, TrainingSet};
use crate::settings::{
    FitSettings, Method, MethodKind, MethodRow, PriorPrecision, Solver, refused,
};

/// The largest number of weights, whose curvature is a dense matrix.
const MOST_WEIGHTS: usize = 1000;
/// The largest number of multiplications that one curvature matrix may take.
const MOST_WORK: f64 = 4e10;
/// Estimates of the prior, which stop early when one changes by less than a thousandth.
const MOST_STEPS: usize = 100;
const CONVERGED: f64 = 1e-3;

/// Whether a fit is solved directly.
pub(super) fn applies(training_set: &TrainingSet, settings: &FitSettings) -> bool {
    if settings.solver == Solver::Gradient
        || !settings.is_linear()
        || settings.method.is_of_iterates()
        || settings.method.is_sampled()
        || matches!(training_set.target(), Target::Several(_))
        || !is_simple(settings, training_set.target())
    {
        return false;
    }
    let count = weights(settings, training_set.width(), training_set.target());
    let count = count.unwrap_or(usize::MAX);
    let work = training_set.rows() as f64 * (count as f64).powi(2);
    count <= MOST_WEIGHTS && work <= MOST_WORK
}

/// Checks that the posterior of a method that is computed without training exists for these rows.
pub(super) fn check_dense(training_set: &TrainingSet, settings: &FitSettings) -> Result<()> {
    let (method, target) = (settings.method, training_set.target());
    let refused = |problem: String| Err(refused("method", format!("is {method}, {problem}")));
    if !settings.is_linear() {
        let model = settings.shape();
        return refused(format!("which needs `--model linear` instead of {model}"));
    }
    match target {
        Target::Classes(_) if method == Method::Exact => {
            return refused(
                "but a classification has no posterior in closed form; use full-gaussian, the best Gaussian"
                    .into(),
            );
        }
        Target::Counts { .. } => {
            return refused(
                "but counts have no posterior in closed form; use another method, such as vifa"
                    .into(),
            );
        }
        Target::Several(_) => {
            return refused(
                "which is for one target; fit each target alone, or use another method, such as vifa".into(),
            );
        }
        Target::Classes(_) | Target::Real(_) => {}
    }
    if !is_simple(settings, target) {
        return refused(
            "which is for the default likelihood; leave `--likelihood` out, or use another method, such as vifa"
                .into(),
        );
    }
    if !applies(training_set, settings) {
        return refused(
            "which needs `--solver auto` and at most 1000 weights; use another method, such as vifa"
                .into(),
        );
    }
    Ok(())
}

/// Fits a linear model.
pub(super) fn fit(training_set: &TrainingSet, settings: &FitSettings) -> Result<TrainedModel> {
    let device = settings.device.device()?;
    let target = training_set.target();
    let mut design = Design::new(training_set, settings);
    let family = family(settings, design.len())?;
    let (learned_prior, precision, gaussian, parts) = match target {
        Target::Real(_) => {
            let sums = design.sums();
            let learned_prior = design.learn_prior_of_regression(settings, &sums)?;
            let (precision, gaussian) = design.regression(settings, &sums)?;
            let parts = match family {
                None => None,
                Some(Family::Full) => Some(exact::factors(&gaussian.precision())?),
                Some(Family::LowRank(form, rank)) => {
                    Some(Parts::of(gaussian.nearest(form, rank, &[])?))
                }
            };
            (learned_prior, precision, gaussian, parts)
        }
        // `applies` excludes counts and several targets.
        Target::Classes(_) | Target::Counts { .. } | Target::Several(_) => {
            let learned_prior = design.learn_prior_of_classification(settings)?;
            let (gaussian, parts) = design.classification(family, settings.seed)?;
            (learned_prior, 1.0, gaussian, parts)
        }
    };
    let network = training_set.network(settings, &[precision], &device.clone().autodiff());
    let layout = Layout::new(&network, &ParamGroup::all())?;
    let vector = |values: &[f64]| {
        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Tensor::<1>::from_data(TensorData::new(values, [design.len()]), &device)
    };
    let mean = vector(gaussian.mean());
    let network = layout.write(network.valid(), mean.clone())?;
    let posterior = match family.zip(parts) {
        None => None,
        Some((family, Parts { factors, diagonal })) => {
            let factors: Vec<f32> = factors.iter().map(|&value| value as f32).collect();
            let rows = factors.len() / design.len();
            let factors = (rows > 0).then(|| {
                Tensor::<2>::from_data(TensorData::new(factors, [rows, design.len()]), &device)
            });
            let diagonal = vector(&diagonal);
            let layout = layout.into();
            Some(match family.form() {
                FormKind::Covariance => {
                    FactorPosterior::covariance(layout, mean, factors, diagonal)?
                }
                FormKind::Precision => FactorPosterior::precision(layout, mean, factors, diagonal)?,
            })
        }
    };
    let (target, precisions) = (target.clone(), vec![precision]);
    let posterior = posterior.map(Into::into);
    let mut model = TrainedModel::new(&network, posterior, target, precisions, settings.seed)?;
    model.learned_prior = learned_prior.map(|precision| vec![precision]);
    Ok(model)
}

/// A family of Gaussians.
#[derive(Clone, Copy, Debug)]
enum Family {
    /// Low rank plus diagonal, in this form and of this rank.
    LowRank(FormKind, usize),
    /// All Gaussians.
    Full,
}

impl Family {
    fn form(self) -> FormKind {
        match self {
            Self::LowRank(form, _) => form,
            Self::Full => FormKind::Covariance,
        }
    }
}

/// The factors, row by row, and the diagonal of a Gaussian in the form of its family.
#[derive(Debug)]
struct Parts {
    factors: Vec<f64>,
    diagonal: Vec<f64>,
}

impl Parts {
    fn of(nearest: NearestGaussian) -> Self {
        Self {
            factors: nearest.factors,
            diagonal: nearest.diagonal,
        }
    }
}

/// The family of a method's posteriors; `None` for a point estimate.
fn family(settings: &FitSettings, weights: usize) -> Result<Option<Family>> {
    let MethodRow { kind, form, .. } = settings.method.row();
    match kind {
        // It is approximated at the point estimate.
        MethodKind::PostHoc => Ok(None),
        MethodKind::Direct => Ok(Some(Family::Full)),
        _ => Ok(rank(settings, weights)?.map(|rank| Family::LowRank(form, rank))),
    }
}

/// The rows of a linear model, in double precision.
struct Design<'a> {
    training_set: &'a TrainingSet,
    /// Inputs with the constant of the bias.
    inputs: usize,
    outputs: usize,
    /// α of every weight.
    prior: Vec<f64>,
}

impl<'a> Design<'a> {
    fn new(training_set: &'a TrainingSet, settings: &FitSettings) -> Self {
        let outputs = training_set.target().columns();
        let all = settings.prior_precision.initial();
        let mut prior = vec![all; training_set.width() * outputs];
        if !settings.no_intercept {
            let bias = settings.bias_prior_precision.unwrap_or(all);
            prior.extend(vec![bias; outputs]);
        }
        Self {
            training_set,
            inputs: prior.len() / outputs,
            outputs,
            prior,
        }
    }

    /// Learns α of a regression, if it is not given, at the maximum of the evidence.
    fn learn_prior_of_regression(
        &mut self,
        settings: &FitSettings,
        sums: &Sums,
    ) -> Result<Option<f64>> {
        match settings.prior_precision {
            PriorPrecision::Given(_) => Ok(None),
            _ if settings.bias_prior_precision.is_none() => {
                let alpha = self.evidence_prior(settings, sums)?;
                self.prior.fill(alpha);
                Ok(Some(alpha))
            }
            _ => self.learn_prior(settings, |design| Ok(design.regression(settings, sums)?.1)),
        }
    }

    /// Learns α of a classification, if that is asked for, at the maximum of Laplace's approximation of the evidence.
    fn learn_prior_of_classification(&mut self, settings: &FitSettings) -> Result<Option<f64>> {
        match settings.prior_precision {
            PriorPrecision::Learned(_) => self.learn_prior(settings, Self::mode),
            _ => Ok(None),
        }
    }

    /// Learns α: with n weights of precision α, their mean m and their covariance C, the fixed point
    /// α = (n − α tr C)/‖m‖² (MacKay 1992).
    fn learn_prior(
        &mut self,
        settings: &FitSettings,
        posterior: impl Fn(&Self) -> Result<DenseGaussian>,
    ) -> Result<Option<f64>> {
        let learned = match settings.bias_prior_precision {
            Some(_) => self.training_set.width() * self.outputs,
            None => self.len(),
        };
        let found = converges(settings.prior_precision.initial(), |alpha| {
            self.prior[..learned].fill(alpha);
            let gaussian = posterior(self)?;
            let trace: f64 = gaussian.variances()[..learned].iter().sum();
            let determined = learned as f64 - alpha * trace;
            let square: f64 = gaussian.mean()[..learned].iter().map(|m| m * m).sum();
            Ok(bounded(determined / square))
        })?;
        self.prior[..learned].fill(found);
        Ok(Some(found))
    }

    /// D.
    fn len(&self) -> usize {
        self.prior.len()
    }

    /// Every row's inputs, with 1 for the bias, and targets.
    fn for_each_row(&self, mut visit: impl FnMut(usize, &[f64], &[f32])) {
        let mut inputs = vec![1.0; self.inputs];
        for (index, (features, targets)) in self.training_set.examples().enumerate() {
            for (input, &feature) in inputs.iter_mut().zip(features) {
                *input = feature.into();
            }
            visit(index, &inputs, targets);
        }
    }
}

/// The fixed point of a function of α, from this value.
fn converges(start: f64, mut next: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let mut alpha = start;
    for _ in 0..MOST_STEPS {
        let last = alpha;
        alpha = next(last)?;
        if (alpha / last).ln().abs() < CONVERGED {
            break;
        }
    }
    Ok(alpha)
}

/// target += scale · source
fn add(target: &mut [f64], scale: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += scale * source;
    }
}

/// Adds scale · vᵀv to the upper triangle of a square matrix.
fn add_outer(matrix: &mut [f64], scale: f64, vector: &[f64]) {
    let size = vector.len();
    for (row, value) in vector.iter().enumerate() {
        add(
            &mut matrix[row * size + row..(row + 1) * size],
            scale * value,
            &vector[row..],
        );
    }
}

/// Copies the upper triangle to the lower one.
fn mirror(matrix: &mut [f64], size: usize) {
    for row in 1..size {
        for column in 0..row {
            matrix[row * size + column] = matrix[column * size + row];
        }
    }
}

/// Data of the tests.
#[cfg(test)]
mod testing {
    use burn_bayes::Noise;
    use burn_bayes_data::Features;

    use crate::settings::{FitSettings, Method};

    pub(super) const ROWS: usize = 60;
    pub(super) const WIDTH: usize = 3;

    pub(super) fn normals(stream: u64, count: usize) -> Vec<f64> {
        let values = Noise::new(7).row(stream).latent(count);
        values.into_iter().map(f64::from).collect()
    }

    pub(super) fn features() -> Features {
        let values = normals(1, ROWS * WIDTH);
        let values = values.into_iter().map(|value| f64::from(value as f32));
        let values: Vec<f64> = values.collect();
        Features::new(ROWS, WIDTH, values).unwrap()
    }

    pub(super) fn settings(method: Method) -> FitSettings {
        FitSettings {
            method,
            model: Some("linear".parse().unwrap()),
            no_intercept: true,
            prior_precision: 0.7.into(),
            ..FitSettings::default()
        }
    }
}
