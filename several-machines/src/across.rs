//! One training whose mini-batches are divided among the devices.

use std::any::Any;
use std::error::Error;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{ExecutionStrategy, Learner, MultiDeviceOptim, SupervisedTraining};
use burn_bayes::methods::{Algorithm, MethodConfig};
use burn_bayes::train::Gather;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::EpochLines;

use crate::task::{Model, loader, model, rows};

/// The rows of a device's mini-batch.
const BATCH: usize = 32;

/// A training with a checkpoint after every epoch.
pub(crate) struct Run<'a> {
    /// What the devices are called on the command line.
    pub(crate) names: Vec<&'a str>,
    pub(crate) devices: &'a [Device],
    pub(crate) folder: &'a Path,
    pub(crate) epochs: usize,
    pub(crate) seed: u64,
}

impl Run<'_> {
    /// Trains, from the last checkpoint if there is one.
    pub(crate) fn train<C, A>(&self, method: C) -> Result<A::Posterior, Box<dyn Error>>
    where
        C: MethodConfig<Algorithm = A>,
        A: Algorithm<Signal: Gather<Model, A>>,
    {
        // ANCHOR: strategy
        let devices: Vec<_> = self
            .devices
            .iter()
            .map(|device| device.clone().autodiff())
            .collect();
        let main = devices[0].clone();
        let [train, valid, _] = rows();
        let steps = self.epochs * train.len().div_ceil(BATCH * devices.len());
        let config = BayesianConfig::new(train.len(), method)
            .with_steps(steps as u64)
            .with_seed(self.seed);
        let rates = config.learning_rates().over(steps).try_init()?;
        let bayesian = config.try_init(model(self.seed, &main))?;
        let training = SupervisedTraining::new(
            self.folder,
            loader(train, BATCH, &main),
            loader(valid, 250, &main.inner()),
        )
        .metrics((LossMetric::new(),))
        .num_epochs(self.epochs)
        .with_default_checkpointers()
        .with_training_strategy(
            ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimMainDevice).into(),
        );
        // ANCHOR_END: strategy
        let finished = self.finished();
        let training = match finished {
            0 => training,
            finished => training.checkpoint(finished),
        };
        let display = EpochLines::renderer(1, training.interrupter());
        let training = training.with_application_logger(None).renderer(display);
        let learner = Learner::new(bayesian, FusedAdamConfig::new().init(), rates);
        // The main device makes the updates in this thread, in which a lost server is a panic.
        let launched = catch_unwind(AssertUnwindSafe(|| {
            let trained = training.launch(learner);
            match trained.error {
                Some(error) => Err(error.to_string()),
                None => trained
                    .model
                    .try_posterior()
                    .map_err(|error| error.to_string()),
            }
        }));
        let cause = match launched {
            Ok(Ok(posterior)) => return Ok(posterior),
            Ok(Err(cause)) => cause,
            Err(panic) => text(&*panic).to_string(),
        };
        let (finished, epochs) = (self.finished(), self.epochs);
        Err(match self.lost().join(" and ") {
            lost if lost.is_empty() => cause.into(),
            lost => format!(
                "the training stopped after epoch {finished} of {epochs}, because {lost} does not answer: start it again at \
                 another address, which the other servers have no old connection to, and the command goes on from there ({cause})"
            )
            .into(),
        })
    }

    /// The last epoch of which all checkpoints were written.
    fn finished(&self) -> usize {
        let checkpoints = self.folder.join("checkpoint");
        let is_whole = |epoch: &usize| {
            let parts = ["model", "optim", "scheduler"].iter();
            parts
                .map(|part| format!("{part}-{epoch}.bpk"))
                .all(|file| checkpoints.join(file).exists())
        };
        (1..=self.epochs).rev().find(is_whole).unwrap_or(0)
    }

    /// The servers that do not answer. The errors of devices do not say which one is lost: what reads from it fails as well.
    fn lost(&self) -> Vec<&str> {
        // A process that ends closes its connections one after the other.
        thread::sleep(Duration::from_millis(500));
        let is_lost = |name: &&str| {
            let address = name.strip_prefix("ws://");
            address.is_some_and(|address| TcpStream::connect(address).is_err())
        };
        self.names.iter().copied().filter(is_lost).collect()
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown")
}
