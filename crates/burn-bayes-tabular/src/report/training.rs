//! Training curves.

use plotters::prelude::{Circle, PathElement};
use plotters::style::Color;

use super::chart::{Axis, Figure, Key, SIZE, Sign, keys, line, plane, range_of};
use super::palette::SERIES;
use super::section::Section;
use crate::error::Result;
use crate::order::spread;
use crate::text::{sentence, tick, whole};

/// A quantity recorded at every epoch.
#[derive(Clone, Debug)]
pub struct TrainingCurve {
    /// Its name, such as "training loss" or "validation NLL".
    pub(crate) label: String,
    /// Its unit; curves with the same unit share a chart.
    pub(crate) unit: String,
    /// Epochs and values.
    pub(crate) points: Vec<(usize, f64)>,
}

/// Maximum number of points of a curve.
const MOST_POINTS: usize = 400;
/// Maximum number of points with markers.
const MOST_MARKS: usize = 30;

/// The section; `None` if nothing was recorded.
pub(crate) fn section(curves: &[TrainingCurve], is_sampled: bool) -> Result<Option<Section>> {
    let mut units: Vec<&str> = Vec::new();
    for curve in curves.iter().filter(|curve| curve.is_drawable()) {
        if !units.contains(&curve.unit.as_str()) {
            units.push(&curve.unit);
        }
    }
    let mut figures = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let group: Vec<&TrainingCurve> = curves
            .iter()
            .filter(|curve| curve.unit == *unit && curve.is_drawable())
            .collect();
        figures.push(figure(index, unit, &group, is_sampled)?);
    }
    Ok((!figures.is_empty()).then(|| {
        let text = match is_sampled {
            true => {
                "Loss and scores of the chains at their steps. Each chain climbs to a mode, leaves it again to find its step size, and then samples: the curves rise where it leaves the mode, because most of the posterior is not there."
            }
            false => "Loss and scores at the end of every epoch.",
        };
        Section::new("training", "Training", text).with_figures(figures)
    }))
}

impl TrainingCurve {
    fn is_drawable(&self) -> bool {
        self.points.iter().any(|(_, value)| value.is_finite())
    }

    fn drawn(&self) -> Vec<(f64, f64)> {
        let finite: Vec<_> = self
            .points
            .iter()
            .filter(|(_, value)| value.is_finite())
            .collect();
        let point = |index: usize| (finite[index].0 as f64, finite[index].1);
        spread(finite.len(), MOST_POINTS)
            .into_iter()
            .map(point)
            .collect()
    }
}

fn figure(index: usize, unit: &str, curves: &[&TrainingCurve], is_sampled: bool) -> Result<Figure> {
    let labels: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    let title = sentence(&labels.join(" and "));
    let reading = match curves {
        _ if is_sampled => {
            "In the second half, the curves should have no trend. A point is a single draw of each chain, so it lies above the score of the fit, which averages over many."
        }
        [_] => "If the curve is still falling at the end, train for more epochs.",
        _ => {
            "If the curves are still falling at the end, train for more epochs. If the validation curve rises while the training loss falls, the model overfits. The training loss is computed with the weight draws of single steps, so the validation NLL of the average over draws may lie below it."
        }
    };
    Figure::draw(
        format!("training-{}", index + 1),
        title,
        reading,
        SIZE,
        |area| {
            let drawn: Vec<Vec<(f64, f64)>> = curves.iter().map(|curve| curve.drawn()).collect();
            let colours = SERIES.iter().copied().cycle();
            let signs: Vec<Key<'_>> = labels
                .iter()
                .zip(colours.clone())
                .map(|(label, colour)| Key::new(label, colour, Sign::Line))
                .collect();
            let area = keys(area, &signs)?;
            let all = || drawn.iter().flatten();
            let mut plane = plane(
                &area,
                &Axis::new("epoch", range_of(all().map(|point| point.0)), whole),
                &Axis::new(unit, range_of(all().map(|point| point.1)), tick),
            )?;
            for (points, colour) in drawn.iter().zip(colours) {
                plane.draw_series([PathElement::new(points.clone(), line(colour))])?;
                if points.len() <= MOST_MARKS {
                    let mark = |&point| Circle::new(point, 4, colour.filled());
                    plane.draw_series(points.iter().map(mark))?;
                }
            }
            Ok(())
        },
    )
}
