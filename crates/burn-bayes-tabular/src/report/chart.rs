//! Common parts of charts: size, axes, legends and SVG output.

use std::io;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingArea, DrawingAreaErrorKind,
    IntoDrawingArea, PathElement, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::palette::{GRID, INK, MUTED};
use super::ticks::{Ruler, Scale, log_tick};
use crate::error::{Result, TabularError};
use crate::text::{shortened, unbroken};

/// Width and height of a chart in SVG units; the page scales it.
pub(crate) const SIZE: (u32, u32) = (640, 420);

/// Font size, large enough to be read on a phone.
const LETTERS: i32 = 25;
/// Average width of a character.
const LETTER_WIDTH: i32 = 11;
const TITLE_LENGTH: usize = 46;

/// A drawing area without axes.
pub(crate) type Area<'b> = DrawingArea<SVGBackend<'b>, Shift>;
/// A drawing area with axes.
pub(crate) type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
/// The result of drawing.
pub(crate) type Drawn<T = ()> = std::result::Result<T, DrawingAreaErrorKind<io::Error>>;

/// A chart with title and caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The file name, without extension.
    pub(crate) name: String,
    /// The title.
    pub(crate) title: String,
    /// The caption: how to read the chart.
    pub(crate) reading: String,
    /// Width and height of the drawing.
    pub(crate) size: (u32, u32),
    /// The SVG elements of the drawing.
    pub(crate) body: String,
}

impl Figure {
    /// Draws a chart of the given size.
    pub(crate) fn draw(
        name: impl Into<String>,
        title: impl Into<String>,
        reading: impl Into<String>,
        size: (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Drawn,
    ) -> Result<Self> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            draw(&area)
                .and_then(|()| area.present())
                .map_err(|error| TabularError::System(io::Error::other(error.to_string())))?;
        }
        // The template writes the outermost element itself, with a label for screen readers.
        let body = svg.split_once(">\n").map_or("", |(_, rest)| rest);
        let body = body.trim_end().trim_end_matches("</svg>");
        Ok(Self {
            name: name.into(),
            title: title.into(),
            reading: unbroken(&reading.into()),
            size,
            body: body.to_string(),
        })
    }
}

/// One axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'t> {
    /// The quantity, with its unit.
    title: &'t str,
    /// The limits, which must differ.
    range: (f64, f64),
    /// The format of tick labels.
    ticks: fn(f64) -> String,
    scale: Scale,
}

impl<'t> Axis<'t> {
    /// An axis from its title, limits and tick format.
    pub(crate) fn new(title: &'t str, range: (f64, f64), ticks: fn(f64) -> String) -> Self {
        Self {
            title,
            range,
            ticks,
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis. Limits and coordinates are decimal logarithms; the labels are the numbers.
    pub(crate) fn logarithmic(title: &'t str, exponents: (f64, f64)) -> Self {
        Self {
            title,
            range: exponents,
            ticks: log_tick,
            scale: Scale::Logarithmic,
        }
    }

    fn ruler(&self) -> Ruler {
        Ruler::new(self.range, self.scale)
    }
}

/// Axes with a grid behind the data.
pub(crate) fn plane<'a, 'b>(
    area: &'a Area<'b>,
    x: &Axis<'_>,
    y: &Axis<'_>,
) -> Drawn<Plane<'a, 'b>> {
    let marks = (area.dim_in_pixel().1 as usize / 60).clamp(3, 6);
    let labels = y.ruler().key_points(BoldPoints(marks));
    let widest = labels.iter().map(|mark| (y.ticks)(*mark).chars().count());
    let widest = LETTER_WIDTH * widest.max().unwrap_or(0) as i32;
    let mut plane = ChartBuilder::on(area)
        .margin_top(14)
        .margin_right(24)
        .margin_left(8)
        .margin_bottom(4)
        .x_label_area_size(70)
        .y_label_area_size(94.max(widest + 40))
        .build_cartesian_2d(x.ruler(), y.ruler())?;
    plane
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(GRID)
        .axis_style(MUTED)
        .x_labels(6)
        .y_labels(marks)
        .set_all_tick_mark_size(4)
        .label_style(letters(MUTED))
        .axis_desc_style(letters(INK))
        .x_label_formatter(&|value| (x.ticks)(*value))
        .y_label_formatter(&|value| (y.ticks)(*value))
        .x_desc(shortened(x.title, TITLE_LENGTH))
        .y_desc(shortened(y.title, TITLE_LENGTH * 3 / 5))
        .draw()?;
    Ok(plane)
}

/// A horizontal axis below `rows` rows of height 1, counted from the bottom.
pub(crate) fn rows_plane<'a, 'b>(
    area: &'a Area<'b>,
    x: &Axis<'_>,
    rows: f64,
) -> Drawn<Plane<'a, 'b>> {
    let mut plane = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(24)
        .margin_bottom(4)
        .x_label_area_size(70)
        .build_cartesian_2d(x.ruler(), Ruler::new((0.0, rows), Scale::Linear))?;
    plane
        .configure_mesh()
        .max_light_lines(0)
        .disable_y_mesh()
        .disable_y_axis()
        .bold_line_style(GRID)
        .axis_style(MUTED)
        .x_labels(5)
        .set_all_tick_mark_size(4)
        .label_style(letters(MUTED))
        .axis_desc_style(letters(INK))
        .x_label_formatter(&|value| (x.ticks)(*value))
        .x_desc(shortened(x.title, TITLE_LENGTH))
        .draw()?;
    Ok(plane)
}

/// The symbol of a legend entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// A curve.
    Line,
    /// Points.
    Dot,
    /// A filled area, with its opacity.
    Patch(f64),
}

/// A legend entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'t> {
    /// The name of the series.
    label: &'t str,
    /// Its colour.
    colour: RGBColor,
    /// Its symbol.
    sign: Sign,
}

impl<'t> Key<'t> {
    /// A legend entry.
    pub(crate) fn new(label: &'t str, colour: RGBColor, sign: Sign) -> Self {
        Self {
            label,
            colour,
            sign,
        }
    }
}

/// Draws a legend along the upper edge, and returns the area below it.
pub(crate) fn keys<'b>(area: &Area<'b>, keys: &[Key<'_>]) -> Drawn<Area<'b>> {
    const ROW: i32 = 30;
    const SIGN: i32 = 26;
    let width = area.dim_in_pixel().0 as i32;
    let (mut x, mut row) = (12, 0);
    for key in keys {
        let label = shortened(key.label, 28);
        let needed = SIGN + 10 + LETTER_WIDTH * label.chars().count() as i32 + 20;
        if x > 12 && x + needed > width {
            (x, row) = (12, row + 1);
        }
        let middle = ROW * row + ROW / 2 + 4;
        match key.sign {
            Sign::Line => area.draw(&PathElement::new(
                [(x, middle), (x + SIGN, middle)],
                line(key.colour),
            ))?,
            Sign::Dot => {
                area.draw(&Circle::new((x + SIGN / 2, middle), 6, key.colour.filled()))?;
            }
            Sign::Patch(opacity) => area.draw(&Rectangle::new(
                [(x, middle - 8), (x + SIGN, middle + 8)],
                key.colour.mix(opacity).filled(),
            ))?,
        }
        let style = letters(INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(label, (x + SIGN + 10, middle), style))?;
        x += needed;
    }
    Ok(area.split_vertically(ROW * (row + 1) + 4).1)
}

/// Draws a horizontal or vertical line, broken near its start by two slanted strokes.
pub(crate) fn broken_line(
    area: &Area<'_>,
    start: (i32, i32),
    end: (i32, i32),
    style: ShapeStyle,
) -> Drawn {
    const BREAK: [i32; 2] = [7, 14];
    let (right, down) = ((end.0 - start.0).signum(), (end.1 - start.1).signum());
    let at = |length: i32| (start.0 + length * right, start.1 + length * down);
    let (x, y) = match down == 0 {
        true => (3, -8),
        false => (8, -3),
    };
    let strokes = BREAK
        .map(at)
        .map(|(middle, height)| [(middle - x, height - y), (middle + x, height + y)]);
    let pieces = [[start, at(BREAK[0])], [at(BREAK[1]), end]];
    let mut lines = strokes.into_iter().chain(pieces);
    lines.try_for_each(|ends| area.draw(&PathElement::new(ends, style)))
}

/// The style of a curve.
pub(crate) fn line(colour: RGBColor) -> ShapeStyle {
    colour.stroke_width(3)
}

/// The style of a reference line.
pub(crate) fn guide() -> ShapeStyle {
    MUTED.stroke_width(2)
}

/// The style of text.
pub(crate) fn letters(colour: RGBColor) -> TextStyle<'static> {
    letters_of(colour, LETTERS)
}

/// The style of text of a given font size.
pub(crate) fn letters_of(colour: RGBColor, size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

/// A non-empty range that contains all finite values, with a margin on both sides.
pub(crate) fn range_of(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.into_iter().filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return (0.0, 1.0);
    }
    let room = 0.05 * (high - low);
    // Equal values still need an axis.
    let room = if room > 0.0 {
        room
    } else {
        0.5 * high.abs().max(1e-3)
    };
    (low - room, high + room)
}

/// A non-empty range from 0 that contains all finite values, with a margin above.
pub(crate) fn range_from_zero(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let highest = values
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    (0.0, if highest > 0.0 { 1.06 * highest } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_never_empty() {
        for values in [
            vec![],
            vec![3.0],
            vec![0.0, 0.0],
            vec![f64::NAN],
            vec![1.0, f64::INFINITY],
        ] {
            for (low, high) in [range_of(values.clone()), range_from_zero(values)] {
                assert!(low < high && low.is_finite() && high.is_finite());
            }
        }
        assert_eq!(range_of([0.0, 10.0]), (-0.5, 10.5));
    }

    #[test]
    fn a_drawing_keeps_nothing_of_its_outermost_element() {
        let figure = Figure::draw("a", "A", "Read it.", SIZE, |area| {
            let area = keys(area, &[Key::new("<b>", INK, Sign::Line)])?;
            let axis = Axis::new("x & y", (0.0, 1.0), crate::text::tick);
            plane(&area, &axis, &axis).map(|_| ())
        })
        .unwrap();
        assert!(figure.body.starts_with('<') && !figure.body.contains("svg"));
        assert!(figure.body.contains("&lt;b&gt;") && figure.body.contains("x &amp; y"));
    }
}
