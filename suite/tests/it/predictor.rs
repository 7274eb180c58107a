//! Predictions of a model with any posterior: after training, and from files.

use burn::module::{Module, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, loss::CrossEntropyLossConfig};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
use burn_bayes::{
    BayesianConfig, FactorPosterior, Noise, Predictor, SlangConfig, SwagConfig, VifaConfig,
};

use crate::support::{autodiff, bits, device, filled, normals, values};

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(3, 6).init(device),
            norm: BatchNormConfig::new(6).init(device),
            last: LinearConfig::new(6, 2).init(device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let hidden = self.norm.forward::<2>(self.first.forward(input));
        self.last.forward(hidden.tanh())
    }
}

type Batch = (Tensor<2>, Tensor<1, Int>);

impl InferenceStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, (input, classes): Batch) -> ClassificationOutput {
        let output = self.forward(input);
        let loss = CrossEntropyLossConfig::new().init(&output.device());
        let loss = loss.forward(output.clone(), classes.clone());
        ClassificationOutput::new(loss, output, classes)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

fn batch(rows: usize, seed: u64, device: &Device) -> Batch {
    let input = Tensor::<1>::from_data(&*normals(seed, rows * 3), device).reshape([rows, 3]);
    let classes: Vec<i32> = (0..rows as i32).map(|row| row % 2).collect();
    (input, Tensor::from_data(&*classes, device))
}

fn probabilities<P: Posterior>(predictor: &Predictor<Net, P>, draws: usize) -> Vec<u32> {
    let mixture = predictor.predict(batch(5, 2, &device()), draws).unwrap();
    bits(&mixture.draw_probabilities)
}

#[test]
fn a_predictor_from_files_predicts_as_the_training_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posterior.bpk");
    let bayesian = BayesianConfig::new(100, VifaConfig::new().with_rank(2)).init(filled(
        Net::new(&autodiff()),
        1,
        0.5,
    ));
    let predictor = bayesian.predictor().unwrap();
    let expected = bayesian.predict(batch(5, 2, &device()), 7).unwrap();
    assert_eq!(
        probabilities(&predictor, 7),
        bits(&expected.draw_probabilities)
    );
    predictor.posterior().save(&path).unwrap();

    let noise = Noise::new(3);
    let posterior = FactorPosterior::load(&path, &device()).unwrap();
    let read = Predictor::new(Net::new(&device()), posterior.clone(), noise).unwrap();
    let kept = Predictor::new(Net::new(&device()), bayesian.posterior(), noise).unwrap();
    assert_eq!(probabilities(&read, 7), probabilities(&kept, 7));
    for (draw, found) in (0..).zip(
        read.map_draws(4, |net: &Net| net.first.weight.val())
            .unwrap(),
    ) {
        let drawn = posterior.draw(noise.row(draw)).unwrap();
        let model = posterior
            .layout()
            .write(Net::new(&device()), drawn)
            .unwrap();
        assert_eq!(bits(&found), bits(&model.first.weight.val()));
    }
}

#[test]
fn a_prediction_needs_a_draw() {
    let bayesian = BayesianConfig::new(100, VifaConfig::new()).init(Net::new(&autodiff()));
    let error = bayesian.predict(batch(5, 2, &device()), 0).unwrap_err();
    assert!(error.is_config(), "{error}");
    assert!(error.to_string().starts_with("draws: is 0"), "{error}");
}

#[test]
#[should_panic(expected = "prediction_draws is 0")]
fn validation_needs_a_draw() {
    let bayesian = BayesianConfig::new(100, VifaConfig::new()).init(Net::new(&autodiff()));
    let _ = bayesian.with_prediction_draws(0);
}

#[test]
fn batched_draws_are_those_one_by_one() {
    let net = || filled(Net::new(&device()), 1, 0.5);
    let slang = BayesianConfig::new(100, SlangConfig::new().with_rank(2))
        .init(net())
        .posterior();
    let members = (0..3)
        .map(|seed| PointPosterior::of(&filled(net(), seed, 0.5), &ParamGroup::all()).unwrap());
    let ensemble = Mixture::uniform(members.collect()).unwrap();
    agrees(Predictor::new(net(), slang, Noise::new(1)).unwrap());
    agrees(Predictor::new(net(), ensemble, Noise::new(1)).unwrap());

    fn agrees<P: Posterior>(predictor: Predictor<Net, P>) {
        let probabilities = |predictor: &Predictor<Net, P>| {
            let mixture = predictor.predict(batch(5, 2, &device()), 11).unwrap();
            values(&mixture.draw_probabilities)
        };
        let alone = probabilities(&predictor);
        let together = probabilities(&predictor.with_batched_draws());
        for (alone, together) in alone.iter().zip(&together) {
            assert!((alone - together).abs() < 1e-5, "{alone} {together}");
        }
    }
}

#[test]
fn an_ensemble_averages_its_members() {
    let nets: Vec<_> = (0..2)
        .map(|seed| filled(Net::new(&device()), seed, 0.5))
        .collect();
    let members = nets
        .iter()
        .map(|net| PointPosterior::of(net, &ParamGroup::all()).unwrap());
    let ensemble = Mixture::uniform(members.collect()).unwrap();
    let predictor = Predictor::new(nets[0].clone(), ensemble, Noise::new(1)).unwrap();
    let input = batch(5, 2, &device()).0;
    let outputs = predictor
        .map_draws(12, |net: &Net| bits(&net.forward(input.clone())))
        .unwrap();
    let of_members = nets.iter().map(|net| bits(&net.forward(input.clone())));
    let of_members: Vec<_> = of_members.collect();
    assert!(outputs.iter().all(|output| of_members.contains(output)));
    assert!(of_members.iter().all(|member| outputs.contains(member)));
}

#[test]
fn statistics_are_refreshed_for_the_mean() {
    let net = filled(Net::new(&device()), 1, 0.5);
    let posterior = PointPosterior::of(&net, &ParamGroup::all()).unwrap();
    let predictor = Predictor::new(net.clone(), posterior, Noise::new(1)).unwrap();
    let batches = [1, 2].map(|seed| batch(40, seed, &autodiff()).0);
    let forward = |net: &Net, input: &Tensor<2>| net.forward(input.clone());
    let refreshed = predictor
        .with_refreshed_statistics(batches.clone(), forward)
        .unwrap();
    let expected = burn_bayes::predict::refresh_running_statistics(&net, batches, forward).unwrap();
    let model = refreshed.mean_model().unwrap();
    let mean = |net: &Net| bits(&net.norm.running_mean.value_sync());
    assert_eq!(mean(&model), mean(&expected));
    assert_ne!(mean(&model), mean(&net));
}

#[test]
fn statistics_of_an_ensemble_are_refreshed_for_every_member() {
    let nets: Vec<_> = (0..2)
        .map(|seed| filled(Net::new(&device()), seed, 0.5))
        .collect();
    let members = nets
        .iter()
        .map(|net| PointPosterior::of(net, &ParamGroup::all()).unwrap());
    let ensemble = Mixture::uniform(members.collect()).unwrap();
    let batches = [1, 2].map(|seed| batch(40, seed, &autodiff()).0);
    let forward = |net: &Net, input: &Tensor<2>| net.forward(input.clone());
    let predictor = Predictor::new(nets[0].clone(), ensemble, Noise::new(1)).unwrap();
    let predictor = predictor
        .with_refreshed_statistics(batches.clone(), forward)
        .unwrap();
    let input = batch(5, 2, &device());
    let outputs = predictor
        .map_draws(12, |net: &Net| bits(&net.forward(input.0.clone())))
        .unwrap();
    let of_members = nets.iter().map(|net| {
        let batches = batches.clone();
        let net = burn_bayes::predict::refresh_running_statistics(net, batches, forward).unwrap();
        bits(&net.forward(input.0.clone()))
    });
    let of_members: Vec<_> = of_members.collect();
    assert!(outputs.iter().all(|output| of_members.contains(output)));
    assert!(of_members.iter().all(|member| outputs.contains(member)));
    // Draws in one pass would share the statistics of one model.
    let one_by_one = values(
        &predictor
            .predict(input.clone(), 6)
            .unwrap()
            .draw_probabilities,
    );
    let predictor = predictor.with_batched_draws();
    let together = values(&predictor.predict(input, 6).unwrap().draw_probabilities);
    assert_eq!(one_by_one, together);
}

#[test]
fn a_posterior_of_another_model_is_refused() {
    let other = LinearConfig::new(2, 2).init(&device());
    let posterior = PointPosterior::of(&other, &ParamGroup::all()).unwrap();
    let error = Predictor::new(Net::new(&device()), posterior, Noise::new(1)).unwrap_err();
    assert!(error.is_layout(), "{error}");
    // SWAG has no posterior until it has collected iterates.
    let swag =
        BayesianConfig::new(1, SwagConfig::new().with_start(Some(2))).init(Net::new(&autodiff()));
    assert!(swag.predictor().is_err_and(|error| error.is_too_early()));
}
