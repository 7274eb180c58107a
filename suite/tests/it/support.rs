//! Shared by all modules of the suite: the device, numbers from seeds, comparisons.

use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param, ParamGroup};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::BayesianConfig;
use burn_bayes::Noise;
use burn_bayes::graph::Layout;
use burn_bayes::methods::{MeanStage, VifaConfig};

/// The rounding error of one operation in single precision.
pub(crate) const EPSILON: f64 = f32::EPSILON as f64;

fn device_name() -> String {
    std::env::var("BURN_BAYES_TEST_DEVICE").unwrap_or_else(|_| "flex".into())
}

/// The device under test.
pub(crate) fn device() -> Device {
    match device_name().as_str() {
        #[cfg(feature = "flex")]
        "flex" => Device::flex(),
        #[cfg(feature = "ndarray")]
        "ndarray" => ndarray(),
        #[cfg(feature = "wgpu")]
        "wgpu" => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        "cuda" => Device::cuda(0),
        other => panic!("BURN_BAYES_TEST_DEVICE is {other}, which this build does not hold"),
    }
}

/// Burn's older CPU backend.
#[cfg(feature = "ndarray")]
#[expect(deprecated, reason = "it is offered as long as Burn ships it")]
pub(crate) fn ndarray() -> Device {
    Device::ndarray()
}

/// The device under test, with autodiff.
pub(crate) fn autodiff() -> Device {
    device().autodiff()
}

/// Standard normals that depend only on the seed.
pub(crate) fn normals(seed: u64, len: usize) -> Vec<f32> {
    Noise::new(seed).latent(len)
}

pub(crate) fn vector(values: &[f32]) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device())
}

pub(crate) fn matrix(rows: usize, columns: usize, values: &[f32]) -> Tensor<2> {
    let data = TensorData::new(values.to_vec(), [rows, columns]);
    Tensor::from_data(data, &device())
}

/// The numbers of a tensor in row-major order.
pub(crate) fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f64> {
    tensor.to_data_as::<f32>().iter::<f64>().collect()
}

/// The bits of a tensor in row-major order.
pub(crate) fn bits<const R: usize>(tensor: &Tensor<R>) -> Vec<u32> {
    let data = tensor.to_data_as::<f32>();
    data.iter::<f32>().map(f32::to_bits).collect()
}

pub(crate) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// Each element is within `tolerance` times its scale, the size of the terms of its sum.
#[track_caller]
pub(crate) fn assert_close(
    what: &str,
    actual: &[f64],
    expected: &[f64],
    scales: &[f64],
    tolerance: f64,
) {
    assert_eq!(actual.len(), expected.len(), "{what}: lengths");
    for (index, ((&actual, &expected), &scale)) in
        actual.iter().zip(expected).zip(scales).enumerate()
    {
        let (error, allowed) = ((actual - expected).abs(), tolerance * scale);
        // A NaN must fail too.
        assert!(
            error <= allowed,
            "{what}[{index}] is {actual}, expected {expected}: off by {error:e}, allowed {allowed:e}"
        );
    }
}

/// Whether steps are compiled on the device under test.
pub(crate) fn is_compiled() -> bool {
    device_name() == "flex"
}

/// Whether the device under test computes an operation in the same way wherever it stands. A GPU does not: Burn fuses its
/// operations in several ways, and kernels of one draw and of many add in another order.
fn repeats_bits() -> bool {
    ["flex", "ndarray"].contains(&&*device_name())
}

/// Numbers, as bits, are equal; up to rounding on a device that does not [repeat them](repeats_bits).
#[track_caller]
pub(crate) fn assert_same(what: &str, found: &[u32], expected: &[u32]) {
    if repeats_bits() {
        assert_eq!(found, expected, "{what}");
        return;
    }
    let numbers = |bits: &[u32]| -> Vec<f64> {
        let numbers = bits.iter().map(|&bits| f64::from(f32::from_bits(bits)));
        numbers.collect()
    };
    let (found, expected) = (numbers(found), numbers(expected));
    let scales: Vec<f64> = expected.iter().map(|value| value.abs() + 1.0).collect();
    assert_close(what, &found, &expected, &scales, 128.0 * EPSILON);
}

/// The parts of two states are the [same](assert_same).
#[track_caller]
pub(crate) fn assert_same_state(what: &str, found: &[Vec<u32>], expected: &[Vec<u32>]) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    for (found, expected) in found.iter().zip(expected) {
        assert_same(what, found, expected);
    }
}

/// One number within `allowed` of another.
#[track_caller]
pub(crate) fn assert_near(what: &str, actual: f64, expected: f64, allowed: f64) {
    assert_close(what, &[actual], &[expected], &[1.0], allowed);
}

/// A layout without a model: one parameter, `weights`.
pub(crate) fn flat_layout(len: usize) -> Arc<Layout> {
    layout_of(&[("weights", len)])
}

/// A layout without a model: vectors of these names and lengths.
pub(crate) fn layout_of(parts: &[(&str, usize)]) -> Arc<Layout> {
    let mut offset = 0;
    let mut entries = Vec::new();
    for (path, len) in parts {
        entries.push(format!(
            r#"{{"path":"{path}","shape":[{len}],"offset":{offset}}}"#
        ));
        offset += len;
    }
    let json = format!("[{}]", entries.join(","));
    Arc::new(Layout::from_json(&json).unwrap())
}

/// The model with weights of standard deviation `scale` that depend only on the seed.
pub(crate) fn filled<M: Module>(model: M, seed: u64, scale: f32) -> M {
    let layout = Layout::new(&model, &ParamGroup::all()).unwrap();
    let weights = vector(&normals(seed, layout.len())) * scale;
    layout.write(model, weights).unwrap()
}

/// The gradients of a module's parameters, concatenated in visiting order.
pub(crate) fn joined_gradients<M: Module>(module: &M, gradients: &GradientsParams) -> Vec<f64> {
    struct Join<'a>(&'a GradientsParams, Vec<f64>);
    impl ModuleVisitor for Join<'_> {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            if let Some(gradient) = self.0.get::<R>(param.id) {
                self.1.extend(values(&gradient));
            }
        }
    }
    let mut join = Join(gradients, Vec::new());
    module.visit(&mut join);
    join.1
}

/// The bits of every float parameter, in visiting order.
pub(crate) fn state<M: Module>(module: &M) -> Vec<Vec<u32>> {
    #[derive(Default)]
    struct State(Vec<Vec<u32>>);
    impl ModuleVisitor for State {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.0.push(bits(&param.base()));
        }
    }
    let mut state = State::default();
    module.visit(&mut state);
    state.0
}

/// VIFA whose covariance learns from the first step on.
pub(crate) fn one_stage(train_len: usize) -> BayesianConfig<VifaConfig> {
    BayesianConfig::new(train_len, VifaConfig::new()).with_mean_stage(MeanStage::None)
}
