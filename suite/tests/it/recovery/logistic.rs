//! The best Gaussian of a logistic regression.

use burn_bayes_contrib::methods::{LogisticPosterior, LogisticRegression};

use crate::support::{normals, widened};

const WIDTH: usize = 3;
const ROWS: usize = 40;
const PRIOR: f64 = 0.5;

/// Inputs, and classes that depend on them.
fn rows() -> (Vec<f64>, Vec<bool>) {
    let inputs = widened(&normals(1, ROWS * WIDTH));
    let noise = normals(2, ROWS);
    let rows = inputs.chunks(WIDTH).zip(noise);
    let classes = rows.map(|(x, noise)| 2.0 * x[0] - x[1] + f64::from(noise) > 0.0);
    (inputs.clone(), classes.collect())
}

#[test]
fn correlations_improve_the_bound() {
    let (inputs, classes) = rows();
    // ANCHOR: logistic
    let rows = LogisticRegression::new(&inputs, &classes, PRIOR).unwrap();
    let best = rows.posterior(LogisticPosterior::Full).unwrap();
    let diagonal = rows.posterior(LogisticPosterior::Diagonal).unwrap();
    assert!(rows.negative_bound(&best).unwrap() < rows.negative_bound(&diagonal).unwrap());
    // ANCHOR_END: logistic
    assert!(rows.nll(&best).unwrap() < 0.6);
}
