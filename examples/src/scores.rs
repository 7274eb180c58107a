//! Computes the scores that the programs print from the tensors of a prediction.

use burn::tensor::Tensor;
use burn_bayes::eval::{
    DrawProbabilities, EvalError, LabelledProbabilities, ReliabilityDiagram, accuracy,
    max_probability, model_disagreement, nll, predictive_entropy, referral_table,
};

use crate::batches::ClassRow;

/// The numbers of a tensor of probabilities, row-major.
pub fn probabilities_of<const R: usize>(probabilities: Tensor<R>) -> Vec<f64> {
    probabilities.into_data().iter::<f64>().collect()
}

/// Scores of class probabilities, averaged over draws of the weights; a plain model has one draw.
#[derive(Clone, Debug)]
pub struct ClassScores {
    /// Fraction of rows whose most probable class is correct.
    pub accuracy: f64,
    /// Mean probability of the most probable class; if it is below the accuracy, the model is
    /// underconfident.
    pub confidence: f64,
    /// Mean negative log-likelihood, nats.
    pub nll: f64,
    /// Expected calibration error, 15 bins of equal width.
    pub calibration_error: f64,
    /// Accuracy on the kept rows, those with the lowest predictive entropy.
    pub by_entropy: Vec<f64>,
    /// Accuracy on the kept rows, those with the lowest model disagreement; undefined for one draw.
    pub by_disagreement: Option<Vec<f64>>,
}

impl ClassScores {
    /// Fractions of kept rows.
    pub const KEPT: [f64; 5] = [0.9, 0.8, 0.7, 0.6, 0.5];

    /// Scores `probabilities`, `[draws, rows, classes]`, against the rows' classes.
    ///
    /// # Errors
    ///
    /// Numbers that are not probabilities of these rows.
    pub fn new(probabilities: Tensor<3>, rows: &[ClassRow]) -> Result<Self, EvalError> {
        let [draws, count, classes] = probabilities.dims();
        let values = probabilities_of(probabilities);
        let draw_probabilities = DrawProbabilities::new(&values, draws, count, classes)?;
        let average = draw_probabilities.average();
        let labels: Vec<usize> = rows.iter().map(|row| row.class).collect();
        let labelled = LabelledProbabilities::new(&average, &labels)?;
        let kept = |uncertainty: &[f64]| -> Result<Vec<f64>, EvalError> {
            let table = referral_table(&labelled, uncertainty, &Self::KEPT)?;
            Ok(table.into_iter().map(|row| row.accuracy).collect())
        };
        Ok(Self {
            accuracy: accuracy(&labelled),
            confidence: max_probability(&average).iter().sum::<f64>() / count.max(1) as f64,
            nll: nll(&labelled),
            calibration_error: ReliabilityDiagram::equal_width(&labelled, 15)?
                .expected_calibration_error(),
            by_entropy: kept(&predictive_entropy(&average))?,
            by_disagreement: (draws > 1)
                .then(|| kept(&model_disagreement(&draw_probabilities)))
                .transpose()?,
        })
    }
}
