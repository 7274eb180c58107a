//! Element-wise formulas over strided operands, added to or written to a strided target.

use std::cell::RefCell;

use crate::formula::{Lane, Registers, STRIP, Step, evaluate};
use crate::parallel::{LANES, vectorise};

/// Largest number of axes of a loop.
pub(crate) const MAX_AXES: usize = 8;

/// An operand of a loop: its first element, and the distance between elements along every axis.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The memory that the operand lies in.
    pub data: &'a [f32],
    /// The place of the first element.
    pub offset: usize,
    /// The distance of elements along each axis.
    pub strides: &'a [isize],
    /// Whether elements lie one after the other in the order of the loop.
    pub is_linear: bool,
}

/// The target of a loop.
#[derive(Debug)]
pub struct Target<'a> {
    /// The memory that the target lies in.
    pub data: &'a mut [f32],
    /// The place of the first element.
    pub offset: usize,
    /// The distance of elements along each axis; zero to sum over the axis.
    pub strides: &'a [isize],
    /// Whether elements lie one after the other in the order of the loop.
    pub is_linear: bool,
    /// Whether results are added to what the target holds.
    pub is_added: bool,
}

/// Memory of loops, which a thread uses again.
#[derive(Default)]
struct StripMemory {
    registers: Registers,
    gathered: Registers,
    result: Vec<f32>,
}

thread_local! {
    static MEMORY: RefCell<StripMemory> = RefCell::default();
}

/// Evaluates a formula at every index of a loop over `lens`.
///
/// # Panics
///
/// If an operand or the target reaches beyond its memory, or the loop has more than eight axes.
pub fn map_strided(steps: &[Step], lens: &[usize], operands: &[Strided<'_>], target: Target<'_>) {
    let more = |registers: &mut Registers, len: usize| {
        if registers.len() < len {
            registers.resize(len, [0.0; STRIP]);
        }
    };
    MEMORY.with_borrow_mut(|memory| {
        more(&mut memory.registers, steps.len());
        more(&mut memory.gathered, operands.len());
        memory.result.resize(STRIP, 0.0);
        vectorise(
            #[inline(always)]
            || run(steps, lens, operands, target, memory),
        );
    });
}

#[inline(always)]
fn run(
    steps: &[Step],
    lens: &[usize],
    operands: &[Strided<'_>],
    target: Target<'_>,
    memory: &mut StripMemory,
) {
    const MOST: usize = 16;
    assert!(
        operands.len() <= MOST,
        "a formula has at most {MOST} operands"
    );
    let total: usize = lens.iter().product();
    let StripMemory {
        registers,
        gathered,
        result,
    } = memory;
    let mut done = 0;
    while done < total {
        let len = STRIP.min(total - done);
        for (operand, gathered) in operands.iter().zip(gathered.iter_mut()) {
            if !operand.is_linear && operand.strides.iter().any(|&stride| stride != 0) {
                gather(operand, lens, done, &mut gathered[..len]);
            }
        }
        let mut lanes = [Lane::All(0.0); MOST];
        for ((lane, operand), gathered) in lanes.iter_mut().zip(operands).zip(gathered.iter()) {
            *lane = if operand.is_linear {
                Lane::Each(&operand.data[operand.offset + done..][..len])
            } else if operand.strides.iter().all(|&stride| stride == 0) {
                Lane::All(operand.data[operand.offset])
            } else {
                Lane::Each(&gathered[..len])
            };
        }
        let lanes = &lanes[..operands.len()];
        if target.is_linear && !target.is_added {
            let out = &mut target.data[target.offset + done..][..len];
            evaluate(steps, lanes, registers, out);
        } else {
            let out = &mut result[..len];
            evaluate(steps, lanes, registers, out);
            if target.is_linear {
                let sums = &mut target.data[target.offset + done..][..len];
                for (sum, value) in sums.iter_mut().zip(&*out) {
                    *sum += value;
                }
            } else {
                let (data, is_added) = (&mut *target.data, target.is_added);
                for_runs(lens, target.strides, target.offset, done, len, |run| {
                    put(data, run, &out[run.first..][..run.len], is_added);
                });
            }
        }
        done += len;
    }
}

/// Consecutive indices along the last axis.
#[derive(Clone, Copy)]
struct Run {
    /// The place of its first element.
    place: usize,
    stride: isize,
    /// The number of its first index within the strip.
    first: usize,
    len: usize,
}

/// Visits the runs of the indices from `start` on.
#[inline(always)]
fn for_runs(
    lens: &[usize],
    strides: &[isize],
    offset: usize,
    start: usize,
    len: usize,
    mut visit: impl FnMut(Run),
) {
    let rank = lens.len();
    if rank == 0 {
        return visit(Run {
            place: offset,
            stride: 0,
            first: 0,
            len,
        });
    }
    let mut index = [0usize; MAX_AXES];
    let mut rest = start;
    let mut place = offset as isize;
    for axis in (0..rank).rev() {
        index[axis] = rest % lens[axis];
        rest /= lens[axis];
        place += index[axis] as isize * strides[axis];
    }
    let (inner, stride) = (lens[rank - 1], strides[rank - 1]);
    let mut first = 0;
    while first < len {
        let count = (inner - index[rank - 1]).min(len - first);
        visit(Run {
            place: place as usize,
            stride,
            first,
            len: count,
        });
        first += count;
        // To the beginning of the next run.
        place -= index[rank - 1] as isize * stride;
        index[rank - 1] = 0;
        for axis in (0..rank - 1).rev() {
            index[axis] += 1;
            place += strides[axis];
            if index[axis] < lens[axis] {
                break;
            }
            place -= lens[axis] as isize * strides[axis];
            index[axis] = 0;
        }
    }
}

#[inline(always)]
fn gather(operand: &Strided<'_>, lens: &[usize], start: usize, out: &mut [f32]) {
    let Strided {
        data,
        offset,
        strides,
        ..
    } = *operand;
    let len = out.len();
    for_runs(lens, strides, offset, start, len, |run| {
        let out = &mut out[run.first..][..run.len];
        match run.stride {
            1 => out.copy_from_slice(&data[run.place..][..run.len]),
            0 => out.fill(data[run.place]),
            stride => {
                let mut place = run.place as isize;
                for out in out {
                    *out = data[place as usize];
                    place += stride;
                }
            }
        }
    });
}

#[inline(always)]
fn put(data: &mut [f32], run: Run, values: &[f32], is_added: bool) {
    match (run.stride, is_added) {
        (1, true) => {
            for (sum, value) in data[run.place..][..run.len].iter_mut().zip(values) {
                *sum += value;
            }
        }
        (1, false) => data[run.place..][..run.len].copy_from_slice(values),
        (0, true) => data[run.place] += sum(values),
        (0, false) => data[run.place] = sum(values),
        (stride, is_added) => {
            let mut place = run.place as isize;
            for value in values {
                let out = &mut data[place as usize];
                *out = if is_added { *out + value } else { *value };
                place += stride;
            }
        }
    }
}

#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value;
    }
    if chunks.is_empty() {
        return sums[..rest.len()].iter().sum();
    }
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

/// For every index of a loop, the number of the window entry with the largest or smallest value.
///
/// Of equal values the first one counts; the first NaN counts before all others.
///
/// # Panics
///
/// If the source or `out` is too short.
pub fn arg_extreme(
    source: &Strided<'_>,
    lens: &[usize],
    window: &[usize],
    is_largest: bool,
    out: &mut [f32],
) {
    vectorise(
        #[inline(always)]
        || run_extreme(source, lens, window, is_largest, out),
    );
}

#[inline(always)]
fn run_extreme(
    source: &Strided<'_>,
    lens: &[usize],
    window: &[usize],
    is_largest: bool,
    out: &mut [f32],
) {
    let (mut best, mut values) = ([0.0f32; STRIP], [0.0f32; STRIP]);
    for (strip, out) in out.chunks_mut(STRIP).enumerate() {
        let (best, values) = (&mut best[..out.len()], &mut values[..out.len()]);
        let entries = |distance: usize, values: &mut [f32]| {
            let offset = source.offset + distance;
            gather(&Strided { offset, ..*source }, lens, strip * STRIP, values);
        };
        entries(window[0], best);
        out.fill(0.0);
        for (number, &distance) in window.iter().enumerate().skip(1) {
            entries(distance, values);
            for ((out, best), &value) in out.iter_mut().zip(&mut *best).zip(&*values) {
                let is_beyond = if is_largest {
                    value > *best
                } else {
                    value < *best
                };
                // Without a branch, which would often be mispredicted.
                let is_better = is_beyond | (value.is_nan() & !best.is_nan());
                *best = if is_better { value } else { *best };
                *out = if is_better { number as f32 } else { *out };
            }
        }
    }
}

/// Where an index leads.
#[derive(Clone, Copy, Debug)]
pub enum Route<'a> {
    /// To an entry of a list of distances.
    Listed(&'a [usize]),
    /// To one of `count` entries, `stride` apart.
    Even {
        /// The distance of entries.
        stride: usize,
        /// The number of entries.
        count: usize,
    },
}

impl Route<'_> {
    #[inline(always)]
    fn distance(self, index: f32) -> usize {
        match self {
            Self::Listed(distances) => distances[index as usize],
            Self::Even { stride, count } => {
                let whole = index as usize;
                assert!(
                    index >= 0.0 && whole < count,
                    "index {index} is out of bounds for an axis of length {count}"
                );
                whole * stride
            }
        }
    }
}

/// For every index of a loop, the element of `table` that `index` selects.
///
/// # Panics
///
/// If an index is out of bounds.
pub fn pick(
    table: &Strided<'_>,
    index: &Strided<'_>,
    route: Route<'_>,
    lens: &[usize],
    out: &mut [f32],
) {
    let mut picked = [0.0f32; STRIP];
    let mut done = 0;
    while done < out.len() {
        let len = STRIP.min(out.len() - done);
        gather(index, lens, done, &mut picked[..len]);
        for_runs(lens, table.strides, table.offset, done, len, |run| {
            let mut place = run.place as isize;
            let out = &mut out[done + run.first..][..run.len];
            for (out, index) in out.iter_mut().zip(&picked[run.first..]) {
                *out = table.data[place as usize + route.distance(*index)];
                place += run.stride;
            }
        });
        done += len;
    }
}

/// The reverse of [`pick`]: adds every value to the element of `target` that `index` selects.
///
/// # Panics
///
/// If an index is out of bounds.
pub fn add_picked(
    values: &Strided<'_>,
    index: &Strided<'_>,
    route: Route<'_>,
    lens: &[usize],
    target: Target<'_>,
) {
    let (mut picked, mut added) = ([0.0f32; STRIP], [0.0f32; STRIP]);
    let total: usize = lens.iter().product();
    let mut done = 0;
    while done < total {
        let len = STRIP.min(total - done);
        gather(index, lens, done, &mut picked[..len]);
        gather(values, lens, done, &mut added[..len]);
        let data = &mut *target.data;
        for_runs(lens, target.strides, target.offset, done, len, |run| {
            let mut place = run.place as isize;
            let pairs = added[run.first..][..run.len]
                .iter()
                .zip(&picked[run.first..]);
            for (value, index) in pairs {
                data[place as usize + route.distance(*index)] += value;
                place += run.stride;
            }
        });
        done += len;
    }
}
