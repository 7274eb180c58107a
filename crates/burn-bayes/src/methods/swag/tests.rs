//! Schedules, refusals and moments of SWAG.

use burn::nn::LinearConfig;
use burn::tensor::Device;

use super::*;

fn swag(start: u64, interval: u64) -> Swag {
    let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
    BayesianConfig::new(
        10,
        SwagConfig::new()
            .with_start(Some(start))
            .with_interval(Some(interval))
            .with_rank(2),
    )
    .build(&layer)
    .unwrap()
}

#[test]
fn iterates_are_wanted_from_the_start_at_every_interval() {
    let swag = swag(4, 3);
    let wanted: Vec<u64> = (1..=12).filter(|&step| swag.wants(step)).collect();
    assert_eq!(wanted, [4, 7, 10]);
}

#[test]
fn the_iterates_of_a_training_of_known_length_are_those_of_its_last_quarter() {
    let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
    let config = BayesianConfig::new(10, SwagConfig::new().with_rank(2)).with_steps(1000);
    let swag = config.build(&layer).unwrap();
    let wanted: Vec<u64> = (1..=1000).filter(|&step| swag.wants(step)).collect();
    assert_eq!((wanted.len(), wanted[0], wanted[1]), (42, 750, 756));
}

#[test]
fn the_papers_iterates_are_the_ends_of_the_last_quarter_of_the_epochs() {
    // Three mini-batches of at most four rows make an epoch.
    let config = BayesianConfig::new(10, SwagConfig::paper(10, 4, 8).with_rank(2));
    let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
    let swag = config.build(&layer).unwrap();
    let wanted: Vec<u64> = (1..=24).filter(|&step| swag.wants(step)).collect();
    assert_eq!(wanted, [18, 21, 24]);
}

#[test]
fn refused_settings_name_their_field() {
    let cases = [
        (SwagConfig::new(), "start"),
        (SwagConfig::new().with_start(Some(0)), "start"),
        (
            SwagConfig::new().with_start(Some(1)).with_interval(Some(0)),
            "interval",
        ),
        (SwagConfig::new().with_start(Some(1)).with_rank(1), "rank"),
    ];
    for (method, field) in cases {
        let error = BayesianConfig::new(10, method).validate().expect_err(field);
        assert!(
            error.is_config() && error.to_string().starts_with(field),
            "{error}"
        );
    }
}

#[test]
fn too_few_iterates_are_an_error_that_says_so() {
    let error = swag(100, 1).posterior(100).unwrap_err();
    assert!(
        error.is_too_early() && error.to_string().contains("start"),
        "{error}"
    );
}

#[test]
fn small_deviations_of_large_weights_keep_their_variance() {
    let mut swag = swag(1, 1);
    let device = swag.mean.val().device();
    let iterates = |step: u64| 1.0 + 1e-4 * [-1.0f32, 0.5, 1.5, -0.25, 0.75][step as usize % 5];
    for step in 1..=1000 {
        swag = swag.observe(step, Tensor::full([3], iterates(step), &device));
    }
    let values = (1..=5).map(|step| f64::from(iterates(step)));
    let mean = values.clone().sum::<f64>() / 5.0;
    let expected = 0.5 * values.map(|value| (value - mean).powi(2)).sum::<f64>() / 5.0;
    let posterior = swag.posterior(1000).unwrap();
    let variance: Vec<f32> = posterior.diagonal().try_into_vec_as().unwrap();
    // The mean has an error of up to one ulp, 10⁻³ of a deviation.
    for found in variance {
        assert!((f64::from(found) / expected - 1.0).abs() < 4e-3, "{found}");
    }
}

#[test]
fn a_model_of_few_weights_has_as_many_deviations() {
    let device = Device::default().autodiff();
    for (inputs, rank) in [(4, 4), (1, 0)] {
        let layer = LinearConfig::new(inputs, 1).with_bias(false).init(&device);
        let mut swag = BayesianConfig::new(10, SwagConfig::new().with_start(Some(1)))
            .build(&layer)
            .unwrap();
        for (step, value) in [(1, 1.0), (2, 3.0), (3, 8.0), (4, 5.0), (5, 6.0)] {
            swag = swag.observe(step, Tensor::full([inputs], value, &device.clone().inner()));
        }
        assert_eq!(swag.posterior(5).unwrap().rank(), rank);
    }
}

#[test]
fn moments_follow_the_iterates_worked_by_hand() {
    let mut swag = swag(1, 1);
    let device = swag.mean.val().device();
    for (step, value) in [(1, 1.0), (2, 3.0), (3, 8.0)] {
        swag = swag.observe(step, Tensor::full([3], value, &device));
    }
    // Mean 4, squared deviations 9, 1 and 16; deviations 3−2 = 1 and 8−4 = 4 (the first was
    // dropped).
    let posterior = swag.posterior(3).unwrap();
    let mean: Vec<f32> = posterior.mean().try_into_vec_as().unwrap();
    let variance: Vec<f32> = posterior.diagonal().try_into_vec_as().unwrap();
    let factors: Vec<f32> = posterior.factors().unwrap().try_into_vec_as().unwrap();
    assert_eq!(mean, [4.0; 3]);
    let expected = 0.5 * (9.0 + 1.0 + 16.0) / 3.0;
    assert!(
        variance
            .iter()
            .all(|value| (value - expected).abs() < 8.0 * f32::EPSILON * expected)
    );
    let root = 2f32.sqrt();
    let close = |value: f32, expected: f32| (value - expected).abs() < 4.0 * f32::EPSILON * 4.0;
    assert!(
        close(factors[0], 4.0 / root) && close(factors[3], 1.0 / root),
        "{factors:?}"
    );
}
