//! Charts of points with intervals, one below the other.

use plotters::prelude::{Circle, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, TextStyle};

use super::chart::{
    Area, Axis, Drawn, Figure, SIZE, broken_line, guide, letters, letters_of, line, range_of,
    rows_plane,
};
use super::palette::INK;
use crate::error::Result;
use crate::text::{number, shortened, tick};

/// Height of a row in SVG units.
const ROW: u32 = 36;
/// Width of the names, and the longest one.
const NAMES: u32 = 250;
const NAME_LENGTH: usize = 22;
/// The font size of a name that is longer, and the longest of its two lines.
const SMALL: i32 = 16;
const LINE_LENGTH: usize = 31;
/// Width of the part for points beyond the end of the axis.
const BEYOND: u32 = 120;

/// A point with its interval.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    pub(super) value: f64,
    pub(super) limits: [f64; 2],
    pub(super) colour: RGBColor,
}

/// Bars from top to bottom, on an axis with this title, perhaps beside a line at zero.
pub(super) struct Bars<'a> {
    pub(super) axis: &'a str,
    pub(super) bars: Vec<Bar<'a>>,
    pub(super) has_zero: bool,
    /// Points above are drawn beside the axis, behind a break and with their number; infinite for none.
    pub(super) end: f64,
}

impl Bars<'_> {
    pub(super) fn figure(&self, name: &str, title: &str, reading: &str) -> Result<Figure> {
        let size = (SIZE.0, ROW * self.bars.len() as u32 + 90);
        Figure::draw(name, title, reading, size, |area| {
            let (names, chart) = area.split_horizontally(NAMES);
            let is_beyond = |bar: &&Bar<'_>| bar.value > self.end;
            let is_broken = self.bars.iter().any(|bar| is_beyond(&bar));
            let chart = match is_broken {
                true => chart.split_horizontally(SIZE.0 - NAMES - BEYOND).0,
                false => chart,
            };
            let rows = self.bars.len() as f64;
            let shown = self.bars.iter().filter(|bar| !is_beyond(bar));
            let range = range_of(shown.flat_map(|bar| bar.limits));
            let axis = Axis::new(self.axis, range, tick);
            let mut plane = rows_plane(&chart, &axis, rows)?;
            if self.has_zero {
                plane.draw_series([PathElement::new([(0.0, 0.0), (0.0, rows)], guide())])?;
            }
            for (row, bar) in self.bars.iter().enumerate() {
                let y = rows - row as f64 - 0.5;
                let (end, down) = plane.plotting_area().map_coordinate(&(range.1, y));
                draw_name(&names, bar.name, down)?;
                if is_beyond(&bar) {
                    draw_beyond(area, bar, (end, down))?;
                    continue;
                }
                let ends = bar.limits.map(|limit| (limit, y));
                plane.draw_series([PathElement::new(ends, line(bar.colour))])?;
                plane.draw_series([Circle::new((bar.value, y), 6, bar.colour.filled())])?;
            }
            if is_broken {
                let (end, down) = plane.plotting_area().map_coordinate(&(range.1, 0.0));
                broken_line(area, (end, down), (SIZE.0 as i32 - 24, down), guide())?;
            }
            Ok(())
        })
    }
}

/// Writes a name beside its row: in two small lines, if it is long.
fn draw_name(names: &Area<'_>, name: &str, down: i32) -> Drawn {
    let right = NAMES as i32 - 8;
    let write = |text: &str, style: TextStyle<'static>, down: i32| {
        let style = style.pos(Pos::new(HPos::Right, VPos::Center));
        names.draw(&Text::new(text.to_string(), (right, down), style))
    };
    if name.chars().count() <= NAME_LENGTH {
        return write(&shortened(name, NAME_LENGTH), letters(INK), down);
    }
    let (first, second) = lines(name);
    let of_line = |text: &str| shortened(text, LINE_LENGTH);
    match second {
        None => write(&of_line(first), letters_of(INK, SMALL), down),
        Some(second) => {
            let half = SMALL / 2 + 1;
            write(&of_line(first), letters_of(INK, SMALL), down - half)?;
            write(&of_line(second), letters_of(INK, SMALL), down + half)
        }
    }
}

/// A long name in two lines: the first ends at the space nearest to the middle.
fn lines(name: &str) -> (&str, Option<&str>) {
    if name.chars().count() <= LINE_LENGTH {
        return (name, None);
    }
    let middle = name.len() / 2;
    let spaces = name.match_indices(' ').map(|(place, _)| place);
    match spaces.min_by_key(|place| place.abs_diff(middle)) {
        Some(place) => (&name[..place], Some(&name[place + 1..])),
        None => (name, None),
    }
}

/// Draws a point behind a break of its row, which begins at `start`, and its number.
fn draw_beyond(area: &Area<'_>, bar: &Bar<'_>, start: (i32, i32)) -> Drawn {
    const LENGTH: i32 = 32;
    let point = (start.0 + LENGTH, start.1);
    broken_line(area, start, point, line(bar.colour))?;
    area.draw(&Circle::new(point, 6, bar.colour.filled()))?;
    let style = letters_of(INK, 20).pos(Pos::new(HPos::Left, VPos::Center));
    let text = number(bar.value);
    area.draw(&Text::new(text, (point.0 + 11, point.1), style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::palette::BLUE;

    fn figure(values: &[f64], end: f64) -> String {
        let bar = |&value| Bar {
            name: "vifa",
            value,
            limits: [value - 0.1, value + 0.1],
            colour: BLUE,
        };
        let bars = Bars {
            axis: "difference",
            bars: values.iter().map(bar).collect(),
            has_zero: true,
            end,
        };
        bars.figure("a", "A", "Read it.").unwrap().body
    }

    #[test]
    fn a_point_beyond_the_axis_is_drawn_with_its_number() {
        let broken = figure(&[0.0, 0.5, 40.25], 2.0);
        assert_eq!(broken.matches("<circle").count(), 3);
        assert_eq!(broken.matches("40.250").count(), 1, "{broken}");
        // The axis ends near the others.
        assert!(!broken.contains("\n20\n"), "{broken}");
        let whole = figure(&[0.0, 0.5, 1.5], 2.0);
        assert_eq!(whole, figure(&[0.0, 0.5, 1.5], f64::INFINITY));
        assert_eq!(whole.matches("<circle").count(), 3);
    }

    #[test]
    fn long_names_have_two_lines() {
        let name = "vifa, model=mlp:50,50 likelihood=heteroscedastic";
        let expected = ("vifa, model=mlp:50,50", Some("likelihood=heteroscedastic"));
        assert_eq!(lines(name), expected);
        assert_eq!(
            lines("mean-field, model=linear"),
            ("mean-field, model=linear", None)
        );
        let one = "x".repeat(40);
        assert_eq!(lines(&one), (one.as_str(), None));
    }
}
