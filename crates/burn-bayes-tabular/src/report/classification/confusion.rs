//! The confusion matrix as a heat map, with precision and recall.

use plotters::prelude::{Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use crate::error::Result;
use crate::report::chart::{Area, Drawn, Figure, SIZE, letters_of};
use crate::report::palette::{BLUE, GRID, INK, MUTED, VERMILION};
use crate::scores::ClassificationScores;
use crate::text::shortened;

/// Maximum number of classes with numbers in the cells.
const MOST_NUMBERED: usize = 12;
/// Maximum number of classes of a map.
const MOST_CLASSES: usize = 60;
/// Width of the names of classes, in SVG units.
const NAMES: i32 = 150;
/// Width of the column of recalls.
const RATES: i32 = 76;
/// Height of a line of text.
const TEXT: i32 = 30;
/// Width of all cells together.
const CELLS: i32 = SIZE.0 as i32 - NAMES - 2 * RATES - 8;
/// Opacity of a cell that has all rows of its class; text stays readable on it in both themes.
const FULL: f64 = 0.5;

/// The map; `None` for too many classes.
pub(super) fn heat_map(scores: &ClassificationScores) -> Result<Option<Figure>> {
    let count = scores.classes.len();
    if count > MOST_CLASSES {
        return Ok(None);
    }
    let map = HeatMap {
        scores,
        width: CELLS / count as i32,
        height: (CELLS / count as i32).min(64),
    };
    let legend = match map.is_numbered() {
        true => {
            "The numbers are rows. Under each column is the precision, the percentage of these predictions that is correct; \
                 right of each row is the recall, the percentage of the rows of the class that is found."
        }
        false => "The classes have the order of the scores file.",
    };
    let reading = format!(
        "One row for each true class, by predicted class. Blue is correct and orange is wrong; the stronger the colour, the larger \
         the share of the true class. {legend}"
    );
    let height = map.top() + map.height * count as i32 + TEXT + 12;
    let size = (SIZE.0, height as u32);
    let title = "Confusion of classes";
    Figure::draw("confusion", title, reading, size, |area| map.draw(area)).map(Some)
}

struct HeatMap<'a> {
    scores: &'a ClassificationScores,
    width: i32,
    height: i32,
}

impl HeatMap<'_> {
    fn is_numbered(&self) -> bool {
        self.scores.classes.len() <= MOST_NUMBERED
    }

    /// Where the cells begin.
    fn top(&self) -> i32 {
        2 * TEXT + 4
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let count = self.scores.classes.len() as i32;
        let right = NAMES + self.width * count;
        let heading = |text: &str, x: i32, across| write(area, text, (x, TEXT / 2), across, INK);
        heading("true", NAMES - 10, HPos::Right)?;
        heading("predicted", NAMES, HPos::Left)?;
        if self.is_numbered() {
            heading("recall, %", right + RATES - 6, HPos::Right)?;
            heading("rows", right + 2 * RATES, HPos::Right)?;
        }
        for (class, (counts, of_class)) in self
            .scores
            .confusion
            .iter()
            .zip(&self.scores.by_class)
            .enumerate()
        {
            let y = self.top() + self.height * class as i32;
            for (predicted, &rows) in counts.iter().enumerate() {
                let colour = if predicted == class { BLUE } else { VERMILION };
                let share = rows as f64 / of_class.rows.max(1) as f64;
                let x = NAMES + self.width * predicted as i32;
                self.cell(area, (x, y), colour, share, rows)?;
            }
            if self.is_numbered() {
                let middle = y + self.height / 2;
                let text =
                    |text: &str, x, colour| write(area, text, (x, middle), HPos::Right, colour);
                text(&self.name(class), NAMES - 10, INK)?;
                text(&whole_percent(of_class.recall), right + RATES - 6, INK)?;
                text(&of_class.rows.to_string(), right + 2 * RATES, MUTED)?;
                let x = NAMES + self.width * class as i32 + self.width / 2;
                let bottom = self.top() + self.height * count + TEXT / 2 + 6;
                let below = |text: &str, y| self.small(area, text, (x, y), INK);
                below(&whole_percent(of_class.precision), bottom)?;
                below(&self.short_name(class), TEXT + TEXT / 2)?;
            }
        }
        if self.is_numbered() {
            let bottom = self.top() + self.height * count + TEXT / 2 + 6;
            write(area, "precision, %", (NAMES - 10, bottom), HPos::Right, INK)?;
        }
        Ok(())
    }

    fn cell(
        &self,
        area: &Area<'_>,
        (x, y): (i32, i32),
        colour: RGBColor,
        share: f64,
        rows: usize,
    ) -> Drawn {
        let corners = [(x, y), (x + self.width, y + self.height)];
        if rows > 0 {
            // A single row of many is still visible.
            let opacity = FULL * (0.08 + 0.92 * share);
            area.draw(&Rectangle::new(corners, colour.mix(opacity).filled()))?;
        }
        area.draw(&Rectangle::new(corners, GRID.stroke_width(1)))?;
        if self.is_numbered() && rows > 0 {
            let middle = (x + self.width / 2, y + self.height / 2);
            self.small(area, &rows.to_string(), middle, INK)?;
        }
        Ok(())
    }

    /// The name of a class, after its number if columns have numbers.
    fn name(&self, class: usize) -> String {
        let name = shortened(&self.scores.classes[class], 12);
        match self.has_named_columns() {
            true => name,
            false => format!("{}: {}", class + 1, shortened(&name, 9)),
        }
    }

    fn short_name(&self, class: usize) -> String {
        match self.has_named_columns() {
            true => shortened(&self.scores.classes[class], self.letters()),
            false => (class + 1).to_string(),
        }
    }

    /// Number of letters that fit into a column.
    fn letters(&self) -> usize {
        self.width as usize / 11
    }

    /// Whether columns have names, because they are wide, or because all names are short.
    fn has_named_columns(&self) -> bool {
        let mut names = self.scores.classes.iter();
        self.letters() >= 7 || names.all(|name| name.chars().count() <= self.letters())
    }

    /// Centred text that fits into a column.
    fn small(&self, area: &Area<'_>, text: &str, at: (i32, i32), colour: RGBColor) -> Drawn {
        let size = (self.width * 3 / 2 / text.chars().count().max(1) as i32).clamp(9, 20);
        let style = letters_of(colour, size).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new(text.to_string(), at, style))
    }
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), across: HPos, colour: RGBColor) -> Drawn {
    let style = letters_of(colour, 20).pos(Pos::new(across, VPos::Center));
    area.draw(&Text::new(text.to_string(), at, style))
}

fn whole_percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".into(), |rate| format!("{:.0}", 100.0 * rate))
}
