//! The sections of what an evaluation adds to the scores: groups of rows, and conformal sets or intervals. The
//! console shows the same tables.

use super::section::{Section, Table};
use super::shown_p_value;
use crate::groups::shown;
use crate::scores::{
    ConformalScores, CostScores, CoverageByPart, GroupTaskScores, Interval, ScoresByGroup,
};
use crate::text::{number, optional, percent, plain, sentence};

impl ScoresByGroup {
    /// The scores as a table, whose first header is the column.
    #[must_use]
    pub fn table(&self) -> Table {
        let of_task: &[&str] = match self.is_classification() {
            true => &["error rate", "expected error", "ECE", "Brier score"],
            false => &["RMSE", "in 50 %", "width", "in 90 %", "width"],
        };
        let by = &*of_target(&self.column, self.target.as_deref());
        let header = [by, "rows", "NLL"].into_iter();
        let header = header.chain(of_task.iter().copied()).chain(["p-value"]);
        let rows = self.groups.iter().map(|group| {
            let name = shown(group.group.as_deref());
            let mark = if group.is_small { " *" } else { "" };
            let nll = match group.nll_standard_error {
                Some(error) => format!("{} ± {}", number(group.nll), number(error)),
                None => number(group.nll),
            };
            let of_task = match &group.of_task {
                GroupTaskScores::Classification {
                    error_rate,
                    mean_confidence,
                    ece,
                    brier,
                } => vec![*error_rate, 1.0 - mean_confidence, *ece, *brier],
                GroupTaskScores::Regression { rmse, intervals } => {
                    let intervals = intervals.iter();
                    let intervals = intervals.flat_map(|found| [found.coverage, found.mean_width]);
                    [*rmse].into_iter().chain(intervals).collect()
                }
            };
            let cells = [plain(&format!("{name}{mark}")), group.rows.to_string(), nll];
            let scores = of_task.into_iter().map(number);
            let p_value = shown_p_value(Some(group.adjusted_p_value));
            cells.into_iter().chain(scores).chain([p_value]).collect()
        });
        let table = Table::new(format!("Scores by {}", plain(by)), header.map(plain), rows);
        let terms = 1..table.header.len();
        table.with_terms(terms)
    }

    /// How to read the table, in sentences.
    #[must_use]
    pub fn notes(&self) -> Vec<&'static str> {
        let small = "* fewer than 30 rows: these scores are uncertain, the ECE most of all.";
        let tested = match self.is_classification() {
            true => {
                "p-value: whether the accuracy of the group differs from its mean confidence, corrected for the number of groups."
            }
            false => {
                "p-value: whether the 90 % intervals cover less than 90 % of the group, corrected for the number of groups."
            }
        };
        let has_small = self.groups.iter().any(|group| group.is_small);
        has_small
            .then_some(small)
            .into_iter()
            .chain([tested])
            .collect()
    }

    fn is_classification(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| matches!(group.of_task, GroupTaskScores::Classification { .. }))
    }
}

impl ConformalScores {
    /// The coverage of all rows, with its interval, and the mean size or width.
    #[must_use]
    pub fn headline(&self) -> String {
        let (what, mean) = match (self.mean_size, self.mean_width) {
            (Some(size), _) => ("size", size),
            (None, width) => ("width", width.unwrap_or(f64::NAN)),
        };
        let target = self.target.as_ref();
        let target = target.map_or_else(String::new, |target| format!("{target}: "));
        format!(
            "{target}coverage {} {}, mean {what} {}",
            number(self.coverage),
            limits(&self.interval),
            number(mean)
        )
    }

    /// The coverage of parts of the rows: a table for each property, which is its first header.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let table = |CoverageByPart { by, parts }: &CoverageByPart| {
            let rows = parts.iter().map(|part| {
                vec![
                    plain(shown(part.part.as_deref())),
                    part.rows.to_string(),
                    number(part.coverage),
                    limits(&part.interval),
                    shown_p_value(Some(part.adjusted_p_value)),
                ]
            });
            let by = &*of_target(by, self.target.as_deref());
            let header = [by, "rows", "coverage", "95 % interval", "p-value"];
            Table::new(
                format!("Coverage by {}", plain(by)),
                header.map(plain),
                rows,
            )
            .with_terms(1..5)
        };
        self.parts.iter().map(table).collect()
    }

    /// How to read the tables, in a sentence.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "p-value: whether less than {} of the rows of the part are covered, corrected for the number of parts; it allows \
             for the chance of the held-out rows.",
            self.level
        )
    }
}

impl CostScores {
    /// The mean cost of every rule, with the rows that it decides as each class, unless the classes are many.
    #[must_use]
    pub fn table(&self) -> Table {
        let shown = match self.classes.len() {
            count if count > Self::MOST_CLASSES => 0,
            count => count,
        };
        let rows = self.rules.iter().map(|found| {
            let interval = found.mean_cost.interval.as_ref();
            let cells = [
                plain(&found.rule),
                optional(found.mean_cost.value),
                interval.map_or_else(String::new, limits),
            ];
            let decided = found.decided.iter().take(shown).map(usize::to_string);
            let abstained = [found.abstained.to_string()];
            cells.into_iter().chain(decided).chain(abstained).collect()
        });
        let header = ["decision", "mean cost", "95 % interval"].map(String::from);
        let of_classes = self.classes.iter().take(shown);
        let of_classes = of_classes.map(|class| format!("as {}", plain(class)));
        let header = header.into_iter().chain(of_classes);
        let header = header.chain(["abstained".into()]);
        Table::new("Mean cost of decisions", header, rows)
    }
}

/// The section of costs.
pub(super) fn costs(scores: &CostScores) -> Section {
    let text = "What do decisions cost on these rows? The action of least expected cost is taken for each row by its \
                probabilities; the other rules are for comparison.";
    Section::new("costs", "Costs", text).with_tables(vec![scores.table()])
}

/// The section of groups; `None` without a column.
pub(super) fn groups(by: &[ScoresByGroup]) -> Option<Section> {
    let mut notes: Vec<&str> = Vec::new();
    for note in by.iter().flat_map(ScoresByGroup::notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let several = match by.len() {
        0 => return None,
        1 => "",
        _ => " With several tables, divide that limit by their number.",
    };
    let text = format!(
        "Is the model as good, and as well calibrated, for the rows of every group? The NLL has its standard error. A \
         p-value below 0.05 is evidence that the group is badly calibrated.{several} {}",
        notes.join(" ")
    );
    let tables = by.iter().map(ScoresByGroup::table).collect();
    Some(Section::new("groups", "Groups", text).with_tables(tables))
}

/// What a table is by, with its target if there are several.
fn of_target(by: &str, target: Option<&str>) -> String {
    match target {
        Some(target) => format!("{by}, of {target}"),
        None => by.into(),
    }
}

/// The section of conformal sets or intervals; `None` without any.
pub(super) fn conformal(scores: &[ConformalScores]) -> Option<Section> {
    let first = scores.first()?;
    let headlines: Vec<String> = scores.iter().map(ConformalScores::headline).collect();
    let what = if first.mean_size.is_some() {
        "sets"
    } else {
        "intervals"
    };
    let guarantee = sentence(&format!("{}.", first.guarantee));
    let text = format!(
        "Do the {what} at {} contain the true targets? {guarantee} On these rows: {}. The tables show parts of the \
         rows, for which the guarantee does not hold unless it says so. The intervals in brackets are 95 % \
         confidence intervals of the coverage. {}",
        percent(first.level),
        headlines.join("; "),
        first.note(),
    );
    let tables = scores.iter().flat_map(ConformalScores::tables).collect();
    Some(Section::new("conformal", "Conformal prediction", text).with_tables(tables))
}

fn limits(found: &Interval) -> String {
    format!("[{}, {}]", number(found.lower), number(found.upper))
}
