//! Every method as a user who sets nothing has it.

use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::{InferenceStep, TrainStep};
use burn_bayes::graph::Layout;
use burn_bayes::laplace::{Laplace, Linearized};
use burn_bayes::methods::{
    Algorithm, IvonConfig, LearningRates, MethodConfig, VadamConfig, VonConfig,
};
use burn_bayes::posterior::{Mixture, PointPosterior};
use burn_bayes::train::{Batches, Gather, PostHoc, Trainer, TrainerModel};
use burn_bayes::{
    BayesianConfig, ExampleLoss, FactorPosterior, FusedAdamConfig, Noise, Posterior, Predictor,
    Result, SlangConfig, SwagConfig, VifaConfig,
};
use burn_bayes_contrib::methods::{
    BatchEnsembleConfig, FactorAnalysisConfig, IterateAveragingConfig, NagvacConfig,
    SamplingSchedule, SghmcConfig,
};

use super::networks::{Batch, Kind, Net, Rows};
use crate::support::{autodiff, device, normals, values};

const TRAIN: usize = 288;
const BATCH: usize = 24;
const EPOCHS: usize = 60;
const PER_EPOCH: usize = TRAIN / BATCH;
const STEPS: usize = EPOCHS * PER_EPOCH;
const SAMPLED: SamplingSchedule = SamplingSchedule::Constant {
    start: STEPS as u64 / 2,
    interval: PER_EPOCH as u64,
};
const DRAWS: usize = 30;
const MEMBERS: usize = 4;

/// A network before its training, and rows.
pub(super) struct Problem {
    seed: u64,
    net: Net,
    /// Trained without a posterior, from several starts and in several orders.
    plain: Vec<Net>,
    train: Rows,
    valid: Rows,
    test: Rows,
}

/// The losses of the test rows, and what the library says against the fit.
pub(super) struct Fit {
    pub(super) losses: Vec<f64>,
    pub(super) problem: Option<String>,
}

impl Fit {
    /// By a method that is not trained, and has no verdict.
    fn unjudged(losses: Vec<f64>) -> Self {
        Self {
            losses,
            problem: None,
        }
    }
}

/// Mini-batches in an order that the seed and the epoch give.
struct Shuffled<'a> {
    rows: &'a Rows,
    seed: u64,
    device: Device,
}

impl Batches for Shuffled<'_> {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        self.rows.len() / BATCH
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let keys = normals(7919 * self.seed + epoch as u64, order.len());
        order.sort_by(|&one, &other| keys[one].total_cmp(&keys[other]));
        (first..self.per_epoch()).map(move |at| {
            self.rows
                .batch(&order[at * BATCH..(at + 1) * BATCH], &self.device)
        })
    }
}

impl Problem {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        let rows = |number, len| Rows::new(kind, false, 10 * seed + number, len);
        let started = |start| {
            let device = autodiff();
            device.seed(start);
            let net = Net::new(kind, &device);
            // Lazy weights are initialised here, with this seed.
            Layout::new(&net, &ParamGroup::all()).unwrap();
            net
        };
        let base = (kind == Kind::Lora).then(|| {
            let source = Rows::new(kind, true, 10 * seed + 4, 2 * TRAIN);
            let base = ran(started(seed), &source, LearningRates::PLAIN, seed);
            base.unwrap().0.adapted()
        });
        let start = |start| base.clone().unwrap_or_else(|| started(start));
        let (net, train) = (start(seed), rows(1, TRAIN));
        let plain = (0..MEMBERS).map(|member| {
            let seed = seed + 100 * member as u64;
            let net = ran(start(seed), &train, LearningRates::PLAIN, seed);
            net.unwrap().0.valid()
        });
        Self {
            seed,
            net,
            plain: plain.collect(),
            train,
            valid: rows(2, 200),
            test: rows(3, 600),
        }
    }

    /// The losses of the plain networks.
    pub(super) fn plain(&self) -> Vec<Vec<f64>> {
        self.plain.iter().map(|net| self.losses_of(net)).collect()
    }

    /// A plain network and its Laplace approximation.
    fn laplace(&self) -> Result<(Net, FactorPosterior)> {
        let net = self.plain[0].clone();
        let batch = self.train.all(&autodiff());
        let posterior = Laplace::new(TRAIN).fit(&net.clone().train(), [batch])?;
        Ok((net, posterior))
    }

    fn losses_of(&self, net: &Net) -> Vec<f64> {
        values(&net.example_losses(self.test.all(&device())))
    }

    /// The losses of the average over draws.
    fn averaged<P: Posterior + 'static>(&self, predictor: &Predictor<Net, P>) -> Result<Vec<f64>> {
        let draws = predictor.map_draws(DRAWS, |net| self.losses_of(net))?;
        let rows = 0..draws[0].len();
        Ok(rows
            .map(|row| {
                let sum: f64 = draws.iter().map(|losses| (-losses[row]).exp()).sum();
                -(sum / DRAWS as f64).ln()
            })
            .collect())
    }

    /// The fit of a method at its defaults.
    fn fit<C>(&self, method: C) -> Result<Fit>
    where
        C: MethodConfig<
            Algorithm: Algorithm<Signal: Gather<Net, C::Algorithm>, Posterior: 'static>,
        >,
    {
        let config = BayesianConfig::new(TRAIN, method).with_seed(self.seed);
        let model = config.try_init(self.net.clone())?;
        let (model, found) = ran(model, &self.train, config.learning_rates(), self.seed)?;
        let valid = model.valid();
        InferenceStep::step(&valid, self.valid.all(&device()));
        let problems = [found, model.verdict().problems()].concat();
        Ok(Fit {
            losses: self.averaged(&valid.predictor()?)?,
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
        })
    }
}

/// The model after its training, and what is said against it.
fn ran<L>(model: L, rows: &Rows, rates: LearningRates, seed: u64) -> Result<(L, Vec<String>)>
where
    L: TrainerModel + TrainStep<Input = Batch> + ModuleDisplay,
{
    let device = autodiff();
    let batches = Shuffled { rows, seed, device };
    let steps = EPOCHS * batches.per_epoch();
    let rates = rates.over(steps).init();
    let trainer = Trainer::new(model, FusedAdamConfig::new().init(), rates).with_epochs(EPOCHS);
    let run = trainer.run(&batches, &mut ())?;
    let problems = run
        .verdict
        .map_or_else(Vec::new, |verdict| verdict.problems());
    Ok((run.trainer.into_model(), problems))
}

type Method = fn(&Problem) -> Result<Fit>;

/// All methods.
pub(super) const METHODS: &[(&str, Method)] = &[
    ("vifa", |problem| problem.fit(VifaConfig::new())),
    ("mean-field", |problem| {
        problem.fit(VifaConfig::new().with_rank(0))
    }),
    ("slang", |problem| problem.fit(SlangConfig::new())),
    ("vogn", |problem| problem.fit(SlangConfig::vogn())),
    ("von", |problem| problem.fit(VonConfig::new())),
    ("vadam", |problem| problem.fit(VadamConfig::new())),
    ("ivon", |problem| problem.fit(IvonConfig::new())),
    ("nagvac", |problem| problem.fit(NagvacConfig::new())),
    ("swag", |problem| {
        problem.fit(SwagConfig::paper(TRAIN, BATCH, EPOCHS))
    }),
    ("factor-analysis", |problem| {
        problem.fit(FactorAnalysisConfig::new().with_start(Some(3 * STEPS as u64 / 4)))
    }),
    ("iterate-averaging", |problem| {
        problem.fit(IterateAveragingConfig::new(
            3 * STEPS as u64 / 4 + 1,
            PER_EPOCH as u64,
        ))
    }),
    ("sghmc", |problem| problem.fit(SghmcConfig::new(SAMPLED))),
    ("sgld", |problem| problem.fit(SghmcConfig::sgld(SAMPLED))),
    ("batch-ensemble", |problem| {
        problem.fit(BatchEnsembleConfig::new(MEMBERS))
    }),
    ("ensemble", |problem| {
        let members = problem.plain.iter();
        let members = members.map(|net| PointPosterior::of(net, &ParamGroup::all()));
        let mixture = Mixture::uniform(members.collect::<Result<Vec<_>>>()?)?;
        let predictor = Predictor::new(problem.net.valid(), mixture, Noise::new(problem.seed))?;
        Ok(Fit::unjudged(problem.averaged(&predictor)?))
    }),
    ("laplace", |problem| {
        let (net, posterior) = problem.laplace()?;
        let predictor = Predictor::new(net, posterior, Noise::new(problem.seed))?;
        Ok(Fit::unjudged(problem.averaged(&predictor)?))
    }),
    ("laplace-linearized", |problem| {
        let (net, posterior) = problem.laplace()?;
        let linearized = Linearized::new(net, posterior)?;
        let batch = problem.test.all(&device());
        let noise = Noise::new(problem.seed);
        let logits = linearized.draws(&batch.inputs, noise, DRAWS)?;
        let classes = batch.classes.unsqueeze_dims::<3>(&[0, 2]);
        let classes = classes.repeat_dim(0, DRAWS);
        let likely = softmax(logits, 2).gather(2, classes).mean_dim(0);
        Ok(Fit::unjudged(values(&likely.log().neg())))
    }),
];
