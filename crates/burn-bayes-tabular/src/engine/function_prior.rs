//! The Gaussian-process prior over the functions of a regression network, with a kernel learned from the training rows.
//!
//! The length scales start at the median heuristic. The kernel's parameters, a variance of each term and the noise then
//! maximise the exact marginal likelihood of a random subset of rows. It has a maximum near every period that fits, so
//! the search begins at several periods: [`PERIODS`] fractions of the longest range of an input.
//!
//! In every step, the prior acts at [`POINTS`] measurement points: half of them training inputs, half uniform in the box of
//! the training inputs, which is widened on every side by the setting `prior_margin` times its range.

use burn_bayes::Noise;
use burn_bayes_contrib::function_prior::{FunctionDivergence, FunctionPrior};
use burn_bayes_contrib::functional::{
    GaussianProcess, Kernel, MarginalLikelihood, MeasurementPoints, Points,
};

use crate::error::Result;
use crate::random::shuffled;
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, Method, NoisePrecision, PriorPrecision, refused};
use burn_bayes::eval::Bounded;

use super::likelihood::is_simple;

/// The number of measurement points of a step.
const POINTS: usize = 40;
/// The most rows for the marginal likelihood: its cost is the cube of this number.
const SUBSET: usize = 150;
/// The jitter as a part of the variance that the data leave, the most rows for it, and its bounds.
const JITTER_SHARE: f64 = 0.5;
const JITTER_ROWS: usize = 500;
const JITTERS: (f64, f64) = (1e-5, 1e-3);
/// The number of periods from which a search starts.
const PERIODS: usize = 12;
/// The noise variance at the start, on the standardised scale of the target.
const NOISE_VARIANCE: f64 = 0.1;

/// Fails if these settings and rows do not allow the prior over functions that the settings ask for.
pub(super) fn check(training_set: &TrainingSet, settings: &FitSettings) -> Result<()> {
    if settings.prior.kernel().is_none() {
        return Ok(());
    }
    let prior = |problem: String| Err(refused("prior", problem));
    if !settings.method.row().has_function_prior {
        let able = Method::ALL
            .iter()
            .filter(|method| method.row().has_function_prior);
        let names = able.map(Method::to_string).collect::<Vec<_>>().join(", ");
        return prior(format!(
            "is a Gaussian process, which {} does not support; use one of the methods {names}, or `weights`",
            settings.method
        ));
    }
    if !matches!(training_set.target(), Target::Real(_))
        || !is_simple(settings, training_set.target())
    {
        return prior(
            "is a Gaussian process, which is for regressions of one target with a gaussian likelihood; use `weights`".into(),
        );
    }
    if settings.is_linear() {
        return prior(
            "is a Gaussian process, whose functions a linear model does not have; use a `model` with hidden layers, \
             such as mlp:50, or `weights`"
                .into(),
        );
    }
    if matches!(settings.prior_precision, PriorPrecision::Learned(_)) {
        let problem = "is learned from the prior over the weights alone, but `prior` is a Gaussian process; give a \
                       number, or leave it out";
        return Err(refused("prior_precision", problem));
    }
    Ok(())
}

/// A prior with a learned kernel.
pub(super) struct LearnedProcess {
    pub(super) prior: FunctionPrior,
    /// On the standardised scale of the target.
    pub(super) noise_variance: f64,
}

/// The prior of the settings; `None` without a Gaussian process.
pub(super) fn learned(
    training_set: &TrainingSet,
    settings: &FitSettings,
) -> Result<Option<LearnedProcess>> {
    let Some(form) = settings.prior.kernel() else {
        return Ok(None);
    };
    let (inputs, targets) = examples(training_set)?;
    let (lower, upper) = bounds(&inputs);
    let longest = lower.iter().zip(&upper).map(|(low, high)| high - low);
    let longest = longest.fold(0.0, f64::at_least);
    let start = Start {
        noise_variance: match (training_set.target(), settings.noise_precision) {
            (Target::Real(scale), NoisePrecision::Given(precision)) => {
                (precision * scale.spread * scale.spread).recip()
            }
            _ => NOISE_VARIANCE,
        },
        learns_noise: !matches!(settings.noise_precision, NoisePrecision::Given(_)),
        seed: settings.seed,
    };
    let process = start.learned(form, longest, &inputs, &targets)?;
    let around = around((lower, upper), settings.prior_margin)?;
    let points = match inputs.len() >= POINTS {
        true => MeasurementPoints::mixture(vec![
            (1.0, MeasurementPoints::training(inputs.clone())),
            (1.0, around),
        ])?,
        false => around,
    };
    let prior = FunctionPrior::new(process.kernel().clone(), points, POINTS)?;
    Ok(Some(LearnedProcess {
        prior: match settings.has_function_divergence() {
            true => prior
                .with_divergence(FunctionDivergence::Linearized)
                .with_jitter(jitter(&process, &inputs, &targets, settings.seed)?),
            false => prior,
        },
        noise_variance: process.noise_variance(),
    }))
}

/// The inputs and targets of the training rows, on the scales of the network.
pub(super) fn examples(training_set: &TrainingSet) -> Result<(Points, Vec<f64>)> {
    let inputs = training_set.examples();
    let inputs = inputs.flat_map(|(features, _)| features.iter().copied().map(f64::from));
    let inputs = Points::new(training_set.width(), inputs.collect())?;
    let targets = training_set.targets().iter().copied().map(f64::from);
    Ok((inputs, targets.collect()))
}

/// Random places of a box, widened by this share of its range on each side.
pub(super) fn around(
    (lower, upper): (Vec<f64>, Vec<f64>),
    margin: f64,
) -> Result<MeasurementPoints> {
    let widened = |edge: &[f64], sign: f64| -> Vec<f64> {
        let sides = edge.iter().zip(lower.iter().zip(&upper));
        sides
            .map(|(edge, (low, high))| {
                // An input that is constant in the training rows has no range.
                let range = if high > low { high - low } else { 1.0 };
                edge + sign * margin * range
            })
            .collect()
    };
    Ok(MeasurementPoints::uniform(
        widened(&lower, -1.0),
        widened(&upper, 1.0),
    )?)
}

/// The smallest and the largest value of every coordinate.
pub(super) fn bounds(points: &Points) -> (Vec<f64>, Vec<f64>) {
    let mut lower = points.row(0).to_vec();
    let mut upper = lower.clone();
    for row in points.rows() {
        for (d, &value) in row.iter().enumerate() {
            lower[d] = lower[d].at_most(value);
            upper[d] = upper[d].at_least(value);
        }
    }
    (lower, upper)
}

/// The start of the search for the parameters of a kernel.
struct Start {
    noise_variance: f64,
    learns_noise: bool,
    seed: u64,
}

impl Start {
    /// The process with a kernel of this form and the largest marginal likelihood. `longest` is the longest range of an input.
    fn learned(
        &self,
        form: &Kernel,
        longest: f64,
        inputs: &Points,
        targets: &[f64],
    ) -> Result<GaussianProcess> {
        let form = form
            .clone()
            .with_median_length_scales(inputs)?
            .with_term_variances();
        let is_period: Vec<bool> = form
            .parameter_names()
            .iter()
            .map(|name| name.ends_with(" period"))
            .collect();
        let is_periodic = longest > 0.0 && is_period.contains(&true);
        let starts = if is_periodic { PERIODS } else { 1 };
        let search = MarginalLikelihood::new()
            .with_subset(SUBSET)
            .with_restarts(if is_periodic { 0 } else { 2 })
            .with_learns_noise(self.learns_noise)
            .with_seed(self.seed);
        // The same subset compares the results, which the search does not return.
        let mut best: Option<(f64, GaussianProcess)> = None;
        let (inputs, targets) = subset(inputs, targets, SUBSET, self.seed)?;
        for start in 1..=starts {
            let parameters = form.parameters().into_iter().zip(&is_period);
            let parameters: Vec<f64> = parameters
                .map(|(own, is_period)| match *is_period && is_periodic {
                    true => longest / start as f64,
                    false => own,
                })
                .collect();
            let process =
                GaussianProcess::new(form.with_parameters(&parameters)?, self.noise_variance)?;
            let process = search.maximise(&process, &inputs, &targets)?;
            let evidence = process.fit(&inputs, &targets)?.log_marginal_likelihood();
            if best.as_ref().is_none_or(|(most, _)| evidence > *most) {
                best = Some((evidence, process));
            }
        }
        let (_, process) = best.expect("there is at least one start");
        Ok(process)
    }
}

/// The jitter of a linearised divergence, which does not see deviations below that of the jitter: a part of the variance at
/// the training inputs that the data leave. With a smaller one, deviations far from the data converge more slowly.
fn jitter(process: &GaussianProcess, inputs: &Points, targets: &[f64], seed: u64) -> Result<f64> {
    let (chosen, targets) = subset(inputs, targets, JITTER_ROWS, seed)?;
    let left = process.fit(&chosen, &targets)?.predict(&chosen)?.variance;
    let all = process.kernel().variances(&chosen)?;
    let share = left.iter().sum::<f64>() / all.iter().sum::<f64>();
    // More rows leave less.
    let share = share * chosen.len() as f64 / inputs.len() as f64;
    Ok((JITTER_SHARE * share).clamp(JITTERS.0, JITTERS.1))
}

/// At most `most` random points.
fn subset(points: &Points, targets: &[f64], most: usize, seed: u64) -> Result<(Points, Vec<f64>)> {
    let chosen = chosen(points.len(), most, Noise::new(seed).fold(CHOICE));
    let targets = chosen.iter().map(|&row| targets[row]).collect();
    Ok((selected(points, &chosen)?, targets))
}

/// At most `most` of `rows` rows, at random.
pub(super) fn chosen(rows: usize, most: usize, noise: Noise) -> Vec<usize> {
    let mut chosen = shuffled(rows, noise);
    chosen.truncate(most);
    chosen
}

/// These points.
pub(super) fn selected(points: &Points, rows: &[usize]) -> Result<Points> {
    let values = rows.iter().flat_map(|&row| points.row(row)).copied();
    Ok(Points::new(points.width(), values.collect())?)
}

/// The random stream of the subset.
const CHOICE: u64 = 0x6368_6f69;
