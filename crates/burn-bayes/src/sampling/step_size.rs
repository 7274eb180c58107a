//! The step size of a chain, found while it runs.
//!
//! The variance of the energy error ΔE is of sixth order in ε. With running means F of ΔE²/ε⁶ and W of 1, ε = (vW/F)^(1/6) is
//! where the variance has the wanted value v. The means forget all but the last hundred steps, and later all but the last half
//! of the steps, so that errors that are rare and large count as often as they come, and the size settles.

use serde::{Deserialize, Serialize};

/// ε, and what it follows from.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct StepSize {
    /// ε.
    pub(super) size: f64,
    /// F and W.
    errors: f64,
    weight: f64,
    /// Steps that F knows of.
    steps: f64,
}

/// The shortest memory of the means, in steps.
const MEMORY: f64 = 100.0;
/// The most by which a step lets the size grow: one small error says little.
const GROWTH: f64 = 1.2;

impl StepSize {
    pub(super) fn new(size: f64) -> Self {
        Self {
            size,
            errors: 0.0,
            weight: 0.0,
            steps: 0.0,
        }
    }

    /// Forgets the errors so far, but not the size.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.size);
    }

    /// Adapts the size to the energy error of a step, for a wanted variance of all dimensions together.
    pub(super) fn adapt(&mut self, error: f64, wanted: f64) {
        self.steps += 1.0;
        let memory = MEMORY.max(0.5 * self.steps);
        let kept = (memory - 1.0) / (memory + 1.0);
        self.errors = kept * self.errors + error * error / self.size.powi(6);
        self.weight = kept * self.weight + 1.0;
        let size = (wanted * self.weight / self.errors).powf(1.0 / 6.0);
        self.size = size.min(GROWTH * self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    /// Errors of deviation ε³, a few of them ten times as large.
    #[test]
    fn the_variance_of_the_errors_is_the_wanted_one() {
        const STEPS: usize = 20_000;
        let normals = Noise::new(1).on_host(STEPS);
        let mut size = StepSize::new(0.01);
        let (mut sum, mut count) = (0.0, 0.0);
        for (step, normal) in normals.into_iter().enumerate() {
            let scale = if step % 97 == 0 { 10.0 } else { 1.0 };
            let error = scale * f64::from(normal) * size.size.powi(3);
            size.adapt(error, 0.25);
            if step > STEPS / 10 {
                sum += error * error;
                count += 1.0;
            }
        }
        let found = sum / count;
        assert!((found / 0.25 - 1.0).abs() < 0.25, "{found}");
    }
}
