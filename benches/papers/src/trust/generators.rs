//! Generated data: designs of a given condition, and two large regressions.

use burn_bayes::algebra::SquareMatrix;
use burn_bayes_data::{Dataset, Features, Targets};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use burn_bayes_tabular::error::Result;

use crate::logistic::dot;

/// `count` independent standard normals.
pub(super) fn normals(count: usize, generator: &mut StdRng) -> Vec<f64> {
    (0..count)
        .map(|_| StandardNormal.sample(generator))
        .collect()
}

/// Rows of normal features whose covariance has mean diagonal 1, random principal axes and deviations
/// along them from s to s/`condition`, equally spaced in their logarithm.
pub(super) fn design(
    rows: usize,
    features: usize,
    condition: f64,
    generator: &mut StdRng,
) -> Result<Features> {
    let last = features.saturating_sub(1).max(1) as f64;
    let deviations: Vec<f64> = (0..features)
        .map(|axis| condition.powf(-(axis as f64) / last))
        .collect();
    let scale = (features as f64 / dot(&deviations, &deviations)).sqrt();
    let axes = SquareMatrix::from_row_major(features, normals(features * features, generator))?;
    let axes = axes.nearest_orthogonal()?;
    let mut values = Vec::with_capacity(rows * features);
    for _ in 0..rows {
        let along = normals(features, generator);
        let along: Vec<f64> = along
            .iter()
            .zip(&deviations)
            .map(|(z, deviation)| scale * deviation * z)
            .collect();
        values.extend(axes.multiply_vector(&along)?);
    }
    Ok(Features::new(rows, features, values)?)
}

/// A linear function of each row whose values have a variance near 1 for features of [`design`].
pub(super) fn linear_function(features: &Features, generator: &mut StdRng) -> Vec<f64> {
    let columns = features.columns();
    let scale = (columns as f64).sqrt().recip();
    let weights = normals(columns, generator);
    (0..features.rows())
        .map(|row| scale * dot(features.row(row), &weights))
        .collect()
}

/// Regression rows whose features and target are made one by one.
fn rows(count: usize, columns: usize, mut row: impl FnMut() -> (Vec<f64>, f64)) -> Result<Dataset> {
    let (mut values, mut targets) = (Vec::with_capacity(count * columns), Vec::new());
    for _ in 0..count {
        let (features, target) = row();
        values.extend(features);
        targets.push(target);
    }
    let features = Features::new(count, columns, values)?;
    Ok(Dataset::new(features, Targets::Real(targets))?)
}

/// 7 500 districts with eight features like those of the Californian houses: skewed incomes, rooms and
/// inhabitants, an age, and a place, near two towns of which prices are higher. The logarithm of the price
/// has noise of Student's t with 5 degrees of freedom, and prices are capped at 5.
pub(super) fn housing_like() -> Result<Dataset> {
    let mut generator = StdRng::seed_from_u64(6000);
    rows(7500, 8, || {
        let [income, rooms, bedrooms, people, household, noise]: [f64; 6] =
            std::array::from_fn(|_| StandardNormal.sample(&mut generator));
        let income = (1.2 + 0.45 * income).exp();
        let rooms = (1.65 + 0.15 * income.ln() + 0.25 * rooms).exp();
        let bedrooms = rooms * (0.2 + 0.03 * bedrooms).max(0.1);
        let people = (7.0 + 0.7 * people).exp();
        let household = (1.05 + 0.2 * household).exp();
        let age = generator.random_range(1.0..52.0);
        let [north, east]: [f64; 2] = std::array::from_fn(|_| generator.random_range(-1.0..1.0));
        let near = |at: [f64; 2], width: f64| {
            let distance = (north - at[0]).powi(2) + (east - at[1]).powi(2);
            (-0.5 * distance / (width * width)).exp()
        };
        let student = normals(5, &mut generator);
        let student = noise / (dot(&student, &student) / 5.0).sqrt();
        let log_price = -0.6
            + 0.75 * income.ln()
            + 0.5 * near([0.4, -0.5], 0.25)
            + 0.6 * near([-0.5, 0.3], 0.35)
            - 0.5 * (household / 2.86).ln()
            + 0.004 * age * near([0.4, -0.5], 0.5)
            - 0.2 * (rooms / bedrooms / 5.0 - 1.0)
            + 0.22 * student;
        let features = vec![income, age, rooms, bedrooms, people, household, north, east];
        (features, log_price.exp().min(5.0))
    })
}

/// 125 000 rows of 50 normal features: ten hyperbolic tangents of linear functions, a product of two
/// features, and noise of deviation 0.7, whose NLL is 1.062.
pub(super) fn large() -> Result<Dataset> {
    const FEATURES: usize = 50;
    let mut generator = StdRng::seed_from_u64(100_000);
    let hidden: Vec<Vec<f64>> = (0..10).map(|_| normals(FEATURES, &mut generator)).collect();
    let outer = normals(hidden.len(), &mut generator);
    rows(125_000, FEATURES, || {
        let x = normals(FEATURES, &mut generator);
        let units = hidden.iter().zip(&outer);
        let sum: f64 = units
            .map(|(w, a)| 0.4 * a * (1.5 * dot(w, &x) / (FEATURES as f64).sqrt()).tanh())
            .sum();
        let noise: f64 = StandardNormal.sample(&mut generator);
        let target = sum + 0.3 * x[0] * x[1] + 0.7 * noise;
        (x, target)
    })
}
