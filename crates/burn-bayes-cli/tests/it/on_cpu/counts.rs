//! `--task counts`: rates of Poisson distributions.

use std::fmt::Write as _;

use burn_bayes::eval::uniforms;

use crate::workplace::{Workplace, number};

const ROWS: usize = 1000;
const FIT: &str = "fit --data known.csv --target visits --task counts --model linear --seed 1";

/// Rates e^{1 + x} in an hour, x uniform in [−2, 2], and counts of some hours drawn from them by inversion: rows of x, hours and
/// count, with the mean of −ln p(count) under these rates.
fn drawn(seed: u64, hours: impl Fn(usize) -> f64) -> (Vec<(f64, f64, u32)>, f64) {
    let pairs = uniforms(ROWS, seed)
        .into_iter()
        .zip(uniforms(ROWS, seed + 1));
    let mut cost = 0.0;
    let rows = pairs.enumerate().map(|(row, (u, v))| {
        let (x, hours) = (4.0 * u - 2.0, hours(row));
        let rate = hours * (1.0 + x).exp();
        let (mut count, mut mass) = (0_u32, (-rate).exp());
        let mut below = mass;
        while below < v {
            count += 1;
            mass *= rate / f64::from(count);
            below += mass;
        }
        cost -= mass.ln();
        (x, hours, count)
    });
    let rows = rows.collect();
    (rows, cost / ROWS as f64)
}

/// Counts of an hour each.
fn visits(seed: u64) -> (String, f64) {
    let (rows, cost) = drawn(seed, |_| 1.0);
    let mut text = String::from("x,ward,visits\n");
    for (row, (x, _, count)) in rows.into_iter().enumerate() {
        writeln!(text, "{x},{},{count}", row % 2).unwrap();
    }
    (text, cost)
}

/// Counts of .1 to 10 hours.
fn visits_in_hours(seed: u64) -> (String, f64) {
    let (rows, cost) = drawn(seed, |row| 10.0_f64.powf((row % 21) as f64 / 10.0 - 1.0));
    let mut text = String::from("hours,x,visits\n");
    for (x, hours, count) in rows {
        writeln!(text, "{hours},{x},{count}").unwrap();
    }
    (text, cost)
}

#[test]
fn a_fit_to_counts_is_nearly_as_good_as_the_true_rates() {
    let place = Workplace::new();
    let (known, _) = visits(1);
    let (new, truth) = visits(11);
    place.write("known.csv", &known);
    place.write("new.csv", &new);
    place.output(&format!("{FIT} --out run --ignore ward"));
    let scores = place.json("evaluate run new.csv --by ward --baseline");
    assert_eq!(scores["task"], "counts");
    // Two weights from 800 rows lose 2/(2 · 800) nats on average.
    let lost = number(&scores["nll"]["value"]) - truth;
    assert!(lost.abs() < 0.01, "{lost}");
    for found in scores["intervals"].as_array().unwrap() {
        let [level, expected] = ["level", "expected"].map(|name| number(&found[name]));
        let observed = number(&found["coverage"]["value"]);
        let error = (expected * (1.0 - expected) / ROWS as f64).sqrt();
        assert!(expected >= level, "{found}");
        assert!((observed - expected).abs() < 4.0 * error, "{found}");
    }
    // The mean of 19 differences, each with a standard error of at most √(¼/1000) = 0.016.
    assert!(number(&scores["quantile_calibration_error"]["value"]) < 0.03);
    // The expectation is between 1.0 and 1.2 for rates above 1/2, less below.
    assert!((0.8..1.3).contains(&number(&scores["deviance"]["value"])));
    let groups = scores["by"][0]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    let constant = &scores["baselines"][0];
    assert_eq!(constant["name"], "the mean count");
    assert!(
        number(&constant["scores"]["nll"]) > truth + 0.5,
        "{constant}"
    );
    // The fit is the linear model itself.
    assert_eq!(scores["baselines"].as_array().unwrap().len(), 1);
    // The rows are drawn from it: no forest knows them better.
    let of_fit = place.scores("run");
    let forest = &of_fit["baselines"][1];
    assert_eq!(forest["model"], "forest");
    assert!(number(&forest["scores"]["difference"]) < 0.0, "{forest}");
    let report = place.read("run/report.html");
    for part in [
        "Counts of",
        "Deviance",
        "randomised",
        "Central intervals of whole numbers",
    ] {
        assert!(report.contains(part), "{part}");
    }
}

#[test]
fn predictions_of_counts_are_moments_and_whole_quantiles() {
    let place = Workplace::new();
    place.write("known.csv", &visits(1).0);
    place.output(&format!(
        "{FIT} --out run --ignore ward --epochs 20 --likelihood poisson"
    ));
    place.write("rows.csv", "x\n-1\n2\n");
    let found = place.output("predict run rows.csv --quantiles 0.1,0.9");
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("row,mean,std,epistemic_std,q0.1,q0.9"));
    for (line, rate) in lines.zip([1.0, 20.0]) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [_, mean, deviation, epistemic, low, high] = cells[..] else {
            panic!("{line}");
        };
        // The rate at x = 2 has a standard error of a few per cent.
        assert!((mean / rate - 1.0).abs() < 0.2, "{line}");
        assert!((deviation.powi(2) - mean - epistemic.powi(2)).abs() < 1e-9 * mean);
        assert!(low.fract() == 0.0 && high.fract() == 0.0 && low <= mean && mean <= high);
    }
    // Conformal intervals and risks know counts as they know numbers.
    let bounds = place.output("predict run rows.csv --conformal 0.8");
    assert!(bounds.starts_with("row,mean,std,epistemic_std"), "{bounds}");
    let message = place.failure("predict run rows.csv --conformal 0.8 --conformal-sets aps");
    assert!(message.1.contains("conformal-sets"), "{message:?}");

    place.output(&format!(
        "{FIT} --out again --ignore ward --epochs 20 --likelihood poisson"
    ));
    for file in ["scores.json", "validation.csv", "posterior.safetensors"] {
        let read = |run: &str| std::fs::read(place.path(format!("{run}/{file}"))).unwrap();
        assert!(read("run") == read("again"), "{file}");
    }
}

#[test]
fn methods_of_counts_are_compared_and_ensembles_fitted() {
    let place = Workplace::new();
    place.write("known.csv", &visits(1).0);
    let fit = "--data known.csv --target visits --task counts --ignore ward --seed 1 --epochs 300";
    let text = place.output(&format!(
        "compare {} --model mlp:4 --methods vifa,laplace,map --repeats 2 --out compared",
        fit.replace("300", "5")
    ));
    assert!(
        text.contains("Deviance") && text.contains("laplace"),
        "{text}"
    );
    place.output(&format!(
        "fit {fit} --model mlp:4 --members 2 --out members"
    ));
    let found = place.scores("members");
    assert!(number(&found["members"]["between"]["value"]) > 0.0);
    place.output(&format!("fit {fit} --model mlp:4 --out single"));
    let found = place.scores("single");
    let baselines = found["baselines"].as_array().unwrap();
    assert_eq!(baselines[1]["name"], "negative binomial regression");
    assert!(
        baselines[1]["scores"]["nll"].is_number(),
        "{}",
        baselines[1]
    );
}

#[test]
fn what_is_no_count_is_refused() {
    let place = Workplace::new();
    for (cell, words) in [
        ("-1", &["-1", "whole number"][..]),
        ("0.5", &["0.5", "whole number"]),
        ("1e12", &["whole number"]),
        ("", &["missing"]),
    ] {
        let rows: String = (0..30).map(|row| format!("{row},{}\n", row % 7)).collect();
        place.write("rows.csv", &format!("x,visits\n{rows}30,{cell}\n"));
        let fit = "fit --data rows.csv --target visits --task counts --missing refuse --out run --validation 0";
        let words = [words, &["rows.csv", "`visits`", "line 32"]].concat();
        place.fails(fit, 3, &words);
    }
    place.write("known.csv", &visits(1).0);
    for (change, word) in [
        ("--method exact", "--method: "),
        ("--likelihood gaussian", "--likelihood: "),
        ("--recalibrate variance", "dispersion is learned"),
        ("--task regression --likelihood poisson", "--task counts"),
    ] {
        let fit = FIT.replace(
            "--task counts ",
            if change.contains("--task") {
                ""
            } else {
                "--task counts "
            },
        );
        place.fails(&format!("{fit} --out run {change}"), 2, &[word]);
    }
}

#[test]
fn a_mean_is_proportional_to_its_exposure() {
    let place = Workplace::new();
    let (known, _) = visits_in_hours(1);
    let (new, truth) = visits_in_hours(11);
    place.write("known.csv", &known);
    place.write("new.csv", &new);
    place.write("rows.csv", "x,hours\n-1,0.5\n-1,1\n2,1\n2,1000\n");
    let means = |run: &str| -> Vec<f64> {
        let found = place.output(&format!("predict {run} rows.csv"));
        let mean = |line: &str| line.split(',').nth(1).unwrap().parse().unwrap();
        found.lines().skip(1).map(mean).collect()
    };
    // The exposure makes it a task of counts.
    let fit = FIT.replace("--task counts ", "");
    place.output(&format!("{fit} --exposure hours --out run"));
    let scores = place.json("evaluate run new.csv --baseline");
    assert_eq!(scores["task"], "counts");
    let lost = number(&scores["nll"]["value"]) - truth;
    assert!(lost.abs() < 0.01, "{lost}");
    let constant = &scores["baselines"][0]["scores"];
    // The mean count of an hour is another thing than the mean count.
    place.output(&format!("{FIT} --ignore hours --out ignored"));
    let ignored = place.json("evaluate ignored new.csv --baseline");
    let ignored = &ignored["baselines"][0]["scores"];
    assert!(
        number(&constant["nll"]) < number(&ignored["nll"]) - 0.3,
        "{constant} {ignored}"
    );
    let found = means("run");
    assert!((found[1] - 1.0).abs() < 0.2, "{found:?}");
    assert!((found[1] / found[0] - 2.0).abs() < 1e-5, "{found:?}");
    assert!((found[3] / found[2] - 1000.0).abs() < 1e-2, "{found:?}");
    // So it is for a network with hidden layers, of every way to train it.
    for method in ["vifa", "mclmc", "laplace"] {
        place.output(&format!(
            "fit --data known.csv --target visits --exposure hours --model mlp:4 --method {method} --epochs 50 --out {method}"
        ));
        let found = means(method);
        assert!(
            (found[1] / found[0] - 2.0).abs() < 1e-4,
            "{method}: {found:?}"
        );
    }
    // Ways to look at it know the column.
    let found = place.output("predict run --row x=0,hours=2");
    assert!(found.contains("mean: 5"), "{found}");
    let found = place.output("explain run new.csv --out page");
    assert!(found.contains("hours"), "{found}");
}

#[test]
fn what_is_no_exposure_is_refused() {
    let place = Workplace::new();
    place.write("known.csv", &visits_in_hours(1).0);
    let fit = "fit --data known.csv --target visits --out run --model linear --epochs 5";
    for (options, words) in [
        ("--exposure visits", &["--exposure", "target"][..]),
        ("--exposure hour", &["--exposure", "`hours`"]),
        ("--exposure hours --task regression", &["--task counts"]),
    ] {
        place.fails(&format!("{fit} {options}"), 2, words);
    }
    for cell in ["0", "-1", ""] {
        let (known, _) = visits_in_hours(1);
        place.write("bad.csv", &format!("{known}{cell},0.5,3\n"));
        let fit = fit.replace("known.csv", "bad.csv");
        place.fails(
            &format!("{fit} --exposure hours --validation 0"),
            3,
            &["bad.csv", "line 1002", "`hours`", "above 0"],
        );
    }
    place.output(&format!("{fit} --exposure hours"));
    place.fails("predict run --row x=0", 2, &["`hours`", "exposure"]);
}
