//! The likelihood of a fit.

use burn_bayes::likelihood::Likelihood;

use crate::error::Result;
use crate::rows::Target;
use crate::settings::{FitSettings, LikelihoodName, Method, NoisePrecision, listed, refused};

/// The Gaussians of a mixture.
const COMPONENTS: usize = 2;

/// The likelihood that was asked for, or the default of method and target.
pub(crate) fn likelihood_name(settings: &FitSettings, target: &Target) -> LikelihoodName {
    let is_learned = settings.noise_precision == NoisePrecision::LEARNED;
    let of_numbers = match settings.method.is_sampled() && is_learned {
        true => LikelihoodName::Heteroscedastic,
        false => LikelihoodName::Gaussian,
    };
    let default = match target {
        Target::Real(_) => of_numbers,
        // Laplace's curvature of the dispersion has no closed form.
        Target::Counts { .. } if settings.method == Method::Laplace => LikelihoodName::Poisson,
        Target::Counts { .. } => LikelihoodName::NegativeBinomial,
        Target::Classes(_) => LikelihoodName::Categorical,
        Target::Several(_) if target.scales().is_some() => of_numbers,
        Target::Several(_) => LikelihoodName::Bernoulli,
    };
    settings.likelihood.unwrap_or(default)
}

/// Whether the noise of numbers, or the dispersion of counts, is the same for all rows and a weight for each target.
pub(super) fn is_noise_a_weight(settings: &FitSettings, target: &Target) -> bool {
    match likelihood_name(settings, target) {
        LikelihoodName::NegativeBinomial => true,
        LikelihoodName::Gaussian => {
            settings.method.is_sampled()
                && target.scales().is_some()
                && settings.noise_precision == NoisePrecision::LEARNED
        }
        _ => false,
    }
}

/// The likelihood of the target.
pub(super) fn likelihood(
    settings: &FitSettings,
    target: &Target,
    noise_precisions: &[f64],
) -> Likelihood {
    match likelihood_name(settings, target) {
        LikelihoodName::Gaussian if is_noise_a_weight(settings, target) => {
            Likelihood::HeteroscedasticGaussian
        }
        LikelihoodName::Gaussian => match *noise_precisions {
            [noise_precision] => Likelihood::Gaussian { noise_precision },
            _ => Likelihood::GaussianTargets {
                noise_precisions: noise_precisions.to_vec(),
            },
        },
        LikelihoodName::Heteroscedastic => Likelihood::HeteroscedasticGaussian,
        LikelihoodName::Mixture => Likelihood::GaussianMixture {
            components: COMPONENTS,
        },
        LikelihoodName::Poisson => Likelihood::Poisson,
        LikelihoodName::NegativeBinomial => Likelihood::NegativeBinomial,
        LikelihoodName::Categorical => Likelihood::Categorical,
        LikelihoodName::Ordinal => Likelihood::Ordinal,
        LikelihoodName::Bernoulli => Likelihood::Bernoulli,
    }
}

/// The number of outputs of the network's last layer.
pub(super) fn outputs(settings: &FitSettings, target: &Target) -> usize {
    match is_noise_a_weight(settings, target) {
        true => target.columns(),
        false => likelihood(settings, target, &[1.0]).outputs(target.columns()),
    }
}

/// Whether it is Gaussian with one variance for each target that is no weight, or categorical.
pub(crate) fn is_simple(settings: &FitSettings, target: &Target) -> bool {
    match likelihood_name(settings, target) {
        LikelihoodName::Gaussian => !is_noise_a_weight(settings, target),
        LikelihoodName::Categorical => true,
        _ => false,
    }
}

/// Whether the targets are numbers with one variance each that is no weight.
pub(super) fn has_noise_precision(settings: &FitSettings, target: &Target) -> bool {
    target.scales().is_some() && is_simple(settings, target)
}

/// The likelihoods among which held-out rows may choose: none if one is given, and for classes, whose order is known or not.
/// Other methods than chains have settings that were tuned for one of them.
pub(crate) fn likelihoods(settings: &FitSettings, target: &Target) -> Vec<LikelihoodName> {
    let is_open = settings.likelihood.is_none() && settings.method.is_sampled();
    if !is_open || matches!(target, Target::Classes(_)) {
        return Vec::new();
    }
    let suits = |&name: &LikelihoodName| {
        let likelihood = Some(name);
        let settings = FitSettings {
            likelihood,
            ..settings.clone()
        };
        check(&settings, target).is_ok()
    };
    LikelihoodName::ALL.iter().copied().filter(suits).collect()
}

/// Fails if the likelihood is one of other targets, or has not the noise that is given.
pub(super) fn check(settings: &FitSettings, target: &Target) -> Result<()> {
    let name = likelihood_name(settings, target);
    check_name(name, settings, target)?;
    let is_given = matches!(settings.noise_precision, NoisePrecision::Given(_));
    if !is_given || has_noise_precision(settings, target) {
        return Ok(());
    }
    let problem = match target.scales() {
        Some(_) => format!(
            "is one number, but {name} has a noise of every row; leave it out, or use `--likelihood gaussian`"
        ),
        None => {
            format!("is that of numbers with Gaussian noise, which {name} has not; leave it out")
        }
    };
    Err(refused("noise_precision", problem))
}

fn check_name(name: LikelihoodName, settings: &FitSettings, target: &Target) -> Result<()> {
    let problem = match (target, name) {
        (Target::Real(_), LikelihoodName::Mixture) if settings.method == Method::Laplace => {
            "has no curvature in closed form, which laplace needs; use heteroscedastic, or another method"
        }
        (Target::Real(scale), LikelihoodName::Mixture) if scale.is_logarithmic => {
            "has a mean that its tails decide if it is of the logarithm; use `--target-scale linear`, or heteroscedastic"
        }
        (Target::Counts { .. }, LikelihoodName::NegativeBinomial)
            if settings.method == Method::Laplace =>
        {
            "has no curvature in closed form, which laplace needs; use poisson, or another method"
        }
        (Target::Counts { .. }, LikelihoodName::NegativeBinomial) => return Ok(()),
        (
            Target::Real(_),
            LikelihoodName::Gaussian | LikelihoodName::Heteroscedastic | LikelihoodName::Mixture,
        )
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
        (Target::Real(_), LikelihoodName::Poisson | LikelihoodName::NegativeBinomial) => {
            "is for counts, but the task is a regression; use `--task counts`"
        }
        (Target::Real(_), _) => {
            "is for classes, but the task is a regression; use gaussian, heteroscedastic or mixture"
        }
        (Target::Counts { .. }, _) => {
            "is for numbers or classes, but the task is counts; use negative-binomial or poisson"
        }
        (Target::Classes(_), _) => {
            "is for numbers, but the task is a classification; use categorical or ordinal"
        }
    };
    Err(refused("likelihood", format!("is {name}, which {problem}")))
}

/// A warning of the order of classes whose names are not numbers.
pub(crate) fn warning_of_order(settings: &FitSettings, target: &Target) -> Option<String> {
    let Target::Classes(classes) = target else {
        return None;
    };
    let is_ordinal = settings.likelihood == Some(LikelihoodName::Ordinal);
    let are_numbers = classes.iter().all(|class| class.parse::<f64>().is_ok());
    (is_ordinal && !are_numbers).then(|| {
        let classes = listed(classes);
        format!(
            "the classes are taken in this order, from the lowest: {classes}; `--class-order` sets another"
        )
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;
    use burn_bayes::eval::CountMixture;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Scaling, Targets};

    use super::*;
    use crate::engine::{TrainedModel, fit};
    use crate::predict::{CountPredictions, NoiseDeviations, Predictions, Recalibration};
    use crate::rows::TrainingSet;
    use crate::scores::row_costs;

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
        fitted_by(Method::Vifa, targets, target, likelihood)
    }

    fn fitted_by(
        method: Method,
        targets: Targets,
        target: Target,
        likelihood: LikelihoodName,
    ) -> TrainedModel {
        let features = Features::new(ROWS, 1, inputs()).unwrap();
        let data = Dataset::new(features, targets).unwrap();
        let training_set = TrainingSet::new(&data, target).unwrap();
        let settings = FitSettings {
            likelihood: Some(likelihood),
            method,
            epochs: Some(if method.is_sampled() { 2000 } else { 200 }),
            ..FitSettings::default()
        };
        fit(&training_set, &settings, &mut ()).unwrap()
    }

    fn predicted(model: &TrainedModel, rows: &[f64]) -> Predictions {
        let rows = Features::new(rows.len(), 1, rows.to_vec()).unwrap();
        model.predict(&rows, 50).unwrap()
    }

    /// The noise is small on the left and large on the right.
    #[test]
    fn a_search_tries_likelihoods_that_suit_the_target() {
        use LikelihoodName::{Gaussian, Heteroscedastic, Mixture, NegativeBinomial, Poisson};
        let of = |method, target: &Target| {
            let settings = FitSettings {
                method,
                ..FitSettings::default()
            };
            likelihoods(&settings, target)
        };
        let number = Target::Real(ColumnScale::KEPT);
        let logarithm = Target::Real(ColumnScale {
            is_logarithmic: true,
            ..ColumnScale::KEPT
        });
        let counts = Target::Counts {
            mean: 1.0,
            has_exposure: false,
        };
        let classes = Target::Classes(["a", "b", "c"].map(String::from).to_vec());
        for (target, expected) in [
            (&number, &[Gaussian, Heteroscedastic, Mixture][..]),
            (&logarithm, &[Gaussian, Heteroscedastic]),
            (&counts, &[NegativeBinomial, Poisson]),
            (&classes, &[]),
        ] {
            let mut found = of(Method::Mclmc, target);
            found.sort_by_key(ToString::to_string);
            assert_eq!(found, expected);
            assert_eq!(of(Method::Vifa, target), []);
        }
        let given = FitSettings {
            method: Method::Mclmc,
            likelihood: Some(Gaussian),
            ..FitSettings::default()
        };
        assert_eq!(likelihoods(&given, &number), []);
    }

    #[test]
    fn a_heteroscedastic_fit_finds_the_noise_of_each_row() {
        let deviation = |input: f64| if input < 0.0 { 0.1 } else { 1.0 };
        let targets = inputs().into_iter().zip(normals(2));
        let targets = targets.map(|(input, normal)| 5.0 * (input + deviation(input) * normal));
        let scale = ColumnScale {
            centre: 1.0,
            spread: 5.0,
            ..ColumnScale::KEPT
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
        let NoiseDeviations::PerPrediction(deviations) = &found.kind.deviations else {
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

    /// Counts of mean 3 e^x and variance μ + μ²/2.
    #[test]
    fn the_dispersion_of_counts_is_learned() {
        let count = |(row, input): (usize, f64)| {
            let rate = 3.0 * input.exp();
            let mixture = CountMixture::new(vec![rate], 1, 1).unwrap();
            let mixture = mixture.with_dispersions(vec![0.5]).unwrap();
            let uniform = Noise::new(4).row(row as u64).uniform();
            mixture.quantiles(uniform).unwrap()[0]
        };
        let counts: Vec<f64> = inputs().into_iter().enumerate().map(count).collect();
        let mean = counts.iter().sum::<f64>() / ROWS as f64;
        let fitted = |likelihood| {
            let counts = Targets::Real(counts.clone());
            let model = fitted_by(
                Method::Mclmc,
                counts,
                Target::Counts {
                    mean,
                    has_exposure: false,
                },
                likelihood,
            );
            let Predictions::Counts(found) = predicted(&model, &inputs()) else {
                panic!("counts were fitted");
            };
            found
        };
        let found = fitted(LikelihoodName::NegativeBinomial);
        let dispersions = &found.kind.0;
        let dispersion = dispersions.iter().sum::<f64>() / dispersions.len() as f64;
        // The standard error of a dispersion of 400 counts is about 0.06.
        assert!((0.35..0.7).contains(&dispersion), "{dispersion}");
        let costs = |found: CountPredictions| {
            let targets = Targets::Real(counts.clone());
            let costs = row_costs(&Predictions::Counts(found), &targets).unwrap();
            costs.iter().sum::<f64>() / ROWS as f64
        };
        let poisson = fitted(LikelihoodName::Poisson);
        assert!(poisson.kind.0.is_empty());
        let (dispersed, poisson) = (costs(found), costs(poisson));
        assert!(dispersed < poisson - 0.3, "{dispersed} {poisson}");
    }

    /// The target is near 2 with probability σ(x), and otherwise near −1.
    #[test]
    fn a_mixture_finds_two_clusters_and_how_often_each_comes() {
        let uniforms = (0..ROWS as u64).map(|row| Noise::new(6).row(row).uniform());
        let probability = |input: f64| 1.0 / (1.0 + (-input).exp());
        let targets = inputs().into_iter().zip(uniforms).zip(normals(7));
        let targets = targets.map(|((input, uniform), normal)| {
            let centre = if uniform < probability(input) {
                2.0
            } else {
                -1.0
            };
            centre + 0.2 * normal
        });
        let targets: Vec<f64> = targets.collect();
        let fitted = |likelihood| {
            let kept = Target::Real(ColumnScale::KEPT);
            fitted_by(
                Method::Mclmc,
                Targets::Real(targets.clone()),
                kept,
                likelihood,
            )
        };
        let model = fitted(LikelihoodName::Mixture);
        let rows = [-1.5, 0.0, 1.5];
        let predictions = predicted(&model, &rows);
        let moments = predictions.moments().unwrap().unwrap();
        for (row, &input) in rows.iter().enumerate() {
            let share = probability(input);
            let expected = 3.0 * share - 1.0;
            // Of a hundred rows, the share has a standard error of .05.
            assert!(
                (moments.mean[row] - expected).abs() < 0.5,
                "{input}: {moments:?}"
            );
            let deviation = (0.04 + 9.0 * share * (1.0 - share)).sqrt();
            let ratio = moments.variance[row].sqrt() / deviation;
            assert!((0.8..1.2).contains(&ratio), "{input}: {ratio}");
        }
        let cost = |model: &TrainedModel| {
            let costs = row_costs(
                &predicted(model, &inputs()),
                &Targets::Real(targets.clone()),
            );
            let costs = costs.unwrap();
            costs.iter().sum::<f64>() / ROWS as f64
        };
        let (mixture, one) = (cost(&model), cost(&fitted(LikelihoodName::Heteroscedastic)));
        assert!(mixture < one - 0.8, "{mixture} {one}");
        // Parts of the predictions are predictions of the parts.
        let of_rows = predictions.of_rows(&[2, 0]).moments().unwrap().unwrap();
        assert_eq!(of_rows.mean, [moments.mean[2], moments.mean[0]]);
        let parts = vec![
            (vec![1], predictions.of_rows(&[1])),
            (vec![0, 2], predictions.of_rows(&[0, 2])),
        ];
        let joined = Predictions::of_parts(parts).moments().unwrap().unwrap();
        assert_eq!(joined.variance, moments.variance);
        let draws = (0..predictions.draws()).map(|draw| predictions.of_draw(draw));
        let members = Predictions::of_members(draws.collect());
        let of_members = members.moments().unwrap().unwrap();
        for (found, expected) in of_members.variance.iter().zip(&moments.variance) {
            assert!((found / expected - 1.0).abs() < 1e-12);
        }
        // A recalibration scales all that is around the mean of a row.
        let scaling = Recalibration::Variance {
            deviation_factor: 2.0,
        };
        let scaled = scaling.apply(predictions).unwrap().moments().unwrap();
        let scaled = scaled.unwrap();
        for (found, expected) in scaled.variance.iter().zip(&moments.variance) {
            assert!((found / expected - 4.0).abs() < 1e-9, "{found} {expected}");
        }
    }

    /// y = e^{1 + x + 0.3 ε}
    #[test]
    fn the_logarithm_of_a_number_is_predicted_in_its_own_unit() {
        let logarithms = inputs().into_iter().zip(normals(5));
        let logarithms: Vec<f64> = logarithms.map(|(x, noise)| 1.0 + x + 0.3 * noise).collect();
        let scale = ColumnScale {
            is_logarithmic: true,
            ..ColumnScale::fit(logarithms.iter().copied(), Scaling::Standardise).unwrap()
        };
        let numbers = logarithms.iter().map(|logarithm| logarithm.exp());
        let standardised: Vec<f64> = numbers.map(|number| scale.apply(number)).collect();
        for likelihood in [LikelihoodName::Gaussian, LikelihoodName::Heteroscedastic] {
            let targets = Targets::Real(standardised.clone());
            let model = fitted_by(Method::Mclmc, targets, Target::Real(scale), likelihood);
            let rows = [-1.5, 0.0, 1.5];
            let predictions = predicted(&model, &rows);
            let moments = predictions.moments().unwrap().unwrap();
            for (row, input) in rows.iter().enumerate() {
                let expected = (1.0 + input + 0.045_f64).exp();
                let ratio = moments.mean[row] / expected;
                assert!((0.85..1.18).contains(&ratio), "{input}: {ratio}");
                let deviation = moments.variance[row].sqrt() / expected;
                // √(exp 0.3² − 1)
                assert!((0.24..0.42).contains(&deviation), "{input}: {deviation}");
            }
        }
    }

    #[test]
    fn a_noise_that_no_row_has_is_refused() {
        let checked = |likelihood: Option<LikelihoodName>, target: Target| {
            let settings = FitSettings {
                likelihood,
                noise_precision: NoisePrecision::Given(4.0),
                ..FitSettings::default()
            };
            check(&settings, &target).map_err(|error| error.to_string())
        };
        let number = || Target::Real(ColumnScale::KEPT);
        assert_eq!(checked(None, number()), Ok(()));
        assert_eq!(checked(Some(LikelihoodName::Gaussian), number()), Ok(()));
        let of_rows = checked(Some(LikelihoodName::Heteroscedastic), number()).unwrap_err();
        assert!(of_rows.contains("a noise of every row"), "{of_rows}");
        let classes = Target::Classes(["a", "b"].map(String::from).to_vec());
        let of_classes = checked(None, classes).unwrap_err();
        assert!(of_classes.contains("categorical has not"), "{of_classes}");
    }

    #[test]
    fn a_likelihood_of_other_targets_is_refused_and_an_order_by_names_warned_of() {
        let classes = |names: [&str; 2]| Target::Classes(names.map(String::from).to_vec());
        let real = Target::Real(ColumnScale::KEPT);
        let logarithm = Target::Real(ColumnScale {
            is_logarithmic: true,
            ..ColumnScale::KEPT
        });
        let settings = |likelihood| FitSettings {
            likelihood: Some(likelihood),
            ..FitSettings::default()
        };
        for (target, likelihood) in [
            (&real, LikelihoodName::Ordinal),
            (&logarithm, LikelihoodName::Mixture),
            (&classes(["a", "b"]), LikelihoodName::Mixture),
            (&classes(["a", "b"]), LikelihoodName::Heteroscedastic),
        ] {
            let message = check(&settings(likelihood), target)
                .unwrap_err()
                .to_string();
            assert!(message.contains("`likelihood`"), "{message}");
        }
        let ordinal = settings(LikelihoodName::Ordinal);
        let names = warning_of_order(&ordinal, &classes(["high", "low"])).unwrap();
        assert!(names.contains("`high`, `low`") && names.contains("`--class-order`"));
        assert_eq!(warning_of_order(&ordinal, &classes(["1", "2"])), None);
        assert_eq!(
            warning_of_order(&settings(LikelihoodName::Categorical), &classes(["a", "b"])),
            None
        );
    }
}
