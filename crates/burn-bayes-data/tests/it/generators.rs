//! Generated data and their documented distributions.

use burn_bayes_data::{Features, LinearModelConfig, gap_function, gap_regression, two_moons};

/// The number of standard errors that a correct generator stays within, for a fixed seed.
const STANDARD_ERRORS: f64 = 4.0;

/// The sample covariance of two columns, divided by n.
fn covariance(features: &Features, left: usize, right: usize) -> f64 {
    let count = features.rows() as f64;
    let mean = |column: usize| {
        (0..features.rows())
            .map(|row| features.row(row)[column])
            .sum::<f64>()
            / count
    };
    let (left_mean, right_mean) = (mean(left), mean(right));
    let products = (0..features.rows()).map(|row| {
        let row = features.row(row);
        (row[left] - left_mean) * (row[right] - right_mean)
    });
    products.sum::<f64>() / count
}

#[test]
fn a_seed_names_the_rows_and_the_settings_matter() {
    assert_eq!(
        two_moons(50, 0.1, 1).unwrap(),
        two_moons(50, 0.1, 1).unwrap()
    );
    assert_ne!(
        two_moons(50, 0.1, 1).unwrap(),
        two_moons(50, 0.1, 2).unwrap()
    );
    let linear = LinearModelConfig::default();
    assert_eq!(
        linear.regression(0.1, 3).unwrap(),
        linear.regression(0.1, 3).unwrap()
    );
}

#[test]
fn a_seed_means_the_same_for_ever() {
    // Recorded from this code: a release that changes a value changes all results.
    let moons = two_moons(1, 0.1, 1).unwrap();
    assert_eq!(
        moons.features().values(),
        [-0.7527054772011934, 0.6817349979328158]
    );
    let gap = gap_regression(1, 0.1, 1).unwrap();
    assert_eq!(gap.targets().as_real(), Some(&[-0.6115558686703003][..]));
    let config = LinearModelConfig {
        rows: 1,
        ..LinearModelConfig::default()
    };
    let linear = config.regression(0.1, 1).unwrap();
    assert_eq!(linear.weights, [2.9866999958515636, -3.325488834237923]);
    assert_eq!(
        linear.dataset.targets().as_real(),
        Some(&[3.3614142772006685][..])
    );
}

#[test]
fn noiseless_moons_are_half_circles() {
    let data = two_moons(1000, 0.0, 5).unwrap();
    for (row, &class) in data.targets().as_classes().unwrap().iter().enumerate() {
        let (x, y) = (data.features().row(row)[0], data.features().row(row)[1]);
        let (radius, is_its_half) = match class {
            0 => (x.hypot(y), y >= 0.0),
            _ => ((x - 1.0).hypot(y - 0.5), y <= 0.5),
        };
        assert!((radius - 1.0).abs() < 1e-14 && is_its_half, "row {row}");
    }
}

#[test]
fn the_gap_is_empty_and_the_noise_is_as_told() {
    let data = gap_regression(4000, 0.2, 7).unwrap();
    let targets = data.targets().as_real().unwrap();
    let mut squares = 0.0;
    for (&input, target) in data.features().values().iter().zip(targets) {
        assert!((0.7..=2.0).contains(&input.abs()));
        squares += (target - gap_function(input)).powi(2);
    }
    // The mean of n squares of N(0, σ²) has standard error σ²√(2/n).
    let bound = STANDARD_ERRORS * 0.04 * (2.0_f64 / 4000.0).sqrt();
    assert!((squares / 4000.0 - 0.04).abs() < bound);
}

#[test]
fn linear_data_follow_the_weights() {
    let config = LinearModelConfig {
        rows: 20_000,
        features: 3,
        ..LinearModelConfig::default()
    };
    let data = config.regression(0.1, 11).unwrap();
    let features = data.dataset.features();
    let root = (config.rows as f64).sqrt();
    for left in 0..3 {
        for right in 0..=left {
            let expected: f64 = if left == right { 1.0 } else { 0.5 };
            // A sample covariance of normals has variance (Σ_ii Σ_jj + Σ_ij²) / n.
            let bound = STANDARD_ERRORS * (1.0 + expected * expected).sqrt() / root;
            assert!((covariance(features, left, right) - expected).abs() < bound);
        }
    }
    let targets = data.dataset.targets().as_real().unwrap();
    let errors = (0..config.rows).map(|row| {
        let output: f64 = features
            .row(row)
            .iter()
            .zip(&data.weights)
            .map(|(x, w)| x * w)
            .sum();
        (targets[row] - output).powi(2)
    });
    let variance = errors.sum::<f64>() / config.rows as f64;
    assert!((variance - 10.0).abs() < STANDARD_ERRORS * 10.0 * 2.0_f64.sqrt() / root);
}

#[test]
fn classes_follow_the_logistic_function() {
    // Weights of size one make both classes common.
    let config = LinearModelConfig {
        rows: 20_000,
        prior_precision: 1.0,
        ..LinearModelConfig::default()
    };
    let data = config.classification(13).unwrap();
    let classes = data.dataset.targets().as_classes().unwrap();
    let (mut ones, mut expected, mut variance) = (0.0, 0.0, 0.0);
    for (row, &class) in classes.iter().enumerate() {
        let features = data.dataset.features().row(row);
        let output: f64 = features.iter().zip(&data.weights).map(|(x, w)| x * w).sum();
        // Weighted by the feature, so that the direction of the weights matters.
        let probability = 1.0 / (1.0 + (-output).exp());
        ones += features[0] * class as f64;
        expected += features[0] * probability;
        variance += features[0].powi(2) * probability * (1.0 - probability);
    }
    assert!((ones - expected).abs() < STANDARD_ERRORS * variance.sqrt());
    assert!(
        expected.abs() > 10.0 * variance.sqrt(),
        "the weights can be told from nothing"
    );
}

#[test]
fn impossible_settings_are_refused_by_name() {
    let linear = LinearModelConfig::default;
    for (error, name) in [
        (two_moons(0, 0.1, 0).unwrap_err(), "rows"),
        (two_moons(5, -0.1, 0).unwrap_err(), "noise_deviation"),
        (
            gap_regression(5, f64::NAN, 0).unwrap_err(),
            "noise_deviation",
        ),
        (linear().regression(0.0, 0).unwrap_err(), "noise_precision"),
        (
            LinearModelConfig {
                rows: 0,
                ..linear()
            }
            .classification(0)
            .unwrap_err(),
            "rows",
        ),
        (
            LinearModelConfig {
                features: 0,
                ..linear()
            }
            .classification(0)
            .unwrap_err(),
            "features",
        ),
        (
            LinearModelConfig {
                correlation: 1.0,
                ..linear()
            }
            .classification(0)
            .unwrap_err(),
            "correlation",
        ),
        (
            LinearModelConfig {
                prior_precision: 0.0,
                ..linear()
            }
            .classification(0)
            .unwrap_err(),
            "prior_precision",
        ),
    ] {
        assert!(
            error.is_config() && error.to_string().contains(&format!("`{name}`")),
            "{error}"
        );
    }
}
