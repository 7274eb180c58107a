//! The area under the sparsification error: whether the draws disagree where the average prediction is wrong.
//!
//! Rows are ranked by the variance of their draws. With the k most certain of n rows kept, r_k is their mean absolute
//! error, and r*_k that of the k rows with the smallest errors: AUSE = (1/n) Σ_k (r_k − r*_k)/r_n. It depends neither on
//! the noise, if that is the same for all rows, nor on the unit of the targets. Needs the rows of a whole epoch.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{SparsificationError, TargetedMixture, ause};

use super::observation::Observation;
use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::RegressionDraws;

/// The area under the sparsification error of an epoch's rows, for absolute errors; NaN if all errors are zero.
///
/// ```
/// use burn_bayes::metric::SparsificationMetric;
///
/// let metric = SparsificationMetric::new();
/// ```
pub type SparsificationMetric = WholeSetMetric<AreaUnderSparsificationError>;

/// The excess of the error curve over that of the best order.
#[derive(Clone, Copy, Debug, Default)]
pub struct AreaUnderSparsificationError;

/// The variance between draws, the mean and the target of every row.
#[derive(Clone, Debug, Default)]
pub struct UncertainMeans {
    variances: Vec<f64>,
    means: Vec<f64>,
    targets: Vec<f64>,
}

impl SetScore for AreaUnderSparsificationError {
    type Input = RegressionDraws;
    type Gathered = UncertainMeans;

    fn caption(&self) -> Caption {
        Caption {
            name: "Area under the Sparsification Error".into(),
            description: "Excess error of the most certain rows over the best order.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn gather(
        &self,
        rows: &mut UncertainMeans,
        batch: &RegressionDraws,
    ) -> Result<(), TensorReadError> {
        let gather = |targeted: &TargetedMixture<'_>| {
            let mixture = targeted.mixture();
            rows.variances.extend(mixture.variance_between_draws());
            rows.means.extend(mixture.mean());
            rows.targets.extend(targeted.targets());
        };
        Observation::new(1.0).score(batch.read()?, gather)
    }

    fn score(&self, rows: &UncertainMeans) -> f64 {
        let kind = SparsificationError::MeanAbsolute;
        ause(&rows.variances, &rows.means, &rows.targets, kind).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{epoch, regression};

    #[test]
    fn rows_of_all_batches_are_ranked_together() {
        // Means of 0, errors 3, 1 and 2, and the least certain row is the second or the first.
        let batches = |spreads: [f32; 3]| {
            let [first, second, third] = spreads;
            [
                regression([[-first, -second], [first, second]], [3.0, 1.0]),
                regression([[-third], [third]], [-2.0]),
            ]
        };
        let area = |spreads| epoch(SparsificationMetric::new(), &batches(spreads));
        assert_eq!(area([3.0, 1.0, 2.0]), 0.0);
        // Kept in the order 3, 2, 1: means 3, 5/2 and 2, of the best order 1, 3/2 and 2.
        assert_eq!(area([1.0, 3.0, 2.0]), (2.0 + 1.0) / (3.0 * 2.0));
    }
}
