//! `predict` and `evaluate`: their output, and abstention.

use serde_json::Value;

#[cfg(unix)]
use crate::on_cpu::signals::{Reach, interrupted, wait_until};
use crate::workplace::{GAP, MOONS, Workplace};

/// The cells of a column.
pub(crate) fn column(text: &str, name: &str) -> Vec<String> {
    let mut lines = text.lines();
    let mut names = lines.next().unwrap().split(',');
    let place = names.position(|known| known == name).unwrap();
    lines
        .map(|line| line.split(',').nth(place).unwrap().to_string())
        .collect()
}

pub(crate) fn numbers(text: &str, name: &str) -> Vec<f64> {
    column(text, name)
        .iter()
        .map(|cell| cell.parse().unwrap())
        .collect()
}

#[test]
fn classes_are_predicted_with_what_is_unsure() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --out run"));
    // Without the target, in another order, with an additional column.
    place.write("new.csv", "note,y,x\nnear,0.9,0\nnear,-0.4,1\nfar,40,40\n");
    let text = place.output("predict run new.csv");
    assert_eq!(column(&text, "label")[..2], ["lower", "upper"]);
    let (lower, upper) = (numbers(&text, "p_lower"), numbers(&text, "p_upper"));
    assert!(
        lower
            .iter()
            .zip(&upper)
            .all(|(lower, upper)| (lower + upper - 1.0).abs() < 1e-9)
    );
    let (entropy, mutual) = (
        numbers(&text, "entropy"),
        numbers(&text, "mutual_information"),
    );
    assert!(
        entropy
            .iter()
            .zip(&mutual)
            .all(|(total, part)| *part >= 0.0 && part <= total)
    );
    assert!(
        numbers(&text, "disagreement")
            .iter()
            .all(|value| *value >= 0.0)
    );

    let decided = place.output("predict run new.csv --score least_confidence --abstain-above 0");
    assert_eq!(column(&decided, "decision")[..2], ["refer"; 2]);
    let decided = place.output("predict run new.csv --abstain-above 0.7");
    assert_eq!(column(&decided, "decision"), ["keep"; 3]);
}

#[test]
fn a_risk_is_promised_only_where_rows_bear_it_out() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 80 --validation 0.5 --out run"));
    let text = place.output("predict run moons.csv --target-risk 0.3");
    let decisions = column(&text, "decision");
    assert!(decisions.iter().any(|decision| decision == "keep"));
    place.fails(
        "predict run moons.csv --target-risk 0.001",
        3,
        &["validation rows cannot guarantee"],
    );
}

#[test]
fn a_fit_that_is_nearly_exact_has_a_small_pareto_k() {
    // A linear regression on standardised inputs has a posterior without correlations.
    let place = Workplace::with_gap();
    let linear = GAP.replace("mlp:20", "linear");
    let outcome: Value = { place.json(&format!("{linear} --out run")) };
    let importance = &outcome["diagnosis"]["importance"];
    let number = |name: &str| importance[name].as_f64().unwrap();
    assert!(number("pareto_k") < number("threshold"), "{importance}");
    assert_eq!(number("draws"), 2155.0);
    assert!(number("divergence").abs() < 0.01, "{importance}");
    assert!(place.read("run/report.html").contains("Pareto k̂ is "));
}

#[test]
fn numbers_are_predicted_with_deviations_and_quantiles() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --out run"));
    place.write("new.csv", "x\n-1\n0\n1\n");
    place.output("predict run new.csv --quantiles 0.1,0.9 --output out.csv");
    let text = place.read("out.csv");
    let (total, part) = (numbers(&text, "std"), numbers(&text, "epistemic_std"));
    assert!(
        total
            .iter()
            .zip(&part)
            .all(|(total, part)| total > part && *part > 0.0)
    );
    let (lower, mean, upper) = (
        numbers(&text, "q0.1"),
        numbers(&text, "mean"),
        numbers(&text, "q0.9"),
    );
    assert!((0..3).all(|row| lower[row] < mean[row] && mean[row] < upper[row]));
    assert!(
        mean.iter().all(|mean| (800.0..1200.0).contains(mean)),
        "{mean:?}"
    );
    let decided = place.output("predict run new.csv --abstain-above 1e9");
    assert_eq!(column(&decided, "decision"), ["keep"; 3]);
}

#[test]
fn equal_predictions_whatever_the_pieces() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --out run"));
    let whole = place.output("predict run moons.csv");
    let text = place.read("moons.csv");
    let header = text.lines().next().unwrap();
    let part: Vec<&str> = text.lines().skip(51).collect();
    place.write("part.csv", &format!("{header}\n{}\n", part.join("\n")));
    let part = place.output("predict run part.csv");
    // The rows have other numbers in another file.
    assert_eq!(column(&part, "row")[0], "1");
    assert_eq!(column(&whole, "row")[50], "51");
    let rows = |text: &str, skipped: usize| -> Vec<String> {
        let rows = text.lines().skip(skipped);
        rows.map(|row| row.split_once(',').unwrap().1.into())
            .collect()
    };
    assert_eq!(rows(&part, 1), rows(&whole, 51));
}

#[test]
fn rows_may_be_objects() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 2 --lr 0.1 --out run"));
    let options = "predict run moons.csv --abstain-above 0.5";
    let (table, objects) = (
        place.output(options),
        place.output(&format!("{options} --json")),
    );
    let objects: Vec<Value> = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let field = |name: &str| -> Vec<String> {
        let cells = objects.iter().map(|object| &object[name]);
        cells
            .map(|cell| cell.as_str().map_or(cell.to_string(), String::from))
            .collect()
    };
    assert_eq!(field("decision"), column(&table, "decision"));
    assert_eq!(field("label"), column(&table, "label"));
    let entropies: Vec<f64> = field("entropy")
        .iter()
        .map(|cell| cell.parse().unwrap())
        .collect();
    for (object, cell) in entropies.iter().zip(numbers(&table, "entropy")) {
        assert!((object - cell).abs() < 1e-12);
    }
}

#[cfg(unix)]
#[test]
fn who_reads_no_further_has_seen_enough() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 2 --lr 0.1 --out run"));
    let rows = place.read("moons.csv");
    let (header, rows) = rows.split_once('\n').unwrap();
    place.write("many.csv", &format!("{header}\n{}", rows.repeat(100)));
    let mut child = place.start("predict run many.csv --draws 2");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

#[test]
fn evaluation_scores_the_rows_it_is_given() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --out run"));
    let scores = place.json("evaluate run moons.csv");
    assert_eq!(
        (&scores["task"], &scores["rows"]),
        (&"classification".into(), &200.into())
    );
    let text = place.output("evaluate run moons.csv");
    assert!(text.contains("Accuracy") && text.contains("NLL"), "{text}");
}

#[test]
fn an_evaluation_leaves_a_report_of_its_rows() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --out run"));
    let of_the_fit = place.read("run/report.html");
    let scores = place.json("evaluate run gap.csv --report page");
    let page = place.read("page/report.html");
    assert!(page.contains("scored on 150 rows of gap.csv"));
    assert!(page.contains("burn-bayes evaluate run gap.csv --report page --json"));
    let coverage = &scores["intervals"][2]["coverage"]["value"];
    let cell = format!("<td>{:.4}</td>", coverage.as_f64().unwrap());
    assert!(page.contains(&cell), "{cell}");
    assert!(place.path("page/plots/pit.svg").is_file());

    place.fails("evaluate run gap.csv --report run/../run", 2, &["report"]);
    assert_eq!(place.read("run/report.html"), of_the_fit);
}

#[cfg(unix)]
#[test]
fn an_interrupted_prediction_leaves_nothing_unfinished() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(place.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let before = names();
    let child = place.start("predict run moons.csv --draws 100000 --output out.csv");
    wait_until(|| names() != before);
    let (code, message) = interrupted(child, Reach::Process);
    assert_eq!(
        (code, message.as_str()),
        (Some(130), "error: interrupted\n")
    );
    assert_eq!(names(), before);
}

#[test]
fn predictions_carry_row_numbers_and_columns_of_the_file() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    let validation = place.read("run/validation.csv");
    let rows = column(&validation, "row");
    let file = place.read("moons.csv");
    let file: Vec<&str> = file.lines().collect();
    for (row, target) in rows.iter().zip(column(&validation, "target")) {
        let line = file[row.parse::<usize>().unwrap()];
        assert!(line.ends_with(&target), "{row}: {line}");
    }
    let rows = "id,y,x,kind,note\n007,0.90,0,lower, near\n\n008,-0.40,1,,?\n";
    place.write("new.csv", rows);
    let text = place.output("predict run new.csv --keep note,id --keep y,kind");
    let head = "row,note,id,y,kind,p_lower,";
    assert!(text.starts_with(head), "{text}");
    // Kept cells are as they were written, and blank lines are not rows.
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(lines[0].starts_with("1, near,007,0.90,lower,0."), "{text}");
    assert!(lines[1].starts_with("2,?,008,-0.40,,0."), "{text}");
    let object: Value = place
        .output("predict run new.csv --keep id --json")
        .lines()
        .next()
        .map(|line| serde_json::from_str(line).unwrap())
        .unwrap();
    assert_eq!((&object["row"], &object["id"]), (&1.into(), &"007".into()));
}

#[test]
fn bad_rows_may_be_marked() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 2 --missing refuse --out run"));
    let rows = "x,y,id\n1,1,a\n1,high,b\n0,0\n,0,c\n1e300,0,d\n0,1,e\n";
    place.write("new.csv", rows);
    let predict = "predict run new.csv --bad-rows mark --keep id --abstain-above 9";
    let text = place.output(predict);
    assert_eq!(column(&text, "row"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(column(&text, "id"), ["a", "b", "", "c", "d", "e"]);
    let bad = |cell: &String| cell.is_empty();
    let labels: Vec<bool> = column(&text, "label").iter().map(bad).collect();
    assert_eq!(labels, [false, true, true, true, true, false]);
    let decisions = column(&text, "decision");
    assert_eq!((&*decisions[0], &*decisions[1]), ("keep", "refer"));
    for (line, problem) in [
        (2, "\"new.csv, line 3, column `y`: found `high`"),
        (3, "\"new.csv, line 4: found 2 cells"),
        (4, "\"new.csv, line 5, column `x`: found a missing value"),
        (5, "\"new.csv, line 6, column `x`: found 1"),
    ] {
        let found = text.lines().nth(line).unwrap();
        assert!(found.contains(problem), "{found}");
    }
    // The predictions of the good rows do not depend on the others.
    place.write("good.csv", "x,y\n1,1\n0,1\n");
    let good = place.output("predict run good.csv");
    let (found, expected) = (column(&text, "p_upper"), column(&good, "p_upper"));
    assert_eq!((&found[0], &found[5]), (&expected[0], &expected[1]));
    let object = place.output(&format!("{predict} --json"));
    let object: Value = serde_json::from_str(object.lines().nth(1).unwrap()).unwrap();
    assert!(object["p_lower"].is_null() && object["label"].is_null());
    assert!(object["problem"].as_str().unwrap().contains("line 3"));
    // The same if there is no other row.
    place.write("none.csv", "x,y\n1,high\n");
    let none = place.output("predict run none.csv --bad-rows mark");
    let head = format!("{},problem", good.lines().next().unwrap());
    assert_eq!(none.lines().next(), Some(&*head));
    assert_eq!(column(&none, "p_upper"), [""]);
}

#[test]
fn missing_cells_are_what_they_were_in_the_fit() {
    let place = Workplace::with_gap();
    place.write("new.csv", "x\n-1\n?\n1\n");
    for (missing, rows) in [("impute", vec!["1", "2", "3"]), ("drop", vec!["1", "3"])] {
        place.output(&format!(
            "{GAP} --epochs 1 --missing {missing} --out {missing}"
        ));
        let text = place.output(&format!("predict {missing} new.csv"));
        assert_eq!(column(&text, "row"), rows, "{missing}");
    }
    // Each row of the file has a line.
    let marked = place.output("predict drop new.csv --bad-rows mark");
    assert_eq!(column(&marked, "row"), ["1", "2", "3"]);
    assert_eq!(column(&marked, "mean")[1], "");
    // Unreadable cells are not imputed.
    place.write("text.csv", "x\n-1\nhigh\n1\n");
    place.fails("predict impute text.csv", 3, &["--bad-rows mark"]);
}

#[test]
fn decimal_commas_are_those_of_the_fit_or_of_the_file() {
    let place = Workplace::with_gap();
    let points = place.read("gap.csv");
    place.write("commas.csv", &points.replace('.', ","));
    let fit = GAP.replace("gap.csv", "commas.csv") + " --epochs 1 --decimal , --out run";
    place.output(&fit);
    assert!(place.read("run/config.toml").contains("decimal = \",\""));
    let commas = place.output("predict run commas.csv");
    assert_eq!(commas, place.output("predict run gap.csv --decimal ."));
    place.fails("predict run gap.csv", 3, &["`--decimal .`"]);
    let scores = place.output("evaluate run commas.csv --json");
    assert_eq!(
        scores,
        place.output("evaluate run gap.csv --decimal . --json")
    );
    // The same with another delimiter.
    place.write("tabs.csv", &points.replace(';', "\t"));
    assert_eq!(
        commas,
        place.output("predict run tabs.csv --decimal . --delimiter tab")
    );
}

#[test]
fn a_number_far_from_the_training_rows_is_named() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --out run"));
    place.write("new.csv", "x;price\n0.1;1000\n31.8;1000\n-90;1000\n");
    for command in ["predict run new.csv", "evaluate run new.csv"] {
        let errors = place.warnings(command);
        for part in ["line 3", "`x`", "31.8", "guess", "another row"] {
            assert!(errors.contains(part), "{part}: {errors}");
        }
    }
}
