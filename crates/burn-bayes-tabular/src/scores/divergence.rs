//! The definition of divergence, for all commands.
//!
//! A fit has diverged if one of these conditions holds for held-out rows:
//!
//! 1. Their negative log-likelihood (NLL) is not finite.
//! 2. Their NLL is worse than that of a constant prediction: the class frequencies of the training rows,
//!    or a Gaussian or negative binomial distribution with the mean and standard deviation of the training targets; beside a fit of
//!    Poisson counts a Poisson distribution, because one that is too narrow was trained well enough. With d_r the difference
//!    of row r, and mean d̄: d̄ is above two of its standard errors, and above 0.1 nats. The first
//!    inequality allows for the noise of few rows, but of fewer than five, or ten groups or periods, the standard error itself is a
//!    guess, so they are not judged. The second matters for many rows, where a fit to pure
//!    noise is always slightly but significantly worse than the constant.
//! 3. The RMSE of a real target is above ten standard deviations of the training targets. A single extreme
//!    prediction can cause this, and its large s hides it from condition 2.

use std::fmt;

use burn_bayes_data::{Features, Targets};

use super::holdout::error;
use super::score::mean;
use super::{Constant, Summary, row_costs};
use crate::error::{Result, TabularError};
use crate::predict::Predictions;
use crate::rows::{TrainingSet, Units};
use crate::settings::{FitSettings, NoisePrecision};
use crate::text::number;

/// The threshold of condition 2, in standard errors.
const STANDARD_ERRORS: f64 = 2.0;
/// The threshold of condition 2, in nats per row.
const NATS: f64 = 0.1;
/// The threshold of condition 3, in standard deviations of the training targets.
const DEVIATIONS: f64 = 10.0;

/// Remedies for divergence, and for a fit that was not trained.
const CURE: &str = "lower `learning_rate`, give more `epochs`, or choose another `method`";
const OF_ROWS: &str = "give more rows, or features that say more, and check whether the held-out rows are of another kind";

/// Why a fit has diverged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divergence {
    /// The NLL is not finite.
    NotFinite,
    /// The NLL is worse than that of a constant prediction.
    WorseThanConstant {
        /// The NLL of the fit.
        nll: f64,
        /// The NLL of the constant.
        constant: f64,
        /// What the constant is.
        constant_name: &'static str,
    },
    /// The RMSE is many standard deviations of the training targets.
    FarOff {
        /// The RMSE of the fit.
        rmse: f64,
        /// The standard deviation of the training targets.
        deviation: f64,
    },
}

impl Divergence {
    /// Whether the scores are included in means over runs.
    pub fn has_scores(self) -> bool {
        matches!(self, Self::WorseThanConstant { .. })
    }
}

impl Divergence {
    /// The reason in words, for rows of this kind.
    pub(crate) fn of_rows(self, rows: &str) -> String {
        match self {
            Self::NotFinite => format!("the NLL of the {rows} rows is not finite"),
            Self::WorseThanConstant {
                nll,
                constant,
                constant_name,
            } => format!(
                "the NLL of the {rows} rows is {} nats, worse than the {} nats of {constant_name}",
                number(nll),
                number(constant)
            ),
            Self::FarOff { rmse, deviation } => format!(
                "the RMSE of the {rows} rows is {}, and the standard deviation of the training targets \
                 is {}",
                number(rmse),
                number(deviation)
            ),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_rows("held-out"))
    }
}

/// Whether a fit has diverged, from its predictions of held-out rows.
///
/// # Errors
/// If predictions and targets do not match.
pub fn divergence(
    train: &TrainingSet,
    rows: &Features,
    predictions: &Predictions,
    targets: &Targets,
    units: &Units,
) -> Result<Option<Divergence>> {
    let costs = row_costs(predictions, targets)?;
    divergence_of(&costs, train, rows, predictions, targets, units)
}

/// The same with the NLL of every row.
pub(super) fn divergence_of(
    costs: &[f64],
    train: &TrainingSet,
    rows: &Features,
    predictions: &Predictions,
    targets: &Targets,
    units: &Units,
) -> Result<Option<Divergence>> {
    let nll = mean(costs);
    if !nll.is_finite() {
        return Ok(Some(Divergence::NotFinite));
    }
    let constant = Constant::of(train)?.beside(predictions);
    let constant = constant.predictions(train.target(), rows);
    if let Some(far_off) = far_off(&constant, predictions, targets)? {
        return Ok(Some(far_off));
    }
    let baseline = row_costs(&constant, targets)?;
    let difference = Summary::of_differences(costs, &baseline, units);
    let is_worse = is_beyond_noise(difference, units);
    Ok(is_worse.then(|| Divergence::WorseThanConstant {
        nll,
        constant: mean(&baseline),
        constant_name: match constant {
            Predictions::Classes(_) => "the class frequencies of the training rows",
            Predictions::Counts(_) => "a constant distribution of the training counts",
            Predictions::Reals(_) => {
                "a Gaussian with the mean and standard deviation of the training targets"
            }
            Predictions::Several(_) => "constant predictions from the training rows",
        },
    }))
}

/// The divergence by condition 3, of the first target for which it holds.
fn far_off(
    constant: &Predictions,
    predictions: &Predictions,
    targets: &Targets,
) -> Result<Option<Divergence>> {
    let pairs = constant
        .of_targets()
        .into_iter()
        .zip(predictions.beside(targets));
    for ((_, constant), (_, predictions, targets)) in pairs {
        if let Predictions::Reals(_) = constant {
            let moments = constant.moments()?.unwrap_or_default();
            let deviation = moments.deviations().first().copied();
            let deviation = deviation.unwrap_or(f64::INFINITY);
            let rmse = error(predictions, targets)?;
            if rmse > DEVIATIONS * deviation {
                return Ok(Some(Divergence::FarOff { rmse, deviation }));
            }
        }
    }
    Ok(None)
}

/// Whether condition 2 holds for the mean difference of rows.
fn is_beyond_noise(difference: Option<Summary>, units: &Units) -> bool {
    let difference = difference.filter(|difference| difference.mean > NATS && units.are_enough());
    difference.is_some_and(|difference| {
        let error = difference.standard_error;
        error.is_some_and(|error| difference.mean > STANDARD_ERRORS * error)
    })
}

/// The error of a diverged fit, with remedies.
pub(crate) fn diverged_by(reason: &str, settings: &FitSettings) -> TabularError {
    if !settings.method.is_trained() {
        let of_chains = match settings.method.is_sampled() {
            true => "if the chains do not agree, sample longer; otherwise ",
            false => "",
        };
        let problem = format!("the fit cannot be used: {reason}; {of_chains}{OF_ROWS}");
        return TabularError::Numerical(problem);
    }
    let noise = match settings.noise_precision {
        NoisePrecision::Given(_) => "check `noise_precision`, ",
        NoisePrecision::Learned(_) => "",
    };
    TabularError::Numerical(format!("the fit has diverged: {reason}; {noise}{CURE}"))
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{ColumnScale, Dataset};

    use super::*;
    use crate::predict::{ClassPredictions, CountPredictions, Dispersions, RealPredictions};
    use crate::rows::Target;

    const ROWS: usize = 200;

    /// Standard normal random numbers.
    fn units(rows: usize) -> Units {
        Units::rows(rows)
    }

    fn is_beyond(differences: &[f64]) -> bool {
        let units = units(differences.len());
        is_beyond_noise(Summary::of_rows(differences, &units), &units)
    }

    fn normals(seed: u64, rows: usize) -> Vec<f64> {
        let uniforms = |seed| burn_bayes::eval::uniforms(rows, seed);
        let pairs = uniforms(seed).into_iter().zip(uniforms(seed + 1));
        let radius = |uniform: f64| (-2.0 * (1.0 - uniform).ln()).sqrt();
        pairs
            .map(|(u, v)| radius(u) * (std::f64::consts::TAU * v).cos())
            .collect()
    }

    fn problem(targets: Targets, target: Target) -> TrainingSet {
        let features = Features::new(targets.len(), 1, vec![0.0; targets.len()]).unwrap();
        TrainingSet::new(&Dataset::new(features, targets).unwrap(), target).unwrap()
    }

    /// Targets with mean 1000 and standard deviation 50, not standardised.
    fn targets(seed: u64, rows: usize) -> Vec<f64> {
        let values = normals(seed, rows).into_iter();
        values.map(|value| 1000.0 + 50.0 * value).collect()
    }

    fn reals(means: Vec<f64>, noise_deviation: f64) -> Predictions {
        Predictions::Reals(RealPredictions::new(noise_deviation, 1, means))
    }

    fn kept() -> Target {
        Target::Real(ColumnScale::KEPT)
    }

    #[test]
    fn a_regression_is_measured_by_the_gaussian_of_its_targets() {
        let train = problem(Targets::Real(targets(1, ROWS)), kept());
        let found = targets(3, ROWS);
        let held_out = Targets::Real(found.clone());
        let judged = |predictions: &Predictions| {
            let found = divergence(
                &train,
                &train.features().unwrap(),
                predictions,
                &held_out,
                &units(ROWS),
            )
            .unwrap();
            found.map(|found| found.to_string())
        };
        let constant = Constant::of(&train).unwrap();
        let constant = constant.predictions(train.target(), &train.features().unwrap());
        assert_eq!(judged(&constant), None);
        // Slightly too wide and slightly biased.
        assert_eq!(judged(&reals(vec![1010.0; ROWS], 55.0)), None);
        assert_eq!(judged(&reals(found.clone(), 1.0)), None);
        let sure = judged(&reals(targets(5, ROWS), 10.0)).unwrap();
        assert!(sure.contains("NLL") && sure.contains("Gaussian"), "{sure}");
        // One prediction is far off, with a distribution wide enough to hide it.
        let mut means = found;
        means[7] += 1e6;
        let far = judged(&reals(means, 50.0)).unwrap();
        assert!(far.contains("RMSE"), "{far}");
    }

    #[test]
    fn classes_are_measured_by_their_frequencies() {
        let of = |probabilities: Vec<f64>| {
            let classes = ["a", "b"].map(String::from).to_vec();
            Predictions::Classes(ClassPredictions::new(classes, 1, probabilities))
        };
        // One row in four is of the second class.
        let labels: Vec<usize> = (0..ROWS).map(|row| usize::from(row % 4 == 0)).collect();
        let target = Target::Classes(["a", "b"].map(String::from).to_vec());
        let train = problem(Targets::Classes(labels.clone()), target);
        let held_out = Targets::Classes(labels);
        let judged = |row: [f64; 2]| {
            let found = divergence(
                &train,
                &train.features().unwrap(),
                &of(row.repeat(ROWS)),
                &held_out,
                &units(ROWS),
            )
            .unwrap();
            found.map(|found| found.to_string())
        };
        assert_eq!(judged([0.75, 0.25]), None);
        assert_eq!(judged([0.7, 0.3]), None);
        // The class frequencies have 0.56 nats, these probabilities 1.39 · 3/4 + 0.29 · 1/4.
        let reason = judged([0.25, 0.75]).unwrap();
        assert!(
            reason.contains("1.1116") && reason.contains("0.5623"),
            "{reason}"
        );
        let impossible = judged([1.0, 0.0]).unwrap();
        assert!(impossible.contains("not finite"), "{impossible}");
    }

    #[test]
    fn poisson_counts_are_measured_by_those_of_a_constant_rate() {
        let target = Target::Counts {
            mean: 4.0,
            has_exposure: false,
        };
        let counts = Targets::Real([0.0, 0.0, 0.0, 16.0].repeat(ROWS / 4));
        let train = problem(counts.clone(), target);
        let rows = train.features().unwrap();
        let judged = |dispersions: Vec<f64>| {
            let counted = CountPredictions::new(Dispersions(dispersions), 1, vec![4.0; ROWS]);
            let predictions = Predictions::Counts(counted);
            divergence(&train, &rows, &predictions, &counts, &units(ROWS)).unwrap()
        };
        assert_eq!(judged(Vec::new()), None);
        assert!(judged(vec![0.01; ROWS]).is_some());
    }

    #[test]
    fn few_rows_must_be_worse_beyond_their_noise_and_many_by_a_tenth_of_a_nat() {
        assert!(!is_beyond(&[]));
        assert!(!is_beyond(&[5.0; 4]));
        assert!(is_beyond(&[5.0; 5]));
        assert!(!is_beyond(&[0.0, 0.0, 0.0, 0.0, 9.0]));
        assert!(!is_beyond(&[0.09; 1000]));
        assert!(is_beyond(&[0.11; 1000]));
        let noisy = |mean: f64| {
            normals(7, 10_000)
                .iter()
                .map(|x| mean + x)
                .collect::<Vec<_>>()
        };
        assert!(!is_beyond(&noisy(0.05)) && is_beyond(&noisy(0.2)));
    }
}
