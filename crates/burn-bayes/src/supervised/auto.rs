//! [`Auto`]: the method that suits a model and its data.

use burn::config::Config;
use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::train::InferenceStep;
use burn_bayes_graph::{Layout, module_device};

use super::check::check;
use super::fit::{Fit, PREDICTION_DRAWS, ROWS_AT_ONCE, beside_data, first_precisions, shown};
use super::fitted::Fitted;
use super::rows::Rows;
use super::{Inputs, LOG_VARIANCE, Supervised};
use crate::error::Result;
use crate::likelihood::{MixDraws, Targets};
use crate::methods::SlangConfig;
use crate::methods::checks::{counts, positive};
use crate::noise::Noise;
use crate::posterior::{AnyPosterior, running};
use crate::predict::Predictor;
use crate::sampling::{Agreement, Budget, Sampling, SamplingConfig, batches_of_rows, some_rows};
use crate::train::is_everything;
use crate::verdict::{Reference, ValidationComparison, Verdict};

/// The times that progress is shown.
const SHOWN: u64 = 50;
/// The precision of the prior over the logarithm of a variance: a deviation of ten, because nothing is known of the units.
const NOISE_PRIOR_PRECISION: f64 = 0.01;
/// The random stream of the starts.
const STARTS: u64 = 0x7374_6172;

/// The method that suits a model and its data: samples of the posterior by MCLMC
/// ([`SamplingConfig`]) where they take up to about a minute, and otherwise a Gaussian by [`SlangConfig`].
///
/// What is chosen depends on the model, the number of rows and the settings, and not on time, so that it is the same on every
/// machine. Settings that only trainings have ([`Fit::with_epochs`], say), a group that leaves other parameters to be trained,
/// running statistics, as batch norm has them, and operations that cannot be compiled, lead to a training. Otherwise the work decides.
///
/// Chains start at the model's weights, in another order in every chain and parameter. Those that do not agree are lengthened
/// within the budget. Noise that is learned is sampled with the weights; the likelihood of the fit is then
/// [`HeteroscedasticGaussian`](crate::likelihood::Likelihood::HeteroscedasticGaussian), with the same noise for all rows. The prior,
/// where none is set, is [`Prior::by_fan_in(2.0)`](crate::Prior::by_fan_in) of samples: inputs and numbers to predict should have deviations near 1.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::{Auto, Fit, Supervised};
///
/// let device = Device::default();
/// let x = Tensor::<1>::from_floats([-2.0, -1.0, 0.0, 1.0, 2.0], &device).reshape([5, 1]);
/// let network = LinearConfig::new(1, 1).init(&device);
/// let forward = |net: &Linear, x: Tensor<2>| net.forward(x);
/// let model = Supervised::new(network, forward, Likelihood::Gaussian { noise_precision: 100.0 });
/// let (fitted, verdict) = Fit::new(Auto::new()).run(model, (x.clone(), x * 2.0))?;
/// println!("{verdict}");
/// let prediction = fitted.predict(Tensor::from_floats([[3.0]], &device))?;
/// println!("{} ± {}", prediction.mean(), prediction.deviation());
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct Auto {
    /// The number of chains.
    #[config(default = 4)]
    pub chains: usize,
    /// About how many seconds chains are lengthened on two cores, by default 30, and to at most 20 000 steps; chains that take up to
    /// twice as long are begun. A training in their place has its own length, which [`Fit::with_epochs`] sets.
    pub budget: Option<f64>,
}

impl Fit<Auto> {
    /// Fits the model to these inputs and targets, and says whether the fit can be used.
    ///
    /// # Errors
    ///
    /// If the data have values that are not finite, or other numbers of inputs than of targets; if a setting cannot be used;
    /// if the loss is not finite at the start of a chain, or a training diverges.
    pub fn run<M, X, Y>(
        &self,
        model: Supervised<M, X, Y>,
        data: (X, Y),
    ) -> Result<(Fitted<M, X, Y>, Verdict)>
    where
        M: Module + ModuleDisplay + 'static,
        X: Inputs,
        Y: Targets,
    {
        let Auto { chains, budget } = self.config.method;
        counts([("chains", chains)])?;
        positive("budget", budget.unwrap_or(1.0))?;
        let model = model.train();
        let layout = Layout::new(&model, &self.config.group)?;
        let device = module_device(&model);
        let rows = Rows::new(data.clone(), &device)?;
        check(&model, &rows)?;
        let (held_out, training) = self.split(&rows)?;
        let budget = Budget::new(budget);
        let steps = SamplingConfig::new().all_steps() as f64;
        let is_allowed = |of_step: f64| budget.allows(steps * of_step);
        // Every weight has at least one multiplication with every row.
        let least = layout.len() as f64 * (training.len() * chains) as f64;
        let is_sampled = is_everything(&model, &layout) && running(&model).is_none();
        if is_sampled && is_allowed(least) && !self.has_training_settings() {
            let group = self.config.group.clone();
            let (model, group, layout) = match self.learns_noise {
                true => with_noise(&model, &layout, rows.select(&training).1)?,
                false => (model.clone(), group, layout),
            };
            let sampling = self.start(&model, (group, &layout), &rows, &training)?;
            let of_step = sampling.work();
            if let Some(of_step) = of_step.filter(|&of_step| is_allowed(of_step)) {
                let some = some_rows(training.len(), Budget::COMPARED).map(|place| training[place]);
                let compared = rows.select(&some.collect::<Vec<_>>()).0;
                let goes_on = |sampling: &mut Sampling<_>, agreement: Option<Agreement>| {
                    budget.lengthen(sampling, of_step, agreement.map(|found| found.median))
                };
                let (posterior, agreement) = self.sample(sampling, &model, &compared, goes_on)?;
                let predictor = Predictor::restore(model, posterior)?;
                let verdict = Verdict {
                    validation: validated(&predictor, &rows, &held_out)?,
                    agreement,
                    is_uncompared: agreement.is_none(),
                    ..Verdict::default()
                };
                let fitted = Fitted::new(predictor);
                let parts = [&*training, &held_out];
                let verdict = beside_data(verdict, fitted.likelihood(), &rows, parts);
                return Ok((fitted, verdict));
            }
        }
        let config = self.config.clone().map_method(|_| SlangConfig::new());
        let (fitted, verdict) = self.with_config(config).run(model, data)?;
        Ok((fitted.with_any_form(), verdict))
    }

    /// Whether a setting is given that samples do not have.
    fn has_training_settings(&self) -> bool {
        let config = &self.config;
        let counts = [self.epochs, self.batch_size, config.draws];
        let numbers = [self.learning_rate, config.ess, config.mean_stage_rate];
        counts.iter().any(Option::is_some)
            || numbers.iter().any(Option::is_some)
            || config.antithetic.is_some()
            || config.initial_mean.is_some()
            || config.mean_stage.is_some()
            || config.averaging.is_some()
    }

    /// The chains before their first step.
    fn start<M, X, Y>(
        &self,
        model: &Supervised<M, X, Y>,
        (group, layout): (ParamGroup, &Layout),
        rows: &Rows<(X, Y)>,
        training: &[usize],
    ) -> Result<Sampling<Supervised<M, X, Y>>>
    where
        M: Module + 'static,
        X: Inputs,
        Y: Targets,
    {
        let config = SamplingConfig::new().with_seed(self.config.seed);
        let prior = self.config.prior.clone().unwrap_or(config.prior.clone());
        let noise = ParamGroup::from_path(LOG_VARIANCE);
        let prior = match self.learns_noise {
            true => prior.with_group(noise, NOISE_PRIOR_PRECISION),
            false => prior,
        };
        let starts = Noise::new(self.config.seed).fold(STARTS);
        let models = (0..self.config.method.chains as u64).map(|chain| match chain {
            0 => Ok(model.clone()),
            _ => reordered(model, layout, starts.fold(chain)),
        });
        let models = models.collect::<Result<Vec<_>>>()?;
        let batches = batches_of_rows(training.len()).map(|places| {
            let places: Vec<usize> = places.into_iter().map(|place| training[place]).collect();
            rows.select(&places)
        });
        let batches: Vec<_> = batches.collect();
        config
            .with_prior(prior)
            .with_group(group)
            .start(&models, &batches)
    }

    /// The samples of chains, as long as these go on, and how well they agree about these inputs.
    fn sample<M, X, Y>(
        &self,
        mut sampling: Sampling<Supervised<M, X, Y>>,
        model: &Supervised<M, X, Y>,
        compared: &X,
        goes_on: impl Fn(&mut Sampling<Supervised<M, X, Y>>, Option<Agreement>) -> bool,
    ) -> Result<(AnyPosterior, Option<Agreement>)>
    where
        M: Module + 'static,
        X: Inputs,
        Y: Targets,
    {
        loop {
            let every = sampling.end().div_ceil(SHOWN);
            while sampling.step() < sampling.end() {
                sampling.advance(every)?;
                if self.shows_progress {
                    let (step, end) = (sampling.step(), sampling.end());
                    shown(&format!(
                        "\rstep {step} of {end}, loss {:.4}  ",
                        sampling.loss()?
                    ));
                }
            }
            let samples = sampling.samples();
            let agreement = samples.agreement(model, compared)?;
            if !goes_on(&mut sampling, agreement) {
                if self.shows_progress {
                    shown("\n");
                }
                return Ok((samples.posterior()?.into(), agreement));
            }
        }
    }
}

/// The model with the noise of these targets as weights beside those of the layout, with their group and layout.
fn with_noise<M: Module, X: Inputs, Y: Targets>(
    model: &Supervised<M, X, Y>,
    layout: &Layout,
    targets: Y,
) -> Result<(Supervised<M, X, Y>, ParamGroup, Layout)> {
    let precisions = first_precisions(&model.likelihood, targets)?;
    let starts = precisions.iter().map(|precision| -precision.ln());
    let model = model.clone().with_noise_weights(starts.collect());
    let paths = layout.entries().iter().map(|entry| entry.path.clone());
    let group = ParamGroup::from_paths(paths.chain([LOG_VARIANCE.to_owned()]).collect());
    let layout = Layout::new(&model, &group)?;
    Ok((model, group, layout))
}

/// The model with the weights of every parameter in another order.
fn reordered<M: Module>(model: &M, layout: &Layout, noise: Noise) -> Result<M> {
    let weights = layout.flatten(model)?.without_autodiff();
    let mut order = Vec::with_capacity(layout.len());
    for (entry, number) in layout.entries().iter().zip(0..) {
        let first = order.len();
        let places = (first..first + entry.len()).collect();
        order.extend(noise.fold(number).shuffled(places));
    }
    let order: Vec<i64> = order.into_iter().map(|place| place as i64).collect();
    let device = weights.device();
    let order = burn::tensor::Tensor::from_data(&*order, &device);
    Ok(layout.write(model.clone(), weights.select(0, order))?)
}

/// The average over draws beside the first of them, on held-out rows.
fn validated<M, X, Y>(
    predictor: &Predictor<Supervised<M, X, Y>, AnyPosterior>,
    rows: &Rows<(X, Y)>,
    held_out: &[usize],
) -> Result<Option<ValidationComparison>>
where
    M: Module,
    X: Inputs,
    Y: Targets,
{
    let mut comparison = ValidationComparison::new(0, Reference::FirstDraw);
    for some in held_out.chunks(ROWS_AT_ONCE) {
        let batch = rows.select(some);
        let outputs = predictor.map_draws(PREDICTION_DRAWS, |model| {
            InferenceStep::step(model, batch.clone())
        })?;
        let first = outputs[0].clone();
        comparison.add_outputs(&MixDraws::mix(outputs), first);
    }
    Ok((!held_out.is_empty()).then_some(comparison))
}
