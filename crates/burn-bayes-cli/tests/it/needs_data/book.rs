//! The commands of the book's chapters, on the set that the book names.

use burn_bayes_testing::data_folder;

use crate::workplace::Workplace;

/// Share of wrong rows that the commands promise at most.
const RISK: f64 = 0.05;

/// `known.csv` and `new.csv`, a half of the patients each.
fn patients() -> Workplace {
    let path = data_folder().join("sklearn/breast_cancer.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let place = Workplace::new();
    let (header, rows) = text.split_once('\n').unwrap();
    // The file is not sorted, so every other row is as good as a random half.
    let half = |first: usize| -> String {
        let rows: Vec<&str> = rows.lines().skip(first).step_by(2).collect();
        format!("{header}\n{}\n", rows.join("\n"))
    };
    place.write("known.csv", &half(0));
    place.write("new.csv", &half(1));
    place
}

/// What the commands of a chapter print.
fn outputs(place: &Workplace, chapter: &str) -> Vec<String> {
    let commands = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("burn-bayes "));
    commands.map(|command| place.output(command)).collect()
}

#[test]
fn decisions_keep_their_promise() {
    let place = patients();
    assert_eq!(outputs(&place, include_str!("../decision.sh")).len(), 4);
    let decisions = place.read("decisions.csv");
    let mut lines = decisions.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place_of = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let (label, decision) = (place_of("label"), place_of("decision"));
    let new = place.read("new.csv");
    let truth = new
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap());
    let (mut kept, mut wrong) = (0.0, 0.0);
    for (line, truth) in lines.zip(truth) {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[decision] == "keep" {
            kept += 1.0;
            wrong += f64::from(u8::from(cells[label] != truth));
        }
    }
    assert!(kept > 0.6 * 284.0, "{kept} rows are kept");
    assert!(wrong / kept <= RISK, "{wrong} of {kept} are wrong");
}

#[test]
fn a_method_and_its_settings_are_chosen() {
    let place = patients();
    place.write("ranges.toml", include_str!("../choosing.toml"));
    let outputs = outputs(&place, include_str!("../choosing.sh"));
    let [compared, tuned, tried, _, scores] = outputs.as_slice() else {
        panic!("five commands");
    };
    assert!(tried.contains("| model | "), "{tried}");
    for method in ["map", "vifa", "swag"] {
        let row = format!("| {method} | ");
        assert!(compared.contains(&row), "{compared}");
    }
    assert_eq!(place.read("compared/runs.jsonl").lines().count(), 3 * 5);
    // The best of the four that met all folds leads, and is what `fit` takes.
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
}
