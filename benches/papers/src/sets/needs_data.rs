//! The papers' data sets in the shared folder: their checksums, published counts, values and splits.

use burn_bayes_data::{Column, Dataset, Features, Scaler, Scaling, Table, suspicions};
use burn_bayes_tabular::TabularError;
use burn_bayes_testing::data_folder;

use super::{
    LabelledImages, NAMED_SETS, UciFolder, read_libsvm, read_medmnist, read_mnist, read_numbers,
    read_presplit,
};

#[test]
fn the_shared_files_have_the_checksums_of_the_table() {
    let data = data_folder();
    for set in NAMED_SETS {
        assert_eq!(set.missing(&data).unwrap(), [], "{}", set.name);
    }
}

#[test]
fn uci_sets_have_their_published_counts_and_splits() {
    let data = data_folder();
    for (name, rows, features, splits, train) in [
        ("bostonHousing", 506, 13, 20, 455),
        ("concrete", 1030, 8, 20, 927),
        ("energy", 768, 8, 20, 691),
        ("yacht", 308, 6, 20, 277),
        ("wine-quality-red", 1599, 11, 20, 1439),
        ("kin8nm", 8192, 8, 20, 7373),
        ("power-plant", 9568, 4, 20, 8611),
        ("naval-propulsion-plant", 11934, 16, 20, 10741),
        ("protein-tertiary-structure", 45730, 9, 5, 41157),
    ] {
        let folder = UciFolder::open(data.join("uci_regression").join(name)).unwrap();
        let set = folder.dataset();
        assert_eq!(
            (set.rows(), set.features().columns()),
            (rows, features),
            "{name}"
        );
        assert_eq!(folder.splits(), splits, "{name}");
        for number in [0, splits - 1] {
            let split = folder.split(number).unwrap();
            assert_eq!(
                (split.train.len(), split.test.len()),
                (train, rows - train),
                "{name}"
            );
            let mut all = [split.train, split.test].concat();
            all.sort_unstable();
            assert_eq!(all, (0..rows).collect::<Vec<_>>(), "{name}");
        }
        assert!(matches!(folder.split(splits), Err(TabularError::Usage(_))));
    }
}

#[test]
fn constant_features_of_the_naval_set_scale_to_zero() {
    let data = data_folder();
    let folder = UciFolder::open(data.join("uci_regression/naval-propulsion-plant")).unwrap();
    let split = folder.split(0).unwrap();
    let features = folder.dataset().features();
    let scaler = Scaler::fit(features, &split.train, Scaling::Standardise).unwrap();
    let scaled = scaler.apply(features.clone()).unwrap();
    assert!(scaled.values().iter().all(|value| value.is_finite()));
    for column in [8, 11] {
        assert!((0..scaled.rows()).all(|row| scaled.row(row)[column] == 0.0));
    }
    // The other columns have mean 0 and deviation 1 over the training rows.
    let count = split.train.len() as f64;
    for column in (0..features.columns()).filter(|column| ![8, 11].contains(column)) {
        let values = || split.train.iter().map(|&row| scaled.row(row)[column]);
        let mean = values().sum::<f64>() / count;
        let variance = values().map(|value| value * value).sum::<f64>() / count - mean * mean;
        // Centring loses digits in proportion to the column's distance from 0, relative to its spread.
        let scale = scaler.columns()[column];
        let rounding = count * f64::EPSILON * (1.0 + (scale.centre / scale.spread).abs());
        assert!(
            mean.abs() < rounding && (variance - 1.0).abs() < rounding,
            "column {column}"
        );
    }
}

#[test]
fn libsvm_sets_have_their_published_counts() {
    let data = data_folder();
    let read = |path: &str, features: usize| read_libsvm(data.join(path), features).unwrap();
    let count = |set: &Dataset, label: f64| {
        set.targets()
            .as_real()
            .unwrap()
            .iter()
            .filter(|&&target| target == label)
            .count()
    };
    let (train, test) = (read("a1a/a1a", 123), read("a1a/a1a.t", 123));
    assert_eq!((count(&train, -1.0), count(&train, 1.0)), (1210, 395));
    assert_eq!((count(&test, -1.0), count(&test, 1.0)), (23510, 7446));
    assert_eq!(train.features().row(0).iter().sum::<f64>(), 14.0);
    // The highest index of the training file is too low for the test file.
    assert!(read_libsvm(data.join("a1a/a1a"), 119).is_ok());
    assert!(read_libsvm(data.join("a1a/a1a.t"), 119).is_err());
    let australian = read("australian_scale/australian_scale", 14);
    assert_eq!(
        (count(&australian, -1.0), count(&australian, 1.0)),
        (383, 307)
    );
    let breast = read("breast_cancer_scale/breast_cancer_scale", 10);
    assert_eq!(breast.target_levels().unwrap().names(), ["2", "4"]);
    let classes = breast
        .clone()
        .with_classes(&breast.target_levels().unwrap())
        .unwrap();
    let ones = classes
        .targets()
        .as_classes()
        .unwrap()
        .iter()
        .sum::<usize>();
    assert_eq!((classes.rows(), ones), (683, 239));
}

#[test]
fn presplit_halves_are_the_whole() {
    let data = data_folder();
    for (name, features, halves) in [
        ("australian_scale", 14, [(345, 157), (345, 150)]),
        ("breast_cancer_scale", 10, [(341, 131), (342, 108)]),
    ] {
        let sets = read_presplit(data.join(name).join("presplit"), name).unwrap();
        for (set, (rows, ones)) in [sets.train, sets.test].iter().zip(halves) {
            assert_eq!(
                (set.rows(), set.features().columns()),
                (rows, features),
                "{name}"
            );
            assert_eq!(
                set.targets().as_classes().unwrap().iter().sum::<usize>(),
                ones,
                "{name}"
            );
        }
    }
}

#[test]
fn usps_is_a_matrix_whose_first_column_is_the_digit() {
    let data = data_folder();
    let numbers = read_numbers(data.join("usps/usps_3vs5.txt")).unwrap();
    let set = numbers
        .into_dataset(&(1..257).collect::<Vec<_>>(), 0)
        .unwrap();
    let ones = set.targets().as_real().unwrap().iter().sum::<f64>();
    assert_eq!(
        (set.rows(), set.features().columns(), ones),
        (1540, 256, 716.0)
    );
    assert!(
        set.features()
            .values()
            .iter()
            .all(|value| value.abs() <= 1.0)
    );
}

fn class_counts(images: &LabelledImages) -> Vec<usize> {
    let mut counts = vec![0; 10];
    for &class in images.classes() {
        counts[usize::from(class)] += 1;
    }
    counts
}

#[test]
fn mnist_and_fashion_mnist_are_read() {
    let data = data_folder();
    let fashion = read_mnist(data.join("fashion_mnist")).unwrap();
    assert_eq!(class_counts(&fashion.train), [6000; 10]);
    assert_eq!(class_counts(&fashion.test), [1000; 10]);
    let mnist = read_mnist(data.join("mnist")).unwrap();
    assert_eq!((mnist.train.rows(), mnist.test.rows()), (60_000, 10_000));
    assert_eq!(mnist.train.classes()[..5], [5, 0, 4, 1, 9]);
    assert_eq!(mnist.train.shape().bytes(), 784);
    // The mean pixel of MNIST, commonly quoted as 0.1307.
    let rows: Vec<usize> = (0..60_000).collect();
    let sum: f64 = rows
        .chunks(1000)
        .flat_map(|rows| mnist.train.unit_pixels(rows).unwrap())
        .map(f64::from)
        .sum();
    assert!((sum / (60_000.0 * 784.0) - 0.1307).abs() < 5e-5);
}

#[test]
fn medmnist_archives_are_read() {
    let data = data_folder();
    let retina = read_medmnist(data.join("medmnist/retinamnist.npz")).unwrap();
    assert_eq!(class_counts(&retina.train)[..5], [486, 128, 206, 194, 66]);
    assert_eq!(class_counts(&retina.validation)[..5], [54, 12, 28, 20, 6]);
    assert_eq!(class_counts(&retina.test)[..5], [174, 46, 92, 68, 20]);
    assert_eq!(retina.test.shape().bytes(), 28 * 28 * 3);
    let breast = read_medmnist(data.join("medmnist/breastmnist.npz")).unwrap();
    assert_eq!(class_counts(&breast.train)[..2], [147, 399]);
    assert_eq!(breast.train.shape().bytes(), 28 * 28);
}

#[test]
fn no_feature_of_a_real_set_is_suspicious() {
    let data = data_folder();
    let as_table = |features: &Features| {
        let column = |column: usize| {
            let cells = (0..features.rows()).map(|row| features.row(row)[column]);
            Column::numbers(format!("column_{column}"), cells.collect())
        };
        Table::new((0..features.columns()).map(column).collect()).unwrap()
    };
    let mut tables = Vec::new();
    for folder in std::fs::read_dir(data.join("uci_regression")).unwrap() {
        let path = folder.unwrap().path();
        let folder = UciFolder::open(&path).unwrap();
        let name = path.file_name().unwrap().display().to_string();
        tables.push((name, as_table(folder.dataset().features())));
    }
    for (path, features) in [
        ("a1a/a1a", 123),
        ("australian_scale/australian_scale", 14),
        ("breast_cancer_scale/breast_cancer_scale", 10),
    ] {
        let set = read_libsvm(data.join(path), features).unwrap();
        tables.push((path.to_string(), as_table(set.features())));
    }
    let usps = read_numbers(data.join("usps/usps_3vs5.txt")).unwrap();
    let usps = usps.into_dataset(&(1..257).collect::<Vec<_>>(), 0).unwrap();
    tables.push(("usps".to_string(), as_table(usps.features())));
    assert!(tables.len() >= 13, "{} tables", tables.len());
    for (name, table) in tables {
        let found: Vec<_> = suspicions(&table, &[""; 0])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
}
