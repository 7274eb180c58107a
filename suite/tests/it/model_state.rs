//! A posterior restores the whole predictive model, before and after saving, and refuses what it cannot restore.

use std::path::Path;

use burn::module::{Lora, Module, Param, ParamGroup};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Bool, Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_bayes::methods::{Algorithm, IvonConfig, MeanStage};
use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
use burn_bayes::train::Gather;
use burn_bayes::{
    Bayesian, BayesianConfig, Error, FactorPosterior, Noise, Predictor, SwagConfig, VifaConfig,
};
use burn_bayes_contrib::methods::{
    BatchEnsembleConfig, FactorAnalysisConfig, IterateAveragingConfig, SamplingSchedule,
    SghmcConfig,
};

use crate::support::{assert_close, autodiff, bits, device, filled, normals, values, vector};

const ROWS: usize = 12;

/// A convolutional network with batch norm.
#[derive(Module, Debug)]
struct Cnn {
    conv: Conv2d,
    norm: BatchNorm,
    dropout: Dropout,
    head: Linear,
    scale: f64,
}

impl Cnn {
    fn new(device: &Device) -> Self {
        Self::with(device, 0.1, 4)
    }

    fn with(device: &Device, momentum: f64, channels: usize) -> Self {
        let norm = BatchNormConfig::new(channels).with_momentum(momentum);
        Self {
            conv: Conv2dConfig::new([1, channels], [3, 3]).init(device),
            norm: norm.init(device),
            dropout: DropoutConfig::new(0.2).init(),
            head: LinearConfig::new(channels * 4, 3).init(device),
            scale: 1.5,
        }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<2> {
        let hidden = self.norm.forward(self.conv.forward(input)).tanh();
        let hidden = self.dropout.forward(hidden.flatten(1, 3));
        self.head.forward(hidden).mul_scalar(self.scale)
    }
}

type Batch = (Tensor<4>, Tensor<1, Int>);

impl InferenceStep for Cnn {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, (input, classes): Batch) -> ClassificationOutput {
        let output = self.forward(input);
        let loss = CrossEntropyLossConfig::new().init(&output.device());
        let loss = loss.forward(output.clone(), classes.clone());
        ClassificationOutput::new(loss, output, classes)
    }
}

impl TrainStep for Cnn {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

/// Inputs far from mean 0 and variance 1, so that running statistics matter.
fn batch(seed: u64, device: &Device) -> Batch {
    let numbers: Vec<f32> = normals(seed, ROWS * 16)
        .iter()
        .map(|number| 3.0 * number + 4.0)
        .collect();
    let input = Tensor::<1>::from_data(&*numbers, device).reshape([ROWS, 1, 4, 4]);
    let classes: Vec<i32> = (0..ROWS as i32).map(|row| row % 3).collect();
    (input, Tensor::from_data(&*classes, device))
}

/// Steps `from` to `to` of a training.
fn stepped<M>(mut model: M, steps: std::ops::Range<u64>) -> M
where
    M: Module + TrainStep<Input = Batch>,
{
    let mut optimizer = AdamConfig::new().init();
    for step in steps {
        let output = TrainStep::step(&model, batch(step, &autodiff()));
        model = model.optimize(&mut optimizer, 0.02.into(), output.grads);
    }
    model
}

/// A network that was trained without a posterior, and without dropout, whose masks would be others each time.
fn trained(seed: u64) -> Cnn {
    let model = filled(Cnn::new(&autodiff()), seed, 0.5);
    let model = model.freeze_group(ParamGroup::from_path("dropout.training"));
    stepped(model, 100 * seed..100 * seed + 6)
}

fn probabilities<P: Posterior>(predictor: &Predictor<Cnn, P>) -> Vec<f64> {
    let mixture = predictor.predict(batch(7, &device()), 6).unwrap();
    values(&mixture.draw_probabilities)
}

fn running_mean(model: &Cnn) -> Vec<f64> {
    values(&model.valid().norm.running_mean.value())
}

/// What the file of a posterior restores into another model predicts the same.
fn restores<P: Posterior>(predictor: &Predictor<Cnn, P>, fresh: impl Fn() -> Cnn) {
    let expected = probabilities(predictor);
    let restored = |posterior: P| {
        let predictor = Predictor::restore(fresh(), posterior).unwrap();
        let found = probabilities(&predictor);
        assert_close("restored", &found, &expected, &vec![1.0; found.len()], 1e-6);
        let mean = predictor
            .mean_model()
            .unwrap()
            .forward(batch(7, &device()).0);
        values(&mean)
    };
    let mean = restored(predictor.posterior().clone());
    let folder = tempfile::tempdir().unwrap();
    for name in ["q.bpk", "q.safetensors"] {
        let path = folder.path().join(name);
        predictor.posterior().save(&path).unwrap();
        let found = restored(P::load(&path, &device()).unwrap());
        assert_close("mean", &found, &mean, &vec![1.0; mean.len()], 1e-5);
    }
}

fn fresh() -> Cnn {
    filled(Cnn::new(&device()), 99, 0.7)
}

#[test]
fn a_file_restores_gaussians_with_running_statistics() {
    let seeded = BayesianConfig::new(ROWS, VifaConfig::new().with_rank(2)).with_seed(3);
    let vifa = stepped(seeded.init(Cnn::new(&autodiff())), 0..6);
    let predictor = vifa.predictor().unwrap();
    assert_ne!(running_mean(vifa.template()), running_mean(&fresh()));
    restores(&predictor, fresh);
    // The predictor is the training's own, with its noise.
    let own = vifa.predict(batch(7, &device()), 6).unwrap();
    assert_eq!(values(&own.draw_probabilities), probabilities(&predictor));

    let ivon = stepped(
        BayesianConfig::new(ROWS, IvonConfig::new()).init(Cnn::new(&autodiff())),
        0..6,
    );
    restores(&ivon.predictor().unwrap(), fresh);
    let swag = stepped(
        BayesianConfig::new(ROWS, SwagConfig::new().with_start(Some(2)))
            .init(Cnn::new(&autodiff())),
        0..6,
    );
    restores(&swag.predictor().unwrap(), fresh);

    let members = [1, 2].map(|seed| {
        let bayesian =
            BayesianConfig::new(ROWS, VifaConfig::new().with_rank(1)).init(trained(seed));
        stepped(bayesian, 0..3).posterior()
    });
    let mixture = Mixture::new(members.to_vec(), vec![1.0, 3.0]).unwrap();
    restores(&Predictor::restore(fresh(), mixture).unwrap(), fresh);
}

#[test]
fn a_file_restores_points_with_running_statistics() {
    let point = PointPosterior::of(&trained(1), &ParamGroup::all()).unwrap();
    restores(&Predictor::restore(fresh(), point).unwrap(), fresh);
    let points = [1, 2, 3].map(|seed| PointPosterior::of(&trained(seed), &ParamGroup::all()));
    let ensemble = Mixture::uniform(points.into_iter().collect::<Result<_, _>>().unwrap());
    restores(
        &Predictor::restore(fresh(), ensemble.unwrap()).unwrap(),
        fresh,
    );
}

#[test]
fn a_file_restores_point_estimates_outside_the_group() {
    let head = ParamGroup::from_predicate("head");
    let config = BayesianConfig::new(ROWS, VifaConfig::new()).with_group(head.clone());
    let bayesian = stepped(config.init(trained(1)), 0..4);
    restores(&bayesian.predictor().unwrap(), fresh);
    let point = PointPosterior::of(&trained(2), &head).unwrap();
    restores(&Predictor::restore(fresh(), point).unwrap(), fresh);
}

#[test]
fn a_file_restores_the_base_of_adapters_and_refuses_another_alpha() {
    let adapted = |model: Cnn, alpha: f64| model.apply_lora(Lora::new(2, alpha));
    let bayesian = BayesianConfig::new(ROWS, VifaConfig::new()).init(adapted(trained(1), 8.0));
    let predictor = stepped(bayesian, 0..5).predictor().unwrap();
    assert!(
        predictor
            .posterior()
            .layout()
            .entry("head.weight")
            .is_none()
    );
    restores(&predictor, || {
        adapted(filled(Cnn::new(&autodiff()), 99, 0.7), 8.0).valid()
    });

    let other = adapted(Cnn::new(&autodiff()), 2.0).valid();
    let error = Predictor::restore(other, predictor.posterior().clone()).unwrap_err();
    assert!(error.is_layout(), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("head.weight") && message.contains("0.25 times"),
        "{message}"
    );
}

/// The posterior, read from a file.
fn reloaded<P: Posterior>(posterior: &P, folder: &Path) -> P {
    let path = folder.join("again.bpk");
    posterior.save(&path).unwrap();
    P::load(&path, &device()).unwrap()
}

#[test]
fn other_settings_are_refused_by_name_until_the_model_is_said_to_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let point = PointPosterior::of(&trained(1), &ParamGroup::all()).unwrap();
    let loaded = reloaded(&point, folder.path());
    let mut other = fresh();
    other.scale = 0.5;
    let refused = |model: Cnn, expected: &str| {
        let errors = [
            Predictor::restore(model.clone(), loaded.clone()).unwrap_err(),
            loaded.write_mean(model).unwrap_err(),
        ];
        for error in errors {
            assert!(
                error.is_layout() && error.to_string().contains(expected),
                "{error}"
            );
        }
    };
    refused(
        other.clone(),
        "scale is `1.5` in the posterior's file, `0.5` in the model",
    );
    let mut other_rate = fresh();
    other_rate.dropout = DropoutConfig::new(0.5).init();
    refused(other_rate, "dropout.prob");

    let stated = loaded.with_model_state(&other).unwrap();
    let model = stated.write_mean(fresh()).unwrap();
    assert_eq!(running_mean(&model), running_mean(&other));
    let loaded = reloaded(&stated, folder.path());
    assert!(Predictor::restore(other, loaded.clone()).is_ok());
    assert!(Predictor::restore(fresh(), loaded).is_err());
}

#[test]
fn components_of_a_mixture_with_other_settings_are_refused() {
    let of = |scale: f64| {
        let mut model = trained(1);
        model.scale = scale;
        PointPosterior::of(&model, &ParamGroup::all()).unwrap()
    };
    let error = Mixture::uniform(vec![of(1.5), of(0.5)]).unwrap_err();
    let expected = "scale is `1.5` in one component of a mixture, `0.5` in another one";
    assert!(
        error.is_layout() && error.to_string().contains(expected),
        "{error}"
    );
    // On disk they are found when they are read.
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["mixture", "other"].map(|name| folder.path().join(name));
    Mixture::uniform(vec![of(1.5); 2])
        .unwrap()
        .save(&path)
        .unwrap();
    Mixture::uniform(vec![of(0.5); 2])
        .unwrap()
        .save(&other)
        .unwrap();
    let component = "component-1.bpk";
    std::fs::copy(other.join(component), path.join(component)).unwrap();
    let opened = Mixture::<PointPosterior>::open(&path, &device()).unwrap();
    let error = opened.component(1).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_file_of_weights_alone_does_not_make_a_model_with_more() {
    let folder = tempfile::tempdir().unwrap();
    let model = trained(1);
    let by_hand = |group: ParamGroup| {
        let layout = std::sync::Arc::new(burn_bayes::graph::Layout::new(&model, &group).unwrap());
        let mean = layout.flatten(&model).unwrap();
        let variance = mean.ones_like() * 1e-4;
        FactorPosterior::covariance(layout, mean, None, variance).unwrap()
    };
    for (group, path) in [
        (ParamGroup::from_predicate("head"), "`conv.weight`"),
        (ParamGroup::all(), "`norm.running_mean`"),
    ] {
        let posterior = by_hand(group);
        // In the program that has the model, the model keeps its own.
        assert!(posterior.write_mean(model.clone()).is_ok());
        let loaded = reloaded(&posterior, folder.path());
        let noise = Noise::new(0);
        let errors = [
            Predictor::new(fresh(), loaded.clone(), noise).unwrap_err(),
            loaded.write_mean(fresh()).unwrap_err(),
            loaded.write_draw(fresh(), noise).unwrap_err(),
        ];
        for error in errors {
            let message = error.to_string();
            assert!(error.is_layout(), "{error}");
            assert!(
                message.contains(path) && message.contains("with_model_state"),
                "{message}"
            );
        }
        let stated = loaded.with_model_state(&model).unwrap();
        let restored = stated.write_mean(fresh()).unwrap();
        let outputs = |model: &Cnn| bits(&model.valid().forward(batch(7, &device()).0));
        assert_eq!(outputs(&restored), outputs(&model));
    }
}

#[derive(Module, Debug)]
struct Deeper {
    conv: Conv2d,
    norm: BatchNorm,
    dropout: Dropout,
    extra: Linear,
    head: Linear,
    scale: f64,
}

#[test]
fn a_model_with_other_parameters_is_refused_by_the_first_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |result: Result<(), Error>, expected: &str| {
        let error = result.unwrap_err();
        assert!(
            error.is_layout() && error.to_string().contains(expected),
            "{error}"
        );
    };
    let posteriors = [ParamGroup::all(), ParamGroup::from_predicate("conv")].map(|group| {
        let point = PointPosterior::of(&trained(1), &group).unwrap();
        [reloaded(&point, folder.path()), point]
    });
    for posterior in posteriors.into_iter().flatten() {
        let Cnn {
            conv,
            norm,
            dropout,
            head,
            scale,
        } = fresh();
        let deeper = Deeper {
            conv,
            norm,
            dropout,
            extra: LinearConfig::new(16, 16).init(&device()),
            head,
            scale,
        };
        let made = Predictor::new(deeper, posterior.clone(), Noise::new(0)).map(drop);
        refused(made, "extra.weight is in the model");
        let wider = Cnn::with(&device(), 0.1, 5);
        let made = Predictor::new(wider, posterior.clone(), Noise::new(0)).map(drop);
        refused(made, "conv.weight is [5, 1, 3, 3] in the model");
    }
    // Without the head, whose parameters are not random.
    #[derive(Module, Debug)]
    struct Headless {
        conv: Conv2d,
        norm: BatchNorm,
    }
    let group = ParamGroup::from_predicate("conv");
    let point = PointPosterior::of(&trained(1), &group).unwrap();
    let Cnn { conv, norm, .. } = fresh();
    let made = Predictor::new(Headless { conv, norm }, point, Noise::new(0)).map(drop);
    refused(made, "head.weight is missing in the model");
}

#[test]
fn draws_of_an_ensemble_are_its_members_with_their_own_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ensemble");
    let members: Vec<_> = (1..4).map(trained).collect();
    let input = batch(7, &device()).0;
    let outputs = |model: &Cnn| bits(&model.valid().forward(input.clone()));
    let expected: Vec<_> = members.iter().map(outputs).collect();
    let points = members
        .iter()
        .map(|net| PointPosterior::of(net, &ParamGroup::all()));
    let ensemble = Mixture::uniform(points.collect::<Result<_, _>>().unwrap()).unwrap();
    ensemble.save(&path).unwrap();
    let read = [
        ensemble.clone(),
        Mixture::load(&path, &device()).unwrap(),
        Mixture::open(&path, &device()).unwrap(),
    ];
    for (ensemble, model) in read.into_iter().zip([members[0].clone(), fresh(), fresh()]) {
        for (index, expected) in expected.iter().enumerate() {
            let member = ensemble.component(index).unwrap();
            assert_eq!(&outputs(&member.write_mean(fresh()).unwrap()), expected);
        }
        let predictor = Predictor::new(model, ensemble, Noise::new(1)).unwrap();
        let found = predictor.map_draws(12, outputs).unwrap();
        assert!(found.iter().all(|output| expected.contains(output)));
        assert!(expected.iter().all(|member| found.contains(member)));
        // One pass for all draws would give all of them the statistics of one member.
        let probabilities = |predictor: &Predictor<Cnn, _>| {
            let mixture = predictor.predict(batch(7, &device()), 6).unwrap();
            bits(&mixture.draw_probabilities)
        };
        let alone = probabilities(&predictor);
        assert_eq!(probabilities(&predictor.with_batched_draws()), alone);
    }
}

/// The running means of the template after each step, and the trained model.
fn followed<A>(mut bayesian: Bayesian<Cnn, A>, steps: u64) -> (Bayesian<Cnn, A>, Vec<Vec<f64>>)
where
    A: Algorithm,
    A::Signal: Gather<Cnn, A>,
{
    let mut means = Vec::new();
    for step in 0..steps {
        bayesian = stepped(bayesian, step..step + 1);
        means.push(running_mean(bayesian.template()));
    }
    (bayesian, means)
}

fn components(posterior: &Mixture<PointPosterior>) -> Vec<Cnn> {
    let components = 0..posterior.weights().len();
    let model = |index| posterior.component(index)?.write_mean(fresh());
    components.map(model).collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_sample_of_a_chain_keeps_the_statistics_and_point_estimates_of_its_step() {
    let schedule = SamplingSchedule::Constant {
        start: 2,
        interval: 3,
    };
    let config = BayesianConfig::new(ROWS, SghmcConfig::new(schedule))
        .with_mean_stage(MeanStage::None)
        .with_group(ParamGroup::from_predicate("head"));
    let (bayesian, means) = followed(config.init(trained(1)), 8);
    let found = components(&bayesian.posterior());
    let of_samples: Vec<_> = found.iter().map(running_mean).collect();
    assert_eq!(of_samples, [1, 4, 7].map(|step: usize| means[step].clone()));
    let convolutions: Vec<_> = found
        .iter()
        .map(|net| bits(&net.conv.weight.val()))
        .collect();
    assert!(convolutions[0] != convolutions[1] && convolutions[1] != convolutions[2]);
    let last = bits(&bayesian.template().conv.weight.val());
    assert_eq!(convolutions[2], last);

    // Resumed from a record, and from a file.
    let resumed = config.init(Cnn::new(&autodiff()));
    let resumed = resumed.load_record(bayesian.clone().into_record());
    let found = components(&resumed.posterior());
    assert_eq!(
        found.iter().map(running_mean).collect::<Vec<_>>(),
        of_samples
    );
    restores(&bayesian.predictor().unwrap(), fresh);
}

#[test]
fn running_statistics_stay_from_the_first_iterate_on() {
    fn stay<A>(bayesian: Bayesian<Cnn, A>)
    where
        A: Algorithm<Signal: Gather<Cnn, A>>,
    {
        let (_, means) = followed(bayesian, 6);
        assert!(means[0] != means[1], "{means:?}");
        assert!(means[1..].iter().all(|mean| *mean == means[1]), "{means:?}");
    }
    stay(BayesianConfig::new(ROWS, SwagConfig::new().with_start(Some(3))).init(trained(1)));
    stay(
        BayesianConfig::new(ROWS, FactorAnalysisConfig::new().with_start(Some(3))).init(trained(1)),
    );
    stay(BayesianConfig::new(ROWS, IterateAveragingConfig::new(3, 2)).init(trained(1)));
}

#[test]
fn the_state_of_a_window_is_averaged_as_its_weights() {
    let config = BayesianConfig::new(ROWS, IterateAveragingConfig::new(2, 3));
    let (bayesian, means) = followed(config.init(trained(1)), 7);
    let found = components(&bayesian.posterior());
    for (first, net) in [1, 4].into_iter().zip(&found) {
        let average = |index: usize| {
            let window = means[first..first + 3].iter();
            window.map(|mean| mean[index]).sum::<f64>() / 3.0
        };
        let expected: Vec<_> = (0..4).map(average).collect();
        assert_close("mean", &running_mean(net), &expected, &[10.0; 4], 1e-6);
    }
    restores(&bayesian.predictor().unwrap(), fresh);
}

#[test]
fn a_member_of_a_batch_ensemble_has_the_statistics_of_its_own_passes() {
    let ensemble = BayesianConfig::new(ROWS, BatchEnsembleConfig::new(3));
    // With a momentum of 1, running statistics are those of the last mini-batch.
    let model = || filled(Cnn::with(&autodiff(), 1.0, 4), 1, 0.5);
    let bayesian = stepped(ensemble.init(model()), 0..3);
    let (input, _) = batch(11, &device());
    let expected: Vec<Vec<f64>> = (0..3)
        .map(|index| {
            let member = bayesian.posterior().component(index).unwrap();
            let member = member.write_mean(model().valid()).unwrap();
            let hidden = member.conv.forward(input.clone()).swap_dims(0, 1);
            values(&hidden.flatten::<2>(1, 3).mean_dim(1).reshape([4]))
        })
        .collect();
    let _ = TrainStep::step(&bayesian, batch(11, &autodiff()));
    let posterior = bayesian.algorithm().posterior(3).unwrap();
    let members = components(&posterior);
    let found: Vec<_> = members.iter().map(running_mean).collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_close("mean", found, expected, &[10.0; 4], 1e-6);
    }
    assert!(expected[0] != expected[1] && expected[1] != expected[2]);
    let fresh = || Cnn::with(&device(), 1.0, 4);
    restores(&bayesian.predictor().unwrap(), fresh);
    let resumed = ensemble.init(Cnn::with(&autodiff(), 1.0, 4));
    let resumed = resumed.load_record(bayesian.into_record());
    let of_resumed = components(&resumed.posterior());
    assert_eq!(
        of_resumed.iter().map(running_mean).collect::<Vec<_>>(),
        found
    );
}

#[test]
fn refreshed_statistics_win_over_those_of_the_training_and_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let forward = |net: &Cnn, (input, _): &Batch| net.forward(input.clone());
    let batches = [21, 22].map(|seed| batch(seed, &autodiff()));
    let bayesian = stepped(
        BayesianConfig::new(ROWS, VifaConfig::new()).init(trained(1)),
        0..3,
    );
    let before = running_mean(&bayesian.mean_model().unwrap());
    let predictor = bayesian.predictor().unwrap();
    let predictor = predictor
        .with_refreshed_statistics(batches.clone(), forward)
        .unwrap();
    let expected = running_mean(&predictor.mean_model().unwrap());
    assert_ne!(expected, before);
    let loaded = reloaded(predictor.posterior(), folder.path());
    assert_eq!(running_mean(&loaded.write_mean(fresh()).unwrap()), expected);
    restores(&predictor, fresh);
    // The training is left alone.
    assert_eq!(running_mean(&bayesian.mean_model().unwrap()), before);

    // Every member of a mixture, in memory and on disk, for itself.
    let points = [1, 2].map(|seed| PointPosterior::of(&trained(seed), &ParamGroup::all()).unwrap());
    let ensemble = Mixture::uniform(points.to_vec()).unwrap();
    let path = folder.path().join("ensemble");
    ensemble.save(&path).unwrap();
    for ensemble in [ensemble, Mixture::open(&path, &device()).unwrap()] {
        let predictor = Predictor::restore(fresh(), ensemble).unwrap();
        let predictor = predictor
            .with_refreshed_statistics(batches.clone(), forward)
            .unwrap();
        for (index, seed) in [1, 2].into_iter().enumerate() {
            let model = trained(seed);
            let refreshed =
                burn_bayes::predict::refresh_running_statistics(&model, batches.clone(), forward);
            let member = predictor.posterior().component(index).unwrap();
            let found = running_mean(&member.write_mean(fresh()).unwrap());
            assert_eq!(found, running_mean(&refreshed.unwrap()));
        }
    }
}

#[test]
fn a_changed_template_changes_the_state_of_the_posterior() {
    let config =
        BayesianConfig::new(ROWS, VifaConfig::new()).with_group(ParamGroup::from_predicate("head"));
    let bayesian = stepped(config.init(trained(1)), 0..2);
    let before = bayesian.posterior();
    let other = filled(Cnn::new(&autodiff()), 5, 0.5).conv;
    let expected = bits(&other.weight.val());
    let bayesian = bayesian.map_template(|net| Cnn { conv: other, ..net });
    let written = |posterior: &FactorPosterior| {
        bits(&posterior.write_mean(fresh()).unwrap().conv.weight.val())
    };
    assert_eq!(written(&bayesian.posterior()), expected);
    assert_ne!(written(&before), expected);
}

#[test]
fn writing_a_state_leaves_the_clones_of_a_model_alone() {
    let point = PointPosterior::of(&trained(1), &ParamGroup::all()).unwrap();
    for model in [Cnn::new(&device()), Cnn::new(&autodiff())] {
        let clone = model.clone();
        let is_training = model.conv.weight.is_require_grad();
        let written = point.write_mean(model).unwrap();
        assert_eq!(running_mean(&clone), [0.0; 4]);
        assert_ne!(running_mean(&written), [0.0; 4]);
        assert_eq!(written.conv.weight.is_require_grad(), is_training);
        let is_autodiff = clone.conv.weight.is_autodiff();
        assert_eq!(written.conv.weight.is_autodiff(), is_autodiff);
    }
}

#[test]
fn eight_flipped_bytes_anywhere_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let posterior = stepped(
        BayesianConfig::new(ROWS, VifaConfig::new()).init(Cnn::new(&autodiff())),
        0..2,
    )
    .posterior();
    for name in ["q.bpk", "q.safetensors"] {
        let path = folder.path().join(name);
        posterior.save(&path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let refused = |bytes: &[u8], what: String| {
            std::fs::write(&path, bytes).unwrap();
            let error = FactorPosterior::load(&path, &device()).map(drop);
            let error = error.expect_err(&what);
            assert!(
                error.is_storage() && error.to_string().contains(name),
                "{error}"
            );
        };
        for start in (0..whole.len() - 8).step_by(41) {
            let mut bytes = whole.clone();
            bytes[start..start + 8]
                .iter_mut()
                .for_each(|byte| *byte ^= 0x10);
            refused(&bytes, format!("{name} at {start}"));
        }
        refused(&whole[..whole.len() / 2], format!("half of {name}"));
        // A number that stays plausible.
        let mut bytes = whole.clone();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = FactorPosterior::load(&path, &device()).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }

    let path = folder.path().join("mixture");
    let mixture = Mixture::new(vec![posterior.clone(), posterior], vec![1.0, 3.0]).unwrap();
    mixture.save(&path).unwrap();
    let index = path.join("mixture.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("0.75", "0.85")).unwrap();
    let error = Mixture::<FactorPosterior>::load(&path, &device()).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn a_component_that_does_not_exist_is_an_error() {
    let point = PointPosterior::new(crate::support::flat_layout(2), vector(&[1.0, 2.0])).unwrap();
    let mixture = Mixture::uniform(vec![point.clone(), point]).unwrap();
    let error = mixture.component(5).unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("2 components"),
        "{error}"
    );
}

/// Parameters that are no floats.
#[derive(Module, Debug)]
struct Counting {
    layer: Linear,
    counts: Param<Tensor<2, Int>>,
    mask: Param<Tensor<1, Bool>>,
}

#[test]
fn integers_and_booleans_are_restored() {
    let model = |counts: [[i32; 2]; 2], mask: [bool; 3]| Counting {
        layer: LinearConfig::new(2, 1).init(&device()),
        counts: Param::initialized(
            burn::module::ParamId::new(),
            Tensor::from_data(counts, &device()),
        ),
        mask: Param::initialized(
            burn::module::ParamId::new(),
            Tensor::from_data(mask, &device()),
        ),
    };
    let trained = model([[1, -2], [3, 40_000]], [true, false, true]);
    let point = PointPosterior::of(&trained, &ParamGroup::all()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["q.bpk", "q.safetensors"] {
        let path = folder.path().join(name);
        point.save(&path).unwrap();
        let loaded = PointPosterior::load(&path, &device()).unwrap();
        let found = loaded.write_mean(model([[0; 2]; 2], [false; 3])).unwrap();
        let counts: Vec<i64> = found.counts.val().into_data().iter().collect();
        assert_eq!(counts, [1, -2, 3, 40_000]);
        let mask: Vec<bool> = found.mask.val().into_data().iter().collect();
        assert_eq!(mask, [true, false, true]);
    }
}
