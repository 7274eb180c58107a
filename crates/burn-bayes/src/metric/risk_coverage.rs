//! The area under the risk–coverage curve of the averaged probabilities.
//!
//! Rows are ranked by 1 − max_c p̄_c. The curve has the error rate of the most certain rows for every number of kept
//! rows, and AURC is its mean. Needs the rows of a whole epoch.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{RiskCoverage, least_confidence, zero_one_losses};

use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::ClassificationDraws;

/// The area under the risk–coverage curve of an epoch's rows.
///
/// ```
/// use burn_bayes::metric::RiskCoverageMetric;
///
/// let metric = RiskCoverageMetric::new();
/// ```
pub type RiskCoverageMetric = WholeSetMetric<AreaUnderRiskCoverage>;

/// The mean error rate of the most certain rows, over all numbers of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct AreaUnderRiskCoverage;

/// The uncertainty and the error of every row.
#[derive(Clone, Debug, Default)]
pub struct UncertainErrors {
    uncertainties: Vec<f64>,
    errors: Vec<f64>,
}

impl SetScore for AreaUnderRiskCoverage {
    type Input = ClassificationDraws;
    type Gathered = UncertainErrors;

    fn caption(&self) -> Caption {
        Caption {
            name: "Area under the Risk-Coverage Curve".into(),
            description: "Mean error rate of the most certain rows, over all coverages.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn gather(
        &self,
        rows: &mut UncertainErrors,
        batch: &ClassificationDraws,
    ) -> Result<(), TensorReadError> {
        let read = batch.read()?;
        rows.uncertainties.extend(least_confidence(read.average()));
        rows.errors.extend(zero_one_losses(&read.labelled()));
        Ok(())
    }

    fn score(&self, rows: &UncertainErrors) -> f64 {
        let curve = RiskCoverage::new(&rows.uncertainties, &rows.errors);
        curve.map_or(f64::NAN, |curve| curve.aurc())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn rows_of_all_batches_are_ranked_together() {
        // By confidence: right, wrong, right, wrong. Risks 0, 1/2, 1/3, 1/2.
        let first = classification([[[0.9, 0.1], [0.6, 0.4]]], [0, 1]);
        let second = classification([[[0.2, 0.8], [0.3, 0.7]]], [0, 1]);
        let value = epoch(RiskCoverageMetric::new(), &[first, second]);
        assert_close(value, (0.5 + 1.0 / 3.0 + 0.5) / 4.0, 2);
    }
}
