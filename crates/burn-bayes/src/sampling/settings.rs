//! The settings of a run.

use burn::config::Config;
use burn::module::ParamGroup;

use super::hmc::HmcConfig;
use super::mclmc::MclmcConfig;
use crate::error::{Error, Result};
use crate::methods::checks::{counts, positive};
use crate::prior::Prior;

/// The settings of chains: those that all samplers share, and those of one. The defaults are those of MCLMC;
/// [`hmc`](Self::hmc) has those of Hamiltonian Monte Carlo.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::sampling::SamplingConfig;
/// use burn_bayes::{Predictor, Noise, Supervised};
///
/// let device = Device::default().autodiff();
/// let x = Tensor::<1>::from_floats([-2.0, -1.0, 0.0, 1.0, 2.0], &device.clone().inner()).reshape([5, 1]);
/// let start = || {
///     let network = LinearConfig::new(1, 1).init(&device);
///     let forward = |net: &Linear, x: Tensor<2>| net.forward(x);
///     Supervised::new(network, forward, Likelihood::Gaussian { noise_precision: 100.0 })
/// };
/// let models: Vec<Supervised<Linear>> = (0..4).map(|_| start()).collect();
/// let samples = SamplingConfig::new().sample(&models, &[(x.clone(), x.clone() * 2.0)])?;
/// let agreement = samples.agreement(&models[0], &x)?.expect("there are several chains");
/// println!("{agreement}");
/// let predictor = Predictor::new(models[0].clone(), samples.posterior()?, Noise::new(0))?;
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SamplingConfig {
    /// How the chains move.
    #[config(default = "Dynamics::Mclmc(MclmcConfig::new())")]
    pub dynamics: Dynamics,
    /// The prior over the weights.
    #[config(default = "Prior::by_fan_in(2.0)")]
    pub prior: Prior,
    /// The parameters that become random; the others stay as they are in the first model.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// The steps of a chain's warm start, each a pass of Adam over all batches, towards a mode; with 0 it starts at the model's
    /// own weights.
    #[config(default = 2000)]
    pub warm_up_steps: usize,
    /// The learning rate of these steps, in deviations of the prior, or of 1 where these are larger. It falls in their second
    /// half.
    #[config(default = 0.01)]
    pub warm_up_rate: f64,
    /// The tuning steps of a chain, each a gradient of MCLMC or a trajectory of HMC.
    #[config(default = 1500)]
    pub tuning_steps: usize,
    /// The sampling steps of a chain.
    #[config(default = 3500)]
    pub steps: usize,
    /// The draws of a chain.
    #[config(default = 50)]
    pub draws: usize,
    /// The seed.
    #[config(default = 0)]
    pub seed: u64,
}

/// How chains move.
#[derive(Config, Debug)]
#[non_exhaustive]
pub enum Dynamics {
    /// Microcanonical Langevin Monte Carlo: one gradient a step.
    Mclmc(MclmcConfig),
    /// Hamiltonian Monte Carlo: exact, a trajectory of many gradients a step.
    Hmc(HmcConfig),
}

impl SamplingConfig {
    /// Hamiltonian Monte Carlo, the reference for other methods: exact, and many times as slow.
    ///
    /// ```
    /// use burn_bayes::Result;
    /// use burn_bayes::sampling::{LogDensity, SamplingConfig};
    ///
    /// /// Two independent normals, of deviation 1 and .1.
    /// struct Normals;
    ///
    /// impl LogDensity for Normals {
    ///     fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
    ///         gradient[0] = -place[0];
    ///         gradient[1] = -100.0 * place[1];
    ///         Ok(0.5 * (gradient[0] * place[0] + gradient[1] * place[1]))
    ///     }
    /// }
    ///
    /// let hmc = SamplingConfig::hmc().with_warm_up_steps(0);
    /// let chains = hmc.sample_density(vec![Normals], vec![vec![0.0; 2]])?;
    /// assert_eq!([chains[0].len(), chains[0][0].len()], [250, 2]);
    /// # Ok::<(), burn_bayes::Error>(())
    /// ```
    pub fn hmc() -> Self {
        Self::new()
            .with_dynamics(Dynamics::Hmc(HmcConfig::new()))
            .with_tuning_steps(300)
            .with_steps(500)
            .with_draws(250)
    }

    /// All steps of a chain: warm start, tuning and sampling.
    pub fn all_steps(&self) -> usize {
        self.warm_up_steps + self.tuning_steps + self.steps
    }

    /// The same with this many steps of a chain, in the same proportion of warm start, tuning and sampling, as far as
    /// draws are an equal number of steps apart. There are no more draws than sampling steps.
    #[must_use]
    pub fn with_all_steps(self, all_steps: usize) -> Self {
        let all = self.all_steps().max(1) as f64;
        let share = |steps: usize| (steps as f64 / all * all_steps as f64) as usize;
        let steps = share(self.steps).max(1);
        let draws = self.draws.min(steps);
        let steps = steps - steps % draws.max(1);
        let tuning_steps = share(self.tuning_steps).max(1);
        Self {
            warm_up_steps: all_steps.saturating_sub(tuning_steps + steps),
            tuning_steps,
            steps,
            draws,
            ..self
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        counts([
            ("draws", self.draws),
            ("steps", self.steps),
            ("tuning_steps", self.tuning_steps),
        ])?;
        if self.draws > self.steps {
            let problem = format!(
                "is {}; it must be at most `steps`, {}",
                self.draws, self.steps
            );
            return Err(Error::config("draws", problem));
        }
        positive("warm_up_rate", self.warm_up_rate)?;
        match &self.dynamics {
            Dynamics::Mclmc(config) => config.validate(),
            Dynamics::Hmc(config) => config.validate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::sampling::LogDensity;

    struct Normals;

    impl LogDensity for Normals {
        fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
            gradient.copy_from_slice(&place.iter().map(|z| -z).collect::<Vec<_>>());
            Ok(-0.5 * place.iter().map(|z| z * z).sum::<f64>())
        }
    }

    #[test]
    fn chains_move_after_a_tuning_of_a_few_steps() {
        for config in [SamplingConfig::new(), SamplingConfig::hmc()] {
            for tuning in 1..6 {
                let config = config
                    .clone()
                    .with_warm_up_steps(0)
                    .with_tuning_steps(tuning);
                let chains = config.with_steps(50).with_draws(50);
                let chains = chains
                    .sample_density(vec![Normals], vec![vec![0.0; 2]])
                    .unwrap();
                let moves = chains[0].windows(2).filter(|pair| pair[0] != pair[1]);
                assert!(moves.count() > 10, "{tuning} steps of tuning");
                assert!(chains[0].iter().flatten().all(|z| z.is_finite()));
            }
        }
    }

    #[test]
    fn steps_are_divided_in_proportion_and_none_is_lost() {
        let config = SamplingConfig::new();
        let parts = |steps| {
            let config = config.clone().with_all_steps(steps);
            config.validate().unwrap();
            (config.warm_up_steps, config.tuning_steps, config.steps)
        };
        assert_eq!(parts(7000), (2000, 1500, 3500));
        assert_eq!(parts(14_000), (4000, 3000, 7000));
        for all in [2, 3, 10, 99, 1234] {
            let (warm_up, tuning, steps) = parts(all);
            assert_eq!(warm_up + tuning + steps, all);
            let draws = config.clone().with_all_steps(all).draws;
            assert!(steps.is_multiple_of(draws), "{all}: {draws} draws");
        }
    }
}
