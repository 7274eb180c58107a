//! `predict` for decisions: rows that are given one at a time, costs, the most probable classes, and samples.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::on_cpu::predict::{column, numbers};
use crate::workplace::{GAP, MOONS, Workplace};

/// The objects of lines of JSON.
fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The answers to lines of the standard input.
fn answers(place: &Workplace, arguments: &str, lines: &str) -> Vec<Value> {
    let mut command = place.burn_bayes(arguments);
    let output = command.write_stdin(lines).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    objects(&String::from_utf8(output.stdout).unwrap())
}

fn problem(answer: &Value) -> &str {
    answer["problem"].as_str().unwrap()
}

#[test]
fn a_row_on_the_command_line_is_predicted_as_in_a_file() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 2 --out run"));
    place.write("new.csv", "y,x\n0.9,0\n-0.4,\n");
    let rows = "predict run --row x=0,y=0.9 --row y=-0.4 --abstain-above 0.5";
    let of_file = "predict run new.csv --abstain-above 0.5";
    assert_eq!(
        place.output(&format!("{rows} --json")),
        place.output(&format!("{of_file} --json"))
    );
    place.output(&format!("{rows} --output rows.csv"));
    let table = place.output(of_file);
    assert_eq!(place.read("rows.csv"), table);
    // A line for each column.
    let text = place.output(rows);
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    let heads: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    for (row, block) in blocks.iter().enumerate() {
        let pairs = block.lines().map(|line| line.split_once(": ").unwrap());
        let (names, values): (Vec<&str>, Vec<&str>) = pairs.unzip();
        assert_eq!(names, heads);
        assert_eq!(values[0], (row + 1).to_string());
        let place_of_label = heads.iter().position(|head| *head == "label").unwrap();
        assert_eq!(values[place_of_label], column(&table, "label")[row]);
    }
    // The standard input is a file, too.
    let mut command = place.burn_bayes("predict run - --abstain-above 0.5");
    let output = command.write_stdin(place.read("new.csv")).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), table);
}

#[test]
fn a_row_that_cannot_be_predicted_says_why() {
    let place = Workplace::with_moons();
    for missing in ["impute", "refuse", "drop"] {
        place.output(&format!(
            "{MOONS} --epochs 15 --missing {missing} --out {missing}"
        ));
    }
    for (arguments, expected) in [
        ("impute --row xx=1,y=0", "did you mean `x`"),
        (
            "impute --row x=1,y=high",
            "--row: row 1, column `y`: found `high`",
        ),
        (
            "impute --row x=1 --row y=1e300",
            "row 2, column `y`: found 1",
        ),
        ("impute --row x=0,5,y=1", "`5` has no value"),
        ("impute --row x=1,x=2", "`x` has two values"),
        (
            "refuse --row x=1",
            "`y` has no value, and the fit refuses missing values (`--missing refuse`)",
        ),
        ("drop --row x=1,y=NA", "(`--missing drop`)"),
        ("impute moons.csv --row x=1", "cannot be used with"),
        ("impute", "required"),
        ("impute --row x=1 --bad-rows mark", "cannot be used with"),
        (
            "impute --json-lines --output out.csv",
            "cannot be used with",
        ),
    ] {
        let message = place.fails(&format!("predict {arguments}"), 2, &[expected]);
        assert!(!message.contains("line 2"), "{message}");
    }
    // The target and a copied column may be named.
    let text = place.output("predict refuse --row x=1,y=0,kind=lower,id=7 --keep id --json");
    assert_eq!(objects(&text)[0]["id"], "7");
}

#[test]
fn lines_of_json_are_answered_in_order() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 2 --out run"));
    place.output(&format!("{MOONS} --epochs 2 --members 2 --out ensemble"));
    place.write("new.csv", "x,y,id\n0.5,-0.25,a\n,1,b\n40,-0.4,c\n");
    let lines = "{\"x\": 0.5, \"y\": -0.25, \"id\": \"a\"}\n\n\
        {\"x\": 1,\n\
        [1, 2]\n\
        {\"x\": null, \"y\": \"1\", \"id\": \"b\", \"kind\": \"lower\"}\n\
        {\"x\": 1, \"yy\": 2}\n\
        {\"x\": {\"y\": 2}}\n\
        {\"x\": 1, \"y\": 1, \"x\": 2}\n\
        {\"y\": -4e-1, \"x\": 4e1, \"id\": \"c\"}";
    for run in ["run", "ensemble"] {
        let options = "--keep id --score least_confidence --abstain-above 0.3 --draws 7";
        let found = answers(
            &place,
            &format!("predict {run} --json-lines {options}"),
            lines,
        );
        assert_eq!(found.len(), 8);
        for (answer, expected) in [
            (1, "row 2: EOF while parsing"),
            (2, "row 3: invalid"),
            (2, "write one object"),
            (
                4,
                "row 5: `yy` is not a column of the fit; did you mean `y`",
            ),
            (5, "row 6, column `x`: found a list or an object"),
            (6, "row 7: the key `x` comes twice"),
        ] {
            let problem = problem(&found[answer]);
            assert!(problem.contains(expected), "{problem}");
            assert_eq!(found[answer]["row"], answer + 1);
        }
        let of_file = objects(&place.output(&format!("predict {run} new.csv --json {options}")));
        for (answer, row) in [0, 3, 7].into_iter().zip(of_file) {
            let mut found = found[answer].clone();
            assert_eq!(found["row"], answer + 1);
            found["row"] = row["row"].clone();
            assert_eq!(found, row, "{run}");
        }
    }
}

#[test]
fn a_line_of_json_is_answered_before_the_next_is_read() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --epochs 1 --out run"));
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("burn-bayes"))
        .args(["predict", "run", "--json-lines"])
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for row in 1..=3 {
        writeln!(input, "{{\"x\": 0.{row}}}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(objects(&line)[0]["row"], row);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn values_of_json_are_those_of_files() {
    let place = Workplace::new();
    let mut text = String::from("age;smoker;ward;late;cost\n");
    for row in 0..60 {
        let (smoker, ward) = (["True", "False"][row % 2], [1, 2, 7][row % 3]);
        let late = u8::from(row % 5 == 0);
        let age = 20.5 + row as f64;
        let cost = age + 10.0 * f64::from(late) + ward as f64 + 5.0 * f64::from(row as u8 % 2);
        let line = format!("{age};{smoker};{ward};{late};{cost}").replace('.', ",");
        writeln!(text, "{line}").unwrap();
    }
    place.write("costs.csv", &text);
    place.output(
        "fit --data costs.csv --target cost --task regression --target-scale linear --decimal , --delimiter ; \
         --categories ward --na-values -999 --model linear --method exact --out run",
    );
    place.write(
        "new.csv",
        "age;smoker;ward;late\n31,25;False;7;0\n40;True;2;1\n-1e-1;True;1;1\n",
    );
    let lines = "{\"age\": 31.25, \"smoker\": false, \"ward\": 7, \"late\": false}\n\
        {\"age\": 40, \"smoker\": true, \"ward\": \"2\", \"late\": true}\n\
        {\"age\": -1e-1, \"smoker\": \"True\", \"ward\": 1, \"late\": 1}\n\
        {\"age\": \"3.5\", \"smoker\": true, \"ward\": 1, \"late\": 1}\n\
        {\"age\": -999.0, \"smoker\": true, \"ward\": 1, \"late\": 1}\n\
        {\"age\": null, \"smoker\": true, \"ward\": 1, \"late\": 1}\n\
        {\"age\": 3, \"smoker\": true, \"ward\": 123456789012345678901234, \"late\": 1}\n";
    let found = answers(&place, "predict run --json-lines", lines);
    assert_eq!(
        found[..3],
        objects(&place.output("predict run new.csv --json"))
    );
    assert!(problem(&found[3]).contains("column `age`: found `3.5`"));
    assert!(found[4]["mean"].is_number());
    assert_eq!(found[4]["mean"], found[5]["mean"]);
    assert!(problem(&found[6]).contains("column `ward`: found the number 1.23456789012345"));
    let row = place.output("predict run --row age=\"31,25\",smoker=False,ward=7,late=0 --json");
    assert_eq!(objects(&row)[0], found[0]);
}

#[test]
fn costs_choose_the_action_that_is_expected_to_cost_least() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --out run"));
    let truths = column(&place.read("moons.csv"), "kind");
    for (costs, [false_positive, false_negative, abstain], positive) in [
        ("fp=1,fn=20", [1.0, 20.0, f64::INFINITY], "upper"),
        ("abstain=0.5,fn=1.5,fp=3", [3.0, 1.5, 0.5], "upper"),
        (
            "fp=2,fn=1,abstain=.3 --positive lower",
            [2.0, 1.0, 0.3],
            "lower",
        ),
    ] {
        let text = place.output(&format!("predict run moons.csv --cost {costs}"));
        let probabilities = numbers(&text, &format!("p_{positive}"));
        let negative = ["lower", "upper"]
            .into_iter()
            .find(|class| *class != positive);
        let negative = negative.unwrap();
        let decisions = column(&text, "decision");
        let mut costs_of_rows = Vec::new();
        let rows = probabilities.iter().zip(numbers(&text, "expected_cost"));
        for (row, (p, cost)) in rows.enumerate() {
            let actions = [
                (negative, p * false_negative),
                (positive, (1.0 - p) * false_positive),
                ("abstain", abstain),
            ];
            let least = actions
                .map(|(_, cost)| cost)
                .into_iter()
                .fold(f64::INFINITY, f64::min);
            assert!((cost - least).abs() < 1e-12, "{cost} {least}");
            let own = actions
                .iter()
                .find(|(name, _)| *name == decisions[row])
                .unwrap();
            assert!((own.1 - least).abs() < 1e-12, "{p} {}", decisions[row]);
            costs_of_rows.push(match (&*decisions[row], truths[row] == positive) {
                ("abstain", _) => abstain,
                (action, true) if action == negative => false_negative,
                (action, false) if action == positive => false_positive,
                _ => 0.0,
            });
        }
        let kinds = ["lower", "upper", "abstain"];
        let count = |kind: &str| {
            decisions
                .iter()
                .filter(|decision| *decision == kind)
                .count()
        };
        assert!(
            kinds[..2].iter().all(|kind| count(kind) > 0),
            "{decisions:?}"
        );
        let scores = place.output(&format!("evaluate run moons.csv --cost {costs} --json"));
        let scores = objects(&scores).remove(0);
        let rules = scores["costs"]["rules"].as_array().unwrap();
        let expected = costs_of_rows.iter().sum::<f64>() / costs_of_rows.len() as f64;
        let mean = |rule: usize| rules[rule]["mean_cost"]["value"].as_f64().unwrap();
        assert!((mean(0) - expected).abs() < 1e-12, "{scores}");
        assert_eq!(rules[0]["abstained"], count("abstain"));
        assert_eq!(scores["costs"]["classes"], json!(kinds[..2]));
        assert_eq!(rules[0]["decided"], json!([count("lower"), count("upper")]));
        // Half of the rows are of each class.
        for (rule, class) in [(2, "lower"), (3, "upper")] {
            assert_eq!(rules[rule]["rule"], format!("always {class}"));
            let cost_of_error = match class == positive {
                true => false_positive,
                false => false_negative,
            };
            assert!((mean(rule) - 0.5 * cost_of_error).abs() < 1e-12);
            assert!(mean(0) <= mean(rule), "{rules:?}");
        }
    }
    let text = place.output("evaluate run moons.csv --cost fp=1,fn=2 --report page");
    assert!(
        text.contains("by decision:") && text.contains("always upper"),
        "{text}"
    );
    assert!(place.read("page/report.html").contains("id=\"costs\""));
    // Bad rows are not decided.
    place.write("bad.csv", "x,y\n1,1\n1,high\n");
    let marked = place.output("predict run bad.csv --bad-rows mark --cost fp=1,fn=2");
    assert_eq!(column(&marked, "decision")[1], "");
}

#[test]
fn costs_without_sense_are_refused() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 15 --out run"));
    for (options, expected) in [
        ("--cost fp=1", "--cost: has no fn"),
        ("--cost fp=1,fn=x", "--cost: has fn=x"),
        ("--cost fp=1,fn=-2", "at least 0"),
        ("--cost fp=0,fn=0", "above 0"),
        ("--cost fp=1,tp=2", "names `tp`"),
        (
            "--cost fp=1,fn=2,lower:upper=1",
            "names `lower:upper` beside `fp`",
        ),
        ("--cost lower:upper=1", "has no cost for `upper:lower`"),
        ("--cost abstain=1", "has no cost for `lower:upper`"),
        (
            "--cost other=1 --positive upper",
            "--positive: has no effect without the costs fp and fn",
        ),
        (
            "--cost fp=1,fn=2 --abstain-above 0.5",
            "leave one of them out",
        ),
        (
            "--cost fp=1,fn=2 --target-risk 0.1",
            "leave one of them out",
        ),
        ("--cost fp=1,fn=2 --score entropy", "--score: has no effect"),
        ("--cost fp=1,fn=2 --positive left", "--positive: is `left`"),
        ("--positive upper", "--cost"),
        ("--top 3", "--top: is 3; it must be from 1 to 2"),
        ("--top 0", "--top: is 0"),
        (
            "--draws-file draws.csv",
            "--draws-file: is for numbers and counts",
        ),
    ] {
        place.fails(&format!("predict run moons.csv {options}"), 2, &[expected]);
    }
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --epochs 1 --out run"));
    for options in ["predict run gap.csv", "evaluate run gap.csv"] {
        place.fails(
            &format!("{options} --cost fp=1,fn=2"),
            2,
            &["the target is a number"],
        );
    }
    place.fails("predict run gap.csv --top 1", 2, &["--top"]);
}

/// A folder with `grades.csv`, whose classes overlap.
fn with_grades() -> Workplace {
    let place = Workplace::new();
    let mut text = String::from("x,grade\n");
    for row in 0..240 {
        let x = f64::from(row) / 80.0;
        let noisy = x + f64::from(row * 53 % 41 - 20) / 30.0;
        let grade = ["low", "middle", "high"][(noisy.max(0.0) as usize).min(2)];
        writeln!(text, "{x},{grade}").unwrap();
    }
    place.write("grades.csv", &text);
    place
}

/// The options of a small fit to them.
const GRADES: &str = "fit --data grades.csv --target grade --task classification --model mlp:8 --method mean-field \
    --epochs 30 --draws 20";

#[test]
fn pairs_of_classes_may_have_costs() {
    let place = with_grades();
    let truths = column(&place.read("grades.csv"), "grade");
    let ordinal = "--likelihood ordinal --class-order low,middle,high";
    for (run, options, classes) in [
        ("run", "", ["high", "low", "middle"]),
        ("ordered", ordinal, ["low", "middle", "high"]),
    ] {
        let fit = place
            .burn_bayes(&format!("{GRADES} {options} --out {run}"))
            .output();
        let told = String::from_utf8(fit.unwrap().stderr).unwrap();
        assert!(!told.contains("`--class-order`"), "{told}");
        for (costs, abstain) in [
            ("high:low=20,low:high=5,other=2", f64::INFINITY),
            ("other=2,low:high=5,high:low=20,abstain=0.7", 0.7),
        ] {
            let cost = |truth: &str, decided: &str| match (truth, decided) {
                (_, "abstain") => abstain,
                (truth, decided) if truth == decided => 0.0,
                ("high", "low") => 20.0,
                ("low", "high") => 5.0,
                _ => 2.0,
            };
            let text = place.output(&format!("predict {run} grades.csv --cost {costs}"));
            let probabilities = classes.map(|class| numbers(&text, &format!("p_{class}")));
            let decisions = column(&text, "decision");
            let expected_costs = numbers(&text, "expected_cost");
            assert_eq!(decisions.len(), truths.len());
            for (row, decision) in decisions.iter().enumerate() {
                let expected = |decided: &str| -> f64 {
                    if decided == "abstain" {
                        return abstain;
                    }
                    let pairs = classes.iter().zip(&probabilities);
                    pairs.map(|(truth, p)| p[row] * cost(truth, decided)).sum()
                };
                let actions = classes.into_iter().chain(["abstain"]);
                let least = actions.map(expected).fold(f64::INFINITY, f64::min);
                assert!(
                    (expected_costs[row] - least).abs() < 1e-9,
                    "{run}, row {row}"
                );
                assert!(
                    (expected(decision) - least).abs() < 1e-9,
                    "{run}, row {row}"
                );
            }
            let count = |cells: &[String], kind: &str| {
                let cells = cells.iter();
                cells.filter(|cell| *cell == kind).count()
            };
            let decided = classes.map(|class| count(&decisions, class));
            let mut others = decisions.iter();
            assert!(others.any(|other| *other != decisions[0]), "{decided:?}");

            let scores = place.output(&format!("evaluate {run} grades.csv --cost {costs} --json"));
            let scores = objects(&scores).remove(0)["costs"].take();
            assert_eq!(scores["classes"], json!(classes));
            let mean = |decided: &dyn Fn(usize) -> String| {
                let costs = (0..truths.len()).map(|row| cost(&truths[row], &decided(row)));
                costs.sum::<f64>() / truths.len() as f64
            };
            let labels = column(&text, "label");
            let mut expected = vec![
                (
                    "least expected cost".to_string(),
                    mean(&|row| decisions[row].clone()),
                ),
                (
                    "the most probable class".to_string(),
                    mean(&|row| labels[row].clone()),
                ),
            ];
            expected.extend(
                classes.map(|class| (format!("always {class}"), mean(&|_| class.to_string()))),
            );
            let rules = scores["rules"].as_array().unwrap();
            assert_eq!(rules.len(), expected.len());
            for (found, (rule, cost)) in rules.iter().zip(&expected) {
                assert_eq!(found["rule"], rule.as_str());
                let mean = found["mean_cost"]["value"].as_f64().unwrap();
                assert!((mean - cost).abs() < 1e-9, "{run}, {rule}: {mean} {cost}");
            }
            assert_eq!(rules[0]["decided"], json!(decided));
            assert_eq!(rules[0]["abstained"], count(&decisions, "abstain"));
            assert_eq!(rules[1]["abstained"], 0);
        }
    }
    let text = place.output("evaluate run grades.csv --cost other=1 --report page");
    for part in ["the most probable class", "always middle", "as middle"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(place.read("page/report.html").contains("as middle"));
    // If all errors cost the same, the most probable class is decided.
    let text = place.output("predict run grades.csv --cost other=1");
    assert_eq!(column(&text, "decision"), column(&text, "label"));
}

#[test]
fn costs_of_pairs_without_sense_are_refused() {
    let place = with_grades();
    place.output(&format!("{GRADES} --out run"));
    for (options, expected) in [
        ("--cost low:high=5", "--cost: has no cost for `high:low`"),
        ("--cost low:high=5", "or other=1 for all pairs"),
        ("--cost low:hihg=5,other=1", "did you mean `high`"),
        (
            "--cost low:hihg=5,other=1",
            "classes are `high`, `low`, `middle`",
        ),
        (
            "--cost low=5,other=1",
            "names `low`, which is no pair of classes",
        ),
        ("--cost low:low=5,other=1", "costs nothing to decide `low`"),
        (
            "--cost low:high=5,low:high=6,other=1",
            "`low:high` has two values",
        ),
        ("--cost low:high=x,other=1", "has low:high=x"),
        ("--cost other=-1", "at least 0"),
        ("--cost other=0", "no cost above 0"),
        ("--cost fp=1,fn=2", "the target has 3"),
        ("--cost fp=1,other=1", "the target has 3"),
        ("--cost other=1 --positive low", "--positive"),
        ("--cost other=1 --target-risk 0.1", "leave one of them out"),
    ] {
        place.fails(&format!("predict run grades.csv {options}"), 2, &[expected]);
    }
    place.fails(
        "evaluate run grades.csv --cost low:high=5",
        2,
        &["has no cost for `high:low`"],
    );
}

#[test]
fn the_most_probable_classes_come_first() {
    let place = Workplace::new();
    let mut text = String::from("x,kind\n");
    for row in 0..90 {
        writeln!(text, "{},{}", row as f64 / 30.0, ["a", "b", "c"][row / 30]).unwrap();
    }
    place.write("kinds.csv", &text);
    place.output(
        "fit --data kinds.csv --target kind --task classification --model linear --method mean-field --epochs 5 \
         --draws 5 --out run",
    );
    let text = place.output("predict run kinds.csv --top 2");
    let classes = ["a", "b", "c"].map(|class| numbers(&text, &format!("p_{class}")));
    let top = ["top_1", "top_2"].map(|name| {
        let probabilities = numbers(&text, &format!("{name}_probability"));
        (column(&text, name), probabilities)
    });
    assert_eq!(top[0].0, column(&text, "label"));
    for row in 0..90 {
        let mut order: Vec<(f64, &str)> = (0..3)
            .map(|at| (classes[at][row], ["a", "b", "c"][at]))
            .collect();
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        for (place, (names, probabilities)) in top.iter().enumerate() {
            assert_eq!((probabilities[row], &*names[row]), order[place]);
        }
    }
    let object = objects(&place.output("predict run --row x=0 --top 1 --json")).remove(0);
    assert_eq!(object["top_1"], object["label"]);
    assert!(object.get("top_2").is_none());
}

#[test]
fn samples_are_those_of_the_predictions() {
    let place = Workplace::with_gap();
    place.output(&format!("{GAP} --out run"));
    place.write("new.csv", "x\n-1\n?\n1\nhigh\n");
    let predict = "predict run new.csv --draws 1000 --bad-rows mark";
    let text = place.output(&format!("{predict} --draws-file samples.csv"));
    assert_eq!(text, place.output(predict));
    let samples = place.read("samples.csv");
    let heads: Vec<&str> = samples.lines().next().unwrap().split(',').collect();
    assert_eq!(
        (heads.len(), heads[1], heads[1000]),
        (1001, "draw_1", "draw_1000")
    );
    // The unreadable row has no samples.
    assert_eq!(column(&samples, "row"), ["1", "2", "3"]);
    let (means, deviations) = (column(&text, "mean"), column(&text, "std"));
    for (row, line) in samples.lines().skip(1).enumerate() {
        let values: Vec<f64> = line
            .split(',')
            .skip(1)
            .map(|cell| cell.parse().unwrap())
            .collect();
        let [mean, deviation]: [f64; 2] =
            [&means, &deviations].map(|cells| cells[row].parse().unwrap());
        let found = values.iter().sum::<f64>() / 1000.0;
        let squares = values.iter().map(|value| (value - found).powi(2));
        let spread = (squares.sum::<f64>() / 1000.0).sqrt();
        // Five standard errors, of a deviation those of a Gaussian.
        assert!(
            (found - mean).abs() < 5.0 * deviation / 1000f64.sqrt(),
            "{found} {mean}"
        );
        assert!(
            (spread / deviation - 1.0).abs() < 5.0 / 2000f64.sqrt(),
            "{spread} {deviation}"
        );
    }
    place.output(&format!(
        "{predict} --draws-file again.csv --output out.csv"
    ));
    assert_eq!(place.read("again.csv"), samples);
    assert_eq!(place.read("out.csv"), text);
    place.output("predict run --row x=-1 --draws 1000 --draws-file row.csv");
    assert!(samples.starts_with(&place.read("row.csv")));
    for file in ["new.csv", "run/config.toml"] {
        place.fails(
            &format!("predict run new.csv --draws-file {file}"),
            2,
            &["--draws-file: is"],
        );
    }
    place.fails(
        "predict run new.csv --output both.csv --draws-file both.csv",
        2,
        &["overwritten"],
    );
}

#[test]
fn columns_that_are_far_from_the_training_rows_may_be_marked() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 15 --out run"));
    place.write("new.csv", "x,y\n0,0\n40,40\n0,high\n0,-9\n");
    let text = place.output("predict run new.csv --mark-far --bad-rows mark");
    assert_eq!(column(&text, "far"), ["", "x;y", "", "y"]);
    let lines = "{\"x\": 0, \"y\": 0}\n{\"x\": 40, \"y\": 0}\n{\"x\": 41, \"y\": 0}\n";
    let mut command = place.burn_bayes("predict run --json-lines --mark-far");
    let output = command.write_stdin(lines).output().unwrap();
    let found = objects(&String::from_utf8(output.stdout).unwrap());
    let far = |row: usize| found[row]["far"].as_array().unwrap().len();
    assert_eq!([far(0), far(1), far(2)], [0, 1, 1]);
    // As is a column without a value, where every training row has one.
    place.write("missing.csv", "x,y\n,0\n0,0\n");
    let text = place.output("predict run missing.csv --mark-far");
    assert_eq!(column(&text, "far"), ["x", ""]);
    for command in ["predict run missing.csv", "predict run --row y=0"] {
        let output = place.burn_bayes(command).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            told.contains("column `x`: no value, and no training row lacks one"),
            "{told}"
        );
    }
    // One warning for each column.
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        errors
            .matches("warning: row 2, column `x`: 40 is far")
            .count(),
        1
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}
