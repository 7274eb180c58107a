//! The mean over the rows of an epoch, for mini-batches of any size.

use std::fmt;
use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericEntry, SerializedEntry,
};

use super::score::{Caption, RowScore};

/// The mean of a [`RowScore`]: per batch, and over all rows of an epoch.
#[derive(Clone)]
pub struct RowMeanMetric<S> {
    score: S,
    caption: Caption,
    name: MetricName,
    state: NumericMetricState,
}

impl<S: RowScore> RowMeanMetric<S> {
    /// The metric of a score.
    pub fn of(score: S) -> Self {
        let caption = score.caption();
        Self {
            score,
            name: Arc::new(caption.name.clone()),
            caption,
            state: NumericMetricState::new(),
        }
    }

    /// The score.
    pub fn score(&self) -> &S {
        &self.score
    }

    fn format(&self) -> FormatOptions {
        let options = FormatOptions::new(self.name()).precision(3);
        match self.caption.unit {
            Some(unit) => options.unit(unit),
            None => options,
        }
    }
}

impl<S: RowScore + Default> RowMeanMetric<S> {
    /// The metric.
    pub fn new() -> Self {
        Self::of(S::default())
    }
}

impl<S: RowScore + Default> Default for RowMeanMetric<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: RowScore> Metric for RowMeanMetric<S> {
    type Input = S::Input;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn description(&self) -> Option<String> {
        Some(self.caption.description.clone())
    }

    fn attributes(&self) -> MetricAttributes {
        self.caption.attributes().into()
    }

    fn update(
        &mut self,
        item: &S::Input,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let scores = self.score.scores(item)?;
        let rows = scores.len();
        let mean = scores.into_iter().sum::<f64>() / rows as f64;
        self.state.update(mean, rows);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(match self.state.running_value() {
            NumericEntry::Aggregated { count: 0, .. } => {
                SerializedEntry::not_available(self.caption.unit)
            }
            _ => self.state.compute_final(self.format()),
        })
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl<S: RowScore> Numeric for RowMeanMetric<S> {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    /// The mean over the epoch; NaN for an epoch without rows.
    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

impl<S: fmt::Debug> fmt::Debug for RowMeanMetric<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMeanMetric")
            .field("score", &self.score)
            .field("mean", &self.state.final_value())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::metadata;

    /// The rows are their own scores.
    #[derive(Clone, Debug, Default)]
    struct Itself;

    impl RowScore for Itself {
        type Input = Vec<f64>;

        fn caption(&self) -> Caption {
            Caption {
                name: "Itself".into(),
                description: "The number given.".into(),
                unit: Some("apples"),
                higher_is_better: true,
            }
        }

        fn scores(&self, batch: &Vec<f64>) -> Result<Vec<f64>, TensorReadError> {
            Ok(batch.clone())
        }
    }

    #[test]
    fn batches_count_by_their_rows() {
        let mut metric = RowMeanMetric::<Itself>::new();
        metric.update(&vec![1.0, 2.0, 3.0], &metadata()).unwrap();
        let entry = metric.update(&vec![10.0], &metadata()).unwrap();
        assert_eq!(entry.serialized, "10,1");
        assert_eq!(entry.formatted, "epoch 4.000 apples - batch 10.000 apples");
        assert_eq!(metric.value().unwrap().current(), 10.0);
        assert_eq!(metric.running_value().unwrap().current(), 4.0);
        assert_eq!(metric.compute().unwrap().serialized, "4,final");
        assert_eq!(metric.final_value().current(), 4.0);
    }

    #[test]
    fn an_epoch_starts_anew_and_an_empty_one_has_no_value() {
        let mut metric = RowMeanMetric::<Itself>::new();
        metric.update(&vec![7.0], &metadata()).unwrap();
        metric.clear();
        assert!(metric.compute().unwrap().is_not_available());
        assert!(metric.final_value().current().is_nan());
        metric.update(&vec![2.0], &metadata()).unwrap();
        assert_eq!(metric.final_value().current(), 2.0);
    }

    #[test]
    fn the_caption_reaches_burn() {
        let metric = RowMeanMetric::<Itself>::new();
        assert_eq!(metric.name().as_str(), "Itself");
        assert_eq!(metric.description().as_deref(), Some("The number given."));
        let MetricAttributes::Numeric(attributes) = metric.attributes() else {
            panic!("a mean is numeric");
        };
        assert_eq!(attributes.unit.as_deref(), Some("apples"));
        assert!(attributes.higher_is_better);
    }
}
