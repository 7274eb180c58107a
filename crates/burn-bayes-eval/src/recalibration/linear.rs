//! Recalibration of class probabilities by a linear map of their logarithms.
//!
//!   vector      q = softmax(w ∘ z + b)     z_c = ln p_c − (1/C) Σ_k ln p_k
//!   matrix      q = softmax(W z + b)
//!   Dirichlet   q = softmax(W ln p + b)
//!
//! For a Bayesian model p is the average over draws, which has no logits: z are the logits of p that
//! sum to zero. All minimise the NLL of held-out rows, which is convex in the parameters, plus, for
//! matrix and Dirichlet (off-diagonal and intercept regularisation, ODIR),
//!
//!   λ/(C(C − 1)) Σ_{i≠j} W_ij² + μ/C Σ_i b_i².
//!
//! | Method | Parameters | Better when |
//! |---|---|---|
//! | [`Temperature`](crate::Temperature) | 1 | few rows, or all classes are equally over- or underconfident |
//! | [`VectorScaling`] | 2C | some classes are more overconfident than others |
//! | [`MatrixScaling`], [`DirichletCalibration`] | C(C + 1) | classes are confused with each other, and there are many rows per class |
//!
//! Probabilities below 10⁻¹² count as 10⁻¹², since logarithms of rounding errors would dominate the fit.
//!
//! References: C. Guo et al., "On calibration of modern neural networks" (2017), for vector and matrix
//! scaling; M. Kull et al., "Beyond temperature scaling" (2019), for Dirichlet calibration and ODIR.

use crate::error::{EvalError, Place};
use crate::recalibration::held_out::HeldOut;
use crate::recalibration::newton::{Convex, Product, minimise};
use crate::views::distribution::softmax;
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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Slopes {
    Diagonal,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Features {
    Centred,
    Logarithms,
}

impl Features {
    fn of(self, probabilities: &[f64]) -> Vec<f64> {
        let logarithms = probabilities.iter().map(|p| p.max(FLOOR).ln());
        let logarithms: Vec<f64> = logarithms.collect();
        match self {
            Self::Logarithms => logarithms,
            Self::Centred => {
                let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
                logarithms.into_iter().map(|l| l - mean).collect()
            }
        }
    }
}

const FLOOR: f64 = 1e-12;

/// A fitted map; its parameters are the slopes, then the intercepts.
#[derive(Debug, Clone, PartialEq)]
struct Linear {
    shape: Slopes,
    features: Features,
    classes: usize,
    parameters: Vec<f64>,
}

impl Linear {
    fn fit(
        rows: &LabelledProbabilities<'_>,
        shape: Slopes,
        features: Features,
        penalty: OffDiagonalPenalty,
    ) -> Result<Self, EvalError> {
        for (name, value) in [
            ("OffDiagonalPenalty::off_diagonal", penalty.off_diagonal),
            ("OffDiagonalPenalty::intercept", penalty.intercept),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(EvalError::config(
                    name,
                    value,
                    "a finite number of at least 0",
                ));
            }
        }
        let classes = rows.probabilities().classes();
        check_classes(rows)?;
        let problem = Problem {
            features: rows.iter().flat_map(|(row, _)| features.of(row)).collect(),
            labels: rows.labels(),
            classes,
            shape,
            penalty,
        };
        let slopes = match shape {
            Slopes::Diagonal => vec![1.0; classes],
            Slopes::Full => (0..classes * classes)
                .map(|index| if index % (classes + 1) == 0 { 1.0 } else { 0.0 })
                .collect(),
        };
        let start = [slopes, vec![0.0; classes]].concat();
        let separable = || {
            EvalError::data(
                "held-out rows",
                Place::WHOLE,
                "classes that a linear map of the log-probabilities separates",
                "rows with errors, so that a finite map is best",
                "too few held-out rows for this method: use more rows, a stronger penalty or a \
                 temperature",
            )
        };
        let parameters = minimise(&problem, start).ok_or_else(separable)?;
        if problem.value_and_gradient(&parameters).0 < SEPARATED {
            return Err(separable());
        }
        Ok(Self {
            shape,
            features,
            classes,
            parameters,
        })
    }

    fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        let (rows, classes) = (probabilities.rows(), probabilities.classes());
        check_same_classes(classes, self.classes)?;
        let logits = |row| self.shape.logits(&self.parameters, &self.features.of(row));
        let logits: Vec<f64> = probabilities.iter().flat_map(logits).collect();
        Ok(ClassProbabilities::of_checked(
            softmax(&logits, classes),
            rows,
            classes,
        ))
    }

    fn slopes(&self) -> &[f64] {
        &self.parameters[..self.parameters.len() - self.classes]
    }

    fn intercepts(&self) -> &[f64] {
        &self.parameters[self.parameters.len() - self.classes..]
    }
}

/// A mean NLL below this is that of rows without errors.
const SEPARATED: f64 = 1e-9;

/// Checks that there are two classes and a row of each.
pub(super) fn check_classes(rows: &LabelledProbabilities<'_>) -> Result<(), EvalError> {
    let classes = rows.probabilities().classes();
    if classes < 2 {
        return Err(EvalError::data(
            "classes",
            Place::WHOLE,
            classes,
            "at least 2",
            "a table for regression, or only the probabilities of one class: use \
             ClassProbabilities::binary",
        ));
    }
    match (0..classes).find(|class| !rows.labels().contains(class)) {
        Some(class) => Err(EvalError::data(
            "labels of the held-out rows",
            Place::WHOLE,
            format!("no row of class {class}"),
            "at least one row of every class",
            "too few held-out rows for a rare class: hold out more rows, or fit a temperature",
        )),
        None => Ok(()),
    }
}

pub(super) fn check_same_classes(found: usize, fitted: usize) -> Result<(), EvalError> {
    if found == fitted {
        return Ok(());
    }
    Err(EvalError::data(
        "class probabilities",
        Place::WHOLE,
        format!("{found} classes"),
        format!("the {fitted} classes of the held-out rows"),
        "fitted with another model or data set",
    ))
}

impl Slopes {
    /// W·x + b.
    fn logits(self, parameters: &[f64], x: &[f64]) -> Vec<f64> {
        let classes = x.len();
        let (slopes, intercepts) = parameters.split_at(parameters.len() - classes);
        let product = |class: usize| match self {
            Self::Diagonal => slopes[class] * x[class],
            Self::Full => {
                let row = &slopes[class * classes..][..classes];
                row.iter().zip(x).map(|(w, x)| w * x).sum()
            }
        };
        (0..classes)
            .map(|class| product(class) + intercepts[class])
            .collect()
    }

    /// Adds the derivative by the parameters, given that by the logits.
    fn add_adjoint(self, by_logits: &[f64], x: &[f64], sums: &mut [f64]) {
        let classes = x.len();
        let (slopes, intercepts) = sums.split_at_mut(sums.len() - classes);
        for (class, by_logit) in by_logits.iter().enumerate() {
            intercepts[class] += by_logit;
            match self {
                Self::Diagonal => slopes[class] += by_logit * x[class],
                Self::Full => {
                    let row = &mut slopes[class * classes..][..classes];
                    row.iter_mut()
                        .zip(x)
                        .for_each(|(sum, x)| *sum += by_logit * x);
                }
            }
        }
    }
}

/// The penalised mean NLL.
struct Problem<'a> {
    features: Vec<f64>,
    labels: &'a [usize],
    classes: usize,
    shape: Slopes,
    penalty: OffDiagonalPenalty,
}

impl Problem<'_> {
    /// The second derivative of the penalty by each parameter.
    fn stiffness(&self) -> Vec<f64> {
        let classes = self.classes;
        let pairs = (classes * (classes - 1)) as f64;
        let slope = |index: usize| {
            let is_diagonal = index.is_multiple_of(classes + 1);
            if is_diagonal {
                0.0
            } else {
                2.0 * self.penalty.off_diagonal / pairs
            }
        };
        let slopes: Vec<f64> = match self.shape {
            Slopes::Diagonal => vec![0.0; classes],
            Slopes::Full => (0..classes * classes).map(slope).collect(),
        };
        let intercept = 2.0 * self.penalty.intercept / classes as f64;
        [slopes, vec![intercept; classes]].concat()
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.features.chunks_exact(self.classes)
    }
}

impl Convex for Problem<'_> {
    fn value_and_gradient(&self, at: &[f64]) -> (f64, Vec<f64>) {
        let rows = self.labels.len() as f64;
        let mut value = 0.0;
        let mut gradient = vec![0.0; at.len()];
        for (x, &label) in self.rows().zip(self.labels) {
            let logits = self.shape.logits(at, x);
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut powers: Vec<f64> = logits.iter().map(|z| (z - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            value += (sum.ln() + largest - logits[label]) / rows;
            powers.iter_mut().for_each(|power| *power /= sum * rows);
            powers[label] -= 1.0 / rows;
            self.shape.add_adjoint(&powers, x, &mut gradient);
        }
        for ((gradient, stiffness), at) in gradient.iter_mut().zip(self.stiffness()).zip(at) {
            value += 0.5 * stiffness * at * at;
            *gradient += stiffness * at;
        }
        (value, gradient)
    }

    fn curvature<'a>(&'a self, at: &[f64]) -> Product<'a> {
        let logits: Vec<f64> = self.rows().flat_map(|x| self.shape.logits(at, x)).collect();
        let (probabilities, stiffness) = (softmax(&logits, self.classes), self.stiffness());
        let rows = self.labels.len() as f64;
        Box::new(move |vector| {
            let mut product: Vec<f64> = stiffness.iter().zip(vector).map(|(s, v)| s * v).collect();
            for (x, p) in self.rows().zip(probabilities.chunks_exact(self.classes)) {
                let mut change = self.shape.logits(vector, x);
                let mean: f64 = change.iter().zip(p).map(|(c, p)| c * p).sum();
                change
                    .iter_mut()
                    .zip(p)
                    .for_each(|(c, p)| *c = p * (*c - mean) / rows);
                self.shape.add_adjoint(&change, x, &mut product);
            }
            product
        })
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
        let scaled = score(Temperature::fit(&labelled).unwrap().apply(&table));
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
