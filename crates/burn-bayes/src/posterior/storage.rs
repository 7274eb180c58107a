//! Posterior files: the tensors `mean`, `factors`, `diag` and the metadata `form`, `layout`,
//! `format_version`, in safetensors or in Burn's burnpack. Equal posteriors make equal files.
//!
//! A file appears under its name only when it is whole: it is written beside its place and renamed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use burn_bayes_graph::Layout;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;

use super::{FactorPosterior, FormKind};
use crate::error::{Error, Result};

/// The version of the file format; a file of another version is refused.
pub const FORMAT_VERSION: u32 = 1;

/// The tensors of a posterior on the host.
struct Contents {
    metadata: [(&'static str, String); 3],
    tensors: Vec<(&'static str, TensorData)>,
}

/// Names and metadata keys, in the order in which they are written.
const MEAN: &str = "mean";
const FACTORS: &str = "factors";
const DIAGONAL: &str = "diag";
const FORM: &str = "form";
const LAYOUT: &str = "layout";
const VERSION: &str = "format_version";

impl FactorPosterior {
    /// Writes a `.safetensors` file.
    pub fn save_safetensors(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = self
            .contents()
            .to_safetensors()
            .map_err(|error| unwritable(path, error))?;
        write_whole(path, &bytes)
    }

    /// Reads a `.safetensors` file onto `device`.
    ///
    /// Refuses, each with its own message: another format version, a truncated file, missing, unknown
    /// or misshaped tensors, numbers that are not finite, a diagonal that is not above zero.
    pub fn load_safetensors(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, error))?;
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|error| damaged(path, error))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(path, error))?;
        let tensors = file
            .iter()
            .map(|(name, view)| {
                if view.dtype() != Dtype::F32 {
                    return Err(damaged(
                        path,
                        format!("{name} is {:?}, not F32", view.dtype()),
                    ));
                }
                let bytes = Bytes::from_bytes_vec(view.data().to_vec());
                let data = TensorData::try_from_bytes(bytes, view.shape().to_vec(), DType::F32)
                    .map_err(|error| damaged(path, error))?;
                Ok((name.to_string(), data))
            })
            .collect::<Result<_>>()?;
        Self::from_contents(path, &metadata, tensors, device)
    }

    /// Writes a `.bpk` file.
    pub fn save_burnpack(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let contents = self.contents();
        let tensors = contents.tensors.into_iter().map(|(name, data)| {
            let (bytes, shape, dtype) = data.into_parts();
            burn_pack::Tensor::new(name.to_string(), dtype, shape, None, bytes)
        });
        let mut writer = burn_pack::Writer::new(tensors.collect()).auto_extension(false);
        for (key, value) in contents.metadata {
            writer = writer.with_metadata(key, &value);
        }
        writer
            .write_to_file(path)
            .map_err(|error| unwritable(path, error))
    }

    /// Reads a `.bpk` file onto `device`, with the same checks as
    /// [`load_safetensors`](Self::load_safetensors).
    pub fn load_burnpack(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, error))?;
        let reader = burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(bytes))
            .map_err(|error| damaged(path, error))?;
        let metadata = reader.metadata().clone().into_iter().collect();
        let tensors = reader
            .into_tensors()
            .map_err(|error| damaged(path, error))?
            .into_iter()
            .map(|tensor| {
                let (name, dtype, shape, _, bytes) =
                    tensor.into_parts().map_err(|error| damaged(path, error))?;
                if dtype != DType::F32 {
                    return Err(damaged(path, format!("{name} is {dtype:?}, not F32")));
                }
                let data = TensorData::try_from_bytes(bytes, shape, dtype)
                    .map_err(|error| damaged(path, error))?;
                Ok((name, data))
            })
            .collect::<Result<_>>()?;
        Self::from_contents(path, &metadata, tensors, device)
    }

    /// Fails with a readable difference unless this posterior is over the same parameters as
    /// `layout`.
    pub fn expect_layout(&self, layout: &Layout) -> Result<()> {
        match layout.difference(&self.layout) {
            None => Ok(()),
            Some(difference) => Err(Error::layout(difference)),
        }
    }

    fn contents(&self) -> Contents {
        let metadata = [
            (FORM, self.kind().name().to_string()),
            (LAYOUT, self.layout.to_json()),
            (VERSION, FORMAT_VERSION.to_string()),
        ];
        let mut tensors = vec![(MEAN, self.mean().into_data_as::<f32>())];
        if let Some(factors) = self.factors() {
            tensors.push((FACTORS, factors.into_data_as::<f32>()));
        }
        tensors.push((DIAGONAL, self.diagonal().into_data_as::<f32>()));
        Contents { metadata, tensors }
    }

    fn from_contents(
        path: &Path,
        metadata: &HashMap<String, String>,
        mut tensors: HashMap<String, TensorData>,
        device: &Device,
    ) -> Result<Self> {
        let named = |error| damaged(path, error);
        let entry = |key: &str| {
            metadata
                .get(key)
                .ok_or_else(|| damaged(path, format!("it has no `{key}`: not a posterior file?")))
        };
        let version = entry(VERSION)?;
        if *version != FORMAT_VERSION.to_string() {
            return Err(damaged(
                path,
                format!(
                    "it has format version {version}, this program reads version {FORMAT_VERSION}"
                ),
            ));
        }
        let layout = Layout::from_json(entry(LAYOUT)?).map_err(|error| damaged(path, error))?;
        let layout = Arc::new(layout);
        let len = layout.len();

        let device = &device.clone().inner();
        let mut vector = |name: &str| -> Result<Tensor<1>> {
            let data = tensors
                .remove(name)
                .ok_or_else(|| damaged(path, format!("the tensor `{name}` is missing")))?;
            expect_shape(path, name, &data, &[len])?;
            Ok(Tensor::from_data(data, device))
        };
        let (mean, diagonal) = (vector(MEAN)?, vector(DIAGONAL)?);
        let factors = match tensors.remove(FACTORS) {
            Some(data) => {
                let rank = data.shape().iter().next().copied().unwrap_or(0);
                expect_shape(path, FACTORS, &data, &[rank, len])?;
                Some(Tensor::from_data(data, device))
            }
            None => None,
        };
        if let Some(name) = tensors.keys().min() {
            return Err(damaged(path, format!("`{name}` is no part of a posterior")));
        }
        match entry(FORM)?.as_str() {
            name if name == FormKind::Covariance.name() => {
                Self::covariance(layout, mean, factors, diagonal).map_err(named)
            }
            name if name == FormKind::Precision.name() => {
                Self::precision(layout, mean, factors, diagonal).map_err(named)
            }
            other => Err(damaged(
                path,
                format!("its form is `{other}`, where covariance or precision was expected"),
            )),
        }
    }
}

impl Contents {
    /// The bytes of a safetensors file: the length of a header, the header in JSON, the tensors.
    ///
    /// The crate of that name would write the metadata in a hash map's order, another one each time.
    fn to_safetensors(&self) -> serde_json::Result<Vec<u8>> {
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|(key, value)| (key.to_string(), json!(value)));
        let metadata = serde_json::Value::from_iter(metadata);
        let mut header = serde_json::Map::from_iter([("__metadata__".to_string(), metadata)]);
        let mut end = 0;
        for (name, data) in &self.tensors {
            let start = end;
            end += data.as_bytes().len();
            let shape: Vec<usize> = data.shape().iter().copied().collect();
            let info = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]});
            header.insert(name.to_string(), info);
        }
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = Vec::with_capacity(8 + header.len() + end);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        for (_, data) in &self.tensors {
            bytes.extend(data.as_bytes());
        }
        Ok(bytes)
    }
}

fn expect_shape(path: &Path, name: &str, data: &TensorData, expected: &[usize]) -> Result<()> {
    let found: Vec<usize> = data.shape().iter().copied().collect();
    if found == expected {
        return Ok(());
    }
    Err(damaged(
        path,
        format!("`{name}` is {found:?}, its layout asks for {expected:?}"),
    ))
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    std::fs::write(&beside, bytes)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| {
            // The error that matters is the first; a leftover that cannot be removed is named by it.
            let _ = std::fs::remove_file(&beside);
            unwritable(path, error)
        })
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!("{} cannot be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!("{} cannot be written: {error}", path.display()))
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!(
        "{} is not a usable posterior: {error}",
        path.display()
    ))
}
