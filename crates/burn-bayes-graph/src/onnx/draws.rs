//! The nodes of a forward pass at all draws of the weights.
//!
//! What the weights of a draw change has a leading axis of draws. Where an operation cannot have one, it is there once for each
//! draw. The rest is there once.

use std::collections::BTreeSet;

use burn::backend::DispatchDevice;

use super::dims::Dim;
use super::refused;
use super::traced::{Recordings, Traced};
use super::translation::Translation;
use super::weights::DrawnWeights;
use super::writer::{self, GraphWriter};
use crate::error::Result;
use crate::lower::lowered;
use crate::operation::{Operation, slot};
use crate::vectorize::vectorize_draws;

/// What the nodes of a recorded forward pass are made with.
pub(super) struct Source {
    pub(super) writer: GraphWriter,
    pub(super) device: DispatchDevice,
    pub(super) rows: String,
    pub(super) inputs: Vec<String>,
}

impl Source {
    /// The name of the outputs of all draws, `[draws, rows, outputs]`, and their number.
    pub(super) fn outputs(
        &mut self,
        recordings: &Recordings,
        weights: &DrawnWeights,
    ) -> Result<(String, usize)> {
        weights.check()?;
        let traced = Traced::new(recordings).map_err(refused)?;
        let width = match traced.dims(traced.recording.losses) {
            [Dim::Rows(1), Dim::Fixed(width)] => *width,
            dims => {
                return Err(refused(format!(
                    "the outputs have shape {dims:?}; expected one row for each row of the inputs"
                )));
            }
        };
        let varying = weights.varying();
        let outputs = match vectorized(recordings, weights, &varying) {
            Some(vectorized) => self.stacked(&vectorized, weights)?,
            None => self.replicated(&traced, weights, width)?,
        };
        Ok((outputs, width))
    }

    /// The nodes of a recording with an axis of draws.
    fn stacked(&mut self, traced: &Traced, weights: &DrawnWeights) -> Result<String> {
        let recording = &traced.recording;
        let named = weights.stacked_names(&mut self.writer, recording);
        let mut translation = self.translation(traced, named);
        for operation in &recording.operations {
            translation.add(operation).map_err(refused)?;
        }
        translation.result().map_err(refused)
    }

    /// The nodes that depend on the draw once for each draw, and the others once.
    fn replicated(
        &mut self,
        traced: &Traced,
        weights: &DrawnWeights,
        width: usize,
    ) -> Result<String> {
        let recording = &traced.recording;
        let named = weights.shared_names(&mut self.writer, recording);
        let mut of_draws: BTreeSet<usize> = weights.varying_slots(recording).collect();
        let per_draw = weights.names_of_draws(&mut self.writer, recording);
        let mut translation = self.translation(traced, named);
        let mut repeated: Vec<&Operation> = Vec::new();
        for operation in &recording.operations {
            if operation.reads(|slot| of_draws.contains(&slot)) {
                of_draws.extend(operation.outputs.iter().map(slot));
                repeated.push(operation);
            } else {
                translation.add(operation).map_err(refused)?;
            }
        }
        if !of_draws.contains(&recording.losses) {
            let shared = translation.result().map_err(refused)?;
            return Ok(self.expanded(&shared, weights.draws, width));
        }
        let mut outputs = Vec::with_capacity(weights.draws);
        for of_draw in per_draw {
            translation.names.extend(of_draw);
            for operation in &repeated {
                translation.add(operation).map_err(refused)?;
            }
            outputs.push(translation.result().map_err(refused)?);
        }
        Ok(self.joined(&outputs))
    }

    /// Of a recording whose weights have these names.
    fn translation<'a>(
        &'a mut self,
        traced: &'a Traced,
        weights: Vec<(usize, String)>,
    ) -> Translation<'a> {
        let mut translation = Translation::new(traced, &mut self.writer, &self.rows, &self.device);
        let slots = traced.recording.inputs.iter().copied();
        let inputs = slots.zip(self.inputs.iter().cloned());
        translation.names.extend(weights.into_iter().chain(inputs));
        translation
    }

    /// The outputs of each draw along a new first axis.
    fn joined(&mut self, outputs: &[String]) -> String {
        let first = self.writer.vector(&[0]);
        let mut separate = |output: &String| {
            let operands = [output.as_str(), &first];
            self.writer.node("Unsqueeze", &operands, Vec::new())
        };
        let separate: Vec<_> = outputs.iter().map(&mut separate).collect();
        match &separate[..] {
            [one] => one.clone(),
            _ => {
                let separate: Vec<_> = separate.iter().map(String::as_str).collect();
                let axis = writer::integer("axis", 0);
                self.writer.node("Concat", &separate, vec![axis])
            }
        }
    }

    /// The same outputs for all draws.
    fn expanded(&mut self, outputs: &str, draws: usize, width: usize) -> String {
        if draws == 1 {
            return self.joined(&[outputs.to_owned()]);
        }
        let (draws, width) = (draws as i64, width as i64);
        let (draws, width) = (self.writer.vector(&[draws]), self.writer.vector(&[width]));
        let axis = writer::integer("axis", 0);
        let lens = [draws.as_str(), &self.rows, &width];
        let shape = self.writer.node("Concat", &lens, vec![axis]);
        self.writer.node("Expand", &[outputs, &shape], Vec::new())
    }
}

/// The recordings with a leading axis of draws. `None` if an operation cannot have one.
fn vectorized(
    recordings: &Recordings,
    weights: &DrawnWeights,
    varying: &[Option<usize>],
) -> Option<Traced> {
    if weights.draws == 1 {
        return None;
    }
    // Normalisations by statistics of each draw have no axis of draws.
    let mut tensors = weights.first.iter().zip(varying);
    if tensors.any(|(tensor, varies)| varies.is_some() && tensor.parameter.is_none()) {
        return None;
    }
    let with_draws = recordings.all.each_ref().map(|recording| {
        let recording = lowered(recording.clone(), varying);
        vectorize_draws(recording, varying, weights.draws).ok()
    });
    let [first, second, third] = with_draws;
    let all = [first?, second?, third?];
    let mut shapes = recordings.shapes.clone();
    let batch = all[0].inputs.len();
    for (shapes, varies) in shapes[batch..].iter_mut().zip(varying) {
        if varies.is_some() {
            let shapes = shapes.iter_mut();
            shapes.for_each(|shape| shape.insert(0, weights.draws));
        }
    }
    let rows = recordings.rows;
    let traced = Traced::new(&Recordings { all, rows, shapes }).ok()?;
    let dims = traced.dims(traced.recording.losses);
    let is_of_draws =
        matches!(dims, [Dim::Fixed(draws), Dim::Rows(1), _] if *draws == weights.draws);
    is_of_draws.then_some(traced)
}
