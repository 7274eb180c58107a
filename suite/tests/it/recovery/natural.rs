//! Algorithms with closed-form steps, against dense matrices in double precision.

use burn::nn::LinearConfig;
use burn::optim::SgdConfig;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes::algebra::{Cholesky, SquareMatrix, SymmetricEigen};
use burn_bayes::graph::ExampleGradients;
use burn_bayes::methods::{Algorithm, FromExamples, Rate, Slang, StepId, Update};
use burn_bayes::posterior::{DenseGaussian, GaussianDistance, linear_regression_posterior};
use burn_bayes::{BayesianConfig, ExampleLoss, FactorPosterior, Prior, SlangConfig};
use proptest::prelude::*;

use crate::support::{
    EPSILON, assert_close, assert_near, autodiff, bits, filled, matrix, normals, values,
};

const TRAIN_LEN: usize = 50;
const PRIOR: f64 = 0.5;
const LEARNING_RATE: f64 = 0.3;

/// The weights of a linear layer with one output and a bias: `len` in total.
fn slang(config: &BayesianConfig<SlangConfig>, len: usize) -> Slang {
    let layer = LinearConfig::new(len - 1, 1).init(&autodiff());
    config.build(&filled(layer, 1, 1.0)).unwrap()
}

fn config(rank: usize) -> BayesianConfig<SlangConfig> {
    BayesianConfig::paper(
        TRAIN_LEN,
        SlangConfig::paper()
            .with_rank(rank)
            .with_covariance_rate(Rate::Power {
                initial: 0.4,
                time_constant: 2.0,
                power: 1.0,
            }),
    )
    .with_prior(Prior::isotropic(PRIOR))
}

/// Gradients of `count` examples, correlated by a shared direction.
fn rows(count: usize, len: usize, seed: u64) -> Vec<f32> {
    let shared = normals(seed, len);
    let own = normals(seed ^ 0x5a5a, count * len);
    let share = |at: usize| 0.7 * shared[at % len];
    own.iter()
        .enumerate()
        .map(|(at, own)| own + share(at))
        .collect()
}

fn update(slang: &Slang, step: u64, rows: &[Vec<f32>]) -> Update<<Slang as Algorithm>::ClosedForm> {
    let proposal = slang.propose(StepId { step, pass: 0 }).unwrap();
    let len = slang.setup().layout.len();
    let sets = rows
        .iter()
        .map(|rows| ExampleGradients::from_rows(matrix(rows.len() / len, len, rows)));
    let gradients = ExampleGradients::joined(sets.collect());
    slang.step(proposal, gradients).unwrap()
}

fn stepped(slang: &Slang, step: u64, rows: &[Vec<f32>]) -> Slang {
    let Update::ClosedForm(update) = update(slang, step, rows) else {
        panic!("the step is in closed form");
    };
    slang.clone().apply_step(update, LEARNING_RATE)
}

/// A posterior's numbers, and its full precision matrix.
struct Dense {
    mean: Vec<f64>,
    diagonal: Vec<f64>,
    /// UᵀU.
    explained: Vec<f64>,
}

impl Dense {
    fn new(posterior: &FactorPosterior) -> Self {
        let len = posterior.len();
        let factors = posterior.factors().map_or_else(Vec::new, |u| values(&u));
        Self {
            mean: values(&posterior.mean()),
            diagonal: values(&posterior.diagonal()),
            explained: outer(&factors, len),
        }
    }

    fn precision(&self) -> Vec<f64> {
        let mut precision = self.explained.clone();
        for (at, d) in self.diagonal.iter().enumerate() {
            precision[at * (self.mean.len() + 1)] += d;
        }
        precision
    }
}

/// Σ r rᵀ over rows.
fn outer(rows: &[f64], len: usize) -> Vec<f64> {
    let mut sum = vec![0.0; len * len];
    for row in rows.chunks_exact(len) {
        for (at, sum) in sum.iter_mut().enumerate() {
            *sum += row[at / len] * row[at % len];
        }
    }
    sum
}

fn diagonal(matrix: &[f64], len: usize) -> Vec<f64> {
    matrix.iter().step_by(len + 1).copied().collect()
}

fn product(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    matrix
        .chunks_exact(vector.len())
        .map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
        .collect()
}

/// The result of one step: `rows` have outer products that add up to Ĝ/N, and `mean_gradient` is g.
fn check_step(before: &Slang, after: &Slang, step: u64, fisher: &[f64], mean_gradient: &[f64]) {
    let (old, new) = (
        Dense::new(&before.posterior(step).unwrap()),
        Dense::new(&after.posterior(step + 1).unwrap()),
    );
    let (len, rank) = (old.mean.len(), before.state().config().rank);
    let rate = before.state().config().covariance_rate.at(step);
    // RᵀR, which the new factors truncate to their rank.
    let stacked: Vec<f64> = (0..len * len)
        .map(|at| (1.0 - rate) * old.explained[at] + rate * TRAIN_LEN as f64 * fisher[at])
        .collect();
    let size = stacked.iter().fold(0.0f64, |max, v| max.max(v.abs()));
    let tolerance = 64.0 * len as f64 * EPSILON;

    // No other matrix of this rank is closer.
    let eigen = SymmetricEigen::new(&SquareMatrix::from_row_major(len, stacked.clone()).unwrap());
    let eigen = eigen.unwrap();
    let least: f64 = eigen.values()[rank..].iter().map(|v| v * v).sum();
    let distance: f64 = stacked
        .iter()
        .zip(&new.explained)
        .map(|(r, u)| (r - u) * (r - u))
        .sum();
    assert_near(
        "distance",
        distance.sqrt(),
        least.sqrt(),
        tolerance * size * len as f64,
    );

    // The law of the diagonal.
    let expected: Vec<f64> = diagonal(&stacked, len)
        .iter()
        .zip(&old.diagonal)
        .map(|(r, d)| r + (1.0 - rate) * d + rate * PRIOR)
        .collect();
    let found = diagonal(&new.precision(), len);
    assert_close(
        "diagonal",
        &found,
        &expected,
        &vec![size + 1.0; len],
        tolerance,
    );
    assert!(new.diagonal.iter().all(|d| *d > 0.0));

    // A Newton step with the new precision.
    let gradient: Vec<f64> = (0..len)
        .map(|at| TRAIN_LEN as f64 * mean_gradient[at] + PRIOR * old.mean[at])
        .collect();
    let dense = DenseGaussian::from_precision(vec![0.0; len], new.precision()).unwrap();
    let direction = product(dense.covariance().as_slice(), &gradient);
    let expected: Vec<f64> = (0..len)
        .map(|at| old.mean[at] - LEARNING_RATE * direction[at])
        .collect();
    // Woodbury subtracts the part of the factors from the step of the diagonal alone.
    let scales: Vec<f64> = (0..len)
        .map(|at| {
            old.mean[at].abs()
                + gradient.iter().fold(0.0f64, |m, g| m.max(g.abs())) / new.diagonal[at]
        })
        .collect();
    assert_close("mean", &new.mean, &expected, &scales, tolerance);
}

fn widened(rows: &[f32]) -> Vec<f64> {
    rows.iter().map(|&value| value.into()).collect()
}

fn mean_of(rows: &[f64], len: usize) -> Vec<f64> {
    let count = (rows.len() / len) as f64;
    (0..len)
        .map(|at| rows.iter().skip(at).step_by(len).sum::<f64>() / count)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Three steps from U = 0, with ranks above and below that of the gradients.
    #[test]
    fn a_step_is_the_dense_one(
        len in 2usize..12,
        rank in 0usize..6,
        count in 1usize..7,
        draws in 1usize..3,
        seed in 0u64..1000,
    ) {
        let rank = rank.min(len);
        let mut before = slang(&config(rank).with_draws(draws), len);
        for step in 0..3u64 {
            let rows: Vec<Vec<f32>> = (0..draws as u64)
                .map(|draw| rows(count, len, 100 * seed + 10 * step + draw))
                .collect();
            let after = stepped(&before, step, &rows);
            let all = widened(&rows.concat());
            let share = 1.0 / (count * draws) as f64;
            let fisher: Vec<f64> = outer(&all, len).iter().map(|f| share * f).collect();
            check_step(&before, &after, step, &fisher, &mean_of(&all, len));
            before = after;
        }
    }
}

/// With as many factors as weights, nothing is truncated, and SLANG equals VOGN with the full matrix.
#[test]
fn slang_of_full_rank_is_vogn_with_the_whole_matrix() {
    const LEN: usize = 5;
    let mut slang = slang(&config(LEN), LEN);
    let start = Dense::new(&slang.posterior(0).unwrap());
    let (mut mean, mut precision) = (start.mean.clone(), start.precision());
    for step in 0..6 {
        let rows = rows(3, LEN, 20 + step);
        let wide = widened(&rows);
        let rate = slang.state().config().covariance_rate.at(step);
        let scale = TRAIN_LEN as f64;
        for (at, fisher) in outer(&wide, LEN).iter().enumerate() {
            let prior = if at % (LEN + 1) == 0 { PRIOR } else { 0.0 };
            precision[at] = (1.0 - rate) * precision[at] + rate * (scale * fisher / 3.0 + prior);
        }
        let gradient = mean_of(&wide, LEN).into_iter().zip(&mean);
        let mut direction: Vec<f64> = gradient.map(|(g, m)| scale * g + PRIOR * m).collect();
        let root = SquareMatrix::from_row_major(LEN, precision.clone()).unwrap();
        Cholesky::new(&root).unwrap().solve(&mut direction).unwrap();
        for (mean, direction) in mean.iter_mut().zip(direction) {
            *mean -= LEARNING_RATE * direction;
        }
        slang = stepped(&slang, step, &[rows]);
    }
    let found = Dense::new(&slang.posterior(6).unwrap());
    let size = diagonal(&precision, LEN).into_iter().fold(0.0, f64::max);
    let tolerance = 6.0 * 64.0 * LEN as f64 * EPSILON;
    let scales = [size; LEN * LEN];
    assert_close(
        "precision",
        &found.precision(),
        &precision,
        &scales,
        tolerance,
    );
    let largest = mean.iter().fold(1.0f64, |max, mean| max.max(mean.abs()));
    // The condition number of the precision multiplies the rounding of the mean.
    let condition = size / PRIOR;
    let scales = [largest * condition; LEN];
    assert_close("mean", &found.mean, &mean, &scales, tolerance);
}

impl ExampleLoss for super::LinearRegression {
    fn example_losses(&self, (inputs, targets): (Tensor<2>, Tensor<2>)) -> Tensor<1> {
        let error = self.linear.forward(inputs) - targets;
        (error.square() * (0.5 * super::NOISE_PRECISION)).squeeze_dim(1)
    }
}

/// If the model is correct, the expected outer product of gradients is the Hessian. SLANG then approaches the
/// exact posterior, within the sampling error of N residuals.
#[test]
fn linear_regression_is_solved_up_to_the_empirical_fisher() {
    const INPUTS: usize = 4;
    const ROWS: usize = 400;
    const BATCH: usize = 50;
    let mut inputs = normals(1, ROWS * INPUTS);
    for row in inputs.chunks_mut(INPUTS) {
        row[1] = 0.8 * row[0] + 0.6 * row[1];
        row[3] -= 0.7 * row[2];
    }
    let targets: Vec<f32> = inputs
        .chunks(INPUTS)
        .zip(normals(2, ROWS))
        .map(|(x, noise)| x[0] - 0.5 * x[1] + 2.0 * x[2] + 0.5 * noise)
        .collect();
    let exact = linear_regression_posterior(
        &widened(&inputs),
        &widened(&targets),
        super::PRIOR_PRECISION,
        super::NOISE_PRECISION,
    )
    .unwrap();
    let batches: Vec<_> = inputs
        .chunks(BATCH * INPUTS)
        .zip(targets.chunks(BATCH))
        .map(|(inputs, targets)| {
            let inputs = matrix(BATCH, INPUTS, inputs);
            let targets = matrix(BATCH, 1, targets);
            (Tensor::from_inner(inputs), Tensor::from_inner(targets))
        })
        .collect();
    let train = |rank: usize| {
        let model = super::LinearRegression {
            linear: LinearConfig::new(INPUTS, 1)
                .with_bias(false)
                .init(&autodiff()),
        };
        let rate = Rate::Power {
            initial: 0.2,
            time_constant: 200.0,
            power: 0.9,
        };
        let mut bayesian = BayesianConfig::paper(
            ROWS,
            SlangConfig::paper()
                .with_rank(rank)
                .with_covariance_rate(rate),
        )
        .with_prior(Prior::isotropic(super::PRIOR_PRECISION))
        .with_draws(2)
        .init(filled(model, 3, 0.5));
        let mut optimizer = SgdConfig::new().init();
        for step in 0..1500u64 {
            let batch = batches[step as usize % batches.len()].clone();
            let output = TrainStep::step(&bayesian, batch);
            bayesian = bayesian.optimize(&mut optimizer, rate.at(step).into(), output.grads);
        }
        let found = bayesian.posterior().to_dense().unwrap();
        GaussianDistance::between(&exact, &found).unwrap()
    };
    let [full, diagonal] = [INPUTS, 0].map(train);
    assert!(full.kl < 0.1 && full.reverse_kl < 0.1, "{full:?}");
    assert!(diagonal.kl > 3.0 * full.kl, "{diagonal:?} is no better");
}

#[test]
fn groups_count_as_one_example_whose_gradient_is_their_sum() {
    const LEN: usize = 5;
    let before = slang(
        &config(2).map_method(|method| method.with_group_size(2)),
        LEN,
    );
    let rows = rows(5, LEN, 3);
    let after = stepped(&before, 0, std::slice::from_ref(&rows));
    let wide = widened(&rows);
    // The last group has a single example.
    let sums: Vec<f64> = wide
        .chunks(2 * LEN)
        .flat_map(|group| {
            (0..LEN)
                .map(|at| group.iter().skip(at).step_by(LEN).sum())
                .collect::<Vec<f64>>()
        })
        .collect();
    let fisher: Vec<f64> = outer(&sums, LEN).iter().map(|f| f / 5.0).collect();
    check_step(&before, &after, 0, &fisher, &mean_of(&wide, LEN));
}

#[test]
fn momentum_averages_the_steps() {
    const LEN: usize = 4;
    let still = slang(&config(2), LEN);
    let swung = slang(
        &config(2).map_method(|method| method.with_momentum(0.75)),
        LEN,
    );
    let rows = rows(3, LEN, 5);
    let start = values(&still.posterior(0).unwrap().mean());
    let means = [still, swung].map(|slang| {
        let moved = stepped(&slang, 0, std::slice::from_ref(&rows));
        values(&moved.posterior(1).unwrap().mean())
    });
    let expected: Vec<f64> = (0..LEN)
        .map(|at| start[at] + 0.25 * (means[0][at] - start[at]))
        .collect();
    let scales: Vec<f64> = (0..LEN)
        .map(|at| start[at].abs() + means[0][at].abs())
        .collect();
    assert_close("mean", &means[1], &expected, &scales, 8.0 * EPSILON);
}

/// √(Δᵀ P⁺ Δ / D).
fn reach(before: &Slang, after: &Slang) -> f64 {
    let old = values(&before.posterior(0).unwrap().mean());
    let new = Dense::new(&after.posterior(1).unwrap());
    let moved: Vec<f64> = new.mean.iter().zip(&old).map(|(n, o)| n - o).collect();
    let weighted = product(&new.precision(), &moved);
    let square: f64 = moved.iter().zip(&weighted).map(|(m, w)| m * w).sum();
    square.sqrt()
}

#[test]
fn a_step_too_far_is_shrunk_to_the_radius() {
    const LEN: usize = 6;
    // The gradients of a batch agree, so the step is long.
    let rows: Vec<f32> = normals(9, LEN).repeat(4);
    let run = |radius| {
        let before = slang(
            &config(2).map_method(|method| method.with_radius(radius)),
            LEN,
        );
        let after = stepped(&before, 0, std::slice::from_ref(&rows));
        let precision = bits(&after.posterior(1).unwrap().diagonal());
        (reach(&before, &after), precision)
    };
    let (free, free_precision) = run(f64::INFINITY);
    assert!(free > 0.5, "a step to be shrunk: {free}");
    let (shrunk, precision) = run(0.25);
    assert_near("reach", shrunk, 0.25, 1e3 * EPSILON);
    assert_eq!(
        precision, free_precision,
        "the precision is learned as ever"
    );
    let (kept, _) = run(2.0 * free);
    assert_near("reach", kept, free, 1e3 * EPSILON * free);
}

#[test]
fn a_step_that_is_not_finite_is_rejected_with_step_and_path() {
    const LEN: usize = 3;
    for bad in [f32::NAN, 1e30] {
        for rank in [0, 2] {
            let slang = stepped(&slang(&config(rank), LEN), 0, &[rows(2, LEN, 1)]);
            let mut poisoned = rows(2, LEN, 2);
            poisoned[LEN + 2] = bad;
            let Update::Rejected(reason) = update(&slang, 11, &[poisoned]) else {
                panic!("{bad} at rank {rank}");
            };
            assert!(reason.is_numerical(), "{reason}");
            assert!(reason.to_string().starts_with("step 12"), "{reason}");
            if bad.is_nan() {
                assert!(reason.to_string().contains("bias"), "{reason}");
            }
        }
    }
}

#[test]
fn it_starts_at_the_prior_or_at_the_deviation_that_is_asked_for() {
    let mean = |slang: &Slang| values(&slang.posterior(0).unwrap().mean());
    let prior = slang(&config(2).with_zero_mean(), 4);
    assert_eq!(mean(&prior), [0.0; 4]);
    let variance = |slang: &Slang| values(&slang.posterior(0).unwrap().variance().unwrap());
    assert_eq!(variance(&prior), [1.0 / PRIOR; 4]);
    let deviation = burn_bayes::methods::InitialDeviation::Constant(0.25);
    let narrow = slang(
        &config(2).map_method(|method| method.with_initial_deviation(Some(deviation))),
        4,
    );
    assert_close(
        "variance",
        &variance(&narrow),
        &[0.0625; 4],
        &[0.0625; 4],
        8.0 * EPSILON,
    );
    assert_ne!(mean(&narrow), [0.0; 4]);
}

#[test]
fn refused_settings_name_their_field() {
    let layer = LinearConfig::new(3, 1).init(&autodiff());
    let base = SlangConfig::new();
    let cases = [
        (base.clone().with_rank(5), "rank"),
        (base.clone().with_group_size(0), "group_size"),
        (base.clone().with_momentum(1.0), "momentum"),
        (base.clone().with_radius(0.0), "radius"),
        (
            base.with_covariance_rate(Rate::Constant(2.0)),
            "covariance_rate",
        ),
    ];
    for (method, field) in cases {
        let config = BayesianConfig::new(10, method);
        let error = config.build(&layer).map(|_| ()).unwrap_err();
        assert!(error.is_config(), "{error}");
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
