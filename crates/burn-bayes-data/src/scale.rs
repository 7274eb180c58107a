//! Scaling of columns, fitted on training rows.

use serde::{Deserialize, Serialize};

use crate::csv_file::column_name;
use crate::dataset::Features;
use crate::error::{DataError, Place, check_rows};

/// What layers of a network make of a number of this size is far from the largest in single precision, 3e38.
const LARGEST: f64 = 1e30;

/// The scaling of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Mean 0 and (population) standard deviation 1.
    #[default]
    Standardise,
    /// From 0 to 1.
    UnitRange,
    /// No scaling.
    Keep,
}

/// (value − centre) / spread, or the same of the value's logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedScale")]
pub struct ColumnScale {
    /// The mean, or the minimum.
    pub centre: f64,
    /// The standard deviation, or the range; 1 for a column that is constant up to rounding.
    pub spread: f64,
    /// Whether centre and spread are those of the values' logarithms.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_logarithmic: bool,
}

/// A scale in a file.
#[derive(Deserialize)]
struct SavedScale {
    centre: f64,
    spread: f64,
    #[serde(default)]
    is_logarithmic: bool,
}

impl TryFrom<SavedScale> for ColumnScale {
    type Error = String;

    fn try_from(saved: SavedScale) -> Result<Self, String> {
        let SavedScale {
            centre,
            spread,
            is_logarithmic,
        } = saved;
        let scale = Self {
            centre,
            spread,
            is_logarithmic,
        };
        match scale.is_sound() {
            true => Ok(scale),
            false => Err(format!("the centre {centre} and the spread {spread}")),
        }
    }
}

impl ColumnScale {
    /// That of a column that is not scaled.
    pub const KEPT: Self = Self {
        centre: 0.0,
        spread: 1.0,
        is_logarithmic: false,
    };

    /// Fits the scale of values.
    ///
    /// # Errors
    /// If there are no values, or they or their spread are not finite.
    pub fn fit(values: impl IntoIterator<Item = f64>, scaling: Scaling) -> Result<Self, DataError> {
        Self::fit_at(&Place::default(), values.into_iter().enumerate(), scaling)
    }

    /// Fits the scale of values in rows of a `column`.
    fn fit_at(
        column: &Place,
        values: impl Iterator<Item = (usize, f64)>,
        scaling: Scaling,
    ) -> Result<Self, DataError> {
        let mut spread = Spread::default();
        for (row, value) in values {
            if !value.is_finite() {
                let place = column.clone().row(row);
                let cure = "leave the row out, or impute the value";
                return Err(DataError::data(place, value, "a finite number", cure));
            }
            spread.push(value);
        }
        spread.scale(scaling, column.clone())
    }

    /// The scaled value.
    pub fn apply(&self, value: f64) -> f64 {
        let value = match self.is_logarithmic {
            true => value.ln(),
            false => value,
        };
        (value - self.centre) / self.spread
    }

    /// The scaled value, which must be of a size that networks can compute with in single precision; `place` is for messages.
    pub(crate) fn apply_at(&self, value: f64, place: impl Fn() -> Place) -> Result<f64, DataError> {
        let scaled = self.apply(value);
        match scaled.abs() <= LARGEST {
            true => Ok(scaled),
            false => Err(DataError::data(
                place(),
                value,
                "a number of similar size as in the training rows",
                "correct the value",
            )),
        }
    }

    /// The inverse of [`apply`](Self::apply); of a logarithm to twelve digits, because its rounding is in the others.
    pub fn undo(&self, scaled: f64) -> f64 {
        let value = self.unscaled(scaled);
        match self.is_logarithmic {
            true => rounded(value.exp()),
            false => value,
        }
    }

    /// The value, or its logarithm if the scale is logarithmic.
    pub fn unscaled(&self, scaled: f64) -> f64 {
        scaled * self.spread + self.centre
    }

    /// Whether the scale is invertible.
    fn is_sound(&self) -> bool {
        self.centre.is_finite() && self.spread.is_finite() && self.spread > 0.0
    }
}

/// The number with twelve digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// The scales of all columns of a matrix.
///
/// ```
/// use burn_bayes_data::{Features, Scaler, Scaling};
///
/// let features = Features::new(3, 2, vec![1.0, 5.0, 3.0, 5.0, 9.0, 5.0])?;
/// let scaler = Scaler::fit(&features, &[0, 1], Scaling::Standardise)?;
/// let scaled = scaler.apply(features)?;
/// assert_eq!(scaled.row(0), [-1.0, 0.0]); // a constant column becomes 0
/// assert_eq!(scaled.row(2), [7.0, 0.0]); // a row that was not fitted
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    columns: Vec<ColumnScale>,
}

impl Scaler {
    /// Fits the scale of each column on the given rows.
    ///
    /// # Errors
    /// If there are no rows, a row does not exist, or a value is not finite.
    pub fn fit(features: &Features, rows: &[usize], scaling: Scaling) -> Result<Self, DataError> {
        check_rows(rows, features.rows())?;
        let column = |column: usize| {
            let values = rows.iter().map(|&row| (row, features.row(row)[column]));
            let place = Place::default().column(&column_name(column));
            ColumnScale::fit_at(&place, values, scaling)
        };
        Ok(Self {
            columns: (0..features.columns())
                .map(column)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The scales, one for each column.
    pub fn columns(&self) -> &[ColumnScale] {
        &self.columns
    }

    /// Scales a matrix.
    ///
    /// # Errors
    /// If the number of columns differs, or a scaled value is not finite.
    pub fn apply(&self, mut features: Features) -> Result<Features, DataError> {
        if features.columns() != self.columns.len() {
            return Err(DataError::config(
                "features",
                format_args!("{} columns", features.columns()),
                format_args!("{}, as in training", self.columns.len()),
            ));
        }
        features.map_rows(|row, values| {
            for (column, (value, scale)) in values.iter_mut().zip(&self.columns).enumerate() {
                let place = || Place::default().row(row).column(&column_name(column));
                *value = scale.apply_at(*value, place)?;
            }
            Ok(())
        })?;
        Ok(features)
    }
}

/// Differences smaller than this, relative to the largest value, are rounding errors.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Running mean and variance by Welford's algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    count: u64,
    mean: f64,
    /// Σ (x − mean)².
    squares: f64,
    least: f64,
    most: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        }
    }
}

impl Spread {
    pub(crate) fn push(&mut self, value: f64) {
        self.count += 1;
        let from_old = value - self.mean;
        self.mean += from_old / self.count as f64;
        self.squares += from_old * (value - self.mean);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether all values are equal up to rounding.
    pub(crate) fn is_constant(&self) -> bool {
        let largest = self.least.abs().max(self.most.abs());
        self.most - self.least <= ROUNDING * largest
    }

    /// The least and the largest value.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.least, self.most)
    }

    /// The mean, which rounding errors must not move outside the range.
    pub(crate) fn mean(&self) -> f64 {
        self.mean.clamp(self.least, self.most)
    }

    /// The scale of the values; `place` is for messages.
    pub(crate) fn scale(&self, scaling: Scaling, place: Place) -> Result<ColumnScale, DataError> {
        if self.count == 0 {
            let cure = "choose other rows, or leave the column out";
            return Err(DataError::data(place, "no value", "at least one", cure));
        }
        let spread = |spread: f64| if self.is_constant() { 1.0 } else { spread };
        let scale = match scaling {
            Scaling::Standardise => ColumnScale {
                centre: self.mean(),
                spread: spread((self.squares / self.count as f64).sqrt()),
                is_logarithmic: false,
            },
            Scaling::UnitRange => ColumnScale {
                centre: self.least,
                spread: spread(self.most - self.least),
                is_logarithmic: false,
            },
            Scaling::Keep => ColumnScale::KEPT,
        };
        if scale.is_sound() {
            Ok(scale)
        } else {
            Err(DataError::data(
                place,
                format_args!("values from {:e} to {:e}", self.least, self.most),
                "values whose spread does not overflow",
                "use another unit",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &[f64], scaling: Scaling) -> ColumnScale {
        ColumnScale::fit(values.iter().copied(), scaling).unwrap()
    }

    #[test]
    fn a_constant_column_stays_finite() {
        for value in [0.1, 1e300, -7.0, 0.0] {
            for scaling in [Scaling::Standardise, Scaling::UnitRange] {
                let scale = fit(&[value; 10], scaling);
                assert_eq!((scale.apply(value), scale.spread), (0.0, 1.0));
            }
        }
    }

    #[test]
    fn a_column_that_is_constant_but_for_rounding_is_constant() {
        for value in [0.3, -7e200, 1e-300] {
            let other = value * (1.0 + 2.0 * f64::EPSILON);
            assert_ne!(value, other);
            for scaling in [Scaling::Standardise, Scaling::UnitRange] {
                assert_eq!(fit(&[value, other, value], scaling).spread, 1.0);
            }
        }
        let apart = 1.0 + 1e3 * f64::EPSILON;
        assert!(fit(&[1.0, apart], Scaling::UnitRange).spread < 1e-12);
    }

    #[test]
    fn a_bad_value_is_named_by_its_row_and_column() {
        let features = Features::new(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN]).unwrap();
        let error = Scaler::fit(&features, &[0, 2], Scaling::Standardise).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(2), Some("column_1")));
        let wide = Features::new(2, 1, vec![1e300, -1e300]).unwrap();
        let error = Scaler::fit(&wide, &[0, 1], Scaling::Standardise).unwrap_err();
        assert_eq!((error.row(), error.column()), (None, Some("column_0")));
        let scaler = Scaler::fit(&features, &[0, 1], Scaling::Standardise).unwrap();
        let error = scaler.apply(features).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(2), Some("column_1")));
        let large = Features::new(1, 2, vec![1.0, 1e39]).unwrap();
        let error = scaler.apply(large).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(0), Some("column_1")));
    }

    #[test]
    fn a_saved_scale_is_sound() {
        let read = |spread: &str| {
            let text = format!("centre = 2.0\nspread = {spread}\n");
            toml::from_str::<ColumnScale>(&text)
        };
        assert_eq!(read("0.1").unwrap().spread, 0.1);
        for spread in ["0.0", "-1.0", "nan", "inf"] {
            assert!(read(spread).unwrap_err().message().contains("the spread"));
        }
    }

    #[test]
    fn scaled_values_have_the_promised_spread() {
        let values = [3.0, 1e6, -2.5, 7.0, 7.0];
        let scale = fit(&values, Scaling::Standardise);
        let scaled = values.map(|value| scale.apply(value));
        let mean = scaled.iter().sum::<f64>() / 5.0;
        let variance = scaled
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / 5.0;
        let rounding = 1e2 * f64::EPSILON;
        assert!(mean.abs() < rounding && (variance - 1.0).abs() < rounding);
        let scale = fit(&values, Scaling::UnitRange);
        assert_eq!((scale.apply(-2.5), scale.apply(1e6)), (0.0, 1.0));
        assert_eq!(fit(&values, Scaling::Keep).apply(3.0), 3.0);
    }

    #[test]
    fn undo_is_the_inverse() {
        let scale = fit(&[10.0, 20.0, 40.0], Scaling::Standardise);
        assert!((scale.undo(scale.apply(33.0)) - 33.0).abs() < 1e2 * f64::EPSILON * 33.0);
    }

    #[test]
    fn what_has_no_spread_is_refused() {
        for values in [
            &[][..],
            &[1e300, -1e300],
            &[1.0, f64::NAN],
            &[f64::INFINITY],
        ] {
            let error = ColumnScale::fit(values.iter().copied(), Scaling::Standardise);
            assert!(error.unwrap_err().is_data(), "{values:?}");
        }
        // Subnormal differences: the squares underflow although the values differ.
        let tiny = ColumnScale::fit([0.0, 1e-200], Scaling::Standardise);
        assert!(tiny.unwrap_err().is_data());
    }
}
