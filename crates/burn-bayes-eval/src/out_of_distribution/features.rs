//! Distances of a row's features from those of the training rows.
//!
//!   Mahalanobis   min_c (x − μ_c)ᵀ Σ⁻¹ (x − μ_c),   Σ = (1/n) Σ_r (x_r − μ_{y_r})(x_r − μ_{y_r})ᵀ + ρI
//!   k nearest     the distance to the k-th nearest training row, of features of length 1
//!
//! Features are the inputs or the outputs of a hidden layer. Σ is shared by all classes; give one
//! class to a regression. Both are higher for more unusual rows. The Mahalanobis distance assumes
//! classes of one Gaussian shape and costs D² per row and class; the k nearest assume nothing and
//! cost n·D per row.
//!
//! References: K. Lee et al., "A simple unified framework for detecting out-of-distribution samples
//! and adversarial attacks" (2018); Y. Sun et al., "Out-of-distribution detection with deep nearest
//! neighbors" (2022), whose normalisation to length 1 is used here.

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::compare;
use crate::views::check_labels;

/// Class means and the shared covariance of training features.
///
/// ```
/// use burn_bayes_eval::MahalanobisDistance;
///
/// let features = [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 2.0, 2.0]; // four rows, variance 1 each way
/// let distance = MahalanobisDistance::fit(&features, &[0, 0, 0, 0], 2, 0.0)?;
/// assert_eq!(distance.scores(&[1.0, 1.0, 1.0, 4.0])?, [0.0, 9.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MahalanobisDistance {
    pub(super) columns: usize,
    means: Vec<Vec<f64>>,
    /// The lower Cholesky factor of Σ, row-major.
    factor: Vec<f64>,
}

impl MahalanobisDistance {
    /// From features, `[rows × columns]`, row-major, with one class per row. `ridge` is ρ, added to
    /// every variance; 0 if there are many more rows than columns.
    ///
    /// # Errors
    /// A data error if the lengths do not fit, a feature is not finite, a class below the largest
    /// has no row, or the covariance is singular; a config error if the ridge is not finite and at
    /// least zero.
    pub fn fit(
        features: &[f64],
        labels: &[usize],
        columns: usize,
        ridge: f64,
    ) -> Result<Self, EvalError> {
        if !(ridge.is_finite() && ridge >= 0.0) {
            return Err(EvalError::config(
                "ridge",
                ridge,
                "a finite number of at least 0",
            ));
        }
        let rows = labels.len();
        check_features("training features", features, rows, columns)?;
        // A class has at least one row, so there are at most as many classes.
        check_labels("labels", labels, rows)?;
        let classes = labels.iter().max().map_or(0, |most| most + 1);
        let mut counts = vec![0.0; classes];
        let mut means = vec![vec![0.0; columns]; classes];
        for (x, &label) in features.chunks_exact(columns).zip(labels) {
            counts[label] += 1.0;
            means[label]
                .iter_mut()
                .zip(x)
                .for_each(|(sum, x)| *sum += x);
        }
        if let Some(class) = counts.iter().position(|&count| count == 0.0) {
            return Err(EvalError::data(
                "labels",
                Place::WHOLE,
                format!("no row of class {class}"),
                "at least one row of every class",
                "classes that are not numbered from 0 without gaps",
            ));
        }
        for (mean, count) in means.iter_mut().zip(&counts) {
            mean.iter_mut().for_each(|sum| *sum /= count);
        }
        let mut covariance = vec![0.0; columns * columns];
        for (x, &label) in features.chunks_exact(columns).zip(labels) {
            let centred: Vec<f64> = x.iter().zip(&means[label]).map(|(x, m)| x - m).collect();
            for i in 0..columns {
                for j in 0..=i {
                    covariance[i * columns + j] += centred[i] * centred[j] / rows as f64;
                }
            }
        }
        for i in 0..columns {
            covariance[i * columns + i] += ridge;
        }
        let factor = cholesky(covariance, columns)?;
        Ok(Self {
            columns,
            means,
            factor,
        })
    }

    /// The squared distance of each row, `[rows × columns]`, to its nearest class mean.
    ///
    /// # Errors
    /// A data error if the length is not a multiple of the columns or a feature is not finite.
    pub fn scores(&self, features: &[f64]) -> Result<Vec<f64>, EvalError> {
        let rows = features.len() / self.columns;
        check_features("features", features, rows, self.columns)?;
        let of_row = |x: &[f64]| {
            let distances = self.means.iter().map(|mean| self.squared(x, mean));
            distances.fold(f64::INFINITY, f64::at_most)
        };
        Ok(features.chunks_exact(self.columns).map(of_row).collect())
    }

    /// ‖L⁻¹(x − μ)‖².
    fn squared(&self, x: &[f64], mean: &[f64]) -> f64 {
        let mut solved: Vec<f64> = Vec::with_capacity(self.columns);
        for i in 0..self.columns {
            let row = &self.factor[i * self.columns..][..=i];
            let known: f64 = row.iter().zip(&solved).map(|(l, z)| l * z).sum();
            solved.push((x[i] - mean[i] - known) / row[i]);
        }
        solved.iter().map(|z| z * z).sum()
    }
}

/// The lower factor of a symmetric matrix, of which the lower half is given.
fn cholesky(mut matrix: Vec<f64>, size: usize) -> Result<Vec<f64>, EvalError> {
    for i in 0..size {
        let variance = matrix[i * size + i];
        for j in 0..=i {
            let known: f64 = (0..j)
                .map(|k| matrix[i * size + k] * matrix[j * size + k])
                .sum();
            let rest = matrix[i * size + j] - known;
            if i > j {
                matrix[i * size + j] = rest / matrix[j * size + j];
                continue;
            }
            // What remains of a variance that other columns explain is rounding.
            if rest <= size as f64 * 8.0 * f64::EPSILON * variance {
                return Err(EvalError::data(
                    "covariance of the training features",
                    Place::WHOLE.at_column(i),
                    "a column that is constant within classes or a combination of the columns before",
                    "a regular matrix",
                    "fewer rows than columns, or a redundant column: remove it, or pass a ridge of \
                     about 1e-3 of the mean variance",
                ));
            }
            matrix[i * size + i] = rest.sqrt();
        }
    }
    Ok(matrix)
}

/// Training features of length 1, for distances to the k-th nearest.
///
/// ```
/// use burn_bayes_eval::NearestFeatures;
///
/// let nearest = NearestFeatures::fit(&[1.0, 0.0, 0.0, 2.0, 3.0, 0.0], 2, 1)?;
/// let scores = nearest.scores(&[5.0, 0.0, -1.0, 0.0])?;
/// assert_eq!(scores[0], 0.0); // the direction of two training rows
/// assert!((scores[1] - 2f64.sqrt()).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NearestFeatures {
    pub(super) columns: usize,
    neighbour: usize,
    features: Vec<f64>,
}

impl NearestFeatures {
    /// From features, `[rows × columns]`, row-major, and the number of the neighbour, from 1.
    ///
    /// # Errors
    /// A data error if the length is not a multiple of the columns, a feature is not finite, a row
    /// is all zero, or there are fewer rows than `neighbour`; a config error if `neighbour` is
    /// zero.
    pub fn fit(features: &[f64], columns: usize, neighbour: usize) -> Result<Self, EvalError> {
        check::at_least_one("neighbour", neighbour)?;
        let rows = features.len().checked_div(columns).unwrap_or(0);
        check_features("training features", features, rows, columns)?;
        if rows < neighbour {
            return Err(EvalError::data(
                "training features",
                Place::WHOLE,
                format!("{rows} rows"),
                format!("at least {neighbour}, the number of the neighbour"),
                "a small training set: use a nearer neighbour",
            ));
        }
        let features = unit("training features", features, columns)?;
        Ok(Self {
            columns,
            neighbour,
            features,
        })
    }

    /// The distance of each row, `[rows × columns]`, to its k-th nearest training row, in [0, 2].
    ///
    /// # Errors
    /// A data error if the length is not a multiple of the columns, a feature is not finite, or a
    /// row is all zero.
    pub fn scores(&self, features: &[f64]) -> Result<Vec<f64>, EvalError> {
        let rows = features.len() / self.columns;
        check_features("features", features, rows, self.columns)?;
        let features = unit("features", features, self.columns)?;
        let of_row = |x: &[f64]| {
            let known = self.features.chunks_exact(self.columns);
            let squared =
                known.map(|k| k.iter().zip(x).map(|(a, b)| (a - b) * (a - b)).sum::<f64>());
            let mut squared: Vec<f64> = squared.collect();
            let place = self.neighbour - 1;
            squared
                .select_nth_unstable_by(place, |a, b| compare(*a, *b))
                .1
                .sqrt()
        };
        Ok(features.chunks_exact(self.columns).map(of_row).collect())
    }
}

fn unit(what: &str, features: &[f64], columns: usize) -> Result<Vec<f64>, EvalError> {
    let mut scaled = features.to_vec();
    for (row, x) in scaled.chunks_exact_mut(columns).enumerate() {
        let largest = x.iter().fold(0.0_f64, |most, x| most.at_least(x.abs()));
        if largest == 0.0 {
            return Err(EvalError::data(
                what,
                Place::row(row),
                "only zeros, which have no direction",
                "a feature other than 0",
                "a dead layer, or an input that was masked: use the Mahalanobis distance",
            ));
        }
        let length = x.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt();
        x.iter_mut().for_each(|x| *x = *x / largest / length);
    }
    Ok(scaled)
}

fn check_features(
    what: &str,
    features: &[f64],
    rows: usize,
    columns: usize,
) -> Result<(), EvalError> {
    check::shape(
        what,
        features.len(),
        &[("rows", rows), ("columns", columns)],
    )?;
    match features.iter().position(|feature| !feature.is_finite()) {
        Some(index) => {
            let place = Place::row(index / columns).at_column(index % columns);
            Err(check::not_finite(what, place, features[index]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_covariances_name_the_column_and_a_ridge_cures_them() {
        let features = [0.0, 0.0, 1.0, 2.0, 2.0, 4.0, -1.0, -2.0];
        let error = MahalanobisDistance::fit(&features, &[0; 4], 2, 0.0).unwrap_err();
        assert_eq!(error.column(), Some(1));
        assert!(error.to_string().contains("ridge"), "{error}");
        assert!(MahalanobisDistance::fit(&features, &[0; 4], 2, 1e-3).is_ok());
        let constant = [0.0, 1.0, 0.0, 2.0];
        let error = MahalanobisDistance::fit(&constant, &[0, 0], 2, 0.0).unwrap_err();
        assert_eq!(error.column(), Some(0));
    }

    #[test]
    fn the_nearest_class_counts_and_gaps_are_errors() {
        let features = [-1.0, 1.0, 9.0, 11.0];
        let distance = MahalanobisDistance::fit(&features, &[0, 0, 1, 1], 1, 0.0).unwrap();
        assert_eq!(
            distance.scores(&[0.0, 10.0, 5.0]).unwrap(),
            [0.0, 0.0, 25.0]
        );
        assert!(
            MahalanobisDistance::fit(&features, &[0, 0, 2, 2], 1, 0.0)
                .unwrap_err()
                .is_data()
        );
        let error = distance.scores(&[0.0, f64::NAN]).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(0)));
        let found = MahalanobisDistance::fit(&features, &[0; 4], 1, f64::NAN);
        assert!(found.unwrap_err().is_config());
    }

    #[test]
    fn neighbours_are_counted_from_one() {
        let nearest = |k| NearestFeatures::fit(&[1.0, 0.0, 0.0, 1.0], 2, k);
        assert_eq!(nearest(1).unwrap().scores(&[3.0, 0.0]).unwrap(), [0.0]);
        assert_eq!(
            nearest(2).unwrap().scores(&[3.0, 0.0]).unwrap(),
            [2f64.sqrt()]
        );
        assert!(nearest(0).unwrap_err().is_config());
        assert!(nearest(3).unwrap_err().is_data());
        let error = nearest(1)
            .unwrap()
            .scores(&[1.0, 1.0, 0.0, 0.0])
            .unwrap_err();
        assert_eq!(error.row(), Some(1));
        assert!(NearestFeatures::fit(&[1.0], 0, 1).unwrap_err().is_data());
    }
}
