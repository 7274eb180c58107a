//! The guarantees of `predict` and `evaluate` in 10 000 simulated calibrations each.
//!
//! The data are the worst that exchangeable rows can be: errors that grow towards the limits of the groups, ties, groups
//! with hardly a row, classes that are always improbable. `burn-bayes-eval` has the same for each method alone.

use std::path::Path;

use burn_bayes::eval::{ClassProbabilities, SelectiveBounds, uniforms};
use burn_bayes_data::{ColumnScale, CsvOptions, stratified_partition};

use super::conformal::{Conformal, ConformalRequest, SetMethod};
use super::known::{Known, equal};
use super::selection::{of_score, of_tolerance};
use super::{ClassPredictions, EPISTEMIC, Moments, Uncertainty};
use crate::error::Result;
use crate::groups::{CellGroups, GroupRule};
use crate::order::selected;
use crate::rows::Target;

const CALIBRATIONS: usize = 10_000;

/// Counts how often a promise was kept of the times that it was made.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    made: usize,
    kept: usize,
}

impl Promise {
    fn count(&mut self, is_kept: bool) {
        self.made += 1;
        self.kept += usize::from(is_kept);
    }

    /// The fraction kept minus the level, in standard errors.
    fn excess(self, level: f64) -> f64 {
        let made = self.made as f64;
        (self.kept as f64 / made - level) / (level * (1.0 - level) / made).sqrt()
    }

    /// Checks that it was made often, and kept but for three standard errors.
    fn assert_kept(self, level: f64, what: &str) {
        let Self { made, kept } = self;
        assert!(made >= CALIBRATIONS / 50, "{what}: made {made} times");
        assert!(
            self.excess(level) >= -3.0,
            "{what}: {kept} of {made}, {level}"
        );
    }
}

/// The calibration on these rows; an error if a group has too few of them, which does not depend on the scores.
fn calibrated(
    known: &Known,
    groups: Option<(CellGroups, Vec<Option<usize>>)>,
    level: f64,
    by: Option<&str>,
    set_method: Option<SetMethod>,
) -> Result<Conformal> {
    let request = ConformalRequest {
        set_method,
        by: by.map(String::from),
        ..ConformalRequest::at(level)
    };
    Conformal::of(
        known,
        groups,
        &equal(known.rows()),
        &target_of(known),
        &request,
        Path::new("file"),
    )
}

/// The calibration on rows in the order of time, whose weights are halved after this number of rows.
fn weighted(
    known: Known,
    level: f64,
    half_life: f64,
    set_method: Option<SetMethod>,
) -> Result<Conformal> {
    let request = ConformalRequest {
        set_method,
        half_life: Some(half_life),
        ..ConformalRequest::at(level)
    };
    let target = target_of(&known);
    Conformal::weighted(known, None, half_life, &target, &request, Path::new("file"))
}

fn target_of(known: &Known) -> Target {
    match known {
        Known::Numbers(_) => Target::Real(ColumnScale::KEPT),
        Known::Classes(table, _) => Target::Classes(classes(table.classes())),
    }
}

/// Means of 0 and deviations of 1, so that the scores are these sizes of targets.
fn known(sizes: &[f64]) -> Known {
    Known::Numbers([
        vec![0.0; sizes.len()],
        vec![1.0; sizes.len()],
        sizes.to_vec(),
    ])
}

/// Whether the interval of a new row has its target.
fn covers(conformal: &Conformal, group: Option<usize>, target: f64) -> bool {
    let moments = Moments {
        mean: vec![0.0],
        variance: vec![1.0],
        variance_between_draws: vec![0.0],
        least: None,
    };
    let groups = group.map(|group| vec![group]);
    let found = conformal.intervals(&moments, groups.as_deref()).unwrap();
    found.unwrap().covered(&[target]).unwrap()[0]
}

/// Simulates intervals by quartiles of a column whose large values have small errors: a row below all others of its
/// group has the largest error in it. The limits are those of `training` rows, or of the held-out rows if that is 0.
fn by_quartiles(training: usize, held_out: usize, level: f64) -> [Promise; 5] {
    let mut promises = [Promise::default(); 5];
    let options = CsvOptions::default();
    let numbers = uniforms((training + held_out + 1) * CALIBRATIONS, 3);
    for numbers in numbers.chunks(training + held_out + 1) {
        let thousandths = numbers.iter().map(|value| (value * 1000.0) as u32);
        let cells: Vec<String> = thousandths.map(|value| value.to_string()).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let (new, others) = cells.split_last().unwrap();
        let (train, calibration) = others.split_at(training);
        let of_rule = if train.is_empty() { calibration } else { train };
        let rule = GroupRule::of(of_rule, false, &options).unwrap();
        let groups = CellGroups::of("age", &rule, &options, calibration);
        let sizes: Vec<f64> = numbers[training..]
            .iter()
            .map(|value| 2.0 - value)
            .collect();
        let (size, sizes) = sizes.split_last().unwrap();
        let Ok(conformal) = calibrated(&known(sizes), Some(groups), level, Some("age"), None)
        else {
            continue;
        };
        let Ok(group) = conformal.groups_of([(0, *new)], &options) else {
            continue;
        };
        let group = group.unwrap()[0];
        let is_covered = covers(&conformal, Some(group), *size);
        promises[group].count(is_covered);
        promises[4].count(is_covered);
    }
    promises
}

#[test]
fn every_quartile_of_a_column_is_covered_at_the_level() {
    for (training, held_out, level) in [(40, 28, 0.8), (24, 48, 0.8)] {
        for (group, promise) in by_quartiles(training, held_out, level)
            .into_iter()
            .enumerate()
        {
            promise.assert_kept(level, &format!("{held_out} rows at {level}, group {group}"));
        }
    }
    let own = by_quartiles(0, 16, 0.8)[4];
    assert!(
        own.excess(0.8) < -5.0,
        "limits of the held-out rows themselves would do"
    );
}

#[test]
fn every_category_is_covered_at_the_level() {
    let (level, rows) = (0.8, 30);
    let words = ["a", "b", "c", ""];
    let mut promises = [Promise::default(); 4];
    let options = CsvOptions::default();
    let numbers = uniforms(2 * (rows + 1) * CALIBRATIONS, 4);
    for numbers in numbers.chunks(2 * (rows + 1)) {
        let row = |pair: &[f64]| {
            // Three groups of the same size, one of them with missing cells, and a rare one with large errors.
            let word = ((pair[0] * 3.3) as usize + 3) % 4;
            let size = (pair[1] * 4.0).floor() * [1.0, 3.0, 9.0, 0.5][word];
            (word, size)
        };
        let all: Vec<(usize, f64)> = numbers.chunks(2).map(row).collect();
        let (new, known_rows) = all.split_last().unwrap();
        let cells: Vec<&str> = known_rows.iter().map(|row| words[row.0]).collect();
        let groups = CellGroups::of("ward", &GroupRule::Categories, &options, &cells);
        let sizes: Vec<f64> = known_rows.iter().map(|row| row.1).collect();
        let known = known(&sizes);
        let Ok(conformal) = calibrated(&known, Some(groups), level, Some("ward"), None) else {
            continue;
        };
        let Ok(group) = conformal.groups_of([(0, words[new.0])], &options) else {
            continue;
        };
        promises[new.0].count(covers(&conformal, group.map(|group| group[0]), new.1));
    }
    for (word, promise) in words.iter().zip(promises) {
        promise.assert_kept(level, &format!("ward `{word}`"));
    }
}

#[test]
fn intervals_of_all_rows_cover_at_the_level() {
    for (rows, level) in [(4, 0.8), (9, 0.9), (19, 0.95), (33, 0.9)] {
        for steps in [1.0, 3.0, 1e9] {
            let mut promise = Promise::default();
            let numbers = uniforms((rows + 1) * CALIBRATIONS, 5);
            for numbers in numbers.chunks(rows + 1) {
                let sizes: Vec<f64> = numbers
                    .iter()
                    .map(|value| (value * steps).floor())
                    .collect();
                let (new, sizes) = sizes.split_last().unwrap();
                let conformal = calibrated(&known(sizes), None, level, None, None).unwrap();
                promise.count(covers(&conformal, None, *new));
            }
            promise.assert_kept(level, &format!("{rows} rows, {steps} sizes"));
        }
    }
}

#[test]
fn weights_keep_the_level_without_a_drift_and_with_one_cover_more_than_equal_ones() {
    let (rows, level) = (60, 0.8);
    let numbers = uniforms((rows + 1) * CALIBRATIONS, 9);
    let simulated = |half_life: Option<f64>, growth: f64, steps: f64| {
        let mut promise = Promise::default();
        for numbers in numbers.chunks(rows + 1) {
            // The scale of the errors grows from row to row.
            let size = |(row, number): (usize, &f64)| {
                (number * steps).floor() * (1.0 + growth * row as f64 / rows as f64)
            };
            let sizes: Vec<f64> = numbers.iter().enumerate().map(size).collect();
            let (new, sizes) = sizes.split_last().unwrap();
            let conformal = match half_life {
                Some(half_life) => weighted(known(sizes), level, half_life, None),
                None => calibrated(&known(sizes), None, level, None, None),
            };
            promise.count(covers(&conformal.unwrap(), None, *new));
        }
        promise
    };
    for half_life in [6.5, 20.0, 500.0] {
        for steps in [3.0, 1e9] {
            let what = format!("a half-life of {half_life}, {steps} sizes");
            simulated(Some(half_life), 0.0, steps).assert_kept(level, &what);
        }
    }
    // Equal weights cover half of the new rows, whose errors are four times those of the first row.
    let share = |promise: Promise| promise.kept as f64 / promise.made as f64;
    let equal = share(simulated(None, 3.0, 1e9));
    let halved = share(simulated(Some(10.0), 3.0, 1e9));
    assert!(equal < 0.6 && halved > equal + 0.1, "{equal} {halved}");
}

#[test]
fn rows_of_new_groups_are_covered_at_the_level_if_whole_groups_calibrate() {
    let (level, groups, most) = (0.8, 12, 8);
    let names: Vec<String> = (0..groups).map(|group| group.to_string()).collect();
    let (mut shared, mut alone) = (Promise::default(), Promise::default());
    let per_group = 2 + most;
    let numbers = uniforms((groups + 1) * per_group * CALIBRATIONS, 12);
    for numbers in numbers.chunks((groups + 1) * per_group) {
        // The rows of a group have most of their error in common, and large groups have small ones.
        let group = |numbers: &[f64]| {
            let count = 1 + (numbers[0] * most as f64) as usize;
            let common = numbers[1] + 1.0 - numbers[0];
            let own = numbers[2..2 + count].iter();
            own.map(|own| common + 0.1 * own).collect::<Vec<f64>>()
        };
        let all: Vec<Vec<f64>> = numbers.chunks(per_group).map(group).collect();
        let (new, known_groups) = all.split_last().unwrap();
        let cells = known_groups.iter().zip(&names);
        let cells = cells.flat_map(|(rows, name)| vec![name.as_str(); rows.len()]);
        let cells: Vec<&str> = cells.collect();
        let known = known(&known_groups.concat());
        let request = ConformalRequest::at(level);
        let (target, file) = (target_of(&known), Path::new("file"));
        let found = Conformal::of_new_groups(&known, &cells, &target, &request, file).unwrap();
        assert_eq!(found.independent_rows(None), groups);
        shared.count(covers(&found, None, new[0]));
        let found = calibrated(&known, None, level, None, None).unwrap();
        alone.count(covers(&found, None, new[0]));
    }
    shared.assert_kept(level, "a row of a new group");
    assert!(shared.excess(level) < 30.0, "{shared:?}");
    assert!(
        alone.excess(level) < -5.0,
        "single rows would do: {alone:?}"
    );
}

#[test]
fn sets_of_weighted_rows_cover_at_the_level() {
    let (level, rows, probabilities) = (0.8, 40, [0.6, 0.3, 0.1]);
    for method in [SetMethod::Lac, SetMethod::Aps, SetMethod::Raps] {
        let mut promise = Promise::default();
        let numbers = uniforms((rows + 1) * CALIBRATIONS, 10);
        for numbers in numbers.chunks(rows + 1) {
            let labels = numbers.iter().map(|number| (3.0 * number) as usize);
            let labels: Vec<usize> = labels.collect();
            let (new, labels) = labels.split_last().unwrap();
            let known = known_classes(&probabilities, labels);
            let conformal = weighted(known, level, 10.0, Some(method)).unwrap();
            promise.count(has_class(&conformal, &probabilities, *new));
        }
        promise.assert_kept(level, &format!("{method} with weights"));
    }
}

/// The names of so many classes.
fn classes(count: usize) -> Vec<String> {
    (0..count).map(|class| class.to_string()).collect()
}

/// Held-out rows with these probabilities for every row, and their classes.
fn known_classes(probabilities: &[f64], labels: &[usize]) -> Known {
    let values = probabilities.repeat(labels.len());
    let table = ClassProbabilities::new(values, labels.len(), probabilities.len()).unwrap();
    Known::Classes(table, labels.to_vec())
}

/// Whether the set of a new row has its class.
fn has_class(conformal: &Conformal, probabilities: &[f64], class: usize) -> bool {
    let predictions =
        ClassPredictions::new(classes(probabilities.len()), 1, probabilities.to_vec());
    let sets = conformal.sets(&predictions, None).unwrap().unwrap();
    sets.contains(0, class)
}

#[test]
fn sets_cover_all_rows_and_every_class_at_the_level() {
    // All rows have the same probabilities, so that scores have many ties.
    let (level, rows, probabilities) = (0.8, 24, [0.6, 0.3, 0.1]);
    for method in [SetMethod::Lac, SetMethod::Aps, SetMethod::Raps] {
        for by in [None, Some("y")] {
            let mut promises = [Promise::default(); 4];
            let numbers = uniforms((rows + 1) * CALIBRATIONS, 6);
            for numbers in numbers.chunks(rows + 1) {
                let label = |number: &f64| match number {
                    number if *number < 0.35 => 0,
                    number if *number < 0.7 => 1,
                    _ => 2,
                };
                let labels: Vec<usize> = numbers.iter().map(label).collect();
                let (new, labels) = labels.split_last().unwrap();
                let known = known_classes(&probabilities, labels);
                let Ok(conformal) = calibrated(&known, None, level, by, Some(method)) else {
                    continue;
                };
                let is_covered = has_class(&conformal, &probabilities, *new);
                promises[*new].count(is_covered);
                promises[3].count(is_covered);
            }
            promises[3].assert_kept(level, &format!("{method}, {by:?}"));
            if by.is_some() {
                for (class, promise) in promises[..3].iter().enumerate() {
                    promise.assert_kept(level, &format!("{method}, class {class}"));
                }
            }
        }
    }
}

#[test]
fn sets_cover_at_the_level_although_rows_are_held_out_by_class() {
    // A class of half the rows, and many small ones that are always less probable.
    const SMALL: usize = 15;
    let (level, rows) = (0.8, 200);
    let mut probabilities = vec![0.3 / SMALL as f64; SMALL + 1];
    probabilities[0] = 0.7;
    let mut promise = Promise::default();
    let numbers = uniforms((rows + 1) * CALIBRATIONS, 7);
    for (seed, numbers) in numbers.chunks(rows + 1).enumerate() {
        let label = |number: &f64| (1.0 + (number - 0.5) * 2.0 * SMALL as f64).max(0.0) as usize;
        let labels: Vec<usize> = numbers.iter().map(label).collect();
        let (new, labels) = labels.split_last().unwrap();
        let Ok(parts) = stratified_partition(labels, &[0.8, 0.2], seed as u64) else {
            continue;
        };
        let held_out = selected(labels, &parts[1]);
        let known = known_classes(&probabilities, &held_out);
        let conformal = calibrated(&known, None, level, None, None).unwrap();
        promise.count(has_class(&conformal, &probabilities, *new));
    }
    promise.assert_kept(level, "held out by class");
}

#[test]
fn at_most_the_target_risk_of_kept_rows_is_wrong_with_the_confidence() {
    let (rows, confidence, target) = (80, 0.8, 0.2);
    let tolerance = 1.0;
    let candidates = [
        of_score(Uncertainty::LeastConfidence, 2),
        of_score(Uncertainty::Entropy, 3),
        of_tolerance("std", tolerance),
        of_tolerance(EPISTEMIC, tolerance),
    ];
    let mut promises = [Promise::default(); 4];
    // Every candidate takes two exact limits, so the scores share a fifth of the calibrations.
    let numbers = uniforms(2 * rows * CALIBRATIONS / 5, 8);
    for (calibration, numbers) in numbers.chunks(2 * rows).enumerate() {
        let place = calibration % 4;
        let (candidates, greatest) = (&candidates[place], candidates[place][0]);
        // A row with the fraction u of the greatest score is wrong with the probability u²: t²/3 below t.
        let (scores, coins) = numbers.split_at(rows);
        let losses: Vec<f64> = scores
            .iter()
            .zip(coins)
            .map(|(score, coin)| f64::from(u8::from(*coin < score * score)))
            .collect();
        let scores: Vec<f64> = scores.iter().map(|score| score * greatest).collect();
        let bounds = SelectiveBounds::exact(&scores, &losses, candidates, confidence);
        let chosen = bounds.unwrap().coverage_at_risk(target).unwrap();
        let risk = |threshold: f64| (threshold / greatest).min(1.0).powi(2) / 3.0;
        promises[place].count(chosen.is_none_or(|point| risk(point.threshold) <= target));
    }
    for (place, promise) in promises.into_iter().enumerate() {
        promise.assert_kept(confidence, &format!("score {place}"));
    }
}
