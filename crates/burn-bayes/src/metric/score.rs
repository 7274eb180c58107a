//! The traits that turn a score into a metric.

use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::metric::MetricName;

/// How a score is shown: `Caption { unit: Some("nats"), ..Caption::new(name, description) }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// The name, including settings; unique among the metrics of a training.
    pub name: MetricName,
    /// A description in one sentence.
    pub description: String,
    /// Its unit, if it has one.
    pub unit: Option<&'static str>,
    /// Whether a larger value is better.
    pub higher_is_better: bool,
}

impl Caption {
    /// A score without a unit, whose smaller values are better.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: Arc::new(name.into()),
            description: description.into(),
            unit: None,
            higher_is_better: false,
        }
    }
}

/// A score of single rows; [`RowMeanMetric`](super::RowMeanMetric) averages it over an epoch.
///
/// Law: the score of a row does not depend on the other rows of its batch.
///
/// ```
/// use burn::tensor::TensorReadError;
/// use burn_bayes_eval::variation_ratio;
/// use burn_bayes::likelihood::ClassificationDraws;
/// use burn_bayes::metric::{Caption, RowMeanMetric, RowScore};
///
/// #[derive(Clone, Debug)]
/// struct VariationRatio;
///
/// impl RowScore for VariationRatio {
///     type Input = ClassificationDraws;
///
///     fn caption(&self) -> Caption {
///         Caption::new("Variation Ratio", "Share of draws outvoted by the others.")
///     }
///
///     fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
///         Ok(variation_ratio(batch.read()?.draws()))
///     }
/// }
///
/// let metric = RowMeanMetric::of(VariationRatio); // a Burn `Metric`
/// ```
pub trait RowScore: Clone + Send + Sync {
    /// What the model's output is adapted to.
    type Input;

    /// How the score is shown.
    fn caption(&self) -> Caption;

    /// The score of every row of a batch.
    fn scores(&self, batch: &Self::Input) -> Result<Vec<f64>, TensorReadError>;
}

/// A score of a whole set that is not a mean over its rows;
/// [`WholeSetMetric`](super::WholeSetMetric) reports it at the end of an epoch.
///
/// It accumulates mini-batches; the metric begins each epoch with a clone of the score that it was
/// given.
///
/// Law: the score does not depend on the division into mini-batches.
pub trait SetScore: Clone + Send + Sync {
    /// What the model's output is adapted to.
    type Input;

    /// How the score is shown.
    fn caption(&self) -> Caption;

    /// Adds a mini-batch.
    fn add(&mut self, batch: &Self::Input) -> Result<(), TensorReadError>;

    /// The score of the mini-batches, at least one.
    fn value(&self) -> f64;
}

/// Metrics that are the mean of a score of class probabilities without settings: name, description and unit, and the
/// scores of the rows of a batch.
macro_rules! class_row_metrics {
    ($($(#[$docs:meta])* $metric:ident of $score:ident: $name:literal, $description:literal,
        $unit:expr, |$rows:ident| $scores:expr;)+) => {$(
        $(#[$docs])*
        pub type $metric = $crate::metric::RowMeanMetric<$score>;

        #[doc = concat!("The score that [`", stringify!($metric), "`] averages.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $score;

        impl $crate::metric::RowScore for $score {
            type Input = $crate::likelihood::ClassificationDraws;

            fn caption(&self) -> $crate::metric::Caption {
                $crate::metric::Caption { unit: $unit, ..$crate::metric::Caption::new($name, $description) }
            }

            fn scores(&self, batch: &Self::Input) -> Result<Vec<f64>, burn::tensor::TensorReadError> {
                let $rows = batch.read()?;
                Ok($scores)
            }
        }
    )+};
}
pub(super) use class_row_metrics;
