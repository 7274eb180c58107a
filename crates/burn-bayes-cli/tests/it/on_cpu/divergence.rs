//! Fits that diverge: their files and messages, and fits that do not count as diverged.

use std::fmt::Write;

use burn_bayes::eval::uniforms;

use crate::workplace::{GAP, MOONS, Workplace};

/// The exit code of a fit that has diverged.
const NUMERICAL: i32 = 4;

/// Whether a page begins with the message that the fit cannot be used.
fn has_banner(page: &str) -> bool {
    let banner = page.find("This fit cannot be used");
    banner.is_some_and(|banner| banner < page.find("<nav").unwrap())
}

/// Checks a diverged fit with finite weights, whose error contains these words.
fn check_divergence(place: &Workplace, fit: &str, rows: &str, words: &[&str]) {
    let words = [&["diverged", "`--learning-rate`", "`--method`"], words].concat();
    let message = place.fails(&format!("{fit} --out run"), NUMERICAL, &words);
    for file in ["weights.bpk", "model.toml", "validation.csv"] {
        assert!(place.path("run").join(file).is_file(), "{file}");
    }
    let scores = place.scores("run");
    let reason = scores["diverged"].as_str().unwrap();
    assert!(message.contains(reason), "{message}");
    assert!(has_banner(&place.read("run/report.html")));

    let predicted = place.warnings(&format!("predict run {rows} --output out.csv"));
    let evaluated = place.warnings(&format!("evaluate run {rows} --report page"));
    for warning in [predicted, evaluated] {
        let expected = format!("warning: the fit in run cannot be used: {reason}");
        assert!(warning.contains(&expected), "{warning}");
    }
    assert!(has_banner(&place.read("page/report.html")));
}

#[test]
fn a_regression_that_is_far_off() {
    let fit = format!("{GAP} --method map --noise-precision 0.04 --lr 1e6 --epochs 3");
    let words = ["RMSE", "`--noise-precision`"];
    check_divergence(&Workplace::with_gap(), &fit, "gap.csv", &words);
}

#[test]
fn a_regression_that_is_worse_than_a_constant() {
    // After one epoch the error is that of a constant, and the given noise is an eighth of it.
    let fit = format!("{GAP} --method map --noise-precision 0.04 --epochs 1");
    let words = [
        "a Gaussian with the mean and standard deviation",
        "`--noise-precision`",
    ];
    check_divergence(&Workplace::with_gap(), &fit, "gap.csv", &words);
}

#[test]
fn a_classification_that_is_worse_than_a_constant() {
    let fit = format!(
        "{} --method map --lr 100 --epochs 3",
        of_noise("class", "classification")
    );
    check_divergence(&with_noise(), &fit, "noise.csv", &["the class frequencies"]);
}

#[test]
fn a_classification_that_rules_out_what_happens() {
    let fit = format!("{MOONS} --method map --lr 1e4 --epochs 3");
    check_divergence(&Workplace::with_moons(), &fit, "moons.csv", &["not finite"]);
}

#[test]
fn a_fit_whose_last_step_leaves_the_finite_numbers() {
    let place = Workplace::with_gap();
    // The only step starts at a finite loss.
    let step =
        "--method map --noise-precision 1 --optimizer sgd --lr 1e38 --epochs 1 --batch-size 120";
    for held_out in ["--validation 0.2", "--validation 0"] {
        let fit = format!("{GAP} {step} {held_out} --out run");
        place.fails(&fit, NUMERICAL, &["finite"]);
        assert!(has_banner(&place.read("run/report.html")), "{held_out}");
        place.fails("predict run gap.csv", 3, &["not finished"]);
    }
}

#[test]
fn a_fit_that_stops_within_the_training_leaves_a_report() {
    let place = Workplace::with_gap();
    let wild = "--method map --noise-precision 1 --optimizer sgd --lr 1e9";
    let message = place.fails(&format!("{GAP} {wild} --out run"), NUMERICAL, &[]);
    let page = place.read("run/report.html");
    assert!(has_banner(&page) && page.contains("finite"), "{message}");
    // The next fit into the folder is independent.
    place.output(&format!("{GAP} --epochs 2 --validation 0 --out run"));
    assert!(!place.path("run/report.html").exists());
}

#[test]
fn skipped_steps_are_reported() {
    let place = Workplace::with_gap();
    let wild = "--method slang --noise-precision 1 --initial-deviation 1e13";
    let message = place.fails(&format!("{GAP} {wild} --out run"), NUMERICAL, &[]);
    let warnings: Vec<_> = message
        .lines()
        .filter(|line| line.contains("skipped"))
        .collect();
    let [warning] = warnings[..] else {
        panic!("{message}");
    };
    assert!(
        warning.starts_with("warning: step 1: the gradient is not finite at layers.0.weight"),
        "{warning}"
    );
}

/// A folder with `noise.csv`, whose targets do not depend on its feature.
fn with_noise() -> Workplace {
    let place = Workplace::new();
    let mut text = String::from("x,number,class\n");
    for row in uniforms(3 * 400, 1).chunks(3) {
        let class = ["a", "b"][usize::from(row[2] < 0.4)];
        writeln!(text, "{},{},{class}", row[0], 3.0 + 1e-3 * row[1]).unwrap();
    }
    place.write("noise.csv", &text);
    place
}

/// The options of a fit to one of the targets.
fn of_noise(target: &str, task: &str) -> String {
    let other = ["number", "class"][usize::from(target == "number")];
    format!(
        "fit --data noise.csv --target {target} --task {task} --ignore {other} --model mlp:20 --draws 10"
    )
}

#[test]
fn targets_that_are_noise_are_no_divergence() {
    let place = with_noise();
    for method in ["vifa", "map"] {
        for (target, task) in [("number", "regression"), ("class", "classification")] {
            let (fit, run) = (of_noise(target, task), format!("{method}-{target}"));
            let said = place.json(&format!("{fit} --method {method} --epochs 20 --out {run}"));
            assert!(said["scores"]["diverged"].is_null(), "{said}");
            let page = place.read(&format!("{run}/report.html"));
            assert!(!page.contains("This fit cannot be used"));
            let warning = place.warnings(&format!("predict {run} noise.csv --output out.csv"));
            assert_eq!(warning, "");
        }
    }
}
