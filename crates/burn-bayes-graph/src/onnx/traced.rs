//! Recordings at several numbers of rows, which show what depends on it.

use std::collections::BTreeMap;

use burn::backend::ir::TensorIr;
use burn::tensor::{Slice, TensorData};

use super::dims::Dim;
use crate::capture::Recording;
use crate::operation::{AxisRule, Operation, slot};

/// How many numbers of rows are recorded. Two would allow every length; the third must be on their line.
pub(super) const RECORDINGS: usize = 3;

/// The first of the numbers of rows that are recorded: none is one, whose length broadcasts.
pub(super) const FEWEST_ROWS: usize = 2;

/// The same where models have other operations for more rows. Burn's linear layers are one product of a matrix for some lengths,
/// and several products for others, whose results are equal.
const MORE_ROWS: [usize; 3] = [1 << 6, 1 << 12, 1 << 18];

/// Recordings of one function at several numbers of rows.
#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) all: [Recording; RECORDINGS],
    pub(super) rows: [usize; RECORDINGS],
    /// The shapes of the tensors of the batch, then of the module, in each.
    pub(super) shapes: Vec<[Vec<usize>; RECORDINGS]>,
}

impl Recordings {
    /// Records at so many rows and at one and two more. `record` gives a recording and the shapes of its tensors.
    pub(super) fn new(
        fewest: usize,
        record: &impl Fn(usize) -> Result<(Recording, Vec<Vec<usize>>), String>,
    ) -> Result<Self, String> {
        let rows = [fewest, fewest + 1, fewest + 2];
        let [first, second, third] = rows.map(record);
        let [first, second, third] = [first?, second?, third?];
        let shapes = first.1.into_iter().zip(second.1).zip(third.1);
        Ok(Self {
            all: [first.0, second.0, third.0],
            rows,
            shapes: shapes
                .map(|((one, two), three)| [one, two, three])
                .collect(),
        })
    }

    /// The same at as many rows as it takes for the operations to be those of any more rows.
    pub(super) fn settled(
        record: &impl Fn(usize) -> Result<(Recording, Vec<Vec<usize>>), String>,
    ) -> Result<Self, String> {
        let few = Self::new(FEWEST_ROWS, record)?;
        let Err(reason) = few.same_operations() else {
            return Ok(few);
        };
        let count = few.all[0].operations.len();
        for fewest in MORE_ROWS {
            let more = Self::new(fewest, record)?;
            if more.same_operations().is_ok() {
                return Ok(more);
            }
            // One for every row, or several.
            if more.all[0].operations.len() > 2 * count {
                break;
            }
        }
        Err(reason)
    }

    /// Fails if the operations differ in more than lengths.
    fn same_operations(&self) -> Result<(), String> {
        let counts = self.all.each_ref().map(|one| one.operations.len());
        let shortest = counts.iter().copied().min().unwrap_or(0);
        (0..shortest).try_for_each(|number| expect_same(self.operation(number)))?;
        let mut longer = self.all.iter();
        match longer.find_map(|one| one.operations.get(shortest)) {
            Some(operation) => Err(another_operation(&operation.name)),
            None => Ok(()),
        }
    }

    /// An operation in each recording.
    fn operation(&self, number: usize) -> [&Operation; RECORDINGS] {
        let all = self.all.each_ref();
        all.map(|recording| &recording.operations[number])
    }
}

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
    /// Compares recordings. Fails with the reason if they differ in more than lengths.
    pub(super) fn new(recordings: &Recordings) -> Result<Self, String> {
        recordings.same_operations()?;
        let Recordings { all, rows, shapes } = recordings;
        let mut dims = BTreeMap::new();
        let places = all[0].inputs.iter().chain(&all[0].module_tensors);
        for (&slot, shapes) in places.zip(shapes) {
            let shapes = shapes.each_ref().map(Vec::as_slice);
            dims.insert(slot, dims_of(shapes, *rows).ok_or("a batch has no rows")?);
        }
        for number in 0..all[0].operations.len() {
            add_dims(recordings.operation(number), *rows, &mut dims)?;
        }
        let mut constants = BTreeMap::new();
        for (place, (slot, _)) in all[0].constants.iter().enumerate() {
            let found = all.iter().map(|recording| recording.constants.get(place));
            let found: Option<Vec<_>> = found
                .map(|constant| constant.filter(|(other, _)| other == slot))
                .collect();
            let found = found.ok_or("it has more constants for more rows")?;
            let values: Vec<_> = found.into_iter().map(|(_, value)| value.clone()).collect();
            let lens: Vec<_> = values.iter().map(|value| value.shape().to_vec()).collect();
            let lens = [0, 1, 2].map(|number| lens[number].as_slice());
            let found = dims_of(lens, *rows).ok_or(
                "a constant of the model has a length that is no multiple of the number of rows",
            )?;
            dims.insert(*slot, found);
            constants.insert(*slot, values);
        }
        Ok(Self {
            recording: all[0].clone(),
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

/// Fails if the recordings of an operation differ in more than lengths.
fn expect_same(same: [&Operation; RECORDINGS]) -> Result<(), String> {
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
    }
    Ok(())
}

/// Adds the lengths of an operation's results. Fails if they are not known for any number of rows, or settings depend on it.
fn add_dims(
    same: [&Operation; RECORDINGS],
    rows: [usize; RECORDINGS],
    dims: &mut BTreeMap<usize, Vec<Dim>>,
) -> Result<(), String> {
    let first = same[0];
    let name = &first.name;
    if same.iter().any(|other| settings(other) != settings(first)) {
        return Err(format!("{name}: its settings depend on the number of rows"));
    }
    for (place, out) in first.outputs.iter().enumerate() {
        let shapes = same.map(|operation| &operation.outputs[place].shape[..]);
        let found = dims_of(shapes, rows).ok_or_else(|| {
            format!("{name}: its result has a length that is no multiple of the number of rows")
        })?;
        dims.insert(slot(out), found);
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
