//! Rows that stand for several.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::predict::numbers;
use crate::workplace::Workplace;

/// Doses, outcomes and how often they were seen.
const CELLS: [(f64, &str, usize); 8] = [
    (0.0, "well", 9),
    (0.0, "ill", 1),
    (1.0, "well", 7),
    (1.0, "ill", 3),
    (2.0, "well", 4),
    (2.0, "ill", 6),
    (3.0, "well", 0),
    (3.0, "ill", 12),
];

/// A folder with the table of the cells, and that of all rows.
fn place() -> Workplace {
    let place = Workplace::new();
    let rows = |of_cell: &dyn Fn(f64, &str, usize) -> String| {
        let cells = CELLS.iter();
        cells
            .map(|&(dose, outcome, count)| of_cell(dose, outcome, count))
            .collect::<String>()
    };
    let cells = rows(&|dose, outcome, count| format!("{dose},{outcome},{count}\n"));
    place.write("cells.csv", &format!("dose,outcome,seen\n{cells}"));
    let all = rows(&|dose, outcome, count| format!("{dose},{outcome}\n").repeat(count));
    place.write("all.csv", &format!("dose,outcome\n{all}"));
    place
}

const FIT: &str = "fit --target outcome --validation 0 --model linear --method laplace";

#[test]
fn a_row_that_stands_for_several_is_as_many_rows() {
    let place = place();
    let cells = place.output(&format!(
        "{FIT} --data cells.csv --frequency seen --out cells"
    ));
    assert!(cells.contains("on 42 rows"), "{cells}");
    place.output(&format!("{FIT} --data all.csv --out all"));
    let posterior =
        |run: &str| std::fs::read(place.path(run).join("posterior.safetensors")).unwrap();
    assert!(posterior("cells") == posterior("all"));
    let scores = |call: &str| -> Value {
        let scores: Value = serde_json::from_str(&place.output(call)).unwrap();
        [
            &scores["rows"],
            &scores["nll"]["value"],
            &scores["accuracy"]["value"],
        ]
        .into_iter()
        .cloned()
        .collect()
    };
    let of_cells = scores("evaluate cells cells.csv --json");
    assert_eq!(of_cells, scores("evaluate all all.csv --json"));
    // Rows of a file without the column are counted once.
    assert_eq!(of_cells, scores("evaluate cells all.csv --json"));
}

/// A row is held out with all of its copies, which are alike, or with none; guarantees count it once.
#[test]
fn copies_are_on_one_side() {
    let place = Workplace::new();
    let rows: String = (0..60)
        .map(|row| format!("{row},{},{}\n", (row as f64).sin(), 1 + row % 3))
        .collect();
    place.write("counted.csv", &format!("x,y,seen\n{rows}"));
    place.output(
        "fit --data counted.csv --frequency seen --target y --task regression --target-scale linear --model linear \
         --method exact --validation 0.5 --out run",
    );
    let mut counts = BTreeMap::new();
    for row in numbers(&place.read("run/validation.csv"), "row") {
        *counts.entry(row as usize).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 30);
    for (row, count) in counts {
        assert_eq!(count, 1 + (row - 1) % 3, "{row}");
    }
    place.write("new.csv", "x\n1\n");
    let predict = "predict run new.csv --conformal 0.9";
    let output = place.burn_bayes(predict).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("calibrated on 30 held-out rows"), "{told}");
    // As many as 30 rows, not as their copies, can bear out.
    let (code, message) = place.failure("predict run new.csv --conformal 0.98");
    assert!(code == 3 && message.contains("49"), "{message}");
}

#[test]
fn a_frequency_is_a_whole_number() {
    let place = place();
    for (cell, word) in [
        ("1.5", "bad.csv, line 2"),
        ("-1", "bad.csv, line 2"),
        ("", "bad.csv, line 2"),
        ("90000000000", "bad.csv, line 2"),
        ("many", "line 2"),
        ("10000000", "stand for 10000033"),
    ] {
        let text = place
            .read("cells.csv")
            .replacen("0,well,9", &format!("0,well,{cell}"), 1);
        place.write("bad.csv", &text);
        let (code, message) =
            place.failure(&format!("{FIT} --data bad.csv --frequency seen --out run"));
        assert!(
            [2, 3].contains(&code) && message.contains("seen") && message.contains(word),
            "{message}"
        );
        if cell.is_empty() {
            let left_out = "--missing drop --out without";
            place.output(&format!("{FIT} --data bad.csv --frequency seen {left_out}"));
        }
    }
    place.fails(
        &format!("{FIT} --data cells.csv --frequency sene --out run"),
        2,
        &["--frequency", "seen"],
    );
    place.fails(
        &format!("{FIT} --data cells.csv --frequency outcome --out run"),
        2,
        &["target"],
    );
}
