//! Numbers whose logarithms are predicted.

use std::fmt::Write as _;

use burn_bayes::Noise;
use serde_json::Value;

use crate::workplace::Workplace;

const ROWS: usize = 400;
const FIT: &str = "fit --data prices.csv --target price --task regression --seed 1 --method mclmc --chains 2 --epochs 1500";

/// Prices e^{9 + 2 sin x + 0.4 ε}, x from −2 to 2, with the mean of −ln p(price) under the truth.
fn prices(seed: u64) -> (String, f64) {
    let normals = Noise::new(seed).latent(ROWS).into_iter().map(f64::from);
    let mut text = String::from("x,price\n");
    let mut cost = 0.0;
    for (row, normal) in normals.enumerate() {
        let x = row as f64 / 100.0 - 2.0;
        let logarithm = 9.0 + 2.0 * x.sin() + 0.4 * normal;
        cost += 0.5 * (normal * normal + (std::f64::consts::TAU * 0.16).ln()) + logarithm;
        writeln!(text, "{x},{}", logarithm.exp()).unwrap();
    }
    (text, cost / ROWS as f64)
}

#[test]
fn prices_are_predicted_by_their_logarithms_in_their_own_unit() {
    let place = Workplace::new();
    let (known, _) = prices(1);
    let (new, truth) = prices(2);
    place.write("known.csv", &known);
    place.write("prices.csv", &known);
    place.write("new.csv", &new);
    let errors = place.warnings(&format!("{FIT} --out run"));
    assert!(
        errors.contains("chosen: a network of the logarithm"),
        "{errors}"
    );
    assert!(
        place
            .read("run/config.toml")
            .contains("target_scale = \"log\"")
    );

    let scores = place.json("evaluate run new.csv --baseline");
    let lost = scores["nll"]["value"].as_f64().unwrap() - truth;
    assert!((-0.02..0.08).contains(&lost), "{lost}");
    let constant = scores["baselines"][0]["scores"]["difference"].as_f64();
    assert!(constant < Some(-0.5), "{scores}");

    place.write("rows.csv", "x\n-1.5\n1.5\n");
    let found = place.output("predict run rows.csv --quantiles 0.025,0.5,0.975");
    for (line, sine) in found.lines().skip(1).zip([-0.997_495, 0.997_495]) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [_, mean, deviation, epistemic, low, median, high] = cells[..] else {
            panic!("{line}");
        };
        let expected = (9.0_f64 + 2.0 * sine).exp();
        assert!((median / expected - 1.0).abs() < 0.25, "{line}");
        // exp(0.08), and √(exp 0.16 − 1) of it.
        assert!((1.02..1.2).contains(&(mean / median)), "{line}");
        assert!((0.3..0.6).contains(&(deviation / mean)), "{line}");
        assert!(
            epistemic < deviation && 0.0 < low && low < median && median < high,
            "{line}"
        );
        assert!((high / median / (median / low) - 1.0).abs() < 0.3, "{line}");
    }
    // The same bytes from the recorded choice.
    place.output("fit --config run/config.toml --out again");
    for file in ["posterior.safetensors", "scores.json"] {
        let read = |run: &str| std::fs::read(place.path(format!("{run}/{file}"))).unwrap();
        assert!(read("run") == read("again"), "{file}");
    }
}

#[test]
fn a_comparison_predicts_by_one_scale() {
    let place = Workplace::new();
    place.write("prices.csv", &prices(1).0);
    let compare = "compare --data prices.csv --target price --task regression --methods map,vifa --repeats 1 --folds 2 \
                   --model mlp:8 --epochs 30";
    let [out, errors] = place.said(&format!("{compare} --out auto --json"));
    assert!(
        errors.contains("chosen: a network of the logarithm"),
        "{errors}"
    );
    let nll = |text: &str| -> f64 {
        let found: Value = serde_json::from_str(text).unwrap();
        let text = found.to_string();
        let place = text.find("\"nll\"").unwrap_or_else(|| panic!("{text}"));
        let digits = text[place..]
            .find("\"mean\":")
            .map(|at| &text[place + at + 7..]);
        let digits = digits.unwrap_or_else(|| panic!("{text}"));
        let end = digits.find([',', '}']).unwrap();
        digits[..end].parse().unwrap()
    };
    let auto = nll(&out);
    let linear = nll(&place.output(&format!(
        "{compare} --target-scale linear --out linear --json"
    )));
    assert!(auto < linear - 0.2, "{auto} {linear}");
}

#[test]
fn what_has_no_logarithm_is_refused() {
    let place = Workplace::new();
    let rows: String = (0..50).map(|row| format!("{row},{}\n", row + 1)).collect();
    place.write("prices.csv", &format!("x,price\n{rows}50,0\n"));
    let fit = "fit --data prices.csv --target price --task regression --target-scale log --out run";
    place.fails(fit, 3, &["line 52", "`price`", "found 0", "above 0"]);
    place.fails(
        &fit.replace("regression", "classification"),
        2,
        &["--target-scale", "regression"],
    );
}
