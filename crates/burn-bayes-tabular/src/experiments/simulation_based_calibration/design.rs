//! The rows whose targets are simulated.

use burn_bayes::Noise;
use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

use crate::engine::in_effect;
use crate::error::Result;
use crate::rows::{PreparedRows, Target, TrainingSet};
use crate::settings::{FitSettings, expect_at_most, refused};

/// The random stream of generated features.
const FEATURES: u64 = 0x6665_6174;
/// The largest number of generated features of all rows together.
const MOST_VALUES: usize = 100_000_000;
const MOST_CLASSES: usize = 1000;

/// Rows of features, with the type of the target and the names of the columns. All simulations have the same
/// features, and targets of their own.
#[derive(Clone, Debug)]
pub struct Design {
    pub(super) rows: TrainingSet,
    pub(super) columns: Vec<String>,
}

/// Independent standard normal features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormalDesign {
    /// Number of rows.
    pub rows: usize,
    /// Number of features.
    pub features: usize,
    /// Number of classes; `None` for a regression.
    pub classes: Option<usize>,
}

impl Design {
    /// The features and the type of the target of a training set; its targets do not matter.
    ///
    /// `columns` are the names of its features.
    pub fn new(rows: TrainingSet, columns: Vec<String>) -> Self {
        Self { rows, columns }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.rows.width()
    }

    /// The settings in effect for these rows; see [`in_effect`].
    #[must_use]
    pub fn in_effect(&self, settings: FitSettings) -> FitSettings {
        in_effect(&self.rows, settings)
    }
}

impl From<PreparedRows> for Design {
    /// The training rows.
    fn from(prepared: PreparedRows) -> Self {
        let mut columns = prepared.preprocessor.feature_names();
        // An exposure has no weight.
        columns.truncate(columns.len() - usize::from(prepared.preprocessor.has_exposure()));
        Self::new(prepared.train, columns)
    }
}

impl NormalDesign {
    /// Generates the rows.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn design(&self, seed: u64) -> Result<Design> {
        expect_at_most("rows", self.rows, MOST_VALUES)?;
        expect_at_most("features", self.features, MOST_VALUES / self.rows)?;
        let values = Noise::new(seed)
            .fold(FEATURES)
            .latent(self.rows * self.features);
        let values = values.into_iter().map(f64::from).collect();
        let features = Features::new(self.rows, self.features, values)?;
        let (target, targets) = match self.classes {
            None => (
                Target::Real(ColumnScale::KEPT),
                Targets::Real(vec![0.0; self.rows]),
            ),
            Some(classes) if (2..=MOST_CLASSES).contains(&classes) => {
                let names = (0..classes).map(|class| class.to_string());
                let targets = Targets::Classes(vec![0; self.rows]);
                (Target::Classes(names.collect()), targets)
            }
            Some(classes) => {
                let problem = format!("is {classes}; it must be from 2 to {MOST_CLASSES}");
                return Err(refused("classes", problem));
            }
        };
        let rows = TrainingSet::new(&Dataset::new(features, targets)?, target)?;
        let columns = (1..=self.features).map(|column| format!("x{column}"));
        Ok(Design::new(rows, columns.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(rows: usize, features: usize, classes: Option<usize>) -> Result<Design> {
        NormalDesign {
            rows,
            features,
            classes,
        }
        .design(1)
    }

    #[test]
    fn sizes_are_checked() {
        let found = design(7, 3, Some(2)).unwrap();
        assert_eq!((found.rows(), found.features()), (7, 3));
        assert_eq!(found.columns, ["x1", "x2", "x3"]);
        for (rows, features, classes, name) in [
            (0, 3, None, "`rows`"),
            (7, 0, None, "`features`"),
            (usize::MAX, 3, None, "`rows`"),
            (1_000_000, 1_000_000, None, "`features`"),
            (7, 3, Some(1), "`classes`"),
            (7, 3, Some(5000), "`classes`"),
        ] {
            let message = design(rows, features, classes).unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
