//! Agreement with laplace-torch on equal weights and data.
//!
//! `benches/papers/peers/laplace_torch.py` writes the expected values, in double precision; never edit them by hand.

use burn::module::ParamGroup;
use burn_bayes::Prior;
use burn_bayes::graph::Layout;
use burn_bayes::laplace::{Laplace, Linearized, Structure};
use burn_bayes::likelihood::Likelihood;
use serde::Deserialize;

use super::{Net, last_layer};
use crate::support::{assert_close, assert_near, matrix, values, vector};

#[derive(Deserialize)]
struct Case {
    likelihood: String,
    subset: String,
    structure: String,
    log_marginal_likelihood: f64,
    mean: Vec<f64>,
    covariance: Vec<f64>,
    #[serde(default)]
    probit: Option<Vec<f64>>,
}

const ROWS: usize = 40;
const NEW_ROWS: usize = 5;

/// As in the script.
fn wave(count: usize, rate: f64, phase: f64) -> Vec<f32> {
    let value = |k: usize| (rate * k as f64 * (1.0 + 0.01 * k as f64) + phase).sin() as f32;
    (0..count).map(value).collect()
}

fn inputs(rows: usize, phase: f64) -> burn::tensor::Tensor<2> {
    matrix(rows, 2, &wave(2 * rows, 1.3, phase)) * 2.0
}

#[test]
fn agrees_with_laplace_torch() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../golden/laplace_torch.json")).unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let what = format!("{} {} {}", case.likelihood, case.subset, case.structure);
        let (outputs, likelihood) = match &*case.likelihood {
            "regression" => (
                1,
                Likelihood::Gaussian {
                    noise_precision: 4.0,
                },
            ),
            _ => (3, Likelihood::Categorical),
        };
        let net = Net::new(Some(4), outputs, likelihood.clone());
        let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
        let weights = vector(&wave(layout.len(), 2.7, 0.4));
        let net = layout.write(net, weights).unwrap();
        let targets: Vec<f32> = match likelihood {
            Likelihood::Categorical => (0..ROWS).map(|k| (k * k % 7 % 3) as f32).collect(),
            _ => wave(ROWS, 0.9, 0.2),
        };
        let structure = match &*case.structure {
            "diag" => Structure::Diagonal,
            "kron" => Structure::KroneckerLastLayer,
            _ => Structure::Full,
        };
        let laplace = Laplace::new(ROWS)
            .with_prior(Prior::isotropic(0.7))
            .with_structure(structure)
            .with_group(match &*case.subset {
                "last_layer" => last_layer(),
                _ => ParamGroup::all(),
            });
        let batch = (inputs(ROWS, 0.1), matrix(ROWS, 1, &targets));
        let fit = laplace.gauss_newton(&net, [batch]).unwrap();
        let found = fit.log_marginal_likelihood().unwrap();
        let expected = case.log_marginal_likelihood;
        assert_near(&what, found, expected, 1e-6 * expected.abs());

        let linearized = Linearized::new(net, fit.posterior().unwrap()).unwrap();
        let inputs = inputs(NEW_ROWS, 0.6);
        let close = |part: &str, found: Vec<f64>, expected: &[f64]| {
            let scales = super::scales(expected);
            assert_close(&format!("{what}, {part}"), &found, expected, &scales, 1e-5);
        };
        let mean = linearized.outputs(&inputs).unwrap().mean;
        close("mean", values(&mean), &case.mean);
        let covariance = linearized.covariance(&inputs).unwrap();
        close("covariance", values(&covariance), &case.covariance);
        if let Some(probit) = &case.probit {
            close(
                "probit",
                values(&linearized.probit(&inputs).unwrap()),
                probit,
            );
        }
    }
}
