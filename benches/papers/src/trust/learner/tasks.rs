//! What the networks learn.

use std::f64::consts::TAU;
use std::path::Path;

use burn_bayes::Noise;
use burn_bayes_data::{
    CsvOptions, Preprocessor, PreprocessorConfig, Scaling, Task as Kind, read_csv,
};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::random::shuffled;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use crate::linear_model::Rows;

/// Training rows and held-out rows.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) train: Rows,
    pub(super) test: Rows,
}

impl Task {
    /// The first `train` of these rows for training, the others held out.
    fn new(rows: impl IntoIterator<Item = (Vec<f64>, f64)>, train: usize) -> Self {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for (features, target) in rows {
            inputs.extend(features);
            targets.push(target);
        }
        let width = inputs.len() / targets.len();
        let test_inputs = inputs.split_off(train * width);
        let test_targets = targets.split_off(train);
        let rows = |inputs, targets| Rows {
            inputs,
            targets,
            width,
        };
        Self {
            train: rows(inputs, targets),
            test: rows(test_inputs, test_targets),
        }
    }
}

const DIGITS: usize = 1000;

/// Handwritten digits of 8×8 pixels, from 0 to 1, in an order of the seed.
pub(super) fn digits(data: &Path, seed: u64) -> Result<Task> {
    let table = read_csv(
        data.join("sklearn").join("digits.csv"),
        &CsvOptions::default(),
    )?;
    let config = PreprocessorConfig::new("digit", Kind::Classification).with_scaling(Scaling::Keep);
    let all = 0..table.rows();
    let rows = Preprocessor::fit(&config, &table, all.clone())?.dataset(&table, all)?;
    let classes = rows.targets().as_classes().unwrap_or_default();
    let order = shuffled(rows.rows(), Noise::new(seed));
    let picture = |&row: &usize| {
        let pixels = rows.features().row(row).iter().map(|pixel| pixel / 16.0);
        (pixels.collect(), classes[row] as f64)
    };
    Ok(Task::new(order.iter().map(picture), DIGITS))
}

/// Rows for training and held out, of generated data.
const GENERATED: (usize, usize) = (400, 1000);

/// The inverse of x = y + 0.3 sin(2πy) + noise, which has up to three branches.
pub(super) fn branches(seed: u64) -> Task {
    let mut generator = StdRng::seed_from_u64(seed);
    let rows = std::iter::repeat_with(|| {
        let y: f64 = generator.random();
        let noise: f64 = StandardNormal.sample(&mut generator);
        let x = y + 0.3 * (TAU * y).sin() + 0.05 * noise;
        (vec![4.0 * (x - 0.5)], 4.0 * (y - 0.5))
    });
    let (train, test) = GENERATED;
    Task::new(rows.take(train + test), train)
}

/// Values of a sequence.
const LENGTH: usize = 16;

/// Autoregressive sequences x_t = ±0.5 x_{t−1} + noise; the target is the sign.
pub(super) fn processes(seed: u64) -> Task {
    let mut generator = StdRng::seed_from_u64(seed);
    let rows = std::iter::repeat_with(|| {
        let is_positive: bool = generator.random();
        let coefficient = if is_positive { 0.5 } else { -0.5 };
        let mut last = 0.0;
        let sequence = (0..LENGTH).map(|_| {
            let noise: f64 = StandardNormal.sample(&mut generator);
            last = coefficient * last + noise;
            last
        });
        (sequence.collect(), f64::from(u8::from(is_positive)))
    });
    let (train, test) = GENERATED;
    Task::new(rows.take(train + test), train)
}
