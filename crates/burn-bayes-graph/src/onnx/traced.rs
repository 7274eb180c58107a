//! Recordings at several numbers of rows, which show what depends on it.

use std::collections::BTreeMap;

use burn::backend::ir::TensorIr;
use burn::tensor::{Slice, TensorData};

use super::dims::Dim;
use crate::capture::Recording;
use crate::operation::{AxisRule, Operation, slot};

/// How many numbers of rows are recorded. Two would allow every length; the third must be on their line.
pub(super) const RECORDINGS: usize = 3;

/// A recording whose lengths are known for any number of rows.
#[derive(Debug)]
pub(super) struct Traced {
    /// At the first number of rows.
    pub(super) recording: Recording,
    dims: BTreeMap<usize, Vec<Dim>>,
    /// Every constant, at all numbers of rows.
    constants: BTreeMap<usize, Vec<TensorData>>,
}

impl Traced {
    /// From recordings at these numbers of rows, with the shapes of the batch and of the module's tensors in each. Fails with
    /// the reason if they differ in more than lengths.
    pub(super) fn new(
        recordings: [Recording; RECORDINGS],
        rows: [usize; RECORDINGS],
        given: &[[Vec<usize>; RECORDINGS]],
    ) -> Result<Self, String> {
        let mut dims = BTreeMap::new();
        let places = recordings[0]
            .inputs
            .iter()
            .chain(&recordings[0].module_tensors);
        for (&slot, shapes) in places.zip(given) {
            let shapes = shapes.each_ref().map(Vec::as_slice);
            dims.insert(slot, dims_of(shapes, rows).ok_or("a batch has no rows")?);
        }
        let mut constants = BTreeMap::new();
        for (place, (slot, _)) in recordings[0].constants.iter().enumerate() {
            let found = recordings.iter().map(|recording| &recording.constants);
            let found = found.map(|constants| constants.get(place));
            let found: Option<Vec<_>> = found
                .map(|constant| constant.filter(|(other, _)| other == slot))
                .collect();
            let found = found.ok_or("it has more constants for more rows")?;
            let values: Vec<_> = found.into_iter().map(|(_, value)| value.clone()).collect();
            let shapes: Vec<_> = values.iter().map(|value| value.shape().to_vec()).collect();
            let shapes = [0, 1, 2].map(|number| shapes[number].as_slice());
            let found = dims_of(shapes, rows).ok_or(
                "a constant of the model has a length that is no multiple of the number of rows",
            )?;
            dims.insert(*slot, found);
            constants.insert(*slot, values);
        }
        let shortest = recordings
            .iter()
            .map(|recording| recording.operations.len());
        let shortest = shortest.min().unwrap_or(0);
        for number in 0..shortest {
            let same = recordings.each_ref();
            let same = same.map(|recording| &recording.operations[number]);
            add_dims(same, rows, &mut dims)?;
        }
        if let Some(longer) = recordings.iter().find_map(|it| it.operations.get(shortest)) {
            return Err(another_operation(&longer.name));
        }
        let [recording, ..] = recordings;
        Ok(Self {
            recording,
            dims,
            constants,
        })
    }

    /// The lengths of the tensor of a slot.
    pub(super) fn dims(&self, slot: usize) -> &[Dim] {
        &self.dims[&slot]
    }

    /// A constant at all numbers of rows.
    pub(super) fn constant(&self, slot: usize) -> Option<&[TensorData]> {
        self.constants.get(&slot).map(Vec::as_slice)
    }
}

fn dims_of(shapes: [&[usize]; RECORDINGS], rows: [usize; RECORDINGS]) -> Option<Vec<Dim>> {
    let rank = shapes[0].len();
    if shapes.iter().any(|shape| shape.len() != rank) {
        return None;
    }
    let lens = |axis: usize| shapes.map(|shape| shape[axis]);
    (0..rank).map(|axis| Dim::of(&lens(axis), &rows)).collect()
}

/// Adds the lengths of an operation's results. Fails if the recordings of the operation differ in more than lengths.
fn add_dims(
    same: [&Operation; RECORDINGS],
    rows: [usize; RECORDINGS],
    dims: &mut BTreeMap<usize, Vec<Dim>>,
) -> Result<(), String> {
    let first = same[0];
    let name = &first.name;
    let slots = |tensors: &[TensorIr]| tensors.iter().map(slot).collect::<Vec<_>>();
    for other in &same[1..] {
        let is_same = other.name == *name
            && slots(&other.inputs) == slots(&first.inputs)
            && slots(&other.outputs) == slots(&first.outputs);
        if !is_same {
            return Err(another_operation(name));
        }
        if settings(other) != settings(first) {
            return Err(format!("{name}: its settings depend on the number of rows"));
        }
    }
    for place in 0..first.outputs.len() {
        let shapes = same.map(|operation| &operation.outputs[place].shape[..]);
        let found = dims_of(shapes, rows).ok_or_else(|| {
            format!("{name}: its result has a length that is no multiple of the number of rows")
        })?;
        dims.insert(slot(&first.outputs[place]), found);
    }
    Ok(())
}

fn another_operation(name: &str) -> String {
    format!("{name}: the model has other operations for more rows")
}

/// The settings of an operation, without those that are lengths of its results.
fn settings(operation: &Operation) -> String {
    let rule = match &operation.axes {
        AxisRule::Slice(ranges) | AxisRule::SliceAssign(ranges) => {
            let shape = &operation.inputs[0].shape;
            let described = ranges.iter().zip(shape.iter());
            let described = described.map(|(range, &len)| slice_text(range, len));
            described.collect::<Vec<_>>().join(", ")
        }
        AxisRule::Repeat(axis, _) => format!("Repeat({axis})"),
        rule => format!("{rule:?}"),
    };
    format!("{rule} {:?}", operation.compiled)
}

/// A range of an axis of this length: all of it, or from where to where.
fn slice_text(range: &Slice, len: usize) -> String {
    let bounds = range.to_range(len);
    if range.step == 1 && bounds == (0..len) {
        "all".into()
    } else {
        format!("{bounds:?} by {}", range.step)
    }
}
