//! `reproduce`: parts that add up, and what cannot be measured.

use serde_json::Value;

use crate::workplace::Workplace;

#[test]
fn parts_of_an_experiment_add_up() {
    let place = Workplace::new();
    let reproduced = |seed: usize| -> Value {
        let mut command = place.burn_bayes("reproduce E1 --quick --out parts --json --only");
        let output = command.arg(format!("rate .1, decay .1, {seed}")).output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    };
    for runs in 1..=2 {
        let outcome = &reproduced(runs - 1)["experiments"][0];
        let rows = outcome["rows"].as_array().unwrap();
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["runs"] == runs),
            "{rows:?}"
        );
        let command = outcome["command"].as_str().unwrap();
        assert!(
            command.contains("--quick") && command.contains("--out=parts"),
            "{command}"
        );
    }
    let table = place.read("parts/E1/results-quick.csv");
    assert!(
        table.starts_with("data,method,measure,runs,mean,"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let place = Workplace::new();
    for (arguments, code, words) in [
        ("reproduce E5 --data nowhere", 3, "nowhere"),
        ("reproduce E1 --quick --only nosuch", 2, "nosuch"),
        ("reproduce E99", 2, "E99"),
    ] {
        let (found, message) = place.failure(arguments);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
}
