//! Bad input: each row has a clear message and an exit code, and nothing panics.

use crate::workplace::{GAP, MOONS, Workplace};

const USAGE: i32 = 2;
const DATA: i32 = 3;
const NUMERICAL: i32 = 4;
const SYSTEM: i32 = 1;

/// A command line, its exit code, and words of the message.
type Case<'a> = (String, i32, &'a [&'a str]);

fn check(place: &Workplace, cases: &[Case<'_>]) {
    for (arguments, code, words) in cases {
        place.fails(arguments, *code, words);
    }
}

fn moons(change: &str) -> String {
    format!("{MOONS} --out run {change}")
}

#[test]
fn options_that_cannot_be_used() {
    let place = Workplace::with_moons();
    place.write("unknown.toml", "[fit]\nepochz = 3\n");
    place.write("wrong.toml", "[fit]\nmodel = \"cnn\"\n");
    place.write("zero.toml", "[fit]\nbatch_size = 0\n");
    place.write(
        "grades.csv",
        "x,grade\n0.5,1\n1.5,2\n2.5,3\n0.4,1\n1.4,2\n2.4,3\n",
    );
    let file = "fit --data moons.csv --task classification --out run";
    check(
        &place,
        &[
            (
                format!("{file} --target knid"),
                USAGE,
                &["--target:", "knid", "did you mean `kind`"],
            ),
            (
                format!("{file} --target elevation"),
                USAGE,
                &["--target:", "`x`, `y`, `kind`"],
            ),
            (file.into(), USAGE, &["--target: is not given"]),
            ("fit --out run".into(), USAGE, &["--data: is not given"]),
            (
                "fit --data grades.csv --target grade --out run".into(),
                USAGE,
                &["--task:", "3 whole numbers", "`grade`"],
            ),
            (moons("--ignore z"), USAGE, &["--ignore:", "`z`"]),
            (moons("--ignore kind"), USAGE, &["--ignore:", "target"]),
            (moons("--categories z"), USAGE, &["--categories:", "`z`"]),
            (
                moons("--categories x --rare 1 --max-categories 100"),
                DATA,
                &["moons.csv", "`x`", "more than 100 categories"],
            ),
            (
                moons("--batch-size 0"),
                USAGE,
                &["--batch-size:", "0", "at least 1"],
            ),
            (
                moons("--method factor-analysis --rank 0"),
                USAGE,
                &["--rank:", "swag"],
            ),
            (
                moons("--method vifa --rank 103"),
                USAGE,
                &["--rank:", "103", "102"],
            ),
            (
                moons("--positive sideways"),
                USAGE,
                &["--positive:", "`sideways`", "`lower`, `upper`"],
            ),
            (moons("--validation 1"), USAGE, &["--validation:"]),
            (moons("--epochs 0"), USAGE, &["--epochs:"]),
            (moons("--epochs -1"), USAGE, &["--epochs", "-1"]),
            (
                moons("--train-draws 1000000000"),
                USAGE,
                &["--train-draws:", "at most"],
            ),
            (
                moons("--epochs 18446744073709551615"),
                USAGE,
                &["--epochs:", "at most"],
            ),
            (
                moons("--model mlp:99999999999"),
                USAGE,
                &["--model:", "mlp:99999999999", "smaller"],
            ),
            (
                moons("--model mlp:9999999999,9999999999"),
                USAGE,
                &["--model:", "smaller"],
            ),
            (moons("--lr=-1"), USAGE, &["--learning-rate:"]),
            (moons("--momentum 1"), USAGE, &["--momentum:"]),
            (
                format!("{file} --target kind --model cnn"),
                USAGE,
                &["cnn", "mlp:50,50"],
            ),
            (
                format!("{file} --target kind --model mlp:5,0"),
                USAGE,
                &["mlp:5,0"],
            ),
            (
                format!("{file} --target kind --device tpu"),
                USAGE,
                &["tpu", "flex"],
            ),
            (
                "fit --config unknown.toml --out run".into(),
                USAGE,
                &["unknown.toml", "epochz"],
            ),
            // A value keeps the name that it has where it is from.
            (moons("--config zero.toml"), USAGE, &["`batch_size` is 0"]),
            (
                moons("--config zero.toml --batch-size 0"),
                USAGE,
                &["--batch-size: is 0"],
            ),
            (
                moons("--config zero.toml --batch-size 8 --momentum 1"),
                USAGE,
                &["--momentum: is 1"],
            ),
            (
                "fit --config wrong.toml --out run".into(),
                USAGE,
                &["wrong.toml", "cnn"],
            ),
            (
                "fit --config absent.toml --out run".into(),
                SYSTEM,
                &["absent.toml"],
            ),
            (
                "fit --data absent.csv --target y --task regression --out run".into(),
                SYSTEM,
                &["absent.csv"],
            ),
        ],
    );
    assert!(!place.path("run").exists(), "nothing was begun");
    let tune = format!("{} --out found", MOONS.replacen("fit", "tune", 1));
    for wrong in ["--trials 0", "--survivors 0", "--folds 1"] {
        let setting = format!("{}:", &wrong[..wrong.rfind(' ').unwrap_or(0)]);
        check(&place, &[(format!("{tune} {wrong}"), USAGE, &[&setting])]);
    }
    assert!(!place.path("found").exists(), "nothing was begun");
    let compare = format!(
        "{} --methods map,vifa --out table",
        MOONS.replacen("fit", "compare", 1)
    );
    let compare = compare.replace("--method mean-field", "");
    for wrong in [
        "--repeats 0",
        "--repeats 99999999999",
        "--folds 1",
        "--folds 1000",
    ] {
        let setting = format!("{}:", &wrong[..wrong.rfind(' ').unwrap_or(0)]);
        check(
            &place,
            &[(format!("{compare} {wrong}"), USAGE, &[&setting])],
        );
    }
    assert!(!place.path("table").exists(), "nothing was begun");
}

#[test]
fn files_that_cannot_be_fitted() {
    let place = Workplace::new();
    let rows = |row: &dyn Fn(usize) -> String| -> String {
        let rows: Vec<String> = (0..40).map(row).collect();
        format!("a,b,y\n{}\n", rows.join("\n"))
    };
    place.write("empty.csv", "");
    place.write("header.csv", "a,b,y\n");
    place.write(
        "text.csv",
        &rows(&|row| match row {
            20 => "1,many,2".into(),
            _ => format!("{row},{row},{}", row % 7),
        }),
    );
    place.write(
        "nan.csv",
        &rows(&|row| match row {
            20 => "1,inf,2".into(),
            _ => format!("{row},{row},{}", row % 7),
        }),
    );
    place.write(
        "missing.csv",
        &rows(&|row| match row {
            // The message names the first one, whichever rows are held out.
            20.. => "1,NaN,2".into(),
            _ => format!("{row},{row},{}", row % 7),
        }),
    );
    place.write(
        "ragged.csv",
        &rows(&|row| match row {
            20 => "1,2".into(),
            _ => format!("{row},{row},{}", row % 7),
        }),
    );
    place.write("one_class.csv", &rows(&|row| format!("{row},{row},yes")));
    place.write(
        "rare.csv",
        &rows(&|row| match row {
            20 => "1,2,rare".into(),
            _ => format!("{row},{row},{}", ["no", "yes"][row % 2]),
        }),
    );
    place.write("numbers.csv", &rows(&|row| format!("{row},{row},{row}.5")));
    place.write("constant.csv", &rows(&|row| format!("{row},{row},3")));
    place.write("few.csv", "a,y\n1,2\n2,3\n3,5\n");
    let regression =
        |file: &str| format!("fit --data {file} --target y --task regression --epochs 1 --out run");
    let classes = |file: &str| {
        format!("fit --data {file} --target y --task classification --epochs 1 --out run")
    };
    check(
        &place,
        &[
            (regression("empty.csv"), DATA, &["empty.csv", "no rows"]),
            (regression("header.csv"), DATA, &["header.csv"]),
            (
                regression("text.csv"),
                DATA,
                &["text.csv", "line 22", "`b`", "many"],
            ),
            (regression("nan.csv"), DATA, &["nan.csv", "line 22", "`b`"]),
            (
                format!("{} --missing refuse", regression("missing.csv")),
                DATA,
                &["missing.csv", "line 22", "`b`"],
            ),
            (regression("ragged.csv"), DATA, &["ragged.csv", "22"]),
            (classes("one_class.csv"), DATA, &["one_class.csv", "`y`"]),
            (
                classes("rare.csv"),
                DATA,
                &["rare.csv", "`y`", "`rare`", "`--validation 0`"],
            ),
            (
                classes("numbers.csv"),
                DATA,
                &["numbers.csv", "`y`", "`--task regression`"],
            ),
            (regression("constant.csv"), DATA, &["constant.csv", "`y`"]),
            (
                regression("few.csv"),
                USAGE,
                &["--noise-precision:", "2 rows"],
            ),
            (
                format!("{} --batch-size 2 --validation 0", regression("few.csv")),
                USAGE,
                &["--noise-precision:", "3 rows"],
            ),
        ],
    );
    for missing in ["impute", "drop"] {
        place.output(&format!(
            "{} --batch-size 8 --missing {missing} --out {missing}",
            regression("missing.csv").replace(" --out run", "")
        ));
    }
}

#[test]
fn rows_that_do_not_fit_the_run() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.write("third.csv", "x,y,kind\n1,1,lower\n0,0,middle\n");
    place.write("columns.csv", "x,kind\n1,lower\n");
    place.write("label.csv", "x,y,label\n1,1,lower\n");
    place.write("text.csv", "x,y\n1,1\n1,high\n");
    place.write("huge.csv", "x,y\n1,1\n1,1e300\n");
    place.write("empty.csv", "");
    check(
        &place,
        &[
            (
                "evaluate run moons.csv --positive sideways".into(),
                USAGE,
                &["--positive:", "`lower`, `upper`"],
            ),
            (
                "predict run moons.csv --keep kind,zip".into(),
                USAGE,
                &["--keep:", "`zip`", "`kind`"],
            ),
            (
                "predict run label.csv --keep label".into(),
                USAGE,
                &["--keep:", "`label`", "rename"],
            ),
            (
                "evaluate run third.csv".into(),
                DATA,
                &["third.csv", "line 3", "middle", "lower"],
            ),
            (
                "predict run huge.csv".into(),
                DATA,
                &["huge.csv", "line 3", "`y`"],
            ),
            (
                "predict run columns.csv".into(),
                DATA,
                &["columns.csv", "`y`"],
            ),
            (
                "evaluate run columns.csv".into(),
                DATA,
                &["columns.csv", "`y`"],
            ),
            (
                "predict run text.csv".into(),
                DATA,
                &["text.csv", "line 3", "`y`", "high", "`--bad-rows mark`"],
            ),
            ("predict run empty.csv".into(), DATA, &["empty.csv"]),
            ("predict run absent.csv".into(), SYSTEM, &["absent.csv"]),
            (
                "predict . moons.csv".into(),
                DATA,
                &["no run", "config.toml"],
            ),
            (
                "predict run moons.csv --draws 0".into(),
                USAGE,
                &["--draws:"],
            ),
            (
                "predict run moons.csv --draws 18446744073709551615".into(),
                USAGE,
                &["--draws:", "at most"],
            ),
            (
                "predict run moons.csv --score std --abstain-above 1".into(),
                USAGE,
                &["--score:", "entropy"],
            ),
            (
                "predict run moons.csv --score entropy".into(),
                USAGE,
                &["--score:", "--abstain-above"],
            ),
            (
                "predict run moons.csv --abstain-above nan".into(),
                USAGE,
                &["--abstain-above:", "NaN"],
            ),
            (
                "predict run absent.csv --quantiles 0.5".into(),
                USAGE,
                &["--quantiles:", "classes"],
            ),
            (
                "predict run moons.csv --target-risk 0.3 --draws 1".into(),
                USAGE,
                &["--draws: is 1", "--target-risk", "20 draws of the fit"],
            ),
            (
                "predict run moons.csv --target-risk 2".into(),
                USAGE,
                &["--target-risk:"],
            ),
            (
                "predict run moons.csv --target-risk 0.1 --confidence 1".into(),
                USAGE,
                &["--confidence:"],
            ),
        ],
    );
}

#[test]
fn runs_that_were_spoilt() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.output(&format!(
        "{MOONS} --epochs 1 --lr 0.1 --method map --out point"
    ));
    let posterior = std::fs::read(place.path("run/posterior.safetensors")).unwrap();
    std::fs::write(place.path("run/posterior.safetensors"), &posterior[..100]).unwrap();
    place.write("point/weights.bpk", "nothing");
    check(
        &place,
        &[
            (
                "predict run moons.csv".into(),
                DATA,
                &["posterior.safetensors"],
            ),
            ("predict point moons.csv".into(), DATA, &["weights.bpk"]),
        ],
    );
    std::fs::write(place.path("run/posterior.safetensors"), &posterior).unwrap();
    let predict = "predict run moons.csv";
    for (file, from, to) in [
        ("config.toml", "mlp:20", "mlp:30"),
        ("config.toml", "mlp:20", "mlp:99999999999"),
        ("config.toml", "draws = 20", "draws = 0"),
        ("config.toml", "draws = 20", "draws = 30"),
        ("preprocessor.toml", "centre = ", "centre = 1"),
        ("model.toml", "format = 5", "format = 7"),
        (
            "model.toml",
            "noise_precision = 1.0",
            "noise_precision = 2.0",
        ),
        (
            "model.toml",
            "noise_precision = 1.0",
            "noise_precision = nan",
        ),
    ] {
        let file = format!("run/{file}");
        let whole = place.read(&file);
        let spoilt = whole.replace(from, to);
        assert_ne!(spoilt, whole);
        place.write(&file, &spoilt);
        check(
            &place,
            &[(predict.into(), DATA, &[&file, "damaged", "fit again"])],
        );
        place.write(&file, &whole);
    }
    place.output(predict);
}

#[test]
fn rows_held_out_that_were_changed() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --validation 0.5 --out run"));
    let predict = "predict run moons.csv --target-risk 0.4";
    place.output(predict);
    let rows = place.read("run/validation.csv");
    let changed = rows.replacen("0.", "1.", 1);
    assert_ne!(changed, rows);
    place.write("run/validation.csv", &changed);
    check(
        &place,
        &[(predict.into(), DATA, &["validation.csv", "fit again"])],
    );
    std::fs::remove_file(place.path("run/validation.csv")).unwrap();
    check(
        &place,
        &[(predict.into(), DATA, &["validation.csv", "missing"])],
    );
    // Other commands read the remaining files of the run.
    place.output("predict run moons.csv");

    let metrics = place.read("run/metrics.jsonl");
    place.write("run/metrics.jsonl", &metrics.replacen("0.", "1.", 1));
    let evaluate = "evaluate run moons.csv";
    place.output(evaluate);
    let report = format!("{evaluate} --report page");
    check(&place, &[(report, DATA, &["metrics.jsonl", "fit again"])]);
}

#[test]
fn a_regression_that_goes_wrong() {
    let place = Workplace::with_gap();
    let wild = format!("{GAP} --optimizer sgd --lr 1e9 --noise-precision 1 --out wild");
    check(&place, &[(wild, NUMERICAL, &["finite", "learning"])]);
    place.output(&format!("{GAP} --epochs 1 --out run"));
    check(
        &place,
        &[
            (
                "predict run absent.csv --quantiles 0.5,1.5".into(),
                USAGE,
                &["--quantiles: is 1.5", "(0, 1)"],
            ),
            (
                "predict run gap.csv --target-risk 0.1".into(),
                USAGE,
                &["--target-risk:", "--tolerance", "regression"],
            ),
        ],
    );
}

#[test]
fn what_would_be_lost() {
    let place = Workplace::with_moons();
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out other"));
    let tuned =
        "--data moons.csv --target kind --task classification --epochs 1 --trials 1 --folds 2";
    place.output(&format!("tune {tuned} --out found"));
    let fit = "fit --data moons.csv --target kind --task classification --epochs 1";
    check(
        &place,
        &[
            (
                format!("{fit} --out found"),
                USAGE,
                &["--out:", "config.toml"],
            ),
            (
                "predict found moons.csv".into(),
                DATA,
                &["no run", "command.txt"],
            ),
            (
                "predict run moons.csv --output moons.csv".into(),
                USAGE,
                &["--output:", "moons.csv"],
            ),
            (
                "predict run moons.csv --output run/posterior.safetensors".into(),
                USAGE,
                &["--output:", "overwritten"],
            ),
            (
                "evaluate run moons.csv --report other".into(),
                USAGE,
                &["--report:", "folder of a run"],
            ),
        ],
    );
}

#[test]
fn inputs_and_files_of_another_origin_are_not_written() {
    let place = Workplace::with_moons();
    let rows = place.read("moons.csv");
    place.output(&format!("{MOONS} --epochs 1 --lr 0.1 --out run"));
    let of_rows = [
        "mine/validation.csv",
        "mine/compare.csv",
        "mine/trials.csv",
        "mine/explanation.html",
        "mine/report.html",
        "mine/check.html",
        "scores/scores.json",
        "recent.csv",
        "run/member-1/validation.csv",
    ];
    for file in of_rows {
        std::fs::create_dir_all(place.path(file).parent().unwrap()).unwrap();
        place.write(file, &rows);
    }
    // Rows of the fit are no recent ones.
    let (head, lines) = rows.split_once('\n').unwrap();
    let recent = lines.lines().map(|line| line.replacen(',', "1,", 1) + "\n");
    let recent = format!("{head}\n{}", recent.collect::<String>());
    place.write("recent.csv", &recent);
    let target = "--target kind --task classification --epochs 1";
    let fit = |data: &str| format!("fit --data {data} {target} --lr 0.1");
    check(
        &place,
        &[
            (
                format!("{} --out mine", fit("mine/validation.csv")),
                USAGE,
                &["--out:", "validation.csv", "another folder"],
            ),
            (
                format!("{} --out scores", fit("moons.csv")),
                USAGE,
                &["--out:", "scores.json", "does not belong to a run"],
            ),
            (
                format!("{} --overwrite --out run", fit("run/validation.csv")),
                USAGE,
                &["--out:", "validation.csv", "is read"],
            ),
            (
                format!("{} --overwrite --out run", fit("run/member-1/validation.csv")),
                USAGE,
                &["--out:", "validation.csv", "is read"],
            ),
            (
                format!("compare --data mine/compare.csv {target} --out mine"),
                USAGE,
                &["--out:", "compare.csv is read"],
            ),
            (
                format!("tune --data mine/trials.csv {target} --out mine"),
                USAGE,
                &["--out:", "trials.csv is read"],
            ),
            (
                format!("tune --data moons.csv {target} --out mine"),
                USAGE,
                &["--out:", "trials.csv is not of this command"],
            ),
            (
                format!("check --data mine/check.html {target} --out mine"),
                USAGE,
                &["--out:", "check.html is read"],
            ),
            (
                "explain run mine/explanation.html --out mine".into(),
                USAGE,
                &["--out:", "explanation.html is read"],
            ),
            (
                "evaluate run mine/report.html --report mine".into(),
                USAGE,
                &["--report:", "report.html is read"],
            ),
            (
                "predict run moons.csv --conformal 0.8 --conformal-recent recent.csv --output recent.csv".into(),
                USAGE,
                &["--output:", "recent.csv"],
            ),
        ],
    );
    for file in of_rows {
        let expected = if file == "recent.csv" { &recent } else { &rows };
        assert_eq!(place.read(file), *expected, "{file}");
    }
}

#[test]
fn what_one_draw_cannot_say() {
    let place = Workplace::with_moons();
    place.output(&format!(
        "{MOONS} --method map --epochs 1 --lr 0.1 --out run"
    ));
    let predict = "predict run moons.csv --abstain-above 0.1";
    place.output(predict);
    check(
        &place,
        &[(
            format!("{predict} --score mutual_information"),
            USAGE,
            &["--score:", "one draw"],
        )],
    );
}

#[test]
fn classes_that_are_too_few_or_too_large() {
    let place = Workplace::new();
    let rows = |label: &dyn Fn(usize) -> String| -> String {
        let lines = (0..80).map(|row| format!("{},{}\n", row % 7, label(row)));
        format!("x,kind\n{}", lines.collect::<String>())
    };
    place.write(
        "rare.csv",
        &rows(&|row| ["a", "b", "r"][if row < 2 { 2 } else { row % 2 }].into()),
    );
    place.write(
        "large.csv",
        &rows(&|row| (9_007_199_254_740_992 + row as u64 % 2).to_string()),
    );
    let classes = "--target kind --task classification --epochs 1";
    check(
        &place,
        &[
            (
                format!("compare --data rare.csv {classes} --folds 3 --repeats 1 --out both"),
                DATA,
                &["class `r` has 2 rows", "folds"],
            ),
            (
                format!("fit --data large.csv {classes} --out run"),
                DATA,
                &["9007199254740992", "2⁵³", "categories"],
            ),
        ],
    );
}

#[cfg(unix)]
#[test]
fn two_fits_into_one_folder() {
    let place = Workplace::with_moons();
    std::fs::create_dir(place.path("run")).unwrap();
    let folder = std::fs::File::open(place.path("run")).unwrap();
    folder.lock().unwrap();
    check(&place, &[(moons(""), USAGE, &["run", "another process"])]);
    drop(folder);
    place.output(&moons("--epochs 1 --lr 0.1"));
}

#[test]
fn columns_that_are_no_features() {
    let place = Workplace::new();
    let write = |name: &str, cell: &dyn Fn(usize) -> String| {
        let lines = (0..40).map(|row| format!("{};{};{}\n", cell(row), row % 7, row % 2));
        place.write(name, &format!("when;a;y\n{}", lines.collect::<String>()));
    };
    write("commas.csv", &|row| format!("{},5", 7 * row % 40));
    write("dates.csv", &|row| format!("2024-03-{:02}", 1 + row % 30));
    write("names.csv", &|row| format!("9b1c-{row}"));
    write("id.csv", &|row| (1001 + row).to_string());
    write("cell.csv", &|row| {
        if row == 7 {
            "4e9".into()
        } else {
            format!("{}.5", row % 3)
        }
    });
    let fit = |file: &str, more: &str| {
        format!(
            "fit --data {file} --target y --task classification --epochs 1 --batch-size 8 --draws 2 \
             --model linear --solver gradient {more}"
        )
    };
    check(
        &place,
        &[
            (
                fit("commas.csv", "--out run"),
                DATA,
                &[
                    "commas.csv",
                    "line 2",
                    "`when`",
                    "`0,5`",
                    "`--decimal ,`",
                    "`--categories when`",
                ],
            ),
            (
                fit("commas.csv", "--target when --out run"),
                DATA,
                &["`when`", "`--decimal ,`"],
            ),
            (
                fit("names.csv", "--rare 1 --max-categories 20 --out run"),
                DATA,
                &[
                    "names.csv",
                    "`when`",
                    "more than 20 categories",
                    "`--ignore when`",
                ],
            ),
            (
                fit(
                    "id.csv",
                    "--target a --task regression --positive 1 --out run",
                ),
                USAGE,
                &["--positive:", "number"],
            ),
            (
                fit("id.csv", "--target a --positive 1 --out run"),
                USAGE,
                &["--positive:", "two classes", "7"],
            ),
        ],
    );
    assert!(!place.path("run").exists(), "nothing was begun");
    for (file, more, words) in [
        ("commas.csv", "--decimal ,", None),
        ("commas.csv", "--ignore when", None),
        ("id.csv", "--ignore when", None),
        (
            "id.csv",
            "",
            Some(["`when`", "from 1001 to 1040", "`--ignore when`"]),
        ),
        ("cell.csv", "", Some(["line 9", "`when`", "4000000000"])),
        (
            "dates.csv",
            "",
            Some(["`when`", "the time of the rows", "`--time when`"]),
        ),
        (
            "names.csv",
            "--rare 1 --unseen zeros",
            Some(["`when`", "40 different texts", "`--ignore when`"]),
        ),
    ] {
        let command = fit(file, &format!("{more} --out {file}{}", more.len()));
        let errors = place.warnings(&command);
        let warnings: Vec<&str> = errors
            .lines()
            .filter(|line| line.starts_with("warning"))
            .collect();
        assert_eq!(
            warnings.len(),
            usize::from(words.is_some()),
            "{command}: {errors}"
        );
        for word in words.iter().flatten() {
            assert!(
                warnings[0].contains(word),
                "{command}: no `{word}` in {errors}"
            );
        }
    }
}

#[test]
fn targets_that_do_not_go_together() {
    let place = Workplace::new();
    let mut rows = String::from("x,price,rent,wet,kind\n");
    for row in 0..40 {
        let (price, kind) = (f64::from(row * row) / 2.0, row % 3);
        let (rent, wet) = (-1.25 * price, row % 2);
        rows.push_str(&format!("{row},{price},{rent},{wet},k{kind}\n"));
    }
    place.write("rows.csv", &rows);
    let fit = |change: &str| {
        format!("fit --data rows.csv --model mlp:3 --epochs 2 --method map --out run {change}")
    };
    let done = fit("--target price,rent --task regression").replace("--out run", "--out done");
    place.output(&done.replace("--epochs 2", "--epochs 200"));
    check(
        &place,
        &[
            (fit("--target price,price"), USAGE, &["--target:", "`price` twice"]),
            (
                fit("--target price,rnet"),
                USAGE,
                &["--target:", "`rnet`", "did you mean `rent`"],
            ),
            (
                fit("--target price,rent --ignore rent"),
                USAGE,
                &["--ignore:", "the target `rent`"],
            ),
            (
                fit("--target wet,kind --task classification"),
                USAGE,
                &["--task:", "names 2", "multilabel"],
            ),
            (fit("--target price,rent --task counts"), USAGE, &["--task:", "one target"]),
            (fit("--target wet --task multilabel"), USAGE, &["--task:", "classification"]),
            (
                fit("--target wet,kind --task multilabel"),
                DATA,
                &["`kind`", "3 classes: `k0`, `k1`, `k2`", "leave the column out"],
            ),
            (
                fit("--target price,wet"),
                USAGE,
                &["--task:", "the target `wet` has 2 values", "use regression"],
            ),
            (
                fit("--target price,kind --task regression"),
                DATA,
                &["`kind`", "`k0`", "a number"],
            ),
            (
                fit("--target price,rent --task regression --recalibrate variance"),
                USAGE,
                &["--recalibrate:", "the fit has 2", "one number is that of one target"],
            ),
            (
                fit("--target price,rent --task regression --positive 1"),
                USAGE,
                &["--positive:", "leave it out"],
            ),
            (
                "predict done rows.csv --conformal 0.5 --conformal-by rent".into(),
                USAGE,
                &["--conformal-by:", "`rent`, one of several targets", "another column"],
            ),
            (
                "predict done rows.csv --target-risk 0.1 --tolerance 1".into(),
                USAGE,
                &["--score:", "several targets", "rent_std"],
            ),
            (
                "predict done rows.csv --abstain-above 1".into(),
                USAGE,
                &["--score:", "price_std, price_epistemic_std, rent_std"],
            ),
            (
                "evaluate done rows.csv --by rent".into(),
                USAGE,
                &["--by:", "the target `rent`"],
            ),
            (
                "compare --data rows.csv --target price,rent --task regression --methods map,vifa --out c --predict rows.csv \
                 --conformal 0.5"
                    .into(),
                USAGE,
                &["--predict:", "one target"],
            ),
            (
                "check --data rows.csv --target price,rent --task regression --noise-precision 1 --out c".into(),
                USAGE,
                &["--target:", "several columns"],
            ),
        ],
    );
}
