//! The page of what a fit has learned from each column.

use std::path::Path;

use plotters::prelude::{PathElement, Polygon};
use plotters::style::Color;
use serde::Serialize;

use super::bars::{Bar, Bars};
use super::chart::{Axis, Figure, Key, SIZE, Sign, guide, keys, line, plane, range_of};
use super::page::Page;
use super::palette::{BLUE, SERIES};
use super::section::{Section, Table};
use super::similar::SimilarRows;
use crate::error::Result;
use crate::text::{number, plain, sentence, tick};

/// The most columns in the chart of importance, and the most outputs with charts.
const MOST_ROWS: usize = 25;
const MOST_OUTPUTS: usize = 5;
/// The opacity of a band; those of several curves share it.
const OPACITY: f64 = 0.3;

/// What a fit has learned from each column.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The target, or several.
    pub target: String,
    /// The number of rows whose cells were exchanged.
    pub rows: usize,
    /// The NLL of these rows.
    pub nll: f64,
    /// Why there are no intervals, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Every column, the most important one first.
    pub importance: Vec<Importance>,
    /// How predictions change with a column, or with one of a pair.
    pub effects: Vec<Effect>,
    /// The training rows that some predictions depend on, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similar: Option<SimilarRows>,
}

/// How much worse a fit predicts if the cells of a column are exchanged between rows.
#[derive(Clone, Debug, Serialize)]
pub struct Importance {
    /// The column.
    pub column: String,
    /// The increase of the NLL per row in nats, with a 95 % interval.
    pub increase: f64,
    /// The lower limit; null for too few rows.
    pub lower: Option<f64>,
    /// The upper limit; null for too few rows.
    pub upper: Option<f64>,
}

/// The mean prediction of rows in which the cells of a column are replaced by one value after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// The column.
    pub column: String,
    /// What is predicted: a target, or the probability of a class.
    pub output: String,
    /// A further column, and the value that its cells are replaced by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<(String, String)>,
    /// One for each value, numbers in order.
    pub points: Vec<EffectPoint>,
}

/// A mean prediction.
#[derive(Clone, Debug, Serialize)]
pub struct EffectPoint {
    /// The value as text.
    pub value: String,
    /// The value of a numeric column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// The mean of the rows, and of all draws of the weights.
    pub mean: f64,
    /// The limits of nine in ten draws of the weights.
    pub lower: f64,
    /// The upper one.
    pub upper: f64,
}

impl Explanation {
    /// Writes the page to `path`, and its charts into the folder `plots` beside it. `part` says which rows these are.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, part: &str, command: &str, config: &str, path: &Path) -> Result<()> {
        let target = plain(&self.target);
        let page = Page {
            title: format!("What a fit of “{target}” has learned"),
            subtitle: format!(
                "From {} {}, whose NLL is {}",
                self.rows,
                plain(part),
                number(self.nll)
            ),
            sections: [
                Some(self.importance()?),
                self.curves()?,
                self.similar.as_ref().map(SimilarRows::section),
            ]
            .into_iter()
            .flatten()
            .collect(),
            command,
            config,
            ..Page::default()
        };
        page.write(path)
    }

    /// The importance of every column, as a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let rows = self.importance.iter().map(|one| {
            let interval = one.lower.zip(one.upper);
            let interval =
                interval.map(|(lower, upper)| format!("{} – {}", number(lower), number(upper)));
            let interval = interval.unwrap_or_else(|| "–".into());
            vec![plain(&one.column), number(one.increase), interval]
        });
        let header = ["column", "increase of the NLL", "95 % interval"];
        Table::new("Every column, the most important one first", header, rows)
    }

    fn importance(&self) -> Result<Section> {
        let text = "How much worse are the predictions, if the cells of a column are exchanged between rows at random? Of columns \
                    that say the same, each may seem unimportant, because the others are still there. A bar that contains the \
                    line is not clearly above zero.";
        let shown = &self.importance[..self.importance.len().min(MOST_ROWS)];
        let bars: Vec<Bar<'_>> = shown
            .iter()
            .map(|one| Bar {
                name: &one.column,
                value: one.increase,
                limits: [one.lower, one.upper].map(|limit| limit.unwrap_or(one.increase)),
                colour: BLUE,
            })
            .collect();
        let intervals = match &self.note {
            None => "The bars are 95 % intervals over rows.".into(),
            Some(note) => sentence(&format!("{note}.")),
        };
        let reading = match self.importance.len() - shown.len() {
            0 => intervals,
            rest => format!("{intervals} The table has {rest} more columns."),
        };
        let bars = Bars {
            axis: "increase of the NLL, nats",
            bars,
            has_zero: true,
            end: f64::INFINITY,
        };
        let figure = bars.figure("importance", "Importance", &reading)?;
        let section = Section::new("importance", "Importance", text);
        Ok(section
            .with_figures(vec![figure])
            .with_tables(vec![self.table()]))
    }

    fn curves(&self) -> Result<Option<Section>> {
        let mut outputs: Vec<&str> = Vec::new();
        for effect in &self.effects {
            if !outputs.contains(&&*effect.output) && outputs.len() < MOST_OUTPUTS {
                outputs.push(&effect.output);
            }
        }
        let mut figures = Vec::new();
        let mut rest: Vec<&Effect> = self
            .effects
            .iter()
            .filter(|effect| outputs.contains(&&*effect.output))
            .collect();
        while let Some(first) = rest.first().copied() {
            let (same, others): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|effect| effect.is_drawn_with(first));
            figures.push(chart(figures.len() + 1, &same)?);
            rest = others;
        }
        if figures.is_empty() {
            return Ok(None);
        }
        let text = "What does the fit predict for these rows, on average, if every row has the same value of a column, and its own \
                    values of all others? The bands and bars contain nine in ten draws of the weights: they show what the fit does \
                    not know about the mean, without noise. Where no row has such a combination of values, the prediction is a guess.";
        Ok(Some(
            Section::new("effects", "Effects", text).with_figures(figures),
        ))
    }
}

impl Effect {
    /// Whether they are curves of one chart.
    fn is_drawn_with(&self, other: &Self) -> bool {
        let given = |effect: &Self| effect.given.as_ref().map(|(column, _)| column.clone());
        self.column == other.column
            && self.output == other.output
            && given(self).is_some()
            && given(self) == given(other)
            || std::ptr::eq(self, other)
    }
}

/// The effects of a column on one output: of a number as curves, of categories as bars.
fn chart(place: usize, effects: &[&Effect]) -> Result<Figure> {
    let first = effects[0];
    let (column, output) = (plain(&first.column), plain(&first.output));
    let (name, title) = (format!("effect-{place}"), format!("{output} by {column}"));
    let label = |effect: &Effect| {
        effect
            .given
            .as_ref()
            .map(|(other, value)| format!("{}: {}", plain(other), plain(value)))
    };
    let labels: Vec<String> = effects.iter().filter_map(|effect| label(effect)).collect();
    let is_number = first.points.iter().all(|point| point.number.is_some());
    if !is_number {
        let series = effects.iter().zip(SERIES.into_iter().cycle());
        let points = series.flat_map(|(effect, colour)| {
            effect
                .points
                .iter()
                .map(move |point| (effect, point, colour))
        });
        let names: Vec<String> = points
            .clone()
            .map(|(effect, point, _)| match &effect.given {
                Some((_, value)) => format!("{}, {}", plain(&point.value), plain(value)),
                None => plain(&point.value),
            })
            .collect();
        let bars = points.zip(&names).map(|((_, point, colour), name)| Bar {
            name,
            value: point.mean,
            limits: [point.lower, point.upper],
            colour,
        });
        let bars = Bars {
            axis: &output,
            bars: bars.collect(),
            has_zero: false,
            end: f64::INFINITY,
        };
        return bars.figure(&name, &title, "The most frequent values, from the first.");
    }
    let curves: Vec<Vec<[f64; 4]>> = effects
        .iter()
        .map(|effect| {
            let points = effect.points.iter();
            points
                .map(|point| {
                    [
                        point.number.unwrap_or(f64::NAN),
                        point.mean,
                        point.lower,
                        point.upper,
                    ]
                })
                .collect()
        })
        .collect();
    let reading = match labels.is_empty() {
        true => "The marks below are the values of the curve: quantiles of the rows.",
        false => "One curve for each value of the other column.",
    };
    Figure::draw(name, title, reading, SIZE, |area| {
        let signs: Vec<Key<'_>> = labels
            .iter()
            .zip(SERIES)
            .map(|(label, colour)| Key::new(label, colour, Sign::Line))
            .collect();
        let area = keys(area, &signs)?;
        let all = || curves.iter().flatten();
        let x = range_of(all().map(|point| point[0]));
        let y = range_of(all().flat_map(|point| [point[2], point[3]]));
        let mut plane = plane(
            &area,
            &Axis::new(&column, x, tick),
            &Axis::new(&output, y, tick),
        )?;
        for (points, colour) in curves.iter().zip(SERIES) {
            let along = |place: usize| points.iter().map(move |point| (point[0], point[place]));
            let outline: Vec<_> = along(2).chain(along(3).rev()).collect();
            let opacity = OPACITY / curves.len() as f64;
            plane.draw_series([Polygon::new(outline, colour.mix(opacity).filled())])?;
            plane.draw_series([PathElement::new(along(1).collect::<Vec<_>>(), line(colour))])?;
            let marks = points.iter().map(|point| {
                PathElement::new(
                    [(point[0], y.0), (point[0], y.0 + 0.03 * (y.1 - y.0))],
                    guide(),
                )
            });
            plane.draw_series(marks)?;
        }
        Ok(())
    })
}
