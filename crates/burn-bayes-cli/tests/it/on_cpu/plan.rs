//! `plan`, `data` and `demo`, which need no fit of the user.

use burn_bayes_data::{Column, CsvOptions, GENERATED_SETS, read_csv};
use serde_json::Value;

use crate::workplace::{GAP, Workplace};

fn plan(place: &Workplace, change: &str) -> Value {
    place.json(&format!("{GAP} {change}").replacen("fit", "plan", 1))
}

#[test]
fn a_plan_counts_weights_steps_and_bytes() {
    let place = Workplace::with_gap();
    let known = plan(&place, "--noise-precision 0.04");
    let weights = 20 + 20 + 20 + 1;
    assert_eq!(known["weights"], weights);
    assert_eq!(known["training_rows"], 120);
    assert_eq!(known["steps"], 60.0 * 12.0);
    // Four copies of mean and diagonal for Adam and the average, the progress of the mean, gradients, and the
    // network, two draws and their gradients.
    assert_eq!(known["memory"], 4 * weights * (2 * 4 + 3 + 2 + 5));
    // One feature and one target.
    assert_eq!(known["rows_memory"], 4 * 120 * 2);
    let (step, total) = (&known["seconds_per_step"], &known["seconds"]);
    assert!(
        step.as_f64() > Some(0.0) && total.as_f64() > step.as_f64(),
        "{known}"
    );
    let learned = plan(&place, "");
    assert_eq!(learned["steps"], known["steps"]);
    let factors = plan(&place, "--noise-precision 0.04 --method vifa --rank 3");
    assert_eq!(
        (&factors["rank"], &factors["weights"]),
        (&3.into(), &weights.into())
    );
    assert!(factors["memory"].as_u64() > known["memory"].as_u64());
    let natural = plan(&place, "--noise-precision 0.04 --method slang --rank 3");
    // Mean, precision and factors before and after the step, momentum, the network, a draw, two more vectors, and
    // one for the comparison of recordings; in the first stage, three for the convergence test and two of Adam; the
    // average of the means.
    assert_eq!(
        natural["memory"],
        4 * weights * (2 * (2 + 3) + 1 + 5 + 5 + 1)
    );
    let text = place.output(&GAP.replacen("fit", "plan", 1));
    assert!(text.contains("MiB") && text.contains("in total"), "{text}");
}

#[test]
fn a_single_step_takes_time() {
    let place = Workplace::with_gap();
    let plan = plan(&place, "--noise-precision 0.04 --epochs 1 --batch-size 120");
    assert_eq!(plan["steps"], 1.0);
    assert!(plan["seconds"].as_f64() > Some(0.0), "{plan}");
}

#[test]
fn a_second_fit_to_all_rows_takes_time_too() {
    let place = Workplace::with_gap();
    let plan = plan(&place, "--noise-precision 0.04 --refit");
    let [steps, step, seconds] =
        ["steps", "seconds_per_step", "seconds"].map(|name| plan[name].as_f64().unwrap());
    assert!(seconds > 1.05 * steps * step, "{plan}");
    assert_eq!(plan["seconds"], plan["most_seconds"]);
    let text = place.output(&format!("{GAP} --refit").replacen("fit", "plan", 1));
    assert!(text.contains("again with all rows"), "{text}");
}

#[test]
fn generated_sets_are_listed() {
    let place = Workplace::new();
    let text = place.output("data list");
    for name in ["patients", "two-moons"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    let listed = place.json("data list");
    let sets = listed["sets"].as_array().unwrap();
    let patients = sets.iter().find(|set| set["name"] == "patients").unwrap();
    assert_eq!(patients["target"], "ill");
    place.fails(
        "data generate gap --rows 100000000000",
        2,
        &["at most 10000000"],
    );
    place.fails("data generate nosuchset", 2, &["nosuchset"]);
}

#[test]
fn generated_sets_can_be_read_again() {
    let place = Workplace::new();
    for set in GENERATED_SETS {
        place.output(&format!(
            "data generate {} --rows 50 --seed 3 --output rows.csv",
            set.name
        ));
        let read = read_csv(place.path("rows.csv"), &CsvOptions::default()).unwrap();
        let made = set.table(50, 3).unwrap();
        assert_eq!(read.rows(), 50);
        for (read, made) in read.columns().iter().zip(made.columns()) {
            let labels = |column: &Column| (0..50).map(|row| column.label(row)).collect::<Vec<_>>();
            assert_eq!(read.name(), made.name());
            // Amounts and shares are written as text, and read as numbers.
            if read.kind() == made.kind() {
                assert_eq!(labels(read), labels(made), "{}", made.name());
            }
        }
        read.column(set.target).unwrap();
    }
}

#[test]
fn the_demonstration_tells_methods_apart() {
    let place = Workplace::new();
    let outcome = place.json("demo --out demo");
    let fits = outcome["fits"].as_array().unwrap();
    let of = |problem: &str, method: &str, name: &str| {
        let mut fits = fits.iter();
        let fit = fits.find(|fit| fit["problem"] == problem && fit["method"] == method);
        fit.unwrap()[name].as_f64().unwrap()
    };
    for fit in fits {
        let page = place.read(fit["report"].as_str().unwrap());
        for words in ["burn-bayes demo --out demo --json<", "Training loss"] {
            assert!(page.contains(words), "no {words} in {}", fit["report"]);
        }
        assert!(fit["nll"].as_f64().unwrap() < 0.5, "{fit}");
    }
    // A point estimate is equally certain of all numbers, unlike a posterior, and more certain of classes far from the data.
    let (unsure, in_chart) = (of("gap", "map", "unsure"), of("gap", "map", "in_chart"));
    assert!(
        (in_chart / unsure - 1.0).abs() < 1e-12,
        "{unsure} {in_chart}"
    );
    for method in ["slang", "mclmc", "hmc"] {
        assert!(
            of("gap", method, "in_chart") > 1.1 * of("gap", method, "unsure"),
            "{fits:?}"
        );
        let point = of("two-moons", "map", "in_chart");
        assert!(
            of("two-moons", method, "in_chart") > 2.0 * point,
            "{fits:?}"
        );
    }
    // The default is as uncertain as the reference.
    for problem in ["gap", "two-moons"] {
        let [found, expected] = ["mclmc", "hmc"].map(|method| of(problem, method, "in_chart"));
        let ratio = found / expected;
        assert!((0.8..1.25).contains(&ratio), "{problem}: {ratio}");
    }
    assert_eq!(fits.len(), 8);
    let page = place.read(outcome["page"].as_str().unwrap());
    for fit in fits {
        let report = fit["report"].as_str().unwrap();
        let address = report.strip_prefix("demo/").unwrap();
        assert!(page.contains(&format!("href=\"{address}\"")), "{address}");
    }
    assert_eq!(page.matches("<figure>").count(), 8);
}

#[cfg(unix)]
#[test]
fn an_interrupted_demonstration_keeps_whole_reports() {
    use crate::on_cpu::signals::{Reach, interrupted, wait_until};
    let place = Workplace::new();
    let report = place.path("demo/two-moons/map/report.html");
    let child = place.start("demo --out demo");
    wait_until(|| report.exists());
    let (code, message) = interrupted(child, Reach::Process);
    assert_eq!(
        (code, message.as_str()),
        (Some(130), "error: interrupted\n")
    );
    assert!(std::fs::read_to_string(report).unwrap().contains("</html>"));
    assert!(!place.path("demo/gap/slang/report.html").exists());
    assert!(!place.path("demo/index.html").exists());
}
