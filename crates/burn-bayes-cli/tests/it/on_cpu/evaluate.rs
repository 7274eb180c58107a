//! `evaluate`: scores by the values of a column, and beside plain models.

use std::fmt::Write as _;

use burn_bayes::eval::uniforms;
use serde_json::Value;

use crate::workplace::{GAP, MOONS, Workplace};

/// Standard normal numbers.
fn normals(rows: usize, seed: u64) -> Vec<f64> {
    let pairs = uniforms(rows, seed)
        .into_iter()
        .zip(uniforms(rows, seed + 1));
    pairs
        .map(|(u, v)| (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos())
        .collect()
}

/// A line with noise; the noise of the rows of the ward `east` is twenty times as large.
pub(crate) fn wards(rows: usize, seed: u64) -> String {
    let (inputs, noise) = (uniforms(rows, seed + 7), normals(rows, seed));
    let mut text = String::from("x,ward,dose,y\n");
    for row in 0..rows {
        let (ward, scale) = match row % 4 {
            0 => ("east", 1.0),
            _ => ("west", 0.05),
        };
        let y = 3.0 * inputs[row] + scale * noise[row];
        writeln!(text, "{},{ward},{},{y}", inputs[row], row % 8).unwrap();
    }
    text
}

#[test]
fn rows_of_the_fit_are_recognised_in_a_copy() {
    let place = Workplace::new();
    let known = wards(60, 1);
    place.write("known.csv", &known);
    place.write("new.csv", &wards(60, 101));
    let lines: Vec<&str> = known.lines().collect();
    let reversed: String = lines[20..]
        .iter()
        .rev()
        .map(|row| format!("{row}\n"))
        .collect();
    place.write("copy.csv", &format!("{}\n{reversed}", lines[0]));
    place.output("fit --data known.csv --target y --task regression --model linear --out run");
    for (file, is_known) in [("known.csv", true), ("copy.csv", true), ("new.csv", false)] {
        let [_, warnings] = place.said(&format!("evaluate run {file}"));
        assert_eq!(
            warnings.contains("the file of the fit"),
            is_known,
            "{file}: {warnings}"
        );
    }
}

#[test]
fn a_group_that_the_noise_does_not_fit_is_found() {
    let place = Workplace::new();
    place.write("known.csv", &wards(400, 1));
    place.write("new.csv", &wards(400, 101));
    place.output(
        "fit --data known.csv --target y --task regression --model linear --ignore ward,dose --out run",
    );
    let scores = place.json("evaluate run new.csv --by ward,dose");
    let columns = scores["by"].as_array().unwrap();
    let names: Vec<&str> = columns
        .iter()
        .map(|by| by["column"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ward", "dose"]);
    let [east, west] = [0, 1].map(|group| &columns[0]["groups"][group]);
    assert_eq!(
        (&east["group"], &east["rows"]),
        (&"east".into(), &100.into())
    );
    assert_eq!(
        (&west["group"], &west["rows"]),
        (&"west".into(), &300.into())
    );
    let number = |group: &Value, name: &str| group[name].as_f64().unwrap();
    // One noise of about 0.5 for both: too small for the east, too large for the west.
    let coverage = |group: &Value| group["intervals"][1]["coverage"].as_f64().unwrap();
    assert!(
        coverage(east) < 0.75 && coverage(west) == 1.0,
        "{east} {west}"
    );
    assert!(number(east, "adjusted_p_value") < 1e-4, "{east}");
    assert_eq!(number(west, "adjusted_p_value"), 1.0);
    // The standard error of a deviation of 1 from 100 rows is 0.07.
    assert!((number(east, "rmse") - 1.0).abs() < 0.25, "{east}");
    assert!(number(west, "rmse") < 0.25, "{west}");
    // The scores of all rows are the means over the groups.
    let nll = (number(east, "nll") + 3.0 * number(west, "nll")) / 4.0;
    assert!((nll - scores["nll"]["value"].as_f64().unwrap()).abs() < 1e-9);
    // Eight whole numbers, 50 rows each, so two of them in each quartile.
    let doses = columns[1]["groups"].as_array().unwrap();
    let doses: Vec<_> = doses.iter().map(|group| &group["group"]).collect();
    assert_eq!(doses, ["0 to 1", "2 to 3", "4 to 5", "6 to 7"]);

    let text = place.output("evaluate run new.csv --by ward --by dose");
    assert!(
        text.contains("by ward:") && text.contains("by dose:"),
        "{text}"
    );
    assert!(text.contains("in 90 %") && !text.contains('*'), "{text}");
}

#[test]
fn classes_are_scored_by_group_and_small_groups_are_marked() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --out run"));
    let moons = place.read("moons.csv");
    let mut text = String::new();
    for (row, line) in moons.lines().enumerate() {
        let ward = match row {
            0 => "ward",
            1..=8 => "north",
            9..=12 => "",
            _ => "south",
        };
        writeln!(text, "{line},{ward}").unwrap();
    }
    place.write("wards.csv", &text);
    let text = place.output("evaluate run wards.csv --by ward,x");
    for name in [
        "north *",
        "(missing) *",
        "south ",
        "by x:",
        "fewer than 30 rows",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let scores = place.json("evaluate run wards.csv --by ward,x");
    // Precision, recall and F1 are those of the confusion matrix.
    assert!(
        text.contains("by class:") && text.contains("precision"),
        "{text}"
    );
    let classes = scores["by_class"].as_array().unwrap();
    assert_eq!(classes.len(), 2);
    let count =
        |label: usize, predicted: usize| scores["confusion"][label][predicted].as_u64().unwrap();
    for (class, found) in classes.iter().enumerate() {
        let (hits, rows) = (count(class, class), count(class, 0) + count(class, 1));
        let predicted = count(0, class) + count(1, class);
        assert_eq!(found["class"], scores["classes"][class]);
        assert_eq!(
            (&found["rows"], &found["predicted"]),
            (&rows.into(), &predicted.into())
        );
        let rate = |all: u64| Value::from(hits as f64 / all as f64);
        assert_eq!(found["precision"], rate(predicted));
        assert_eq!(found["recall"], rate(rows));
        assert_eq!(
            found["f1"],
            Value::from(2.0 * hits as f64 / (rows + predicted) as f64)
        );
    }
    let groups = scores["by"][0]["groups"].as_array().unwrap();
    let names: Vec<&Value> = groups.iter().map(|group| &group["group"]).collect();
    assert_eq!(names, [&"north".into(), &"south".into(), &Value::Null]);
    assert_eq!(groups[2]["rows"], 4);
    assert_eq!(
        (&groups[1]["is_small"], &groups[2]["is_small"]),
        (&false.into(), &true.into())
    );
    // Missing values of a column that only groups the rows leave out none.
    assert_eq!(scores["rows"], 200);
    for name in [
        "error_rate",
        "mean_confidence",
        "ece",
        "brier",
        "adjusted_p_value",
    ] {
        assert!(groups[1][name].as_f64().is_some(), "{name}");
    }
}

#[test]
fn columns_that_cannot_group_rows_are_refused() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    let moons = place.read("moons.csv");
    let mut lines = moons.lines();
    let mut text = format!("{},patient\n", lines.next().unwrap());
    for (row, line) in lines.enumerate() {
        writeln!(text, "{line},p{row}").unwrap();
    }
    place.write("patients.csv", &text);
    for (by, words) in [
        (
            "patiend",
            ["`patiend`", "did you mean `patient`", "its columns are"],
        ),
        ("patient", ["200 categories", "at most 50", "merge"]),
        ("kind", ["--by: ", "the target `kind`", "another column"]),
    ] {
        place.fails(&format!("evaluate run patients.csv --by {by}"), 2, &words);
    }
}

#[test]
fn plain_models_of_a_run_score_new_rows() {
    for (place, fit, file, name) in [
        (
            Workplace::with_moons(),
            MOONS,
            "moons.csv",
            "logistic regression",
        ),
        (Workplace::with_gap(), GAP, "gap.csv", "ridge regression"),
    ] {
        place.output(&format!("{fit} --out run"));
        // The held-out rows as a file of their own: the same scores as those of the fit.
        let all = place.read(file);
        let lines: Vec<&str> = all.lines().collect();
        let validation = place.read("run/validation.csv");
        let mut held_out = format!("{}\n", lines[0]);
        for row in validation.lines().skip(1) {
            let row: usize = row.split(',').next().unwrap().parse().unwrap();
            writeln!(held_out, "{}", lines[row]).unwrap();
        }
        place.write("held-out.csv", &held_out);
        let of_the_fit = place.scores("run");
        let scores = place.json("evaluate run held-out.csv --baseline");
        // The forest is not kept.
        let [found, expected] =
            [&scores, &of_the_fit].map(|scores| scores["baselines"].as_array().unwrap());
        assert_eq!(found[..], expected[..2]);
        let text = place.output("evaluate run held-out.csv --baseline");
        assert!(
            text.contains("plain models:") && text.contains(name),
            "{text}"
        );

        // The training file is not needed, but the weights of the linear model are.
        std::fs::rename(place.path(file), place.path("moved.csv")).unwrap();
        place.output("evaluate run moved.csv --baseline");
        std::fs::write(place.path("run/linear.bpk"), "damaged").unwrap();
        place.fails("evaluate run moved.csv --baseline", 3, &["linear.bpk"]);
        place.output("evaluate run moved.csv");
    }
}

#[test]
fn a_run_without_held_out_rows_or_of_all_rows_has_plain_models() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --validation 0 --out all"));
    place.output(&format!("{GAP} --refit --out refitted"));
    let of = |run: &str| {
        let scores = place.json(&format!("evaluate {run} gap.csv --baseline"));
        let linear = &scores["baselines"][1]["scores"];
        (
            linear["nll"].as_f64().unwrap(),
            linear["error"].as_f64().unwrap(),
        )
    };
    // A refitted run has the linear model of all rows, in another order.
    let ((nll, error), (other_nll, other_error)) = (of("all"), of("refitted"));
    assert!(
        (nll - other_nll).abs() < 1e-4 * nll.abs(),
        "{nll} {other_nll}"
    );
    assert!(
        (error - other_error).abs() < 1e-4 * error,
        "{error} {other_error}"
    );

    // A linear model that is solved directly is compared with the constant alone.
    place.output(&format!("{} --out linear", GAP.replace("mlp:20", "linear")));
    let scores = place.json("evaluate linear gap.csv --baseline");
    assert_eq!(scores["baselines"].as_array().unwrap().len(), 1);
}
