//! Scores of selective prediction: keeping the rows with the lowest uncertainty.

use burn_bayes::eval::RiskCoverage;
use serde::Serialize;

use crate::error::Result;
use crate::order::selected;
use crate::scores::{Intervals, Score};

/// Kept fractions of the rows in referral tables.
pub(crate) const KEPT_FRACTIONS: [f64; 6] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5];

/// Summaries of the risk–coverage curve of one uncertainty score; lower is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectiveScores<Row> {
    /// The uncertainty score that ranks the rows.
    pub by: &'static str,
    /// Area under the risk–coverage curve: mean loss of the kept rows, averaged over all numbers of kept
    /// rows.
    pub aurc: Score,
    /// AURC in excess of that of a perfect ranking.
    pub e_aurc: Score,
    /// Area under the generalised risk curve: the loss of the kept rows, divided by the number of all
    /// rows.
    pub augrc: Score,
    /// Scores of the kept rows; empty if the uncertainty is undefined.
    pub referral: Vec<Row>,
}

impl<Row> SelectiveScores<Row> {
    /// From the uncertainty and the loss of each row.
    pub(crate) fn of(
        by: &'static str,
        uncertainty: &[f64],
        losses: &[f64],
        referral: Vec<Row>,
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        let curve = RiskCoverage::new(uncertainty, losses)?;
        let area = |of: fn(&RiskCoverage) -> f64| {
            intervals.of_rows(of(&curve), losses.len(), losses.len(), |rows| {
                let curve =
                    RiskCoverage::new(&selected(uncertainty, rows), &selected(losses, rows));
                curve.map_or(f64::NAN, |curve| of(&curve))
            })
        };
        Ok(Self {
            by,
            aurc: area(RiskCoverage::aurc),
            e_aurc: area(RiskCoverage::excess_aurc),
            augrc: area(RiskCoverage::augrc),
            referral,
        })
    }

    /// The scores of an uncertainty that compares draws, if there is only one draw.
    pub(crate) fn of_one_draw(by: &'static str) -> Self {
        let absent = Score::absent("disagreement needs at least two draws");
        Self {
            by,
            aurc: absent.clone(),
            e_aurc: absent.clone(),
            augrc: absent,
            referral: Vec::new(),
        }
    }
}
