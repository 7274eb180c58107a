//! Predictions against the truth, and prediction intervals.

use plotters::prelude::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use crate::error::Result;
use crate::order::{selected, spread};
use crate::predict::Predictions;
use crate::report::chart::{Axis, Figure, Key, SIZE, Sign, guide, keys, plane, range_of};
use crate::report::palette::{BLUE, INK, VERMILION};
use crate::scores::LEVELS;
use crate::text::{percent, tick, whole};

/// Maximum number of points of the scatter plot.
const MOST_POINTS: usize = 1500;
/// Maximum number of rows in the interval chart.
const MOST_INTERVALS: usize = 60;

/// Predicted means and true values.
pub(crate) struct Cloud<'a> {
    pub(crate) means: Vec<f64>,
    pub(crate) targets: &'a [f64],
    pub(crate) target: &'a str,
}

impl Cloud<'_> {
    pub(crate) fn against_truth(&self) -> Result<Figure> {
        let reading = "The vertical distance from the line is the error. A systematic deviation from the line is a bias.";
        Figure::draw(
            "predicted-observed",
            "Observed against predicted",
            reading,
            SIZE,
            |area| {
                let both = self.means.iter().chain(self.targets).copied();
                let range = range_of(both);
                let mut plane = plane(
                    area,
                    &Axis::new(&format!("predicted {}", self.target), range, tick),
                    &Axis::new(&format!("observed {}", self.target), range, tick),
                )?;
                plane.draw_series([PathElement::new(
                    [(range.0, range.0), (range.1, range.1)],
                    guide(),
                )])?;
                plane.draw_series(spread(self.means.len(), MOST_POINTS).into_iter().map(
                    |row| {
                        Circle::new(
                            (self.means[row], self.targets[row]),
                            4,
                            BLUE.mix(0.6).filled(),
                        )
                    },
                ))?;
                Ok(())
            },
        )
    }

    /// The central intervals of some rows at [`LEVELS`].
    pub(crate) fn fan(&self, predictions: &Predictions) -> Result<Figure> {
        let mut order: Vec<usize> = (0..self.means.len()).collect();
        order.sort_by(|&a, &b| self.means[a].total_cmp(&self.means[b]));
        let places = spread(order.len(), MOST_INTERVALS);
        let rows: Vec<usize> = places.into_iter().map(|place| order[place]).collect();
        let shown = predictions.of_rows(&rows);
        let mixture = shown.numbers()?;
        let mut bands = Vec::new();
        for (level, opacity) in LEVELS.into_iter().zip(OPACITIES) {
            bands.push((mixture.central_intervals(level)?, opacity));
        }
        let (widest, _) = &bands[LEVELS.len() - 1];
        let targets = selected(self.targets, &rows);
        let reading = format!(
            "{} of {} rows, evenly spaced, sorted by prediction. The bars are central intervals. About one point in twenty should lie outside the palest interval; such points are marked.",
            rows.len(),
            order.len(),
        );
        let size = (SIZE.0, SIZE.1 + 30);
        Figure::draw("intervals", "Prediction intervals", reading, size, |area| {
            let labels = LEVELS.map(percent);
            let signs = labels.iter().zip(OPACITIES);
            let mut signs: Vec<Key<'_>> = signs
                .map(|(label, opacity)| Key::new(label, BLUE, Sign::Patch(opacity)))
                .collect();
            signs.push(Key::new("observed", INK, Sign::Dot));
            signs.push(Key::new("outside", VERMILION, Sign::Dot));
            let area = keys(area, &signs)?;
            let limits = widest.lower().iter().chain(widest.upper());
            let values = range_of(limits.chain(&targets).copied());
            let places = (0.0, rows.len() as f64 + 1.0);
            let mut plane = plane(
                &area,
                &Axis::new("row, sorted by prediction", places, whole),
                &Axis::new(self.target, values, tick),
            )?;
            for (row, &target) in targets.iter().enumerate() {
                let x = row as f64 + 1.0;
                // The widest interval first, so that narrower ones are drawn on top.
                for (band, opacity) in bands.iter().rev() {
                    let corners = [(x - 0.42, band.lower()[row]), (x + 0.42, band.upper()[row])];
                    plane.draw_series([Rectangle::new(corners, BLUE.mix(*opacity).filled())])?;
                }
                let held = widest.lower()[row] <= target && target <= widest.upper()[row];
                let (radius, colour) = if held { (3, INK) } else { (5, VERMILION) };
                plane.draw_series([Circle::new((x, target), radius, colour.filled())])?;
            }
            Ok(())
        })
    }
}

/// Opacities of the intervals of [`LEVELS`].
const OPACITIES: [f64; 3] = [0.55, 0.35, 0.2];
