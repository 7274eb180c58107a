//! Properties of what is fitted on held-out rows, and of calibration errors without fixed bins.

use burn_bayes_eval::{
    HeldOut, LabelledProbabilities, ReliabilityDiagram, TargetedMixture, VarianceScaling,
    adaptive_calibration_error, smooth_calibration_error, subgroup_calibration,
    top_label_calibration_error,
};
use proptest::prelude::*;

use crate::properties::{ROUNDING, cases, close, real_cases};

/// The first two and the other rows.
fn ids(rows: usize) -> (Vec<usize>, Vec<usize>) {
    ((0..rows).collect(), vec![rows])
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
        let scores: [Score; 2] = [
            |rows, bins| adaptive_calibration_error(rows, bins).unwrap(),
            |rows, bins| top_label_calibration_error(rows, bins).unwrap(),
        ];
        for score in scores {
            let (found, again) = (score(&one, bins), score(&two, bins));
            prop_assert!((0.0..=1.0 + ROUNDING).contains(&found));
            prop_assert!((found - again).abs() <= ROUNDING);
        }
        let groups: Vec<usize> = case.uncertainty.iter().map(|&u| u as usize).collect();
        for group in subgroup_calibration(&one, &groups, None).unwrap() {
            prop_assert!((0.0..=1.0).contains(&group.p_value));
            prop_assert!(group.p_value <= group.adjusted_p_value && group.adjusted_p_value <= 1.0);
        }
    }

    #[test]
    fn scaled_variances_are_multiples(case in real_cases()) {
        let mixture = case.mixture();
        let targeted = TargetedMixture::new(&mixture, &case.targets).unwrap();
        let (known, scored) = ids(case.rows);
        let held_out = HeldOut::new(targeted, &known, &scored).unwrap();
        let scaling = VarianceScaling::most_likely(&held_out);
        let scaled = scaling.apply(&mixture).unwrap();
        for (new, old) in scaled.variance().into_iter().zip(mixture.variance()) {
            prop_assert!(close(new, scaling.factor() * old));
        }
    }
}
