//! The best parameters against scikit-learn's, and parameters that are known.

use super::super::kernel::Kernel;
use super::super::regression::tests::{Golden, golden};
use super::*;

/// scikit-learn keeps every parameter from 10⁻⁵ to 10⁵, and both searches end at gradients near zero, not at zero.
const SLACK: f64 = 1e-3;

#[test]
fn no_search_of_scikit_learn_is_better() {
    let Golden { cases, linear } = golden();
    for case in cases.iter().chain([&linear]) {
        let settings = MarginalLikelihood::new().with_restarts(10);
        let points = case.inputs();
        let best = settings
            .maximise(&case.process(), &points, &case.targets)
            .unwrap();
        let found = best.fit(&points, &case.targets).unwrap();
        let found = found.log_marginal_likelihood();
        let expected = case.optimum;
        assert!(
            found >= expected - SLACK,
            "{}: {found} {expected}",
            case.expression
        );
    }
}

#[test]
fn the_parameters_of_drawn_functions_are_found() {
    let points = Points::new(1, (0..400).map(|i| 0.05 * f64::from(i)).collect()).unwrap();
    let truth = Kernel::constant(4.0) * Kernel::rbf([0.7]);
    let draws = truth.draws(&points, Noise::new(2), 2).unwrap();
    let noise: Vec<f64> = draws[0]
        .iter()
        .zip(Noise::new(3).latent(points.len()))
        .map(|(value, normal)| value + 0.3 * f64::from(normal))
        .collect();
    let start = Kernel::constant(1.0) * Kernel::rbf([2.0]);
    let start = GaussianProcess::new(start, 1.0).unwrap();
    let settings = MarginalLikelihood::new().with_restarts(0).with_subset(200);
    let best = settings.maximise(&start, &points, &noise).unwrap();
    let [variance, scale] = best.kernel().parameters()[..] else {
        panic!("the kernel has two parameters");
    };
    // The interval has about 29 length scales and 200 noisy values: relative standard errors of the variance, the
    // length scale and the noise variance are about √(2/29), 10 % and √(2/200).
    assert!((variance / 4.0).ln().abs() < 0.8, "{variance}");
    assert!((scale / 0.7).ln().abs() < 0.3, "{scale}");
    assert!((best.noise_variance() / 0.09).ln().abs() < 0.3, "{best:?}");
    let again = settings.maximise(&start, &points, &noise).unwrap();
    assert_eq!(best, again);
}

#[test]
fn a_fixed_noise_stays() {
    let case = golden().cases.swap_remove(0);
    let settings = MarginalLikelihood::new().with_learns_noise(false);
    let points = case.inputs();
    let best = settings
        .maximise(&case.process(), &points, &case.targets)
        .unwrap();
    assert_eq!(best.noise_variance(), case.noise_variance);
    let gradient = best
        .fit(&points, &case.targets)
        .unwrap()
        .log_marginal_gradient();
    assert!(gradient[0].abs() < 1e-3, "{gradient:?}");
}

#[test]
fn unusable_settings_are_refused() {
    let case = golden().cases.swap_remove(0);
    for subset in [0, MOST_POINTS + 1] {
        let settings = MarginalLikelihood::new().with_subset(subset);
        let error = settings.maximise(&case.process(), &case.inputs(), &case.targets);
        assert!(error.unwrap_err().to_string().starts_with("subset"));
    }
}
