//! The tables of scikit-learn in the shared folder.

use burn_bayes_data::{CsvOptions, Preprocessor, PreprocessorConfig, Task, read_csv, suspicions};
use burn_bayes_testing::data_folder;

#[test]
fn tables_of_scikit_learn_are_prepared() {
    let data = data_folder();
    for (file, target, task, rows, features) in [
        ("digits", "digit", Task::Classification, 1797, 64),
        ("breast_cancer", "target", Task::Classification, 569, 30),
        ("diabetes_raw", "target", Task::Regression, 442, 10),
        ("diabetes_scaled", "target", Task::Regression, 442, 10),
    ] {
        let path = data.join(format!("sklearn/{file}.csv"));
        let table = read_csv(path, &CsvOptions::default()).unwrap();
        let config = PreprocessorConfig::new(target, task);
        let preprocessor = Preprocessor::fit(&config, &table, 0..table.rows()).unwrap();
        let set = preprocessor.dataset(&table, 0..table.rows()).unwrap();
        assert_eq!(
            (set.rows(), set.features().columns()),
            (rows, features),
            "{file}"
        );
        assert!(
            set.features()
                .values()
                .iter()
                .all(|value| value.is_finite()),
            "{file}"
        );
    }
}

#[test]
fn no_feature_of_a_real_table_is_suspicious() {
    let data = data_folder();
    for (file, target) in [
        ("digits", "digit"),
        ("breast_cancer", "target"),
        ("diabetes_raw", "target"),
        ("diabetes_scaled", "target"),
    ] {
        let path = data.join(format!("sklearn/{file}.csv"));
        let table = read_csv(path, &CsvOptions::default()).unwrap();
        let found: Vec<_> = suspicions(&table, &[target])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, Vec::<String>::new(), "{file}");
    }
}
