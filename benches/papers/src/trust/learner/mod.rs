//! Models that no default was chosen on, with the library's configurations as they are documented.

mod networks;
mod tasks;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::methods::{
    Algorithm, IvonConfig, LearningRates, MethodConfig, VadamConfig, VonConfig,
};
use burn_bayes::prelude::*;
use burn_bayes::train::{Gather, Trainer, TrainerModel};
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_contrib::methods::{BatchEnsembleConfig, SamplingSchedule, SghmcConfig};

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::DeviceName;

use self::networks::{Mdn, Network, Recurrent, VisionTransformer, Wrapped};
use self::tasks::Task;
use super::{FAILED_COLUMN, NLL, NLL_COLUMN, or_diverged};
use crate::experiment::{Column, Context, Experiment};
use crate::findings::Finding;
use crate::linear_model::Batch;
use crate::results::Results;
use crate::shared::Shared;
use crate::stream::Stream;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-learner",
    title: "networks of other kinds, with the library's defaults",
    notes: "Held-out NLL of a vision transformer on the 8×8 digits, a mixture density network of a curve with several \
            branches, and a gated recurrent unit that tells two random processes apart, with each configuration's \
            defaults and its tuned rates. `plain` is Adam with weight decay by the same prior.",
    needs: &["sklearn"],
    columns: &[NLL_COLUMN, Column::mean(SECONDS, "fit, s"), FAILED_COLUMN],
    published: "",
    jobs,
    findings,
};

const SECONDS: &str = "seconds";
const BATCH: usize = 32;
/// Draws of a prediction.
const DRAWS: usize = 100;
/// Members of a batch ensemble.
const MEMBERS: usize = 4;
/// The precision of the prior, the configurations' default.
const PRIOR: f64 = 1.0;

/// What trains a network.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Training {
    Plain,
    Vifa(usize),
    Slang(usize),
    Von,
    Vadam,
    Ivon,
    Swag,
    Sgld,
    Sghmc,
    BatchEnsemble,
}

const TRAININGS: [(&str, Training); 12] = [
    ("plain", Training::Plain),
    ("vifa 1", Training::Vifa(1)),
    ("vifa 8", Training::Vifa(8)),
    ("slang 1", Training::Slang(1)),
    ("vogn", Training::Slang(0)),
    ("von", Training::Von),
    ("vadam", Training::Vadam),
    ("ivon", Training::Ivon),
    ("swag", Training::Swag),
    ("sgld", Training::Sgld),
    ("sghmc", Training::Sghmc),
    ("batch ensemble", Training::BatchEnsemble),
];

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let epochs = |epochs: u64| context.effort.choose(epochs, epochs.div_ceil(20));
    for seed in 0..context.effort.choose(3, 1) {
        let digits = {
            let data = context.data.clone();
            Shared::new(move || tasks::digits(&data, seed))
        };
        let curve = Shared::new(move || Ok(tasks::branches(seed)));
        let processes = Shared::new(move || Ok(tasks::processes(seed)));
        for training in TRAININGS {
            jobs.extend([
                job::<VisionTransformer>(&digits, training, epochs(40), seed)?,
                job::<Mdn>(&curve, training, epochs(100), seed)?,
                job::<Recurrent>(&processes, training, epochs(60), seed)?,
            ]);
        }
    }
    Ok(jobs)
}

fn job<N: Network>(
    task: &Arc<Shared<Task>>,
    (method, training): (&str, Training),
    epochs: u64,
    seed: u64,
) -> Result<Job> {
    let task = task.clone();
    let work = move || {
        let fit = Fit {
            task: &*task.get()?,
            epochs,
            seed,
        };
        or_diverged(fit.measures::<N>(training))
    };
    let key = Key::new(N::NAME, method, seed);
    Job::new(key, &epochs, work)
}

/// A network, trained on a task.
struct Fit<'a> {
    task: &'a Task,
    epochs: u64,
    seed: u64,
}

impl Fit<'_> {
    fn measures<N: Network>(&self, training: Training) -> Result<Measures> {
        let start = Instant::now();
        let losses = self.losses::<N>(training)?;
        let nll = losses.iter().sum::<f64>() / losses.len() as f64;
        Ok(Measures::from([
            (NLL.into(), nll),
            (SECONDS.into(), start.elapsed().as_secs_f64()),
        ]))
    }

    /// −log p(target) of every held-out row.
    fn losses<N: Network>(&self, training: Training) -> Result<Vec<f64>> {
        let device = DeviceName::host()?.autodiff();
        let model = self.model::<N>(&device);
        match training {
            Training::Plain => {
                let model = self.trained(model, LearningRates::PLAIN, true)?.valid();
                let losses = model
                    .network
                    .losses(self.task.test.all(&DeviceName::host()?));
                Ok(losses.into_data().iter::<f64>().collect())
            }
            Training::Vifa(rank) => self.fit(model, VifaConfig::new().with_rank(rank)),
            Training::Slang(rank) => self.fit(model, SlangConfig::new().with_rank(rank)),
            Training::Von => self.fit(model, VonConfig::new()),
            Training::Vadam => self.fit(model, VadamConfig::new()),
            Training::Ivon => self.fit(model, IvonConfig::new()),
            Training::Swag => {
                let swag = SwagConfig::paper(self.task.train.len(), BATCH, self.epochs as usize);
                self.fit(model, swag)
            }
            Training::Sgld => self.fit(model, SghmcConfig::sgld(self.cycles())),
            Training::Sghmc => self.fit(model, SghmcConfig::new(self.cycles())),
            Training::BatchEnsemble => self.fit(model, BatchEnsembleConfig::new(MEMBERS)),
        }
    }

    /// Four cycles with five samples from each.
    fn cycles(&self) -> SamplingSchedule {
        SamplingSchedule::Cyclical {
            length: (self.steps() as u64).div_ceil(4),
            exploration: 0.8,
            samples: 5,
        }
    }

    /// A network with initial weights of the seed. Burn's random numbers belong to the process.
    fn model<N: Network>(&self, device: &Device) -> Wrapped<N> {
        static RANDOM: Mutex<()> = Mutex::new(());
        let _held = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
        device.seed(self.seed);
        Wrapped {
            network: N::new(device),
        }
    }

    /// The fit of a method at its defaults. SWAG's prior is weight decay.
    fn fit<N, C>(&self, model: Wrapped<N>, method: C) -> Result<Vec<f64>>
    where
        N: Network,
        C: MethodConfig,
        C::Algorithm: Algorithm<Signal: Gather<Wrapped<N>, C::Algorithm>>,
    {
        let config = BayesianConfig::new(self.task.train.len(), method).with_seed(self.seed);
        let has_penalty = !C::USES.contains(&"prior");
        let model = config.try_init(model)?;
        self.mixed(&self.trained(model, config.learning_rates(), has_penalty)?)
    }

    fn trained<L>(&self, model: L, rates: LearningRates, has_penalty: bool) -> Result<L>
    where
        L: TrainerModel + TrainStep<Input = Batch>,
    {
        let device = DeviceName::host()?.autodiff();
        let penalty = WeightDecayConfig::new((PRIOR / self.task.train.len() as f64) as f32);
        let optimizer = FusedAdamConfig::new().with_weight_decay(has_penalty.then_some(penalty));
        let rates = rates.over(self.steps()).try_init()?;
        let stream = Stream {
            steps: self.steps(),
            batches: || self.task.train.batches(BATCH, self.seed, &device),
        };
        let trainer = Trainer::new(model, optimizer.init(), rates).without_row_check();
        let run = trainer.run(&stream, &mut ())?;
        Ok(run.trainer.into_model())
    }

    fn steps(&self) -> usize {
        self.task.train.batches_in(self.epochs, BATCH) as usize
    }

    /// The losses of the mixture over draws.
    fn mixed<N, A>(&self, model: &Bayesian<Wrapped<N>, A>) -> Result<Vec<f64>>
    where
        N: Network,
        A: Algorithm<Signal: Gather<Wrapped<N>, A>>,
    {
        let batch = self.task.test.all(&DeviceName::host()?);
        let evaluate = |drawn: &Wrapped<N>| -> Vec<f64> {
            let losses = drawn.network.losses(batch.clone());
            losses.into_data().iter::<f64>().collect()
        };
        let draws = model.valid().predictor()?.map_draws(DRAWS, evaluate)?;
        let rows = 0..self.task.test.len();
        Ok(rows
            .map(|row| mixture_loss(draws.iter().map(|losses| losses[row])))
            .collect())
    }
}

/// −log mean exp(−loss) over the draws of a row.
fn mixture_loss(losses: impl Iterator<Item = f64> + Clone) -> f64 {
    let least = losses.clone().fold(f64::INFINITY, f64::min);
    let (mut sum, mut count) = (0.0, 0.0);
    for loss in losses {
        sum += (least - loss).exp();
        count += 1.0;
    }
    least - (sum / count).ln()
}

/// The trainings that are not [`Training::Plain`], each beside it, for every network.
fn findings(results: &Results<'_>) -> Vec<Finding> {
    let cases = [VisionTransformer::NAME, Mdn::NAME, Recurrent::NAME];
    let methods = TRAININGS.iter().map(|(method, _)| *method);
    let beside_plain = methods
        .filter(|method| *method != TRAININGS[0].0)
        .map(|method| {
            let pairs = cases.map(|case| {
                let plain = results.mean(case, TRAININGS[0].0, NLL)?;
                Some((results.mean(case, method, NLL)?, plain + 0.1 * plain.abs()))
            });
            let claim = format!("{method}: NLL at most plain's plus a tenth on every network");
            Finding::mostly_at_most(claim, 1.0, &pairs)
        });
    beside_plain.collect()
}
