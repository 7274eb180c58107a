//! `--conformal` of `predict` and `evaluate`: prediction sets and intervals with a coverage guarantee.

use serde_json::Value;

use crate::on_cpu::evaluate::wards;
use crate::on_cpu::predict::{column, numbers};
use crate::workplace::{GAP, MOONS, Workplace};

/// Four standard deviations of the coverage of `rows` new rows at 90 %, calibrated on `held_out` rows: the first part
/// is that of the Beta distribution of the coverage given the held-out rows, the second is binomial.
fn margin(held_out: f64, rows: f64) -> f64 {
    4.0 * (0.09 / (held_out + 2.0) + 0.09 / rows).sqrt()
}

#[test]
fn sets_of_classes_cover_new_rows() {
    let place = Workplace::new();
    for (name, rows, seed) in [("known", 800, 1), ("new", 2000, 2)] {
        place.output(&format!(
            "data generate patients --rows {rows} --seed {seed} --output {name}.csv"
        ));
    }
    place.output(
        "fit --data known.csv --target ill --task classification --missing impute --validation 0.4 --model linear \
         --out run",
    );
    let predict = "predict run new.csv --conformal 0.9";
    let truths = column(&place.read("new.csv"), "ill");
    let mut sizes = Vec::new();
    for method in ["lac", "aps", "raps"] {
        let text = place.output(&format!("{predict} --conformal-sets {method}"));
        let sets = column(&text, "set");
        let inside = sets.iter().zip(&truths);
        let inside = inside.filter(|(set, truth)| set.split(';').any(|class| class == *truth));
        let coverage = inside.count() as f64 / 2000.0;
        assert!(
            coverage > 0.9 - margin(320.0, 2000.0),
            "{method}: {coverage}"
        );
        let scores = place.json(&format!(
            "evaluate run new.csv --conformal 0.9 --conformal-sets {method}"
        ));
        let found = &scores["conformal"];
        assert!(
            (found["coverage"].as_f64().unwrap() - coverage).abs() < 1e-12,
            "{found}"
        );
        assert_eq!(found["calibration_rows"], 320);
        let counted: u64 = found["parts"][0]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["rows"].as_u64().unwrap())
            .sum();
        assert_eq!(counted, 2000);
        sizes.push(found["mean_size"].as_f64().unwrap());
        if method == "lac" {
            // Not far above the level: the scores have no ties.
            assert!(
                coverage < 0.9 + 1.0 / 321.0 + margin(320.0, 2000.0),
                "{coverage}"
            );
            assert_eq!(text, place.output(predict));
        }
    }
    assert!(sizes[0] < sizes[1], "{sizes:?}");

    // The guarantee in words, on the console and in objects, whose sets are lists.
    let [first, words] = place.said(&format!("{predict} --json"));
    let promise = "with a probability of at least 90 %";
    assert!(
        words.contains(promise) && words.contains("320 held-out rows"),
        "{words}"
    );
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert!(first["set"].is_array(), "{first}");
    assert!(
        first["guarantee"].as_str().unwrap().contains(promise),
        "{first}"
    );
}

#[test]
fn intervals_of_numbers_cover_new_rows_where_the_model_is_wrong() {
    let place = Workplace::new();
    place.write("known.csv", &wards(800, 1));
    place.write("new.csv", &wards(2000, 101));
    place.output(
        "fit --data known.csv --target y --task regression --model linear --ignore ward,dose --validation 0.5 --out run",
    );
    let text = place.output("predict run new.csv --conformal 0.9 --keep y");
    let (lower, upper, truths) = (
        numbers(&text, "lower"),
        numbers(&text, "upper"),
        numbers(&text, "y"),
    );
    let inside = (0..2000).filter(|&row| lower[row] <= truths[row] && truths[row] <= upper[row]);
    let coverage = inside.count() as f64 / 2000.0;
    assert!(
        (coverage - 0.9).abs() < 1.0 / 401.0 + margin(400.0, 2000.0),
        "{coverage}"
    );
    let scores = place.json("evaluate run new.csv --conformal 0.9 --by ward");
    let found = &scores["conformal"];
    assert!(
        (found["coverage"].as_f64().unwrap() - coverage).abs() < 1e-12,
        "{found}"
    );
    let widths = (0..2000).map(|row| upper[row] - lower[row]);
    let width = widths.sum::<f64>() / 2000.0;
    assert!(
        (found["mean_width"].as_f64().unwrap() - width).abs() < 1e-9,
        "{found}"
    );
    // The guarantee is about all rows; the rows of the noisy ward are covered less.
    let east = &found["parts"][1]["parts"][0];
    assert_eq!(
        (&found["parts"][1]["by"], &east["part"]),
        (&"ward".into(), &"east".into())
    );
    assert!(east["coverage"].as_f64().unwrap() < 0.8, "{east}");
    assert!(east["adjusted_p_value"].as_f64().unwrap() < 1e-4, "{east}");
    let text = place.output("evaluate run new.csv --conformal 0.9 --by ward");
    for words in [
        "conformal at 0.9: coverage",
        "mean width",
        "by width of the interval:",
        "at least 90",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    place.output("evaluate run new.csv --conformal 0.9 --by ward --baseline --report page");
    let page = place.read("page/report.html");
    let headline = text.split("conformal at 0.9: coverage ").nth(1).unwrap();
    let headline = headline.lines().next().unwrap();
    for words in [
        headline,
        "id=\"groups\"",
        "id=\"baselines\"",
        "Scores by ward",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn every_group_is_covered_at_the_level() {
    let place = Workplace::new();
    place.write("known.csv", &wards(800, 1));
    place.write("new.csv", &wards(2000, 101));
    place.output(
        "fit --data known.csv --target y --task regression --model linear --ignore ward,dose --keep ward,dose \
         --validation 0.5 --out run",
    );
    let held_out = column(&place.read("run/validation.csv"), "ward");
    assert_eq!(held_out.len(), 400);
    let conformal = "run new.csv --conformal 0.9 --conformal-by ward";
    let text = place.output(&format!("predict {conformal} --keep y,ward"));
    let limits = [numbers(&text, "lower"), numbers(&text, "upper")];
    let (truths, new_wards) = (numbers(&text, "y"), column(&text, "ward"));
    let scores = place.json(&format!("evaluate {conformal}"));
    let found = &scores["conformal"];
    assert!(
        found["guarantee"]
            .as_str()
            .unwrap()
            .contains("in each group of `ward`"),
        "{found}"
    );
    let parts = &found["parts"][1];
    assert_eq!(parts["by"], "ward");
    for (index, ward) in ["east", "west"].into_iter().enumerate() {
        let rows: Vec<usize> = (0..2000).filter(|&row| new_wards[row] == ward).collect();
        let count = rows.len() as f64;
        let inside = rows.iter();
        let inside =
            inside.filter(|&&row| limits[0][row] <= truths[row] && truths[row] <= limits[1][row]);
        let coverage = inside.count() as f64 / count;
        let calibrated = held_out.iter().filter(|&held_out| held_out == ward).count() as f64;
        let most = 1.0 / (calibrated + 1.0) + margin(calibrated, count);
        assert!((coverage - 0.9).abs() < most, "{ward}: {coverage}");
        let part = &parts["parts"][index];
        assert_eq!(part["part"], ward);
        assert!(
            (part["coverage"].as_f64().unwrap() - coverage).abs() < 1e-12,
            "{part}"
        );
    }
    // The scores of the groups, and their coverage once.
    let text = place.output(&format!("evaluate {conformal} --by ward"));
    assert_eq!(text.matches("by ward:").count(), 2, "{text}");
    // Eight values: the quartiles of the training rows.
    let text = place.output("evaluate run new.csv --conformal 0.9 --conformal-by dose");
    assert!(text.contains("by dose:") && text.contains(" to "), "{text}");

    place.write("moved.csv", "x,ward,dose\n0.5,east,1\n0.5,north,1\n");
    let by = "--conformal 0.9 --conformal-by";
    for (command, words) in [
        (
            format!("predict run moved.csv {by} ward"),
            ["moved.csv, line 3: ", "`north`", "--bad-rows mark"],
        ),
        (
            format!("predict run new.csv {by} x"),
            ["names `x`", "validation.csv", "--keep x"],
        ),
        (
            format!("predict run new.csv {by} y"),
            ["--conformal-by: ", "names the target `y`", "another column"],
        ),
        (
            "predict run new.csv --conformal 0.995 --conformal-by ward".into(),
            [
                "held-out rows of the group `east` of `ward`",
                "199",
                "--validation",
            ],
        ),
        (
            "fit --data known.csv --target y --task regression --keep wart --out other".into(),
            ["wart", "ward", "a column of"],
        ),
        (
            "compare --data known.csv --target y --task regression --keep ward --out other".into(),
            ["--keep: ", "not used here", "leave it out"],
        ),
    ] {
        let (code, message) = place.failure(&command);
        assert!(code == 2 || code == 3, "{code}: {message}");
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    // The other rows are predicted, if bad ones are marked.
    let text = place.output(&format!("predict run moved.csv {by} ward --bad-rows mark"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("1,") && lines[1].ends_with(','),
        "{text}"
    );
    assert!(
        lines[2].starts_with("2,,,,,") && lines[2].contains("`north`"),
        "{text}"
    );
    // In an object, the guarantee has its name.
    place.write("named.csv", "x,ward,guarantee\n0.5,east,1\n");
    place.output("predict run named.csv --keep guarantee");
    let (code, message) = place.failure("predict run named.csv --conformal 0.9 --keep guarantee");
    assert!(code == 2 && message.contains("`guarantee`"), "{message}");
    // A copied column must not hide one of the predictions; that is found before the fit.
    place.write("std.csv", &wards(100, 1).replacen("dose", "std", 1));
    place.fails(
        "fit --data std.csv --target y --task regression --keep std --out other",
        2,
        &["--keep: ", "`std`"],
    );
}

#[test]
fn codes_that_are_categories_are_groups_and_no_quartiles() {
    let place = Workplace::new();
    let coded = |rows, seed| {
        let text = wards(rows, seed);
        text.replace("east", "17").replace("west", "4")
    };
    place.write("known.csv", &coded(800, 1));
    place.write("new.csv", &coded(400, 101));
    for (options, names) in [
        ("--categories ward --keep ward", ["17", "4"]),
        (
            "--categories ward --keep ward,dose --ignore ward,dose",
            ["17", "4"],
        ),
    ] {
        let _ = std::fs::remove_dir_all(place.path("run"));
        place.output(&format!(
            "fit --data known.csv --target y --task regression --model linear {options} --validation 0.5 --out run"
        ));
        let model = place.read("run/model.toml");
        assert!(model.contains("ward = \"categories\""), "{model}");
        let evaluate = "evaluate run new.csv --conformal 0.9 --conformal-by ward";
        let scores = place.json(evaluate);
        let parts = &scores["conformal"]["parts"][1];
        let found = [0, 1].map(|part| parts["parts"][part]["part"].as_str().unwrap());
        assert_eq!(found, names, "{parts}");
        place.write("moved.csv", &coded(50, 3).replace(",4,", ",5,"));
        place.fails(&evaluate.replace("new.csv", "moved.csv"), 3, &["`5`"]);
    }
    // As numbers, codes have groups with limits from the training rows.
    let _ = std::fs::remove_dir_all(place.path("run"));
    place.output(
        "fit --data known.csv --target y --task regression --model linear --keep ward,dose --validation 0.5 --out run",
    );
    let model = place.read("run/model.toml");
    assert!(
        model.contains("[kept_columns.dose]") && !model.contains("\"categories\""),
        "{model}"
    );
}

#[test]
fn every_class_is_covered_at_the_level() {
    let place = Workplace::new();
    for (name, rows, seed) in [("known", 800, 1), ("new", 2000, 2)] {
        place.output(&format!(
            "data generate patients --rows {rows} --seed {seed} --output {name}.csv"
        ));
    }
    place.output(
        "fit --data known.csv --target ill --task classification --missing impute --validation 0.4 --model linear \
         --out run",
    );
    let scores = place.json("evaluate run new.csv --conformal 0.95 --conformal-by ill");
    let found = &scores["conformal"];
    assert!(
        found["guarantee"]
            .as_str()
            .unwrap()
            .contains("for each class"),
        "{found}"
    );
    let parts = found["parts"].as_array().unwrap();
    let by_class = parts
        .iter()
        .find(|parts| parts["by"] == "true class")
        .unwrap();
    for part in by_class["parts"].as_array().unwrap() {
        let (coverage, rows) = (
            part["coverage"].as_f64().unwrap(),
            part["rows"].as_f64().unwrap(),
        );
        // At least a third of the 320 held-out rows are of each class.
        assert!(coverage > 0.95 - margin(105.0, rows), "{part}");
    }
}

#[test]
fn a_guarantee_that_cannot_be_given_is_refused() {
    let place = Workplace::with_gap();
    let fit = format!("{GAP} --epochs 2").replace("--epochs 60 ", "");
    for (name, options) in [
        ("run", ""),
        ("none", "--validation 0"),
        ("all", "--refit"),
        ("stopped", "--patience 1"),
    ] {
        // Two epochs may not be enough to learn anything: the run is written all the same.
        let _ = place
            .burn_bayes(&format!("{fit} {options} --out {name}"))
            .output();
    }
    for (run, options, words) in [
        (
            "run",
            "--conformal 0.999",
            [
                "30 held-out rows are too few",
                "at least 999",
                "--validation",
            ],
        ),
        (
            "run",
            "--conformal 90",
            ["--conformal: is 90", "(0, 1)", "such as 0.9"],
        ),
        (
            "run",
            "--conformal 0.9 --conformal-sets aps",
            ["--conformal-sets: ", "classification", "leave it out"],
        ),
        (
            "run",
            "--conformal 0.9 --draws 5",
            ["--draws: is 5", "the 20 draws of the fit", "leave it out"],
        ),
        (
            "run",
            "--conformal-sets aps",
            ["--conformal", "required", "Usage"],
        ),
        (
            "none",
            "--conformal 0.9",
            ["--conformal: ", "the run has none", "--validation 0.2"],
        ),
        (
            "all",
            "--conformal 0.9",
            ["--conformal: ", "`refit`", "trained the model"],
        ),
        (
            "stopped",
            "--conformal 0.9",
            ["--conformal: ", "`patience`", "chose the epoch"],
        ),
    ] {
        for command in ["predict", "evaluate"] {
            let (code, message) = place.failure(&format!("{command} {run} gap.csv {options}"));
            assert!(code == 2 || code == 3, "{code}: {message}");
            for word in words {
                assert!(message.contains(word), "{word}: {message}");
            }
        }
    }
    // The smallest number of rows for the level: 29 are enough for 29/30.
    place.output("predict run gap.csv --conformal 0.96");
}

#[test]
fn rows_that_cannot_be_predicted_have_no_set() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 5 --lr 0.1 --out run").replace("--epochs 30 ", ""));
    place.write("new.csv", "x,y\n1,1\n1,high\n0,0\n");
    let text = place.output("predict run new.csv --bad-rows mark --conformal 0.9");
    let sets = column(&text, "set");
    assert_eq!(sets[1], "");
    let objects = place.output("predict run new.csv --bad-rows mark --conformal 0.9 --json");
    let second: Value = serde_json::from_str(objects.lines().nth(1).unwrap()).unwrap();
    assert!(second["set"].is_null(), "{second}");
}

#[test]
fn errors_of_numbers_above_a_tolerance_are_bounded() {
    let place = Workplace::new();
    place.write("known.csv", &wards(1000, 1));
    place.write("new.csv", &wards(2000, 101));
    place.output(
        "fit --data known.csv --target y --task regression --model mlp:20 --method map --likelihood heteroscedastic \
         --ignore dose --validation 0.5 --epochs 60 --out run",
    );
    let command = "predict run new.csv --target-risk 0.05 --tolerance 0.4 --keep y,ward";
    let [text, words] = place.said(command);
    for word in [
        "at most 5 % are off by more than 0.4",
        "a confidence of 95 %",
        "std up to",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
    let (means, truths) = (numbers(&text, "mean"), numbers(&text, "y"));
    let (decisions, wards) = (column(&text, "decision"), column(&text, "ward"));
    let kept: Vec<usize> = (0..2000).filter(|&row| decisions[row] == "keep").collect();
    let wrong = kept
        .iter()
        .filter(|&&row| (means[row] - truths[row]).abs() > 0.4);
    assert!(wrong.count() as f64 <= 0.05 * kept.len() as f64);
    // The three quarters with little noise are kept, and the noisy ward is referred.
    let calm = kept.iter().filter(|&&row| wards[row] == "west").count();
    assert!(
        calm > 1300 && kept.len() - calm < 100,
        "{calm} of {}",
        kept.len()
    );

    let predict = "predict run new.csv --target-risk";
    for (options, code, words) in [
        (
            "0.05",
            2,
            ["--target-risk: ", "--tolerance", "unit of the target"],
        ),
        (
            "0.05 --tolerance -1",
            2,
            ["--tolerance: is -1", "above 0", ""],
        ),
        (
            "0.05 --tolerance 0",
            2,
            ["--tolerance: is 0", "above 0", ""],
        ),
        (
            "0.001 --tolerance 0.4",
            3,
            [
                "cannot guarantee a risk of 0.001",
                "--target-risk",
                "validation rows",
            ],
        ),
    ] {
        place.fails(&format!("{predict} {options}"), code, &words);
    }
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run").replace("--epochs 30 ", ""));
    place.fails(
        "predict run moons.csv --target-risk 0.3 --tolerance 1",
        2,
        &["--tolerance: is for regression"],
    );
}

/// Files with rows of one series, whose errors grow from 1 to 5 in 1000 rows, and a fit to the first of them in `run`.
fn drifting() -> Workplace {
    let place = Workplace::new();
    let noise = burn_bayes_data::gap_regression(1000, 1.0, 1).unwrap();
    let row = |row: usize| {
        let x = noise.features().row(row)[0];
        let error = noise.targets().as_real().unwrap()[row] - burn_bayes_data::gap_function(x);
        let y = 2.0 * x + error * (1.0 + 4.0 * row as f64 / 1000.0);
        format!("{row},{x},{y}\n")
    };
    for (name, rows) in [("known", 0..400), ("since", 400..800), ("new", 800..1000)] {
        let rows: String = rows.map(row).collect();
        place.write(&format!("{name}.csv"), &format!("t,x,y\n{rows}"));
    }
    place.output(
        "fit --data known.csv --target y --task regression --target-scale linear --time t --ignore t \
         --model linear --method exact --out run",
    );
    place
}

/// The coverage of the newest rows at 90 %, by `evaluate`.
fn drifted(place: &Workplace, options: &str) -> Value {
    place.json(&format!("evaluate run new.csv --conformal 0.9 {options}"))["conformal"].clone()
}

#[test]
fn a_level_follows_a_drift() {
    let place = drifting();
    let evaluated = |options: &str| drifted(&place, options);
    let (still, following) = (evaluated(""), evaluated("--conformal-recent since.csv"));
    let coverage = |found: &Value| found["coverage"].as_f64().unwrap();
    assert!(coverage(&still) < 0.75, "{still}");
    assert!(coverage(&following) > coverage(&still) + 0.1, "{following}");
    let guarantee = following["guarantee"].as_str().unwrap();
    assert!(
        guarantee.contains("in 90 % of the rows in the long run"),
        "{guarantee}"
    );
    assert!(
        guarantee.contains("of the last 400 known rows"),
        "{guarantee}"
    );
    // The rows that it followed were inside as often as they should be.
    let inside = guarantee.split("known rows, ").nth(1).unwrap();
    let inside: f64 = inside.split(' ').next().unwrap().parse().unwrap();
    assert!((86.0..94.0).contains(&inside), "{guarantee}");
    place.output("predict run new.csv --conformal 0.9 --conformal-recent since.csv --output new-predicted.csv");
    let (code, message) =
        place.failure("predict run new.csv --conformal 0.9 --conformal-recent none.csv");
    assert!(code != 0 && message.contains("none.csv"), "{message}");
    place.fails(
        "predict run new.csv --conformal-recent since.csv",
        2,
        &["--conformal"],
    );
    // Rows of the fit, in any order, say nothing about a drift.
    let rows = place.read("known.csv");
    let (head, rows) = rows.split_once('\n').unwrap();
    let reversed: Vec<&str> = rows.lines().rev().collect();
    place.write(
        "again.csv",
        &format!("{head}\n{}\n", reversed[..50].join("\n")),
    );
    for file in ["known.csv", "again.csv"] {
        let predict = format!("predict run new.csv --conformal 0.9 --conformal-recent {file}");
        place.fails(&predict, 2, &["those of the fit"]);
    }
    // Of errors that grow like this, no interval is wide enough.
    let row = |row: usize| format!("{row},0,{}\n", 2f64.powi(row as i32 - 400));
    let rows: String = (400..460).map(row).collect();
    place.write("wild.csv", &format!("t,x,y\n{rows}"));
    place.fails(
        "predict run new.csv --conformal 0.9 --conformal-recent wild.csv",
        3,
        &["fit again"],
    );
}

#[test]
fn newer_rows_have_larger_weights() {
    let place = drifting();
    let coverage = |found: &Value| found["coverage"].as_f64().unwrap();
    let still = drifted(&place, "");
    let own = drifted(&place, "--conformal-half-life 20");
    assert_eq!(own["calibration_rows"], 80);
    let guarantee = own["guarantee"].as_str().unwrap();
    for words in [
        "with a probability of at least 90 %",
        "halved after 20 rows",
        "calibrated on 80 held-out rows, which weigh",
    ] {
        assert!(guarantee.contains(words), "{words}: {guarantee}");
    }
    let since = "--conformal-recent since.csv --conformal-half-life 50";
    let weighted = drifted(&place, since);
    assert_eq!(weighted["calibration_rows"], 480);
    assert!(coverage(&weighted) > coverage(&still) + 0.05, "{weighted}");
    assert!(coverage(&weighted) > 0.7, "{weighted}");
    let guarantee = weighted["guarantee"].as_str().unwrap();
    assert!(
        guarantee.contains("80 held-out rows and 400 recent ones"),
        "{guarantee}"
    );
    // Weights that hardly differ from 1 are no weights.
    assert_eq!(
        drifted(&place, "--conformal-half-life 1e12")["mean_width"],
        still["mean_width"]
    );
    let words = place.warnings(&format!("predict run new.csv --conformal 0.9 {since}"));
    assert!(words.contains("halved after 50 rows"), "{words}");
    place.output(&format!(
        "evaluate run new.csv --conformal 0.9 {since} --report page"
    ));
    assert!(
        place
            .read("page/report.html")
            .contains("halved after 50 rows")
    );

    let fit = "fit --data known.csv --target y --task regression --target-scale linear --ignore t --model linear \
               --method exact";
    place.output(&format!("{fit} --out random"));
    // Other rows like those of the fit.
    let held = place.read("known.csv").replace('\n', "1\n");
    place.write("held.csv", &held.replacen("y1", "y", 1));
    place.output(&format!(
        "{fit} --time t --validation-file held.csv --out other"
    ));
    for (run, options, code, words) in [
        (
            "run",
            "--conformal-half-life 0",
            2,
            ["--conformal-half-life: is 0", "above 0"],
        ),
        (
            "run",
            "--conformal-half-life -3",
            2,
            ["--conformal-half-life: is -3", "above 0"],
        ),
        (
            "run",
            "--conformal-half-life 2",
            3,
            ["too few for the level 0.9", "a half-life of at least 7"],
        ),
        (
            "run",
            "--conformal-half-life 20 --conformal-by y",
            2,
            ["--conformal-half-life", "--conformal-by"],
        ),
        (
            "random",
            "--conformal-half-life 20",
            2,
            ["--conformal-half-life: ", "fit with `--time COLUMN`"],
        ),
        (
            "other",
            "--conformal-half-life 20",
            2,
            ["--conformal-half-life: ", "without `--validation-file`"],
        ),
    ] {
        place.fails(
            &format!("predict {run} new.csv --conformal 0.9 {options}"),
            code,
            &words,
        );
    }
    place.fails(
        "predict run new.csv --conformal-half-life 20",
        2,
        &["--conformal"],
    );
}
