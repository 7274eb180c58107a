//! Exact Gaussian-process regression against scikit-learn and closed forms.

use serde::Deserialize;

use super::*;

/// One kernel with scikit-learn's answers.
#[derive(Deserialize)]
pub(in super::super) struct Case {
    pub(in super::super) expression: String,
    width: usize,
    pub(in super::super) noise_variance: f64,
    inputs: Vec<f64>,
    pub(in super::super) targets: Vec<f64>,
    points: Vec<f64>,
    mean: Vec<f64>,
    covariance: Vec<f64>,
    log_marginal_likelihood: f64,
    gradient: Vec<f64>,
    pub(in super::super) optimum: f64,
}

/// The output of `xtask/golden/gaussian_process.py`.
#[derive(Deserialize)]
pub(in super::super) struct Golden {
    pub(in super::super) cases: Vec<Case>,
    pub(in super::super) linear: Case,
}

pub(in super::super) fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../golden/gaussian_process.json")).unwrap()
}

impl Case {
    pub(in super::super) fn process(&self) -> GaussianProcess {
        GaussianProcess::new(self.expression.parse().unwrap(), self.noise_variance).unwrap()
    }

    pub(in super::super) fn inputs(&self) -> Points {
        Points::new(self.width, self.inputs.clone()).unwrap()
    }

    fn fit(&self) -> GaussianProcessFit {
        self.process().fit(&self.inputs(), &self.targets).unwrap()
    }
}

/// The rounding of solves with covariances of condition numbers up to about 10⁴.
const TOLERANCE: f64 = 1e-10;

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let bound = TOLERANCE * scale;
        assert!(
            (found - expected).abs() <= bound,
            "{what}: {found} {expected}"
        );
    }
}

#[test]
fn predictions_are_those_of_scikit_learn() {
    let Golden { cases, linear } = golden();
    for case in cases.iter().chain([&linear]) {
        let fit = case.fit();
        let points = Points::new(case.width, case.points.clone()).unwrap();
        let FunctionPrediction { mean, variance } = fit.predict(&points).unwrap();
        assert_close(&case.expression, &mean, &case.mean);
        let covariance = fit.covariance(&points).unwrap();
        assert_close(&case.expression, covariance.as_slice(), &case.covariance);
        let diagonal: Vec<f64> = covariance.diagonal().collect();
        assert_close(&case.expression, &variance, &diagonal);
    }
}

#[test]
fn marginal_likelihoods_are_those_of_scikit_learn() {
    let Golden { cases, linear } = golden();
    for case in cases.iter().chain([&linear]) {
        let fit = case.fit();
        assert_close(
            &case.expression,
            &[fit.log_marginal_likelihood()],
            &[case.log_marginal_likelihood],
        );
        let mut gradient = fit.log_marginal_gradient();
        if case.expression == linear.expression {
            // scikit-learn's linear kernel has no length scale: ∂/∂log ℓ is −2 ∂/∂log v of v·linear(ℓ).
            let by_scale = gradient.remove(2);
            assert_close(&case.expression, &[by_scale], &[-2.0 * case.gradient[1]]);
        }
        assert_close(&case.expression, &gradient, &case.gradient);
    }
}

/// Many more points than are predicted at a time.
#[test]
fn predictions_do_not_depend_on_the_number_of_points() {
    let case = golden().cases.swap_remove(0);
    let fit = case.fit();
    let count = 2 * POINTS_AT_A_TIME + 3;
    let values: Vec<f64> = (0..count).map(|i| 0.01 * i as f64).collect();
    let all = fit
        .predict(&Points::new(1, values.clone()).unwrap())
        .unwrap();
    for index in [0, POINTS_AT_A_TIME, count - 1] {
        let one = fit
            .predict(&Points::new(1, vec![values[index]]).unwrap())
            .unwrap();
        assert_close("mean", &[all.mean[index]], &one.mean);
        assert_close("variance", &[all.variance[index]], &one.variance);
    }
}

/// A constant kernel: the posterior of one number with prior variance v and N observations.
#[test]
fn a_constant_has_the_posterior_of_one_number() {
    let (variance, noise) = (2.0, 0.5);
    let targets = [1.0, 2.0, 0.3];
    let process = GaussianProcess::new(Kernel::constant(variance), noise).unwrap();
    let points = Points::new(1, vec![0.0, 1.0, 2.0]).unwrap();
    let fit = process.fit(&points, &targets).unwrap();
    let precision = 1.0 / variance + 3.0 / noise;
    let found = fit.predict(&Points::new(1, vec![7.0]).unwrap()).unwrap();
    assert_close("mean", &found.mean, &[3.3 / noise / precision]);
    assert_close("variance", &found.variance, &[1.0 / precision]);
}

#[test]
fn unusable_arguments_are_refused() {
    let points = Points::new(1, vec![0.0, 1.0]).unwrap();
    let kernel = || Kernel::rbf([1.0]);
    for noise in [0.0, -1.0, f64::NAN] {
        assert!(
            GaussianProcess::new(kernel(), noise)
                .unwrap_err()
                .is_config()
        );
    }
    let process = GaussianProcess::new(kernel(), 0.1).unwrap();
    assert!(process.fit(&points, &[1.0]).unwrap_err().is_config());
    assert!(
        process
            .fit(&points, &[1.0, f64::INFINITY])
            .unwrap_err()
            .is_config()
    );
    let fit = process.fit(&points, &[1.0, 2.0]).unwrap();
    let wide = Points::new(2, vec![0.0, 1.0]).unwrap();
    assert!(
        fit.predict(&wide)
            .unwrap_err()
            .to_string()
            .contains("2 coordinates")
    );
    let same = Points::new(1, vec![0.0, 0.0]).unwrap();
    let process = GaussianProcess::new(kernel(), 1e-18).unwrap();
    let error = process.fit(&same, &[1.0, 2.0]).unwrap_err();
    assert!(error.is_numerical(), "{error}");
    assert!(
        error.to_string().contains("raise the noise variance"),
        "{error}"
    );
}
