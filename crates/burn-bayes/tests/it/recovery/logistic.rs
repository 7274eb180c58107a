//! The best Gaussian of a logistic regression, and natural gradients at draws, whose fixed point it is.

use burn_bayes::algebra::SquareMatrix;
use burn_bayes::methods::{FullMatrixStep, FullMatrixVon, LogisticPosterior, LogisticRegression};
use burn_bayes::posterior::DenseGaussian;

use crate::support::{normals, widened};

const WIDTH: usize = 3;
const ROWS: usize = 40;
const PRIOR: f64 = 0.5;
/// Antithetic pairs of draws per step.
const PAIRS: usize = 32;

/// Inputs, and classes that depend on them.
fn rows() -> (Vec<f64>, Vec<bool>) {
    let inputs = widened(&normals(1, ROWS * WIDTH));
    let noise = normals(2, ROWS);
    let rows = inputs.chunks(WIDTH).zip(noise);
    let classes = rows.map(|(x, noise)| 2.0 * x[0] - x[1] + f64::from(noise) > 0.0);
    (inputs.clone(), classes.collect())
}

fn divergence(left: &DenseGaussian, right: &DenseGaussian) -> f64 {
    left.kl_divergence(right).unwrap() + right.kl_divergence(left).unwrap()
}

#[test]
fn hessians_at_draws_lead_to_the_best_gaussian() {
    let (inputs, classes) = rows();
    // ANCHOR: logistic
    let rows = LogisticRegression::new(&inputs, &classes, PRIOR).unwrap();
    let best = rows.posterior(LogisticPosterior::Full).unwrap();
    let diagonal = rows.posterior(LogisticPosterior::Diagonal).unwrap();
    assert!(rows.negative_bound(&best).unwrap() < rows.negative_bound(&diagonal).unwrap());
    // ANCHOR_END: logistic
    let mut von = FullMatrixVon::new(vec![0.0; WIDTH], SquareMatrix::identity(WIDTH)).unwrap();
    for step in 0..400_usize {
        let gaussian = von.gaussian().unwrap();
        let mut gradient = vec![0.0; WIDTH];
        let mut curvature = vec![0.0; WIDTH * WIDTH];
        let share = 1.0 / (2 * PAIRS * ROWS) as f64;
        let noise = widened(&normals(100 + step as u64, PAIRS * WIDTH));
        for normals in noise.chunks(WIDTH) {
            for sign in [1.0, -1.0] {
                let normals: Vec<f64> = normals.iter().map(|z| sign * z).collect();
                let weights = gaussian.draw(&normals).unwrap();
                for (x, &class) in inputs.chunks(WIDTH).zip(&classes) {
                    let logit: f64 = x.iter().zip(&weights).map(|(x, w)| x * w).sum();
                    let probability = 1.0 / (1.0 + (-logit).exp());
                    let error = probability - if class { 1.0 } else { 0.0 };
                    for i in 0..WIDTH {
                        gradient[i] += share * error * x[i];
                        for j in 0..WIDTH {
                            let bend = share * probability * (1.0 - probability);
                            curvature[i * WIDTH + j] += bend * x[i] * x[j];
                        }
                    }
                }
            }
        }
        let rate = 2.0 / (step as f64 + 4.0);
        von = von
            .stepped(FullMatrixStep {
                train_len: ROWS,
                gradient: &gradient,
                curvature: &SquareMatrix::from_row_major(WIDTH, curvature).unwrap(),
                prior: &[PRIOR; WIDTH],
                rate,
                learning_rate: rate,
            })
            .unwrap();
    }
    // The average over some 10⁴ draws has errors of a hundredth of a deviation: 3·10⁻⁴ nats.
    let found = divergence(&von.gaussian().unwrap(), &best);
    assert!(found < 3e-3, "{found}");
    let fisher = rows.posterior(LogisticPosterior::EmpiricalFisher).unwrap();
    assert!(divergence(&fisher, &best) > 10.0 * found);
    assert!(rows.nll(&best).unwrap() < 0.6);
}
