//! The error of the kept rows as uncertain rows are referred.

use burn_bayes::eval::{DrawProbabilities, RiskCoverage};
use plotters::prelude::PathElement;

use crate::error::Result;
use crate::order::spread;
use crate::predict::Uncertainty;
use crate::report::chart::{
    Axis, Figure, Key, SIZE, Sign, guide, keys, line, plane, range_from_zero,
};
use crate::report::palette::{MUTED, SERIES};
use crate::report::section::Table;
use crate::scores::ClassificationScores;
use crate::text::{label, number, optional, percent, rounded_percent, tick};

/// Maximum number of points of a curve.
const MOST_POINTS: usize = 300;

pub(super) fn risk_coverage(
    scores: &ClassificationScores,
    draws: &DrawProbabilities<'_>,
    losses: &[f64],
) -> Result<Figure> {
    let mut curves = Vec::new();
    for (by, colour) in Uncertainty::ALL.into_iter().zip(SERIES) {
        if draws.draws() > 1 || !by.needs_draws() {
            let curve = RiskCoverage::new(&by.of(draws), losses)?;
            curves.push((label(by.name()), colour, percents(&curve)));
        }
    }
    let best = percents(&RiskCoverage::new(losses, losses)?);
    let risk = scores.accuracy.value.map_or(0.0, |accuracy| 1.0 - accuracy);
    let reading = format!(
        "The error rate of the kept rows as the most uncertain rows are referred, from right to left; with all rows kept it is {}. A good curve falls early. “Best possible” refers exactly the wrong rows first.",
        rounded_percent(risk),
    );
    Figure::draw(
        "risk-coverage",
        "Risk of the rows kept",
        reading,
        (SIZE.0, SIZE.1 + 60),
        |area| {
            let mut signs: Vec<Key<'_>> = curves
                .iter()
                .map(|(label, colour, _)| Key::new(label, *colour, Sign::Line))
                .collect();
            signs.push(Key::new("best possible", MUTED, Sign::Line));
            let area = keys(area, &signs)?;
            let risks = curves
                .iter()
                .flat_map(|(_, _, points)| points.iter().map(|point| point.1));
            let mut plane = plane(
                &area,
                &Axis::new("coverage: rows kept, %", (0.0, 100.0), tick),
                &Axis::new("risk: wrong, %", range_from_zero(risks), tick),
            )?;
            plane.draw_series([PathElement::new(best, guide())])?;
            // In reverse order, so that the most useful curve is drawn on top.
            for (_, colour, points) in curves.into_iter().rev() {
                plane.draw_series([PathElement::new(points, line(colour))])?;
            }
            Ok(())
        },
    )
}

fn percents(curve: &RiskCoverage) -> Vec<(f64, f64)> {
    let points = curve.points();
    let percents = |index: usize| (100.0 * points[index].coverage, 100.0 * points[index].risk);
    spread(points.len(), MOST_POINTS)
        .into_iter()
        .map(percents)
        .collect()
}

pub(super) fn accuracy_table(scores: &ClassificationScores) -> Table {
    let defined: Vec<_> = scores
        .selective
        .iter()
        .filter(|by| !by.referral.is_empty())
        .collect();
    let header = ["kept", "rows"].into_iter().map(String::from);
    let lines = defined.first().map_or(0, |by| by.referral.len());
    let row = |line: usize| {
        let first = &defined[0].referral[line];
        let start = [percent(first.kept_fraction), first.kept.to_string()];
        let accuracies = defined.iter().map(|by| number(by.referral[line].accuracy));
        start.into_iter().chain(accuracies).collect()
    };
    Table::new(
        "Accuracy of the rows kept, by uncertainty score",
        header.chain(defined.iter().map(|by| label(by.by))),
        (0..lines).map(row),
    )
}

pub(super) fn area_table(scores: &ClassificationScores) -> Table {
    let header = ["sorted by", "AURC", "E-AURC", "AUGRC"];
    Table::new(
        "Areas under the risk–coverage curves; lower is better",
        header,
        scores.selective.iter().map(|by| {
            let name = label(by.by);
            vec![
                name,
                optional(by.aurc.value),
                optional(by.e_aurc.value),
                optional(by.augrc.value),
            ]
        }),
    )
    .with_terms_as_names()
}

pub(super) fn entropy_table(scores: &ClassificationScores) -> Table {
    let positive = scores.positive.as_deref();
    let f1 = scores.f1_title();
    let header = [
        "kept",
        "rows",
        "accuracy",
        "balanced accuracy",
        &f1,
        "AUROC",
    ];
    let lines = scores.selective.first().map_or(&[][..], |by| &by.referral);
    Table::new(
        "Scores of the rows with the lowest entropy",
        header,
        lines.iter().map(|line| {
            let f1 = positive.map_or(Some(line.macro_f1), |_| line.f1);
            vec![
                percent(line.kept_fraction),
                line.kept.to_string(),
                number(line.accuracy),
                number(line.balanced_accuracy),
                optional(f1),
                optional(line.auroc),
            ]
        }),
    )
}
