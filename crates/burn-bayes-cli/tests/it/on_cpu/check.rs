//! `check`: its page, and independence of threads and interruptions.

use crate::workplace::Workplace;

/// Simulations that take a second.
const CHECK: &str = "check --model linear --noise-precision 1 --rows 30 --features 3 --simulations 60 \
                     --posterior-draws 19 --json";

#[test]
fn exact_posteriors_are_calibrated() {
    let place = Workplace::new();
    let found = place.json(&format!("{CHECK} --method exact --out found"));
    assert_eq!(found["is_calibrated"], true, "{found}");
    let check = &found["check"];
    assert_eq!(
        (&check["simulations"], &check["diverged"], &check["draws"]),
        (&60.into(), &0.into(), &19.into())
    );
    // The log-likelihood, the output at four rows, and three weights.
    assert_eq!(check["quantities"].as_array().unwrap().len(), 8);
    let page = place.read(found["page"].as_str().unwrap());
    for words in [
        "Verdict: no miscalibration found",
        "60 simulations of 30 rows and 3 features",
        "burn-bayes check --model linear",
        "</html>",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    assert!(place.path("found/plots/ecdf-8.svg").exists());
}

#[test]
fn samples_of_a_network_are_calibrated() {
    let place = Workplace::new();
    let check = "check --method mclmc --model mlp:8 --features 4 --rows 60 --noise-precision 4 --simulations 60 \
                 --posterior-draws 99 --out found --json";
    let found = place.json(check);
    assert_eq!(found["is_calibrated"], true, "{found}");
    // The log-likelihood, and the output at four rows.
    assert_eq!(found["check"]["quantities"].as_array().unwrap().len(), 5);
}

#[test]
fn correlated_columns_of_a_file_are_too_much_for_mean_field() {
    let place = Workplace::new();
    let rows = (0..60).map(|row| {
        let common = f64::from(row * 37 % 60) / 10.0;
        let own = f64::from(row * 17 % 60) / 100.0;
        format!("{common},{},{}\n", common + own, row % 7)
    });
    place.write("rows.csv", &format!("a,b,y\n{}", rows.collect::<String>()));
    let check = "check --data rows.csv --target y --task regression --model linear --noise-precision 0.1 \
                 --method mean-field --simulations 100 --posterior-draws 49 --out found";
    let text = place.output(check);
    assert!(
        text.contains("100 simulations of 60 rows and 2 features"),
        "{text}"
    );
    assert!(text.contains("miscalibrated: too narrow for"), "{text}");
    let weight = text.lines().find(|line| line.starts_with("weight of a"));
    assert!(
        weight.is_some_and(|line| line.ends_with("too narrow")),
        "{text}"
    );
    assert!(text.contains("found/check.html"), "{text}");
}

#[test]
fn classes_and_networks_are_simulated_too() {
    let place = Workplace::new();
    let check = "check --model mlp:4 --method mean-field --epochs 3 --classes 3 --rows 20 --features 2 \
                 --simulations 4 --posterior-draws 9 --out found --json";
    let found = place.json(check);
    let names = found["check"]["quantities"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|quantity| &quantity["name"]).collect();
    assert_eq!(names.len(), 5);
    assert_eq!(
        (names[0], names[1]),
        (&"log-likelihood".into(), &"log odds at row 1".into())
    );
}

#[test]
fn ranks_are_the_same_on_any_number_of_threads_and_after_an_interruption() {
    let place = Workplace::new();
    let check = format!("{CHECK} --method vifa");
    let one = place.json(&format!("{check} --threads 1 --out one"));
    let two = place.json(&format!("{check} --threads 2 --out two"));
    assert_eq!(one["check"], two["check"]);
    // The file of a killed command: some simulations, and an incomplete line.
    let lines = place.read("one/simulations.jsonl");
    let kept: Vec<&str> = lines.lines().take(20).collect();
    std::fs::create_dir(place.path("three")).unwrap();
    place.write(
        "three/simulations.jsonl",
        &format!("{}\n{{\"case\":", kept.join("\n")),
    );
    let three = place.json(&format!("{check} --resume --out three"));
    assert_eq!(one["check"], three["check"]);
    let other = place.json(&format!("{check} --seed 1 --out four"));
    assert_ne!(one["check"], other["check"]);
    place.fails(&format!("{check} --out one"), 2, &["--resume"]);
}

#[test]
fn what_cannot_be_simulated_is_refused_before_the_first_fit() {
    let place = Workplace::with_moons();
    let moons = "check --data moons.csv --target kind --out found";
    for (arguments, words) in [
        (
            "check --model linear --out found".into(),
            "--noise-precision: is learned",
        ),
        (
            format!("{CHECK} --method map --out found"),
            "--method: is map",
        ),
        (
            format!("{CHECK} --simulations 0 --out found"),
            "--simulations: is 0",
        ),
        (
            format!("{CHECK} --posterior-draws 0 --out found"),
            "--posterior-draws: is 0",
        ),
        (
            format!("{CHECK} --classes 1 --out found"),
            "--classes: is 1",
        ),
        (format!("{CHECK} --rows 0 --out found"), "--rows: is 0"),
        (
            format!("{CHECK} --prior-precision 0 --out found"),
            "--prior-precision: is 0",
        ),
        (
            format!("{CHECK} --draws 5 --out found"),
            "--draws: is not used",
        ),
        (
            format!("{CHECK} --patience 5 --out found"),
            "--patience: is not used",
        ),
        (
            format!("{CHECK} --refit --out found"),
            "--refit: is not used",
        ),
        (
            format!("{CHECK} --target kind --out found"),
            "--rows: is for generated rows",
        ),
        (
            "check --target kind --out found".into(),
            "--data: is not given",
        ),
        (
            format!("{moons} --classes 3"),
            "--classes: is for generated rows",
        ),
        (
            format!("{moons} --validation 0.5"),
            "--validation: is not used",
        ),
        (
            format!("{moons} --method exact --model linear"),
            "--method: is exact",
        ),
    ] {
        place.fails(&arguments, 2, &[words]);
    }
    assert!(!place.path("found").exists(), "nothing was begun");
}
