//! Which operation reads a tensor last: it may take the tensor's memory for its result.

use std::collections::BTreeSet;

use burn::backend::ir::{IrVisitorMut, OperationIr, TensorIr, TensorStatus};

use super::{Plan, Step};
use crate::lower::slot;

impl Plan {
    /// Lets the last reader of a slot take its tensor.
    pub(crate) fn mark_last_reads(&mut self) {
        let mut later = BTreeSet::from([self.losses]);
        for step in self.steps.iter_mut().rev() {
            match step {
                Step::Run(operation) => mark(operation, &mut later),
                Step::Tap(number) => {
                    let tap = &self.taps[*number];
                    later.extend([tap.source, tap.product]);
                    later.extend(tap.bias.as_ref().map(|bias| bias.slot));
                }
                Step::Copy(number) => {
                    later.insert(self.copies[*number].source);
                }
            }
        }
    }
}

/// Marks the operands that no later step reads, and adds them to those that a later step reads.
fn mark(operation: &mut OperationIr, later: &mut BTreeSet<usize>) {
    struct Marker<'a> {
        later: &'a BTreeSet<usize>,
        reads: Vec<usize>,
    }
    impl IrVisitorMut for Marker<'_> {
        fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
            let slot = slot(tensor);
            let once = self.reads.iter().filter(|&&read| read == slot).count() == 1;
            tensor.status = match once && !self.later.contains(&slot) {
                true => TensorStatus::ReadWrite,
                false => TensorStatus::ReadOnly,
            };
        }
    }
    let reads: Vec<_> = operation.inputs().map(slot).collect();
    let mut marker = Marker { later, reads };
    operation.visit_mut(&mut marker);
    let reads = marker.reads;
    later.extend(reads);
}
