//! One simulation: weights from the prior, targets from the likelihood, a fit, and ranks.

use burn_bayes::Noise;
use burn_bayes::eval::{EvalError, posterior_rank};
use burn_bayes::laplace::ModelOutputs;
use serde::Serialize;

use super::Design;
use super::quantities::Quantities;
use crate::engine::{self, prior_draw};
use crate::error::{Result, TabularError};
use crate::network::Network;
use crate::rows::{Target, TrainingSet};
use crate::settings::{
    FitSettings, MOST_DRAWS, Method, NoisePrecision, PriorPrecision, expect_at_most, refused,
};

/// The random stream of the simulations, and the streams of each: its weights, its noise and the seed of its fit.
const SIMULATIONS: u64 = 0x7369_6d75;
const WEIGHTS: u64 = 1;
const NOISE: u64 = 2;
const FIT: u64 = 3;

/// Simulates a design with the prior and the likelihood of a fit. Simulation i depends only on the seed of the
/// settings and i.
#[derive(Debug)]
pub struct Simulator {
    rows: TrainingSet,
    settings: FitSettings,
    quantities: Quantities,
    draws: usize,
}

impl Simulator {
    /// Simulations for these settings, with ranks among `draws` draws of each posterior.
    ///
    /// # Errors
    /// If the method has no posterior, the noise of a regression is not given, or a setting is invalid.
    pub fn new(design: &Design, settings: &FitSettings, draws: usize) -> Result<Self> {
        expect_at_most("posterior_draws", draws, MOST_DRAWS)?;
        if settings.method == Method::Map {
            let problem =
                "is map, which has no posterior to check; use another method, such as vifa";
            return Err(refused("method", problem));
        }
        if settings.prior.kernel().is_some() {
            let problem =
                "is a Gaussian process, from which no weights can be drawn; use `weights`";
            return Err(refused("prior", problem));
        }
        if matches!(design.rows.target(), Target::Several(_)) {
            let problem = "names several columns, but one is simulated; name one of them";
            return Err(refused("target", problem));
        }
        if matches!(design.rows.target(), Target::Counts { .. }) {
            let problem =
                "is counts, of which none are simulated; check the method with numbers or classes";
            return Err(refused("task", problem));
        }
        let is_learned = settings.noise_precision == NoisePrecision::LEARNED;
        if matches!(design.rows.target(), Target::Real(_)) && is_learned {
            let problem = "is learned, but targets are simulated with noise of a known precision; give a number, \
                           1/variance in the unit of the target";
            return Err(refused("noise_precision", problem));
        }
        if !engine::is_simple(settings, design.rows.target()) {
            let problem = "has no simulation, as gaussian and categorical have; leave it out";
            return Err(refused("likelihood", problem));
        }
        if matches!(settings.prior_precision, PriorPrecision::Learned(_)) {
            let problem = "is learned, but the weights of the simulations are drawn from a known prior; give a number";
            return Err(refused("prior_precision", problem));
        }
        engine::check(&design.rows, settings)?;
        Ok(Self {
            rows: design.rows.clone(),
            settings: FitSettings {
                prior_precision: settings.prior_precision.initial().into(),
                ..settings.clone()
            },
            quantities: Quantities::new(design, settings),
            draws,
        })
    }

    /// Everything that the ranks of a simulation depend on.
    pub(super) fn key(&self) -> impl Serialize + use<> {
        let Self {
            rows,
            settings,
            quantities,
            draws,
        } = self;
        let names = quantities.names().to_vec();
        (settings.key(), rows.fingerprint(), names, *draws)
    }

    /// The names of the ranked quantities.
    pub fn quantities(&self) -> &[String] {
        self.quantities.names()
    }

    /// The rank of every true quantity among those of the posterior draws; `None` if the fit diverged.
    ///
    /// # Errors
    /// If the fit fails for any other reason.
    pub fn ranks(&self, simulation: u64) -> Result<Option<Vec<usize>>> {
        let noise = Noise::new(self.settings.seed).fold(SIMULATIONS);
        let noise = noise.row(simulation);
        let truth = prior_draw(&self.rows, &self.settings, noise.fold(WEIGHTS))?;
        let data = self.simulated(&truth, noise.fold(NOISE))?;
        let settings = FitSettings {
            seed: noise.fold(FIT).uniform().to_bits(),
            ..self.settings.clone()
        };
        let values = self.quantities.on(&data, &settings)?;
        let fitted = engine::fit(&data, &settings, &mut ());
        let draws = fitted.and_then(|model| model.map_independent_draws(self.draws, &values));
        let draws = match draws {
            Err(TabularError::Numerical(_)) => return Ok(None),
            draws => draws?,
        };
        if !draws.iter().flatten().all(|value| value.is_finite()) {
            return Ok(None);
        }
        let rank = |(quantity, truth): (usize, f64)| {
            let draws: Vec<f64> = draws.iter().map(|values| values[quantity]).collect();
            posterior_rank(truth, &draws)
        };
        let truths = values(&truth).into_iter().enumerate();
        let ranks: Result<Vec<usize>, EvalError> = truths.map(rank).collect();
        Ok(Some(ranks?))
    }

    /// The rows with targets of the likelihood of this network.
    fn simulated(&self, truth: &Network, noise: Noise) -> Result<TrainingSet> {
        let device = self.settings.device.device()?;
        let all: Vec<usize> = (0..self.rows.rows()).collect();
        let outputs = truth.forward(self.rows.batch(&all, &device).inputs);
        let outputs: Vec<f64> = outputs.into_data().iter::<f64>().collect();
        let targets = match truth.likelihood().noise_precisions() {
            Some(precisions) => {
                let precision = precisions[0];
                let deviation = precision.sqrt().recip();
                let normals = noise.latent(outputs.len()).into_iter().map(f64::from);
                let pairs = outputs.iter().zip(normals);
                pairs
                    .map(|(mean, normal)| (mean + deviation * normal) as f32)
                    .collect()
            }
            None => {
                let rows = outputs.chunks(self.rows.target().columns());
                let classes = rows
                    .zip(0..)
                    .map(|(logits, row)| (class(logits, noise.row(row).uniform()), logits.len()));
                let one_hot = |(class, classes)| {
                    (0..classes).map(move |other| f32::from(u8::from(other == class)))
                };
                classes.flat_map(one_hot).collect()
            }
        };
        Ok(self.rows.with_targets(targets))
    }
}

/// The class with these logits at a uniform number: the first whose cumulative probability is above it.
fn class(logits: &[f64], uniform: f64) -> usize {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let mut left = uniform * weights.iter().sum::<f64>();
    let reached = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    reached.unwrap_or(logits.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_probabilities_of_their_logits() {
        let logits = [0.0, 2f64.ln(), 5f64.ln()];
        let mut counts = [0; 3];
        for step in 0..8000 {
            counts[class(&logits, (f64::from(step) + 0.5) / 8000.0)] += 1;
        }
        assert_eq!(counts, [1000, 2000, 5000]);
        assert_eq!(class(&[1e6, 0.0], 0.999), 0);
    }
}
