//! Models as ONNX files, which other programs evaluate.
//!
//! The forward pass is recorded at several numbers of rows, which shows the lengths that depend on it. Every operation of the
//! recording becomes nodes; one that cannot is an error. What the weights of a draw change has a leading axis of draws, or is
//! there once for each draw; the rest is there once.

mod dims;
mod draws;
mod formula;
mod message;
mod operations;
mod spatial;
#[cfg(test)]
mod tests;
mod traced;
mod translation;
mod weights;
mod writer;

use std::fmt;
use std::sync::Arc;

use burn::backend::{DispatchDevice, TensorMetadata};
use burn::module::Module;
use burn::tensor::{DType, Tensor, kind};
use prost::Message;

use crate::batch::{ExampleBatch, Inputs, TensorMapper, examples_of};
use crate::capture::record;
use crate::dyn_tensor::device_of;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::layout::Layout;
use crate::parameters::module_device;
use dims::Dim;
use draws::Source;
use message::{Entry, Kind, Model, OperatorSet};
use traced::{FEWEST_ROWS, Recordings, Traced};
use translation::Translation;
use weights::DrawnWeights;
use writer::{GraphWriter, kind_of};

/// The version of the format, which files of ONNX 1.12 have.
const FORMAT_VERSION: i64 = 8;
/// The version of the operators: the first with `LayerNormalization`.
const OPERATORS_VERSION: i64 = 17;

/// The largest file, in bytes: a protocol buffer has at most 2 GiB.
const LARGEST: usize = i32::MAX as usize;

/// A model at several draws of its weights, as the graph of an ONNX file.
///
/// The file has the inputs of the model, called `input`, or `input_0`, `input_1`, … if there are several, with any number of rows.
/// Its element types are `float` for `f32`, `int64` for integers and `bool`.
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes_graph::{Error, Layout, OnnxModel};
///
/// let device = Device::default();
/// let draws: [Linear; 2] = [(); 2].map(|()| LinearConfig::new(3, 1).init(&device));
/// let layout = Layout::new(&draws[0], &ParamGroup::all())?;
/// let example = Tensor::<2>::ones([4, 3], &device);
/// let draw = |number: usize| Ok::<_, Error>(draws[number].clone());
/// let model = OnnxModel::of_draws(2, draw, layout.into(), &example, Linear::forward)?;
/// let bytes = model
///     .with_output("mean", |outputs| outputs.mean_dim(0).squeeze_dim::<2>(0))?
///     .into_bytes(&[("seed", "1".into())])?;
/// # assert!(!bytes.is_empty());
/// # Ok::<(), Error>(())
/// ```
pub struct OnnxModel<M> {
    model: M,
    layout: Arc<Layout>,
    writer: GraphWriter,
    device: DispatchDevice,
    /// The name of the number of rows, a vector of one integer.
    rows: String,
    /// The outputs of the draws, `[draws, rows, outputs]`.
    outputs: String,
    draws: usize,
    width: usize,
}

impl<M> fmt::Debug for OnnxModel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxModel")
            .field("draws", &self.draws)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

impl<M: Module> OnnxModel<M> {
    /// Records `forward` of inputs like `example`, whose values and number of rows do not matter, at `count` models: those that
    /// `draw` returns for 0, 1, …. They differ in the values of parameters and running statistics only.
    ///
    /// # Errors
    ///
    /// Those of `draw`; if there are no draws; if the model has an operation that ONNX does not have, mixes rows, draws random
    /// numbers, or has a constant for every row; or if a tensor is no `f32`, integer or boolean.
    pub fn of_draws<B: ExampleBatch, E: From<Error>>(
        count: usize,
        mut draw: impl FnMut(usize) -> Result<M, E>,
        layout: Arc<Layout>,
        example: &B,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<Self, E> {
        if count == 0 {
            return Err(refused("an ONNX file needs at least one draw").into());
        }
        let model = draw(0)?.valid();
        layout.check(&model)?;
        let mut weights = DrawnWeights::new(&model, &layout);
        for number in 1..count {
            weights.add(&draw(number)?.valid(), &layout);
        }
        Ok(Self::of_weights(model, layout, weights, example, forward)?)
    }

    fn of_weights<B: ExampleBatch>(
        model: M,
        layout: Arc<Layout>,
        weights: DrawnWeights,
        example: &B,
        forward: impl Fn(&M, B) -> Tensor<2>,
    ) -> Result<Self> {
        examples_of(example)?;
        let of_module = weights.first.iter();
        let of_module: Vec<_> = of_module
            .map(|tensor| tensor.value.shape().to_vec())
            .collect();
        let record_rows = |rows| {
            let batch = example.clone().map_tensors(&mut CopiesOfFirst(rows));
            let of_batch = Inputs::of(&batch).into_iter();
            let shapes = of_batch.map(|input| input.shape().to_vec());
            let shapes = shapes.chain(of_module.iter().cloned()).collect();
            Ok((record(&model, &layout, &batch, &forward)?, shapes))
        };
        let recordings = Recordings::settled(&record_rows).map_err(refused)?;
        let device = device_of(weights.first.iter().map(|tensor| &tensor.value));
        let mut writer = GraphWriter::default();
        let inputs = Inputs::of(example);
        let names = input_names(inputs.len());
        for (input, name) in inputs.iter().zip(&names) {
            expect_type(input.dtype(), name)?;
            let shape = input.shape();
            let rest = shape[1..].iter().map(|&len| Dim::Fixed(len));
            let dims: Vec<_> = [Dim::Rows(1)].into_iter().chain(rest).collect();
            writer.input(name, kind_of(input.dtype()), &dims);
        }
        let settings = vec![writer::integer("start", 0), writer::integer("end", 1)];
        let rows = writer.node("Shape", &[&names[0]], settings);
        let mut source = Source {
            writer,
            device,
            rows,
            inputs: names,
        };
        let (outputs, width) = source.outputs(&recordings, &weights)?;
        let Source {
            writer,
            device,
            rows,
            ..
        } = source;
        Ok(Self {
            model,
            layout,
            writer,
            device,
            rows,
            outputs,
            draws: weights.draws,
            width,
        })
    }

    /// Adds an output of the file: a function of the outputs of all draws, `[draws, rows, outputs]`.
    ///
    /// # Errors
    ///
    /// If the function has an operation that ONNX does not have, or there is an input or output of this name.
    pub fn with_output<const R: usize>(
        mut self,
        name: &str,
        function: impl Fn(Tensor<3>) -> Tensor<R>,
    ) -> Result<Self> {
        let failed = |reason: String| refused(format!("{name}: {reason}"));
        let device = module_device(&self.model).inner();
        let record_rows = |rows| {
            let shape = [self.draws, rows, self.width];
            let outputs = Tensor::<3>::zeros(shape, &device);
            let function = |_: &M, outputs| function(outputs);
            let recording = record(&self.model, &self.layout, &outputs, &function)?;
            Ok((recording, vec![shape.to_vec()]))
        };
        let recordings = Recordings::new(FEWEST_ROWS, &record_rows).map_err(failed)?;
        let traced = Traced::new(&recordings).map_err(failed)?;
        let mut translation = Translation::new(&traced, &mut self.writer, &self.rows, &self.device);
        let recording = &traced.recording;
        translation
            .names
            .insert(recording.inputs[0], self.outputs.clone());
        for operation in &recording.operations {
            translation.add(operation).map_err(failed)?;
        }
        let result = translation.result().map_err(failed)?;
        let dims = traced.dims(recording.losses);
        self.writer
            .output(name, &result, Kind::Float, dims)
            .map_err(refused)?;
        Ok(self)
    }

    /// The file, with more that it says of itself.
    ///
    /// # Errors
    ///
    /// If it is larger than 2 GiB, which the format does not allow.
    pub fn into_bytes(self, metadata: &[(&str, String)]) -> Result<Vec<u8>> {
        let entries = metadata.iter().map(|(key, value)| Entry {
            key: (*key).to_owned(),
            value: value.clone(),
        });
        let model = Model {
            ir_version: FORMAT_VERSION,
            producer_name: "burn-bayes".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(self.writer.into_graph()),
            opset_import: vec![OperatorSet {
                domain: String::new(),
                version: OPERATORS_VERSION,
            }],
            metadata_props: entries.collect(),
        };
        let len = model.encoded_len();
        if len > LARGEST {
            return Err(refused(format!(
                "the ONNX file of {} draws would have {len} bytes, but the format allows {LARGEST}; use fewer draws",
                self.draws
            )));
        }
        Ok(model.encode_to_vec())
    }
}

/// Replaces all rows by so many copies of the first, without memory for them.
struct CopiesOfFirst(usize);

impl TensorMapper for CopiesOfFirst {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let mut shape = tensor.dims();
        shape[0] = self.0;
        tensor.narrow(0, 0, 1).expand(shape)
    }
}

fn input_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["input".into()],
        _ => (0..count).map(|number| format!("input_{number}")).collect(),
    }
}

/// Fails if files cannot have this element type.
fn expect_type(dtype: DType, name: &str) -> Result<()> {
    match dtype {
        DType::F64 | DType::F16 | DType::BF16 | DType::QFloat(_) => Err(refused(format!(
            "{name} has elements of type {dtype:?}; an ONNX file is written for f32, integers and booleans"
        ))),
        _ => Ok(()),
    }
}

/// An error of a model that cannot be written.
fn refused(reason: impl Into<String>) -> Error {
    ErrorKind::Onnx(reason.into()).into()
}
