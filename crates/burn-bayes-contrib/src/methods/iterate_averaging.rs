//! Finite-window averaging of the iterates of ordinary training (Mandt, Hoffman and Blei 2017).
//!
//! From step `start` on, the averages of disjoint windows of W iterates are samples of the posterior:
//!
//! * a ← a + (θ − a)/i for the i-th iterate of a window, i = 1 … W;
//! * after the W-th, a is a sample, and the next window begins.
//!
//! Under the paper's assumptions (a quadratic loss near the mode, gradient noise with the covariance of the posterior's
//! precision, and a constant learning rate), the samples of windows of N/M steps have the posterior's covariance. These
//! assumptions rarely hold. Iterates are correlated, so that short windows are too.
//!
//! Trained parameters outside the layout and running statistics are averaged over the same windows. The running statistics
//! of batch norm only approximate those of the averaged weights;
//! [`Predictor::with_refreshed_statistics`](burn_bayes::Predictor::with_refreshed_statistics) recomputes them.
//!
//! The posterior is the mixture of the last samples, with equal weights. [`Swag`](burn_bayes::methods::Swag) fits a Gaussian to single
//! iterates instead, and its mean is that of one window without an end.
//!
//! | symbol | field |
//! |---|---|
//! | a | `average` |
//! | the last a | `samples` |
//! | W | `window` |
//! | i, number of samples | computed from the step number |

use std::convert::Infallible;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes::graph::Layout;
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::checks::counts;
use burn_bayes::methods::{
    Algorithm, BayesianConfig, FromIterates, IterateSchedule, Iterates, LearningRates,
    MethodConfig, Setup, buffer, updated,
};
use burn_bayes::posterior::{Mixture, PointPosterior};
use burn_bayes::{Error, Result};

use super::samples::Samples;

/// Settings of finite-window averaging.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes_contrib::methods::IterateAveragingConfig;
///
/// // Windows of an epoch of 469 steps, from the 31st epoch on.
/// let config = BayesianConfig::new(60_000, IterateAveragingConfig::new(30 * 469 + 1, 469));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct IterateAveragingConfig {
    /// The first optimiser step (from 1) whose weights are averaged; choose a step at which the
    /// loss has levelled off.
    pub start: u64,
    /// W, the number of iterates that are averaged to one sample. Paper: N/M, the steps of an epoch.
    pub window: u64,
    /// The maximum number of samples kept; later ones replace the oldest.
    #[config(default = 20)]
    pub max_samples: usize,
}

impl MethodConfig for IterateAveragingConfig {
    type Algorithm = IterateAveraging;

    const USES: &'static [&'static str] = &[];

    fn learning_rates(&self) -> LearningRates {
        LearningRates::ITERATES
    }

    fn validate(BayesianConfig { method, .. }: &BayesianConfig<Self>) -> Result<()> {
        counts([
            ("start", method.start),
            ("window", method.window),
            ("max_samples", method.max_samples as u64),
        ])
    }

    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan {
        let kept = 1 + config.method.max_samples;
        let mut plan = MemoryPlan::iterates(weights, kept, optimizer);
        // A step that ends a window holds the old and the new rows.
        plan.scratch += kept * weights * size_of::<f32>();
        plan
    }

    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<IterateAveraging> {
        let setup = Setup::of(config, model)?;
        let weights = setup.layout.flatten(model)?;
        let device = weights.device();
        let samples = Samples::new(config.method.max_samples, model, &setup.layout, &device);
        let states = samples.changing().map(|layout| layout.len());
        Ok(IterateAveraging {
            average: buffer(weights),
            state: states.map(|len| buffer(Tensor::zeros([len], &device))),
            samples,
            settings: Arc::new(Settings {
                config: config.method.clone(),
                setup,
            }),
        })
    }
}

/// The average of the current window, and the samples.
#[derive(Module, Debug)]
pub struct IterateAveraging {
    average: Param<Tensor<1>>,
    /// The average of the states outside the layout, as far as they change.
    state: Option<Param<Tensor<1>>>,
    samples: Samples,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: IterateAveragingConfig,
    setup: Setup,
}

impl IterateAveraging {
    /// The configuration.
    pub fn config(&self) -> &IterateAveragingConfig {
        &self.settings.config
    }

    /// The number of iterates averaged after `step` steps.
    fn taken(&self, step: u64) -> u64 {
        let (start, interval) = (self.config().start, 1);
        IterateSchedule { start, interval }.taken(step)
    }

    /// The place of iterate number `step` in its window, from 1, and the number of the sample if the window ends.
    fn place(&self, step: u64) -> (u64, Option<u64>) {
        let (taken, window) = (self.taken(step), self.config().window);
        let place = (taken - 1) % window + 1;
        (place, (place == window).then(|| taken / window))
    }
}

impl Algorithm for IterateAveraging {
    type Signal = Iterates;
    type Posterior = Mixture<PointPosterior>;
    type ClosedForm = Infallible;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn perturbs_weights(&self) -> bool {
        false
    }

    fn posterior(&self, step: u64) -> Result<Mixture<PointPosterior>> {
        let IterateAveragingConfig { start, window, .. } = *self.config();
        let most = self.config().max_samples;
        let ended = usize::try_from(self.taken(step) / window).unwrap_or(most);
        if ended == 0 {
            return Err(Error::too_early(format!(
                "no window of {window} iterates has ended after {step} steps; the first begins at step {start}: train \
                 longer, or lower `start` or `window`"
            )));
        }
        self.samples.mixture(&self.setup().layout, ended.min(most))
    }

    fn freezes_statistics(&self, step: u64) -> bool {
        step >= self.config().start
    }

    fn wants_state(&self, step: u64) -> Option<&Arc<Layout>> {
        self.samples.changing().filter(|_| self.wants(step))
    }

    fn observe_state(mut self, step: u64, state: Tensor<1>) -> Self {
        let (place, sample) = self.place(step);
        let Some(average) = self.state.take() else {
            return self;
        };
        let average = updated(average, |average| averaged(average, place, state));
        if let Some(number) = sample {
            let state = average.val().without_autodiff();
            self.samples = self.samples.with_state(number, state);
        }
        self.state = Some(average);
        self
    }

    fn apply_step(self, update: Infallible, _learning_rate: f64) -> Self {
        match update {}
    }
}

impl FromIterates for IterateAveraging {
    fn wants(&self, step: u64) -> bool {
        self.taken(step) > 0
    }

    fn observe(mut self, step: u64, weights: Tensor<1>) -> Self {
        let (place, sample) = self.place(step);
        self.average = updated(self.average, |average| averaged(average, place, weights));
        if let Some(number) = sample {
            let average = self.average.val().without_autodiff();
            self.samples = self.samples.with_weights(number, average);
        }
        self
    }
}

/// The average of a window with one more vector, which is number `place`, from 1.
fn averaged(average: Tensor<1>, place: u64, vector: Tensor<1>) -> Tensor<1> {
    // A sharded optimiser moves parameters between devices, but not buffers.
    let vector = vector.to_device(&average.device());
    match place {
        1 => vector,
        _ => average.clone() + (vector - average).div_scalar(place as f64),
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;
    use burn_bayes::methods::SwagConfig;
    use burn_bayes::posterior::Posterior;

    use super::*;

    fn averaging(config: &BayesianConfig<IterateAveragingConfig>) -> IterateAveraging {
        let layer = LinearConfig::new(2, 1).with_bias(false);
        let model = layer.init(&Device::default().autodiff());
        config.build(&model).unwrap()
    }

    #[test]
    fn samples_are_the_averages_of_disjoint_windows() {
        let config = BayesianConfig::new(10, IterateAveragingConfig::new(3, 4).with_max_samples(2));
        let mut averaging = averaging(&config);
        let device = averaging.average.val().device();
        let iterate = |step: u64| (step * step) as f32;
        let sample = |first: u64| (first..first + 4).map(iterate).sum::<f32>() / 4.0;
        for step in 1..=15 {
            assert_eq!(averaging.wants(step), step >= 3);
            if step >= 3 {
                averaging = averaging.observe(step, Tensor::full([2], iterate(step), &device));
            }
            match averaging.posterior(step) {
                Err(error) => assert!(step < 6 && error.is_too_early(), "{step}: {error}"),
                Ok(posterior) => {
                    // The windows begin at the steps 3, 7 and 11, the last of which replaces the first.
                    let (expected, count) = match step {
                        6..10 => (sample(3), 1),
                        10..14 => ((sample(3) + sample(7)) / 2.0, 2),
                        _ => ((sample(7) + sample(11)) / 2.0, 2),
                    };
                    assert_eq!(posterior.weights().len(), count);
                    let mean = posterior.mean_weights().unwrap();
                    let found: Vec<f32> = mean.try_into_vec_as().unwrap();
                    for found in found {
                        assert!(
                            (found / expected - 1.0).abs() < 8.0 * f32::EPSILON,
                            "{step}"
                        );
                    }
                }
            }
        }
    }

    /// Windows have equal covariances only at a rate that is nearly constant.
    #[test]
    fn the_rate_decays_as_slowly_as_that_of_other_methods_of_iterates() {
        let rates = BayesianConfig::new(10, IterateAveragingConfig::new(3, 4)).learning_rates();
        let swag = BayesianConfig::new(10, SwagConfig::new()).learning_rates();
        assert_eq!(rates, swag);
    }

    #[test]
    fn refused_settings_name_their_field() {
        let averaging = IterateAveragingConfig::new;
        for (method, field) in [
            (averaging(0, 1), "start"),
            (averaging(1, 0), "window"),
            (averaging(1, 1).with_max_samples(0), "max_samples"),
        ] {
            let error = BayesianConfig::new(10, method).validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }
}
