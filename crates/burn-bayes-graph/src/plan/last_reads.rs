//! Removes unused operations, and marks the last use of each tensor, so that an operation can reuse its memory.

use std::collections::BTreeSet;

use burn::backend::ir::TensorStatus;

use super::{Plan, Step};
use crate::operation::{Operation, slot};

impl Plan {
    /// Removes the operations whose results no later step reads.
    ///
    /// A rewritten product or a copy replaces the tensor that the recording computed for it.
    pub(super) fn drop_unread(&mut self) {
        let mut later = BTreeSet::from([self.losses]);
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            match &step {
                Step::Run(operation) => {
                    let mut results = operation.outputs.iter().map(slot);
                    if !results.any(|result| later.contains(&result)) {
                        continue;
                    }
                    later.extend(operation.inputs.iter().map(slot));
                }
                Step::Tap(number) => later.extend(self.taps[*number].reads()),
                Step::Copy(number) => {
                    later.insert(self.copies[*number].source);
                }
            }
            self.steps.push(step);
        }
        self.steps.reverse();
    }

    /// Marks the operands that no later step reads.
    pub(crate) fn mark_last_reads(&mut self) {
        let mut later = BTreeSet::from([self.losses]);
        for step in self.steps.iter_mut().rev() {
            match step {
                Step::Run(operation) => mark(operation, &mut later),
                Step::Tap(number) => later.extend(self.taps[*number].reads()),
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
