//! Posterior files: the tensors `mean`, `factors`, `diag` and the metadata `form`, `layout`,
//! `format_version`, in safetensors or in Burn's burnpack. Equal posteriors make equal files.
//!
//! The [state of the model](super::ModelState) outside the layout is the metadata entry `model`, and one tensor for each
//! of its parameters and running statistics, a vector with the name `model.` and the path.
//!
//! The metadata entry `checksum` is the SHA-256 of the whole file with 64 zeros in the place of the checksum.
//!
//! A file is written under a temporary name in the same folder and renamed when it is complete.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{BoolStore, Bytes, DType, Device, Tensor, TensorData};
use burn_bayes_graph::Layout;
use burn_pack::AtomicFile;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::model_state::{ModelState, PREFIX};
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
const MODEL: &str = "model";
pub(super) const CHECKSUM: &str = "checksum";
/// The place of a checksum, before it is known.
pub(super) const NO_CHECKSUM: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// Whether a file is safetensors, or else burnpack.
fn is_safetensors(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "safetensors")
}

/// The contents of a file.
pub(super) struct Contents {
    metadata: Vec<(&'static str, String)>,
    tensors: Vec<(Cow<'static, str>, TensorData)>,
}

impl Contents {
    pub(super) fn new(form: &str, layout: &Layout, state: &ModelState) -> Self {
        let mut metadata = vec![
            (FORM, form.to_string()),
            (LAYOUT, layout.to_json()),
            (VERSION, FORMAT_VERSION.to_string()),
        ];
        let mut tensors = Vec::new();
        if let Some((model, values)) = state.to_file() {
            metadata.push((MODEL, model));
            let values = values.into_iter();
            tensors.extend(values.map(|(name, value)| (name.into(), value)));
        }
        metadata.push((CHECKSUM, NO_CHECKSUM.into()));
        Self { metadata, tensors }
    }

    pub(super) fn with<const R: usize>(mut self, name: &'static str, tensor: Tensor<R>) -> Self {
        self.tensors
            .push((name.into(), tensor.into_data_as::<f32>()));
        self
    }

    pub(super) fn write(self, path: &Path) -> Result<()> {
        let bytes = match is_safetensors(path) {
            true => self.to_safetensors(),
            false => self.into_burnpack(),
        };
        let mut bytes = bytes.map_err(|error| unwritable(path, error))?;
        seal(&mut bytes);
        write_whole(path, &bytes)
    }

    fn into_burnpack(self) -> Result<Vec<u8>, String> {
        let tensors = self.tensors.into_iter().map(|(name, data)| {
            let (bytes, shape, dtype) = data.into_parts();
            burn_pack::Tensor::new(name.into_owned(), dtype, shape, None, bytes)
        });
        let mut writer = burn_pack::Writer::new(tensors.collect());
        for (key, value) in self.metadata {
            writer = writer.with_metadata(key, &value);
        }
        let bytes = writer.into_bytes();
        bytes
            .map(|bytes| bytes.to_vec())
            .map_err(|error| error.to_string())
    }

    /// The bytes of a safetensors file: the length of the header, the header in JSON, the tensors.
    ///
    /// Written by hand because the `safetensors` crate writes the metadata in the random order of a
    /// hash map.
    fn to_safetensors(&self) -> Result<Vec<u8>, String> {
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|(key, value)| (key.to_string(), json!(value)));
        let metadata = serde_json::Value::from_iter(metadata);
        let mut header = serde_json::Map::from_iter([("__metadata__".to_string(), metadata)]);
        let mut end = 0;
        for (name, data) in &self.tensors {
            let start = end;
            end += data.as_bytes().len();
            let shape: Vec<usize> = data.shape().iter().copied().collect();
            let Some((dtype, _)) = DTYPES.iter().find(|(_, dtype)| *dtype == data.dtype()) else {
                return Err(format!(
                    "{name} is {:?}, which a safetensors file cannot hold; save as burnpack (`.bpk`)",
                    data.dtype()
                ));
            };
            let dtype = format!("{dtype:?}");
            let info = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
            header.insert(name.to_string(), info);
        }
        let mut header = serde_json::to_vec(&header).map_err(|error| error.to_string())?;
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

/// Element types in safetensors files, and in Burn.
const DTYPES: [(Dtype, DType); 13] = [
    (Dtype::F64, DType::F64),
    (Dtype::F32, DType::F32),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::I64, DType::I64),
    (Dtype::I32, DType::I32),
    (Dtype::I16, DType::I16),
    (Dtype::I8, DType::I8),
    (Dtype::U64, DType::U64),
    (Dtype::U32, DType::U32),
    (Dtype::U16, DType::U16),
    (Dtype::U8, DType::U8),
    (Dtype::BOOL, DType::Bool(BoolStore::Native)),
];

/// Writes the checksum of a file into the place that is kept for it.
pub(super) fn seal(bytes: &mut [u8]) {
    let checksum = checksum_of(&[bytes]);
    if let Some(at) = place_of(bytes, NO_CHECKSUM) {
        bytes[at..at + checksum.len()].copy_from_slice(checksum.as_bytes());
    }
}

/// Whether this is the checksum of a file that contains it.
pub(super) fn is_sealed(bytes: &[u8], checksum: &str) -> bool {
    let is_checksum = checksum.len() == NO_CHECKSUM.len();
    let at = is_checksum.then(|| place_of(bytes, checksum)).flatten();
    at.is_some_and(|at| {
        let (before, after) = (&bytes[..at], &bytes[at + checksum.len()..]);
        checksum_of(&[before, NO_CHECKSUM.as_bytes(), after]) == checksum
    })
}

fn place_of(bytes: &[u8], text: &str) -> Option<usize> {
    let mut windows = bytes.windows(text.len());
    windows.position(|window| window == text.as_bytes())
}

fn checksum_of(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    let digits = hasher.finalize();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The contents of a file; its tensors are taken out one by one.
pub(super) struct Saved<'a> {
    path: &'a Path,
    form: String,
    layout: Arc<Layout>,
    state: ModelState,
    tensors: HashMap<String, TensorData>,
    device: Device,
}

impl<'a> Saved<'a> {
    /// Fails, with a specific message, for another format version, a truncated or changed file, or a tensor of
    /// another element type. Only files that were written without this library have no checksum.
    pub(super) fn read(path: &'a Path, device: &Device) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, error))?;
        let (mut metadata, mut tensors) = match is_safetensors(path) {
            true => from_safetensors(path, &bytes)?,
            false => from_burnpack(path, &bytes)?,
        };
        let checksum = metadata.remove(CHECKSUM);
        let model = metadata.remove(MODEL);
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
        if checksum.is_some_and(|checksum| !is_sealed(&bytes, &checksum)) {
            return Err(damaged(path, CHANGED));
        }
        let layout = Layout::from_json(&entry(LAYOUT)?).map_err(|error| damaged(path, error))?;
        let form = entry(FORM)?;
        if let Some(key) = metadata.keys().min() {
            return Err(damaged(path, format!("`{key}` is not part of a posterior")));
        }
        let device = device.clone().inner();
        let state = ModelState::from_file(model.as_deref(), &mut tensors, &layout, &device);
        let state = state.map_err(|error| damaged(path, error))?;
        if let Some((name, data)) = tensors.iter().find(|(_, data)| data.dtype() != DType::F32) {
            return Err(damaged(
                path,
                format!("{name} is {:?}, not F32", data.dtype()),
            ));
        }
        Ok(Self {
            path,
            form,
            layout: Arc::new(layout),
            state,
            tensors,
            device,
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

    /// The state of the model outside the layout.
    pub(super) fn state(&self) -> ModelState {
        self.state.clone()
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
        let dtype = DTYPES.iter().find(|(dtype, _)| *dtype == view.dtype());
        let dtype = dtype.filter(|(dtype, _)| *dtype == Dtype::F32 || name.starts_with(PREFIX));
        let Some((_, dtype)) = dtype else {
            return Err(damaged(
                path,
                format!("{name} is {:?}, not F32", view.dtype()),
            ));
        };
        let bytes = Bytes::from_bytes_vec(view.data().to_vec());
        let data = TensorData::try_from_bytes(bytes, view.shape().to_vec(), *dtype)
            .map_err(|error| damaged(path, error))?;
        Ok((name.to_string(), data))
    });
    Ok((metadata, tensors.collect::<Result<_>>()?))
}

fn from_burnpack(path: &Path, bytes: &[u8]) -> Result<MetadataAndTensors> {
    let reader = burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(bytes.to_vec()))
        .map_err(|error| damaged(path, error))?;
    let metadata = reader.metadata().clone().into_iter().collect();
    let tensors = reader
        .into_tensors()
        .map_err(|error| damaged(path, error))?
        .into_iter()
        .map(|tensor| {
            let (name, dtype, shape, _, bytes) =
                tensor.into_parts().map_err(|error| damaged(path, error))?;
            if dtype != DType::F32 && !name.starts_with(PREFIX) {
                return Err(damaged(path, format!("{name} is {dtype:?}, not F32")));
            }
            let data = TensorData::try_from_bytes(bytes, shape, dtype)
                .map_err(|error| damaged(path, error))?;
            Ok((name, data))
        });
    Ok((metadata, tensors.collect::<Result<_>>()?))
}

/// The problem of a file whose checksum is wrong.
pub(super) const CHANGED: &str = "it has changed since it was saved: its checksum is wrong; restore it from a copy, or save it again";

/// Writes a file under a temporary name, and renames it when it is complete.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| unwritable(path, error);
    let (scratch, mut file) = AtomicFile::create(path).map_err(|error| failed(&error))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| failed(&error))?;
    drop(file);
    scratch.commit().map_err(|error| failed(&error))
}

/// Writes what a folder contains to the disk, where the system can: a name in it survives a power failure.
pub(super) fn sync_folder(folder: &Path) {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
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
