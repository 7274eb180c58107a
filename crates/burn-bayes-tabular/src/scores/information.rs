//! How much more training rows could lower the NLL.
//!
//! With draws w_s of the weights, the mutual information of a target and the weights, I = H[mean over s of p(y | w_s)] −
//! mean over s of H[p(y | w_s)], is the NLL that the predictions are expected to lose to the best weights: what is still
//! unknown about them, in nats per row. The entropies of numbers and counts are those of Gaussians of the same variances,
//! ½ ln(2πe v).

use burn_bayes::eval;

use super::score::mean;
use crate::error::Result;
use crate::predict::Predictions;

/// The mean mutual information of these rows, and of several targets; 0 for a single draw.
///
/// # Errors
/// If a probability is not one.
pub(crate) fn mutual_information(predictions: &Predictions) -> Result<f64> {
    Ok(match predictions {
        Predictions::Classes(all) => mean(&eval::mutual_information(&all.checked()?)),
        Predictions::Reals(all) => {
            let [means, variances] = all.moments_of_draws();
            of_variances(&means, &variances, all.draws)
        }
        Predictions::Counts(all) => {
            let variance = |(place, &rate): (usize, &f64)| {
                let dispersion = all.kind.0.get(place).copied().unwrap_or(0.0);
                rate * (1.0 + dispersion * rate)
            };
            let variances: Vec<f64> = all.values.iter().enumerate().map(variance).collect();
            of_variances(&all.values, &variances, all.draws)
        }
        Predictions::Several(targets) => {
            let parts = targets.iter();
            let parts = parts.map(|target| mutual_information(&target.predictions));
            mean(&parts.collect::<Result<Vec<_>>>()?)
        }
    })
}

/// Of draws with these means and variances, `[draws, rows]`, row-major.
fn of_variances(means: &[f64], variances: &[f64], draws: usize) -> f64 {
    let rows = means.len() / draws.max(1);
    let of_row = |row: usize| {
        let column = |values: &[f64], of: &dyn Fn(f64) -> f64| {
            let values = values[row..].iter().step_by(rows);
            mean(&values.map(|&value| of(value)).collect::<Vec<_>>())
        };
        let centre = column(means, &|mean| mean);
        let between = column(means, &|mean| (mean - centre).powi(2));
        let within = column(variances, &|variance| variance);
        0.5 * ((within + between).ln() - column(variances, &f64::ln))
    };
    mean(&(0..rows).map(of_row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::ColumnScale;

    use super::*;
    use crate::predict::{
        ClassPredictions, CountPredictions, Dispersions, NoiseDeviations, RealPredictions,
        TargetPredictions,
    };
    use crate::rows::Target;

    #[test]
    fn what_draws_agree_about_is_known() {
        let names = ["a", "b"].map(String::from).to_vec();
        let classes = ClassPredictions::new(names, 2, vec![1.0, 0.0, 0.0, 1.0]);
        let found = mutual_information(&Predictions::Classes(classes)).unwrap();
        assert!((found - 2.0_f64.ln()).abs() < 1e-12, "{found}");

        // One row whose draws differ, and one whose do not.
        let reals = RealPredictions::new(2.0, 2, vec![-1.0, 5.0, 1.0, 5.0]);
        let found = mutual_information(&Predictions::Reals(reals)).unwrap();
        assert!((found - 0.25 * 1.25_f64.ln()).abs() < 1e-12, "{found}");
        let noise = NoiseDeviations::PerPrediction(vec![1.0, 2.0]);
        let reals = RealPredictions::new(noise, 2, vec![3.0, 3.0]);
        let found = mutual_information(&Predictions::Reals(reals)).unwrap();
        assert!(
            (found - 0.5 * (2.5_f64.ln() - 2.0_f64.ln())).abs() < 1e-12,
            "{found}"
        );

        let counts = CountPredictions::new(Dispersions(vec![0.5; 2]), 2, vec![2.0, 4.0]);
        let found = mutual_information(&Predictions::Counts(counts)).unwrap();
        let expected = 0.5 * (9.0_f64.ln() - 0.5 * (4.0_f64.ln() + 12.0_f64.ln()));
        assert!((found - expected).abs() < 1e-12, "{found}");
        // Of several targets, that of one on average.
        let target = Target::Real(ColumnScale::KEPT);
        let targets = [vec![-1.0, 1.0], vec![5.0, 5.0]].map(|means| {
            let reals = Predictions::Reals(RealPredictions::new(2.0, 2, means));
            TargetPredictions::of(&("y".into(), target.clone()), reals)
        });
        let found = mutual_information(&Predictions::Several(targets.into())).unwrap();
        assert!((found - 0.25 * 1.25_f64.ln()).abs() < 1e-12, "{found}");
        let single = RealPredictions::new(2.0, 1, vec![-1.0, 5.0]);
        assert_eq!(
            mutual_information(&Predictions::Reals(single)).unwrap(),
            0.0
        );
    }
}
