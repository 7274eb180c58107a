//! Properties of tests, of curves and confusion counts, and of scores of counts.

use burn_bayes_eval::{
    BinaryScores, Bootstrap, ConformalNormalisedResidual, ConfusionMatrix, CountMixture,
    LabelledProbabilities, Mondrian, PairedLosses, PitUniformity, TargetedCounts,
    average_precision, coverage_by_group, log_probabilities, poisson_deviances, precision_recall,
    randomised_pit_values, resampled_t_test,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::properties::{ROUNDING, cases, close};

proptest! {
    #[test]
    fn exchanging_the_methods_changes_no_p_value(
        rows in vec((0u8..6, 0u8..6), 2..30),
    ) {
        let (first, second): (Vec<f64>, Vec<f64>) =
            rows.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).unzip();
        let here = PairedLosses::new(&first, &second).unwrap();
        let there = PairedLosses::new(&second, &first).unwrap();
        let test = |paired: &PairedLosses| resampled_t_test(paired, 0.0).unwrap();
        match (test(&here), test(&there)) {
            (Some(here), Some(there)) => {
                prop_assert!((0.0..=1.0).contains(&here.p_value));
                prop_assert!((here.p_value - there.p_value).abs() <= 1e-9);
            }
            (here, there) => prop_assert!(here.is_none() && there.is_none()),
        }
    }

    #[test]
    fn an_interval_of_a_mean_stays_within_the_values(values in vec(-3.0f64..3.0, 2..20), seed: u64) {
        let bootstrap = Bootstrap::of_mean(&values, 100, seed).unwrap();
        let interval = bootstrap.percentile_interval(0.9).unwrap();
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
        prop_assert!(least - ROUNDING <= interval.lower && interval.upper <= most + ROUNDING);
        prop_assert!(interval.lower <= interval.upper);
        let again = Bootstrap::of_mean(&values, 100, seed).unwrap();
        prop_assert_eq!(again.percentile_interval(0.9).unwrap(), interval);
    }

    #[test]
    fn tests_of_transforms_ignore_reflection_and_order(pit in vec(0.0f64..=1.0, 1..60)) {
        let mirrored: Vec<f64> = pit.iter().rev().map(|u| 1.0 - u).collect();
        let (here, there) = (PitUniformity::new(&pit).unwrap(), PitUniformity::new(&mirrored).unwrap());
        prop_assert!((here.statistic - there.statistic).abs() <= ROUNDING);
        for p_value in [here.kolmogorov_smirnov_p_value, here.simultaneous_p_value] {
            prop_assert!((0.0..=1.0).contains(&p_value));
        }
        // D of n transforms is at least 1/(2n).
        prop_assert!(here.statistic >= 0.5 / pit.len() as f64 - ROUNDING);
    }

    #[test]
    fn steps_of_recall_add_up_to_the_average_precision(
        rows in vec((0u8..6, any::<bool>()), 2..40),
    ) {
        let scores: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
        let positive: Vec<bool> = rows.iter().map(|row| row.1).collect();
        if let Ok(scores) = BinaryScores::new(&scores, &positive) {
            let (mut sum, mut before) = (0.0, 0.0);
            for point in precision_recall(&scores) {
                prop_assert!(point.recall >= before && (0.0..=1.0).contains(&point.precision));
                sum += (point.recall - before) * point.precision;
                before = point.recall;
            }
            prop_assert!(close(before, 1.0) && close(sum, average_precision(&scores)));
        }
    }

    #[test]
    fn confusion_counts_add_up_and_unions_are_below_f1(case in cases()) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let confusion = ConfusionMatrix::from_probabilities(&labelled);
        let support: f64 = (0..case.classes).map(|class| confusion.support(class)).sum();
        prop_assert_eq!(support, case.rows as f64);
        for class in 0..case.classes {
            // IoU = F1/(2 − F1).
            if let (Some(union), Some(f1)) =
                (confusion.intersection_over_union(class), confusion.f1(class))
            {
                prop_assert!(close(union, f1 / (2.0 - f1)));
            }
        }
    }

    #[test]
    fn a_mixture_of_counts_never_scores_worse_than_its_components(
        (draws, rows) in (1usize..5, 1usize..10),
        rates in vec(0.01f64..20.0, 50),
        counts in vec(0u8..30, 10),
    ) {
        let rates = &rates[..draws * rows];
        let counts: Vec<f64> = counts[..rows].iter().map(|&count| f64::from(count)).collect();
        let mixture = CountMixture::new(rates, draws, rows).unwrap();
        let targeted = TargetedCounts::new(&mixture, &counts).unwrap();
        let mut components = vec![0.0; rows];
        for rates in rates.chunks(rows) {
            let single = CountMixture::new(rates, 1, rows).unwrap();
            let targeted = TargetedCounts::new(&single, &counts).unwrap();
            for (sum, found) in components.iter_mut().zip(log_probabilities(&targeted)) {
                *sum += found / draws as f64;
            }
        }
        for (mixed, component) in log_probabilities(&targeted).iter().zip(components) {
            prop_assert!(*mixed <= ROUNDING && *mixed >= component - 1e-9);
        }
        // Least at the count itself.
        let deviances = poisson_deviances(&mixture.mean(), &counts).unwrap();
        prop_assert!(deviances.iter().all(|deviance| *deviance >= 0.0));
        prop_assert!(poisson_deviances(&counts, &counts).unwrap().iter().all(|d| *d == 0.0));
        let transforms = randomised_pit_values(&targeted, 3);
        prop_assert!(transforms.iter().all(|u| (0.0..=1.0).contains(u)));
    }

    #[test]
    fn every_group_is_covered_by_its_own_intervals(
        rows in vec((0usize..3, -4.0f64..4.0), 6..40),
        level in 0.1f64..0.8,
    ) {
        let groups: Vec<usize> = rows.iter().map(|row| row.0).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row.1).collect();
        let pick = |rows: &[usize]| rows.iter().map(|&row| targets[row]).collect::<Vec<_>>();
        let mondrian = Mondrian::calibrate(&groups, |rows| {
            let (zeros, ones) = (vec![0.0; rows.len()], vec![1.0; rows.len()]);
            ConformalNormalisedResidual::calibrate(&zeros, &ones, &pick(rows), level)
        }).unwrap();
        let intervals = mondrian
            .intervals(&groups, |conformal, rows| {
                conformal.intervals(&vec![0.0; rows.len()], &vec![1.0; rows.len()])
            })
            .unwrap();
        let covered = intervals.covered(&targets).unwrap();
        for group in coverage_by_group(&groups, &covered, level, None).unwrap() {
            prop_assert!(group.coverage >= level - ROUNDING);
        }
    }
}
