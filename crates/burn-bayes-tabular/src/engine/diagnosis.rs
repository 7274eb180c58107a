//! Whether a fit can be trusted.

use std::fmt;

use burn_bayes::diagnostics::{Convergence, ConvergenceTest, KlGap};
use serde::Serialize;

use super::fitted::Fit;
use super::importance::{Importance, importance, measure_probability_change};
use super::{Motion, TrainedModel, linear};
use crate::error::Result;
use crate::rows::{Target, TrainingSet};
use crate::scores::Verdict;
use crate::settings::{FitSettings, Method};
use crate::text::{decimals, sentence};
use burn_bayes::eval::Bounded;

/// Antithetic pairs of draws: as many as cost this many products of rows and weights, within bounds.
const WORK: usize = 20_000_000;
const PAIRS: (usize, usize) = (4, 64);
/// How many times as many at most, if these do not determine whether the fit has converged.
const MORE_PAIRS: usize = 4;
/// The gain of a better mean, in nats per weight, above which a fit should not be used: that of a mean that is off by a
/// deviation in every direction. Deviations alone do not spoil predictions near the data.
const UNUSABLE: f64 = 0.5;
/// The estimated divergence from the true posterior, in nats per weight, up to which a fit is trusted: less than the
/// KL gap of a [converged](KlGap::CONVERGED) fit, because the estimate from draws is some per cent too small.
const CLOSE: f64 = 0.04;
/// The change of the predicted probabilities by importance weights up to which a fit is trusted. The mean of a Laplace
/// approximation is the mode, which shifts probabilities at a small divergence.
const PROBABILITY_CHANGE: f64 = 0.01;

/// What deviations that have not converged mean.
const CONSEQUENCE: &str = "uncertainty far from the data may be underestimated";

/// What to change if a converged fit is far from the true posterior.
const WIDER: &str = "a wider family, such as vifa with a larger `rank`, may be closer";
/// What to do if the draws do not determine whether a fit has converged.
const COMPARE: &str = "compare it with the method `map` on held-out rows";
/// What to choose if a linear regression is far from the true posterior.
const EXACT: &str = "the method `exact` gives the posterior of a linear regression";
/// The same for a linear classification.
const FULL: &str = "the method `full-gaussian` gives the best Gaussian of a linear classification";

/// What was found out about a fit, besides its scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What a better covariance would gain, in nats.
    pub covariance_gain: f64,
    /// The Monte-Carlo standard error of their sum; infinite, and null in JSON, if the draws do not determine it.
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
    /// The estimated KL gap to the best Gaussian of the family, in nats.
    pub fn kl_gap(&self) -> f64 {
        self.decrement + self.covariance_gain
    }

    /// What the importance ratios say, without a capital letter and a full stop. Where they say that the fit is far
    /// from the true posterior, the convergence test tells a training that was too short from a family that is too narrow.
    fn importance_finding(&self) -> String {
        let is_close = is_close(&self.importance, self.weights);
        self.importance.finding(self.is_converged(), is_close)
    }

    fn convergence(&self) -> Convergence {
        Convergence::of(self.kl_gap(), self.standard_error, self.weights)
    }

    fn is_converged(&self) -> bool {
        self.convergence() == Convergence::Converged
    }

    /// Whether the mean has converged, and whether the deviations have.
    fn converged_parts(&self) -> [bool; 2] {
        let is_mean_worse = self.decrement > self.covariance_gain;
        let has_converged = |gain: f64, is_worse: bool| {
            self.is_converged() || !(is_worse || per_weight(gain, self.weights) > KlGap::CONVERGED)
        };
        [
            has_converged(self.decrement, is_mean_worse),
            has_converged(self.covariance_gain, !is_mean_worse),
        ]
    }

    /// Sentences about the mean, the deviations and the importance ratios and, if needed, what to change.
    pub fn sentences(&self) -> Vec<String> {
        let [mean, deviations] = self.converged_parts();
        let mean = if mean {
            "has converged"
        } else {
            "has not converged"
        };
        let deviations = match deviations {
            true => "have converged".into(),
            false => format!("have not converged ({CONSEQUENCE})"),
        };
        // An estimate of nearly nothing may be below zero.
        let (decrement, gain) = (
            self.decrement.at_least(0.0),
            self.covariance_gain.at_least(0.0),
        );
        let mut sentences = match self.convergence() {
            Convergence::Undetermined => vec![sentence(&format!("{}.", self.shown_gap()))],
            _ => vec![
                format!(
                    "The mean {mean}: a better one would gain {}.",
                    self.shown(decrement)
                ),
                format!(
                    "The deviations {deviations}: better ones would gain {}.",
                    self.shown(gain)
                ),
            ],
        };
        sentences.push(format!("{}.", self.importance_finding()));
        sentences.extend(self.motion.sentences());
        sentences.extend(self.cure.iter().map(|cure| sentence(&format!("{cure}."))));
        sentences
    }

    /// A gain with its unit, for all weights and for one.
    fn shown(&self, gain: f64) -> String {
        let of_weight = decimals(per_weight(gain, self.weights), 3);
        format!("{} nats ({of_weight} per weight)", decimals(gain, 1))
    }

    /// The KL gap with its unit and the number of weights.
    fn shown_gap(&self) -> String {
        let (gap, error, weights) = (self.kl_gap(), self.standard_error, self.weights);
        match error.is_finite() {
            true => format!(
                "estimated KL gap to the best Gaussian of this family: {} ± {} nats ({weights} weights)",
                decimals(gap, 1),
                decimals(error, 1)
            ),
            false => format!(
                "estimated KL gap to the best Gaussian of this family: undetermined ({weights} weights), because \
                 deviations are smaller than the rounding of the weights"
            ),
        }
    }

    /// What was found out, without the verdict.
    pub fn finding(&self) -> String {
        let missed = match (self.convergence(), self.converged_parts()) {
            (Convergence::Undetermined, _) if self.standard_error.is_finite() => {
                Some("the draws do not determine whether it has converged".into())
            }
            (Convergence::Undetermined, _) => Some("it may not have converged".into()),
            (_, [true, true]) => None,
            (_, [false, _]) => Some("the mean has not converged".into()),
            (_, [true, false]) => {
                Some(format!("the deviations have not converged ({CONSEQUENCE})"))
            }
        };
        let importance = match self.importance {
            Importance::Absent { .. } => None,
            _ => Some(self.importance_finding()),
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
        let parts: Vec<String> = [Some(self.shown_gap())]
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

/// A divergence or gain in nats per weight.
fn per_weight(nats: f64, weights: usize) -> f64 {
    nats / weights as f64
}

/// What to change if the mean, or else the deviations, have not converged.
fn cure(settings: &FitSettings, is_direct: bool, is_mean: bool) -> &'static str {
    let has_rate = settings.without_effect("diagonal_learning_rate").is_none();
    // Their default is a compromise: predictions near the data are often best before the deviations converge.
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
        (false, _) if settings.method.is_of_iterates() => {
            "this method describes the iterates of an ordinary training, and does not seek that Gaussian; slang or vifa do"
        }
        (false, true) => "give more `epochs`, or a larger `learning_rate`",
        (false, false) if has_default_rate => {
            "give a larger `diagonal_learning_rate`, such as 0.1, or more `epochs`"
        }
        (false, false) if has_rate => "give more `epochs`, or a larger `diagonal_learning_rate`",
        (false, false) => "give more `epochs`",
    }
}

/// Estimates the KL gap between a posterior and the best Gaussian of its family and, for a small model, whether it is close to the
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
    let gap = kl_gap(&fit)?;
    let KlGap {
        decrement,
        standard_error,
        ..
    } = gap;
    let covariance_gain = gap.covariance_gain();
    let convergence = gap.convergence(weights);
    let verdict = convergence_verdict(convergence, per_weight(decrement, weights));
    let is_direct = linear::applies(training_set, settings);
    let (verdict, cure) = match verdict {
        Verdict::Trust | Verdict::LookCloser
            if convergence != Convergence::NotConverged && !is_close(&importance, weights) =>
        {
            let is_real = matches!(training_set.target(), Target::Real(_));
            let cure = match is_direct {
                true if is_real => EXACT,
                true if !settings.method.is_dense() => FULL,
                _ => WIDER,
            };
            (Verdict::LookCloser, Some(cure))
        }
        Verdict::Trust => (Verdict::Trust, None),
        _ if convergence == Convergence::Undetermined => (verdict, Some(COMPARE)),
        _ => {
            let cure = cure(settings, is_direct, decrement > covariance_gain);
            (verdict, Some(cure))
        }
    };
    Ok(Some(Diagnosis {
        verdict,
        decrement,
        covariance_gain,
        standard_error,
        weights,
        motion: model.motion,
        cure: cure.map(Into::into),
        importance,
    }))
}

/// What the convergence of a fit, and the gain of a better mean in nats per weight, say about it.
fn convergence_verdict(convergence: Convergence, decrement: f64) -> Verdict {
    match convergence {
        _ if decrement > UNUSABLE => Verdict::DoNotUse,
        Convergence::Converged => Verdict::Trust,
        _ => Verdict::LookCloser,
    }
}

/// Whether the estimated divergence from the true posterior, if there is one, is at most that of a trusted fit, and
/// importance weights hardly change the predicted probabilities. Ratios that are not finite are not close.
fn is_close(importance: &Importance, weights: usize) -> bool {
    if matches!(importance, Importance::Undetermined { .. }) {
        return false;
    }
    let divergence = importance.divergence();
    let change = importance.probability_change();
    divergence.is_none_or(|divergence| per_weight(divergence, weights) <= CLOSE)
        && change.is_none_or(|change| change <= PROBABILITY_CHANGE)
}

/// The KL gap between a fit and the best Gaussian of its family.
fn kl_gap(fit: &Fit<'_>) -> Result<KlGap> {
    let device = fit.settings.device.device()?.autodiff();
    let rows = fit.training_set.rows();
    let weights = fit.posterior.len();
    let pairs = WORK / (rows * weights).max(1);
    let pairs = pairs.clamp(PAIRS.0, PAIRS.1);
    let test = ConvergenceTest::new(rows)
        .with_prior(fit.prior.clone())
        .with_pairs(pairs)
        .with_most_pairs(MORE_PAIRS * pairs)
        .with_seed(fit.settings.seed);
    let batches = || fit.training_set.batches(&device);
    Ok(test.measure(&fit.network, fit.posterior, batches)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(gap: f64, standard_error: f64) -> Diagnosis {
        Diagnosis {
            verdict: Verdict::LookCloser,
            decrement: 0.0,
            covariance_gain: gap,
            standard_error,
            weights: 100,
            motion: Motion::default(),
            cure: Some(COMPARE.into()),
            importance: Importance::Absent {
                absent: "the test has none".into(),
            },
        }
    }

    #[test]
    fn an_undetermined_distance_is_said_and_not_trusted() {
        for (gap, error) in [(0.0, 14_295.0), (4.9, 0.2), (0.0, f64::INFINITY)] {
            let convergence = Convergence::of(gap, error, 100);
            assert_eq!(convergence, Convergence::Undetermined);
            assert_eq!(convergence_verdict(convergence, 0.0), Verdict::LookCloser);
            let finding = diagnosis(gap, error).finding();
            assert!(finding.contains("determine"), "{finding}");
            assert!(
                !finding.contains("inf") && !finding.contains("have not converged"),
                "{finding}"
            );
            let sentences = diagnosis(gap, error).sentences();
            assert!(!sentences[0].contains("has converged"), "{sentences:?}");
        }
        assert_eq!(
            convergence_verdict(Convergence::of(4.9, 0.01, 100), 0.0),
            Verdict::Trust
        );
        // Far too small deviations are known to be wrong, however wrong they are.
        let convergence = Convergence::of(180.0, f64::INFINITY, 100);
        assert_eq!(convergence_verdict(convergence, 0.0), Verdict::LookCloser);
        let json = serde_json::to_value(diagnosis(0.0, f64::INFINITY)).unwrap();
        assert!(json["standard_error"].is_null());
    }

    #[test]
    fn ratios_that_are_not_finite_are_not_close() {
        let undetermined = Importance::Undetermined {
            undetermined: "a ratio is not finite".into(),
        };
        assert!(!is_close(&undetermined, 10));
        let absent = Importance::Absent {
            absent: "too many weights".into(),
        };
        assert!(is_close(&absent, 10));
    }
}
