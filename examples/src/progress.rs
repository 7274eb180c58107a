//! Prints a line of validation metrics every few epochs; Burn's own plain renderer prints a line
//! for every mini-batch.
#![allow(clippy::print_stdout, reason = "these programs talk to a person")]

use std::collections::BTreeMap;

use burn::train::Interrupter;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

/// Prints the mean over validation batches of every numeric metric.
#[derive(Debug)]
pub struct EpochLines {
    every: usize,
    epochs: usize,
    names: Vec<(MetricId, String)>,
    sums: BTreeMap<usize, (f64, usize)>,
}

impl EpochLines {
    /// A renderer that prints a line after every `every` epochs and after the last one, or Burn's
    /// full-screen display if the feature `tui` is enabled and the output is a terminal.
    pub fn renderer(every: usize, interrupter: Interrupter) -> Box<dyn MetricsRenderer> {
        #[cfg(feature = "tui")]
        if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            return burn::train::renderer::default_renderer(interrupter, None);
        }
        drop(interrupter);
        Box::new(Self {
            every: every.max(1),
            epochs: 0,
            names: Vec::new(),
            sums: BTreeMap::new(),
        })
    }
}

impl MetricsRendererTraining for EpochLines {
    fn update_train(&mut self, _state: MetricState) {}

    fn update_valid(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, Some(value)) = state
            && let Some(place) = self.names.iter().position(|name| name.0 == entry.metric_id)
        {
            let (sum, count) = self.sums.entry(place).or_default();
            *sum += value.current();
            *count += 1;
        }
    }
}

impl TrainingProgressLogger for EpochLines {
    fn start(&mut self, epochs: usize, _first: usize, _items: Option<usize>, label: Option<&str>) {
        self.epochs = epochs;
        println!("{}: {epochs} epochs", label.unwrap_or("training"));
    }

    fn update_epoch(&mut self, epoch: usize) {
        let sums = std::mem::take(&mut self.sums);
        if !epoch.is_multiple_of(self.every) && epoch != self.epochs {
            return;
        }
        let values: Vec<String> = sums
            .into_iter()
            .map(|(place, (sum, count))| {
                format!("{} {:.3}", self.names[place].1, sum / count as f64)
            })
            .collect();
        println!("  epoch {epoch:>3}, validation: {}", values.join(", "));
    }

    fn start_split(&mut self, _split: &str, _items: usize) {}
    fn update_split(&mut self, _items: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _event: String) {}
}

impl MetricsRendererEvaluation for EpochLines {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl EvaluationProgressLogger for EpochLines {
    fn start_global_progress(&mut self, _tests: usize) {}
    fn start_test(&mut self, _name: &str, _items: usize) {}
    fn update_test_progress(&mut self, _items: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRenderer for EpochLines {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names
            .push((definition.metric_id, definition.name.to_string()));
    }
}
