//! Devices: the only place of the program that names backends.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::error::{Result, TabularError};

/// A device: `flex`, `wgpu`, `cuda` or `cuda:1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// The CPU.
    #[default]
    Flex,
    /// A GPU through wgpu.
    Wgpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

impl DeviceName {
    /// The CPU, for computations without a device option.
    ///
    /// # Errors
    /// If the program was built without it.
    pub fn host() -> Result<Device> {
        Self::Flex.device()
    }

    /// The device.
    ///
    /// # Errors
    /// If the program was built without it.
    pub fn device(self) -> Result<Device> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(Default::default())),
            #[cfg(feature = "cuda")]
            Self::Cuda(index) => Ok(Device::cuda(index)),
            #[allow(unreachable_patterns, reason = "reachable unless every feature is on")]
            _ => {
                let feature = self.to_string();
                let feature = feature.split(':').next().unwrap_or_default();
                Err(TabularError::Usage(format!(
                    "device: this program was built without `{self}`; build it with \
                     `--features {feature}`"
                )))
            }
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cuda = |index: &str| index.parse().ok().map(Self::Cuda);
        let device = match text.split_once(':') {
            None if text == "flex" => Some(Self::Flex),
            None if text == "wgpu" => Some(Self::Wgpu),
            None if text == "cuda" => Some(Self::Cuda(0)),
            Some(("cuda", index)) => cuda(index),
            _ => None,
        };
        device.ok_or_else(|| format!("`{text}` is not a device; use flex, wgpu, cuda or cuda:1"))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flex => f.write_str("flex"),
            Self::Wgpu => f.write_str("wgpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_parsed() {
        for text in ["flex", "wgpu", "cuda:0", "cuda:1"] {
            assert_eq!(text.parse::<DeviceName>().unwrap().to_string(), text);
        }
        for text in ["cuda:x", "tpu", "flex:1", ""] {
            assert!(text.parse::<DeviceName>().unwrap_err().contains(text));
        }
    }

    #[test]
    fn a_device_that_was_not_built_in_is_a_usage_error() {
        let failure = DeviceName::Cuda(0).device().err();
        if !cfg!(feature = "cuda") {
            let message = failure.map(|failure| failure.to_string());
            assert!(message.unwrap_or_default().contains("--features cuda"));
        }
    }
}
