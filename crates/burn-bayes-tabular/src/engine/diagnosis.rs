//! Whether a fit can be trusted.

use std::fmt;

use burn_bayes::diagnostics::{Arrival, ArrivalTest};
use serde::{Deserialize, Serialize};

use super::fitted::Fit;
use super::importance::{Importance, ImportanceWeights, importance, measure_probability_change};
use super::{Motion, TrainedModel, linear};
use crate::error::Result;
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, Method};
use crate::text::sentence;

/// Rows per pass.
const CHUNK: usize = 4096;
/// Antithetic pairs of draws: as many as cost this many products of rows and weights, within bounds.
const WORK: usize = 20_000_000;
const PAIRS: (usize, usize) = (4, 64);
/// Per half weight, the excess divergence up to which a fit is trusted, and the excess of the mean above which
/// it should not be used: what variances cost that are too large by a factor of 1.5, and a mean that is off by a
/// deviation in every direction. Deviations alone do not spoil predictions near the data.
const TRUSTED: f64 = 0.1;
const UNUSABLE: f64 = 1.0;
/// The same for the estimated divergence from the true posterior: less, because the estimate from draws is some per cent too
/// small.
const CLOSE: f64 = 0.08;
/// The change of the predicted probabilities by importance weights up to which a fit is trusted. The mean of a Laplace
/// approximation is the mode, which shifts probabilities at a small divergence.
const PROBABILITY_CHANGE: f64 = 0.01;

/// What deviations that have not arrived mean.
const CONSEQUENCE: &str = ", so that uncertainty far from the data is not that of the posterior";

/// What to change if a fit that has arrived is far from the true posterior.
const WIDER: &str = "a wider family, such as vifa with a larger `rank`, may be closer";
/// The same if importance weights are reliable.
const WEIGHTED: &str = "predict with `--importance-weighted`, or choose a wider family, such as vifa with a larger `rank`";
/// The same for a linear regression.
const EXACT: &str = "the method `exact` gives the posterior of a linear regression";
/// The same for a linear classification without reliable weights.
const FULL: &str = "the method `full-gaussian` gives the best Gaussian of a linear classification";

/// A verdict on a fit, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The fit is as good as its family of posteriors allows, and close to the true posterior if that was measured.
    Trust,
    /// The fit is worse than it could be, or not close to the true posterior.
    LookCloser,
    /// The fit is far from what it could be.
    DoNotUse,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::LookCloser => "look closer",
            Self::DoNotUse => "do not use",
        })
    }
}

/// What was found out about a fit, besides its scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What better scales of the weights would gain, in nats.
    pub scale_gain: f64,
    /// The Monte-Carlo standard error of their sum.
    pub standard_error: f64,
    /// D, the number of weights.
    pub weights: usize,
    /// How far the mean still moved at the end of the training.
    #[serde(flatten)]
    pub motion: Motion,
    /// What to change; null for a fit that is trusted.
    pub cure: Option<String>,
    /// Pareto k̂ of the importance ratios, which says how close the fit is to the true posterior.
    pub importance: Importance,
}

impl Diagnosis {
    /// The estimated excess divergence over the best fit of the family, in nats.
    pub fn excess(&self) -> f64 {
        self.decrement + self.scale_gain
    }

    /// The weights of draws for importance-weighted predictions, or why there are none.
    pub(crate) fn importance_weights(&self) -> ImportanceWeights {
        if let Some(log_weights) = self.importance.log_weights() {
            return ImportanceWeights::LogWeights(log_weights.to_vec());
        }
        let finding = self.importance_finding();
        ImportanceWeights::Absent(match &self.cure {
            Some(remedy) if self.importance.is_unreliable() => format!("{finding}; {remedy}"),
            _ => finding,
        })
    }

    /// What the importance ratios say, without a capital letter and a full stop. Where they say that the fit is far
    /// from the true posterior, the arrival test tells a fit that is not finished from a family that is too poor.
    fn importance_finding(&self) -> String {
        let is_close = is_close(&self.importance, self.weights);
        self.importance.finding(self.is_arrived(), is_close)
    }

    /// Whether the fit is as near to the best of its family as a trusted one may be.
    fn is_arrived(&self) -> bool {
        arrival_verdict([self.decrement, self.scale_gain], self.weights) == Verdict::Trust
    }

    /// Whether the mean is at most as far as a trusted fit may be, and whether the deviations are.
    fn arrived(&self) -> [bool; 2] {
        let is_mean_worse = self.decrement > self.scale_gain;
        let is_arrived = |gain: f64, is_worse: bool| {
            self.is_arrived() || !is_worse && share(gain, self.weights) <= TRUSTED
        };
        [
            is_arrived(self.decrement, is_mean_worse),
            is_arrived(self.scale_gain, !is_mean_worse),
        ]
    }

    /// Sentences about the mean, the deviations and the importance ratios and, if needed, what to change.
    pub fn sentences(&self) -> Vec<String> {
        let [mean, deviations] = self.arrived();
        let mean = if mean {
            "has arrived"
        } else {
            "has not arrived"
        };
        let deviations = match deviations {
            true => "have arrived".into(),
            false => format!("have not arrived{CONSEQUENCE}"),
        };
        // An estimate of nearly nothing may be below zero.
        let shown = |gain: f64| if gain < 0.0 { 0.0 } else { gain };
        let (decrement, gain) = (shown(self.decrement), shown(self.scale_gain));
        let mut sentences = vec![
            format!("The mean {mean}: a better one would gain {decrement:.1} nats."),
            format!("The deviations {deviations}: better ones would gain {gain:.1} nats."),
            format!("{}.", self.importance_finding()),
        ];
        sentences.extend(self.motion.sentences());
        sentences.extend(self.cure.iter().map(|cure| sentence(&format!("{cure}."))));
        sentences
    }

    /// What was found out, without the verdict.
    pub fn finding(&self) -> String {
        let (excess, error, weights) = (self.excess(), self.standard_error, self.weights);
        let missed = match self.arrived() {
            [true, true] => None,
            [false, _] => Some("its mean has not arrived".into()),
            [true, false] => Some(format!("its deviations have not arrived{CONSEQUENCE}")),
        };
        let importance = match self.importance {
            Importance::Measured(_) => Some(self.importance_finding()),
            Importance::Absent { .. } => None,
        };
        // What to change follows its reason.
        let cure = self.cure.clone();
        let reasons = match missed {
            Some(missed) => {
                let cure = cure.map(|cure| format!(": {cure}")).unwrap_or_default();
                [Some(format!("{missed}{cure}")), importance]
            }
            None => [importance, cure],
        };
        let excess = format!(
            "the posterior of {weights} weights is {excess:.1} ± {error:.1} nats from the best of its family"
        );
        let parts: Vec<String> = [Some(excess)]
            .into_iter()
            .chain(reasons)
            .flatten()
            .collect();
        parts.join("; ")
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.finding())
    }
}

/// An excess divergence in half nats per weight.
fn share(excess: f64, weights: usize) -> f64 {
    2.0 * excess / weights as f64
}

/// What to change if the mean, or else the deviations, have not arrived.
fn cure(settings: &FitSettings, is_direct: bool, is_mean: bool) -> &'static str {
    let has_rate = settings.without_effect("diagonal_learning_rate").is_none();
    // Their default is a compromise: predictions near the data are often best before the deviations arrive.
    let has_default_rate = matches!(settings.method, Method::Vifa | Method::MeanField)
        && settings.diagonal_learning_rate.is_none();
    match (is_direct, is_mean) {
        (true, _) if settings.method == Method::Laplace => {
            "a Laplace approximation is the Gaussian around the mode; slang or vifa find the best one of their family"
        }
        (true, _) => {
            "the direct solution is only approximate for so little data; give more rows, or a larger \
             `prior_precision`"
        }
        (false, true) => "give more `epochs`, or a larger `learning_rate`",
        (false, false) if has_default_rate => {
            "give a larger `diagonal_learning_rate`, such as 0.1, or more `epochs`"
        }
        (false, false) if has_rate => "give more `epochs`, or a larger `diagonal_learning_rate`",
        (false, false) => "give more `epochs`",
    }
}

/// Estimates how far a posterior is from the best of its family and, for a small model, whether it is close to the
/// true posterior, by passes over the training rows; `None` for a point estimate, and for a posterior of the
/// linearised network, which both would compare with that of the network itself.
/// Also `None` with a prior over functions, which the tests do not know.
///
/// # Errors
/// If a gradient is not finite.
pub fn diagnose(
    training_set: &TrainingSet,
    settings: &FitSettings,
    model: &TrainedModel,
) -> Result<Option<Diagnosis>> {
    // Its tests are for priors over the weights alone.
    if settings.prior.kernel().is_some() {
        return Ok(None);
    }
    let Some(fit) = Fit::of(training_set, settings, model)? else {
        return Ok(None);
    };
    let weights = fit.posterior.len();
    let mut importance = importance(&fit)?;
    if is_close(&importance, weights) {
        measure_probability_change(&mut importance, &fit, model)?;
    }
    let Arrival {
        decrement,
        scale_gain,
        standard_error,
        ..
    } = arrival(&fit)?;
    let arrived = arrival_verdict([decrement, scale_gain], weights);
    let is_direct = linear::applies(training_set, settings);
    let (verdict, cure) = match arrived {
        Verdict::Trust if !is_close(&importance, weights) => {
            let is_real = matches!(training_set.target(), Target::Real(_));
            let cure = match importance.log_weights() {
                _ if is_direct && is_real => EXACT,
                Some(_) => WEIGHTED,
                None if is_direct && !settings.method.is_dense() => FULL,
                None => WIDER,
            };
            (Verdict::LookCloser, Some(cure))
        }
        Verdict::Trust => (Verdict::Trust, None),
        _ => {
            let cure = cure(settings, is_direct, decrement > scale_gain);
            (arrived, Some(cure))
        }
    };
    Ok(Some(Diagnosis {
        verdict,
        decrement,
        scale_gain,
        standard_error,
        weights,
        motion: model.motion(),
        cure: cure.map(Into::into),
        importance,
    }))
}

/// What the gains of a better mean and of better deviations say about a fit. One whose gains are not numbers is not to
/// be used.
fn arrival_verdict([decrement, scale_gain]: [f64; 2], weights: usize) -> Verdict {
    match decrement + scale_gain {
        excess if excess.is_nan() => Verdict::DoNotUse,
        _ if share(decrement, weights) > UNUSABLE => Verdict::DoNotUse,
        excess if share(excess, weights) > TRUSTED => Verdict::LookCloser,
        _ => Verdict::Trust,
    }
}

/// Whether the estimated divergence from the true posterior, if there is one, is at most that of a trusted fit, and
/// importance weights hardly change the predicted probabilities.
fn is_close(importance: &Importance, weights: usize) -> bool {
    let divergence = importance.divergence();
    let change = importance.probability_change();
    divergence.is_none_or(|divergence| share(divergence, weights) <= CLOSE)
        && change.is_none_or(|change| change <= PROBABILITY_CHANGE)
}

/// The distance of a fit from the best of its family.
fn arrival(fit: &Fit<'_>) -> Result<Arrival> {
    let device = fit.settings.device.device()?.autodiff();
    let rows: Vec<usize> = (0..fit.training_set.rows()).collect();
    let batches = rows
        .chunks(CHUNK)
        .map(|rows| fit.training_set.batch(rows, &device));
    let weights = fit.posterior.len();
    let pairs = WORK / (rows.len() * weights).max(1);
    let test = ArrivalTest::new(rows.len())
        .with_prior(fit.prior.clone())
        .with_pairs(pairs.clamp(PAIRS.0, PAIRS.1))
        .with_seed(fit.settings.seed);
    Ok(test.measure(&fit.network, fit.posterior, batches)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_that_are_no_numbers_are_not_trusted() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        for gains in [
            [nan, 0.0],
            [0.0, nan],
            [infinite, -infinite],
            [infinite, 0.0],
        ] {
            assert_eq!(arrival_verdict(gains, 10), Verdict::DoNotUse, "{gains:?}");
        }
        assert_eq!(arrival_verdict([0.1, -0.1], 10), Verdict::Trust);
        assert_eq!(arrival_verdict([0.0, infinite], 10), Verdict::LookCloser);
    }
}
