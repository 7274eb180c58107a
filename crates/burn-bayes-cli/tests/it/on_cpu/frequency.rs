//! Rows that stand for several.

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
    let scores = |call: &str| place.output(call);
    let of_cells = scores("evaluate cells cells.csv --json");
    assert_eq!(of_cells, scores("evaluate all all.csv --json"));
    // Rows of a file without the column are counted once.
    assert_eq!(of_cells, scores("evaluate cells all.csv --json"));
}

/// Held-out rows, scores and folds are those of a file with a line for each row.
#[test]
fn copies_are_dealt_like_other_rows() {
    let place = Workplace::new();
    let row = |row: usize| format!("{row},{}", (row as f64).sin());
    let counted: String = (0..60)
        .map(|number| format!("{},{}\n", row(number), 1 + number % 3))
        .collect();
    place.write("counted.csv", &format!("x,y,seen\n{counted}"));
    let all: String = (0..60)
        .map(|number| format!("{}\n", row(number)).repeat(1 + number % 3))
        .collect();
    place.write("all.csv", &format!("x,y\n{all}"));
    let options = "--target y --task regression --target-scale linear --model linear";
    for (file, more) in [("counted", "--frequency seen"), ("all", "")] {
        let data = format!("--data {file}.csv {more} {options}");
        place.output(&format!("fit {data} --method exact --out {file}"));
        place.output(&format!(
            "compare {data} --methods exact,map --no-plain --epochs 2 --repeats 1 --folds 3 --out {file}-folds"
        ));
    }
    let scores = |run: &str| place.read(&format!("{run}/scores.json"));
    assert_eq!(scores("counted"), scores("all"));
    // Methods, scores and standard errors, without p-values and seconds.
    let folds = |run: &str| {
        let read = place.read(&format!("{run}-folds/compare.csv"));
        let row = |line: &str| line.split(',').take(5).map(String::from).collect();
        read.lines().map(row).collect::<Vec<Vec<String>>>()
    };
    assert_eq!(folds("counted"), folds("all"));
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
