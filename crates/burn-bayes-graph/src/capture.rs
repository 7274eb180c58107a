//! Records a loss as a list of operations, by evaluating it on a device that computes nothing.
//!
//! The tensors of the batch and the parameters of the model are **placeholders** there: they have a
//! shape and no values. A loss that reads a value on the host, with `into_scalar` or `to_data`, fails
//! instead of leaving today's value in the recording.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use burn::backend::capture::{CaptureBackend, CapturedGraph};
use burn::backend::ir::{IrVisitorMut, OperationIr, TensorId, TensorIr, TensorStatus};
use burn::backend::{BackendTensor, DispatchKindConversion, DispatchTensor};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Bool, Device, DeviceConfig, DeviceSettings, Int, Tensor, TensorData, kind};

use crate::batch::{ExampleBatch, Inputs, Lengthened, TensorMapper};
use crate::layout::Layout;
use crate::parameters::held;
use crate::semantics::{Semantics, semantics};

/// A loss as operations on numbered slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recording {
    pub(crate) operations: Vec<OperationIr>,
    /// The slots of the module's tensors, in the order of a visit.
    pub(crate) held: Vec<usize>,
    /// The slots of the batch's tensors.
    pub(crate) inputs: Vec<usize>,
    /// What else the loss read: constants that the model or the loss made.
    pub(crate) constants: Vec<(usize, TensorData)>,
    /// The losses, one per example.
    pub(crate) losses: usize,
    pub(crate) slots: usize,
    /// Constants that have one entry per example, with the axis along which they have: a state of
    /// zeros that a recurrent layer starts from.
    pub(crate) grown: BTreeMap<usize, usize>,
}

/// Records `function` of `model` and `batch`; the reason in words if it cannot be recorded.
///
/// It is recorded twice: a function that is not the same from one call to the next gives itself away.
pub(crate) fn record<M: Module, B: ExampleBatch, const R: usize>(
    model: &M,
    layout: &Layout,
    batch: &B,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording, String> {
    let recording = record_once(model, layout, batch, function)?;
    if record_once(model, layout, batch, function)? != recording {
        return Err("a second call computed something else".into());
    }
    Ok(recording)
}

/// The same, and with one example more: the constants that have an entry per example give themselves
/// away.
pub(crate) fn record_grown<M: Module, B: ExampleBatch>(
    model: &M,
    layout: &Layout,
    batch: &B,
    examples: usize,
    loss: &impl Fn(&M, B) -> Tensor<1>,
) -> Result<Recording, String> {
    let mut recording = record(model, layout, batch, loss)?;
    let longer = batch.clone().map_tensors(&mut Lengthened);
    if let Ok(longer) = record_once(model, layout, &longer, loss) {
        recording.grown = grown(&recording, &longer, examples);
    }
    Ok(recording)
}

/// The constants of `recording` with `examples` entries along an axis along which those of `longer` have
/// one more.
fn grown(recording: &Recording, longer: &Recording, examples: usize) -> BTreeMap<usize, usize> {
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
        let created = recording
            .operations
            .iter()
            .filter(|operation| matches!(semantics(operation), Semantics::Creation));
        let created = created.flat_map(|operation| operation.outputs());
        let created = created.map(|out| (out.id.value() as usize, out.shape.to_vec()));
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
) -> Result<Recording, String> {
    let mut entrance = Entrance::default();
    let graph = in_scope(model, |device| {
        let (model, batch) = with_placeholders(model, batch, device);
        entrance = Entrance::of(&model, &batch, layout);
        vec![id_of(function(&model, batch).into_dispatch())]
    })?;
    let losses = graph.graph.outputs[0];
    let (operations, numbers) = numbered(graph.graph.operations, &entrance, losses);
    let constants = graph.values.into_iter();
    let mut constants: Vec<_> = constants
        .filter_map(|(id, value)| Some((*numbers.get(&id)?, value)))
        .collect();
    constants.sort_by_key(|(slot, _)| *slot);
    let slots_of = |ids: &[TensorId]| ids.iter().map(|id| numbers[id]).collect();
    Ok(Recording {
        operations,
        held: slots_of(&entrance.held),
        inputs: slots_of(&entrance.inputs),
        constants,
        losses: numbers[&losses],
        slots: numbers.len(),
        grown: BTreeMap::new(),
    })
}

/// Evaluates on a device that only takes notes, in the default types of the model's device. `evaluate`
/// returns the tensors that are wanted.
pub(crate) fn in_scope<M: Module>(
    model: &M,
    evaluate: impl FnOnce(&Device) -> Vec<TensorId>,
) -> Result<CapturedGraph, String> {
    // Burn never uses the number of such a device again, and has 65 536 of them.
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
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(reason(message(panic.as_ref()))),
    }
}

/// Makes tensors without a type of their own those of another device.
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

/// Copies without values, of a module in inference mode and of a batch.
fn with_placeholders<M: Module, B: ExampleBatch>(model: &M, batch: &B, device: &Device) -> (M, B) {
    let batch = batch.clone().map_tensors(&mut Placeholders(device));
    (without_values(model, device), batch)
}

/// A copy for inference whose parameters have no values; its other tensors are moved with theirs.
pub(crate) fn without_values<M: Module>(model: &M, device: &Device) -> M {
    // Such a copy has running statistics of its own, which the map would otherwise reach.
    model
        .valid()
        .map(&mut Placeholders(device))
        .to_device(device)
}

struct Placeholders<'a>(&'a Device);

impl TensorMapper for Placeholders<'_> {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        Tensor::empty(tensor.shape(), (self.0, tensor.dtype()))
    }
}

impl ModuleMapper for Placeholders<'_> {
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

/// The placeholders by which a recording is entered.
#[derive(Default)]
struct Entrance {
    held: Vec<TensorId>,
    inputs: Vec<TensorId>,
}

impl Entrance {
    fn of<M: Module, B: ExampleBatch>(model: &M, batch: &B, layout: &Layout) -> Self {
        let held = held(model, layout).into_iter();
        let inputs = Inputs::of(batch).into_iter();
        Self {
            held: held.map(|held| id_of(held.value)).collect(),
            inputs: inputs.map(id_of).collect(),
        }
    }
}

/// The number that the recording device knows a tensor by.
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

/// What a panic said.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it panicked".into())
}

/// Says what the recording device means when a value is read that it does not have.
fn reason(message: String) -> String {
    if message.contains("has no concrete value") || message.contains("has no initialized value") {
        return "it reads the values of a tensor on the host (`into_scalar`, `to_data`, or \
                `Tensor::one_hot`, for which `losses::one_hot` is a substitute)"
            .into();
    }
    message
}

/// The operations that the result needs, without those that made the placeholders; and the slots of all
/// tensors: those of the entrance, then in the order of first use.
fn numbered(
    operations: Vec<OperationIr>,
    entrance: &Entrance,
    result: TensorId,
) -> (Vec<OperationIr>, BTreeMap<TensorId, usize>) {
    let placeholders = entrance.held.iter().chain(&entrance.inputs);
    let mut numbers = Numbers(BTreeMap::new());
    for &id in placeholders.clone() {
        numbers.of(id);
    }
    let placeholders: BTreeSet<_> = placeholders.collect();
    let mut needed = BTreeSet::from([result]);
    let mut kept = Vec::with_capacity(operations.len());
    for operation in operations.into_iter().rev() {
        let is_made = matches!(operation, OperationIr::Init(_))
            || operation
                .outputs()
                .any(|out| placeholders.contains(&out.id));
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

struct Numbers(BTreeMap<TensorId, usize>);

impl Numbers {
    fn of(&mut self, id: TensorId) -> usize {
        let next = self.0.len();
        *self.0.entry(id).or_insert(next)
    }
}

impl IrVisitorMut for Numbers {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = TensorId::new(self.of(tensor.id) as u64);
        tensor.status = TensorStatus::ReadOnly;
    }
}
