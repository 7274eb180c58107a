//! Models as ONNX files, which other programs evaluate.
//!
//! The forward pass is recorded at several numbers of rows, which shows the lengths that depend on it. Every operation of the
//! recording becomes nodes; one that cannot is an error. What the weights of a draw change has a leading axis of draws, or is
//! there once for each draw; the rest is there once.

mod dims;
mod formula;
mod message;
mod operations;
mod spatial;
#[cfg(test)]
mod tests;
mod traced;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use burn::backend::ir::TensorIr;
use burn::backend::{DispatchDevice, TensorMetadata};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use prost::Message;

use crate::batch::{ExampleBatch, Inputs, OneMoreExample, examples_of};
use crate::capture::{Recording, record};
use crate::dyn_tensor::device_of;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::layout::Layout;
use crate::lower::lowered;
use crate::module_path::ModulePath;
use crate::operation::{Operation, slot};
use crate::parameters::{ModuleTensor, module_tensors};
use crate::vectorize::vectorize_draws;
use dims::Dim;
use message::{Entry, Kind, Model, OperatorSet};
use operations::{Translation, data_of};
use traced::{RECORDINGS, Traced};
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
    /// The numbers of rows at which functions are recorded.
    recorded_rows: [usize; RECORDINGS],
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
        let examples = examples_of(example)?;
        let batches = batches(example);
        let recorded_rows = [1, 2, 3].map(|more| examples + more);
        let mut recordings = Vec::with_capacity(RECORDINGS);
        for batch in &batches {
            let recording = record(&model, &layout, batch, &forward).map_err(refused)?;
            recordings.push(recording);
        }
        let recordings: [Recording; RECORDINGS] = recordings
            .try_into()
            .expect("there is a recording of every batch");
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
        let shapes = given_shapes(&batches, &weights.first);
        let mut source = Source {
            writer,
            device,
            rows,
            recorded_rows,
            inputs: names,
        };
        let (outputs, width) = source.outputs(recordings, &shapes, &weights)?;
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
            recorded_rows,
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
        let device = self.model.devices().into_iter().next();
        let device = device.unwrap_or_default().inner();
        let shapes = self
            .recorded_rows
            .map(|rows| vec![self.draws, rows, self.width]);
        let mut recordings = Vec::with_capacity(RECORDINGS);
        for &[draws, rows, width] in &self
            .recorded_rows
            .map(|rows| [self.draws, rows, self.width])
        {
            let outputs = Tensor::<3>::zeros([draws, rows, width], &device);
            let function = |_: &M, outputs| function(outputs);
            let recording = record(&self.model, &self.layout, &outputs, &function);
            recordings.push(recording.map_err(failed)?);
        }
        let recordings: [Recording; RECORDINGS] = recordings
            .try_into()
            .expect("there is a recording of every number of rows");
        let traced = Traced::new(recordings, self.recorded_rows, &[shapes]).map_err(failed)?;
        let mut translation = Translation::new(&traced, &mut self.writer, &self.rows, &self.device);
        let recording = &traced.recording;
        translation
            .names
            .insert(recording.inputs[0], self.outputs.clone());
        for operation in &recording.operations {
            translation.add(operation).map_err(failed)?;
        }
        let result = translation.named(&result_of(recording)).map_err(failed)?;
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

/// What the nodes of a recorded forward pass are made with.
struct Source {
    writer: GraphWriter,
    device: DispatchDevice,
    rows: String,
    recorded_rows: [usize; RECORDINGS],
    inputs: Vec<String>,
}

impl Source {
    /// The name of the outputs of all draws, `[draws, rows, outputs]`, and their number.
    fn outputs(
        &mut self,
        recordings: [Recording; RECORDINGS],
        shapes: &[[Vec<usize>; RECORDINGS]],
        weights: &DrawnWeights,
    ) -> Result<(String, usize)> {
        weights.check()?;
        let [first, ..] = &recordings;
        let out = result_of(first);
        let width = match &out.shape[..] {
            [rows, width] if *rows == self.recorded_rows[0] => *width,
            shape => {
                return Err(refused(format!(
                    "the outputs of {} rows have shape {shape:?}; expected one row for each",
                    self.recorded_rows[0]
                )));
            }
        };
        let varying = weights.varying();
        if varying.iter().all(Option::is_none) {
            let traced = Traced::new(recordings, self.recorded_rows, shapes).map_err(refused)?;
            let shared = self.replicated(&traced, weights, 1)?;
            return Ok((self.expanded(&shared, weights.draws, width), width));
        }
        if weights.draws > 1
            && let Some(traced) = self.vectorized(&recordings, shapes, weights, &varying)
        {
            return Ok((self.stacked(&traced, weights)?, width));
        }
        let traced = Traced::new(recordings, self.recorded_rows, shapes).map_err(refused)?;
        Ok((self.replicated(&traced, weights, weights.draws)?, width))
    }

    /// The recordings with a leading axis of draws. `None` if an operation cannot have one.
    fn vectorized(
        &self,
        recordings: &[Recording; RECORDINGS],
        shapes: &[[Vec<usize>; RECORDINGS]],
        weights: &DrawnWeights,
        varying: &[Option<usize>],
    ) -> Option<Traced> {
        // Normalisations by statistics of each draw have no axis of draws.
        let mut tensors = weights.first.iter().zip(varying);
        if tensors.any(|(tensor, varies)| varies.is_some() && tensor.parameter.is_none()) {
            return None;
        }
        let vectorized = recordings.each_ref().map(|recording| {
            let recording = lowered(recording.clone(), varying);
            vectorize_draws(recording, varying, weights.draws).ok()
        });
        let [first, second, third] = vectorized;
        let vectorized = [first?, second?, third?];
        let mut shapes = shapes.to_vec();
        let batch = recordings[0].inputs.len();
        for (shapes, varies) in shapes[batch..].iter_mut().zip(varying) {
            if varies.is_some() {
                shapes
                    .iter_mut()
                    .for_each(|shape| shape.insert(0, weights.draws));
            }
        }
        let traced = Traced::new(vectorized, self.recorded_rows, &shapes).ok()?;
        let dims = traced.dims(traced.recording.losses);
        let is_of_draws =
            matches!(dims, [Dim::Fixed(draws), Dim::Rows(1), _] if *draws == weights.draws);
        is_of_draws.then_some(traced)
    }

    /// The nodes of a recording with an axis of draws.
    fn stacked(&mut self, traced: &Traced, weights: &DrawnWeights) -> Result<String> {
        let recording = &traced.recording;
        let named = weights.stacked_names(&mut self.writer, recording);
        let mut translation = Translation::new(traced, &mut self.writer, &self.rows, &self.device);
        translation.names.extend(named);
        let inputs = recording
            .inputs
            .iter()
            .copied()
            .zip(self.inputs.iter().cloned());
        translation.names.extend(inputs);
        for operation in &recording.operations {
            translation.add(operation).map_err(refused)?;
        }
        translation.named(&result_of(recording)).map_err(refused)
    }

    /// The nodes that depend on the draw once for each of so many draws, and the others once. With one draw, the result has no
    /// axis of draws unless something depends on it.
    fn replicated(
        &mut self,
        traced: &Traced,
        weights: &DrawnWeights,
        draws: usize,
    ) -> Result<String> {
        let recording = &traced.recording;
        let named = weights.shared_names(&mut self.writer, recording);
        let mut of_draws: BTreeSet<usize> = weights.varying_slots(recording).collect();
        let per_draw = weights.names_of_draws(&mut self.writer, recording);
        let mut translation = Translation::new(traced, &mut self.writer, &self.rows, &self.device);
        translation.names.extend(named);
        let inputs = recording
            .inputs
            .iter()
            .copied()
            .zip(self.inputs.iter().cloned());
        translation.names.extend(inputs);
        let mut repeated: Vec<&Operation> = Vec::new();
        for operation in &recording.operations {
            if operation.reads(|slot| of_draws.contains(&slot)) {
                of_draws.extend(operation.outputs.iter().map(slot));
                repeated.push(operation);
            } else {
                translation.add(operation).map_err(refused)?;
            }
        }
        let result = result_of(recording);
        if !of_draws.contains(&recording.losses) {
            return translation.named(&result).map_err(refused);
        }
        let mut outputs = Vec::with_capacity(draws);
        for of_draw in per_draw {
            translation.names.extend(of_draw);
            for operation in &repeated {
                translation.add(operation).map_err(refused)?;
            }
            outputs.push(translation.named(&result).map_err(refused)?);
        }
        Ok(self.joined(&outputs))
    }

    /// The outputs of each draw along a new first axis.
    fn joined(&mut self, outputs: &[String]) -> String {
        let first = self.writer.vector(&[0]);
        let separate = outputs.iter();
        let separate =
            separate.map(|output| self.writer.node("Unsqueeze", &[output, &first], vec![]));
        let separate: Vec<_> = separate.collect();
        let separate: Vec<_> = separate.iter().map(String::as_str).collect();
        let axis = writer::integer("axis", 0);
        self.writer.node("Concat", &separate, vec![axis])
    }

    /// The same outputs for all draws.
    fn expanded(&mut self, outputs: &str, draws: usize, width: usize) -> String {
        let (draws, width) = (
            self.writer.vector(&[draws as i64]),
            self.writer.vector(&[width as i64]),
        );
        let axis = writer::integer("axis", 0);
        let shape = self
            .writer
            .node("Concat", &[&draws, &self.rows, &width], vec![axis]);
        self.writer.node("Expand", &[outputs, &shape], Vec::new())
    }
}

/// The tensors of the models of all draws.
struct DrawnWeights {
    draws: usize,
    /// Of the first draw, with their paths.
    first: Vec<ModuleTensor>,
    paths: Vec<String>,
    values: Vec<TensorData>,
    /// The values of all draws, of the tensors that are not the same in all.
    others: Vec<Option<Vec<TensorData>>>,
}

impl DrawnWeights {
    fn new<M: Module>(model: &M, layout: &Layout) -> Self {
        let first = module_tensors(model, layout);
        let values = first.iter().map(|tensor| data_of(tensor.value.clone()));
        let values: Vec<_> = values.collect();
        Self {
            draws: 1,
            paths: paths(model),
            others: vec![None; first.len()],
            values,
            first,
        }
    }

    /// Adds the next draw.
    fn add<M: Module>(&mut self, model: &M, layout: &Layout) {
        let tensors = module_tensors(model, layout);
        for (number, tensor) in tensors.into_iter().enumerate() {
            let value = data_of(tensor.value);
            let (first, known) = (&self.values[number], &mut self.others[number]);
            if known.is_none() && value.as_bytes() == first.as_bytes() {
                continue;
            }
            let draws = self.draws;
            let known = known.get_or_insert_with(|| vec![first.clone(); draws]);
            known.push(value);
        }
        self.draws += 1;
    }

    /// Fails if a tensor has an element type that files cannot have.
    fn check(&self) -> Result<()> {
        let mut tensors = self.values.iter().zip(&self.paths);
        tensors.try_for_each(|(value, path)| expect_type(value.dtype(), path))
    }

    /// The tensors that draws change, by their number.
    fn varying(&self) -> Vec<Option<usize>> {
        let others = self.others.iter().enumerate();
        others
            .map(|(number, values)| values.as_ref().map(|_| number))
            .collect()
    }

    fn varying_slots<'a>(&'a self, recording: &'a Recording) -> impl Iterator<Item = usize> + 'a {
        let slots = recording.module_tensors.iter().zip(&self.others);
        slots.filter_map(|(slot, values)| values.as_ref().map(|_| *slot))
    }

    /// The tensors that all draws share.
    fn shared_names(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<(usize, String)> {
        let used = used(recording);
        let numbers = recording.module_tensors.iter().enumerate();
        let shared =
            numbers.filter(|(number, slot)| self.others[*number].is_none() && used.contains(slot));
        let named = shared.map(|(number, &slot)| {
            let value = &self.values[number];
            let shape = value.shape().to_vec();
            (slot, writer.weights(&self.paths[number], &shape, &[value]))
        });
        named.collect()
    }

    /// The tensors of every draw.
    fn names_of_draws(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<Vec<(usize, String)>> {
        let used = used(recording);
        let mut of_draw = |draw: usize| {
            let numbers = recording.module_tensors.iter().enumerate();
            let named = numbers.filter_map(|(number, &slot)| {
                let value = &self.others[number].as_ref()?[draw];
                if !used.contains(&slot) {
                    return None;
                }
                let name = format!("{}.draw_{draw}", self.paths[number]);
                let shape = value.shape().to_vec();
                Some((slot, writer.weights(&name, &shape, &[value])))
            });
            named.collect()
        };
        (0..self.draws).map(&mut of_draw).collect()
    }

    /// All tensors, with an axis of draws where draws change them.
    fn stacked_names(
        &self,
        writer: &mut GraphWriter,
        recording: &Recording,
    ) -> Vec<(usize, String)> {
        let mut named = self.shared_names(writer, recording);
        let used = used(recording);
        for (number, &slot) in recording.module_tensors.iter().enumerate() {
            let Some(values) = self.others[number]
                .as_ref()
                .filter(|_| used.contains(&slot))
            else {
                continue;
            };
            let shape = [&[self.draws], &values[0].shape()[..]].concat();
            let parts: Vec<_> = values.iter().collect();
            named.push((slot, writer.weights(&self.paths[number], &shape, &parts)));
        }
        named
    }
}

/// The slots that operations read, and that of the result.
fn used(recording: &Recording) -> BTreeSet<usize> {
    let inputs = recording
        .operations
        .iter()
        .flat_map(|operation| &operation.inputs);
    inputs.map(slot).chain([recording.losses]).collect()
}

/// Batches of one, two and three more rows than the example has: none has only one row, whose length broadcasts.
fn batches<B: ExampleBatch>(example: &B) -> [B; RECORDINGS] {
    let one = example.clone().map_tensors(&mut OneMoreExample);
    let two = one.clone().map_tensors(&mut OneMoreExample);
    let three = two.clone().map_tensors(&mut OneMoreExample);
    [one, two, three]
}

/// The shapes of the tensors of every batch, then those of the module.
fn given_shapes<B: ExampleBatch>(
    batches: &[B; RECORDINGS],
    tensors: &[ModuleTensor],
) -> Vec<[Vec<usize>; RECORDINGS]> {
    let inputs = batches.each_ref().map(Inputs::of);
    let of_batches = (0..inputs[0].len()).map(|number| {
        inputs
            .each_ref()
            .map(|inputs| inputs[number].shape().to_vec())
    });
    let of_module = tensors.iter().map(|tensor| {
        let shape = tensor.value.shape().to_vec();
        [shape.clone(), shape.clone(), shape]
    });
    of_batches.chain(of_module).collect()
}

fn input_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["input".into()],
        _ => (0..count).map(|number| format!("input_{number}")).collect(),
    }
}

/// The tensor of the result.
fn result_of(recording: &Recording) -> TensorIr {
    let mut outputs = recording
        .operations
        .iter()
        .rev()
        .flat_map(|operation| &operation.outputs);
    let mut inputs = recording
        .operations
        .iter()
        .flat_map(|operation| &operation.inputs);
    let is_result = |tensor: &&TensorIr| slot(tensor) == recording.losses;
    let found = outputs.find(is_result).or_else(|| inputs.find(is_result));
    found.cloned().expect("an operation makes the result")
}

fn expect_type(dtype: burn::tensor::DType, name: &str) -> Result<()> {
    use burn::tensor::DType;
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

/// The paths of all tensors of a module, in visiting order.
fn paths<M: Module>(module: &M) -> Vec<String> {
    #[derive(Default)]
    struct Paths {
        path: ModulePath,
        found: Vec<String>,
    }
    impl Paths {
        fn add(&mut self) {
            self.found.push(self.path.as_str().to_owned());
        }
    }
    impl ModuleVisitor for Paths {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.exit();
        }

        fn visit_float<const R: usize>(&mut self, _param: &Param<Tensor<R>>) {
            self.add();
        }

        fn visit_int<const R: usize>(&mut self, _param: &Param<Tensor<R, Int>>) {
            self.add();
        }

        fn visit_bool<const R: usize>(&mut self, _param: &Param<Tensor<R, Bool>>) {
            self.add();
        }
    }
    let mut paths = Paths::default();
    module.visit(&mut paths);
    paths.found
}
