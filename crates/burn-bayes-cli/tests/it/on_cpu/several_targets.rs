//! `--target a,b`: several numbers, and several labels.

use std::fmt::Write as _;

use burn_bayes::eval::uniforms;
use serde_json::Value;

use crate::on_cpu::predict::{column, numbers};
use crate::workplace::{Workplace, number};

const ROWS: usize = 300;
const NUMBERS: &str = "fit --data known.csv --target price,rent --task regression --ignore wet,cold --model mlp:10 \
    --method vifa --epochs 60 --batch-size 20 --draws 20 --seed 1";
const LABELS: &str = "fit --data known.csv --target wet,cold --ignore price,rent --model mlp:10 --method vifa \
    --epochs 60 --batch-size 20 --draws 20 --seed 1";

/// Two correlated numbers, and two labels, of two inputs.
fn houses(seed: u64) -> String {
    let mut text = String::from("x,y,price,rent,wet,cold\n");
    let columns = [0, 1, 2, 3].map(|column| uniforms(ROWS, seed + column));
    for row in 0..ROWS {
        let [x, y, u, v] = columns.each_ref().map(|column| 2.0 * column[row] - 1.0);
        let price = 1000.0 + 100.0 * (x + y * y) + 20.0 * u;
        let rent = x - y + 0.2 * (u + v);
        let wet = if x + 0.3 * u > 0.0 { "yes" } else { "no" };
        let cold = u8::from(y * y + 0.1 * v > 0.3);
        writeln!(text, "{x},{y},{price},{rent},{wet},{cold}").unwrap();
    }
    text
}

fn place() -> Workplace {
    let place = Workplace::new();
    place.write("known.csv", &houses(1));
    place.write("new.csv", &houses(11));
    place
}

fn value(scores: &Value, name: &str) -> f64 {
    number(&scores[name]["value"])
}

#[test]
fn several_numbers_are_fitted_predicted_and_scored() {
    let place = place();
    let fit = place.json(&format!("{NUMBERS} --out run --against-map"));
    let noise = fit["noise_precision"].as_array().unwrap();
    // The deviations of the noise are 20/√3 and 0.2 √(2/3); the error of the network is added.
    for (noise, truth) in noise.iter().zip([11.5, 0.163]) {
        let ratio = number(noise).powf(-0.5) / truth;
        assert!((0.8..1.6).contains(&ratio), "{ratio}");
    }
    assert!(
        place
            .read("run/config.toml")
            .contains("target = [\"price\", \"rent\"]")
    );
    let header = place.read("run/validation.csv");
    let header = header.lines().next().unwrap();
    assert!(
        header.ends_with("rent_epistemic_std,price_target,rent_target"),
        "{header}"
    );

    let scores = place.json("evaluate run new.csv --baseline --report page");
    assert_eq!(scores["task"], "several_targets");
    let targets = scores["targets"].as_array().unwrap();
    assert_eq!(targets[0]["target"], "price");
    assert!(value(&targets[0], "rmse") < 20.0 && value(&targets[1], "rmse") < 0.3);
    let marginal: f64 = targets.iter().map(|target| value(target, "nll")).sum();
    // The draws say something about both targets, so the joint density is not far from the product.
    assert!((value(&scores, "nll") - marginal).abs() < 0.1);
    assert!(value(&scores, "standardised_rmse") < 0.35);
    assert!(value(&scores, "energy_score") < 0.4 && value(&scores, "variogram_score") < 0.1);
    let baselines = scores["baselines"].as_array().unwrap();
    assert_eq!(baselines[0]["name"], "a constant for each target");
    for baseline in baselines {
        assert!(
            number(&baseline["scores"]["nll"]) > value(&scores, "nll"),
            "{baseline}"
        );
    }
    for page in ["run/report.html", "page/report.html"] {
        let report = place.read(page);
        for part in [
            "Regression of",
            "Joint NLL",
            "price: RMSE",
            "rent: Predictions",
            "id=\"calibration-2\"",
        ] {
            assert!(report.contains(part), "{page}: {part}");
        }
    }
    let told = place.output("evaluate run new.csv");
    assert!(
        told.contains("Energy score") && told.contains("rent: CRPS"),
        "{told}"
    );

    place.write("rows.csv", "y,x\n0,0\n0,0.5\n");
    let found =
        place.output("predict run rows.csv --quantiles 0.5 --abstain-above 0 --score rent_std");
    let mut lines = found.lines();
    assert_eq!(
        lines.next(),
        Some(
            "row,price_mean,price_std,price_epistemic_std,price_q0.5,rent_mean,rent_std,rent_epistemic_std,rent_q0.5,\
             decision"
        )
    );
    let second: Vec<&str> = lines.nth(1).unwrap().split(',').collect();
    assert!(
        (second[1].parse::<f64>().unwrap() - 1050.0).abs() < 20.0,
        "{second:?}"
    );
    assert!(
        (second[5].parse::<f64>().unwrap() - 0.5).abs() < 0.2,
        "{second:?}"
    );
    assert_eq!(second[9], "refer");
}

#[test]
fn two_targets_together_are_about_as_good_as_each_alone() {
    let place = place();
    place.output(&format!("{NUMBERS} --out both"));
    let both = place.json("evaluate both new.csv");
    for (index, target) in ["price", "rent"].into_iter().enumerate() {
        let other = if index == 0 { "rent" } else { "price" };
        let alone = NUMBERS.replace("price,rent", target);
        let alone = alone.replace("wet,cold", &format!("wet,cold,{other}"));
        place.output(&format!("{alone} --out {target}"));
        let alone = place.json(&format!("evaluate {target} new.csv"));
        let together = &both["targets"][index];
        let ratio = value(together, "rmse") / value(&alone, "rmse");
        assert!((0.8..1.25).contains(&ratio), "{target}: {ratio}");
        let difference = value(together, "nll") - value(&alone, "nll");
        assert!(difference.abs() < 0.15, "{target}: {difference}");
    }
}

#[test]
fn labels_are_fitted_predicted_and_scored() {
    let place = place();
    let told = place.warnings(&format!("{LABELS} --out run"));
    assert!(told.contains("task: multilabel"), "{told}");
    let scores = place.json("evaluate run new.csv --baseline");
    assert!(value(&scores, "exact_match") > 0.65 && value(&scores, "hamming_loss") < 0.2);
    assert!(value(&scores, "macro_auroc") > 0.9);
    let targets = scores["targets"].as_array().unwrap();
    for (target, classes) in targets.iter().zip([["no", "yes"], ["0", "1"]]) {
        assert_eq!(target["task"], "classification");
        assert_eq!(target["classes"], serde_json::json!(classes));
        for score in ["nll", "brier", "auroc", "ece"] {
            assert!(target[score]["value"].is_number(), "{target}");
        }
    }
    place.write("rows.csv", "x,y\n0.9,0\n-0.9,0.9\n");
    let found = place.output("predict run rows.csv");
    let header = found.lines().next().unwrap();
    assert!(
        header.starts_with("row,wet_p_no,wet_p_yes,wet_label,wet_entropy,"),
        "{header}"
    );
    let cells: Vec<Vec<&str>> = found
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let column = cells[0]
        .iter()
        .position(|name| *name == "cold_p_1")
        .unwrap();
    let positive = |row: usize, column: usize| cells[row][column].parse::<f64>().unwrap();
    assert!(positive(1, 2) > 0.8 && positive(2, 2) < 0.2, "{found}");
    assert!(
        positive(1, column) < 0.3 && positive(2, column) > 0.7,
        "{found}"
    );
    let report = place.read("run/report.html");
    for part in [
        "Labels of",
        "Exact match",
        "wet: AUROC",
        "cold: Calibration",
    ] {
        assert!(report.contains(part), "{part}");
    }
}

/// Four standard deviations below 90 %, for 120 held-out rows and 300 new ones.
const LEAST_COVERAGE: f64 = 0.77;

/// The fraction of rows that are inside.
fn fraction(inside: impl Iterator<Item = bool>) -> f64 {
    inside.filter(|inside| *inside).count() as f64 / ROWS as f64
}

#[test]
fn every_number_has_intervals_groups_and_a_risk_of_its_own() {
    let place = place();
    place.output(&format!("{NUMBERS} --validation 0.4 --keep wet --out run"));
    let text = place.output("predict run new.csv --conformal 0.9");
    let header = text.lines().next().unwrap();
    assert!(
        header.ends_with("price_lower,price_upper,rent_lower,rent_upper"),
        "{header}"
    );
    let new = place.read("new.csv");
    let scores = place.json("evaluate run new.csv --conformal 0.9 --by wet");
    let conformal = scores["conformal"].as_array().unwrap();
    let by = scores["by"].as_array().unwrap();
    assert_eq!((conformal.len(), by.len()), (2, 2), "{scores}");
    for (place, target) in ["price", "rent"].into_iter().enumerate() {
        let truths = numbers(&new, target);
        let lower = numbers(&text, &format!("{target}_lower"));
        let upper = numbers(&text, &format!("{target}_upper"));
        let is_inside = |row: usize| lower[row] <= truths[row] && truths[row] <= upper[row];
        let coverage = fraction((0..ROWS).map(is_inside));
        assert!(coverage > LEAST_COVERAGE, "{target}: {coverage}");
        let found = &conformal[place];
        assert_eq!(found["target"], target);
        assert_eq!(found["calibration_rows"], 120);
        assert!(
            (number(&found["coverage"]) - coverage).abs() < 1e-12,
            "{found}"
        );
        assert!(number(&found["mean_width"]) > 0.0);
        let guarantee = found["guarantee"].as_str().unwrap();
        assert!(
            guarantee.starts_with("for each target alone"),
            "{guarantee}"
        );
        let groups = &by[place];
        assert_eq!(
            (&groups["target"], &groups["column"]),
            (&target.into(), &"wet".into())
        );
        let rows = groups["groups"].as_array().unwrap().iter();
        let rows: u64 = rows.map(|group| group["rows"].as_u64().unwrap()).sum();
        assert_eq!(rows as usize, ROWS);
    }
    let told = place.output("evaluate run new.csv --conformal 0.9 --by wet --report page");
    for words in [
        "conformal at 0.9: price: coverage",
        "conformal at 0.9: rent: coverage",
        "by wet, of price:",
        "by width of the interval, of rent:",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let page = place.read("page/report.html");
    for words in [
        "Scores by wet, of price",
        "Coverage by width of the interval, of rent",
        "With several tables",
    ] {
        assert!(page.contains(words), "{words}");
    }

    // The same groups for both targets.
    let scores = place.json("evaluate run new.csv --conformal 0.9 --conformal-by wet");
    for found in scores["conformal"].as_array().unwrap() {
        assert_eq!(found["parts"][1]["by"], "wet", "{found}");
        let guarantee = found["guarantee"].as_str().unwrap();
        assert!(
            guarantee.contains("alone, not for all of a row together, in each group of `wet`"),
            "{guarantee}"
        );
    }
    let recent = place
        .burn_bayes("predict run new.csv --conformal 0.9 --conformal-recent new.csv")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&recent.stderr);
    assert!(
        recent.status.success() && told.contains("alone") && told.contains("in the long run"),
        "{told}"
    );

    let kept = place
        .burn_bayes("predict run new.csv --target-risk 0.3 --tolerance 0.6 --score rent_std")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&kept.stderr);
    assert!(
        kept.status.success() && told.contains("are off by more than 0.6 in `rent`"),
        "{told}"
    );
    let decisions = column(&String::from_utf8(kept.stdout).unwrap(), "decision");
    assert!(decisions.iter().any(|decision| decision == "keep"));
}

#[test]
fn every_label_has_sets_groups_and_a_risk_of_its_own() {
    let place = place();
    place.output(&format!("{LABELS} --validation 0.4 --out run"));
    let text = place.output("predict run new.csv --conformal 0.9");
    let new = place.read("new.csv");
    let scores = place.json("evaluate run new.csv --conformal 0.9 --by x");
    for (place, target) in ["wet", "cold"].into_iter().enumerate() {
        let truths = column(&new, target);
        let sets = column(&text, &format!("{target}_set"));
        let pairs = sets.iter().zip(&truths);
        let is_inside = |(set, truth): (&String, &String)| set.split(';').any(|one| one == truth);
        let coverage = fraction(pairs.map(is_inside));
        assert!(coverage > LEAST_COVERAGE, "{target}: {coverage}");
        let found = &scores["conformal"][place];
        assert_eq!(found["target"], target);
        assert!(
            (number(&found["coverage"]) - coverage).abs() < 1e-12,
            "{found}"
        );
        assert!(number(&found["mean_size"]) < 2.0);
        let groups = &scores["by"][place];
        assert_eq!(groups["target"], target);
        assert_eq!(groups["groups"].as_array().unwrap().len(), 4);
        assert!(groups["groups"][0]["error_rate"].is_number(), "{groups}");
    }
    let told = place.warnings("predict run new.csv --target-risk 0.4 --score wet_least_confidence");
    assert!(told.contains("are wrong in `wet`"), "{told}");
    for (options, words) in [
        (
            "--conformal-by cold",
            ["--conformal-by: ", "one of several"],
        ),
        ("--conformal 1.5", ["--conformal: ", "(0, 1)"]),
    ] {
        place.fails(
            &format!("predict run new.csv --conformal 0.9 {options}"),
            2,
            &words,
        );
    }
}

/// Members, early stopping, a second fit and an interruption are those of any fit.
#[test]
fn a_fit_of_several_targets_has_the_options_of_others() {
    let place = place();
    for fit in [NUMBERS, LABELS] {
        let fit = fit.replace("--epochs 60", "--epochs 8");
        place.output(&format!("{fit} --out members --members 2"));
        let scores = place.json("evaluate members new.csv");
        assert!(scores["nll"]["value"].is_number());
        place.output(&format!("{fit} --out refit --patience 3 --refit"));
        place.output("predict refit new.csv --output predictions.csv");
        let linear = fit.replace("--model mlp:10", "--model linear");
        place.output(&format!("{linear} --out linear"));
        let tune = fit
            .replace("fit ", "tune ")
            .replace("--method vifa", "--method map");
        place.output(&format!("{tune} --out tuned --trials 2 --folds 2"));
        assert!(place.read("tuned/trials.csv").contains(",nll,"));
        let compare = fit
            .replace("fit ", "compare ")
            .replace("--method vifa", "--methods map,swag");
        place.output(&format!("{compare} --out compared --folds 2"));
        assert!(place.read("compared/compare.md").contains("| NLL |"));
        for folder in ["members", "refit", "linear", "tuned", "compared"] {
            std::fs::remove_dir_all(place.path(folder)).unwrap();
        }
    }
    let laplace = NUMBERS.replace("--model mlp:10", "--model linear --rank 6");
    let laplace = laplace.replace("--method vifa", "--method laplace");
    place.output(&format!("{laplace} --out laplace"));
    place.output("predict laplace new.csv --output predictions.csv");
}
