//! The traits that turn a score into a metric.

use burn::tensor::TensorReadError;
use burn::train::metric::NumericAttributes;

/// How a score is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// The name, including settings; unique among the metrics of a training.
    pub name: String,
    /// A description in one sentence.
    pub description: String,
    /// Its unit, if it has one.
    pub unit: Option<&'static str>,
    /// Whether a larger value is better.
    pub higher_is_better: bool,
}

impl Caption {
    pub(crate) fn attributes(&self) -> NumericAttributes {
        NumericAttributes {
            unit: self.unit.map(str::to_string),
            higher_is_better: self.higher_is_better,
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
///         Caption {
///             name: "Variation Ratio".into(),
///             description: "Share of draws outvoted by the others.".into(),
///             unit: None,
///             higher_is_better: false,
///         }
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
/// Law: the score does not depend on the division into mini-batches.
pub trait SetScore: Clone + Send + Sync {
    /// What the model's output is adapted to.
    type Input;
    /// The state accumulated over mini-batches; the default is the empty state.
    type Gathered: Clone + Default + Send + Sync;

    /// How the score is shown.
    fn caption(&self) -> Caption;

    /// Adds a mini-batch to the state.
    fn gather(
        &self,
        gathered: &mut Self::Gathered,
        batch: &Self::Input,
    ) -> Result<(), TensorReadError>;

    /// The score of the accumulated state, with at least one mini-batch.
    fn score(&self, gathered: &Self::Gathered) -> f64;
}
