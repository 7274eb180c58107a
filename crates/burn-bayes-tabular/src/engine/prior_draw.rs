//! A network with weights drawn from the prior.

use burn::module::{Module, ParamGroup};
use burn_bayes::Noise;
use burn_bayes::graph::Layout;

use super::noise::initial;
use super::prior::prior;
use crate::error::Result;
use crate::network::Network;
use crate::rows::TrainingSet;
use crate::settings::FitSettings;

/// A network for inference whose weights are a draw from the prior of a fit to these rows. The noise precision of its
/// likelihood is the one that is given.
pub(crate) fn prior_draw(
    training_set: &TrainingSet,
    settings: &FitSettings,
    noise: Noise,
) -> Result<Network> {
    let device = settings.device.device()?;
    let precisions = initial(training_set, settings)?;
    let network = training_set.network(settings, &precisions, &device.clone().autodiff());
    let layout = Layout::new(&network, &ParamGroup::all())?;
    let deviations = prior(settings, None)
        .resolve(&layout)?
        .expanded(&device)
        .sqrt()
        .recip();
    let weights = noise.normal(layout.len(), &device) * deviations;
    Ok(layout.write(network.valid(), weights)?)
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use super::*;
    use crate::rows::Target;

    #[test]
    fn weights_have_the_variances_of_the_prior() {
        let features = Features::new(1, 40, vec![0.0; 40]).unwrap();
        let dataset = Dataset::new(features, Targets::Real(vec![0.0])).unwrap();
        let rows = TrainingSet::new(&dataset, Target::Real(ColumnScale::KEPT)).unwrap();
        let settings = FitSettings {
            model: Some("linear".parse().unwrap()),
            prior_precision: 4.0.into(),
            bias_prior_precision: Some(0.25),
            ..FitSettings::default()
        };
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for row in 0..200 {
            let noise = Noise::new(1).row(row);
            let network = prior_draw(&rows, &settings, noise).unwrap();
            weights.extend(network.linear_weights().unwrap());
            // The bias is the output at zero.
            let batch = rows.batch(&[0], &settings.device.device().unwrap());
            biases.extend(network.forward(batch.inputs).into_data().iter::<f64>());
        }
        for (values, variance) in [(weights, 0.25), (biases, 4.0)] {
            let count = values.len() as f64;
            let found = values.iter().map(|value| value * value).sum::<f64>() / count;
            // Five standard errors, √(2/n) each, relative to the variance.
            let error = 5.0 * (2.0 / count).sqrt();
            assert!((found / variance - 1.0).abs() < error, "{found}");
        }
    }
}
