//! A score of all rows of an epoch at once, reported at its end.

use std::fmt;
use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericEntry, SerializedEntry,
    format_float,
};

use super::score::{Caption, SetScore};

/// The value of a [`SetScore`] over an epoch; like Burn's AUROC it is only available at the end.
#[derive(Clone)]
pub struct WholeSetMetric<S: SetScore> {
    score: S,
    caption: Caption,
    name: MetricName,
    gathered: Option<S::Gathered>,
    value: f64,
}

impl<S: SetScore> WholeSetMetric<S> {
    /// The metric of a score.
    pub fn of(score: S) -> Self {
        let caption = score.caption();
        Self {
            score,
            name: Arc::new(caption.name.clone()),
            caption,
            gathered: None,
            value: f64::NAN,
        }
    }

    /// The score.
    pub fn score(&self) -> &S {
        &self.score
    }
}

impl<S: SetScore + Default> WholeSetMetric<S> {
    /// The metric.
    pub fn new() -> Self {
        Self::of(S::default())
    }
}

impl<S: SetScore + Default> Default for WholeSetMetric<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: SetScore> Metric for WholeSetMetric<S> {
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
        let gathered = self.gathered.get_or_insert_default();
        self.score.gather(gathered, item)?;
        Ok(SerializedEntry::not_available(self.caption.unit))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        let Some(gathered) = &self.gathered else {
            return Ok(SerializedEntry::not_available(self.caption.unit));
        };
        self.value = self.score.score(gathered);
        let unit = self.caption.unit.map(|unit| format!(" {unit}"));
        let unit = unit.unwrap_or_default();
        let formatted = format!(
            "epoch {}{unit} - batch {}{unit}",
            format_float(self.value, 3),
            SerializedEntry::NOT_AVAILABLE
        );
        let serialized = self.final_value().serialize();
        Ok(SerializedEntry::new(formatted, serialized))
    }

    fn clear(&mut self) {
        self.gathered = None;
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

impl<S: SetScore + fmt::Debug> fmt::Debug for WholeSetMetric<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeSetMetric")
            .field("score", &self.score)
            .field("value", &self.value)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::metadata;

    #[derive(Clone, Debug, Default)]
    struct Largest;

    impl SetScore for Largest {
        type Input = f64;
        type Gathered = f64;

        fn caption(&self) -> Caption {
            Caption {
                name: "Largest".into(),
                description: "The largest number given.".into(),
                unit: None,
                higher_is_better: false,
            }
        }

        fn gather(&self, largest: &mut f64, batch: &f64) -> Result<(), TensorReadError> {
            *largest = largest.max(*batch);
            Ok(())
        }

        fn score(&self, largest: &f64) -> f64 {
            *largest
        }
    }

    #[test]
    fn the_value_comes_with_the_end_of_the_epoch() {
        let mut metric = WholeSetMetric::<Largest>::new();
        for batch in [1.0, 3.0, 2.0] {
            let entry = metric.update(&batch, &metadata()).unwrap();
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
        let mut metric = WholeSetMetric::<Largest>::new();
        metric.update(&5.0, &metadata()).unwrap();
        metric.compute().unwrap();
        metric.clear();
        assert!(metric.compute().unwrap().is_not_available());
        assert!(metric.final_value().current().is_nan());
        metric.update(&2.0, &metadata()).unwrap();
        metric.compute().unwrap();
        assert_eq!(metric.final_value().current(), 2.0);
    }
}
