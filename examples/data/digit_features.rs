//! The layers of `digit_features.onnx` as Burn code.

// Generated from ONNX "digit_features.onnx" by burn-onnx
extern crate alloc;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::nn::conv::Conv2dConfig;
use burn::nn::pool::AvgPool2d;
use burn::nn::pool::AvgPool2dConfig;
use burn::prelude::*;
use burn::tensor::Bytes;
use burn_store::BurnpackStore;
use burn_store::ModuleSnapshot;

#[derive(Module, Debug)]
pub struct Model {
    conv2d1: Conv2d,
    averagepool2d1: AvgPool2d,
    conv2d2: Conv2d,
    #[module(skip)]
    device: Device,
}

extern crate std;

impl Default for Model {
    fn default() -> Self {
        Self::from_file("./digit_features.bpk", &Default::default())
    }
}

impl Model {
    /// Load model weights from a burnpack file.
    pub fn from_file<P: AsRef<std::path::Path>>(file: P, device: &Device) -> Self {
        let mut model = Self::new(device);
        let mut store = BurnpackStore::from_file(&file);
        model.load_from(&mut store).unwrap_or_else(|e| {
            panic!(
                "Failed to load burnpack file {}: {e}",
                file.as_ref().display()
            )
        });
        model
    }

    /// Load model weights from in-memory bytes.
    ///
    /// The bytes must be the contents of a `.bpk` file.
    pub fn from_bytes(bytes: Bytes, device: &Device) -> Self {
        let mut model = Self::new(device);
        let mut store = BurnpackStore::from_bytes(Some(bytes));
        model
            .load_from(&mut store)
            .unwrap_or_else(|e| panic!("Failed to load burnpack bytes: {e}"));
        model
    }
}

impl Model {
    #[allow(unused_variables)]
    pub fn new(device: &Device) -> Self {
        let conv2d1 = Conv2dConfig::new([1, 8], [3, 3])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        let averagepool2d1 = AvgPool2dConfig::new([2, 2])
            .with_strides([2, 2])
            .with_padding(PaddingConfig2d::Valid)
            .with_count_include_pad(true)
            .with_ceil_mode(false)
            .init();
        let conv2d2 = Conv2dConfig::new([8, 16], [2, 2])
            .with_stride([1, 1])
            .with_padding(PaddingConfig2d::Valid)
            .with_dilation([1, 1])
            .with_groups(1)
            .with_bias(true)
            .init(device);
        Self {
            conv2d1,
            averagepool2d1,
            conv2d2,
            device: device.clone(),
        }
    }

    #[allow(clippy::let_and_return, clippy::approx_constant)]
    pub fn forward(&self, pictures: Tensor<4>) -> Tensor<2> {
        let conv2d1_out1 = self.conv2d1.forward(pictures);
        let relu1_out1 = burn::tensor::activation::relu(conv2d1_out1);
        let averagepool2d1_out1 = self.averagepool2d1.forward(relu1_out1);
        let conv2d2_out1 = self.conv2d2.forward(averagepool2d1_out1);
        let relu2_out1 = burn::tensor::activation::relu(conv2d2_out1);
        let reshape1_out1 = relu2_out1.reshape([-1, 96]);
        reshape1_out1
    }
}
