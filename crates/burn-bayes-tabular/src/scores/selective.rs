//! What is gained by keeping the rows a model is most certain of.

use burn_bayes::eval::RiskCoverage;
use serde::Serialize;

use crate::error::Result;
use crate::scores::{Intervals, Score};

/// Fractions of the rows that referral tables keep.
pub(crate) const KEPT_FRACTIONS: [f64; 6] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5];

/// The risk–coverage curve of one uncertainty, in numbers; the lower the better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectiveScores<Row> {
    /// The uncertainty that sorts the rows.
    pub by: &'static str,
    /// Mean loss of the kept rows, averaged over every number of rows kept.
    pub aurc: Score,
    /// What of it a perfect order of the rows would save.
    pub e_aurc: Score,
    /// Area under the loss of kept rows as a share of all rows.
    pub augrc: Score,
    /// The kept rows scored; empty where the uncertainty is not defined.
    pub referral: Vec<Row>,
}

impl<Row> SelectiveScores<Row> {
    /// Sorts losses by an uncertainty of each row.
    pub(crate) fn of(
        by: &'static str,
        uncertainty: &[f64],
        losses: &[f64],
        referral: Vec<Row>,
        intervals: Intervals,
    ) -> Result<Self> {
        let curve = RiskCoverage::new(uncertainty, losses)?;
        let area = |of: fn(&RiskCoverage) -> f64| {
            intervals.of_rows(of(&curve), losses.len(), losses.len(), |rows| {
                let pick = |values: &[f64]| rows.iter().map(|&row| values[row]).collect::<Vec<_>>();
                RiskCoverage::new(&pick(uncertainty), &pick(losses)).map_or(f64::NAN, |c| of(&c))
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

    /// The scores of an uncertainty that compares draws, where there is only one.
    pub(crate) fn of_one_draw(by: &'static str) -> Self {
        let absent = Score::absent("one draw cannot disagree with itself");
        Self {
            by,
            aurc: absent.clone(),
            e_aurc: absent.clone(),
            augrc: absent,
            referral: Vec::new(),
        }
    }
}
