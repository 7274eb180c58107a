//! Vectorises a plan of per-example gradients over draws: one replay then gives the gradients of every
//! example at every draw of the parameters.

use std::collections::BTreeSet;

use crate::operation::slot;
use crate::parameters::parameter_slots;
use crate::plan::{Bias, ExampleCopy, Plan, Step, Tap};
use crate::vectorize::{Alignment, Vectorizer};

/// The plan for `draws` draws of the tensors that `parameters` marks, or the reason why there is none.
pub(crate) fn with_draws(
    plan: Plan,
    parameters: &[Option<usize>],
    draws: usize,
) -> Result<Plan, String> {
    if !plan.looped.is_empty() {
        return Err("a parameter needs a backward pass per example".into());
    }
    let vectorized = parameter_slots(&plan.module_tensors, parameters);
    let mut planner = DrawPlanner {
        vectorizer: Vectorizer::new(plan.slots, vectorized, draws),
        steps: Vec::new(),
        taps: plan.taps,
        copies: plan.copies,
    };
    for step in plan.steps {
        planner.add(step)?;
    }
    let DrawPlanner {
        vectorizer,
        steps,
        taps,
        copies,
    } = planner;
    if !vectorizer.vectorized.contains(&plan.losses) {
        return Err("the losses do not depend on the weights".into());
    }
    let mut vectorized = Plan {
        slots: vectorizer.slots,
        losses: vectorizer.place(plan.losses),
        steps,
        taps,
        copies,
        looped: BTreeSet::new(),
        example_constants: plan.example_constants,
        draws: Some(draws),
        module_tensors: plan.module_tensors,
        inputs: plan.inputs,
        constants: plan.constants,
        constant_operations: plan.constant_operations,
    };
    vectorized.mark_last_reads();
    Ok(vectorized)
}

struct DrawPlanner {
    vectorizer: Vectorizer,
    steps: Vec<Step>,
    taps: Vec<Tap>,
    copies: Vec<ExampleCopy>,
}

impl DrawPlanner {
    fn add(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Run(operation) => {
                self.vectorizer.run(operation)?;
                self.take_operations();
            }
            Step::Tap(number) => {
                self.tap(number);
                self.steps.push(step);
            }
            Step::Copy(number) => {
                let Self {
                    vectorizer, copies, ..
                } = self;
                let copied = &mut copies[number];
                copied.source = vectorizer.place(copied.source);
                copied.shape.insert(0, vectorizer.draws);
                vectorizer.vectorized.insert(copied.target);
                self.steps.push(step);
            }
        }
        Ok(())
    }

    /// Gives the tap's leaf an axis of draws, whether its weight or only its bias has one.
    fn tap(&mut self, number: usize) {
        let output = self.taps[number].output.clone();
        let product = self.vectorizer.aligned(&output, Alignment::Broadcast);
        self.take_operations();
        let Self {
            vectorizer, taps, ..
        } = self;
        let tap = &mut taps[number];
        tap.product = slot(&product);
        tap.source = vectorizer.place(tap.source);
        if let Some(Bias { slot, shape, .. }) = &mut tap.bias {
            let is_vectorized = vectorizer.vectorized.contains(slot);
            shape.insert(0, if is_vectorized { vectorizer.draws } else { 1 });
            *slot = vectorizer.place(*slot);
        }
        // From here on the output is its own tensor, even if the product lies in another slot.
        vectorizer.renamed.remove(&slot(&output));
        vectorizer.vectorized.insert(slot(&output));
        tap.output = vectorizer.with_draws(&output);
    }

    fn take_operations(&mut self) {
        let operations = std::mem::take(&mut self.vectorizer.operations);
        self.steps.extend(operations.into_iter().map(Step::Run));
    }
}
