//! Delimited text in its common variants.

use burn_bayes_data::{
    BadRows, ColumnKind, CsvOptions, CsvReader, DataError, DecimalMark, Header, MissingPolicy,
    Preprocessor, PreprocessorConfig, Table, Task, suspicions,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn read_with(text: &str, options: CsvOptions) -> Table {
    let reader = CsvReader::new(text.as_bytes(), "test.csv", options).unwrap();
    reader.read_all().unwrap()
}

fn read(text: &str) -> Table {
    read_with(text, CsvOptions::default())
}

fn names(table: &Table) -> Vec<&str> {
    table.columns().iter().map(|column| column.name()).collect()
}

fn numbers(table: &Table, name: &str) -> Vec<Option<f64>> {
    let column = table.column(name).unwrap();
    (0..table.rows()).map(|row| column.number(row)).collect()
}

fn categories<'a>(table: &'a Table, name: &str) -> Vec<Option<&'a str>> {
    let column = table.column(name).unwrap();
    (0..table.rows()).map(|row| column.category(row)).collect()
}

#[test]
fn columns_are_typed_by_what_they_hold() {
    let table = read("age, town ,score\n31,Oslo,1e-3\n32, Rome,-.5\n,Oslo,NA\n");
    assert_eq!(names(&table), ["age", "town", "score"]);
    assert_eq!(numbers(&table, "age"), [Some(31.0), Some(32.0), None]);
    assert_eq!(
        categories(&table, "town"),
        [Some("Oslo"), Some("Rome"), Some("Oslo")]
    );
    assert_eq!(numbers(&table, "score"), [Some(1e-3), Some(-0.5), None]);
    assert_eq!(table.complete_rows(), [0, 1]);
}

#[test]
fn every_delimiter_is_found() {
    for delimiter in [',', '\t', ';', '|', ' '] {
        let text = "x,name,y\n1,a,2\n3,b,4\n".replace(',', &delimiter.to_string());
        let table = read(&text);
        assert_eq!(names(&table), ["x", "name", "y"], "{delimiter:?}");
        assert_eq!(
            numbers(&table, "y"),
            [Some(2.0), Some(4.0)],
            "{delimiter:?}"
        );
    }
    // Commas inside quotes or sentences do not mislead the detection.
    let table = read("id;remark\n1;\"so, so, so\"\n2;well, yes\n3;no\n");
    assert_eq!(
        categories(&table, "remark"),
        [Some("so, so, so"), Some("well, yes"), Some("no")]
    );
    let table = read_with("a:b\n1:2\n", CsvOptions::default().with_delimiter(b':'));
    assert_eq!(names(&table), ["a", "b"]);
    assert_eq!(names(&read("only\n1\n2\n")), ["only"]);
}

#[test]
fn quotes_hold_delimiters_quotes_and_line_ends() {
    let text = "name,note,x\n\"a,b\",\"say \"\"hi\"\"\",1\nc,\"two\nlines\",2\n";
    let table = read(text);
    assert_eq!(categories(&table, "name"), [Some("a,b"), Some("c")]);
    assert_eq!(
        categories(&table, "note"),
        [Some("say \"hi\""), Some("two\nlines")]
    );
}

#[test]
fn the_header_is_found_or_given() {
    assert_eq!(names(&read("1,a\n2,b\n")), ["column_0", "column_1"]);
    assert_eq!(names(&read("x,\n2,b\n")), ["x", "column_1"]);
    let options = CsvOptions::default().with_header(Header::Absent);
    assert_eq!(read_with("x,y\nu,v\n", options).rows(), 2);
    let options = CsvOptions::default().with_header(Header::Present);
    assert_eq!(
        names(&read_with("2020,2021\n1,2\n", options)),
        ["2020", "2021"]
    );
}

#[test]
fn line_ends_blank_lines_and_byte_order_marks_are_nothing() {
    let table = read("\u{feff}x,y\r\n1,2\r\n\r\n3,4");
    assert_eq!(names(&table), ["x", "y"]);
    assert_eq!(numbers(&table, "x"), [Some(1.0), Some(3.0)]);
}

#[test]
fn kinds_and_missing_words_can_be_given() {
    let options = CsvOptions::default()
        .with_kind("code", ColumnKind::Category)
        .with_missing(["-", "unknown"]);
    let table = read_with("code,x\n01,-\n1,2\nunknown,3\n", options);
    assert_eq!(categories(&table, "code"), [Some("01"), Some("1"), None]);
    assert_eq!(numbers(&table, "x"), [None, Some(2.0), Some(3.0)]);
    let options = CsvOptions::default().with_further_missing(["-9", "NA"]);
    assert_eq!(
        options.missing.len(),
        CsvOptions::default().missing.len() + 1
    );
    let table = read_with("x\n-9\nn/a\n3\n", options.clone());
    assert_eq!(numbers(&table, "x"), [None, None, Some(3.0)]);
    // A number may have another spelling, a category may not.
    let text = "x,code\n-9.0,-9.0\n3,a\n-9e0,-9\n";
    let table = read_with(text, options.with_kind("code", ColumnKind::Category));
    assert_eq!(numbers(&table, "x"), [None, Some(3.0), None]);
    assert_eq!(categories(&table, "code"), [Some("-9.0"), Some("a"), None]);
}

#[test]
fn columns_that_are_not_wanted_are_not_looked_at() {
    let mut text = "x,y,z\n".to_string();
    text.extend((0..1500).map(|row| format!("{row},{row},{row}\n")));
    text.push_str("1500,what is this,1500\n");
    let table = read_with(&text, CsvOptions::default().with_only(["x", "z"]));
    assert_eq!((names(&table), table.rows()), (vec!["x", "z"], 1501));
    // The error of a missing column lists them.
    let message = table.column("w").unwrap_err().to_string();
    assert!(message.contains("among `x`, `z`, `y`"), "{message}");
    let options = CsvOptions::default().with_only(["w"]).with_optional(["w"]);
    let none = read_with("x,y\n1,2\n", options);
    assert_eq!((none.rows(), none.columns().len()), (1, 0));
}

#[test]
fn a_setting_for_a_column_that_is_not_there_is_refused_unless_it_is_optional() {
    let kind = CsvOptions::default().with_kind("z", ColumnKind::Number);
    let only = CsvOptions::default().with_only(["x", "z"]);
    for (setting, options) in [("columns", kind), ("only", only)] {
        let read = |options: &CsvOptions| {
            CsvReader::new(&b"x,y\n1,2\n"[..], "test.csv", options.clone()).map(drop)
        };
        let error = read(&options).unwrap_err();
        assert!(error.is_config(), "{error}");
        assert_eq!(
            error.to_string(),
            format!("setting `{setting}`: found `z`, expected a column of test.csv: `x`, `y`")
        );
        read(&options.with_optional(["z"])).unwrap();
    }
}

#[test]
fn pieces_are_the_whole() {
    let mut text = "x,name\n".to_string();
    text.extend((0..2500).map(|row| format!("{row},level {}\n", row % 7)));
    let whole = read(&text);
    let mut reader = CsvReader::new(text.as_bytes(), "test.csv", CsvOptions::default()).unwrap();
    let mut row = 0;
    while let Some(piece) = reader.next_table(600).unwrap() {
        for inside in 0..piece.rows() {
            for (column, other) in piece.columns().iter().zip(whole.columns()) {
                assert_eq!(column.number(inside), other.number(row));
                assert_eq!(column.category(inside), other.category(row));
            }
            row += 1;
        }
    }
    assert_eq!(row, whole.rows());
}

#[test]
fn errors_name_the_line_that_an_editor_shows() {
    let rows = "1,a\n".repeat(1200);
    let text = format!("x,note\n3,\"one\ntwo\"\n\n{rows}4 5,b\n");
    let reader = CsvReader::new(text.as_bytes(), "test.csv", CsvOptions::default()).unwrap();
    let error = reader.read_all().unwrap_err();
    assert_eq!(
        (error.line(), error.column()),
        (Some(1205), Some("x")),
        "{error}"
    );
}

#[test]
fn every_end_of_a_line_counts_and_every_blank_line() {
    for (text, line) in [
        ("x,y\n1,2\nfive,3", 3),
        ("x,y\r\n1,2\r\nfive,3", 3),
        ("x,y\r1,2\rfive,3", 3),
        ("x,y\n1,2\n\n\nfive,3", 5),
        ("x,y\r\n1,2\r\n\r\n\r\nfive,3\r\n", 5),
        ("\u{feff}\r\nx,y\n1,2\r\nfive,3", 4),
        ("x,y\r\n\"1\r\n\",2\r\nfive,3\r\n", 4),
    ] {
        // Within the first rows, which determine the column types, and far behind them.
        for rows in [0, 1500] {
            let text = text.replace("five", &format!("{}five", "4,5\n".repeat(rows)));
            let options = CsvOptions::default().with_kind("x", ColumnKind::Number);
            let reader = CsvReader::new(text.as_bytes(), "test.csv", options).unwrap();
            let error = reader.read_all().unwrap_err();
            assert_eq!(error.line(), Some(line + rows as u64), "{error}");
        }
    }
}

#[test]
fn a_wide_sample_does_not_hide_a_short_row() {
    let text = format!("{}1,2\n", "1,2,3\n".repeat(2000));
    let reader = CsvReader::new(text.as_bytes(), "test.csv", CsvOptions::default()).unwrap();
    let error = reader.read_all().unwrap_err();
    assert_eq!((error.is_data(), error.line()), (true, Some(2001)));
}

proptest! {
    /// Numbers of any size, and text that needs quotes, are read as they were written.
    #[test]
    fn what_was_written_is_read(
        rows in vec((proptest::num::f64::NORMAL, "[a-z\"',;|\t\n é]{0,12}"), 1..40),
        delimiter in prop::sample::select(b",;\t|".to_vec()),
    ) {
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
        writer.write_record(["number", "text"]).unwrap();
        for (number, text) in &rows {
            writer.write_record([number.to_string(), format!("t{text}.")]).unwrap();
        }
        let bytes = writer.into_inner().unwrap();
        let reader = CsvReader::new(&bytes[..], "test.csv", CsvOptions::default()).unwrap();
        let table = reader.read_all().unwrap();
        prop_assert_eq!(table.rows(), rows.len());
        for (row, (number, text)) in rows.iter().enumerate() {
            prop_assert_eq!(table.column("number").unwrap().number(row), Some(*number));
            let expected = format!("t{text}.");
            prop_assert_eq!(table.column("text").unwrap().category(row), Some(expected.as_str()));
        }
    }
}

#[test]
fn decimal_commas_are_read_or_named() {
    let text = "a;b;y\n1,5;x;2\n-0,25;y;1,5e1\n7;z;\n";
    let options = || CsvOptions {
        decimal: DecimalMark::Comma,
        ..CsvOptions::default()
    };
    let table = read_with(text, options());
    assert_eq!(numbers(&table, "a"), [Some(1.5), Some(-0.25), Some(7.0)]);
    assert_eq!(numbers(&table, "y"), [Some(2.0), Some(15.0), None]);
    assert_eq!(table.column("b").unwrap().kind(), ColumnKind::Category);
    // In quotes, decimal commas may also be the delimiter, and a first row of them is not a header.
    let table = read_with("\"1,5\",\"2,5\"\n\"3,5\",4\n", options());
    assert_eq!(numbers(&table, "column_1"), [Some(2.5), Some(4.0)]);

    let failure = |text: &str, options| -> DataError {
        let reader = CsvReader::new(text.as_bytes(), "test.csv", options).unwrap();
        reader.read_all().unwrap_err()
    };
    // The column would become categories, or numbers with a few exceptions.
    let categories = "x;y\n1;2\n1,5;2\n2,5;2\n3,5;2\n";
    let numbers = "x;y\n1;2\n1,5;2\n2;2\n";
    let stars: String = (0..200)
        .map(|row| format!("{};2\n", ["1", "1,5", "2", "2,5", "3"][row % 5]))
        .collect();
    let stars = format!("x;y\n{stars}");
    for text in [
        categories,
        numbers,
        &stars,
        "1;2\n1,5;2\n2,5;2\n",
        "1,5;2,5;1,5\n3,5;4,5;1,5\n",
    ] {
        let error = failure(text, CsvOptions::default());
        assert!(error.is_data() && error.line().is_some(), "{error}");
        let message = error.to_string();
        assert!(message.contains("found `1,5`"), "{message}");
        assert!(message.contains("--decimal ,"), "{message}");
    }
    let error = failure("x;y\n1.5;2\n2.5;2\n", options());
    assert!(error.to_string().contains("--decimal ."), "{error}");

    // Declared categories and unused columns are not affected.
    let declared = CsvOptions::default().with_kind("x", ColumnKind::Category);
    assert_eq!(read_with(categories, declared).rows(), 4);
    let reader = CsvReader::new(categories.as_bytes(), "test.csv", CsvOptions::default());
    let reader = reader.unwrap().without("x").unwrap();
    assert_eq!(reader.read_all().unwrap().rows(), 4);
    assert_eq!(read("name;y\nParis, France;1\nRome, Italy;2\n").rows(), 2);
}

#[test]
fn texts_are_kept_as_they_are_written() {
    let text = "id;x;note\n007; 1.50;\" a;b \"\n008;?;\n";
    let options = CsvOptions::default()
        .with_only(["x"])
        .with_kept(["id", "x", "note"]);
    let table = read_with(text, options);
    assert_eq!(names(&table), ["x"]);
    let texts = |name: &str| -> Vec<_> { (0..3).map(|row| table.text(name, row)).collect() };
    assert_eq!(texts("id"), [Some("007"), Some("008"), None]);
    assert_eq!(texts("x"), [Some(" 1.50"), Some("?"), None]);
    assert_eq!(texts("note"), [Some(" a;b "), Some(""), None]);
    assert_eq!(texts("y"), [None; 3]);
    let options = CsvOptions::default().with_kept(["date"]);
    let error = CsvReader::new(text.as_bytes(), "test.csv", options).unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("`date`"),
        "{error}"
    );
}

#[test]
fn bad_rows_may_be_marked() {
    let mut text = b"id,x,town\n1,1.5,Oslo\n2,many,Oslo\n3,2.5\n4,3.5,\xff\n5,4.5,Paris\n".to_vec();
    text.extend_from_slice(b"6,?,Oslo\n7,6.5,Oslo\n");
    let config = PreprocessorConfig::new("y", Task::Regression).with_missing(MissingPolicy::Impute);
    let taught = read("x,town,y\n1,Oslo,1\n2,Rome,3\n");
    let preprocessor = Preprocessor::fit(&config, &taught, 0..2).unwrap();
    let options = preprocessor.csv_options(CsvOptions::default());
    let options = options.with_bad_rows(BadRows::Mark).with_kept(["id"]);
    for most in [2, 100] {
        let mut reader = CsvReader::new(&*text, "new.csv", options.clone()).unwrap();
        let (mut used, mut faults) = (Vec::new(), Vec::new());
        while let Some(table) = reader.next_table(most).unwrap() {
            let usable = preprocessor
                .usable_features(&table, 0..table.rows())
                .unwrap();
            assert_eq!(usable.features.rows(), usable.rows.len());
            used.extend(
                usable
                    .rows
                    .iter()
                    .map(|&row| table.text("id", row).unwrap().to_string()),
            );
            faults.extend(usable.faults.into_iter().map(|(_, fault)| fault));
        }
        // The missing number is imputed; the unreadable cell is not.
        assert_eq!(used, ["1", "6", "7"]);
        let places: Vec<_> = faults
            .iter()
            .map(|fault| (fault.line(), fault.column()))
            .collect();
        let town = Some("town");
        assert_eq!(
            places,
            [
                (Some(3), Some("x")),
                (Some(4), None),
                (Some(5), town),
                (Some(6), town)
            ]
        );
    }
    // Marked rows are never used silently.
    let mut reader = CsvReader::new(&*text, "new.csv", options).unwrap();
    let table = reader.next_table(100).unwrap().unwrap();
    assert!(table.fault(0).is_none() && table.fault(1).is_some());
    assert!(table.complete_rows().contains(&1) && !table.complete_rows().contains(&5));
    assert_eq!(
        preprocessor.features(&table, 0..2).unwrap_err().line(),
        Some(3)
    );
    assert!(preprocessor.features(&table, [0, 5, 6]).is_ok());
}

#[test]
fn the_first_value_of_a_late_column_says_its_type() {
    let mut text = String::from("x,pool,size\n");
    text.extend((0..1500).map(|row| format!("{row},NA,\n")));
    text.push_str("1500,gold,7\n1501,3,8\n");
    let table = read(&text);
    assert_eq!(table.column("pool").unwrap().category(1501), Some("3"));
    assert_eq!(table.column("size").unwrap().number(1500), Some(7.0));
    // In pieces too.
    let mut reader = CsvReader::new(text.as_bytes(), "a.csv", CsvOptions::default()).unwrap();
    while let Some(table) = reader.next_table(501).unwrap() {
        let last = table.rows() - 1;
        if table.column("x").unwrap().number(last) == Some(1501.0) {
            assert_eq!(table.column("pool").unwrap().category(last), Some("3"));
        }
    }
}

#[test]
fn a_text_among_few_numbers_is_a_category_and_among_many_a_mistake() {
    let rows = |numbers: usize| -> String {
        let rows = (0..60).map(|row| match row {
            41 => "rotary\n".into(),
            _ => format!("{}\n", row % numbers),
        });
        format!("cylinders\n{}", rows.collect::<String>())
    };
    let table = read(&rows(5));
    assert_eq!(
        table.column("cylinders").unwrap().category(41),
        Some("rotary")
    );
    let error = CsvReader::new(rows(6).as_bytes(), "a.csv", CsvOptions::default())
        .unwrap()
        .read_all()
        .unwrap_err();
    assert_eq!(
        (error.line(), error.column()),
        (Some(43), Some("cylinders"))
    );
}

/// What reading a column `x` tells: the message of an error.
fn refusal(cell: impl Fn(usize) -> String, rows: usize) -> String {
    let rows: String = (0..rows).map(|row| format!("{}\n", cell(row))).collect();
    let text = format!("x\n{rows}");
    let reader = CsvReader::new(text.as_bytes(), "a.csv", CsvOptions::default()).unwrap();
    reader.read_all().unwrap_err().to_string()
}

fn day(row: usize) -> String {
    format!(
        "{}-{:02}-{:02}",
        1900 + row / 300,
        1 + row % 12,
        1 + row % 28
    )
}

#[test]
fn a_text_among_dates_is_a_mistake() {
    let german = |row: usize| format!("{}.1.{}", 1 + row % 28, 1900 + row / 28);
    for (text, at, cell, rows) in [
        ("2023-02-30", 7, None, 60),
        ("unknown", 7, None, 60),
        // Behind the rows that say the type.
        ("unknown", 1500, None, 2000),
        ("5.1.1900", 4, Some(10), 60),
        ("5.1.1900", 4, Some(2), 60),
    ] {
        let is_other = |row: usize| match cell {
            None => row == at,
            Some(every) => row % every == at % every,
        };
        let message = refusal(
            |row| match (is_other(row), cell) {
                (false, _) => day(row),
                (true, None) => text.into(),
                (true, Some(_)) => german(row),
            },
            rows,
        );
        let first = if cell == Some(2) { "1.1.1900" } else { text };
        let line = (0..).find(|&row| is_other(row)).unwrap() + 2;
        let told = [
            format!("a.csv, line {line}, column `x`: found `{first}`, expected a date"),
            "such as `19".into(),
            "`--na-values`".into(),
            "`--categories x`".into(),
            "`--ignore x`".into(),
        ];
        assert!(told.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn the_order_of_all_dates_counts_and_not_that_of_the_first_rows() {
    let date = |row: usize| match row {
        1200 => "31/01/2024\n".to_string(),
        _ => format!(
            "{:02}/{:02}/{}\n",
            1 + row % 12,
            1 + row % 11,
            1900 + row / 11
        ),
    };
    let table = read(&format!("x\n{}", (0..1300).map(date).collect::<String>()));
    let times = table.columns()[0].times().unwrap();
    assert!(times[1200] > times[0]);
}

#[test]
fn bad_rows_without_a_date_may_be_marked() {
    let cell = |row: usize| if row == 7 { "unknown".into() } else { day(row) };
    let text: String = (0..60)
        .map(|row| format!("{},{row}\n", cell(row)))
        .collect();
    let table = read_with(
        &format!("x,y\n{text}"),
        CsvOptions::default().with_bad_rows(BadRows::Mark),
    );
    assert_eq!(table.fault(7).and_then(|fault| fault.line()), Some(9));
    assert!(table.columns()[0].is_missing(7) && table.columns()[0].times().is_some());
}

#[test]
fn categories_that_look_like_numbers_or_dates_are_doubted() {
    let doubts = |cell: &dyn Fn(usize) -> String, options: CsvOptions| {
        let rows: String = (0..200)
            .map(|row| format!("{},{row}.5\n", cell(row)))
            .collect();
        let table = read_with(&format!("x,y\n{rows}"), options);
        assert_eq!(table.columns()[0].kind(), ColumnKind::Category);
        let found = suspicions(&table, &["y"]).into_iter();
        let found = found
            .filter(|found| found.is_of_reading())
            .map(|found| found.to_string());
        found.collect::<Vec<_>>()
    };
    let dates = |row: usize| match row % 10 {
        place @ 0..5 => format!("2024-01-0{}", 1 + place),
        place => format!("{place}.1.2024"),
    };
    for (cell, what) in [
        (
            &(|row| format!("{row}.3k")) as &dyn Fn(usize) -> String,
            "200 of the first 200 cells look like numbers",
        ),
        (
            &|row| {
                if row % 5 < 3 {
                    "<LOD".into()
                } else {
                    row.to_string()
                }
            },
            "such as `3`",
        ),
        (&dates, "200 of the first 200 cells look like dates"),
        (
            &|row| match row {
                150 => "two".into(),
                _ => (1 + row % 6).to_string(),
            },
            "199 of the first 200 cells look like numbers, such as `1`",
        ),
        (
            &|row| ["1", "2", "3", "unknown"][row % 4].into(),
            "cells such as `unknown` make it",
        ),
    ] {
        let found = doubts(cell, CsvOptions::default());
        assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
        assert!(
            found[0].contains("line ") && found[0].contains("`--categories x`"),
            "{found:?}"
        );
        let declared = CsvOptions::default().with_kind("x", ColumnKind::Category);
        assert!(doubts(cell, declared).is_empty());
    }
    for cell in [
        &(|row| format!("A{row}")) as &dyn Fn(usize) -> String,
        &|row| {
            format!(
                "{row} {}{}",
                (b'A' + row as u8 % 26) as char,
                (b'A' + row as u8 / 26) as char
            )
        },
        &|row| ["0-9", "10-19", "20+", "unknown"][row % 4].into(),
        &|row| ["1", "2", "3", "4 or more"][row % 4].into(),
        &|row| format!("{row} Main Street"),
    ] {
        assert_eq!(doubts(cell, CsvOptions::default()), Vec::<String>::new());
    }
}
