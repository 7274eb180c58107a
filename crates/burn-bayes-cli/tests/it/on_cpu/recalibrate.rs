//! `fit --recalibrate`: recalibrated predictions of held-out and new rows, honest scores, and what is refused.

use serde_json::Value;

use crate::on_cpu::predict::{column, numbers};
use crate::workplace::{GAP, MOONS, Workplace};

/// A file with the held-out rows of a run, which is read from `file`.
fn write_held_out(place: &Workplace, run: &str, file: &str) {
    let all = place.read(file);
    let lines: Vec<&str> = all.lines().collect();
    let validation = place.read(&format!("{run}/validation.csv"));
    let rows = column(&validation, "row").into_iter();
    let rows = rows.map(|row| lines[row.parse::<usize>().unwrap()]);
    let text: Vec<&str> = [lines[0]].into_iter().chain(rows).collect();
    place.write("held-out.csv", &text.join("\n"));
}

fn recalibration(place: &Workplace, run: &str) -> Value {
    place.scores(run)["recalibration"].clone()
}

fn nll(found: &Value) -> f64 {
    found["nll"]["value"].as_f64().unwrap()
}

#[test]
fn a_temperature_of_a_classification_is_that_of_the_held_out_rows() {
    let place = Workplace::new();
    place.output("data generate patients --rows 400 --seed 1 --output patients.csv");
    // A point estimate has one draw, so its probabilities follow from those of the fit without recalibration.
    let fit = "fit --data patients.csv --target ill --task classification --missing impute --validation 0.4 \
               --model mlp:20 --method map --epochs 60";
    place.output(&format!("{fit} --out plain"));
    let text = place.output(&format!("{fit} --recalibrate temperature --out run"));
    assert!(
        text.contains("temperature") && text.contains("5-fold cross-fitting"),
        "{text}"
    );
    let found = recalibration(&place, "run");
    let temperature = found["temperature"].as_f64().unwrap();
    assert!(temperature > 1.0, "an overconfident network: {found}");
    assert_eq!(found["kind"], "temperature");
    let number = |name: &str| found[name].as_f64().unwrap();
    let scores = place.scores("run");
    let plain = place.scores("plain");
    assert!((number("nll_before") - nll(&plain)).abs() < 1e-12);
    assert!((number("nll_after") - nll(&scores)).abs() < 1e-12);
    assert!((number("difference") - (nll(&scores) - nll(&plain))).abs() < 1e-12);
    assert!(plain.get("recalibration").is_none());

    write_held_out(&place, "run", "patients.csv");
    let before = numbers(&place.read("plain/validation.csv"), "p_yes");
    let fitted = numbers(&place.output("predict run held-out.csv"), "p_yes");
    let scored = numbers(&place.read("run/validation.csv"), "p_yes");
    for (before, after) in before.iter().zip(&fitted) {
        let expected = 1.0 / (1.0 + ((1.0 - before) / before).powf(1.0 / temperature));
        // The file has six digits or more.
        assert!(
            (after - expected).abs() < 1e-5,
            "{before}: {after} {expected}"
        );
    }
    // The scored predictions are cross-fitted, so they differ from those of the final map.
    assert!(fitted.iter().zip(&scored).any(|(one, other)| one != other));
    let evaluated = place.json("evaluate run held-out.csv");
    assert!(nll(&evaluated) < nll(&plain), "{evaluated}");
    let report = place.read("run/report.html");
    assert!(report.contains("recalibrated by cross-fitting"));

    // The held-out rows are used up.
    for (command, words) in [
        (
            "predict run held-out.csv --conformal 0.9",
            ["`recalibrate`", "fit without it"],
        ),
        (
            "predict run held-out.csv --target-risk 0.1",
            ["`recalibrate`", "fit without it"],
        ),
    ] {
        place.fails(command, 2, &words);
    }
}

#[test]
fn a_factor_of_a_regression_scales_all_deviations() {
    let place = Workplace::new();
    place.output("data generate gap --rows 200 --seed 3 --output gap.csv");
    // The noise is given as more than twice the true deviation of 0.1, which the factor repairs.
    let fit = "fit --data gap.csv --target y --task regression --model mlp:20 --method mean-field --epochs 150 \
               --draws 20 --validation 0.4 --noise-precision 20";
    place.output(&format!("{fit} --out plain"));
    let text = place.output(&format!("{fit} --recalibrate variance --out run"));
    assert!(
        text.contains("recalibration: standard deviations times"),
        "{text}"
    );
    let found = recalibration(&place, "run");
    let factor = found["deviation_factor"].as_f64().unwrap();
    assert!(factor < 0.7, "{found}");
    assert!(found["difference"].as_f64().unwrap() < -found["standard_error"].as_f64().unwrap());

    write_held_out(&place, "run", "gap.csv");
    let plain = place.output("predict plain held-out.csv");
    let recalibrated = place.output("predict run held-out.csv");
    for (name, factor) in [("mean", 1.0), ("std", factor), ("epistemic_std", factor)] {
        let pairs = numbers(&plain, name)
            .into_iter()
            .zip(numbers(&recalibrated, name));
        for (before, after) in pairs {
            let expected = factor * before;
            assert!(
                (after - expected).abs() <= 1e-4 * expected.abs(),
                "{name}: {after} {expected}"
            );
        }
    }

    // An ensemble: the map is that of the mixture, the members have none, and resuming changes nothing.
    place.output(&format!(
        "{fit} --recalibrate variance --members 2 --out several"
    ));
    let of_mixture = recalibration(&place, "several");
    assert!(
        of_mixture["deviation_factor"].as_f64().unwrap() < 0.7,
        "{of_mixture}"
    );
    assert!(recalibration(&place, "several/member-1").is_null());
    let before = place.read("several/scores.json");
    std::fs::remove_file(place.path("several/model.toml")).unwrap();
    place.output("fit --resume --out several");
    assert_eq!(place.read("several/scores.json"), before);
    place.output("predict several held-out.csv");
}

#[test]
fn a_diverged_fit_is_not_hidden() {
    let place = Workplace::new();
    place.output("data generate gap --rows 200 --seed 3 --output gap.csv");
    place.fails("fit --data gap.csv --target y --task regression --model mlp:20 --method mean-field --epochs 60 --draws 20 \
         --validation 0.4 --noise-precision 1000 --recalibrate variance --out run", 4, &["the fit has diverged"]);
    assert!(
        recalibration(&place, "run")["deviation_factor"]
            .as_f64()
            .unwrap()
            > 1.5
    );
}

#[test]
fn unsuitable_recalibrations_are_refused_before_the_training() {
    let moons = Workplace::with_moons();
    let gap = Workplace::with_gap();
    for (place, arguments, words) in [
        (&moons, format!("{MOONS} --recalibrate variance --out run"), ["a class", "use temperature"]),
        (&gap, format!("{GAP} --recalibrate temperature --out run"), ["a number", "use variance"]),
        (&moons, format!("{MOONS} --recalibrate temperature --validation 0 --out run"), ["held-out rows", "--validation 0.2"]),
        (&moons, format!("{MOONS} --recalibrate temperature --refit --out run"), ["`refit`", "leave out one"]),
        (&moons, format!("{MOONS} --recalibrate temperature --out run"), ["at least 50", "`--validation`"]),
        (
            &moons,
            "compare --data moons.csv --target kind --task classification --recalibrate temperature --out table".into(),
            ["--recalibrate: ", "leave it out"],
        ),
    ] {
        place.fails(&arguments, 2, &[&words[..], &["recalibrate"]].concat());
        assert!(!place.path("run").exists(), "{arguments}");
    }
}
