//! Marks the last use of each tensor, so that the operation can reuse its memory.

use std::collections::BTreeSet;

use burn::backend::ir::TensorStatus;

use super::{Plan, Step};
use crate::operation::{Operation, slot};

impl Plan {
    /// Marks the operands that no later step reads.
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

/// Marks the operands that are not in `later`, the slots that later steps read, and adds them to it.
fn mark(operation: &mut Operation, later: &mut BTreeSet<usize>) {
    let reads: Vec<_> = operation.inputs.iter().map(slot).collect();
    for operand in &mut operation.inputs {
        let slot = slot(operand);
        let once = reads.iter().filter(|&&read| read == slot).count() == 1;
        operand.status = match once && !later.contains(&slot) {
            true => TensorStatus::ReadWrite,
            false => TensorStatus::ReadOnly,
        };
    }
    later.extend(reads);
}
