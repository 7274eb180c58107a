//! Properties of conformal methods, decisions by costs, scores of distributions, and curves of selective prediction.

use burn_bayes_eval::{
    Action, ClassProbabilities, ConformalByClass, ConformalCross, ConformalSets, DecisionCosts,
    JointDraws, LabelledProbabilities, PredictionIntervals, RankPenalty, RiskCoverage, SetScore,
    SparsificationError, ause, coverage_by_group, holm, winkler_scores,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::properties::{ROUNDING, cases, close, real_cases};

proptest! {
    #[test]
    fn sets_cover_their_calibration_rows(
        case in cases(),
        level in 0.05f64..0.95,
        weight in 0.0f64..1.0,
        free_classes in 0usize..3,
    ) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let penalty = RankPenalty { weight, free_classes };
        let raps = ConformalSets::calibrate(&labelled, level, SetScore::Raps(penalty)).unwrap();
        let sets = raps.sets(&average).unwrap();
        prop_assert!(sets.coverage(&case.labels).unwrap() >= level - ROUNDING);
        if let Ok(by_class) = ConformalByClass::calibrate(&labelled, level, SetScore::Raps(penalty)) {
            let covered = by_class.sets(&average).unwrap().covered(&case.labels).unwrap();
            for class in coverage_by_group(&case.labels, &covered, level, None).unwrap() {
                prop_assert!(class.coverage >= level - ROUNDING);
                prop_assert!(class.interval.lower <= class.coverage);
                prop_assert!(class.coverage <= class.interval.upper);
            }
        }
    }

    #[test]
    fn a_decision_has_the_least_mean_of_realised_costs(
        case in cases(),
        random in vec(0u8..8, 16),
        abstention in prop::option::of((0u8..8).prop_map(f64::from)),
    ) {
        let classes = case.classes;
        prop_assume!(classes > 1);
        // Whole numbers, so that equal expected costs are common; no class is free of costs.
        let cost = |place: usize| match place / classes == place % classes {
            true => 0.0,
            false => f64::from(1 + random[place]),
        };
        let matrix: Vec<f64> = (0..classes * classes).map(cost).collect();
        let mut costs = DecisionCosts::new(&matrix, classes).unwrap();
        if let Some(cost) = abstention {
            costs = costs.with_abstention(cost).unwrap();
        }
        let average = case.draws().average();
        let decisions = costs.decisions(&average).unwrap();
        let of_classes = (0..classes).map(Action::Class);
        let actions: Vec<Action> = of_classes.chain(abstention.map(|_| Action::Abstain)).collect();
        for (row, decision) in decisions.iter().enumerate() {
            // Every class is true once, and has the weight of its probability.
            let truths: Vec<usize> = (0..classes).collect();
            let repeated = average.row(row).repeat(classes);
            let repeated = ClassProbabilities::new(&repeated, classes, classes).unwrap();
            let labelled = LabelledProbabilities::new(&repeated, &truths).unwrap();
            let expected: Vec<f64> = actions.iter().map(|&action| {
                let realised = costs.costs(&vec![action; classes], &labelled).unwrap();
                realised.iter().zip(average.row(row)).map(|(cost, p)| cost * p).sum()
            }).collect();
            let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(close(decision.expected_cost, least));
            let own = actions.iter().position(|action| *action == decision.action).unwrap();
            prop_assert!(close(expected[own], least));
            // The same sums in the same order: of equal ones, the first is taken.
            prop_assert!(expected[..own].iter().all(|cost| *cost > decision.expected_cost));
        }
    }

    #[test]
    fn two_classes_have_a_threshold(
        false_positive in 0.01f64..10.0,
        false_negative in 0.01f64..10.0,
        positive in 0usize..2,
        probability in 0.0f64..=1.0,
    ) {
        let costs = DecisionCosts::binary(false_positive, false_negative, positive).unwrap();
        let threshold = false_positive / (false_positive + false_negative);
        // The expected costs of both classes are equal at the threshold, up to rounding.
        prop_assume!((probability - threshold).abs() > ROUNDING);
        let mut row = [1.0 - probability; 2];
        row[positive] = probability;
        let table = ClassProbabilities::new(&row, 1, 2).unwrap();
        let expected = match probability > threshold {
            true => positive,
            false => 1 - positive,
        };
        prop_assert_eq!(costs.decisions(&table).unwrap()[0].action, Action::Class(expected));
    }

    #[test]
    fn winkler_scores_are_at_least_the_widths(case in real_cases()) {
        let mixture = case.mixture();
        let central = PredictionIntervals::central(&mixture, 0.5).unwrap();
        let scores = winkler_scores(&central, &case.targets, 0.5).unwrap();
        for (score, width) in scores.iter().zip(central.widths()) {
            prop_assert!(*score >= width);
        }
    }

    #[test]
    fn cross_intervals_nest_and_move_with_the_targets(
        rows in vec((-3.0f64..3.0, -3.0f64..3.0), 4..20),
        new in vec(-3.0f64..3.0, 2),
        level in 0.5f64..0.9,
    ) {
        let (predicted, targets): (Vec<f64>, Vec<f64>) = rows.into_iter().unzip();
        let folds: Vec<usize> = (0..targets.len()).map(|row| row % 2).collect();
        let of = |shift: f64, level: f64| {
            let moved = |values: &[f64]| values.iter().map(|v| v + shift).collect::<Vec<_>>();
            let cross = ConformalCross::new(&moved(&predicted), &moved(&targets), &folds).unwrap();
            cross.intervals(&moved(&new), level).unwrap()
        };
        let (narrow, wide, moved) = (of(0.0, level), of(0.0, level + 0.05), of(2.0, level));
        prop_assert!(wide.lower()[0] <= narrow.lower()[0] && narrow.upper()[0] <= wide.upper()[0]);
        prop_assert!(close(moved.lower()[0], narrow.lower()[0] + 2.0));
        prop_assert!(close(moved.upper()[0], narrow.upper()[0] + 2.0));
    }

    #[test]
    fn adjusted_p_values_keep_the_order(p_values in vec(0.0f64..=1.0, 1..20)) {
        let adjusted = holm(&p_values).unwrap();
        for (index, p) in p_values.iter().enumerate() {
            prop_assert!(*p <= adjusted[index] && adjusted[index] <= 1.0);
            prop_assert!(adjusted[index] <= (p_values.len() as f64 * p).min(1.0));
        }
    }

    #[test]
    fn energy_scores_ignore_rotations_and_are_smallest_at_the_truth(
        draws in vec((-3.0f64..3.0, -3.0f64..3.0), 1..8),
        angle in 0.0f64..6.0,
    ) {
        let rotated = |(x, y): &(f64, f64)| {
            [angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y]
        };
        let count = draws.len();
        let plain: Vec<f64> = draws.iter().flat_map(|(x, y)| [*x, *y]).collect();
        let turned: Vec<f64> = draws.iter().flat_map(rotated).collect();
        let origin = [0.0, 0.0];
        let score = |values: &[f64]| {
            let view = JointDraws::new(values, &origin, count, 1, 2).unwrap();
            (view.energy_scores()[0], view.variogram_scores(0.5).unwrap()[0])
        };
        let ((energy, variogram), (again, _)) = (score(&plain), score(&turned));
        prop_assert!((energy - again).abs() <= ROUNDING && variogram >= 0.0);
        prop_assert!(energy >= 0.0 && score(&vec![0.0; 2 * count]).0 == 0.0);
    }

    #[test]
    fn sparsification_is_the_excess_of_the_curve(
        rows in vec((0u8..5, 0.1f64..3.0), 1..30),
    ) {
        let uncertainty: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
        let errors: Vec<f64> = rows.iter().map(|row| row.1).collect();
        let zeros = vec![0.0; errors.len()];
        let found = ause(&uncertainty, &zeros, &errors, SparsificationError::MeanAbsolute).unwrap();
        let curve = RiskCoverage::new(&uncertainty, &errors).unwrap();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        prop_assert!((found - curve.excess_aurc() / mean).abs() <= ROUNDING);
    }
}
