//! The table of scores, and the headline scores above it.

use crate::scores::{
    ClassificationScores, CountScores, CoverageScores, JointScores, MemberScores, RegressionScores,
    Score, Scores, SeveralTargetsScores, UniformityScores,
};
use crate::text::{number_like, optional, percent, shortened, unbroken};

/// All scores of a report.
#[derive(Clone, Debug)]
pub struct Summary {
    /// One line for each score.
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
}

/// Number of headline scores.
const HEADLINES: usize = 4;
const HIGHER: &str = "higher is better";
const LOWER: &str = "lower is better";

impl Summary {
    /// Formats scores, the most important ones first.
    pub fn of(scores: &Scores) -> Self {
        let lines = lines(scores);
        let notes = notes(&lines);
        Self { lines, notes }
    }

    /// The headline scores.
    pub(crate) fn headlines(&self) -> &[SummaryLine] {
        &self.lines[..HEADLINES.min(self.lines.len())]
    }
}

fn lines(scores: &Scores) -> Vec<SummaryLine> {
    match scores {
        Scores::Classification(scores) => classification(scores),
        Scores::Regression(scores) => regression(scores),
        Scores::Counts(scores) => counts(scores),
        Scores::SeveralTargets(scores) => several_targets(scores),
    }
}

/// The scores of all targets together, and then those of each target.
fn several_targets(scores: &SeveralTargetsScores) -> Vec<SummaryLine> {
    let mut lines_of_all = vec![line(
        "Joint NLL",
        &scores.nll,
        LOWER,
        "Mean negative log-likelihood of all targets of a row, in nats; low for accurate, well-calibrated predictions.",
    )];
    match &scores.joint {
        JointScores::Numbers {
            standardised_rmse,
            energy_score,
            variogram_score,
        } => lines_of_all.extend([
            line(
                "Standardised RMSE",
                standardised_rmse,
                LOWER,
                "Root mean squared error over rows and targets, in standard deviations of the training targets.",
            ),
            line(
                "Energy score",
                energy_score,
                LOWER,
                "The continuous ranked probability score of all targets, in standard deviations of the training targets.",
            ),
            line(
                "Variogram score",
                variogram_score,
                LOWER,
                "Difference between the predicted and the true distances of targets from each other; large for wrong correlations.",
            ),
        ]),
        JointScores::Labels {
            exact_match,
            hamming_loss,
            macro_auroc,
        } => lines_of_all.extend([
            line(
                "Exact match",
                exact_match,
                HIGHER,
                "Fraction of rows with the right class of every label.",
            ),
            line(
                "Hamming loss",
                hamming_loss,
                LOWER,
                "Fraction of wrong classes, averaged over rows and labels.",
            ),
            line(
                "Macro AUROC",
                macro_auroc,
                HIGHER,
                "Area under the ROC curve, averaged over labels.",
            ),
        ]),
    }
    for target in &scores.targets {
        let of_target = lines(&target.scores).into_iter();
        lines_of_all.extend(of_target.map(|line| SummaryLine {
            name: format!("{}: {}", shortened(&target.target, 24), line.name),
            ..line
        }));
    }
    lines_of_all
}

fn classification(scores: &ClassificationScores) -> Vec<SummaryLine> {
    let mut lines = vec![
        line(
            "Accuracy",
            &scores.accuracy,
            HIGHER,
            "Fraction of rows classified correctly.",
        ),
        line(
            "NLL",
            &scores.nll,
            LOWER,
            "Mean negative log-probability of the true class, in nats; confident errors cost most.",
        ),
        line(
            "ECE",
            &scores.ece,
            LOWER,
            "Expected calibration error: mean gap between confidence and accuracy, in 15 bins of equal width.",
        ),
        line(
            "AUROC",
            &scores.auroc,
            HIGHER,
            match scores.positive {
                Some(_) => {
                    "Probability that a row of the positive class is ranked above a row of the other."
                }
                None => {
                    "Probability that a row of a class is ranked above a row of another class, averaged over classes."
                }
            },
        ),
        line(
            "Brier score",
            &scores.brier,
            LOWER,
            "Mean squared error of the class probabilities, summed over classes; between 0 and 2.",
        ),
        line(
            "Balanced accuracy",
            &scores.balanced_accuracy,
            HIGHER,
            "Recall, averaged over the true classes.",
        ),
        line(
            "Macro F1",
            &scores.macro_f1,
            HIGHER,
            "Harmonic mean of precision and recall, averaged over classes.",
        ),
    ];
    if let Some(positive) = &scores.positive {
        lines.push(line(
            &f1_name(positive),
            &scores.f1,
            HIGHER,
            "Harmonic mean of precision and recall of the positive class.",
        ));
    }
    lines.extend([
        line(
            "ECE (equal mass)",
            &scores.ece_equal_mass,
            LOWER,
            "Expected calibration error in 15 bins with equal numbers of rows.",
        ),
        line(
            "MCE",
            &scores.mce,
            LOWER,
            "Maximum calibration error over the 15 bins of equal width.",
        ),
        line(
            "Classwise ECE",
            &scores.classwise_ece,
            LOWER,
            "Expected calibration error of the probability of each class, averaged over classes.",
        ),
        line(
            "Smooth ECE",
            &scores.smooth_ece,
            LOWER,
            "Expected calibration error smoothed by a kernel instead of bins; its bandwidth follows from the rows.",
        ),
        line(
            "Adaptive ECE",
            &scores.adaptive_ece,
            LOWER,
            "As classwise, in 15 bins with equal numbers of rows.",
        ),
        line(
            "Top-label ECE",
            &scores.top_label_ece,
            LOWER,
            "Expected calibration error among the rows with the same predicted class, averaged over rows.",
        ),
    ]);
    lines.extend(
        scores.members.iter().flat_map(|parts| {
            of_members(parts, "mutual information of label and weights, in nats")
        }),
    );
    lines
}

/// The two parts of the disagreement of an ensemble's draws.
fn of_members(scores: &MemberScores, unit: &str) -> [SummaryLine; 2] {
    const NEITHER: &str = "says what the members add";
    [
        line(
            "Disagreement within members",
            &scores.within,
            NEITHER,
            &format!("Disagreement of the draws of one member: {unit}."),
        ),
        line(
            "Disagreement between members",
            &scores.between,
            NEITHER,
            &format!("Disagreement of the members' averages: {unit}."),
        ),
    ]
}

fn regression(scores: &RegressionScores) -> Vec<SummaryLine> {
    let mut lines = vec![
        line(
            "RMSE",
            &scores.rmse,
            LOWER,
            "Root mean squared error, in the unit of the target.",
        ),
        line(
            "NLL",
            &scores.nll,
            LOWER,
            "Mean negative log-likelihood per row, in nats; low for accurate, well-calibrated predictions.",
        ),
        line(
            "CRPS",
            &scores.crps,
            LOWER,
            "Continuous ranked probability score, in the unit of the target; for a point prediction, the absolute error.",
        ),
        line(
            "Calibration error",
            &scores.quantile_calibration_error,
            LOWER,
            "Mean absolute difference between nominal and observed frequencies of the quantiles 5 %, 10 %, … 95 %.",
        ),
    ];
    lines.extend(scores.intervals.iter().map(|at| {
        let level = percent(at.level);
        let meaning = format!("Fraction of targets in their central {level} interval.");
        coverage(at, &meaning)
    }));
    lines.extend(scores.intervals.iter().map(width));
    lines.extend(scores.intervals.last().map(winkler));
    lines.push(line(
        "AUSE",
        &scores.ause,
        LOWER,
        "Area under the sparsification error curve: how far keeping the rows with the smallest predicted standard deviation is from keeping those with the smallest errors, in units of the RMSE; about 1 for a random order.",
    ));
    lines.extend(of_uniformity(&scores.pit_tests));
    lines.extend(scores.members.iter().flat_map(of_number_members));
    lines
}

/// The p-values of the tests of calibration.
fn of_uniformity(tests: &UniformityScores) -> [SummaryLine; 2] {
    const SMALL: &str = "below 0.05 is evidence of bad calibration";
    let test = |name: &str, p_value: f64, meaning: &str| {
        line(
            name,
            &Score::alone(p_value, "no interval: it is a p-value"),
            SMALL,
            meaning,
        )
    };
    [
        test(
            "PIT test, p-value",
            tests.simultaneous_p_value,
            "p-value of the hypothesis that the probability integral transform is uniform, by simultaneous bounds; finds intervals that are too narrow or too wide.",
        ),
        test(
            "Kolmogorov–Smirnov, p-value",
            tests.kolmogorov_smirnov_p_value,
            "The same by the Kolmogorov–Smirnov test; finds predictions that are too high or too low.",
        ),
    ]
}

fn winkler(at: &CoverageScores) -> SummaryLine {
    line(
        &format!("Winkler score at {}", percent(at.level)),
        &at.winkler,
        LOWER,
        "Width of these intervals plus a penalty for targets outside, in the unit of the target; a proper score of intervals.",
    )
}

fn counts(scores: &CountScores) -> Vec<SummaryLine> {
    let mut lines = vec![
        line(
            "RMSE",
            &scores.rmse,
            LOWER,
            "Root mean squared error of the mean predicted count.",
        ),
        line(
            "NLL",
            &scores.nll,
            LOWER,
            "Mean negative log-probability of the counts, in nats; low for accurate, well-calibrated predictions.",
        ),
        line(
            "Deviance",
            &scores.deviance,
            LOWER,
            "Mean Poisson deviance from the mean predicted count; for the true rates about 1, unless most counts are 0.",
        ),
        line(
            "Calibration error",
            &scores.quantile_calibration_error,
            LOWER,
            "Mean absolute difference between nominal and observed frequencies of the quantiles 5 %, 10 %, … 95 %, by the randomised probability integral transform.",
        ),
    ];
    lines.extend(scores.intervals.iter().map(|at| {
        let (level, expected) = (percent(at.of_intervals.level), percent(at.expected));
        let meaning = format!(
            "Fraction of counts in their central {level} interval; {expected} are expected, because counts are whole."
        );
        coverage(&at.of_intervals, &meaning)
    }));
    lines.extend(scores.intervals.iter().map(|at| width(&at.of_intervals)));
    lines.extend(scores.intervals.last().map(|at| winkler(&at.of_intervals)));
    lines.extend(scores.members.iter().flat_map(of_number_members));
    lines
}

fn coverage(at: &CoverageScores, meaning: &str) -> SummaryLine {
    let name = format!("Coverage at {}", percent(at.level));
    line(&name, &at.coverage, "best at the nominal level", meaning)
}

fn width(at: &CoverageScores) -> SummaryLine {
    line(
        &format!("Width at {}", percent(at.level)),
        &at.mean_width,
        LOWER,
        "Mean width of these intervals, in the unit of the target; compare widths only at equal coverage.",
    )
}

fn of_number_members(parts: &MemberScores) -> [SummaryLine; 2] {
    of_members(
        parts,
        "standard deviation of the means, in the unit of the target",
    )
}

/// F1 with the name of the positive class.
pub(crate) fn f1_name(positive: &str) -> String {
    format!("F1 (positive: {})", shortened(positive, 24))
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

fn line(name: &str, score: &Score, better: &'static str, meaning: &str) -> SummaryLine {
    let interval = score.value.zip(score.interval).map(|(value, interval)| {
        let limit = |limit| number_like(limit, value);
        format!("{} – {}", limit(interval.lower), limit(interval.upper))
    });
    let absent = score.absent.clone();
    let (meaning, reason) = match (score.value, absent) {
        (None, Some(absent)) => (format!("{meaning} Not defined here: {absent}."), None),
        (_, reason) => (meaning.to_string(), reason),
    };
    SummaryLine {
        name: name.into(),
        value: optional(score.value),
        interval,
        better,
        meaning: unbroken(&meaning),
        reason,
    }
}
