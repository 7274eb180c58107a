//! The ranks of a simulation-based calibration.

use burn_bayes::eval::RankDeviation;
use plotters::prelude::{PathElement, Polygon, Rectangle};
use plotters::style::{Color, RGBColor};

use super::{Check, QuantityCheck};
use crate::error::Result;
use crate::report::chart::{Axis, Figure, SIZE, guide, line, plane, range_from_zero, range_of};
use crate::report::palette::{BLUE, MUTED, VERMILION};
use crate::report::section::{Section, Table};
use crate::text::{number, percent, plain, tick};

/// The largest number of bars of a histogram.
const MOST_BARS: usize = 20;
/// The expected number of ranks of a bar, at least.
const FEWEST_RANKS: usize = 10;

/// A table of the tests, histograms, and cumulative distributions.
pub(crate) fn sections(check: &Check) -> Result<Vec<Section>> {
    let of_each = |draw: &dyn Fn(usize, &QuantityCheck) -> Result<Figure>| {
        let numbered = check.quantities.iter().enumerate();
        numbered
            .map(|(index, quantity)| draw(index + 1, quantity))
            .collect::<Result<Vec<_>>>()
    };
    let tests = format!(
        "A test of uniform ranks for each quantity. A p-value below {} is significant, so that exact \
         posteriors pass all tests with a probability of at least 99 %.",
        number(1.0 - check.level())
    );
    let histograms = "How many posterior draws are below the true value? The grey band contains 95 % of the \
         random variation of a bar under exact posteriors. A ∪ shape means that posteriors are too \
         narrow, a ∩ shape that they are too wide, and a slope that they are biased.";
    let curves = format!(
        "The cumulative distribution of the ranks minus that of uniform ranks. The grey band holds \
         for all ranks at once, and for all quantities together: under exact posteriors, no curve \
         leaves its band with a probability of at least {}.",
        percent(0.99)
    );
    Ok(vec![
        Section::new("tests", "Tests", tests).with_tables(vec![table(check)]),
        Section::new("histograms", "Histograms of the ranks", histograms)
            .with_figures(of_each(&histogram)?),
        Section::new("ecdf", "Cumulative distributions", curves).with_figures(of_each(
            &|index, quantity| ecdf(index, quantity, check.level()),
        )?),
    ])
}

fn table(check: &Check) -> Table {
    let header = ["quantity", "p-value", "posteriors"].map(String::from);
    let row = |quantity: &QuantityCheck| {
        let deviation = quantity.deviation.map_or("–", RankDeviation::name);
        vec![
            plain(&quantity.name),
            number(quantity.p_value),
            deviation.into(),
        ]
    };
    Table::new(
        "Tests of uniform ranks",
        header,
        check.quantities.iter().map(row),
    )
}

/// Deviating quantities stand out.
fn colour(quantity: &QuantityCheck) -> RGBColor {
    match quantity.deviation {
        None => BLUE,
        Some(_) => VERMILION,
    }
}

fn reading(quantity: &QuantityCheck) -> String {
    let p_value = number(quantity.p_value);
    match quantity.deviation {
        None => format!("p-value {p_value}."),
        Some(deviation) => format!("p-value {p_value}: {deviation}."),
    }
}

fn histogram(index: usize, quantity: &QuantityCheck) -> Result<Figure> {
    let ranks = &quantity.ranks;
    let cells = ranks.draws() + 1;
    let most = (ranks.simulations() / FEWEST_RANKS).clamp(1, MOST_BARS.min(cells));
    // Equal bars if there are enough of them.
    let equal = (1..=most).rev().find(|&bars| cells.is_multiple_of(bars));
    let bars = equal.filter(|bars| 2 * bars > most).unwrap_or(most);
    let bins = ranks.histogram(bars)?;
    let heights = bins.iter().map(|bin| bin.count as f64 / bin.expected);
    let heights: Vec<f64> = heights.collect();
    // The number of ranks of a bar is binomial.
    let share = 1.0 / bars as f64;
    let chance = 1.96 * ((1.0 - share) / (share * ranks.simulations() as f64)).sqrt();
    let band = ((1.0 - chance).max(0.0), 1.0 + chance);
    Figure::draw(
        format!("histogram-{index}"),
        plain(&quantity.name),
        reading(quantity),
        SIZE,
        |area| {
            let highest = heights.iter().copied().chain([band.1]);
            let mut plane = plane(
                area,
                &Axis::new("share of draws below the truth", (0.0, 1.0), tick),
                &Axis::new("ranks, relative", range_from_zero(highest), tick),
            )?;
            let chance = [(0.0, band.0), (1.0, band.1)];
            plane.draw_series([Rectangle::new(chance, MUTED.mix(0.25).filled())])?;
            plane.draw_series(heights.iter().enumerate().map(|(bar, &height)| {
                let left = bar as f64 * share;
                let corners = [(left + 0.004, 0.0), (left + share - 0.004, height)];
                Rectangle::new(corners, colour(quantity).mix(0.75).filled())
            }))?;
            plane.draw_series([PathElement::new([(0.0, 1.0), (1.0, 1.0)], guide())])?;
            Ok(())
        },
    )
}

fn ecdf(index: usize, quantity: &QuantityCheck, level: f64) -> Result<Figure> {
    let ecdf = quantity.ranks.ecdf(level)?;
    let points = ecdf.points().iter();
    let ends = |inner: Vec<(f64, f64)>| {
        let ends = [(0.0, 0.0)].into_iter().chain(inner);
        ends.chain([(1.0, 0.0)]).collect::<Vec<_>>()
    };
    let lower = ends(
        points
            .clone()
            .map(|at| (at.probability, at.lower))
            .collect(),
    );
    let upper = ends(
        points
            .clone()
            .map(|at| (at.probability, at.upper))
            .collect(),
    );
    let curve = ends(points.map(|at| (at.probability, at.difference)).collect());
    Figure::draw(
        format!("ecdf-{index}"),
        plain(&quantity.name),
        reading(quantity),
        SIZE,
        |area| {
            let all = lower.iter().chain(&upper).chain(&curve);
            let mut plane = plane(
                area,
                &Axis::new("share of draws below the truth", (0.0, 1.0), tick),
                &Axis::new("difference", range_of(all.map(|at| at.1)), tick),
            )?;
            let outline: Vec<_> = lower.iter().chain(upper.iter().rev()).copied().collect();
            plane.draw_series([Polygon::new(outline, MUTED.mix(0.25).filled())])?;
            plane.draw_series([PathElement::new([(0.0, 0.0), (1.0, 0.0)], guide())])?;
            plane.draw_series([PathElement::new(curve, line(colour(quantity)))])?;
            Ok(())
        },
    )
}
