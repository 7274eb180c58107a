//! A random forest of the training rows, beside which a fit is judged: what a table is predicted by where nobody models
//! it.
//!
//! With μ(x) the mean of the trees and e² the mean squared error of the predictions of rows by the trees that did not see
//! them, a number has N(μ(x), e²), and a count the negative binomial distribution of mean μ(x) whose dispersion gives e².
//! Where rows come in groups or periods, e² is that of the predictions of whole ones by forests of the others.
//! A class has the share of the trees. Shares and mean counts have one more tree, the mean of the training rows (of classes with
//! one more row, of all in equal parts), so that nothing is impossible.

use std::slice;

use burn_bayes_data::{ColumnScale, Features};
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::error::Failed;
use smartcore::linalg::basic::matrix::DenseMatrix;

use crate::error::{Result, TabularError};
use crate::predict::{
    ClassPredictions, CountPredictions, Dispersions, Predictions, RealPredictions,
    TargetPredictions,
};
use crate::rows::{Target, TrainingSet};

/// As many trees as those of other libraries at their defaults.
const TREES: usize = 100;
/// The forests of groups or periods, which together have as many trees.
const FOLDS: usize = 5;
/// The most values of features, for every column of targets: some seconds.
const MOST_VALUES: usize = 400_000;
/// The least standard deviation of a standardised target.
const LEAST_DEVIATION: f64 = 1e-6;

/// A fitted random forest for every column of the targets.
#[derive(Debug)]
pub(crate) struct Forest {
    target: Target,
    columns: Vec<Column>,
}

type Trees = RandomForestRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>;

#[derive(Debug)]
struct Column {
    trees: Trees,
    /// The mean of the training rows, of a class with one more row; see [`TrainingSet::smoothed_means`].
    mean: f64,
    /// The mean squared error of rows by trees that did not see them, and the mean of their squared predictions.
    squared_error: f64,
    squared_prediction: f64,
}

impl Forest {
    /// The forest of these rows.
    ///
    /// # Errors
    /// If there are too many of them.
    pub(crate) fn fit(train: &TrainingSet, seed: u64) -> Result<Self> {
        let (rows, width) = (train.rows(), train.width());
        if rows * width * train.target().columns() > MOST_VALUES {
            let problem = "it has too many rows or features to be fitted within seconds";
            return Err(TabularError::Numerical(problem.into()));
        }
        let columns = train.smoothed_means().into_iter().enumerate();
        let columns = columns.map(|(column, mean)| Column::fit(train, column, mean, seed));
        Ok(Self {
            target: train.target().clone(),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// Predictions of rows.
    ///
    /// # Errors
    /// If the number of features differs from that in training.
    pub(crate) fn predict(&self, rows: &Features) -> Result<Predictions> {
        let values = rows.to_f32().into_iter().map(f64::from).collect();
        let features = matrix(rows.rows(), rows.columns(), values)?;
        let columns = self.columns.iter();
        let columns = columns.map(|column| Ok((column, column.predict(&features)?)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(predictions(&self.target, &columns))
    }
}

impl Column {
    fn fit(train: &TrainingSet, column: usize, mean: f64, seed: u64) -> Result<Self> {
        let (features, targets) = columns(train, column)?;
        let trees = trees_of(train, column, TREES, seed)?;
        let folds = train.units().folds(FOLDS, seed);
        let unseen = match folds.filter(|_| is_numeric(train.target())) {
            None => trees.predict_oob(&features).map_err(failed)?,
            Some(folds) => {
                let mut unseen = vec![f64::NAN; targets.len()];
                for fold in folds {
                    let others = trees_of(&train.select(&fold.train), column, TREES / FOLDS, seed)?;
                    let (features, _) = columns(&train.select(&fold.test), column)?;
                    let found = others.predict(&features).map_err(failed)?;
                    fold.test
                        .iter()
                        .zip(found)
                        .for_each(|(&row, found)| unseen[row] = found);
                }
                unseen
            }
        };
        // A row may be seen by all trees.
        let pairs = || {
            unseen
                .iter()
                .zip(&targets)
                .filter(|(found, _)| found.is_finite())
        };
        let count = pairs().count().max(1) as f64;
        let squares = |square: fn((&f64, &f64)) -> f64| pairs().map(square).sum::<f64>() / count;
        Ok(Self {
            trees,
            mean,
            squared_error: squares(|(found, target)| (found - target).powi(2)),
            squared_prediction: squares(|(found, _)| found * found),
        })
    }

    fn predict(&self, features: &DenseMatrix<f64>) -> Result<Vec<f64>> {
        self.trees.predict(features).map_err(failed)
    }

    /// A prediction with one more tree, the mean of the training rows.
    fn smoothed(&self, prediction: f64) -> f64 {
        (TREES as f64 * prediction + self.mean) / (TREES + 1) as f64
    }

    fn reals(&self, scale: ColumnScale, predictions: &[f64]) -> RealPredictions {
        let deviation = self.squared_error.sqrt().max(LEAST_DEVIATION);
        let means = predictions.iter();
        let means = means
            .map(|mean| scale.centre + scale.spread * mean)
            .collect();
        let reals = RealPredictions::new(scale.spread * deviation, 1, means);
        match scale.is_logarithmic {
            true => reals.of_logarithms(),
            false => reals,
        }
    }

    fn counts(&self, predictions: &[f64]) -> CountPredictions {
        // The variance of a count is μ + α μ².
        let dispersion = (self.squared_error - self.mean) / self.squared_prediction;
        let dispersions = match dispersion > 0.0 {
            true => Dispersions(vec![dispersion; predictions.len()]),
            false => Dispersions::default(),
        };
        let rates = predictions.iter().map(|&rate| self.smoothed(rate));
        CountPredictions::new(dispersions, 1, rates.collect())
    }
}

/// The predictions of a target by those of its columns.
fn predictions(target: &Target, columns: &[(&Column, Vec<f64>)]) -> Predictions {
    match (target, columns) {
        (Target::Real(scale), [(column, values)]) => {
            Predictions::Reals(column.reals(*scale, values))
        }
        (Target::Counts { .. }, [(column, values)]) => Predictions::Counts(column.counts(values)),
        (Target::Several(targets), columns) => {
            let several = targets.iter().zip(columns);
            let several = several.map(|(one, column)| {
                TargetPredictions::of(one, predictions(&one.1, slice::from_ref(column)))
            });
            Predictions::Several(several.collect())
        }
        (target, columns) => {
            let shares = shares(columns);
            Predictions::Classes(ClassPredictions::new(target.classes(), 1, shares))
        }
    }
}

/// The shares of the classes for every row, row-major.
fn shares(columns: &[(&Column, Vec<f64>)]) -> Vec<f64> {
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    let share = |(column, values): &(&Column, Vec<f64>), row: usize| column.smoothed(values[row]);
    let of_row = |row| match columns {
        // Of a label, the second class.
        [second] => vec![1.0 - share(second, row), share(second, row)],
        columns => {
            let shares = columns.iter().map(|column| share(column, row));
            let sum: f64 = shares.clone().sum();
            shares.map(|share| share / sum).collect()
        }
    };
    (0..rows).flat_map(of_row).collect()
}

/// Trees for a column of the targets.
fn trees_of(train: &TrainingSet, column: usize, count: usize, seed: u64) -> Result<Trees> {
    let (features, targets) = columns(train, column)?;
    // All features of numbers and counts and the square root of their number of classes are what other libraries
    // look at for a split.
    let looked_at = match is_numeric(train.target()) {
        true => train.width(),
        false => train.width().isqrt().max(1),
    };
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(count)
        .with_m(looked_at)
        .with_keep_samples(true)
        .with_seed(seed);
    Trees::fit(&features, &targets, parameters).map_err(failed)
}

/// Whether numbers or counts are predicted, and not classes.
fn is_numeric(target: &Target) -> bool {
    target.scales().is_some() || matches!(target, Target::Counts { .. })
}

/// The features of all rows, and a column of their targets.
fn columns(rows: &TrainingSet, column: usize) -> Result<(DenseMatrix<f64>, Vec<f64>)> {
    let values = rows.examples().flat_map(|(features, _)| features);
    let values = values.map(|&value| value.into()).collect();
    let targets = rows.examples().map(|(_, targets)| targets[column].into());
    Ok((
        matrix(rows.rows(), rows.width(), values)?,
        targets.collect(),
    ))
}

fn matrix(rows: usize, columns: usize, values: Vec<f64>) -> Result<DenseMatrix<f64>> {
    DenseMatrix::new(rows, columns, values, false).map_err(failed)
}

fn failed(error: Failed) -> TabularError {
    TabularError::Numerical(error.to_string())
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Column as TableColumn, Table};

    use super::*;
    use crate::random::generator;
    use crate::rows::{PreparedRows, SplitTable};
    use crate::settings::{DataSettings, TaskName};
    use burn_bayes::Noise;
    use rand::RngExt;

    /// A column that tells the groups apart says nothing about other groups.
    #[test]
    fn the_error_of_grouped_rows_is_that_of_other_groups() {
        let mut random = generator(Noise::new(1));
        let mut normals = |count: usize| -> Vec<f64> {
            let sum = |_| (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            (0..count).map(sum).collect()
        };
        let (of_groups, codes, noise) = (normals(40), normals(40), normals(400));
        let of_row = |value: &dyn Fn(usize) -> f64| (0..400).map(value).collect::<Vec<_>>();
        let table = Table::new(vec![
            TableColumn::numbers("y", of_row(&|row| of_groups[row % 40] + 0.1 * noise[row])),
            TableColumn::numbers("code", of_row(&|row| codes[row % 40])),
            TableColumn::numbers("ward", of_row(&|row| (row % 40) as f64)),
        ]);
        let table = table.unwrap();
        let error = |group_by: Option<&str>| {
            let settings = DataSettings {
                target: "y".parse().ok(),
                task: Some(TaskName::Regression),
                group_by: group_by.map(String::from),
                ignore: "ward".parse().unwrap(),
                ..DataSettings::default()
            };
            let dealt = SplitTable::of(table.clone(), (0..400).collect(), Vec::new());
            let train = PreparedRows::prepare(dealt, &settings).unwrap().train;
            Forest::fit(&train, 1).unwrap().columns[0].squared_error
        };
        // In variances of the targets.
        let (known, new) = (error(None), error(Some("ward")));
        assert!(known < 0.1 && new > 0.5, "{known} {new}");
    }
}
