//! The commands of the book's chapters, on data that the program generates.

use crate::workplace::Workplace;

/// The maximum share of wrong rows that the commands allow.
const RISK: f64 = 0.05;

const DECISION: &str = include_str!("decision.sh");

/// The output of a chapter's commands.
fn outputs(place: &Workplace, chapter: &str) -> Vec<String> {
    let commands = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("burn-bayes "));
    let output = |command: &str| match command.split_once(" < ") {
        Some((command, input)) => {
            let mut command = place.burn_bayes(command);
            let output = command.write_stdin(place.read(input)).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        }
        None => place.output(command),
    };
    commands.map(output).collect()
}

/// A column of a file without commas in its cells.
fn column(place: &Workplace, file: &str, name: &str) -> Vec<String> {
    let text = place.read(file);
    let mut rows = text.lines().map(|line| line.split(','));
    let at = rows.next().unwrap().position(|head| head == name);
    let at = at.unwrap_or_else(|| panic!("{file} has no column {name}"));
    rows.map(|mut cells| cells.nth(at).unwrap().to_string())
        .collect()
}

#[test]
fn a_first_fit_knows_what_it_does_not_know() {
    let place = Workplace::new();
    place.write("inputs.csv", include_str!("inputs.csv"));
    place.write("odd.csv", include_str!("odd.csv"));
    let outputs = outputs(&place, include_str!("first.sh"));
    let labels = column(&place, "predictions.csv", "label");
    let truths = column(&place, "new.csv", "ill");
    let wrong = labels
        .iter()
        .zip(&truths)
        .filter(|(label, truth)| label != truth);
    assert!(wrong.count() < 15, "{labels:?}");
    assert!(place.read("first/report.html").contains("</html>"));
    // Both chapters show rows of this fit. Training on another processor differs by rounding.
    let getting_started = include_str!("../../../../../book/src/getting-started.md");
    let reading_uncertainty = include_str!("../../../../../book/src/reading-uncertainty.md");
    let names = ["p_no", "p_yes", "entropy", "mutual_information"];
    let columns = names.map(|name| column(&place, "predictions.csv", name));
    for row in [1, 7] {
        let found = columns
            .each_ref()
            .map(|cells| number(&cells[row - 1]).unwrap());
        for chapter in [getting_started, reading_uncertainty] {
            let beginning = format!("| {row} | ");
            let line = chapter.lines().find(|line| line.starts_with(&beginning));
            let cells = line
                .unwrap()
                .split('|')
                .filter(|cell| cell.trim().starts_with('.'));
            let shown: Vec<f64> = cells.filter_map(number).collect();
            assert_eq!(shown.len(), names.len(), "{shown:?}");
            for (found, shown) in found.iter().zip(shown) {
                assert!((found - shown).abs() < 0.01, "row {row}: {found} {shown}");
            }
        }
    }
    // Beyond the ends and in the gap, the draws differ more than among the examples.
    let [.., curve, _] = outputs.as_slice() else {
        panic!("two predictions on standard output");
    };
    place.write("intervals.csv", curve);
    let deviations = column(&place, "intervals.csv", "epistemic_std");
    let deviations: Vec<f64> = deviations
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let [left, low, gap, high, right] = deviations[..] else {
        panic!("five inputs: {curve}");
    };
    assert!(left.min(gap).min(right) > 2.0 * low.max(high), "{curve}");
}

#[test]
fn decisions_keep_their_promise() {
    let place = Workplace::new();
    place.write("patients.jsonl", include_str!("patients.jsonl"));
    let outputs = outputs(&place, DECISION);
    let [
        _,
        _,
        _,
        _,
        _,
        row,
        lines,
        _,
        costs,
        _,
        by_group,
        learned,
        _,
        covered,
        by_sex,
        by_class,
    ] = outputs.as_slice()
    else {
        panic!("sixteen commands");
    };
    let chapter = include_str!("../../../../../book/src/csv-to-decision.md");
    for line in learned.lines().skip(1).take(4) {
        let [name, increase] = [0, 1].map(|place| line.split_whitespace().nth(place).unwrap());
        let mut shown = chapter.lines();
        let shown = shown.find(|shown| shown.starts_with(&format!("{name}  ")));
        let shown = number(shown.unwrap().split_whitespace().nth(1).unwrap());
        assert!(
            (shown.unwrap() - number(increase).unwrap()).abs() < 0.01,
            "{line}"
        );
    }
    let page = place.read("explained/explanation.html");
    for part in [
        "Importance",
        "probability of ill = yes by crp",
        "cough: dry",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(row.contains("\nlabel: yes\n"), "{row}");
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[..2].iter().all(|line| line.contains("\"p_yes\":")));
    assert!(lines[2].contains("did you mean"), "{lines:?}");
    let decided = column(&place, "costs.csv", "decision");
    assert!(decided.iter().any(|decision| decision == "abstain"));
    assert!(costs.contains("always yes"), "{costs}");
    assert!(by_sex.contains("in each group of `sex`"), "{by_sex}");
    assert!(by_class.contains("by true class:"), "{by_class}");
    assert!(by_group.contains("logistic regression"), "{by_group}");
    assert!(by_group.contains("by sex:"), "{by_group}");
    assert!(covered.contains("500 held-out rows"), "{covered}");
    let labels = column(&place, "decisions.csv", "label");
    let decisions = column(&place, "decisions.csv", "decision");
    let truths = column(&place, "new.csv", "ill");
    assert_eq!(decisions.len(), 500);
    let (mut kept, mut wrong) = (0.0, 0.0);
    for ((label, decision), truth) in labels.iter().zip(decisions).zip(truths) {
        if decision == "keep" {
            kept += 1.0;
            wrong += f64::from(u8::from(*label != truth));
        }
    }
    assert!(kept > 0.6 * 500.0, "{kept} rows are kept");
    assert!(wrong / kept <= RISK, "{wrong} of {kept} are wrong");
    let sets = column(&place, "sets.csv", "set");
    let truths = column(&place, "new.csv", "ill");
    let covered = sets.iter().zip(&truths);
    let covered = covered.filter(|(set, truth)| set.split(';').any(|class| class == *truth));
    // Four standard deviations below 98 %, of the calibration on 500 rows and of 500 new rows.
    assert!(covered.count() as f64 > 500.0 * (0.98 - 4.0 * (2.0 * 0.02 / 500.0f64).sqrt()));
}

#[test]
fn a_method_and_its_settings_are_chosen() {
    let place = Workplace::new();
    let data = DECISION
        .lines()
        .filter(|line| line.starts_with("burn-bayes data "));
    outputs(&place, &data.collect::<Vec<_>>().join("\n"));
    place.write("ranges.toml", include_str!("choosing.toml"));
    let outputs = outputs(&place, include_str!("choosing.sh"));
    let [compared, tuned, tried, _, scores, ensemble, ..] = outputs.as_slice() else {
        panic!("six commands");
    };
    let intervals = outputs.last().unwrap();
    assert!(
        intervals.contains("Intervals of 500 new rows at 0.9"),
        "{intervals}"
    );
    assert_eq!(
        place.read("intervals/intervals.csv").lines().count(),
        1 + 4 * 500
    );
    assert!(tried.contains("| model | "), "{tried}");
    for method in ["map", "vifa", "vadam", "linear", "forest"] {
        let row = format!("| {method} | ");
        assert!(compared.contains(&row), "{compared}");
    }
    assert_eq!(place.read("compared/runs.jsonl").lines().count(), 5 * 5);
    for name in [
        "vadam",
        "vadam, model=linear",
        "vadam, prior-precision=10",
        "map",
        "linear",
    ] {
        let row = format!("| {name} | ");
        assert!(place.read("variants/compare.md").contains(&row), "{name}");
    }
    // The best of the four that were scored on all folds is first, and `fit` uses it.
    assert_eq!(place.read("tuned/trials.jsonl").lines().count(), 12 + 4 * 4);
    let trials = place.read("tuned/trials.csv");
    let best: Vec<&str> = trials.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(best.last(), Some(&"5"), "{trials}");
    assert!(tuned.contains("tuned/config.toml"), "{tuned}");
    let chosen = |file: &str| {
        let config = place.read(file);
        let line = config
            .lines()
            .find(|line| line.starts_with("learning_rate"));
        line.unwrap().to_owned()
    };
    assert_eq!(chosen("run/config.toml"), chosen("tuned/config.toml"));
    assert!(chosen("run/config.toml").contains(best[1]), "{best:?}");
    assert!(scores.contains("AUROC"), "{scores}");
    assert!(ensemble.contains("5 members"), "{ensemble}");
    let between = column(&place, "disagreements.csv", "mutual_information_between");
    assert!(
        between
            .iter()
            .any(|between| between.parse::<f64>().unwrap() > 0.0)
    );
}

/// The temperature, and the NLL before and after it, in the line that `fit` prints.
fn recalibration(text: &str) -> [f64; 3] {
    let line = text
        .lines()
        .find(|line| line.starts_with("recalibration: temperature "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let words = line.split(|c: char| c.is_whitespace() || c == ';');
    let numbers: Vec<f64> = words.filter_map(number).collect();
    numbers[..3].try_into().unwrap()
}

/// A cell with a number alone.
fn number(cell: &str) -> Option<f64> {
    cell.trim().parse().ok()
}

/// The value of a printed score.
fn score(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.split_whitespace().find_map(number).unwrap()
}

#[test]
fn a_recalibration_is_that_of_the_chapter() {
    let place = Workplace::new();
    let outputs = outputs(&place, include_str!("calibration.sh"));
    let [.., fit, scores] = outputs.as_slice() else {
        panic!("four commands");
    };
    let [temperature, before, after] = recalibration(fit);
    let chapter = include_str!("../../../../../book/src/calibration.md");
    let in_chapter = recalibration(chapter);
    // Training on another processor differs by rounding.
    for (found, expected) in [temperature, before, after].iter().zip(in_chapter) {
        assert!((found - expected).abs() < 0.01, "{fit} {in_chapter:?}");
    }
    // The fit is overconfident, and the map makes it less so.
    assert!(temperature > 1.0 && after < before, "{fit}");
    // The row of the chapter's table, after the map.
    let row = chapter
        .lines()
        .find(|line| line.starts_with("| patients |"));
    let cells: Vec<f64> = row.unwrap().split('|').filter_map(number).collect();
    assert!(
        (score(scores, "NLL") - cells[1]).abs() < 0.005,
        "{scores} {cells:?}"
    );
}
