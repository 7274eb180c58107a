//! The coverage of prediction intervals by group of rows: by predicted width, and by the most relevant inputs.

use burn_bayes::eval::{GroupCoverage, coverage_by_group};
use plotters::prelude::{Circle, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use crate::error::Result;
use crate::groups::{Groups, QUARTILES, shown};
use crate::order::{selected, spread};
use crate::predict::Predictions;
use crate::relevance::{by_relevance, groups};
use crate::report::chart::{Axis, Figure, Key, SIZE, Sign, guide, keys, letters, line, rows_plane};
use crate::report::palette::{BLUE, INK, MUTED, VERMILION};
use crate::report::section::{Section, Table};
use crate::rows::{RowInputs, Units};
use crate::text::{percent, rounded_percent, shortened, tick};

/// Nominal levels of the intervals.
const LEVELS: [f64; 2] = [0.5, 0.9];
/// Their colours, and their distance from the middle of a row.
const STYLES: [(RGBColor, f64); 2] = [(VERMILION, -0.17), (BLUE, 0.17)];
/// Maximum number of inputs in the chart.
const MOST_INPUTS: usize = 3;
/// Maximum number of rows; more would only narrow the intervals of the chart.
const MOST_ROWS: usize = 20_000;
/// The smallest number of rows of a group that says something.
const FEWEST_ROWS: usize = 5;
/// Maximum length of the name of a group.
const NAME_LENGTH: usize = 22;

/// The section; `None` for few rows.
pub(super) fn section(
    predictions: &Predictions,
    targets: &[f64],
    inputs: Option<&RowInputs>,
) -> Result<Option<Section>> {
    let chosen = spread(targets.len(), MOST_ROWS);
    if chosen.len() < QUARTILES * FEWEST_ROWS {
        return Ok(None);
    }
    let means = predictions.numbers()?.mean();
    let predictions = predictions.of_rows(&chosen);
    let targets = selected(targets, &chosen);
    let mixture = predictions.numbers()?;
    let mut covered = Vec::new();
    let mut widths = Vec::new();
    for level in LEVELS {
        let intervals = mixture.central_intervals(level)?;
        covered.push(intervals.covered(&targets)?);
        widths = intervals.widths();
    }
    let name = format!("width at {}", percent(LEVELS[1]));
    let by_width = Groups::of_computed(&name, &widths)?;
    let units = inputs.map_or_else(
        || Units::rows(chosen.len()),
        |inputs| inputs.units.select(&chosen),
    );
    let mut blocks = vec![Block::of(&by_width, &covered, &units)?];
    if let Some(inputs) = inputs {
        let relevant = by_relevance(&inputs.columns, &means)?.into_iter();
        for index in relevant.take(MOST_INPUTS) {
            let groups = groups(&inputs.columns[index], &chosen)?;
            blocks.push(Block::of(&groups, &covered, &units)?);
        }
    }
    let text = format!(
        "Are the intervals right everywhere, or too wide for some rows and too narrow for others? The groups are quartiles \
             of the predicted width, and quartiles or categories of the inputs that explain most of the variation of the \
             predictions. The intervals are 95 % confidence intervals of a binomial fraction{}.",
        match chosen.len() < means.len() {
            true => format!(", from {MOST_ROWS} rows"),
            false => String::new(),
        }
    );
    let section = Section::new("conditional-coverage", "Coverage by group", text)
        .with_figures(vec![figure(&blocks)?])
        .with_tables(vec![table(&blocks)]);
    Ok(Some(section))
}

/// The groups of one quantity.
struct Block {
    quantity: String,
    rows: Vec<(String, [GroupCoverage; 2])>,
}

impl Block {
    fn of(groups: &Groups, covered: &[Vec<bool>], units: &Units) -> Result<Self> {
        let tested = |place: usize| {
            let (hits, level) = (&covered[place], LEVELS[place]);
            coverage_by_group(&groups.of_rows, hits, level, units.clusters())
        };
        let (narrow, wide) = (tested(0)?, tested(1)?);
        let rows = narrow.into_iter().zip(wide);
        let rows = rows.map(|(narrow, wide)| {
            let name = shown(groups.names[narrow.group].as_deref());
            (shortened(name, NAME_LENGTH), [narrow, wide])
        });
        Ok(Self {
            quantity: groups.by.clone(),
            rows: rows.collect(),
        })
    }
}

fn figure(blocks: &[Block]) -> Result<Figure> {
    /// Height of a row in SVG units.
    const ROW: u32 = 36;
    /// Width of the names of groups.
    const NAMES: u32 = 250;
    let reading = "The points are the fractions of targets inside their intervals, which should be on the dashed lines. A bar \
                   shows how far off chance alone can be: where it does not reach its line, the intervals of this group are \
                   too narrow (left) or too wide (right). By chance, this happens to about one bar in twenty.";
    let count: usize = blocks.iter().map(|block| block.rows.len() + 1).sum();
    let size = (SIZE.0, ROW * count as u32 + 120);
    Figure::draw(
        "conditional-coverage",
        "Coverage by group",
        reading,
        size,
        |area| {
            let labels = LEVELS.map(|level| format!("{} intervals", percent(level)));
            let signs = labels.iter().zip(STYLES);
            let signs: Vec<Key<'_>> = signs
                .map(|(label, (colour, _))| Key::new(label, colour, Sign::Dot))
                .collect();
            let area = keys(area, &signs)?;
            let (names, chart) = area.split_horizontally(NAMES);
            // Coordinates of a plane are those of the whole drawing.
            let top = names.get_pixel_range().1.start;
            let height = count as f64;
            let axis = Axis::new("observed coverage, %", (0.0, 100.0), tick);
            let mut plane = rows_plane(&chart, &axis, height)?;
            for (level, (colour, _)) in LEVELS.into_iter().zip(STYLES) {
                let x = 100.0 * level;
                plane.draw_series((0..count * 2).map(|dash| {
                    let start = f64::from(dash as u32) / 2.0;
                    let style = colour.mix(0.7).stroke_width(2);
                    PathElement::new([(x, start), (x, start + 0.3)], style)
                }))?;
            }
            let mut y = height;
            for block in blocks {
                y -= 1.0;
                let style = letters(INK).pos(Pos::new(HPos::Left, VPos::Center));
                let name = shortened(&block.quantity, 22);
                let (_, down) = plane.plotting_area().map_coordinate(&(0.0, y + 0.4));
                names.draw(&Text::new(name, (4, down - top), style))?;
                for (name, levels) in &block.rows {
                    y -= 1.0;
                    let middle = y + 0.5;
                    let style = letters(MUTED).pos(Pos::new(HPos::Right, VPos::Center));
                    let (_, down) = plane.plotting_area().map_coordinate(&(0.0, middle));
                    let place = (NAMES as i32 - 10, down - top);
                    names.draw(&Text::new(shortened(name, 20), place, style))?;
                    for (found, (colour, offset)) in levels.iter().zip(STYLES) {
                        let y = middle + offset;
                        let limits = [found.interval.lower, found.interval.upper];
                        let bar = limits.map(|limit| (100.0 * limit, y));
                        plane.draw_series([PathElement::new(bar, line(colour))])?;
                        let point = (100.0 * found.coverage, y);
                        plane.draw_series([Circle::new(point, 5, colour.filled())])?;
                    }
                }
                let rule = [(0.0, y), (100.0, y)];
                plane.draw_series([PathElement::new(rule, guide())])?;
            }
            Ok(())
        },
    )
}

fn table(blocks: &[Block]) -> Table {
    let header = ["group", "rows"].map(String::from).into_iter();
    let of_levels = LEVELS.into_iter().flat_map(|level| {
        let level = percent(level);
        [format!("inside {level}"), "95 % interval".into()]
    });
    let cells = |quantity: &str, name: &str, levels: &[GroupCoverage; 2]| {
        let quantity = shortened(quantity, 24);
        let start = [format!("{quantity}: {name}"), levels[0].rows.to_string()];
        let levels = levels.iter().flat_map(|found| {
            let limits = [found.interval.lower, found.interval.upper].map(rounded_percent);
            [rounded_percent(found.coverage), limits.join(" – ")]
        });
        start.into_iter().chain(levels).collect()
    };
    Table::new(
        "Fraction of targets inside their intervals",
        header.chain(of_levels),
        blocks.iter().flat_map(|block| {
            let rows = block.rows.iter();
            rows.map(|(name, levels)| cells(&block.quantity, name, levels))
        }),
    )
}
