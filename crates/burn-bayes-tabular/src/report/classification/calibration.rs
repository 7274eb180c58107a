//! The reliability diagram, and the entropy of right and wrong predictions.

use burn_bayes::eval::{ClassProbabilities, predictive_entropy};
use plotters::prelude::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use crate::error::Result;
use crate::report::chart::{Axis, Figure, Key, SIZE, Sign, guide, keys, plane, range_from_zero};
use crate::report::palette::{BLUE, MUTED, VERMILION};
use crate::scores::ClassificationScores;
use crate::text::tick;

const ENTROPY_BINS: usize = 20;

pub(super) fn reliability(scores: &ClassificationScores) -> Result<Figure> {
    let reading = "On the dashed diagonal, predictions are calibrated: of the rows predicted with a confidence of 80 %, 80 % are correct. Bars below it are overconfident, bars above it underconfident. The thin lines are 95 % intervals of the accuracy: where one crosses the diagonal, the gap may be chance. The lower chart shows the fraction of the rows in each bin.";
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
                if let Some(interval) = bin.interval {
                    let end = |limit: f64| (100.0 * confidence, 100.0 * limit);
                    let ends = [end(interval.lower), end(interval.upper)];
                    above.draw_series([PathElement::new(ends, MUTED.stroke_width(2))])?;
                }
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

pub(super) fn entropies(average: &ClassProbabilities<'_>, losses: &[f64]) -> Result<Figure> {
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
