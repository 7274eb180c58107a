//! Recorded operations, each decoded once from Burn's intermediate representation.
//!
//! [`table`] is the only list of Burn's operations. An entry has the operation's [`AxisRule`] and its
//! arithmetic, so a new operation needs only a new entry. Planning reads the rule, vectorising over draws
//! changes it, and a replay runs the arithmetic. An upgrade of Burn touches this module and `capture.rs`
//! first.

mod axis_rule;
mod build;
mod compiled;
mod forms;
mod layers;
mod numeric;
mod shapes;
mod slots;
mod table;

use std::fmt::{self, Write};
use std::sync::Arc;

use burn::backend::ir::{OperationIr, TensorIr};

use crate::memory_use::tensors_bytes;

pub(crate) use axis_rule::{AxisRule, Convolution};
pub(crate) use build::SlotCount;
pub(crate) use compiled::{Compiled, Pool};
pub(crate) use slots::Slots;

/// A recorded operation.
///
/// The kernel reads operands, results and axes from the operation, so that a pass can change them.
#[derive(Clone)]
pub(crate) struct Operation {
    /// Burn's name of the operation, such as `Conv2d`.
    pub(crate) name: String,
    pub(crate) axes: AxisRule,
    /// The operands, in the order that [`AxisRule`] documents.
    pub(crate) inputs: Vec<TensorIr>,
    pub(crate) outputs: Vec<TensorIr>,
    /// The arithmetic; `None` if the operation cannot be replayed.
    kernel: Option<Kernel>,
    /// How a compiled program evaluates it.
    pub(crate) compiled: Arc<Compiled>,
}

/// Reads an operation's operands from slots, and writes its results there.
type Kernel = Arc<dyn Fn(&Operation, &mut Slots) + Send + Sync>;

impl From<OperationIr> for Operation {
    fn from(recorded: OperationIr) -> Self {
        let forms::Entry {
            rule,
            kernel,
            compiled,
        } = table::entry(&recorded);
        Self {
            name: name(&recorded),
            axes: rule,
            inputs: recorded.inputs().cloned().collect(),
            outputs: recorded.outputs().cloned().collect(),
            kernel,
            compiled: compiled.into(),
        }
    }
}

impl Operation {
    /// Whether the operation can be replayed.
    pub(crate) fn is_supported(&self) -> bool {
        self.kernel.is_some()
    }

    /// Runs the operation on the tensors in `slots`.
    ///
    /// # Panics
    ///
    /// If the operation is not supported, which a plan checks.
    pub(crate) fn run(&self, slots: &mut Slots) {
        let Some(kernel) = &self.kernel else {
            unreachable!("{} was refused when the plan was made", self.name);
        };
        kernel(self, slots);
    }

    /// The first result; further results have the same shape.
    pub(crate) fn out(&self) -> &TensorIr {
        &self.outputs[0]
    }

    /// Whether `is_such` holds for the slot of an operand.
    pub(crate) fn reads(&self, is_such: impl Fn(usize) -> bool) -> bool {
        self.inputs.iter().any(|input| is_such(slot(input)))
    }

    /// The memory of what the operation owns, in bytes.
    pub(crate) fn owned_bytes(&self) -> usize {
        /// The counts of an `Arc`, and its allocation.
        const SHARED: usize = 32;
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_or(0, |kernel| SHARED + size_of_val(&**kernel));
        let tensors = tensors_bytes(&self.inputs) + tensors_bytes(&self.outputs);
        let compiled = SHARED + size_of::<Compiled>() + self.compiled.owned_bytes();
        let described = self.axes.owned_bytes() + compiled;
        SHARED + self.name.capacity() + described + tensors + kernel
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&self.name)
            .field("axes", &self.axes)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// The slot of a recorded tensor.
pub(crate) fn slot(tensor: &TensorIr) -> usize {
    tensor.id.value() as usize
}

/// The words before an operation's name in its `Debug` output.
const GROUPS: [&str; 18] = [
    "Float",
    "Int",
    "Bool",
    "Module",
    "Activation",
    "Distributed",
    "Custom",
    "BaseFloat",
    "BaseInt",
    "BaseBool",
    "NumericFloat",
    "NumericInt",
    "F64",
    "F32",
    "F16",
    "BF16",
    "I64",
    "I32",
];

/// The name in an operation's `Debug` output: `Cross` for `Float(F32, Cross(…`.
fn name(operation: &OperationIr) -> String {
    /// Keeps the beginning of a text, because the output of operands is long.
    struct Beginning(String);
    impl Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() < 128 {
                Ok(())
            } else {
                Err(fmt::Error)
            }
        }
    }
    let mut text = Beginning(String::new());
    // An error means that the beginning is complete.
    let _ = write!(text, "{operation:?}");
    let mut parts = text.0.split(['(', ',', ' ', '{']);
    let name = parts
        .find(|part| !part.is_empty() && !GROUPS.contains(part))
        .unwrap_or(&text.0);
    name.trim_end_matches("OpIr").to_owned()
}
