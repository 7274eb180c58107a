//! A linear map of log-probabilities, and its fit by the penalised NLL; `linear.rs` has the
//! equations.

use crate::error::{EvalError, Place};
use crate::recalibration::linear::OffDiagonalPenalty;
use crate::recalibration::newton::{Convex, Product, minimise};
use crate::views::distribution::softmax;
use crate::views::{ClassProbabilities, LabelledProbabilities};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slopes {
    Diagonal,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Features {
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
pub(super) struct Linear {
    shape: Slopes,
    features: Features,
    classes: usize,
    parameters: Vec<f64>,
}

impl Linear {
    pub(super) fn fit(
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

    pub(super) fn apply(
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

    pub(super) fn slopes(&self) -> &[f64] {
        &self.parameters[..self.parameters.len() - self.classes]
    }

    pub(super) fn intercepts(&self) -> &[f64] {
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
