//! The negative log-likelihood of single rows.
//!
//! Several targets of a row are predicted by the same draws, so they have a joint mixture,
//!
//!   ln p(y) = ln (1/S) Σ_s Π_t p(y_t | draw s),
//!
//! whose logarithm is computed as max + ln Σ exp(· − max).

use burn_bayes::eval::{LabelledProbabilities, log_losses};
use burn_bayes_data::Targets;

use crate::error::Result;
use crate::predict::{Predictions, TargetPredictions, mismatched};
use burn_bayes::eval::Bounded;

/// The NLL of every row in nats, in the unit of the target; of several targets the joint one.
pub(crate) fn row_costs(predictions: &Predictions, targets: &Targets) -> Result<Vec<f64>> {
    if let (Some(mixture), Targets::Real(values)) = (predictions.mixture()?, targets) {
        return mixture.costs(values);
    }
    match (predictions, targets) {
        (Predictions::Classes(predictions), Targets::Classes(labels)) => {
            let average = predictions.checked()?.average();
            Ok(log_losses(&LabelledProbabilities::new(&average, labels)?))
        }
        (Predictions::Several(targets), Targets::Several(columns))
            if targets.len() == columns.len() =>
        {
            joint_costs(targets, columns, predictions.draws())
        }
        _ => Err(mismatched(predictions)),
    }
}

fn joint_costs(
    targets: &[TargetPredictions],
    columns: &[Targets],
    draws: usize,
) -> Result<Vec<f64>> {
    let of_draw = |draw: usize| -> Result<Vec<f64>> {
        let mut logarithms = Vec::new();
        for (target, column) in targets.iter().zip(columns) {
            let costs = row_costs(&target.predictions.of_draw(draw), column)?;
            logarithms.resize(costs.len(), 0.0);
            let sums = logarithms.iter_mut().zip(costs);
            sums.for_each(|(sum, cost)| *sum -= cost);
        }
        Ok(logarithms)
    };
    let logarithms = (0..draws).map(of_draw).collect::<Result<Vec<_>>>()?;
    let rows = logarithms.first().map_or(0, Vec::len);
    let cost = |row: usize| {
        let terms = || logarithms.iter().map(|of_draw| of_draw[row]);
        let largest = terms().fold(f64::NEG_INFINITY, f64::at_least);
        if largest == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        let sum: f64 = terms().map(|term| (term - largest).exp()).sum();
        (draws as f64).ln() - largest - sum.ln()
    };
    Ok((0..rows).map(cost).collect())
}

#[cfg(test)]
mod tests {
    use burn_bayes::eval::{GaussianMixture, NoisePrecision, TargetedMixture, joint_log_densities};

    use super::*;
    use crate::predict::{ClassPredictions, NoiseDeviations, RealPredictions};

    fn of_target(name: &str, predictions: Predictions) -> TargetPredictions {
        TargetPredictions {
            name: name.into(),
            unit: 1.0,
            predictions,
        }
    }

    fn reals(means: &[f64; 4], deviations: [f64; 2]) -> Predictions {
        Predictions::Reals(RealPredictions {
            kind: NoiseDeviations::PerMember(deviations.to_vec()).into(),
            draws: 2,
            members: vec![1, 1],
            values: means.to_vec(),
        })
    }

    #[test]
    fn the_joint_cost_of_numbers_is_that_of_the_mixture_of_products() {
        let (first, second) = ([0.5, -1.0, 2.0, 0.0], [3.0, 1.0, -1.0, 0.5]);
        let predictions = Predictions::Several(vec![
            of_target("a", reals(&first, [0.5, 1.0])),
            of_target("b", reals(&second, [2.0, 0.25])),
        ]);
        let (a, b) = (vec![1.0, -0.5], vec![2.0, 0.75]);
        let targets = Targets::Several(vec![Targets::Real(a.clone()), Targets::Real(b.clone())]);
        let found = row_costs(&predictions, &targets).unwrap();

        let pairs = |one: &[f64], other: &[f64]| -> Vec<f64> {
            one.iter()
                .zip(other)
                .flat_map(|(one, other)| [*one, *other])
                .collect()
        };
        let precisions = [[4.0, 0.25], [1.0, 16.0]].map(|of_draw| [of_draw; 2]);
        let precisions: Vec<f64> = precisions.into_iter().flatten().flatten().collect();
        let noise = NoisePrecision::PerPrediction(&precisions);
        let mixture = GaussianMixture::new(pairs(&first, &second), 2, 4, noise).unwrap();
        let values = pairs(&a, &b);
        let targeted = TargetedMixture::new(&mixture, &values).unwrap();
        let expected = joint_log_densities(&targeted, 2).unwrap();
        for (found, expected) in found.iter().zip(expected) {
            assert!((found + expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    #[test]
    fn the_joint_cost_of_labels_is_that_of_the_mixture_of_products() {
        let label = |positive: [f64; 2]| {
            Predictions::Classes(ClassPredictions::new(
                vec!["no".into(), "yes".into()],
                2,
                positive.iter().flat_map(|p| [1.0 - p, *p]).collect(),
            ))
        };
        let predictions = Predictions::Several(vec![
            of_target("a", label([0.9, 0.2])),
            of_target("b", label([0.6, 0.1])),
        ]);
        let targets = Targets::Several(vec![Targets::Classes(vec![1]), Targets::Classes(vec![0])]);
        let found = row_costs(&predictions, &targets).unwrap();
        let expected: f64 = 0.5 * (0.9 * 0.4 + 0.2 * 0.9);
        assert!((found[0] + expected.ln()).abs() < 1e-14, "{found:?}");
        assert!(row_costs(&predictions, &Targets::Classes(vec![1])).is_err());
    }
}
