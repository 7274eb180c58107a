//! Data with known distributions, for tests, examples, and the comparison of approximate with exact
//! posteriors. Equal settings and seeds give equal rows on every machine.

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Features, Targets};
use crate::error::DataError;
use crate::random::{Generator, generator, normal, uniform};

/// Two interleaving half circles with Gaussian noise, one for each class.
///
/// Class 0 is (cos t, sin t) and class 1 is (1 − cos t, ½ − sin t), t uniform on [0, π]; the classes
/// alternate.
///
/// # Errors
/// If there are no rows, or the noise is negative or not finite.
pub fn two_moons(rows: usize, noise_deviation: f64, seed: u64) -> Result<Dataset, DataError> {
    check_noisy(rows, noise_deviation)?;
    let mut generator = generator(seed, "two moons");
    let mut values = Vec::with_capacity(2 * rows);
    let classes: Vec<usize> = (0..rows).map(|row| row % 2).collect();
    for &class in &classes {
        let (sine, cosine) = libm::sincos(std::f64::consts::PI * uniform(&mut generator));
        let point = match class {
            0 => [cosine, sine],
            _ => [1.0 - cosine, 0.5 - sine],
        };
        values.extend(point.map(|value| value + noise_deviation * normal(&mut generator)));
    }
    Dataset::new(Features::new(rows, 2, values)?, Targets::Classes(classes))
}

/// Noisy values of [`gap_function`] at inputs that alternate between [−2, −0.7] and [0.7, 2], with a gap
/// between.
///
/// # Errors
/// If there are no rows, or the noise is negative or not finite.
pub fn gap_regression(rows: usize, noise_deviation: f64, seed: u64) -> Result<Dataset, DataError> {
    check_noisy(rows, noise_deviation)?;
    let mut generator = generator(seed, "gap");
    let inputs: Vec<f64> = (0..rows)
        .map(|row| {
            let size = 0.7 + 1.3 * uniform(&mut generator);
            if row % 2 == 0 { -size } else { size }
        })
        .collect();
    let noisy = |&input| gap_function(input) + noise_deviation * normal(&mut generator);
    let targets = inputs.iter().map(noisy).collect();
    Dataset::new(Features::new(rows, 1, inputs)?, Targets::Real(targets))
}

/// sin 1.6x + 0.3x, the noise-free function of [`gap_regression`].
pub fn gap_function(input: f64) -> f64 {
    libm::sin(1.6 * input) + 0.3 * input
}

/// Data from a linear or logistic model with Gaussian random weights, without intercept.
///
/// x ~ N(0, R) with ones on R's diagonal and `correlation` elsewhere, θ ~ N(0, `prior_precision`⁻¹ I).
/// The defaults are those of the VIFA paper's section 4.1; its section B.2 is the logistic model.
///
/// ```
/// use burn_bayes_data::LinearModelConfig;
///
/// let linear = LinearModelConfig::default().regression(0.1, 1)?;
/// assert_eq!((linear.dataset.rows(), linear.weights.len()), (1000, 2));
/// let logistic = LinearModelConfig { rows: 3000, ..LinearModelConfig::default() };
/// assert!(logistic.classification(1)?.dataset.targets().as_classes().is_some());
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinearModelConfig {
    /// Number of rows; 1000 in the linear and 3000 in the logistic experiment of the paper.
    pub rows: usize,
    /// Number of features; 2 in the paper.
    pub features: usize,
    /// Covariance of any two features; 0.5 in the paper.
    pub correlation: f64,
    /// Precision of the weights; 0.01 in the paper.
    pub prior_precision: f64,
}

impl Default for LinearModelConfig {
    fn default() -> Self {
        Self {
            rows: 1000,
            features: 2,
            correlation: 0.5,
            prior_precision: 0.01,
        }
    }
}

/// Rows and the weights that generated them.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModelData {
    /// Features and targets.
    pub dataset: Dataset,
    /// θ, one for each feature.
    pub weights: Vec<f64>,
}

impl LinearModelConfig {
    /// Targets θᵀx + ε with ε ~ N(0, `noise_precision`⁻¹); 0.1 in the paper.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn regression(
        &self,
        noise_precision: f64,
        seed: u64,
    ) -> Result<LinearModelData, DataError> {
        check(
            "noise_precision",
            noise_precision,
            noise_precision > 0.0,
            "more than 0",
        )?;
        let deviation = noise_precision.sqrt().recip();
        self.generate(seed, |outputs, generator| {
            let noisy = |output| output + deviation * normal(generator);
            Targets::Real(outputs.into_iter().map(noisy).collect())
        })
    }

    /// Class 1 with probability σ(θᵀx), otherwise 0.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn classification(&self, seed: u64) -> Result<LinearModelData, DataError> {
        self.generate(seed, |outputs, generator| {
            let class =
                |output: f64| usize::from(uniform(generator) < 1.0 / (1.0 + libm::exp(-output)));
            Targets::Classes(outputs.into_iter().map(class).collect())
        })
    }

    fn generate(
        &self,
        seed: u64,
        targets: impl FnOnce(Vec<f64>, &mut Generator) -> Targets,
    ) -> Result<LinearModelData, DataError> {
        check_rows(self.rows)?;
        let (correlation, precision) = (self.correlation, self.prior_precision);
        check(
            "correlation",
            correlation,
            (0.0..1.0).contains(&correlation),
            "from 0 and below 1",
        )?;
        check("prior_precision", precision, precision > 0.0, "more than 0")?;
        if self.features == 0 {
            return Err(DataError::config("features", 0, "at least 1"));
        }
        let mut generator = generator(seed, "linear model");
        let deviation = precision.sqrt().recip();
        let weights: Vec<f64> = (0..self.features)
            .map(|_| deviation * normal(&mut generator))
            .collect();
        // The sum of a shared and an individual part has the required covariance.
        let (shared, own) = (correlation.sqrt(), (1.0 - correlation).sqrt());
        let mut values = Vec::with_capacity(self.rows * self.features);
        let mut outputs = Vec::with_capacity(self.rows);
        for _ in 0..self.rows {
            let common = shared * normal(&mut generator);
            let start = values.len();
            values.extend((0..self.features).map(|_| common + own * normal(&mut generator)));
            outputs.push(dot(&values[start..], &weights));
        }
        let features = Features::new(self.rows, self.features, values)?;
        let targets = targets(outputs, &mut generator);
        Ok(LinearModelData {
            dataset: Dataset::new(features, targets)?,
            weights,
        })
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

fn check_rows(rows: usize) -> Result<(), DataError> {
    if rows > 0 {
        return Ok(());
    }
    Err(DataError::config("rows", 0, "at least 1"))
}

fn check_noisy(rows: usize, noise_deviation: f64) -> Result<(), DataError> {
    check_rows(rows)?;
    let is_good = noise_deviation >= 0.0;
    check("noise_deviation", noise_deviation, is_good, "0 or more")
}

fn check(name: &str, value: f64, is_good: bool, expected: &str) -> Result<(), DataError> {
    if is_good && value.is_finite() {
        return Ok(());
    }
    Err(DataError::config(name, value, expected))
}
