//! Properties for every input: ranges, identities between scores, and invariance to the order of rows.

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ConformalNormalisedResidual, ConformalSets,
    DrawProbabilities, GaussianMixture, HeldOut, LabelledProbabilities, NoisePrecision,
    PredictionIntervals, QuantileCalibration, ReferralRow, ReliabilityDiagram, RiskCoverage,
    Selection, SetScore, TargetedMixture, Temperature, accuracy, auroc, average_precision, brier,
    classwise_calibration_error, crps, expected_entropy, false_positive_rate_at, mixture_nll,
    model_disagreement, mutual_information, nll, one_vs_rest_auroc, pit_values, predictive_entropy,
    quantiles, referral_table, variation_ratio, zero_one_losses,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Rounding of sums of at most a few hundred terms of size about one.
pub(crate) const ROUNDING: f64 = 1e3 * f64::EPSILON;

/// Draws of a table, its labels, an uncertainty with many ties, and an order of the rows.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) draws: usize,
    pub(crate) rows: usize,
    pub(crate) classes: usize,
    pub(crate) values: Vec<f64>,
    pub(crate) labels: Vec<usize>,
    pub(crate) uncertainty: Vec<f64>,
    pub(crate) order: Vec<usize>,
}

impl Case {
    pub(crate) fn draws(&self) -> DrawProbabilities<'_> {
        DrawProbabilities::new(&self.values, self.draws, self.rows, self.classes).unwrap()
    }

    /// The same rows in the given order.
    pub(crate) fn reordered(&self) -> Self {
        let classes = self.classes;
        let mut values = Vec::with_capacity(self.values.len());
        for table in self.values.chunks(self.rows * classes) {
            for &row in &self.order {
                values.extend_from_slice(&table[row * classes..][..classes]);
            }
        }
        let labels = self.order.iter().map(|&row| self.labels[row]).collect();
        let uncertainty = self
            .order
            .iter()
            .map(|&row| self.uncertainty[row])
            .collect();
        Self {
            values,
            labels,
            uncertainty,
            ..self.clone()
        }
    }
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (1usize..5, 1usize..25, 1usize..5).prop_flat_map(|(draws, rows, classes)| {
        // Integer weights, so that equal probabilities, zeros and ones are common.
        let weights = vec(vec(0u8..6, classes), draws * rows);
        let labels = vec(0..classes, rows);
        let uncertainty = vec((0u8..5).prop_map(f64::from), rows);
        let order = Just((0..rows).collect::<Vec<usize>>()).prop_shuffle();
        (weights, labels, uncertainty, order).prop_map(
            move |(weights, labels, uncertainty, order)| {
                let values = weights
                    .iter()
                    .flat_map(|weights| distribution(weights))
                    .collect();
                Case {
                    draws,
                    rows,
                    classes,
                    values,
                    labels,
                    uncertainty,
                    order,
                }
            },
        )
    })
}

fn distribution(weights: &[u8]) -> Vec<f64> {
    let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    if sum == 0.0 {
        return vec![1.0 / weights.len() as f64; weights.len()];
    }
    weights
        .iter()
        .map(|&weight| f64::from(weight) / sum)
        .collect()
}

/// Draws of means, precisions and targets for the same rows.
#[derive(Debug, Clone)]
pub(crate) struct RealCase {
    pub(crate) draws: usize,
    pub(crate) rows: usize,
    pub(crate) means: Vec<f64>,
    pub(crate) precisions: Vec<f64>,
    pub(crate) targets: Vec<f64>,
}

impl RealCase {
    pub(crate) fn mixture(&self) -> GaussianMixture<'_> {
        let noise = NoisePrecision::PerDraw(&self.precisions);
        GaussianMixture::new(&self.means, self.draws, self.rows, noise).unwrap()
    }
}

pub(crate) fn real_cases() -> impl Strategy<Value = RealCase> {
    (1usize..6, 1usize..10).prop_flat_map(|(draws, rows)| {
        let parts = (
            vec(-5.0..5.0, draws * rows),
            vec(0.05..20.0, draws),
            vec(-8.0..8.0, rows),
        );
        parts.prop_map(move |(means, precisions, targets)| RealCase {
            draws,
            rows,
            means,
            precisions,
            targets,
        })
    })
}

pub(crate) fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0)
}

fn option_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => close(a, b),
        (None, None) => true,
        _ => false,
    }
}

proptest! {
    #[test]
    fn uncertainties_stay_in_their_ranges(case in cases()) {
        let draws = case.draws();
        let most = (case.classes as f64).ln() + ROUNDING;
        let total = predictive_entropy(&draws.average());
        let expected = expected_entropy(&draws);
        let information = mutual_information(&draws);
        let votes = variation_ratio(&draws);
        let disagreement = model_disagreement(&draws);
        for row in 0..case.rows {
            prop_assert!((0.0..=most).contains(&total[row]));
            prop_assert!((0.0..=most).contains(&expected[row]));
            // Jensen: the average is at least as uncertain as the draws are on average.
            prop_assert!(total[row] - expected[row] >= -ROUNDING);
            prop_assert!((0.0..=most).contains(&information[row]));
            prop_assert!((information[row] - (total[row] - expected[row])).abs() <= ROUNDING);
            prop_assert!((0.0..=1.0 - 1.0 / case.classes as f64 + ROUNDING).contains(&votes[row]));
            // MD² = mean ‖p_s‖² − ‖p̄‖²: the first term is at most 1, the second at least 1/C.
            let most = 1.0 - 1.0 / case.classes as f64 + ROUNDING;
            prop_assert!((0.0..=most).contains(&disagreement[row]));
            // Pinsker: I is the mean divergence of draws from their average, which is at least ½‖·‖₁².
            prop_assert!(information[row] >= 0.5 * disagreement[row] - ROUNDING);
        }
    }

    #[test]
    fn averaging_never_costs_a_proper_score(case in cases()) {
        let draws = case.draws();
        let average = draws.average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        prop_assert!((0.0..=2.0 + ROUNDING).contains(&brier(&labelled)));
        prop_assert!(nll(&labelled) >= 0.0);
        let (mut likelihood, mut squares) = (0.0, 0.0);
        for table in case.values.chunks(case.rows * case.classes) {
            let table = ClassProbabilities::new(table, case.rows, case.classes).unwrap();
            let labelled = LabelledProbabilities::new(&table, &case.labels).unwrap();
            likelihood += nll(&labelled) / case.draws as f64;
            squares += brier(&labelled) / case.draws as f64;
        }
        prop_assert!(nll(&labelled) <= likelihood + ROUNDING);
        // The Brier score's gain is exactly the mean model disagreement.
        let disagreement = model_disagreement(&draws).iter().sum::<f64>() / case.rows as f64;
        prop_assert!(close(squares - brier(&labelled), disagreement));
    }

    #[test]
    fn calibration_errors_stay_in_their_ranges(case in cases(), bins in 1usize..20) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let width = ReliabilityDiagram::equal_width(&labelled, bins).unwrap();
        let mass = ReliabilityDiagram::equal_mass(&labelled, bins).unwrap();
        for diagram in [&width, &mass] {
            let rows: usize = diagram.bins().iter().map(|bin| bin.count).sum();
            prop_assert_eq!(rows, case.rows);
            let expected = diagram.expected_calibration_error();
            let maximum = diagram.maximum_calibration_error();
            prop_assert!(0.0 <= expected && expected <= maximum + ROUNDING);
            prop_assert!(maximum <= 1.0 + ROUNDING);
            let hits: f64 =
                diagram.bins().iter().map(|b| b.count as f64 * b.accuracy.unwrap_or(0.0)).sum();
            prop_assert!(close(hits / rows as f64, accuracy(&labelled)));
        }
        for bin in width.bins().iter().filter(|bin| bin.count > 0) {
            let confidence = bin.mean_confidence.unwrap();
            let inside = bin.lower - ROUNDING <= confidence && confidence <= bin.upper + ROUNDING;
            prop_assert!(inside);
        }
        let counts = mass.bins().iter().map(|bin| bin.count);
        prop_assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
        let classwise = classwise_calibration_error(&labelled, bins).unwrap();
        prop_assert!((0.0..=1.0 + ROUNDING).contains(&classwise));
    }

    #[test]
    fn the_order_of_rows_does_not_matter(case in cases(), bins in 1usize..8) {
        let other = case.reordered();
        let (here, there) = (case.draws().average(), other.draws().average());
        let here = LabelledProbabilities::new(&here, &case.labels).unwrap();
        let there = LabelledProbabilities::new(&there, &other.labels).unwrap();
        prop_assert!(close(nll(&here), nll(&there)));
        prop_assert!(close(brier(&here), brier(&there)));
        prop_assert!(close(accuracy(&here), accuracy(&there)));
        prop_assert!(option_close(one_vs_rest_auroc(&here), one_vs_rest_auroc(&there)));
        for diagram in [ReliabilityDiagram::equal_width, ReliabilityDiagram::equal_mass] {
            let (here, there) = (diagram(&here, bins).unwrap(), diagram(&there, bins).unwrap());
            let errors = [&here, &there].map(ReliabilityDiagram::expected_calibration_error);
            prop_assert!(close(errors[0], errors[1]));
            let errors = [&here, &there].map(ReliabilityDiagram::maximum_calibration_error);
            prop_assert!(close(errors[0], errors[1]));
        }

        let fractions = [1.0, 0.9, 0.7, 0.5, 0.2, 0.01];
        let table = referral_table(&here, &case.uncertainty, &fractions).unwrap();
        let reordered = referral_table(&there, &other.uncertainty, &fractions).unwrap();
        let same = |a: &ReferralRow, b: &ReferralRow| {
            a.kept == b.kept
                && close(a.accuracy, b.accuracy)
                && close(a.balanced_accuracy, b.balanced_accuracy)
                && close(a.macro_f1, b.macro_f1)
                && option_close(a.binary_f1, b.binary_f1)
                && option_close(a.auroc, b.auroc)
        };
        prop_assert!(table.iter().zip(&reordered).all(|(a, b)| same(a, b)));

        let curve = RiskCoverage::new(&case.uncertainty, &zero_one_losses(&here)).unwrap();
        let reordered = RiskCoverage::new(&other.uncertainty, &zero_one_losses(&there)).unwrap();
        prop_assert_eq!(curve, reordered);
    }

    #[test]
    fn risk_coverage_areas_stay_in_their_ranges(case in cases(), target in 0.0..1.0) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let losses = zero_one_losses(&labelled);
        let curve = RiskCoverage::new(&case.uncertainty, &losses).unwrap();
        prop_assert!((0.0..=1.0).contains(&curve.aurc()));
        prop_assert!(curve.aurc() - curve.optimal_aurc() >= -ROUNDING);
        prop_assert!((0.0..=1.0).contains(&curve.excess_aurc()));
        prop_assert!((0.0..=0.5 + ROUNDING).contains(&curve.augrc()));
        let last = curve.points()[case.rows - 1];
        prop_assert!(close(last.risk, 1.0 - accuracy(&labelled)) && last.coverage == 1.0);
        let best = RiskCoverage::new(&losses, &losses).unwrap();
        prop_assert_eq!(best.excess_aurc(), 0.0);

        // A higher risk never keeps fewer rows, and the guarantee holds.
        let strict = curve.coverage_at_risk(0.5 * target).unwrap();
        let lenient = curve.coverage_at_risk(target).unwrap();
        prop_assert!(strict.map_or(0, |p| p.kept) <= lenient.map_or(0, |p| p.kept));
        if let Some(point) = lenient {
            let rows = case.uncertainty.iter().zip(&losses);
            let kept: Vec<f64> =
                rows.filter(|(u, _)| **u <= point.threshold).map(|(_, loss)| *loss).collect();
            prop_assert_eq!(kept.len(), point.kept);
            prop_assert!(kept.iter().sum::<f64>() / kept.len() as f64 <= target + ROUNDING);
        }
    }

    #[test]
    fn augrc_follows_from_accuracy_and_auroc(case in cases()) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let losses = zero_one_losses(&labelled);
        let wrong: Vec<bool> = losses.iter().map(|&loss| loss == 1.0).collect();
        let curve = RiskCoverage::new(&case.uncertainty, &losses).unwrap();
        let a = accuracy(&labelled);
        // Without correct or without wrong rows, the first term is zero for any AUROC.
        let area = BinaryScores::new(&case.uncertainty, &wrong).map_or(0.5, |s| auroc(&s));
        let expected = (1.0 - area) * a * (1.0 - a) + 0.5 * (1.0 - a) * (1.0 - a);
        prop_assert!(close(curve.augrc(), expected));
    }

    #[test]
    fn referral_and_risk_coverage_tell_the_same_story(case in cases()) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let losses = zero_one_losses(&labelled);
        let curve = RiskCoverage::new(&case.uncertainty, &losses).unwrap();
        for point in curve.points() {
            let selection = Selection::most_certain(&case.uncertainty, point.coverage).unwrap();
            prop_assert_eq!(selection.kept(), point.kept);
            let weights: f64 = selection.rows().iter().map(|kept| kept.weight).sum();
            prop_assert!(close(weights, point.kept as f64));
            prop_assert!(close(selection.mean(&losses).unwrap(), point.risk));
            let table = referral_table(&labelled, &case.uncertainty, &[point.coverage]).unwrap();
            prop_assert!(close(1.0 - table[0].accuracy, point.risk));
        }
    }

    #[test]
    fn auroc_is_the_share_of_pairs_ranked_right(
        rows in vec((0u8..6, any::<bool>()), 2..40),
        rates in (0.01f64..1.0, 0.01f64..1.0),
    ) {
        let scores: Vec<f64> = rows.iter().map(|(score, _)| f64::from(*score)).collect();
        let positive: Vec<bool> = rows.iter().map(|(_, positive)| *positive).collect();
        let kinds = positive.iter().filter(|&&kind| kind).count();
        let built = BinaryScores::new(&scores, &positive);
        prop_assert_eq!(built.is_err(), kinds == 0 || kinds == rows.len());
        if let Ok(built) = built {
            let (mut pairs, mut right) = (0.0, 0.0);
            for (a, hit) in &rows {
                for (b, other) in &rows {
                    if *hit && !*other {
                        pairs += 1.0;
                        right += if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 };
                    }
                }
            }
            prop_assert!(close(auroc(&built), right / pairs));
            let negated: Vec<f64> = scores.iter().map(|score| -score).collect();
            let negated = BinaryScores::new(&negated, &positive).unwrap();
            prop_assert!(close(auroc(&built) + auroc(&negated), 1.0));
            let precision = average_precision(&built);
            prop_assert!(0.0 < precision && precision <= 1.0 + ROUNDING);
            let (low, high) = (rates.0.min(rates.1), rates.0.max(rates.1));
            let [low, high] =
                [low, high].map(|rate| false_positive_rate_at(&built, rate).unwrap());
            prop_assert!((0.0..=1.0).contains(&low) && low <= high && high <= 1.0);
        }
    }

    #[test]
    fn crps_is_positive(case in real_cases()) {
        let mixture = case.mixture();
        let score = crps(&TargetedMixture::new(&mixture, &case.targets).unwrap());
        prop_assert!(score >= 0.0);
    }

    #[test]
    fn a_mixture_never_scores_worse_than_its_components(case in real_cases()) {
        // Both scores are convex in the distribution.
        let mixture = case.mixture();
        let targeted = TargetedMixture::new(&mixture, &case.targets).unwrap();
        let (mut likelihood, mut ranked) = (0.0, 0.0);
        for (means, &precision) in case.means.chunks(case.rows).zip(&case.precisions) {
            let noise = NoisePrecision::Shared(precision);
            let single = GaussianMixture::new(means, 1, case.rows, noise).unwrap();
            let targeted = TargetedMixture::new(&single, &case.targets).unwrap();
            likelihood += mixture_nll(&targeted) / case.draws as f64;
            ranked += crps(&targeted) / case.draws as f64;
        }
        prop_assert!(mixture_nll(&targeted) <= likelihood + ROUNDING * likelihood.abs().max(1.0));
        prop_assert!(crps(&targeted) <= ranked + ROUNDING * ranked.max(1.0));
    }

    #[test]
    fn intervals_nest_and_quantiles_invert_the_distribution(
        case in real_cases(),
        levels in (0.01f64..0.99, 0.01f64..0.99),
    ) {
        let mixture = case.mixture();
        let (low, high) = (levels.0.min(levels.1), levels.0.max(levels.1));
        let narrow = PredictionIntervals::central(&mixture, low).unwrap();
        let wide = PredictionIntervals::central(&mixture, high).unwrap();
        let coverage = |intervals: &PredictionIntervals<'_>| {
            intervals.coverage(&case.targets).unwrap()
        };
        prop_assert!(coverage(&narrow) <= coverage(&wide));
        prop_assert!(0.0 < narrow.mean_width() && narrow.mean_width() <= wide.mean_width());
        let found = quantiles(&mixture, high).unwrap();
        for mass in pit_values(&TargetedMixture::new(&mixture, &found).unwrap()) {
            // ε in x times the largest density of a component, √(20/2π), and size 10.
            prop_assert!((mass - high).abs() <= ROUNDING);
        }
    }

    #[test]
    fn observed_frequencies_rise_and_errors_stay_in_their_range(
        pit in vec(0.0..=1.0, 1..40),
        levels in 1usize..30,
    ) {
        let calibration = QuantileCalibration::new(&pit, levels).unwrap();
        prop_assert_eq!(calibration.points().len(), levels);
        let rising = |pair: &[burn_bayes_eval::QuantilePoint]| {
            pair[0].level < pair[1].level && pair[0].observed <= pair[1].observed
        };
        prop_assert!(calibration.points().windows(2).all(rising));
        let mean = calibration.mean_absolute_error();
        prop_assert!((0.0..=1.0).contains(&mean));
    }

    #[test]
    fn calibration_rows_are_covered_at_least_at_the_level(
        case in cases(),
        level in 0.05f64..0.95,
    ) {
        // ⌈(n + 1)ℓ⌉ of n rows score at most the threshold, which is at least ℓn.
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let lac = ConformalSets::calibrate(&labelled, level, SetScore::Lac).unwrap();
        let aps = ConformalSets::calibrate(&labelled, level, SetScore::Aps).unwrap();
        let every = [
            lac.sets(&average).unwrap(),
            aps.sets(&average).unwrap(),
        ];
        for sets in every {
            prop_assert!(sets.coverage(&case.labels).unwrap() >= level - ROUNDING);
            prop_assert!(sets.mean_size() <= case.classes as f64);
        }
        // A set with a class contains all classes that are more probable.
        let sets = aps.sets(&average).unwrap();
        for row in 0..case.rows {
            let least = sets.classes_of(row).iter().map(|&c| average.row(row)[c]).fold(1.0, f64::min);
            let above = (0..case.classes).filter(|&c| average.row(row)[c] > least);
            prop_assert!(above.clone().all(|c| sets.contains(row, c)));
        }
    }

    #[test]
    fn a_fitted_temperature_is_no_worse_than_any_other(case in cases(), other in 0.02f64..50.0) {
        let average = case.draws().average();
        let labelled = LabelledProbabilities::new(&average, &case.labels).unwrap();
        let score = |temperature: Temperature| {
            let scaled = temperature.apply(&average);
            nll(&LabelledProbabilities::new(&scaled, &case.labels).unwrap())
        };
        match Temperature::fit(&HeldOut::for_new_rows(labelled)) {
            Ok(fitted) => {
                let (best, other) = (score(fitted), score(Temperature::new(other).unwrap()));
                prop_assert!(best <= other + ROUNDING * other.max(1.0));
            }
            Err(error) => {
                prop_assert!(error.is_data() && nll(&labelled) == f64::INFINITY);
            }
        }
    }

    #[test]
    fn conformal_intervals_cover_their_calibration_rows(
        case in real_cases(),
        level in 0.05f64..0.95,
    ) {
        let mixture = case.mixture();
        let spreads: Vec<f64> = mixture.variance().into_iter().map(f64::sqrt).collect();
        let predicted = mixture.mean();
        let ones = vec![1.0; case.rows];
        let plain =
            ConformalNormalisedResidual::calibrate(&predicted, &ones, &case.targets, level).unwrap();
        let intervals = plain.intervals(&predicted, &ones).unwrap();
        // A residual on the threshold may be outside its interval because of rounding.
        let slack = |limits: &[f64], by: f64| limits.iter().map(|l| l + by).collect::<Vec<_>>();
        let (lower, upper) = (intervals.lower(), intervals.upper());
        let wider =
            PredictionIntervals::new(slack(lower, -ROUNDING), slack(upper, ROUNDING)).unwrap();
        prop_assert!(wider.coverage(&case.targets).unwrap() >= level - ROUNDING);

        let normalised = ConformalNormalisedResidual::calibrate(
            &predicted, &spreads, &case.targets, level,
        ).unwrap();
        let widths = normalised.intervals(&predicted, &spreads).unwrap();
        for (row, spread) in spreads.iter().enumerate() {
            let expected = 2.0 * normalised.threshold() * spread;
            let found = widths.upper()[row] - widths.lower()[row];
            prop_assert!(found == expected || close(found, expected));
        }
    }
}
