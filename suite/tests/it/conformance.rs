//! The laws of [`Algorithm`], each tested once for all algorithms. The table at the end has one row per
//! algorithm.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::ExampleBatch;
use burn_bayes::methods::{
    Algorithm, Averaging, Curvature, FactorUnits, IvonConfig, MeanStage, VadamConfig, VonConfig,
};
use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
use burn_bayes::train::Gather;
use burn_bayes::{
    Bayesian, BayesianConfig, ExampleLoss, FactorPosterior, FusedAdamConfig, Noise, Prior,
    SlangConfig, SwagConfig, VifaConfig,
};
use burn_bayes_contrib::methods::{
    BatchEnsembleConfig, FactorAnalysisConfig, IterateAveragingConfig, NagvacConfig,
    SamplingSchedule, SghmcConfig,
};

use crate::support::{
    EPSILON, assert_close, assert_same_state, autodiff, bits, filled, joined_gradients, matrix,
    normals, one_stage, state, values,
};

/// Rows of a regression with one feature and one target.
#[derive(Clone, Debug, ExampleBatch)]
pub(crate) struct Batch {
    pub(crate) inputs: Tensor<2>,
    pub(crate) targets: Tensor<2>,
}

impl Batch {
    /// `len` points of a noisy sine.
    pub(crate) fn new(len: usize, seed: u64) -> Self {
        let inputs: Vec<f32> = (0..len)
            .map(|i| i as f32 / len as f32 * 2.0 - 1.0)
            .collect();
        let targets: Vec<f32> = inputs
            .iter()
            .zip(normals(seed, len))
            .map(|(x, noise)| (3.0 * x).sin() + 0.25 * noise)
            .collect();
        Self {
            inputs: Tensor::from_inner(matrix(len, 1, &inputs)),
            targets: Tensor::from_inner(matrix(len, 1, &targets)),
        }
    }

    pub(crate) fn rows(&self, start: usize, end: usize) -> Self {
        Self {
            inputs: self.inputs.clone().slice([start..end, 0..1]),
            targets: self.targets.clone().slice([start..end, 0..1]),
        }
    }
}

/// A user's model, which does not use this library.
#[derive(Module, Debug)]
pub(crate) struct Regressor {
    hidden: Linear,
    output: Linear,
}

/// The precision of the target noise.
const NOISE_PRECISION: f64 = 16.0;
/// The number of training examples.
pub(crate) const LEN: usize = 40;
/// Draws of a prediction.
const DRAWS: usize = 30;

impl Regressor {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(1, 8).init(device),
            output: LinearConfig::new(8, 1).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.output.forward(self.hidden.forward(inputs).tanh())
    }

    fn predict(&self, batch: Batch) -> RegressionOutput {
        let output = self.forward(batch.inputs);
        let error = output.clone() - batch.targets.clone();
        let loss = error.square().mean() * (0.5 * NOISE_PRECISION);
        RegressionOutput::new(loss, output, batch.targets)
    }
}

impl TrainStep for Regressor {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = self.predict(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl ExampleLoss for Regressor {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        let error = self.forward(batch.inputs) - batch.targets;
        let losses = error.square() * (0.5 * NOISE_PRECISION);
        losses.squeeze_dim(1)
    }

    fn example_outputs(&self, batch: Batch, losses: Tensor<1>) -> RegressionOutput {
        let output = self.forward(batch.inputs);
        RegressionOutput::new(losses.mean(), output, batch.targets)
    }
}

impl InferenceStep for Regressor {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.predict(batch)
    }
}

pub(crate) type Bayes<A> = Bayesian<Regressor, A>;

pub(crate) fn regressor(seed: u64) -> Regressor {
    filled(Regressor::new(&autodiff()), seed, 0.5)
}

pub(crate) fn adam() -> ModuleOptimizer {
    FusedAdamConfig::new().init()
}

/// Trains without the Learner.
fn trained<A>(mut bayesian: Bayes<A>, optimizer: &mut ModuleOptimizer, steps: usize) -> Bayes<A>
where
    A: Algorithm,
    A::Signal: Gather<Regressor, A>,
{
    let data = Batch::new(LEN, 1);
    let batches = [data.rows(0, 20), data.rows(20, LEN)];
    for step in 0..steps {
        let output = TrainStep::step(&bayesian, batches[step % 2].clone());
        bayesian = bayesian.optimize(optimizer, 0.01.into(), output.grads);
    }
    bayesian
}

/// The mean of a posterior, and three of its draws.
fn fingerprint<P: Posterior>(posterior: &P) -> [Vec<u32>; 2] {
    let draws = posterior.sampler().unwrap().draws(Noise::new(7), 3);
    [
        bits(&posterior.mean_weights().unwrap()),
        bits(&draws.unwrap()),
    ]
}

/// The laws of all algorithms. `init` wraps the model of a seed.
mod law {
    use super::*;

    /// 1. Two trainings from the same model and seed agree bit for bit.
    pub(super) fn pure<A>(init: impl Fn(u64) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        let run = || trained(init(1), &mut adam(), 20);
        let (first, second) = (run(), run());
        assert_eq!(state(&first), state(&second));
        assert_eq!(
            fingerprint(&first.posterior()),
            fingerprint(&second.posterior())
        );
        assert_eq!(first.steps(), 20);
    }

    /// 2. A training that is saved and loaded into a model with other weights continues bit for bit.
    pub(super) fn round_trip<A>(init: impl Fn(u64) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        let mut optimizer = adam();
        let bayesian = trained(init(1), &mut optimizer, 13);
        let record = bayesian.clone().into_record().into_bytes().unwrap();
        let optimizer_record = optimizer.into_bytes().unwrap();

        let fresh = init(2);
        // A posterior computed before the record is loaded must be discarded.
        let _ = fresh.try_posterior();
        let restored = fresh.load_record(ModuleRecord::from_bytes(record).unwrap());
        assert_eq!(restored.steps(), 13);
        assert_eq!(state(&restored), state(&bayesian));
        assert_eq!(
            fingerprint(&restored.posterior()),
            fingerprint(&bayesian.posterior())
        );

        let mut restored_optimizer = adam().from_bytes(optimizer_record).unwrap();
        for steps in [1, 6] {
            let expected = trained(bayesian.clone(), &mut optimizer.clone(), steps);
            let found = trained(restored.clone(), &mut restored_optimizer.clone(), steps);
            let what = format!("after {steps} more steps");
            assert_same_state(&what, &state(&found), &state(&expected));
        }
        // The test would be void if nothing changed.
        let moved = trained(restored.clone(), &mut restored_optimizer, 1);
        assert_ne!(state(&moved), state(&restored));
    }

    /// 3. A thousand steps from the default initialisation are finite and reduce the loss.
    pub(super) fn finite<A>(init: impl Fn(u64) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        let bayesian = trained(init(1), &mut adam(), 1000);
        let everything = state(&bayesian).concat();
        assert!(
            everything
                .iter()
                .all(|&bits| f32::from_bits(bits).is_finite())
        );
        let data = Batch::new(LEN, 1);
        let plain = Batch {
            inputs: data.inputs.without_autodiff(),
            targets: data.targets.without_autodiff(),
        };
        let outputs = |model: &Regressor| model.forward(plain.inputs.clone());
        let squared_error =
            |outputs: Tensor<2>| values(&(outputs - plain.targets.clone()).square().mean())[0];
        let predictor = bayesian.predictor().unwrap();
        let draws = predictor.map_draws(DRAWS, outputs).unwrap();
        let sum = draws.into_iter().reduce(|sum, draw| sum + draw).unwrap();
        let (before, after) = (
            squared_error(outputs(&init(1).template().valid())),
            squared_error(sum / DRAWS as f64),
        );
        assert!(
            after < 0.5 * before,
            "squared error {before} before, {after} after"
        );
    }

    /// 5. The posterior has the layout's length and the requested rank.
    pub(super) fn shape<A>(init: impl Fn(u64) -> Bayes<A>, rank: usize)
    where
        A: Algorithm<Signal: Gather<Regressor, A>, Posterior = FactorPosterior>,
    {
        let bayesian = trained(init(1), &mut adam(), 30);
        let posterior = bayesian.posterior();
        assert_eq!(posterior.len(), 8 + 8 + 8 + 1);
        assert_eq!(posterior.layout(), bayesian.layout());
        assert_eq!(posterior.rank(), rank);
        assert_eq!(bayesian.algorithm().setup().train_len, LEN);
    }

    /// 5. A mixture of points has the layout's length and this number of components.
    pub(super) fn points<A>(init: impl Fn(u64) -> Bayes<A>, count: usize)
    where
        A: Algorithm<Signal: Gather<Regressor, A>, Posterior = Mixture<PointPosterior>>,
    {
        let bayesian = trained(init(1), &mut adam(), 30);
        let posterior = bayesian.posterior();
        assert_eq!(posterior.layout(), bayesian.layout());
        assert_eq!(posterior.weights().len(), count);
        assert_eq!(bayesian.algorithm().setup().train_len, LEN);
    }

    /// The gradient of a batch is the mean of the gradients of its halves at the same draw.
    pub(super) fn batch_size<A>(init: impl Fn(u64) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        let bayesian = trained(init(1), &mut adam(), 5);
        let data = Batch::new(LEN, 1);
        // A fork has its own clock, so all of them use the same draws.
        let gradient = |batch: Batch| {
            let fork = bayesian.clone().fork(&autodiff());
            joined_gradients(&fork, &TrainStep::step(&fork, batch).grads)
        };
        let whole = gradient(data.clone());
        let halves = [gradient(data.rows(0, 20)), gradient(data.rows(20, LEN))];
        let mean: Vec<f64> = (0..whole.len())
            .map(|at| 0.5 * (halves[0][at] + halves[1][at]))
            .collect();
        // Every element is a sum over the batch, so no term exceeds the largest gradient.
        let scale = halves
            .concat()
            .iter()
            .fold(0.0f64, |max, g| max.max(g.abs()));
        let scales = vec![scale; whole.len()];
        assert_close(
            "gradient",
            &whole,
            &mean,
            &scales,
            4.0 * EPSILON * LEN as f64,
        );
        let difference = (halves[0][0] - halves[1][0]).abs();
        assert!(difference > 1e-3 * scale, "the halves are different data");
    }

    /// Burn marks each float parameter for collective reductions, which requires autodiff.
    /// The prior can be changed between two steps.
    pub(super) fn prior<A>(init: impl Fn(Prior) -> Bayes<A>)
    where
        A: Algorithm,
        A::Signal: Gather<Regressor, A>,
    {
        let [weak, strong] = [0.5, 20.0].map(Prior::isotropic);
        let result = |bayesian| fingerprint(&trained(bayesian, &mut adam(), 8).posterior());
        let changed = init(weak.clone()).with_prior(&strong).unwrap();
        assert_eq!(result(changed), result(init(strong)));
        let expected = result(init(weak.clone()));
        assert_ne!(
            expected,
            result(
                init(weak.clone())
                    .with_prior(&Prior::isotropic(20.0))
                    .unwrap()
            )
        );
        let same = trained(init(weak.clone()), &mut adam(), 4).with_prior(&weak);
        let unchanged = trained(init(weak), &mut adam(), 4);
        assert_eq!(
            fingerprint(&same.unwrap().posterior()),
            fingerprint(&unchanged.posterior())
        );
    }

    pub(super) fn autodiff_everywhere<A>(init: impl Fn(u64) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        #[derive(Default)]
        struct Plain(usize);
        impl ModuleVisitor for Plain {
            fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
                self.0 += usize::from(!param.base().is_autodiff());
            }
        }
        let plain = |bayesian: &Bayes<A>| {
            let mut plain = Plain::default();
            bayesian.visit(&mut plain);
            plain.0
        };
        let bayesian = trained(init(1), &mut adam(), 8);
        assert_eq!(plain(&bayesian), 0);
        let record = bayesian.into_record();
        assert_eq!(plain(&init(2).load_record(record)), 0);
    }
}

/// The laws of algorithms that learn from gradients, with the objective λ·NLL + KL.
mod gradient_law {
    use super::*;

    fn gradient(config: &BayesianConfig<VifaConfig>, data: &Batch) -> Vec<f64> {
        let bayesian = config.init(regressor(1));
        let output = TrainStep::step(&bayesian, data.clone());
        joined_gradients(bayesian.algorithm(), &output.grads)
    }

    /// 4. Twice the examples double the part of the likelihood alone, and λ = 2N that of the prior as well. The part of
    ///    the divergence, 2·∇(N) − ∇(2N), does not depend on the data.
    pub(super) fn scale(config: impl Fn(usize) -> BayesianConfig<VifaConfig>) {
        let data = Batch::new(LEN, 1);
        let single = gradient(&config(LEN), &data);
        let [double, triple] = [2, 3].map(|times| gradient(&config(times * LEN), &data));
        let largest = triple.iter().fold(0.0f64, |max, g| max.max(g.abs()));
        let scales = vec![largest; single.len()];
        let difference = |more: &[f64], less: &[f64]| -> Vec<f64> {
            more.iter().zip(less).map(|(m, l)| m - l).collect()
        };
        let (first, second) = (difference(&double, &single), difference(&triple, &double));
        assert_close("likelihood", &second, &first, &scales, 16.0 * EPSILON);
        let weighted = config(LEN).with_ess(2.0 * LEN as f64);
        let weighted = gradient(&weighted.with_prior(Prior::isotropic(0.5)), &data);
        assert_close("λ", &weighted, &double, &scales, 8.0 * EPSILON);

        let divergence = |data: &Batch| -> Vec<f64> {
            let (single, double) = (
                gradient(&config(LEN), data),
                gradient(&config(2 * LEN), data),
            );
            single
                .iter()
                .zip(&double)
                .map(|(s, d)| 2.0 * s - d)
                .collect()
        };
        let (here, there) = (divergence(&data), divergence(&Batch::new(LEN, 99)));
        assert_close("divergence", &here, &there, &scales, 16.0 * EPSILON);
        let largest_share = here.iter().fold(0.0f64, |max, g| max.max(g.abs()));
        assert!(
            largest_share > 1e2 * 16.0 * EPSILON * largest,
            "a share to be seen"
        );
    }

    /// Another seed gives another training.
    pub(super) fn seeds(config: impl Fn(usize) -> BayesianConfig<VifaConfig>) {
        let run = |seed| {
            state(&trained(
                config(LEN).with_seed(seed).init(regressor(1)),
                &mut adam(),
                3,
            ))
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}

#[test]
fn swag_has_no_prior() {
    let swag = BayesianConfig::new(LEN, SwagConfig::new().with_start(Some(1))).init(regressor(1));
    let error = swag.with_prior(&Prior::isotropic(2.0)).unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("weight decay"),
        "{error}"
    );
}

#[test]
fn everything_can_be_sent_and_shared() {
    fn sent_and_shared<T: Send + Sync>() {}
    sent_and_shared::<Bayesian<Regressor, burn_bayes::methods::Vifa>>();
    sent_and_shared::<Bayesian<Regressor, burn_bayes::methods::Swag>>();
    sent_and_shared::<Bayesian<Regressor, burn_bayes::methods::Slang>>();
    sent_and_shared::<FactorPosterior>();
    sent_and_shared::<Mixture>();
    sent_and_shared::<burn_bayes::graph::Layout>();
    sent_and_shared::<burn_bayes::Error>();
    sent_and_shared::<burn_bayes::Error>();
    sent_and_shared::<burn_bayes::Error>();
}

/// A batch of copies of one example has the same mean gradient as the example alone, but represents more
/// examples: a shorter batch has less weight.
#[test]
fn a_squared_mean_gradient_counts_by_the_rows_of_its_batch() {
    const ROWS: usize = 4;
    fn counts<A>(init: impl Fn(Regressor) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>, Posterior = FactorPosterior>,
    {
        let one = Batch::new(LEN, 1).rows(7, 8);
        let many = Batch {
            inputs: one.inputs.clone().repeat_dim(0, ROWS),
            targets: one.targets.clone().repeat_dim(0, ROWS),
        };
        // What one step adds to the prior precision of 1.
        let added = |batch: Batch| -> (Vec<f64>, Vec<f64>) {
            let bayesian = init(regressor(1));
            let output = TrainStep::step(&bayesian, batch);
            let bayesian = bayesian.optimize(&mut adam(), 0.01.into(), output.grads);
            let precision = values(&bayesian.posterior().diagonal());
            let added = precision.iter().map(|precision| precision - 1.0).collect();
            (added, precision)
        };
        let ((one, _), (many, sizes)) = (added(one), added(many));
        let expected: Vec<f64> = one.iter().map(|added| ROWS as f64 * added).collect();
        // The expected value multiplies the rounding of 1 + x by ROWS.
        let tolerance = 16.0 * ROWS as f64 * EPSILON;
        assert_close("precision", &many, &expected, &sizes, tolerance);
        assert!(one.iter().any(|&added| added > 0.1), "{one:?}");
    }
    let vadam = BayesianConfig::paper(
        LEN,
        VadamConfig::paper().with_square_scale(Some(ROWS as f64)),
    );
    counts(|model| vadam.init(model));
    let von = BayesianConfig::new(LEN, VonConfig::new().with_curvature(Curvature::SquaredMean))
        .with_mean_stage(MeanStage::None);
    counts(|model| von.init(model));
}

/// SWAG through `Bayesian` against the moments of the weights, computed in double precision.
#[test]
fn swag_is_the_moments_of_the_weights_a_training_passes_through() {
    const RANK: usize = 3;
    let config = BayesianConfig::new(
        LEN,
        SwagConfig::new()
            .with_start(Some(4))
            .with_interval(Some(3))
            .with_rank(RANK),
    );
    let mut bayesian = config.init(regressor(1));
    let momentum = MomentumConfig::new().with_dampening(0.0);
    let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
    let data = Batch::new(LEN, 1);
    let mut iterates: Vec<Vec<f64>> = Vec::new();
    let mut deviations: Vec<Vec<f64>> = Vec::new();
    for step in 1..=18usize {
        let output = TrainStep::step(&bayesian, data.clone());
        bayesian = bayesian.optimize(&mut optimizer, 0.01.into(), output.grads);
        if step < 4 || (step - 4) % 3 != 0 {
            continue;
        }
        iterates.push(values(
            &bayesian.layout().flatten(bayesian.template()).unwrap(),
        ));
        let count = iterates.len() as f64;
        let last = iterates.last().unwrap();
        let mean = |at: usize| iterates.iter().map(|w| w[at]).sum::<f64>() / count;
        deviations.push((0..last.len()).map(|at| last[at] - mean(at)).collect());
    }
    assert_eq!(iterates.len(), 5);
    let count = iterates.len() as f64;
    let len = iterates[0].len();
    let moment =
        |at: usize, power: i32| iterates.iter().map(|w| w[at].powi(power)).sum::<f64>() / count;
    let mean: Vec<f64> = (0..len).map(|at| moment(at, 1)).collect();
    let squares: Vec<f64> = (0..len).map(|at| moment(at, 2)).collect();

    let posterior = bayesian.posterior();
    let sizes: Vec<f64> = squares.iter().map(|square| square.sqrt()).collect();
    assert_close(
        "mean",
        &values(&posterior.mean()),
        &mean,
        &sizes,
        8.0 * EPSILON,
    );
    let variance: Vec<f64> = (0..len)
        .map(|at| 0.5 * (squares[at] - mean[at] * mean[at]))
        .collect();
    // Rounding of a weight changes a squared deviation by twice the deviation.
    let spreads: Vec<f64> = variance
        .iter()
        .zip(&sizes)
        .map(|(variance, size)| 2.0 * (2.0 * variance).sqrt() * size)
        .collect();
    let found = values(&posterior.diagonal());
    assert_close("variance", &found, &variance, &spreads, 8.0 * EPSILON);
    assert!(
        variance
            .iter()
            .zip(&spreads)
            .any(|(v, spread)| *v > 100.0 * 8.0 * EPSILON * spread)
    );
    // Deviations are stored in a ring buffer, so the order of the rows has no meaning.
    let factors = values(&posterior.factors().unwrap());
    assert_eq!(factors.len(), RANK * len);
    for deviation in &deviations[deviations.len() - RANK..] {
        let scale = (2.0 * (RANK as f64 - 1.0)).sqrt();
        let row = factors.chunks(len).position(|row| {
            row.iter()
                .zip(deviation)
                .zip(&sizes)
                .all(|((f, d), size)| (f * scale - d).abs() <= 32.0 * EPSILON * size)
        });
        assert!(row.is_some(), "a deviation is missing");
    }
}

macro_rules! conformance {
    ($($law:ident $name:ident: $config:expr, $number:expr;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn same_seed_same_result() {
                law::pure(|seed| $config.init(regressor(seed)));
            }

            #[test]
            fn goes_on_after_a_record() {
                law::round_trip(|seed| $config.init(regressor(seed)));
            }

            #[test]
            fn stays_finite_and_learns() {
                law::finite(|seed| $config.init(regressor(seed)));
            }

            #[test]
            fn has_the_shape_of_the_layout() {
                law::$law(|seed| $config.init(regressor(seed)), $number);
            }

            #[test]
            fn is_on_autodiff_as_a_whole() {
                law::autodiff_everywhere(|seed| $config.init(regressor(seed)));
            }
        }
    )+};
}

/// For algorithms with a prior.
macro_rules! prior_conformance {
    ($($name:ident: $config:expr;)+) => {$(
        #[test]
        fn $name() {
            law::prior(|prior| $config.with_prior(prior).init(regressor(3)));
        }
    )+};
}

/// For algorithms whose gradients go to an optimiser.
macro_rules! additive_conformance {
    ($($name:ident: $config:expr;)+) => {$(
        #[test]
        fn $name() {
            law::batch_size(|seed| $config.init(regressor(seed)));
        }
    )+};
}

macro_rules! gradient_conformance {
    ($($name:ident: $config:expr;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn scales_with_the_number_of_examples() {
                gradient_law::scale($config);
            }

            #[test]
            fn another_seed_another_result() {
                gradient_law::seeds($config);
            }
        }
    )+};
}

/// After steps 20, 22, … 30 of the 30 of the law of shapes.
const SAMPLED: SamplingSchedule = SamplingSchedule::Constant {
    start: 20,
    interval: 2,
};
const CYCLES: SamplingSchedule = SamplingSchedule::Cyclical {
    length: 10,
    exploration: 0.5,
    samples: 2,
};

conformance! {
    shape vifa_of_rank_one: BayesianConfig::new(LEN, VifaConfig::new()), 1;
    shape vifa_of_rank_three: BayesianConfig::new(LEN, VifaConfig::new().with_rank(3)).with_draws(2).with_antithetic(true), 3;
    shape vifa_averaged: BayesianConfig::new(LEN, VifaConfig::new().with_rank(2)).with_averaging(Averaging::From(5)), 2;
    shape mean_field: BayesianConfig::new(LEN, VifaConfig::new().with_rank(0)), 0;
    shape vafc: BayesianConfig::paper(LEN, VifaConfig::vafc(2)), 2;
    shape swag: BayesianConfig::new(LEN, SwagConfig::new().with_start(Some(5)).with_interval(Some(3)).with_rank(4)), 4;
    shape swag_diagonal: BayesianConfig::new(LEN, SwagConfig::new().with_start(Some(1)).with_rank(0)), 0;
    shape factor_analysis: BayesianConfig::new(LEN, FactorAnalysisConfig::new().with_start(Some(5)).with_interval(Some(3)).with_rank(4)), 4;
    shape factor_analysis_of_every_step: BayesianConfig::new(LEN, FactorAnalysisConfig::new().with_start(Some(1))), 10;
    shape slang_of_rank_one: BayesianConfig::new(LEN, SlangConfig::new()), 1;
    shape slang_of_rank_three: BayesianConfig::new(LEN, SlangConfig::new().with_rank(3).with_momentum(0.9)).with_draws(2), 3;
    shape slang_grouped: BayesianConfig::new(LEN, SlangConfig::new().with_rank(2).with_group_size(4)), 2;
    shape vogn: BayesianConfig::new(LEN, SlangConfig::vogn()), 0;
    shape von_of_price: BayesianConfig::new(LEN, VonConfig::new()), 0;
    shape von_of_hutchinson: BayesianConfig::new(LEN, VonConfig::new().with_curvature(Curvature::Hutchinson { probe: 0.1 })), 0;
    shape von_of_squares: BayesianConfig::new(LEN, VonConfig::new().with_curvature(Curvature::SquaredMean).with_momentum(0.9)), 0;
    shape vadam: BayesianConfig::new(LEN, VadamConfig::new()), 0;
    shape nagvac: BayesianConfig::new(LEN, NagvacConfig::new()), 1;
    shape ivon: BayesianConfig::new(LEN, IvonConfig::new()), 0;
    shape ivon_in_one_stage: BayesianConfig::new(LEN, IvonConfig::new().with_initial_hessian(Some(16.0))).with_mean_stage(MeanStage::None), 0;
    points iterate_averaging: BayesianConfig::new(LEN, IterateAveragingConfig::new(5, 3)), 8;
    points sghmc: BayesianConfig::new(LEN, SghmcConfig::new(SAMPLED)).with_mean_stage(MeanStage::None), 6;
    points sghmc_in_stages: BayesianConfig::new(LEN, SghmcConfig::new(SAMPLED)).with_mean_stage(MeanStage::Steps(6)), 6;
    points sgld: BayesianConfig::new(LEN, SghmcConfig::sgld(CYCLES).with_max_samples(4)).with_mean_stage(MeanStage::None), 4;
    points batch_ensemble: BayesianConfig::new(LEN, BatchEnsembleConfig::new(3)), 3;
}

prior_conformance! {
    vifa_takes_another_prior: one_stage(LEN).map_method(|method| method.with_rank(2));
    slang_takes_another_prior: BayesianConfig::new(LEN, SlangConfig::new().with_rank(2));
    von_takes_another_prior: BayesianConfig::new(LEN, VonConfig::new());
    vadam_takes_another_prior: BayesianConfig::new(LEN, VadamConfig::new());
    ivon_takes_another_prior: BayesianConfig::new(LEN, IvonConfig::new());
    nagvac_takes_another_prior: BayesianConfig::new(LEN, NagvacConfig::new());
    batch_ensemble_takes_another_prior: BayesianConfig::new(LEN, BatchEnsembleConfig::new(2));
    sghmc_takes_another_prior: BayesianConfig::new(LEN, SghmcConfig::new(SAMPLED));
}

additive_conformance! {
    vifa_does_not_depend_on_the_batch_size: BayesianConfig::new(LEN, VifaConfig::new().with_rank(2)).with_draws(2);
    mean_field_does_not_depend_on_the_batch_size: BayesianConfig::new(LEN, VifaConfig::new().with_rank(0));
    batch_ensemble_does_not_depend_on_the_batch_size: BayesianConfig::new(LEN, BatchEnsembleConfig::new(2));
    swag_does_not_depend_on_the_batch_size: BayesianConfig::new(LEN, SwagConfig::new().with_start(Some(1)).with_rank(0));
    iterate_averaging_does_not_depend_on_the_batch_size: BayesianConfig::new(LEN, IterateAveragingConfig::new(1, 2));
}

gradient_conformance! {
    vifa_of_rank_one_objective: one_stage;
    vifa_of_rank_three_objective: |len| one_stage(len).map_method(|method| method.with_rank(3));
    vifa_in_units_of_weights_objective: |len| one_stage(len).map_method(|method| method.with_rank(3).with_factor_units(FactorUnits::Weights));
    mean_field_objective: |len| one_stage(len).map_method(|method| method.with_rank(0));
    vafc_objective: |len| BayesianConfig::paper(len, VifaConfig::vafc(2));
}
