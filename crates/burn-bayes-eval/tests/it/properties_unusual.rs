//! Properties of scores of unusual rows, of sums over chunks, and of bounds and diagnostics.

use burn_bayes_eval::{
    BinaryScores, Chains, DrawProbabilities, DrawScore, DrawTemperature, HeldOut, LabelledDraws,
    LabelledProbabilities, LogitScore, MahalanobisDistance, MemberDisagreement, NearestFeatures,
    PatchTotals, RankingTotals, RowOutputs, SelectiveBounds, UnusualScore, auroc,
    mutual_information, nll,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::properties::{ROUNDING, cases, close};

/// Three features of each row.
fn features() -> impl Strategy<Value = Vec<f64>> {
    vec(vec(-3.0f64..3.0, 3), 6..20).prop_map(|rows| rows.concat())
}

proptest! {
    #[test]
    fn energy_lies_within_ln_c_of_the_largest_logit(
        logits in vec(vec(-50.0f64..50.0, 4), 1..10),
        shift in -20.0f64..20.0,
    ) {
        let rows = logits.len();
        let logits = logits.concat();
        let (most, energy) = (
            LogitScore::MaximumLogit.of(&logits, rows, 4).unwrap(),
            LogitScore::Energy.of(&logits, rows, 4).unwrap(),
        );
        let moved: Vec<f64> = logits.iter().map(|z| z + shift).collect();
        let again = LogitScore::Energy.of(&moved, rows, 4).unwrap();
        for row in 0..rows {
            prop_assert!(energy[row] <= most[row] + ROUNDING);
            prop_assert!(most[row] <= energy[row] + 4f64.ln() + ROUNDING);
            prop_assert!((again[row] - (energy[row] - shift)).abs() <= ROUNDING * 100.0);
        }
    }

    #[test]
    fn distances_ignore_units_and_lengths(train in features(), new in features(), scale in 0.1f64..10.0) {
        let labels = vec![0; train.len() / 3];
        let scaled = |of: &[f64]| of.iter().map(|x| scale * x).collect::<Vec<_>>();
        let fit = |of: &[f64]| MahalanobisDistance::fit(of, &labels, 3, 0.0);
        // Random features may be nearly singular.
        if let (Ok(one), Ok(two)) = (fit(&train), fit(&scaled(&train))) {
            let pairs = one.scores(&new).unwrap().into_iter().zip(two.scores(&scaled(&new)).unwrap());
            for (one, two) in pairs {
                prop_assert!(one >= 0.0 && (one - two).abs() <= 1e-6 * one.max(1.0));
            }
        }
        let nearest = |of: &[f64], k| NearestFeatures::fit(of, 3, k).unwrap();
        let (first, second) = (nearest(&train, 1), nearest(&scaled(&train), 2));
        let found = first.scores(&new).unwrap().into_iter().zip(second.scores(&new).unwrap());
        for (near, far) in found {
            prop_assert!((0.0..=2.0 + ROUNDING).contains(&near) && near <= far + ROUNDING);
        }
        prop_assert!(first.scores(&train).unwrap().iter().all(|own| *own <= 1e-7));
    }

    #[test]
    fn one_interface_gives_the_scores_themselves(case in cases()) {
        let draws = case.draws();
        let logits: Vec<f64> = draws.average().values().iter().map(|p| p.max(1e-9).ln()).collect();
        let outputs = RowOutputs::new(&draws).with_logits(&logits).unwrap();
        for score in DrawScore::ALL {
            prop_assert_eq!(score.of_outputs(&outputs).unwrap(), score.of(&draws));
        }
        for score in LogitScore::ALL {
            let direct = score.of(&logits, case.rows, case.classes).unwrap();
            prop_assert_eq!(score.of_outputs(&outputs).unwrap(), direct);
        }
    }

    #[test]
    fn the_range_of_counted_scores_has_the_exact_area(
        rows in vec((0.0f64..1.0, any::<bool>()), 2..40),
        cells in 1usize..30,
    ) {
        let scores: Vec<f64> = rows.iter().map(|row| row.0).collect();
        let positive: Vec<bool> = rows.iter().map(|row| row.1).collect();
        let mut totals = RankingTotals::new(0.0, 1.0, cells).unwrap();
        totals.add(&scores, &positive).unwrap();
        if let Ok(exact) = BinaryScores::new(&scores, &positive) {
            let range = totals.auroc().unwrap().range;
            prop_assert!(range.lower - ROUNDING <= auroc(&exact));
            prop_assert!(auroc(&exact) <= range.upper + ROUNDING);
        }
    }

    #[test]
    fn a_patch_of_one_pixel_counts_pixels(
        pixels in vec((any::<bool>(), 0u8..4), 1..40),
        threshold in 0u8..4,
    ) {
        let right: Vec<Option<bool>> = pixels.iter().map(|pixel| Some(pixel.0)).collect();
        let uncertainty: Vec<f64> = pixels.iter().map(|pixel| f64::from(pixel.1)).collect();
        let mut totals = PatchTotals::new(1, 0.5, f64::from(threshold)).unwrap();
        totals.add(&right, &uncertainty, pixels.len()).unwrap();
        let expected = pixels.iter().filter(|(right, u)| *right == (*u <= threshold)).count();
        prop_assert!(close(totals.pavpu().unwrap(), expected as f64 / pixels.len() as f64));
    }

    #[test]
    fn members_share_the_mutual_information(case in cases(), groups in vec(0usize..2, 5)) {
        let draws = case.draws();
        let members: Vec<usize> = groups[..case.draws].to_vec();
        let parts = MemberDisagreement::of_classes(&draws, &members).unwrap();
        for (row, all) in mutual_information(&draws).into_iter().enumerate() {
            prop_assert!(parts.within[row] >= 0.0 && parts.between[row] >= 0.0);
            prop_assert!((parts.within[row] + parts.between[row] - all).abs() <= ROUNDING);
        }
    }

    #[test]
    fn a_fitted_map_is_no_worse_than_none(case in cases()) {
        prop_assume!(case.classes > 1);
        let (ids, scored): (Vec<usize>, _) = ((0..case.rows).collect(), [case.rows]);
        let draws = case.draws();
        let of = |draws: &DrawProbabilities<'_>| {
            nll(&LabelledProbabilities::new(&draws.average(), &case.labels).unwrap())
        };
        let labelled = LabelledDraws::new(&draws, &case.labels).unwrap();
        let held_out = HeldOut::new(labelled, &ids, &scored).unwrap();
        if let Ok(fitted) = DrawTemperature::fit(&held_out) {
            prop_assert!(of(&fitted.apply(&draws)) <= of(&draws) + ROUNDING * of(&draws).max(1.0));
        }
    }

    #[test]
    fn selective_bounds_hold_on_both_sides(
        rows in vec((0u8..5, any::<bool>()), 1..40),
        confidence in 0.5f64..0.99,
    ) {
        let uncertainty: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
        let losses: Vec<f64> = rows.iter().map(|row| f64::from(u8::from(row.1))).collect();
        let bounds = SelectiveBounds::exact(&uncertainty, &losses, &[0.0, 2.0, 4.0], confidence).unwrap();
        for point in bounds.points() {
            if let Some(risk) = point.risk {
                prop_assert!(risk <= point.risk_upper + ROUNDING && point.risk_upper <= 1.0);
            }
            prop_assert!(point.coverage_lower <= point.coverage + ROUNDING);
        }
    }

    #[test]
    fn equal_chains_have_converged(values in vec(-3.0f64..3.0, 8..30)) {
        prop_assume!(values.iter().any(|value| *value != values[0]));
        let both = [values.as_slice(), &values].concat();
        let chains = Chains::new(&both, 2, values.len()).unwrap();
        prop_assert!(chains.r_hat().is_none_or(|r_hat| r_hat.is_finite() && r_hat > 0.0));
    }
}
