//! The generated tables, and the distribution of the generated patients.

use burn_bayes_data::{GENERATED_SETS, GeneratedSet, Table, patients};

/// The number of standard errors that a correct generator stays within, for a fixed seed.
const STANDARD_ERRORS: f64 = 4.0;

/// A row as written in a CSV file.
fn written(table: &Table, row: usize) -> String {
    let cells = table.columns().iter().map(|column| column.label(row));
    cells
        .map(Option::unwrap_or_default)
        .collect::<Vec<_>>()
        .join(",")
}

#[test]
fn every_set_has_its_target_and_a_name_of_its_own() {
    assert!(GENERATED_SETS.is_sorted_by_key(|set| set.name));
    for set in GENERATED_SETS {
        let table = GeneratedSet::find(set.name).unwrap().table(30, 2).unwrap();
        assert_eq!(table.rows(), 30);
        assert!(!table.column(set.target).unwrap().is_missing(29));
        assert!(set.table(0, 2).unwrap_err().is_config());
    }
    let error = GeneratedSet::find("patient").unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("patients"),
        "{error}"
    );
}

#[test]
fn patients_are_the_same_for_ever() {
    // Recorded from this code: a release that changes a row changes the results in the book.
    let few = patients(3, 1).unwrap();
    let many = patients(50, 1).unwrap();
    for row in 0..3 {
        assert_eq!(written(&few, row), written(&many, row));
    }
    assert_eq!(written(&few, 0), "82,female,never,none,36.4,2,8.3,99.3,no");
    assert_ne!(written(&few, 0), written(&patients(3, 2).unwrap(), 0));
}

#[test]
fn patients_follow_their_law() {
    const ROWS: usize = 20_000;
    let table = patients(ROWS, 1).unwrap();
    let number = |name: &str, row: usize| table.column(name).unwrap().number(row);
    let is = |name: &str, row: usize, level: &str| {
        table.column(name).unwrap().category(row) == Some(level)
    };
    // Compares the relative frequency of a condition with its probability.
    let check = |expected: f64, among: &dyn Fn(usize) -> bool, counted: &dyn Fn(usize) -> bool| {
        let among: Vec<usize> = (0..ROWS).filter(|&row| among(row)).collect();
        let count = among.len() as f64;
        let share = among.iter().filter(|&&row| counted(row)).count() as f64 / count;
        let error = (expected * (1.0 - expected) / count).sqrt();
        let distance = (share - expected).abs() / error;
        assert!(
            distance < STANDARD_ERRORS,
            "{share} for {expected}: {distance} errors"
        );
    };
    let all = |_: usize| true;
    let is_ill = |row: usize| is("ill", row, "yes");
    let is_healthy = |row: usize| is("ill", row, "no");
    check(0.5, &all, &|row| is("sex", row, "male"));
    check(0.25, &all, &|row| is("smoker", row, "former"));
    check(0.08, &all, &|row| number("crp", row).is_none());
    check(0.04, &all, &|row| number("oxygen", row).is_none());
    check(0.75, &is_healthy, &|row| is("cough", row, "none"));
    check(0.5, &is_ill, &|row| is("cough", row, "productive"));
    // For smokers, σ is symmetric about the age of 50.
    let age = |row: usize| number("age", row).unwrap();
    let smokes = |row: usize| is("smoker", row, "current") && (age(row) - 50.0).abs() < 15.5;
    check(0.5, &smokes, &is_ill);
    // Thresholds halfway between two written values, and the normal probability above them.
    let is_above = |name: &'static str, threshold: f64| {
        move |row: usize| number(name, row).is_some_and(|value| value > threshold)
    };
    let has = |name: &'static str, ill: bool| {
        move |row: usize| is_ill(row) == ill && number(name, row).is_some()
    };
    for (name, threshold, among_healthy, among_ill) in [
        ("crp", 3.35, 0.4964, 0.9442),
        ("white_cells", 7.05, 0.4900, 0.8800),
        ("oxygen", 97.45, 0.5133, 0.1669),
    ] {
        check(among_healthy, &has(name, false), &is_above(name, threshold));
        check(among_ill, &has(name, true), &is_above(name, threshold));
    }
    check(0.4668, &is_healthy, &is_above("temperature", 36.85));
    let ill_rows: Vec<usize> = (0..ROWS).filter(|&row| is_ill(row)).collect();
    let residual = |row: usize| {
        let fever = 1.7 - 0.015 * (age(row) - 20.0);
        number("temperature", row).unwrap() - 36.8 - fever
    };
    let count = ill_rows.len() as f64;
    let mean = ill_rows.iter().map(|&row| residual(row)).sum::<f64>() / count;
    assert!(mean.abs() < STANDARD_ERRORS * 0.6 / count.sqrt(), "{mean}");
}
