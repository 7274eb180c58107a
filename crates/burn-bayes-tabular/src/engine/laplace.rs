//! The Laplace approximation of a maximum a posteriori fit.
//!
//! Its curvature is the generalised Gauss–Newton matrix, so it is the posterior of the network linearised at the fit,
//! and so are the predictions.
//!
//! The prior precision of a network's posterior maximises the marginal likelihood: with that of the training, which
//! suits the point estimate, the posteriors of classifications are far too wide. A linear model keeps its prior, with
//! which the posterior of a regression is exact.

use burn::module::{Module, ParamGroup};
use burn_bayes::graph::Layout;
use burn_bayes::laplace::PriorSharing;

use super::TrainedModel;
use super::method::MethodConfig;
use super::prior::prior;
use crate::error::Result;
use crate::rows::TrainingSet;
use crate::settings::FitSettings;

/// With the method laplace, the posterior around the point estimate of a training; otherwise the model itself.
pub(crate) fn completed(
    training_set: &TrainingSet,
    settings: &FitSettings,
    model: TrainedModel,
) -> Result<TrainedModel> {
    let (rows, precisions) = (training_set.rows(), model.noise_precisions().to_vec());
    let MethodConfig::Laplace(config) = MethodConfig::new(settings, rows, model.weights())? else {
        return Ok(model);
    };
    let learned = model.learned_prior.clone();
    let config = config.with_prior(prior(settings, learned.as_deref()));
    // The layout contains trainable parameters only, so the network is created on an autodiff device.
    let device = settings.device.device()?;
    let network = training_set.network(settings, &precisions, &device.clone().autodiff());
    let layout = Layout::new(&network, &ParamGroup::all())?;
    let network = layout.write(network, layout.flatten(model.network())?)?;
    let fit = config.gauss_newton(&network, training_set.batches(&device))?;
    let (fit, learned) = match settings.is_linear() {
        true => (fit, learned),
        // There is no maximum if the data say nothing about the weights, whose posterior is then the prior.
        false => match fit.clone().with_optimal_prior(PriorSharing::Global) {
            Ok(best) => {
                let precision = best.prior().segments().first().map(|run| run.1);
                (best, precision.map(|precision| vec![precision]))
            }
            Err(_) => (fit, None),
        },
    };
    let posterior = fit.posterior()?;
    let network = network.valid();
    let (target, seed) = (training_set.target().clone(), settings.seed);
    let model = TrainedModel::new(&network, Some(posterior.into()), target, precisions, seed)?;
    let mut model = model.with_linearised_predictions()?;
    model.learned_prior = learned;
    Ok(model)
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;
    use burn_bayes::posterior::linear_regression_posterior;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use crate::engine::fit;
    use crate::predict::Predictions;
    use crate::rows::{Target, TrainingSet};
    use crate::settings::{FitSettings, Method, NoisePrecision};

    const ROWS: usize = 40;
    const WIDTH: usize = 3;

    fn normals(stream: u64, count: usize) -> Vec<f64> {
        let normals = Noise::new(9).row(stream).latent(count).into_iter();
        normals.map(f64::from).collect()
    }

    fn settings(model: &str) -> FitSettings {
        FitSettings {
            method: Method::Laplace,
            model: Some(model.parse().unwrap()),
            no_intercept: true,
            epochs: Some(20),
            prior_precision: 0.7.into(),
            noise_precision: NoisePrecision::Given(3.0),
            ..FitSettings::default()
        }
    }

    fn training_set() -> (Dataset, TrainingSet) {
        let features = Features::new(ROWS, WIDTH, normals(0, ROWS * WIDTH)).unwrap();
        let data = Dataset::new(features, Targets::Real(normals(1, ROWS))).unwrap();
        let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
        (data, training_set)
    }

    #[test]
    fn a_linear_regression_has_its_exact_posterior() {
        let (data, training_set) = training_set();
        let model = fit(&training_set, &settings("linear"), &mut ()).unwrap();
        let found = model.posterior().unwrap().to_dense().unwrap();
        let targets = data.targets().as_real().unwrap();
        let values = data.features().values();
        let exact = linear_regression_posterior(values, targets, 0.7, 3.0).unwrap();
        let divergence =
            found.kl_divergence(&exact).unwrap() + exact.kl_divergence(&found).unwrap();
        // Posteriors are kept in single precision.
        assert!(divergence < 1e-5, "{divergence}");
    }

    #[test]
    fn the_average_prediction_of_a_network_is_that_of_its_mean() {
        let (data, training_set) = training_set();
        let model = fit(&training_set, &settings("mlp:5"), &mut ()).unwrap();
        let map = FitSettings {
            method: Method::Map,
            ..settings("mlp:5")
        };
        let map = fit(&training_set, &map, &mut ()).unwrap();
        let means = |predictions: Predictions| match predictions {
            Predictions::Reals(predictions) => predictions.checked().unwrap().mean(),
            _ => panic!("numbers were fitted"),
        };
        // The draws are antithetic pairs, and the network is linearised.
        let found = means(model.predict(data.features(), 10).unwrap());
        let expected = means(map.predict(data.features(), 1).unwrap());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
