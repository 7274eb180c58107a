//! Charts and tables of a regression.

use burn_bayes::eval::{GaussianMixture, PredictionIntervals, RiskCoverage};
use burn_bayes_data::Targets;
use plotters::prelude::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::chart::{
    Axis, Figure, Key, SIZE, Sign, guide, keys, line, plane, range_from_zero, range_of, spread,
};
use super::page::{Section, Table, other_task};
use super::palette::{BLUE, INK, MUTED, VERMILION};
use crate::error::Result;
use crate::predict::RealPredictions;
use crate::scores::{LEVELS, RegressionScores};
use crate::text::{number, percent, tick, whole};

/// Maximum number of points of the scatter plot.
const MOST_POINTS: usize = 1500;
/// Maximum number of rows in the interval chart.
const MOST_INTERVALS: usize = 60;

/// Predictions, calibration and referral.
pub(crate) fn sections(
    predictions: &RealPredictions,
    scores: &RegressionScores,
    targets: &Targets,
    target: &str,
) -> Result<Vec<Section>> {
    let Targets::Real(targets) = targets else {
        return Err(other_task());
    };
    let mixture = predictions.checked()?;
    let cloud = Cloud {
        means: mixture.mean(),
        targets,
        target,
    };
    let mut sections = vec![
        Section {
            id: "predictions",
            heading: "Predictions",
            text: format!(
                "The standard deviation of the observation noise is {}.",
                number(scores.noise_deviation),
            ),
            figures: vec![cloud.against_truth()?, cloud.fan(predictions)?],
            tables: Vec::new(),
        },
        Section {
            id: "calibration",
            heading: "Calibration",
            text: "Are the stated probabilities of the intervals correct?".into(),
            figures: vec![interval_calibration(scores)?, pit_histogram(scores)?],
            tables: Vec::new(),
        },
    ];
    if !scores.selective[0].referral.is_empty() {
        sections.push(Section {
            id: "referral",
            heading: "Referral",
            text: "How much does the error decrease if the rows with the most disagreement between weight draws are referred to an expert?".into(),
            figures: vec![risk_coverage(&mixture, &cloud)?],
            tables: vec![referral_table(scores)],
        });
    }
    Ok(sections)
}

/// Predicted means and true values.
struct Cloud<'a> {
    means: Vec<f64>,
    targets: &'a [f64],
    target: &'a str,
}

impl Cloud<'_> {
    fn against_truth(&self) -> Result<Figure> {
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

    fn fan(&self, predictions: &RealPredictions) -> Result<Figure> {
        let mut order: Vec<usize> = (0..self.means.len()).collect();
        order.sort_by(|&a, &b| self.means[a].total_cmp(&self.means[b]));
        let places = spread(order.len(), MOST_INTERVALS);
        let rows: Vec<usize> = places.into_iter().map(|place| order[place]).collect();
        let shown = predictions.of_rows(&rows);
        let mixture = shown.checked()?;
        let mut bands = Vec::new();
        for (level, opacity) in LEVELS.into_iter().zip(OPACITIES) {
            bands.push((PredictionIntervals::central(&mixture, level)?, opacity));
        }
        let (widest, _) = &bands[LEVELS.len() - 1];
        let targets: Vec<f64> = rows.iter().map(|&row| self.targets[row]).collect();
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

fn interval_calibration(scores: &RegressionScores) -> Result<Figure> {
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
            let points: Vec<(f64, f64)> = scores
                .quantiles
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

fn pit_histogram(scores: &RegressionScores) -> Result<Figure> {
    let reading = "The predicted probability below each target. For calibrated predictions it is uniform; the grey band contains 95 % of the random variation of a bar. A ∪ shape means that intervals are too narrow, a ∩ shape that they are too wide, and a slope that predictions are biased.";
    Figure::draw(
        "pit",
        "Probability integral transform",
        reading,
        SIZE,
        |area| {
            let rows = scores.rows as f64;
            let bins = scores.pit_counts.len() as f64;
            let shares: Vec<f64> = scores
                .pit_counts
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

fn risk_coverage(mixture: &GaussianMixture<'_>, cloud: &Cloud<'_>) -> Result<Figure> {
    let square = |(mean, target): (&f64, &f64)| (mean - target) * (mean - target);
    let squares: Vec<f64> = cloud.means.iter().zip(cloud.targets).map(square).collect();
    let rooted = |curve: RiskCoverage| -> Vec<(f64, f64)> {
        let points = curve.points();
        let point = |index: usize| (100.0 * points[index].coverage, points[index].risk.sqrt());
        spread(points.len(), 300).into_iter().map(point).collect()
    };
    let curve = rooted(RiskCoverage::new(
        &mixture.variance_between_draws(),
        &squares,
    )?);
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

fn referral_table(scores: &RegressionScores) -> Table {
    Table {
        caption: "RMSE of the rows with the least disagreement between draws".into(),
        header: ["kept", "rows", "RMSE"].map(String::from).to_vec(),
        rows: scores.selective[0]
            .referral
            .iter()
            .map(|row| {
                vec![
                    percent(row.kept_fraction),
                    row.kept.to_string(),
                    number(row.rmse),
                ]
            })
            .collect(),
    }
}
