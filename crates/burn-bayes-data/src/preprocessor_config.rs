//! The configuration of a preprocessor.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::one_or_several::OneOrSeveral;
use crate::scale::Scaling;

/// Type of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A number, or several.
    Regression,
    /// A whole number of at least 0, which is not scaled.
    Counts,
    /// A class.
    Classification,
    /// Several labels, each one of two classes.
    Multilabel,
}

/// Treatment of missing values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingPolicy {
    /// Return an error. [`Table::complete_rows`](crate::Table::complete_rows) lists the rows without missing values.
    #[default]
    Refuse,
    /// Replace by the mean of a column of numbers or dates, or the most frequent category. If an eighth of the training rows lack
    /// a value of the column, and at least five, a further feature says whether it is missing; categories are then all zero. A column
    /// without any value in the training rows has no feature.
    Impute,
}

/// Treatment of categories that do not occur in the training rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenPolicy {
    /// Return an error.
    #[default]
    Refuse,
    /// Encode as zeros, or as the rare categories, if the column has some.
    Zeros,
}

/// The configuration of a [`Preprocessor`](crate::Preprocessor).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreprocessorConfig {
    /// The column to predict, or several.
    pub target: OneOrSeveral<String>,
    /// Type of the task.
    pub task: Task,
    /// The column of exposures that counts are proportional to, such as the time or the population that they were counted in.
    #[serde(default)]
    pub exposure: Option<String>,
    /// Columns that are neither target nor feature.
    #[serde(default)]
    pub ignore: BTreeSet<String>,
    /// Treatment of missing values.
    #[serde(default)]
    pub missing: MissingPolicy,
    /// Treatment of categories that do not occur in the training rows.
    #[serde(default)]
    pub unseen: UnseenPolicy,
    /// The scaling of numeric features.
    #[serde(default)]
    pub scaling: Scaling,
    /// Whether numeric features with long tails are scaled as logarithms, of both signs and linear near 0; for standardised features.
    #[serde(default)]
    pub features_are_logarithmic: bool,
    /// The scaling of numeric targets.
    #[serde(default)]
    pub target_scaling: Scaling,
    /// Whether the logarithms of the targets are scaled and predicted; for numbers above 0.
    #[serde(default)]
    pub target_is_logarithmic: bool,
    /// Two or more categories of a column with fewer training rows than this are encoded as one; `None` is 5, or in fewer than 100
    /// rows a twentieth of them, but at least 2. A column that has only such categories has no feature.
    #[serde(default = "any_number")]
    pub rare: Option<usize>,
    /// Maximum number of categories of a column that are not rare, or of classes of the target.
    #[serde(default = "max_categories")]
    pub max_categories: usize,
    /// The classes of each target in order; if empty, they are those of the training rows, in numerical or alphabetical
    /// order.
    #[serde(default)]
    pub class_order: Vec<String>,
}

fn any_number() -> Option<usize> {
    Some(1)
}

fn max_categories() -> usize {
    1000
}

impl PreprocessorConfig {
    /// All columns but the targets are features, missing values and new categories are refused, all categories have a feature of
    /// their own, and numbers are standardised.
    pub fn new(target: impl Into<OneOrSeveral<String>>, task: Task) -> Self {
        Self {
            target: target.into(),
            task,
            exposure: None,
            ignore: BTreeSet::new(),
            missing: MissingPolicy::Refuse,
            unseen: UnseenPolicy::Refuse,
            scaling: Scaling::Standardise,
            features_are_logarithmic: false,
            target_scaling: Scaling::Standardise,
            target_is_logarithmic: false,
            rare: any_number(),
            max_categories: max_categories(),
            class_order: Vec::new(),
        }
    }

    /// Sets the column of exposures.
    #[must_use]
    pub fn with_exposure(self, column: Option<String>) -> Self {
        Self {
            exposure: column,
            ..self
        }
    }

    /// Ignores columns.
    #[must_use]
    pub fn with_ignored<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            ignore: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Sets the treatment of missing values.
    #[must_use]
    pub fn with_missing(self, missing: MissingPolicy) -> Self {
        Self { missing, ..self }
    }

    /// Sets the treatment of new categories.
    #[must_use]
    pub fn with_unseen(self, unseen: UnseenPolicy) -> Self {
        Self { unseen, ..self }
    }

    /// Encodes categories with fewer training rows than this as one; see [`rare`](Self::rare) for `None`.
    #[must_use]
    pub fn with_rare(self, rare: impl Into<Option<usize>>) -> Self {
        let rare = rare.into();
        Self { rare, ..self }
    }

    /// The number of rows from which on a category is not rare, of so many training rows.
    pub fn fewest_rows(rare: Option<usize>, rows: usize) -> usize {
        rare.unwrap_or((rows / 20).clamp(2, 5))
    }

    /// Sets the maximum number of categories and classes.
    #[must_use]
    pub fn with_max_categories(self, max_categories: usize) -> Self {
        Self {
            max_categories,
            ..self
        }
    }

    /// Sets the classes of each target and their order.
    #[must_use]
    pub fn with_class_order<S: Into<String>>(self, classes: impl IntoIterator<Item = S>) -> Self {
        Self {
            class_order: classes.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Sets the scaling of features.
    #[must_use]
    pub fn with_scaling(self, scaling: Scaling) -> Self {
        Self { scaling, ..self }
    }

    /// Scales numeric features with long tails as logarithms.
    #[must_use]
    pub fn with_logarithmic_features(self) -> Self {
        Self {
            features_are_logarithmic: true,
            ..self
        }
    }

    /// Sets the scaling of numeric targets.
    #[must_use]
    pub fn with_target_scaling(self, target_scaling: Scaling) -> Self {
        Self {
            target_scaling,
            ..self
        }
    }

    /// Scales the logarithms of numeric targets, which are above 0.
    #[must_use]
    pub fn with_logarithmic_targets(self) -> Self {
        Self {
            target_is_logarithmic: true,
            ..self
        }
    }
}
