//! How much memory training takes, before it starts.

use std::fmt;

/// The state an optimiser keeps for every number it moves.
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

/// Bytes that training a posterior takes, for vectors of D or K·D single-precision numbers.
///
/// Activations of the model and the data are not part of it. The gradient's buffers become the
/// next parameters' under the fused optimisers, so gradients are counted once, as `gradients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPlan {
    /// What the algorithm trains or keeps: (K+2)·D for VIFA.
    pub parameters: usize,
    /// The optimiser's state.
    pub moments: usize,
    /// The gradients handed to the optimiser.
    pub gradients: usize,
    /// The model that was wrapped, a draw, and its gradient.
    pub scratch: usize,
}

const BYTES: usize = size_of::<f32>();

impl MemoryPlan {
    /// An algorithm that trains a Gaussian of rank K over D weights by gradients, with `draws`
    /// draws per step.
    pub fn gaussian(weights: usize, rank: usize, draws: usize, optimizer: OptimizerMemory) -> Self {
        let trained = (rank + 2) * weights * BYTES;
        Self {
            parameters: trained,
            moments: optimizer.vectors() * trained,
            gradients: trained,
            scratch: (1 + 2 * draws.max(1)) * weights * BYTES,
        }
    }

    /// An algorithm that makes its steps of a Gaussian of rank L over D weights in closed form, with
    /// `moments` vectors of D numbers from step to step and `scratch` of them within one.
    pub fn natural(weights: usize, rank: usize, moments: usize, scratch: usize) -> Self {
        let vector = weights * BYTES;
        Self {
            parameters: (rank + 2) * vector,
            moments: moments * vector,
            // What travels with the gradients: the new precision, and a gradient.
            gradients: (rank + 2) * vector,
            scratch: scratch * vector,
        }
    }

    /// An algorithm that reads the iterates of an ordinary optimiser and keeps `kept` vectors of
    /// D weights.
    pub fn iterates(weights: usize, kept: usize, optimizer: OptimizerMemory) -> Self {
        let vector = weights * BYTES;
        Self {
            parameters: (1 + kept) * vector,
            moments: optimizer.vectors() * vector,
            gradients: vector,
            scratch: 2 * vector,
        }
    }

    /// All of it: the most that is held at once.
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
