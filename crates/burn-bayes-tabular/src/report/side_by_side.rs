//! A page that shows the fits of several methods to the same problems side by side.

use std::path::Path;

use askama::Template;
use burn_bayes_data::{Features, Targets};

use super::chart::Figure;
use super::input_space;
use super::page::{save_drawings, unprintable};
use crate::error::Result;
use crate::files::write_whole;
use crate::predict::Predictions;
use crate::rows::TrainingSet;
use crate::text::{optional, plain, sentence};

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct SideBySide<'a> {
    /// The heading.
    pub title: &'a str,
    /// What to look for.
    pub text: &'a str,
    /// The command line that made it.
    pub command: &'a str,
    /// The problems, from top to bottom.
    pub problems: &'a [Problem],
}

/// A problem and its fits.
#[derive(Clone, Debug)]
pub struct Problem {
    name: String,
    /// What the problem is.
    about: String,
    /// How to read the charts.
    reading: String,
    legend: Figure,
    inputs: Features,
    targets: Targets,
    fits: Vec<FitPanel>,
}

/// One fit: a chart of its predictions over the input space, its scores, and a link to its report.
#[derive(Clone, Debug)]
struct FitPanel {
    figure: Figure,
    diverged: Option<String>,
    /// Names and values.
    scores: Vec<(String, String)>,
    report: String,
}

/// What the page says of a fit beside its chart.
#[derive(Clone, Copy, Debug)]
pub struct FitCaption<'a> {
    /// The name of the method.
    pub method: &'a str,
    /// Why the fit diverged; `None` if it did not.
    pub diverged: Option<&'a str>,
    /// Names and values.
    pub scores: &'a [(&'a str, Option<f64>)],
    /// The address of its report, relative to the page.
    pub report: &'a str,
}

impl Problem {
    /// A problem with these training rows, without fits. The name is part of file names.
    ///
    /// # Errors
    /// If the legend cannot be drawn.
    pub fn new(name: &str, about: &str, rows: &TrainingSet) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            about: sentence(&plain(about)),
            reading: String::new(),
            legend: input_space::legend(&format!("{name}-legend"), rows.target())?,
            inputs: rows.features()?,
            targets: rows.true_targets(),
            fits: Vec::new(),
        })
    }

    /// The inputs of the training rows.
    pub fn inputs(&self) -> &Features {
        &self.inputs
    }

    /// The inputs at which the charts show predictions.
    ///
    /// # Errors
    /// If the rows do not have one or two columns.
    pub fn places(&self) -> Result<Features> {
        input_space::places(&self.inputs)
    }

    /// Adds a fit with these predictions at the [places](Self::places).
    ///
    /// # Errors
    /// If the rows do not have one column and a number as target, or two columns and classes, or the
    /// predictions are not finite.
    pub fn add(&mut self, predictions: &Predictions, caption: FitCaption<'_>) -> Result<()> {
        let name = format!("{}-{}", self.name, caption.method);
        let figure = input_space::chart(
            &name,
            caption.method,
            (&self.inputs, &self.targets),
            predictions,
        )?;
        self.reading.clone_from(&figure.reading);
        let scores = caption.scores.iter();
        self.fits.push(FitPanel {
            figure,
            diverged: caption.diverged.map(String::from),
            scores: scores
                .map(|(name, value)| (name.to_string(), optional(*value)))
                .collect(),
            report: caption.report.into(),
        });
        Ok(())
    }
}

#[derive(Debug, Template)]
#[template(path = "side_by_side.html")]
struct Page<'a> {
    title: String,
    text: &'a str,
    command: &'a str,
    problems: &'a [Problem],
}

/// Writes the page to `path`, and its charts into the folder `plots` beside it.
///
/// # Errors
/// If a file cannot be written.
pub fn write_side_by_side(content: &SideBySide<'_>, path: &Path) -> Result<()> {
    let page = Page {
        title: plain(content.title),
        text: content.text,
        command: content.command,
        problems: content.problems,
    };
    let problems = content.problems.iter();
    let figures = problems.flat_map(|problem| {
        let fits = problem.fits.iter().map(|fit| &fit.figure);
        fits.chain([&problem.legend])
    });
    save_drawings(figures, path)?;
    let page = page.render().map_err(unprintable)?;
    write_whole(path, page.as_bytes())
}
