//! The data of the HTML template, in the order of the page.

use std::path::Path;

use askama::Template;
use burn_bayes_data::Targets;

use super::chart::Figure;
use super::section::{Section, other_task};
use super::summary::Summary;
use super::{Report, ScoredRows, baselines, classification, evaluation, regression, training};
use crate::error::{Result, TabularError};
use crate::files::{at, make_folder, remove, write_whole};
use crate::predict::Predictions;
use crate::rows::RowInputs;
use crate::scores::{JointScores, Scores, Verdict};
use crate::text::plain;

/// The whole page.
#[derive(Debug, Default, Template)]
#[template(path = "report.html")]
pub(crate) struct Page<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) diverged: Option<&'a str>,
    pub(crate) verdict: Option<VerdictPanel>,
    pub(crate) summary: Option<Summary>,
    /// What the intervals of the summary assume.
    pub(crate) assumption: &'static str,
    pub(crate) sections: Vec<Section>,
    pub(crate) command: &'a str,
    pub(crate) config: &'a str,
}

/// A verdict on a fit or a method, with its reasons.
#[derive(Clone, Debug)]
pub struct VerdictPanel {
    /// The class in the style sheet.
    class: &'static str,
    word: String,
    sentences: Vec<String>,
}

impl<'a> Page<'a> {
    /// Draws the charts and tables of a report.
    pub(crate) fn of(report: &Report<'a>) -> Result<Self> {
        let mut sections = Vec::new();
        if let Some(rows) = &report.rows {
            sections.extend(baselines::section(rows.further.baselines, rows.scores));
        }
        sections.extend(training::section(report.training, report.is_sampled)?);
        if let Some(rows) = &report.rows {
            sections.extend(of_predictions(
                rows.predictions,
                rows.scores,
                rows.targets,
                report.target,
                rows.inputs,
            )?);
            sections.extend(evaluation::groups(rows.further.by));
            sections.extend(evaluation::conformal(rows.further.conformal));
            sections.extend(rows.further.costs.map(evaluation::costs));
        }
        if let Some(posterior) = report.posterior {
            sections.push(posterior.section()?);
        }
        Ok(Self {
            title: plain(report.title),
            subtitle: subtitle(report),
            diverged: report.diverged,
            verdict: report.verdict.cloned(),
            summary: report.rows.map(|rows| Summary::of(rows.scores)),
            assumption: match report.rows.and_then(|rows| rows.inputs) {
                Some(inputs) if !inputs.units.are_rows() => {
                    "They resample whole groups, or periods, and assume that these are independent."
                }
                _ => "They assume independent rows.",
            },
            sections,
            command: report.command,
            config: report.config,
        })
    }

    /// The page as text.
    fn html(&self) -> Result<String> {
        self.render().map_err(unprintable)
    }

    /// Writes the page to `path`, and its charts into the folder `plots` beside it.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        save_drawings(self.figures(), path)?;
        write_whole(path, self.html()?.as_bytes())
    }

    /// Every chart of the page.
    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }
}

/// The sections of predictions and their scores; those of several targets one after the other.
fn of_predictions(
    predictions: &Predictions,
    scores: &Scores,
    targets: &Targets,
    target: &str,
    inputs: Option<&RowInputs>,
) -> Result<Vec<Section>> {
    match (predictions, scores) {
        (Predictions::Classes(predictions), Scores::Classification(scores)) => {
            classification::sections(predictions, scores, targets, inputs)
        }
        (Predictions::Reals(_), Scores::Regression(scores)) => {
            regression::sections(predictions, (&**scores).into(), targets, target, inputs)
        }
        (Predictions::Counts(_), Scores::Counts(scores)) => {
            regression::sections(predictions, (&**scores).into(), targets, target, inputs)
        }
        (Predictions::Several(several), Scores::SeveralTargets(scores)) => {
            let Targets::Several(columns) = targets else {
                return Err(other_task());
            };
            let mut sections = Vec::new();
            for (place, ((one, scores), column)) in
                several.iter().zip(&scores.targets).zip(columns).enumerate()
            {
                let (predictions, scores) = (&one.predictions, &scores.scores);
                let of_target = of_predictions(predictions, scores, column, &one.name, inputs)?;
                let of_target = of_target.into_iter();
                sections.extend(of_target.map(|section| section.of_target(&one.name, place)));
            }
            Ok(sections)
        }
        _ => Err(other_task()),
    }
}

impl VerdictPanel {
    /// The verdict, its word and sentences about it.
    pub(crate) fn new(verdict: Verdict, word: String, sentences: Vec<String>) -> Self {
        let class = match verdict {
            Verdict::Trust => "trust",
            Verdict::LookCloser => "look-closer",
            Verdict::DoNotUse => "do-not-use",
        };
        Self {
            class,
            word,
            sentences,
        }
    }
}

/// The folder with the charts of a page, beside it.
const PLOTS: &str = "plots";

/// Saves charts as SVG files into the folder `plots` beside the page at `path`.
pub(crate) fn save_drawings<'f>(
    figures: impl Iterator<Item = &'f Figure>,
    path: &Path,
) -> Result<()> {
    let plots = path.with_file_name(PLOTS);
    make_folder(&plots)?;
    for figure in figures {
        let file = plots.join(format!("{}.svg", figure.name));
        write_whole(&file, drawing(figure)?.as_bytes())?;
    }
    Ok(())
}

/// Removes the charts that are saved beside the page at `path`, and their folder if nothing else is in it.
pub(crate) fn remove_drawings(path: &Path) -> Result<()> {
    let plots = path.with_file_name(PLOTS);
    let Ok(entries) = std::fs::read_dir(&plots) else {
        return Ok(());
    };
    for entry in entries {
        let file = entry.map_err(at(&plots))?.path();
        if is_drawing(&file) {
            remove(&file)?;
        }
    }
    let _ = std::fs::remove_dir(plots);
    Ok(())
}

/// Whether a file begins as the charts of pages do.
fn is_drawing(path: &Path) -> bool {
    let is_svg = path.extension().is_some_and(|extension| extension == "svg");
    let text = is_svg.then(|| std::fs::read_to_string(path).unwrap_or_default());
    text.is_some_and(|text| {
        text.starts_with(DRAWING)
            && text
                .lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("<title>"))
    })
}

/// The beginning of the charts.
const DRAWING: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 "#;

/// A chart as a separate SVG file, with a white background.
fn drawing(figure: &Figure) -> Result<String> {
    Drawing { figure }.render().map_err(unprintable)
}

#[derive(Debug, Template)]
#[template(path = "figure.svg", escape = "html")]
struct Drawing<'a> {
    figure: &'a Figure,
}

fn subtitle(report: &Report<'_>) -> String {
    let target = plain(report.target);
    let Some(ScoredRows { part, scores, .. }) = report.rows else {
        return format!("A fit of “{target}”, without predictions to score");
    };
    let (task, rows, draws) = match scores {
        Scores::Classification(scores) => ("Classification", scores.rows, scores.draws),
        Scores::Regression(scores) => ("Regression", scores.rows, scores.draws),
        Scores::Counts(scores) => ("Counts", scores.rows, scores.draws),
        Scores::SeveralTargets(scores) => match scores.joint {
            JointScores::Numbers { .. } => ("Regression", scores.rows, scores.draws),
            JointScores::Labels { .. } => ("Labels", scores.rows, scores.draws),
        },
    };
    let draws = match (report.posterior, draws) {
        // Samples have no Gaussian.
        (_, 2..) => format!("{draws} draws of the weights"),
        (Some(_), _) => "one draw of the weights".to_string(),
        (None, _) => "a point estimate".to_string(),
    };
    format!("{task} of “{target}”, scored on {rows} {part} with {draws}")
}

/// An error of a template.
pub(crate) fn unprintable(error: askama::Error) -> TabularError {
    TabularError::System(std::io::Error::other(format!(
        "the report cannot be written: {error}"
    )))
}
