//! Splits of any size: every row is on one side, and every fold and class has its share.

use std::collections::BTreeMap;

use burn_bayes_data::{KFold, partition};
use proptest::collection::vec;
use proptest::prelude::*;

fn is_all_rows(parts: &[&[usize]], rows: usize) -> bool {
    let mut all = parts.concat();
    all.sort_unstable();
    all == (0..rows).collect::<Vec<_>>()
}

proptest! {
    #[test]
    fn every_repeat_tests_every_row_once(
        (folds, rows) in (2_usize..8).prop_flat_map(|folds| (Just(folds), folds..60)),
        repeats in 1_usize..4,
        seed: u64,
    ) {
        let splits = KFold { folds, repeats, seed }.splits(rows).unwrap();
        prop_assert_eq!(splits.len(), folds * repeats);
        for split in &splits {
            prop_assert!(is_all_rows(&[&split.train, &split.test], rows));
            prop_assert!(split.test.len().abs_diff(rows / folds) <= 1);
        }
        for repeat in splits.chunks(folds) {
            let tests: Vec<&[usize]> = repeat.iter().map(|split| split.test.as_slice()).collect();
            prop_assert!(is_all_rows(&tests, rows));
        }
    }

    #[test]
    fn every_fold_has_its_share_of_every_class(
        folds in 2_usize..5,
        classes in vec(0_usize..3, 1..60),
        seed: u64,
    ) {
        let mut counts = BTreeMap::new();
        for class in &classes {
            *counts.entry(*class).or_insert(0_usize) += 1;
        }
        let splits = KFold::new(folds).with_seed(seed).stratified_splits(&classes);
        let is_possible = counts.values().all(|&count| count >= folds);
        prop_assert_eq!(splits.is_ok(), is_possible);
        for split in splits.unwrap_or_default() {
            prop_assert!(is_all_rows(&[&split.train, &split.test], classes.len()));
            prop_assert!(split.test.len().abs_diff(classes.len() / folds) <= 1);
            for (class, count) in &counts {
                let tested = split.test.iter().filter(|&&row| classes[row] == *class).count();
                prop_assert!(tested.abs_diff(count / folds) <= 1);
            }
        }
    }

    #[test]
    fn parts_have_their_shares(rows in 20_usize..500, share in 0.1..0.9, seed: u64) {
        let parts = partition(rows, &[share, 1.0 - share], seed).unwrap();
        prop_assert!(is_all_rows(&[&parts[0], &parts[1]], rows));
        prop_assert!((parts[0].len() as f64 - share * rows as f64).abs() <= 0.5);
    }
}
