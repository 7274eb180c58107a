//! Posterior files: the tensors `mean`, `factors`, `diag` and the metadata `form`, `layout`,
//! `format_version`, in safetensors or in Burn's burnpack. Equal posteriors make equal files.
//!
//! A file is written under a temporary name in the same folder and renamed when it is complete.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use burn_bayes_graph::Layout;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;

use crate::error::{Error, Result};

/// The version of the file format; files of other versions are rejected.
pub const FORMAT_VERSION: u32 = 1;

// Names and metadata keys, in the order in which they are written.
pub(super) const MEAN: &str = "mean";
pub(super) const FACTORS: &str = "factors";
pub(super) const DIAGONAL: &str = "diag";
const FORM: &str = "form";
const LAYOUT: &str = "layout";
const VERSION: &str = "format_version";

/// The two formats of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    Safetensors,
    Burnpack,
}

impl FileFormat {
    /// Safetensors if the path ends in `.safetensors`, otherwise burnpack.
    pub(super) fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension == "safetensors" => Self::Safetensors,
            _ => Self::Burnpack,
        }
    }
}

/// The contents of a file.
pub(super) struct Contents {
    metadata: [(&'static str, String); 3],
    tensors: Vec<(&'static str, TensorData)>,
}

impl Contents {
    pub(super) fn new(form: &str, layout: &Layout) -> Self {
        Self {
            metadata: [
                (FORM, form.to_string()),
                (LAYOUT, layout.to_json()),
                (VERSION, FORMAT_VERSION.to_string()),
            ],
            tensors: Vec::new(),
        }
    }

    pub(super) fn with<const R: usize>(mut self, name: &'static str, tensor: Tensor<R>) -> Self {
        self.tensors.push((name, tensor.into_data_as::<f32>()));
        self
    }

    pub(super) fn write(self, path: &Path, format: FileFormat) -> Result<()> {
        match format {
            FileFormat::Safetensors => {
                let bytes = self.to_safetensors();
                write_whole(path, &bytes.map_err(|error| unwritable(path, error))?)
            }
            FileFormat::Burnpack => self.write_burnpack(path),
        }
    }

    fn write_burnpack(self, path: &Path) -> Result<()> {
        let tensors = self.tensors.into_iter().map(|(name, data)| {
            let (bytes, shape, dtype) = data.into_parts();
            burn_pack::Tensor::new(name.to_string(), dtype, shape, None, bytes)
        });
        let mut writer = burn_pack::Writer::new(tensors.collect()).auto_extension(false);
        for (key, value) in self.metadata {
            writer = writer.with_metadata(key, &value);
        }
        writer
            .write_to_file(path)
            .map_err(|error| unwritable(path, error))
    }

    /// The bytes of a safetensors file: the length of the header, the header in JSON, the tensors.
    ///
    /// Written by hand because the `safetensors` crate writes the metadata in the random order of a
    /// hash map.
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

/// The contents of a file; its tensors are taken out one by one.
pub(super) struct Saved<'a> {
    path: &'a Path,
    form: String,
    layout: Arc<Layout>,
    tensors: HashMap<String, TensorData>,
    device: Device,
}

impl<'a> Saved<'a> {
    /// Fails, with a specific message, for another format version, a truncated file, or a tensor of
    /// another element type.
    pub(super) fn read(path: &'a Path, format: FileFormat, device: &Device) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, error))?;
        let (mut metadata, tensors) = match format {
            FileFormat::Safetensors => from_safetensors(path, &bytes)?,
            FileFormat::Burnpack => from_burnpack(path, bytes)?,
        };
        let mut entry = |key: &str| {
            metadata
                .remove(key)
                .ok_or_else(|| damaged(path, format!("it has no `{key}`; is it a posterior file?")))
        };
        let version = entry(VERSION)?;
        if version != FORMAT_VERSION.to_string() {
            return Err(damaged(
                path,
                format!(
                    "it has format version {version}, but this program reads version \
                     {FORMAT_VERSION}"
                ),
            ));
        }
        let layout = Layout::from_json(&entry(LAYOUT)?).map_err(|error| damaged(path, error))?;
        Ok(Self {
            path,
            form: entry(FORM)?,
            layout: Arc::new(layout),
            tensors,
            device: device.clone().inner(),
        })
    }

    /// The form, which must be one of these.
    pub(super) fn expect_form(&self, forms: &[&str]) -> Result<&str> {
        if forms.contains(&&*self.form) {
            return Ok(&self.form);
        }
        Err(self.damaged(format!(
            "its form is `{}`, expected {}",
            self.form,
            forms.join(" or ")
        )))
    }

    pub(super) fn layout(&self) -> Arc<Layout> {
        self.layout.clone()
    }

    /// A tensor with one number per weight.
    pub(super) fn vector(&mut self, name: &str) -> Result<Tensor<1>> {
        let data = self.tensors.remove(name);
        let data = data.ok_or_else(|| self.damaged(format!("the tensor `{name}` is missing")))?;
        self.expect_shape(name, &data, &[self.layout.len()])?;
        Ok(Tensor::from_data(data, &self.device))
    }

    /// A tensor with rows of one number per weight, if it exists.
    pub(super) fn rows(&mut self, name: &str) -> Result<Option<Tensor<2>>> {
        let Some(data) = self.tensors.remove(name) else {
            return Ok(None);
        };
        let count = data.shape().iter().next().copied().unwrap_or(0);
        self.expect_shape(name, &data, &[count, self.layout.len()])?;
        Ok(Some(Tensor::from_data(data, &self.device)))
    }

    /// Fails if a tensor has not been taken out.
    pub(super) fn expect_empty(&self) -> Result<()> {
        match self.tensors.keys().min() {
            Some(name) => Err(self.damaged(format!("`{name}` is not part of a posterior"))),
            None => Ok(()),
        }
    }

    /// An error that names the file.
    pub(super) fn damaged(&self, error: impl std::fmt::Display) -> Error {
        damaged(self.path, error)
    }

    fn expect_shape(&self, name: &str, data: &TensorData, expected: &[usize]) -> Result<()> {
        let found: Vec<usize> = data.shape().iter().copied().collect();
        if found == expected {
            return Ok(());
        }
        Err(self.damaged(format!(
            "`{name}` has shape {found:?}, but the layout requires {expected:?}"
        )))
    }
}

type MetadataAndTensors = (HashMap<String, String>, HashMap<String, TensorData>);

fn from_safetensors(path: &Path, bytes: &[u8]) -> Result<MetadataAndTensors> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(path, error))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(path, error))?;
    let tensors = file.iter().map(|(name, view)| {
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
    });
    Ok((metadata, tensors.collect::<Result<_>>()?))
}

fn from_burnpack(path: &Path, bytes: Vec<u8>) -> Result<MetadataAndTensors> {
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
        });
    Ok((metadata, tensors.collect::<Result<_>>()?))
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    // On the disk before it is renamed, so that a power failure leaves the old file or the new one.
    std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| {
            // The first error is reported; it names the temporary file if that cannot be removed.
            let _ = std::fs::remove_file(&beside);
            unwritable(path, error)
        })
}

pub(super) fn unreadable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!("{} cannot be read: {error}", path.display()))
}

pub(super) fn unwritable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!("{} cannot be written: {error}", path.display()))
}

pub(super) fn damaged(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::storage(format!(
        "{} is not a usable posterior: {error}",
        path.display()
    ))
}
