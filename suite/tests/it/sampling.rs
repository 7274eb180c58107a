//! Samples by MCLMC and HMC: exact posteriors, predictions, files, and what is refused.

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::tanh;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::posterior::{SamplePosterior, linear_regression_posterior};
use burn_bayes::sampling::{Dynamics, MclmcConfig, Samples, Sampling, SamplingConfig};
use burn_bayes::{ExampleLoss, Noise, Predictor, Prior, Supervised};

use crate::support::{autodiff, filled, is_compiled, matrix, normals, values};

const ROWS: usize = 40;
const WIDTH: usize = 3;
const NOISE_PRECISION: f64 = 4.0;

/// A linear model without a bias, whose posterior is known.
fn line(seed: u64) -> Supervised<Linear> {
    let layer = LinearConfig::new(WIDTH, 1).with_bias(false);
    let layer = filled(layer.init(&autodiff()), seed, 0.5);
    let forward = |layer: &Linear, x: Tensor<2>| layer.forward(x);
    let likelihood = Likelihood::Gaussian {
        noise_precision: NOISE_PRECISION,
    };
    Supervised::new(layer, forward, likelihood)
}

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    fn new(seed: u64) -> Self {
        let net = Self {
            first: LinearConfig::new(WIDTH, 5).init(&autodiff()),
            last: LinearConfig::new(5, 1).init(&autodiff()),
        };
        filled(net, seed, 0.5)
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.last.forward(tanh(self.first.forward(x)))
    }
}

fn net(seed: u64) -> Supervised<Net> {
    let likelihood = Likelihood::Gaussian {
        noise_precision: NOISE_PRECISION,
    };
    Supervised::new(Net::new(seed), Net::forward, likelihood)
}

fn data() -> (Tensor<2>, Tensor<2>) {
    let x = matrix(ROWS, WIDTH, &normals(1, ROWS * WIDTH));
    let y = matrix(ROWS, 1, &normals(2, ROWS));
    (x, y)
}

fn shortened(config: SamplingConfig) -> SamplingConfig {
    config
        .with_warm_up_steps(30)
        .with_tuning_steps(40)
        .with_steps(40)
        .with_draws(5)
}

fn short() -> SamplingConfig {
    shortened(SamplingConfig::new())
}

fn rows(posterior: &SamplePosterior) -> Vec<Vec<f64>> {
    let samples = posterior.samples();
    let [_, len] = samples.dims();
    values(&samples).chunks(len).map(<[f64]>::to_vec).collect()
}

const ENERGY_VARIANCE: f64 = 5e-4;

#[test]
fn mclmc_has_the_exact_moments_of_a_linear_regression() {
    let dynamics = MclmcConfig::new().with_energy_variance(ENERGY_VARIANCE);
    let config = SamplingConfig::new()
        .with_warm_up_steps(200)
        .with_tuning_steps(1000)
        .with_steps(12_000)
        .with_dynamics(Dynamics::Mclmc(dynamics));
    for chain in moments_are_exact(config).chains() {
        let ratio = chain.energy_variance / ENERGY_VARIANCE;
        assert!((0.7..1.4).contains(&ratio), "{chain:?}");
    }
}

#[test]
fn hmc_has_the_exact_moments_of_a_linear_regression() {
    let config = SamplingConfig::hmc()
        .with_warm_up_steps(50)
        .with_steps(1500);
    for chain in moments_are_exact(config).chains() {
        let rejected = chain.rejections as f64 / 1500.0;
        assert!((0.01..0.5).contains(&rejected), "{chain:?}");
    }
}

fn moments_are_exact(config: SamplingConfig) -> Samples {
    let (x, y) = data();
    let samples = config
        .with_prior(Prior::isotropic(0.7))
        .with_draws(1500)
        .sample(&[line(3), line(4)], &[(x.clone(), y.clone())])
        .unwrap();
    let posterior = samples.posterior().unwrap();
    assert_eq!(posterior.count(), 3000);
    let draws = rows(&posterior);
    let mean = |of: &dyn Fn(&[f64]) -> f64| {
        draws.iter().map(|draw| of(draw)).sum::<f64>() / draws.len() as f64
    };
    let exact = linear_regression_posterior(&values(&x), &values(&y), 0.7, NOISE_PRECISION);
    let exact = exact.unwrap();
    let deviations: Vec<f64> = exact.variances().iter().map(|v| v.sqrt()).collect();
    for row in 0..WIDTH {
        let off = (mean(&|draw| draw[row]) - exact.mean()[row]) / deviations[row];
        assert!(off.abs() < 0.1, "mean {row}: {off} deviations");
        for column in 0..=row {
            let centred = |draw: &[f64]| {
                (draw[row] - exact.mean()[row]) * (draw[column] - exact.mean()[column])
            };
            let scale = deviations[row] * deviations[column];
            let off = (mean(&centred) - exact.covariance().get(row, column)) / scale;
            assert!(off.abs() < 0.12, "covariance {row}, {column}: {off}");
        }
    }
    let agreement = samples.agreement(&line(3), &x).unwrap().unwrap();
    assert!(agreement.upper < 1.05, "{agreement}");
    assert!(agreement.to_string().starts_with("converged"));
    samples
}

/// The rows in two batches.
fn halves() -> [(Tensor<2>, Tensor<2>); 2] {
    let (x, y) = data();
    let half = |first: usize| {
        let part = |of: &Tensor<2>| of.clone().narrow(0, first, ROWS / 2);
        (part(&x), part(&y))
    };
    [half(0), half(ROWS / 2)]
}

/// With as many batches as a step of all of them would need, a warm start makes as many more steps.
#[test]
fn a_warm_start_takes_a_step_for_every_batch() {
    let climbed = |steps: u64, batches: &[_]| {
        let mut sampling = short()
            .with_warm_up_rate(0.003)
            .start(&[net(1)], batches)
            .unwrap();
        sampling.advance(steps).unwrap();
        sampling.loss().unwrap()
    };
    let start = climbed(0, &[data()]);
    let (whole, halved) = (climbed(10, &[data()]), climbed(10, &halves()));
    assert!(halved < whole && whole < start, "{halved} {whole} {start}");
}

/// Batches of one row are not compiled: their gradients come from Burn's autodiff.
#[test]
fn rows_one_by_one_give_the_density_of_all() {
    let (x, y) = data();
    let single: Vec<_> = (0..ROWS)
        .map(|row| (x.clone().narrow(0, row, 1), y.clone().narrow(0, row, 1)))
        .collect();
    // A warm start takes a step for every batch.
    let config = short().with_warm_up_steps(0);
    let config = config.with_tuning_steps(3).with_steps(4).with_draws(2);
    let together = config.sample(&[net(1)], &[(x, y)]).unwrap();
    let alone = config.sample(&[net(1)], &single).unwrap();
    let of = |samples: &Samples| rows(&samples.posterior().unwrap()).swap_remove(1);
    for (found, expected) in of(&alone).iter().zip(of(&together)) {
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
}

fn run(seed: u64) -> Sampling<Supervised<Net>> {
    let config = short().with_seed(seed);
    config.start(&[net(1), net(2)], &[data()]).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_samples_and_a_run_can_end_early() {
    let sample = |seed: u64, steps: u64| {
        let mut sampling = run(seed);
        sampling.advance(steps).unwrap();
        sampling.samples().posterior()
    };
    let whole = rows(&sample(1, u64::MAX).unwrap());
    assert_eq!(whole.len(), 10);
    assert_eq!(whole, rows(&sample(1, u64::MAX).unwrap()));
    assert_ne!(whole, rows(&sample(2, u64::MAX).unwrap()));
    // After 99 of 110 steps, each chain has three of its five draws.
    let part = rows(&sample(1, 99).unwrap());
    assert_eq!(part[..], [&whole[..3], &whole[5..8]].concat());
    let error = sample(1, 4).unwrap_err();
    assert!(error.is_too_early(), "{error}");
}

#[test]
fn a_run_resumed_at_any_step_ends_with_the_same_samples() {
    for config in [SamplingConfig::new(), SamplingConfig::hmc()] {
        resumes_at_any_step(&shortened(config));
    }
}

fn resumes_at_any_step(config: &SamplingConfig) {
    let run = || config.start(&[net(1), net(2)], &halves()).unwrap();
    let mut whole = run();
    let mut checkpoints = Vec::new();
    while whole.step() < whole.end() {
        checkpoints.push(whole.checkpoint().unwrap());
        whole.advance(7).unwrap();
    }
    let whole = rows(&whole.samples().posterior().unwrap());
    for checkpoint in checkpoints {
        let mut resumed = run().resumed(&checkpoint).unwrap();
        let step = resumed.step();
        resumed.advance(u64::MAX).unwrap();
        let found = rows(&resumed.samples().posterior().unwrap());
        assert_eq!(found, whole, "from step {step}");
    }
}

#[test]
fn a_lengthened_chain_goes_on_and_leaves_out_its_first_half() {
    let draws =
        |sampling: &Sampling<Supervised<Net>>| rows(&sampling.samples().posterior().unwrap());
    let mut sampling = run(1);
    sampling.advance(u64::MAX).unwrap();
    let before = draws(&sampling);
    sampling.lengthen(40);
    assert_eq!(sampling.end(), 150);
    let checkpoint = sampling.checkpoint().unwrap();
    sampling.advance(u64::MAX).unwrap();
    let after = draws(&sampling);
    // Of ten draws, five are left, none of which was one before.
    assert_eq!(after.len(), 10);
    assert!(after.iter().all(|draw| !before.contains(draw)));
    let mut resumed = run(1).resumed(&checkpoint).unwrap();
    resumed.advance(u64::MAX).unwrap();
    assert_eq!(draws(&resumed), after);
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let checkpoint = run(1).checkpoint().unwrap();
    let others = [
        run(2),
        short().with_seed(1).start(&[net(1)], &[data()]).unwrap(),
        short()
            .with_seed(1)
            .with_group(ParamGroup::from_predicate("first"))
            .start(&[net(1), net(2)], &[data()])
            .unwrap(),
    ];
    for other in others {
        let error = other.resumed(&checkpoint).unwrap_err();
        assert!(error.is_storage(), "{error}");
    }
    let error = run(1).resumed(&checkpoint[..100]).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Of a dense network of one batch: forwards, and backwards for weights and the inputs of all but the first layer. Nothing
/// is compiled for a GPU.
#[test]
fn work_is_counted() {
    let sampling = run(1);
    if !is_compiled() {
        assert_eq!(sampling.work(), None);
        return;
    }
    let weights = |inputs: u64, outputs: u64| inputs * outputs * ROWS as u64;
    let [first, last] = [weights(WIDTH as u64, 5), weights(5, 1)];
    let products = 2 * first + 3 * last;
    // Of two chains, with what a step and the numbers take besides.
    let found = sampling.work().unwrap() / 2.0 - 60_000.0;
    let products = products as f64;
    assert!(
        found > products && found < 40.0 * products,
        "{found} {products}"
    );
}

/// The places of a run are those of its draws whenever one was made, and the loss is that of the library's own pass.
#[test]
fn a_run_shows_where_its_chains_are() {
    let mut sampling = run(1);
    assert!(sampling.samples().chains().is_empty());
    sampling.advance(u64::MAX).unwrap();
    let (draws, places) = (sampling.samples(), sampling.places());
    let draws = rows(&draws.posterior().unwrap());
    let posterior = places.posterior().unwrap();
    assert_eq!(rows(&posterior), [&draws[4..5], &draws[9..]].concat());
    let predictor = Predictor::new(net(1), posterior, Noise::new(0)).unwrap();
    let losses = predictor.map_draws(2, |model| {
        let losses = model.example_losses(data()).sum();
        f64::from(losses.into_scalar::<f32>())
    });
    let expected = losses.unwrap().iter().sum::<f64>() / 2.0;
    let found = sampling.loss().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
}

#[test]
fn what_cannot_be_sampled_is_refused_with_its_reason() {
    let message =
        |result: burn_bayes::Result<Samples>| result.expect_err("it cannot be sampled").to_string();
    let none: [Supervised<Net>; 0] = [];
    let found = message(short().sample(&none, &[data()]));
    assert!(found.starts_with("models"), "{found}");
    let found = message(short().sample(&[net(1)], &[]));
    assert!(found.starts_with("batches"), "{found}");
    let (x, y) = data();
    let found = message(short().sample(&[net(1)], &[(x, y * f32::MAX)]));
    assert!(
        found.contains("not finite") && found.contains("standardise"),
        "{found}"
    );
}
