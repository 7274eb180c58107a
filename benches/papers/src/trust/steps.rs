//! Steps of training after which a Gaussian with one factor is near the best of its family: NAGVAC beside VIFA.

use std::path::Path;
use std::sync::Arc;

use burn::train::{Interrupter, TrainStep};
use burn_bayes::methods::{FromGradients, MethodConfig};
use burn_bayes::posterior::{DenseGaussian, FormKind};
use burn_bayes::prelude::*;
use burn_bayes::train::Trainer;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_contrib::methods::NagvacConfig;
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::settings::DeviceName;

use crate::experiment::{Column, Context, Experiment, Job, Key, Measures};
use crate::findings::Finding;
use crate::linear_model::{Batch, Likelihood, LinearModel, Rows};
use crate::results::Results;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::{e3, e5};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-steps",
    title: "steps to the best Gaussian with one factor, NAGVAC beside VIFA",
    notes: "The least length of a training, in steps of a sequence that grows by √2, whose posterior q has \
            KL(q‖p) of at most 1.1 times the family's least, with each configuration's defaults and the rates of its \
            defaults. p is the exact posterior of the linear regressions of E3, and of the logistic regressions of E5 \
            the best full Gaussian by the bound. A training that does not get there counts with the longest length.",
    needs: &[
        "uci_regression",
        "australian_scale",
        "breast_cancer_scale",
        "a1a",
        "usps",
    ],
    columns: &[
        Column::mean(STEPS, "steps"),
        Column::mean(REACHED, "reached"),
        Column::mean(LEAST, "least KL(q‖p)"),
        Column::mean(FOUND, "KL(q‖p) then"),
    ],
    published: "",
    jobs,
    findings,
};

const STEPS: &str = "steps";
const REACHED: &str = "reached";
const LEAST: &str = "least_divergence";
const FOUND: &str = "divergence";

/// The divergence that counts as near, relative to the least.
const NEAR: f64 = 1.1;
const SHORTEST: f64 = 64.0;
const GROWTH: f64 = std::f64::consts::SQRT_2;

const VIFA: &str = "VIFA K=1";
const NAGVAC: &str = "NAGVAC";

/// A linear model, its posterior, and the least divergence of a Gaussian with one factor from it.
struct Truth {
    rows: Rows,
    prior: f64,
    likelihood: Likelihood,
    posterior: DenseGaussian,
    least: f64,
}

/// All that a job's result depends on, beside its data.
#[derive(Clone, Copy, Debug, Serialize)]
struct Training {
    batch: usize,
    longest: u64,
    seed: u64,
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut truths: Vec<(&'static str, usize, Arc<Shared<Truth>>)> = Vec::new();
    for set in &e5::SETS {
        let (data, name, prior) = (context.data.clone(), set.name, set.prior);
        let truth = move || logistic(&data, name, prior);
        truths.push((name, set.batch, Shared::new(truth)));
    }
    for set in &e3::SETS {
        let folder = context.data.join("uci_regression").join(set.folder);
        truths.push((set.name, 32, Shared::new(move || linear(&folder))));
    }
    let mut jobs = Vec::new();
    for (case, batch, truth) in truths {
        for method in [VIFA, NAGVAC] {
            for seed in 0..context.effort.choose(3, 1) {
                let key = Key::new(case, method, seed);
                let training = Training {
                    batch,
                    longest: context.effort.choose(1 << 16, 1 << 13),
                    seed,
                };
                let truth = truth.clone();
                let work = move || measure(&*truth.get()?, method, training);
                jobs.push(Job::new(key, &training, work)?);
            }
        }
    }
    Ok(jobs)
}

fn logistic(data: &Path, name: &str, prior: f64) -> Result<Truth> {
    let known = e5::known(data, name, prior)?;
    Truth::new(known.train, prior, Likelihood::Logistic, known.full)
}

fn linear(folder: &Path) -> Result<Truth> {
    let known = e3::truth(folder, 0)?;
    let likelihood = Likelihood::Gaussian(known.noise);
    Truth::new(known.rows, known.prior, likelihood, known.posterior)
}

impl Truth {
    fn new(
        rows: Rows,
        prior: f64,
        likelihood: Likelihood,
        posterior: DenseGaussian,
    ) -> Result<Self> {
        let least = posterior.nearest(FormKind::Covariance, 1, &[])?.divergence;
        Ok(Self {
            rows,
            prior,
            likelihood,
            posterior,
            least,
        })
    }
}

fn measure(truth: &Truth, method: &str, training: Training) -> Result<Measures> {
    let mut length = SHORTEST;
    let (steps, divergence) = loop {
        let steps = (length.round() as u64).min(training.longest);
        let found = match method {
            VIFA => vifa(truth, training, steps)?,
            _ => nagvac(truth, training, steps)?,
        };
        let divergence = found.kl_divergence(&truth.posterior)?;
        if divergence <= NEAR * truth.least || steps == training.longest {
            break (steps, divergence);
        }
        length *= GROWTH;
    };
    let reached = divergence <= NEAR * truth.least;
    Ok(Measures::from([
        (STEPS.into(), steps as f64),
        (REACHED.into(), f64::from(u8::from(reached))),
        (LEAST.into(), truth.least),
        (FOUND.into(), divergence),
    ]))
}

fn vifa(truth: &Truth, training: Training, steps: u64) -> Result<DenseGaussian> {
    truth.trained(VifaConfig::new(), training, steps)
}

fn nagvac(truth: &Truth, training: Training, steps: u64) -> Result<DenseGaussian> {
    truth.trained(NagvacConfig::new(), training, steps)
}

impl Truth {
    fn model(&self) -> Result<LinearModel> {
        let device = DeviceName::host()?.autodiff();
        Ok(LinearModel::new(self.rows.width, self.likelihood, &device))
    }

    fn trained<C>(&self, method: C, training: Training, steps: u64) -> Result<DenseGaussian>
    where
        C: MethodConfig<Algorithm: FromGradients<Posterior = FactorPosterior>>,
        Bayesian<LinearModel, C::Algorithm>: TrainStep<Input = Batch>,
    {
        let config = BayesianConfig::new(self.rows.len(), method)
            .with_prior(Prior::isotropic(self.prior))
            .with_seed(training.seed);
        let bayes = config.try_init(self.model()?)?;
        let device = DeviceName::host()?.autodiff();
        let stream = Stream {
            steps: steps as usize,
            batches: || self.rows.batches(training.batch, training.seed, &device),
        };
        let bayes = bayes.with_interrupter(Interrupter::new());
        let rates = config.learning_rates().over(steps as usize).try_init()?;
        let trainer = Trainer::new(bayes, FusedAdamConfig::new().init(), rates).without_row_check();
        let trained = trainer.run(&stream, &mut ())?.trainer.into_model();
        Ok(trained.try_posterior()?.to_dense()?)
    }
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let names = e5::SETS.iter().map(|set| set.name);
    let names = names.chain(e3::SETS.iter().map(|set| set.name));
    let pairs: Vec<_> = names
        .map(|case| {
            let vifa = results.mean(case, VIFA, STEPS)?;
            Some((results.mean(case, NAGVAC, STEPS)?, vifa / 3.0))
        })
        .collect();
    let claim = "NAGVAC needs at most a third of VIFA's steps on every set";
    vec![Finding::mostly_at_most(claim, 1.0, &pairs)]
}
