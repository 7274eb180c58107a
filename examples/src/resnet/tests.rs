//! The names and shapes of torchvision's `resnet18`.

use std::collections::BTreeMap;

use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot};

use super::*;

/// The tensors of torchvision's state dictionary, without the counters of batches.
fn published() -> BTreeMap<String, Vec<usize>> {
    let mut tensors = BTreeMap::new();
    let mut unit = |convolution: String, norm: String, shape: [usize; 4]| {
        tensors.insert(format!("{convolution}.weight"), shape.to_vec());
        for name in ["weight", "bias", "running_mean", "running_var"] {
            tensors.insert(format!("{norm}.{name}"), vec![shape[0]]);
        }
    };
    unit("conv1".into(), "bn1".into(), [64, 3, 7, 7]);
    let mut before = 64;
    for (layer, after) in (1..).zip([64, 128, 256, 512]) {
        for block in 0..2 {
            let path = |name: &str| format!("layer{layer}.{block}.{name}");
            unit(path("conv1"), path("bn1"), [after, before, 3, 3]);
            unit(path("conv2"), path("bn2"), [after, after, 3, 3]);
            if before != after {
                let shortcut = ["downsample.0", "downsample.1"].map(path);
                let [convolution, norm] = shortcut;
                unit(convolution, norm, [after, before, 1, 1]);
            }
            before = after;
        }
    }
    tensors.insert("fc.weight".into(), vec![1000, 512]);
    tensors.insert("fc.bias".into(), vec![1000]);
    tensors
}

#[test]
fn tensors_have_the_names_and_shapes_of_torchvision() {
    let net = ResNet::new(ResNet::WIDTH, 1000, &Device::default());
    let found = net.collect(None, Some(Box::new(BurnToPyTorchAdapter)), false);
    let found = found
        .into_iter()
        .map(|tensor| (tensor.name, tensor.shape.to_vec()));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), published());
    // With the running statistics.
    assert_eq!(net.num_params(), 11_689_512 + 9_600);
}
