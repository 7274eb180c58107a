//! Executes recorded operations, one by one, on tensors whose rank is known at run time only.
//!
//! This and `capture.rs` are the files that name Burn's intermediate representation and its
//! primitive tensor functions; an upgrade of Burn touches them and `operation.rs` first.

#[macro_use]
mod forms;

mod arithmetic;
mod layers;
mod shapes;

use arithmetic::{boolean, float, integer, numeric_float, numeric_int};
use burn::backend::ir::{
    ActivationOperationIr as Activation, BaseOperationIr as Base, FloatOperationIr as FloatOp,
    ModuleOperationIr as ModuleOp, NumericOperationIr as Numeric, OperationIr, TensorIr,
    TensorStatus,
};
use burn::backend::{DispatchDevice, DispatchTensor};
use layers::{activation, module};
use shapes::{base_bool, base_float, base_int};

/// The tensors of one replay, by slot.
#[derive(Debug)]
pub(crate) struct Slots {
    values: Vec<Option<DispatchTensor>>,
    device: DispatchDevice,
}

impl Slots {
    pub(crate) fn new(len: usize, device: DispatchDevice) -> Self {
        Self {
            values: vec![None; len],
            device,
        }
    }

    /// The tensor of a slot, which an earlier operation or the caller has filled.
    pub(crate) fn get(&self, slot: usize) -> &DispatchTensor {
        self.values[slot]
            .as_ref()
            .expect("operations are replayed in the order in which they were recorded")
    }

    pub(crate) fn set(&mut self, slot: usize, value: DispatchTensor) {
        self.values[slot] = Some(value);
    }

    pub(crate) fn device(&self) -> &DispatchDevice {
        &self.device
    }

    /// Every tensor that is there, with its slot.
    pub(crate) fn into_filled(self) -> Vec<(usize, DispatchTensor)> {
        let values = self.values.into_iter().enumerate();
        values
            .filter_map(|(slot, value)| Some((slot, value?)))
            .collect()
    }

    /// Reads an operand; its last reader takes it, so that operations can work in place.
    fn read(&mut self, operand: &TensorIr) -> DispatchTensor {
        let slot = operand.id.value() as usize;
        match operand.status {
            TensorStatus::ReadWrite => self.values[slot].take(),
            TensorStatus::ReadOnly | TensorStatus::NotInit => self.values[slot].clone(),
        }
        .expect("operations are replayed in the order in which they were recorded")
    }

    fn read_optional(&mut self, operand: Option<&TensorIr>) -> Option<DispatchTensor> {
        operand.map(|operand| self.read(operand))
    }

    fn write(&mut self, out: &TensorIr, value: DispatchTensor) {
        self.set(out.id.value() as usize, value);
    }
}

/// An operation without an executor, by name.
#[derive(Debug)]
pub(crate) struct Unsupported(pub(crate) String);

type Outcome = Result<(), Unsupported>;

/// Whether [`execute`] knows the operation; asked once, when a graph is captured.
pub(crate) fn is_supported(operation: &OperationIr) -> bool {
    use ModuleOp as M;
    match operation {
        OperationIr::BaseFloat(_) | OperationIr::BaseInt(_) => true,
        OperationIr::BaseBool(op) => !matches!(
            op,
            Base::ScatterNd(_) | Base::GatherNd(_) | Base::Cast(_) | Base::Unfold(_)
        ),
        OperationIr::NumericFloat(_, op) => !matches!(op, Numeric::IntRandom(_)),
        OperationIr::NumericInt(_, op) => !matches!(
            op,
            Numeric::IntRandom(_) | Numeric::Sort(_) | Numeric::SortWithIndices(_)
        ),
        OperationIr::Bool(_) | OperationIr::Int(_) => true,
        OperationIr::Float(_, op) => !matches!(
            op,
            FloatOp::Random(_) | FloatOp::Quantize(_) | FloatOp::Dequantize(_)
        ),
        OperationIr::Module(op) => matches!(
            op,
            M::BatchNorm(_)
                | M::Embedding(_)
                | M::Linear(_)
                | M::Conv1d(_)
                | M::Conv2d(_)
                | M::Conv3d(_)
                | M::ConvTranspose1d(_)
                | M::ConvTranspose2d(_)
                | M::ConvTranspose3d(_)
                | M::AvgPool1d(_)
                | M::AvgPool2d(_)
                | M::AdaptiveAvgPool1d(_)
                | M::AdaptiveAvgPool2d(_)
                | M::AdaptiveAvgPool3d(_)
                | M::MaxPool1d(_)
                | M::MaxPool2d(_)
                | M::Interpolate(_)
                | M::Attention(_)
                | M::LayerNorm(_)
                | M::Unfold4d(_)
        ),
        OperationIr::Activation(op) => !matches!(
            op,
            Activation::ReluBackward(_)
                | Activation::GeluBackward(_)
                | Activation::SigmoidBackward(_)
                | Activation::LogSigmoidBackward(_)
        ),
        OperationIr::Init(_)
        | OperationIr::Custom(_)
        | OperationIr::Drop(_)
        | OperationIr::Distributed(_) => false,
    }
}

/// Executes one operation.
pub(crate) fn execute(operation: &OperationIr, slots: &mut Slots) -> Outcome {
    match operation {
        OperationIr::BaseFloat(op) => base_float(op, slots),
        OperationIr::BaseInt(op) => base_int(op, slots),
        OperationIr::BaseBool(op) => base_bool(op, slots),
        OperationIr::NumericFloat(_, op) => numeric_float(op, slots),
        OperationIr::NumericInt(_, op) => numeric_int(op, slots),
        OperationIr::Bool(op) => boolean(op, slots),
        OperationIr::Int(op) => integer(op, slots),
        OperationIr::Float(_, op) => float(op, slots),
        OperationIr::Module(op) => module(op, slots),
        OperationIr::Activation(op) => activation(op, slots),
        other => unsupported(other),
    }
}

fn unsupported(operation: &impl std::fmt::Debug) -> Outcome {
    Err(Unsupported(name(operation)))
}

/// The operation's name, without its operands: `Float(F32, Cross(…` is `Cross`.
pub(crate) fn name(operation: &impl std::fmt::Debug) -> String {
    let text = format!("{operation:?}");
    let mut name = text.as_str();
    for part in text.split(['(', ',', ' ', '{']) {
        match part {
            "Float" | "Int" | "Bool" | "Module" | "Activation" | "Distributed" | "Custom"
            | "BaseFloat" | "BaseInt" | "BaseBool" | "NumericFloat" | "NumericInt" | "F64"
            | "F32" | "F16" | "BF16" | "I64" | "I32" | "" => {}
            part => {
                name = part;
                break;
            }
        }
    }
    name.trim_end_matches("OpIr").to_owned()
}
