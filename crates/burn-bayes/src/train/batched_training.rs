//! Evaluates all draws of a step in one pass, for models that return the loss of every example.

use std::fmt;
use std::sync::{Arc, Once, OnceLock};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::{CapturedLoss, DrawGradients, ExampleBatch, Layout};

use super::gather::{Gathered, one_by_one};
use super::gather_per_example::ExampleLoss;
use super::self_check::SelfCheck;
use super::training_layers::training_flags;
use crate::error::Result;
use crate::methods::{Draw, GradientPieces};
use crate::train::own_loss;

/// A model's recorded loss. The closure hides the bound on [`ExampleLoss`], so that other code does
/// not need it.
pub(crate) struct BatchedTraining<M: TrainStep> {
    gather: Box<Gather<M>>,
    refused: Once,
}

type Gather<M> = dyn Fn(
        &M,
        &[Draw],
        &<M as TrainStep>::Input,
        &SelfCheck,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>>
    + Send
    + Sync;

impl<M: TrainStep> fmt::Debug for BatchedTraining<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchedTraining").finish_non_exhaustive()
    }
}

impl<M> BatchedTraining<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
{
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        // Created at the first step, when all settings are known.
        let captured = OnceLock::new();
        let gather = move |model: &M, draws: &[Draw], item: &M::Input, check: &SelfCheck| {
            let captured = captured.get_or_init(|| {
                let losses = |model: &M, batch| model.example_losses(batch);
                let captured = CapturedLoss::new(layout.clone(), losses);
                match check.is_on() {
                    true => captured,
                    false => captured.without_self_check(),
                }
            });
            let weights = draws.iter().map(|draw| draw.weights.clone());
            let weights = Tensor::stack(weights.collect(), 0);
            let Some(gradients) = captured.gradients(model, weights, item)? else {
                return Ok(None);
            };
            if check.is_loss_due() {
                compared(&layout, model, draws, item, &gradients)?;
            }
            check.gathered();
            let DrawGradients {
                losses,
                pieces,
                outside,
            } = gradients;
            let losses = losses.narrow(0, 0, 1).squeeze_dim(0);
            let first = layout.write_leaves(model.clone(), draws[0].weights.clone())?;
            Ok(Some(Gathered {
                signal: pieces,
                outside,
                item: first.example_outputs(item.clone(), losses),
            }))
        };
        Self {
            gather: Box::new(gather),
            refused: Once::new(),
        }
    }
}

/// Compares the gradients at the first draw, and those outside the layout, with the model's own
/// step.
fn compared<M: Module + TrainStep<Input: Clone>>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    item: &M::Input,
    found: &DrawGradients,
) -> Result<()> {
    let parts = |pieces: &[Vec<Tensor<1>>], outside: &GradientsParams| {
        let mut parts = own_loss::inside(layout, pieces[0].iter().cloned());
        parts.extend(own_loss::outside(model, outside));
        parts
    };
    let own = || -> Result<_> {
        let own = one_by_one(layout, model, draws, item, |_, pieces| Ok(pieces))?;
        Ok(parts(&own.signal, &own.outside))
    };
    own_loss::compare(parts(&found.pieces, &found.outside), &own()?, own)
}

impl<M: Module + TrainStep> BatchedTraining<M> {
    /// The gradients at all draws; `None` if they need one pass per draw.
    pub(crate) fn gathered(
        &self,
        model: &M,
        draws: &[Draw],
        item: &<M as TrainStep>::Input,
        check: &SelfCheck,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>> {
        if let Some(layer) = training_flags(model).iter().find(|flag| flag.is_on) {
            self.refused.call_once(|| {
                let cure = layer.cure();
                log::warn!(
                    "draws are evaluated one by one: {layer} behaves differently in training and \
                     inference, and recordings are made in inference mode; for batched draws, \
                     {cure}"
                );
            });
            return Ok(None);
        }
        (self.gather)(model, draws, item, check)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use burn::nn::{
        Dropout, DropoutConfig, GaussianNoise, GaussianNoiseConfig, Linear, LinearConfig,
    };
    use burn::tensor::Device;
    use burn::train::{RegressionOutput, TrainOutput};

    use super::*;
    use crate::methods::VifaConfig;

    #[derive(Module, Debug)]
    struct Net {
        layer: Linear,
        noise: Option<GaussianNoise>,
        dropout: Option<Dropout>,
    }

    type Batch = (Tensor<2>, Tensor<2>);

    impl TrainStep for Net {
        type Input = Batch;
        type Output = RegressionOutput;

        fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
            let losses = self.example_losses((inputs.clone(), targets.clone()));
            let loss = losses.mean();
            let gradients = loss.backward();
            TrainOutput::new(
                self,
                gradients,
                RegressionOutput::new(loss, inputs, targets),
            )
        }
    }

    impl ExampleLoss for Net {
        fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
            let mut outputs = self.layer.forward(inputs);
            if let Some(noise) = &self.noise {
                outputs = noise.forward(outputs);
            }
            (outputs - targets).square().squeeze_dim(1)
        }
    }

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    struct Lines;

    impl log::Log for Lines {
        fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }

        fn flush(&self) {}
    }

    /// The lines that this thread logs during `act`.
    fn logged(act: impl FnOnce()) -> Vec<String> {
        // Another test may have set the logger already.
        let _ = log::set_logger(&Lines);
        log::set_max_level(log::LevelFilter::Warn);
        LINES.take();
        act();
        LINES.take()
    }

    fn net(noise: bool) -> Net {
        let device = Device::default().autodiff();
        Net {
            layer: LinearConfig::new(1, 1).init(&device),
            noise: noise.then(|| GaussianNoiseConfig::new(0.1).init()),
            dropout: (!noise).then(|| DropoutConfig::new(0.5).init()),
        }
    }

    #[test]
    fn the_layer_that_is_not_in_a_recording_is_named_once() {
        let device = Device::default().autodiff();
        let batch: Batch = (Tensor::ones([4, 1], &device), Tensor::ones([4, 1], &device));
        let config = VifaConfig::new(4).with_draws(2);
        let steps = |bayesian: crate::Bayesian<Net, _>| {
            logged(|| {
                for _ in 0..2 {
                    TrainStep::step(&bayesian, batch.clone());
                }
            })
        };
        let lines = steps(config.init(net(true)).with_batched_draws());
        let [line] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        for part in ["noise (GaussianNoise)", "from_path(\"noise.training\")"] {
            assert!(line.contains(part), "{line}");
        }
        // The order of `with_dropout` and `with_batched_draws` does not matter.
        for bayesian in [
            config.init(net(false)).with_batched_draws().with_dropout(),
            config.init(net(false)).with_dropout().with_batched_draws(),
        ] {
            let lines = steps(bayesian);
            assert!(
                lines.len() == 1 && lines[0].contains("dropout (Dropout)"),
                "{lines:?}"
            );
        }
        assert_eq!(steps(config.init(net(false)).with_batched_draws()), [""; 0]);
    }

    #[test]
    fn dropout_that_a_model_has_not_cannot_be_brought_back_in_silence() {
        let config = VifaConfig::new(4);
        let lines = |noise| {
            let bayesian = config.init(net(noise));
            logged(|| drop(bayesian.with_dropout()))
        };
        assert!(lines(true)[0].contains("with_dropout() has no effect"));
        assert_eq!(lines(false), [""; 0]);
    }
}
