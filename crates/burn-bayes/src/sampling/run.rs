//! A run of several chains, side by side.

use std::fmt;

use burn::module::Module;
use burn::tensor::Device;
use burn_bayes_graph::cpu::side_by_side;
use burn_bayes_graph::{ExampleBatch, module_device};

use super::chain::{Chain, Phases};
use super::density::{LogDensity, ModelDensity};
use super::samples::Samples;
use super::settings::SamplingConfig;
use crate::error::{Error, Result};
use crate::noise::Noise;
use crate::posterior::ModelState;
use crate::train::ExampleLoss;

/// Chains with a density each.
struct Run<D> {
    config: SamplingConfig,
    densities: Vec<D>,
    chains: Vec<Chain>,
    /// The steps that were added to the length of a chain.
    added: u64,
}

/// The random stream of the chains.
const CHAINS: u64 = 0x6d63_6c6d;

impl<D: LogDensity> Run<D> {
    fn new(config: &SamplingConfig, densities: Vec<D>, starts: Vec<Vec<f64>>) -> Result<Self> {
        config.validate()?;
        if let Some(start) = starts.iter().find(|start| start.len() < 2) {
            let problem = format!("selects {}; a chain needs at least 2", start.len());
            return Err(Error::config("group", problem));
        }
        Ok(Self {
            config: config.clone(),
            densities,
            chains: starts.into_iter().map(Chain::new).collect(),
            added: 0,
        })
    }

    /// The steps of each chain so far.
    fn step(&self) -> u64 {
        self.chains.first().map_or(0, Chain::step)
    }

    fn phases(&self) -> Phases {
        Phases::new(&self.config).lengthened(self.added)
    }

    fn end(&self) -> u64 {
        self.phases().end
    }

    /// The first draw that counts: of chains that were lengthened, the first half is left out.
    fn first(&self, draws: usize) -> usize {
        match self.added {
            0 => 0,
            _ => draws / 2,
        }
    }

    /// Makes this many steps of each chain.
    fn advance(&mut self, steps: u64) -> Result<()> {
        let until = self.step().saturating_add(steps);
        let noise = Noise::new(self.config.seed).fold(CHAINS);
        let phases = self.phases();
        let runs = self.chains.iter_mut().zip(&mut self.densities).zip(0..);
        let config = &self.config;
        let results = side_by_side(runs.collect(), |((chain, density), number)| {
            chain.advance(density, (config, &phases), noise.fold(number), until)
        });
        results.into_iter().collect()
    }

    fn finish(&mut self) -> Result<()> {
        self.advance(self.end())
    }
}

/// Chains that sample the weights of a model, between two of their steps.
///
/// ```
/// # use burn::nn::{Linear, LinearConfig};
/// # use burn::tensor::{Device, Tensor};
/// # use burn_bayes::Supervised;
/// # use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::sampling::SamplingConfig;
///
/// # let device = Device::default().autodiff();
/// # let x = Tensor::<1>::from_floats([-2.0, -1.0, 1.0, 2.0], &device.clone().inner()).reshape([4, 1]);
/// # let forward = |net: &Linear, x: Tensor<2>| net.forward(x);
/// # let model = || {
/// #     let network = LinearConfig::new(1, 1).init(&device);
/// #     Supervised::new(network, forward, Likelihood::Gaussian { noise_precision: 100.0 })
/// # };
/// # let (models, batches) = ([model(), model()], [(x.clone(), x)]);
/// let mut sampling = SamplingConfig::new().start(&models, &batches)?;
/// while sampling.step() < sampling.end() {
///     sampling.advance(1000)?;
///     println!("step {} of {}", sampling.step(), sampling.end());
/// }
/// let posterior = sampling.samples().posterior()?;
/// # Ok::<(), burn_bayes::Error>(())
/// ```
pub struct Sampling<M: Module + ExampleLoss> {
    run: Run<ModelDensity<M>>,
    state: ModelState,
    device: Device,
}

impl<M: Module + ExampleLoss> fmt::Debug for Sampling<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling")
            .field("config", &self.run.config)
            .field("chains", &self.run.chains)
            .field("added", &self.run.added)
            .finish_non_exhaustive()
    }
}

impl<M> Sampling<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
{
    /// The steps of each chain so far; one takes a gradient.
    pub fn step(&self) -> u64 {
        self.run.step()
    }

    /// All steps of a chain.
    pub fn end(&self) -> u64 {
        self.run.end()
    }

    /// The work of a step of all chains, if they are of MCLMC; `None` if gradients are not compiled.
    pub fn work(&self) -> Option<f64> {
        let densities = self.run.densities.iter();
        densities.map(ModelDensity::work).sum()
    }

    /// Makes this many steps of each chain, or as many as are left, side by side as far as there are processors.
    ///
    /// # Errors
    ///
    /// If a loss cannot be evaluated, or is not finite at the start of a chain.
    pub fn advance(&mut self, steps: u64) -> Result<()> {
        self.run.advance(steps)
    }

    /// Lengthens the chains by this many steps, with draws as far apart. Of their draws, the first half no longer counts, as
    /// those of a chain on its way.
    pub fn lengthen(&mut self, steps: u64) {
        self.run.added = self.run.added.saturating_add(steps);
    }

    /// The draws so far.
    pub fn samples(&self) -> Samples {
        self.samples_at(|chain| {
            let draws = chain.draws();
            &draws[self.run.first(draws.len())..]
        })
    }

    /// Where the chains are, as one draw of each.
    pub fn places(&self) -> Samples {
        self.samples_at(|chain| std::slice::from_ref(chain.place()))
    }

    fn samples_at(&self, places: impl Fn(&Chain) -> &[Vec<f64>]) -> Samples {
        let Run {
            chains, densities, ..
        } = &self.run;
        let weights = |(chain, density): (&Chain, &ModelDensity<M>)| {
            let places = places(chain).iter();
            places.map(|place| density.weights_at(place)).collect()
        };
        Samples {
            chains: chains.iter().zip(densities).map(weights).collect(),
            summaries: chains.iter().filter_map(Chain::summary).collect(),
            state: self.state.clone(),
            device: self.device.clone(),
            layout: densities[0].layout().clone(),
        }
    }

    /// The sum of the losses of all rows where the chains are, the mean of the chains.
    ///
    /// # Errors
    ///
    /// If they cannot be evaluated.
    pub fn loss(&mut self) -> Result<f64> {
        let chains = self.run.chains.iter().zip(&mut self.run.densities);
        let count = chains.len() as f64;
        let losses = chains.map(|(chain, density)| density.loss(chain.place()));
        Ok(losses.sum::<Result<f64>>()? / count)
    }

    /// What [`resumed`](Self::resumed) goes on from, in JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let Run {
            config,
            chains,
            added,
            ..
        } = &self.run;
        serde_json::to_vec(&(config, chains, added))
            .map_err(|error| Error::storage(format!("a checkpoint cannot be made: {error}")))
    }

    /// This run at a checkpoint of an equal one. Its draws will be those of the run that the checkpoint is of.
    ///
    /// # Errors
    ///
    /// If the checkpoint is damaged, or of other settings, another number of chains or another number of weights.
    pub fn resumed(mut self, checkpoint: &[u8]) -> Result<Self> {
        let damaged = |error| Error::storage(format!("the checkpoint is damaged: {error}"));
        let (config, chains, added): (SamplingConfig, Vec<Chain>, u64) =
            serde_json::from_slice(checkpoint).map_err(damaged)?;
        let run = &mut self.run;
        let lens = |chains: &[Chain]| {
            let lens = chains.iter().map(|chain| chain.place().len());
            lens.collect::<Vec<_>>()
        };
        let is_same = lens(&chains) == lens(&run.chains);
        if !is_same || config.to_string() != run.config.to_string() {
            return Err(Error::storage(
                "the checkpoint is of other settings or another model; use those that it was made with",
            ));
        }
        run.chains = chains;
        run.added = added;
        Ok(self)
    }
}

impl SamplingConfig {
    /// Chains of the posterior over the weights of models that differ in nothing else, one at each of them, before their
    /// first step.
    ///
    /// `batches` have all rows of the training data. Every chain computes on the device of its model, to which they are copied.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used; if there are no models or no rows; if a model has other parameters than the first one;
    /// if a loss cannot be evaluated.
    pub fn start<M>(&self, models: &[M], batches: &[M::Input]) -> Result<Sampling<M>>
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
        let mut densities: Vec<ModelDensity<M>> = Vec::new();
        for model in models {
            let device = module_device(model).inner();
            let known = densities.iter().find(|known| known.device() == device);
            densities.push(match known {
                Some(density) => density.clone(),
                None => ModelDensity::new(model, &self.group, &self.prior, batches)?,
            });
        }
        let starts = models.iter().map(|model| densities[0].place_of(model));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        Ok(Sampling {
            state: ModelState::of(first, densities[0].layout()),
            device: densities[0].device(),
            run: Run::new(self, densities, starts)?,
        })
    }

    /// Samples from the posterior over the weights of models that differ in nothing else. Every chain starts at one of them.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and if a loss is not finite at the start of a chain.
    pub fn sample<M>(&self, models: &[M], batches: &[M::Input]) -> Result<Samples>
    where
        M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
    {
        let mut sampling = self.start(models, batches)?;
        sampling.run.finish()?;
        Ok(sampling.samples())
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
        let mut run = Run::new(self, densities, starts)?;
        run.finish()?;
        Ok(run
            .chains
            .into_iter()
            .map(|chain| chain.draws().to_vec())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::testing::Gaussian;
    use crate::sampling::{Dynamics, HmcConfig, MclmcConfig};

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

    fn mclmc(energy_variance: f64) -> Dynamics {
        Dynamics::Mclmc(MclmcConfig::new().with_energy_variance(energy_variance))
    }

    /// Deviations from .01 to 1: a condition number of 10⁴.
    fn of_any_scales(config: &SamplingConfig) {
        const LEN: usize = 20;
        let deviations: Vec<f64> = (0..LEN)
            .map(|place| 10f64.powf(-2.0 * place as f64 / (LEN - 1) as f64))
            .collect();
        let gaussian = Gaussian::of_deviations(&deviations);
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
    fn mclmc_has_the_moments_of_a_gaussian_of_any_scales() {
        let config = SamplingConfig::new()
            .with_warm_up_steps(0)
            .with_tuning_steps(4000)
            .with_steps(40_000)
            .with_draws(2000)
            .with_dynamics(mclmc(5e-4));
        of_any_scales(&config);
    }

    /// In coordinates of its own each number takes steps of its deviation: few trajectories are enough.
    #[test]
    fn hmc_has_the_moments_of_a_gaussian_of_any_scales() {
        let config = SamplingConfig::hmc()
            .with_warm_up_steps(0)
            .with_steps(3000)
            .with_draws(3000);
        of_any_scales(&config);
    }

    #[test]
    fn a_start_without_a_density_is_refused() {
        for config in [SamplingConfig::new(), SamplingConfig::hmc()] {
            let gaussian = Gaussian::of_deviations(&[1.0; 2]);
            let starts = vec![vec![f64::NAN; 2]];
            let error = config
                .with_warm_up_steps(0)
                .sample_density(vec![gaussian], starts);
            assert!(error.is_err_and(|error| error.is_numerical()));
        }
    }

    #[test]
    fn a_chain_depends_on_no_other() {
        let config = SamplingConfig::new()
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
        let config = SamplingConfig::new();
        let cases = [
            (config.clone().with_draws(0), "draws"),
            (config.clone().with_steps(10), "draws"),
            (config.clone().with_tuning_steps(0), "tuning_steps"),
            (config.clone().with_dynamics(mclmc(0.0)), "energy_variance"),
            (
                config
                    .clone()
                    .with_dynamics(Dynamics::Hmc(HmcConfig::new().with_length(f64::NAN))),
                "length",
            ),
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
