//! Properties of what is fitted on held-out rows, and of calibration errors without fixed bins.

use burn_bayes_eval::{
    BayesianBinning, ClassProbabilities, DirichletCalibration, EvalError, GroupingLoss, HeldOut,
    HistogramBinning, IsotonicCalibration, LabelledProbabilities, OffDiagonalPenalty,
    QuantileRecalibration, ReliabilityDiagram, TargetedMixture, VarianceScaling,
    adaptive_calibration_error, pit_values, smooth_calibration_error, subgroup_calibration,
    thresholded_calibration_error, top_label_calibration_error,
};
use proptest::prelude::*;

use crate::properties::{ROUNDING, cases, close, real_cases};

/// The first two and the other rows.
fn ids(rows: usize) -> (Vec<usize>, Vec<usize>) {
    ((0..rows).collect(), vec![rows])
}

fn are_distributions(table: &ClassProbabilities<'_>) -> bool {
    ClassProbabilities::new(table.values(), table.rows(), table.classes()).is_ok()
}

proptest! {
    // A nearly calibrated table takes thousands of cosines per row.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_smooth_error_ignores_the_order_and_is_below_the_binned_one(case in cases()) {
        let other = case.reordered();
        let (average, reordered) = (case.draws().average(), other.draws().average());
        let one = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let two = LabelledProbabilities::new(&reordered, &other.labels).unwrap();
        let (found, again) = (smooth_calibration_error(&one), smooth_calibration_error(&two));
        prop_assert!((found - again).abs() <= 1e-4 * found + ROUNDING);
        // Smoothing is an average, so the error is at most that of one bin per confidence.
        let finest = ReliabilityDiagram::equal_width(&one, 1_000_000).unwrap();
        prop_assert!(found <= finest.expected_calibration_error() * (1.0 + 1e-4) + 1e-6);
    }
}

proptest! {
    #[test]
    fn errors_without_fixed_bins_ignore_the_order_of_rows(case in cases(), bins in 1usize..6) {
        let bins = bins.min(case.rows);
        let other = case.reordered();
        let (average, reordered) = (case.draws().average(), other.draws().average());
        let one = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let two = LabelledProbabilities::new(&reordered, &other.labels).unwrap();
        type Score = fn(&LabelledProbabilities<'_>, usize) -> f64;
        let scores: [Score; 3] = [
            |rows, bins| adaptive_calibration_error(rows, bins).unwrap(),
            |rows, bins| thresholded_calibration_error(rows, bins, 0.1).unwrap(),
            |rows, bins| top_label_calibration_error(rows, bins).unwrap(),
        ];
        for score in scores {
            let (found, again) = (score(&one, bins), score(&two, bins));
            prop_assert!((0.0..=1.0 + ROUNDING).contains(&found));
            prop_assert!((found - again).abs() <= ROUNDING);
        }
        let groups: Vec<usize> = case.uncertainty.iter().map(|&u| u as usize).collect();
        let loss = GroupingLoss::new(&one, &groups, bins).unwrap();
        prop_assert!((0.0..=0.25 + ROUNDING).contains(&loss.explained));
        for group in subgroup_calibration(&one, &groups).unwrap() {
            prop_assert!((0.0..=1.0).contains(&group.p_value));
            prop_assert!(group.p_value <= group.adjusted_p_value && group.adjusted_p_value <= 1.0);
        }
    }

    #[test]
    fn recalibrated_rows_are_distributions(case in cases()) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let (known, scored) = ids(case.rows);
        let held_out = HeldOut::new(labelled, &known, &scored).unwrap();
        let penalty = OffDiagonalPenalty { off_diagonal: 1.0, intercept: 1.0 };
        let applied: [Result<ClassProbabilities<'_>, EvalError>; 4] = [
            IsotonicCalibration::fit(&held_out).and_then(|f| f.apply(&average)),
            HistogramBinning::fit(&held_out, 1).and_then(|f| f.apply(&average)),
            BayesianBinning::fit(&held_out).and_then(|f| f.apply(&average)),
            DirichletCalibration::fit(&held_out, penalty).and_then(|f| f.apply(&average)),
        ];
        let all_present =
            case.classes > 1 && (0..case.classes).all(|class| case.labels.contains(&class));
        for (index, found) in applied.into_iter().enumerate() {
            match found {
                Ok(table) => prop_assert!(are_distributions(&table)),
                Err(error) => prop_assert!(error.is_data() && (!all_present || index == 3)),
            }
        }
    }

    #[test]
    fn recalibrated_intervals_are_monotone_in_the_level(case in real_cases(), p in 0.05f64..0.9) {
        let mixture = case.mixture();
        let targeted = TargetedMixture::new(&mixture, &case.targets).unwrap();
        let (known, scored) = ids(case.rows);
        let held_out = HeldOut::new(targeted, &known, &scored).unwrap();
        if let Ok(fitted) = QuantileRecalibration::fit(&held_out) {
            prop_assert!(fitted.level(p).unwrap() <= fitted.level(p + 0.05).unwrap());
            let own = fitted.apply(&pit_values(&targeted)).unwrap();
            prop_assert!(own.iter().all(|u| (0.0..=1.0).contains(u)));
        }
        let scaling = VarianceScaling::fit(&held_out).unwrap();
        let scaled = scaling.apply(&mixture).unwrap();
        for (new, old) in scaled.variance().into_iter().zip(mixture.variance()) {
            prop_assert!(close(new, scaling.factor() * old));
        }
    }
}
