//! The average of a model's outputs over draws of its weights.
//!
//! Classification: p̄_c = mean_s softmax(logits_s)_c; Burn's own metrics read log p̄ as logits.
//! Regression: an equal mixture of the draws' predictions.

use burn::tensor::activation::softmax;
use burn::tensor::{ExecutionError, Int, Tensor};
use burn::train::metric::{
    AccuracyInput, Adaptor, ConfusionStatsInput, LossInput, PerplexityInput, TopKAccuracyInput,
};
use burn::train::{ClassificationOutput, ItemLazy, RegressionOutput};

/// An output that can be averaged over draws of the weights.
///
/// Implement it for an output type of your own to train and validate a model that returns it.
pub trait MixDraws: Sized {
    /// The average, and what metrics of uncertainty need.
    type Mixture: ItemLazy + 'static;

    /// Rows in the batch.
    fn rows(&self) -> usize;

    /// Averages the outputs of several draws for one batch; there is at least one.
    fn mix(draws: Vec<Self>) -> Self::Mixture;
}

/// Classification averaged over draws.
#[derive(Clone, Debug)]
pub struct ClassificationMixture {
    /// The mean negative log-likelihood of the average, `[1]`.
    pub loss: Tensor<1>,
    /// log p̄, `[rows, classes]`.
    pub output: Tensor<2>,
    /// The true classes, `[rows]`.
    pub targets: Tensor<1, Int>,
    /// Each draw's probabilities, `[draws, rows, classes]`.
    pub draw_probabilities: Tensor<3>,
}

impl MixDraws for ClassificationOutput {
    type Mixture = ClassificationMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> ClassificationMixture {
        let targets = draws[0].targets.clone();
        let probabilities = draws
            .into_iter()
            .map(|draw| softmax(draw.output, 1).unsqueeze::<3>())
            .collect();
        let draw_probabilities = Tensor::<3>::cat(probabilities, 0);
        let [_, rows, classes] = draw_probabilities.dims();
        let average: Tensor<2> = draw_probabilities
            .clone()
            .mean_dim(0)
            .reshape([rows, classes]);
        // The floor keeps Burn's metrics finite where every draw rules the class out.
        let output = average.clamp_min(f32::MIN_POSITIVE).log();
        let loss = output
            .clone()
            .gather(1, targets.clone().unsqueeze_dim(1))
            .mean()
            .neg();
        ClassificationMixture {
            loss,
            output,
            targets,
            draw_probabilities,
        }
    }
}

impl ItemLazy for ClassificationMixture {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            output: self.output.without_autodiff(),
            targets: self.targets.without_autodiff(),
            draw_probabilities: self.draw_probabilities.without_autodiff(),
        })
    }
}

impl ClassificationMixture {
    /// The average as Burn's own output, which its metrics adapt.
    fn averaged(&self) -> ClassificationOutput {
        ClassificationOutput::new(self.loss.clone(), self.output.clone(), self.targets.clone())
    }
}

/// Burn's metrics see the average.
macro_rules! adapt_average {
    ($mixture:ty: $($input:ty),+) => {
        $(impl Adaptor<$input> for $mixture {
            fn adapt(&self) -> $input {
                self.averaged().adapt()
            }
        })+
    };
}

adapt_average!(
    ClassificationMixture: AccuracyInput, LossInput, TopKAccuracyInput, PerplexityInput,
    ConfusionStatsInput
);

/// Regression averaged over draws.
#[derive(Clone, Debug)]
pub struct RegressionMixture {
    /// The mean of the draws' losses, `[1]`.
    pub loss: Tensor<1>,
    /// The mean of the draws' predictions, `[rows, targets]`.
    pub output: Tensor<2>,
    /// The true values, `[rows, targets]`.
    pub targets: Tensor<2>,
    /// Each draw's predictions, `[draws, rows, targets]`.
    pub draw_outputs: Tensor<3>,
}

impl MixDraws for RegressionOutput {
    type Mixture = RegressionMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> RegressionMixture {
        let targets = draws[0].targets.clone();
        let losses = draws.iter().map(|draw| draw.loss.clone()).collect();
        let outputs = draws
            .into_iter()
            .map(|draw| draw.output.unsqueeze::<3>())
            .collect();
        let draw_outputs = Tensor::<3>::cat(outputs, 0);
        let [_, rows, columns] = draw_outputs.dims();
        RegressionMixture {
            loss: Tensor::cat(losses, 0).mean(),
            output: draw_outputs.clone().mean_dim(0).reshape([rows, columns]),
            targets,
            draw_outputs,
        }
    }
}

impl ItemLazy for RegressionMixture {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            output: self.output.without_autodiff(),
            targets: self.targets.without_autodiff(),
            draw_outputs: self.draw_outputs.without_autodiff(),
        })
    }
}

impl RegressionMixture {
    fn averaged(&self) -> RegressionOutput {
        RegressionOutput::new(self.loss.clone(), self.output.clone(), self.targets.clone())
    }
}

adapt_average!(RegressionMixture: LossInput);
