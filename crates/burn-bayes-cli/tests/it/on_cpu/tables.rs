//! Tables as people keep them: dates, amounts of money, missing values, columns without any; rows in time and in groups.

use std::fmt::Write;

use crate::on_cpu::predict::column;
use crate::workplace::Workplace;

/// A day a row, of which every tenth has no price, and shops of several rows.
fn shops() -> Workplace {
    let place = Workplace::new();
    let mut text = String::from("day,shop,area,discount,note,code,empty,price\n");
    for row in 0..120 {
        let area = 40 + row * 37 % 100;
        let price = match row % 10 {
            3 => String::new(),
            _ => format!("\"${},{:03}.50\"", 1 + area / 100, 10 * (area % 100)),
        };
        let extra = if row % 6 == 0 {
            "NA".into()
        } else {
            format!("{}.5%", row % 9)
        };
        let (month, day) = (1 + row / 28, 1 + row % 28);
        writeln!(
            text,
            "2024-{month:02}-{day:02},shop {},{area},{extra},note {row},{row},,{price}",
            row % 8
        )
        .unwrap();
    }
    place.write("shops.csv", &text);
    place
}

const FIT: &str = "fit --data shops.csv --target price --ignore note --ignore code --model linear --method exact \
                   --target-scale linear";

#[test]
fn a_table_as_people_keep_it_is_fitted() {
    let place = shops();
    let told = place.warnings(&format!("{FIT} --out run"));
    for part in [
        "`price`: 12 of 120 rows have no value to predict",
        "`discount`: 20 of 120 rows have no value, which is imputed",
        "`empty`: 120 of 120 rows have no value: it is left out",
        "`day`: it looks like the time of the rows",
        "`--time day`",
        "task: regression",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        !told.contains("`code`") && !told.contains("`note`"),
        "{told}"
    );
    let preparation = place.read("run/preprocessor.toml");
    for part in ["kind = \"date\"", "says_missing = true", "weekday = true"] {
        assert!(preparation.contains(part), "{part}: {preparation}");
    }
    // The mean of the prices, not of their thousands.
    let mean = preparation.rsplit("centre = ").next().unwrap();
    let mean: f64 = mean.lines().next().unwrap().parse().unwrap();
    assert!((1000.0..2000.0).contains(&mean), "{mean}");

    place.write(
        "new.csv",
        "day,shop,area,discount\n2024-03-01,shop 1,50,\n2031-01-01,kiosk,60,2%\n",
    );
    let told = place.warnings("predict run new.csv");
    for part in ["2031-01-01 is far outside", "`kiosk` is in no training row"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn texts_that_no_rows_share_are_left_out_and_rare_ones_are_one() {
    let place = shops();
    let told = place.warnings(&format!("{} --out run", FIT.replace("--ignore note ", "")));
    let left_out = "`note`: no category has 5 rows: it is left out (`--rare`)";
    assert!(told.contains(left_out), "{told}");
    assert!(!told.contains("`note`: 120 different texts"), "{told}");
    let preparation = place.read("run/preprocessor.toml");
    assert!(
        preparation.contains("left_out = [\"empty\", \"note\"]"),
        "{preparation}"
    );
    assert!(!preparation.contains("name = \"note\""), "{preparation}");
    place.output("predict run --row day=2024-03-01,note=fine");
    // Each shop has about 11 of 86 training rows.
    place.output(&format!("{FIT} --rare 11 --out rare"));
    let preparation = place.read("rare/preprocessor.toml");
    assert!(preparation.contains("rare = [\"shop "), "{preparation}");
}

#[test]
fn held_out_rows_come_from_a_file_of_their_own() {
    let place = shops();
    let text = place.read("shops.csv");
    let (head, rows) = text.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    // In another order of columns, and with a shop of its own.
    let later = rows[100..]
        .iter()
        .map(|row| row.replace("shop 1,", "kiosk,"));
    let later: String = later.map(|row| format!("{row},x\n")).collect();
    place.write("later.csv", &format!("{head},extra\n{later}"));
    place.write(
        "earlier.csv",
        &format!("{head}\n{}\n", rows[..100].join("\n")),
    );
    let fit = FIT.replace("shops.csv", "earlier.csv");
    place.output(&format!(
        "{fit} --validation-file later.csv --keep day --out run"
    ));
    let days = column(&place.read("run/validation.csv"), "day");
    // 18 of 20 have a price.
    assert_eq!(days.len(), 18);
    assert_eq!(days[0], "2024-04-17");
    place.output("predict run shops.csv --conformal 0.9");
    place.write("mixed.csv", &format!("{head}\n{}\n", rows[98..].join("\n")));
    let told = place.warnings(&format!("{fit} --validation-file mixed.csv --out mixed"));
    let expected = "mixed.csv: 2 of 22 rows are equal to training rows";
    assert!(told.contains(expected), "{told}");
    let reversed: Vec<&str> = rows[..100].iter().rev().copied().collect();
    place.write(
        "reversed.csv",
        &format!("{head}\n{}\n", reversed.join("\n")),
    );
    for (options, part) in [
        ("--validation-file no.csv", "no.csv"),
        (
            "--validation-file reversed.csv",
            "has the rows of the training file",
        ),
        (
            "--validation-file earlier.csv",
            "has the rows of the training file",
        ),
        (
            "--validation-file later.csv --validation 0.3",
            "--validation: is given together with `--validation-file`",
        ),
    ] {
        let (_, told) = place.failure(&format!("{fit} {options} --out other"));
        assert!(told.contains(part), "{told}");
    }
    place.write("narrow.csv", "day,shop\n2024-03-01,shop 1\n");
    let (_, told) = place.failure(&format!("{fit} --validation-file narrow.csv --out other"));
    assert!(
        told.contains("narrow.csv") && told.contains("`area`"),
        "{told}"
    );
}

#[test]
fn options_given_twice_add_up_or_are_refused() {
    let place = shops();
    for twice in [
        "--seed 1 --seed 2",
        "--data shops.csv",
        "--target-scale log",
    ] {
        let mut command = place.burn_bayes("");
        command
            .args(FIT.split_whitespace())
            .args(twice.split_whitespace());
        let output = command.args(["--out", "run"]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("cannot be used multiple times"), "{told}");
    }
}

#[test]
fn files_that_are_no_text_are_named() {
    let place = Workplace::new();
    for (name, start, what) in [
        #[cfg(not(feature = "parquet"))]
        ("a.parquet", &b"PAR1\x15\x04"[..], "--features parquet"),
        ("a.xls", &b"\xd0\xcf\x11\xe0"[..], "a spreadsheet"),
        ("a.json", b"[\n {\"x\": 1}]", "a JSON array"),
    ] {
        std::fs::write(place.path(name), start).unwrap();
        place.fails(
            &format!("fit --data {name} --target x --out run"),
            3,
            &[what, "as CSV"],
        );
    }
}

#[test]
fn tables_may_be_json_lines() {
    let place = shops();
    let objects = as_json_lines(&place.read("shops.csv"));
    std::fs::write(place.path("shops.jsonl"), &objects).unwrap();
    place.output(&format!("{FIT} --out csv"));
    let from_lines = FIT.replace("shops.csv", "shops.jsonl");
    place.output(&format!("{from_lines} --out lines"));
    let held_out = |run: &str| place.read(&format!("{run}/validation.csv"));
    assert_eq!(held_out("csv"), held_out("lines"));
    let mut command = place.burn_bayes("predict csv -");
    command.write_stdin(objects).assert().success();
}

/// An object per row, with all values as texts, and null for empty cells.
fn as_json_lines(csv: &str) -> String {
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let names = rows.headers().unwrap().clone();
    let objects = rows.records().map(|row| {
        let row = row.unwrap();
        let values = row.iter().map(|cell| (!cell.is_empty()).then_some(cell));
        let fields = names.iter().zip(values);
        let fields = fields.map(|(name, value)| {
            serde_json::json!(name).to_string() + ": " + &serde_json::json!(value).to_string()
        });
        format!("{{{}}}\n", fields.collect::<Vec<_>>().join(", "))
    });
    objects.collect()
}

#[test]
fn rows_come_from_the_standard_input() {
    let place = shops();
    let piped = FIT.replace("shops.csv", "-");
    let mut command = place.burn_bayes(&format!("{piped} --out run"));
    command
        .write_stdin(place.read("shops.csv"))
        .assert()
        .success();
    let mut command = place.burn_bayes("predict run -");
    command
        .write_stdin(place.read("shops.csv"))
        .assert()
        .success();
}

#[test]
fn the_latest_rows_are_held_out() {
    let place = shops();
    place.output(&format!(
        "{FIT} --time day --validation 0.25 --keep day --out run"
    ));
    let days = column(&place.read("run/validation.csv"), "day");
    // 27 of 108 rows with a price.
    assert_eq!(days.len(), 27);
    assert!(
        days.iter().all(|day| day.as_str() > "2024-04-01"),
        "{days:?}"
    );
    let compared = "compare --data shops.csv --target price --ignore note,code --task regression \
                    --model linear --methods exact,map --epochs 2 --folds 3 --target-scale linear --no-plain --time day";
    place.output(&format!("{compared} --out compared"));
    // Two methods and three folds.
    assert_eq!(place.read("compared/runs.jsonl").lines().count(), 6);
    for (options, part) in [
        (
            "--time shop",
            "`shop`, which is not a column of numbers or dates",
        ),
        ("--time empty", "has no value in shops.csv, line 2"),
        ("--time when", "not a column"),
        ("--time price", "is the target"),
        ("--time day --group-by shop", "`--group-by`"),
    ] {
        let (code, told) = place.failure(&format!("{FIT} {options} --out refused"));
        assert!(code != 0 && told.contains(part), "{options}: {told}");
    }
}

#[test]
fn groups_are_held_out_as_a_whole() {
    let place = shops();
    place.output(&format!("{FIT} --group-by shop --keep shop --out run"));
    let shops = column(&place.read("run/validation.csv"), "shop");
    let mut different = shops.clone();
    different.sort();
    different.dedup();
    assert!((1..=3).contains(&different.len()), "{different:?}");
    // Of the fifteen rows of each shop, up to three have no price.
    let rows = |shop: &String| shops.iter().filter(|other| *other == shop).count();
    assert!(different.iter().all(|shop| rows(shop) >= 12), "{shops:?}");
    assert!(!place.read("run/preprocessor.toml").contains("\"shop\""));
}
