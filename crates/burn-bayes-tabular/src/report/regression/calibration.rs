//! Frequencies of quantiles, and the probability integral transform.

use plotters::prelude::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use crate::error::Result;
use crate::report::chart::{Axis, Figure, SIZE, guide, line, plane, range_from_zero};
use crate::report::palette::{BLUE, MUTED};
use crate::scores::QuantileFrequency;
use crate::text::tick;

pub(crate) fn interval_calibration(quantiles: &[QuantileFrequency]) -> Result<Figure> {
    let reading = "On the diagonal, predictions are calibrated: the 80 % quantile lies above 80 % of the targets. If the curve is flat in the middle, intervals are too narrow; if it is steep there, they are too wide; if it stays on one side of the diagonal, predictions are biased.";
    Figure::draw(
        "interval-calibration",
        "Nominal and observed frequencies",
        reading,
        SIZE,
        |area| {
            let percents = |title| Axis::new(title, (0.0, 100.0), tick);
            let mut plane = plane(area, &percents("nominal, %"), &percents("observed, %"))?;
            plane.draw_series([PathElement::new([(0.0, 0.0), (100.0, 100.0)], guide())])?;
            let points: Vec<(f64, f64)> = quantiles
                .iter()
                .map(|at| (100.0 * at.level, 100.0 * at.observed))
                .collect();
            plane.draw_series([PathElement::new(points.clone(), line(BLUE))])?;
            plane.draw_series(
                points
                    .into_iter()
                    .map(|at| Circle::new(at, 5, BLUE.filled())),
            )?;
            Ok(())
        },
    )
}

pub(crate) fn pit_histogram(pit_counts: &[usize]) -> Result<Figure> {
    let reading = "The predicted probability below each target. For calibrated predictions it is uniform; the grey band contains 95 % of the random variation of a bar. A ∪ shape means that intervals are too narrow, a ∩ shape that they are too wide, and a slope that predictions are biased.";
    Figure::draw(
        "pit",
        "Probability integral transform",
        reading,
        SIZE,
        |area| {
            let rows = pit_counts.iter().sum::<usize>() as f64;
            let bins = pit_counts.len() as f64;
            let shares: Vec<f64> = pit_counts
                .iter()
                .map(|&count| 100.0 * count as f64 / rows)
                .collect();
            // A bin holds a binomial number of rows: 1/B ± 1.96 √((1/B)(1 − 1/B)/N).
            let even = 1.0 / bins;
            let chance = 1.96 * (even * (1.0 - even) / rows).sqrt();
            let band = (
                100.0 * (even - chance).max(0.0),
                100.0 * (even + chance).min(1.0),
            );
            let highest = shares.iter().copied().chain([band.1]);
            let mut plane = plane(
                area,
                &Axis::new(
                    "share of the distribution below the target",
                    (0.0, 1.0),
                    tick,
                ),
                &Axis::new("rows, %", range_from_zero(highest), tick),
            )?;
            let chance = [(0.0, band.0), (1.0, band.1)];
            plane.draw_series([Rectangle::new(chance, MUTED.mix(0.25).filled())])?;
            plane.draw_series(shares.iter().enumerate().map(|(bin, &share)| {
                let left = bin as f64 / bins;
                let corners = [(left + 0.004, 0.0), (left + 1.0 / bins - 0.004, share)];
                Rectangle::new(corners, BLUE.mix(0.75).filled())
            }))?;
            for (height, width) in [(100.0 * even, 2), (band.0, 1), (band.1, 1)] {
                let style = MUTED.stroke_width(width);
                plane.draw_series([PathElement::new([(0.0, height), (1.0, height)], style)])?;
            }
            Ok(())
        },
    )
}
