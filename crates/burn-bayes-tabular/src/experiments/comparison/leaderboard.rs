//! The leaderboard of a comparison.

use std::path::Path;

use super::{Comparison, Row, failures};
use crate::error::Result;
use crate::order::by_cost;
use crate::report::{Contender, Leaderboard, shown_p_value};
use crate::scores::{NLL, ScoreSpec, Summary};
use crate::settings::Config;
use crate::text::{optional, plain};

impl Comparison {
    /// Writes `leaderboard.html`, with the settings of the fits.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_leaderboard(&self, folder: &Path, config: &Config) -> Result<()> {
        let [.., page] = Self::FILES;
        let target = plain(&config.data.target_text()?);
        // Methods without a score last, and those with failed runs behind others, as for the choice of the best.
        let rank = |row: &Row| match row.scores.get(NLL) {
            Some(nll) => {
                let failures = failures(row.diverged, self.runs, nll.runs);
                ((false, !nll.is_best, failures), nll.mean)
            }
            None => ((true, true, row.diverged), f64::INFINITY),
        };
        let mut methods: Vec<&Row> = self.methods.iter().collect();
        methods.sort_by(|one, other| {
            let ((one, cost), (other, other_cost)) = (rank(one), rank(other));
            one.cmp(&other).then(by_cost(cost, other_cost))
        });
        let text = format!(
            "Means over {} runs{}, cross-validation folds of random re-splits. The difference is paired over runs, from the best \
             method. The p-value is that of a paired t-test of this difference, Bonferroni-corrected. P-values and standard \
             errors are corrected for the rows that runs share (Nadeau and Bengio, 2003).",
            self.runs,
            self.fewer_runs()
        );
        let columns = ["p-value".to_string()]
            .into_iter()
            .chain(
                self.other_columns()
                    .map(|column| column.title_of(self.positive.as_deref())),
            )
            .chain(["diverged runs".into()]);
        Leaderboard {
            title: format!("Comparison of methods for {target}"),
            subtitle: format!("{} models, {} runs of each", self.methods.len(), self.runs),
            text,
            kind: "method",
            over: "runs",
            contenders: methods.into_iter().map(|row| self.method(row)).collect(),
            columns: columns.collect(),
            settings: Vec::new(),
            command: &self.command,
            config: &config.to_toml()?,
        }
        .write(&folder.join(page))
    }

    fn other_columns(&self) -> impl Iterator<Item = ScoreSpec> {
        self.columns().filter(|column| column.key != NLL)
    }

    fn method(&self, row: &Row) -> Contender {
        let nll = row.scores.get(NLL);
        let summary = |mean: f64, standard_error: Option<f64>, runs: usize| Summary {
            mean,
            standard_error,
            runs,
        };
        let others = self
            .other_columns()
            .map(|column| optional(row.scores.get(column.key).map(|entry| entry.mean)));
        let cells = [shown_p_value(nll.and_then(|nll| nll.p_value))]
            .into_iter()
            .chain(others)
            .chain([row.diverged.to_string()]);
        Contender {
            name: match nll.filter(|nll| nll.runs < self.runs) {
                Some(nll) => format!("{} ({} runs)", row.method, nll.runs),
                None => row.method.clone(),
            },
            nll: nll.map(|nll| summary(nll.mean, nll.standard_error, nll.runs)),
            difference: nll.and_then(|nll| {
                Some(summary(
                    nll.difference?,
                    nll.difference_standard_error,
                    nll.runs,
                ))
            }),
            has_diverged: nll.is_none(),
            seconds: Some(row.seconds),
            cells: cells.collect(),
        }
    }
}
