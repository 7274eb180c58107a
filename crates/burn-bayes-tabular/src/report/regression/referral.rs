//! The error of the kept rows as uncertain rows are referred.

use burn_bayes::eval::RiskCoverage;
use plotters::prelude::PathElement;

use super::predictions::Cloud;
use crate::error::Result;
use crate::order::spread;
use crate::report::chart::{
    Axis, Figure, Key, SIZE, Sign, guide, keys, line, plane, range_from_zero,
};
use crate::report::palette::{BLUE, MUTED};
use crate::report::section::Table;
use crate::scores::ReferredReals;
use crate::text::{number, percent, tick};

/// `uncertainty` is the variance between draws.
pub(crate) fn risk_coverage(uncertainty: &[f64], cloud: &Cloud<'_>) -> Result<Figure> {
    let square = |(mean, target): (&f64, &f64)| (mean - target) * (mean - target);
    let squares: Vec<f64> = cloud.means.iter().zip(cloud.targets).map(square).collect();
    let rooted = |curve: RiskCoverage| -> Vec<(f64, f64)> {
        let points = curve.points();
        let point = |index: usize| (100.0 * points[index].coverage, points[index].risk.sqrt());
        spread(points.len(), 300).into_iter().map(point).collect()
    };
    let curve = rooted(RiskCoverage::new(uncertainty, &squares)?);
    let best = rooted(RiskCoverage::new(&squares, &squares)?);
    let reading = "The error of the kept rows as the most uncertain rows are referred, from right to left. A good curve falls early. “Best possible” refers the rows with the largest errors first.";
    Figure::draw(
        "risk-coverage",
        "Error of the rows kept",
        reading,
        (SIZE.0, SIZE.1 + 30),
        |area| {
            let area = keys(
                area,
                &[
                    Key::new("disagreement of draws", BLUE, Sign::Line),
                    Key::new("best possible", MUTED, Sign::Line),
                ],
            )?;
            let errors = curve.iter().map(|point| point.1);
            let mut plane = plane(
                &area,
                &Axis::new("coverage: rows kept, %", (0.0, 100.0), tick),
                &Axis::new("RMSE of rows kept", range_from_zero(errors), tick),
            )?;
            plane.draw_series([PathElement::new(best, guide())])?;
            plane.draw_series([PathElement::new(curve, line(BLUE))])?;
            Ok(())
        },
    )
}

pub(crate) fn referral_table(referral: &[ReferredReals]) -> Table {
    Table::new(
        "RMSE of the rows with the least disagreement between draws",
        ["kept", "rows", "RMSE"],
        referral.iter().map(|row| {
            vec![
                percent(row.kept_fraction),
                row.kept.to_string(),
                number(row.rmse),
            ]
        }),
    )
}
