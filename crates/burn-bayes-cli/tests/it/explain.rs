//! What a fit has learned from each column.

use std::fmt::Write;

use serde_json::Value;

use crate::workplace::Workplace;

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
    let output = place.output(&format!("explain run rows.csv --out page --json {options}"));
    serde_json::from_str(&output).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
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
