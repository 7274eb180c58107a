//! The memory needed for training, known before it starts.

use std::fmt;

/// The state that an optimiser keeps for every parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptimizerMemory {
    /// No state: plain stochastic gradient descent.
    Plain,
    /// One vector: momentum.
    Momentum,
    /// Two vectors: Adam and its relatives.
    Adam,
}

impl OptimizerMemory {
    fn vectors(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Momentum => 1,
            Self::Adam => 2,
        }
    }
}

/// The memory for training a posterior, in bytes, for vectors of D or K·D single-precision numbers.
///
/// Activations of the model and the data are not included. The fused optimisers reuse the buffers
/// of the gradients for the new parameters, so gradients are counted once, as `gradients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPlan {
    /// The algorithm's parameters and state: (K+2)·D numbers for VIFA.
    pub parameters: usize,
    /// The optimiser's state.
    pub moments: usize,
    /// The gradients passed to the optimiser.
    pub gradients: usize,
    /// The wrapped model, a draw and its gradient.
    pub scratch: usize,
}

const BYTES: usize = size_of::<f32>();

impl MemoryPlan {
    /// The plan for an algorithm that trains a Gaussian of rank K over D weights by gradients, with
    /// `draws` draws per step.
    pub fn gaussian(weights: usize, rank: usize, draws: usize, optimizer: OptimizerMemory) -> Self {
        let trained = (rank + 2) * weights * BYTES;
        Self {
            parameters: trained,
            moments: optimizer.vectors() * trained,
            gradients: trained,
            scratch: (1 + 2 * draws.max(1)) * weights * BYTES,
        }
    }

    /// The plan for closed-form updates of a Gaussian of rank L over D weights, with `moments`
    /// vectors of D numbers kept between steps and `scratch` vectors within a step.
    pub fn natural(weights: usize, rank: usize, moments: usize, scratch: usize) -> Self {
        let vector = weights * BYTES;
        Self {
            parameters: (rank + 2) * vector,
            moments: moments * vector,
            // The closed-form update: the new precision and a gradient.
            gradients: (rank + 2) * vector,
            scratch: scratch * vector,
        }
    }

    /// The plan for an algorithm that observes the iterates of an ordinary optimiser and keeps
    /// `kept` vectors of D numbers.
    pub fn iterates(weights: usize, kept: usize, optimizer: OptimizerMemory) -> Self {
        let vector = weights * BYTES;
        Self {
            parameters: (1 + kept) * vector,
            moments: optimizer.vectors() * vector,
            gradients: vector,
            scratch: 2 * vector,
        }
    }

    /// The peak memory, the sum of all parts.
    pub fn peak(&self) -> usize {
        self.parameters + self.moments + self.gradients + self.scratch
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("parameters", self.parameters),
            ("moments", self.moments),
            ("gradients", self.gradients),
            ("scratch", self.scratch),
            ("peak", self.peak()),
        ];
        for (index, (name, bytes)) in rows.iter().enumerate() {
            let end = if index + 1 < rows.len() { "\n" } else { "" };
            write!(
                f,
                "{name:<11}{:>10.2} MiB{end}",
                *bytes as f64 / f64::from(1 << 20)
            )?;
        }
        Ok(())
    }
}
