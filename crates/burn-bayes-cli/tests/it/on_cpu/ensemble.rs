//! `fit --members`: ensembles, from their fit to their predictions.

use serde_json::Value;

#[cfg(unix)]
use crate::on_cpu::signals::{Reach, interrupted, wait_for_lines};
#[cfg(unix)]
use crate::workplace::GAP;
use crate::workplace::{MOONS, Workplace, json};

#[cfg(unix)]
#[test]
fn an_interrupted_ensemble_is_resumed_to_the_same_bytes() {
    const FILES: [&str; 9] = [
        "command.txt",
        "config.toml",
        "rows.txt",
        "model.toml",
        "scores.json",
        "validation.csv",
        "report.html",
        "member-1/posterior.safetensors",
        "member-2/posterior.safetensors",
    ];
    let place = Workplace::with_gap();
    let fit = format!(
        "{GAP} --method vifa --rank 2 --noise-precision 0.04 --epochs 600 --checkpoint-every 7 --members 2 --out run"
    );
    place.output(&fit);
    std::fs::rename(place.path("run"), place.path("whole")).unwrap();

    let child = place.start(&fit);
    wait_for_lines(&place, "run/member-2/metrics.jsonl", 3);
    let (code, message) = interrupted(child, Reach::Group);
    assert_eq!(code, Some(130), "{message}");
    let continuation =
        "error: interrupted; `burn-bayes fit --resume --out run` continues from here\n";
    assert!(message.ends_with(continuation), "{message}");
    let first = || std::fs::metadata(place.path("run/member-1/model.toml")).unwrap();
    let kept = first().modified().unwrap();

    place.fails(&fit, 2, &["--resume"]);
    place.fails("predict run gap.csv", 3, &["--resume"]);
    for (from, to) in [
        ("batch_size = 10", "batch_size = 11"),
        ("seed = 0", "seed = 1"),
    ] {
        let config = place.read("run/config.toml");
        place.write("run/config.toml", &config.replace(from, to));
        place.fails("fit --resume --out run", 3, &[]);
        place.write("run/config.toml", &config);
    }

    place.output("fit --resume --out run");
    for name in FILES {
        let (run, whole) = (place.path("run").join(name), place.path("whole").join(name));
        let (run, whole) = (std::fs::read(run).unwrap(), std::fs::read(whole).unwrap());
        assert!(run == whole, "{name}");
    }
    assert_eq!(first().modified().unwrap(), kept);
}

#[test]
fn a_deep_ensemble_averages_its_members_and_says_where_they_disagree() {
    let place = Workplace::with_moons();
    let fit = format!("{MOONS} --method map --members 3 --json --out run");
    let outcome = place.json(&fit);
    assert_eq!(outcome["members"], 3);
    assert_eq!(outcome["scores"]["draws"], 3);

    place.write("new.csv", "x,y\n0.5,0.2\n6,-5\n");
    let table = |run: &str| -> Vec<Value> {
        let text = place.output(&format!("predict {run} new.csv --json"));
        text.lines().map(json).collect()
    };
    let (rows, of_members) = (
        table("run"),
        [1, 2, 3].map(|m| table(&format!("run/member-{m}"))),
    );
    for (index, row) in rows.iter().enumerate() {
        let number = |name: &str| row[name].as_f64().unwrap();
        let of_member = |rows: &Vec<Value>| rows[index]["p_lower"].as_f64().unwrap();
        let mean = of_members.iter().map(of_member).sum::<f64>() / 3.0;
        assert!((number("p_lower") - mean).abs() < 1e-12, "{row}");
        assert!(number("mutual_information_within") < 1e-12, "{row}");
        let between = number("mutual_information_between");
        assert!(
            (between - number("mutual_information")).abs() < 1e-12,
            "{row}"
        );
    }
    let report = place.path("report");
    let scores = format!(
        "evaluate run moons.csv --json --report {}",
        report.display()
    );
    let ensemble = place.json(&scores)["nll"]["value"].as_f64().unwrap();
    let alone = |member: usize| {
        let scores = place.json(&format!("evaluate run/member-{member} moons.csv"));
        scores["nll"]["value"].as_f64().unwrap()
    };
    // The logarithm is concave.
    assert!(ensemble <= (1..=3).map(alone).sum::<f64>() / 3.0);

    // Another member is not a file of the ensemble.
    std::fs::copy(
        place.path("run/member-1/model.toml"),
        place.path("run/member-2/model.toml"),
    )
    .unwrap();
    place.fails("predict run new.csv", 3, &["member-2"]);
}

#[test]
fn members_that_are_fitted_at_the_same_time_are_the_same() {
    let place = Workplace::with_moons();
    let fit = format!("{MOONS} --method map --members 3");
    place.output(&format!("{fit} --out one"));
    place.output(&format!("{fit} --threads 2 --out two"));
    let files = (1..=3).map(|member| format!("member-{member}/weights.bpk"));
    for name in files.chain(["validation.csv".into()]) {
        let [one, two] = ["one", "two"].map(|run| std::fs::read(place.path(run).join(&name)));
        assert!(one.unwrap() == two.unwrap(), "{name}");
    }
    assert!(!place.path("two/members.jsonl").exists());

    place.fails(
        &format!("{MOONS} --method map --threads 2 --out alone"),
        2,
        &["--members"],
    );
}

#[test]
fn ensembles_that_make_no_sense_are_refused() {
    let place = Workplace::with_moons();
    for (options, word) in [
        ("--members 0", "--members: is 0"),
        ("--members 2 --refit --patience 3", "--refit: "),
        ("--members 2 --model linear", "--solver gradient"),
    ] {
        place.fails(
            &format!("{MOONS} --epochs 1 {options} --out run"),
            2,
            &[word],
        );
    }
    place.fails(
        "compare --data moons.csv --target kind --methods map,vifa --members 2 --folds 2 --out c",
        2,
        &["--members: "],
    );
}

#[test]
fn a_plan_counts_the_members() {
    let place = Workplace::with_moons();
    let plan = place.json("plan --data moons.csv --target kind --model mlp:20 --members 4");
    let number = |name: &str| plan[name].as_f64().unwrap();
    let seconds = 4.0 * number("steps") * number("seconds_per_step");
    assert!(
        (number("seconds") - seconds).abs() < 1e-9 * seconds,
        "{plan}"
    );
}

#[test]
fn members_that_are_fitted_again_are_those_of_single_fits_and_the_scores_stay() {
    let place = Workplace::with_moons();
    let fit = format!("{MOONS} --method vifa --rank 2 --epochs 8");
    place.output(&format!("{fit} --members 2 --out plain"));
    let outcome = place.json(&format!("{fit} --members 2 --refit --out run"));
    assert_eq!(
        (&outcome["refitted"], &outcome["training_rows"]),
        (&true.into(), &200.into())
    );
    for file in ["scores.json", "validation.csv"] {
        assert!(
            place.read(&format!("run/{file}")) == place.read(&format!("plain/{file}")),
            "{file}"
        );
    }
    let posterior =
        |run: &str| std::fs::read(place.path(run).join("posterior.safetensors")).unwrap();
    for member in [1, 2] {
        let scored = posterior(&format!("run/scored-{member}"));
        assert!(scored == posterior(&format!("plain/member-{member}")));
        assert!(scored != posterior(&format!("run/member-{member}")));
    }
    // The verdict is the worst of the members' convergence tests and of the comparison with plain models.
    let scores = place.scores("run");
    let verdicts = scores["member_verdicts"].as_array().unwrap();
    for (index, verdict) in verdicts.iter().enumerate() {
        let member = place.scores(&format!("run/scored-{}", index + 1));
        assert_eq!(verdict, &member["diagnosis"]["verdict"]);
    }
    // Eight epochs are far too few.
    assert_eq!(verdicts.len(), 2);
    assert!(
        verdicts.iter().all(|verdict| verdict != "trust"),
        "{verdicts:?}"
    );
    assert!(scores["verdict"] != "trust", "{}", scores["verdict"]);
    let report = place.read("run/report.html");
    assert!(report.contains("do not pass their"), "no verdict");
    place.output(&format!("{fit} --refit --out single"));
    assert!(posterior("run/member-1") == posterior("single"));

    // The members that are kept predict.
    place.write("new.csv", "x,y\n0.5,0.2\n");
    let before = place.output("predict run new.csv");
    assert!(before != place.output("predict plain new.csv"));
    place.fails("predict run new.csv --target-risk 0.1", 2, &["refit"]);

    // A fit that was stopped before its last member continues with it.
    for file in ["run/model.toml", "run/member-2/model.toml"] {
        std::fs::remove_file(place.path(file)).unwrap();
    }
    place.output("fit --resume --out run");
    assert_eq!(before, place.output("predict run new.csv"));
}
