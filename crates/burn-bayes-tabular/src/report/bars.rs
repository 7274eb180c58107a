//! Charts of points with intervals, one below the other.

use plotters::prelude::{Circle, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::chart::{Axis, Figure, SIZE, guide, letters, line, range_of, rows_plane};
use super::palette::INK;
use crate::error::Result;
use crate::text::{shortened, tick};

/// Height of a row in SVG units.
const ROW: u32 = 36;
/// Width of the names, and the longest one.
const NAMES: u32 = 250;
const NAME_LENGTH: usize = 22;

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
}

impl Bars<'_> {
    pub(super) fn figure(&self, name: &str, title: &str, reading: &str) -> Result<Figure> {
        let size = (SIZE.0, ROW * self.bars.len() as u32 + 90);
        Figure::draw(name, title, reading, size, |area| {
            let (names, chart) = area.split_horizontally(NAMES);
            let rows = self.bars.len() as f64;
            let limits = self.bars.iter().flat_map(|bar| bar.limits);
            let axis = Axis::new(self.axis, range_of(limits), tick);
            let mut plane = rows_plane(&chart, &axis, rows)?;
            if self.has_zero {
                plane.draw_series([PathElement::new([(0.0, 0.0), (0.0, rows)], guide())])?;
            }
            for (row, bar) in self.bars.iter().enumerate() {
                let y = rows - row as f64 - 0.5;
                let ends = bar.limits.map(|limit| (limit, y));
                plane.draw_series([PathElement::new(ends, line(bar.colour))])?;
                plane.draw_series([Circle::new((bar.value, y), 6, bar.colour.filled())])?;
                let (_, down) = plane.plotting_area().map_coordinate(&(bar.value, y));
                let style = letters(INK).pos(Pos::new(HPos::Right, VPos::Center));
                let name = shortened(bar.name, NAME_LENGTH);
                names.draw(&Text::new(name, (NAMES as i32 - 8, down), style))?;
            }
            Ok(())
        })
    }
}
