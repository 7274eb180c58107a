//! The posterior of a regression by a network with one input and one hidden layer of ReLU units.
//!
//! ```text
//! f(x) = c + Σ_h v_h max(0, w_h x + b_h)
//! U(θ) = ½ β Σ_n (f(x_n) − y_n)² + ½ α ‖θ‖²,   θ = (w, b, v, c)
//! ```

use burn_bayes::eval::Chains;
use burn_bayes::sampling::{LogDensity, SamplingConfig};
use burn_bayes_data::ColumnScale;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;

use burn_bayes_tabular::error::{Result, TabularError};

use super::generators::normals;

/// The posterior, of rows as the network has them.
#[derive(Clone, Debug)]
pub(super) struct ReluRegression {
    pub(super) inputs: Vec<f64>,
    pub(super) targets: Vec<f64>,
    /// The number of hidden units.
    pub(super) units: usize,
    /// α.
    pub(super) prior_precision: f64,
    /// β.
    pub(super) noise_precision: f64,
}

/// How long to sample.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sampling {
    pub(super) chains: u64,
    pub(super) warm_up: usize,
    pub(super) draws: usize,
    pub(super) seed: u64,
}

/// The function under the posterior, at some inputs.
#[derive(Clone, Debug)]
pub(super) struct FunctionValues {
    pub(super) means: Vec<f64>,
    /// Epistemic standard deviations.
    pub(super) deviations: Vec<f64>,
    /// The largest R̂ of a value.
    pub(super) r_hat: f64,
}

impl FunctionValues {
    /// Values of standardised targets in their own unit.
    pub(super) fn in_units_of(mut self, scale: ColumnScale) -> Self {
        for mean in &mut self.means {
            *mean = scale.undo(*mean);
        }
        for deviation in &mut self.deviations {
            *deviation *= scale.spread;
        }
        self
    }
}

/// The deviation of the weights from which a chain starts, relative to the prior's.
const START: f64 = 0.3;
/// The largest R̂ of chains that agree.
const MOST_R_HAT: f64 = 1.05;

impl ReluRegression {
    fn split<'w>(&self, weights: &'w [f64]) -> [&'w [f64]; 4] {
        let (inner, rest) = weights.split_at(self.units);
        let (biases, rest) = rest.split_at(self.units);
        let (outer, constant) = rest.split_at(self.units);
        [inner, biases, outer, constant]
    }

    fn value(&self, weights: &[f64], input: f64) -> f64 {
        let [inner, biases, outer, constant] = self.split(weights);
        let units = inner.iter().zip(biases).zip(outer);
        let terms = units.map(|((w, b), v)| v * (w * input + b).max(0.0));
        constant[0] + terms.sum::<f64>()
    }

    /// The function at `inputs`, from several chains.
    ///
    /// # Errors
    ///
    /// Chains that do not agree.
    pub(super) fn function_values(
        &self,
        inputs: &[f64],
        sampling: &Sampling,
    ) -> Result<FunctionValues> {
        let hmc = SamplingConfig::hmc()
            .with_warm_up_steps(0)
            .with_tuning_steps(sampling.warm_up)
            .with_steps(sampling.draws)
            .with_draws(sampling.draws)
            .with_seed(sampling.seed);
        let (densities, starts) = self.chains(sampling);
        let chains = hmc.sample_density(densities, starts)?;
        let found = self.values_of(inputs, &chains)?;
        let most = found.r_hat;
        if most.is_nan() || most > MOST_R_HAT {
            let problem = format!("the chains of the reference do not agree: R̂ is {most:.3}");
            return Err(TabularError::Data(problem));
        }
        Ok(found)
    }

    /// The function at `inputs`, from chains of MCLMC.
    pub(super) fn sampled(
        &self,
        inputs: &[f64],
        mclmc: &SamplingConfig,
        sampling: &Sampling,
    ) -> Result<FunctionValues> {
        let (densities, starts) = self.chains(sampling);
        let chains = mclmc.sample_density(densities, starts)?;
        self.values_of(inputs, &chains)
    }

    fn chains(&self, sampling: &Sampling) -> (Vec<Self>, Vec<Vec<f64>>) {
        let scale = START / self.prior_precision.sqrt();
        let starts = (0..sampling.chains).map(|chain| {
            let seed = sampling.chains * sampling.seed + chain;
            let mut start = normals(3 * self.units + 1, &mut StdRng::seed_from_u64(seed));
            start.iter_mut().for_each(|weight| *weight *= scale);
            start
        });
        (
            vec![self.clone(); sampling.chains as usize],
            starts.collect(),
        )
    }

    fn values_of(&self, inputs: &[f64], chains: &[Vec<Vec<f64>>]) -> Result<FunctionValues> {
        let draws = chains[0].len();
        let of_input = |&input: &f64| -> Vec<f64> {
            let draws = chains.iter().flatten();
            draws.map(|weights| self.value(weights, input)).collect()
        };
        let values: Vec<_> = inputs.iter().map(of_input).collect();
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        let mut most = 1.0_f64;
        for values in &values {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares = values.iter().map(|value| (value - mean).powi(2));
            deviations.push((squares.sum::<f64>() / count).sqrt());
            means.push(mean);
            let chains = Chains::new(values, chains.len(), draws)?;
            let r_hat = chains.r_hat().unwrap_or(f64::INFINITY);
            most = if r_hat <= most { most } else { r_hat };
        }
        Ok(FunctionValues {
            means,
            deviations,
            r_hat: most,
        })
    }
}

impl LogDensity for ReluRegression {
    fn evaluate(&mut self, weights: &[f64], gradient: &mut [f64]) -> burn_bayes::Result<f64> {
        let mut log_density = 0.0;
        for (slope, weight) in gradient.iter_mut().zip(weights) {
            *slope = -self.prior_precision * weight;
            log_density += 0.5 * *slope * weight;
        }
        let [inner, biases, outer, _] = self.split(weights);
        let (of_inner, rest) = gradient.split_at_mut(self.units);
        let (of_biases, rest) = rest.split_at_mut(self.units);
        let (of_outer, of_constant) = rest.split_at_mut(self.units);
        for (&input, &target) in self.inputs.iter().zip(&self.targets) {
            let residual = target - self.value(weights, input);
            log_density -= 0.5 * self.noise_precision * residual * residual;
            let slope = self.noise_precision * residual;
            of_constant[0] += slope;
            for unit in 0..self.units {
                let activation = inner[unit] * input + biases[unit];
                let slope = if activation > 0.0 { slope } else { 0.0 };
                of_outer[unit] += slope * activation;
                of_biases[unit] += slope * outer[unit];
                of_inner[unit] += slope * outer[unit] * input;
            }
        }
        Ok(log_density)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regression() -> ReluRegression {
        ReluRegression {
            inputs: vec![-1.0, 0.3, 1.2],
            targets: vec![0.5, -0.4, 1.0],
            units: 3,
            prior_precision: 2.0,
            noise_precision: 5.0,
        }
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let mut regression = regression();
        let weights = normals(10, &mut StdRng::seed_from_u64(4));
        let mut gradient = vec![0.0; 10];
        regression.evaluate(&weights, &mut gradient).unwrap();
        for at in 0..10 {
            let mut log_density = |step: f64| {
                let mut moved = weights.clone();
                moved[at] += step;
                regression.evaluate(&moved, &mut [0.0; 10]).unwrap()
            };
            let slope = (log_density(1e-5) - log_density(-1e-5)) / 2e-5;
            assert!((gradient[at] - slope).abs() < 1e-6, "{at}: {gradient:?}");
        }
    }

    #[test]
    fn without_rows_the_function_is_that_of_the_prior() {
        let regression = ReluRegression {
            inputs: Vec::new(),
            targets: Vec::new(),
            ..regression()
        };
        let sampling = Sampling {
            chains: 2,
            warm_up: 200,
            draws: 4000,
            seed: 1,
        };
        let found = regression.function_values(&[0.0, 2.0], &sampling).unwrap();
        // Var f = 1/α + H · 1/α · ½ (1 + x²)/α.
        for (deviation, input) in found.deviations.iter().zip([0.0, 2.0f64]) {
            let expected = (0.5 + 3.0 * 0.5 * 0.25 * (1.0 + input * input)).sqrt();
            assert!((deviation / expected - 1.0).abs() < 0.08, "{found:?}");
        }
    }
}
