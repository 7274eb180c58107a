//! A model by its parts beside the one written by hand; fits, files and their refusals.

use std::fs;
use std::path::PathBuf;

use burn::module::{Initializer, Module, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::metric::{AccuracyMetric, Adaptor, LossInput, Metric, Numeric};
use burn::train::{RegressionOutput, TrainStep};

use super::fit::constant_nll;
use super::rows::Rows;
use super::*;
use crate::likelihood::MixDraws;
use crate::methods::{SlangConfig, SwagConfig, VifaConfig};
use crate::metric::testing::metadata;
use crate::metric::{AverageNllMetric, CrpsMetric, MixtureNllMetric};
use crate::noise::Noise;
use crate::posterior::{AnyPosterior, PointPosterior, Posterior};
use crate::predict::Predictor;
use crate::train::{Batches, Trainer};
use crate::verdict::Verdict;
use crate::{BayesianConfig, GaussianNll, Prior};

/// The folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("burn-bayes-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: Option<BatchNorm>,
    last: Linear,
}

impl Net {
    fn new(width: usize, outputs: usize, has_norm: bool, seed: u64) -> Self {
        let device = Device::default();
        Noise::new(seed).seed_generator(&device, || Self {
            first: LinearConfig::new(1, width).init(&device),
            norm: has_norm.then(|| BatchNormConfig::new(width).init(&device)),
            last: LinearConfig::new(width, outputs).init(&device),
        })
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let hidden = self.first.forward(x);
        let hidden = match &self.norm {
            Some(norm) => norm.forward(hidden),
            None => hidden,
        };
        self.last.forward(tanh(hidden))
    }
}

/// The network with the loss written by hand.
#[derive(Module, Debug)]
struct ByHand {
    net: Net,
}

impl TrainStep for ByHand {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, (x, y): Self::Input) -> TrainOutput<RegressionOutput> {
        let output = self.net.forward(x);
        let loss = GaussianNll::new(25.0).forward(output.clone(), y.clone());
        TrainOutput::new(
            self,
            loss.backward(),
            RegressionOutput::new(loss, output, y),
        )
    }
}

const ROWS: usize = 60;

/// sin 3x with noise of deviation .2, at 60 points between −1 and 1.
fn curve() -> (Tensor<2>, Tensor<2>) {
    let device = Device::default();
    let x = Tensor::<1, Int>::arange(0..ROWS as i64, &device).float();
    let x = (x / (ROWS as f64 / 2.0) - 1.0).reshape([ROWS, 1]);
    let noise = Noise::new(5).normal(ROWS, &device).reshape([ROWS, 1]);
    let y = (x.clone() * 3.0).sin() + noise * 0.2;
    (x, y)
}

/// The sign of x, wrong where x is a multiple of 1/3.
fn classes() -> (Tensor<2>, Tensor<1, Int>) {
    let (x, _) = curve();
    let labels: Vec<i64> = x
        .to_data()
        .iter::<f64>()
        .map(|x| i64::from(x > 0.0))
        .collect();
    (x, Tensor::from_data(&*labels, &Device::default()))
}

const fn gaussian(noise_precision: f64) -> Likelihood {
    Likelihood::Gaussian { noise_precision }
}

fn values<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
    tensor.into_data().iter().collect()
}

#[test]
fn a_network_and_a_likelihood_are_the_model_written_by_hand() {
    let (x, y) = curve();
    let [x, y] = [x, y].map(Tensor::from_inner);
    let net = Net::new(5, 1, false, 1);
    let mut by_hand =
        BayesianConfig::new(ROWS, VifaConfig::new()).init(ByHand { net: net.clone() });
    let model: Supervised<_> = Supervised::new(net, Net::forward, gaussian(25.0));
    let mut supervised = BayesianConfig::new(ROWS, VifaConfig::new()).init(model);
    let mut adams = [(); 2].map(|()| AdamConfig::new().init());
    for _ in 0..5 {
        let step = by_hand.step((x.clone(), y.clone()));
        by_hand = by_hand.optimize(&mut adams[0], 0.01.into(), step.grads);
        let step = TrainStep::step(&supervised, (x.clone(), y.clone()));
        supervised = supervised.optimize(&mut adams[1], 0.01.into(), step.grads);
    }
    let by_hand = values(by_hand.try_posterior().unwrap().mean());
    let supervised = values(supervised.try_posterior().unwrap().mean());
    for (by_hand, supervised) in by_hand.iter().zip(&supervised) {
        // The terms of the loss are added in another order.
        assert!(
            (by_hand - supervised).abs() < 1e-6,
            "{by_hand} {supervised}"
        );
    }
}

#[test]
fn a_fit_learns_the_noise_and_its_file_is_the_whole_model() {
    let folder = Folder::new("supervised");
    let model = Supervised::new(Net::new(8, 1, true, 1), Net::forward, gaussian(1.0));
    let fit = Fit::new(VifaConfig::new().with_rank(2)).with_learned_noise();
    let (fitted, verdict) = fit.with_progress(false).run(model, curve()).unwrap();
    let &Likelihood::Gaussian { noise_precision } = fitted.likelihood() else {
        panic!("the likelihood is {:?}", fitted.likelihood());
    };
    assert!((8.0..80.0).contains(&noise_precision), "{noise_precision}");
    let validation = verdict.validation.as_ref().unwrap();
    assert_eq!(validation.difference.rows(), 12);
    assert!(verdict.convergence().is_some());

    let (x, y) = curve();
    let prediction = fitted.predict(x.clone()).unwrap();
    let error = (prediction.mean() - y)
        .square()
        .mean()
        .sqrt()
        .into_scalar::<f64>();
    assert!(error < 0.3, "{error}");
    for name in ["posterior.bpk", "posterior.safetensors"] {
        let file = folder.file(name);
        fitted.save(&file).unwrap();
        let loaded: Fitted<Net> =
            Fitted::load(&file, Net::new(8, 1, true, 2), Net::forward).unwrap();
        assert_eq!(loaded.likelihood(), fitted.likelihood());
        let found = loaded.predict(x.clone()).unwrap();
        assert_eq!(values(found.mean()), values(prediction.mean()));
        assert_eq!(values(found.deviation()), values(prediction.deviation()));

        let refused = |network: Net| {
            let loaded: Result<Fitted<Net>> = Fitted::load(&file, network, Net::forward);
            loaded.unwrap_err().to_string()
        };
        let message = refused(Net::new(7, 1, true, 1));
        assert!(message.contains("first.weight is [1, 7]"), "{message}");
        let message = refused(Net::new(8, 1, false, 1));
        assert!(message.contains("norm"), "{message}");
    }
}

#[test]
fn the_networks_of_earlier_epochs_have_learned() {
    let fit = Fit::new(VifaConfig::new()).with_epochs(40);
    let model = Supervised::new(Net::new(8, 1, false, 1), Net::forward, gaussian(25.0));
    let (_, verdict) = fit.with_progress(false).run(model, curve()).unwrap();
    // That of the first epoch is the best one if all are the same.
    let earlier = verdict.earlier.unwrap().to_string();
    assert!(!earlier.contains("of epoch 1,"), "{earlier}");
}

#[test]
fn a_model_is_not_changed_by_the_training_of_its_clone() {
    let net = Net::new(8, 1, true, 1).train();
    let of =
        |net: &Net| -> Supervised<_> { Supervised::new(net.clone(), Net::forward, gaussian(25.0)) };
    let model = of(&net);
    let without = Net {
        norm: net.norm.clone().map(BatchNorm::freeze),
        ..net
    };
    let (x, y) = curve();
    let outputs = || values(Net::forward(&model.network.valid(), x.clone()));
    let before = outputs();
    let wrapped = BayesianConfig::new(ROWS, VifaConfig::new()).init(model.clone());
    let frozen = BayesianConfig::new(ROWS, VifaConfig::new()).init(of(&without));
    assert!(wrapped.moves_statistics() && !frozen.moves_statistics());
    let trainer = Trainer::new(wrapped, AdamConfig::new().init(), 0.1).with_epochs(3);
    let device = x.device().autodiff();
    let batch = [x.clone(), y].map(|part| Tensor::from_inner(part).to_device(&device));
    trainer.run(&OneBatch(batch.into()), &mut ()).unwrap();
    assert_eq!(outputs(), before);
}

/// One layer at two places, and a layer that is used twice.
#[derive(Module, Debug)]
struct Twice {
    first: Linear,
    second: Option<Linear>,
}

#[test]
fn tied_parameters_stay_tied() {
    let device = Device::default();
    let line = Noise::new(1).seed_generator(&device, || LinearConfig::new(2, 2).init(&device));
    let (x, y) = curve();
    let x = Tensor::cat(vec![x.clone(), x.square()], 1);
    let y = y.repeat_dim(1, 2);
    let forward = |net: &Twice, x: Tensor<2>| {
        let second = net.second.as_ref().unwrap_or(&net.first);
        second.forward(tanh(net.first.forward(x)))
    };
    let means = |group: ParamGroup, is_tied: bool| {
        let net = Twice {
            first: line.clone(),
            second: is_tied.then(|| line.clone()),
        };
        let model = Supervised::new(net, forward, gaussian(25.0));
        let fit = Fit::new(SwagConfig::new()).with_epochs(30);
        let fit = fit.with_settings(|config| config.with_group(group));
        let (fitted, _) = fit
            .with_progress(false)
            .run(model, (x.clone(), y.clone()))
            .unwrap();
        values(fitted.predict(x.clone()).unwrap().mean())
    };
    // In the posterior, and outside of it.
    for group in [ParamGroup::all(), ParamGroup::from_predicate("bias")] {
        let (one, tied) = (means(group.clone(), false), means(group, true));
        for (one, tied) in one.iter().zip(&tied) {
            assert!((one - tied).abs() < 1e-4, "{one} {tied}");
        }
    }
}

#[test]
fn held_out_targets_that_are_equal_have_no_noise() {
    let (x, y) = curve();
    let fit = Fit::new(VifaConfig::new())
        .with_epochs(2)
        .with_learned_noise();
    let device = Device::default();
    let rows = Rows::new((x.clone(), y.clone()), &device).unwrap();
    let (held_out, _) = fit.split(&rows).unwrap();
    let mut targets = values(y);
    for row in held_out {
        targets[row] = 0.5;
    }
    let y = Tensor::<1>::from_data(&*targets, &device).reshape([ROWS, 1]);
    let model = Supervised::new(Net::new(4, 1, false, 1), Net::forward, gaussian(1.0));
    let error = fit
        .with_progress(false)
        .run(model, (x, y))
        .unwrap_err()
        .to_string();
    assert!(error.contains("hold out more rows"), "{error}");
}

fn auto(seed: u64) -> Fit<Auto> {
    let settings = |config: BayesianConfig<Auto>| config.with_seed(seed);
    Fit::new(Auto::new())
        .with_settings(settings)
        .with_progress(false)
}

#[test]
fn a_small_model_is_sampled_with_its_noise_and_its_file_is_the_whole_model() {
    let folder = Folder::new("sampled");
    let model = || Supervised::new(Net::new(8, 1, false, 1), Net::forward, gaussian(1.0));
    let fit = auto(1).with_learned_noise();
    let (fitted, verdict) = fit.run(model(), curve()).unwrap();
    let AnyPosterior::Samples(samples) = fitted.posterior() else {
        panic!("a small model is sampled");
    };
    assert_eq!(samples.layout().len(), 25 + 1);
    let agreement = verdict.agreement.unwrap();
    assert!(
        agreement.is_approximate() && verdict.problems().is_empty(),
        "{verdict}"
    );
    assert!(
        verdict.to_string().ends_with("no problem was found"),
        "{verdict}"
    );
    assert_eq!(verdict.validation.unwrap().difference.rows(), 12);

    let device = Device::default();
    let inputs = || Tensor::<2>::from_data([[0.1], [3.0]], &device);
    let prediction = fitted.predict(inputs()).unwrap();
    let mean = values(prediction.mean());
    assert!((mean[0] - 0.3_f64.sin()).abs() < 0.15, "{mean:?}");
    let noise = values(prediction.aleatoric_variance().sqrt());
    assert!(
        (0.15..0.3).contains(&noise[0]) && (noise[0] - noise[1]).abs() < 1e-6,
        "{noise:?}"
    );
    // What the data do not determine is uncertain.
    let deviation = values(prediction.deviation());
    assert!(deviation[1] > 2.0 * deviation[0], "{deviation:?}");

    let file = folder.file("sampled.safetensors");
    fitted.save(&file).unwrap();
    let loaded: Fitted<Net> = Fitted::load(&file, Net::new(8, 1, false, 9), Net::forward).unwrap();
    let found = loaded.predict(inputs()).unwrap();
    assert_eq!(values(found.mean()), values(prediction.mean()));
    assert_eq!(values(found.deviation()), values(prediction.deviation()));

    let (again, _) = auto(1).with_learned_noise().run(model(), curve()).unwrap();
    assert_eq!(values(again.predict(inputs()).unwrap().mean()), mean);
    let (other, _) = auto(2).with_learned_noise().run(model(), curve()).unwrap();
    assert_ne!(values(other.predict(inputs()).unwrap().mean()), mean);
}

#[test]
fn a_model_that_cannot_be_sampled_is_trained() {
    let model = |has_norm| -> Supervised<Net> {
        Supervised::new(Net::new(5, 1, has_norm, 1), Net::forward, gaussian(25.0))
    };
    let form = |fit: Fit<Auto>, has_norm| {
        let (fitted, verdict) = fit.run(model(has_norm), curve()).unwrap();
        assert_eq!(
            verdict.agreement.is_some(),
            fitted.posterior().as_gaussian().is_none()
        );
        fitted.posterior().as_gaussian().is_some()
    };
    // A budget of nothing, a setting of trainings, and running statistics.
    let quick = || Fit::new(Auto::new().with_budget(Some(1e-9))).with_progress(false);
    assert!(form(quick(), false));
    assert!(form(auto(0).with_epochs(3), false));
    assert!(form(auto(0).with_batch_size(20).with_epochs(3), true));
    assert!(!form(auto(0), false));
}

#[test]
fn a_group_is_sampled_if_the_rest_is_frozen_and_otherwise_both_are_trained() {
    let (x, labels) = classes();
    let mut net = Net::new(6, 2, false, 3);
    let first = values(net.first.weight.val());
    let trained = net.clone();
    net.first = net.first.no_grad();
    let model: Supervised<_, _, Tensor<1, Int>> =
        Supervised::new(net, Net::forward, Likelihood::Categorical);
    let settings =
        |config: BayesianConfig<Auto>| config.with_group(ParamGroup::from_predicate("last"));
    let fit = auto(0).with_settings(settings);
    let (fitted, verdict) = fit.run(model, (x.clone(), labels)).unwrap();
    assert!(verdict.agreement.unwrap().is_converged(), "{verdict}");
    assert_eq!(fitted.posterior().layout().len(), 14);
    assert_eq!(
        values(fitted.mean_network().unwrap().first.weight.val()),
        first
    );
    let probabilities = values(fitted.predict(x).unwrap().probabilities().unwrap());
    assert!(probabilities[0] > 0.8 && probabilities[2 * ROWS - 1] > 0.8);

    let model = Supervised::new(trained, Net::forward, Likelihood::Categorical);
    let fit = auto(0).with_settings(settings);
    let (fitted, _) = fit.run(model, classes()).unwrap();
    assert!(fitted.posterior().as_gaussian().is_some());
    assert_ne!(
        values(fitted.mean_network().unwrap().first.weight.val()),
        first
    );
}

/// One chain cannot be compared with another.
#[test]
fn a_single_chain_does_not_pass_for_converged() {
    let model = Supervised::new(Net::new(4, 1, false, 1), Net::forward, gaussian(25.0));
    let one = Fit::new(Auto::new().with_chains(1)).with_progress(false);
    let (_, verdict) = one.run(model, curve()).unwrap();
    assert!(verdict.agreement.is_none());
    let problem = verdict.to_string();
    assert!(problem.contains("convergence unknown"), "{problem}");
}

/// Of 41 rows in batches of at most 32, none is alone.
#[test]
fn mini_batches_are_of_nearly_equal_sizes() {
    let (x, y) = curve();
    let rows = super::rows::Rows::new((x.clone(), y), &x.device()).unwrap();
    let sizes = |count: usize, batch_size| {
        let training: Vec<usize> = (0..count).collect();
        let batches = super::rows::Shuffled {
            rows: &rows,
            training: &training,
            batch_size,
            noise: Noise::new(0),
        };
        let sizes = batches.epoch(0, 0).map(|(x, _)| x.dims()[0]);
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(sizes(41, 32), [20, 21]);
    assert_eq!(sizes(60, 20), [20, 20, 20]);
    assert_eq!(sizes(5, 32), [5]);
}

/// The losses of counts are hundreds of nats apart, without their constant, and draws are compared with the mean on the same
/// rows.
#[test]
fn draws_that_fit_large_counts_are_not_said_to_destroy_the_fit() {
    let (x, _) = curve();
    let rates = ((x.clone() * 2.0).sin() * 0.5 + 400.0_f64.ln()).exp();
    let noise = Noise::new(6).normal(ROWS, &x.device()).reshape([ROWS, 1]);
    let counts = (rates.clone() + noise * rates.sqrt()).round();
    let model = Supervised::new(Net::new(6, 1, false, 2), Net::forward, Likelihood::Poisson);
    let fit = Fit::new(VifaConfig::new()).with_progress(false);
    let (_, verdict) = fit.run(model, (x, counts)).unwrap();
    let problem = verdict.to_string();
    assert!(!problem.contains("destroy"), "{problem}");
}

/// Of labels, and of counts whose variance is that of a Poisson distribution and larger; the losses of counts have no log y!.
#[test]
fn a_constant_has_the_mean_and_the_variance_of_the_targets() {
    let column = |values: &[f32]| {
        let data = TensorData::new(values.to_vec(), [values.len(), 1]);
        Tensor::<2>::from_data(data, &Device::default())
    };
    let of = |likelihood: Likelihood, values: &[f32]| {
        constant_nll(&likelihood, column(values), column(values)).unwrap()
    };
    let labels = of(Likelihood::Bernoulli, &[0.0, 1.0, 0.0, 0.0]);
    assert!((labels - 0.562_335).abs() < 1e-5, "{labels}");
    // Of mean 2 and a smaller variance.
    let even = of(Likelihood::Poisson, &[1.0, 1.0, 2.0, 4.0, 2.0]);
    assert!((even - (2.0 - 2.0 * 2.0_f64.ln())).abs() < 1e-4, "{even}");
    // Of mean 2 and variance 4, as that of p(y) = (y + 1) 2^−(y + 2).
    let counts = [0.0, 0.0, 2.0, 4.0, 4.0];
    let wide = of(Likelihood::NegativeBinomial, &counts);
    let expected = counts.map(|y| {
        let factorial: f64 = (1..=y as u32).map(|k| f64::from(k).ln()).sum();
        (f64::from(y) + 2.0) * 2.0_f64.ln() - (f64::from(y) + 1.0).ln() - factorial
    });
    let expected = expected.iter().sum::<f64>() / 5.0;
    assert!((wide - expected).abs() < 1e-4, "{wide} {expected}");
    assert!(constant_nll(&Likelihood::Bernoulli, column(&[1.0; 4]), column(&[1.0; 4])).is_none());
}

#[test]
fn targets_that_a_likelihood_does_not_have_are_refused() {
    let (x, y) = curve();
    let rows = || x.clone();
    let fit = || Fit::new(VifaConfig::new()).with_progress(false);
    fn refused<Y: Targets>(
        fit: Fit<VifaConfig>,
        outputs: usize,
        likelihood: Likelihood,
        data: (Tensor<2>, Y),
    ) -> String {
        let net = Net::new(3, outputs, false, 1);
        let model = Supervised::new(net, Net::forward, likelihood);
        fit.run(model, data).unwrap_err().to_string()
    }
    let labels = |first: i64| {
        let labels: Vec<i64> = (0..ROWS as i64).map(|row| row % 3 + first).collect();
        Tensor::<1, Int>::from_data(&*labels, &x.device())
    };
    use Likelihood::{Bernoulli, Categorical, HeteroscedasticGaussian, Ordinal, Poisson};
    for (likelihood, outputs) in [(Categorical, 3), (Ordinal, 2)] {
        let from_one = refused(fit(), outputs, likelihood.clone(), (rows(), labels(1)));
        let said = "row 2 (from 0) is none of the classes 0 to 2";
        assert!(from_one.contains(said), "{from_one}");
        let below = refused(fit(), outputs, likelihood, (rows(), labels(-1)));
        assert!(below.contains("row 0 (from 0) is none"), "{below}");
    }
    let zeros = Tensor::<2>::zeros([ROWS, 3], &x.device());
    let empty = refused(fit(), 3, Categorical, (rows(), zeros));
    assert!(empty.contains("none of the classes"), "{empty}");
    let floats = refused(fit(), 3, Categorical, (rows(), y.clone()));
    assert!(floats.contains("`Tensor<1, Int>`"), "{floats}");
    let three = refused(fit(), 1, Bernoulli, (rows(), y.clone() * 0.0 + 3.0));
    assert!(three.contains("has the label 3"), "{three}");
    for counts in [y.clone() * 0.0 - 1.0, y.clone() * 0.0 + 0.5] {
        let problem = refused(fit(), 1, Poisson, (rows(), counts));
        assert!(problem.contains("is no count"), "{problem}");
    }
    let one = refused(fit(), 1, HeteroscedasticGaussian, (rows(), y.clone()));
    assert!(
        one.contains("has 1 outputs") && one.contains("needs 2"),
        "{one}"
    );
    let zero = refused(fit(), 1, gaussian(0.0), (rows(), y.clone()));
    assert!(zero.contains("noise_precision"), "{zero}");
    let noise = refused(
        fit().with_learned_noise(),
        3,
        Categorical,
        (rows(), labels(0)),
    );
    assert!(noise.contains("no noise precision to learn"), "{noise}");
}

#[test]
fn a_prediction_that_is_not_finite_is_an_error_that_names_the_row() {
    let model = Supervised::new(Net::new(3, 1, false, 1), Net::forward, gaussian(25.0));
    let fit = Fit::new(VifaConfig::new())
        .with_epochs(3)
        .with_progress(false);
    let (fitted, _) = fit.run(model, curve()).unwrap();
    let device = Device::default();
    let inputs = Tensor::from_floats([[0.1], [f32::NAN]], &device);
    let problem = fitted.predict(inputs).unwrap_err().to_string();
    assert!(problem.contains("row 1 (from 0)"), "{problem}");
}

#[test]
fn a_rate_beyond_single_precision_is_an_error_that_names_the_row() {
    let net = Net::new(3, 1, false, 1);
    let rates = |_: &Net, x: Tensor<2>| x;
    let model: Supervised<Net> = Supervised::new(net, rates, Likelihood::Poisson);
    let posterior = PointPosterior::of(&model, &ParamGroup::all()).unwrap();
    let fitted = Fitted::new(Predictor::restore(model, posterior).unwrap()).with_draws(2);
    let inputs = |last: f32| Tensor::from_floats([[1.0], [3.0], [last]], &Device::default());
    // Draws of equal rates have no variance of their means, which would overflow earlier.
    assert!(fitted.predict(inputs(20.0)).is_ok());
    for last in [89.0, 200.0] {
        let problem = fitted.predict(inputs(last)).unwrap_err().to_string();
        assert!(
            problem.contains("mean and deviation") && problem.contains("row 2 (from 0)"),
            "{problem}"
        );
    }
}

#[test]
fn a_label_that_no_class_has_is_no_loss() {
    let (x, _) = classes();
    let x = x.narrow(0, 0, 4);
    let labels = Tensor::<1, Int>::from_ints([0, 2, -1, 1], &Device::default());
    for (likelihood, outputs) in [(Likelihood::Categorical, 2), (Likelihood::Ordinal, 1)] {
        let net = Net::new(3, outputs, false, 1);
        let model: Supervised<_, _, Tensor<1, Int>> =
            Supervised::new(net, Net::forward, likelihood);
        let losses = values(model.example_losses((x.clone(), labels.clone())));
        let is_loss: Vec<bool> = losses.iter().map(|loss| loss.is_finite()).collect();
        assert_eq!(is_loss, [true, false, false, true]);
        let output = InferenceStep::step(&model, (x.clone(), labels.clone()));
        let mixture = MixDraws::mix(vec![output.clone(), output]);
        let mut metric = AverageNllMetric::new();
        let refused = metric.update(&mixture.adapt(), &metadata());
        assert!(refused.is_err(), "{refused:?}");

        let config = BayesianConfig::new(4, VifaConfig::new());
        let trainer = Trainer::new(config.init(model), AdamConfig::new().init(), 1e-3);
        let batch = (x.clone(), labels.clone());
        let error = trainer.run(&OneBatch(batch), &mut ()).unwrap_err();
        assert!(
            error.to_string().contains("a label that no class has"),
            "{error}"
        );
    }
}

#[test]
fn a_logistic_regression_may_begin_at_zero() {
    let device = Device::default().autodiff();
    let zeros = LinearConfig::new(1, 1).with_initializer(Initializer::Zeros);
    let model: Supervised<Linear> = Supervised::new(
        zeros.init(&device),
        |line: &Linear, x| line.forward(x),
        Likelihood::Bernoulli,
    );
    let (x, labels) = classes();
    let batch = OneBatch((x, labels.float().unsqueeze_dim(1)));
    let trainer = Trainer::new(model, AdamConfig::new().init(), 0.1).with_epochs(3);
    // The gradient is compared with that of the model's own step.
    let model = trainer.run(&batch, &mut ()).unwrap().trainer.into_model();
    assert!(values(model.network.weight.val())[0] > 0.1);
}

struct OneBatch<B>(B);

impl<B: Clone> Batches for OneBatch<B> {
    type Batch = B;

    fn per_epoch(&self) -> usize {
        1
    }

    fn epoch(&self, _epoch: usize, first: usize) -> impl Iterator<Item = B> {
        std::iter::once(self.0.clone()).skip(first)
    }
}

/// The only validation comes after the last epoch, and is no sign of a wrong N.
/// Classes that have nothing to do with the inputs are learned by heart by a wide network.
#[test]
fn a_fit_of_few_rows_gets_the_precision_of_the_prior_that_predicts_others_best() {
    let device = Device::default();
    let rows = 150;
    let x = Noise::new(1).normal(rows, &device).reshape([rows, 1]);
    let noise = Noise::new(2).latent(rows);
    let labels: Vec<i64> = noise.iter().map(|noise| i64::from(*noise > 0.0)).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [rows]), &device);
    let fitted = |fit: Fit<VifaConfig>| {
        let model = Supervised::new(
            Net::new(100, 2, false, 3),
            |net: &Net, x: Tensor<2>| net.forward(x * 4.0),
            Likelihood::Categorical,
        );
        let fit = fit.with_progress(false);
        fit.run(model, (x.clone(), labels.clone())).unwrap().1
    };
    let fit = Fit::new(VifaConfig::new());
    let given = fit
        .clone()
        .with_settings(|config| config.with_prior(Prior::isotropic(1.0)));
    let (chosen, given) = (fitted(fit), fitted(given));
    let text = chosen.to_string();
    assert!(
        chosen.prior_precision >= Some(4.0) && text.contains("the precision of the prior is"),
        "{text}"
    );
    assert_eq!(given.prior_precision, None);
    let loss = |verdict: &Verdict| verdict.validation.as_ref().unwrap().loss();
    assert!(
        loss(&chosen) < loss(&given),
        "{} {}",
        loss(&chosen),
        loss(&given)
    );
}

#[test]
fn all_epochs_before_a_validation_are_not_taken_for_one() {
    let model = Supervised::new(Net::new(3, 1, false, 1), Net::forward, gaussian(25.0));
    let fit = Fit::new(VifaConfig::new()).with_epochs(5);
    let (_, verdict) = fit.with_progress(false).run(model, curve()).unwrap();
    assert!(!verdict.to_string().contains("train_len"), "{verdict}");
}

#[test]
fn targets_in_units_that_the_prior_does_not_expect_are_told() {
    let model = || Supervised::new(Net::new(5, 1, false, 1), Net::forward, gaussian(1.0));
    let (x, y) = curve();
    let data = || (x.clone(), y.clone() * 1000.0 + 5000.0);
    let (_, sampled) = auto(0).with_learned_noise().run(model(), data()).unwrap();
    let trained = Fit::new(VifaConfig::new()).with_progress(false);
    let (_, trained) = trained.with_learned_noise().run(model(), data()).unwrap();
    for verdict in [sampled, trained] {
        assert!(verdict.is_unusable(), "{verdict}");
        let problem = verdict.to_string();
        assert!(problem.contains("worse than a constant"), "{problem}");
        let cause = "likely cause: target column 0 (from 0) has mean 5";
        assert!(problem.contains(cause), "{problem}");
        assert!(!problem.contains("input column"), "{problem}");
    }
}

#[test]
fn inputs_in_units_that_the_prior_does_not_expect_are_told() {
    let (x, y) = curve();
    for inputs in [x.clone() * 100.0 + 500.0, x.clone() * 1e-4] {
        let model = || Supervised::new(Net::new(8, 1, false, 1), Net::forward, gaussian(25.0));
        let data = || (inputs.clone(), y.clone());
        let (_, sampled) = auto(0).run(model(), data()).unwrap();
        let trained = Fit::new(VifaConfig::new()).with_progress(false);
        let (_, trained) = trained.with_epochs(20).run(model(), data()).unwrap();
        for verdict in [sampled, trained] {
            let problem = verdict.to_string();
            let cause = "likely cause: input column 0 (from 0) has mean";
            assert!(problem.contains(cause), "{problem}");
            assert!(!problem.contains("target column"), "{problem}");
        }
    }
}

#[test]
fn noise_is_sampled_without_held_out_rows() {
    let model = Supervised::new(Net::new(4, 1, false, 3), Net::forward, gaussian(1.0));
    let fit = auto(0).with_held_out(0.0).with_learned_noise();
    let (fitted, verdict) = fit.run(model, curve()).unwrap();
    assert!(fitted.posterior().as_gaussian().is_none());
    assert!(verdict.validation.is_none() && verdict.agreement.is_some());
}

#[test]
fn noise_is_sampled_whatever_the_group() {
    let mut net = Net::new(4, 1, false, 3);
    net.first = net.first.no_grad();
    let model = Supervised::new(net, Net::forward, gaussian(1.0));
    let settings =
        |config: BayesianConfig<Auto>| config.with_group(ParamGroup::from_predicate("last"));
    let fit = auto(0).with_settings(settings).with_learned_noise();
    let (fitted, _) = fit.run(model, curve()).unwrap();
    let layout = fitted.posterior().layout();
    assert_eq!(layout.len(), 5 + 1);
    assert!(layout.entry(LOG_VARIANCE).is_some());
}

#[test]
fn a_network_may_have_a_parameter_of_the_name_of_the_noise() {
    #[derive(Module, Debug)]
    struct Noisy {
        line: Linear,
        log_variance: Param<Tensor<1>>,
    }
    let net = || {
        let device = Device::default();
        Noisy {
            line: LinearConfig::new(1, 1).init(&device),
            log_variance: Param::from_tensor(Tensor::from_floats([-1.0], &device)),
        }
    };
    let forward = |net: &Noisy, x: Tensor<2>| {
        let mean = net.line.forward(x);
        let variances = net
            .log_variance
            .val()
            .unsqueeze_dim::<2>(0)
            .expand(mean.shape());
        Tensor::cat(vec![mean, variances], 1)
    };
    let model = Supervised::new(net(), forward, Likelihood::HeteroscedasticGaussian);
    let fit = Fit::new(VifaConfig::new())
        .with_epochs(3)
        .with_progress(false);
    let (fitted, _) = fit.run(model, curve()).unwrap();
    let folder = Folder::new("own-log-variance");
    fitted.save(folder.file("a.bpk")).unwrap();
    let loaded: Fitted<Noisy> = Fitted::load(folder.file("a.bpk"), net(), forward).unwrap();
    let of = |fitted: &Fitted<Noisy>| values(fitted.predict(curve().0).unwrap().deviation());
    assert_eq!(of(&loaded), of(&fitted.with_any_form()));
}

#[test]
fn a_posterior_of_another_kind_of_model_has_no_likelihood() {
    let folder = Folder::new("no-likelihood");
    let (net, file) = (Net::new(3, 1, false, 1), folder.file("posterior.bpk"));
    let posterior = BayesianConfig::new(ROWS, VifaConfig::new())
        .init(net.clone())
        .posterior();
    posterior.save(&file).unwrap();
    let loaded: Result<Fitted<Net>> = Fitted::load(&file, net, Net::forward);
    let message = loaded.unwrap_err().to_string();
    assert!(message.contains("has no likelihood"), "{message}");
}

#[test]
fn classes_are_indices_or_one_hot_rows() {
    let (x, labels) = classes();
    let one_hot = burn_bayes_graph::losses::one_hot(labels.clone(), 2);
    let net = Net::new(6, 2, false, 3);
    let fit = Fit::new(SlangConfig::new().with_rank(1))
        .with_epochs(60)
        .with_progress(false);
    let (by_index, _) = fit
        .run(
            Supervised::new(net.clone(), Net::forward, Likelihood::Categorical),
            (x.clone(), labels),
        )
        .unwrap();
    let (by_row, _) = fit
        .run(
            Supervised::new(net, Net::forward, Likelihood::Categorical),
            (x.clone(), one_hot),
        )
        .unwrap();
    let probabilities = by_index
        .predict(x.clone())
        .unwrap()
        .probabilities()
        .unwrap();
    let others = by_row.predict(x).unwrap().probabilities().unwrap();
    assert_eq!(values(probabilities.clone()), values(others));
    let first = values(probabilities);
    assert!(first[0] > 0.8 && first[1] < 0.2, "{first:?}");
    assert!(first[2 * ROWS - 1] > 0.8, "{first:?}");
}

#[test]
fn ordinal_classes_have_one_output_less() {
    let (x, labels) = classes();
    let model: Supervised<_, _, Tensor<1, Int>> =
        Supervised::new(Net::new(4, 1, false, 3), Net::forward, Likelihood::Ordinal);
    let losses = model.example_losses((x, labels));
    assert_eq!(losses.dims(), [ROWS]);
}

#[test]
fn metrics_of_the_learner_read_every_likelihood() {
    let (x, labels) = classes();
    let model: Supervised<_, _, Tensor<1, Int>> = Supervised::new(
        Net::new(6, 2, false, 3),
        Net::forward,
        Likelihood::Categorical,
    );
    let output = || InferenceStep::step(&model, (x.clone(), labels.clone()));
    let mixture = MixDraws::mix(vec![output(), output()]);
    let metadata = metadata();
    let mut accuracy = AccuracyMetric::new();
    accuracy.update(&mixture.adapt(), &metadata).unwrap();
    let mut nll = AverageNllMetric::new();
    nll.update(&mixture.adapt(), &metadata).unwrap();
    let loss: LossInput = mixture.adapt();
    drop(loss);
    let expected = mixture.loss.clone().into_scalar::<f64>();
    let found = nll.running_value().unwrap().current();
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    // A metric of numbers says why it cannot be.
    let error = CrpsMetric::new(1.0)
        .update(&mixture.adapt(), &metadata)
        .unwrap_err();
    assert!(error.to_string().contains("Categorical"), "{error}");

    // The noise is that of the likelihood, whatever the metric was given.
    let model: Supervised<_> =
        Supervised::new(Net::new(6, 1, false, 3), Net::forward, gaussian(25.0));
    let (x, y) = curve();
    let output = InferenceStep::step(&model, (x, y));
    let mut nll = MixtureNllMetric::new(1.0);
    nll.update(&output.adapt(), &metadata).unwrap();
    let (found, expected) = (
        nll.running_value().unwrap().current(),
        output.loss.into_scalar::<f64>(),
    );
    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
}

#[test]
fn what_cannot_be_fitted_is_refused_by_name() {
    let model = |likelihood| -> Supervised<Net> {
        Supervised::new(Net::new(3, 1, false, 1), Net::forward, likelihood)
    };
    let fit = || Fit::new(VifaConfig::new()).with_progress(false);
    let message = |fit: Fit<VifaConfig>, likelihood, data| {
        fit.run(model(likelihood), data).unwrap_err().to_string()
    };
    let few = || {
        let (x, y) = curve();
        (x.narrow(0, 0, 5), y.narrow(0, 0, 5))
    };
    let problem = message(fit().with_learned_noise(), gaussian(1.0), few());
    assert!(
        problem.contains("cannot be learned from 0 of 5 rows"),
        "{problem}"
    );
    let counts = || {
        let (x, y) = curve();
        (x, y * 0.0 + 1.0)
    };
    let problem = message(fit().with_learned_noise(), Likelihood::Poisson, counts());
    assert!(
        problem.contains("Poisson, which has no noise precision"),
        "{problem}"
    );
    let (x, y) = curve();
    let problem = message(fit(), gaussian(1.0), (x.clone(), y.clone().narrow(0, 0, 7)));
    assert!(problem.contains("60 rows, but number 2 has 7"), "{problem}");
    let problem = message(
        fit().with_held_out(1.0),
        gaussian(1.0),
        (x.clone(), y.clone()),
    );
    assert!(problem.contains("held_out: is 1"), "{problem}");
    let columns = Tensor::cat(vec![y.clone(); 3], 1);
    let net = Net::new(3, 3, false, 1);
    let noise_precisions = vec![4.0];
    let three = Supervised::new(
        net,
        Net::forward,
        Likelihood::GaussianTargets { noise_precisions },
    );
    let problem = fit()
        .run(three, (x.clone(), columns))
        .unwrap_err()
        .to_string();
    assert!(
        problem.contains("3 targets of a row, but the likelihood has 1"),
        "{problem}"
    );
    let problem = message(fit().with_epochs(0), gaussian(1.0), (x.clone(), y.clone()));
    assert!(problem.contains("epochs"), "{problem}");

    let message = |fit: Fit<Auto>, likelihood, data| {
        let found = fit.with_progress(false).run(model(likelihood), data);
        found.unwrap_err().to_string()
    };
    let of = |auto: Auto| message(Fit::new(auto), gaussian(1.0), curve());
    let problem = of(Auto::new().with_chains(0));
    assert!(problem.starts_with("chains: is 0"), "{problem}");
    let problem = of(Auto::new().with_budget(Some(f64::NAN)));
    assert!(problem.starts_with("budget: is NaN"), "{problem}");
    let learned = || Fit::new(Auto::new()).with_learned_noise();
    let problem = message(learned(), Likelihood::Poisson, counts());
    assert!(
        problem.contains("Poisson, which has no noise precision"),
        "{problem}"
    );
    let problem = message(Fit::new(Auto::new()), gaussian(1.0), (x, y / 0.0));
    assert!(problem.starts_with("data"), "{problem}");
}

#[test]
#[should_panic(expected = "needs [60, 2]")]
fn outputs_that_do_not_fit_the_targets_are_no_broadcast() {
    let (x, y) = curve();
    let model: Supervised<_> = Supervised::new(
        Net::new(3, 1, false, 1),
        Net::forward,
        Likelihood::HeteroscedasticGaussian,
    );
    let _ = InferenceStep::step(&model, (x, y));
}
