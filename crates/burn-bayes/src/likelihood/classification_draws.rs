//! The input of classification metrics: every draw's class probabilities, and the true classes.

use std::sync::{Arc, OnceLock};

use burn::tensor::activation::softmax;
use burn::tensor::{DType, Device, ExecutionError, Int, Tensor, TensorReadError, Transaction};
use burn::train::ClassificationOutput;
use burn::train::metric::Adaptor;
use burn_bayes_eval::{ClassProbabilities, DrawProbabilities, LabelledProbabilities};

use super::family::Likelihood;
use super::{no_such_metric, refused};

/// Class probabilities of one batch under several draws of the weights, and the true classes.
///
/// All metrics and clones share one copy on the host, so the device is read once.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use burn::train::metric::Adaptor;
/// use burn_bayes::likelihood::ClassificationDraws;
///
/// /// What a model of yours returns.
/// struct Answer {
///     probabilities: Tensor<3>, // [draws, rows, classes]
///     truth: Tensor<1, Int>,
/// }
///
/// impl Adaptor<ClassificationDraws> for Answer {
///     fn adapt(&self) -> ClassificationDraws {
///         ClassificationDraws::new(self.probabilities.clone(), self.truth.clone())
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ClassificationDraws {
    probabilities: Tensor<3>,
    targets: Tensor<1, Int>,
    read: Arc<OnceLock<LabelledDraws>>,
    /// The likelihood of a model without classes.
    refused: Option<Likelihood>,
}

/// [`ClassificationDraws`] on the host, checked.
#[derive(Clone, Debug)]
pub struct LabelledDraws {
    draws: DrawProbabilities<'static>,
    average: ClassProbabilities<'static>,
    labels: Vec<usize>,
}

impl ClassificationDraws {
    /// Probabilities `[draws, rows, classes]` and the true classes `[rows]`.
    ///
    /// Two classes need two columns; a model with one output column must return both probabilities.
    pub fn new(probabilities: Tensor<3>, targets: Tensor<1, Int>) -> Self {
        Self {
            probabilities,
            targets,
            read: Arc::default(),
            refused: None,
        }
    }

    /// Those of a model without classes, which cannot be read.
    pub(super) fn refused(likelihood: &Likelihood, device: &Device) -> Self {
        let empty = Self::new(Tensor::zeros([1, 0, 1], device), Tensor::zeros([0], device));
        Self {
            refused: Some(likelihood.clone()),
            ..empty
        }
    }

    /// Each draw's probabilities, `[draws, rows, classes]`.
    pub fn probabilities(&self) -> &Tensor<3> {
        &self.probabilities
    }

    /// The true classes, `[rows]`.
    pub fn targets(&self) -> &Tensor<1, Int> {
        &self.targets
    }

    /// The average over draws, `[rows, classes]`.
    pub fn average(&self) -> Tensor<2> {
        self.probabilities.clone().mean_dim(0).squeeze_dim(0)
    }

    /// The same without the graph of automatic differentiation.
    pub(crate) fn without_autodiff(self) -> Self {
        Self {
            probabilities: self.probabilities.without_autodiff(),
            targets: self.targets.without_autodiff(),
            ..self
        }
    }

    /// The numbers on the host.
    ///
    /// # Errors
    ///
    /// The device failed, a row is not a distribution over the classes, or a target is not a class.
    pub fn read(&self) -> Result<&LabelledDraws, TensorReadError> {
        if let Some(likelihood) = &self.refused {
            return Err(no_such_metric("classes", likelihood));
        }
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let [draws, rows, classes] = self.probabilities.dims();
        let [probabilities, targets] = Transaction::default()
            .register(self.probabilities.clone())
            .register(self.targets.clone())
            .try_execute()?
            .try_into()
            .expect("a transaction returns what was registered");
        let probabilities = probabilities.try_into_vec_as::<f64>()?;
        let draws = DrawProbabilities::new(probabilities, draws, rows, classes).map_err(refused)?;
        let labels = targets
            .try_into_vec_as::<i64>()?
            .into_iter()
            .map(class)
            .collect::<Result<Vec<_>, _>>()?;
        let average = draws.average();
        LabelledProbabilities::new(&average, &labels).map_err(refused)?;
        Ok(self.read.get_or_init(|| LabelledDraws {
            draws,
            average,
            labels,
        }))
    }
}

impl LabelledDraws {
    /// Every draw's probabilities.
    pub fn draws(&self) -> &DrawProbabilities<'static> {
        &self.draws
    }

    /// The average over draws.
    pub fn average(&self) -> &ClassProbabilities<'static> {
        &self.average
    }

    /// The average over draws with the true classes.
    pub fn labelled(&self) -> LabelledProbabilities<'_> {
        LabelledProbabilities::new(&self.average, &self.labels)
            .expect("the labels were checked when they were read")
    }
}

/// Burn's plain output is one draw.
impl Adaptor<ClassificationDraws> for ClassificationOutput {
    fn adapt(&self) -> ClassificationDraws {
        let probabilities = probabilities_of(self.output.clone()).unsqueeze();
        ClassificationDraws::new(probabilities, self.targets.clone())
    }
}

/// The softmax of logits (or log-probabilities), in at least single precision: in half precision
/// rows do not sum to 1.
pub(crate) fn probabilities_of(logits: Tensor<2>) -> Tensor<2> {
    let logits = match logits.dtype() {
        DType::F16 | DType::BF16 => logits.cast(DType::F32),
        _ => logits,
    };
    softmax(logits, 1)
}

fn class(target: i64) -> Result<usize, TensorReadError> {
    usize::try_from(target).map_err(|_| {
        ExecutionError::with_context(format!(
            "target {target} is not a class; classes are numbered from 0, and metrics cannot \
             ignore rows"
        ))
        .into()
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::metric::testing::classification;

    #[test]
    fn logits_are_one_draw_of_probabilities() {
        let device = Device::default();
        let output = ClassificationOutput::new(
            Tensor::zeros([1], &device),
            Tensor::from_data([[0.0, 3f32.ln()], [0.0, 0.0]], &device),
            Tensor::from_data([1, 0], &device),
        );
        let draws: ClassificationDraws = output.adapt();
        assert_eq!(draws.probabilities().dims(), [1, 2, 2]);
        let read = draws.read().unwrap();
        assert!((read.average().row(0)[1] - 0.75).abs() < f64::from(f32::EPSILON));
        assert_eq!(read.labelled().labels(), [1, 0]);
    }

    #[test]
    fn a_clone_is_read_with_the_original() {
        let draws = classification([[[0.5, 0.5]], [[1.0, 0.0]]], [1]);
        let clone = draws.clone();
        assert!(std::ptr::eq(draws.read().unwrap(), clone.read().unwrap()));
        assert_eq!(draws.read().unwrap().average().row(0), [0.75, 0.25]);
        draws
            .average()
            .into_data()
            .assert_eq(&[[0.75f32, 0.25]].into(), true);
    }

    #[test]
    fn what_cannot_be_scored_is_refused_with_its_place() {
        let message = |draws: ClassificationDraws| draws.read().unwrap_err().to_string();
        let not_a_number = classification([[[0.5, 0.5], [f32::NAN, 0.5]]], [0, 0]);
        assert!(message(not_a_number).contains("row 1"));
        let unknown_class = classification([[[0.5, 0.5]]], [2]);
        assert!(message(unknown_class).contains("class below 2"));
        let left_out = classification([[[0.5, 0.5]]], [-100]);
        assert!(message(left_out).contains("-100"));
    }
}
