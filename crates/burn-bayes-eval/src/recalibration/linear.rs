//! Recalibration of class probabilities by a linear map of their logarithms.
//!
//!   vector      q = softmax(w ∘ z + b)     z_c = ln p_c − (1/C) Σ_k ln p_k
//!   matrix      q = softmax(W z + b)
//!   Dirichlet   q = softmax(W ln p + b)
//!
//! For a Bayesian model p is the average over draws, which has no logits: z are the logits of p
//! that sum to zero. All minimise the NLL of held-out rows, which is convex in the parameters,
//! plus, for matrix and Dirichlet (off-diagonal and intercept regularisation, ODIR),
//!
//!   λ/(C(C − 1)) Σ_{i≠j} W_ij² + μ/C Σ_i b_i².
//!
//! | Method | Parameters | Better when |
//! |---|---|---|
//! | [`Temperature`](crate::Temperature) | 1 | few rows, or all classes are equally over- or underconfident |
//! | [`VectorScaling`] | 2C | some classes are more overconfident than others |
//! | [`MatrixScaling`], [`DirichletCalibration`] | C(C + 1) | classes are confused with each other, and there are many rows per class |
//!
//! Probabilities below 10⁻¹² count as 10⁻¹², since logarithms of rounding errors would dominate the
//! fit.
//!
//! References: C. Guo et al., "On calibration of modern neural networks" (2017), for vector and
//! matrix scaling; M. Kull et al., "Beyond temperature scaling" (2019), for Dirichlet calibration
//! and ODIR.

use crate::error::EvalError;
use crate::recalibration::held_out::HeldOut;
use crate::recalibration::linear_map::{Features, Linear, Slopes};
use crate::views::{ClassProbabilities, LabelledProbabilities};

/// One slope and one intercept per class.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, HeldOut, LabelledProbabilities, VectorScaling, nll};
///
/// let table = ClassProbabilities::binary(&[0.9, 0.8, 0.3, 0.6, 0.2, 0.7])?;
/// let labels = [1, 0, 0, 1, 1, 1];
/// let labelled = LabelledProbabilities::new(&table, &labels)?;
/// let held_out = HeldOut::new(labelled, &[0, 1, 2, 3, 4, 5], &[6, 7])?;
/// let scaling = VectorScaling::fit(&held_out)?;
/// let scaled = scaling.apply(&table)?;
/// assert!(nll(&LabelledProbabilities::new(&scaled, &labels)?) < nll(&labelled));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VectorScaling(Linear);

/// One slope per pair of classes and one intercept per class, on centred log-probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixScaling(Linear);

/// One slope per pair of classes and one intercept per class, on log-probabilities.
///
/// ```
/// use burn_bayes_eval::{
///     ClassProbabilities, DirichletCalibration, HeldOut, LabelledProbabilities, OffDiagonalPenalty,
/// };
///
/// let table = ClassProbabilities::binary(&[0.9, 0.8, 0.3, 0.6, 0.2, 0.7])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 0, 0, 1, 1, 1])?;
/// let held_out = HeldOut::new(labelled, &[0, 1, 2, 3, 4, 5], &[6, 7])?;
/// let penalty = OffDiagonalPenalty { off_diagonal: 0.1, intercept: 0.1 };
/// let calibration = DirichletCalibration::fit(&held_out, penalty)?;
/// assert_eq!(calibration.apply(&ClassProbabilities::binary(&[0.4])?)?.rows(), 1);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DirichletCalibration(Linear);

/// The strengths of ODIR, per row of the mean NLL, at least zero. Choose them by cross-validation;
/// Kull et al. try powers of ten from 10⁻² to 10².
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffDiagonalPenalty {
    /// λ, of the slopes between different classes.
    pub off_diagonal: f64,
    /// μ, of the intercepts.
    pub intercept: f64,
}

impl VectorScaling {
    /// The slopes and intercepts with the lowest NLL of the held-out rows.
    ///
    /// # Errors
    /// A data error if there is only one class, a class has no held-out row, or the classes are
    /// separable, so that no finite parameters are best.
    pub fn fit(held_out: &HeldOut<LabelledProbabilities<'_>>) -> Result<Self, EvalError> {
        let free = OffDiagonalPenalty {
            off_diagonal: 0.0,
            intercept: 0.0,
        };
        Linear::fit(held_out.view(), Slopes::Diagonal, Features::Centred, free).map(Self)
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        self.0.apply(probabilities)
    }

    /// w, one slope per class.
    pub fn slopes(&self) -> &[f64] {
        self.0.slopes()
    }

    /// b, one intercept per class, with sum zero.
    pub fn intercepts(&self) -> &[f64] {
        self.0.intercepts()
    }
}

impl MatrixScaling {
    /// The slopes and intercepts with the lowest penalised NLL of the held-out rows.
    ///
    /// # Errors
    /// Those of [`VectorScaling::fit`], and a config error if a strength is not finite and at least
    /// zero.
    pub fn fit(
        held_out: &HeldOut<LabelledProbabilities<'_>>,
        penalty: OffDiagonalPenalty,
    ) -> Result<Self, EvalError> {
        Linear::fit(held_out.view(), Slopes::Full, Features::Centred, penalty).map(Self)
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        self.0.apply(probabilities)
    }

    /// W, row-major, one row per recalibrated class.
    pub fn slopes(&self) -> &[f64] {
        self.0.slopes()
    }

    /// b, one intercept per class.
    pub fn intercepts(&self) -> &[f64] {
        self.0.intercepts()
    }
}

impl DirichletCalibration {
    /// The slopes and intercepts with the lowest penalised NLL of the held-out rows.
    ///
    /// # Errors
    /// Those of [`MatrixScaling::fit`].
    pub fn fit(
        held_out: &HeldOut<LabelledProbabilities<'_>>,
        penalty: OffDiagonalPenalty,
    ) -> Result<Self, EvalError> {
        Linear::fit(held_out.view(), Slopes::Full, Features::Logarithms, penalty).map(Self)
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        self.0.apply(probabilities)
    }

    /// W, row-major, one row per recalibrated class.
    pub fn slopes(&self) -> &[f64] {
        self.0.slopes()
    }

    /// b, one intercept per class.
    pub fn intercepts(&self) -> &[f64] {
        self.0.intercepts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Temperature, nll, uniforms};

    /// Rows whose labels follow their probabilities, with sharpened probabilities as predictions.
    fn sharpened(
        rows: usize,
        classes: usize,
        power: f64,
    ) -> (ClassProbabilities<'static>, Vec<usize>) {
        let numbers = uniforms(rows * (classes + 1), 5);
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for numbers in numbers.chunks(classes + 1) {
            let weights: Vec<f64> = numbers[1..].iter().map(|u| (4.0 * u).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut below = 0.0;
            let reached = weights.iter().position(|w| {
                below += w / sum;
                numbers[0] < below
            });
            labels.push(reached.unwrap_or(classes - 1));
            let sharp: Vec<f64> = weights.iter().map(|w| w.powf(power)).collect();
            let sum: f64 = sharp.iter().sum();
            values.extend(sharp.iter().map(|s| s / sum));
        }
        (
            ClassProbabilities::new(values, rows, classes).unwrap(),
            labels,
        )
    }

    #[test]
    fn more_parameters_fit_their_own_rows_better() {
        let (table, labels) = sharpened(300, 3, 2.0);
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        let ids: Vec<usize> = (0..300).collect();
        let held_out = HeldOut::new(labelled, &ids, &[300]).unwrap();
        let score = |table: ClassProbabilities<'_>| {
            nll(&LabelledProbabilities::new(&table, &labels).unwrap())
        };
        let free = OffDiagonalPenalty {
            off_diagonal: 0.0,
            intercept: 0.0,
        };
        let scaled = score(Temperature::fit(&held_out).unwrap().apply(&table));
        let vector = score(
            VectorScaling::fit(&held_out)
                .unwrap()
                .apply(&table)
                .unwrap(),
        );
        let matrix = MatrixScaling::fit(&held_out, free).unwrap();
        let dirichlet = DirichletCalibration::fit(&held_out, free).unwrap();
        let matrix = score(matrix.apply(&table).unwrap());
        let dirichlet = score(dirichlet.apply(&table).unwrap());
        assert!(dirichlet <= matrix + 1e-9 && matrix < vector && vector < scaled);
        assert!(scaled < nll(&labelled));
    }

    #[test]
    fn an_infinite_penalty_leaves_the_diagonal() {
        let (table, labels) = sharpened(200, 3, 2.0);
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        let ids: Vec<usize> = (0..200).collect();
        let held_out = HeldOut::new(labelled, &ids, &[200]).unwrap();
        let stiff = OffDiagonalPenalty {
            off_diagonal: 1e9,
            intercept: 1e9,
        };
        let found = DirichletCalibration::fit(&held_out, stiff).unwrap();
        for (index, slope) in found.slopes().iter().enumerate() {
            assert!(index % 4 == 0 || slope.abs() < 1e-6, "{slope}");
        }
        assert!(found.intercepts().iter().all(|b| b.abs() < 1e-6));
    }

    #[test]
    fn separable_rows_missing_classes_and_bad_penalties_are_errors() {
        let fit = |positive: &[f64], labels: &[usize]| {
            let table = ClassProbabilities::binary(positive).unwrap();
            let labelled = LabelledProbabilities::new(&table, labels).unwrap();
            let ids: Vec<usize> = (0..labels.len()).collect();
            VectorScaling::fit(&HeldOut::new(labelled, &ids, &[99]).unwrap()).map(|_| ())
        };
        let error = fit(&[0.9, 0.2, 0.8], &[1, 0, 1]).unwrap_err();
        assert!(error.to_string().contains("more rows"), "{error}");
        let error = fit(&[0.9, 0.2], &[1, 1]).unwrap_err();
        assert!(error.to_string().contains("no row of class 0"), "{error}");

        let (table, labels) = sharpened(50, 3, 2.0);
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        let ids: Vec<usize> = (0..50).collect();
        let held_out = HeldOut::new(labelled, &ids, &[50]).unwrap();
        for off_diagonal in [-1.0, f64::NAN, f64::INFINITY] {
            let penalty = OffDiagonalPenalty {
                off_diagonal,
                intercept: 0.0,
            };
            assert!(
                MatrixScaling::fit(&held_out, penalty)
                    .unwrap_err()
                    .is_config()
            );
        }
        let fitted = VectorScaling::fit(&held_out).unwrap();
        let two = ClassProbabilities::binary(&[0.5]).unwrap();
        assert!(fitted.apply(&two).unwrap_err().is_data());
    }
}
