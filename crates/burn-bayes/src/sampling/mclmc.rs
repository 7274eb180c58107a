//! The settings of MCLMC, and a run of several chains.

use std::ops::ControlFlow;

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use burn_bayes_graph::ExampleBatch;
use burn_bayes_graph::cpu::side_by_side;

use super::chain::{Chain, Phases};
use super::density::{LogDensity, ModelDensity};
use super::samples::Samples;
use crate::error::{Error, Result};
use crate::methods::checks::{counts, positive};
use crate::noise::Noise;
use crate::posterior::ModelState;
use crate::prior::Prior;
use crate::train::ExampleLoss;

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

/// How far a run is, in gradients of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingProgress {
    /// Those so far.
    pub steps: u64,
    /// All of them.
    pub end: u64,
}

/// Rounds between two looks at the progress.
const ROUNDS: u64 = 50;
/// The random stream of the chains.
const CHAINS: u64 = 0x6d63_6c6d;

impl MclmcConfig {
    /// Samples from the posterior over the weights of models that differ in nothing else. Every chain starts at one of them.
    ///
    /// `batches` have all rows of the training data.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used; if there are no models or no rows; if a model has other parameters than the first one;
    /// if a loss cannot be evaluated or is not finite at the start of a chain.
    pub fn sample<M>(&self, models: &[M], batches: &[M::Input]) -> Result<Samples>
    where
        M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
    {
        self.sample_while(models, batches, |_| ControlFlow::Continue(()))
    }

    /// The same, with a look at the progress from time to time; `Break` ends the run with the draws so far.
    ///
    /// # Errors
    ///
    /// As [`sample`](Self::sample).
    pub fn sample_while<M>(
        &self,
        models: &[M],
        batches: &[M::Input],
        look: impl FnMut(SamplingProgress) -> ControlFlow<()>,
    ) -> Result<Samples>
    where
        M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
    {
        let Some(first) = models.first() else {
            return Err(Error::config(
                "models",
                "has none; a chain starts at each of them",
            ));
        };
        if batches.is_empty() {
            return Err(Error::config("batches", "has none"));
        }
        let density = ModelDensity::new(first, &self.group, &self.prior, batches)?;
        let starts = models.iter().map(|model| density.place_of(model));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        let chains = self.run(vec![density.clone(); models.len()], starts, look)?;
        let weights = |chain: &Chain| {
            let draws = chain.draws().iter();
            draws.map(|place| density.weights_at(place)).collect()
        };
        let device = first.devices().into_iter().next().unwrap_or_default();
        Ok(Samples {
            chains: chains.iter().map(weights).collect(),
            summaries: chains.iter().filter_map(Chain::summary).collect(),
            state: ModelState::of(first, density.layout()),
            device: device.inner(),
            layout: density.layout().clone(),
        })
    }

    /// Samples from any density, which every chain has a copy of, from these starts: the draws of each chain.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used, a start has fewer than two numbers, or the density is not finite at the start of a chain.
    pub fn sample_density<D: LogDensity>(
        &self,
        densities: Vec<D>,
        starts: Vec<Vec<f64>>,
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        let chains = self.run(densities, starts, |_| ControlFlow::Continue(()))?;
        Ok(chains.iter().map(|chain| chain.draws().to_vec()).collect())
    }

    /// Runs the chains, side by side as far as there are processors.
    fn run<D: LogDensity>(
        &self,
        mut densities: Vec<D>,
        starts: Vec<Vec<f64>>,
        mut look: impl FnMut(SamplingProgress) -> ControlFlow<()>,
    ) -> Result<Vec<Chain>> {
        self.validate()?;
        if let Some(start) = starts.iter().find(|start| start.len() < 2) {
            let problem = format!("selects {}; a chain needs at least 2", start.len());
            return Err(Error::config("group", problem));
        }
        let noise = Noise::new(self.seed).fold(CHAINS);
        let mut chains: Vec<_> = starts.into_iter().map(Chain::new).collect();
        let end = Phases::new(self).end;
        for round in 1..=ROUNDS {
            let until = end * round / ROUNDS;
            let runs = chains.iter_mut().zip(&mut densities).zip(0..);
            let results = side_by_side(runs.collect(), |((chain, density), number)| {
                chain.advance(density, self, noise.fold(number), until)
            });
            results.into_iter().collect::<Result<()>>()?;
            if look(SamplingProgress { steps: until, end }).is_break() {
                break;
            }
        }
        Ok(chains)
    }

    fn validate(&self) -> Result<()> {
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
    use crate::sampling::testing::Gaussian;

    /// Means and variances of every number, from the draws of all chains.
    fn moments(chains: &[Vec<Vec<f64>>]) -> Vec<[f64; 2]> {
        let draws: Vec<_> = chains.iter().flatten().collect();
        let count = draws.len() as f64;
        let of_place = |place: usize| {
            let mean = draws.iter().map(|draw| draw[place]).sum::<f64>() / count;
            let squares = draws.iter().map(|draw| (draw[place] - mean).powi(2));
            [mean, squares.sum::<f64>() / count]
        };
        (0..draws[0].len()).map(of_place).collect()
    }

    /// Deviations from .01 to 1: a condition number of 10⁴.
    #[test]
    fn draws_have_the_moments_of_a_gaussian_of_any_scales() {
        const LEN: usize = 20;
        let deviations: Vec<f64> = (0..LEN)
            .map(|place| 10f64.powf(-2.0 * place as f64 / (LEN - 1) as f64))
            .collect();
        let gaussian = Gaussian::of_deviations(&deviations);
        let config = MclmcConfig::new()
            .with_warm_up_steps(0)
            .with_tuning_steps(4000)
            .with_steps(40_000)
            .with_draws(2000)
            .with_energy_variance(5e-4);
        let starts = vec![vec![0.5; LEN], vec![-0.5; LEN]];
        let chains = config.sample_density(vec![gaussian; 2], starts).unwrap();
        for (deviation, [mean, variance]) in deviations.iter().zip(moments(&chains)) {
            let (mean, ratio) = (mean / deviation, variance.sqrt() / deviation);
            assert!(mean.abs() < 0.1, "deviation {deviation}: mean {mean}");
            assert!(
                (ratio - 1.0).abs() < 0.06,
                "deviation {deviation}: {ratio} of it"
            );
        }
    }

    #[test]
    fn a_chain_depends_on_no_other() {
        let config = MclmcConfig::new()
            .with_warm_up_steps(20)
            .with_tuning_steps(50)
            .with_steps(60)
            .with_draws(3);
        let gaussian = Gaussian::of_deviations(&[1.0, 0.3, 2.0]);
        let starts = |count: usize| vec![vec![1.0, -1.0, 0.5]; count];
        let sample = |count| config.sample_density(vec![gaussian.clone(); count], starts(count));
        let (one, three) = (sample(1).unwrap(), sample(3).unwrap());
        assert_eq!(one[0], three[0]);
        assert_eq!(one[0].len(), 3);
        assert_ne!(three[0], three[1]);
    }

    #[test]
    fn refused_settings_name_their_field() {
        let config = MclmcConfig::new();
        let cases = [
            (config.clone().with_draws(0), "draws"),
            (config.clone().with_steps(10), "draws"),
            (config.clone().with_tuning_steps(0), "tuning_steps"),
            (config.clone().with_energy_variance(0.0), "energy_variance"),
            (config.clone().with_length(f64::NAN), "length"),
        ];
        for (config, field) in cases {
            let gaussian = Gaussian::of_deviations(&[1.0; 2]);
            let error = config.sample_density(vec![gaussian], vec![vec![0.0; 2]]);
            let message = error.expect_err(field).to_string();
            assert!(message.starts_with(field), "{message}");
        }
        let gaussian = Gaussian::of_deviations(&[1.0]);
        let error = config.sample_density(vec![gaussian], vec![vec![0.0]]);
        assert!(error.is_err_and(|error| error.is_config()));
    }
}
