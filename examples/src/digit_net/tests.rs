//! Files that PyTorch wrote: `data/export.py`.

use std::path::{Path, PathBuf};

use burn::tensor::{Bytes, TensorData};
use burn_store::{ModuleSnapshot, PytorchStore};

use super::*;
use crate::digit_features::Model;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(name)
}

/// Numbers that PyTorch computed.
fn published(name: &str) -> Tensor<2> {
    let text = std::fs::read_to_string(data("digit_outputs.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows: Vec<Vec<f32>> = serde_json::from_value(all[name].clone()).unwrap();
    let shape = [rows.len(), rows[0].len()];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &Device::default())
}

#[track_caller]
fn assert_close(found: Tensor<2>, expected: Tensor<2>) {
    let scale = expected.clone().abs() + 1.0;
    let difference: f32 = ((found - expected) / scale).abs().max().into_scalar();
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn a_state_dictionary_of_pytorch_gives_its_logits() {
    let device = Device::default();
    let file = data("digits.pth");
    // ANCHOR: pth
    let mut net = DigitNet::new(Glyphs::CLASSES, &device);
    net.load_from(&mut PytorchStore::from_file(file)).unwrap();
    // ANCHOR_END: pth
    assert_close(net.forward(published("pixels")), published("logits"));
}

#[test]
fn code_and_weights_from_an_onnx_file_give_its_outputs() {
    let weights = std::fs::read(data("digit_features.bpk")).unwrap();
    let net = Model::from_bytes(Bytes::from_bytes_vec(weights), &Device::default());
    let [height, width] = Glyphs::SHAPE;
    let pictures = published("pixels").reshape([-1, 1, height as i64, width as i64]);
    assert_close(net.forward(pictures), published("features"));
}
