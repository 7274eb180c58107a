//! `fit`: its files, and interruption.

use serde_json::Value;

#[cfg(unix)]
use crate::on_cpu::signals::{Reach, interrupted, wait_for_lines};
use crate::workplace::{GAP, MOONS, Workplace, json};

#[test]
fn a_fit_leaves_a_folder() {
    let place = Workplace::with_moons();
    let outcome = place.json(&format!("{MOONS} --epochs 200 --out run"));
    let accuracy = outcome["scores"]["accuracy"]["value"].as_f64().unwrap();
    let nll = outcome["scores"]["nll"]["value"].as_f64().unwrap();
    // A network bends around the moons: it makes fewer errors than a straight line, and is surer.
    let baselines = outcome["baselines"].as_array().unwrap();
    let linear = baselines
        .iter()
        .find(|baseline| baseline["model"] == "linear");
    let linear = &linear.expect("a logistic regression is fitted")["scores"];
    let of_linear = |score: &str| linear[score].as_f64().unwrap();
    assert!(1.0 - accuracy < of_linear("error"), "{outcome}");
    assert!(nll < of_linear("nll"), "{outcome}");
    assert_eq!(outcome["training_rows"], 160);
    assert_eq!(outcome["weights"], 2 * 20 + 20 + 20 * 2 + 2);
    for name in [
        "config.toml",
        "command.txt",
        "report.html",
        "preprocessor.toml",
        "posterior.safetensors",
        "model.toml",
    ] {
        assert!(place.path("run").join(name).is_file(), "{name}");
    }
    assert_eq!(place.scores("run"), outcome["scores"]);
    let metrics = place.read("run/metrics.jsonl");
    assert_eq!(metrics.lines().count(), 200);
    let last = json(metrics.lines().last().unwrap());
    assert_eq!(
        (&last["epoch"], &last["epochs"]),
        (&200.into(), &200.into())
    );
    assert_eq!(place.read("run/validation.csv").lines().count(), 1 + 40);
    let left: Vec<_> = std::fs::read_dir(place.path("run")).unwrap().collect();
    let left = left.into_iter().map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().starts_with('.'))
    );
}

#[test]
fn every_method_fits_and_predicts() {
    let place = Workplace::with_moons();
    let methods = [
        "vifa",
        "mean-field",
        "vafc",
        "swag",
        "factor-analysis",
        "slang",
        "vogn",
        "von",
        "vadam",
        "ivon",
        "nagvac",
        "mclmc",
        "hmc",
        "laplace",
        "map",
    ];
    for method in methods {
        let options = MOONS.replace(
            "--method mean-field",
            &format!("--method {method} --rank 2"),
        );
        let outcome = place.json(&format!("{options} --out {method}"));
        assert_eq!(outcome["method"], method);
        let rank = match method {
            "vifa" | "vafc" | "swag" | "factor-analysis" | "slang" | "laplace" => Value::from(2),
            "nagvac" => Value::from(1),
            "map" | "mclmc" | "hmc" => Value::Null,
            _ => Value::from(0),
        };
        assert_eq!(outcome["rank"], rank, "{method}");
        let plan = options.replacen("fit", "plan", 1);
        let plan = place.json(&plan);
        assert_eq!(plan["rank"], rank, "{method}");
        let predictions = place.output(&format!("predict {method} moons.csv"));
        assert_eq!(predictions.lines().count(), 1 + 200);
        // The scores of the validation rows are the same after loading the run.
        let table = place.read("moons.csv");
        let lines: Vec<&str> = table.lines().collect();
        let validation = place.read(&format!("{method}/validation.csv"));
        let numbers = validation.lines().skip(1).map(|line| {
            let (number, _) = line.split_once(',').unwrap();
            number.parse::<usize>().unwrap()
        });
        let held_out = [0].into_iter().chain(numbers).map(|number| lines[number]);
        let held_out: Vec<&str> = held_out.collect();
        assert_eq!(held_out.len(), 1 + 40);
        place.write("held_out.csv", &held_out.join("\n"));
        let again = place.json(&format!("evaluate {method} held_out.csv"));
        for score in ["nll", "accuracy", "brier"] {
            let of = |scores: &Value| scores[score]["value"].as_f64().unwrap();
            let (before, after) = (of(&outcome["scores"]), of(&again));
            assert!(
                (before - after).abs() < 1e-5,
                "{method}, {score}: {before} {after}"
            );
        }
    }
}

#[test]
fn the_exact_posterior_of_a_linear_regression_is_a_run_like_others() {
    let place = Workplace::with_gap();
    let exact = GAP.replace("--method mean-field", "--method exact");
    let linear = exact.replace("--model mlp:20", "--model linear");
    let outcome = place.json(&format!("{linear} --out run"));
    assert_eq!(
        (&outcome["weights"], &outcome["rank"]),
        (&2.into(), &2.into())
    );
    // It is the posterior, but a line does not predict a curve.
    assert_eq!(outcome["diagnosis"]["verdict"], "trust", "{outcome}");
    assert_eq!(outcome["verdict"], "look-closer", "{outcome}");
    assert_eq!(place.output("predict run gap.csv").lines().count(), 1 + 150);
    let plan = place.json(&linear.replacen("fit", "plan", 1));
    assert_eq!(plan["rank"], 2);
    place.fails(&format!("{exact} --out network"), 2, &["`--model linear`"]);
    let place = Workplace::with_moons();
    let linear = MOONS.replace(
        "--model mlp:20 --method mean-field",
        "--model linear --method exact",
    );
    place.fails(&format!("{linear} --out classes"), 2, &["classification"]);
}

#[test]
fn numbers_come_back_in_their_own_unit() {
    let place = Workplace::with_gap();
    let outcome = place.json(&format!("{GAP} --out run"));
    let rmse = outcome["scores"]["rmse"]["value"].as_f64().unwrap();
    // The target has a deviation of about 40, and its noise 5.
    assert!(rmse > 3.0 && rmse < 20.0, "{rmse}");
    let noise = outcome["noise_precision"].as_f64().unwrap().powf(-0.5);
    assert!(noise > 3.0 && noise < 20.0, "{noise}");
    let given = format!("{GAP} --noise-precision 0.04 --json --out given");
    let outcome = place.json(&given);
    let found = outcome["noise_precision"].as_f64().unwrap();
    assert!((found - 0.04).abs() < 1e-9, "{found}");
    assert_eq!(
        outcome["scores"]["noise_deviation"]
            .as_f64()
            .map(f64::round),
        Some(5.0)
    );
}

#[test]
fn settings_without_effect_are_named() {
    let place = Workplace::with_gap();
    let note = |setting: &str| format!("note: `--{setting}` has no effect with");
    let direct = "a linear model that is solved directly; `--solver gradient` trains it";
    let options = format!("{GAP} --model linear --clip 1");
    let errors = place.warnings(&format!("{options} --out direct"));
    for setting in ["epochs", "batch-size", "clip"] {
        assert!(
            errors.contains(&format!("{} {direct}", note(setting))),
            "{errors}"
        );
    }
    for setting in ["method", "model", "draws"] {
        assert!(!errors.contains(&note(setting)), "{errors}");
    }
    let errors = place.warnings(&format!(
        "{options} --solver gradient --rank 2 --out trained"
    ));
    assert!(
        errors.contains("note: `--rank` has no effect with mean-field"),
        "{errors}"
    );
    assert_eq!(errors.matches("note: ").count(), 1, "{errors}");
    let errors = place.warnings(&format!("{GAP} --solver gradient --out network"));
    assert!(
        errors.contains("note: `--solver` has no effect with `model = mlp`"),
        "{errors}"
    );
}

#[test]
fn the_task_is_inferred_and_kept() {
    let place = Workplace::with_moons();
    let errors = place.warnings("fit --data moons.csv --target kind --model linear --out classes");
    assert!(errors.contains("task: classification, because"), "{errors}");
    assert!(
        place
            .read("classes/config.toml")
            .contains("task = \"classification\"")
    );
    let errors = place.warnings("fit --data moons.csv --target x --model linear --out numbers");
    assert!(
        errors.contains("task: regression, because the target `x`"),
        "{errors}"
    );
    place.output("evaluate classes moons.csv");
}

#[test]
fn patience_keeps_the_best_epoch_and_a_refit_has_all_rows() {
    let place = Workplace::with_moons();
    let fit = format!("{MOONS} --epochs 400 --lr 0.1 --patience 5 --json");
    let kept = place.json(&format!("{fit} --out kept"));
    let best = kept["best_epoch"].as_u64().unwrap() as usize;
    let metrics = place.read("kept/metrics.jsonl");
    let lines: Vec<Value> = metrics.lines().map(json).collect();
    assert!(lines.len() == best + 5 && lines.len() < 400, "{best}");
    let score = |line: &Value| line["validation_nll"].as_f64().unwrap();
    // In the first stage, the deviations are those of the start.
    let (stage, learned): (Vec<&Value>, Vec<&Value>) = lines
        .iter()
        .partition(|line| line["before_posterior"] == true);
    assert!(!stage.is_empty() && stage.len() < best, "{metrics}");
    let best_score = score(&lines[best - 1]);
    assert!(learned.into_iter().all(|line| score(line) >= best_score));

    let again = place.json(&format!("{fit} --refit --out again"));
    for part in ["best_epoch", "scores"] {
        assert_eq!(again[part].get("nll"), kept[part].get("nll"), "{part}");
    }
    let rows = |outcome: &Value| {
        (
            outcome["training_rows"].clone(),
            outcome["refitted"].clone(),
        )
    };
    assert_eq!(rows(&kept), (160.into(), false.into()));
    assert_eq!(rows(&again), (200.into(), true.into()));
    let posterior = |run| std::fs::read(place.path(run).join("posterior.safetensors")).unwrap();
    assert!(posterior("kept") != posterior("again"));
    for (run, use_of_rows) in [("kept", "chose the epoch"), ("again", "trained the model")] {
        place.fails(
            &format!("predict {run} moons.csv --target-risk 0.5"),
            2,
            &[use_of_rows],
        );
    }
    let message = place.warnings(&format!("{MOONS} --refit --validation 0 --out none"));
    assert!(message.contains("`--refit` has no effect"), "{message}");
}

#[test]
fn a_fit_is_judged_beside_plain_models() {
    let place = Workplace::with_moons();
    let outcome = place.json(&format!("{MOONS} --against-map --out run"));
    let scores = &outcome["scores"];
    for part in ["verdict", "diagnosis", "baselines"] {
        assert_eq!(outcome[part], scores[part], "{part}");
    }
    assert_eq!(place.scores("run"), *scores);
    let verdict_of_run = &outcome["verdict"];
    let baselines = scores["baselines"].as_array().unwrap();
    let models: Vec<_> = baselines
        .iter()
        .map(|one| one["model"].as_str().unwrap())
        .collect();
    assert_eq!(models, ["constant", "linear", "forest", "map"]);
    for baseline in baselines {
        let score = |name: &str| baseline["scores"][name].as_f64().unwrap();
        let nll = scores["nll"]["value"].as_f64().unwrap();
        assert!(
            (score("difference") - (nll - score("nll"))).abs() < 1e-9,
            "{baseline}"
        );
        assert!(score("standard_error") > 0.0, "{baseline}");
    }
    // Half of the rows belong to each class.
    let constant = baselines[0]["scores"]["nll"].as_f64().unwrap();
    assert!((constant - 2f64.ln()).abs() < 0.01, "{constant}");
    let page = place.read("run/report.html");
    let verdict = page.find("Verdict: ").unwrap();
    assert!(verdict < page.find("<nav").unwrap() && page.contains("Logistic regression"));

    // One epoch of tiny steps leaves the initial weights as they are.
    let short = MOONS.replace("--epochs 30", "--epochs 1 --learning-rate 0.0001");
    let output = place
        .burn_bayes(&format!("{short} --out short"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for model in ["the class frequencies", "logistic regression"] {
        let reason = format!("on the held-out rows it is worse than {model}");
        assert!(text.contains(&reason), "{text}");
    }
    assert!(text.contains("do not use: on the held-out rows"), "{text}");
    // Whoever uses a fit with this verdict is warned, whether it has diverged or has the exit code 0.
    place.output("data generate gap --rows 200 --output gap.csv");
    place.output(
        "fit --data gap.csv --target y --task regression --target-scale linear --method vifa --epochs 2 \
         --prior-precision 1e6 --model mlp:4 --out tight",
    );
    for (command, words) in [
        ("predict short moons.csv", "cannot be used"),
        ("predict tight gap.csv", "is `do not use`"),
        ("explain tight gap.csv --out page", "is `do not use`"),
    ] {
        let errors = place.warnings(command);
        assert!(errors.contains(words), "{errors}");
    }
    let errors = place.warnings("predict run moons.csv");
    let is_told = errors.contains("is `do not use`");
    assert_eq!(is_told, verdict_of_run == "do-not-use");
    // A linear model is its own baseline, and without held-out rows there is none.
    let linear = MOONS.replace("--model mlp:20", "--model linear");
    let outcome = place.json(&format!("{linear} --out linear"));
    let models: Vec<_> = outcome["baselines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["model"])
        .collect();
    assert_eq!(models, ["constant", "forest", "network"]);
    // A straight line between two moons is worse than trees, and than curves.
    let text = place.read("linear/report.html");
    for better in ["a random forest", "a small network"] {
        assert!(text.contains(&format!("worse than {better}")), "{text}");
    }
    let outcome = place.json(&format!("{MOONS} --validation 0 --out none"));
    assert_eq!(outcome["baselines"].as_array().unwrap().len(), 0);
    assert!(outcome["verdict"].is_string());
}

#[test]
fn a_class_of_two_rows_is_in_both_parts() {
    let place = Workplace::new();
    let rows = (0..40).map(|row| format!("{row},{}\n", ["low", "high"][row % 2]));
    let rare = "50,rare\n51,rare\n";
    place.write(
        "rare.csv",
        &format!("x,kind\n{}{rare}", rows.collect::<String>()),
    );
    let fit = "fit --data rare.csv --target kind --task classification --model linear --method full-gaussian --out run";
    let (code, message) = place.failure(fit);
    assert!(code == 0 || code == 4, "{message}");
    let held_out = crate::on_cpu::predict::column(&place.read("run/validation.csv"), "target");
    assert_eq!(
        held_out.iter().filter(|&class| class == "rare").count(),
        1,
        "{held_out:?}"
    );
}

#[test]
fn a_fit_without_held_out_rows_may_have_diverged_too() {
    let place = Workplace::with_gap();
    // One step of a rate at which the mean leaves the data.
    let fit = format!(
        "{GAP} --validation 0 --optimizer sgd --lr 0.5 --epochs 1 --batch-size 150 --out run"
    );
    let fit = fit.replace("--epochs 60 --batch-size 10 ", "");
    let message = place.fails(&fit, 4, &[]);
    assert!(
        message.contains("diverged") || message.contains("not finite"),
        "{message}"
    );
}

#[test]
fn few_rows_are_fitted() {
    let (gap, moons) = (Workplace::with_gap(), Workplace::with_moons());
    for rows in [13, 20, 39] {
        for (place, file, options) in [(&gap, "gap.csv", GAP), (&moons, "moons.csv", MOONS)] {
            let text = place.read(file);
            let text: Vec<&str> = text.lines().take(1 + rows).collect();
            place.write("few.csv", &text.join("\n"));
            let options = options.replace(file, "few.csv");
            let options = options.replace("--batch-size 10", "--batch-size 32");
            let outcome = place.output(&format!("{options} --json --out {rows}"));
            assert!(json(&outcome)["verdict"].is_string(), "{rows}: {outcome}");
            place.output(&format!("predict {rows} few.csv"));
            let errors = place.warnings(&format!("{options} --model mlp:60 --out {rows}-wide"));
            assert_eq!(
                errors.contains("mostly determined by the prior: "),
                rows < 39,
                "{errors}"
            );
        }
    }
    gap.write("two.csv", "x;price\n1;2\n2;3\n");
    let two = GAP.replace("gap.csv", "two.csv");
    let (code, message) = gap.failure(&format!("{two} --out none"));
    let expected = "0.2 cannot be held out of 2 rows; use more rows";
    assert!(code == 3 && message.contains(expected), "{message}");
}

/// The lines of a run's metrics.
fn metrics(place: &Workplace, run: &str) -> Vec<Value> {
    let text = place.read(&format!("{run}/metrics.jsonl"));
    text.lines().map(json).collect()
}

#[test]
fn epochs_tell_how_well_the_held_out_rows_are_predicted() {
    let place = Workplace::with_moons();
    let outcome = place.json(&format!("{MOONS} --draws 10 --out run"));
    let lines = metrics(&place, "run");
    let of = |line: &Value, name: &str| line[name].as_f64().unwrap();
    // The same ten draws as for the scores.
    let score = |name: &str| outcome["scores"][name]["value"].as_f64().unwrap();
    assert_eq!(of(&lines[29], "validation_nll"), score("nll"));
    assert_eq!(of(&lines[29], "validation_error"), 1.0 - score("accuracy"));
    let nll: Vec<f64> = lines
        .iter()
        .filter_map(|line| line["validation_nll"].as_f64())
        .collect();
    // Every epoch: five steps of two draws take twice as long as an evaluation.
    assert_eq!(nll.len(), 30, "{nll:?}");
    assert!(nll[29] < 0.8 * nll[0], "{nll:?}");
    let page = place.read("run/report.html");
    assert!(page.contains("Training loss and validation NLL") && page.contains("Validation error"));

    place.output(&format!("{MOONS} --validation 0 --out none"));
    for line in metrics(&place, "none") {
        assert_eq!(line.get("validation_nll"), None, "{line}");
    }
}

#[test]
fn numbers_are_scored_on_the_scale_of_the_loss() {
    let place = Workplace::with_gap();
    let outcome = place.json(&format!("{GAP} --draws 10 --out run"));
    let lines = metrics(&place, "run");
    let last = &lines[59];
    let learnt: toml::Table = place.read("run/model.toml").parse().unwrap();
    let learning_scale = learnt["noise_precision"].as_float().unwrap();
    let own_scale = outcome["noise_precision"].as_f64().unwrap();
    let spread = (learning_scale / own_scale).sqrt();
    let score = |name: &str| outcome["scores"][name]["value"].as_f64().unwrap();
    let nll = last["validation_nll"].as_f64().unwrap();
    assert!((nll + spread.ln() - score("nll")).abs() < 1e-9, "{nll}");
    assert_eq!(last["validation_error"].as_f64(), Some(score("rmse")));
}

#[test]
fn a_file_of_settings_is_overridden_by_options() {
    let place = Workplace::with_moons();
    place.write(
        "fit.toml",
        "[data]\npath = \"moons.csv\"\ntarget = \"kind\"\ntask = \"classification\"\n\
         [fit]\nmethod = \"map\"\nmodel = \"mlp:5\"\nepochs = 50\n",
    );
    let outcome = place.json("fit --config fit.toml --epochs 20 --out run");
    assert_eq!(
        (&outcome["method"], &outcome["model"]),
        (&"map".into(), &"mlp:5".into())
    );
    let config: toml::Table = place.read("run/config.toml").parse().unwrap();
    assert_eq!(config["fit"]["epochs"].as_integer(), Some(20));
    assert_eq!(config["data"]["validation"].as_float(), Some(0.2));
    assert!(
        place
            .read("run/config.toml")
            .contains("# learning_rate = 0.01\n")
    );
    // The settings of a run reproduce the run.
    std::fs::copy(place.path("run/config.toml"), place.path("again.toml")).unwrap();
    place.output("fit --config again.toml --out again");
    for name in ["config.toml", "weights.bpk", "metrics.jsonl", "scores.json"] {
        let (first, second) = (place.path("run").join(name), place.path("again").join(name));
        assert_eq!(
            std::fs::read(first).unwrap(),
            std::fs::read(second).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn codes_are_categories_and_words_are_missing_where_options_say_so() {
    let place = Workplace::new();
    let row = |row: usize| {
        let code = 100 + row % 3;
        match row {
            7 => format!("-9,{code},2\n"),
            _ => format!("{row},{code},{}\n", row % 5),
        }
    };
    let rows: String = (0..40).map(row).collect();
    place.write("wards.csv", &format!("age,ward,days\n{rows}"));
    let fit = "fit --data wards.csv --target days --task regression --epochs 2 --batch-size 8";
    let options = "--categories ward --na-values -9,none --unseen refuse --out run";
    place.output(&format!("{fit} {options}"));
    let prepared = place.read("run/preprocessor.toml");
    assert!(prepared.contains(r#"["100", "101", "102"]"#), "{prepared}");

    place.write("new.csv", "age,ward\nnone,101\n");
    place.output("predict run new.csv");
    place.write("other.csv", "age,ward\n-9,103\n");
    place.fails(
        "predict run other.csv",
        3,
        &["line 2, column `ward`: found `103`"],
    );
}

#[test]
#[cfg(unix)]
fn rows_may_come_through_a_pipe() {
    let place = Workplace::with_moons();
    place.output(&format!(
        "{MOONS} --ignore y --epochs 2 --lr 0.1 --out file"
    ));
    let piped = MOONS.replace("moons.csv", "/dev/stdin");
    let mut command = place.burn_bayes(&format!(
        "{piped} --ignore y --epochs 2 --lr 0.1 --out pipe"
    ));
    command
        .write_stdin(place.read("moons.csv"))
        .assert()
        .success();
    let posterior = |run: &str| std::fs::read(place.path(run).join("posterior.safetensors"));
    assert_eq!(posterior("file").unwrap(), posterior("pipe").unwrap());
}

#[test]
fn a_run_is_not_overwritten() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.fails(
        &format!("{MOONS} --epochs 1 --lr 0.1 --out run"),
        2,
        &["--out: ", "finished"],
    );
    place.fails("fit --resume --out run", 2, &["finished"]);
}

#[test]
fn a_run_is_replaced_where_that_is_asked_for() {
    let place = Workplace::with_moons();
    let quick = format!("{MOONS} --epochs 1 --lr 0.1");
    place.output(&format!("{quick} --members 2 --refit --out run"));
    place.write("run/member-2/mine.txt", "");
    place.write("run/notes.txt", "");
    place.write("run/plots/mine.svg", "<svg/>");
    place.write("run/plots/mine.txt", "");
    let plots = std::fs::read_dir(place.path("run/plots")).unwrap();
    let charts = plots.map(|file| file.unwrap().path());
    let chart = charts.filter(|file| !file.ends_with("mine.svg") && !file.ends_with("mine.txt"));
    std::fs::copy(chart.min().unwrap(), place.path("run/plots/earlier.svg")).unwrap();
    // Bad settings are known before anything is removed.
    let (code, _) = place.failure(&format!("{quick} --draws 0 --overwrite --out run"));
    assert!(code == 2 && place.path("run/member-1/model.toml").exists());
    place.output(&format!("{quick} --overwrite --out run"));
    place.output(&format!("{quick} --out other"));
    for file in ["posterior.safetensors", "scores.json", "validation.csv"] {
        let read = |run: &str| std::fs::read(place.path(run).join(file)).unwrap();
        assert!(read("run") == read("other"), "{file}");
    }
    let files = std::fs::read_dir(place.path("run")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let kept: Vec<String> = names
        .filter(|name| !place.path("other").join(name).exists())
        .collect();
    assert!(
        kept.iter()
            .all(|name| ["member-2", "notes.txt"].contains(&name.as_str()))
            && kept.len() == 2
    );
    assert!(place.path("run/member-2/mine.txt").exists());
    let plot = |name: &str| place.path(format!("run/plots/{name}")).exists();
    assert!(plot("mine.svg") && plot("mine.txt") && !plot("earlier.svg"));
    // Settings that belong to no run are not removed.
    place.write("other.toml", "");
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/config.toml", "");
    let (code, message) = place.failure(&format!("{quick} --overwrite --out mine"));
    assert!(
        code == 2 && message.contains("does not belong to a run"),
        "{message}"
    );
    let (code, _) = place.failure(&format!("{quick} --overwrite --resume --out run"));
    assert_eq!(code, 2);
}

#[test]
fn a_quiet_fit_prints_results_and_warnings_only() {
    let place = Workplace::with_moons();
    place.write(
        "odd.csv",
        &place.read("moons.csv").replacen("0.", "9999", 1),
    );
    let quick = "fit --target kind --epochs 1 --lr 0.1";
    let run = |rest: &str| {
        let output = place
            .burn_bayes(&format!("{quick} {rest}"))
            .output()
            .unwrap();
        assert!(!output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("--data moons.csv --out loud").contains("task: "));
    assert_eq!(run("--data moons.csv --out still --quiet"), "");
    let warned = run("--data odd.csv --out odd --quiet");
    assert!(
        !warned.is_empty() && warned.lines().all(|line| line.starts_with("warning: ")),
        "{warned}"
    );
    let (_, message) = place.failure("fit --quiet --data none.csv --target kind --out none");
    assert!(message.starts_with("error: "), "{message}");
}

/// All files of a finished run except plots.
#[cfg(unix)]
const FILES: [&str; 9] = [
    "command.txt",
    "config.toml",
    "model.toml",
    "metrics.jsonl",
    "posterior.safetensors",
    "preprocessor.toml",
    "report.html",
    "scores.json",
    "validation.csv",
];

#[cfg(unix)]
#[test]
fn a_fit_that_was_killed_before_its_last_file_is_resumed_to_the_same_bytes() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 3 --lr 0.1 --out run"));
    let files = || FILES.map(|name| std::fs::read(place.path("run").join(name)).unwrap());
    let whole = files();
    for last in [
        &["model.toml"][..],
        &["model.toml", "preprocessor.toml", "report.html"],
    ] {
        for name in last {
            std::fs::remove_file(place.path("run").join(name)).unwrap();
        }
        place.fails("predict run moons.csv", 3, &["--resume"]);
        place.output("fit --resume --out run");
        assert!(files() == whole, "{last:?}");
        place.output("predict run moons.csv");
    }
}

/// Interrupts a fit after this many epochs, and continues it.
#[cfg(unix)]
fn check_interruption(options: &str, epochs: usize) {
    let place = Workplace::with_gap();
    let fit = format!("{options} --out run");
    place.output(&fit);
    std::fs::rename(place.path("run"), place.path("whole")).unwrap();

    let child = place.start(&fit);
    wait_for_lines(&place, "run/metrics.jsonl", epochs);
    let (code, message) = interrupted(child, Reach::Group);
    assert_eq!(code, Some(130), "{message}");
    let continuation =
        "error: interrupted; `burn-bayes fit --resume --out run` continues from here\n";
    assert!(message.ends_with(continuation), "{message}");
    assert!(!place.path("run/model.toml").exists());

    place.fails("predict run gap.csv", 3, &["--resume"]);
    place.fails("fit --resume --epochs 3 --out run", 2, &["--resume: "]);
    let config = place.read("run/config.toml");
    place.write(
        "run/config.toml",
        &config.replace("batch_size = 10", "batch_size = 11"),
    );
    place.fails("fit --resume --out run", 3, &["settings"]);
    place.write("run/config.toml", &config);

    place.output("fit --resume --out run");
    for name in FILES {
        let (run, whole) = (place.path("run").join(name), place.path("whole").join(name));
        assert_eq!(
            std::fs::read(run).unwrap(),
            std::fs::read(whole).unwrap(),
            "{name}"
        );
    }
    assert!(!place.path("run/checkpoint.bin").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_is_resumed_to_the_same_bytes() {
    let options = format!(
        "{GAP} --method vifa --rank 2 --noise-precision 0.04 --epochs 1500 --checkpoint-every 7"
    );
    check_interruption(&options, 3);
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_knows_its_best_epoch_when_it_is_resumed() {
    let options = format!(
        "{GAP} --method vifa --rank 2 --epochs 1500 --checkpoint-every 7 --patience 1500 --refit"
    );
    check_interruption(&options, 203);
}

#[cfg(unix)]
#[test]
fn a_fit_that_is_interrupted_while_it_learns_the_noise_is_resumed_to_the_same_bytes() {
    let options = format!("{GAP} --method vifa --rank 2 --epochs 500 --checkpoint-every 7");
    // Rows are held out in the first half.
    check_interruption(&options, 203);
}

#[cfg(unix)]
#[test]
fn interrupted_chains_are_resumed_to_the_same_bytes() {
    let options = format!("{GAP} --method mclmc --epochs 20000 --checkpoint-every 7");
    // After their warm start and their tuning, and when they have draws.
    check_interruption(&options, 20);
    check_interruption(&options, 33);
}

#[test]
fn chains_that_agree_are_trusted_and_those_that_do_not_are_told_what_helps() {
    let place = Workplace::with_gap();
    let fit = |epochs: usize| {
        let options = format!("{GAP} --method mclmc --model linear --epochs {epochs}");
        place.json(&format!("{options} --out run{epochs}"))
    };
    let long = fit(20_000);
    let r_hat = long["agreement"]["r_hat"].as_f64().unwrap();
    assert!(r_hat < 1.05, "{r_hat}");
    assert_eq!(long["agreement"]["verdict"], "trust");
    let short = fit(30);
    assert_eq!(short["agreement"]["verdict"], "look-closer", "{short}");
    let report = place.read("run30/report.html");
    assert!(report.contains("--resume --budget 1 goes on"), "{report}");
}

#[test]
fn chains_of_a_finished_fit_go_on() {
    let place = Workplace::with_gap();
    let fit = format!("{GAP} --method mclmc --model linear --epochs 30");
    let finished = place.json(&format!("{fit} --out run"));
    assert!(
        finished["agreement"]["r_hat"].as_f64().unwrap() > 1.05,
        "{finished}"
    );
    place.fails(
        "fit --resume --out run",
        2,
        &["with a longer `--budget` its chains go on"],
    );
    place.fails(
        "fit --resume --out run --budget 1 --seed 3",
        2,
        &["`--budget` and `--until-rhat`"],
    );
    // Other rows leave the finished run as it is.
    let rows = place.read("gap.csv");
    let files = || {
        ["model.toml", "validation.csv", "scores.json"]
            .map(|file| place.read(&format!("run/{file}")))
    };
    let before = files();
    place.write(
        "gap.csv",
        &rows.replacen("1000", "1001", 1).replacen("99", "98", 3),
    );
    place.fails("fit --resume --out run --budget 1", 3, &["the rows differ"]);
    assert_eq!(before, files());
    place.write("gap.csv", &rows);
    let longer = place.json("fit --resume --out run --until-rhat 1.03 --budget 1");
    let agreement = &longer["agreement"];
    assert!(agreement["r_hat"].as_f64().unwrap() <= 1.03, "{longer}");
    assert_eq!(longer["posterior"], "trust");

    // As if it had been asked for from the start.
    place.output(&format!("{fit} --until-rhat 1.03 --budget 1 --out whole"));
    for file in [
        "posterior.safetensors",
        "scores.json",
        "metrics.jsonl",
        "config.toml",
    ] {
        let read = |run: &str| std::fs::read(place.path(format!("{run}/{file}"))).unwrap();
        assert!(read("run") == read("whole"), "{file}");
    }
    let metrics = place.read("run/metrics.jsonl");
    assert!(
        metrics.lines().last().unwrap().contains("r_hat"),
        "{metrics}"
    );
    // There is nothing left to ask for.
    assert!(!place.path("run/checkpoint.bin").exists());
    place.fails(
        "fit --resume --out run --budget 9",
        2,
        &["has nothing to do: run is finished"],
    );
    for (option, problem) in [("--until-rhat 1", "above 1"), ("--budget 0", "above zero")] {
        place.fails(
            &format!("{GAP} --method mclmc --out other {option}"),
            2,
            &[problem],
        );
    }
}

#[test]
fn f1_names_its_class() {
    let place = Workplace::with_moons();
    // Classes of different sizes, so that their F1 scores differ.
    let rows = place.read("moons.csv");
    let rows = rows.lines().enumerate();
    let rows = rows.filter(|(row, line)| row % 3 == 0 || !line.ends_with("upper"));
    let rows: Vec<&str> = rows.map(|(_, line)| line).collect();
    place.write("moons.csv", &rows.join("\n"));
    let fit = format!("{MOONS} --epochs 1 --lr 0.1");
    let second = place.output(&format!("{fit} --out second"));
    assert!(second.contains("F1 (positive: upper)"), "{second}");
    let first = place.json(&format!("{fit} --positive lower --out first"));
    assert_eq!(first["scores"]["positive"], "lower");
    assert!(
        place
            .read("first/report.html")
            .contains("F1 (positive: lower)")
    );
    // By default as in the fit.
    for (more, class) in [("", "lower"), ("--positive upper", "upper")] {
        let scores = place.output(&format!("evaluate first moons.csv {more}"));
        assert!(
            scores.contains(&format!("F1 (positive: {class})")),
            "{scores}"
        );
    }
    for (run, class) in [("first", 0), ("second", 1)] {
        let scores = place.scores(run);
        let count = |row: usize, column: usize| scores["confusion"][row][column].as_f64().unwrap();
        let hits = 2.0 * count(class, class);
        let f1 = hits / (hits + count(0, 1) + count(1, 0));
        assert_eq!(scores["f1"]["value"].as_f64(), Some(f1), "{scores}");
    }
    let f1 = |run: &str| place.scores(run)["f1"]["value"].clone();
    assert_ne!(f1("first"), f1("second"));
}
