//! The data of the HTML template, in the order of the page.

use std::path::Path;

use askama::Template;
use burn_bayes_data::Targets;

use super::chart::Figure;
use super::section::{Section, other_task};
use super::summary::Summary;
use super::{
    CheckReport, Report, ScoredRows, baselines, classification, counts, evaluation, palette, ranks,
    regression, training,
};
use crate::assessment::Assessment;
use crate::engine::Verdict;
use crate::error::{Result, TabularError};
use crate::files::{make_folder, write_whole};
use crate::predict::Predictions;
use crate::rows::RowInputs;
use crate::scores::{JointScores, Scores};
use crate::simulation_based_calibration::Check;
use crate::text::{plain, sentence};

/// The whole page.
#[derive(Debug, Template)]
#[template(path = "report.html")]
pub(crate) struct Page<'a> {
    title: String,
    subtitle: String,
    diverged: Option<&'a str>,
    verdict: Option<VerdictPanel>,
    summary: Option<Summary>,
    sections: Vec<Section>,
    command: &'a str,
    config: &'a str,
    dark_rules: String,
}

/// The verdict on the fit, with its reasons.
#[derive(Clone, Debug)]
struct VerdictPanel {
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
        sections.extend(training::section(report.training)?);
        if let Some(rows) = &report.rows {
            sections.extend(of_predictions(
                rows.predictions,
                rows.scores,
                rows.targets,
                report.target,
                rows.inputs,
            )?);
            sections.extend(evaluation::groups(rows.further.by));
            sections.extend(rows.further.conformal.map(evaluation::conformal));
        }
        if let Some(posterior) = report.posterior {
            sections.push(posterior.section()?);
        }
        Ok(Self {
            title: plain(report.title),
            subtitle: subtitle(report),
            diverged: report.diverged,
            verdict: report.assessment.and_then(VerdictPanel::of),
            summary: report.rows.map(|rows| Summary::of(rows.scores)),
            sections,
            command: report.command,
            config: report.config,
            dark_rules: palette::dark_rules(),
        })
    }

    /// Draws the charts and tables of a simulation-based calibration.
    pub(crate) fn of_check(report: &CheckReport<'a>) -> Result<Self> {
        Ok(Self {
            title: plain(report.title),
            subtitle: plain(report.subtitle),
            diverged: None,
            verdict: Some(VerdictPanel::of_check(report.check)),
            summary: None,
            sections: ranks::sections(report.check)?,
            command: report.command,
            config: report.config,
            dark_rules: palette::dark_rules(),
        })
    }

    /// A page of these sections.
    pub(crate) fn of_sections(
        title: &str,
        subtitle: &str,
        sections: Vec<Section>,
        command: &'a str,
        config: &'a str,
    ) -> Self {
        Self {
            title: plain(title),
            subtitle: plain(subtitle),
            diverged: None,
            verdict: None,
            summary: None,
            sections,
            command,
            config,
            dark_rules: palette::dark_rules(),
        }
    }

    /// The page as text.
    pub(crate) fn html(&self) -> Result<String> {
        self.render().map_err(unprintable)
    }

    /// Every chart of the page.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
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
        (Predictions::Reals(predictions), Scores::Regression(scores)) => {
            regression::sections(predictions, scores, targets, target, inputs)
        }
        (Predictions::Counts(predictions), Scores::Counts(scores)) => {
            counts::sections(predictions, scores, targets, target, inputs)
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
    fn of(assessment: &Assessment) -> Option<Self> {
        let verdict = assessment.verdict?;
        // The names of settings have code marks, for a terminal.
        let sentences = assessment.sentences().into_iter();
        Some(Self {
            class: class(verdict),
            word: verdict.to_string(),
            sentences: sentences.map(|text| text.replace('`', "")).collect(),
        })
    }

    fn of_check(check: &Check) -> Self {
        let findings = check.findings().into_iter();
        Self {
            class: class(check.verdict()),
            word: check.word().into(),
            sentences: findings.map(|text| sentence(&format!("{text}."))).collect(),
        }
    }
}

/// The class of a verdict in the style sheet.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Trust => "trust",
        Verdict::LookCloser => "look-closer",
        Verdict::DoNotUse => "do-not-use",
    }
}

/// Saves charts as SVG files into the folder `plots` beside the page at `path`.
pub(crate) fn save_drawings<'f>(
    figures: impl Iterator<Item = &'f Figure>,
    path: &Path,
) -> Result<()> {
    let plots = path.with_file_name("plots");
    make_folder(&plots)?;
    for figure in figures {
        let file = plots.join(format!("{}.svg", figure.name));
        write_whole(&file, drawing(figure)?.as_bytes())?;
    }
    Ok(())
}

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
        (None, _) => "a point estimate".to_string(),
        (Some(_), 1) => "one draw of the weights".to_string(),
        (Some(_), draws) => format!("{draws} draws of the weights"),
    };
    format!("{task} of “{target}”, scored on {rows} {part} with {draws}")
}

/// An error of a template.
pub(crate) fn unprintable(error: askama::Error) -> TabularError {
    TabularError::System(std::io::Error::other(format!(
        "the report cannot be written: {error}"
    )))
}
