//! Records a loss as a list of operations, by evaluating it on Burn's capture device.
//!
//! The tensors of the batch and the parameters of the model are **placeholders**: they have a shape and no
//! values. A loss that reads a value on the host, with `into_scalar` or `to_data`, therefore fails. It
//! cannot leave the current value in the recording as a constant.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::layout::Layout;
use burn::backend::capture::{CaptureBackend, CapturedGraph};
use burn::backend::ir::{IrVisitorMut, OperationIr, TensorId, TensorIr, TensorStatus};
use burn::backend::{BackendTensor, DispatchKindConversion, DispatchTensor};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Device, DeviceConfig, DeviceSettings, Int, Tensor, TensorData, kind};

use crate::batch::{ExampleBatch, Inputs, OneMoreExample, TensorMapper};
use crate::operation::{AxisRule, Operation, SlotCount, slot};
use crate::parameters::module_tensors;

/// A recorded loss: operations on numbered slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recording<O = Operation> {
    pub(crate) operations: Vec<O>,
    /// The slots of the module's tensors, in visiting order.
    pub(crate) module_tensors: Vec<usize>,
    /// The slots of the batch's tensors.
    pub(crate) inputs: Vec<usize>,
    /// Constants of the model or the loss, by slot.
    pub(crate) constants: Vec<(usize, TensorData)>,
    /// The slot of the result: the losses, one per example.
    pub(crate) losses: usize,
    pub(crate) slots: SlotCount,
    /// The example axis of constants with one entry per example, such as the initial state of a recurrent
    /// layer.
    pub(crate) example_constants: BTreeMap<usize, usize>,
}

impl Recording<OperationIr> {
    fn decoded(self) -> Recording {
        Recording {
            operations: self.operations.into_iter().map(Operation::from).collect(),
            module_tensors: self.module_tensors,
            inputs: self.inputs,
            constants: self.constants,
            losses: self.losses,
            slots: self.slots,
            example_constants: self.example_constants,
        }
    }
}

/// Records `function` of `model` and `batch`. Fails with the reason if that is impossible.
///
/// Two recordings are made and compared, which finds functions that change from call to call.
pub(crate) fn record<M: Module, B: ExampleBatch, const R: usize>(
    model: &M,
    layout: &Layout,
    batch: &B,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording, String> {
    let recording = record_once(model, layout, batch, function)?;
    if record_once(model, layout, batch, function)? != recording {
        return Err("a second call recorded other operations".into());
    }
    Ok(recording.decoded())
}

/// Records `function`, and finds the constants that have an entry per example.
///
/// A second recording, of one more example, shows which constants grow with the batch.
pub(crate) fn record_examples<M: Module, B: ExampleBatch, const R: usize>(
    model: &M,
    layout: &Layout,
    batch: &B,
    examples: usize,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording, String> {
    let mut recording = record(model, layout, batch, function)?;
    let longer = batch.clone().map_tensors(&mut OneMoreExample);
    if let Ok(longer) = record_once(model, layout, &longer, function) {
        recording.example_constants = example_constants(&recording, &longer.decoded(), examples);
    }
    Ok(recording)
}

/// The constants of `recording` that have `examples` entries along an axis where those of `longer` have one
/// more.
fn example_constants(
    recording: &Recording,
    longer: &Recording,
    examples: usize,
) -> BTreeMap<usize, usize> {
    if recording.operations.len() != longer.operations.len() {
        return BTreeMap::new();
    }
    let axis = |short: &[usize], long: &[usize]| {
        let mut axes = (0..short.len().min(long.len())).filter(|&axis| short[axis] != long[axis]);
        let axis = axes.next()?;
        let is_one = axes.next().is_none() && short.len() == long.len();
        (is_one && short[axis] == examples && long[axis] == examples + 1).then_some(axis)
    };
    let made = |recording: &Recording| -> BTreeMap<usize, Vec<usize>> {
        let values = recording.constants.iter();
        let values = values.map(|(slot, value)| (*slot, value.shape().to_vec()));
        let created = recording.operations.iter().filter(|operation| {
            // Or repeated for each example, such as the indices of positions.
            matches!(
                operation.axes,
                AxisRule::Creation | AxisRule::Repeat(..) | AxisRule::Expand
            )
        });
        let created = created.flat_map(|operation| &operation.outputs);
        let created = created.map(|out| (slot(out), out.shape.to_vec()));
        values.chain(created).collect()
    };
    let (short, long) = (made(recording), made(longer));
    let common: BTreeSet<_> = short
        .keys()
        .filter(|slot| long.contains_key(slot))
        .collect();
    let axes = common
        .into_iter()
        .filter_map(|slot| Some((*slot, axis(&short[slot], &long[slot])?)));
    axes.collect()
}

fn record_once<M: Module, B: ExampleBatch, const R: usize>(
    model: &M,
    layout: &Layout,
    batch: &B,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording<OperationIr>, String> {
    let mut placeholders = Placeholders::default();
    let graph = in_scope(model, |device| {
        let (model, batch) = with_placeholders(model, batch, device);
        placeholders = Placeholders::of(&model, &batch, layout);
        vec![id_of(function(&model, batch).into_dispatch())]
    })?;
    let losses = graph.graph.outputs[0];
    let (operations, numbers) = numbered(graph.graph.operations, &placeholders, losses);
    let constants = graph.values.into_iter();
    let mut constants: Vec<_> = constants
        .filter_map(|(id, value)| Some((*numbers.get(&id)?, value)))
        .collect();
    constants.sort_by_key(|(slot, _)| *slot);
    let slots_of = |ids: &[TensorId]| ids.iter().map(|id| numbers[id]).collect();
    Ok(Recording {
        operations,
        module_tensors: slots_of(&placeholders.module_tensors),
        inputs: slots_of(&placeholders.inputs),
        constants,
        losses: numbers[&losses],
        slots: SlotCount(numbers.len()),
        example_constants: BTreeMap::new(),
    })
}

/// Runs `evaluate` on a capture device with the default element types of the model's device. `evaluate`
/// returns the results to record.
pub(crate) fn in_scope<M: Module>(
    model: &M,
    evaluate: impl FnOnce(&Device) -> Vec<TensorId>,
) -> Result<CapturedGraph, String> {
    // Devices are reused: Burn has 65 536 numbers for them, and never frees one.
    static UNUSED: Mutex<Vec<Device>> = Mutex::new(Vec::new());
    let unused = || UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = model.devices().first().map(Device::settings);
    let types = |settings: DeviceSettings| {
        (
            settings.float_dtype,
            settings.int_dtype,
            settings.bool_dtype,
        )
    };
    let is_alike = |device: &Device| settings.is_none_or(|s| types(s) == types(device.settings()));
    let mut known = unused();
    let place = known.iter().position(is_alike);
    let device = place.map(|place| known.swap_remove(place));
    drop(known);
    let is_new = device.is_none();
    let device = device.unwrap_or_else(Device::capture);
    let captured = catch_unwind(AssertUnwindSafe(|| {
        device.capture_scope(|scope| {
            if let Some(settings) = settings.filter(|_| is_new) {
                configure(device.clone(), settings);
            }
            let results = evaluate(&device);
            scope.complete([], results)
        })
    }));
    unused().push(device);
    match captured {
        Ok(Ok(graph)) => Ok(graph),
        Ok(Err(error)) => Err(reason(error.to_string())),
        Err(panic) => Err(reason(message(panic.as_ref()))),
    }
}

/// Sets the default element types.
fn configure(mut device: Device, settings: DeviceSettings) {
    let DeviceSettings {
        float_dtype,
        int_dtype,
        bool_dtype,
        ..
    } = settings;
    let types = DeviceConfig::new(Some(float_dtype), Some(int_dtype), Some(bool_dtype));
    device
        .configure(types)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// The module in inference mode and the batch, both as placeholders.
fn with_placeholders<M: Module, B: ExampleBatch>(model: &M, batch: &B, device: &Device) -> (M, B) {
    let batch = batch.clone().map_tensors(&mut WithoutValues(device));
    (without_values(model, device), batch)
}

/// A copy of the module in inference mode with placeholders for its parameters. Other tensors keep their
/// values.
pub(crate) fn without_values<M: Module>(model: &M, device: &Device) -> M {
    // `valid` copies the running statistics, so that the map does not change those of `model`.
    model
        .valid()
        .map(&mut WithoutValues(device))
        .to_device(device)
}

struct WithoutValues<'a>(&'a Device);

impl TensorMapper for WithoutValues<'_> {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        Tensor::empty(tensor.shape(), (self.0, tensor.dtype()))
    }
}

impl ModuleMapper for WithoutValues<'_> {
    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        param.map(|tensor| self.map(tensor))
    }

    fn map_int<const R: usize>(&mut self, param: Param<Tensor<R, Int>>) -> Param<Tensor<R, Int>> {
        param.map(|tensor| self.map(tensor))
    }

    fn map_bool<const R: usize>(
        &mut self,
        param: Param<Tensor<R, Bool>>,
    ) -> Param<Tensor<R, Bool>> {
        param.map(|tensor| self.map(tensor))
    }
}

/// The placeholders of a recording.
#[derive(Default)]
struct Placeholders {
    module_tensors: Vec<TensorId>,
    inputs: Vec<TensorId>,
}

impl Placeholders {
    fn of<M: Module, B: ExampleBatch>(model: &M, batch: &B, layout: &Layout) -> Self {
        let tensors = module_tensors(model, layout).into_iter();
        let inputs = Inputs::of(batch).into_iter();
        Self {
            module_tensors: tensors.map(|tensor| id_of(tensor.value)).collect(),
            inputs: inputs.map(id_of).collect(),
        }
    }
}

/// The id of a tensor on the capture device.
fn id_of(tensor: DispatchTensor) -> TensorId {
    let tensor =
        <DispatchTensor as DispatchKindConversion<CaptureBackend>>::try_into_backend(tensor);
    match tensor {
        Ok(BackendTensor::Float(tensor)) => tensor.id(),
        Ok(BackendTensor::Int(tensor)) => tensor.id(),
        Ok(BackendTensor::Bool(tensor)) => tensor.id(),
        Ok(_) => panic!("quantized tensors cannot be recorded"),
        Err(error) => panic!("a tensor of the loss is on another device: {error}"),
    }
}

/// The message of a panic.
pub fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it panicked".into())
}

/// Explains messages of the capture device.
fn reason(message: String) -> String {
    if message.contains("has no concrete value") || message.contains("has no initialized value") {
        return "it reads the values of a tensor on the host (`into_scalar`, `to_data`, or \
                `Tensor::one_hot`, for which `losses::one_hot` is a substitute)"
            .into();
    }
    if message.contains("undeclared input tensor") {
        return "it reads a tensor that is neither of the model nor of the batch and was changed by an earlier call: \
                `to_device` changes the running statistics of all clones of a module, so move `module.valid()`, \
                which copies them"
            .into();
    }
    message
}

/// The operations that the result depends on, without those that made the placeholders, and the slot of each
/// tensor: the placeholders first, then in the order of first use.
fn numbered(
    operations: Vec<OperationIr>,
    placeholders: &Placeholders,
    result: TensorId,
) -> (Vec<OperationIr>, BTreeMap<TensorId, usize>) {
    let entry = placeholders
        .module_tensors
        .iter()
        .chain(&placeholders.inputs);
    let mut numbers = Renumber(BTreeMap::new());
    for &id in entry.clone() {
        numbers.of(id);
    }
    let entry: BTreeSet<_> = entry.collect();
    let mut needed = BTreeSet::from([result]);
    let mut kept = Vec::with_capacity(operations.len());
    for operation in operations.into_iter().rev() {
        let is_made = matches!(operation, OperationIr::Init(_))
            || operation.outputs().any(|out| entry.contains(&out.id));
        if !is_made && operation.outputs().any(|out| needed.contains(&out.id)) {
            needed.extend(operation.inputs().map(|input| input.id));
            kept.push(operation);
        }
    }
    kept.reverse();
    for operation in &mut kept {
        operation.visit_mut(&mut numbers);
    }
    numbers.of(result);
    (kept, numbers.0)
}

struct Renumber(BTreeMap<TensorId, usize>);

impl Renumber {
    fn of(&mut self, id: TensorId) -> usize {
        let next = self.0.len();
        *self.0.entry(id).or_insert(next)
    }
}

impl IrVisitorMut for Renumber {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = TensorId::new(self.of(tensor.id) as u64);
        tensor.status = TensorStatus::ReadOnly;
    }
}
