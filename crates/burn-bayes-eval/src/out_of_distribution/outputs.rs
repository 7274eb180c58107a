//! One interface for all scores of unusual rows, so that they can be listed, compared and replaced.
//!
//! A score reads the outputs that it needs: the class probabilities of the draws ([`DrawScore`]), logits
//! ([`LogitScore`]), or features ([`MahalanobisDistance`], [`NearestFeatures`], which are fitted to training rows
//! first). **Every score is higher for more unusual rows.**

use crate::check;
use crate::error::{EvalError, Place};
use crate::out_of_distribution::{DrawScore, LogitScore, MahalanobisDistance, NearestFeatures};
use crate::views::DrawProbabilities;

/// What a model returns for some rows.
///
/// ```
/// use burn_bayes_eval::{
///     BinaryScores, DrawProbabilities, DrawScore, LogitScore, MahalanobisDistance, NearestFeatures, RowOutputs,
///     UnusualScore, auroc,
/// };
///
/// // Four training rows, and the outputs of one draw for two known and two unusual rows.
/// let train = [1.0, 0.0, 2.0, 0.5, 0.0, 1.0, 0.5, 2.0];
/// let distance = MahalanobisDistance::fit(&train, &[0, 0, 1, 1], 2, 0.1)?;
/// let nearest = NearestFeatures::fit(&train, 2, 1)?;
/// let (logits, unusual_logits) = ([3.0, 0.0, 0.0, 3.0], [0.2, 0.0, 0.0, 0.1]);
/// let known = DrawProbabilities::from_logits(&logits, 1, 2, 2)?;
/// let known = RowOutputs::new(&known).with_logits(&logits)?.with_features(&[1.0, 0.1, 0.1, 1.0], 2)?;
/// let unusual = DrawProbabilities::from_logits(&unusual_logits, 1, 2, 2)?;
/// let unusual =
///     RowOutputs::new(&unusual).with_logits(&unusual_logits)?.with_features(&[-3.0, -3.0, -4.0, 0.0], 2)?;
///
/// let scores: [&dyn UnusualScore; 4] =
///     [&DrawScore::PredictiveEntropy, &LogitScore::Energy, &distance, &nearest];
/// for score in scores {
///     let separated = BinaryScores::separating(&score.of_outputs(&known)?, &score.of_outputs(&unusual)?)?;
///     assert_eq!(auroc(&separated), 1.0);
/// }
/// assert_eq!(scores[2].name(), "Mahalanobis distance");
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowOutputs<'a> {
    draws: &'a DrawProbabilities<'a>,
    logits: Option<&'a [f64]>,
    /// With the number of columns.
    features: Option<(&'a [f64], usize)>,
}

impl<'a> RowOutputs<'a> {
    /// Class probabilities alone; a plain network has one draw.
    pub fn new(draws: &'a DrawProbabilities<'a>) -> Self {
        Self {
            draws,
            logits: None,
            features: None,
        }
    }

    /// With logits, `[rows × classes]`, row-major: those of one network, or their mean over draws.
    ///
    /// # Errors
    /// A data error if the length does not fit or a logit is not finite.
    pub fn with_logits(self, logits: &'a [f64]) -> Result<Self, EvalError> {
        let extents = [
            ("rows", self.draws.rows()),
            ("classes", self.draws.classes()),
        ];
        check::shape("logits", logits.len(), &extents)?;
        finite_rows("logits", logits, self.draws.classes())?;
        let logits = Some(logits);
        Ok(Self { logits, ..self })
    }

    /// With features, `[rows × columns]`, row-major: the inputs, or the outputs of a hidden layer.
    ///
    /// # Errors
    /// A data error if the length does not fit or a feature is not finite.
    pub fn with_features(self, features: &'a [f64], columns: usize) -> Result<Self, EvalError> {
        let extents = [("rows", self.draws.rows()), ("columns", columns)];
        check::shape("features", features.len(), &extents)?;
        finite_rows("features", features, columns)?;
        let features = Some((features, columns));
        Ok(Self { features, ..self })
    }

    fn features(&self, columns: usize) -> Result<&'a [f64], EvalError> {
        let (features, found) = self
            .features
            .ok_or_else(|| missing("features", "with_features"))?;
        check::same_length("columns of the features", found, columns)?;
        Ok(features)
    }
}

/// Checks that rows of so many columns are finite.
fn finite_rows(what: &str, values: &[f64], columns: usize) -> Result<(), EvalError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => {
            let place = Place::row(index / columns).at_column(index % columns);
            Err(check::not_finite(what, place, values[index]))
        }
        None => Ok(()),
    }
}

fn missing(what: &str, method: &str) -> EvalError {
    EvalError::data(
        what,
        Place::WHOLE,
        "none",
        "those of every row",
        &format!("outputs without them: add them by `{method}`"),
    )
}

/// A score of rows that is higher for more unusual ones.
pub trait UnusualScore {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The score of each row.
    ///
    /// # Errors
    /// A data error if an output that the score needs is missing, or not finite.
    fn of_outputs(&self, outputs: &RowOutputs<'_>) -> Result<Vec<f64>, EvalError>;
}

impl UnusualScore for DrawScore {
    fn name(&self) -> &'static str {
        match self {
            Self::LeastConfidence => "maximum probability",
            Self::PredictiveEntropy => "entropy",
            Self::MutualInformation => "mutual information",
            Self::ModelDisagreement => "disagreement",
        }
    }

    fn of_outputs(&self, outputs: &RowOutputs<'_>) -> Result<Vec<f64>, EvalError> {
        Ok(self.of(outputs.draws))
    }
}

impl UnusualScore for LogitScore {
    fn name(&self) -> &'static str {
        match self {
            Self::MaximumLogit => "maximum logit",
            Self::Energy => "energy",
        }
    }

    fn of_outputs(&self, outputs: &RowOutputs<'_>) -> Result<Vec<f64>, EvalError> {
        let logits = outputs
            .logits
            .ok_or_else(|| missing("logits", "with_logits"))?;
        self.of(logits, outputs.draws.rows(), outputs.draws.classes())
    }
}

impl UnusualScore for MahalanobisDistance {
    fn name(&self) -> &'static str {
        "Mahalanobis distance"
    }

    fn of_outputs(&self, outputs: &RowOutputs<'_>) -> Result<Vec<f64>, EvalError> {
        self.scores(outputs.features(self.columns)?)
    }
}

impl UnusualScore for NearestFeatures {
    fn name(&self) -> &'static str {
        "nearest features"
    }

    fn of_outputs(&self, outputs: &RowOutputs<'_>) -> Result<Vec<f64>, EvalError> {
        self.scores(outputs.features(self.columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_outputs_and_wrong_lengths_name_the_cure() {
        let draws = DrawProbabilities::binary(&[0.5, 0.5], 1, 2).unwrap();
        let outputs = RowOutputs::new(&draws);
        let error = LogitScore::Energy.of_outputs(&outputs).unwrap_err();
        assert!(error.to_string().contains("with_logits"), "{error}");
        let nearest = NearestFeatures::fit(&[1.0, 0.0], 2, 1).unwrap();
        let error = nearest.of_outputs(&outputs).unwrap_err();
        assert!(error.to_string().contains("with_features"), "{error}");
        assert!(outputs.with_logits(&[0.0; 3]).unwrap_err().is_data());
        assert!(outputs.with_features(&[0.0; 4], 3).unwrap_err().is_data());
        // Six numbers are also three rows of two columns, so columns are compared.
        let outputs = outputs.with_features(&[1.0; 6], 3).unwrap();
        assert!(nearest.of_outputs(&outputs).unwrap_err().is_data());
    }
}
