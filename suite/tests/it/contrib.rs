//! The code in the book's chapters on contributed methods.

use burn::nn::{Linear, LinearConfig};
use burn_bayes::BayesianConfig;

use crate::support::autodiff;

const TRAIN_LEN: usize = 60_000;

fn model() -> Linear {
    LinearConfig::new(3, 2).init(&autodiff())
}

#[test]
fn nagvac_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: nagvac
    use burn_bayes_contrib::methods::NagvacConfig;

    let bayesian = BayesianConfig::new(train_len, NagvacConfig::new()).init(model);
    // ANCHOR_END: nagvac
    assert!(bayesian.try_posterior().is_ok());
}

#[test]
fn factor_analysis_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: factor_analysis
    use burn_bayes_contrib::methods::FactorAnalysisConfig;

    // Iterates from step 1000 on.
    let bayesian = BayesianConfig::new(
        train_len,
        FactorAnalysisConfig::new().with_start(Some(1000)),
    )
    .init(model);
    // ANCHOR_END: factor_analysis
    assert!(bayesian.try_posterior().unwrap_err().is_too_early());
}

#[test]
fn averages_of_windows_wrap_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: iterate_averaging
    use burn_bayes_contrib::methods::IterateAveragingConfig;

    // Windows of 469 steps, an epoch, from step 1000 on.
    let windows = IterateAveragingConfig::new(1000, 469);
    let bayesian = BayesianConfig::new(train_len, windows).init(model);
    // ANCHOR_END: iterate_averaging
    assert!(bayesian.try_posterior().unwrap_err().is_too_early());
}

#[test]
fn a_batch_ensemble_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: batch_ensemble
    use burn_bayes_contrib::methods::BatchEnsembleConfig;

    let bayesian = BayesianConfig::new(train_len, BatchEnsembleConfig::new(4)).init(model);
    // ANCHOR_END: batch_ensemble
    assert_eq!(bayesian.posterior().weights(), [0.25; 4]);
}

mod variational_last_layer {
    use burn::tensor::Distribution;

    use super::*;

    // ANCHOR: variational_last_layer
    use burn::module::Module;
    use burn::tensor::{Int, Tensor, activation::relu};
    use burn::train::{InferenceStep, TrainOutput, TrainStep};
    use burn_bayes::Noise;
    use burn_bayes::likelihood::{Likelihood, LikelihoodMixture, LikelihoodOutput};
    use burn_bayes_contrib::methods::{VariationalLastLayer, VariationalLastLayerConfig};

    #[derive(Module, Debug)]
    struct Network {
        hidden: Linear,
        last: VariationalLastLayer,
    }

    impl Network {
        fn features(&self, inputs: Tensor<2>) -> Tensor<2> {
            relu(self.hidden.forward(inputs))
        }
    }

    impl TrainStep for Network {
        type Input = (Tensor<2>, Tensor<1, Int>);
        type Output = LikelihoodOutput;

        fn step(&self, (inputs, classes): Self::Input) -> TrainOutput<LikelihoodOutput> {
            let output = self.last.step(self.features(inputs), classes);
            TrainOutput::new(self, output.loss.backward(), output)
        }
    }

    impl InferenceStep for Network {
        type Input = (Tensor<2>, Tensor<1, Int>);
        type Output = LikelihoodMixture;

        fn step(&self, (inputs, classes): Self::Input) -> LikelihoodMixture {
            let features = self.features(inputs);
            self.last.validate(features, classes, 100, Noise::new(0))
        }
    }
    // ANCHOR_END: variational_last_layer

    #[test]
    fn ends_a_network() {
        let (train_len, device) = (TRAIN_LEN, autodiff());
        // ANCHOR: variational_last_layer_use
        // 64 features, 10 classes.
        let last = VariationalLastLayerConfig::new(train_len, 64, 10, Likelihood::Categorical);
        let network = Network {
            hidden: LinearConfig::new(4, 64).init(&device),
            last: last.init(&device),
        };
        // ANCHOR_END: variational_last_layer_use
        let inputs = Tensor::<2>::random([3, 4], Distribution::Default, &device);
        let classes = Tensor::from_data([0, 5, 9], &device);
        let step = TrainStep::step(&network, (inputs.clone(), classes.clone()));
        assert!(step.item.loss.into_scalar::<f64>().is_finite());
        let network = network.valid();
        let inputs = inputs.inner();
        let mixture = InferenceStep::step(&network, (inputs.clone(), classes.inner()));
        assert!(mixture.loss.into_scalar::<f64>().is_finite());
        // ANCHOR: variational_last_layer_predict
        let prediction = network
            .last
            .predict(network.features(inputs), 100, Noise::new(0));
        let probabilities = prediction.probabilities().unwrap();
        // ANCHOR_END: variational_last_layer_predict
        assert_eq!(probabilities.dims(), [3, 10]);
    }
}
