//! Splits into training and test rows.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::random::{Generator, generator};

/// Disjoint training and test rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Training rows.
    pub train: Vec<usize>,
    /// Test rows.
    pub test: Vec<usize>,
}

impl Split {
    /// The split for a subset of a larger data set: row `i` becomes `rows[i]`.
    ///
    /// ```
    /// use burn_bayes_data::Split;
    ///
    /// let inner = Split { train: vec![2, 0], test: vec![1] };
    /// let outer = inner.of_rows(&[10, 20, 30]);
    /// assert_eq!((outer.train, outer.test), (vec![30, 10], vec![20]));
    /// ```
    ///
    /// # Panics
    /// If an index is out of range.
    #[must_use]
    pub fn of_rows(&self, rows: &[usize]) -> Self {
        let of = |places: &[usize]| places.iter().map(|&place| rows[place]).collect();
        Self {
            train: of(&self.train),
            test: of(&self.test),
        }
    }
}

/// K-fold cross-validation with shuffling: each fold is the test set once.
///
/// ```
/// use burn_bayes_data::KFold;
///
/// let splits = KFold::new(5).with_seed(7).splits(100)?;
/// assert_eq!((splits.len(), splits[0].train.len(), splits[0].test.len()), (5, 80, 20));
///
/// // Ten times five folds, stratified by class.
/// let classes = [0, 0, 0, 1].repeat(25);
/// let splits = KFold::new(5).with_repeats(10).stratified_splits(&classes)?;
/// assert_eq!(splits.len(), 50);
/// assert!(splits.iter().all(|split| split.test.iter().filter(|&&row| classes[row] == 1).count() == 5));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KFold {
    /// The number of folds, at least two.
    pub folds: usize,
    /// The number of random re-splits.
    pub repeats: usize,
    /// Random seed.
    pub seed: u64,
}

impl KFold {
    /// Folds without repeats, with seed 0.
    pub fn new(folds: usize) -> Self {
        Self {
            folds,
            repeats: 1,
            seed: 0,
        }
    }

    /// Sets the number of random re-splits.
    #[must_use]
    pub fn with_repeats(self, repeats: usize) -> Self {
        Self { repeats, ..self }
    }

    /// Sets the random seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Splits of `rows` rows, ordered by repeat, then by fold. Fold sizes differ by at most one.
    ///
    /// # Errors
    /// If there are fewer than two folds, fewer rows than folds, or no repeats.
    pub fn splits(&self, rows: usize) -> Result<Vec<Split>, DataError> {
        self.check(rows)?;
        Ok(self.deal(vec![(0..rows).collect()]))
    }

    /// Splits stratified by class.
    ///
    /// # Errors
    /// As for [`KFold::splits`], and if a class has fewer rows than there are folds.
    pub fn stratified_splits(&self, classes: &[usize]) -> Result<Vec<Split>, DataError> {
        self.check(classes.len())?;
        let strata = strata(classes);
        for rows in &strata {
            if rows.len() < self.folds {
                return Err(DataError::config(
                    "folds",
                    self.folds,
                    format_args!(
                        "at most {}, the number of rows of class {}",
                        rows.len(),
                        classes[rows[0]]
                    ),
                ));
            }
        }
        Ok(self.deal(strata))
    }

    /// Splits that do not divide groups: all rows with the same number in `groups` are in one fold.
    ///
    /// # Errors
    /// As for [`KFold::splits`], and if there are fewer groups than folds.
    pub fn grouped_splits(&self, groups: &[usize]) -> Result<Vec<Split>, DataError> {
        self.check(groups.len())?;
        let groups = strata(groups);
        if groups.len() < self.folds {
            let expected = format_args!("at most {}, the number of groups", groups.len());
            return Err(DataError::config("folds", self.folds, expected));
        }
        let mut generator = generator(self.seed, "groups");
        let mut splits = Vec::with_capacity(self.repeats * self.folds);
        for _ in 0..self.repeats {
            let mut order: Vec<usize> = (0..groups.len()).collect();
            order.shuffle(&mut generator);
            // The largest first, so that the small ones even out the sizes.
            order.sort_by_key(|&group| std::cmp::Reverse(groups[group].len()));
            let mut folds = vec![Vec::new(); self.folds];
            for group in order {
                let emptiest = folds
                    .iter_mut()
                    .min_by_key(|fold: &&mut Vec<usize>| fold.len());
                emptiest
                    .into_iter()
                    .for_each(|fold| fold.extend(&groups[group]));
            }
            splits.extend((0..self.folds).map(|test| {
                let others = folds.iter().enumerate().filter(|(fold, _)| *fold != test);
                Split {
                    train: others.flat_map(|(_, rows)| rows).copied().collect(),
                    test: folds[test].clone(),
                }
            }));
        }
        Ok(splits)
    }

    /// Splits forward in time, the one with the latest rows first: each is trained on all rows before those that it is tested
    /// on, and rows of the same time stay together. The earliest rows are never tested on.
    ///
    /// ```
    /// use burn_bayes_data::KFold;
    ///
    /// let splits = KFold::new(2).splits_in_time(&[5.0, 1.0, 3.0, 2.0, 4.0, 6.0])?;
    /// assert_eq!((&splits[0].train, &splits[0].test), (&vec![1, 3, 2, 4], &vec![0, 5]));
    /// assert_eq!((&splits[1].train, &splits[1].test), (&vec![1, 3], &vec![2, 4]));
    /// # Ok::<(), burn_bayes_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KFold::splits`], if there are repeats, and if there are too few different times.
    pub fn splits_in_time(&self, times: &[f64]) -> Result<Vec<Split>, DataError> {
        self.check(times.len())?;
        if self.repeats > 1 {
            let expected = "1, because rows can be divided in time in one way";
            return Err(DataError::config("repeats", self.repeats, expected));
        }
        let shares: Vec<f64> = (1..=self.folds)
            .map(|fold| fold as f64 / (self.folds + 1) as f64)
            .collect();
        let blocks = in_time(times, &shares)
            .map_err(|expected| DataError::config("folds", self.folds, expected))?;
        let splits = (1..blocks.len()).rev().map(|test| Split {
            train: blocks[..test].concat(),
            test: blocks[test].clone(),
        });
        Ok(splits.collect())
    }

    fn check(&self, rows: usize) -> Result<(), DataError> {
        if self.folds < 2 {
            return Err(DataError::config("folds", self.folds, "at least 2"));
        }
        if self.repeats == 0 {
            return Err(DataError::config("repeats", 0, "at least 1"));
        }
        if rows < self.folds {
            let expected = format_args!("at most {rows}, the number of rows");
            return Err(DataError::config("folds", self.folds, expected));
        }
        Ok(())
    }

    /// Assigns the rows of all strata to folds in turn, so that fold sizes differ by at most one.
    fn deal(&self, strata: Vec<Vec<usize>>) -> Vec<Split> {
        let mut generator = generator(self.seed, "folds");
        let mut splits = Vec::with_capacity(self.repeats * self.folds);
        for _ in 0..self.repeats {
            let order = shuffled(&strata, &mut generator);
            splits.extend((0..self.folds).map(|fold| {
                let rows = |in_fold: bool| {
                    let rows = order.iter().enumerate();
                    rows.filter(|(place, _)| (place % self.folds == fold) == in_fold)
                        .map(|(_, &row)| row)
                        .collect()
                };
                Split {
                    train: rows(false),
                    test: rows(true),
                }
            }));
        }
        splits
    }
}

/// Random partition of the rows into parts with the given fractions, such as training, validation and
/// test.
///
/// ```
/// let parts = burn_bayes_data::partition(1000, &[0.5, 0.2, 0.3], 1)?;
/// assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [500, 200, 300]);
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
///
/// # Errors
/// If the fractions are not positive with sum 1, or there are too few rows for a part.
pub fn partition(rows: usize, shares: &[f64], seed: u64) -> Result<Vec<Vec<usize>>, DataError> {
    deal_shares(vec![(0..rows).collect()], shares, seed, 0)
}

/// Random partition, stratified by class: every part has a row of every class, and otherwise the same proportions of
/// classes.
///
/// # Errors
/// If the fractions are not positive with sum 1, or a class has fewer rows than there are parts.
pub fn stratified_partition(
    classes: &[usize],
    shares: &[f64],
    seed: u64,
) -> Result<Vec<Vec<usize>>, DataError> {
    deal_shares(strata(classes), shares, seed, 1)
}

/// Random partition into training and test rows that does not divide groups; about this share is tested on.
///
/// # Errors
/// If the share is not between 0 and 1, or there are fewer than two groups.
pub fn grouped_partition(groups: &[usize], share: f64, seed: u64) -> Result<Split, DataError> {
    check_share(share)?;
    let rows = groups.len() as f64;
    let mut groups = strata(groups);
    groups.shuffle(&mut generator(seed, "groups"));
    if groups.len() < 2 {
        let found = format_args!("{} groups", groups.len());
        return Err(DataError::config("groups", found, "at least 2"));
    }
    let mut split = Split {
        train: Vec::new(),
        test: Vec::new(),
    };
    let last = groups.len() - 1;
    for (place, group) in groups.into_iter().enumerate() {
        let half = 0.5 * group.len() as f64;
        let is_wanted = split.test.len() as f64 + half <= share * rows;
        let is_needed = split.train.is_empty() && place == last;
        match (is_wanted || split.test.is_empty()) && !is_needed {
            true => split.test.extend(group),
            false => split.train.extend(group),
        }
    }
    Ok(split)
}

/// The latest rows, about this share, as test rows; rows of the same time stay together.
///
/// # Errors
/// If the share is not between 0 and 1, or there are too few different times.
pub fn latest_partition(times: &[f64], share: f64) -> Result<Split, DataError> {
    check_share(share)?;
    let blocks = in_time(times, &[1.0 - share]);
    let mut blocks = blocks.map_err(|expected| DataError::config("share", share, expected))?;
    let test = blocks.pop().unwrap_or_default();
    Ok(Split {
        train: blocks.concat(),
        test,
    })
}

fn check_share(share: f64) -> Result<(), DataError> {
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => Err(DataError::config(
            "share",
            share,
            "a number between 0 and 1",
        )),
    }
}

/// Rows in the order of their times, divided at these increasing shares, but not between equal times. Fails with what is
/// expected if a part is empty.
fn in_time(times: &[f64], shares: &[f64]) -> Result<Vec<Vec<usize>>, String> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&one, &other| times[one].total_cmp(&times[other]));
    let (mut blocks, mut start) = (Vec::new(), 0);
    for share in shares.iter().copied().chain([1.0]) {
        let wanted = (share * times.len() as f64).round() as usize;
        let is_divided = |end: usize| {
            end > start && end < order.len() && times[order[end - 1]] == times[order[end]]
        };
        let mut end = wanted;
        while is_divided(end) {
            end -= 1;
        }
        if end <= start {
            end = wanted;
            while is_divided(end) {
                end += 1;
            }
        }
        if end <= start {
            let mut different: Vec<f64> = order.iter().map(|&row| times[row]).collect();
            different.dedup();
            let different = different.len();
            return Err(format!(
                "fewer parts: there are {different} different times in {} rows",
                times.len()
            ));
        }
        blocks.push(order[start..end].to_vec());
        start = end;
    }
    Ok(blocks)
}

/// Each part gets at least `fewest` rows of each stratum, and none may stay empty.
fn deal_shares(
    strata: Vec<Vec<usize>>,
    shares: &[f64],
    seed: u64,
    fewest: usize,
) -> Result<Vec<Vec<usize>>, DataError> {
    let sum: f64 = shares.iter().sum();
    if !shares.iter().all(|&share| share > 0.0) || (sum - 1.0).abs() > 1e-9 {
        let found = format_args!("{shares:?}");
        return Err(DataError::config(
            "shares",
            found,
            "positive numbers with sum 1",
        ));
    }
    let mut generator = generator(seed, "parts");
    let mut parts = vec![Vec::new(); shares.len()];
    let mut rows = 0;
    for stratum in strata {
        let order = shuffled(&[stratum], &mut generator);
        rows += order.len();
        let (mut start, mut share_before) = (0, 0.0);
        for (index, share) in shares.iter().enumerate() {
            share_before += share;
            // Rounded over all strata so far, so that the parts have the same proportions of classes.
            let end = (share_before * rows as f64).round() as usize;
            let others: usize = parts[..=index].iter().map(Vec::len).sum();
            let end = (end + start).saturating_sub(others);
            let later = shares.len() - 1 - index;
            let (least, most) = (start + fewest, order.len().saturating_sub(fewest * later));
            let end = end.min(most).max(least);
            if end == start || end > order.len() {
                let found = format_args!("{shares:?}");
                let expected = format_args!("a row for each part, out of {} rows", order.len());
                return Err(DataError::config("shares", found, expected));
            }
            parts[index].extend_from_slice(&order[start..end]);
            start = end;
        }
    }
    Ok(parts)
}

/// The rows of each class.
fn strata(classes: &[usize]) -> Vec<Vec<usize>> {
    let mut strata = std::collections::BTreeMap::<usize, Vec<usize>>::new();
    for (row, &class) in classes.iter().enumerate() {
        strata.entry(class).or_default().push(row);
    }
    strata.into_values().collect()
}

/// The concatenated strata, each in random order.
fn shuffled(strata: &[Vec<usize>], generator: &mut Generator) -> Vec<usize> {
    let mut order = Vec::new();
    for rows in strata {
        let start = order.len();
        order.extend_from_slice(rows);
        order[start..].shuffle(generator);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_not_divided() {
        let groups: Vec<usize> = (0..60).map(|row| (row * row) % 7).collect();
        let of = |rows: &[usize]| -> std::collections::BTreeSet<usize> {
            rows.iter().map(|&row| groups[row]).collect()
        };
        let kept = KFold::new(3).with_repeats(2).with_seed(4);
        let splits = kept.grouped_splits(&groups).unwrap();
        assert_eq!(splits.len(), 6);
        for repeat in splits.chunks(3) {
            let mut tested: Vec<usize> =
                repeat.iter().flat_map(|split| split.test.clone()).collect();
            tested.sort_unstable();
            assert_eq!(tested, (0..60).collect::<Vec<_>>());
        }
        let partition = grouped_partition(&groups, 0.3, 1).unwrap();
        assert!((6..=30).contains(&partition.test.len()), "{partition:?}");
        for split in splits.iter().chain([&partition]) {
            assert!(of(&split.train).is_disjoint(&of(&split.test)));
            assert_eq!(split.train.len() + split.test.len(), 60);
        }
        for seed in 0..20 {
            let split = grouped_partition(&[0, 0, 0, 1], 0.1, seed).unwrap();
            assert!(!split.train.is_empty() && !split.test.is_empty());
        }
        assert!(grouped_partition(&[3; 5], 0.2, 0).is_err());
        assert!(KFold::new(5).grouped_splits(&[0, 1, 0, 1, 2]).is_err());
    }

    #[test]
    fn the_latest_rows_are_held_out_and_equal_times_stay_together() {
        let times = [4.0, 1.0, 3.0, 3.0, 2.0, 5.0, 3.0, 0.0, 6.0, 7.0];
        let split = latest_partition(&times, 0.3).unwrap();
        assert_eq!(split.test, [5, 8, 9]);
        // The middle is within the threes, which are all later than the cut.
        let split = latest_partition(&times, 0.6).unwrap();
        assert_eq!(split.train, [7, 1, 4]);
        // All before the cut are equal.
        let split = latest_partition(&[1.0, 1.0, 1.0, 2.0], 0.5).unwrap();
        assert_eq!((split.train, split.test), (vec![0, 1, 2], vec![3]));
        assert!(latest_partition(&[1.0; 4], 0.5).is_err());
        for split in KFold::new(3).splits_in_time(&times).unwrap() {
            let last = split
                .train
                .iter()
                .map(|&row| times[row])
                .fold(0.0, f64::max);
            assert!(split.test.iter().all(|&row| times[row] > last), "{split:?}");
        }
        let error = KFold::new(4)
            .splits_in_time(&[1.0, 1.0, 2.0, 2.0, 2.0])
            .unwrap_err();
        assert!(error.to_string().contains("2 different times"), "{error}");
        assert!(
            KFold::new(2)
                .with_repeats(2)
                .splits_in_time(&times)
                .is_err()
        );
    }

    fn is_partition(split: &Split, rows: usize) -> bool {
        let mut all = [split.train.clone(), split.test.clone()].concat();
        all.sort_unstable();
        all == (0..rows).collect::<Vec<_>>()
    }

    #[test]
    fn every_row_is_tested_once_in_a_repeat() {
        let splits = KFold::new(4).with_repeats(3).splits(11).unwrap();
        assert_eq!(splits.len(), 12);
        for repeat in splits.chunks(4) {
            let mut tested: Vec<_> = repeat.iter().flat_map(|split| split.test.clone()).collect();
            tested.sort_unstable();
            assert_eq!(tested, (0..11).collect::<Vec<_>>());
            assert!(repeat.iter().all(|split| is_partition(split, 11)));
            assert!(repeat.iter().all(|split| matches!(split.test.len(), 2 | 3)));
        }
        assert_ne!(splits[0], splits[4], "each repeat has an order of its own");
    }

    #[test]
    fn strata_are_dealt_evenly() {
        let classes: Vec<usize> = (0..30).map(|row| usize::from(row < 7)).collect();
        for split in KFold::new(3)
            .with_seed(2)
            .stratified_splits(&classes)
            .unwrap()
        {
            let ones = split.test.iter().filter(|&&row| classes[row] == 1).count();
            assert!(is_partition(&split, 30) && matches!(ones, 2 | 3) && split.test.len() == 10);
        }
        let parts = stratified_partition(&classes, &[0.6, 0.4], 0).unwrap();
        let ones = |part: &[usize]| part.iter().filter(|&&row| classes[row] == 1).count();
        assert_eq!((ones(&parts[0]), ones(&parts[1])), (4, 3));
    }

    #[test]
    fn a_class_of_two_rows_has_one_in_each_of_two_parts() {
        let classes = [vec![0; 20], vec![1; 2], vec![2; 3]].concat();
        for share in [0.2, 0.05, 0.9] {
            let parts = stratified_partition(&classes, &[1.0 - share, share], 3).unwrap();
            let count = |part: usize, class: usize| {
                let rows = parts[part].iter();
                rows.filter(|&&row| classes[row] == class).count()
            };
            assert_eq!((count(0, 1), count(1, 1)), (1, 1), "{share}");
            assert!(count(0, 2) >= 1 && count(1, 2) >= 1, "{share}");
            assert_eq!(parts[0].len() + parts[1].len(), classes.len());
        }
        assert!(stratified_partition(&[0, 0, 1], &[0.5, 0.5], 0).is_err());
    }

    #[test]
    fn many_small_classes_are_held_out_as_often_as_a_large_one() {
        // A fifth of seven rows is 1.4: rounded for each class alone, a seventh would be held out.
        let small = (1..=100).flat_map(|class| [class; 7]);
        let classes: Vec<usize> = [0; 700].into_iter().chain(small).collect();
        let parts = stratified_partition(&classes, &[0.8, 0.2], 5).unwrap();
        let large = parts[1].iter().filter(|&&row| classes[row] == 0).count();
        assert_eq!((large, parts[1].len()), (140, 280));
    }

    #[test]
    fn a_seed_names_a_split_for_ever() {
        let split = |seed| KFold::new(2).with_seed(seed).splits(8).unwrap()[0].clone();
        assert_eq!(split(1), split(1));
        assert_ne!(split(1), split(2));
        // Golden values of this code: a change would change the results of all users.
        assert_eq!(split(1).test, [7, 3, 0, 4]);
    }

    #[test]
    fn impossible_requests_are_refused() {
        let fold = KFold::new(5);
        for error in [
            fold.splits(4).unwrap_err(),
            KFold::new(1).splits(4).unwrap_err(),
            fold.with_repeats(0).splits(9).unwrap_err(),
            fold.stratified_splits(&[0, 0, 0, 0, 0, 1]).unwrap_err(),
            partition(10, &[0.5, 0.6], 0).unwrap_err(),
            partition(10, &[0.5, f64::NAN], 0).unwrap_err(),
            partition(10, &[1.5, -0.5], 0).unwrap_err(),
            partition(2, &[0.5, 0.2, 0.3], 0).unwrap_err(),
            partition(0, &[1.0], 0).unwrap_err(),
        ] {
            assert!(error.is_config(), "{error}");
        }
    }
}
