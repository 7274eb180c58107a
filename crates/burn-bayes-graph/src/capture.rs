//! Records a loss as a list of operations, by evaluating it on a device that computes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::capture::{CaptureBackend, CapturedGraph};
use burn::backend::ir::{IrVisitorMut, OperationIr, TensorId, TensorIr, TensorStatus};
use burn::backend::{BackendTensor, DispatchKindConversion, DispatchTensor};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData, kind};
use burn_bayes_core::Layout;

use crate::batch::{ExampleBatch, Lengthened, Rotated, TensorMapper, ToDevice};
use crate::lower::slot;
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
/// It is recorded twice. With the examples rotated, a function whose course depends on the data gives
/// itself away.
pub(crate) fn record<M: Module, B: ExampleBatch, const R: usize>(
    model: &M,
    layout: &Layout,
    batch: &B,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording, String> {
    let recording = record_once(model, layout, batch.clone(), function)?;
    let rotated = batch.clone().map_tensors(&mut Rotated);
    if record_once(model, layout, rotated, function)? != recording {
        return Err(
            "other data made it compute something else: its course depends on the values of \
             tensors"
                .into(),
        );
    }
    Ok(recording)
}

/// The same, and with one example more: the constants that have an entry per example give themselves
/// away.
pub(crate) fn record_grown<M: Module, B: ExampleBatch>(
    model: &M,
    layout: &Layout,
    batch: &B,
    loss: &impl Fn(&M, B) -> Tensor<1>,
) -> Result<Recording, String> {
    let mut recording = record(model, layout, batch, loss)?;
    let longer = batch.clone().map_tensors(&mut Lengthened);
    if let Ok(longer) = record_once(model, layout, longer, loss) {
        recording.grown = grown(&recording, &longer);
    }
    Ok(recording)
}

/// The constants of `recording` that are longer along exactly one axis in `longer`.
fn grown(recording: &Recording, longer: &Recording) -> BTreeMap<usize, usize> {
    if recording.operations.len() != longer.operations.len() {
        return BTreeMap::new();
    }
    let axis = |short: &[usize], long: &[usize]| {
        let mut axes = (0..short.len().min(long.len())).filter(|&axis| short[axis] != long[axis]);
        axes.next()
            .filter(|_| axes.next().is_none() && short.len() == long.len())
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
    batch: B,
    function: &impl Fn(&M, B) -> Tensor<R>,
) -> Result<Recording, String> {
    let device = Device::capture();
    let mut bounds = Bounds::default();
    let captured = catch_unwind(AssertUnwindSafe(|| {
        device.capture_scope(|scope| {
            let model = model.valid().to_device(&device);
            let batch = batch.map_tensors(&mut ToDevice(&device));
            let batch = batch.map_tensors(&mut Ids(&mut bounds.inputs));
            let tensors = held(&model, layout);
            bounds.held = tensors.into_iter().map(|held| id_of(held.value)).collect();
            let result = function(&model, batch);
            bounds.losses = Some(id_of(result.into_dispatch()));
            scope.complete(bounds.inputs.clone(), bounds.losses)
        })
    }));
    // Modules share running statistics with their clones, so those were moved with the copy.
    if let Some(device) = model.devices().first() {
        drop(model.clone().to_device(device));
    }
    match captured {
        Ok(Ok(graph)) => Ok(number(graph, bounds).pruned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(message(panic.as_ref())),
    }
}

impl Recording {
    /// Without what its result does not need.
    fn pruned(mut self) -> Self {
        let mut needed = BTreeSet::from([self.losses]);
        let mut kept = Vec::with_capacity(self.operations.len());
        for operation in self.operations.into_iter().rev() {
            if operation.outputs().any(|out| needed.contains(&slot(out))) {
                needed.extend(operation.inputs().map(slot));
                kept.push(operation);
            }
        }
        kept.reverse();
        self.operations = kept;
        self.constants.retain(|(slot, _)| needed.contains(slot));
        self
    }
}

/// The tensors by which a recording is entered and left.
#[derive(Default)]
struct Bounds {
    held: Vec<TensorId>,
    inputs: Vec<TensorId>,
    losses: Option<TensorId>,
}

struct Ids<'a>(&'a mut Vec<TensorId>);

impl TensorMapper for Ids<'_> {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        self.0.push(id_of(tensor.clone().into_dispatch()));
        tensor
    }
}

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

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it panicked".into())
}

/// Numbers the tensors from 0 in the order of their first use.
fn number(graph: CapturedGraph, bounds: Bounds) -> Recording {
    let mut numbers = Numbers(BTreeMap::new());
    let held = bounds.held.iter().map(|&id| numbers.of(id)).collect();
    let inputs: Vec<_> = bounds.inputs.iter().map(|&id| numbers.of(id)).collect();
    let mut operations = graph.graph.operations;
    operations.retain(|operation| !matches!(operation, OperationIr::Init(_)));
    for operation in &mut operations {
        operation.visit_mut(&mut numbers);
    }
    // The graph knows its results by the ids after aliasing.
    let losses = numbers.of(graph.graph.outputs[0]);
    let slots = numbers.0.len();
    let mut constants: Vec<_> = graph.values.into_iter().collect();
    constants.retain(|(id, _)| numbers.0.contains_key(id));
    let mut constants: Vec<_> = constants
        .into_iter()
        .map(|(id, value)| (numbers.of(id), value))
        .collect();
    constants.sort_by_key(|(slot, _)| *slot);
    let held: Vec<usize> = held;
    constants.retain(|(slot, _)| !held.contains(slot) && !inputs.contains(slot));
    Recording {
        operations,
        held,
        inputs,
        constants,
        losses,
        slots,
        grown: BTreeMap::new(),
    }
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
