//! The diagonal family on a quadratic loss with a known posterior, and by hand.

use burn::nn::LinearConfig;
use burn::tensor::Tensor;
use burn_bayes::BayesianConfig;
use burn_bayes::Prior;
use burn_bayes::algebra::SquareMatrix;
use burn_bayes::methods::{
    Algorithm, Curvature, FromGradients, InitialDeviation, MeanStage, Rate, StepId, Update, Vadam,
    VadamConfig, Von, VonConfig,
};
use burn_bayes::posterior::{DenseGaussian, FactorPosterior};

use super::{CURVATURE, LEN, PRIOR, TARGET, TRAIN_LEN, model, narrowed};
use crate::support::{EPSILON, assert_close, assert_near, autodiff, normals, values, vector};

fn config() -> BayesianConfig<VonConfig> {
    BayesianConfig::paper(TRAIN_LEN, VonConfig::paper())
        .with_draws(2)
        .with_antithetic(true)
        .with_prior(super::prior())
}

/// H (θ − t), the gradient of the quadratic.
fn quadratic(theta: &[f64]) -> Vec<f32> {
    let gradient = CURVATURE.iter().map(|row| {
        let terms = row.iter().zip(theta).zip(TARGET);
        terms
            .map(|((h, theta), target)| h * (theta - target))
            .sum::<f64>() as f32
    });
    gradient.collect()
}

/// One step of a closed-form algorithm, with gradients from a function of the weights.
fn stepped<A: FromGradients>(
    algorithm: A,
    step: u64,
    learning_rate: f64,
    gradient: impl Fn(&[f64]) -> Vec<f32>,
) -> A {
    stepped_on(1, algorithm, step, learning_rate, gradient)
}

/// The same for a batch with this many rows.
fn stepped_on<A: FromGradients>(
    rows: usize,
    algorithm: A,
    step: u64,
    learning_rate: f64,
    gradient: impl Fn(&[f64]) -> Vec<f32>,
) -> A {
    answered(rows, algorithm, step, learning_rate, |theta| {
        let gradient = gradient(theta);
        vec![vector(&gradient[..LEN - 1]), vector(&gradient[LEN - 1..])]
    })
}

/// The same with the gradients in pieces of the layout.
fn answered<A: FromGradients>(
    rows: usize,
    algorithm: A,
    step: u64,
    learning_rate: f64,
    pieces: impl Fn(&[f64]) -> Vec<Tensor<1>>,
) -> A {
    let proposal = algorithm.propose(StepId { step, pass: 0 }).unwrap();
    let pieces = proposal
        .draws
        .iter()
        .map(|draw| pieces(&values(&draw.weights)));
    let update = algorithm.step(proposal.clone(), pieces.collect(), rows);
    let Update::ClosedForm(update) = update.unwrap() else {
        panic!("the step is in closed form");
    };
    algorithm.apply_step(update, learning_rate)
}

/// Mean and precision.
fn numbers<A: Algorithm<Posterior = FactorPosterior>>(algorithm: &A) -> [Vec<f64>; 2] {
    numbers_after(algorithm, 0)
}

fn numbers_after<A: Algorithm<Posterior = FactorPosterior>>(
    algorithm: &A,
    steps: u64,
) -> [Vec<f64>; 2] {
    let posterior = algorithm.posterior(steps).unwrap();
    assert_eq!(posterior.rank(), 0);
    [values(&posterior.mean()), values(&posterior.diagonal())]
}

/// The first stage is Adam at the mean, and leaves a precision of the shape (M/N) s + α.
#[test]
fn the_precision_starts_with_the_shape_of_the_squared_gradients_of_the_first_stage() {
    const STEPS: u64 = 5;
    const ROWS: usize = 2;
    let stage = MeanStage::Steps(STEPS);
    let mut von = config().with_mean_stage(stage).build(&model()).unwrap();
    let scale = TRAIN_LEN as f64;
    let [mut mean, _] = numbers(&von);
    let (mut moment, mut square) = (vec![0.0; LEN], vec![0.0; LEN]);
    for step in 0..STEPS {
        von = stepped_on(ROWS, von, step, 0.7, quadratic);
        let gradient = quadratic(&mean);
        let left = |decay: f64| 1.0 - decay.powi(step as i32 + 1);
        // The prior grows in half of the stage.
        let share = [0.5, 1.0][step.min(1) as usize];
        for at in 0..LEN {
            let total = scale * f64::from(gradient[at]) + share * PRIOR[at] * mean[at];
            moment[at] = 0.9 * moment[at] + 0.1 * total;
            square[at] = 0.999 * square[at] + 0.001 * total * total;
            let root = (square[at] / left(0.999)).sqrt() + 1e-8;
            mean[at] -= 0.01 * (moment[at] / left(0.9)) / root;
        }
    }
    let share = ROWS as f64 / scale / (1.0 - 0.999_f64.powi(STEPS as i32));
    let precision: Vec<f64> = (0..LEN).map(|at| share * square[at] + PRIOR[at]).collect();
    let precision = narrowed(&precision);
    let [found, found_precision] = numbers_after(&von, STEPS);
    assert_close("mean", &found, &mean, &mean, 1e3 * EPSILON);
    assert_close(
        "precision",
        &found_precision,
        &precision,
        &precision,
        1e4 * EPSILON,
    );
    // The second stage draws weights.
    let proposal = von
        .propose(StepId {
            step: STEPS,
            pass: 0,
        })
        .unwrap();
    assert_eq!(proposal.draws.len(), 2);
}

/// The best diagonal Gaussian has the mean of the exact posterior and the diagonal of its precision.
#[test]
fn unbiased_curvatures_find_the_best_diagonal_gaussian() {
    const STEPS: u64 = 3000;
    let scale = TRAIN_LEN as f64;
    let whole = SquareMatrix::from_fn(LEN, |row, column| {
        let prior = if row == column { PRIOR[row] } else { 0.0 };
        scale * CURVATURE[row][column] + prior
    });
    let pull: Vec<f64> = CURVATURE
        .iter()
        .map(|row| scale * row.iter().zip(TARGET).map(|(h, t)| h * t).sum::<f64>())
        .collect();
    let exact = DenseGaussian::from_precision(vec![0.0; LEN], whole.as_slice().to_vec()).unwrap();
    let mean = exact.covariance().multiply_vector(&pull).unwrap();
    let precision: Vec<f64> = whole.diagonal().collect();

    for curvature in [Curvature::Price, Curvature::Hutchinson { probe: 0.1 }] {
        let rate = Rate::Power {
            initial: 0.2,
            time_constant: 20.0,
            power: 0.9,
        };
        let config = config()
            .map_method(|method| method.with_curvature(curvature).with_covariance_rate(rate));
        let mut von: Von = config.build(&model()).unwrap();
        for step in 0..STEPS {
            von = stepped(von, step, rate.at(step), quadratic);
        }
        let [found_mean, found_precision] = numbers(&von);
        // Steps of 1/t average about STEPS draws. The deviation of one draw is about that of θ and, for the curvature,
        // of a squared normal, times N|H|.
        let error = 8.0 / (STEPS as f64).sqrt();
        let scales: Vec<f64> = precision.iter().map(|d| d.sqrt().recip()).collect();
        assert_close("mean", &found_mean, &mean, &scales, error);
        assert_close("precision", &found_precision, &precision, &precision, error);
        // The squared gradient differs.
        let squared = config
            .map_method(|method| method.with_curvature(Curvature::SquaredMean))
            .build(&model())
            .unwrap();
        let squared = (0..STEPS).fold(squared, |von, step| {
            stepped(von, step, rate.at(step), quadratic)
        });
        let [_, other] = numbers(&squared);
        assert!(
            (other[0] / precision[0] - 1.0).abs() > 2.0 * error,
            "{other:?} {precision:?}"
        );
    }
}

/// A noisy curvature makes the precision d fluctuate around that of the best diagonal Gaussian, Λ. The positivity
/// term makes the variance correct on average, and the average of d too large.
#[test]
fn noise_in_the_curvature_leaves_the_variance_right_on_average() {
    // D, Λ over the average of d, and the deviation of Λ/d, from a reference program in double precision with 10⁵
    // steps.
    for (len, of_average, deviation) in [(2, 0.863, 0.44), (10, 0.664, 0.95)] {
        let [average, of_average_precision] = variance_shares(len, 0.1, 2, 4000);
        // Three standard errors: d averages 10 steps, and half of the weights vary independently.
        let error = 3.0 * deviation * (2.0 * 10.0 / (4000.0 * 0.5 * len as f64)).sqrt();
        assert_near("mean of Λ/d", average, 1.0, 0.05 + error);
        assert_near("Λ over mean d", of_average_precision, of_average, error);
        // Half the learning rate, or twice the draws, leaves little more than half of the bias.
        for (rate, draws) in [(0.05, 2), (0.1, 4)] {
            let [_, closer] = variance_shares(len, rate, draws, 4000);
            let missing = 0.55 * (1.0 - of_average);
            assert_near("Λ over mean d", closer, 1.0 - missing, error);
        }
    }
}

/// The mean of Λ/d, and Λ over the mean of d, of Price's estimate for a Gaussian with `len` weights whose
/// precision matrix has correlations of 0.9.
fn variance_shares(len: usize, rate: f64, draws: usize, steps: u64) -> [f64; 2] {
    const CORRELATION: f64 = 0.9;
    const PRIOR: f64 = 0.01;
    let best = TRAIN_LEN as f64 + PRIOR;
    let layer = LinearConfig::new(len, 1).with_bias(false).init(&autodiff());
    let mut von = BayesianConfig::paper(
        TRAIN_LEN,
        VonConfig::paper()
            .with_covariance_rate(Rate::Constant(rate))
            .with_initial_deviation(Some(InitialDeviation::Constant(best.powf(-0.5)))),
    )
    .with_draws(2)
    .with_antithetic(true)
    .with_prior(Prior::isotropic(PRIOR))
    .with_draws(draws)
    .with_zero_mean()
    .build(&layer)
    .unwrap();
    let (mut variances, mut precisions) = (0.0, 0.0);
    for step in 0..steps {
        von = answered(1, von, step, 0.0, |theta| {
            let shared: f64 = theta.iter().sum::<f64>() * CORRELATION;
            let gradient = theta
                .iter()
                .map(|w| ((1.0 - CORRELATION) * w + shared) as f32);
            vec![vector(&gradient.collect::<Vec<_>>())]
        });
        for precision in &numbers(&von)[1] {
            variances += best / precision;
            precisions += precision / best;
        }
    }
    let count = steps as f64 * len as f64;
    [variances / count, count / precisions]
}

/// For any negative curvature, at least half of the precision remains.
#[test]
fn the_precision_stays_positive_on_a_saddle() {
    for curvature in [Curvature::Price, Curvature::Hutchinson { probe: 0.1 }] {
        let mut von = config()
            .map_method(|method| {
                method
                    .with_curvature(curvature)
                    .with_covariance_rate(Rate::Constant(0.5))
            })
            .build(&model())
            .unwrap();
        for step in 0..50 {
            let before = numbers(&von)[1].clone();
            von = stepped(von, step, 0.0, |theta| {
                theta.iter().map(|w| -20.0 * *w as f32).collect()
            });
            let after = numbers(&von)[1].clone();
            for (after, before) in after.iter().zip(&before) {
                assert!(
                    *after >= 0.5 * before * (1.0 - 8.0 * EPSILON),
                    "{after} after {before}"
                );
            }
        }
    }
}

/// Equation (5.18) of the report: one step with η = β is
/// q^{1−β} · (prior · second-order expansion of the likelihood)^β, for every weight of a separable loss.
#[test]
fn a_step_is_a_bayesian_filter() {
    const RATE: f64 = 0.3;
    let von = config()
        .map_method(|method| method.with_curvature(Curvature::SquaredMean))
        .with_antithetic(false)
        .with_draws(1)
        .map_method(|method| method.with_covariance_rate(Rate::Constant(RATE)))
        .build(&model())
        .unwrap();
    let gradient = [0.7f32, -1.3, 0.4];
    let [mean, precision] = numbers(&von);
    let after = stepped(von, 0, RATE, |_| gradient.to_vec());
    let [new_mean, new_precision] = numbers(&after);
    let scale = TRAIN_LEN as f64;
    for at in 0..LEN {
        let log_normal =
            |w: f64, mean: f64, precision: f64| -0.5 * precision * (w - mean) * (w - mean);
        let (g, h) = (f64::from(gradient[at]), f64::from(gradient[at]).powi(2));
        let product = |w: f64| {
            // w' − θ = w − μ: the expansion moves from the draw to the mean.
            let moved = w - mean[at];
            let log_likelihood = -scale * (g * moved + 0.5 * h * moved * moved);
            (1.0 - RATE) * log_normal(w, mean[at], precision[at])
                + RATE * (log_normal(w, 0.0, PRIOR[at]) + log_likelihood)
        };
        let found = |w: f64| log_normal(w, new_mean[at], new_precision[at]);
        // Proportional functions: the logarithms differ by a constant.
        let constant = product(0.0) - found(0.0);
        for w in [-2.0, -0.5, 1.0, 3.0] {
            let size = product(w).abs() + found(w).abs() + 1.0;
            assert_near(
                "log density",
                product(w) - found(w),
                constant,
                64.0 * EPSILON * size,
            );
        }
    }
}

#[test]
fn vadam_is_its_three_lines() {
    let config = BayesianConfig::paper(
        TRAIN_LEN,
        VadamConfig::paper()
            .with_square_scale(Some(5.0))
            .with_initial_precision(14.0),
    )
    .with_prior(super::prior());
    let (gamma_1, rate): (f64, f64) = (config.method.momentum, 0.05);
    let gamma_2 = 1.0 - config.method.covariance_rate;
    let mut vadam: Vadam = config.build(&model()).unwrap();
    let scale = TRAIN_LEN as f64;
    let ([mut mean, precision], mut moment) = (numbers(&vadam), [0.0; LEN]);
    let expected: Vec<f64> = PRIOR.iter().map(|alpha| 14.0 + alpha).collect();
    assert_close("precision", &precision, &expected, &expected, 4.0 * EPSILON);
    let mut square = [0.0; LEN];
    // Two full batches and a short one.
    for (step, rows) in [(0, 5), (1, 5), (2, 2)] {
        let gradient = normals(step, LEN);
        vadam = stepped_on(rows, vadam, step, rate, |_| gradient.clone());
        let time = step as i32 + 1;
        let weight = rows as f64 / 5.0;
        for at in 0..LEN {
            let (g, alpha) = (f64::from(gradient[at]), PRIOR[at] / scale);
            moment[at] = gamma_1 * moment[at] + (1.0 - gamma_1) * (g + alpha * mean[at]);
            square[at] = gamma_2 * square[at] + (1.0 - gamma_2) * weight * g * g;
            let corrected = square[at] / (1.0 - gamma_2.powi(time));
            mean[at] -= rate * moment[at] / (1.0 - gamma_1.powi(time)) / (corrected.sqrt() + alpha);
        }
        let [found, precision] = numbers_after(&vadam, step + 1);
        assert_close("mean", &found, &mean, &[1.0 + rate; LEN], 32.0 * EPSILON);
        let left = 14.0 * gamma_2.powi(time);
        let expected = (0..LEN).map(|at| 5.0 * scale * square[at] + left + PRIOR[at]);
        let expected: Vec<f64> = expected.collect();
        assert_close(
            "precision",
            &precision,
            &expected,
            &expected,
            16.0 * EPSILON,
        );
    }
}

#[test]
fn refused_settings_name_their_field() {
    let von = BayesianConfig::new(10, VonConfig::new());
    let hutchinson = |probe| {
        von.clone()
            .map_method(|method| method.with_curvature(Curvature::Hutchinson { probe }))
    };
    for (config, field) in [
        (von.clone().with_draws(3), "draws"),
        (hutchinson(0.0), "curvature"),
        (hutchinson(f64::NAN), "curvature"),
    ] {
        let error = config.validate().unwrap_err();
        assert!(
            error.is_config() && error.to_string().starts_with(field),
            "{error}"
        );
    }
    let vadam = VadamConfig::new();
    for (method, field) in [
        (vadam.clone().with_momentum(1.0), "momentum"),
        (vadam.clone().with_covariance_rate(1.1), "covariance_rate"),
        (vadam.clone().with_square_scale(Some(0.0)), "square_scale"),
        (vadam.with_initial_precision(-1.0), "initial_precision"),
    ] {
        let config = BayesianConfig::new(10, method);
        let error = config.validate().unwrap_err();
        assert!(
            error.is_config() && error.to_string().starts_with(field),
            "{error}"
        );
    }
}
