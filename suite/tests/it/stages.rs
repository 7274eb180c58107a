//! The laws of trainings in stages, each tested once for all methods that have them.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::ModuleOptimizer;
use burn::store::ModuleRecord;
use burn::tensor::{Device, Tensor};
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{
    Algorithm, Averaging, IvonConfig, MeanStage, Stage, VadamConfig, VonConfig,
};
use burn_bayes::train::{Batches, Gather, Trainer, TrainerModel};
use burn_bayes::{Bayesian, BayesianConfig, FactorPosterior, Prior, SlangConfig, VifaConfig};
use burn_bayes_contrib::methods::{NagvacConfig, SamplingSchedule, SghmcConfig};

use crate::conformance::{Batch, Bayes, LEN, Regressor, adam, regressor};
use crate::support::{autodiff, filled, state, values};

/// The first stage of the tests, and the first step of the last.
const MEAN: u64 = 30;
const LAST: u64 = MEAN + 64 + 1;
const RATE: f64 = 0.01;
/// Steps whose loss is not finite, in each stage.
const BROKEN: [u64; 3] = [20, 50, 97];

/// Every fifth mini-batch has one row.
fn batch(step: u64) -> Batch {
    let data = Batch::new(LEN, 1);
    let start = (step as usize * 7) % 30;
    data.rows(start, start + if step.is_multiple_of(5) { 1 } else { 10 })
}

fn broken(step: u64) -> Batch {
    let batch = batch(step);
    Batch {
        targets: batch.targets * f32::NAN,
        ..batch
    }
}

/// Makes the steps from `from` to `to`, both included, with another prior from step 60 on.
fn stepped<A>(
    mut bayesian: Bayes<A>,
    optimizer: &mut ModuleOptimizer,
    (from, to): (u64, u64),
    rejects: bool,
) -> Bayes<A>
where
    A: Algorithm<Signal: Gather<Regressor, A>>,
{
    for step in from..=to {
        if step == 60 {
            bayesian = bayesian.with_prior(&Prior::isotropic(3.0)).unwrap();
        }
        let batch = match rejects && BROKEN.contains(&step) {
            true => broken(step),
            false => batch(step),
        };
        let gradients = TrainStep::step(&bayesian, batch).grads;
        bayesian = bayesian.optimize(optimizer, RATE.into(), gradients);
        assert!(bayesian.fault().is_none(), "{:?}", bayesian.fault());
    }
    bayesian
}

fn trained<A>(bayesian: Bayes<A>, steps: u64) -> Bayes<A>
where
    A: Algorithm<Signal: Gather<Regressor, A>>,
{
    stepped(bayesian, &mut adam(), (1, steps), false)
}

mod law {
    use super::*;

    /// A training that goes on from a record of any step, in all stages, with short mini-batches, rejected steps and a
    /// prior that changes, ends in the same bits.
    pub(super) fn resumes<A>(init: impl Fn() -> Bayes<A>, rejects: bool)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        const STEPS: u64 = 110;
        let mut optimizer = adam();
        let mut bayesian = init();
        let mut records = Vec::new();
        for step in 1..=STEPS {
            bayesian = stepped(bayesian, &mut optimizer, (step, step), rejects);
            records.push((
                bayesian.clone().into_record().into_bytes().unwrap(),
                optimizer.into_bytes().unwrap(),
            ));
        }
        let expected = state(&bayesian);
        for at in [
            1, 19, 20, 21, 29, 30, 31, 50, 59, 60, 61, 93, 94, 95, 97, 109,
        ] {
            let (model, moments) = records[at as usize - 1].clone();
            let fresh = init().load_record(ModuleRecord::from_bytes(model).unwrap());
            let mut optimizer = adam().from_bytes(moments).unwrap();
            let resumed = stepped(fresh, &mut optimizer, (at + 1, STEPS), rejects);
            assert_eq!(state(&resumed), expected, "from step {at}");
        }
    }

    /// An average contains iterates of the last stage only, wherever it is asked to begin, also if the first of them is
    /// rejected: with one iterate it is this iterate.
    pub(super) fn averages<A>(init: impl Fn(Averaging) -> Bayes<A>, rejects: bool)
    where
        A: Algorithm<Signal: Gather<Regressor, A>, Posterior = FactorPosterior>,
    {
        for from in [0, 1, 20, MEAN, MEAN + 1, LAST - 1, LAST] {
            let mut optimizer = adam();
            let bayesian = init(Averaging::From(from));
            let mut bayesian = stepped(bayesian, &mut optimizer, (1, LAST - 1), false);
            assert_eq!(bayesian.algorithm().stage(), Stage::Posterior);
            if rejects {
                let gradients = TrainStep::step(&bayesian, broken(LAST)).grads;
                bayesian = bayesian.optimize(&mut optimizer, RATE.into(), gradients);
            }
            bayesian = stepped(bayesian, &mut optimizer, (LAST, LAST), false);
            let last = bayesian.algorithm().last_mean().expect("it has a mean");
            let mean = bayesian.posterior().mean();
            for (found, expected) in values(&mean).iter().zip(values(&last)) {
                let error = (found - expected).abs();
                assert!(
                    error <= 1e-6 * (1.0 + expected.abs()),
                    "From({from}): {found} {expected}"
                );
            }
        }
    }

    /// The covariance at the end of the first stage does not depend on the size of the stage's last mini-batch.
    pub(super) fn last_batch<A>(init: impl Fn() -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>, Posterior = FactorPosterior>,
    {
        let variances = |last: usize| {
            let mut optimizer = adam();
            let bayesian = stepped(init(), &mut optimizer, (1, MEAN - 1), false);
            let gradients = TrainStep::step(&bayesian, Batch::new(LEN, 1).rows(3, 3 + last)).grads;
            let bayesian = bayesian.optimize(&mut optimizer, RATE.into(), gradients);
            let posterior = bayesian.algorithm().posterior(MEAN).unwrap();
            values(&posterior.variance().unwrap())
        };
        // One gradient in thirty is another one, by at most ten times the variance of the others.
        for (one, ten) in variances(1).iter().zip(variances(10)) {
            assert!((one / ten).ln().abs() < 1.0, "{one} {ten}");
        }
    }

    /// No steps of the first stage are no first stage.
    pub(super) fn no_steps<A>(init: impl Fn(MeanStage) -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        let after = |stage| state(&trained(init(stage), 6));
        assert_eq!(after(MeanStage::Steps(0)), after(MeanStage::None));
    }

    /// A short training reaches the last stage if the trainer knows its length, and says that it has not otherwise.
    pub(super) fn short<A>(init: impl Fn() -> Bayes<A>)
    where
        A: Algorithm<Signal: Gather<Regressor, A>>,
    {
        struct Rows;
        impl Batches for Rows {
            type Batch = Batch;
            fn per_epoch(&self) -> usize {
                4
            }
            fn epoch(&self, _: usize, first: usize) -> impl Iterator<Item = Batch> {
                let data = Batch::new(LEN, 1);
                (first..4).map(move |at| data.rows(10 * at, 10 * at + 10))
            }
        }
        let trainer = Trainer::new(init(), adam(), RATE).with_epochs(10);
        let run = trainer.run(&Rows, &mut ()).unwrap();
        let model = run.trainer.into_model();
        assert_eq!(model.algorithm().stage(), Stage::Posterior);
        assert!(!model.verdict().is_unfinished);

        let model = trained(init(), 40);
        assert!(model.verdict().is_unfinished);
    }
}

macro_rules! laws {
    ($($name:ident: $config:expr, rejects: $rejects:expr;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn goes_on_in_the_same_bits_from_any_step() {
                let config = $config.with_mean_stage(MeanStage::Steps(MEAN));
                law::resumes(|| config.clone().init(regressor(1)), $rejects);
            }

            #[test]
            fn averages_iterates_of_the_last_stage_only() {
                let config = $config.with_mean_stage(MeanStage::Steps(MEAN));
                law::averages(|from| config.clone().with_averaging(from).init(regressor(1)), $rejects);
            }

            #[test]
            fn begins_its_covariance_whatever_the_size_of_the_last_mini_batch() {
                let config = $config.with_mean_stage(MeanStage::Steps(MEAN));
                law::last_batch(|| config.clone().init(regressor(1)));
            }

            #[test]
            fn has_no_first_stage_of_no_steps() {
                law::no_steps(|stage| $config.with_mean_stage(stage).init(regressor(1)));
            }

            #[test]
            fn reaches_its_posterior_in_a_short_training_or_says_that_it_has_none() {
                law::short(|| $config.init(regressor(1)));
            }
        }
    )+};
}

laws! {
    vifa: BayesianConfig::new(LEN, VifaConfig::new().with_rank(2)), rejects: false;
    slang: BayesianConfig::new(LEN, SlangConfig::new().with_rank(2)), rejects: true;
    vogn: BayesianConfig::new(LEN, SlangConfig::vogn()), rejects: true;
    von: BayesianConfig::new(LEN, VonConfig::new()), rejects: true;
    vadam: BayesianConfig::new(LEN, VadamConfig::new()), rejects: true;
    ivon: BayesianConfig::new(LEN, IvonConfig::new()), rejects: true;
    nagvac: BayesianConfig::new(LEN, NagvacConfig::new()), rejects: true;
}

/// Its posterior is not Gaussian, and its first stages are those of the others.
mod sghmc {
    use super::*;

    fn config(start: u64) -> BayesianConfig<SghmcConfig> {
        BayesianConfig::new(
            LEN,
            SghmcConfig::new(SamplingSchedule::Constant { start, interval: 6 }),
        )
    }

    #[test]
    fn goes_on_in_the_same_bits_from_any_step() {
        // The second stage has 19 steps.
        let config = config(80).with_mean_stage(MeanStage::Steps(MEAN));
        law::resumes(|| config.init(regressor(1)), true);
    }

    #[test]
    fn its_first_stages_are_over_before_the_first_sample() {
        for start in [17, 30, 300] {
            let config = config(start);
            let early = trained(config.init(regressor(1)), start / 4);
            assert_eq!(early.algorithm().stage(), Stage::Mean, "{start}");
            let late = trained(config.init(regressor(1)), start + 5);
            assert_eq!(late.algorithm().stage(), Stage::Posterior, "{start}");
            let sghmc = late.algorithm();
            let samples = [start - 1, start, start + 5];
            let samples = samples.map(|step| sghmc.state().samples(sghmc.context(), step));
            assert_eq!(samples, [0, 1, 1], "{start}");
        }
        let short = config(16).init(regressor(1));
        assert_eq!(short.algorithm().stage(), Stage::Single);
    }
}

#[test]
fn a_record_is_not_resumed_with_other_settings() {
    let record = || {
        let bayesian = trained(
            BayesianConfig::new(LEN, VonConfig::new()).init(regressor(1)),
            3,
        );
        ModuleRecord::from_bytes(bayesian.into_record().into_bytes().unwrap()).unwrap()
    };
    let cases = [
        (BayesianConfig::new(LEN, VonConfig::new()), ""),
        (BayesianConfig::new(2 * LEN, VonConfig::new()), "train_len"),
        (
            BayesianConfig::new(LEN, VonConfig::new()).with_seed(1),
            "config",
        ),
        (
            BayesianConfig::new(LEN, VonConfig::new()).with_prior(Prior::isotropic(2.0)),
            "config",
        ),
    ];
    for (config, name) in cases {
        let resumed = config.init(regressor(1)).load_record(record());
        match resumed.try_posterior() {
            Ok(_) => assert_eq!(name, "", "it was resumed"),
            Err(error) => assert!(
                error.to_string().starts_with(name) && !name.is_empty(),
                "{error}"
            ),
        }
    }
}

/// A classifier with batch norm, of two well separated classes.
#[derive(Module, Debug)]
struct Normalised {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

impl Normalised {
    fn new(device: &Device) -> Self {
        let model = Self {
            first: LinearConfig::new(2, 64).init(device),
            norm: BatchNormConfig::new(64).init(device),
            last: LinearConfig::new(64, 1).init(device),
        };
        filled(model, 3, 0.3)
    }

    /// log(1 + exp(−y f)), y = ±1.
    fn losses(&self, (inputs, targets): (Tensor<2>, Tensor<2>)) -> Tensor<2> {
        let hidden = self.norm.forward(self.first.forward(inputs)).tanh();
        let margin = self.last.forward(hidden) * targets;
        burn::tensor::activation::softplus(margin.neg(), 1.0)
    }
}

impl TrainStep for Normalised {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, batch: Self::Input) -> TrainOutput<RegressionOutput> {
        let losses = self.losses(batch.clone());
        let loss = losses.clone().mean();
        TrainOutput::new(
            self,
            loss.backward(),
            RegressionOutput::new(loss, losses, batch.1),
        )
    }
}

impl TrainerModel for Normalised {}

const ROWS: usize = 30;

fn separated(device: &Device) -> (Tensor<2>, Tensor<2>) {
    let noise = crate::support::normals(5, 2 * ROWS);
    let side = |row: usize| if row.is_multiple_of(2) { 1.0f32 } else { -1.0 };
    let inputs: Vec<f32> = (0..2 * ROWS)
        .map(|at| 2.0 * side(at / 2) + 0.5 * noise[at])
        .collect();
    let targets: Vec<f32> = (0..ROWS).map(side).collect();
    (
        Tensor::<1>::from_data(inputs.as_slice(), device).reshape([ROWS, 2]),
        Tensor::<1>::from_data(targets.as_slice(), device).reshape([ROWS, 1]),
    )
}

/// The mean loss of 20 draws, and that of the mean, in inference.
fn losses<A>(bayesian: &Bayesian<Normalised, A>) -> (f64, f64)
where
    A: Algorithm<Posterior = FactorPosterior>,
{
    let batch = separated(&Device::default());
    let loss = |model: &Normalised| model.losses(batch.clone()).mean().into_scalar::<f64>();
    let draws = bayesian
        .predictor()
        .unwrap()
        .map_draws(20, |model| loss(model))
        .unwrap();
    (
        draws.iter().sum::<f64>() / 20.0,
        loss(&bayesian.mean_model().unwrap()),
    )
}

/// Squared gradients vanish where a network fits all rows, and so does the pull of the likelihood on weights before batch
/// norm. The draws fit the rows all the same, after any number of steps.
fn draws_fit<A>(init: impl Fn(Normalised) -> Bayesian<Normalised, A>)
where
    A: Algorithm<Signal: Gather<Normalised, A>, Posterior = FactorPosterior>,
{
    struct Rows(Device);
    impl Batches for Rows {
        type Batch = (Tensor<2>, Tensor<2>);
        fn per_epoch(&self) -> usize {
            1
        }
        fn epoch(&self, _: usize, first: usize) -> impl Iterator<Item = Self::Batch> {
            std::iter::once(separated(&self.0)).skip(first)
        }
    }
    for epochs in [300, 1500] {
        let bayesian = init(Normalised::new(&autodiff()));
        let trainer = Trainer::new(bayesian, adam(), RATE).with_epochs(epochs);
        let run = trainer.run(&Rows(autodiff()), &mut ()).unwrap();
        let (draws, mean) = losses(&run.trainer.into_model().valid());
        // A guess has ln 2 = .69.
        assert!(
            mean < 0.1 && draws < 0.25,
            "{epochs}: {draws} at draws, {mean} at the mean"
        );
    }
}

#[test]
fn draws_of_vifa_fit_a_network_with_batch_norm() {
    draws_fit(|model| BayesianConfig::new(ROWS, VifaConfig::new()).init(model));
}

#[test]
fn draws_of_von_fit_a_network_with_batch_norm() {
    draws_fit(|model| BayesianConfig::new(ROWS, VonConfig::new()).init(model));
}

#[test]
fn draws_of_ivon_fit_a_network_with_batch_norm() {
    draws_fit(|model| BayesianConfig::new(ROWS, IvonConfig::new()).init(model));
}

#[test]
fn draws_of_nagvac_fit_a_network_with_batch_norm() {
    draws_fit(|model| BayesianConfig::new(ROWS, NagvacConfig::new()).init(model));
}
