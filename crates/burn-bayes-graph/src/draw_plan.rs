//! Gives a plan of per-example gradients an axis of draws: one replay then taps what every example has
//! at every draw of the parameters.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::OperationIr;

use crate::capture::Recording;
use crate::lift::Lifter;
use crate::lower::slot;
use crate::plan::{Bias, Copied, Plan, Step, Tap};

/// The plan for `draws` draws of the tensors in `parameters`, or why there is none.
pub(crate) fn with_draws(
    plan: Plan,
    parameters: &[Option<usize>],
    draws: usize,
) -> Result<Plan, String> {
    if !plan.looped.is_empty() {
        return Err("a parameter takes a pass for each example".into());
    }
    let held = plan.held.iter().zip(parameters);
    let lifted = held.filter_map(|(slot, parameter)| parameter.map(|_| *slot));
    let lifter = Lifter {
        lifted: lifted.collect(),
        renamed: BTreeMap::new(),
        recording: Recording {
            operations: Vec::new(),
            held: plan.held.clone(),
            inputs: plan.inputs.clone(),
            constants: Vec::new(),
            losses: plan.losses,
            slots: plan.slots,
            grown: BTreeMap::new(),
        },
        draws,
    };
    let mut planner = DrawPlanner {
        lifter,
        steps: Vec::new(),
        taps: plan.taps,
        copies: plan.copies,
    };
    for step in plan.steps {
        planner.add(step)?;
    }
    let DrawPlanner {
        lifter,
        steps,
        taps,
        copies,
    } = planner;
    if !lifter.lifted.contains(&plan.losses) {
        return Err("no weight reaches the losses".into());
    }
    let mut lifted = Plan {
        slots: lifter.recording.slots,
        losses: lifter.place(plan.losses),
        steps,
        taps,
        copies,
        looped: BTreeSet::new(),
        draws: Some(draws),
        held: plan.held,
        inputs: plan.inputs,
        constants: plan.constants,
        constant_operations: plan.constant_operations,
    };
    lifted.mark_last_reads();
    Ok(lifted)
}

struct DrawPlanner {
    lifter: Lifter,
    steps: Vec<Step>,
    taps: Vec<Tap>,
    copies: Vec<Copied>,
}

impl DrawPlanner {
    fn add(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Run(operation) => {
                self.lifter.run(*operation)?;
                self.take_operations();
            }
            Step::Tap(number) => {
                self.tap(number);
                self.steps.push(step);
            }
            Step::Copy(number) => {
                let Self { lifter, copies, .. } = self;
                let copied = &mut copies[number];
                copied.source = lifter.place(copied.source);
                copied.shape.insert(0, lifter.draws);
                lifter.lifted.insert(copied.target);
                self.steps.push(step);
            }
        }
        Ok(())
    }

    /// The tap's leaf carries draws, whether its weight or its bias does.
    fn tap(&mut self, number: usize) {
        let output = self.taps[number].output.clone();
        let product = self.lifter.aligned_one(&output, false);
        self.take_operations();
        let Self { lifter, taps, .. } = self;
        let tap = &mut taps[number];
        tap.product = slot(&product);
        tap.source = lifter.place(tap.source);
        if let Some(Bias { slot, shape, .. }) = &mut tap.bias {
            let is_lifted = lifter.lifted.contains(slot);
            shape.insert(0, if is_lifted { lifter.draws } else { 1 });
            *slot = lifter.place(*slot);
        }
        // From here on the output is its own tensor, whatever the product was called.
        lifter.renamed.remove(&slot(&output));
        lifter.lifted.insert(slot(&output));
        tap.output = lifter.up(&output);
    }

    fn take_operations(&mut self) {
        let operations = std::mem::take(&mut self.lifter.recording.operations);
        let run = |operation: OperationIr| Step::Run(operation.into());
        self.steps.extend(operations.into_iter().map(run));
    }
}
