//! The two metrics of scores: the mean over the rows of an epoch, for mini-batches of any size, and a score of all its
//! rows at once.

use std::fmt;

use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry, format_float,
};

use super::score::{Caption, RowScore, SetScore};

/// The mean of a [`RowScore`]: per batch, and over all rows of an epoch.
#[derive(Clone)]
pub struct RowMeanMetric<S> {
    score: S,
    caption: Caption,
    state: NumericMetricState,
}

/// The value of a [`SetScore`] over an epoch; like Burn's AUROC it is only available at the end.
#[derive(Clone)]
pub struct WholeSetMetric<S> {
    score: S,
    caption: Caption,
    epoch: Option<S>,
    value: f64,
}

/// What both metrics have.
macro_rules! metric_of {
    ($score:ident, $metric:ident, $($field:ident = $empty:expr),+) => {
        impl<S: $score> $metric<S> {
            /// The metric of a score.
            pub fn of(score: S) -> Self {
                Self { caption: score.caption(), score, $($field: $empty),+ }
            }

            /// The score, without mini-batches.
            pub fn score(&self) -> &S {
                &self.score
            }
        }

        impl<S: $score + Default> $metric<S> {
            /// The metric.
            pub fn new() -> Self {
                Self::of(S::default())
            }
        }

        impl<S: $score + Default> Default for $metric<S> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<S: $score + fmt::Debug> fmt::Debug for $metric<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($metric))
                    .field("score", &self.score)
                    .field("value", &self.final_value())
                    .finish()
            }
        }
    };
}

metric_of!(RowScore, RowMeanMetric, state = NumericMetricState::new());
metric_of!(SetScore, WholeSetMetric, epoch = None, value = f64::NAN);

/// The methods of [`Metric`] that return a part of the caption.
macro_rules! captioned {
    () => {
        fn name(&self) -> MetricName {
            self.caption.name.clone()
        }

        fn description(&self) -> Option<String> {
            Some(self.caption.description.clone())
        }

        fn attributes(&self) -> MetricAttributes {
            let Caption {
                unit,
                higher_is_better,
                ..
            } = self.caption;
            let unit = unit.map(str::to_string);
            MetricAttributes::Numeric(NumericAttributes {
                unit,
                higher_is_better,
            })
        }
    };
}

impl<S: RowScore> RowMeanMetric<S> {
    fn format(&self) -> FormatOptions {
        let options = FormatOptions::new(self.name()).precision(3);
        match self.caption.unit {
            Some(unit) => options.unit(unit),
            None => options,
        }
    }
}

impl<S: RowScore> Metric for RowMeanMetric<S> {
    type Input = S::Input;

    captioned!();

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

impl<S: SetScore> Metric for WholeSetMetric<S> {
    type Input = S::Input;

    captioned!();

    fn update(
        &mut self,
        item: &S::Input,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let score = self.epoch.get_or_insert_with(|| self.score.clone());
        score.add(item)?;
        Ok(SerializedEntry::not_available(self.caption.unit))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        let Some(score) = &self.epoch else {
            return Ok(SerializedEntry::not_available(self.caption.unit));
        };
        self.value = score.value();
        let unit = self.caption.unit.map(|unit| format!(" {unit}"));
        let unit = unit.unwrap_or_default();
        let (value, none) = (format_float(self.value, 3), SerializedEntry::NOT_AVAILABLE);
        let formatted = format!("epoch {value}{unit} - batch {none}{unit}");
        let serialized = self.final_value().serialize();
        Ok(SerializedEntry::new(formatted, serialized))
    }

    fn clear(&mut self) {
        self.epoch = None;
        self.value = f64::NAN;
    }
}

impl<S: SetScore> Numeric for WholeSetMetric<S> {
    fn value(&self) -> Option<NumericEntry> {
        None
    }

    fn running_value(&self) -> Option<NumericEntry> {
        None
    }

    /// The score of the epoch; NaN for an empty epoch, and before [`compute`](Metric::compute).
    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.value)
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
                unit: Some("apples"),
                higher_is_better: true,
                ..Caption::new("Itself", "The number given.")
            }
        }

        fn scores(&self, batch: &Vec<f64>) -> Result<Vec<f64>, TensorReadError> {
            Ok(batch.clone())
        }
    }

    #[derive(Clone, Debug, Default)]
    struct Largest(f64);

    impl SetScore for Largest {
        type Input = Vec<f64>;

        fn caption(&self) -> Caption {
            Caption::new("Largest", "The largest number given.")
        }

        fn add(&mut self, batch: &Vec<f64>) -> Result<(), TensorReadError> {
            self.0 = batch.iter().copied().fold(self.0, f64::max);
            Ok(())
        }

        fn value(&self) -> f64 {
            self.0
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
    fn the_value_of_a_set_comes_with_the_end_of_the_epoch() {
        let mut metric = WholeSetMetric::<Largest>::new();
        for batch in [1.0, 3.0, 2.0] {
            let entry = metric.update(&vec![batch], &metadata()).unwrap();
            assert!(entry.is_not_available());
            assert!(metric.value().is_none() && metric.running_value().is_none());
        }
        let entry = metric.compute().unwrap();
        assert_eq!(entry.formatted, "epoch 3.000 - batch N/A");
        assert_eq!(entry.serialized, "3,final");
        assert_eq!(metric.final_value().current(), 3.0);
    }

    #[test]
    fn an_epoch_starts_anew_and_an_empty_one_has_no_value() {
        fn check(mut metric: impl Metric<Input = Vec<f64>> + Numeric) {
            metric.update(&vec![7.0], &metadata()).unwrap();
            metric.compute().unwrap();
            metric.clear();
            assert!(metric.compute().unwrap().is_not_available());
            assert!(metric.final_value().current().is_nan());
            metric.update(&vec![2.0], &metadata()).unwrap();
            metric.compute().unwrap();
            assert_eq!(metric.final_value().current(), 2.0);
        }
        check(RowMeanMetric::<Itself>::new());
        check(WholeSetMetric::<Largest>::new());
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
