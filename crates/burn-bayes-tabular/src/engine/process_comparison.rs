//! A fit with a prior over functions beside the exact Gaussian process.
//!
//! The posterior of the process with the same kernel and noise is known, so the distribution of the network's functions
//! is compared with it at training rows and in the box where the prior acts. With means m and μ and standard deviations
//! s and σ of the network and the process over places:
//!
//! ```text
//! mean = √(Σ (m − μ)² / Σ σ²),   deviation = Σ |s − σ| / Σ σ
//! ```

use burn_bayes::Noise;
use burn_bayes_contrib::functional::{
    FunctionPrediction, GaussianProcess, GaussianProcessFit, MOST_POINTS, Points,
};
use burn_bayes_data::Features;
use serde::Serialize;

use super::function_prior::{around, bounds, chosen, examples, selected};
use super::trained_model::TrainedModel;
use crate::error::Result;
use crate::rows::{Target, TrainingSet};
use crate::scores::Verdict;
use crate::settings::{FitSettings, Method};

/// The number of places of each kind.
const PLACES: usize = 200;
/// Draws of the network.
const DRAWS: usize = 1000;
/// The random stream of the places.
const CHOICE: u64 = 0x706c_6163;
/// The distances of the deviations at the rows and in the box up to which a fit is trusted.
const TRUSTED: [f64; 2] = [0.15, 0.35];
/// The distances of the mean up to which a fit is trusted, and above which it should not be used.
const MEAN: [f64; 2] = [1.0, 3.0];

/// How far the functions of a network are from those of the exact process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessComparison {
    /// The verdict.
    pub verdict: Verdict,
    /// At training rows.
    pub rows: ProcessDistance,
    /// At random places of the box where the prior acts.
    pub around: ProcessDistance,
    /// What to change; null for a fit that is trusted.
    pub cure: Option<&'static str>,
}

/// The distance of functions from those of a process, over several places.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessDistance {
    /// The root mean squared difference of the means, in exact standard deviations.
    pub mean: f64,
    /// The mean absolute difference of the standard deviations, as a share of the exact ones.
    pub deviation: f64,
    /// The mean standard deviation, as a share of the exact one.
    pub deviation_ratio: f64,
}

impl ProcessComparison {
    fn new([rows, around]: [ProcessDistance; 2], method: Method) -> Self {
        // Both comparisons are false if a mean is not a number.
        let are_means_within = |limit: f64| rows.mean <= limit && around.mean <= limit;
        let [trusted_rows, trusted_around] = TRUSTED;
        let is_trusted = are_means_within(MEAN[0])
            && rows.deviation <= trusted_rows
            && around.deviation <= trusted_around;
        let verdict = match (is_trusted, are_means_within(MEAN[1])) {
            (true, _) => Verdict::Trust,
            (false, true) => Verdict::LookCloser,
            (false, false) => Verdict::DoNotUse,
        };
        let cure = match method {
            Method::Vifa => {
                "give a `model` with more hidden units, more `epochs`, a larger `rank`, or a smaller `prior_margin`"
            }
            _ => "the method `vifa` is often closer",
        };
        Self {
            verdict,
            rows,
            around,
            cure: (!is_trusted).then_some(cure),
        }
    }

    /// What was found out, without the verdict.
    pub fn finding(&self) -> String {
        let off = |found: &ProcessDistance| {
            let width = match found.deviation_ratio < 1.0 {
                true => "narrow",
                false => "wide",
            };
            format!("{:.0} % (on average too {width})", 100.0 * found.deviation)
        };
        let (rows, around) = (off(&self.rows), off(&self.around));
        let cure = self
            .cure
            .map(|cure| format!("; {cure}"))
            .unwrap_or_default();
        format!(
            "compared with the exact process, the standard deviations are off by {rows} at the training rows and {around} in \
             the box where the prior acts, and the mean by {:.1} and {:.1} standard deviations{cure}",
            self.rows.mean, self.around.mean
        )
    }
}

/// Compares a fit with a prior over functions with the exact process; `None` without such a prior, and for more rows than
/// an exact process takes.
///
/// # Errors
/// If a prediction is not finite.
pub fn compare_with_process(
    training_set: &TrainingSet,
    settings: &FitSettings,
    model: &TrainedModel,
) -> Result<Option<ProcessComparison>> {
    let kernel = model.kernel.as_ref();
    let Some(kernel) = kernel.filter(|_| training_set.rows() <= MOST_POINTS) else {
        return Ok(None);
    };
    let process = GaussianProcess::new(kernel.parse()?, model.noise_precisions()[0].recip())?;
    let (inputs, targets) = examples(training_set)?;
    let exact = process.fit(&inputs, &targets)?;
    let noise = Noise::new(settings.seed).fold(CHOICE);
    let rows = selected(&inputs, &chosen(inputs.len(), PLACES, noise))?;
    let around = around(bounds(&inputs), settings.prior_margin)?.draw(PLACES, noise.fold(1))?;
    let distance = |places: &Points| distance(&exact, places, training_set.target(), model);
    let distances = [distance(&rows)?, distance(&around)?];
    Ok(Some(ProcessComparison::new(distances, settings.method)))
}

fn distance(
    exact: &GaussianProcessFit,
    places: &Points,
    target: &Target,
    model: &TrainedModel,
) -> Result<ProcessDistance> {
    let exact = exact.predict(places)?;
    let values = places.rows().flatten().copied();
    let features = Features::new(places.len(), places.width(), values.collect())?;
    let moments = model.predict(&features, DRAWS)?.moments()?;
    let moments = moments.expect("these are predictions of numbers, and there are places");
    let Target::Real(scale) = target else {
        unreachable!("a prior over functions is refused for other targets");
    };
    let variances = moments.variance_between_draws.iter();
    let found = FunctionPrediction {
        mean: moments.mean.iter().map(|&mean| scale.apply(mean)).collect(),
        variance: variances
            .map(|variance| variance / scale.spread.powi(2))
            .collect(),
    };
    Ok(ProcessDistance::of(&found, &exact))
}

impl ProcessDistance {
    fn of(found: &FunctionPrediction, exact: &FunctionPrediction) -> Self {
        let deviations = |prediction: &FunctionPrediction| -> Vec<f64> {
            prediction.variance.iter().map(|v| v.sqrt()).collect()
        };
        let sum_of_pairs = |left: &[f64], right: &[f64], term: fn(f64) -> f64| -> f64 {
            left.iter().zip(right).map(|(l, r)| term(l - r)).sum()
        };
        let squares = sum_of_pairs(&found.mean, &exact.mean, |off| off * off);
        let variance: f64 = exact.variance.iter().sum();
        let (found, exact) = (deviations(found), deviations(exact));
        let all: f64 = exact.iter().sum();
        Self {
            mean: (squares / variance).sqrt(),
            deviation: sum_of_pairs(&found, &exact, f64::abs) / all,
            deviation_ratio: found.iter().sum::<f64>() / all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_in_units_of_the_exact_deviations() {
        let exact = FunctionPrediction {
            mean: vec![0.0, 1.0],
            variance: vec![1.0, 4.0],
        };
        let same = ProcessDistance::of(&exact, &exact);
        assert_eq!(
            (same.mean, same.deviation, same.deviation_ratio),
            (0.0, 0.0, 1.0)
        );
        let found = FunctionPrediction {
            mean: vec![2.0, 0.0],
            variance: vec![0.25, 9.0],
        };
        let found = ProcessDistance::of(&found, &exact);
        // Means are off by 2 and 1, deviations ½ and 3 for 1 and 2.
        assert_eq!(
            (found.mean, found.deviation, found.deviation_ratio),
            (1.0, 0.5, 3.5 / 3.0)
        );
    }

    #[test]
    fn the_worst_distance_gives_the_verdict() {
        let off = |mean, deviation| ProcessDistance {
            mean,
            deviation,
            deviation_ratio: 1.0 - deviation,
        };
        let verdict = |rows, around| {
            let found = ProcessComparison::new([rows, around], Method::Vifa);
            assert_eq!(found.cure.is_none(), found.verdict == Verdict::Trust);
            found.verdict
        };
        assert_eq!(verdict(off(0.9, 0.14), off(0.9, 0.34)), Verdict::Trust);
        assert_eq!(verdict(off(0.9, 0.16), off(0.0, 0.0)), Verdict::LookCloser);
        assert_eq!(verdict(off(0.0, 0.0), off(0.0, 0.36)), Verdict::LookCloser);
        assert_eq!(verdict(off(0.0, 0.0), off(1.1, 0.0)), Verdict::LookCloser);
        assert_eq!(verdict(off(3.1, 0.0), off(0.0, 0.0)), Verdict::DoNotUse);
        assert_eq!(
            verdict(off(f64::NAN, 0.0), off(0.0, 0.0)),
            Verdict::DoNotUse
        );
        assert_eq!(
            verdict(off(0.0, 0.0), off(f64::NAN, 0.0)),
            Verdict::DoNotUse
        );
        let wide = ProcessDistance {
            deviation_ratio: 1.1,
            ..off(0.5, 0.1)
        };
        let found = ProcessComparison::new([off(0.0, 0.2), wide], Method::Slang);
        let finding = found.finding();
        for part in [
            "20 % (on average too narrow)",
            "10 % (on average too wide)",
            "0.0 and 0.5",
            "`vifa`",
        ] {
            assert!(finding.contains(part), "{part}: {finding}");
        }
    }
}
