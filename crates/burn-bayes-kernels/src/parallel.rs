//! Parallel execution with identical results on every machine.
//!
//! Work over D elements is divided into leaves with a fixed number of elements, and partial results
//! are combined along a fixed binary tree over the leaves, in order. Neither depends on the number
//! of threads. Inputs smaller than [`INLINE_WORK`] use the same tree, but not the thread pool.
//!
//! Inside a leaf, [`vectorise`] dispatches at run time to loops compiled for the widest instruction
//! set of the CPU. The compiler never reassociates floating-point sums, so a loop gives identical
//! results for every vector width if sums are kept in [`LANES`] separate accumulators and every
//! fused operation is written as `mul_add`. Without a hardware fused multiply-add the results are
//! the same, but `mul_add` is a slow library call.

use std::cell::RefCell;

#[cfg(not(test))]
use pulp::Arch;
use pulp::WithSimd;

const CACHE_LINE: usize = 64;

/// Elements per leaf. A multiple of the group size of the normal generator.
pub(crate) const BLOCK: usize = 4096;

/// Independent accumulators of a sum over elements: one AVX-512 register of `f32`.
pub(crate) const LANES: usize = 16;

/// Number of floating-point numbers below which the overhead of other threads exceeds the gain.
pub(crate) const INLINE_WORK: usize = 1 << 16;

/// Work over a range of elements that can be split in two.
pub(crate) trait Split: Send + Sized {
    /// Splits off the first `middle` elements.
    fn split_at(self, middle: usize) -> (Self, Self);
}

/// Runs `leaf(first_element, task)` on every leaf of `length` elements and combines the results
/// along the fixed tree.
///
/// `work` is the total number of floating-point numbers read or written; see [`INLINE_WORK`].
pub(crate) fn tree_reduce<Task: Split, Out: Send>(
    task: Task,
    length: usize,
    work: usize,
    leaf: &(impl Fn(usize, Task) -> Out + Sync),
    combine: &(impl Fn(Out, Out) -> Out + Sync),
) -> Out {
    let parallel = work >= INLINE_WORK && length > BLOCK;
    branch(task, 0, length, parallel, leaf, combine)
}

/// [`tree_reduce`] for work without a result.
pub(crate) fn for_each_block<Task: Split>(
    task: Task,
    length: usize,
    work: usize,
    leaf: &(impl Fn(usize, Task) + Sync),
) {
    tree_reduce(task, length, work, leaf, &|(), ()| ());
}

fn branch<Task: Split, Out: Send>(
    task: Task,
    start: usize,
    length: usize,
    parallel: bool,
    leaf: &(impl Fn(usize, Task) -> Out + Sync),
    combine: &(impl Fn(Out, Out) -> Out + Sync),
) -> Out {
    if length <= BLOCK {
        return leaf(start, task);
    }
    let middle = length.div_ceil(BLOCK) / 2 * BLOCK;
    let (left, right) = task.split_at(middle);
    let run_left = || branch(left, start, middle, parallel, leaf, combine);
    let run_right = || {
        branch(
            right,
            start + middle,
            length - middle,
            parallel,
            leaf,
            combine,
        )
    };
    let (left, right) = if parallel {
        rayon::join(run_left, run_right)
    } else {
        (run_left(), run_right())
    };
    combine(left, right)
}

/// Runs a closure compiled for the instruction set of this CPU.
///
/// The closure and everything that it calls must be `#[inline(always)]`, because other functions
/// are compiled for the baseline instruction set. The bound must be `FnOnce`: for other closure
/// traits the compiler inserts a shim that is not inlined.
#[inline(always)]
pub(crate) fn vectorise<Out>(closure: impl FnOnce() -> Out) -> Out {
    dispatch(closure)
}

/// Runs an operation written with explicit vectors, compiled for the instruction set of this CPU.
#[inline(always)]
pub(crate) fn dispatch<Operation: WithSimd>(operation: Operation) -> Operation::Output {
    #[cfg(test)]
    return tests::dispatch(operation);
    #[cfg(not(test))]
    Arch::new().dispatch(operation)
}

/// Lends a leaf `length` numbers of scratch memory, which its thread keeps between leaves; the
/// contents are unspecified.
///
/// The memory is aligned to a cache line, because a vector load across two lines costs twice as
/// much.
pub(crate) fn with_scratch<Out>(length: usize, leaf: impl FnOnce(&mut [f32]) -> Out) -> Out {
    thread_local! {
        static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < length + LANES {
            scratch.resize(length + LANES, 0.0);
        }
        let skip = scratch.as_ptr().align_offset(CACHE_LINE).min(LANES);
        leaf(&mut scratch[skip..skip + length])
    })
}

/// Scratch memory on the stack with one value per element of a tile of `LENGTH` elements.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Tile<const LENGTH: usize>(pub [f32; LENGTH]);

impl<const LENGTH: usize> Tile<LENGTH> {
    /// A tile of zeros.
    #[inline(always)]
    pub(crate) fn zeros() -> Self {
        Self([0.0; LENGTH])
    }
}

/// The sum of the lanes in a fixed order, with the last additions in `f64`.
#[inline(always)]
pub(crate) fn sum_lanes(lanes: &[f32; LANES]) -> f64 {
    let mut quarters = [0.0f32; LANES / 4];
    for lane in 0..LANES / 4 {
        quarters[lane] = (lanes[lane] + lanes[lane + 8]) + (lanes[lane + 4] + lanes[lane + 12]);
    }
    (f64::from(quarters[0]) + f64::from(quarters[2]))
        + (f64::from(quarters[1]) + f64::from(quarters[3]))
}

/// No data to split.
impl Split for () {
    fn split_at(self, _middle: usize) -> (Self, Self) {
        ((), ())
    }
}

impl Split for &[f32] {
    fn split_at(self, middle: usize) -> (Self, Self) {
        <[f32]>::split_at(self, middle)
    }
}

impl Split for &mut [f32] {
    fn split_at(self, middle: usize) -> (Self, Self) {
        self.split_at_mut(middle)
    }
}

impl<T: Split> Split for Option<T> {
    fn split_at(self, middle: usize) -> (Self, Self) {
        self.map(|task| task.split_at(middle)).unzip()
    }
}

impl<A: Split, B: Split> Split for (A, B) {
    fn split_at(self, middle: usize) -> (Self, Self) {
        let (a, b) = (self.0.split_at(middle), self.1.split_at(middle));
        ((a.0, b.0), (a.1, b.1))
    }
}

impl<A: Split, B: Split, C: Split> Split for (A, B, C) {
    fn split_at(self, middle: usize) -> (Self, Self) {
        let (a, b) = (self.0.split_at(middle), self.1.split_at(middle));
        let c = self.2.split_at(middle);
        ((a.0, b.0, c.0), (a.1, b.1, c.1))
    }
}

/// The same range of elements in every row of a row-major output matrix.
#[derive(Debug)]
pub(crate) struct RowsMut<'a>(pub Vec<&'a mut [f32]>);

impl<'a> RowsMut<'a> {
    /// All of a matrix whose rows have `row_length` elements.
    pub(crate) fn new(matrix: &'a mut [f32], row_length: usize) -> Self {
        Self(matrix.chunks_mut(row_length.max(1)).collect())
    }
}

impl Split for RowsMut<'_> {
    fn split_at(self, middle: usize) -> (Self, Self) {
        let (left, right) = self
            .0
            .into_iter()
            .map(|row| row.split_at_mut(middle))
            .unzip();
        (Self(left), Self(right))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pulp::{Arch, Scalar, Simd};
    use std::cell::Cell;

    /// The instruction set that the kernels use on this thread.
    #[derive(Clone, Copy, Debug)]
    enum Instructions {
        Best,
        Baseline,
        #[cfg(target_arch = "x86_64")]
        Avx2,
    }

    thread_local! {
        static INSTRUCTIONS: Cell<Instructions> = const { Cell::new(Instructions::Best) };
    }

    pub(crate) fn dispatch<Operation: WithSimd>(operation: Operation) -> Operation::Output {
        match INSTRUCTIONS.get() {
            Instructions::Best => Arch::new().dispatch(operation),
            Instructions::Baseline => Simd::vectorize(Scalar::new(), operation),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => match pulp::x86::V3::try_new() {
                Some(simd) => Simd::vectorize(simd, operation),
                None => Arch::new().dispatch(operation),
            },
        }
    }

    /// The result of `compute`, after checking that it is the same with every instruction set of
    /// this CPU. `compute` must be small enough to stay on its thread.
    pub(crate) fn on_any_instruction_set<T: PartialEq>(compute: impl Fn() -> T) -> T {
        let run = |instructions| {
            INSTRUCTIONS.set(instructions);
            let result = compute();
            INSTRUCTIONS.set(Instructions::Best);
            result
        };
        let best = run(Instructions::Best);
        assert!(best == run(Instructions::Baseline), "the baseline differs");
        #[cfg(target_arch = "x86_64")]
        assert!(best == run(Instructions::Avx2), "AVX2 differs");
        best
    }

    /// Lengths around every boundary of the kernels.
    #[cfg(not(miri))]
    pub(crate) const LENGTHS: [usize; 16] = [
        0,
        1,
        15,
        16,
        17,
        63,
        64,
        65,
        511,
        513,
        1025,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * BLOCK + 1,
        9 * BLOCK + 77,
    ];

    /// Miri is a thousand times slower.
    #[cfg(miri)]
    pub(crate) const LENGTHS: [usize; 4] = [0, 1, 17, 65];

    /// The result of `compute` on 1, 2 and 3 threads, after checking that all are equal.
    pub(crate) fn on_any_thread_count<T: PartialEq + std::fmt::Debug + Send>(
        compute: impl Fn() -> T + Sync,
    ) -> T {
        let run = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a thread pool")
                .install(&compute)
        };
        let one = run(1);
        assert!(one == run(2), "two threads differ from one");
        assert!(one == run(3), "three threads differ from one");
        one
    }

    /// Reproducible numbers in [-1, 1) for inputs.
    pub(crate) fn numbers(seed: u64, length: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    #[test]
    fn every_element_is_visited_once_and_in_order() {
        for length in LENGTHS {
            let visited = on_any_thread_count(|| {
                let mut data = vec![0.0f32; length];
                let order = tree_reduce(
                    data.as_mut_slice(),
                    length,
                    usize::MAX,
                    &|start, block: &mut [f32]| {
                        block.iter_mut().for_each(|value| *value += 1.0);
                        vec![(start, block.len())]
                    },
                    &|left, right| [left, right].concat(),
                );
                assert!(data.iter().all(|value| *value == 1.0));
                order
            });
            let mut expected = 0;
            for (start, block) in visited {
                assert_eq!(start, expected);
                assert!(start % BLOCK == 0 && block <= BLOCK);
                expected += block;
            }
            assert_eq!(expected, length);
        }
    }

    #[test]
    fn rows_are_cut_alike() {
        let mut matrix: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let (left, right) = RowsMut::new(&mut matrix, 4).split_at(1);
        assert_eq!(left.0, [&[0.0][..], &[4.0], &[8.0]]);
        assert_eq!(right.0[2], &[9.0, 10.0, 11.0]);
    }

    #[test]
    fn lanes_are_all_summed() {
        let lanes = std::array::from_fn(|lane| (1u32 << lane) as f32);
        assert_eq!(sum_lanes(&lanes), 65535.0);
    }
}
