//! The table of scores, and the headline scores above it.

use crate::scores::{Lines, ScoreLine, Scores};
use crate::text::{number_like, optional, unbroken};

/// All scores of a report.
#[derive(Clone, Debug)]
pub struct Summary {
    /// One line for each score, the most important ones first.
    pub lines: Vec<SummaryLine>,
    /// Reasons for missing intervals.
    pub(crate) notes: Vec<String>,
}

/// A formatted score.
#[derive(Clone, Debug)]
pub struct SummaryLine {
    /// Its name.
    pub name: String,
    /// The value, or a dash.
    pub value: String,
    /// The interval.
    pub interval: Option<String>,
    /// Which values are better.
    pub(crate) better: &'static str,
    /// The meaning of the score, and the reason if the value is missing.
    pub(crate) meaning: String,
    /// The reason if only the interval is missing.
    reason: Option<String>,
    /// Whether it is one more of several similar scores.
    is_further: bool,
}

/// Number of headline scores.
const HEADLINES: usize = 4;

impl Summary {
    /// Formats scores.
    pub fn of(scores: &Scores) -> Self {
        let lines = scores.lines().into_iter().map(SummaryLine::of);
        let lines: Vec<SummaryLine> = lines.collect();
        let notes = notes(&lines);
        Self { lines, notes }
    }

    /// The lines that a page shows, and those that it folds, if there are any.
    pub(crate) fn groups(&self) -> Vec<(bool, Vec<&SummaryLine>)> {
        let group = |is_further| {
            let lines = self.lines.iter();
            (
                is_further,
                lines.filter(|line| line.is_further == is_further).collect(),
            )
        };
        let groups: [(bool, Vec<_>); 2] = [group(false), group(true)];
        groups
            .into_iter()
            .filter(|(_, lines)| !lines.is_empty())
            .collect()
    }

    /// The headline scores.
    pub(crate) fn headlines(&self) -> &[SummaryLine] {
        &self.lines[..HEADLINES.min(self.lines.len())]
    }
}

/// One note for each reason, with its scores.
fn notes(lines: &[SummaryLine]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        let Some(reason) = &line.reason else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&line.name),
            None => reasons.push((reason, vec![&line.name])),
        }
    }
    let note = |(reason, names): (&str, Vec<&str>)| {
        let reason = reason.strip_prefix("no interval: ").unwrap_or(reason);
        format!("No interval for {}: {reason}.", names.join(", "))
    };
    reasons.into_iter().map(note).collect()
}

impl SummaryLine {
    fn of(line: ScoreLine) -> Self {
        let score = line.score;
        let interval = score.value.zip(score.interval).map(|(value, interval)| {
            let limit = |limit| number_like(limit, value);
            format!("{} – {}", limit(interval.lower), limit(interval.upper))
        });
        let (meaning, reason) = match (score.value, score.absent) {
            (None, Some(absent)) => (
                format!("{} Not defined here: {absent}.", line.meaning),
                None,
            ),
            (_, reason) => (line.meaning, reason),
        };
        Self {
            name: line.title,
            value: optional(score.value),
            interval,
            better: line.spec.better.words(),
            meaning: unbroken(&meaning),
            reason,
            is_further: line.spec.is_further,
        }
    }
}
