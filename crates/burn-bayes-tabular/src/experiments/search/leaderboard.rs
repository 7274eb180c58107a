//! The leaderboard of a search.

use std::path::Path;

use super::{TrialRow, Tuned};
use crate::error::Result;
use crate::report::{Contender, Leaderboard, SettingValues, number};
use crate::scores::Summary;
use crate::text::plain;

impl Tuned {
    /// Writes `leaderboard.html`, which names `command`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_leaderboard(&self, folder: &Path, command: &str) -> Result<()> {
        let [.., page] = Self::FILES;
        let target = plain(&self.config.data.target_text()?);
        let Some(best) = self.trials.first() else {
            return Ok(());
        };
        let drawn = best.settings.len();
        // Without the number of the trial and its NLL, which have columns of their own.
        let without = |cells: Vec<String>| -> Vec<String> {
            let cells = cells.into_iter().enumerate();
            cells
                .filter(|&(place, _)| place > 0 && place != drawn + 1)
                .map(|(_, cell)| cell)
                .collect()
        };
        let heads = self.heads().into_iter();
        let columns = without(heads.map(|head| head.replace('_', " ")).collect());
        let folds = best.fold_costs.len();
        let summary = |costs: Vec<f64>| Summary::of_overlapping(&costs, test_to_train(folds));
        let contender = |row: &TrialRow| {
            let costs: Option<Vec<f64>> = row.fold_costs.iter().copied().collect();
            Contender {
                name: format!("trial {}", row.trial),
                nll: costs.and_then(summary),
                difference: difference(row, best)
                    .and_then(summary)
                    .filter(|_| row.trial != best.trial),
                has_diverged: row.diverged,
                seconds: Summary::of(&row.seconds).map(|seconds| seconds.mean),
                cells: without(row.entries(|&value| number(value))),
            }
        };
        let text = "Means over cross-validation folds of the training rows. The difference is paired over folds, from the best trial. \
                    Standard errors are corrected for training rows that folds share (Nadeau and Bengio, 2003). \
                    The scores of the best trials are optimistic, because the same folds chose them: the more trials, the \
                    more. Score other rows by `evaluate`, or the held-out rows of a fit with the best settings.";
        Leaderboard {
            title: format!("Search of settings for {target}"),
            subtitle: format!(
                "{} trials of {} for “{target}”",
                self.trials.len(),
                self.config.fit.method
            ),
            text: text.replace('`', ""),
            kind: "trial",
            over: "folds",
            contenders: self.trials.iter().map(contender).collect(),
            columns,
            settings: self.numeric_settings(),
            command,
            config: &self.config.to_toml()?,
        }
        .write(&folder.join(page))
    }

    /// The settings whose values are numbers, with one for each trial.
    fn numeric_settings(&self) -> Vec<SettingValues> {
        let names = self.ranges.names();
        names
            .filter_map(|name| {
                let trials = self.trials.iter();
                let values = trials.map(|row| row.settings.get(name)?.as_f64());
                Some(SettingValues {
                    name: name.into(),
                    is_logarithmic: self.ranges.is_logarithmic(name),
                    values: values.collect::<Option<Vec<f64>>>()?,
                })
            })
            .collect()
    }
}

/// The number of test rows of a run divided by that of its training rows, for this number of folds.
fn test_to_train(folds: usize) -> f64 {
    match folds {
        0 | 1 => 0.0,
        _ => 1.0 / (folds as f64 - 1.0),
    }
}

/// The cost of a trial minus that of another, over the folds of both.
fn difference(row: &TrialRow, best: &TrialRow) -> Option<Vec<f64>> {
    let folds = row.fold_costs.iter().zip(&best.fold_costs);
    folds
        .map(|(cost, other)| Some((*cost)? - (*other)?))
        .collect()
}
