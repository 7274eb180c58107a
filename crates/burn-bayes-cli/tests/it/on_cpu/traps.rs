//! The book's chapter "Ten tables, ten traps": its commands on generated tables, and what the program says.

use crate::workplace::Workplace;

const COMMANDS: &str = include_str!("traps.sh");

/// Runs the commands about a table, after files were prepared, and returns what each of them told.
fn walked(table: &str, prepare: impl Fn(&Workplace)) -> (Workplace, Vec<String>) {
    let (begin, end) = (
        format!("# ANCHOR: {table}\n"),
        format!("# ANCHOR_END: {table}\n"),
    );
    let commands = COMMANDS.split_once(&begin).unwrap().1;
    let commands = commands.split_once(&end).unwrap().0.lines();
    let place = Workplace::new();
    let mut told = Vec::new();
    for command in commands.filter_map(|line| line.strip_prefix("burn-bayes ")) {
        let output = place.burn_bayes(command).output().unwrap();
        let [words, warnings] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let code = output.status.code();
        // One row of it is far off.
        let cannot_be_used = command.contains("--data shop.csv") && code == Some(4);
        assert!(code == Some(0) || cannot_be_used, "{command}: {warnings}");
        told.push(warnings + &words);
        prepare(&place);
    }
    (place, told)
}

fn score(place: &Workplace, run: &str, name: &str) -> f64 {
    let scores = place.scores(run);
    scores[name]["value"].as_f64().unwrap()
}

/// How much larger the NLL of the second fit is.
fn rise(place: &Workplace, table: &str) -> f64 {
    score(place, &format!("{table}-2"), "nll") - score(place, table, "nll")
}

#[test]
fn what_is_known_too_late_is_named() {
    let (place, told) = walked("claims", |_| {});
    assert!(
        told[1].contains("column `invoice`: it states the target `amount`"),
        "{}",
        told[1]
    );
    assert!(told[1].contains("`--ignore invoice`"), "{}", told[1]);
    assert!(!told[2].contains("invoice`: it"), "{}", told[2]);
    assert!(rise(&place, "claims") > 5.0);
}

#[test]
fn rows_with_missing_values_are_kept() {
    let (place, told) = walked("clinic", |_| {});
    assert!(
        told[2].contains("`lactate`: 215 of 300 rows have no value, which is imputed"),
        "{}",
        told[2]
    );
    assert!(
        place
            .read("clinic-2/preprocessor.toml")
            .contains("says_missing = true")
    );
    assert!(rise(&place, "clinic") < 0.0);
}

#[test]
fn groups_are_not_on_both_sides() {
    let (place, told) = walked("countries", |_| {});
    assert!(told[1].contains("trust"), "{}", told[1]);
    assert!(rise(&place, "countries") > 1.5);
}

#[test]
fn beyond_the_training_rows_predictions_are_guesses() {
    let far = |place: &Workplace| place.write("far.csv", "x\n1.0\n6.0\n");
    let (_, told) = walked("gap", far);
    assert!(
        told[2].contains("6 is far outside of the training rows"),
        "{}",
        told[2]
    );
    let deviations: Vec<f64> = told[2]
        .lines()
        .filter_map(|line| line.split(',').nth(2)?.parse().ok())
        .collect();
    assert!(deviations[1] > 3.0 * deviations[0], "{deviations:?}");
}

#[test]
fn grades_have_an_order() {
    let (place, told) = walked("grades", |_| {});
    assert!(
        told[2].contains(
            "in this order, from the lowest: `A`, `B`, `C`, `D`, `E`, `F`; `--class-order`"
        ),
        "{}",
        told[2]
    );
    assert!(rise(&place, "grades") < 0.0);
}

#[test]
fn the_future_is_not_between_known_rows() {
    for table in ["hourly", "sensor"] {
        let (place, told) = walked(table, |_| {});
        let column = if table == "hourly" { "time" } else { "hour" };
        if table == "hourly" {
            assert!(
                told[1].contains(&format!("`--time {column}`")),
                "{}",
                told[1]
            );
        }
        assert!(
            rise(&place, table) > 0.1,
            "{table}: {}",
            rise(&place, table)
        );
        // Ten periods of 24 hours do not tell how wrong the deviations are.
        let is_seen = told[2].contains("look closer") || told[2].contains("do not use");
        assert!(is_seen || table == "hourly", "{}", told[2]);
    }
}

#[test]
fn names_are_no_features_and_rare_categories_are_one() {
    let (place, told) = walked("loans", |_| {});
    assert!(
        told[2].contains("`employer`: no category has 5 rows: it is left out"),
        "{}",
        told[2]
    );
    assert!(
        place
            .read("loans-2/preprocessor.toml")
            .contains("rare = [\"boat\"")
    );
    assert!(rise(&place, "loans") < -0.3);
}

#[test]
fn errors_have_costs() {
    let (_, told) = walked("patients", |_| {});
    let cost = |rule: &str| {
        let line = told[3].lines().find(|line| line.starts_with(rule)).unwrap();
        let number = line[rule.len()..].split_whitespace().next().unwrap();
        number.parse::<f64>().unwrap()
    };
    let least = cost("least expected cost");
    for rule in ["the more probable class", "always no", "always yes"] {
        assert!(least < 0.5 * cost(rule), "{}", told[3]);
    }
}

#[test]
fn a_slip_of_the_pen_is_named() {
    let correct = |place: &Workplace| {
        if place.path("shop.csv").is_file() {
            place.write(
                "corrected.csv",
                &place.read("shop.csv").replace(",1320,", ",1.32,"),
            );
        }
    };
    let (place, told) = walked("shop", correct);
    assert!(
        told[1].contains("line 21, column `weight`: 1320 is 134 times as far"),
        "{}",
        told[1]
    );
    assert!(!told[2].contains("times as far"), "{}", told[2]);
    assert!(told[1].contains("do not use"), "{}", told[1]);
    assert!(rise(&place, "shop") < 0.0);
}
