//! Progress on standard error: a progress bar on a terminal, otherwise lines.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::mem::replace;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn_bayes_data::shell::command_of;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use burn_bayes_tabular::engine::{EpochRecord, Observer, TrainedModel};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::report::{Summary, Table, number};
use burn_bayes_tabular::scores::Baseline;
use burn_bayes_tabular::scores::Scores;

use crate::interruption;
use crate::settings::with_options;

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Whether progress and notes are left out from now on.
pub(crate) fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// A progress bar that is cleared when dropped.
#[derive(Debug)]
struct Bar(ProgressBar);

/// The bars of this process, of which the last is on the terminal: lines are written above it.
static BARS: Mutex<Vec<ProgressBar>> = Mutex::new(Vec::new());

fn bars() -> MutexGuard<'static, Vec<ProgressBar>> {
    BARS.lock().unwrap_or_else(PoisonError::into_inner)
}

const COUNTED: &str = "{msg:<24} {wide_bar} {pos}/{len} {eta}";
const UNCOUNTED: &str = "{spinner} {msg}";

impl Bar {
    /// A bar, if standard error is a terminal.
    fn new(template: &str) -> Option<Self> {
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let is_shown = io::stderr().is_terminal() && !is_quiet();
        is_shown.then(|| {
            let bar = ProgressBar::no_length().with_style(style);
            bars().push(bar.clone());
            Self(bar)
        })
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        bars().pop();
        self.0.finish_and_clear();
    }
}

/// Shows how many of a known number of items are done.
#[derive(Debug)]
pub(crate) struct Counter {
    bar: Option<Bar>,
    name: String,
    all: usize,
    done: AtomicUsize,
}

impl Counter {
    /// A counter at zero.
    pub(crate) fn new(name: &str, all: usize) -> Self {
        let bar = Bar::new(COUNTED).filter(|_| all > 0);
        if let Some(Bar(bar)) = &bar {
            bar.set_length(all as u64);
            bar.set_message(name.to_string());
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self {
            bar,
            name: name.into(),
            all,
            done: AtomicUsize::new(0),
        }
    }

    /// Counts one item, and prints a line about it.
    pub(crate) fn count(&self, what: impl Display) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        tell(format_args!("{} {done}/{}: {what}", self.name, self.all));
        if let Some(Bar(bar)) = &self.bar {
            bar.set_position(done as u64);
        }
    }

    /// Counts one of many items. Without a bar, it prints a line at every tenth of all.
    pub(crate) fn count_quietly(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.bar {
            Some(Bar(bar)) => bar.set_position(done as u64),
            None if done == self.all || done.is_multiple_of(self.all.div_ceil(LINES)) => {
                tell(format_args!("{} {done}/{}", self.name, self.all));
            }
            None => {}
        }
    }
}

/// Shows how many rows are done, of an unknown total.
#[derive(Debug)]
pub(crate) struct RowCounter {
    bar: Option<Bar>,
    rows: usize,
    told: Instant,
}

/// Minimum time between lines without a bar.
const LINE_TIME: Duration = Duration::from_secs(5);

impl RowCounter {
    /// A counter at zero.
    pub(crate) fn new() -> Self {
        Self {
            bar: Bar::new(UNCOUNTED),
            rows: 0,
            told: Instant::now(),
        }
    }

    /// Adds rows.
    pub(crate) fn count(&mut self, rows: usize) {
        self.rows += rows;
        let line = format!("{} rows", self.rows);
        match &self.bar {
            Some(Bar(bar)) => bar.set_message(line),
            None if self.told.elapsed() > LINE_TIME => {
                tell(line);
                self.told = Instant::now();
            }
            None => {}
        }
    }
}

/// Shows the epochs of a fit.
#[derive(Debug)]
pub(crate) struct Console {
    bar: Option<Bar>,
    /// Parts of the training that lines have been printed of.
    parts: usize,
    /// The last R̂.
    r_hat: Option<f64>,
}

/// The number of lines per training without a bar.
const LINES: usize = 10;

impl Console {
    /// Writes to standard error.
    pub(crate) fn new() -> Self {
        Self {
            bar: Bar::new(COUNTED),
            parts: 0,
            r_hat: None,
        }
    }
}

/// Shows the progress, and stops when interrupted.
impl Observer for Console {
    fn learns_noise(&mut self, training: usize, trainings: usize) {
        match &self.bar {
            Some(Bar(bar)) => {
                bar.set_length(trainings as u64);
                bar.set_position(training as u64);
                bar.set_message("estimating the noise");
            }
            None if training == 0 => tell(format_args!(
                "estimating the noise by {trainings}-fold training"
            )),
            None => {}
        }
    }

    fn epoch(
        &mut self,
        record: &EpochRecord,
        _snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        let EpochRecord {
            epoch,
            epochs,
            loss,
            r_hat,
        } = *record;
        self.r_hat = r_hat.or(self.r_hat);
        let state = match self.r_hat {
            Some(r_hat) => format!("loss {loss:.4}, R̂ {r_hat:.2}"),
            None => format!("loss {loss:.4}"),
        };
        match &self.bar {
            Some(Bar(bar)) => {
                bar.set_length(epochs as u64);
                bar.set_position(epoch as u64);
                bar.set_message(state);
            }
            None => {
                // Not every epoch is shown.
                let part = epoch / epochs.div_ceil(LINES);
                if part > replace(&mut self.parts, part) || epoch == epochs {
                    tell(format_args!("epoch {epoch} of {epochs}, {state}"));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn interrupts(&self) -> bool {
        interruption::is_asked()
    }

    fn warn(&mut self, warning: &str) {
        warn(with_options(warning));
    }
}

/// Runs work of unknown duration. A terminal shows its name and the elapsed time; otherwise a line is
/// printed at the end if it took long.
pub(crate) fn busy<T>(what: impl Display, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let bar = Bar::new("{spinner} {msg}, {elapsed}");
    if let Some(Bar(bar)) = &bar {
        bar.set_message(what.to_string());
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    let done = work();
    let seconds = start.elapsed().as_secs();
    if bar.is_none() && start.elapsed() > LINE_TIME {
        tell(format_args!("{what}: {seconds} s"));
    }
    done
}

/// Writes a line to standard output. `main` treats a closed pipe as success.
pub(crate) fn print(line: impl Display) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Writes a line of progress or a note to standard error, unless these are not wanted.
pub(crate) fn tell(line: impl Display) {
    if !is_quiet() {
        say(line);
    }
}

/// Writes a line to standard error, above a bar. Errors are ignored, as they could not be reported.
pub(crate) fn say(line: impl Display) {
    match bars().last() {
        Some(bar) => bar.println(line.to_string()),
        None => {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

/// Writes what should be known of a result to standard error.
pub(crate) fn warn(warning: impl Display) {
    say(format_args!("warning: {warning}"));
}

/// Prints an object as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string(value).map_err(io::Error::from)?)
}

/// Minimum width of the column of score names.
const NAME_WIDTH: usize = 24;

/// Prints all scores, with their intervals.
pub(crate) fn print_scores(scores: &Scores) -> Result<()> {
    let lines = Summary::of(scores).lines;
    let widths = lines.iter().map(|line| line.name.chars().count());
    let width = widths.max().unwrap_or(0).max(NAME_WIDTH);
    for line in lines {
        let interval = line.interval.unwrap_or_default();
        print(format_args!(
            "{:<width$} {:>10}  {interval}",
            line.name, line.value
        ))?;
    }
    Ok(())
}

/// Prints the scores of plain models.
pub(crate) fn print_baselines(scores: &Scores, baselines: &[Baseline]) -> Result<()> {
    let widths = baselines
        .iter()
        .map(|baseline| baseline.name.chars().count());
    let width = widths.max().unwrap_or(0).max(NAME_WIDTH);
    let (_, _, error) = scores.headline();
    print(format_args!(
        "{:<width$} {:>10} {error:>10}  fit's NLL minus theirs",
        "plain models:", "NLL"
    ))?;
    for Baseline {
        name,
        scores,
        absent,
        ..
    } in baselines
    {
        match scores {
            Some(scores) => {
                let (nll, error) = (number(scores.nll), number(scores.error));
                let difference = scores.shown_difference();
                print(format_args!(
                    "{name:<width$} {nll:>10} {error:>10}  {difference}"
                ))?;
            }
            None => {
                let reason = absent.as_deref().unwrap_or_default();
                print(format_args!("{name:<width$} not compared: {reason}"))?;
            }
        }
    }
    Ok(())
}

/// Prints a table; the first column has the names of the rows.
pub(crate) fn print_table(table: &Table) -> Result<()> {
    let mut header = table.header.clone();
    header[0] = format!("by {}:", header[0]);
    let length = |column: usize, row: &Vec<String>| row[column].chars().count();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let lengths = table.rows.iter().map(|row| length(column, row));
            lengths.fold(length(column, &header), usize::max)
        })
        .collect();
    for row in [&header].into_iter().chain(&table.rows) {
        let mut line = format!("{:<width$}", row[0], width = widths[0].max(NAME_WIDTH));
        for (cell, &width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        print(line)?;
    }
    Ok(())
}

/// The command line that started the program, quoted for a shell.
pub(crate) fn command_line() -> String {
    command_of("burn-bayes", std::env::args_os().skip(1))
}
