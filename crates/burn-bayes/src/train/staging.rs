//! Learning-rate schedules for training a posterior: stages and decay.
//!
//! **Stages.** A covariance that is learned while the mean is far from the optimum must be learned
//! again. So the mean is trained first, with draws close to it; then the learning rates of the
//! factors and the log-variance ramp up from 0. At step t, counted from 0, a group with learning
//! rate η uses
//!
//!   η · min(1, max(0, t + 1 − a)/max(1, b)) · (1 + max(0, t − a − b)/τ)^−p,
//!
//! and for the mean 1 replaces the ramp. Burn's schedulers can be composed into the stages, but not
//! into their product with a power, and do not accept a rate above 1. In closed form the only state
//! to save is the step.
//!
//! **Decay.** The gradient at a draw is noisy, so with a constant learning rate the posterior does
//! not converge. It converges if Σ η_t = ∞ and Σ η_t² < ∞, that is for ½ < p ≤ 1.
//!
//! | symbol | field |
//! |---|---|
//! | a, b | `mean_only_steps`, `ramp_steps` |
//! | τ, p | `time_constant`, `power` |
//!
//! References: the VIFA paper, section on ResNet-18, for the stages; H. Robbins and S. Monro, "A
//! stochastic approximation method" (1951), for the decay.

use burn::config::Config;
use burn::optim::LearningRate;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::lr_scheduler::{LrScheduler, LrSchedulerRecord};

use super::parts::VifaPart;
use crate::error::{Error, Result};
use crate::methods::{DECAY_POWER, LearningRates, Rate};

/// Separate learning rates for the mean, the factors and the log-variance of a posterior; training
/// starts with the mean alone.
///
/// Parameters that stay point estimates use the learning rate of the mean.
///
/// ```
/// use burn_bayes::train::StagedLearningRate;
///
/// let rates = StagedLearningRate::new(1e-3, 1e-3, 1e-2)
///     .with_mean_only_steps(2_000)
///     .with_ramp_steps(500)
///     .with_time_constant(Some(1_000.0))
///     .init();
/// // Learner::new(bayes, optimizer, rates)
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct StagedLearningRate {
    /// Learning rate of the mean.
    pub mean: f64,
    /// Learning rate of the factors after the ramp.
    pub factors: f64,
    /// Learning rate of the log-variance after the ramp.
    pub log_variance: f64,
    /// Number of steps in which only the mean is trained.
    #[config(default = 0)]
    pub mean_only_steps: usize,
    /// Number of steps in which the learning rates of the factors and the log-variance then
    /// increase linearly to their values.
    #[config(default = 0)]
    pub ramp_steps: usize,
    /// τ, the time constant of the decay of all learning rates, in steps after the ramp; no decay
    /// by default.
    pub time_constant: Option<f64>,
    /// p, the power of the decay.
    #[config(default = 0.75)]
    pub power: f64,
}

impl StagedLearningRate {
    /// The schedule, for a `Learner` or a custom training loop.
    ///
    /// # Panics
    ///
    /// Where [`try_init`](Self::try_init) fails.
    pub fn init(&self) -> ModuleLrScheduler {
        self.try_init().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The schedule, for a `Learner` or a loop of your own.
    ///
    /// # Errors
    ///
    /// A learning rate that is negative, not finite or grows; the message names the field.
    pub fn try_init(&self) -> Result<ModuleLrScheduler> {
        let mean = self.stage("mean", self.mean)?;
        let held_back = |field, part: VifaPart, rate| {
            let ramp = Some(Ramp {
                silent_steps: self.mean_only_steps as u64,
                rising_steps: self.ramp_steps as u64,
            });
            let stage = RateSchedule {
                ramp,
                ..self.stage(field, rate)?
            };
            Ok::<_, Error>((part.group(), stage))
        };
        let (factors, factors_stage) = held_back("factors", VifaPart::Factors, self.factors)?;
        let (log_variance, log_variance_stage) =
            held_back("log_variance", VifaPart::LogVariance, self.log_variance)?;
        Ok(ModuleLrScheduler::new(mean)
            .with_group(factors, factors_stage)
            .with_group(log_variance, log_variance_stage))
    }

    fn stage(&self, field: &str, initial: f64) -> Result<RateSchedule> {
        let rate = match self.time_constant {
            None => Rate::Constant(initial),
            Some(time_constant) => Rate::Power {
                initial,
                time_constant,
                power: self.power,
            },
        };
        rate.check(field)?;
        Ok(RateSchedule {
            rate,
            ramp: None,
            decay_from: (self.mean_only_steps + self.ramp_steps) as u64,
            step: 0,
        })
    }
}

impl LearningRates {
    /// The schedule of a training of this number of steps.
    pub fn over(&self, steps: usize) -> StagedLearningRate {
        let time_constant = self.decay * steps as f64;
        StagedLearningRate::new(self.mean, self.factors, self.diagonal)
            .with_time_constant((time_constant > 0.0).then_some(time_constant))
            .with_power(DECAY_POWER)
    }
}

/// A [`Rate`] as the learning-rate schedule of an optimiser.
///
/// ```
/// use burn::optim::lr_scheduler::LrScheduler;
/// use burn_bayes::methods::Rate;
/// use burn_bayes::train::RateSchedule;
///
/// let decaying = Rate::Power { initial: 0.1, time_constant: 2.0, power: 1.0 };
/// let mut schedule = RateSchedule::new(decaying)?;
/// let rates = [schedule.step(), schedule.step(), schedule.step()];
/// assert_eq!(rates, [0.1, 0.1 / 1.5, 0.1 / 2.0]);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateSchedule {
    rate: Rate,
    ramp: Option<Ramp>,
    decay_from: u64,
    step: u64,
}

impl RateSchedule {
    /// The schedule before its first step.
    ///
    /// # Errors
    ///
    /// A rate that is negative, not finite or grows.
    pub fn new(rate: Rate) -> Result<Self> {
        rate.check("rate")?;
        Ok(Self {
            rate,
            ramp: None,
            decay_from: 0,
            step: 0,
        })
    }
}

impl LrScheduler for RateSchedule {
    fn step(&mut self) -> LearningRate {
        let ramp = self.ramp.map_or(1.0, |ramp| ramp.at(self.step));
        let waited = self.step.saturating_sub(self.decay_from);
        self.step += 1;
        self.rate.at(waited) * ramp
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar(STEP, self.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(saved) = record.scalar(STEP) {
            self.step = saved;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ramp {
    silent_steps: u64,
    rising_steps: u64,
}

impl Ramp {
    fn at(self, step: u64) -> f64 {
        let risen = (step + 1).saturating_sub(self.silent_steps);
        (risen as f64 / self.rising_steps.max(1) as f64).min(1.0)
    }
}

const STEP: &str = "step";

#[cfg(test)]
mod tests {
    use burn::module::{Module, ParamId};
    use burn::nn::{Linear, LinearConfig};
    use burn::optim::{GradientsParams, SgdConfig};
    use burn::tensor::{Device, Tensor};
    use burn::train::{RegressionOutput, TrainOutput, TrainStep};

    use super::*;
    use crate::BayesianConfig;
    use crate::likelihood::GaussianNll;
    use crate::methods::VifaConfig;

    /// The learning rates of the mean, the factors and the log-variance at the next step.
    fn rates(schedule: &mut ModuleLrScheduler) -> [f64; 3] {
        let rates = schedule.step();
        [VifaPart::Mean, VifaPart::Factors, VifaPart::LogVariance]
            .map(|part| rates.lr_from_param(ParamId::new(), Some(part.path())))
    }

    fn staged() -> StagedLearningRate {
        StagedLearningRate::new(0.5, 2.0, 4.0)
            .with_mean_only_steps(2)
            .with_ramp_steps(4)
    }

    fn saved_and_loaded(record: LrSchedulerRecord) -> LrSchedulerRecord {
        LrSchedulerRecord::from_bytes(record.into_bytes().unwrap()).unwrap()
    }

    #[test]
    fn the_mean_goes_first_and_the_others_ramp_up() {
        let mut schedule = staged().init();
        let stages = [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0];
        for share in stages {
            assert_eq!(rates(&mut schedule), [0.5, 2.0 * share, 4.0 * share]);
        }
    }

    #[test]
    fn without_stages_the_rates_are_constant() {
        let mut schedule = StagedLearningRate::new(0.5, 2.0, 4.0).init();
        for _ in 0..3 {
            assert_eq!(rates(&mut schedule), [0.5, 2.0, 4.0]);
        }
    }

    #[test]
    fn without_a_ramp_the_others_join_at_once() {
        let config = StagedLearningRate::new(0.5, 2.0, 4.0).with_mean_only_steps(2);
        let mut schedule = config.init();
        for share in [0.0, 0.0, 1.0, 1.0] {
            assert_eq!(rates(&mut schedule), [0.5, 2.0 * share, 4.0 * share]);
        }
    }

    #[test]
    fn rates_decay_when_the_ramp_is_over() {
        let config = staged().with_time_constant(Some(1.0)).with_power(1.0);
        let mut schedule = config.init();
        let before: Vec<_> = (0..6).map(|_| rates(&mut schedule)[0]).collect();
        assert_eq!(before, [0.5; 6]);
        for share in [1.0, 1.0 / 2.0, 1.0 / 3.0] {
            assert_eq!(
                rates(&mut schedule),
                [0.5, 2.0, 4.0].map(|rate| rate * share)
            );
        }
    }

    #[test]
    fn a_saved_schedule_goes_on_where_it_was() {
        let config = staged().with_time_constant(Some(3.0));
        for steps in [0, 1, 4, 9] {
            let mut schedule = config.init();
            for _ in 0..steps {
                schedule.step();
            }
            let record = saved_and_loaded(schedule.to_record());
            let mut resumed = config.init().load_record(record);
            for _ in 0..8 {
                assert_eq!(rates(&mut resumed), rates(&mut schedule));
            }
        }
    }

    #[test]
    fn a_saved_decay_goes_on_where_it_was() {
        let rate = Rate::Power {
            initial: 0.3,
            time_constant: 7.0,
            power: 0.75,
        };
        let mut schedule = RateSchedule::new(rate).unwrap();
        let first: Vec<f64> = (0..5).map(|_| schedule.step()).collect();
        assert!(first.is_sorted_by(|earlier, later| earlier > later));
        let mut resumed = RateSchedule::new(rate).unwrap();
        resumed.load_record(saved_and_loaded(schedule.to_record()));
        assert_eq!(resumed.step(), schedule.step());
        // At t = τ the learning rate is 2^−p of the initial one.
        let at_time_constant = schedule.step() / 0.5;
        assert!((resumed.step() / 0.5 - at_time_constant).abs() < f64::EPSILON);
        let expected = 0.3 * (1.0 + 6.0 / 7.0f64).powf(-0.75);
        assert!((at_time_constant * 0.5 - expected).abs() < 4.0 * f64::EPSILON);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let message = |config: StagedLearningRate| {
            let error = config.try_init().err().expect("it must be refused");
            assert!(error.is_config());
            error.to_string()
        };
        assert!(message(StagedLearningRate::new(f64::NAN, 0.0, 0.0)).contains("mean"));
        assert!(message(StagedLearningRate::new(0.0, -1.0, 0.0)).contains("factors"));
        assert!(message(StagedLearningRate::new(0.0, 0.0, -1.0)).contains("log_variance"));
        assert!(message(staged().with_time_constant(Some(0.0))).contains("time_constant"));
        let power = staged().with_time_constant(Some(1.0)).with_power(-1.0);
        assert!(message(power).contains("power"));
        assert!(RateSchedule::new(Rate::Constant(-0.1)).is_err());
    }

    #[derive(Module, Debug)]
    struct Line {
        layer: Linear,
    }

    impl TrainStep for Line {
        type Input = (Tensor<2>, Tensor<2>);
        type Output = RegressionOutput;

        fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
            let output = self.layer.forward(inputs);
            let loss = GaussianNll::new(1.0).forward(output.clone(), targets.clone());
            let gradients = GradientsParams::from_grads(loss.backward(), self);
            TrainOutput {
                grads: gradients,
                item: RegressionOutput::new(loss, output, targets),
            }
        }
    }

    #[test]
    fn the_groups_are_the_parameters_that_the_optimiser_sees() {
        let device = Device::default().autodiff();
        let layer = LinearConfig::new(2, 1).init(&device);
        let config = BayesianConfig::paper(4, VifaConfig::vafc(1));
        let mut bayes = config.init(Line { layer });
        let inputs = Tensor::from_data([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]], &device);
        let targets = Tensor::from_data([[1.0], [2.0], [3.0], [0.0]], &device);
        let mut optimizer = SgdConfig::new().init();
        let mut schedule = StagedLearningRate::new(1e-2, 1e-2, 1e-2)
            .with_mean_only_steps(1)
            .init();

        let values = |tensor: Tensor<1>| tensor.into_data().iter::<f32>().collect::<Vec<_>>();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let posterior = bayes.posterior();
            let factors = posterior.factors().unwrap().flatten(0, 1);
            seen.push([posterior.mean(), factors, posterior.diagonal()].map(values));
            let TrainOutput { grads, .. } =
                TrainStep::step(&bayes, (inputs.clone(), targets.clone()));
            bayes = bayes.optimize(&mut optimizer, schedule.step(), grads);
        }
        let [start, mean_only, all] = [&seen[0], &seen[1], &seen[2]];
        assert_ne!(start[0], mean_only[0]);
        assert_eq!(start[1..], mean_only[1..]);
        for part in 0..3 {
            assert_ne!(mean_only[part], all[part]);
        }
    }
}
