//! What conformal prediction and bounds promise, in 10 000 simulated calibrations each: with ties, discrete scores, few
//! rows, and arithmetic whose rounding separates equal answers.

use burn_bayes_eval::{
    ClassProbabilities, ConformalByClass, ConformalCross, ConformalNormalisedResidual,
    ConformalSets, EvalError, LabelledProbabilities, Mondrian, PredictionSets, RankPenalty,
    SelectiveBounds, SetScore, conformal_coverage_by_group, conformal_threshold, coverage_by_group,
    uniforms,
};

const CALIBRATIONS: usize = 10_000;

/// Checks that at least a fraction of the calibrations keeps a promise, but for three standard errors.
fn assert_kept(kept: usize, promised: f64, what: &str) {
    let calibrations = CALIBRATIONS as f64;
    let found = kept as f64 / calibrations;
    let error = (promised * (1.0 - promised) / calibrations).sqrt();
    assert!(
        found >= promised - 3.0 * error,
        "{what}: {found} of {promised}"
    );
}

/// Uniform numbers of one calibration.
struct Numbers<'a>(std::iter::Copied<std::slice::Iter<'a, f64>>);

impl Numbers<'_> {
    fn next(&mut self) -> f64 {
        self.0.next().expect("enough numbers")
    }

    /// A number from 0 to `count` − 1.
    fn below(&mut self, count: usize) -> usize {
        (self.next() * count as f64) as usize
    }
}

/// In how many calibrations `is_kept` holds, with `count` uniform numbers each.
fn kept(count: usize, seed: u64, is_kept: impl Fn(&mut Numbers) -> bool) -> usize {
    let all = uniforms(count * CALIBRATIONS, seed);
    let mut kept = 0;
    for part in all.chunks(count) {
        kept += usize::from(is_kept(&mut Numbers(part.iter().copied())));
    }
    kept
}

/// The smallest number of rows with finite thresholds at a level, and a few more.
fn sizes(level: f64) -> [usize; 2] {
    let fewest = (level / (1.0 - level)).round() as usize;
    [fewest, 2 * fewest + 3]
}

const LEVELS: [f64; 2] = [0.8, 0.9];

/// A prediction, its spread and the target; `kind` chooses how many different residuals there are.
fn number(kind: usize, numbers: &mut Numbers) -> [f64; 3] {
    let (first, second) = (numbers.next(), numbers.next());
    match kind {
        // All different.
        0 => [first, 0.5 + second, first + (second - 0.5) * 3.0],
        // A constant prediction of counts: ties, and limits on the targets themselves.
        1 => [1.3, 0.7, (first * 4.0).floor()],
        // Spreads in tenths: ties between rows with different predictions.
        2 => {
            let spread = ((second * 3.0).floor() + 1.0) / 10.0;
            let centre = (first * 7.0).floor() / 10.0;
            [
                centre,
                spread,
                centre + spread * (second * 9.0).floor().rem_euclid(3.0),
            ]
        }
        // All equal.
        _ => [0.1, 0.3, 1.0],
    }
}

#[test]
fn intervals_cover_a_new_row_at_the_level() {
    for kind in 0..4 {
        for level in LEVELS {
            for rows in sizes(level) {
                let is_covered = |numbers: &mut Numbers| {
                    let known: Vec<[f64; 3]> = (0..rows).map(|_| number(kind, numbers)).collect();
                    let column =
                        |place: usize| known.iter().map(|row| row[place]).collect::<Vec<_>>();
                    let [means, spreads, targets] = [0, 1, 2].map(column);
                    let [mean, spread, target] = number(kind, numbers);
                    let conformal =
                        ConformalNormalisedResidual::calibrate(&means, &spreads, &targets, level);
                    let intervals = conformal.unwrap().intervals(&[mean], &[spread]).unwrap();
                    intervals.covered(&[target]).unwrap()[0]
                };
                let kept = kept(2 * rows + 2, 1, is_covered);
                assert_kept(kept, level, &format!("kind {kind}, {rows} rows"));
            }
        }
    }
}

/// Probabilities of three classes and a class; `kind` chooses how many different scores there are.
fn row_of_classes(kind: usize, numbers: &mut Numbers) -> ([f64; 3], usize) {
    let (a, b) = (numbers.next(), numbers.next());
    match kind {
        // All different, and the class independent of them.
        0 => ([a * b, a * (1.0 - b), 1.0 - a], numbers.below(3)),
        // Two tables.
        1 => match a < 0.5 {
            true => ([0.7, 0.2, 0.1], numbers.below(3)),
            false => ([0.2, 0.3, 0.5], numbers.below(2)),
        },
        // Equal probabilities, and certainty.
        2 => match a < 0.7 {
            true => ([1.0 / 3.0; 3], numbers.below(3)),
            false => ([0.0, 1.0, 0.0], usize::from(b < 0.9)),
        },
        // A rare class that every row finds improbable.
        _ => ([0.6, 0.3, 0.1], if b < 0.9 { numbers.below(2) } else { 2 }),
    }
}

const PENALTY: RankPenalty = RankPenalty {
    weight: 0.1,
    free_classes: 1,
};

/// The sets of new rows by each method.
fn sets(
    method: usize,
    (known, labels): (&ClassProbabilities<'_>, &[usize]),
    new: &ClassProbabilities<'_>,
    level: f64,
) -> Result<PredictionSets, EvalError> {
    let known = LabelledProbabilities::new(known, labels)?;
    match method {
        0 => ConformalSets::calibrate(&known, level, SetScore::Lac)?.sets(new),
        1 => ConformalSets::calibrate(&known, level, SetScore::Aps)?.sets(new),
        _ => ConformalSets::calibrate(&known, level, SetScore::Raps(PENALTY))?.sets(new),
    }
}

#[test]
fn sets_cover_a_new_row_at_the_level() {
    for kind in 0..4 {
        for level in LEVELS {
            for rows in sizes(level) {
                for method in 0..3 {
                    let kept = kept(3 * rows + 3, 3, |numbers| {
                        let known: Vec<_> =
                            (0..rows).map(|_| row_of_classes(kind, numbers)).collect();
                        let values: Vec<f64> = known.iter().flat_map(|row| row.0).collect();
                        let labels: Vec<usize> = known.iter().map(|row| row.1).collect();
                        let table = ClassProbabilities::new(values, rows, 3).unwrap();
                        let (new, label) = row_of_classes(kind, numbers);
                        let new = ClassProbabilities::new(&new[..], 1, 3).unwrap();
                        let known = (&table, &labels[..]);
                        let found = sets(method, known, &new, level).unwrap();
                        found.contains(0, label)
                    });
                    assert_kept(
                        kept,
                        level,
                        &format!("kind {kind}, {rows} rows, method {method}"),
                    );
                }
            }
        }
    }
}

#[test]
fn sets_cover_every_class_at_the_level() {
    let level = 0.8;
    for kind in 0..4 {
        for score in [SetScore::Lac, SetScore::Aps, SetScore::Raps(PENALTY)] {
            let (mut asked, mut kept) = ([0usize; 3], [0usize; 3]);
            let rows = 40;
            let all = uniforms(3 * (rows + 1) * CALIBRATIONS, 4);
            for part in all.chunks(3 * (rows + 1)) {
                let mut numbers = Numbers(part.iter().copied());
                let known: Vec<_> = (0..rows)
                    .map(|_| row_of_classes(kind, &mut numbers))
                    .collect();
                let (new, label) = row_of_classes(kind, &mut numbers);
                let values: Vec<f64> = known.iter().flat_map(|row| row.0).collect();
                let labels: Vec<usize> = known.iter().map(|row| row.1).collect();
                let table = ClassProbabilities::new(values, rows, 3).unwrap();
                let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
                // Refused without a row of every class, which does not depend on the scores.
                let Ok(conformal) = ConformalByClass::calibrate(&labelled, level, score) else {
                    continue;
                };
                let new = ClassProbabilities::new(&new[..], 1, 3).unwrap();
                asked[label] += 1;
                kept[label] += usize::from(conformal.sets(&new).unwrap().contains(0, label));
            }
            for class in 0..3 {
                let (asked, kept) = (asked[class] as f64, kept[class] as f64);
                let error = (level * (1.0 - level) / asked).sqrt();
                assert!(
                    asked == 0.0 || kept / asked >= level - 3.0 * error,
                    "kind {kind}, class {class}: {kept} of {asked}"
                );
            }
        }
    }
}

#[test]
fn every_group_is_covered_at_the_level_even_if_the_others_differ() {
    let (level, rows) = (0.8, 30);
    let (mut asked, mut kept) = ([0usize; 3], [0usize; 3]);
    let all = uniforms(3 * (rows + 1) * CALIBRATIONS, 5);
    for part in all.chunks(3 * (rows + 1)) {
        let mut numbers = Numbers(part.iter().copied());
        let mut row = || {
            // A large group, a small one with large errors, and a tiny one.
            let group = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2][numbers.below(10)];
            let [mean, spread, target] = number(1, &mut numbers);
            (group, mean, spread, target * [1.0, 5.0, 0.2][group])
        };
        let known: Vec<_> = (0..rows).map(|_| row()).collect();
        let new = row();
        let groups: Vec<usize> = known.iter().map(|row| row.0).collect();
        let mondrian = Mondrian::calibrate(&groups, |rows| {
            let of = |value: fn(&(usize, f64, f64, f64)) -> f64| -> Vec<f64> {
                rows.iter().map(|&row| value(&known[row])).collect()
            };
            let [means, spreads, targets] = [of(|row| row.1), of(|row| row.2), of(|row| row.3)];
            ConformalNormalisedResidual::calibrate(&means, &spreads, &targets, level)
        })
        .unwrap();
        // A group without calibration rows is an error.
        let Ok(found) = mondrian.intervals(&[new.0], |conformal, _| {
            conformal.intervals(&[new.1], &[new.2])
        }) else {
            continue;
        };
        asked[new.0] += 1;
        kept[new.0] += usize::from(found.covered(&[new.3]).unwrap()[0]);
    }
    for group in 0..3 {
        let (asked, kept) = (asked[group] as f64, kept[group] as f64);
        let error = (level * (1.0 - level) / asked).sqrt();
        assert!(
            asked > 500.0 && kept / asked >= level - 3.0 * error,
            "{group}: {kept} of {asked}"
        );
    }
}

/// The prediction of a row by a model of other rows: the target of the nearest one, or their mean.
fn predicted(known: &[(f64, f64)], x: f64, is_nearest: bool) -> f64 {
    match is_nearest {
        true => {
            let distance = |row: &&(f64, f64)| (row.0 - x).abs();
            let nearest = known
                .iter()
                .min_by(|a, b| distance(a).total_cmp(&distance(b)));
            nearest.map_or(0.0, |row| row.1)
        }
        false => known.iter().map(|row| row.1).sum::<f64>() / known.len() as f64,
    }
}

#[test]
fn intervals_of_cross_validation_cover_as_promised() {
    let (rows, folds, level) = (12, 4, 0.9);
    for kind in 0..3 {
        for is_nearest in [true, false] {
            let kept = kept(2 * rows + 2, 6, |numbers| {
                let mut row = || {
                    let [mean, _, target] = number(kind, numbers);
                    (mean, target)
                };
                let known: Vec<(f64, f64)> = (0..rows).map(|_| row()).collect();
                let new = row();
                let without = |fold: usize| -> Vec<(f64, f64)> {
                    let rows = known.iter().enumerate();
                    rows.filter(|(row, _)| row % folds != fold)
                        .map(|(_, row)| *row)
                        .collect()
                };
                let models: Vec<_> = (0..folds).map(without).collect();
                let fold_of_row: Vec<usize> = (0..rows).map(|row| row % folds).collect();
                let out_of_fold: Vec<f64> = (0..rows)
                    .map(|row| predicted(&models[row % folds], known[row].0, is_nearest))
                    .collect();
                let targets: Vec<f64> = known.iter().map(|row| row.1).collect();
                let cross = ConformalCross::new(&out_of_fold, &targets, &fold_of_row).unwrap();
                let of_new: Vec<f64> = models
                    .iter()
                    .map(|model| predicted(model, new.0, is_nearest))
                    .collect();
                cross
                    .intervals(&of_new, level)
                    .unwrap()
                    .covered(&[new.1])
                    .unwrap()[0]
            });
            let least = 2.0 * level - 1.0 - (2.0 / rows as f64).sqrt();
            assert_kept(kept, least, &format!("kind {kind}, {is_nearest}"));
            // The mean of all rows is a stable model.
            if !is_nearest {
                assert_kept(kept, level - 0.02, &format!("kind {kind}, a stable model"));
            }
        }
    }
}

/// The uncertainty of a row, the probability that it is wrong, and whether it is.
fn uncertain(kind: usize, numbers: &mut Numbers) -> (f64, f64) {
    let (score, coin) = (numbers.next(), numbers.next());
    let (score, risk) = match kind {
        0 => (score, score * score),
        // Few scores, many rows on a candidate.
        1 => ((score * 4.0).ceil() / 4.0, 0.2),
        // The score says nothing.
        _ => (score, 0.16),
    };
    (score, f64::from(u8::from(coin < risk)))
}

/// The true risk of rows with a score up to a threshold.
fn true_risk(kind: usize, threshold: f64) -> f64 {
    match kind {
        0 => threshold.min(1.0).powi(2) / 3.0,
        1 => 0.2,
        _ => 0.16,
    }
}

#[test]
fn bounds_of_selective_risks_hold_with_their_confidence() {
    // Exact limits take a search each, so the kinds share the calibrations.
    let (rows, target, confidence) = (60, 0.15, 0.8);
    let candidates = [1.0, 0.6, 0.3];
    let (mut asked, mut kept) = ([0; 3], [0; 3]);
    let all = uniforms(2 * rows * CALIBRATIONS, 7);
    for (calibration, part) in all.chunks(2 * rows).enumerate() {
        let mut numbers = Numbers(part.iter().copied());
        let kind = calibration % 3;
        let known: Vec<(f64, f64)> = (0..rows).map(|_| uncertain(kind, &mut numbers)).collect();
        let (scores, losses): (Vec<f64>, Vec<f64>) = known.into_iter().unzip();
        let bounds = SelectiveBounds::exact(&scores, &losses, &candidates, confidence).unwrap();
        let chosen = bounds.coverage_at_risk(target).unwrap();
        let is_kept = chosen.is_none_or(|point| true_risk(kind, point.threshold) <= target);
        asked[kind] += 1;
        kept[kind] += usize::from(is_kept);
    }
    for kind in 0..3 {
        let (asked, kept) = (f64::from(asked[kind]), kept[kind] as f64);
        let error = (confidence * (1.0 - confidence) / asked).sqrt();
        assert!(
            kept / asked >= confidence - 3.0 * error,
            "kind {kind}: {kept} of {asked}"
        );
    }
}

#[test]
fn limits_and_p_values_of_coverage_hold_with_their_confidence() {
    let groups: Vec<usize> = (0..24)
        .map(|row| usize::from(row >= 6) + usize::from(row >= 9))
        .collect();
    let (mut limits, mut quiet) = ([0; 3], 0);
    let all = uniforms(groups.len() * CALIBRATIONS, 9);
    for part in all.chunks(groups.len()) {
        let covered: Vec<bool> = part.iter().map(|number| *number < 0.9).collect();
        let found = coverage_by_group(&groups, &covered, 0.9, None).unwrap();
        for (limits, group) in limits.iter_mut().zip(&found) {
            let interval = group.interval;
            *limits += usize::from(interval.lower <= 0.9 && 0.9 <= interval.upper);
        }
        quiet += usize::from(found.iter().all(|group| group.adjusted_p_value > 0.05));
    }
    for limits in limits {
        assert_kept(limits, 0.95, "Clopper–Pearson");
    }
    assert_kept(quiet, 0.95, "no false alarm in any group");
}

#[test]
fn p_values_of_conformal_coverage_hold_for_the_coverage_of_a_random_threshold() {
    let (calibration, rows, level) = (100, 1000, 0.9);
    let quiet = |numbers: &[f64], is_conformal: bool| {
        let threshold = conformal_threshold(&numbers[..calibration], level).unwrap();
        let covered: Vec<bool> = numbers[calibration..]
            .iter()
            .map(|&score| score <= threshold)
            .collect();
        let groups = vec![0; rows];
        let found = match is_conformal {
            true => conformal_coverage_by_group(&groups, &covered, level, None, |_| calibration),
            false => coverage_by_group(&groups, &covered, level, None),
        };
        found.unwrap()[0].p_value > 0.05
    };
    // Few calibrations of many rows.
    let calibrations = 1000;
    let all = uniforms(calibrations * (calibration + rows), 13);
    let kept = |is_conformal| {
        let parts = all.chunks(calibration + rows);
        let kept = parts.filter(|numbers| quiet(numbers, is_conformal)).count();
        kept as f64 / calibrations as f64
    };
    let error = (0.05 * 0.95 / calibrations as f64).sqrt();
    assert!(kept(true) >= 0.95 - 3.0 * error, "{}", kept(true));
    // The threshold is no constant: the test of a fixed coverage has many false alarms.
    assert!(kept(false) < 0.8, "{}", kept(false));
}
