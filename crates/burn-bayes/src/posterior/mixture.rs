//! A mixture of posteriors, as ensembles give.

use burn::module::Module;
use burn::tensor::Tensor;

use super::FactorPosterior;
use crate::error::{Error, Result};
use crate::noise::Noise;

/// Σ_m w_m q_m over the same weights.
///
/// A draw first picks a component, then draws from it.
#[derive(Clone, Debug)]
pub struct Mixture {
    components: Vec<FactorPosterior>,
    weights: Vec<f64>,
}

impl Mixture {
    /// A mixture with the given weights, which are brought to the sum one.
    pub fn new(components: Vec<FactorPosterior>, weights: Vec<f64>) -> Result<Self> {
        let Some(first) = components.first() else {
            return Err(Error::config(
                "components",
                "a mixture needs at least one posterior",
            ));
        };
        for component in &components[1..] {
            component.expect_layout(first.layout())?;
        }
        let sum: f64 = weights.iter().sum();
        let usable = weights
            .iter()
            .all(|weight| weight.is_finite() && *weight >= 0.0);
        if weights.len() != components.len() || !usable || sum <= 0.0 {
            return Err(Error::config(
                "weights",
                format!(
                    "{weights:?} for {} posteriors; one finite weight each is needed, none below \
                     zero, not all zero",
                    components.len()
                ),
            ));
        }
        let weights = weights.into_iter().map(|weight| weight / sum).collect();
        Ok(Self {
            components,
            weights,
        })
    }

    /// A mixture with equal weights.
    pub fn uniform(components: Vec<FactorPosterior>) -> Result<Self> {
        let weights = vec![1.0; components.len()];
        Self::new(components, weights)
    }

    /// The components.
    pub fn components(&self) -> &[FactorPosterior] {
        &self.components
    }

    /// The weights, which sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// A draw of all weights, `[D]`.
    pub fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        self.components[self.pick(noise)].draw(noise)
    }

    /// The model with a draw as its weights.
    pub fn write_draw<M: Module>(&self, model: M, noise: Noise) -> Result<M> {
        self.components[self.pick(noise)].write_draw(model, noise)
    }

    /// log Σ_m w_m q_m(θ), in nats.
    pub fn log_density(&self, weights: &Tensor<1>) -> Result<f64> {
        let terms = self
            .components
            .iter()
            .zip(&self.weights)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(component, weight)| Ok(weight.ln() + component.log_density(weights)?))
            .collect::<Result<Vec<f64>>>()?;
        let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(largest
            + terms
                .iter()
                .map(|term| (term - largest).exp())
                .sum::<f64>()
                .ln())
    }

    /// The component in whose share of [0, 1) the noise falls.
    fn pick(&self, noise: Noise) -> usize {
        let mut rest = noise.uniform();
        for (index, weight) in self.weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        // Rounding of the sum: the last component that has any weight.
        self.weights
            .iter()
            .rposition(|&weight| weight > 0.0)
            .unwrap_or(0)
    }
}
