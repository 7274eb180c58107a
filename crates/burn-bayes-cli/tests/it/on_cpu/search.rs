//! `tune` and `compare`: their files, and independence of threads and interruptions.

use burn_bayes_tabular::report::number;
use serde_json::Value;

use crate::on_cpu::predict::{column, numbers};
use crate::workplace::{Workplace, json};

/// A search that takes a second.
const TUNE: &str = "tune --data gap.csv --target price --task regression --method mean-field \
                    --model mlp:10 --epochs 10 --draws 10 --noise-precision 0.0006 --trials 4 --folds 3 \
                    --json";
/// A comparison that takes a second.
const COMPARE: &str = "compare --data moons.csv --target kind --task classification \
                       --methods map,mean-field --no-plain --model mlp:10 --epochs 10 --draws 10 --repeats 2 \
                       --folds 3 --json";

/// All columns except times and commands.
fn scores(comparison: &str) -> Vec<Value> {
    let comparison = json(comparison);
    let methods = comparison["methods"].as_array().unwrap().iter();
    methods.map(|method| method["scores"].clone()).collect()
}

#[test]
fn a_search_ends_in_settings_that_fit_takes() {
    let place = Workplace::with_gap();
    let outcome = place.json(&format!("{TUNE} --out found"));
    let trials = outcome["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    let costs: Vec<f64> = trials
        .iter()
        .map(|trial| trial["nll"].as_f64().unwrap())
        .collect();
    assert!(costs.is_sorted(), "{costs:?}");
    assert_eq!(place.read("found/trials.csv").lines().count(), 1 + 4);
    let config: toml::Table = place.read("found/config.toml").parse().unwrap();
    assert_eq!(
        config["fit"]["learning_rate"].as_float(),
        trials[0]["settings"]["learning_rate"].as_f64()
    );
    place.output("fit --config found/config.toml --out run");
}

#[test]
fn a_search_of_chains_tries_linear_models_and_likelihoods() {
    let place = Workplace::with_gap();
    let tune = "tune --data gap.csv --target price --task regression --method mclmc --epochs 60 --trials 8 --folds 2 --json";
    let outcome = place.json(&format!("{tune} --out found"));
    let trials = outcome["trials"].as_array().unwrap();
    let tried = |name: &str| {
        let values = trials
            .iter()
            .map(|trial| trial["settings"][name].to_string());
        values.collect::<std::collections::BTreeSet<_>>()
    };
    assert!(tried("likelihood").len() > 1, "{:?}", tried("likelihood"));
    assert!(tried("model").len() > 1, "{:?}", tried("model"));
    let given = place.json(&format!("{tune} --likelihood gaussian --out given"));
    assert!(given["trials"][0]["settings"]["likelihood"].is_null());
}

#[test]
fn a_search_is_the_same_on_any_number_of_threads_and_after_an_interruption() {
    let place = Workplace::with_gap();
    let one = place.output(&format!("{TUNE} --threads 1 --out one"));
    let two = place.output(&format!("{TUNE} --threads 2 --out two"));
    assert_eq!(one.replace("one/", ""), two.replace("two/", ""));
    // The files of a killed search: some fits, and an incomplete line.
    let lines = place.read("one/trials.jsonl");
    let kept: Vec<&str> = lines.lines().take(5).collect();
    std::fs::create_dir(place.path("three")).unwrap();
    place.write(
        "three/trials.jsonl",
        &format!("{}\n{{\"case\":", kept.join("\n")),
    );
    let three = place.output(&format!("{TUNE} --resume --out three"));
    assert_eq!(one.replace("one/", ""), three.replace("three/", ""));
    assert!(
        place
            .read("three/trials.jsonl")
            .starts_with(&kept.join("\n"))
    );
    place.fails(&format!("{TUNE} --out one"), 2, &["--resume"]);
    let anew = place.output(&format!("{TUNE} --overwrite --out three"));
    assert_eq!(anew, three);
    let count = |run: &str| place.read(&format!("{run}/trials.jsonl")).lines().count();
    assert_eq!(count("three"), count("one"));
}

#[test]
fn a_resumed_search_has_the_scores_of_its_own_settings() {
    let place = Workplace::with_gap();
    let toml = "[data]\npath = \"gap.csv\"\ntarget = \"price\"\ntask = \"regression\"\n[fit]\nmethod = \"map\"\n\
                model = \"mlp:10\"\nepochs = 10\nnoise_precision = 0.0006\n";
    place.write("one.toml", toml);
    place.write("two.toml", &format!("{toml}members = 2\n"));
    let tune = "tune --trials 2 --folds 2 --json";
    let one = place.output(&format!("{tune} --config one.toml --out found"));
    let resumed = place.output(&format!("{tune} --config two.toml --out found --resume"));
    let two = place.output(&format!("{tune} --config two.toml --out other"));
    assert_eq!(json(&resumed)["trials"], json(&two)["trials"]);
    assert_ne!(json(&resumed)["trials"], json(&one)["trials"]);
}

#[test]
fn the_settings_of_an_ensemble_are_compared_as_single_fits() {
    let place = Workplace::with_moons();
    let toml = "[fit]\nmodel = \"mlp:10\"\nepochs = 5\n";
    place.write("one.toml", toml);
    place.write(
        "two.toml",
        &format!("{toml}members = 3\npatience = 2\nrefit = true\nagainst_map = true\n"),
    );
    let compare = "compare --data moons.csv --target kind --task classification --methods map,mean-field --draws 10 \
                   --repeats 1 --folds 2 --json";
    let one = place.output(&format!("{compare} --config one.toml --out one"));
    let command = format!("{compare} --config two.toml --out two");
    let [two, message] = place.said(&command);
    assert!(message.contains("single fits are compared"), "{message}");
    assert_eq!(scores(&one), scores(&two));
}

#[test]
fn few_survive_the_first_fold() {
    let place = Workplace::with_gap();
    let outcome = place.json(&format!("{TUNE} --survivors 2 --out found"));
    let folds = outcome["trials"].as_array().unwrap().iter();
    let folds: Vec<_> = folds
        .map(|trial| trial["folds"].as_u64().unwrap())
        .collect();
    assert_eq!(folds, [3, 3, 1, 1]);
}

#[test]
fn ranges_come_from_a_file() {
    let place = Workplace::with_gap();
    place.write("ranges.toml", "clip = { log_uniform = [5.0, 6.0] }\n");
    let outcome = place.json(&format!("{TUNE} --ranges ranges.toml --out found"));
    let settings = outcome["trials"][0]["settings"].as_object().unwrap();
    assert_eq!(settings.len(), 1);
    assert!((5.0..=6.0).contains(&settings["clip"].as_f64().unwrap()));
    place.write("ranges.toml", "clipp = { log_uniform = [5.0, 6.0] }\n");
    place.fails(
        &format!("{TUNE} --ranges ranges.toml --out other"),
        2,
        &["clipp"],
    );
}

#[test]
fn the_cost_has_its_name_in_the_scores_of_the_task() {
    let place = Workplace::with_moons();
    let tune = "tune --data moons.csv --target kind --task classification --method map --epochs 2 \
                --trials 2 --folds 2 --json --out found";
    let outcome = place.json(tune);
    let trial = &outcome["trials"][0];
    assert!(trial["nll"].is_f64(), "{outcome}");
    let heads = place.read("found/trials.csv");
    let heads = heads.lines().next().unwrap();
    assert!(heads.ends_with(",nll,error,diverged,folds"), "{heads}");
    assert!(place.read("found/trials.jsonl").contains("\"nll\":"));
}

#[test]
fn default_ranks_fit_a_network_of_few_weights() {
    let place = Workplace::with_moons();
    for method in ["vifa", "vafc", "slang"] {
        let tune = format!(
            "tune --data moons.csv --target kind --task classification --ignore y --model linear \
             --method {method} --epochs 60 --draws 2 --trials 8 --folds 2 --json --out {method}"
        );
        let outcome = place.json(&tune);
        let trials = outcome["trials"].as_array().unwrap().iter();
        let ranks = trials.map(|trial| trial["settings"]["rank"].as_u64().unwrap());
        // One feature and a bias, for each of two classes.
        assert_eq!(ranks.max(), Some(4), "{outcome}");
    }
}

#[test]
fn what_no_trial_can_use_is_refused_before_the_first() {
    let place = Workplace::with_gap();
    place.write("ranges.toml", "rank = { choice = [1, 32] }\n");
    let tune = TUNE.replace("--method mean-field", "--method vifa");
    place.fails(
        &format!("{tune} --ranges ranges.toml --out found"),
        2,
        &["`rank` is 32", "31 weights"],
    );
    assert!(!place.path("found").exists(), "nothing was begun");

    let place = Workplace::with_moons();
    let compare = COMPARE.replace("map,mean-field", "map,swag");
    place.fails(
        &format!("{compare} --rank 1 --out found"),
        2,
        &["--rank: is 1"],
    );
    assert!(!place.path("found").exists(), "nothing was begun");
}

#[test]
fn options_that_would_say_nothing_are_refused() {
    let place = Workplace::with_moons();
    for option in ["--method vifa", "--validation 0.3", "--checkpoint-every 5"] {
        let (code, message) = place.failure(&format!("{COMPARE} {option} --out found"));
        let name = option.split(' ').next().unwrap();
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(&format!("{name}: ")), "{message}");
    }
    let searched = "tune --data moons.csv --target kind --task classification --lr 0.1 --out found";
    place.fails(searched, 2, &["--learning-rate: is searched"]);
    assert!(!place.path("found").exists(), "nothing was begun");
    // The file may contain all settings of a fit.
    place.write(
        "fit.toml",
        "[data]\nvalidation = 0.3\n[fit]\nmethod = \"vifa\"\ncheckpoint_every = 5\n",
    );
    place.output(&format!("{COMPARE} --config fit.toml --out found"));
}

#[test]
fn a_method_that_is_named_twice_is_compared_once() {
    let place = Workplace::with_moons();
    let named = |methods: &str, out: &str| {
        let compare = COMPARE.replace("map,mean-field", methods);
        place.output(&format!("{compare} --out {out}"))
    };
    let (once, twice) = (
        named("map,mean-field", "once"),
        named("map,mean-field,map", "twice"),
    );
    assert_eq!(scores(&once), scores(&twice));
    assert_eq!(json(&twice)["runs"], 6);
}

#[test]
fn a_comparison_of_nothing_leaves_its_table_and_a_code() {
    let place = Workplace::with_gap();
    let compare = "compare --data gap.csv --target price --task regression --methods map,mean-field \
                   --noise-precision 0.04 --epochs 2 --draws 2 --repeats 1 --folds 2 --no-plain --out compared";
    place.fails(
        &format!("{compare} --optimizer sgd --lr 1e9"),
        4,
        &["all 4 runs diverged"],
    );
    assert!(place.read("compared/compare.md").contains("| map | 2 |"));
}

#[test]
fn an_error_as_large_as_the_targets_is_no_divergence() {
    let place = Workplace::new();
    let row = |row: usize| format!("{row},{}\n", 40.0 * (row as f64).sin());
    let rows: String = (0..150).map(row).collect();
    place.write("large.csv", &format!("x,price\n{rows}"));
    let compare = "compare --data large.csv --target price --task regression --methods map,mean-field \
                   --no-standardize --epochs 30 --draws 5 --repeats 1 --folds 2 --json --out compared";
    let comparison = place.json(compare);
    // Errors above ten, with a target deviation of 28.
    for method in comparison["methods"].as_array().unwrap() {
        assert_eq!(method["diverged"], 0, "{comparison}");
        let rmse = method["scores"]["rmse"]["mean"].as_f64();
        assert!(rmse > Some(10.0), "{comparison}");
    }
}

#[test]
fn methods_are_compared_on_the_same_rows() {
    let place = Workplace::with_moons();
    let one = place.output(&format!("{COMPARE} --threads 1 --out one"));
    let comparison = json(&one);
    assert_eq!(comparison["runs"], 6);
    let [map, mean_field] = &scores(&one)[..] else {
        panic!("two methods");
    };
    for scores in [map, mean_field] {
        let accuracy = scores["accuracy"]["mean"].as_f64().unwrap();
        assert!((0.5..=1.0).contains(&accuracy), "{scores}");
    }
    let best = |scores: &Value| scores["nll"]["is_best"].as_bool().unwrap();
    assert!(best(map) != best(mean_field));
    let page = place.read("one/compare.md");
    assert!(page.contains("burn-bayes compare --data moons.csv") && page.contains("| map |"));
    assert!(place.read("one/compare.csv").lines().count() > 1 + 2 * 4);

    let lines = place.read("one/runs.jsonl");
    let kept: Vec<&str> = lines.lines().take(3).collect();
    std::fs::create_dir(place.path("two")).unwrap();
    place.write("two/runs.jsonl", &format!("{}\n", kept.join("\n")));
    let two = place.output(&format!("{COMPARE} --threads 2 --resume --out two"));
    assert_eq!(scores(&one), scores(&two));
}

#[test]
fn plain_models_are_compared_with_methods() {
    let place = Workplace::with_moons();
    let compare = COMPARE.replace("map,mean-field --no-plain", "map");
    let compare = format!("{compare} --plain constant,linear,forest");
    let found = place.json(&format!("{compare} --out one"));
    let methods = found["methods"].as_array().unwrap();
    let names: Vec<&str> = methods
        .iter()
        .map(|row| row["method"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["map", "constant", "linear", "forest"]);
    let of = |place: usize, score: &str| methods[place]["scores"][score]["mean"].as_f64().unwrap();
    // Half of the rows are in each class, and the classes are two moons, which a line does not part.
    assert!((of(1, "nll") - 2f64.ln()).abs() < 0.02, "{found}");
    assert!(
        of(2, "nll") < 0.45 && of(3, "accuracy") > of(2, "accuracy"),
        "{found}"
    );
    // Each is fitted to the folds of the methods, and only once.
    let lines = place.read("one/runs.jsonl");
    assert_eq!(lines.lines().count(), 4 * 6);
    place.output(&format!("{compare} --resume --out one"));
    assert_eq!(place.read("one/runs.jsonl"), lines);
    let page = place.read("one/leaderboard.html");
    assert!(
        page.contains("forest") && page.contains("4 models"),
        "{page}"
    );
    place.fails(
        &format!("{compare} --methods map --no-plain --out two"),
        2,
        &["cannot be used with"],
    );
    let alone = COMPARE.replace("map,mean-field", "map");
    place.fails(&format!("{alone} --out two"), 2, &["`--plain`"]);
}

#[test]
fn how_often_checkpoints_are_made_tells_no_fits_apart() {
    let place = Workplace::with_gap();
    let tune = format!("{TUNE} --trials 1 --out out");
    place.output(&tune);
    let found = place.read("out/trials.jsonl");
    place.output(&format!("{tune} --checkpoint-every 3 --resume"));
    assert_eq!(place.read("out/trials.jsonl"), found);
}

#[test]
fn a_comparison_names_the_class_of_f1() {
    let place = Workplace::with_moons();
    let compare = format!("{COMPARE} --out both");
    let upper = place.json(&compare);
    assert_eq!(upper["positive"], "upper");
    // Another positive class gives other scores, also if the runs are resumed.
    let lower = place.json(&format!("{compare} --resume --positive lower"));
    assert_eq!(lower["positive"], "lower");
    let f1 = |comparison: &Value| comparison["methods"][0]["scores"]["f1"]["mean"].clone();
    assert!(f1(&upper).is_number());
    assert_ne!(f1(&upper), f1(&lower));
    let page = place.read("both/compare.md");
    assert!(page.contains("| F1 (positive: lower) |"), "{page}");
    place.fails(
        &format!("{compare} --resume --positive sideways"),
        2,
        &["`lower`, `upper`"],
    );
}

#[test]
fn a_comparison_has_a_leaderboard_of_its_methods() {
    let place = Workplace::with_moons();
    let comparison = place.json(&format!("{COMPARE} --out out"));
    let page = place.read("out/leaderboard.html");
    for method in comparison["methods"].as_array().unwrap() {
        let nll = &method["scores"]["nll"];
        let mean = number(nll["mean"].as_f64().unwrap());
        let name = method["method"].as_str().unwrap();
        let start = format!("<th scope=\"row\">{name}</th>");
        let (_, row) = page.split_once(&start).expect(name);
        assert!(row.split_once("</tr>").unwrap().0.contains(&mean), "{name}");
    }
    assert!(page.trim_end().ends_with("</html>"));
    assert!(place.path("out/plots/leaderboard-time.svg").exists());
}

#[test]
fn a_search_has_a_leaderboard_of_its_trials() {
    let place = Workplace::with_gap();
    let outcome = place.json(&format!("{TUNE} --survivors 2 --out found"));
    let page = place.read("found/leaderboard.html");
    let mut last = 0;
    for trial in outcome["trials"].as_array().unwrap() {
        let name = format!("<th scope=\"row\">trial {}</th>", trial["trial"]);
        let start = page.find(&name).expect(&name);
        assert!(start > last, "in the order of their scores");
        last = start;
        let nll = number(trial["nll"].as_f64().unwrap());
        let (row, _) = page[start..].split_once("</tr>").unwrap();
        assert!(row.contains(&nll), "{nll}");
    }
    assert!(place.path("found/plots/trials-learning-rate.svg").exists());
}

#[test]
fn fits_of_a_comparison_give_intervals_of_new_rows() {
    let place = Workplace::new();
    place.output("data generate gap --rows 120 --seed 1 --output known.csv");
    place.output("data generate gap --rows 1000 --seed 2 --output new.csv");
    let compare = "compare --data known.csv --target y --task regression --methods exact,map --model linear --folds 6 \
                   --repeats 2 --predict new.csv --conformal 0.8";
    let found = place.json(&format!("{compare} --threads 2 --out one"));
    let intervals = &found["intervals"];
    assert_eq!(
        (&intervals["rows"], &intervals["new_rows"]),
        (&120.into(), &1000.into())
    );
    // 2 · 0.8 − 1 − √(2/120) = 0.4709.
    let guarantee = intervals["guarantee"].as_str().unwrap();
    assert!(
        guarantee.contains("at least 47 %") && guarantee.contains("about 80 %"),
        "{guarantee}"
    );
    let truths: Vec<f64> = numbers(&place.read("new.csv"), "y");
    let text = place.read("one/intervals.csv");
    let (methods, places) = (column(&text, "method"), numbers(&text, "row"));
    let (lower, upper) = (numbers(&text, "lower"), numbers(&text, "upper"));
    for method in intervals["methods"].as_array().unwrap() {
        let rows: Vec<usize> = (0..text.lines().count() - 1)
            .filter(|&row| methods[row] == method["method"])
            .collect();
        assert_eq!(rows.len(), 1000);
        let is_inside = |row: &&usize| {
            let truth = truths[places[**row] as usize - 1];
            lower[**row] <= truth && truth <= upper[**row]
        };
        let coverage = rows.iter().filter(is_inside).count() as f64 / 1000.0;
        assert!(
            (method["coverage"].as_f64().unwrap() - coverage).abs() < 1e-12,
            "{method}"
        );
        // Four standard deviations: of the quantiles of 120 errors, and of the coverage of 1000 rows.
        let margin = 4.0 * (0.16_f64 / 120.0 + 0.16 / 1000.0).sqrt();
        assert!((coverage - 0.8).abs() < margin, "{method}");
    }
    // One process gives the same, and finished runs are used again.
    place.output(&format!("{compare} --threads 1 --out two"));
    assert_eq!(place.read("two/intervals.csv"), text);
    place.output(&format!("{compare} --resume --out two"));
    assert_eq!(place.read("two/intervals.csv"), text);
    // Rows far from those of the data are named.
    place.write("far.csv", "x\n0.5\n500\n");
    let far = compare.replace("new.csv", "far.csv");
    let output = place
        .burn_bayes(&format!("{far} --repeats 1 --out far"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("far.csv, line 3, column `x`: 500 is far"),
        "{told}"
    );
    // Without targets there is no coverage; a comparison without new rows has no intervals.
    let unknown: Vec<String> = numbers(&place.read("new.csv"), "x")
        .iter()
        .map(f64::to_string)
        .collect();
    place.write("unknown.csv", &format!("x\n{}\n", unknown.join("\n")));
    let compare = compare.replace("new.csv", "unknown.csv");
    let page = place.output(&format!("{compare} --out three"));
    assert!(
        page.contains("| map | ") && page.contains("| – |"),
        "{page}"
    );
    assert_eq!(place.read("three/intervals.csv"), text);

    for (options, words) in [
        ("--predict new.csv", ["--conformal", "required"]),
        (
            "--predict new.csv --conformal 80",
            ["--conformal: is 80", "(0, 1)"],
        ),
        ("--predict none.csv --conformal 0.8", ["none.csv", ""]),
    ] {
        let compare = compare.split(" --predict").next().unwrap();
        let (code, message) = place.failure(&format!("{compare} {options} --out four"));
        assert!(code != 0, "{message}");
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    let place = Workplace::with_moons();
    place.fails(
        &format!("{COMPARE} --predict moons.csv --conformal 0.9 --out found"),
        2,
        &["predict --conformal"],
    );
}

/// A comparison to which variants are added.
const VARIED: &str = "compare --data gap.csv --target price --task regression --target-scale linear --methods map --no-plain \
                      --model mlp:10 --epochs 10 --draws 10 --repeats 1 --folds 3 --json";

/// The arguments of these variants.
fn variants<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    texts.iter().flat_map(|text| ["--variant", text]).collect()
}

#[test]
fn settings_are_compared_as_variants() {
    let place = Workplace::with_gap();
    let compared = |options: &str, texts: &[&str]| {
        let mut command = place.burn_bayes(&format!("{VARIED} {options}"));
        let output = command.args(variants(texts)).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{options}: {errors}");
        json(&String::from_utf8(output.stdout).unwrap())
    };
    let texts = [
        "--model=linear",
        "likelihood=heteroscedastic  'epochs=20'",
        "method=vadam target-scale=log",
    ];
    let found = compared("--methods map,mean-field --out varied", &texts);
    let methods = found["methods"].as_array().unwrap();
    let names: Vec<&str> = methods
        .iter()
        .map(|row| row["method"].as_str().unwrap())
        .collect();
    let long = "mean-field, likelihood=heteroscedastic epochs=20";
    let expected = [
        "map",
        "mean-field",
        "map, model=linear",
        "mean-field, model=linear",
        "map, likelihood=heteroscedastic epochs=20",
        long,
        "vadam, target-scale=log",
    ];
    assert_eq!(names, expected);
    // The scores are those of a comparison that has these settings for all fits.
    let score = |comparison: &Value, place: usize, score: &str| {
        let mean = comparison["methods"][place]["scores"][score]["mean"].as_f64();
        mean.unwrap_or_else(|| panic!("{place}, {score}: {comparison}"))
    };
    for (options, place) in [
        ("--methods map,mean-field --model linear --out one", 2),
        (
            "--methods map,mean-field --likelihood heteroscedastic --epochs 20 --out two",
            4,
        ),
        ("--methods vadam,map --target-scale log --out three", 6),
    ] {
        let alone = compared(options, &[]);
        for name in ["nll", "rmse"] {
            assert_eq!(
                score(&alone, 0, name),
                score(&found, place, name),
                "{options}"
            );
        }
    }
    let page = place.read("varied/leaderboard.html");
    for name in expected {
        assert!(page.contains(&format!(">{name}</th>")), "{name}");
    }
    assert!(
        place
            .read("varied/compare.md")
            .contains(&format!("| {long} | "))
    );

    // Finished fits are used again, and those of other variants are not.
    let lines = || place.read("varied/runs.jsonl").lines().count();
    assert_eq!(lines(), 3 * expected.len());
    let again = "--methods map,mean-field --out varied --resume";
    assert_eq!(compared(again, &texts)["methods"], found["methods"]);
    assert_eq!(lines(), 3 * expected.len());
    compared(again, &["model=mlp:5"]);
    assert_eq!(lines(), 3 * (expected.len() + 2));
}

#[test]
fn fits_of_variants_give_intervals_of_new_rows() {
    let place = Workplace::new();
    place.output("data generate gap --rows 90 --seed 1 --output known.csv");
    place.output("data generate gap --rows 50 --seed 2 --output new.csv");
    let compare = "compare --data known.csv --target y --task regression --target-scale linear --methods map --no-plain \
                   --model linear --epochs 5 --folds 3 --repeats 1 --predict new.csv --conformal 0.8 --json --out one";
    let mut command = place.burn_bayes(compare);
    let command = command.args(variants(&["no-standardize", "method=exact"]));
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let found = json(&String::from_utf8(output.stdout).unwrap());
    let names = ["map", "map, no-standardize", "exact"];
    for (row, name) in names.iter().enumerate() {
        let intervals = &found["intervals"]["methods"][row];
        assert_eq!(intervals["method"], *name);
        assert!(intervals["mean_width"].as_f64() > Some(0.0), "{found}");
    }
    assert_eq!(place.read("one/intervals.csv").lines().count(), 1 + 3 * 50);
}

#[test]
fn what_is_no_variant_is_refused() {
    let place = Workplace::with_gap();
    for (text, parts) in [
        ("target=x", ["has `target`", "`--target` for all fits"]),
        ("data=other.csv", ["has `data`", "`--data` for all fits"]),
        ("validation=0.5", ["has `validation`", "leave it out"]),
        ("members=3", ["has `members`", "leave it out"]),
        ("seed=1", ["has `seed`", "`--repeats`"]),
        ("missing=drop", ["`missing`", "`--missing` for all fits"]),
        ("modell=linear", ["`modell`", "not an option of `fit`"]),
        ("model", ["without a value", "`model=VALUE`"]),
        ("model='linear", ["`model='linear`", "not closed"]),
        (
            "likelihood=gauss",
            ["`likelihood=gauss`", "not one of gaussian"],
        ),
        ("epochs=0", ["is `epochs=0`", "`epochs` is 0"]),
        ("lr=1 learning-rate=2", ["`learning_rate` twice", ""]),
        ("ignore=y", ["is `ignore=y`", "not a column"]),
        ("method=vifa rank=32", ["`rank` is 32", "31 weights"]),
        ("method=map", ["the name `map`", ""]),
        ("", ["is empty", ""]),
    ] {
        let mut command = place.burn_bayes(&format!("{VARIED} --out found"));
        let output = command.args(variants(&[text])).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {message}");
        assert!(message.contains("--variant: "), "{text}: {message}");
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
    assert!(!place.path("found").exists(), "nothing was begun");
}
