//! The book's way from a CSV to a decision, on the set that the book names.

use std::io::Write;
use std::path::PathBuf;

use crate::workplace::Workplace;

/// Share of wrong rows that the commands promise at most.
const RISK: f64 = 0.05;

#[test]
fn the_commands_of_the_book_keep_their_promise() {
    let folder = std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from);
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = folder.unwrap_or_else(|| default.into());
    let Ok(text) = std::fs::read_to_string(folder.join("sklearn/breast_cancer.csv")) else {
        let folder = folder.display();
        let message = format!(
            "skipped: no data in {folder} (set BURN_BAYES_DATA)
"
        );
        std::io::stderr().write_all(message.as_bytes()).unwrap();
        return;
    };
    let place = Workplace::new();
    let (header, rows) = text.split_once('\n').unwrap();
    // The file is not sorted, so every other row is as good as a random half.
    let half = |first: usize| -> String {
        let rows: Vec<&str> = rows.lines().skip(first).step_by(2).collect();
        format!("{header}\n{}\n", rows.join("\n"))
    };
    place.write("known.csv", &half(0));
    place.write("new.csv", &half(1));

    let commands = include_str!("decision.sh")
        .lines()
        .filter_map(|line| line.strip_prefix("burn-bayes "));
    let outputs: Vec<String> = commands.map(|command| place.output(command)).collect();
    assert_eq!(outputs.len(), 4);
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
