//! What a preprocessor learns, stores and refuses.

use burn_bayes_data::{
    Column, CsvOptions, CsvReader, DataError, MissingPolicy, Preprocessor, PreprocessorConfig,
    PreprocessorFit, Scaling, Table, Targets, Task, UnseenPolicy,
};

const TEXT: &str =
    "size,town,flat,price\n50,Oslo,1,10\n70,Rome,1,14\n90,Oslo,1,21\n,,1,30\n80,Paris,1,9\n";

fn read(text: &str, options: CsvOptions) -> Result<Table, DataError> {
    CsvReader::new(text.as_bytes(), "test.csv", options)?.read_all()
}

fn table() -> Table {
    read(TEXT, CsvOptions::default()).unwrap()
}

fn config() -> PreprocessorConfig {
    PreprocessorConfig::new("price", Task::Regression)
}

#[test]
fn only_training_rows_are_learnt_from() {
    let preprocessor = Preprocessor::fit(&config(), &table(), [0, 1]).unwrap();
    assert_eq!(
        preprocessor.feature_names(),
        ["size", "town=Oslo", "town=Rome", "flat"]
    );
    let data = preprocessor.dataset(&table(), [0, 1, 2]).unwrap();
    assert_eq!(data.features().row(0), [-1.0, 1.0, 0.0, 0.0]);
    assert_eq!(data.features().row(2), [3.0, 1.0, 0.0, 0.0]);
    assert_eq!(data.targets(), &Targets::Real(vec![-1.0, 1.0, 4.5]));
    let scale = preprocessor.targets()[0].scale().unwrap();
    assert_eq!((scale.undo(-1.0), scale.undo(4.5)), (10.0, 21.0));
}

#[test]
fn the_logarithms_of_targets_are_scaled() {
    let config = config()
        .with_logarithmic_targets()
        .with_unseen(UnseenPolicy::Zeros);
    let preprocessor = Preprocessor::fit(&config, &table(), [0, 2]).unwrap();
    let scale = preprocessor.targets()[0].scale().unwrap();
    assert!(scale.is_logarithmic);
    // The logarithms of 10 and 21 are one deviation below and above their mean.
    let data = preprocessor.dataset(&table(), [0, 2, 1]).unwrap();
    let targets = data.targets().as_real().unwrap();
    assert!((targets[0] + 1.0).abs() < 1e-14 && (targets[1] - 1.0).abs() < 1e-14);
    let expected = ((14.0 * 14.0_f64 / 210.0).ln()) / (2.1_f64).ln();
    assert!((targets[2] - expected).abs() < 1e-14);
    for price in [14.0, 245_000.0, 0.0123, 1e-300, 123_456.789] {
        assert_eq!(scale.undo(scale.apply(price)), price);
    }
    assert!((scale.unscaled(targets[2]) - 14.0_f64.ln()).abs() < 1e-14);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("preparation.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);

    let zero = read("x,price\n1,3\n2,0\n3,5\n", CsvOptions::default()).unwrap();
    let error = Preprocessor::fit(&config, &zero, 0..3).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(3), Some("price")));
    assert!(error.to_string().contains("above 0"), "{error}");
    let positive = Preprocessor::fit(&config, &zero, [0, 2]).unwrap();
    let error = positive.dataset(&zero, [1]).unwrap_err();
    assert!(error.to_string().contains("above 0"), "{error}");
}

#[test]
fn missing_cells_are_refused_or_imputed() {
    let error = Preprocessor::fit(&config(), &table(), [0, 3]).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(5), Some("size")));
    let config = config().with_missing(MissingPolicy::Impute);
    let preprocessor = Preprocessor::fit(&config, &table(), [0, 1, 2, 3]).unwrap();
    let data = preprocessor.features(&table(), [3]).unwrap();
    // The mean size, which is 0 after scaling, and the most frequent town.
    assert_eq!(data.row(0), [0.0, 1.0, 0.0, 0.0]);
    let nothing = read("size,price\n,1\n,2\n", CsvOptions::default()).unwrap();
    let error = Preprocessor::fit(&config, &nothing, 0..2).unwrap_err();
    assert!(
        error.to_string().contains("found no feature with a number"),
        "{error}"
    );
}

#[test]
fn new_categories_are_refused_or_none_of_the_known() {
    let preprocessor = Preprocessor::fit(&config(), &table(), [0, 1]).unwrap();
    let error = preprocessor.features(&table(), [4]).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(6), Some("town")));
    let config = config().with_unseen(UnseenPolicy::Zeros);
    let preprocessor = Preprocessor::fit(&config, &table(), [0, 1]).unwrap();
    assert_eq!(
        preprocessor.features(&table(), [4]).unwrap().row(0),
        [2.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn rare_categories_are_one_together() {
    let towns = [("Oslo", 60), ("Rome", 52), ("Bern", 4), ("Nice", 4)];
    let towns = towns.map(|(town, rows)| vec![town; rows]).concat();
    let rows = towns.iter().chain(&["Bonn"]).enumerate();
    let rows = rows.map(|(row, town)| {
        let street = if row == 7 { "wide" } else { "narrow" };
        format!("{town},{street},id {row},{row}\n")
    });
    let text = format!("town,street,id,price\n{}", rows.collect::<String>());
    let table = read(&text, CsvOptions::default()).unwrap();
    let config = PreprocessorConfig::new("price", Task::Regression);
    let fitted = |config: &PreprocessorConfig| Preprocessor::fit(config, &table, 0..120).unwrap();
    assert_eq!(fitted(&config).width(), 4 + 2 + 120);
    let config = config.with_rare(5);
    let preprocessor = fitted(&config);
    // A single rare category is like any other, and a column of nothing else says nothing.
    let names = preprocessor.feature_names();
    let expected = ["town=Oslo", "town=Rome", "town is rare"];
    assert_eq!(names[..3], expected);
    assert_eq!(names[3..], ["street=narrow", "street=wide"]);
    let row = |preprocessor: &Preprocessor, row: usize| {
        let features = preprocessor.features(&table, [row])?;
        Ok::<_, DataError>(features.row(0)[..3].to_vec())
    };
    assert_eq!(row(&preprocessor, 0).unwrap(), [1.0, 0.0, 0.0]);
    assert_eq!(row(&preprocessor, 113).unwrap(), [0.0, 0.0, 1.0]);
    // A new one is rare too, but not of the training rows.
    assert_eq!(row(&preprocessor, 120).unwrap_err().column(), Some("town"));
    let preprocessor = fitted(&config.clone().with_unseen(UnseenPolicy::Zeros));
    assert_eq!(row(&preprocessor, 120).unwrap(), [0.0, 0.0, 1.0]);
    let far = |row| preprocessor.far_values(&table, [row]).unwrap();
    let far = |row| far(row).iter().any(|far| far.column == "town");
    assert_eq!([far(113), far(120)], [false, true]);
    // Where there is a text may say more than what it is.
    let rows = (0..40).map(|row| match row % 4 {
        0 => format!("note {row},{row}\n"),
        _ => format!(",{row}\n"),
    });
    let notes = read(
        &format!("note,price\n{}", rows.collect::<String>()),
        CsvOptions::default(),
    );
    let config = config.with_missing(MissingPolicy::Impute);
    let preprocessor = Preprocessor::fit(&config, &notes.unwrap(), 0..40).unwrap();
    let names = preprocessor.feature_names();
    assert_eq!(names, ["note is rare", "note is missing"]);
}

#[test]
fn in_few_rows_few_categories_are_rare() {
    let fewest =
        |rare| [1, 40, 60, 99, 100, 10_000].map(|rows| PreprocessorConfig::fewest_rows(rare, rows));
    assert_eq!(fewest(None), [2, 2, 3, 4, 5, 5]);
    assert_eq!(fewest(Some(14)), [14; 6]);
}

#[test]
fn classes_are_the_labels_of_the_training_rows() {
    let text = "x,kind\n1,10\n2,9\n3,10\n4,8\n";
    let table = read(text, CsvOptions::default()).unwrap();
    let config = PreprocessorConfig::new("kind", Task::Classification);
    let preprocessor = Preprocessor::fit(&config, &table, 0..3).unwrap();
    assert_eq!(
        preprocessor.targets()[0].classes().unwrap().names(),
        ["9", "10"]
    );
    let data = preprocessor.dataset(&table, 0..3).unwrap();
    assert_eq!(data.targets().as_classes(), Some(&[1, 0, 1][..]));
    let error = preprocessor.dataset(&table, 0..4).unwrap_err();
    assert_eq!(
        (error.is_data(), error.line(), error.column()),
        (true, Some(5), Some("kind"))
    );
    assert!(
        error
            .to_string()
            .contains("found the label `8`, expected one of `9`, `10`"),
        "{error}"
    );
}

#[test]
fn a_number_that_no_scale_can_hold_is_refused() {
    let column = |name: &str, values: &[f64]| Column::numbers(name, values.to_vec());
    let near = Table::new(vec![
        column("x", &[0.0, 1e-100]),
        column("price", &[1.0, 2.0]),
    ])
    .unwrap();
    let preprocessor = Preprocessor::fit(&config(), &near, 0..2).unwrap();
    for far in [1e300, f64::INFINITY] {
        let table = Table::new(vec![column("x", &[0.0, far])]).unwrap();
        let error = preprocessor.features(&table, 0..2).unwrap_err();
        assert_eq!(
            (error.is_data(), error.row(), error.column()),
            (true, Some(1), Some("x"))
        );
    }
}

#[test]
fn labels_are_read_as_they_were_written() {
    // Labels with a leading zero are names, even if all labels of the file are numbers.
    let table = read("x,kind\n1,01\n2,b\n3,c\n", CsvOptions::default()).unwrap();
    let config = PreprocessorConfig::new("kind", Task::Classification);
    let preprocessor = Preprocessor::fit(&config, &table, 0..3).unwrap();
    let options = preprocessor.csv_options(CsvOptions::default());
    let table = read("x,kind\n5,01\n6,01\n", options).unwrap();
    let data = preprocessor.dataset(&table, 0..2).unwrap();
    assert_eq!(data.targets().as_classes(), Some(&[0, 0][..]));
}

#[test]
fn a_saved_preparation_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/preparation.toml");
    for (config, rows) in [
        (config().with_scaling(Scaling::UnitRange), [0, 1, 2]),
        (
            PreprocessorConfig::new("town", Task::Classification),
            [0, 1, 2],
        ),
    ] {
        let preprocessor = Preprocessor::fit(&config, &table(), rows).unwrap();
        preprocessor.save(&path).unwrap();
        let loaded = Preprocessor::load(&path).unwrap();
        assert_eq!(loaded, preprocessor);
        assert_eq!(
            loaded.dataset(&table(), rows).unwrap(),
            preprocessor.dataset(&table(), rows).unwrap()
        );
    }
}

#[test]
fn a_saved_scale_keeps_every_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("preparation.toml");
    for seed in 1..200 {
        let value = |row: u32| (f64::from(seed * row + 1)).sqrt() * 10_f64.powi(seed as i32 - 100);
        let columns = ["x", "y"].map(|name| Column::numbers(name, (0..3).map(value).collect()));
        let table = Table::new(columns.into()).unwrap();
        let config = PreprocessorConfig::new("y", Task::Regression);
        let preprocessor = Preprocessor::fit(&config, &table, 0..3).unwrap();
        preprocessor.save(&path).unwrap();
        assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);
    }
}

#[test]
fn a_spoilt_preparation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("preparation.toml");
    Preprocessor::fit(&config(), &table(), [0, 1])
        .unwrap()
        .save(&path)
        .unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("format = 6", "format = 5"),
        ("spread = 10.0", "spread = 0.0"),
        ("imputed = \"Oslo\"", "imputed = \"Bonn\""),
        ("\"Rome\"", "\"Oslo\""),
        ("\"one_hot\"", "\"two_hot\""),
        ("[target]", ""),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        std::fs::write(&path, good.replace(from, to)).unwrap();
        let error = Preprocessor::load(&path).unwrap_err();
        assert!(error.is_data(), "{from}: {error}");
    }
}

#[test]
fn columns_with_long_tails_are_scaled_as_logarithms() {
    let amounts = (0..40).map(|row| match row % 8 {
        0 => -1.0,
        1 => 0.0,
        2 => f64::NAN,
        _ => f64::from(row / 2).exp2(),
    });
    let table = |amounts: Vec<f64>| {
        let sizes = (0..amounts.len()).map(|row| row as f64).collect();
        let prices = (0..amounts.len()).map(|row| (row * row) as f64).collect();
        let columns = [("amount", amounts), ("size", sizes), ("price", prices)];
        let columns = columns.map(|(name, values)| Column::numbers(name, values));
        Table::new(columns.into()).unwrap()
    };
    let rows = table(amounts.collect());
    let config = PreprocessorConfig::new("price", Task::Regression)
        .with_missing(MissingPolicy::Impute)
        .with_logarithmic_features();
    let preprocessor = Preprocessor::fit(&config, &rows, 0..40).unwrap();
    assert_eq!(preprocessor.logarithmic().collect::<Vec<_>>(), ["amount"]);
    let features = preprocessor.features(&rows, 0..40).unwrap();
    let column = (0..40).map(|row| features.row(row)[0]);
    let column: Vec<f64> = column.collect();
    let mean = column.iter().sum::<f64>() / 40.0;
    let variance = column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 35.0;
    assert!(
        mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03,
        "{mean} {variance}"
    );
    // What is missing is the mean of the logarithms, and every number has one.
    assert!(column[2].abs() < 1e-12, "{}", column[2]);
    let new = table(vec![0.0, -1e9, 1e9, 1e-300]);
    let features = preprocessor.features(&new, 0..4).unwrap();
    assert!((0..4).all(|row| features.row(row)[0].abs() < 20.0));
    assert!(features.row(1)[0] < column[0] && column[0] < column[1]);
    assert_eq!(features.row(0)[0], column[1]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("preparation.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);
    let good = std::fs::read_to_string(&path).unwrap();
    let line = good
        .lines()
        .find(|line| line.starts_with("unit = "))
        .unwrap();
    std::fs::write(&path, good.replace(line, "unit = -1.0")).unwrap();
    let error = Preprocessor::load(&path).unwrap_err();
    assert!(error.to_string().contains("`amount`"), "{error}");
}

#[test]
fn a_new_file_may_have_other_columns_but_must_have_these() {
    let preprocessor = Preprocessor::fit(&config(), &table(), [0, 1]).unwrap();
    let options = preprocessor.csv_options(CsvOptions::default());
    // In another order, with an unknown column, and with towns that look like numbers.
    let table = read("note,flat,size,town\nhello,1,60,7\n", options.clone()).unwrap();
    let error = preprocessor.features(&table, 0..1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("found `7`, expected one of `Oslo`, `Rome`"),
        "{error}"
    );
    let table = read("flat,size,town\n1,60,Rome\n", options.clone()).unwrap();
    let features = preprocessor.features(&table, 0..1).unwrap();
    assert_eq!(features.row(0), [0.0, 0.0, 1.0, 0.0]);
    // Without targets, as in prediction.
    assert!(
        preprocessor
            .dataset(&table, 0..1)
            .unwrap_err()
            .to_string()
            .contains("`price`")
    );
    let table = read("flat,town\n1,Rome\n", options).unwrap();
    let error = preprocessor.features(&table, 0..1).unwrap_err();
    assert_eq!((error.is_data(), error.column()), (true, Some("size")));
    let table = read("flat,size,town\n1,60,7\n", CsvOptions::default()).unwrap();
    let error = preprocessor.features(&table, 0..1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("found numbers, expected categories"),
        "{error}"
    );
}

#[test]
fn learning_in_pieces_is_learning() {
    let mut text = "x,name,y\n".to_string();
    text.extend((0..3000).map(|row| format!("{},n{},{}\n", (row * row) % 101, row % 5, row % 3)));
    let config = PreprocessorConfig::new("y", Task::Classification);
    let whole = read(&text, CsvOptions::default()).unwrap();
    let expected = Preprocessor::fit(&config, &whole, 0..whole.rows()).unwrap();
    let mut fit = PreprocessorFit::new(config);
    let mut reader = CsvReader::new(text.as_bytes(), "test.csv", CsvOptions::default()).unwrap();
    while let Some(piece) = reader.next_table(700).unwrap() {
        fit.observe(&piece, 0..piece.rows()).unwrap();
    }
    assert_eq!(fit.finish().unwrap(), expected);
}

#[test]
fn settings_are_data() {
    let text = r#"{"target": "y", "task": "classification", "missing": "impute"}"#;
    let config: PreprocessorConfig = serde_json::from_str(text).unwrap();
    let expected = PreprocessorConfig::new("y", Task::Classification);
    assert_eq!(config, expected.with_missing(MissingPolicy::Impute));
    assert!(serde_json::from_str::<PreprocessorConfig>(r#"{"target": "y"}"#).is_err());
    let options: CsvOptions = serde_json::from_str(r#"{"header": "absent"}"#).unwrap();
    assert_eq!(options.missing, CsvOptions::default().missing);
}

#[test]
fn a_label_that_is_no_number_is_an_unknown_class() {
    let table = read("x,y\n1,0\n2,1.0\n", CsvOptions::default()).unwrap();
    let config = PreprocessorConfig::new("y", Task::Classification);
    let preprocessor = Preprocessor::fit(&config, &table, 0..2).unwrap();
    let dataset = |text| {
        let table = read(text, preprocessor.csv_options(CsvOptions::default()))?;
        preprocessor.dataset(&table, 0..table.rows())
    };
    let known = dataset("x,y\n1,1\n2,0.0\n3,1e0\n").unwrap();
    assert_eq!(known.targets().as_classes(), Some(&[1, 0, 1][..]));
    let error = dataset("x,y\n1,1\n2,maybe\n").unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(3), Some("y")));
    let message = error.to_string();
    assert!(
        message.contains("the label `maybe`, expected one of `0`, `1`"),
        "{message}"
    );
}

#[test]
fn columns_of_names_are_to_be_left_out() {
    let refusal = |cell: &dyn Fn(usize) -> String, target: &str| {
        let rows = (0..9).map(|row| format!("{},{row}.5\n", cell(row)));
        let text = format!("when,size\n{}", rows.collect::<String>());
        let reader = CsvReader::new(text.as_bytes(), "test.csv", CsvOptions::default());
        let table = reader.unwrap().read_all().unwrap();
        let task = match target {
            "size" => Task::Regression,
            _ => Task::Classification,
        };
        let config = PreprocessorConfig::new(target, task).with_max_categories(5);
        let error = Preprocessor::fit(&config, &table, 0..9).unwrap_err();
        assert_eq!(error.column(), Some("when"));
        error.to_string()
    };
    let name = |row: usize| format!("9b1c-{row}");
    let message = refusal(&name, "size");
    for word in ["more than 5 categories", "identifiers", "`--ignore when`"] {
        assert!(message.contains(word), "{message}");
    }
    // A target cannot be left out.
    let message = refusal(&name, "when");
    assert!(
        !message.contains("--ignore") && message.contains("regression"),
        "{message}"
    );
}

#[test]
fn an_exposure_is_the_last_feature_and_never_missing() {
    let config = PreprocessorConfig::new("y", Task::Counts)
        .with_missing(MissingPolicy::Impute)
        .with_exposure(Some("hours".into()));
    let table = read("hours,x,y\n1,1,0\n2,2,3\n6,3,9\n", CsvOptions::default()).unwrap();
    let preprocessor = Preprocessor::fit(&config, &table, 0..3).unwrap();
    assert!(preprocessor.has_exposure());
    assert_eq!(preprocessor.feature_names(), ["x", "logarithm of hours"]);
    let features = preprocessor.features(&table, 0..3).unwrap();
    for (row, hours) in [1.0, 2.0, 6.0_f64].into_iter().enumerate() {
        assert_eq!(features.row(row)[1], hours.ln() - 3.0_f64.ln());
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("exposure.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);

    for cell in ["", "0", "-3"] {
        let text = format!("hours,x,y\n1,1,0\n{cell},2,3\n6,3,9\n");
        let spoilt = read(&text, CsvOptions::default()).unwrap();
        let in_training = Preprocessor::fit(&config, &spoilt, 0..3).unwrap_err();
        let in_new_rows = preprocessor.features(&spoilt, 0..3).unwrap_err();
        for message in [in_training, in_new_rows].map(|error| error.to_string()) {
            for part in ["line 3", "`hours`", "above 0"] {
                assert!(message.contains(part), "{cell}: {message}");
            }
        }
    }
    let wrong = |config: PreprocessorConfig| {
        let error = Preprocessor::fit(&config, &table, 0..3).unwrap_err();
        error.to_string()
    };
    let counts = || PreprocessorConfig::new("y", Task::Counts);
    for (config, part) in [
        (counts().with_exposure(Some("hour".into())), "a column of"),
        (counts().with_exposure(Some("y".into())), "another column"),
        (
            PreprocessorConfig::new("y", Task::Regression).with_exposure(Some("hours".into())),
            "the task counts",
        ),
    ] {
        let message = wrong(config);
        assert!(
            message.contains("`exposure`") && message.contains(part),
            "{message}"
        );
    }
    let only = read("hours,y\n1,0\n2,3\n", CsvOptions::default()).unwrap();
    let message = Preprocessor::fit(&config, &only, 0..2).unwrap_err();
    assert!(message.to_string().contains("no feature"), "{message}");
}

#[test]
fn counts_are_whole_keep_their_scale_and_have_a_mean() {
    let config = PreprocessorConfig::new("y", Task::Counts);
    let fitted = |text: &str| {
        let table = read(text, CsvOptions::default())?;
        let rows = 0..table.rows();
        let fitted = Preprocessor::fit(&config, &table, rows.clone())?;
        let counts = fitted.dataset(&table, rows)?;
        Ok::<_, DataError>((fitted, counts))
    };
    let (preprocessor, dataset) = fitted("x,y\n1,0\n2,3\n3,9\n").unwrap();
    assert_eq!(dataset.targets(), &Targets::Real(vec![0.0, 3.0, 9.0]));
    assert_eq!(
        (preprocessor.task(), preprocessor.targets()[0].mean_count()),
        (Task::Counts, Some(4.0))
    );
    assert_eq!(preprocessor.targets()[0].scale(), None);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("counts.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);

    for (cell, found) in [("-2", "-2"), ("2.5", "2.5"), ("1e9", "1000000000")] {
        let message = fitted(&format!("x,y\n1,0\n2,{cell}\n3,9\n"))
            .unwrap_err()
            .to_string();
        for part in [found, "`y`", "counts"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    // New rows are checked as well.
    let new = read("x,y\n1,0.5\n", CsvOptions::default()).unwrap();
    let message = preprocessor.dataset(&new, [0]).unwrap_err().to_string();
    assert!(
        message.contains("line 2") && message.contains("whole number"),
        "{message}"
    );
}

fn of_targets(text: &str, targets: &[&str], task: Task) -> Result<Preprocessor, DataError> {
    let table = read(text, CsvOptions::default())?;
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let config = PreprocessorConfig::new(targets, task);
    Preprocessor::fit(&config, &table, 0..table.rows())
}

const SEVERAL: &str = "x,a,b,new,kind\n1,10,0.5,no,r\n2,20,1.5,yes,s\n3,30,1.0,no,t\n";

#[test]
fn several_targets_are_scaled_each_on_its_own() {
    let preprocessor = of_targets(SEVERAL, &["a", "b"], Task::Regression).unwrap();
    let names: Vec<&str> = preprocessor.target_names().collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(preprocessor.task(), Task::Regression);
    let means = preprocessor
        .targets()
        .iter()
        .map(|plan| plan.scale().unwrap().centre);
    assert_eq!(means.collect::<Vec<_>>(), [20.0, 1.0]);
    assert!(!preprocessor.feature_names().contains(&"b".to_string()));

    let table = read(SEVERAL, CsvOptions::default()).unwrap();
    let all = preprocessor.dataset(&table, 0..3).unwrap();
    let alone = |target: &str| {
        let one = of_targets(SEVERAL, &[target], Task::Regression).unwrap();
        one.dataset(&table, 0..3).unwrap().targets().clone()
    };
    assert_eq!(
        all.targets(),
        &Targets::Several(vec![alone("a"), alone("b")])
    );
    assert_eq!(all.targets().len(), 3);
    let mut joined = preprocessor.dataset(&table, 0..1).unwrap();
    joined
        .append(preprocessor.dataset(&table, 1..3).unwrap())
        .unwrap();
    assert_eq!(joined, all);

    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("preparation.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);
    let spoilt = std::fs::read_to_string(&path).unwrap();
    let spoilt = spoilt.replacen("task = \"regression\"", "task = \"counts\"", 1);
    std::fs::write(&path, spoilt).unwrap();
    assert!(Preprocessor::load(&path).unwrap_err().is_data());
}

#[test]
fn labels_have_two_classes() {
    let preprocessor = of_targets(SEVERAL, &["new", "a"], Task::Multilabel);
    let message = preprocessor.unwrap_err().to_string();
    for part in ["`a`", "3 classes: `10`, `20`, `30`", "multilabel"] {
        assert!(message.contains(part), "{message}");
    }
    let text = SEVERAL.replace("30", "10");
    let preprocessor = of_targets(&text, &["new", "a"], Task::Multilabel).unwrap();
    assert_eq!(preprocessor.task(), Task::Multilabel);
    let table = read(&text, preprocessor.csv_options(CsvOptions::default())).unwrap();
    let labels = preprocessor.dataset(&table, 0..3).unwrap();
    let columns = [[0, 1, 0], [0, 1, 0]].map(|classes| Targets::Classes(classes.to_vec()));
    assert_eq!(labels.targets(), &Targets::Several(columns.to_vec()));
}

#[test]
fn targets_that_do_not_go_together_are_refused() {
    for (targets, task, part) in [
        (&["a", "a"][..], Task::Regression, "`a` twice"),
        (&["a", "c"], Task::Regression, "`c`"),
        (&[], Task::Regression, "no column"),
        (&["a", "b"], Task::Counts, "several targets"),
        (&["new", "kind"], Task::Classification, "multilabel"),
        (&["new"], Task::Multilabel, "one target"),
    ] {
        let error = of_targets(SEVERAL, targets, task).unwrap_err();
        assert!(error.is_config(), "{targets:?}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn dates_and_categories_far_from_the_training_rows_are_named() {
    let text = "day,town,price\n2024-01-01,Oslo,1\n2024-01-21,Rome,2\n2024-01-05,Oslo,3\n";
    let options = CsvOptions::default();
    let table = read(text, options.clone()).unwrap();
    let preprocessor = Preprocessor::fit(&config(), &table, 0..3).unwrap();
    let text = "day,town\n2024-01-22,Bonn\n2024-02-01,Oslo\n2023-12-01,Rome\n";
    let new = read(text, preprocessor.csv_options(options)).unwrap();
    let far = preprocessor.far_values(&new, 0..3).unwrap();
    let messages: Vec<String> = far.iter().map(ToString::to_string).collect();
    for (message, parts) in messages.iter().zip([
        [
            "`day`",
            "2024-02-01 is far",
            "2024-01-01 to 2024-01-21",
            "another row",
        ],
        [
            "`town`",
            "line 2",
            "`Bonn` is in no training row",
            "a guess",
        ],
    ]) {
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    assert_eq!(messages.len(), 2);
}

#[test]
fn a_missing_value_is_far_where_no_training_row_lacks_one() {
    let text = "x,town,day,gap,price\n1,Oslo,2024-01-01,,1\n2,Rome,2024-01-21,5,2\n3,Oslo,2024-01-05,7,3\n";
    let options = CsvOptions::default();
    let table = read(text, options.clone()).unwrap();
    let config = config().with_missing(MissingPolicy::Impute);
    let preprocessor = Preprocessor::fit(&config, &table, 0..3).unwrap();
    let path = tempfile::tempdir().unwrap().keep().join("preparation.toml");
    preprocessor.save(&path).unwrap();
    let preprocessor = Preprocessor::load(&path).unwrap();
    let text = "x,town,day,gap\n1,Oslo,2024-01-01,6\n,,,\n";
    let new = read(text, preprocessor.csv_options(options)).unwrap();
    let far = preprocessor.far_values(&new, 0..2).unwrap();
    let columns: Vec<&str> = far.iter().map(|far| far.column.as_str()).collect();
    assert_eq!(columns, ["x", "town", "day"]);
    let message = far[0].to_string();
    assert!(
        message.contains("line 3, column `x`: no value, and no training row lacks one"),
        "{message}"
    );
}

#[test]
fn a_date_is_a_time_and_its_places_in_the_year_the_week_and_the_day() {
    let fitted = |texts: &[&str]| {
        let rows = texts.iter().enumerate();
        let rows = rows.map(|(row, text)| format!("{text},{row}\n"));
        let text = format!("day,price\n{}", rows.collect::<String>());
        let table = read(&text, CsvOptions::default()).unwrap();
        let preprocessor = Preprocessor::fit(&config(), &table, 0..texts.len()).unwrap();
        (preprocessor, table)
    };
    let (preprocessor, table) = fitted(&["01.01.2022", "08.01.2022", "03.01.2022"]);
    assert_eq!(preprocessor.feature_names(), ["day"]);
    let values = preprocessor.features(&table, 0..3).unwrap();
    assert!(values.row(0)[0] < values.row(2)[0] && values.row(2)[0] < values.row(1)[0]);
    let text = "day\n2022-01-01\n";
    let new = read(text, preprocessor.csv_options(CsvOptions::default())).unwrap();
    let error = preprocessor.features(&new, 0..1).unwrap_err();
    assert!(
        error.to_string().contains("`2022-01-01`, expected a date"),
        "{error}"
    );

    let (preprocessor, table) = fitted(&[
        "2022-01-01 06:00",
        "2023-01-01 12:00",
        "2022-07-02 06:00",
        "2023-01-02",
    ]);
    let names = preprocessor.feature_names();
    assert_eq!(names.len(), 1 + 2 + 7 + 2);
    assert_eq!(names[1], "day: sine of the season");
    assert_eq!(names[3], "day: Monday");
    assert_eq!(names[11], "day: cosine of the time");
    let values = preprocessor.features(&table, 0..4).unwrap();
    let expected = [
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0],
    ];
    for (row, expected) in expected.iter().enumerate() {
        for (found, expected) in values.row(row)[1..].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{:?}", values.row(row));
        }
    }
    assert_eq!(values.row(3)[3], 1.0);
    let path = tempfile::tempdir().unwrap().keep().join("preparation.toml");
    preprocessor.save(&path).unwrap();
    assert_eq!(Preprocessor::load(&path).unwrap(), preprocessor);

    let (preprocessor, table) = fitted(&["6:00", "10:30 PM", "12:00:00"]);
    assert_eq!(
        preprocessor.feature_names(),
        ["day", "day: sine of the time", "day: cosine of the time"]
    );
    let values = preprocessor.features(&table, 0..3).unwrap();
    assert!(values.row(0)[0] < values.row(2)[0] && values.row(2)[0] < values.row(1)[0]);
    assert!((values.row(0)[1] - 1.0).abs() < 1e-12 && (values.row(2)[2] + 1.0).abs() < 1e-12);
    let new = "day\n1:00\n";
    let new = read(new, preprocessor.csv_options(CsvOptions::default())).unwrap();
    let far = preprocessor.far_values(&new, 0..1).unwrap();
    assert!(
        far[0].to_string().contains(
            "01:00:00 is far outside of the training rows, which have 06:00:00 to 22:30:00"
        ),
        "{}",
        far[0]
    );
}

#[test]
fn a_feature_says_where_values_are_missing() {
    let rows = (0..12).map(|row| match row % 2 {
        0 => format!("{row},red,{row}\n"),
        _ => format!(",,{row}\n"),
    });
    let text = format!(
        "size,colour,price\n{}12,blue,12\n",
        rows.collect::<String>()
    );
    let table = read(&text, CsvOptions::default()).unwrap();
    let config = config().with_missing(MissingPolicy::Impute);
    let preprocessor = Preprocessor::fit(&config, &table, 0..13).unwrap();
    assert_eq!(
        preprocessor.feature_names(),
        [
            "size",
            "size is missing",
            "colour=blue",
            "colour=red",
            "colour is missing"
        ]
    );
    let values = preprocessor.features(&table, 0..2).unwrap();
    assert_eq!(values.row(0)[1..], [0.0, 0.0, 1.0, 0.0]);
    assert!(values.row(1)[0].abs() < 1e-12);
    assert_eq!(values.row(1)[1..], [1.0, 0.0, 0.0, 1.0]);
    // Too few of them to learn from.
    let preprocessor = Preprocessor::fit(&config, &table, 0..9).unwrap();
    assert_eq!(preprocessor.feature_names(), ["size", "colour=red"]);
}

#[test]
fn numbers_far_from_the_training_rows_are_named() {
    let preprocessor = Preprocessor::fit(&config(), &table(), [0, 1, 2]).unwrap();
    // Sizes were 50 to 90; within a tenth of the width, a size is not far.
    let text = "size,town,flat,price\n94,Oslo,1,1\n95,Rome,1,1\n-7,Rome,1,1\n60,Rome,1,1\n";
    let new = read(text, CsvOptions::default()).unwrap();
    let far = preprocessor.far_values(&new, 0..4).unwrap();
    let [sizes] = far.as_slice() else {
        panic!("{far:?}");
    };
    assert_eq!((sizes.column.as_str(), sizes.count), ("size", 2));
    let message = sizes.to_string();
    for part in ["line 3", "`size`", "95", "50 to 90", "another row"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(preprocessor.far_values(&new, [0, 3]).unwrap().is_empty());
}
