//! Charts and tables of a classification.

use burn_bayes::eval::{
    ClassProbabilities, DrawProbabilities, LabelledProbabilities, RiskCoverage, predictive_entropy,
    zero_one_losses,
};
use burn_bayes_data::Targets;
use plotters::prelude::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::chart::{
    Axis, Figure, Key, SIZE, Sign, guide, keys, line, plane, range_from_zero, spread,
};
use super::page::{Section, Table, other_task};
use super::palette::{BLUE, MUTED, SERIES, VERMILION};
use super::summary::f1_name;
use crate::error::Result;
use crate::predict::ClassPredictions;
use crate::predict::Uncertainty;
use crate::scores::ClassificationScores;
use crate::text::{label, number, optional, percent, rounded_percent, shortened, tick};

/// Maximum number of points of a curve.
const MOST_POINTS: usize = 300;
const ENTROPY_BINS: usize = 20;
/// Maximum number of classes in the confusion matrix.
const MOST_CLASSES: usize = 12;

/// Calibration and referral.
pub(crate) fn sections(
    predictions: &ClassPredictions,
    scores: &ClassificationScores,
    targets: &Targets,
) -> Result<Vec<Section>> {
    let Targets::Classes(labels) = targets else {
        return Err(other_task());
    };
    let draws = predictions.checked()?;
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, labels)?;
    let losses = zero_one_losses(&labelled);
    let calibration = Section {
        id: "calibration",
        heading: "Calibration",
        text:
            "Are the predicted probabilities correct, and is the model uncertain where it is wrong?"
                .into(),
        figures: vec![reliability(scores)?, entropies(&average, &losses)?],
        tables: confusion_table(scores).into_iter().collect(),
    };
    let referral = Section {
        id: "referral",
        heading: "Referral",
        text: "How much does the error rate decrease if the most uncertain rows are referred to an expert?".into(),
        figures: vec![risk_coverage(scores, &draws, &losses)?],
        tables: vec![accuracy_table(scores), area_table(scores), entropy_table(scores)],
    };
    Ok(vec![calibration, referral])
}

fn reliability(scores: &ClassificationScores) -> Result<Figure> {
    let reading = "On the dashed diagonal, predictions are calibrated: of the rows predicted with a confidence of 80 %, 80 % are correct. Bars below it are overconfident, bars above it underconfident. The lower chart shows the fraction of the rows in each bin.";
    let size = (SIZE.0, SIZE.1 + 120);
    Figure::draw(
        "reliability",
        "Reliability diagram",
        reading,
        size,
        |area| {
            let (upper, lower) = area.split_vertically(SIZE.1 - 30);
            let percents = |title, range| Axis::new(title, range, tick);
            let mut above = plane(
                &upper,
                &percents("", (0.0, 100.0)),
                &percents("accuracy, %", (0.0, 100.0)),
            )?;
            for bin in &scores.reliability {
                let Some(accuracy) = bin.accuracy else {
                    continue;
                };
                let corners = [
                    (100.0 * bin.lower, 0.0),
                    (100.0 * bin.upper, 100.0 * accuracy),
                ];
                above.draw_series([Rectangle::new(corners, BLUE.mix(0.55).filled())])?;
            }
            above.draw_series((0..25).map(|dash| {
                let start = 4.0 * f64::from(dash);
                PathElement::new([(start, start), (start + 2.4, start + 2.4)], guide())
            }))?;
            for bin in &scores.reliability {
                let (Some(confidence), Some(accuracy)) = (bin.confidence, bin.accuracy) else {
                    continue;
                };
                let centre = (100.0 * confidence, 100.0 * accuracy);
                above.draw_series([Circle::new(centre, 6, BLUE.filled())])?;
            }
            let shares: Vec<f64> = scores
                .reliability
                .iter()
                .map(|bin| 100.0 * bin.rows as f64 / scores.rows as f64)
                .collect();
            let mut below = plane(
                &lower,
                &percents("confidence, %", (0.0, 100.0)),
                &percents("rows, %", range_from_zero(shares.clone())),
            )?;
            for (bin, share) in scores.reliability.iter().zip(shares) {
                let corners = [(100.0 * bin.lower, 0.0), (100.0 * bin.upper, share)];
                below.draw_series([Rectangle::new(corners, MUTED.mix(0.6).filled())])?;
            }
            Ok(())
        },
    )
}

fn entropies(average: &ClassProbabilities<'_>, losses: &[f64]) -> Result<Figure> {
    let reading = "Wrong predictions should have a higher entropy than right ones, so they should lie further to the right. The bars of each colour add up to 100 %.";
    Figure::draw(
        "entropy",
        "Entropy of right and wrong predictions",
        reading,
        SIZE,
        |area| {
            let entropies = predictive_entropy(average);
            let largest = (average.classes() as f64).ln().max(1e-3);
            let histogram = |loss: f64| {
                let mut shares = vec![0.0; ENTROPY_BINS];
                let of_kind = entropies.iter().zip(losses).filter(|(_, of)| **of == loss);
                let count = of_kind.clone().count().max(1) as f64;
                for (entropy, _) in of_kind {
                    let bin = (entropy / largest * ENTROPY_BINS as f64) as usize;
                    shares[bin.min(ENTROPY_BINS - 1)] += 100.0 / count;
                }
                shares
            };
            let kinds = [
                ("right", BLUE, histogram(0.0)),
                ("wrong", VERMILION, histogram(1.0)),
            ];
            let signs = kinds
                .iter()
                .map(|(label, colour, _)| Key::new(label, *colour, Sign::Patch(0.85)));
            let area = keys(area, &signs.collect::<Vec<_>>())?;
            let highest = kinds.iter().flat_map(|(_, _, shares)| shares.clone());
            let mut plane = plane(
                &area,
                &Axis::new("predictive entropy, nats", (0.0, largest), tick),
                &Axis::new("rows of a kind, %", range_from_zero(highest), tick),
            )?;
            let half = 0.46 * largest / ENTROPY_BINS as f64;
            for (side, (_, colour, shares)) in kinds.iter().enumerate() {
                plane.draw_series(
                    shares
                        .iter()
                        .enumerate()
                        .filter(|(_, share)| **share > 0.0)
                        .map(|(bin, share)| {
                            let middle = (bin as f64 + 0.5) * largest / ENTROPY_BINS as f64;
                            let left = middle - half + half * side as f64;
                            Rectangle::new(
                                [(left, 0.0), (left + half, *share)],
                                colour.mix(0.85).filled(),
                            )
                        }),
                )?;
            }
            Ok(())
        },
    )
}

fn risk_coverage(
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

/// The confusion matrix; `None` if there are too many classes.
fn confusion_table(scores: &ClassificationScores) -> Option<Table> {
    let names = || scores.classes.iter().map(|class| shortened(class, 24));
    let row = |(name, counts): (String, &Vec<usize>)| {
        let counts = counts.iter().map(ToString::to_string);
        [name].into_iter().chain(counts).collect()
    };
    (scores.classes.len() <= MOST_CLASSES).then(|| Table {
        caption: "Confusion matrix: rows of each true class, by predicted class".into(),
        header: ["true class".to_string()]
            .into_iter()
            .chain(names())
            .collect(),
        rows: names().zip(&scores.confusion).map(row).collect(),
    })
}

fn accuracy_table(scores: &ClassificationScores) -> Table {
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
    Table {
        caption: "Accuracy of the rows kept, by uncertainty score".into(),
        header: header
            .chain(defined.iter().map(|by| label(by.by)))
            .collect(),
        rows: (0..lines).map(row).collect(),
    }
}

fn area_table(scores: &ClassificationScores) -> Table {
    let header = ["sorted by", "AURC", "E-AURC", "AUGRC"];
    Table {
        caption: "Areas under the risk–coverage curves; lower is better".into(),
        header: header.map(String::from).to_vec(),
        rows: scores
            .selective
            .iter()
            .map(|by| {
                let name = label(by.by);
                vec![
                    name,
                    optional(by.aurc.value),
                    optional(by.e_aurc.value),
                    optional(by.augrc.value),
                ]
            })
            .collect(),
    }
}

fn entropy_table(scores: &ClassificationScores) -> Table {
    let positive = scores.positive.as_deref();
    let f1 = positive.map_or("macro F1".into(), f1_name);
    let header = [
        "kept",
        "rows",
        "accuracy",
        "balanced accuracy",
        &f1,
        "AUROC",
    ];
    let lines = scores.selective.first().map_or(&[][..], |by| &by.referral);
    Table {
        caption: "Scores of the rows with the lowest entropy".into(),
        header: header.map(String::from).to_vec(),
        rows: lines
            .iter()
            .map(|line| {
                let f1 = positive.map_or(Some(line.macro_f1), |_| line.f1);
                vec![
                    percent(line.kept_fraction),
                    line.kept.to_string(),
                    number(line.accuracy),
                    number(line.balanced_accuracy),
                    optional(f1),
                    optional(line.auroc),
                ]
            })
            .collect(),
    }
}
