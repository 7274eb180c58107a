//! Invalid files and their error messages, one row per case.

use burn_bayes_data::{
    CsvOptions, CsvReader, DataError, KFold, Preprocessor, PreprocessorConfig, Task,
};

/// Reads, fits to all rows and applies, like a program.
fn prepare(text: &str, config: &PreprocessorConfig) -> Result<(), DataError> {
    let reader = CsvReader::new(text.as_bytes(), "data.csv", CsvOptions::default())?;
    let table = reader.read_all()?;
    let preprocessor = Preprocessor::fit(config, &table, 0..table.rows())?;
    preprocessor.dataset(&table, 0..table.rows())?;
    Ok(())
}

#[test]
fn every_bad_file_has_its_message() {
    let regression = PreprocessorConfig::new("y", Task::Regression);
    let classification = PreprocessorConfig::new("y", Task::Classification);
    let cases = [
        (
            "wrong target name",
            "x,z\n1,2\n3,4\n",
            &regression,
            "setting `target`: found `y`, expected a column of data.csv: `x`, `z`",
        ),
        (
            "wrong name of an ignored column",
            "x,y\n1,2\n3,4\n",
            &regression.clone().with_ignored(["w"]),
            "setting `ignore`: found `w`, expected a column of data.csv: `x`, `y`",
        ),
        (
            "text in a column of numbers",
            "x,y\n1,2\n3,4\nfive,6\n",
            &regression,
            "data.csv, line 4, column `x`: found `five`, expected a finite number",
        ),
        (
            "text in a target of numbers",
            "x,y\n1,low\n3,high\n",
            &regression,
            "data.csv, line 2, column `y`: found `low`, expected a number, because the task is regression",
        ),
        (
            "NaN among the features",
            "x,y\n1,2\nNaN,4\n",
            &regression,
            "data.csv, line 3, column `x`: found a missing value, expected a value",
        ),
        (
            "NaN in the target",
            "x,y\n1,2\n3,nan\n",
            &regression,
            "data.csv, line 3, column `y`: found a missing value, expected a value",
        ),
        (
            "infinity",
            "x,y\n1,2\n-inf,4\n",
            &regression,
            "data.csv, line 3, column `x`: found `-inf`, expected a finite number",
        ),
        (
            "too large for any float",
            "x,y\n1,2\n1e999,4\n",
            &regression,
            "data.csv, line 3, column `x`: found `1e999`, expected a finite number",
        ),
        (
            "missing value",
            "x,y\n1,2\n,4\n",
            &regression,
            "data.csv, line 3, column `x`: found a missing value, expected a value",
        ),
        (
            "empty file",
            "",
            &regression,
            "data.csv: found no rows, expected at least one row of data",
        ),
        (
            "header alone",
            "x,y\n",
            &regression,
            "data.csv: found no rows, expected at least one row of data",
        ),
        (
            "one class only",
            "x,y\n1,a\n2,a\n",
            &classification,
            "data.csv, column `y`: found the one class `a`, expected at least two classes",
        ),
        (
            "constant target",
            "x,y\n1,5\n2,5\n",
            &regression,
            "data.csv, column `y`: found the target 5 in every training row, expected a target that \
             varies",
        ),
        (
            "short row",
            "x,y\n1,2\n3\n",
            &regression,
            "data.csv, line 3: found 1 cells, expected 2, as in the first row, between delimiters ','",
        ),
        (
            "the same column twice",
            "x,x\n1,2\n",
            &regression,
            "data.csv, line 1, column `x`: found the same name twice, expected names that differ",
        ),
        (
            "the same column twice after blank lines",
            "\n\nx,x\n1,2\n",
            &regression,
            "data.csv, line 3, column `x`: found the same name twice, expected names that differ",
        ),
        (
            "open quote in the last row",
            "x,y\n1,2\n3,\"4",
            &regression,
            "data.csv, line 3: found an opening quote without a closing one, expected a closing quote",
        ),
        (
            "open quote in the header",
            "x,\"y\n1,2\n3,4\n",
            &regression,
            "data.csv, line 1: found an opening quote without a closing one, expected a closing quote",
        ),
        (
            "nothing but the target",
            "y\n1\n2\n",
            &regression,
            "data.csv: found no column that is a feature, expected at least one",
        ),
    ];
    for (case, text, config, expected) in cases {
        let message = prepare(text, config).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{case}: {message}");
    }
}

#[test]
fn a_quote_that_never_closes_does_not_swallow_the_rest() {
    // Within the first rows, which determine the column types, and far behind them.
    for before in [20, 2000] {
        let row = "10.0,\"Rome, old\"\n";
        let rows = [
            &row.repeat(before),
            "10.0,\"Rome\n",
            &"10.0,Oslo\n".repeat(19),
        ]
        .concat();
        let error = prepare(
            &format!("x,y\n{rows}"),
            &PreprocessorConfig::new("y", Task::Classification),
        );
        let error = error.unwrap_err();
        assert_eq!(error.line(), Some(before as u64 + 2), "{error}");
        assert!(error.to_string().contains("close the quote"), "{error}");
    }
}

#[test]
fn an_identifier_is_not_a_category() {
    let mut text = "id,y\n".to_string();
    text.extend((0..2000).map(|row| format!("customer {row},{row}\n")));
    let error = prepare(&text, &PreprocessorConfig::new("y", Task::Regression)).unwrap_err();
    assert_eq!((error.line(), error.column()), (None, Some("id")));
    assert!(
        error.to_string().contains("more than 1000 categories"),
        "{error}"
    );
}

#[test]
fn fewer_rows_than_asked_is_a_setting() {
    let table = CsvReader::new(&b"x,y\n1,2\n3,4\n"[..], "data.csv", CsvOptions::default());
    let table = table.unwrap().read_all().unwrap();
    let config = PreprocessorConfig::new("y", Task::Regression);
    let error = Preprocessor::fit(&config, &table, 0..3).unwrap_err();
    assert!(error.is_config());
    assert_eq!(
        error.to_string(),
        "setting `rows`: found row 2, expected rows below 2, the number of rows"
    );
    let error = KFold::new(10).splits(table.rows()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `folds`: found 10, expected at most 2, the number of rows"
    );
}

#[test]
fn bytes_that_are_no_text_are_named() {
    let bytes = b"x,y\n1,2\n\xff,3\n1,4\n";
    let error = CsvReader::new(&bytes[..], "data.csv", CsvOptions::default())
        .unwrap()
        .read_all();
    let error = error.unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(3), Some("x")));
}

#[test]
fn a_missing_file_is_named() {
    let error = burn_bayes_data::read_csv("no/such/file.csv", &CsvOptions::default()).unwrap_err();
    assert!(error.is_io());
    assert!(
        error
            .to_string()
            .starts_with("no/such/file.csv: there is no such file"),
        "{error}"
    );
}
