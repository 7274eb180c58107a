//! The [`ArrivalTest`] as a metric of Burn's Learner.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleDisplay};
use burn::tensor::TensorReadError;
use burn::train::TrainStep;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

use super::arrival::ArrivalTest;
use crate::error::{Error, Result};
use crate::likelihood::MixDraws;
use crate::methods::Algorithm;
use crate::posterior::FactorPosterior;
use crate::train::Bayesian;
use crate::verdict::Arrival;

/// The distance of the posterior from the best of its family after each epoch, in nats.
///
/// [`Bayesian::with_arrival_metric`] creates it.
#[derive(Clone)]
pub struct ArrivalMetric {
    name: MetricName,
    results: Results,
    state: NumericMetricState,
    /// Whether the result of this epoch has been taken.
    is_taken: bool,
}

/// The results of the tests in the order of the epochs. The metric may be updated in another thread, later than the
/// test, so each epoch takes its own result.
#[derive(Clone, Debug, Default)]
struct Results(Arc<Mutex<VecDeque<Option<Arrival>>>>);

impl Results {
    fn put(&self, arrival: Option<Arrival>) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.push_back(arrival);
    }

    fn take(&self) -> Option<Arrival> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.pop_front().flatten()
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone + Send + Sync, Output: MixDraws> + 'static,
    A: Algorithm<Posterior = FactorPosterior>,
{
    /// Measures after every epoch how far the posterior is from the best of its family. Register the metric for
    /// validation; the first validation step of an epoch runs the test.
    ///
    /// The test costs two passes with gradients over `batches` for each of its pairs of draws. The batches are those of
    /// the training data, or of a part of it, on the device of the training. If a gradient is not finite, or the draws
    /// do not determine the distance, the epoch has no value and the log says why.
    ///
    /// ```no_run
    /// # use burn::{module::{Module, ModuleDisplay}, train::{InferenceStep, TrainStep}};
    /// use burn_bayes::diagnostics::{ArrivalMetric, ArrivalTest};
    /// use burn_bayes::{Bayesian, VifaConfig};
    /// # use burn_bayes::{likelihood::MixDraws, methods::Vifa};
    ///
    /// fn wrapped<M>(
    ///     model: M,
    ///     train_len: usize,
    ///     batches: Vec<<M as TrainStep>::Input>,
    /// ) -> (Bayesian<M, Vifa>, ArrivalMetric)
    /// # where
    /// #     M: Module + ModuleDisplay + 'static,
    /// #     M: TrainStep<Input: Clone + Send + Sync, Output: MixDraws>,
    /// #     M: InferenceStep<Input: Clone, Output: MixDraws>,
    /// {
    ///     // Then `.metric_valid_numeric(arrival)` of Burn's `SupervisedTraining`.
    ///     let test = ArrivalTest::new(train_len);
    ///     BayesianConfig::new(train_len, VifaConfig::new()).init(model).with_arrival_metric(test, batches)
    /// }
    /// ```
    pub fn with_arrival_metric(
        self,
        test: ArrivalTest,
        batches: Vec<<M as TrainStep>::Input>,
    ) -> (Self, ArrivalMetric) {
        let metric = ArrivalMetric {
            name: Arc::new("Arrival".into()),
            results: Results::default(),
            state: NumericMetricState::new(),
            is_taken: false,
        };
        let results = metric.results.clone();
        let bayesian = self.with_validation_hook(move |model: &M, posterior| {
            let model = model.clone().train();
            let arrival = test.measure(&model, posterior, batches.iter().cloned());
            let arrival = arrival.and_then(determined);
            if let Err(error) = &arrival {
                log::warn!("the arrival test failed: {error}");
            }
            results.put(arrival.ok());
        });
        (bayesian, metric)
    }
}

/// The result, unless its draws do not determine it.
fn determined(arrival: Arrival) -> Result<Arrival> {
    match arrival.largest_excess().is_finite() {
        true => Ok(arrival),
        false => Err(Error::numerical(format!(
            "the draws do not determine the distance: the deviations of {} weights are smaller than the rounding of \
             these weights",
            arrival.undetermined
        ))),
    }
}

impl ArrivalMetric {
    fn format(&self) -> FormatOptions {
        FormatOptions::new(self.name()).unit(UNIT).precision(1)
    }
}

const UNIT: &str = "nats";

impl Metric for ArrivalMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn description(&self) -> Option<String> {
        Some("Distance of the posterior from the best of its family.".into())
    }

    fn attributes(&self) -> MetricAttributes {
        let unit = Some(UNIT.into());
        NumericAttributes {
            unit,
            higher_is_better: false,
        }
        .into()
    }

    fn update(
        &mut self,
        (): &(),
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        if !self.is_taken {
            self.is_taken = true;
            if let Some(arrival) = self.results.take() {
                self.state.update(arrival.excess(), 1);
            }
        }
        self.compute()
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(match self.state.running_value() {
            NumericEntry::Aggregated { count: 0, .. } => SerializedEntry::not_available(Some(UNIT)),
            _ => self.state.compute_final(self.format()),
        })
    }

    fn clear(&mut self) {
        self.state.reset();
        self.is_taken = false;
    }
}

impl Numeric for ArrivalMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

impl fmt::Debug for ArrivalMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrivalMetric")
            .field("value", &self.state.final_value())
            .finish_non_exhaustive()
    }
}
