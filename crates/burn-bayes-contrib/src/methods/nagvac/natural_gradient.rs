//! The natural gradient of a Gaussian with one factor, and the step that it makes.

use burn::module::Param;
use burn::tensor::Tensor;
use burn_bayes::Result;
use burn_bayes::eval::Bounded;
use burn_bayes::kernels::{self, at_least, to_host};
use burn_bayes::methods::{Context, updated};

use super::{NagvacState, Velocity};

/// The least w, which bounds the change of a weight that has most of κ.
const LEAST_W: f32 = 0.1;

/// A step of NAGVAC, a natural gradient before the learning rate is applied.
#[derive(Debug)]
pub struct NagvacStep {
    /// n₁.
    mean: Tensor<1>,
    /// n₂/c.
    factor: Tensor<1>,
    /// n₃.
    log_deviation: Tensor<1>,
    /// The lengths √(gᵀn) of n₁, and of n₂ and n₃ together.
    lengths: [f64; 2],
}

/// The gradients with respect to μ, b and 2 log c.
#[derive(Clone, Debug)]
struct Gradient {
    mean: Tensor<1>,
    factor: Tensor<1>,
    log_variance: Tensor<1>,
}

impl Gradient {
    /// n₁, n₂/c, n₃, and gᵀn of the mean and of the covariance, for b in units of c and c itself.
    fn natural(self, relative: &Tensor<1>, deviation: &Tensor<1>, damping: f64) -> [Tensor<1>; 5] {
        let sum = |left: &Tensor<1>, right: &Tensor<1>| kernels::sum(left.clone() * right.clone());
        let kappa = sum(relative, relative);
        let share = kappa.clone() / kappa.clone().add_scalar(1.0);

        // S = diag c (I + v vᵀ) diag c, with v = b/c.
        let scaled = self.mean * deviation.clone();
        let product = sum(relative, &scaled);
        let natural = scaled.clone() + relative.clone() * product;
        let mean_square = sum(&scaled, &natural);
        let mean = natural * deviation.clone();

        let scaled = self.factor * deviation.clone();
        let least = at_least(share.clone(), damping as f32);
        let weight = (least.clone() + share).recip().neg().add_scalar(1.0);
        let product = sum(relative, &scaled) * weight;
        let factor = (scaled.clone() + relative.clone() * product) / least;

        let r = relative.clone().square() / kappa.add_scalar(1.0);
        let w = at_least(r.clone().mul_scalar(-2.0).add_scalar(1.0), LEAST_W);
        let gradient = self.log_variance.mul_scalar(2.0);
        let (divided, ratio) = (gradient.clone() / w.clone(), r.clone() / w);
        let explained = sum(&r, &divided) / sum(&r, &ratio).add_scalar(1.0);
        let log_deviation = (divided - ratio * explained).mul_scalar(0.5);
        let square = sum(&scaled, &factor) + sum(&gradient, &log_deviation);
        [mean, factor, log_deviation, mean_square, square]
    }
}

impl NagvacState {
    /// Step number `step` from the gradients of μ, b and 2 log c.
    ///
    /// # Errors
    ///
    /// A numerical error if the step would not be finite.
    pub(super) fn natural_step(
        &self,
        context: Context<'_>,
        step: u64,
        [mean, factor, log_variance]: [Tensor<1>; 3],
    ) -> Result<NagvacStep> {
        let gradient = Gradient {
            mean: mean.clone(),
            factor,
            log_variance,
        };
        let (relative, deviation) = (self.relative(), self.deviation());
        let damping = self.config.damping;
        let [natural, factor, log_deviation, mean_square, square] =
            gradient.natural(&relative, &deviation, damping);
        // One read from the device; a sum is not finite if any element is not finite.
        let squares = to_host(Tensor::cat(vec![mean_square, square], 0));
        if !squares.iter().sum::<f64>().is_finite() {
            return Err(context.setup.non_finite(step, mean));
        }
        Ok(NagvacStep {
            mean: natural,
            factor,
            log_deviation,
            lengths: [squares[0], squares[1]].map(|square| square.at_least(0.0).sqrt()),
        })
    }

    /// Applies step number `step` (from 1).
    pub(super) fn with_natural_step(
        mut self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        step: u64,
        natural: NagvacStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        let config = &self.config;
        let rate = config.covariance_rate.within(context.length).at(step - 1);
        let [length, covariance] = natural.lengths;
        let scale = |rate: f64, length: f64| (config.radius / (rate * length)).at_most(1.0);
        let (mean_scale, scale) = (scale(learning_rate, length), scale(rate, covariance));
        let averaged = |velocity, natural: Tensor<1>, scale: f64| {
            updated(velocity, |velocity: Tensor<1>| {
                let kept = velocity.mul_scalar(config.momentum);
                kept + natural.mul_scalar((1.0 - config.momentum) * scale)
            })
        };
        self.velocity = Velocity {
            mean: averaged(self.velocity.mean, natural.mean, mean_scale),
            factor: averaged(self.velocity.factor, natural.factor, scale),
            log_variance: averaged(self.velocity.log_variance, natural.log_deviation, scale),
        };
        let of = |param: &Param<Tensor<1>>| param.val().without_autodiff();
        let deviation = self.deviation();
        let change = (of(&self.velocity.factor) * deviation).mul_scalar(rate);
        self.factor = updated(self.factor, |factor| factor - change.unsqueeze::<2>());
        let root = of(&self.velocity.log_variance)
            .mul_scalar(2.0 * rate)
            .add_scalar(1.0);
        let growth = root.square().add_scalar(1.0).mul_scalar(0.5).log();
        self.log_variance = updated(self.log_variance, |log_variance| log_variance - growth);
        let change = of(&self.velocity.mean).mul_scalar(learning_rate);
        (self, updated(mean, |mean| mean - change))
    }

    pub(super) fn with_log_variance(mut self, log_variance: Tensor<1>) -> Self {
        let factor = self.relative() * log_variance.clone().mul_scalar(0.5).exp();
        self.log_variance = updated(self.log_variance, |_| log_variance);
        self.factor = updated(self.factor, |_| factor.unsqueeze::<2>());
        self
    }

    /// b/c.
    fn relative(&self) -> Tensor<1> {
        let factor = self.factor.val().without_autodiff().reshape([-1]);
        factor / self.deviation()
    }

    /// c.
    fn deviation(&self) -> Tensor<1> {
        let log_variance = self.log_variance.val().without_autodiff();
        log_variance.mul_scalar(0.5).exp()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use burn_bayes::BayesianConfig;
    use burn_bayes::algebra::{Cholesky, SquareMatrix};
    use burn_bayes::kernels::from_host;
    use burn_bayes::posterior::DenseGaussian;

    use super::super::NagvacConfig;
    use super::*;

    /// N(μ, bbᵀ + diag c²) with b and log c in one vector.
    fn gaussian(len: usize, parameters: &[f64]) -> DenseGaussian {
        let (factor, logs) = parameters.split_at(len);
        let variance: Vec<f64> = logs.iter().map(|log| (2.0 * log).exp()).collect();
        DenseGaussian::from_covariance_factors(vec![0.0; len], factor, &variance).unwrap()
    }

    /// The block `block` of the Fisher matrix of (b, log c): the second derivatives of KL(q‖q') at q' = q.
    fn fisher(len: usize, parameters: &[f64], block: usize) -> SquareMatrix {
        const STEP: f64 = 1e-3;
        let q = gaussian(len, parameters);
        let moved = |changes: [(usize, f64); 2]| {
            let mut parameters = parameters.to_vec();
            for (at, change) in changes {
                parameters[block * len + at] += change * STEP;
            }
            q.kl_divergence(&gaussian(len, &parameters)).unwrap()
        };
        SquareMatrix::from_fn(len, |row, column| {
            let same: f64 = [1.0, -1.0]
                .map(|s| moved([(row, s), (column, s)]))
                .iter()
                .sum();
            let other: f64 = [1.0, -1.0]
                .map(|s| moved([(row, s), (column, -s)]))
                .iter()
                .sum();
            (same - other) / (4.0 * STEP * STEP)
        })
    }

    #[test]
    fn refused_settings_name_their_field() {
        let base = NagvacConfig::new();
        for (method, field) in [
            (base.clone().with_damping(1.0), "damping"),
            (base.clone().with_radius(0.0), "radius"),
            (base.clone().with_factor_scale(f64::NAN), "factor_scale"),
            (base.with_momentum(-0.1), "momentum"),
        ] {
            let error = BayesianConfig::new(10, method).validate().expect_err(field);
            let is_named = error.to_string().starts_with(field);
            assert!(error.is_config() && is_named, "{error}");
        }
    }

    fn values(seed: u64, len: usize) -> Vec<f64> {
        let noise = burn_bayes::Noise::new(seed).normal(len, &Device::default());
        to_host(noise)
    }

    #[test]
    fn natural_gradients_solve_the_dense_blocks_of_the_fisher_matrix() {
        let mut exact = 0;
        for (len, size) in [(2, 0.7), (7, 0.2), (7, 2.0), (30, 0.4)] {
            let factor: Vec<f64> = values(1, len).iter().map(|b| size * b).collect();
            let logs: Vec<f64> = values(2, len).iter().map(|log| 0.5 * log).collect();
            let shares: Vec<f64> = factor
                .iter()
                .zip(&logs)
                .map(|(b, l)| (b * (-l).exp()).powi(2))
                .collect();
            let kappa: f64 = shares.iter().sum();
            let parameters = [factor.clone(), logs.clone()].concat();
            let vector = |values: &[f64]| from_host(values, [len], &Device::default());
            let deviation = vector(&logs).exp();
            let gradient = Gradient {
                mean: vector(&values(3, len)),
                factor: vector(&values(4, len)),
                log_variance: vector(&values(5, len)).mul_scalar(0.5),
            };
            let relative = vector(&factor) / deviation.clone();
            let [mean, factor, log, mean_square, square] =
                gradient.natural(&relative, &deviation, 0.0);
            let expected = |block: Option<usize>, gradient: &[f64]| match block {
                None => gaussian(len, &parameters)
                    .covariance()
                    .multiply_vector(gradient)
                    .unwrap(),
                Some(block) => {
                    let fisher = fisher(len, &parameters, block);
                    let mut solved = gradient.to_vec();
                    let lower = Cholesky::with_floor(&fisher).unwrap();
                    lower.solve(&mut solved).unwrap();
                    solved
                }
            };
            let factor = to_host(factor * deviation);
            let mut squares = Vec::new();
            // The last block is exact unless a weight has most of κ.
            let last = shares
                .iter()
                .all(|share| 1.0 - 2.0 * share / (1.0 + kappa) > f64::from(LEAST_W));
            let cases = [
                (None, 3, to_host(mean)),
                (Some(0), 4, factor),
                (Some(1), 5, to_host(log)),
            ];
            for (block, seed, found) in cases {
                if block == Some(1) && !last {
                    continue;
                }
                let gradient = values(seed, len);
                let expected = expected(block, &gradient);
                let size = expected
                    .iter()
                    .fold(0.0f64, |max, value| max.max(value.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    let error = (found - expected).abs();
                    assert!(error < 1e-4 * size, "{len}, {block:?}: {found} {expected}");
                }
                squares.push(
                    gradient
                        .iter()
                        .zip(&expected)
                        .map(|(g, n)| g * n)
                        .sum::<f64>(),
                );
            }
            let near = |found: Tensor<1>, expected: f64| {
                let found = to_host(found)[0];
                assert!(
                    (found - expected).abs() < 1e-3 * expected,
                    "{found} {expected}"
                );
            };
            near(mean_square, squares[0]);
            if last {
                near(square, squares[1] + squares[2]);
                exact += 1;
            }
        }
        assert!(exact >= 2, "{exact} cases have an exact last block");
    }
}
