//! `leaderboard.html`: contenders ranked by their held-out NLL, with paired differences from the best.

use std::path::Path;

use plotters::prelude::{Circle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::bars::{Bar, Bars};
use super::chart::{Axis, Figure, SIZE, broken_line, guide, letters, plane, range_of};
use super::page::Page;
use super::palette::{BLUE, MUTED, VERMILION};
use super::section::{Section, Table};
use crate::error::Result;
use crate::scores::Summary;
use crate::text::{number, optional, plain, tick};
use burn_bayes::eval::Bounded;

/// Maximum number of contenders in the chart of differences.
const MOST_ROWS: usize = 25;
/// Standard errors from a point to the end of its bar.
const BAR: f64 = 2.0;
/// Contenders above this multiple of the median distance from the best, and of the median standard error, are far worse:
/// they are drawn behind a break of the axis.
const FAR: f64 = 4.0;
/// Height of the part above the axis for the far ones, in SVG units.
const ABOVE: u32 = 56;

/// A place on the horizontal axis, the NLL, and the index of the contender.
type Point = (f64, f64, usize);

/// The content of the page.
#[derive(Clone, Debug)]
pub(crate) struct Leaderboard<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// How the scores were computed, and how to read them.
    pub(crate) text: String,
    /// What a contender is: "method", "trial".
    pub(crate) kind: &'static str,
    /// What a standard error is over: "runs", "folds".
    pub(crate) over: &'static str,
    /// The best first; those that cannot be ranked last.
    pub(crate) contenders: Vec<Contender>,
    /// The names of the last cells.
    pub(crate) columns: Vec<String>,
    /// Numeric settings with a chart.
    pub(crate) settings: Vec<SettingValues>,
    pub(crate) command: &'a str,
    /// The settings, as TOML.
    pub(crate) config: &'a str,
}

/// A line of the leaderboard.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    /// The NLL; `None` without scores.
    pub(crate) nll: Option<Summary>,
    /// The NLL minus that of the best, over the runs of both; `None` for the best itself.
    pub(crate) difference: Option<Summary>,
    pub(crate) has_diverged: bool,
    /// Mean time of a fit, in seconds.
    pub(crate) seconds: Option<f64>,
    /// The cells below [`Leaderboard::columns`].
    pub(crate) cells: Vec<String>,
}

/// The values of a numeric setting, one for each contender.
#[derive(Clone, Debug)]
pub(crate) struct SettingValues {
    pub(crate) name: String,
    pub(crate) is_logarithmic: bool,
    pub(crate) values: Vec<f64>,
}

impl Leaderboard<'_> {
    /// Writes the page to `path`, and its charts into the folder `plots` beside it.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let ranking =
            Section::new("ranking", "Ranking", self.text.clone()).with_tables(vec![self.table()]);
        let mut figures = Vec::new();
        figures.extend(self.differences()?);
        figures.extend(self.times()?);
        for setting in &self.settings {
            figures.extend(self.setting(setting)?);
        }
        let charts = Section::new(
            "charts",
            "Charts",
            format!(
                "A point is a {}, and its bar shows {BAR} standard errors to each side.",
                self.kind
            ),
        )
        .with_figures(figures);
        let mut sections = vec![ranking];
        if !charts.figures.is_empty() {
            sections.push(charts);
        }
        let page = Page {
            title: plain(&self.title),
            subtitle: plain(&self.subtitle),
            sections,
            command: self.command,
            config: self.config,
            ..Page::default()
        };
        page.write(path)
    }

    fn table(&self) -> Table {
        let header = [
            self.kind,
            "rank",
            "NLL",
            "standard error",
            "difference from the best",
            "its standard error",
            "seconds of a fit",
        ];
        let row = |(index, contender): (usize, &Contender)| {
            let rank = match contender.nll {
                Some(_) if !contender.has_diverged => (index + 1).to_string(),
                _ => "–".into(),
            };
            let error =
                |summary: Option<Summary>| optional(summary.and_then(|found| found.standard_error));
            let mean = |summary: Option<Summary>| optional(summary.map(|found| found.mean));
            let start = [
                plain(&contender.name),
                rank,
                mean(contender.nll),
                error(contender.nll),
                mean(contender.difference),
                error(contender.difference),
                optional(contender.seconds),
            ];
            start.into_iter().chain(contender.cells.clone()).collect()
        };
        Table::new(
            format!("Every {}, ranked by held-out NLL", self.kind),
            header
                .map(String::from)
                .into_iter()
                .chain(self.columns.clone()),
            self.contenders.iter().enumerate().map(row),
        )
    }

    /// The contenders that are ranked.
    fn ranked(&self) -> impl Iterator<Item = (usize, &Contender, Summary)> {
        let contenders = self.contenders.iter().enumerate();
        contenders
            .filter(|(_, contender)| !contender.has_diverged)
            .filter_map(|(index, contender)| Some((index, contender, contender.nll?)))
    }

    /// The largest mean on an axis with the best.
    fn highest(&self) -> f64 {
        let means: Vec<Summary> = self.ranked().map(|(_, _, nll)| nll).collect();
        highest_shown(&means)
    }

    /// How a chart shows those that are far worse, and what it leaves out, as sentences.
    fn exceptions(&self, far: usize) -> String {
        let kind = self.kind;
        let far = match far {
            0 => String::new(),
            1 => format!(" One {kind} that is far worse is behind the break, with its number."),
            count => {
                format!(
                    " {count} {kind}s that are far worse are behind the break, with their numbers."
                )
            }
        };
        let diverged = match self.contenders.len() - self.ranked().count() {
            0 => String::new(),
            1 => " One that diverged is left out.".into(),
            count => format!(" {count} that diverged are left out."),
        };
        far + &diverged
    }

    fn differences(&self) -> Result<Option<Figure>> {
        let mut shown: Vec<_> = self.ranked().collect();
        let more = match shown.len().saturating_sub(MOST_ROWS) {
            0 => String::new(),
            more => format!(" The table has {more} more."),
        };
        shown.truncate(MOST_ROWS);
        let [(_, _, best), _, ..] = &shown[..] else {
            return Ok(None);
        };
        // Others may have a lower mean, because some of their runs diverged.
        let end = (self.highest() - best.mean).at_least(0.0);
        let value = |contender: &Contender| contender.difference.map_or(0.0, |found| found.mean);
        let is_far = |shown: &&(usize, &Contender, Summary)| value(shown.1) > end;
        let reading = format!(
            "The NLL minus that of the best, paired over {}. A {} whose bar contains the line is not clearly worse than the \
             best.{}{more}",
            self.over,
            self.kind,
            self.exceptions(shown.iter().filter(is_far).count())
        );
        let bars = shown.iter().enumerate().map(|(row, (_, contender, _))| {
            let error = contender.difference.and_then(|found| found.standard_error);
            let (value, half) = (value(contender), BAR * error.unwrap_or(0.0));
            Bar {
                name: &contender.name,
                value,
                limits: [value - half, value + half],
                colour: mark_of(row),
            }
        });
        let bars = Bars {
            axis: "difference in NLL, nats",
            bars: bars.collect(),
            has_zero: true,
            end,
        };
        let title = "Difference from the best";
        bars.figure("leaderboard-differences", title, &reading)
            .map(Some)
    }

    fn times(&self) -> Result<Option<Figure>> {
        let points: Vec<Point> = self
            .ranked()
            .filter_map(|(index, contender, nll)| {
                let seconds = contender.seconds.filter(|&seconds| seconds > 0.0)?;
                Some((seconds.log10(), nll.mean, index))
            })
            .collect();
        if points.len() < 2 {
            return Ok(None);
        }
        let highest = self.highest();
        let (far, near): (Vec<Point>, Vec<Point>) =
            points.into_iter().partition(|point| point.1 > highest);
        let reading = format!(
            "The best are at the bottom, and the fastest at the left. The numbers are ranks.{}",
            self.exceptions(far.len())
        );
        Figure::draw(
            "leaderboard-time",
            "NLL and the time of a fit",
            reading,
            SIZE,
            |area| {
                let below = match far.is_empty() {
                    true => area.clone(),
                    false => area.split_vertically(ABOVE).1,
                };
                let (times, costs) = (
                    range_of(far.iter().chain(&near).map(|point| point.0)),
                    range_of(near.iter().map(|point| point.1)),
                );
                let mut plane = plane(
                    &below,
                    &Axis::logarithmic("seconds of a fit", times),
                    &Axis::new("NLL, nats", costs, tick),
                )?;
                let place = |x: f64, y: f64| plane.plotting_area().map_coordinate(&(x, y));
                let write = |text: String, (x, y): (i32, i32)| {
                    let (side, x) = match x > SIZE.0 as i32 / 2 {
                        true => (HPos::Right, x - 10),
                        false => (HPos::Left, x + 10),
                    };
                    let style = letters(MUTED).pos(Pos::new(side, VPos::Center));
                    area.draw(&Text::new(text, (x, y), style))
                };
                for &(x, nll, index) in &far {
                    let point = (place(x, costs.1).0, ABOVE as i32 / 2);
                    area.draw(&Circle::new(point, 6, mark_of(index).filled()))?;
                    write(format!("{}: {}", index + 1, number(nll)), point)?;
                }
                if !far.is_empty() {
                    let (x, y) = place(times.0, costs.1);
                    broken_line(area, (x, y), (x, 8), guide())?;
                }
                for &(x, y, index) in &near {
                    write((index + 1).to_string(), place(x, y))?;
                }
                let marks = near.iter();
                let marks =
                    marks.map(|&(x, y, index)| Circle::new((x, y), 6, mark_of(index).filled()));
                plane.draw_series(marks)?;
                Ok(())
            },
        )
        .map(Some)
    }

    fn setting(&self, setting: &SettingValues) -> Result<Option<Figure>> {
        let coordinate = |value: f64| match setting.is_logarithmic {
            true => value.log10(),
            false => value,
        };
        let highest = self.highest();
        let points: Vec<Point> = self
            .ranked()
            .filter(|(_, _, nll)| nll.mean <= highest)
            .map(|(index, _, nll)| (coordinate(setting.values[index]), nll.mean, index))
            .filter(|point| point.0.is_finite())
            .collect();
        if points.len() < 2 {
            return Ok(None);
        }
        let values = setting.values.iter();
        let all = values.filter(|value| value.is_finite()).count();
        let left_out = match all - points.len() {
            0 => String::new(),
            1 => " One that diverged or is far worse is left out.".into(),
            count => format!(" {count} that diverged or are far worse are left out."),
        };
        let reading = format!(
            "One point for each trial; the best is marked. If the best trials crowd at one end, a wider range may have better \
             ones.{left_out}"
        );
        let title = setting.name.replace('_', " ");
        let name = format!("trials-{}", setting.name.replace('_', "-"));
        Figure::draw(name, format!("NLL by {title}"), reading, SIZE, |area| {
            let range = range_of(points.iter().map(|point| point.0));
            let x = match setting.is_logarithmic {
                true => Axis::logarithmic(&title, range),
                false => Axis::new(&title, range, tick),
            };
            let costs = range_of(points.iter().map(|point| point.1));
            let mut plane = plane(area, &x, &Axis::new("NLL, nats", costs, tick))?;
            // The best last, on top.
            for &(x, y, index) in points.iter().rev() {
                plane.draw_series([Circle::new((x, y), 6, mark_of(index).mix(0.8).filled())])?;
            }
            Ok(())
        })
        .map(Some)
    }
}

/// The best stands out.
fn mark_of(index: usize) -> RGBColor {
    match index {
        0 => VERMILION,
        _ => BLUE,
    }
}

/// The largest mean in a chart with the best.
fn highest_shown(ranked: &[Summary]) -> f64 {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let means: Vec<f64> = ranked.iter().map(|nll| nll.mean).collect();
    let errors = ranked.iter().filter_map(|nll| nll.standard_error).collect();
    let best = means.iter().copied().fold(f64::INFINITY, f64::at_most);
    let error = median(errors).unwrap_or(0.0);
    median(means).map_or(best, |median| best + FAR * error.at_least(median - best))
}

/// A p-value of the tables; a dash without a test.
pub(crate) fn shown_p_value(p_value: Option<f64>) -> String {
    match p_value {
        Some(p_value) if p_value < 1e-4 => "< 0.0001".into(),
        Some(p_value) => number(p_value),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(means: &[f64], error: f64) -> usize {
        let summary = |&mean| Summary {
            mean,
            standard_error: Some(error),
            runs: 6,
        };
        let ranked: Vec<Summary> = means.iter().map(summary).collect();
        let highest = highest_shown(&ranked);
        ranked.iter().filter(|nll| nll.mean <= highest).count()
    }

    #[test]
    fn only_contenders_far_beyond_the_errors_are_far() {
        // The first three are nearly equal, the others within one standard error.
        assert_eq!(shown(&[5.4448, 5.4455, 5.4456, 5.45, 5.458], 0.017), 5);
        assert_eq!(shown(&[1.0, 1.1, 1.2, 1.3, 40.0], 0.01), 4);
        assert_eq!(shown(&[1.0], 0.01), 1);
    }

    /// A page whose contenders have these NLLs and names, the best first.
    fn page(contenders: &[(f64, &str)]) -> String {
        let summary = |mean| Summary {
            mean,
            standard_error: Some(0.01),
            runs: 6,
        };
        let best = contenders[0].0;
        let contender = |(place, &(nll, name)): (usize, &(f64, &str))| Contender {
            name: name.into(),
            nll: Some(summary(nll)),
            difference: (place > 0).then(|| summary(nll - best)),
            has_diverged: false,
            seconds: Some(1.0 + place as f64),
            cells: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderboard.html");
        let leaderboard = Leaderboard {
            title: "Comparison".into(),
            subtitle: "Six runs of each".into(),
            text: "Means over runs.".into(),
            kind: "method",
            over: "runs",
            contenders: contenders.iter().enumerate().map(contender).collect(),
            columns: Vec::new(),
            settings: Vec::new(),
            command: "burn-bayes compare",
            config: "",
        };
        leaderboard.write(&path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_far_worse_contender_stays_visible_behind_a_break() {
        let near = [(1.0, "map"), (1.1, "vifa"), (1.2, "swag"), (1.3, "slang")];
        let whole = page(&near);
        assert_eq!(whole.matches("<circle").count(), 2 * 4);
        assert!(!whole.contains("behind the break"), "{whole}");
        let long = "vadam, model=linear likelihood=heteroscedastic";
        let broken = page(&[&near[..], &[(40.0, long)]].concat());
        assert_eq!(broken.matches("<circle").count(), 2 * 5);
        assert_eq!(broken.matches("behind the break").count(), 2);
        // The numbers beside the points of both charts.
        assert!(
            broken.contains("39.000") && broken.contains("5: 40.000"),
            "{broken}"
        );
        let row = format!("<th scope=\"row\" class=\"long\">{long}</th>");
        assert!(broken.contains(&row), "{broken}");
    }
}
