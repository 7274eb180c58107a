//! The warnings that the library gives to the `log` facade.

use std::cell::RefCell;

use burn::module::{Module, ParamGroup};
use burn::nn::{Dropout, DropoutConfig, GaussianNoise, GaussianNoiseConfig, Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::Tensor;
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{Averaging, Vifa};
use burn_bayes::{Bayesian, BayesianConfig, ExampleLoss, SlangConfig, SwagConfig};

use crate::support::{autodiff, one_stage};

#[derive(Module, Debug)]
struct Net {
    layer: Linear,
    noise: Option<GaussianNoise>,
    dropout: Option<Dropout>,
    /// Whether the losses use `GatherNd`, which a recording cannot replay.
    #[module(skip)]
    gathers: bool,
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

impl InferenceStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> RegressionOutput {
        let losses = self.example_losses((inputs.clone(), targets.clone()));
        RegressionOutput::new(losses.mean(), inputs, targets)
    }
}

impl ExampleLoss for Net {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        let mut outputs = self.layer.forward(inputs);
        if let Some(noise) = &self.noise {
            outputs = noise.forward(outputs);
        }
        if self.gathers {
            let rows = outputs.dims()[0];
            let all = Tensor::arange(0..rows as i64, &outputs.device());
            outputs = outputs.gather_nd(all.reshape([rows, 1]));
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
pub(crate) fn logged(act: impl FnOnce()) -> Vec<String> {
    // Another test may have set the logger already.
    let _ = log::set_logger(&Lines);
    log::set_max_level(log::LevelFilter::Warn);
    LINES.take();
    act();
    LINES.take()
}

fn net(noise: bool) -> Net {
    Net {
        layer: LinearConfig::new(1, 1).init(&autodiff()),
        noise: noise.then(|| GaussianNoiseConfig::new(0.1).init()),
        dropout: (!noise).then(|| DropoutConfig::new(0.5).init()),
        gathers: false,
    }
}

fn batch() -> Batch {
    let ones = Tensor::ones([4, 1], &autodiff());
    (ones.clone(), ones)
}

#[test]
fn the_operation_that_no_recording_has_is_named_once() {
    let net = Net {
        gathers: true,
        ..net(false)
    };
    let bayesian = BayesianConfig::new(4, SlangConfig::new()).init(net);
    let lines = logged(|| {
        for _ in 0..2 {
            TrainStep::step(&bayesian, batch());
        }
    });
    let [line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    for part in ["one example at a time", "GatherNd"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn an_average_that_cannot_be_aligned_is_reported() {
    let config = one_stage(4)
        .map_method(|method| method.with_rank(1))
        .with_averaging(Averaging::From(1));
    let mut bayesian = config.init(net(true));
    let mut optimizer = SgdConfig::new().init();
    // The average is aligned at the eighth iterate, whose factors are not finite.
    let lines = logged(|| {
        for rate in [0.01; 7].into_iter().chain([f64::INFINITY]) {
            let gradients = TrainStep::step(&bayesian, batch()).grads;
            bayesian = bayesian
                .clone()
                .optimize(&mut optimizer, rate.into(), gradients);
        }
    });
    let line = lines.iter().find(|line| line.contains("not aligned"));
    let line = line.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(
        line.contains("iterate 8: ") && line.contains("entry (0, 0)"),
        "{line}"
    );
}

#[test]
fn the_layer_that_is_not_in_a_recording_is_named_once() {
    let config = one_stage(4).with_draws(2);
    let steps = |bayesian: Bayesian<Net, Vifa>| {
        logged(|| {
            for _ in 0..2 {
                TrainStep::step(&bayesian, batch());
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
    let config = one_stage(4);
    let lines = |noise| {
        let bayesian = config.init(net(noise));
        logged(|| drop(bayesian.with_dropout()))
    };
    assert!(lines(true)[0].contains("with_dropout() has no effect"));
    assert_eq!(lines(false), [""; 0]);
}

#[test]
fn dropout_that_wrapping_switches_off_is_named() {
    let lines = logged(|| drop(one_stage(4).init(net(false))));
    let [line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    for part in ["dropout is off in dropout (Dropout)", "with_dropout"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(logged(|| drop(one_stage(4).init(net(true)))), [""; 0]);
    // Dropout that is off already is not switched off.
    let frozen = net(false).freeze_group(ParamGroup::from_path("dropout.training"));
    assert_eq!(logged(|| drop(one_stage(4).init(frozen))), [""; 0]);
}

#[test]
fn training_examples_that_are_not_the_rows_of_an_epoch_are_named_at_the_first_validation() {
    let lines = |train_len| {
        let bayesian = one_stage(train_len).init(net(true));
        logged(|| {
            for _ in 0..2 {
                let valid = bayesian.valid();
                InferenceStep::step(&valid, batch());
                for _ in 0..5 {
                    TrainStep::step(&bayesian, batch());
                }
            }
            InferenceStep::step(&bayesian.valid(), batch());
        })
    };
    let wrong = lines(8);
    let [line] = wrong.as_slice() else {
        panic!("{wrong:?}");
    };
    for part in ["train_len: is 8", "20 rows"] {
        assert!(line.contains(part), "{line}");
    }
    // A batch may be dropped or incomplete.
    for train_len in [16, 20, 23] {
        assert_eq!(lines(train_len), [""; 0]);
    }
}

#[test]
fn a_prediction_without_a_posterior_says_that_it_has_one_draw() {
    let bayesian = BayesianConfig::new(4, SwagConfig::new().with_start(Some(10))).init(net(true));
    let mut draws = Vec::new();
    let lines = logged(|| {
        for _ in 0..2 {
            let mixture = bayesian.predict(batch(), 50).unwrap();
            draws = mixture.draw_outputs.dims().to_vec();
        }
    });
    assert_eq!(draws[0], 1);
    let [line] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    for part in ["SWAG has collected 0 iterates", "one draw", "instead of 50"] {
        assert!(line.contains(part), "{line}");
    }
}
