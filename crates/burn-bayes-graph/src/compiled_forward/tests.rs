//! Forward passes in two halves against the model itself.

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::*;
use crate::CapturedForward;
use crate::batch::Inputs;
use crate::capture::record_examples;
use crate::compare::values;
use crate::parameters::module_tensors;

/// Two layers, and a last one that may read more than their result.
#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
    last: Linear,
    #[module(skip)]
    reads: Reads,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    Hidden,
    /// Two times, as a shortcut does.
    HiddenTwice,
    /// Also the inputs, after the last layer.
    Inputs,
}

impl Net {
    fn new(reads: Reads) -> Self {
        let device = Device::default();
        device.seed(3);
        Self {
            first: LinearConfig::new(4, 6).init(&device),
            second: LinearConfig::new(6, 5).init(&device),
            last: LinearConfig::new(5, 2).init(&device),
            reads,
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let hidden = relu(self.first.forward(x.clone()));
        let hidden = relu(self.second.forward(hidden));
        match self.reads {
            Reads::Hidden => self.last.forward(hidden),
            Reads::HiddenTwice => {
                self.last.forward(hidden.clone()) * self.last.forward(hidden).tanh()
            }
            Reads::Inputs => self.last.forward(hidden) * x.narrow(1, 1, 2),
        }
    }
}

fn inputs(rows: usize) -> Tensor<2> {
    let values = Tensor::<1, burn::tensor::Int>::arange(0..4 * rows as i64, &Device::default());
    (values.float() * 0.7).sin().reshape([rows, 4])
}

/// Whether the layers that draws have in common are a half of their own; the outputs are always those of the model.
#[track_caller]
fn has_features(reads: Reads, group: &ParamGroup) -> bool {
    let net = Net::new(reads);
    let layout = Layout::new(&net, group).unwrap();
    let captured = CapturedForward::new(layout.clone().into(), |net: &Net, x| net.forward(x));
    let draws =
        Tensor::<1, burn::tensor::Int>::arange(0..3 * layout.len() as i64, &Device::default());
    let draws = draws.float().cos().reshape([3, layout.len()]);
    for rows in [1, 2, 7] {
        let found = captured
            .outputs(&net, draws.clone(), &inputs(rows))
            .unwrap();
        let expected = captured.looped(&net, draws.clone(), &inputs(rows)).unwrap();
        assert_eq!(found.dims(), [3, rows, 2]);
        for (found, expected) in values(&found).iter().zip(values(&expected)) {
            assert!(
                (found - expected).abs() < 1e-5,
                "{reads:?}: {found} {expected}"
            );
        }
        assert!(captured.is_faster(&net, &inputs(rows)).unwrap());
    }
    let x = inputs(7);
    let recording = record_examples(&net, &layout, &x, 7, &|net: &Net, x| net.forward(x));
    let tensors = module_tensors(&net, &layout);
    let compiled = CompiledForward::new(recording.unwrap(), &tensors, &Inputs::of(&x), 7);
    compiled.unwrap().features.is_some()
}

#[test]
fn what_draws_have_in_common_is_computed_once() {
    let (last, all) = (ParamGroup::from_predicate("last"), ParamGroup::all());
    assert!(has_features(Reads::Hidden, &last));
    assert!(has_features(Reads::HiddenTwice, &last));
    assert!(has_features(
        Reads::Hidden,
        &ParamGroup::from_predicate("second")
    ));
    // Nothing is computed before the first layer; what follows the last one reads two tensors.
    assert!(!has_features(Reads::Hidden, &all));
    assert!(!has_features(Reads::Inputs, &last));
}
