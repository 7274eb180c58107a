//! Charts of the predictions over the input space, for models with one or two inputs: the curve with its
//! intervals, and the decision regions.

use burn_bayes::eval::PredictionIntervals;
use burn_bayes_data::{Features, Targets};
use plotters::prelude::{Circle, PathElement, Polygon, Rectangle};
use plotters::style::{Color, RGBColor};

use super::chart::{Axis, Drawn, Figure, Key, Plane, Sign, keys, line, plane, range_of};
use super::palette::{BLUE, INK, PAPER, SERIES, VERMILION};
use crate::error::{Result, TabularError};
use crate::predict::{ClassPredictions, Predictions, RealPredictions};
use crate::rows::Target;
use crate::text::tick;

/// Narrower than the charts of a report: several stand side by side.
const SIZE: (u32, u32) = (500, 430);
const LEGEND_WIDTH: u32 = 560;

/// Margins on each side of the training rows, as fractions of their largest extent.
const MARGIN_OF_CURVE: f64 = 0.4;
const MARGIN_OF_TARGETS: f64 = 0.45;
const MARGIN_OF_PLANE: f64 = 0.6;

/// Points of a curve.
const POINTS: usize = 161;
/// Cells of a plane, along each axis.
const CELLS: usize = 50;
/// Number of shades between no confidence and certainty.
const SHADES: f64 = 10.0;
/// Opacity of a certain prediction.
const CERTAIN: f64 = 0.6;

/// Levels of the intervals of a curve and their opacities, the widest first.
const BANDS: [(f64, f64); 2] = [(0.95, 0.2), (0.5, 0.35)];
/// Epistemic standard deviations between the mean and a limit line.
const DEVIATIONS: f64 = 2.0;

/// The inputs of a [`chart`] around these.
///
/// # Errors
/// If they do not have one or two columns.
pub(crate) fn places(inputs: &Features) -> Result<Features> {
    let values = inputs.values();
    Ok(match inputs.columns() {
        1 => Features::new(POINTS, 1, grid(values))?,
        2 => {
            let [x, y] = plane_around(values);
            let middle = |(low, high): (f64, f64), cell: usize| {
                low + (high - low) * (cell as f64 + 0.5) / CELLS as f64
            };
            let middles = (0..CELLS).flat_map(|row| {
                (0..CELLS).flat_map(move |column| [middle(x, column), middle(y, row)])
            });
            Features::new(CELLS * CELLS, 2, middles.collect())?
        }
        columns => return Err(not_drawable(columns)),
    })
}

/// The chart of predictions at the [`places`] around training rows.
///
/// # Errors
/// If the rows have other inputs or targets than a chart can show, or the predictions are not finite.
pub(crate) fn chart(
    name: &str,
    title: &str,
    (inputs, targets): (&Features, &Targets),
    predictions: &Predictions,
) -> Result<Figure> {
    let values = inputs.values();
    match (inputs.columns(), targets, predictions) {
        (1, Targets::Real(targets), Predictions::Reals(predictions)) => Curve {
            inputs: values,
            targets,
            grid: grid(values),
            predictions,
        }
        .figure(name, title),
        (2, Targets::Classes(classes), Predictions::Classes(predictions)) => {
            Regions::of(values, classes, predictions)?.figure(name, title)
        }
        (columns, ..) => Err(not_drawable(columns)),
    }
}

fn not_drawable(columns: usize) -> TabularError {
    TabularError::Usage(format!(
        "a chart of the input space shows a number predicted from one column or classes predicted from \
         two, not predictions from {columns}"
    ))
}

/// Points of a curve around these inputs.
fn grid(inputs: &[f64]) -> Vec<f64> {
    let (low, high) = around(range_of(inputs.iter().copied()), MARGIN_OF_CURVE);
    let step = (high - low) / (POINTS - 1) as f64;
    (0..POINTS).map(|point| low + step * point as f64).collect()
}

/// The ranges of both axes around these inputs.
fn plane_around(inputs: &[f64]) -> [(f64, f64); 2] {
    let column = |at: usize| inputs.iter().skip(at).step_by(2).copied();
    let (x, y) = (range_of(column(0)), range_of(column(1)));
    let margin = MARGIN_OF_PLANE * (x.1 - x.0).max(y.1 - y.0);
    [x, y].map(|(low, high)| (low - margin, high + margin))
}

/// The legend of [`chart`] for this target.
pub(crate) fn legend(name: &str, target: &Target) -> Result<Figure> {
    let labels: Vec<String> = match target {
        Target::Real(_) | Target::Counts { .. } | Target::Several(_) => Vec::new(),
        Target::Classes(classes) => classes
            .iter()
            .map(|class| format!("class {class}"))
            .collect(),
    };
    let signs: Vec<Key<'_>> = match target {
        Target::Real(_) | Target::Counts { .. } | Target::Several(_) => {
            let [(_, wide), (_, narrow)] = BANDS;
            vec![
                Key::new("training rows", INK, Sign::Dot),
                Key::new("mean", BLUE, Sign::Line),
                Key::new("50 % of targets", BLUE, Sign::Patch(narrow)),
                Key::new("95 % of targets", BLUE, Sign::Patch(wide)),
                Key::new("± 2 epistemic deviations", VERMILION, Sign::Line),
            ]
        }
        Target::Classes(_) => labels
            .iter()
            .zip(SERIES.into_iter().cycle())
            .map(|(label, colour)| Key::new(label, colour, Sign::Patch(CERTAIN)))
            .collect(),
    };
    let size = |rows: u32| (LEGEND_WIDTH, 34 * rows);
    let rows = if signs.len() > 3 { 2 } else { 1 };
    Figure::draw(name, "Legend", "", size(rows), |area| {
        keys(area, &signs).map(|_| ())
    })
}

/// Predictions of numbers from one input.
struct Curve<'a> {
    inputs: &'a [f64],
    targets: &'a [f64],
    grid: Vec<f64>,
    predictions: &'a RealPredictions,
}

impl Curve<'_> {
    fn figure(&self, name: &str, title: &str) -> Result<Figure> {
        let mixture = self.predictions.checked()?;
        let mean = mixture.mean();
        let mut bands = Vec::new();
        for (level, opacity) in BANDS {
            bands.push((PredictionIntervals::central(&mixture, level)?, opacity));
        }
        let deviations = mixture.variance_between_draws();
        let deviations: Vec<f64> = deviations.into_iter().map(f64::sqrt).collect();
        // The axis depends on the rows alone, so that the charts of several models can be compared.
        let limits = around(range_of(self.targets.iter().copied()), MARGIN_OF_TARGETS);
        let within = |(x, y): (f64, f64)| (x, y.clamp(limits.0, limits.1));
        let points = |values: &[f64]| -> Vec<(f64, f64)> {
            let points = self.grid.iter().copied().zip(values.iter().copied());
            points.map(within).collect()
        };
        let reading = "The dark and the pale band contain 50 and 95 % of new targets according to the model. The orange lines show \
             what it does not know about the curve itself: they should lie close together near the training \
             rows, and spread in the gap and beyond the ends. A point estimate has none.";
        Figure::draw(name, title, reading, SIZE, |area| {
            let ends = (self.grid[0], self.grid[POINTS - 1]);
            let mut plane = plane(
                area,
                &Axis::new("input", ends, tick),
                &Axis::new("target", limits, tick),
            )?;
            for (band, opacity) in &bands {
                let mut outline = points(band.lower());
                outline.extend(points(band.upper()).into_iter().rev());
                plane.draw_series([Polygon::new(outline, BLUE.mix(*opacity).filled())])?;
            }
            let dots = self.inputs.iter().zip(self.targets);
            plane
                .draw_series(dots.map(|(&x, &y)| Circle::new((x, y), 3, INK.mix(0.4).filled())))?;
            if self.predictions.draws > 1 {
                for side in [-DEVIATIONS, DEVIATIONS] {
                    let limit: Vec<f64> = mean
                        .iter()
                        .zip(&deviations)
                        .map(|(mean, deviation)| mean + side * deviation)
                        .collect();
                    let style = VERMILION.stroke_width(2);
                    plane.draw_series([PathElement::new(points(&limit), style)])?;
                }
            }
            plane.draw_series([PathElement::new(points(&mean), line(BLUE))])?;
            Ok(())
        })
    }
}

/// Predictions of classes in a plane.
struct Regions<'a> {
    /// Two for each row.
    inputs: &'a [f64],
    classes: &'a [usize],
    x: (f64, f64),
    y: (f64, f64),
    /// The most probable class of every cell, and the number of its shade; row by row from below.
    cells: Vec<(usize, u32)>,
}

impl<'a> Regions<'a> {
    fn of(inputs: &'a [f64], classes: &'a [usize], predictions: &ClassPredictions) -> Result<Self> {
        let [x, y] = plane_around(inputs);
        let chance = 1.0 / predictions.kind.len().max(2) as f64;
        let average = predictions.checked()?.average();
        let shade = |row: usize| {
            let probabilities = average.row(row).iter().copied().enumerate();
            let (class, most) = probabilities
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .unwrap_or_default();
            let confidence = ((most - chance) / (1.0 - chance)).clamp(0.0, 1.0);
            (class, (SHADES * confidence).round() as u32)
        };
        Ok(Self {
            inputs,
            classes,
            x,
            y,
            cells: (0..CELLS * CELLS).map(shade).collect(),
        })
    }

    fn figure(&self, name: &str, title: &str) -> Result<Figure> {
        let reading = "The colour of a place is its most probable class, and its strength the confidence: where there is no colour, all classes are equally probable. The \
             colours should be strong among the training rows, which are the dots, and fade away from them.";
        Figure::draw(name, title, reading, SIZE, |area| {
            let mut plane = plane(
                area,
                &Axis::new("first input", self.x, tick),
                &Axis::new("second input", self.y, tick),
            )?;
            self.draw_cells(&mut plane)?;
            let dots = self.inputs.chunks_exact(2).zip(self.classes);
            for (place, &class) in dots {
                let place = (place[0], place[1]);
                plane.draw_series([
                    Circle::new(place, 5, PAPER.filled()),
                    Circle::new(place, 4, colour(class).filled()),
                ])?;
            }
            Ok(())
        })
    }

    /// Fills the cells; neighbours in a row that look the same are one rectangle.
    fn draw_cells(&self, plane: &mut Plane<'_, '_>) -> Drawn {
        let edge =
            |(low, high): (f64, f64), cell: usize| low + (high - low) * cell as f64 / CELLS as f64;
        for (row, cells) in self.cells.chunks(CELLS).enumerate() {
            let mut start = 0;
            for run in cells.chunk_by(|one, other| one == other) {
                let end = start + run.len();
                let (class, shade) = run[0];
                let opacity = CERTAIN * f64::from(shade) / SHADES;
                let corners = [
                    (edge(self.x, start), edge(self.y, row)),
                    (edge(self.x, end), edge(self.y, row + 1)),
                ];
                if shade > 0 {
                    plane.draw_series([Rectangle::new(
                        corners,
                        colour(class).mix(opacity).filled(),
                    )])?;
                }
                start = end;
            }
        }
        Ok(())
    }
}

fn colour(class: usize) -> RGBColor {
    SERIES[class % SERIES.len()]
}

/// A range with a margin on both sides, as a fraction of its length.
fn around((low, high): (f64, f64), fraction: f64) -> (f64, f64) {
    let margin = fraction * (high - low);
    (low - margin, high + margin)
}
