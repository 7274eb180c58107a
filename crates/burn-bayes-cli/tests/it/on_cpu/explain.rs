//! What a fit has learned from each column, and the training rows that predictions depend on.

use std::fmt::Write;

use serde_json::Value;

use crate::workplace::{GAP, MOONS, Workplace, number};

/// Rows with y = 10 + 3 x + a shift of each town, and little noise; `day` says nothing.
fn rows() -> Workplace {
    let place = Workplace::new();
    let mut text = String::from("x,town,day,when,y,big\n");
    for row in 0..160 {
        let x = f64::from(row * 37 % 101) / 20.0;
        let town = ["Oslo", "Rome", "Bonn"][row as usize % 3];
        let shift = [0.0, 5.0, -2.0][row as usize % 3];
        let noise = 0.1 * f64::from(row * 71 % 17 - 8);
        let y = 10.0 + 3.0 * x + shift + noise;
        let big = if y > 17.0 { "yes" } else { "no" };
        let (day, month) = (row * 13 % 10, 1 + row % 12);
        writeln!(text, "{x},{town},{day},2024-{month:02}-01,{y:.3},{big}").unwrap();
    }
    place.write("rows.csv", &text);
    place
}

const FIT: &str = "fit --data rows.csv --ignore when --model linear";

fn explained(place: &Workplace, options: &str) -> Value {
    place.json(&format!("explain run rows.csv --out page {options}"))
}

#[test]
fn a_linear_fit_has_linear_effects() {
    let place = rows();
    place.output(&format!(
        "{FIT} --ignore big --target y --method exact --target-scale linear --out run"
    ));
    let found = explained(&place, "--columns x,town --pair x,town");
    let importance = found["importance"].as_array().unwrap();
    let names: Vec<_> = importance
        .iter()
        .map(|one| one["column"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["x", "town", "day"]);
    let day = [&importance[2]["lower"], &importance[2]["upper"]].map(number);
    assert!(day[0].abs() < 0.1 && day[1].abs() < 0.1, "{day:?}");
    let effects = found["effects"].as_array().unwrap();
    // Of x, of town, and of x in each of the towns.
    assert_eq!(effects.len(), 2 + 3);
    let slope = |effect: &Value| {
        let points = effect["points"].as_array().unwrap();
        let (first, last) = (&points[0], points.last().unwrap());
        let change = |key: &str| number(&last[key]) - number(&first[key]);
        assert!(points.len() > 10 && change("number") > 3.0);
        change("mean") / change("number")
    };
    for effect in [0, 2, 3, 4] {
        let found = slope(&effects[effect]);
        assert!((found - 3.0).abs() < 0.1, "{found}");
    }
    let towns = effects[1]["points"].as_array().unwrap();
    let of_town = |name: &str| {
        let point = towns.iter().find(|point| point["value"] == name).unwrap();
        let [lower, mean, upper] = ["lower", "mean", "upper"].map(|key| number(&point[key]));
        assert!(lower < mean && mean < upper, "{point}");
        mean
    };
    assert!((of_town("Rome") - of_town("Bonn") - 7.0).abs() < 0.3);
    assert_eq!(effects[3]["given"][0], "town");
    assert!(place.read("page/explanation.html").contains("y by x"));
}

#[test]
fn few_rows_do_not_say_how_important_columns_are() {
    let place = rows();
    place.output(&format!(
        "{FIT} --ignore big --target y --method exact --target-scale linear --out run"
    ));
    let text = place.read("rows.csv");
    let few: Vec<&str> = text.lines().take(2).collect();
    place.write("few.csv", &format!("{}\n", few.join("\n")));
    let output = place
        .burn_bayes("explain run few.csv --out page")
        .output()
        .unwrap();
    let [shown, told] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(shown.contains('–') && !shown.contains(" – "), "{shown}");
    assert!(told.contains("note: too few rows"), "{told}");
    let found = place.output("explain run few.csv --out page --json");
    let found: Value = serde_json::from_str(&found).unwrap();
    assert!(found["importance"][0]["lower"].is_null(), "{found}");
}

#[test]
fn classes_and_several_targets_have_effects_each() {
    let place = rows();
    place.output(&format!(
        "{FIT} --ignore y --target big --method map --epochs 20 --out run"
    ));
    let found = explained(&place, "--columns town");
    assert_eq!(found["effects"][0]["output"], "probability of big = yes");
    let place = rows();
    place.output(&format!(
        "{FIT} --ignore big --target y,day --task regression --method map --epochs 20 --out run"
    ));
    let found = explained(&place, "--columns town");
    let effects = found["effects"].as_array().unwrap();
    let outputs: Vec<_> = effects.iter().map(|effect| &effect["output"]).collect();
    assert_eq!(outputs, ["y", "day"]);
}

#[test]
fn columns_that_are_none_are_named() {
    let place = rows();
    place.output(&format!(
        "{FIT} --ignore big --target y --method map --epochs 2 --out run"
    ));
    for (options, part) in [
        ("--columns towns", "did you mean `town`"),
        ("--pair x", "is not two columns"),
        ("--pair x,big", "`big`, which is not a column"),
    ] {
        let (_, told) = place.failure(&format!("explain run rows.csv --out page {options}"));
        assert!(told.contains(part), "{told}");
    }
    place.write("new.csv", "x,town,day\n1,Oslo,3\n");
    let (_, told) = place.failure("explain run new.csv --out page");
    assert!(told.contains("`y`"), "{told}");
}

const LINEAR: &str =
    "--ignore big,day --target y --method exact --target-scale linear --validation 0 --out run";

/// The similar rows of every explained row: the cells of this column of both, and the correlations.
fn similar(found: &Value, column: &str) -> Vec<(String, Vec<(String, f64)>)> {
    let found = &found["similar"];
    let columns = found["columns"].as_array().unwrap();
    let place = columns.iter().position(|name| name == column).unwrap();
    let cell = |row: &Value| row["cells"][place].as_str().unwrap().to_string();
    let of_row = |row: &Value| {
        let similar = row["similar"].as_array().unwrap().iter();
        let similar = similar.map(|one| (cell(one), number(&one["correlation"])));
        (cell(row), similar.collect())
    };
    found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(of_row)
        .collect()
}

#[test]
fn similar_rows_are_of_the_same_town_and_near() {
    let place = rows();
    place.output(&format!("{FIT} {LINEAR}"));
    let found = explained(&place, "--similar 4 --similar-to 1,8 --similar-to 60");
    let rows = found["similar"]["rows"].as_array().unwrap();
    let numbers: Vec<_> = rows
        .iter()
        .map(|row| row["row"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 8, 60]);
    for row in rows {
        let similar = row["similar"].as_array().unwrap();
        // The file is that of the training rows, of which the row itself is one.
        assert!(similar.iter().all(|one| one["row"] != row["row"]));
        for one in similar {
            let line = place.read("rows.csv");
            let line = line
                .lines()
                .nth(one["row"].as_u64().unwrap() as usize)
                .unwrap();
            assert!(line.contains(one["target"].as_str().unwrap()), "{line}");
        }
    }
    for (town, similar) in similar(&found, "town") {
        assert_eq!(similar.len(), 4);
        assert!(similar.is_sorted_by(|one, other| one.1 >= other.1));
        assert!(
            similar.iter().all(|(other, _)| *other == town),
            "{town} {similar:?}"
        );
    }
    for (x, similar) in similar(&found, "x") {
        let far = |other: &str| (other.parse::<f64>().unwrap() - x.parse::<f64>().unwrap()).abs();
        assert!(
            similar.iter().all(|(other, _)| far(other) < 0.5),
            "{x} {similar:?}"
        );
    }
    assert_eq!(
        found,
        explained(&place, "--similar 4 --similar-to 1,8 --similar-to 60")
    );
    assert!(explained(&place, "--similar 0")["similar"].is_null());
    let page = place.output("explain run rows.csv --out page");
    assert!(
        page.contains("the effects of columns and the similar training rows are in"),
        "{page}"
    );
    let page = place.read("page/explanation.html");
    assert!(page.contains("Similar training rows") && page.contains("Row 1, predicted"));
    let (_, told) = place.failure("explain run rows.csv --out page --similar-to 161");
    assert!(
        told.contains("--similar-to: is 161, which is not a row of rows.csv"),
        "{told}"
    );
}

#[test]
fn similar_rows_of_a_network_are_on_the_same_side_of_a_gap() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --method laplace --epochs 200 --out run"));
    let found = place.json("explain run gap.csv --out page --similar-to 1,2,3,4,5,6");
    assert_eq!(found["similar"]["draws"], 400);
    assert_eq!(found["similar"]["training_rows"], 120);
    for (x, similar) in similar(&found, "x") {
        assert_eq!(similar.len(), 5, "{x}");
        let is_left = x.starts_with('-');
        assert!(
            similar
                .iter()
                .all(|(other, _)| other.starts_with('-') == is_left),
            "{x} {similar:?}"
        );
    }
}

#[test]
fn similar_rows_of_classes_have_correlated_log_odds() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --method mclmc --epochs 400 --out run"));
    let found = place.json("explain run moons.csv --out page");
    let found = &found["similar"];
    assert_eq!(
        found["output"],
        "the log-odds of the predicted class of kind"
    );
    let row = &found["rows"][0];
    assert!(["lower", "upper"].contains(&row["prediction"].as_str().unwrap()));
    let best = number(&row["similar"][0]["correlation"]);
    assert!(best > 0.5 && best <= 1.0, "{best}");
}

#[test]
fn a_point_estimate_has_no_similar_rows() {
    let place = rows();
    place.output(&format!("{FIT} {LINEAR} --method map"));
    let found = explained(&place, "");
    let note = "This fit has a single vector of weights";
    assert!(found["similar"]["note"].as_str().unwrap().starts_with(note));
    assert!(
        found["effects"]
            .as_array()
            .is_some_and(|effects| !effects.is_empty())
    );
    assert!(place.read("page/explanation.html").contains(note));
}

#[test]
fn a_training_file_that_is_gone_or_changed_is_noted() {
    let place = rows();
    let text = place.read("rows.csv");
    place.output(&format!("{FIT} {LINEAR}"));
    place.write("new.csv", &text);
    for (change, part) in [
        (None, "rows.csv: the file is not there"),
        (
            Some(text.replacen("Oslo", "Rome", 1)),
            "rows.csv: its rows differ from those of the fit",
        ),
    ] {
        std::fs::remove_file(place.path("rows.csv")).ok();
        if let Some(text) = change {
            place.write("rows.csv", &text);
        }
        let found = place.json("explain run new.csv --out page");
        let note = found["similar"]["note"].as_str().unwrap();
        assert!(note.contains(part), "{note}");
        assert_eq!(found["importance"].as_array().unwrap().len(), 2);
        assert!(place.read("page/explanation.html").contains(part));
    }
    place.write("rows.csv", &text);
    let found = place.json("explain run new.csv --out page");
    assert!(found["similar"].get("note").is_none());
}
