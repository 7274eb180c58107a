//! The likelihood of a fit.

use burn_bayes::likelihood::Likelihood;

use crate::error::Result;
use crate::rows::Target;
use crate::settings::{FitSettings, LikelihoodName, NoisePrecision, listed, refused};

/// The likelihood that was asked for, or the default of method and target.
fn name(settings: &FitSettings, target: &Target) -> LikelihoodName {
    let is_learned = settings.noise_precision == NoisePrecision::LEARNED;
    let of_numbers = match settings.method.is_sampled() && is_learned {
        true => LikelihoodName::Heteroscedastic,
        false => LikelihoodName::Gaussian,
    };
    let default = match target {
        Target::Real(_) => of_numbers,
        Target::Counts { .. } => LikelihoodName::Poisson,
        Target::Classes(_) => LikelihoodName::Categorical,
        Target::Several(_) if target.scales().is_some() => of_numbers,
        Target::Several(_) => LikelihoodName::Bernoulli,
    };
    settings.likelihood.unwrap_or(default)
}

/// Whether the noise of every target is one number, which is sampled with the weights.
pub(super) fn samples_noise(settings: &FitSettings, target: &Target) -> bool {
    settings.method.is_sampled()
        && target.scales().is_some()
        && name(settings, target) == LikelihoodName::Gaussian
        && settings.noise_precision == NoisePrecision::LEARNED
}

/// The likelihood of the target.
pub(super) fn likelihood(
    settings: &FitSettings,
    target: &Target,
    noise_precisions: &[f64],
) -> Likelihood {
    match name(settings, target) {
        LikelihoodName::Gaussian if samples_noise(settings, target) => {
            Likelihood::HeteroscedasticGaussian
        }
        LikelihoodName::Gaussian => match *noise_precisions {
            [noise_precision] => Likelihood::Gaussian { noise_precision },
            _ => Likelihood::GaussianTargets {
                noise_precisions: noise_precisions.to_vec(),
            },
        },
        LikelihoodName::Heteroscedastic => Likelihood::HeteroscedasticGaussian,
        LikelihoodName::Poisson => Likelihood::Poisson,
        LikelihoodName::Categorical => Likelihood::Categorical,
        LikelihoodName::Ordinal => Likelihood::Ordinal,
        LikelihoodName::Bernoulli => Likelihood::Bernoulli,
    }
}

/// The number of outputs of the network's last layer.
pub(super) fn outputs(settings: &FitSettings, target: &Target) -> usize {
    match samples_noise(settings, target) {
        true => target.columns(),
        false => likelihood(settings, target, &[1.0]).outputs(target.columns()),
    }
}

/// Whether it is Gaussian with one variance for each target that is no weight, or categorical.
pub(crate) fn is_simple(settings: &FitSettings, target: &Target) -> bool {
    match name(settings, target) {
        LikelihoodName::Gaussian => !samples_noise(settings, target),
        LikelihoodName::Categorical => true,
        _ => false,
    }
}

/// Fails if the likelihood is one of other targets.
pub(super) fn check(settings: &FitSettings, target: &Target) -> Result<()> {
    let name = name(settings, target);
    let problem = match (target, name) {
        (Target::Real(_), LikelihoodName::Gaussian | LikelihoodName::Heteroscedastic)
        | (Target::Counts { .. }, LikelihoodName::Poisson)
        | (Target::Classes(_), LikelihoodName::Categorical | LikelihoodName::Ordinal) => {
            return Ok(());
        }
        (Target::Several(_), LikelihoodName::Gaussian | LikelihoodName::Heteroscedastic)
            if target.scales().is_some() =>
        {
            return Ok(());
        }
        (Target::Several(_), LikelihoodName::Bernoulli) if target.scales().is_none() => {
            return Ok(());
        }
        (Target::Several(_), _) => match target.scales() {
            Some(_) => "is not for several numbers; use gaussian or heteroscedastic",
            None => "is not for labels; leave it out",
        },
        (_, LikelihoodName::Bernoulli) => {
            "is for labels, but there is one target; leave it out, or use `--task multilabel`"
        }
        (Target::Real(_), LikelihoodName::Poisson) => {
            "is for counts, but the task is a regression; use `--task counts`"
        }
        (Target::Real(_), _) => {
            "is for classes, but the task is a regression; use gaussian or heteroscedastic"
        }
        (Target::Counts { .. }, _) => {
            "is for numbers or classes, but the task is counts; leave it out"
        }
        (Target::Classes(_), _) => {
            "is for numbers, but the task is a classification; use categorical or ordinal"
        }
    };
    Err(refused("likelihood", format!("is {name}, which {problem}")))
}

/// A warning of the order of classes whose names are not numbers.
pub(super) fn warning(settings: &FitSettings, target: &Target) -> Option<String> {
    let Target::Classes(classes) = target else {
        return None;
    };
    let is_ordinal = settings.likelihood == Some(LikelihoodName::Ordinal);
    let are_numbers = classes.iter().all(|class| class.parse::<f64>().is_ok());
    (is_ordinal && !are_numbers).then(|| {
        let classes = listed(classes);
        format!(
            "the classes are taken in this order, from the lowest: {classes}; `class_order` sets another"
        )
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use super::*;
    use crate::engine::{TrainedModel, Unobserved, fit};
    use crate::predict::{NoiseDeviations, Predictions};
    use crate::rows::TrainingSet;
    use crate::settings::Method;

    const ROWS: usize = 400;

    fn inputs() -> Vec<f64> {
        let uniform = |row: u64| 4.0 * Noise::new(1).row(row).uniform() - 2.0;
        (0..ROWS as u64).map(uniform).collect()
    }

    fn normals(seed: u64) -> Vec<f64> {
        let normals = Noise::new(seed).latent(ROWS).into_iter();
        normals.map(f64::from).collect()
    }

    fn fitted(targets: Targets, target: Target, likelihood: LikelihoodName) -> TrainedModel {
        let features = Features::new(ROWS, 1, inputs()).unwrap();
        let data = Dataset::new(features, targets).unwrap();
        let training_set = TrainingSet::new(&data, target).unwrap();
        let settings = FitSettings {
            likelihood: Some(likelihood),
            method: Method::Vifa,
            epochs: Some(200),
            ..FitSettings::default()
        };
        fit(&training_set, &settings, &mut Unobserved).unwrap()
    }

    fn predicted(model: &TrainedModel, rows: &[f64]) -> Predictions {
        let rows = Features::new(rows.len(), 1, rows.to_vec()).unwrap();
        model.predict(&rows, 50).unwrap()
    }

    /// The noise is small on the left and large on the right.
    #[test]
    fn a_heteroscedastic_fit_finds_the_noise_of_each_row() {
        let deviation = |input: f64| if input < 0.0 { 0.1 } else { 1.0 };
        let targets = inputs().into_iter().zip(normals(2));
        let targets = targets.map(|(input, normal)| 5.0 * (input + deviation(input) * normal));
        let scale = ColumnScale {
            centre: 1.0,
            spread: 5.0,
        };
        let standardised = targets.map(|target| (target - scale.centre) / scale.spread);
        let targets = Targets::Real(standardised.collect());
        let model = fitted(
            targets,
            Target::Real(scale),
            LikelihoodName::Heteroscedastic,
        );
        let rows = [-1.5, -0.8, 0.8, 1.5];
        let Predictions::Reals(found) = predicted(&model, &rows) else {
            panic!("numbers were fitted");
        };
        let NoiseDeviations::PerPrediction(deviations) = &found.kind else {
            panic!("the noise is that of each row");
        };
        let mixture = found.checked().unwrap();
        for (row, (&input, mean)) in rows.iter().zip(mixture.mean()).enumerate() {
            let draws = deviations.iter().skip(row).step_by(rows.len());
            let found = draws.sum::<f64>() / 50.0;
            let expected = 5.0 * deviation(input);
            // Where there are few rows, draws with a larger noise are as likely.
            assert!((0.6..2.0).contains(&(found / expected)), "{input}: {found}");
            // Five standard errors of the mean of a hundred rows.
            assert!(
                (mean - 5.0 * input).abs() < 0.5 * expected + 0.3,
                "{input}: {mean}"
            );
        }
        assert_eq!(model.noise_precisions_in_target_units(), None);
    }

    /// A row has the highest of three classes if its input plus logistic noise is above 1, the lowest if it is
    /// below −1.
    #[test]
    fn an_ordinal_fit_finds_the_probabilities_of_ordered_classes() {
        let logistic = |row: usize| {
            let uniform = Noise::new(3).row(row as u64).uniform();
            0.5 * (uniform / (1.0 - uniform)).ln()
        };
        let latent = inputs().into_iter().enumerate();
        let latent = latent.map(|(row, input)| input + logistic(row));
        let classes = latent.map(|value| usize::from(value > -1.0) + usize::from(value > 1.0));
        let target = Target::Classes(["low", "middle", "high"].map(String::from).to_vec());
        let model = fitted(
            Targets::Classes(classes.collect()),
            target.clone(),
            LikelihoodName::Ordinal,
        );
        let rows = [-1.6, 0.0, 1.6];
        let Predictions::Classes(found) = predicted(&model, &rows) else {
            panic!("classes were fitted");
        };
        let average = found.checked().unwrap().average();
        let below = |threshold: f64, input: f64| 1.0 / (1.0 + (2.0 * (input - threshold)).exp());
        for (row, &input) in rows.iter().enumerate() {
            let (low, high) = (below(-1.0, input), 1.0 - below(1.0, input));
            let expected = [low, 1.0 - low - high, high];
            for (found, expected) in average.row(row).iter().zip(expected) {
                // Three standard errors of a proportion of about fifty rows are 0.2.
                assert!(
                    (found - expected).abs() < 0.2,
                    "{input}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_likelihood_of_other_targets_is_refused_and_an_order_by_names_warned_of() {
        let classes = |names: [&str; 2]| Target::Classes(names.map(String::from).to_vec());
        let real = Target::Real(ColumnScale::KEPT);
        let settings = |likelihood| FitSettings {
            likelihood: Some(likelihood),
            ..FitSettings::default()
        };
        for (target, likelihood) in [
            (&real, LikelihoodName::Ordinal),
            (&classes(["a", "b"]), LikelihoodName::Heteroscedastic),
        ] {
            let message = check(&settings(likelihood), target)
                .unwrap_err()
                .to_string();
            assert!(message.contains("`likelihood`"), "{message}");
        }
        let ordinal = settings(LikelihoodName::Ordinal);
        let names = warning(&ordinal, &classes(["high", "low"])).unwrap();
        assert!(names.contains("`high`, `low`") && names.contains("class_order"));
        assert_eq!(warning(&ordinal, &classes(["1", "2"])), None);
        assert_eq!(
            warning(&settings(LikelihoodName::Categorical), &classes(["a", "b"])),
            None
        );
    }
}
