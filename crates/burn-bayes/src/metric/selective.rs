//! Selective prediction: errors of the rows kept if the least certain are referred. Both scores need the rows of a
//! whole epoch.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{RiskCoverage, SparsificationError, ause, least_confidence, zero_one_losses};

use super::epoch::WholeSetMetric;
use super::score::{Caption, SetScore};
use crate::likelihood::{ClassificationDraws, RegressionDraws};

/// The area under the risk–coverage curve of an epoch's rows.
///
/// The mean error rate of the most certain rows, over all numbers of rows, ranked by 1 − max_c p̄_c.
pub type RiskCoverageMetric = WholeSetMetric<AreaUnderRiskCoverage>;

/// The score of [`RiskCoverageMetric`].
#[derive(Clone, Debug, Default)]
pub struct AreaUnderRiskCoverage {
    uncertainties: Vec<f64>,
    errors: Vec<f64>,
}

impl SetScore for AreaUnderRiskCoverage {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        let description = "Mean error rate of the most certain rows, over all coverages.";
        Caption::new("Area under the Risk-Coverage Curve", description)
    }

    fn add(&mut self, batch: &ClassificationDraws) -> Result<(), TensorReadError> {
        let read = batch.read()?;
        self.uncertainties.extend(least_confidence(read.average()));
        self.errors.extend(zero_one_losses(&read.labelled()));
        Ok(())
    }

    fn value(&self) -> f64 {
        let curve = RiskCoverage::new(&self.uncertainties, &self.errors);
        curve.map_or(f64::NAN, |curve| curve.aurc())
    }
}

/// The area under the sparsification error of an epoch's rows, for absolute errors; NaN if all errors are zero.
///
/// Whether the draws disagree where the average prediction is wrong: the excess of the error curve over that of the
/// best order.
///
/// Rows are ranked by the variance of their draws. With the k most certain of n rows kept, r_k is their mean absolute
/// error, and r*_k that of the k rows with the smallest errors: AUSE = (1/n) Σ_k (r_k − r*_k)/r_n. It depends neither on
/// the noise, if that is the same for all rows, nor on the unit of the targets.
pub type SparsificationMetric = WholeSetMetric<AreaUnderSparsificationError>;

/// The score of [`SparsificationMetric`].
#[derive(Clone, Debug, Default)]
pub struct AreaUnderSparsificationError {
    variances: Vec<f64>,
    means: Vec<f64>,
    targets: Vec<f64>,
}

impl SetScore for AreaUnderSparsificationError {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        let description = "Excess error of the most certain rows over the best order.";
        Caption::new("Area under the Sparsification Error", description)
    }

    fn add(&mut self, batch: &RegressionDraws) -> Result<(), TensorReadError> {
        let read = batch.read()?;
        let mixture = read.mixture(1.0)?;
        self.variances.extend(mixture.variance_between_draws());
        self.means.extend(mixture.mean());
        self.targets.extend(read.targets());
        Ok(())
    }

    fn value(&self) -> f64 {
        let kind = SparsificationError::MeanAbsolute;
        ause(&self.variances, &self.means, &self.targets, kind).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_epoch, classification, regression};

    #[test]
    fn rows_of_all_batches_are_ranked_together() {
        // By confidence: right, wrong, right, wrong. Risks 0, 1/2, 1/3, 1/2.
        let batches = [
            classification([[[0.9, 0.1], [0.6, 0.4]]], [0, 1]),
            classification([[[0.2, 0.8], [0.3, 0.7]]], [0, 1]),
        ];
        let expected = (0.5 + 1.0 / 3.0 + 0.5) / 4.0;
        assert_epoch(RiskCoverageMetric::new(), &batches, expected, 2);

        // Means of 0, errors 3, 1 and 2, and the least certain row is the second or the first. In the latter case, the
        // order 3, 2, 1 has means 3, 5/2 and 2, and the best order 1, 3/2 and 2.
        for (spreads, expected) in [
            ([3.0, 1.0, 2.0], 0.0),
            ([1.0, 3.0, 2.0], (2.0 + 1.0) / (3.0 * 2.0)),
        ] {
            let [first, second, third] = spreads;
            let batches = [
                regression([[-first, -second], [first, second]], [3.0, 1.0]),
                regression([[-third], [third]], [-2.0]),
            ];
            assert_epoch(SparsificationMetric::new(), &batches, expected, 0);
        }
    }
}
