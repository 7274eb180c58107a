//! Charts and tables of counts: those of a regression, with the expected coverage of intervals of whole numbers.

use super::regression::NumberScores;
use super::section::Table;
use crate::scores::CountScores;
use crate::text::{optional, percent};

impl<'a> From<&'a CountScores> for NumberScores<'a> {
    fn from(scores: &'a CountScores) -> Self {
        Self {
            of_predictions: "The prediction is the mean of the predicted counts.".into(),
            of_calibration: "Are the stated probabilities of the intervals correct? Counts are whole, so the transform of \
                             a count is drawn at random from the jump of the distribution function there.",
            quantiles: &scores.quantiles,
            pit_counts: &scores.pit_counts,
            referral: &scores.selective[0].referral,
            coverage: Some(coverage_table(scores)),
        }
    }
}

/// The coverage of the intervals beside the one to expect.
fn coverage_table(scores: &CountScores) -> Table {
    let rows = scores.intervals.iter().map(|found| {
        let observed = found.coverage.value;
        vec![
            percent(found.level),
            found.expected.map_or_else(String::new, percent),
            observed.map_or_else(|| optional(None), percent),
            optional(found.mean_width.value),
        ]
    });
    Table::new(
        "Central intervals of whole numbers, which are at least as probable as their level",
        ["level", "expected coverage", "coverage", "mean width"],
        rows,
    )
}
