//! The settings of MCLMC.

use burn::config::Config;
use burn::module::ParamGroup;

use crate::error::{Error, Result};
use crate::methods::checks::{counts, positive};
use crate::prior::Prior;

/// The settings of microcanonical Langevin Monte Carlo. The defaults were the best on development splits of tables.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::sampling::MclmcConfig;
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
/// let samples = MclmcConfig::new().sample(&models, &[(x.clone(), x.clone() * 2.0)])?;
/// let agreement = samples.agreement(&models[0], &x)?.expect("there are several chains");
/// println!("{agreement}");
/// let predictor = Predictor::new(models[0].clone(), samples.posterior()?, Noise::new(0))?;
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct MclmcConfig {
    /// The prior over the weights.
    #[config(default = "Prior::by_fan_in(2.0)")]
    pub prior: Prior,
    /// The parameters that become random; the others stay as they are in the first model.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// The gradients of a chain's warm start, steps of Adam towards a mode; with 0 it starts at the model's own weights.
    #[config(default = 2000)]
    pub warm_up_steps: usize,
    /// The learning rate of these steps, in deviations of the prior, or of 1 where these are larger.
    #[config(default = 0.01)]
    pub warm_up_rate: f64,
    /// The tuning steps of a chain.
    #[config(default = 1500)]
    pub tuning_steps: usize,
    /// The sampling steps of a chain.
    #[config(default = 3500)]
    pub steps: usize,
    /// The draws of a chain.
    #[config(default = 50)]
    pub draws: usize,
    /// v, the variance of the energy error per weight. A smaller one is more exact, and takes more steps.
    #[config(default = 0.02)]
    pub energy_variance: f64,
    /// v at the beginning of the tuning.
    #[config(default = 0.5)]
    pub first_energy_variance: f64,
    /// ε at the beginning.
    #[config(default = 0.01)]
    pub first_step_size: f64,
    /// L/√d, after how long a way the direction is forgotten.
    #[config(default = 0.2)]
    pub length: f64,
    /// The seed.
    #[config(default = 0)]
    pub seed: u64,
}

impl MclmcConfig {
    /// The same with this many gradients of a chain, in the same proportion of warm start, tuning and sampling, as far as
    /// draws are an equal number of steps apart. There are no more draws than sampling steps.
    #[must_use]
    pub fn with_gradients(self, gradients: usize) -> Self {
        let all = (self.warm_up_steps + self.tuning_steps + self.steps).max(1) as f64;
        let share = |steps: usize| (steps as f64 / all * gradients as f64) as usize;
        let steps = share(self.steps).max(1);
        let draws = self.draws.min(steps);
        let steps = steps - steps % draws.max(1);
        let tuning_steps = share(self.tuning_steps).max(1);
        Self {
            warm_up_steps: gradients.saturating_sub(tuning_steps + steps),
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
        for (field, value) in [
            ("warm_up_rate", self.warm_up_rate),
            ("energy_variance", self.energy_variance),
            ("first_energy_variance", self.first_energy_variance),
            ("first_step_size", self.first_step_size),
            ("length", self.length),
        ] {
            positive(field, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_divided_in_proportion_and_none_is_lost() {
        let config = MclmcConfig::new();
        let parts = |gradients| {
            let config = config.clone().with_gradients(gradients);
            config.validate().unwrap();
            (config.warm_up_steps, config.tuning_steps, config.steps)
        };
        assert_eq!(parts(7000), (2000, 1500, 3500));
        assert_eq!(parts(14_000), (4000, 3000, 7000));
        for gradients in [2, 3, 10, 99, 1234] {
            let (warm_up, tuning, steps) = parts(gradients);
            assert_eq!(warm_up + tuning + steps, gradients);
            let draws = config.clone().with_gradients(gradients).draws;
            assert!(steps.is_multiple_of(draws), "{gradients}: {draws} draws");
        }
    }
}
