//! The kernels against plain loops in double precision, for both implementations.
#![allow(
    clippy::needless_range_loop,
    reason = "the oracles are the formulas, index by index"
)]

use burn::grad_clipping::GradientClippingConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, Optimizer};
use burn::tensor::{Tensor, s};
use burn_bayes::graph::cpu::Assembly;
use burn_bayes::kernels::{
    self, CovarianceGradient, CovarianceParts, Diagonal, DrawGradient, FactorUnits, Moments,
    Objective, Scratch,
};
use burn_bayes::prior::PriorPrecisions;
use burn_bayes::{FusedAdamConfig, Noise, Prior};

use crate::support::{
    EPSILON, assert_close, autodiff, bits, device, filled, layout_of, matrix, normals, values,
    vector, widened,
};

/// The memory layout of the tensors.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Contiguous,
    /// Every second element of a longer vector, or the transpose of a matrix.
    Strided,
}

const MEMORIES: [Memory; 2] = [Memory::Contiguous, Memory::Strided];

impl Memory {
    fn vector(self, values: &[f32]) -> Tensor<1> {
        match self {
            Self::Contiguous => vector(values),
            Self::Strided => {
                let spread: Vec<f32> = values.iter().flat_map(|&v| [v, f32::NAN]).collect();
                vector(&spread).slice(s![..;2])
            }
        }
    }

    fn matrix(self, rows: usize, columns: usize, values: &[f32]) -> Tensor<2> {
        match self {
            Self::Contiguous => matrix(rows, columns, values),
            Self::Strided => {
                let turned: Vec<f32> = (0..columns)
                    .flat_map(|column| (0..rows).map(move |row| values[row * columns + column]))
                    .collect();
                matrix(columns, rows, &turned).transpose()
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    len: usize,
    rank: usize,
    memory: Memory,
}

fn shapes() -> impl Iterator<Item = Shape> {
    [1, 2, 7, 1023, 10_007].into_iter().flat_map(|len| {
        [0, 1, 3, 17].into_iter().flat_map(move |rank| {
            MEMORIES
                .into_iter()
                .map(move |memory| Shape { len, rank, memory })
        })
    })
}

/// A Gaussian as tensors and as numbers.
struct Gaussian {
    len: usize,
    rank: usize,
    memory: Memory,
    mean: Vec<f32>,
    factors: Vec<f32>,
    log_variance: Vec<f32>,
}

impl Gaussian {
    fn new(Shape { len, rank, memory }: Shape) -> Self {
        let exponents = normals(3, len);
        Self {
            len,
            rank,
            memory,
            mean: normals(1, len),
            factors: normals(2, rank * len),
            // ψ is mostly between e^-4 and e^0.
            log_variance: exponents.iter().map(|value| value - 2.0).collect(),
        }
    }

    fn variance(&self) -> Vec<f64> {
        widened(&self.log_variance)
            .iter()
            .map(|v| v.exp())
            .collect()
    }

    fn factor(&self, row: usize, column: usize) -> f64 {
        self.factors[row * self.len + column].into()
    }

    fn parts(&self, is_log: bool) -> CovarianceParts {
        let diagonal = if is_log {
            Diagonal::LogVariance(self.memory.vector(&self.log_variance))
        } else {
            let variance: Vec<f32> = self.log_variance.iter().map(|v| v.exp()).collect();
            Diagonal::Variance(self.memory.vector(&variance))
        };
        CovarianceParts {
            mean: self.memory.vector(&self.mean),
            factors: (self.rank > 0)
                .then(|| self.memory.matrix(self.rank, self.len, &self.factors)),
            units: FactorUnits::Weights,
            diagonal,
        }
    }

    /// The same Gaussian with factors in units of the deviations.
    fn relative_parts(&self) -> CovarianceParts {
        let mut parts = self.parts(true);
        let scaled = (0..self.rank * self.len)
            .map(|at| self.factors[at] * (-0.5 * self.log_variance[at % self.len]).exp());
        let scaled: Vec<f32> = scaled.collect();
        parts.factors = parts
            .factors
            .map(|_| self.memory.matrix(self.rank, self.len, &scaled));
        parts.units = FactorUnits::Deviations;
        parts
    }

    /// The draw, and the sum of the sizes of its terms.
    fn draw(&self, noise: Noise) -> (Vec<f64>, Vec<f64>) {
        let normal = values(&noise.normal(self.len, &device()));
        let latent = widened(&noise.latent(self.rank));
        let variance = self.variance();
        (0..self.len)
            .map(|at| {
                let mean = f64::from(self.mean[at]);
                let scaled = variance[at].sqrt() * normal[at];
                let terms = (0..self.rank).map(|row| latent[row] * self.factor(row, at));
                (
                    mean + scaled + terms.clone().sum::<f64>(),
                    mean.abs() + scaled.abs() + terms.map(f64::abs).sum::<f64>(),
                )
            })
            .unzip()
    }

    /// B = F diag(ψ)⁻¹ Fᵀ, and the sum of the sizes of its terms.
    fn gram(&self) -> (Vec<f64>, Vec<f64>) {
        let variance = self.variance();
        (0..self.rank * self.rank)
            .map(|index| {
                let (i, j) = (index / self.rank, index % self.rank);
                let terms =
                    (0..self.len).map(|at| self.factor(i, at) * self.factor(j, at) / variance[at]);
                (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>())
            })
            .unzip()
    }

    /// Rounding of a draw: one per term, a few for the exponential.
    fn draw_tolerance(&self) -> f64 {
        4.0 * EPSILON * (self.rank + 4) as f64
    }

    /// Rounding of a sum of `len` products of single-precision numbers, in any order.
    fn gram_tolerance(&self) -> f64 {
        16.0 * EPSILON * (self.len as f64).sqrt()
    }
}

fn noises() -> [Noise; 2] {
    [Noise::new(5).fold(3), Noise::new(5).fold(3).negated()]
}

#[test]
fn a_draw_is_its_equation() {
    for shape in shapes() {
        let gaussian = Gaussian::new(shape);
        for noise in noises() {
            let (expected, scales) = gaussian.draw(noise);
            for is_log in [true, false] {
                let found = values(&kernels::draw(&gaussian.parts(is_log), noise));
                let what = format!("{shape:?} {is_log}");
                assert_close(&what, &found, &expected, &scales, gaussian.draw_tolerance());
            }
        }
    }
}

#[test]
fn rows_of_draws_are_single_draws_bit_for_bit() {
    for shape in shapes() {
        let parts = Gaussian::new(shape).parts(true);
        let noise = Noise::new(8);
        let draws = kernels::draws(&parts, noise, 3);
        assert_eq!(draws.dims(), [3, shape.len]);
        for row in 0..3 {
            let single = kernels::draw(&parts, noise.row(row as u64));
            let found = draws.clone().slice(s![row..row + 1, ..]);
            assert_eq!(bits(&found), bits(&single), "{shape:?}");
        }
        assert_eq!(kernels::draws(&parts, noise, 0).dims(), [0, shape.len]);
    }
}

#[test]
fn a_gram_matrix_is_its_equation_alone_or_with_a_draw() {
    // One scratch for all, as in a training: memory that is in use must not be lent again.
    let scratch = Scratch::default();
    let mut held: Option<(Tensor<1>, Vec<u32>)> = None;
    for shape in shapes() {
        let gaussian = Gaussian::new(shape);
        let (expected, scales) = gaussian.gram();
        for is_log in [true, false] {
            let parts = gaussian.parts(is_log);
            let gram = kernels::gram(&parts);
            let what = format!("{shape:?} {is_log}");
            assert_close(&what, &gram, &expected, &scales, gaussian.gram_tolerance());

            let noise = Noise::new(2);
            let (draw, gram) = kernels::draw_and_gram(&parts, noise, &scratch);
            assert_close(&what, &gram, &expected, &scales, gaussian.gram_tolerance());
            assert_eq!(bits(&draw), bits(&kernels::draw(&parts, noise)), "{what}");
            if let Some((draw, before)) = held.replace((draw.clone(), bits(&draw))) {
                assert_eq!(bits(&draw), before, "{what}");
            }
        }
    }
}

/// For factors in units of the deviations, the kernels against those in the units of the weights and the
/// chain rule: ∇V = ∇F⊙ψ^½ and ∇γ + ½ Σ_k F_k⊙∇F_k.
#[test]
fn factors_in_units_of_the_deviations_give_the_same_gaussian() {
    let scratch = Scratch::default();
    for shape in shapes() {
        let gaussian = Gaussian::new(shape);
        let (len, rank) = (shape.len, shape.rank);
        let (plain, relative) = (gaussian.parts(true), gaussian.relative_parts());
        let (expected, scales) = gaussian.gram();
        let tolerance = gaussian.gram_tolerance();
        let what = format!("{shape:?}");
        assert_close(
            &what,
            &kernels::gram(&relative),
            &expected,
            &scales,
            tolerance,
        );
        let noise = Noise::new(2);
        let (expected, scales) = gaussian.draw(noise);
        let draw = values(&kernels::draw(&relative, noise));
        assert_close(&what, &draw, &expected, &scales, gaussian.draw_tolerance());

        let prior = prior(len);
        let inverse = inner_inverse(rank);
        let objective = Objective {
            scale: 12.5,
            temperature: 0.7,
            prior: &prior,
            inner_inverse: &inverse,
            scratch: &scratch,
        };
        for noises in [vec![noise], vec![noise, noise.negated(), noise.row(3)]] {
            let draws: Vec<DrawGradient> = (0..)
                .zip(&noises)
                .map(|(draw, &noise)| DrawGradient {
                    noise,
                    parts: pieces(shape.memory, &normals(50 + draw, len)),
                })
                .collect();
            let plain = kernels::covariance_gradient(&plain, &draws, objective);
            let found = kernels::covariance_gradient(&relative, &draws, objective);
            let deviation: Vec<f64> = gaussian.variance().iter().map(|v| v.sqrt()).collect();
            assert_eq!(bits(&found.mean), bits(&plain.mean), "{what}");
            let gradients = plain.factors.as_ref().map(values).unwrap_or_default();
            let share =
                |k: usize, at: usize| 0.5 * gaussian.factor(k, at) * gradients[k * len + at];
            // Each gradient is a sum of terms of this size.
            let size = |at: usize| 100.0 * (1.0 + deviation[at]) * (1.0 + rank as f64);
            let factors: Vec<f64> = (0..rank * len)
                .map(|at| gradients[at] * deviation[at % len])
                .collect();
            let sizes: Vec<f64> = (0..rank * len).map(|at| size(at % len)).collect();
            let tolerance = 16.0 * EPSILON * (rank + 4) as f64;
            if let Some(found) = &found.factors {
                assert_close(&what, &values(found), &factors, &sizes, tolerance);
            }
            let log_variance: Vec<f64> = (0..len)
                .zip(values(&plain.log_variance))
                .map(|(at, value)| value + (0..rank).map(|k| share(k, at)).sum::<f64>())
                .collect();
            let sizes: Vec<f64> = (0..len).map(size).collect();
            assert_close(
                &what,
                &values(&found.log_variance),
                &log_variance,
                &sizes,
                tolerance,
            );
            let squares = |values: Vec<f64>| values.iter().map(|v| v * v).sum::<f64>();
            let norms = [
                squares(values(&found.mean)),
                found.factors.as_ref().map_or(0.0, |f| squares(values(f))),
                squares(values(&found.log_variance)),
            ];
            let tolerance = 8.0 * EPSILON * ((len * rank.max(1)) as f64).sqrt();
            assert_close(&what, &found.squared_norms, &norms, &norms, tolerance);
        }
    }
}

/// A symmetric matrix with a definite sign, instead of (I+B)⁻¹: the kernel only multiplies by it.
fn inner_inverse(rank: usize) -> Vec<f64> {
    (0..rank * rank)
        .map(|index| {
            let (i, j) = (index / rank, index % rank);
            if i == j {
                0.75
            } else {
                0.2 / (1.0 + i.abs_diff(j) as f64) * if (i + j) % 2 == 0 { 1.0 } else { -1.0 }
            }
        })
        .collect()
}

fn prior(len: usize) -> PriorPrecisions {
    let prior = Prior::isotropic(0.5);
    if len == 1 {
        return prior.resolve(&layout_of(&[("weight", 1)])).unwrap();
    }
    prior
        .with_group(burn::module::ParamGroup::from_predicate("bias"), 3.0)
        .resolve(&layout_of(&[("weight", len / 2), ("bias", len - len / 2)]))
        .unwrap()
}

fn precisions(prior: &PriorPrecisions) -> Vec<f64> {
    prior
        .segments()
        .iter()
        .flat_map(|&(len, precision)| std::iter::repeat_n(precision, len))
        .collect()
}

/// A gradient in pieces, one per parameter of a model.
fn pieces(memory: Memory, gradient: &[f32]) -> Vec<Tensor<1>> {
    let len = gradient.len();
    [0, 1.min(len), len / 3 + 1, len]
        .windows(2)
        .filter(|ends| ends[0] < ends[1])
        .map(|ends| memory.vector(&gradient[ends[0]..ends[1]]))
        .collect()
}

/// Numbers, and the sums of the sizes of their terms.
#[derive(Default)]
struct Sums {
    values: Vec<f64>,
    sizes: Vec<f64>,
}

impl Sums {
    fn push(&mut self, terms: impl IntoIterator<Item = f64>) {
        let (mut value, mut size) = (0.0, 0.0);
        for term in terms {
            value += term;
            size += term.abs();
        }
        self.values.push(value);
        self.sizes.push(size);
    }
}

#[test]
fn the_gradient_of_the_objective_is_its_equation() {
    let (scale, temperature) = (12.5, 0.7);
    let scratch = Scratch::default();
    let mut held: Option<(CovarianceGradient, [Vec<u32>; 3])> = None;
    for shape in shapes() {
        let gaussian = Gaussian::new(shape);
        let (len, rank) = (shape.len, shape.rank);
        let prior = prior(len);
        let alpha = precisions(&prior);
        let inverse = inner_inverse(rank);
        let variance = gaussian.variance();
        let root = Noise::new(6);
        for noises in [
            vec![root],
            vec![root, root.negated()],
            vec![root.row(0), root.row(1), root.row(2)],
        ] {
            let gradients: Vec<Vec<f32>> = (0..noises.len() as u64)
                .map(|draw| normals(50 + draw, len))
                .collect();
            let draws: Vec<DrawGradient> = noises
                .iter()
                .zip(&gradients)
                .map(|(&noise, gradient)| DrawGradient {
                    noise,
                    parts: pieces(shape.memory, gradient),
                })
                .collect();
            let objective = Objective {
                scale,
                temperature,
                prior: &prior,
                inner_inverse: &inverse,
                scratch: &scratch,
            };
            let found = kernels::covariance_gradient(&gaussian.parts(true), &draws, objective);

            let normals: Vec<Vec<f64>> = noises
                .iter()
                .map(|noise| values(&noise.normal(len, &device())))
                .collect();
            let latents: Vec<Vec<f64>> = noises
                .iter()
                .map(|noise| widened(&noise.latent(rank)))
                .collect();
            let all = 0..noises.len();
            let gradient = |draw: usize, at: usize| scale * f64::from(gradients[draw][at]);
            let (mut mean, mut factors, mut log_variance) =
                (Sums::default(), Sums::default(), Sums::default());
            // C_k = Σ_j (I+B)⁻¹_kj F_j/ψ
            let coefficient = |k: usize, at: usize| -> Vec<f64> {
                (0..rank)
                    .map(|j| -inverse[k * rank + j] * gaussian.factor(j, at) / variance[at])
                    .collect()
            };
            for at in 0..len {
                let c = f64::from(gaussian.mean[at]);
                mean.push(
                    all.clone()
                        .map(|draw| gradient(draw, at))
                        .chain([temperature * alpha[at] * c]),
                );
                let scaled = all
                    .clone()
                    .map(|draw| 0.5 * gradient(draw, at) * variance[at].sqrt() * normals[draw][at]);
                let explained = (0..rank)
                    .flat_map(|k| coefficient(k, at).into_iter().map(move |c| (k, c)))
                    .map(|(k, c)| -0.5 * temperature * c * gaussian.factor(k, at));
                let constant = [
                    0.5 * temperature * alpha[at] * variance[at],
                    -0.5 * temperature,
                ];
                log_variance.push(scaled.chain(explained).chain(constant));
            }
            for k in 0..rank {
                for at in 0..len {
                    let likelihood = all
                        .clone()
                        .map(|draw| latents[draw][k] * gradient(draw, at));
                    let shrink = temperature * alpha[at] * gaussian.factor(k, at);
                    let inner = coefficient(k, at).into_iter().map(|c| temperature * c);
                    factors.push(likelihood.chain([shrink]).chain(inner));
                }
            }

            let what = format!("{shape:?}, {} draws", noises.len());
            let tolerance = 4.0 * EPSILON * (rank + noises.len() + 6) as f64;
            let check = |part: &str, found: &[f64], expected: &Sums| {
                let what = format!("{what}: {part}");
                assert_close(&what, found, &expected.values, &expected.sizes, tolerance);
            };
            check("mean", &values(&found.mean), &mean);
            check("log variance", &values(&found.log_variance), &log_variance);
            match &found.factors {
                Some(found) => check("factors", &values(found), &factors),
                None => assert_eq!(rank, 0),
            }
            // The norms are those of the returned tensors.
            let squares = |values: Vec<f64>| values.iter().map(|v| v * v).sum::<f64>();
            let expected = [
                squares(values(&found.mean)),
                found.factors.as_ref().map_or(0.0, |f| squares(values(f))),
                squares(values(&found.log_variance)),
            ];
            let count = (len * rank.max(1)) as f64;
            assert_close(
                &format!("{what}: norms"),
                &found.squared_norms,
                &expected,
                &expected,
                8.0 * EPSILON * count.sqrt(),
            );
            assert_eq!(found.first_non_finite, None);
            let all = |gradient: &CovarianceGradient| {
                let factors = gradient.factors.as_ref().map(bits);
                [
                    bits(&gradient.mean),
                    factors.unwrap_or_default(),
                    bits(&gradient.log_variance),
                ]
            };
            let now = all(&found);
            if let Some((gradient, before)) = held.replace((found, now)) {
                assert_eq!(
                    all(&gradient),
                    before,
                    "{what}: the gradient before it changed"
                );
            }
        }
    }
}

#[test]
fn the_first_bad_element_of_any_draw_is_found() {
    let len = 5000;
    let shape = |memory| Shape {
        len,
        rank: 2,
        memory,
    };
    let prior = prior(len);
    let inverse = inner_inverse(2);
    let scratch = Scratch::default();
    let objective = Objective {
        scale: 1.0,
        temperature: 1.0,
        prior: &prior,
        inner_inverse: &inverse,
        scratch: &scratch,
    };
    for memory in MEMORIES {
        let parts = Gaussian::new(shape(memory)).parts(true);
        for (bad, expected) in [
            (vec![(0, 0, f32::NAN)], Some(0)),
            (vec![(1, 4999, f32::NEG_INFINITY)], Some(4999)),
            (
                vec![(0, 3000, f32::NAN), (1, 1700, f32::INFINITY)],
                Some(1700),
            ),
            (
                vec![(0, 20, f32::INFINITY), (1, 20, f32::NEG_INFINITY)],
                Some(20),
            ),
            (vec![], None),
        ] {
            let draws: Vec<DrawGradient> = (0..2)
                .map(|draw| {
                    let mut gradient = normals(60 + draw, len);
                    for &(_, at, value) in bad.iter().filter(|bad| bad.0 == draw) {
                        gradient[at] = value;
                    }
                    DrawGradient {
                        noise: Noise::new(1).row(draw),
                        parts: pieces(memory, &gradient),
                    }
                })
                .collect();
            let found = kernels::covariance_gradient(&parts, &draws, objective);
            assert_eq!(found.first_non_finite, expected, "{bad:?}");
        }
    }
}

/// With g = 1, N/L = 2 and no divergence, the gradient of γ is ψ^½⊙z with the z of the draw.
#[test]
fn the_gradient_sees_the_noise_of_the_draw() {
    let shape = Shape {
        len: 513,
        rank: 2,
        memory: Memory::Contiguous,
    };
    let gaussian = Gaussian::new(shape);
    let parts = gaussian.parts(true);
    let prior = prior(shape.len);
    let inverse = inner_inverse(2);
    let scratch = Scratch::default();
    let objective = Objective {
        scale: 2.0,
        temperature: 0.0,
        prior: &prior,
        inner_inverse: &inverse,
        scratch: &scratch,
    };
    let agree = |noise: Noise| {
        let without_factors = CovarianceParts {
            factors: None,
            ..parts.clone()
        };
        let draw = values(&kernels::draw(&without_factors, noise));
        let gradient = kernels::covariance_gradient(
            &parts,
            &[DrawGradient {
                noise,
                parts: vec![vector(&vec![1.0; shape.len])],
            }],
            objective,
        );
        let found = values(&gradient.log_variance);
        found
            .iter()
            .zip(&draw)
            .zip(&gaussian.mean)
            .all(|((found, draw), mean)| {
                let mean = f64::from(*mean);
                (found - (draw - mean)).abs() <= 16.0 * EPSILON * (draw.abs() + mean.abs())
            })
    };
    assert!(agree(Noise::new(4)));
    assert!(agree(Noise::new(4).negated()));
}

fn same<const R: usize>(what: &str, ours: &Tensor<R>, theirs: &Tensor<R>, steps: f64) {
    let theirs = values(theirs);
    let scales: Vec<f64> = theirs.iter().map(|value| value.abs() + 0.1).collect();
    let tolerance = 16.0 * EPSILON * steps;
    assert_close(what, &values(ours), &theirs, &scales, tolerance);
}

/// Twenty steps of two optimisers. Tensors that the caller still holds must not change.
fn race<A: Optimizer, B: Optimizer>(what: &str, ours: &A, theirs: &B, memory: Memory) {
    const STEPS: u64 = 20;
    for (rows, columns) in [(1, 1), (3, 1001), (20, 500)] {
        let start = memory.matrix(rows, columns, &normals(1, rows * columns));
        let (mut left, mut right) = ((start.clone(), None), (start.clone(), None));
        for step in 0..STEPS {
            let gradient = memory.matrix(rows, columns, &normals(100 + step, rows * columns));
            let held = (left.0.clone(), left.1.clone(), gradient.clone());
            let before = (bits(&held.0), bits(&held.2));
            let rate = 0.01 / (1.0 + step as f64);
            left = ours.step(rate, left.0, gradient.clone(), left.1);
            right = theirs.step(rate, right.0, gradient, right.1);
            assert_eq!((bits(&held.0), bits(&held.2)), before, "{what}");
            // The same state leads to the same step again.
            let again = ours.step(rate, held.0, held.2, held.1).0;
            assert_eq!(bits(&again), bits(&left.0), "{what}");
            let what = format!("{what}, step {step}, {rows}×{columns}, {memory:?}");
            same(&what, &left.0, &right.0, (step + 1) as f64);
        }
        assert_eq!(
            bits(&start),
            bits(&memory.matrix(rows, columns, &normals(1, rows * columns)))
        );
    }
}

/// Settings that our configuration and Burn's share, and a comparison of the two optimisers.
macro_rules! race_with {
    ($ours:ident, $theirs:ident $(, $setter:ident($value:expr))*) => {
        for memory in MEMORIES {
            let (ours, theirs) = ($ours::new(), $theirs::new());
            $(let (ours, theirs) = (ours.$setter($value), theirs.$setter($value));)*
            let what = stringify!($ours $($setter $value)*);
            race(what, &ours.build(), &theirs.build(), memory);
        }
    };
}

#[test]
fn adam_is_burns_own() {
    let decay = WeightDecayConfig::new(0.3);
    race_with!(FusedAdamConfig, AdamConfig);
    race_with!(FusedAdamConfig, AdamConfig, with_beta_1(0.8));
    race_with!(FusedAdamConfig, AdamConfig, with_beta_2(0.99));
    race_with!(FusedAdamConfig, AdamConfig, with_epsilon(1e-3));
    race_with!(
        FusedAdamConfig,
        AdamConfig,
        with_weight_decay(Some(decay.clone()))
    );
    // Soon the largest second moment is not the present one.
    race_with!(
        FusedAdamConfig,
        AdamConfig,
        with_beta_2(0.5),
        with_amsgrad(true)
    );
    race_with!(
        FusedAdamConfig,
        AdamConfig,
        with_beta_1(0.8),
        with_beta_2(0.9),
        with_amsgrad(true),
        with_weight_decay(Some(decay.clone()))
    );
}

#[test]
fn a_penalty_of_adam_grows() {
    let adam = |penalty: f32| {
        let decay = WeightDecayConfig::new(penalty);
        let adam = FusedAdamConfig::new().with_epsilon(1.0);
        adam.with_weight_decay(Some(decay))
    };
    let growing = adam(0.3).with_decay_warm_up(2);
    let step = |adam: &FusedAdamConfig, state| {
        let [weights, gradient] = [1, 2].map(|row| vector(&normals(row, 6)));
        let (weights, state) = adam.build().step(0.1, weights, gradient, state);
        (values(&weights), state)
    };
    let (first, state) = step(&growing, None);
    assert_eq!(first, step(&adam(0.15), None).0);
    assert_ne!(first, step(&adam(0.3), None).0);
    let (second, _) = step(&growing, state.clone());
    assert_eq!(second, step(&adam(0.3), state).0);
}

#[test]
fn gradients_are_clipped_as_by_burns_own() {
    let weights = normals(1, 6);
    let after = |mut optimizer: ModuleOptimizer| {
        let device = autodiff();
        let layer = LinearConfig::new(3, 2).with_bias(false).init(&device);
        let layer = filled(layer, 1, 0.5);
        let loss = layer.forward(Tensor::from_inner(matrix(2, 3, &weights)));
        let gradients = loss.square().sum().mul_scalar(1e3).backward();
        let gradients = GradientsParams::from_grads(gradients, &layer);
        values(&optimizer.step(0.1, layer, gradients).weight.val())
    };
    let clipping = Some(GradientClippingConfig::Norm(0.5));
    let adam = |clipping: Option<GradientClippingConfig>| {
        let ours = FusedAdamConfig::new().with_epsilon(0.1);
        let theirs = AdamConfig::new().with_epsilon(0.1);
        [
            after(ours.with_grad_clipping(clipping.clone()).init()),
            after(theirs.with_grad_clipping(clipping).init()),
        ]
    };
    let [unclipped, _] = adam(None);
    let [ours, theirs] = adam(clipping);
    assert_close("weights", &ours, &theirs, &[1.0; 6], 16.0 * EPSILON);
    assert_ne!(ours, unclipped);
}

#[test]
fn the_state_of_amsgrad_survives_a_record() {
    let device = autodiff();
    let config = FusedAdamConfig::new().with_beta_2(0.5).with_amsgrad(true);
    let start = || filled(LinearConfig::new(3, 2).init(&device), 1, 0.5);
    let step = |optimizer: &mut ModuleOptimizer, layer: Linear, seed| {
        let inputs = Tensor::from_inner(matrix(2, 3, &normals(seed, 6)));
        let loss = layer.forward(inputs).square().sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        optimizer.step(0.1, layer, gradients)
    };
    let mut optimizer = config.init();
    let layer = step(&mut optimizer, start(), 1);
    let layer = step(&mut optimizer, layer, 2);
    let bytes = optimizer.clone().into_bytes().unwrap();
    let mut restored = config.init().from_bytes(bytes).unwrap();
    let [expected, found] = [&mut optimizer, &mut restored]
        .map(|optimizer| bits(&step(optimizer, layer.clone(), 3).weight.val()));
    assert_eq!(found, expected);
}

#[test]
fn running_moments_are_the_moments_of_the_iterates() {
    const COUNT: usize = 9;
    for memory in MEMORIES {
        for len in [1, 1000, 10_007] {
            // Whatever the moments were, the first iterate replaces them.
            let start = vector(&normals(0, len));
            let mut moments = Moments {
                mean: start.clone(),
                variance: start.square(),
            };
            let mut iterates = vec![Vec::new(); len];
            for count in 1..=COUNT {
                // Some weights move far, others by a ten-thousandth of their size.
                let iterate: Vec<f32> = normals(count as u64, len)
                    .iter()
                    .enumerate()
                    .map(|(at, normal)| {
                        if at % 2 == 0 {
                            *normal
                        } else {
                            1.0 + 1e-4 * normal
                        }
                    })
                    .collect();
                let held = (
                    moments.clone(),
                    bits(&moments.mean),
                    bits(&moments.variance),
                );
                let (next, deviation) =
                    kernels::running_moments(moments, &memory.vector(&iterate), count);
                assert_eq!(
                    (bits(&held.0.mean), bits(&held.0.variance)),
                    (held.1, held.2)
                );
                moments = next;
                let (mut means, mut variances, mut deviations) = (vec![], vec![], vec![]);
                let (mut sizes, mut spreads) = (vec![], vec![]);
                for (seen, &value) in iterates.iter_mut().zip(&iterate) {
                    seen.push(f64::from(value));
                    let average =
                        |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count as f64;
                    let mean = average(&mut seen.iter().copied());
                    let gaps = || seen.iter().map(|value| value - mean);
                    means.push(mean);
                    variances.push(average(&mut gaps().map(|gap| gap * gap)));
                    deviations.push(f64::from(value) - mean);
                    let size = seen
                        .iter()
                        .fold(0.0f64, |size, value| size.max(value.abs()));
                    let reach = gaps().fold(0.0f64, |reach, gap| reach.max(gap.abs()));
                    sizes.push(size);
                    // An error of the mean changes a squared deviation by twice the deviation.
                    spreads.push(2.0 * reach * size + EPSILON * size * size);
                }
                let what = format!("{memory:?}, {len}, iterate {count}");
                let check = |part: &str, found: &Tensor<1>, expected: &[f64], sizes: &[f64]| {
                    let what = format!("{what}: {part}");
                    assert_close(&what, &values(found), expected, sizes, 8.0 * EPSILON);
                };
                check("mean", &moments.mean, &means, &sizes);
                check("variance", &moments.variance, &variances, &spreads);
                check("deviation", &deviation, &deviations, &sizes);
            }
        }
    }
}

#[test]
fn scaling_leaves_a_held_tensor_alone() {
    for memory in MEMORIES {
        let tensor = memory.matrix(3, 5, &normals(1, 15));
        let scaled = values(&kernels::scale(tensor.clone(), -2.5));
        let expected: Vec<f64> = widened(&normals(1, 15)).iter().map(|v| -2.5 * v).collect();
        let sizes: Vec<f64> = expected.iter().map(|value| value.abs()).collect();
        assert_close("scaled", &scaled, &expected, &sizes, EPSILON);
        assert_eq!(bits(&tensor), bits(&memory.matrix(3, 5, &normals(1, 15))));
    }
}

#[test]
fn pieces_are_assembled_where_they_belong() {
    let (scratch, whole) = (Scratch::default(), normals(5, 4 * 6));
    for memory in MEMORIES {
        let whole = memory.matrix(4, 6, &whole);
        // The second matrix reuses the memory of the first.
        for _ in 0..2 {
            let options = (&whole.device(), whole.dtype());
            let piece = |rows, columns| whole.clone().slice([rows, columns]);
            // Two runs of two, of which the first dimension in memory is that of the runs.
            let runs = piece(1..4, 0..4)
                .transpose()
                .reshape([2, 2, 3])
                .permute([2, 0, 1]);
            let assembled = Assembly::new([4, 6], options, &scratch)
                .put([1, 0], runs)
                .put([0, 0], piece(0..1, 0..6).unsqueeze_dim(1))
                .put([1, 4], piece(1..4, 4..6).unsqueeze_dim(1))
                .finish();
            assert_eq!(bits(&assembled), bits(&whole));
        }
    }
}

#[test]
#[should_panic(expected = "a piece of 1×3 at row 0, column 4 reaches over a matrix of 2×6")]
fn a_piece_does_not_reach_over_the_matrix() {
    let piece = matrix(1, 3, &[1.0; 3]);
    let options = (&piece.device(), piece.dtype());
    let assembly = Assembly::new([2, 6], options, &Scratch::default());
    assembly.put([0, 4], piece.unsqueeze_dim(1));
}
