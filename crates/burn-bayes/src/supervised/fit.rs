//! [`Fit`]: from a model, data in memory and a method to a fitted posterior, in one call.
//!
//! A fifth of the rows is held out. On it the average over draws is compared with the network of the mean weights, and with
//! those of the epochs before, and, if it is learned, the precision of the noise is the one under which these rows are most
//! likely. (The residuals of training rows underestimate the noise.)
//!
//! The precision of the prior is 1 unless one is set. With fewer than two training rows for each weight, a network that has
//! learned its rows by heart may need a larger one: it is trained again with 4, and then with 16, as long as the average over
//! draws predicts the held-out rows better than before.

use std::any::Any;
use std::io::{IsTerminal, Write, stderr};
use std::ops::ControlFlow;

use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::optim::ModuleOptimizer;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::tensor::Tensor;
use burn::train::{InferenceStep, TrainStep};
use burn_bayes_graph::{ExampleBatch, Layout, module_device};

use super::check::check;
use super::fitted::Fitted;
use super::rows::{Rows, Shuffled};
use super::{Inputs, Supervised};
use crate::diagnostics::ConvergenceTest;
use crate::error::{Error, Result};
use crate::kernels::composed::{at_least, to_host};
use crate::likelihood::{Likelihood, LikelihoodMixture, MixDraws, Targets, unit_precisions};
use crate::methods::checks::counts;
use crate::methods::{Algorithm, BayesianConfig, MeanStage, MethodConfig};
use crate::noise::Noise;
use crate::optimizer::FusedAdamConfig;
use crate::posterior::{FactorPosterior, Posterior};
use crate::prior::Prior;
use crate::train::{
    Batches, Bayesian, EpochSummary, Gather, Trainer, TrainingObserver, scale_free,
};
use crate::verdict::{EarlierEpoch, FarScale, LossAtDraws, ValidationComparison, Verdict};

/// Draws of the weights in a prediction of a [`Fitted`] model.
pub(super) const PREDICTION_DRAWS: usize = 100;
/// A training has at least so many epochs and steps unless it is set.
const FEWEST_EPOCHS: usize = 100;
const FEWEST_STEPS: usize = 3000;
/// The rows of a mini-batch unless they are set.
const BATCH_SIZE: usize = 32;
/// The share of the rows that is held out, and the least number of rows of which one is.
const HELD_OUT: f64 = 0.2;
const FEWEST_ROWS: usize = 10;
/// The number of estimates of the noise, and the share of the training after which it stays as it is.
const ESTIMATES: usize = 20;
const LEARNING: f64 = 0.8;
/// The number of epochs, evenly spread, whose networks predict the rows that are held out.
const COMPARED_EPOCHS: usize = 50;
/// The precision of the prior, and those that are tried with fewer than this number of training rows for each weight.
const PRECISION: f64 = 1.0;
const MANY_ROWS: usize = 2;
const LARGER_PRECISIONS: [f64; 2] = [4.0, 16.0];
/// Rows that count hardly more than once.
const FEW_COPIES: f64 = 1.05;
/// The noise precision at the beginning, in units of 1/variance of the targets.
const FIRST_GUESS: f64 = 10.0;
/// Rows that are evaluated at once without a training.
pub(super) const ROWS_AT_ONCE: usize = 1000;
/// The random streams.
const SPLIT: u64 = 0x7370_6c69;
const SHUFFLING: u64 = 0x7368_7566;

/// Trains a [`Supervised`] model on data in memory, with the tuned settings of a method.
///
/// Parameters outside of a `group` are trained with weight decay. A model with fewer than two training rows for each weight is
/// trained up to three times, with a larger precision of the prior each time, unless a prior is set.
///
/// Dropout is off wherever draws of the weights already perturb
/// the network, as in [`Bayesian`]; [`Bayesian::with_dropout`] and a [`Trainer`] have it on.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::{Fit, Supervised, VifaConfig};
///
/// let device = Device::default();
/// let x = Tensor::<1>::from_floats([-2.0, -1.0, 0.0, 1.0, 2.0], &device).reshape([5, 1]);
/// let network = LinearConfig::new(1, 1).init(&device);
/// let forward = |net: &Linear, x: Tensor<2>| net.forward(x);
/// let model = Supervised::new(network, forward, Likelihood::Gaussian { noise_precision: 100.0 });
/// let (fitted, verdict) = Fit::new(VifaConfig::new()).with_epochs(300).run(model, (x.clone(), x * 2.0))?;
/// println!("{verdict}");
/// let prediction = fitted.predict(Tensor::from_floats([[3.0]], &device))?;
/// println!("{} ± {}", prediction.mean(), prediction.deviation());
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fit<C> {
    pub(super) config: BayesianConfig<C>,
    pub(super) epochs: Option<usize>,
    pub(super) batch_size: Option<usize>,
    pub(super) learning_rate: Option<f64>,
    held_out: f64,
    pub(super) learns_noise: bool,
    pub(super) shows_progress: bool,
}

impl<C> Fit<C> {
    /// A fit with this method.
    pub fn new(method: C) -> Self {
        Self {
            // N is that of the data.
            config: BayesianConfig::new(1, method),
            epochs: None,
            batch_size: None,
            learning_rate: None,
            held_out: HELD_OUT,
            learns_noise: false,
            shows_progress: stderr().is_terminal(),
        }
    }

    /// Changes the settings that all methods share, such as the prior and the seed.
    #[must_use]
    pub fn with_settings(
        self,
        change: impl FnOnce(BayesianConfig<C>) -> BayesianConfig<C>,
    ) -> Self {
        let config = change(self.config);
        Self { config, ..self }
    }

    /// The same with another method.
    pub(super) fn with_config<D>(&self, config: BayesianConfig<D>) -> Fit<D> {
        Fit {
            config,
            epochs: self.epochs,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            held_out: self.held_out,
            learns_noise: self.learns_noise,
            shows_progress: self.shows_progress,
        }
    }

    /// Sets the number of passes over the data; by default 100, or as many as give 3000 steps if that is more.
    #[must_use]
    pub fn with_epochs(self, epochs: usize) -> Self {
        let epochs = Some(epochs);
        Self { epochs, ..self }
    }

    /// Sets the number of rows of a mini-batch; 32 by default.
    #[must_use]
    pub fn with_batch_size(self, batch_size: usize) -> Self {
        let batch_size = Some(batch_size);
        Self { batch_size, ..self }
    }

    /// Sets the learning rate of the mean; by default the tuned one of the method.
    #[must_use]
    pub fn with_learning_rate(self, rate: f64) -> Self {
        let learning_rate = Some(rate);
        Self {
            learning_rate,
            ..self
        }
    }

    /// Sets the share of the rows that is held out; a fifth by default. With 0 all rows are trained on, and predictions are
    /// not tested.
    #[must_use]
    pub fn with_held_out(self, share: f64) -> Self {
        Self {
            held_out: share,
            ..self
        }
    }

    /// Learns the precision of Gaussian noise, of every target: trainings from the rows that are held out, samples with the
    /// weights.
    #[must_use]
    pub fn with_learned_noise(self) -> Self {
        Self {
            learns_noise: true,
            ..self
        }
    }

    /// Whether a line on the standard error shows the progress; by default if that is a terminal.
    #[must_use]
    pub fn with_progress(self, is_shown: bool) -> Self {
        Self {
            shows_progress: is_shown,
            ..self
        }
    }

    /// The rows that are held out, and those to fit.
    pub(super) fn split<B: ExampleBatch>(
        &self,
        rows: &Rows<B>,
    ) -> Result<(Vec<usize>, Vec<usize>)> {
        let mut held_out = rows.order(Noise::new(self.config.seed).fold(SPLIT));
        let training = held_out.split_off(self.held_out_rows(rows.count())?);
        match training.is_empty() {
            true => Err(Error::config("data", "has no rows to train on")),
            false => Ok((held_out, training)),
        }
    }

    /// The number of rows that are held out of this many.
    fn held_out_rows(&self, rows: usize) -> Result<usize> {
        let share = self.held_out;
        if !(0.0..1.0).contains(&share) {
            let problem = format!("is {share}; it must be at least 0 and below 1");
            return Err(Error::config("held_out", problem));
        }
        Ok(match rows < FEWEST_ROWS {
            true => 0,
            false => (share * rows as f64) as usize,
        })
    }
}

impl<C: MethodConfig> Fit<C> {
    /// Trains the model on these inputs and targets, and says whether the fit can be used.
    ///
    /// # Errors
    ///
    /// If the data have values that are not finite, or other numbers of inputs than of targets; if a setting cannot be used;
    /// if the training diverges.
    pub fn run<M, X, Y, A, P>(
        &self,
        model: Supervised<M, X, Y>,
        data: (X, Y),
    ) -> Result<(Fitted<M, X, Y, P>, Verdict)>
    where
        C: MethodConfig<Algorithm = A>,
        A: Algorithm<Posterior = P, Signal: Gather<Supervised<M, X, Y>, A>>,
        P: Posterior,
        M: Module + ModuleDisplay + 'static,
        X: Inputs,
        Y: Targets,
    {
        let device = module_device(&model);
        let rows = &Rows::new(data, &device)?;
        check(&model, rows)?;
        let batch_size = self.batch_size.unwrap_or(BATCH_SIZE);
        counts([
            ("batch_size", batch_size),
            ("epochs", self.epochs.unwrap_or(1)),
        ])?;
        let (held_out, training) = self.split(rows)?;
        let model = match (self.learns_noise, held_out.len()) {
            (false, _) => model,
            (true, found @ (0 | 1)) => {
                let problem = format!(
                    "cannot be learned from {found} of {} rows; give its precision, 1/variance, in the likelihood, or \
                     hold more rows out",
                    rows.count()
                );
                return Err(Error::config("noise", problem));
            }
            (true, _) => {
                let targets = rows.select(&training).1;
                let precisions = first_precisions(&model.likelihood, targets)?;
                let likelihood = model.likelihood.clone();
                model.with_likelihood(likelihood.with_noise_precisions(&precisions))
            }
        };
        let mut config = self.config.clone();
        config.train_len = training.len();
        let batches = Shuffled {
            rows,
            training: &training,
            batch_size,
            noise: Noise::new(config.seed).fold(SHUFFLING),
        };
        let enough = FEWEST_EPOCHS.max(FEWEST_STEPS.div_ceil(batches.per_epoch()));
        let epochs = self.epochs.unwrap_or(enough);
        config.steps = Some((epochs * batches.per_epoch()) as u64);
        let with_prior = |precision| {
            let watched = Watched {
                rows,
                held_out: &held_out,
                learns_noise: self.learns_noise,
                epochs,
                shows_progress: self.shows_progress,
                precision,
                earlier: None,
            };
            self.train(model.clone(), config.clone(), &batches, watched)
        };
        let mut best = with_prior(PRECISION)?;
        let weights = best.bayesian.layout().len();
        let has_few_rows = training.len() < MANY_ROWS * weights;
        let is_open = config.prior.is_none() && has_few_rows && !held_out.is_empty();
        for precision in LARGER_PRECISIONS.into_iter().filter(|_| is_open) {
            match with_prior(precision) {
                // A loss that is not a number is the largest.
                Ok(next) if next.loss().total_cmp(&best.loss()).is_lt() => best = next,
                Ok(_) => break,
                // The training before did not diverge.
                Err(error) if error.is_numerical() => break,
                Err(error) => return Err(error),
            }
        }
        let Trained {
            config,
            bayesian,
            verdict,
        } = best;
        let parts = [&*training, &held_out];
        let verdict = beside_data(verdict, &bayesian.template().likelihood, rows, parts);
        // The prior of a method of iterates is the weight decay of their training.
        let prior = match (is_of_iterates::<C>(), config.prior.is_none()) {
            (true, true) => Prior::isotropic(verdict.prior_precision.unwrap_or(PRECISION)),
            _ => config.prior(),
        };
        let test = ConvergenceTest::new(config.train_len)
            .with_prior(prior)
            // A pair of draws costs two passes over the data.
            .with_most_pairs(epochs / 10);
        let each = || batches.epoch(epochs, 0);
        let verdict = with_kl_gap::<C, _, _>(test, &bayesian, each, verdict)?;
        Ok((Fitted::new(bayesian.predictor()?), verdict))
    }

    /// Trains a model with a prior, or weight decay, of the precision that is watched, unless a prior is set.
    fn train<M, X, Y, A>(
        &self,
        model: Supervised<M, X, Y>,
        config: BayesianConfig<C>,
        batches: &Shuffled<'_, (X, Y)>,
        mut watched: Watched<'_, X, Y>,
    ) -> Result<Trained<Supervised<M, X, Y>, C>>
    where
        C: MethodConfig<Algorithm = A>,
        A: Algorithm<Signal: Gather<Supervised<M, X, Y>, A>>,
        M: Module + ModuleDisplay + 'static,
        X: Inputs,
        Y: Targets,
    {
        let precision = watched.precision;
        let is_larger = precision > PRECISION;
        let config = match is_larger && !is_of_iterates::<C>() {
            true => config.with_prior(Prior::isotropic(precision)),
            false => config,
        };
        let rates = self.rates(watched.epochs * batches.per_epoch())?;
        let bayesian = config.try_init(model)?.with_compiled_loss();
        let optimizer = self.optimizer(&config, precision, &bayesian, batches)?;
        let trainer = Trainer::new(bayesian, optimizer, rates)
            .with_epochs(watched.epochs)
            .with_seed(config.seed);
        let run = trainer.run(batches, &mut watched)?;
        watched.end_progress();
        let verdict = run.verdict.unwrap_or_default();
        // Under a larger precision the best epoch is one before the prior has grown.
        let draws = verdict.draws.map(|draws| LossAtDraws {
            since_best_epoch: match is_larger {
                true => 0.0,
                false => draws.since_best_epoch,
            },
            ..draws
        });
        Ok(Trained {
            config,
            bayesian: run.trainer.into_model(),
            verdict: Verdict {
                earlier: watched.earlier,
                prior_precision: is_larger.then_some(precision),
                draws,
                ..verdict
            },
        })
    }

    fn rates(&self, steps: usize) -> Result<ModuleLrScheduler> {
        let mut rates = self.config.learning_rates();
        if let Some(rate) = self.learning_rate {
            rates.mean = rate;
        }
        rates.over(steps).try_init()
    }

    /// The parameters that no prior of the method is for have one as weight decay: all of a method that observes the iterates of
    /// an ordinary training, and those outside the group of the others; but not those whose scale changes nothing.
    fn optimizer<M, X, Y>(
        &self,
        config: &BayesianConfig<C>,
        precision: f64,
        bayesian: &Bayesian<Supervised<M, X, Y>, C::Algorithm>,
        batches: &Shuffled<'_, (X, Y)>,
    ) -> Result<ModuleOptimizer>
    where
        M: Module + ModuleDisplay + 'static,
        X: Inputs,
        Y: Targets,
    {
        let adam = FusedAdamConfig::new();
        if !is_of_iterates::<C>() && bayesian.is_everything() {
            return Ok(adam.init());
        }
        let penalty = precision / config.train_len as f64;
        let warm_up = MeanStage::default_warm_up(config.steps.unwrap_or_default());
        let decaying = adam
            .clone()
            .with_weight_decay(Some(WeightDecayConfig::new(penalty as f32)))
            .with_decay_warm_up(warm_up);
        let first = batches.epoch(0, 0).next();
        let first = first.filter(|_| bayesian.moves_statistics());
        let free = first.map_or(Vec::new(), |batch| scale_free(bayesian.template(), batch));
        let (all, others, paths) = match is_of_iterates::<C>() {
            true => (decaying, adam, free),
            false => {
                let model = Layout::new(bayesian.template(), &ParamGroup::all())?;
                let paths = model.entries().iter().map(|entry| entry.path.clone());
                let random = bayesian.layout().entries();
                let is_outside = |path: &String| random.iter().all(|entry| entry.path != *path);
                let outside = paths.filter(|path| is_outside(path) && !free.contains(path));
                (adam, decaying, outside.collect())
            }
        };
        let paths = paths.iter().map(|path| format!("model.{path}"));
        let paths: Vec<String> = paths.collect();
        // An empty group would be all parameters.
        Ok(match paths.is_empty() {
            true => all.init(),
            false => {
                let group = ParamGroup::from_paths(paths);
                all.init().with_group(group, others.build(), None)
            }
        })
    }
}

/// Whether the method observes the iterates of an ordinary training, and has no prior of its own.
fn is_of_iterates<C: MethodConfig>() -> bool {
    !C::USES.contains(&"prior")
}

/// First guesses of the noise precisions of these targets.
pub(super) fn first_precisions<Y: Targets>(
    likelihood: &Likelihood,
    targets: Y,
) -> Result<Vec<f64>> {
    // The number of outputs matters for classes only, which have no noise.
    let units = unit_precisions(likelihood, &targets.columns(likelihood, 1))?;
    Ok(units.iter().map(|unit| FIRST_GUESS * unit).collect())
}

/// The verdict with what the data say: a constant prediction beside that of numbers, and columns of a scale that the prior does
/// not expect.
pub(super) fn beside_data<X: Inputs, Y: Targets>(
    mut verdict: Verdict,
    likelihood: &Likelihood,
    rows: &Rows<(X, Y)>,
    [training, held_out]: [&[usize]; 2],
) -> Verdict {
    let (inputs, targets) = rows.select(training);
    let inputs = (&inputs as &dyn Any).downcast_ref::<Tensor<2>>();
    let inputs = inputs.and_then(|inputs| FarScale::of("input", inputs));
    verdict.far_scales.extend(inputs);
    if likelihood.classes(0).is_some() {
        return verdict;
    }
    let targets = targets.columns(likelihood, 0);
    let is_number = matches!(
        likelihood,
        Likelihood::Gaussian { .. }
            | Likelihood::GaussianTargets { .. }
            | Likelihood::HeteroscedasticGaussian
            | Likelihood::GaussianMixture { .. }
    );
    if is_number {
        verdict.far_scales.extend(FarScale::of("target", &targets));
    }
    if training.len() > 1 && !held_out.is_empty() {
        let held_out = rows.select(held_out).1.columns(likelihood, 0);
        let constant = constant_nll(likelihood, targets, held_out);
        verdict.validation = verdict
            .validation
            .map(|found| found.with_constant(constant));
    }
    verdict
}

/// The mean loss of held-out rows under a constant with the mean and variance of the training targets, which are no classes; `None`
/// if one does not vary.
pub(super) fn constant_nll(
    likelihood: &Likelihood,
    training: Tensor<2>,
    held_out: Tensor<2>,
) -> Option<f64> {
    let (mean, variance) = (training.clone().mean_dim(0), training.var(0));
    let (constant, outputs) = match likelihood {
        Likelihood::Bernoulli => {
            let odds = mean.clone() / (mean.neg() + 1.0);
            (Likelihood::Bernoulli, vec![odds.log()])
        }
        Likelihood::Poisson | Likelihood::NegativeBinomial => {
            let squares = mean.clone().square();
            // Counts that vary less than those of a Poisson distribution have the least dispersion.
            let dispersion = at_least((variance - mean.clone()) / squares, LEAST_DISPERSION);
            let outputs = vec![mean.log(), dispersion.log()];
            (Likelihood::NegativeBinomial, outputs)
        }
        _ => {
            let outputs = vec![mean, variance.log()];
            (Likelihood::HeteroscedasticGaussian, outputs)
        }
    };
    let outputs = Tensor::cat(outputs, 1).expand([held_out.dims()[0] as i64, -1]);
    let loss = constant.losses(outputs, held_out).mean();
    Some(loss.into_scalar::<f64>()).filter(|loss| loss.is_finite())
}

/// That of counts which are as good as Poisson's.
const LEAST_DISPERSION: f32 = 1e-6;

/// Writes progress to the standard error.
pub(super) fn shown(text: &str) {
    // Nothing depends on whether it can be shown.
    let _ = write!(stderr(), "{text}");
}

/// The verdict with the KL gap of a Gaussian posterior.
fn with_kl_gap<C, L, I>(
    test: ConvergenceTest,
    bayesian: &Bayesian<L, C::Algorithm>,
    batches: impl Fn() -> I,
    verdict: Verdict,
) -> Result<Verdict>
where
    C: MethodConfig,
    L: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws>,
    I: IntoIterator<Item = <L as TrainStep>::Input>,
{
    let posterior = bayesian.try_posterior()?;
    let Some(posterior) = (&posterior as &dyn Any).downcast_ref::<FactorPosterior>() else {
        return Ok(verdict);
    };
    let setup = bayesian.algorithm().setup();
    let frozen = bayesian.template().clone().freeze();
    let test = test.with_ess(Some(setup.ess));
    let copies = Some(setup.copies()).filter(|&copies| copies > FEW_COPIES);
    let mut verdict = Verdict {
        copies,
        is_of_iterates: is_of_iterates::<C>(),
        ..verdict
    };
    match test.measure(&frozen, posterior, batches) {
        Ok(gap) => Ok(verdict.with_kl_gap(gap, posterior.len())),
        // The fit is there nevertheless.
        Err(error) if error.is_numerical() => {
            let problem = format!("convergence unknown: {error}");
            verdict.of_training.push(problem);
            Ok(verdict)
        }
        Err(error) => Err(error),
    }
}

/// A model after its training.
struct Trained<L: Module, C: MethodConfig> {
    config: BayesianConfig<C>,
    bayesian: Bayesian<L, C::Algorithm>,
    verdict: Verdict,
}

impl<L: Module, C: MethodConfig> Trained<L, C> {
    /// The mean loss of the held-out rows under the average over draws.
    fn loss(&self) -> f64 {
        let validation = self.verdict.validation.as_ref();
        validation.map_or(f64::INFINITY, ValidationComparison::loss)
    }
}

/// What happens after an epoch.
struct Watched<'a, X, Y> {
    rows: &'a Rows<(X, Y)>,
    held_out: &'a [usize],
    learns_noise: bool,
    epochs: usize,
    shows_progress: bool,
    /// That of the prior.
    precision: f64,
    /// The best of the epochs, beside the average at the end.
    earlier: Option<EarlierEpoch>,
}

impl<X, Y> Watched<'_, X, Y> {
    fn is_estimate_due(&self, epoch: usize) -> bool {
        let last = ((LEARNING * self.epochs as f64) as usize).max(1);
        epoch <= last && (epoch == last || epoch.is_multiple_of(last.div_ceil(ESTIMATES)))
    }

    /// The losses of the rows that are held out; `None` if there are none.
    fn losses_of_held_out(
        &self,
        predict: impl Fn((X, Y)) -> Result<LikelihoodMixture>,
    ) -> Result<Option<Vec<f64>>>
    where
        X: Inputs,
        Y: Targets,
    {
        let batches = self.held_out.chunks(ROWS_AT_ONCE);
        let losses = batches.map(|rows| -> Result<Vec<f64>> {
            let mixture = predict(self.rows.select(rows))?;
            Ok(to_host(mixture.row_losses().without_autodiff()))
        });
        let losses = losses.collect::<Result<Vec<_>>>()?.concat();
        Ok((!losses.is_empty()).then_some(losses))
    }

    fn progress(&self, summary: &EpochSummary) {
        if self.shows_progress {
            let EpochSummary { epoch, loss } = summary;
            let (epochs, precision) = (self.epochs, self.precision);
            let prior = match precision > PRECISION {
                true => format!("prior of precision {precision}: "),
                false => String::new(),
            };
            shown(&format!(
                "\r{prior}epoch {epoch} of {epochs}, loss {loss:.4}  "
            ));
        }
    }

    fn end_progress(&self) {
        if self.shows_progress {
            shown("\n");
        }
    }
}

impl<M, X, Y, A> TrainingObserver<Bayesian<Supervised<M, X, Y>, A>> for Watched<'_, X, Y>
where
    M: Module + ModuleDisplay + 'static,
    X: Inputs,
    Y: Targets,
    A: Algorithm,
{
    type Error = Error;

    fn epoch(
        &mut self,
        summary: &EpochSummary,
        model: &Bayesian<Supervised<M, X, Y>, A>,
    ) -> Result<ControlFlow<()>> {
        self.progress(summary);
        let epoch = summary.epoch;
        if epoch == self.epochs {
            // The validation compares the average over draws with the mean's network.
            let validated = model.valid();
            let average = self.losses_of_held_out(|rows| validated.validate(rows))?;
            let earlier = self.earlier.take().zip(average);
            self.earlier = earlier.map(|(earlier, average)| earlier.beside(&average));
        } else if epoch.is_multiple_of(self.epochs.div_ceil(COMPARED_EPOCHS)) {
            let network = model.last_model()?.valid();
            let alone = |rows| Ok(MixDraws::mix(vec![InferenceStep::step(&network, rows)]));
            let losses = self.losses_of_held_out(alone)?;
            let best = self.earlier.take();
            self.earlier = losses.map(|losses| EarlierEpoch::or_better(best, epoch, losses));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn adjusted(
        &mut self,
        summary: &EpochSummary,
        model: Bayesian<Supervised<M, X, Y>, A>,
    ) -> Result<Bayesian<Supervised<M, X, Y>, A>> {
        if !(self.learns_noise && self.is_estimate_due(summary.epoch)) {
            return Ok(model);
        }
        let held_out = self.rows.select(self.held_out);
        let mixture = model.predict(held_out, model.prediction_draws())?;
        let likelihood = mixture.most_likely_noise()?;
        Ok(model.map_template(|template| template.with_likelihood(likelihood)))
    }
}
