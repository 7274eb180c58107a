//! Importance ratios of a fit: Pareto k̂, the divergence from the true posterior, and how much weights of the draws
//! would change predicted probabilities.

use burn::module::Module;
use burn_bayes::Noise;
use burn_bayes::diagnostics::ImportanceTest;
use burn_bayes::eval::ParetoSmoothing;
use serde::Serialize;

use super::TrainedModel;
use super::fitted::Fit;
use crate::error::Result;
use crate::predict::Predictions;
use crate::rows::Target;
use crate::text::number;

/// The largest number of weights; for more, k̂ is large for every approximation that is not nearly exact.
const MOST_WEIGHTS: usize = 10_000;
/// Draws: as many as cost this many products of weights with rows, factors and for the draw itself, at most about a
/// second, within bounds. Fewer say little about the tail, and more no longer raise the threshold of k̂.
const WORK: usize = 1_000_000_000;
const PER_WEIGHT: usize = 100;
const DRAWS: (usize, usize) = (100, 2155);
/// If k̂ of the fewest draws is above this, as for most networks, more draws are not worth their time.
const HOPELESS: f64 = 1.0;
/// The number of training rows whose probabilities are compared with importance-weighted ones.
const COMPARED_ROWS: usize = 200;

/// What the importance ratios p(D, θ)/q(θ) of draws of a posterior q say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Importance {
    /// The ratios were computed.
    Measured(ImportanceRatios),
    /// They were not, because it would say little or take long.
    Absent {
        /// Why.
        absent: String,
    },
    /// They are not usable: one is not finite, or the draws do not differ.
    Undetermined {
        /// Why.
        undetermined: String,
    },
}

/// The tail of importance ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportanceRatios {
    /// k̂; null in JSON if it is too large to be estimated.
    pub pareto_k: f64,
    /// What k̂ must be below for reliable importance weights.
    pub threshold: f64,
    /// The number of draws.
    pub draws: usize,
    /// −(1/S) Σ ln(S w_s) for the weights w of the S draws, an estimate of KL(q‖p) in nats. It is too small if q
    /// misses a part of the posterior.
    pub divergence: f64,
    /// By how much the weights change the predicted probabilities of training rows: the mean absolute difference. Null
    /// for other targets, and if the divergence is too large to trust the fit.
    pub probability_change: Option<f64>,
    /// Logarithms of the smoothed weights of the draws, which sum to 1.
    #[serde(skip)]
    pub log_weights: Vec<f64>,
}

impl Importance {
    /// What the ratios say, without a capital letter and a full stop. `is_converged` is the result of the
    /// convergence test: it tells a training that was too short from a family that is too narrow. k̂ depends only on the shape of the
    /// tail, so a fit may be close to the true posterior nevertheless: `is_close`.
    pub(super) fn finding(&self, is_converged: bool, is_close: bool) -> String {
        let ratios = match self {
            Self::Measured(ratios) => ratios,
            Self::Absent { absent } => return format!("Pareto k̂ was not computed: {absent}"),
            Self::Undetermined { undetermined } => {
                return format!("Pareto k̂ is undetermined: {undetermined}");
            }
        };
        let pareto_k = match ratios.pareto_k {
            f64::INFINITY => "too large to be estimated".into(),
            f64::NEG_INFINITY => "−∞".into(),
            pareto_k => format!("{pareto_k:.2}"),
        };
        let (side, meaning) = match (ratios.is_reliable(), is_converged) {
            (true, _) => (
                "below",
                match ratios.probability_change {
                    Some(change) => format!(
                        "the KL divergence from the true posterior is about {} nats, and importance weights would change the \
                         predicted probabilities by {} on average",
                        number(ratios.divergence),
                        number(change)
                    ),
                    None => format!(
                        "the KL divergence from the true posterior is about {} nats",
                        number(ratios.divergence)
                    ),
                },
            ),
            (false, true) if is_close => (
                "not below",
                format!(
                    "converged, and only the tails differ from those of the true posterior (KL divergence about {} \
                     nats)",
                    number(ratios.divergence)
                ),
            ),
            (false, true) => (
                "not below",
                "converged, but this family approximates the posterior poorly".into(),
            ),
            (false, false) => ("not below", "not converged".into()),
        };
        format!(
            "Pareto k̂ is {pareto_k}, {side} {:.2}: {meaning}",
            ratios.threshold
        )
    }

    /// The estimated divergence from the true posterior, in nats.
    pub(super) fn divergence(&self) -> Option<f64> {
        match self {
            Self::Measured(ratios) => Some(ratios.divergence),
            _ => None,
        }
    }

    /// By how much importance weights change predicted probabilities, if it was measured.
    pub(super) fn probability_change(&self) -> Option<f64> {
        match self {
            Self::Measured(ratios) => ratios.probability_change,
            _ => None,
        }
    }
}

impl ImportanceRatios {
    /// Whether importance weights are reliable.
    pub fn is_reliable(&self) -> bool {
        self.pareto_k < self.threshold
    }
}

impl From<ParetoSmoothing> for ImportanceRatios {
    fn from(smoothing: ParetoSmoothing) -> Self {
        let draws = smoothing.log_weights().len() as f64;
        let mean = smoothing.log_weights().iter().sum::<f64>() / draws;
        Self {
            divergence: -draws.ln() - mean,
            pareto_k: smoothing.pareto_k(),
            threshold: smoothing.pareto_k_threshold(),
            draws: smoothing.log_weights().len(),
            probability_change: None,
            log_weights: smoothing.log_weights().to_vec(),
        }
    }
}

/// The importance ratios of draws of the posterior of a fit.
///
/// # Errors
/// If a draw fails; with a likelihood that is not finite the ratios are undetermined.
pub(super) fn importance(fit: &Fit<'_>) -> Result<Importance> {
    let Fit {
        training_set,
        settings,
        posterior,
        ..
    } = fit;
    let absent = |absent: String| Ok(Importance::Absent { absent });
    let (weights, rows) = (posterior.len(), training_set.rows());
    if weights > MOST_WEIGHTS {
        return absent(format!(
            "the posterior has {weights} weights, more than {MOST_WEIGHTS}"
        ));
    }
    let products = weights.saturating_mul(rows + posterior.rank() + PER_WEIGHT);
    let (fewest, most) = DRAWS;
    let draws = (WORK / products.max(1)).min(most);
    if draws < fewest {
        return absent(format!(
            "{fewest} draws for {rows} rows and {weights} weights would take more than a second"
        ));
    }
    let device = settings.device.device()?;
    let network = fit.network.valid();
    let test = ImportanceTest::new(rows)
        .with_prior(fit.prior.clone())
        .with_seed(settings.seed);
    let measured = |draws: usize| {
        let test = test.clone().with_draws(draws);
        test.measure(&network, posterior, training_set.batches(&device))
    };
    let found = match measured(fewest) {
        Ok(first) if first.pareto_k() < HOPELESS => measured(draws),
        first => first,
    };
    match found {
        Ok(smoothing) => Ok(Importance::Measured(smoothing.into())),
        Err(error) if error.is_numerical() => Ok(Importance::Undetermined {
            undetermined: error.to_string(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Measures by how much importance weights change the predicted probabilities of the training rows of a classification,
/// or those of labels.
///
/// # Errors
/// If a prediction is not finite.
pub(super) fn measure_probability_change(
    importance: &mut Importance,
    fit: &Fit<'_>,
    model: &TrainedModel,
) -> Result<()> {
    let target = fit.training_set.target();
    let is_number = target.scales().is_some() || matches!(target, Target::Counts { .. });
    let (Importance::Measured(ratios), false) = (importance, is_number) else {
        return Ok(());
    };
    let rows = fit.training_set.rows();
    let compared: Vec<usize> = (0..rows).step_by(rows.div_ceil(COMPARED_ROWS)).collect();
    let features = fit.training_set.select(&compared).features()?;
    let noise = Noise::new(fit.settings.seed).for_importance();
    let probabilities = |weights: &[f64]| -> Result<Vec<f64>> {
        let model = model.clone().with_weighted_draws(noise, weights)?;
        average_probabilities(&model.predict(&features, weights.len())?)
    };
    let weights: Vec<f64> = ratios
        .log_weights
        .iter()
        .map(|weight| weight.exp())
        .collect();
    // The same draws, so that the difference has little Monte-Carlo error.
    let (plain, weighted) = (
        probabilities(&vec![1.0; weights.len()])?,
        probabilities(&weights)?,
    );
    let differences = plain
        .iter()
        .zip(&weighted)
        .map(|(plain, weighted)| (plain - weighted).abs());
    ratios.probability_change = Some(differences.sum::<f64>() / plain.len() as f64);
    Ok(())
}

/// The probabilities of classes, averaged over draws, or those of all labels; empty for numbers.
fn average_probabilities(predictions: &Predictions) -> Result<Vec<f64>> {
    match predictions {
        Predictions::Classes(predictions) => Ok(predictions.checked()?.average().values().to_vec()),
        Predictions::Reals(_) | Predictions::Counts(_) => Ok(Vec::new()),
        Predictions::Several(targets) => {
            let targets = targets.iter();
            let averages = targets.map(|target| average_probabilities(&target.predictions));
            Ok(averages.collect::<Result<Vec<_>>>()?.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Dataset, Features, Targets};

    use super::*;
    use crate::engine::{diagnose, fit};
    use crate::rows::TrainingSet;
    use crate::scores::Verdict;
    use crate::settings::{FitSettings, Method};

    fn ratios(pareto_k: f64) -> Importance {
        Importance::Measured(ImportanceRatios {
            pareto_k,
            threshold: 0.6,
            draws: 400,
            divergence: 0.25,
            probability_change: None,
            log_weights: Vec::new(),
        })
    }

    #[test]
    fn a_poor_family_is_told_from_a_training_that_was_too_short() {
        let good = ratios(0.2).finding(true, false);
        assert!(good.starts_with("Pareto k̂ is 0.20, below 0.60: "), "{good}");
        for pareto_k in [0.6, 1.3, f64::INFINITY] {
            let poor = ratios(pareto_k).finding(true, false);
            assert!(
                poor.contains("this family approximates the posterior poorly"),
                "{poor}"
            );
            let unfinished = ratios(pareto_k).finding(false, true);
            assert!(unfinished.contains(": not converged"), "{unfinished}");
            let light = ratios(pareto_k).finding(true, true);
            assert!(light.contains("only the tails differ"), "{light}");
            assert!(light.contains("about 0.2500 nats"), "{light}");
            for finding in [poor, unfinished, light] {
                assert!(finding.contains("not below 0.60"), "{finding}");
                assert!(!finding.contains("inf"), "{finding}");
            }
        }
    }

    /// Rows of one feature, and their classes.
    const ROWS: [(f64, usize); 6] = [
        (-2.0, 0),
        (-1.0, 0),
        (-0.3, 0),
        (0.4, 1),
        (1.0, 1),
        (2.0, 1),
    ];
    const SEEDS: u64 = 12;
    /// The inputs of predictions.
    const INPUTS: [f64; 4] = [-2.0, 0.0, 4.0, 8.0];

    fn sigmoid(logit: f64) -> f64 {
        1.0 / (1.0 + (-logit).exp())
    }

    /// The probabilities of class 1, by a grid: the differences of the weights of both classes have the prior
    /// variance 2.
    fn truth() -> [f64; 4] {
        let (mut total, mut sums) = (0.0, [0.0; 4]);
        let steps = || (-400..=400).map(|step| 0.025 * f64::from(step));
        for slope in steps() {
            for intercept in steps() {
                let mut log_joint = -0.25 * (slope * slope + intercept * intercept);
                for (input, class) in ROWS {
                    let logit = slope * input + intercept;
                    let sign = if class == 1 { -1.0 } else { 1.0 };
                    log_joint -= (sign * logit).exp().ln_1p();
                }
                let density = log_joint.exp();
                total += density;
                for (sum, input) in sums.iter_mut().zip(INPUTS) {
                    *sum += density * sigmoid(slope * input + intercept);
                }
            }
        }
        sums.map(|sum| sum / total)
    }

    fn training_set() -> TrainingSet {
        let (inputs, classes): (Vec<f64>, Vec<usize>) = ROWS.into_iter().unzip();
        let features = Features::new(inputs.len(), 1, inputs).unwrap();
        let dataset = Dataset::new(features, Targets::Classes(classes)).unwrap();
        let target = Target::Classes(vec!["no".into(), "yes".into()]);
        TrainingSet::new(&dataset, target).unwrap()
    }

    fn linear(method: Method) -> FitSettings {
        FitSettings {
            method,
            model: Some("linear".parse().unwrap()),
            ..FitSettings::default()
        }
    }

    #[test]
    fn a_fit_whose_probabilities_are_off_is_not_trusted() {
        let training_set = training_set();
        let change = |method| {
            let settings = linear(method);
            let model = fit(&training_set, &settings, &mut ()).unwrap();
            let diagnosis = diagnose(&training_set, &settings, &model).unwrap().unwrap();
            let change = diagnosis.importance.probability_change().unwrap();
            assert_eq!(
                diagnosis.verdict == Verdict::Trust,
                change <= 0.01,
                "{diagnosis}"
            );
            change
        };
        // The mean of the first is the mode, that of the second is the best of a Gaussian.
        let (mode, best) = (change(Method::Laplace), change(Method::Slang));
        assert!(best < 0.01 && 0.01 < mode, "{best} {mode}");
    }

    #[test]
    fn weighted_predictions_of_a_logistic_regression_are_nearer_to_the_truth() {
        let training_set = training_set();
        let settings = linear(Method::MeanField);
        let features = Features::new(INPUTS.len(), 1, INPUTS.to_vec()).unwrap();
        let probabilities = |model: &TrainedModel| {
            let Predictions::Classes(found) = model.predict(&features, 2000).unwrap() else {
                panic!("classes were fitted");
            };
            let mean = |row: usize| {
                let at = |draw: usize| found.values[(draw * INPUTS.len() + row) * 2 + 1];
                (0..found.draws).map(at).sum::<f64>() / found.draws as f64
            };
            [0, 1, 2, 3].map(mean)
        };
        // The Monte-Carlo error of one seed would hide the difference.
        let (mut plain, mut weighted, mut count) = ([0.0; 4], [0.0; 4], 0.0);
        for seed in 0..SEEDS {
            let settings = FitSettings {
                seed,
                ..settings.clone()
            };
            let model = fit(&training_set, &settings, &mut ()).unwrap();
            let diagnosis = diagnose(&training_set, &settings, &model).unwrap().unwrap();
            let Importance::Measured(ratios) = diagnosis.importance else {
                panic!("the model is small");
            };
            if !ratios.is_reliable() {
                continue;
            }
            count += 1.0;
            assert_eq!(ratios.log_weights.len(), DRAWS.1);
            let weights = ratios.log_weights.iter().map(|weight| weight.exp());
            let weights: Vec<f64> = weights.collect();
            let noise = Noise::new(seed).for_importance();
            let with_weights = model.clone().with_weighted_draws(noise, &weights).unwrap();
            for (sums, model) in [(&mut plain, &model), (&mut weighted, &with_weights)] {
                let found = sums.iter_mut().zip(probabilities(model));
                found.for_each(|(sum, probability)| *sum += probability);
            }
        }
        assert!(count > 0.7 * SEEDS as f64, "{count}");
        let truth = truth();
        let error = |found: [f64; 4]| {
            let errors = found
                .iter()
                .zip(truth)
                .map(|(found, truth)| (found / count - truth).abs());
            errors.sum::<f64>() / truth.len() as f64
        };
        let (plain, weighted) = (error(plain), error(weighted));
        assert!(weighted < 0.5 * plain, "{weighted} {plain}");
    }
}
